//! Usage and metrics over HTTP.

use relais_service::{UsageBy, UsageQuestion};
use serde_json::{Value, json};

use crate::setup::Setup;

const FLOW: &str = r#"
name: flow
agents:
  talker: { model: script/word.json, instructions: Say a word., output: { word: string } }
steps:
  - { id: first, agent: talker, prompt: "one" }
  - { id: never, tool: read_file, with: { path: absent.txt }, on_error: continue }
"#;

const WORDS: &str = r#"[
  { "when": { "turn": 0 }, "text": "not that", "usage": { "prompt": 5, "completion": 1, "model_calls": 1 } },
  { "text": "{\"word\": \"yes\"}", "usage": { "prompt": 10, "completion": 2, "usd_nanos": 2000, "model_calls": 1 } }
]"#;

pub fn all() -> UsageQuestion {
    UsageQuestion { from: "2000-01-01".into(), to: "2999-12-31".into(), by: UsageBy::Day, all_users: true }
}

async fn setup() -> Setup {
    let setup = Setup::new().await;
    setup.write("flow.yaml", FLOW);
    setup.write("word.json", WORDS);
    setup.run("flow.yaml").await;
    setup.service.feed_once().await.unwrap();
    setup
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_told_apart_as_asked() {
    let setup = setup().await;
    // A workflow is told by its id, with its name beside it.
    let check = async |path: &str, name: &str, runs: u64| {
        let (status, body) = setup.get(path).await;
        assert_eq!(status, 200, "{body}");
        let item = &body["items"][0];
        let called = if item["name"].is_null() { &item["key"] } else { &item["name"] };
        assert_eq!((called, &item["runs"]), (&json!(name), &json!(runs)), "{path}: {body}");
        assert_eq!(body["total"]["prompt_tokens"], 15, "{body}");
        assert_eq!((&body["total"]["cost_usd"], &body["incomplete"]), (&json!(0.000002), &json!(false)));
    };
    check("/api/v1/usage?by=workflow", "flow", 1).await;
    check("/api/v1/usage?by=user", "somebody", 1).await;
    check("/api/v1/usage?by=model", "script/word.json", 0).await;
    check("/api/v1/usage?all=true&by=user", "somebody", 1).await;
    let (_, body) = setup.get("/api/v1/usage?to=2001-01-01").await;
    assert_eq!((&body["items"], &body["total"]["runs"]), (&json!([]), &json!(0)));
    for wrong in ["/api/v1/usage?by=hour", "/api/v1/usage?from=monday"] {
        let (status, body) = setup.get(wrong).await;
        assert_eq!((status.is_client_error(), &body["kind"]), (true, &json!("invalid")), "{wrong}: {body}");
    }
}

// keeps E-38
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_what_happened() {
    let setup = setup().await;
    setup.get("/api/v1/runs/0190a0b0-c0d0-7000-8000-00000000000a").await;
    let (status, body) = setup.get("/metrics").await;
    assert_eq!(status, 200, "{body}");
    let Value::String(text) = body else { panic!("{body}") };
    for line in [
        "relais_runs_total{status=\"completed\"} 1",
        "relais_run_duration_seconds_count{status=\"completed\"} 1",
        "relais_step_duration_seconds_count{kind=\"agent\",status=\"completed\"} 1",
        "relais_step_duration_seconds_count{kind=\"tool\",status=\"failed\"} 1",
        "relais_call_duration_seconds_count{what=\"model\",outcome=\"ok\"} 2",
        "relais_errors_total{what=\"step\",kind=\"tool\"} 1",
        "relais_validations_total{result=\"failed\"} 1",
        "relais_validations_total{result=\"ok\"} 1",
        "relais_corrections_total 1",
        "relais_tokens_total{model=\"script/word.json\",type=\"prompt\"} 15",
        "relais_cost_usd_total{model=\"script/word.json\"} 0.000002",
        "relais_queue_runs{status=\"running\"} 0",
        "relais_http_requests_total{method=\"GET\",route=\"/api/v1/runs/{id}\",status=\"404\"} 1",
        "relais_event_streams 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("process_resident_memory_bytes ") || cfg!(not(target_os = "linux")));
}
