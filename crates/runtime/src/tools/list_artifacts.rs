//! `list_artifacts`: names, versions and sizes of the run's artifacts.

use relais_engine::Failure;
use relais_plan::Effect;
use serde_json::{Value, json};

use crate::model::BoxFuture;
use crate::tool::{Returned, RunFiles, Tool, ToolCall, ToolSpec};

/// As many as a model can make sense of; the newest are shown.
const LISTED_MAX: usize = 1_000;

pub struct ListArtifacts {
    spec: ToolSpec,
}

impl Default for ListArtifacts {
    fn default() -> ListArtifacts {
        ListArtifacts { spec: spec() }
    }
}

impl Tool for ListArtifacts {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move { Ok(Returned { value: list(call.run), ..Returned::default() }) })
    }
}

fn list(run: &RunFiles) -> Value {
    let left_out = run.artifacts.len().saturating_sub(LISTED_MAX);
    let shown: Vec<Value> = run.artifacts[left_out..]
        .iter()
        .map(|(name, version, artifact)| {
            let (media_type, bytes) = (&artifact.media_type, artifact.blob.bytes);
            json!({"name": name, "version": version, "media_type": media_type, "bytes": bytes})
        })
        .collect();
    json!({"artifacts": shown, "truncated": left_out > 0})
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "list_artifacts".into(),
        description:
            "Lists the artifacts of this run, oldest first: {artifacts: [{name, version, media_type, bytes}], \
                      truncated}."
                .into(),
        parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        effect: Effect::Read,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn lists_what_the_run_has() {
        let mut bench = Bench::new();
        bench.artifact("a", 3, "text/plain", b"xy").await;
        let wanted = json!([{"name": "a", "version": 3, "media_type": "text/plain", "bytes": 2}]);
        bench.check(&ListArtifacts::default(), json!({}), json!({"artifacts": wanted, "truncated": false})).await;
    }
}
