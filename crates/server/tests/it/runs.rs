//! Runs over REST.

use serde_json::{Value, json};

use crate::flows::ASKS;
use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_problem_with_a_kind() {
    let setup = Setup::new().await;
    let check = async |path: &str, status: u16, kind: &str| {
        let (found, body) = setup.get(path).await;
        assert_eq!((found.as_u16(), &body["kind"]), (status, &json!(kind)), "{path}: {body}");
    };
    check("/api/v1/runs/0190a0b0-c0d0-7000-8000-00000000000a", 404, "not_found").await;
    check("/api/v1/runs/none", 404, "not_found").await;
    check("/api/v1/nothing", 404, "not_found").await;
    check("/api/v1/runs?limit=many", 400, "invalid").await;
    check("/api/v1/runs?limit=0", 400, "invalid").await;
    check("/api/v1/runs?statsu=failed", 400, "invalid").await;
    check("/api/v1/runs?status=fine", 400, "invalid").await;
    check("/api/v1/runs?started_after=soon", 400, "invalid").await;
    check("/api/v1/runs?cursor=x", 404, "not_found").await;
    check("/api/v1/outputs/0190a0b0-c0d0-8000-8000-00000000000a", 404, "not_found").await;
}

// keeps B-25, B-26, B-33, D-15, E-17
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_read_answered_and_read_to_its_end() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    let path = format!("/api/v1/runs/{run}");
    let waiting = setup.rested(run).await;
    assert_eq!((&waiting["status"], &waiting["questions"][0]["step"]), (&json!("waiting"), &json!("sure")));
    assert_eq!(waiting["waits_for"].as_array().unwrap().len(), 1, "{waiting}");
    let (status, refused) = setup.post(&format!("{path}/answer"), json!({ "value": "perhaps" })).await;
    assert_eq!((status, &refused["kind"]), (422, &json!("invalid")), "{refused}");
    let (status, _) = setup.post(&format!("{path}/answer"), json!({ "step": "sure", "value": true })).await;
    assert_eq!(status, 202);
    let ended = setup.rested(run).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!((&ended["usage"]["prompt_tokens"], &ended["usage"]["model_calls"]), (&json!(20), &json!(2)));
    for (part, pointer, expected) in [
        ("output", "", json!("word")),
        ("trace", "/steps/0/path", json!("say")),
        ("trail", "/trail/0/output", json!("word")),
        ("trail", "/trail/0/agentId", json!("talker")),
        ("state", "/workflow_execution/node_states/say/status", json!("completed")),
        ("view?format=steps", "/status", json!("completed")),
        ("view?format=chain", "/status", json!("completed")),
        ("view?format=pipeline", "/say/output", json!("word")),
        ("artifacts", "/items/0/name", json!("note.md")),
        ("artifacts/note.md", "", json!("a word")),
        ("questions", "/items", json!([])),
    ] {
        let (status, body) = setup.get(&format!("{path}/{part}")).await;
        assert_eq!((status.as_u16(), body.pointer(pointer)), (200, Some(&expected)), "{part}: {body}");
    }
    let (status, body) = setup.get(&format!("{path}/artifacts/none.md")).await;
    assert!(status == 404 && body["detail"].as_str().unwrap().contains("note.md"), "{body}");
    assert_eq!(setup.post(&format!("{path}/cancel"), json!({})).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_can_be_read_back() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    let (_, told) = setup.get(&format!("/api/v1/runs/{run}/trace")).await;
    let trace: relais_service::Trace = serde_json::from_value(told.clone()).unwrap();
    assert_eq!(serde_json::to_value(&trace).unwrap(), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_resumed_cancelled_retried_and_forked() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    let path = format!("/api/v1/runs/{run}");
    setup.rested(run).await;
    let check = async |what: &str, body: Value, status: u16| {
        let (found, body) = setup.post(&format!("{path}/{what}"), body).await;
        assert_eq!(found, status, "{what}: {body}");
        body
    };
    check("pause", json!({}), 202).await;
    assert!(setup.rested(run).await["waits_for"].as_array().unwrap().contains(&json!("paused")));
    check("resume", json!({ "budget": { "usd": -1.0 } }), 400).await;
    check("resume", json!({ "budget": { "usd": 1.5, "time": "10m" } }), 202).await;
    for name in ["", "two\nlines", &"g".repeat(256)] {
        let refused = check("signal", json!({ "name": name }), 422).await;
        assert!(refused["detail"].as_str().unwrap().contains("1 to 255 bytes"), "{refused}");
    }
    check("signal", json!({ "name": "g".repeat(255) }), 202).await;
    check("signal", json!({ "name": "go", "value": 1 }), 202).await;
    check("retry", json!({ "from": "say" }), 409).await;
    check("cancel", json!({}), 202).await;
    assert_eq!(setup.rested(run).await["status"], "cancelled");
    check("retry", json!({ "from": "nowhere" }), 422).await;
    check("retry", json!({ "from": "say", "again": true }), 400).await;
    let ended = setup.get(&path).await.1;
    let again = check("retry", json!({ "from": "say", "redo": true }), 202).await;
    let is_open = ["pending", "running", "waiting"].contains(&again["status"].as_str().unwrap());
    assert!(is_open && again["ended_at"].is_null() && again["error"].is_null(), "{again}");
    assert!(again["seq"].as_u64() > ended["seq"].as_u64(), "{again} {ended}");
    assert_eq!(setup.rested(run).await["status"], "waiting");
    check("answer", json!({ "value": true }), 202).await;
    assert_eq!(setup.rested(run).await["status"], "completed");
    let fork = check("fork", json!({ "from": "say", "input": { "topic": "milk" }, "redo": true }), 201).await;
    let forked = setup.rested(fork["id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(forked["status"], "waiting", "{forked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    let setup = Setup::new().await;
    for _ in 0..3 {
        let run = setup.begin("name: quick\nsteps: [{ id: a, set: { x: 1 } }]\n").await;
        setup.rested(run).await;
    }
    let waiting = setup.begin(ASKS).await;
    setup.rested(waiting).await;
    let check = async |query: &str, expected: usize| {
        let (status, body) = setup.get(&format!("/api/v1/runs?{query}")).await;
        assert_eq!((status.as_u16(), body["items"].as_array().map(Vec::len)), (200, Some(expected)), "{query}: {body}");
        body
    };
    check("", 4).await;
    check("status=waiting", 1).await;
    check("status=waiting,completed", 4).await;
    check("workflow=quick&roots_only=true", 3).await;
    check("workflow=0190a0b0-c0d0-7000-8000-00000000000a", 0).await;
    check("started_after=2100-01-01T00:00:00Z", 0).await;
    check("started_before=2100-01-01T00:00:00Z", 4).await;
    check(&format!("parent={waiting}"), 0).await;
    let first = check("limit=3", 3).await;
    let rest = check(&format!("limit=3&cursor={}", first["next"].as_str().unwrap()), 1).await;
    assert_eq!(rest["next"], Value::Null);
}

// keeps B-17, B-32, B-41
#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_found_by_their_ids_alone() {
    let setup = Setup::new().await;
    let run = setup.begin_as(&setup.service, ASKS, json!({ "topic": "milk" })).await;
    // The run still goes on: its outputs are there as soon as they are made.
    setup.rested(run).await;
    let (_, view) = setup.get(&format!("/api/v1/runs/{run}/view?format=steps")).await;
    let check = async |record: &Value, raw: Value| {
        let path = format!("/api/v1/outputs/{}", record["uuid"].as_str().unwrap());
        assert_eq!(setup.get(&path).await, (reqwest::StatusCode::OK, raw));
        assert_eq!(setup.get(&format!("{path}?full=1")).await.1, *record);
    };
    check(&view["trigger_output"], json!({ "topic": "milk" })).await;
    check(&view["step_instances"][0]["output"], json!("word")).await;
    assert_eq!(view["step_instances"][0]["output"]["markdown_representation"], "word");
    // Another user's run has outputs of its own, which are not there.
    let other = setup.service.as_user("another");
    let foreign = setup.begin_as(&other, ASKS, json!({})).await;
    other.rested(foreign, std::time::Duration::from_secs(60)).await.unwrap();
    let view = other.view(foreign, relais_service::Format::Steps).await.unwrap();
    let id = view["trigger_output"]["uuid"].as_str().unwrap();
    assert_eq!(other.output_by_id(id.parse().unwrap()).await.unwrap().value, json!({}));
    assert_eq!(setup.get(&format!("/api/v1/outputs/{id}")).await.0, 404);
    for part in ["", "/trace", "/events", "/artifacts", "/output", "/view?format=dag"] {
        assert_eq!(setup.get(&format!("/api/v1/runs/{foreign}{part}")).await.0, 404, "{part}");
    }
}
