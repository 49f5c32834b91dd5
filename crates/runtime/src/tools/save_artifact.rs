//! `save_artifact`: a new version of a named file of the run.

use relais_engine::Failure;
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::write_file::content;
use super::{arguments, artifacts};
use crate::model::BoxFuture;
use crate::tool::{Returned, SavedArtifact, Tool, ToolCall, ToolSpec};

pub struct SaveArtifact {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    name: String,
    content: Value,
    media_type: Option<String>,
}

impl Default for SaveArtifact {
    fn default() -> SaveArtifact {
        SaveArtifact { spec: spec() }
    }
}

impl Tool for SaveArtifact {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move { save(&call) })
    }
}

/// The bytes are stored by the caller together with the answer, so that no crash can come between.
fn save(call: &ToolCall<'_>) -> Result<Returned, Failure> {
    let given: Arguments = arguments(call)?;
    artifacts::check_name(&given.name)?;
    given.media_type.as_deref().map_or(Ok(()), artifacts::check_media_type)?;
    let bytes = content(&given.content)?;
    let media_type = given.media_type.unwrap_or_else(|| media_type(&given.name, &given.content).to_owned());
    let value = json!({"name": given.name, "media_type": media_type, "bytes": bytes.len()});
    Ok(Returned { value, artifacts: vec![SavedArtifact { name: given.name, media_type, bytes }] })
}

fn media_type(name: &str, content: &Value) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match (content, extension) {
        (Value::String(_), "json") => "application/json",
        (Value::String(_), "md") => "text/markdown",
        (Value::String(_), "html") => "text/html",
        (Value::String(_), "csv") => "text/csv",
        (Value::String(_), _) => "text/plain",
        _ => "application/json",
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "save_artifact".into(),
        description: "Saves text or a JSON value as a named artifact of this run; saving the same name again makes a \
                      new version. Later steps and load_artifact read it by its name."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "name": {
                    "type": "string", "minLength": 1, "maxLength": 200,
                    "description": "a relative path of letters, digits and ._- only, such as reports/today.md"
                },
                "content": {"description": "text, or any JSON value"},
                "media_type": {"type": "string", "description": "found from name and content if left out"}
            },
            "required": ["name", "content"],
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
    async fn hands_over_bytes_and_type() {
        let bench = Bench::new();
        let tool = SaveArtifact::default();
        let saved = bench.call(&tool, json!({"name": "a/r.md", "content": "# R"})).await.unwrap();
        assert_eq!(saved.value, json!({"name": "a/r.md", "media_type": "text/markdown", "bytes": 3}));
        assert_eq!(saved.artifacts[0].bytes, b"# R");
        let saved = bench.call(&tool, json!({"name": "v", "content": [1]})).await.unwrap();
        assert_eq!(saved.artifacts[0].media_type, "application/json");
        assert_eq!(serde_json::from_slice::<Value>(&saved.artifacts[0].bytes).unwrap(), json!([1]));
        bench.check_fails(&tool, json!({"name": "no spaces", "content": ""}), "letters, digits").await;
        bench.check_fails(&tool, json!({"name": "../up", "content": ""}), "nor `..`").await;
        let split = json!({"name": "a", "content": "", "media_type": "text/html\r\nX: y"});
        bench.check_fails(&tool, split, "no media type").await;
    }
}
