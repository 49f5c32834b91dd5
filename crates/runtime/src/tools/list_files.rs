//! `list_files`: what is in the run's workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use relais_engine::Failure;
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use super::workspace::{Place, TEMPORARY, blocking, failed};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// As many as a model can make sense of.
const LISTED_MAX: usize = 1_000;
/// A folder tree with more entries is not walked to its end.
const WALKED_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

pub struct ListFiles {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    path: String,
}

/// Files found so far, by path.
struct Walk {
    root: PathBuf,
    found: BTreeMap<String, u64>,
    walked: usize,
}

impl Default for ListFiles {
    fn default() -> ListFiles {
        ListFiles { spec: spec() }
    }
}

impl Tool for ListFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move {
            let given: Arguments = arguments(&call)?;
            let workspace = call.run.workspace.clone();
            let value = blocking(move || list(&Place::new(&workspace, &given.path)?));
            Ok(Returned { value: value.await?, ..Returned::default() })
        })
    }
}

fn list(place: &Place) -> Result<Value, Failure> {
    let mut walk = Walk { root: place.root.clone(), found: BTreeMap::new(), walked: 0 };
    let start = place.existing()?;
    walk.visit(&start, 0).map_err(|error| failed(&place.shown(), "listed", &error))?;
    let truncated = walk.found.len() > LISTED_MAX || walk.walked >= WALKED_MAX;
    let files: Vec<Value> =
        walk.found.into_iter().take(LISTED_MAX).map(|(path, bytes)| json!({"path": path, "bytes": bytes})).collect();
    Ok(json!({"files": files, "truncated": truncated}))
}

impl Walk {
    /// Symbolic links are listed nowhere: what they lead to is either listed already or not ours.
    fn visit(&mut self, folder: &Path, depth: usize) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            if self.walked >= WALKED_MAX {
                return Ok(());
            }
            self.walked += 1;
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && depth < DEPTH_MAX {
                self.visit(&entry.path(), depth + 1)?;
            } else if kind.is_file() && !entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                self.add(&entry.path(), entry.metadata()?.len());
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, bytes: u64) {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        self.found.insert(relative.to_string_lossy().into_owned(), bytes);
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "list_files".into(),
        description: "Lists the files of the workspace, those in folders included, sorted by path: \
                      {files: [{path, bytes}], truncated}. At most 1,000; give a folder as path to see less."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "a folder in the workspace; all of it if left out"}
            },
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
    async fn lists_sorted_without_links_and_within_bounds() {
        let bench = Bench::new();
        let tool = ListFiles::default();
        bench.check(&tool, json!({}), json!({"files": [], "truncated": false})).await;
        std::fs::create_dir(bench.workspace().join("d")).unwrap();
        for (name, text) in [("d/z", "1"), ("b", "22"), (".relais-tmp-1", "")] {
            std::fs::write(bench.workspace().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc", bench.workspace().join("link")).unwrap();
        let all = json!([{"path": "b", "bytes": 2}, {"path": "d/z", "bytes": 1}]);
        bench.check(&tool, json!({}), json!({"files": all, "truncated": false})).await;
        bench.check(&tool, json!({"path": "d"}), json!({"files": [all[1]], "truncated": false})).await;
        bench.check_fails(&tool, json!({"path": "link"}), "symbolic link").await;
        for n in 0..=LISTED_MAX {
            std::fs::write(bench.workspace().join(format!("d/{n}")), "").unwrap();
        }
        let many = bench.call(&tool, json!({})).await.unwrap().value;
        assert_eq!(many["files"].as_array().unwrap().len(), LISTED_MAX);
        assert_eq!(many["truncated"], true);
    }
}
