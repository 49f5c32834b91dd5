//! Workflow files for these tests, and runs of them.

use relais_engine::RunId;
use relais_service::{Service, Start};
use serde_json::{Value, json};

use crate::setup::Setup;

/// Says a word, saves it, asks a person, and says it again.
pub const ASKS: &str = r#"
name: asks
input: { topic?: string }
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: say, agent: talker, prompt: "about {{ input.topic | default('tea') }}" }
  - { id: save, tool: save_artifact, with: { name: note.md, content: "a {{ steps.say.output }}" } }
  - { id: sure, ask: { question: "Go on?", approve: true } }
  - { id: again, agent: talker, prompt: once more }
output: "{{ steps.again.output }}"
"#;

pub const WORD: (&str, &str) =
    ("word.json", r#"[{ "text": "word", "usage": { "prompt": 10, "completion": 1, "model_calls": 1 } }]"#);

impl Setup {
    /// A run of a file with this text, begun by the service itself.
    pub async fn begin(&self, text: &str) -> RunId {
        self.begin_as(&self.service, text, json!({})).await
    }

    pub async fn begin_as(&self, service: &Service, text: &str, input: Value) -> RunId {
        let file = self.path().join("flow.yaml");
        std::fs::write(&file, text).unwrap();
        std::fs::write(self.path().join(WORD.0), WORD.1).unwrap();
        let definition = service.read(&file, &Default::default()).unwrap();
        assert!(!definition.has_errors(), "{}", definition.render(false));
        let checked = service.publish(definition, false, None).await.unwrap();
        service.start(&checked, Start { input, ..Start::default() }).await.unwrap()
    }

    /// The run as the API tells it when it rests.
    pub async fn rested(&self, run: RunId) -> Value {
        let (status, body) = self.get(&format!("/api/v1/runs/{run}?wait=60s")).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let (status, body) = self.ask(reqwest::Method::POST, path, Some(body)).await;
        (status.as_u16(), body)
    }
}
