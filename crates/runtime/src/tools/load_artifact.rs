//! `load_artifact`: an artifact of the run, or a large value stored by its content.

use relais_engine::Failure;
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::json;

use super::{arguments, artifacts};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// Large step outputs are stored as JSON.
const STORED_VALUE: &str = "application/json";

pub struct LoadArtifact {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    name: String,
    version: Option<u32>,
    path: Option<String>,
}

impl Default for LoadArtifact {
    fn default() -> LoadArtifact {
        LoadArtifact { spec: spec() }
    }
}

impl Tool for LoadArtifact {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(load(call))
    }
}

async fn load(call: ToolCall<'_>) -> Result<Returned, Failure> {
    let given: Arguments = arguments(&call)?;
    let (hash, media_type) = match artifacts::stored_hash(&given.name) {
        Some(hash) => (hash, STORED_VALUE),
        None => {
            let artifact = artifacts::find(call.run, &given.name, given.version)?;
            (artifact.blob.hash.as_str(), artifact.media_type.as_str())
        }
    };
    let bytes = artifacts::bytes(call.run, hash).await?;
    let value = artifacts::value(&bytes, media_type, given.path.as_deref())?;
    Ok(Returned { value, ..Returned::default() })
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "load_artifact".into(),
        description: "Loads an artifact of this run: JSON as a value, text as text, other bytes as {base64}. `path` \
                      picks a part of JSON, such as items[0].name. A large value that was shortened to \
                      {summary, output_ref} is loaded with its output_ref as the name."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "the artifact's name, or output:HASH"},
                "version": {"type": "integer", "minimum": 0, "description": "the latest if left out"},
                "path": {"type": "string", "description": "part of a JSON artifact: a.b[0].c"}
            },
            "required": ["name"],
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
    async fn loads_by_name_version_path_and_hash() {
        let mut bench = Bench::new();
        bench.artifact("plan.json", 1, "application/json", b"{\"a\":[{\"b\":7}]}").await;
        bench.artifact("plan.json", 2, "application/json", b"[2]").await;
        bench.artifact("note.txt", 1, "text/plain", b"12").await;
        bench.artifact("x.bin", 1, "application/octet-stream", &[0xff]).await;
        let hash = bench.blob(b"{\"big\":true}").await;
        let tool = LoadArtifact::default();
        bench.check(&tool, json!({"name": "plan.json"}), json!([2])).await;
        bench.check(&tool, json!({"name": "plan.json", "version": 1}), json!({"a": [{"b": 7}]})).await;
        bench.check(&tool, json!({"name": "plan.json", "version": 1, "path": "a[0].b"}), json!(7)).await;
        bench.check(&tool, json!({"name": "note.txt"}), json!("12")).await;
        bench.check(&tool, json!({"name": "x.bin"}), json!({"base64": "/w=="})).await;
        bench.check(&tool, json!({"name": format!("output:{hash}"), "path": "big"}), json!(true)).await;
        bench.check(&tool, json!({"name": hash}), json!({"big": true})).await;
        bench.check_fails(&tool, json!({"name": "nope"}), "note.txt (version 1)").await;
        bench.check_fails(&tool, json!({"name": "plan.json", "version": 1, "path": "a[0].c"}), "there is no `c`").await;
        bench.check_fails(&tool, json!({"name": "x.bin", "path": "a"}), "not JSON").await;
        bench.check_fails(&tool, json!({"name": "0".repeat(64)}), "nothing is stored").await;
    }
}
