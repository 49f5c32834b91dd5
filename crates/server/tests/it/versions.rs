//! What a workflow was, how it ends, and how it is carried elsewhere.

use reqwest::Method;
use serde_json::{Value, json};

use crate::setup::Setup;
use crate::workflows::{GREET, create, refused};

async fn change(setup: &Setup, name: &str, text: &str) -> Value {
    let (status, changed) =
        setup.ask(Method::PATCH, &format!("/api/v1/workflows/{name}"), Some(json!({ "definition": text }))).await;
    assert_eq!(status, 200, "{changed}");
    changed
}

// keeps A-22
#[tokio::test(flavor = "multi_thread")]
async fn versions_stay_and_can_be_gone_back_to() {
    let setup = Setup::new().await;
    create(&setup, json!({ "definition": GREET })).await;
    change(&setup, "greet", &GREET.replace("you", "thou")).await;
    let (_, page) = setup.get("/api/v1/workflows/greet/versions?limit=1").await;
    let newest = &page["items"][0];
    assert_eq!((&newest["version"], &newest["reason"], &page["next"]), (&json!(2), &json!("updated"), &json!("2")));
    assert!(newest["manifest"]["hash"].as_str().unwrap().starts_with("sha256:"), "{newest}");
    assert!(newest["manifest"].get("tools").is_none() && newest["definition"].is_null(), "{newest}");
    let (_, page) = setup.get("/api/v1/workflows/greet/versions?cursor=2").await;
    assert_eq!((&page["items"][0]["reason"], &page["next"]), (&json!("created"), &Value::Null), "{page}");
    let path = "/api/v1/workflows/greet/rollback";
    let (status, back) = setup.post(path, json!({ "version": 1 })).await;
    assert_eq!((status, &back["version"], &back["definition"]), (200, &json!(3), &json!(GREET)), "{back}");
    let (_, third) = setup.get("/api/v1/workflows/greet/versions/3").await;
    assert_eq!((&third["reason"], &third["definition"]), (&json!("rolled back to 1"), &json!(GREET)));
    let (_, same) = setup.post(path, json!({ "version": 1 })).await;
    assert_eq!(same["version"], 3, "it says that already");
    refused(&setup, Method::POST, path, json!({ "version": 9 }), 404, "no version 9").await;
    for path in [path, "/api/v1/workflows/greet/run"] {
        refused(&setup, Method::POST, path, json!({ "version": 0 }), 422, "versions count from 1").await;
    }
    for number in ["0", "9", "x"] {
        assert_eq!(setup.get(&format!("/api/v1/workflows/greet/versions/{number}")).await.0, 404);
    }
}

// keeps A-28, B-20
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_goes_with_all_that_belongs_to_it() {
    let setup = Setup::new().await;
    let text = "triggers: [{ webhook: { id: door }, overlap: allow }]\nsteps: [{ id: wait, wait: 1h }]";
    let made = create(&setup, json!({ "name": "waits", "alias": "w", "definition": text })).await;
    let (_, run) = setup.post("/api/v1/workflows/waits/run", json!({})).await;
    refused(&setup, Method::DELETE, "/api/v1/workflows/waits", json!({}), 409, "are active").await;
    refused(&setup, Method::GET, "/api/v1/workflows/waits/deletion", json!({}), 409, "are active").await;
    let (_, goes) = setup.get("/api/v1/workflows/waits/deletion?force=true").await;
    let counts = ["versions", "triggers", "steps", "runs", "active_runs"].map(|name| goes[name].as_u64().unwrap());
    assert_eq!((&goes["workflow_id"], counts), (&made["id"], [1, 1, 0, 1, 1]), "{goes}");
    assert_eq!(setup.ask(Method::DELETE, "/api/v1/workflows/waits?force=true", None).await.0, 204);
    let run = format!("/api/v1/runs/{}", run["id"].as_str().unwrap());
    assert_eq!(setup.get(&run).await.0, 404, "its runs go with it");
    for name in ["waits", "w", made["id"].as_str().unwrap()] {
        assert_eq!(setup.get(&format!("/api/v1/workflows/{name}")).await.0, 404);
    }
    // The alias and the hook are free again.
    create(&setup, json!({ "name": "next", "alias": "w", "definition": text })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_carried_to_another_server_with_what_it_uses() {
    let (here, there) = (Setup::new().await, Setup::new().await);
    let agent = json!({ "name": "writer", "definition": { "model": "sim/1", "instructions": "Write." } });
    let agent = here.post("/api/v1/agents", agent).await.1["id"].as_str().unwrap().to_owned();
    let graph = json!({ "nodes": [{ "id": "a", "config": { "agentId": agent } }], "edges": [] });
    let child = create(&here, json!({ "name": "child", "definition": graph })).await["id"].clone();
    let text = format!("steps: [{{ id: call, workflow: {} }}]", child.as_str().unwrap());
    create(&here, json!({ "name": "parent", "alias": "p", "definition": "steps: [{ wait: 1s }]" })).await;
    change(&here, "parent", &text).await;
    let (status, package) = here.get("/api/v1/workflows/p/export?history=true").await;
    assert_eq!(status, 200, "{package}");
    let body = json!({ "package": package });
    let (status, made) = there.post("/api/v1/workflows/import", body.clone()).await;
    assert_eq!(
        (status, &made["name"], &made["alias"], &made["version"]),
        (201, &json!("parent"), &json!("p"), &json!(2))
    );
    assert!(made["runnable"] == true && !made["definition"].as_str().unwrap().contains(child.as_str().unwrap()));
    assert_eq!(there.get("/api/v1/workflows/p/versions/1").await.1["definition"], "steps: [{ wait: 1s }]");
    let (_, writer) = there.get("/api/v1/agents/writer").await;
    let (_, copied) = there.get("/api/v1/workflows/child").await;
    assert!(copied["id"] != child && writer["id"] != agent.as_str());
    assert!(copied["definition"].as_str().unwrap().contains(writer["id"].as_str().unwrap()), "{copied}");
    let (_, run) = there.post("/api/v1/workflows/p/run", json!({})).await;
    assert_eq!(there.rested(run["id"].as_str().unwrap().parse().unwrap()).await["status"], "completed");
    // Once more: other names, the same agent.
    let (_, second) = there.post("/api/v1/workflows/import", body.clone()).await;
    assert_eq!((&second["name"], &second["alias"]), (&json!("parent (2)"), &Value::Null), "{second}");
    assert_eq!(there.get("/api/v1/agents").await.1["items"].as_array().unwrap().len(), 1);
    let refusing = json!({ "package": package, "on_clash": "refuse" });
    refused(&there, Method::POST, "/api/v1/workflows/import", refusing, 409, "`parent`").await;
    let other = json!({ "package": { "relais_export": 2, "workflows": [], "agents": [] } });
    refused(&there, Method::POST, "/api/v1/workflows/import", other, 422, "takes the form 1").await;
    refused(&there, Method::POST, "/api/v1/workflows/import", json!({ "package": 1 }), 422, "no export").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_goes_by_a_name_that_is_taken_is_refused() {
    let setup = Setup::new().await;
    let agent = |model: &str| json!({ "name": "writer", "definition": { "model": model } });
    setup.post("/api/v1/agents", agent("sim/1")).await;
    create(&setup, json!({ "name": "one", "definition": "steps: [{ id: a, agent: writer }]" })).await;
    let (_, package) = setup.get("/api/v1/workflows/one/export").await;
    let change = json!({ "definition": { "model": "sim/2" } });
    setup.ask(Method::PATCH, "/api/v1/agents/writer", Some(change)).await;
    let body = json!({ "package": package });
    refused(&setup, Method::POST, "/api/v1/workflows/import", body, 409, "the agent `writer`").await;
    assert_eq!(setup.get("/api/v1/workflows").await.1["items"].as_array().unwrap().len(), 1, "nothing came in");
    let body = json!({ "package": package, "on_clash": "reuse" });
    let (status, made) = setup.post("/api/v1/workflows/import", body).await;
    assert_eq!((status, &made["name"]), (201, &json!("one (2)")), "{made}");
    assert_eq!(setup.get("/api/v1/agents").await.1["items"].as_array().unwrap().len(), 1, "the agent is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_taken_is_named() {
    let setup = Setup::new().await;
    let text = "triggers: [{ webhook: { id: door } }]\nsteps: [{ wait: 1s }]";
    create(&setup, json!({ "name": "one", "definition": text })).await;
    let (_, package) = setup.get("/api/v1/workflows/one/export").await;
    let told = "the webhook `door` is there already";
    refused(&setup, Method::POST, "/api/v1/workflows/import", json!({ "package": package }), 409, told).await;
    let again = json!({ "name": "two", "definition": text });
    refused(&setup, Method::POST, "/api/v1/workflows", again, 409, told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_workflows_are_carried_together() {
    let (here, there) = (Setup::new().await, Setup::new().await);
    create(&here, json!({ "name": "child", "definition": "steps: [{ wait: 1s }]" })).await;
    for (name, alias) in [("left", "l"), ("right", "r")] {
        let text = "steps: [{ id: call, workflow: child }]";
        create(&here, json!({ "name": name, "alias": alias, "definition": text })).await;
    }
    let asked = json!({ "workflows": ["l", "r", "left"] });
    let (status, package) = here.post("/api/v1/workflows/export", asked).await;
    assert_eq!(status, 200, "{package}");
    for wrong in [json!([]), json!(["l", "none"]), json!(vec!["l"; 101])] {
        let (status, told) = here.post("/api/v1/workflows/export", json!({ "workflows": wrong })).await;
        assert!([404, 422].contains(&status), "{status} {told}");
    }
    let names = |made: &Value| -> Vec<Value> {
        let imported = made["imported"].as_array().unwrap().iter();
        imported.map(|one| json!([one["exported_name"], one["name"], one["alias"]])).collect()
    };
    let (status, made) = there.post("/api/v1/workflows/import", json!({ "package": package })).await;
    assert_eq!((status, &made["name"]), (201, &json!("left")), "{made}");
    let came = [json!(["left", "left", "l"]), json!(["right", "right", "r"]), json!(["child", "child", null])];
    assert_eq!(names(&made), came);
    // Both call `child`, so a second one could not be told from it.
    let body = |how: &str| json!({ "package": package, "on_clash": how });
    refused(&there, Method::POST, "/api/v1/workflows/import", body("rename"), 409, "`on_clash: reuse`").await;
    refused(&there, Method::POST, "/api/v1/workflows/import", body("refuse"), 409, "`on_clash: rename`").await;
    let (status, made) = there.post("/api/v1/workflows/import", body("reuse")).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(names(&made), [json!(["left", "left (2)", null]), json!(["right", "right (2)", null])]);
    let (_, run) = there.post("/api/v1/workflows/left%20(2)/run", json!({})).await;
    assert_eq!(there.rested(run["id"].as_str().unwrap().parse().unwrap()).await["status"], "completed");
}

// keeps A-26
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_a_row_of_the_table_of_workflows() {
    let setup = Setup::new().await;
    let executor = json!({ "executor_id": "a", "model": "sim/1", "tools": ["read_file"], "system_prompt": "A",
        "output_schema": { "x": "int" } });
    let chain = json!({ "name": "Prices", "description": "Daily", "executors": [executor],
        "schedule_type": "recurring", "cron_expression": "0 9 * * *" });
    let made = create(&setup, json!({ "definition": chain, "thread_id": "t" })).await;
    let columns = "workflow_id, user_id, thread_id, name, description, status, schedule_type, cron_expression, \
                   json_extract(executors, '$[0].executor_id'), tool_manifest_hash, tool_manifest_version, \
                   total_runs, next_run_time";
    let db = rusqlite::Connection::open(setup.service.config().database()).unwrap();
    let row: Vec<Option<String>> = db
        .query_row(&format!("SELECT {columns} FROM workflows"), [], |row| {
            (0..13).map(|at| row.get::<_, rusqlite::types::Value>(at).map(text)).collect()
        })
        .unwrap();
    let expected = ["somebody", "t", "Prices", "Daily", "active", "recurring", "0 9 * * *", "a"];
    let found: Vec<&str> = row[1..9].iter().map(|cell| cell.as_deref().unwrap_or_default()).collect();
    assert_eq!((row[0].as_deref(), found.as_slice()), (made["id"].as_str(), expected.as_slice()));
    assert_eq!(row[9].as_deref(), made["manifest"]["hash"].as_str());
    assert_eq!((row[10].as_deref().map(str::len), row[11].as_deref()), (Some(10), Some("0")));
    assert!(row[12].as_deref().is_some_and(|time| time.contains("T09:00:00")), "{row:?}");
}

/// The schedule that the table of workflows tells: type, whether there is a time, pattern.
fn timing(setup: &Setup) -> (String, bool, Option<String>) {
    let db = rusqlite::Connection::open(setup.service.config().database()).unwrap();
    let columns = "SELECT schedule_type, schedule_time IS NOT NULL, cron_expression FROM workflows";
    db.query_row(columns, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

// keeps A-26, A-45
#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_workflows_tells_the_schedule_that_was_set() {
    let setup = Setup::new().await;
    let executor = json!({ "executor_id": "a", "model": "sim/1", "tools": [], "system_prompt": "A",
        "output_schema": { "x": "int" } });
    let chain = json!({ "name": "Prices", "executors": [executor], "schedule_type": "recurring",
        "cron_expression": "daily at 9am" });
    let id = create(&setup, json!({ "definition": chain })).await["id"].as_str().unwrap().to_owned();
    let recurring = |text: &str| ("recurring".to_owned(), false, Some(text.to_owned()));
    assert_eq!(timing(&setup), recurring("daily at 9am"), "as the definition says it");
    let path = format!("/api/v1/workflows/{id}/schedules");
    let (status, set) = setup.post(&path, json!({ "cron": "every weekday at 8:30", "replaces": true })).await;
    assert_eq!((status.as_u16(), timing(&setup)), (201, recurring("every weekday at 8:30")), "{set}");
    let (status, once) = setup.post(&path, json!({ "at": "2090-01-01T09:00:00Z", "replaces": true })).await;
    assert_eq!((status.as_u16(), timing(&setup)), (201, ("scheduled".to_owned(), true, None)), "{once}");
    setup.service.cancel_schedules(id.parse().unwrap(), relais_service::Rhythm::Any).await.unwrap();
    assert_eq!(timing(&setup), ("immediate".to_owned(), false, None));
}

fn text(value: rusqlite::types::Value) -> Option<String> {
    match value {
        rusqlite::types::Value::Null => None,
        rusqlite::types::Value::Integer(number) => Some(number.to_string()),
        rusqlite::types::Value::Real(number) => Some(number.to_string()),
        rusqlite::types::Value::Text(text) => Some(text),
        rusqlite::types::Value::Blob(bytes) => Some(format!("{bytes:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_in_takes_no_text_that_names_another_workflow() {
    let here = Setup::new().await;
    create(&here, json!({ "name": "a", "alias": "b" })).await;
    create(&here, json!({ "name": "c" })).await;
    let (_, package) = here.post("/api/v1/workflows/export", json!({ "workflows": ["a", "c"] })).await;
    let check = async |present: Value, package: &Value, expected: [Value; 2]| {
        let there = Setup::new().await;
        create(&there, present).await;
        let refusing = json!({ "package": package, "on_clash": "refuse" });
        refused(&there, Method::POST, "/api/v1/workflows/import", refusing, 409, "here already").await;
        let (status, made) = there.post("/api/v1/workflows/import", json!({ "package": package })).await;
        assert_eq!(status, 201, "{made}");
        let names = made["imported"].as_array().unwrap().iter().map(|one| json!([one["name"], one["alias"]]));
        assert_eq!(names.collect::<Vec<Value>>(), expected);
    };
    check(json!({ "name": "b" }), &package, [json!(["a", null]), json!(["c", null])]).await;
    check(json!({ "name": "x", "alias": "a" }), &package, [json!(["a (2)", "b"]), json!(["c", null])]).await;
    // One that was made where this could still happen.
    let mut mixed = package.clone();
    mixed["workflows"][1]["name"] = json!("b");
    check(json!({ "name": "x" }), &mixed, [json!(["a", "b"]), json!(["b (2)", null])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_others_call_is_deleted_only_by_force() {
    let setup = Setup::new().await;
    let child = create(&setup, json!({ "name": "child", "definition": "steps: [{ wait: 0s }]" })).await;
    let id = child["id"].as_str().unwrap();
    for (name, called) in [("left", "child"), ("right", id)] {
        let text = format!("steps: [{{ id: call, workflow: {called} }}]");
        create(&setup, json!({ "name": name, "definition": text })).await;
    }
    let (nothing, path) = (Value::Null, "/api/v1/workflows/child");
    let problem = refused(&setup, Method::DELETE, path, nothing.clone(), 409, "`left`, `right`").await;
    assert!(problem["detail"].as_str().unwrap().contains("force"), "{problem}");
    change(&setup, "left", "steps: [{ wait: 0s }]").await;
    let problem = refused(&setup, Method::DELETE, path, nothing, 409, "`right`").await;
    assert!(!problem["detail"].as_str().unwrap().contains("`left`"), "{problem}");
    // An archived one is hidden and can be called as before: nothing stands against that.
    let (status, told) = setup.ask(Method::PATCH, path, Some(json!({ "status": "archived" }))).await;
    assert_eq!(status, 200, "{told}");
    let run = async || {
        let (_, run) = setup.post("/api/v1/workflows/right/run", json!({})).await;
        setup.rested(run["id"].as_str().unwrap().parse().unwrap()).await["status"].clone()
    };
    assert_eq!(run().await, "completed");
    assert_eq!(setup.ask(Method::DELETE, &format!("{path}?force=true"), None).await.0, 204);
    // Those that call it keep the plan that they were saved with.
    assert_eq!(run().await, "completed");
}
