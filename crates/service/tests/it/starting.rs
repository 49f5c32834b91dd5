//! What a run is started with.

use relais_service::Start;
use serde_json::{Value, json};

use crate::setup::{ONE_WORD, Setup};

const GREET: &str = r#"
name: greet
input: { name?: string, times?: int }
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: say, agent: talker, prompt: "{{ input.name | default('you') }}" }
"#;

fn start(input: Value, key: Option<&str>) -> Start {
    Start { input, key: key.map(str::to_owned), ..Start::default() }
}

#[tokio::test]
async fn inputs_that_would_have_no_effect_are_refused() {
    let setup = Setup::with(&[("greet.yaml", GREET), ONE_WORD]);
    let greet = setup.publish("greet.yaml").await;
    for (input, text) in [
        (json!({ "nmae": "Ada" }), "did you mean `name`?"),
        (json!({ "weather": "fine" }), "it takes: name, times"),
        (json!({ "times": "often" }), "Expected type 'integer'"),
    ] {
        let error = setup.service.start(&greet, start(input, None)).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_key_stands_for_one_piece_of_work() {
    let setup = Setup::with(&[("greet.yaml", GREET), ONE_WORD]);
    let greet = setup.publish("greet.yaml").await;
    let first = setup.service.start(&greet, start(json!({ "name": "Ada" }), Some("k"))).await.unwrap();
    let again = setup.service.start(&greet, start(json!({ "name": "Ada" }), Some("k"))).await.unwrap();
    assert_eq!(first, again);
    let other = setup.service.start(&greet, start(json!({ "name": "Bob" }), Some("k"))).await.unwrap_err();
    assert!(other.to_string().contains("another definition or input"), "{other}");
    let own = setup.service.start(&greet, start(json!({}), Some("relais:tick:x:1"))).await.unwrap_err();
    assert!(own.to_string().contains("choose another"), "{own}");
}
