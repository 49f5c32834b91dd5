//! Workflows that are edited step by step, over REST.

use relais_runtime::settings::Settings;
use reqwest::Method;
use serde_json::{Value, json};

use crate::setup::Setup;

/// Scores the text it is shown, and says a word to everything else.
const SCRIPT: &str = r#"[
    { "when": { "model_saw": "Score:" }, "text": "{\"score\": 7}" },
    { "when": { "model_saw": "Break" }, "error": { "kind": "provider", "message": "down", "transient": false } },
    { "when": { "model_saw": "prompt of one step" }, "text": "Labels the mail." },
    { "text": "word" }
]"#;

// keeps B-37
#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_found_by_its_id_and_a_refused_change_leaves_everything() {
    let setup = server().await;
    let workflow = setup.workflow("mixed").await;
    let (one, two) =
        (setup.add(&workflow, "custom_llm", "Write").await, setup.add(&workflow, "custom_agent", "Look").await);
    let three = setup.add(&workflow, "stop_checker", "Enough").await;
    for (id, kind) in [(&one, "custom_llm"), (&two, "custom_agent"), (&three, "stop_checker")] {
        assert_eq!(setup.read(&format!("/steps/{id}")).await["type"], kind);
    }
    setup.prompt(&two, "Look", &format!("Look at <<step_output.{one}>>.")).await;
    setup.ok(Method::PUT, &format!("/workflows/{workflow}/trigger"), json!({ "trigger_type_id": "manual" })).await;
    let before = setup.read(&format!("/workflows/{workflow}/details")).await;
    // Each of these would change several rows.
    let order = json!({ "ordered_step_uuids": [two, one, three] });
    setup.refused(Method::PUT, &format!("/workflows/{workflow}/steps"), order, 422, &["Look"]).await;
    setup.refused(Method::DELETE, &format!("/workflows/{workflow}/steps/{one}"), json!({}), 422, &["Look"]).await;
    let trigger = json!({ "trigger_type_id": "no such type" });
    setup.refused(Method::PUT, &format!("/workflows/{workflow}/trigger"), trigger, 422, &["no such type"]).await;
    assert_eq!(setup.read(&format!("/workflows/{workflow}/details")).await, before);
    assert_eq!(setup.read(&format!("/steps/{one}")).await["name"], "Write");
}

async fn server() -> Setup {
    server_with(None).await
}

async fn server_with(summary_model: Option<&str>) -> Setup {
    let default_model = Some("script/talk.json".to_owned());
    let settings = Settings { default_model, summary_model: summary_model.map(str::to_owned), ..Settings::default() };
    let setup = Setup::with(settings).await;
    std::fs::write(setup.path().join("talk.json"), SCRIPT).unwrap();
    setup
}

impl Setup {
    async fn ok(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method.clone(), &format!("/api/v1{path}"), Some(body)).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    async fn read(&self, path: &str) -> Value {
        let (status, answer) = self.get(&format!("/api/v1{path}")).await;
        assert_eq!(status.as_u16(), 200, "{path}: {answer}");
        answer
    }

    /// The message says each of the parts.
    async fn refused(&self, method: Method, path: &str, body: Value, status: u16, parts: &[&str]) {
        let (found, problem) = self.ask(method, &format!("/api/v1{path}"), Some(body)).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        let says_all = parts.iter().all(|part| detail.contains(part));
        assert!(found.as_u16() == status && says_all, "{path}: {found} {problem}");
    }

    async fn workflow(&self, name: &str) -> String {
        let made = self.ok(Method::POST, "/workflows", json!({ "name": name, "description": "d" })).await;
        made["id"].as_str().unwrap().to_owned()
    }

    /// Adds a step at the end; answers its id.
    async fn add(&self, workflow: &str, kind: &str, name: &str) -> String {
        let body = json!({ "type": kind, "name": name });
        let whole = self.ok(Method::POST, &format!("/workflows/{workflow}/steps"), body).await;
        whole["steps"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
    }

    async fn prompt(&self, step: &str, name: &str, prompt: &str) -> Value {
        let body = json!({ "name": name, "model": "script/talk.json", "system_prompt": prompt });
        self.ok(Method::PUT, &format!("/steps/{step}"), body).await
    }

    /// Starts a workflow and answers the instance when it has ended.
    async fn instance(&self, workflow: &str, data: Value) -> Value {
        let body = json!({ "triggering_data": data });
        let started = self.ok(Method::POST, &format!("/workflows/{workflow}/instances"), body).await;
        self.ended(&started).await
    }

    async fn ended(&self, started: &Value) -> Value {
        let id = started["uuid"].as_str().unwrap();
        self.service.settle(id.parse().unwrap()).await.unwrap();
        self.read(&format!("/instances/{id}")).await
    }
}

fn condition(step: &str, operator: &str, target: Value) -> Value {
    json!({ "step_definition_uuid": step, "extraction_json_path": "$.score", "operator": operator, "target_value": target })
}

// keeps B-02, B-27
#[tokio::test(flavor = "multi_thread")]
async fn types_of_steps_and_triggers_are_listed() {
    let setup = server().await;
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    let steps = setup.read("/step-types").await;
    assert_eq!(names(&steps, "type"), ["custom_llm", "custom_agent", "stop_checker"]);
    assert!(steps.as_array().unwrap().iter().all(|one| one["name"].is_string() && one["description"].is_string()));
    let triggers = setup.read("/trigger-types").await;
    assert_eq!(names(&triggers, "id"), ["manual", "schedule", "webhook", "event"]);
    assert_eq!(triggers[3]["settings"][0]["name"], "event");
}

// keeps B-03, B-04, B-05, B-08, B-20, B-22, B-40
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_added_where_they_are_wanted() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let path = format!("/workflows/{id}/steps");
    let first = setup.add(&id, "custom_llm", "One").await;
    let last = setup.add(&id, "stop_checker", "Three").await;
    let body = json!({ "type": "custom_agent", "name": "Two", "position": 1 });
    let whole = setup.ok(Method::POST, &path, body).await;
    let second = whole["steps"][1].as_str().unwrap().to_owned();
    assert_eq!(whole["steps"], json!([first, second, last]));
    for (field, expected) in [
        ("uuid", json!(id)),
        ("user_id", json!("somebody")),
        ("name", json!("w")),
        ("description", json!("d")),
        ("is_active", json!(true)),
        ("trigger_uuid", Value::Null),
        ("template_id", Value::Null),
        ("template_version", Value::Null),
        ("version", json!(3)),
    ] {
        assert_eq!(whole[field], expected, "{field}");
    }
    let agent = setup.read(&format!("/steps/{second}")).await;
    for (field, expected) in [
        ("type", json!("custom_agent")),
        ("user_id", json!("somebody")),
        ("description", json!("")),
        ("model", json!("script/talk.json")),
        ("system_prompt", json!("")),
        ("tools", json!({})),
        ("generated_summary", Value::Null),
        ("workflow_uuid", json!(id)),
    ] {
        assert_eq!(agent[field], expected, "{field}");
    }
    let checker = setup.read(&format!("/steps/{last}")).await;
    assert_eq!((&checker["stop_conditions"], checker.get("model")), (&json!([]), None));
    for (body, status, part) in [
        (json!({ "type": "custom_llm", "name": "Two" }), 422, "two steps have the name `Two`"),
        (json!({ "type": "custom_lm", "name": "Four" }), 422, "did you mean `custom_llm`?"),
        (json!({ "type": "custom_llm", "name": " " }), 422, "needs a name"),
        (json!({ "type": "custom_llm", "name": "Four", "position": 4 }), 422, "it is 0 to 3"),
        (json!({ "type": "custom_llm", "name": "Four", "position": -2 }), 422, "or -1 for the end"),
        (json!({ "type": "custom_llm", "name": "Four", "promt": "x" }), 400, "`promt`"),
        (json!({ "type": "custom_llm" }), 400, "needs `type` and `name`"),
    ] {
        setup.refused(Method::POST, &path, body, status, &[part]).await;
    }
    let run = format!("/workflows/{id}/instances");
    setup.refused(Method::POST, &run, json!({}), 422, &["the step `One` has no `system_prompt` yet", "`Three`"]).await;
}

// keeps B-06, B-10, B-11, B-23
#[tokio::test(flavor = "multi_thread")]
async fn what_would_break_a_reference_is_refused() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let one = setup.add(&id, "custom_llm", "One").await;
    let two = setup.add(&id, "custom_llm", "Two").await;
    let check = setup.add(&id, "stop_checker", "Check").await;
    setup.prompt(&two, "Two", &format!("Label <<step_output.{one}>>")).await;
    let conditions = json!({ "name": "Check", "stop_conditions": [condition(&one, "greater_than", json!(3))] });
    setup.ok(Method::PUT, &format!("/steps/{check}"), conditions).await;
    let of_one = |prompt: String| json!({ "name": "One", "model": "script/talk.json", "system_prompt": prompt });
    let of_check = |one: Value| json!({ "name": "Check", "stop_conditions": [one] });
    let other = "0190a0b0-c0d0-7000-8000-00000000000a";
    for (step, body, part) in [
        (&one, of_one(format!("<<step_output.{two}>>")), "the step `Two` comes later"),
        (&one, of_one(format!("<<step_output.{one}>>")), "cannot read its own output"),
        (&one, of_one(format!("<<step_output.{other}>>")), "no step has the uuid"),
        (&one, of_one("<<triger_output>>".into()), "did you mean `<<trigger_output>>`?"),
        (&one, json!({ "name": "One", "model": "m" }), "needs `system_prompt`"),
        (&one, json!({ "name": "One", "model": "m", "system_prompt": "", "tools": {} }), "has no `tools`"),
        (
            &one,
            json!({ "name": "One", "type": "custom_agent", "model": "m", "system_prompt": "" }),
            "stays of its type",
        ),
        (&one, json!({ "uuid": two, "name": "One", "model": "m", "system_prompt": "" }), "`uuid` is"),
        (&one, json!({ "name": "Two", "model": "m", "system_prompt": "" }), "two steps have the name `Two`"),
        (&check, of_check(condition(other, "equals", json!(1))), "no step has the uuid"),
        (&check, of_check(condition(&one, "greater_than", json!("3"))), "a number with greater_than"),
        (&check, of_check(condition(&one, "about", json!(3))), "`Check`"),
        (&check, of_check(json!({ "step_definition_uuid": one })), "has no `extraction_json_path`"),
    ] {
        setup.refused(Method::PUT, &format!("/steps/{step}"), body, 422, &[part]).await;
    }
    let theirs = json!({ "user_id": "other", "name": "One", "model": "m", "system_prompt": "" });
    setup.refused(Method::PUT, &format!("/steps/{one}"), theirs, 404, &["user_id"]).await;
    let order = |ids: &[&String]| json!({ "ordered_step_uuids": ids });
    let path = format!("/workflows/{id}/steps");
    let broken = ["cannot stand in this order", "in the step `Two`", "the step `One` comes later"];
    setup.refused(Method::PUT, &path, order(&[&two, &one, &check]), 422, &broken).await;
    setup.refused(Method::PUT, &path, order(&[&one, &two]), 422, &["`Check`", "is missing"]).await;
    setup.refused(Method::PUT, &path, order(&[&one, &one, &two, &check]), 422, &["named twice"]).await;
    let stranger = other.to_owned();
    setup.refused(Method::PUT, &path, order(&[&one, &two, &check, &stranger]), 422, &["is none of them"]).await;
    let used = ["cannot be deleted", "in the step `Two`", "in the step `Check`"];
    setup.refused(Method::DELETE, &format!("{path}/{one}"), json!({}), 422, &used).await;
    setup.refused(Method::DELETE, &format!("/steps/{one}"), json!({}), 422, &used).await;
    let moved = setup.ok(Method::PUT, &path, order(&[&one, &check, &two])).await;
    assert_eq!(moved["steps"], json!([one, check, two]));
    let left = setup.ok(Method::DELETE, &format!("{path}/{two}"), json!({})).await;
    assert_eq!(left["steps"], json!([one, check]));
    assert_eq!(setup.get(&format!("/api/v1/steps/{two}")).await.0.as_u16(), 404);
    setup.refused(Method::DELETE, &format!("{path}/{two}"), json!({}), 404, &["has no step"]).await;
}

// keeps B-04
#[tokio::test(flavor = "multi_thread")]
async fn tools_are_known_and_only_those_switched_on_are_offered() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let step = setup.add(&id, "custom_agent", "Agent").await;
    let path = format!("/steps/{step}");
    let body =
        |tools: Value| json!({ "name": "Agent", "model": "script/talk.json", "system_prompt": "x", "tools": tools });
    setup.refused(Method::PUT, &path, body(json!({ "raed_file": { "enabled": true } })), 422, &["`read_file`?"]).await;
    setup.refused(Method::PUT, &path, body(json!({ "read_file": { "on": true } })), 422, &["`on`"]).await;
    let tools = json!({ "read_file": { "enabled": true }, "write_file": { "enabled": false } });
    assert_eq!(setup.ok(Method::PUT, &path, body(tools.clone())).await["tools"], tools);
    let definition = setup.read(&format!("/workflows/{id}")).await;
    assert_eq!(definition["runnable"], true, "{definition}");
    let workflow = setup.service.find_workflow(&id).await.unwrap().it;
    let plan = setup.service.startable(&workflow, None, None).await.unwrap().plan;
    assert_eq!(plan.agents["Agent"].tools, ["read_file"]);
}

// keeps B-13, B-14, B-15, B-16, B-17, B-18, B-19, B-25, B-31, B-33
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_as_an_instance_with_its_steps() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let score = setup.add(&id, "custom_llm", "Score").await;
    let check = setup.add(&id, "stop_checker", "Check").await;
    let last = setup.add(&id, "custom_llm", "Last").await;
    setup.prompt(&score, "Score", "Score: <<trigger_output>>").await;
    setup.prompt(&last, "Last", &format!("Say <<step_output.{score}>> again")).await;
    let stops_above =
        |limit: u32| json!({ "name": "Check", "stop_conditions": [condition(&score, "greater_than", json!(limit))] });
    setup.ok(Method::PUT, &format!("/steps/{check}"), stops_above(3)).await;
    let stopped = setup.instance(&id, json!({ "mail": "hello" })).await;
    for (path, expected) in [
        ("/status", json!("stopped")),
        ("/user_id", json!("somebody")),
        ("/workflow_definition_uuid", json!(id)),
        ("/trigger_output/raw_data", json!({ "mail": "hello" })),
        ("/step_instances/0/llm_definition_uuid", json!(score)),
        ("/step_instances/0/status", json!("completed")),
        ("/step_instances/0/workflow_instance_uuid", stopped["uuid"].clone()),
        ("/step_instances/0/messages/0/role", json!("system")),
        ("/step_instances/1/checker_definition_uuid", json!(check)),
        ("/step_instances/1/status", json!("completed")),
        ("/step_instances/2/llm_definition_uuid", json!(last)),
        ("/step_instances/2/status", json!("skipped")),
    ] {
        assert_eq!(stopped.pointer(path), Some(&expected), "{path} in {stopped:#}");
    }
    let checker = &stopped["step_instances"][1];
    assert!(checker.get("messages").is_none() && checker.get("output").is_none());
    let seen = stopped.pointer("/step_instances/0/input_data/system_prompt").unwrap().as_str().unwrap();
    assert!(seen.contains("hello"), "{seen}");
    let output = stopped.pointer("/step_instances/0/output/uuid").unwrap().as_str().unwrap();
    let raw = setup.read(&format!("/outputs/{output}")).await;
    assert_eq!(raw, stopped["step_instances"][0]["output"]["raw_data"]);
    setup.ok(Method::PUT, &format!("/steps/{check}"), stops_above(9)).await;
    let completed = setup.instance(&id, json!("plain text")).await;
    assert_eq!(
        (&completed["status"], &completed["step_instances"][2]["status"]),
        (&json!("completed"), &json!("completed"))
    );
    setup.prompt(&score, "Score", "Break").await;
    let failed = setup.instance(&id, json!({})).await;
    assert_eq!((&failed["status"], &failed["step_instances"][0]["status"]), (&json!("failed"), &json!("failed")));
    assert_eq!(failed["step_instances"][2]["status"], "skipped");
    let page = setup.read(&format!("/workflows/{id}/instances?limit=2")).await;
    let ids: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|one| &one["uuid"]).collect();
    assert_eq!(ids, [&failed["uuid"], &completed["uuid"]]);
    let cursor = page["next"].as_str().unwrap();
    let rest = setup.read(&format!("/workflows/{id}/instances?limit=2&cursor={cursor}")).await;
    assert_eq!((&rest["items"][0]["uuid"], &rest["next"]), (&stopped["uuid"], &Value::Null));
}

// keeps B-26
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_cancelled() {
    let setup = server().await;
    std::fs::write(setup.path().join("slow.json"), r#"[{ "text": "x", "delay_ms": 600000 }]"#).unwrap();
    let id = setup.workflow("w").await;
    let step = setup.add(&id, "custom_llm", "Slow").await;
    let body = json!({ "name": "Slow", "model": "script/slow.json", "system_prompt": "x" });
    setup.ok(Method::PUT, &format!("/steps/{step}"), body).await;
    let started = setup.ok(Method::POST, &format!("/workflows/{id}/instances"), json!({})).await;
    assert_eq!(started["status"], "running");
    let path = format!("/instances/{}/cancel", started["uuid"].as_str().unwrap());
    setup.ok(Method::POST, &path, json!({})).await;
    let ended = setup.ended(&started).await;
    assert_eq!((&ended["status"], &ended["error_message"]), (&json!("failed"), &json!("the run was cancelled")));
    setup.refused(Method::POST, &path, json!({}), 409, &["cannot be cancelled"]).await;
}

// keeps B-37
#[tokio::test(flavor = "multi_thread")]
async fn two_editors_at_once_lose_nothing() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let path = format!("/workflows/{id}/steps");
    let add =
        |number: usize| setup.ok(Method::POST, &path, json!({ "type": "custom_llm", "name": format!("s{number}") }));
    tokio::join!(add(1), add(2), add(3), add(4));
    let details = setup.read(&format!("/workflows/{id}/details")).await;
    let mut names: Vec<&str> =
        details["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!((names, &details["version"]), (vec!["s1", "s2", "s3", "s4"], &json!(4)));
    let url = format!("http://{}/api/v1{path}", setup.server.address);
    let request = setup.client.post(&url).header("if-match", "\"2\"");
    let answer = request.json(&json!({ "type": "custom_llm", "name": "s5" })).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 412);
    let step = details["steps"][0]["uuid"].as_str().unwrap();
    let url = format!("http://{}/api/v1/steps/{step}", setup.server.address);
    let tag = setup.client.get(&url).send().await.unwrap().headers()["etag"].to_str().unwrap().to_owned();
    let name = details["steps"][0]["name"].as_str().unwrap();
    let body = json!({ "name": name, "model": "m", "system_prompt": "x" });
    for expected in [200, 412] {
        let answer = setup.client.put(&url).header("if-match", &tag).json(&body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), expected);
    }
}

// keeps B-28, B-44
#[tokio::test(flavor = "multi_thread")]
async fn a_step_stands_by_itself_runs_by_itself_and_is_attached() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let first = setup.add(&id, "custom_llm", "First").await;
    let body = json!({ "type": "custom_llm", "name": "Second", "system_prompt": format!("Score: <<step_output.{first}>> <<trigger_output>>") });
    let made = setup.ok(Method::POST, "/steps", body).await;
    let step = made["uuid"].as_str().unwrap();
    assert_eq!((&made["workflow_uuid"], &made["model"]), (&Value::Null, &json!("script/talk.json")));
    let listed = setup.read("/steps?standalone=true").await;
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["uuid"]), (1, &made["uuid"]));
    assert_eq!(setup.read("/steps?limit=1").await["items"].as_array().unwrap().len(), 1);
    let run = format!("/steps/{step}/run");
    setup.refused(Method::POST, &run, json!({ "trigger_output": 1 }), 422, &["step_outputs"]).await;
    let started = setup.ok(Method::POST, &run, json!({ "trigger_output": "a", "step_outputs": { &first: "b" } })).await;
    let ended = setup.ended(&started).await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(ended["step_instances"][0]["input_data"]["system_prompt"], "Score: b a");
    let check =
        json!({ "type": "stop_checker", "name": "Check", "stop_conditions": [condition(&first, "equals", json!(7))] });
    let check = setup.ok(Method::POST, "/steps", check).await;
    let run = format!("/steps/{}/run", check["uuid"].as_str().unwrap());
    for (score, status) in [(7, "stopped"), (8, "completed")] {
        let answer = setup.ok(Method::POST, &run, json!({ "step_outputs": { &first: { "score": score } } })).await;
        assert_eq!((&answer["status"], &answer["result"]), (&json!(status), &json!(score == 7)), "{answer:#}");
    }
    let path = format!("/workflows/{id}/steps");
    let attach = |position: i64| json!({ "step_uuid": step, "position": position });
    setup.refused(Method::POST, &path, attach(0), 422, &["cannot be attached", "`First` comes later"]).await;
    let whole = setup.ok(Method::POST, &path, attach(-1)).await;
    assert_eq!(whole["steps"], json!([first, step]));
    setup.refused(Method::POST, &path, attach(-1), 409, &["is in the workflow"]).await;
    let (status, _) =
        setup.ask(Method::DELETE, &format!("/api/v1/steps/{}", check["uuid"].as_str().unwrap()), None).await;
    assert_eq!(status.as_u16(), 204);
    assert_eq!(setup.read("/steps?standalone=true").await["items"], json!([]));
}

// keeps B-09, B-24, B-29
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_chosen_filled_in_and_replaced() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let path = format!("/workflows/{id}/trigger");
    setup.refused(Method::PUT, &path, json!({ "trigger_type_id": "evnt" }), 422, &["did you mean `event`?"]).await;
    assert_eq!(setup.get(&format!("/api/v1{path}")).await.0.as_u16(), 404);
    let whole = setup.ok(Method::PUT, &path, json!({ "trigger_type_id": "event" })).await;
    let event = setup.read(&path).await;
    assert_eq!(whole["trigger_uuid"], event["uuid"]);
    for (field, expected) in [
        ("workflow_uuid", json!(id)),
        ("trigger_type_id", json!("event")),
        ("filter_rules", json!({})),
        ("initial_data_description", json!("The data of the event.")),
        ("settings", json!({ "event": id, "overlap": "allow" })),
        ("user_id", json!("somebody")),
    ] {
        assert_eq!(event[field], expected, "{field}");
    }
    let own = format!("/triggers/{}", event["uuid"].as_str().unwrap());
    let rules = json!({ "filter_rules": { "folder": "inbox" }, "initial_data_description": "A mail." });
    let saved = setup.ok(Method::PUT, &own, rules).await;
    assert_eq!(
        (&saved["filter_rules"], &saved["initial_data_description"]),
        (&json!({ "folder": "inbox" }), &json!("A mail."))
    );
    for (body, part) in [
        (json!({ "filter_rules": { "size": { "geater": 3 } } }), "filter_rules"),
        (json!({ "settings": { "cron": "@daily" } }), "no setting `cron`"),
        (json!({ "trigger_type_id": "manual" }), "of its type"),
        (json!({ "initial_data_description": "" }), "needs an `initial_data_description`"),
    ] {
        setup.refused(Method::PUT, &own, body, 422, &[part]).await;
    }
    let sent_back = setup.ok(Method::PUT, &own, saved.clone()).await;
    assert_eq!((&sent_back["settings"], &sent_back["filter_rules"]), (&saved["settings"], &saved["filter_rules"]));
    setup.ok(Method::PUT, &path, json!({ "trigger_type_id": "schedule" })).await;
    assert_eq!(setup.get(&format!("/api/v1{own}")).await.0.as_u16(), 404);
    let schedule = setup.read(&path).await;
    assert!(schedule["off"].as_str().unwrap().contains("no time yet") && schedule["next_at"].is_null());
    let own = format!("/triggers/{}", schedule["uuid"].as_str().unwrap());
    let set = setup.ok(Method::PUT, &own, json!({ "settings": { "every": "1h", "overlap": "queue" } })).await;
    assert_eq!((&set["off"], &set["settings"]["overlap"]), (&Value::Null, &json!("queue")));
    assert!(set["next_at"].is_string(), "{set}");
    setup.refused(Method::PUT, &own, json!({ "settings": { "every": "soon" } }), 422, &["cannot be understood"]).await;
    setup.refused(Method::PUT, &own, json!({ "filter_rules": { "a": 1 } }), 422, &["sent no data"]).await;
    setup.ok(Method::PUT, &path, json!({ "trigger_type_id": "webhook" })).await;
    let listed = setup.read("/triggers").await;
    assert_eq!(
        (listed["items"].as_array().unwrap().len(), &listed["items"][0]["trigger_type_id"]),
        (1, &json!("webhook"))
    );
    assert!(listed["items"][0]["settings"]["webhook"].is_string());
    let bare = setup.ok(Method::DELETE, &path, json!({})).await;
    assert_eq!((&bare["trigger_uuid"], setup.read("/triggers").await["items"].clone()), (&Value::Null, json!([])));
    setup.refused(Method::DELETE, &path, json!({}), 404, &["no trigger was set"]).await;
    setup.ok(Method::PUT, &path, json!({ "trigger_type_id": "manual" })).await;
    let own = format!("/api/v1/triggers/{}", setup.read(&path).await["uuid"].as_str().unwrap());
    assert_eq!(setup.ask(Method::DELETE, &own, None).await.0.as_u16(), 204);
    assert_eq!(setup.read(&format!("/workflows/{id}/details")).await["trigger"], Value::Null);
}

// keeps B-21
#[tokio::test(flavor = "multi_thread")]
async fn details_have_the_trigger_and_the_steps_in_order() {
    let setup = server().await;
    let id = setup.workflow("w").await;
    let (one, two) = (setup.add(&id, "custom_llm", "One").await, setup.add(&id, "stop_checker", "Two").await);
    setup.ok(Method::PUT, &format!("/workflows/{id}/steps"), json!({ "ordered_step_uuids": [two, one] })).await;
    setup.ok(Method::PUT, &format!("/workflows/{id}/trigger"), json!({ "trigger_type_id": "event" })).await;
    let details = setup.read(&format!("/workflows/{id}/details")).await;
    assert_eq!((&details["steps"][0]["uuid"], &details["steps"][1]["uuid"]), (&json!(two), &json!(one)));
    assert_eq!(
        (&details["steps"][1]["type"], &details["trigger"]["workflow_uuid"]),
        (&json!("custom_llm"), &json!(id))
    );
    setup.ok(Method::PATCH, &format!("/workflows/{id}"), json!({ "status": "paused" })).await;
    assert_eq!(setup.read(&format!("/workflows/{id}/details")).await["is_active"], false);
}

// keeps B-08
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_active_makes_a_paused_workflow() {
    let setup = server().await;
    let step = json!({ "uuid": "s1", "name": "One", "type": "custom_llm", "model": "sim/1", "system_prompt": "Hello" });
    let trigger = json!({ "initial_data_description": "A mail", "trigger_type_id": "mail" });
    let file = |is_active: bool, description: &str| {
        json!({ "uuid": "3f6c1c9e-52c4-4f0e-9d0c-7f0f6a1f6b01", "name": "label", "is_active": is_active,
            "description": description, "trigger": trigger, "steps": [step] })
    };
    let check = async |status: &str, started: usize| {
        let details = setup.read("/workflows/label/details").await;
        assert_eq!(
            (&details["is_active"], setup.read("/workflows/label").await["status"].as_str()),
            (&json!(status == "active"), Some(status))
        );
        let told = setup.ok(Method::POST, "/events", json!({ "type": "mail", "data": {} })).await;
        assert_eq!(told["started"].as_array().map(Vec::len), Some(started), "{told}");
    };
    let made = setup.ok(Method::POST, "/workflows", json!({ "definition": file(false, "Labels") })).await;
    check("paused", 0).await;
    // The id that it had elsewhere is a name of it here.
    let found = setup.read("/workflows/3f6c1c9e-52c4-4f0e-9d0c-7f0f6a1f6b01").await;
    assert_eq!(found["id"], made["id"]);
    setup.ok(Method::PATCH, "/workflows/label", json!({ "status": "active" })).await;
    check("active", 1).await;
    setup.ok(Method::PATCH, "/workflows/label", json!({ "definition": file(false, "Labels mails") })).await;
    check("paused", 0).await;
    // That a file says nothing against it does not start what somebody has paused.
    setup.ok(Method::PATCH, "/workflows/label", json!({ "definition": file(true, "Labels mails") })).await;
    check("paused", 0).await;
}

// keeps B-30
#[tokio::test(flavor = "multi_thread")]
async fn another_users_things_are_not_there() {
    let setup = server().await;
    let other = setup.service.as_user("other");
    let new = relais_service::NewWorkflow { name: Some("theirs".into()), ..Default::default() };
    let workflow = other.create_workflow(new).await.unwrap().it.id.to_string();
    let whole = other.add_new_step(&workflow, "custom_llm", "One", -1, None).await.unwrap().it;
    let step = whole.steps[0];
    let trigger =
        other.set_trigger(&workflow, "event", Default::default(), None).await.unwrap().it.trigger_uuid.unwrap();
    for path in [
        format!("/steps/{step}"),
        format!("/triggers/{trigger}"),
        format!("/workflows/{workflow}/details"),
        format!("/workflows/{workflow}/trigger"),
        format!("/workflows/{workflow}/instances"),
        "/steps/none".to_owned(),
    ] {
        assert_eq!(setup.get(&format!("/api/v1{path}")).await.0.as_u16(), 404, "{path}");
    }
    let mine = setup.workflow("mine").await;
    let body = json!({ "step_uuid": step });
    setup.refused(Method::POST, &format!("/workflows/{mine}/steps"), body, 404, &["there is no step"]).await;
    assert_eq!(setup.read("/steps").await["items"], json!([]));
    assert_eq!(setup.read("/triggers").await["items"], json!([]));
}

// keeps B-34
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_made_when_the_prompt_changes() {
    let setup = server_with(Some("script/talk.json")).await;
    let id = setup.workflow("w").await;
    let step = setup.add(&id, "custom_llm", "Label").await;
    assert_eq!(setup.service.make_summaries().await.unwrap(), 0);
    setup.prompt(&step, "Label", "Label the mail").await;
    assert_eq!(setup.service.make_summaries().await.unwrap(), 1);
    let shown = setup.read(&format!("/steps/{step}")).await;
    assert_eq!(shown["generated_summary"], "Labels the mail.");
    setup.prompt(&step, "Renamed", "Label the mail").await;
    assert_eq!(setup.service.make_summaries().await.unwrap(), 0);
    setup.ok(Method::PUT, &format!("/steps/{step}"), setup.read(&format!("/steps/{step}")).await).await;
    assert_eq!(setup.service.make_summaries().await.unwrap(), 0);
    setup.prompt(&step, "Renamed", "Break").await;
    assert_eq!(setup.service.make_summaries().await.unwrap(), 1);
    let shown = setup.read(&format!("/steps/{step}")).await;
    assert_eq!(shown["generated_summary"], "Labels the mail.");
}

// keeps B-08, B-09, B-21, B-29, B-33
#[tokio::test(flavor = "multi_thread")]
async fn an_exported_workflow_can_be_edited_step_by_step() {
    let setup = server().await;
    let step = "0190a0b0-c0d0-7000-8000-00000000000a";
    let trigger = json!({ "trigger_type_id": "mail.received", "filter_rules": { "folder": "inbox" }, "initial_data_description": "A mail." });
    let steps = json!([{ "uuid": step, "name": "One", "type": "custom_llm", "model": "script/talk.json", "system_prompt": "Say <<trigger_output>>" }]);
    let definition = json!({ "name": "mail", "description": "Labels mail", "template_id": "t7", "template_version": "2",
        "trigger": trigger, "steps": steps });
    let made = setup.ok(Method::POST, "/workflows", json!({ "definition": definition })).await;
    let id = made["id"].as_str().unwrap();
    // Steps and trigger are objects at once, and what it says of itself stays.
    let at_once = setup.read(&format!("/workflows/{id}/details")).await;
    assert_eq!(
        (&at_once["steps"][0]["uuid"], &at_once["steps"][0]["name"]),
        (&json!(step), &json!("One")),
        "{at_once}"
    );
    assert_eq!(at_once["trigger"]["initial_data_description"], "A mail.", "{at_once}");
    let facts = ["description", "template_id", "template_version"].map(|fact| made[fact].as_str().unwrap_or_default());
    assert_eq!(facts, ["Labels mail", "t7", "2"]);
    let own = setup.read(&format!("/steps/{step}")).await;
    assert_eq!((&own["type"], &own["system_prompt"]), (&json!("custom_llm"), &json!("Say <<trigger_output>>")));
    let two = setup.add(id, "custom_llm", "Two").await;
    let details = setup.read(&format!("/workflows/{id}/details")).await;
    assert_eq!((&details["steps"][0]["uuid"], &details["steps"][1]["uuid"]), (&json!(step), &json!(two)));
    assert_eq!(details["trigger"]["settings"], json!({ "event": "mail.received", "overlap": "allow" }));
    assert_eq!(details["trigger"]["filter_rules"], json!({ "folder": "inbox" }));
    // Both spellings of a rule are read, and kept in the documented one.
    let trigger = format!("/triggers/{}", details["trigger"]["uuid"].as_str().unwrap());
    let rules = json!({ "size": { "less_than": 9 }, "folder": { "not_in": ["spam"] } });
    let saved = json!({ "initial_data_description": "A mail.", "filter_rules": rules });
    let normal = json!({ "size": { "less": 9 }, "folder": { "not": { "in": ["spam"] } } });
    assert_eq!(setup.ok(Method::PUT, &trigger, saved).await["filter_rules"], normal);
    assert_eq!(setup.read("/triggers").await["items"].as_array().unwrap().len(), 1);
    let native = json!({ "name": "n", "definition": "steps:\n  - { id: a, set: { x: 1 } }\n" });
    let native = setup.ok(Method::POST, "/workflows", native).await;
    let path = format!("/workflows/{}/steps", native["id"].as_str().unwrap());
    let body = json!({ "type": "custom_llm", "name": "x" });
    setup.refused(Method::POST, &path, body, 409, &["format `native`", "change its definition"]).await;
    setup
        .ok(
            Method::PATCH,
            &format!("/workflows/{id}"),
            json!({ "definition": "steps:\n  - { id: a, set: { x: 1 } }\n" }),
        )
        .await;
    assert_eq!(setup.read("/steps").await["items"], json!([]));
}
