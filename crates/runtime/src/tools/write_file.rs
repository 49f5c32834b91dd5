//! `write_file`: a whole file of the run's workspace, there completely or not at all.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use relais_engine::Failure;
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::{Place, TEMPORARY, blocking, create_inside, failed};
use super::{arguments, wrong};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

const WRITE_BYTES_MAX: usize = 10 * 1024 * 1024;

pub struct WriteFile {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: Value,
}

impl Default for WriteFile {
    fn default() -> WriteFile {
        WriteFile { spec: spec() }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move {
            let given: Arguments = arguments(&call)?;
            let bytes = content(&given.content)?;
            let (workspace, key) = (call.run.workspace.clone(), call.key.to_owned());
            let value = blocking(move || {
                let place = Place::new(&workspace, &given.path)?;
                write(&place, &bytes, &key).map(|()| json!({"path": place.shown(), "bytes": bytes.len()}))
            });
            Ok(Returned { value: value.await?, ..Returned::default() })
        })
    }
}

/// Text as it is, any other value as readable JSON.
pub fn content(value: &Value) -> Result<Vec<u8>, Failure> {
    let bytes = match value {
        Value::String(text) => text.clone().into_bytes(),
        other => format!("{other:#}\n").into_bytes(),
    };
    if bytes.len() > WRITE_BYTES_MAX {
        return Err(wrong(format!("`content` has {} bytes; at most {WRITE_BYTES_MAX} can be written", bytes.len())));
    }
    Ok(bytes)
}

/// Writes a file of a workspace from outside of any tool call; `key` tells apart who else writes it.
pub async fn put(workspace: PathBuf, path: String, bytes: Vec<u8>, key: String) -> Result<(), Failure> {
    blocking(move || write(&Place::new(&workspace, &path)?, &bytes, &key)).await
}

fn write(place: &Place, bytes: &[u8], key: &str) -> Result<(), Failure> {
    let target = place.to_write()?;
    if target.is_dir() {
        return Err(wrong(format!("`{}` is a folder", place.shown())));
    }
    // Named by the call: a repeated call meets its own left-over, two calls at once do not meet.
    let name = format!("{TEMPORARY}{}", &blake3::hash(format!("{key} {}", place.shown()).as_bytes()).to_hex()[..16]);
    let temporary = target.with_file_name(name);
    replace(&target, &temporary, bytes).map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        failed(&place.shown(), "written", &error)
    })
}

fn replace(target: &Path, temporary: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Never through a link that somebody may have put in this place.
    let _ = std::fs::remove_file(temporary);
    let mut file = create_inside(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(temporary, target)?;
    match target.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "write_file".into(),
        description: "Writes a file of the workspace, replacing what was there; folders are made as needed. Text is \
                      written as it is, any other JSON value as readable JSON. Returns {path, bytes}."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string", "minLength": 1,
                    "description": "relative to the workspace, such as reports/today.md"
                },
                "content": {"description": "text, or any JSON value"}
            },
            "required": ["path", "content"],
            "additionalProperties": false
        }),
        effect: Effect::Idempotent,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn writes_text_and_values_and_replaces() {
        let bench = Bench::new();
        let tool = WriteFile::default();
        let read = |path: &str| std::fs::read_to_string(bench.workspace().join(path)).unwrap();
        bench.check(&tool, json!({"path": "a/b.txt", "content": "x"}), json!({"path": "a/b.txt", "bytes": 1})).await;
        bench.check(&tool, json!({"path": "./a/b.txt", "content": "yy"}), json!({"path": "a/b.txt", "bytes": 2})).await;
        assert_eq!(read("a/b.txt"), "yy");
        bench
            .check(&tool, json!({"path": "v.json", "content": {"k": 1}}), json!({"path": "v.json", "bytes": 13}))
            .await;
        assert_eq!(read("v.json"), "{\n  \"k\": 1\n}\n");
        assert_eq!(std::fs::read_dir(bench.workspace().join("a")).unwrap().count(), 1, "no temporary file is left");
        bench.check_fails(&tool, json!({"path": "a", "content": "x"}), "is a folder").await;
        bench.check_fails(&tool, json!({"path": "../x", "content": "x"}), "outside the workspace").await;
        bench.check_fails(&tool, json!({"path": "big", "content": "x".repeat(WRITE_BYTES_MAX + 1)}), "at most").await;
    }

    #[tokio::test]
    async fn a_link_at_the_target_is_replaced_and_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "safe").unwrap();
        let bench = Bench::new();
        std::os::unix::fs::symlink(&victim, bench.workspace().join("link")).unwrap();
        bench
            .check(
                &WriteFile::default(),
                json!({"path": "link", "content": "new"}),
                json!({"path": "link", "bytes": 3}),
            )
            .await;
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "safe");
    }
}
