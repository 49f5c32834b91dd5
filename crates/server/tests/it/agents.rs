//! Agents over REST, and what a change of one does to the workflows that use it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::setup::Setup;
use crate::workflows::{create, refused};

async fn agent(setup: &Setup, name: &str, definition: Value) -> Value {
    let body = json!({ "name": name, "description": "Writes", "definition": definition });
    let (status, made) = setup.post("/api/v1/agents", body).await;
    assert_eq!(status, 201, "{made}");
    made
}

fn writer(model: &str) -> Value {
    json!({ "model": model, "instructions": "Write." })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_found_listed_and_deleted() {
    let setup = Setup::new().await;
    let made = agent(&setup, "writer", writer("sim/1")).await;
    let id = made["id"].as_str().unwrap();
    for name in [id, "writer"] {
        let (status, found) = setup.get(&format!("/api/v1/agents/{name}")).await;
        assert_eq!((status.as_u16(), &found), (200, &made), "{name}");
    }
    agent(&setup, "critic", writer("sim/2")).await;
    let (_, page) = setup.get("/api/v1/agents?limit=1").await;
    assert_eq!(page["items"][0]["name"], "critic");
    let next = page["next"].as_str().unwrap();
    let (_, page) = setup.get(&format!("/api/v1/agents?limit=1&cursor={next}")).await;
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&made["id"], &Value::Null));
    assert_eq!(setup.ask(Method::DELETE, "/api/v1/agents/writer", None).await.0, 204);
    assert_eq!(setup.get(&format!("/api/v1/agents/{id}")).await.0, 404);
    agent(&setup, "writer", writer("sim/1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_agent_is_refused_with_its_place() {
    let setup = Setup::new().await;
    agent(&setup, "writer", writer("sim/1")).await;
    let check = async |body: Value, status: u16, part: &str| {
        refused(&setup, Method::POST, "/api/v1/agents", body, status, part).await
    };
    check(json!({ "name": "writer", "definition": {} }), 409, "an agent `writer` already").await;
    check(json!({ "name": " ", "definition": {} }), 422, "is no name of an agent").await;
    check(json!({ "name": "x".repeat(256), "definition": {} }), 422, "at most 255").await;
    check(
        json!({ "name": "x", "definition": "text" }),
        400,
        "definition: the text \"text\" is there, and an object is expected",
    )
    .await;
    let wrong = json!({ "modle": "sim/1", "budget": { "cost": "many" }, "temperature": 9 });
    let problem = check(json!({ "name": "x", "definition": wrong }), 422, "modle").await;
    let paths: Vec<&str> = problem["errors"].as_array().unwrap().iter().filter_map(|e| e["path"].as_str()).collect();
    for path in ["modle", "temperature"] {
        assert!(paths.contains(&path), "{problem}");
    }
    check(json!({ "name": "x", "definition": { "tools": ["read_fil"] } }), 422, "`x` uses the tool `read_fil`").await;
    check(json!({ "name": "x", "definition": { "model": "openai/" } }), 422, "names no model").await;
    let wrong = json!({ "definition": { "tools": ["read_fil"] } });
    refused(&setup, Method::PATCH, "/api/v1/agents/writer", wrong, 422, "did you mean `read_file`?").await;
    let (_, writer) = setup.get("/api/v1/agents/writer").await;
    assert_eq!(writer["revision"], 1, "{writer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_agent() {
    let setup = Setup::new().await;
    let ask = async |name: &str| {
        let request = setup.request(Method::POST, "/api/v1/agents").header("Idempotency-Key", "k");
        let answer = request.json(&json!({ "name": name, "definition": {} })).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (first, second) = (ask("writer").await, ask("writer").await);
    assert_eq!((first.0, second.0, &first.1["id"]), (201, 201, &second.1["id"]));
    assert_eq!(ask("critic").await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_agent_is_a_new_version_of_what_uses_it() {
    let setup = Setup::new().await;
    let id = agent(&setup, "writer", writer("sim/1")).await["id"].as_str().unwrap().to_owned();
    create(&setup, json!({ "name": "by name", "definition": "steps: [{ id: a, agent: writer }]" })).await;
    let graph = json!({ "nodes": [{ "id": "a", "config": { "agentId": id } }], "edges": [] });
    create(&setup, json!({ "name": "by id", "definition": graph })).await;
    create(&setup, json!({ "name": "pipe", "definition": "workflow: [{ type: agent, name: writer }]" })).await;
    create(&setup, json!({ "name": "caller", "definition": "steps: [{ workflow: by name }]" })).await;
    create(&setup, json!({ "name": "without", "definition": "steps: [{ wait: 1s }]" })).await;
    let versions = async || {
        let mut found = Vec::new();
        for name in ["by name", "by id", "pipe", "caller", "without"] {
            found.push(setup.get(&format!("/api/v1/workflows/{name}")).await.1["version"].as_u64().unwrap());
        }
        found
    };
    let path = "/api/v1/agents/writer";
    let (status, changed) = setup.ask(Method::PATCH, path, Some(json!({ "definition": writer("sim/2") }))).await;
    assert_eq!((status.as_u16(), &changed["definition"]["model"]), (200, &json!("sim/2")), "{changed}");
    assert_eq!(versions().await, [2, 2, 2, 2, 1]);
    let (_, version) = setup.get("/api/v1/workflows/by name/versions/2").await;
    assert_eq!((&version["reason"], &version["agents"]), (&json!("agent writer changed"), &json!([id])), "{version}");
    setup.ask(Method::PATCH, path, Some(json!({ "description": "Writes well" }))).await;
    assert_eq!(versions().await, [2, 2, 2, 2, 1], "what people read of it changes no workflow");
    refused(&setup, Method::PATCH, path, json!({ "name": "author" }), 409, "`by name` could not run").await;
    let problem = refused(&setup, Method::DELETE, path, json!({}), 409, "is used by").await;
    for name in ["`by name`", "`by id`", "`pipe`", "`caller`"] {
        assert!(problem["detail"].as_str().unwrap().contains(name), "{problem}");
    }
    let stale = setup.request(Method::PATCH, path).header("If-Match", "\"1\"").json(&json!({ "name": "x" }));
    assert_eq!(stale.send().await.unwrap().status(), 412);
}
