//! `read_file`: text or JSON from the run's workspace.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use relais_engine::Failure;
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::{Place, blocking, failed};
use super::{arguments, wrong};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// More than a prompt can hold; larger files are read in parts.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// A JSON file is read as a whole or not at all.
const JSON_BYTES_MAX: u64 = 10 * 1024 * 1024;

pub struct ReadFile {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
    #[serde(default, rename = "as")]
    form: Form,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Form {
    #[default]
    Text,
    Json,
}

impl Default for ReadFile {
    fn default() -> ReadFile {
        ReadFile { spec: spec() }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move {
            let given: Arguments = arguments(&call)?;
            let workspace = call.run.workspace.clone();
            let value = blocking(move || {
                let place = Place::new(&workspace, &given.path)?;
                if given.form == Form::Json { json_of(&place) } else { text(&place, &given) }
            });
            Ok(Returned { value: value.await?, ..Returned::default() })
        })
    }
}

fn open(place: &Place) -> Result<(File, u64), Failure> {
    let cannot = |error: &std::io::Error| failed(&place.shown(), "read", error);
    let path = place.existing()?;
    let kind = path.metadata().map_err(|error| cannot(&error))?;
    // A pipe or device would block for ever.
    if !kind.is_file() {
        return Err(wrong(format!("`{}` is not a file; list_files shows what is there", place.shown())));
    }
    Ok((File::open(&path).map_err(|error| cannot(&error))?, kind.len()))
}

fn text(place: &Place, given: &Arguments) -> Result<Value, Failure> {
    let cannot = |error: std::io::Error| failed(&place.shown(), "read", &error);
    let (mut file, size) = open(place)?;
    let limit = given.limit.unwrap_or(READ_BYTES_MAX).min(READ_BYTES_MAX);
    file.seek(SeekFrom::Start(given.offset)).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(cannot)?;
    let whole = given.offset == 0 && bytes.len() as u64 >= size;
    let text = utf8(bytes, place, !whole)?;
    if whole {
        return Ok(text.into());
    }
    let next = given.offset + text.len() as u64;
    Ok(json!({"text": text, "offset": given.offset, "next_offset": (next < size).then_some(next), "bytes": size}))
}

/// A part may end in the middle of a character; that character then belongs to the next part.
fn utf8(bytes: Vec<u8>, place: &Place, is_part: bool) -> Result<String, Failure> {
    String::from_utf8(bytes).or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let is_cut = is_part && valid > 0 && error.utf8_error().error_len().is_none();
        let mut bytes = error.into_bytes();
        bytes.truncate(valid);
        match String::from_utf8(bytes) {
            Ok(text) if is_cut => Ok(text),
            _ => Err(wrong(format!("`{}` is not UTF-8 text (from byte {valid} on)", place.shown()))),
        }
    })
}

fn json_of(place: &Place) -> Result<Value, Failure> {
    let (file, size) = open(place)?;
    if size > JSON_BYTES_MAX {
        return Err(wrong(format!("`{}` has {size} bytes; as JSON at most {JSON_BYTES_MAX} are read", place.shown())));
    }
    let mut bytes = Vec::new();
    file.take(JSON_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| failed(&place.shown(), "read", &error))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(format!("`{}` is not JSON: {error}", place.shown())))
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "read_file".into(),
        description: "Reads a UTF-8 text file of the workspace and returns its text. A file above 1 MiB, or a call \
                      with offset or limit, returns {text, offset, next_offset, bytes}: go on with next_offset until \
                      it is null. With as: json the file is parsed and its value returned."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string", "minLength": 1,
                    "description": "relative to the workspace, such as notes/today.md"
                },
                "offset": {"type": "integer", "minimum": 0, "description": "first byte to read"},
                "limit": {"type": "integer", "minimum": 1, "maximum": READ_BYTES_MAX, "description": "bytes to read"},
                "as": {"type": "string", "enum": ["text", "json"]}
            },
            "required": ["path"],
            "additionalProperties": false
        }),
        effect: Effect::Read,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn reads_text_parts_and_json() {
        let bench = Bench::new();
        std::fs::write(bench.workspace().join("t"), "aé b").unwrap();
        std::fs::write(bench.workspace().join("j"), "{\"a\":[1]}").unwrap();
        std::fs::write(bench.workspace().join("bin"), [0xff, 0xfe]).unwrap();
        let tool = ReadFile::default();
        bench.check(&tool, json!({"path": "t"}), json!("aé b")).await;
        bench
            .check(
                &tool,
                json!({"path": "t", "limit": 2}),
                json!({"text": "a", "offset": 0, "next_offset": 1, "bytes": 5}),
            )
            .await;
        bench
            .check(
                &tool,
                json!({"path": "t", "offset": 3}),
                json!({"text": " b", "offset": 3, "next_offset": null, "bytes": 5}),
            )
            .await;
        bench.check(&tool, json!({"path": "j", "as": "json"}), json!({"a": [1]})).await;
        bench.check_fails(&tool, json!({"path": "t", "as": "json"}), "not JSON").await;
        bench.check_fails(&tool, json!({"path": "bin"}), "not UTF-8").await;
        bench.check_fails(&tool, json!({"path": "."}), "not a file").await;
        bench.check_fails(&tool, json!({"path": "no"}), "there is no file `no`").await;
    }
}
