//! Definitions that are looked at and not kept, and what they can name.

use relais_plan::McpServer;
use relais_runtime::settings::{ServerSettings, Settings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::setup::Setup;
use crate::workflows::{create, refused};

async fn checked(setup: &Setup, body: Value) -> Value {
    let (status, report) = setup.post("/api/v1/definitions/check", body).await;
    assert_eq!(status, 200, "{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_checked_without_being_kept() {
    let setup = Setup::new().await;
    let text = "triggers: [{ cron: \"0 9 * * MON-FRI\" }]\nagents: { w: { model: sim/1, tools: [\"mcp:shop/*\"] } }\n\
                mcp: { shop: { url: \"http://127.0.0.1:9/\" } }\nsteps: [{ id: write, agent: w }, { wait: 1s }]\n";
    let report = checked(&setup, json!({ "definition": text })).await;
    assert_eq!((&report["ok"], &report["format"]), (&json!(true), &json!("native")), "{report}");
    assert_eq!(report["unverified"], json!(["mcp:shop/*"]));
    let part = &report["parts"][0];
    assert_eq!((&part["steps"][0]["id"], &part["steps"][0]["kind"]), (&json!("write"), &json!("agent")));
    assert_eq!(part["triggers"][0]["next_times"].as_array().unwrap().len(), 5, "{report}");
    let report = checked(&setup, json!({ "definition": { "steps": [{ "id": "a", "agnet": "w" }] } })).await;
    let finding = &report["findings"][0];
    assert_eq!(report["ok"], false);
    assert!(finding["path"].as_str().unwrap().starts_with("steps[0]") && finding["line"].is_number(), "{report}");
    let graph = json!({ "branches": [{ "id": "left", "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] }] });
    let report = checked(&setup, json!({ "definition": graph })).await;
    assert_eq!((&report["format"], &report["parts"][0]["branch"]), (&json!("graph"), &json!("left")), "{report}");
    assert_eq!(setup.get("/api/v1/workflows").await.1["items"], json!([]));
    refused(&setup, Method::POST, "/api/v1/definitions/check", json!({}), 400, "definition").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_converted_and_its_format_is_described() {
    let setup = Setup::new().await;
    let graph = json!({ "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] });
    let (status, converted) = setup.post("/api/v1/definitions/convert", json!({ "definition": graph })).await;
    assert_eq!(status, 200, "{converted}");
    let made = create(&setup, json!({ "name": "native", "definition": converted["definition"] })).await;
    assert_eq!((&made["format"], &made["runnable"]), (&json!("native"), &json!(true)));
    let wrong = json!({ "definition": "steps: [{ agnet: a }]" });
    let problem = refused(&setup, Method::POST, "/api/v1/definitions/convert", wrong, 422, "agnet").await;
    assert_eq!(problem["errors"][0]["line"], 1);
    let (_, schema) = setup.get("/api/v1/definitions/schema").await;
    assert!(schema["properties"]["steps"].is_object(), "{schema}");
}

// keeps B-27
#[tokio::test(flavor = "multi_thread")]
async fn tools_and_models_are_listed() {
    let shop = McpServer { url: Some("http://127.0.0.1:9/mcp".into()), ..McpServer::default() };
    let setup = Setup::with(Settings { mcp: [("shop".to_owned(), shop)].into(), ..Settings::default() }).await;
    let (status, list) = setup.get("/api/v1/tools").await;
    let tools = list["tools"].as_array().unwrap();
    let read = tools.iter().find(|tool| tool["name"] == "read_file").unwrap();
    assert_eq!((status.as_u16(), &read["effect"], &read["server"]), (200, &json!("read"), &Value::Null));
    assert!(read["parameters"]["properties"]["path"].is_object(), "{read}");
    assert!(list["failed"][0].as_str().unwrap().contains("shop"), "{list}");
    let (_, models) = setup.get("/api/v1/models").await;
    let openai = models.as_array().unwrap().iter().find(|provider| provider["provider"] == "openai").unwrap();
    assert!(openai["models"][0]["model"].as_str().unwrap().starts_with("openai/"), "{openai}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_only_where_the_configuration_says_so() {
    let text = "name: a\nmcp: { s: { command: [touch, /nowhere/x] } }\nsteps: [{ wait: 1s }]";
    let setup = Setup::new().await;
    let body = json!({ "definition": text });
    refused(&setup, Method::POST, "/api/v1/workflows", body.clone(), 422, "allow_commands").await;
    refused(&setup, Method::POST, "/api/v1/runs", body.clone(), 422, "allow_commands").await;
    assert_eq!(checked(&setup, body.clone()).await["ok"], false);
    let server = ServerSettings { allow_commands: true, ..ServerSettings::default() };
    let setup = Setup::with(Settings { server, ..Settings::default() }).await;
    create(&setup, body).await;
}

// The tools are asked for when a version is kept, and again when a run begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_told_when_a_run_begins() {
    let mut settings = Settings::default();
    settings.tools.http_request.allow_private = vec!["127.0.0.1".into()];
    let setup = Setup::with(settings).await;
    let text = "name: asks\nmcp: { s: { url: \"http://127.0.0.1:9/\" } }\n\
                agents: { w: { model: sim/1, tools: [\"mcp:s/*\", read_file] } }\nsteps: [{ agent: w }]";
    let made = create(&setup, json!({ "definition": text })).await;
    assert_eq!((&made["manifest"]["unverified"], &made["runnable"]), (&json!(["mcp:s/*"]), &json!(true)), "{made}");
    refused(&setup, Method::POST, "/api/v1/workflows/asks/run", json!({}), 422, "`s`").await;
}
