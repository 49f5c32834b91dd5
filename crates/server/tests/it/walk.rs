//! Another user's things are not there, whatever they are asked for by. Walks every operation of the OpenAPI document
//! with the ids of somebody else; an operation, a path or a query that this file has no example for fails the walk.

use std::collections::BTreeMap;

use relais_runtime::settings::Settings;
use relais_service::Service;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::flows::{ASKS, WORD};
use crate::setup::Setup;

/// Something of Ada's, by where it stands: `runs/{id}` in a path, `?parent` in a query.
pub type Things = BTreeMap<&'static str, String>;

/// Operations that anybody may call, without a token: whoever knows the address of a webhook, or signs what is sent.
const PUBLIC: [&str; 2] = ["post_hook", "post_user_hook"];
/// Operations on no id of anybody's that change something, and what Bob is told: he makes a thing of his own, or may
/// not because of a scope, whatever he names, or what his definition names is not there.
const CHANGES: &[(&str, u16)] = &[
    ("begin_bulk", 202),
    ("check_definition", 200),
    ("convert_definition", 200),
    ("create_agent", 201),
    ("create_step", 201),
    ("create_token", 403),
    ("create_workflow", 201),
    ("export_workflows", 200),
    ("import_workflows", 201),
    ("create_schedule", 404),
    ("preview_schedule", 200),
    ("publish_event", 200),
    ("read_notifications", 200),
    ("start_run", 422),
];
/// Operations that change nothing although they have a body.
const READS: [&str; 3] = ["check_definition", "convert_definition", "export_workflows"];
/// What a query may say that names nothing of anybody's, with a value for where one is needed.
const NEUTRAL: &[(&str, &str)] = &[
    ("all", "false"),
    ("archived", "true"),
    ("by", "day"),
    ("error", "timeout"),
    ("tag", "team=sales"),
    ("cursor", ""),
    ("force", "false"),
    ("format", "steps"),
    ("from", "2020-01-01"),
    ("full", "1"),
    ("history", "true"),
    ("keep_runs", "false"),
    ("last_event_id", "1.1"),
    ("limit", "10"),
    ("mcp", "none"),
    ("roots_only", "true"),
    ("standalone", "true"),
    ("started_after", "2020-01-01T00:00:00Z"),
    ("started_before", "2100-01-01T00:00:00Z"),
    ("status", "completed"),
    ("to", "2100-01-01"),
    ("unread", "false"),
    ("user_id", ""),
    ("version", "1"),
    ("wait", "1s"),
];

/// A body that each operation takes, naming what is Ada's where it can name something.
fn body(operation: &str) -> Value {
    match operation {
        // An alias is unique for each user: that Ada has one of this name must not show.
        "create_workflow" => json!({ "name": "asks", "alias": "hers" }),
        "update_workflow" => json!({ "name": "taken", "status": "archived" }),
        "start_run" => {
            json!({ "name": "thief", "definition": "name: thief\nsteps:\n  - { id: call, workflow: hers }\n" })
        }
        "run_workflow" => json!({ "input": {} }),
        "create_step" | "add_step" => json!({ "type": "custom_llm", "name": "Label" }),
        "save_step" => json!({ "name": "Taken", "model": "m", "system_prompt": "x" }),
        "reorder_steps" => json!({ "ordered_step_uuids": [] }),
        "set_workflow_trigger" => json!({ "trigger_type_id": "manual" }),
        "save_trigger" => json!({ "initial_data_description": "taken" }),
        "run_step" | "create_instance" => json!({}),
        "create_schedule" => json!({ "workflow": "hers", "every": "1h" }),
        "create_workflow_schedule" | "preview_schedule" => json!({ "at": "2090-01-01T00:00:00Z" }),
        "publish_event" => json!({ "type": "hers.happened", "data": { "n": 1 } }),
        "cancel_run" | "pause_run" | "resume_run" => json!({}),
        "retry_run" | "fork_run" => json!({ "from": "say" }),
        "answer_run" => json!({ "step": "sure", "value": true }),
        "backfill_schedule" => json!({ "from": "2020-01-01", "to": "2020-01-02" }),
        "begin_bulk" => json!({ "action": "cancel", "filter": { "workflow": "hers" } }),
        "answer_question" => json!({ "value": true }),
        "signal_run" => json!({ "name": "go", "value": 1 }),
        "mark_notification" => json!({ "read": true }),
        "create_agent" => json!({ "name": "clerk", "definition": {} }),
        "update_agent" => json!({ "name": "taken" }),
        "roll_back_workflow" => json!({ "version": 1 }),
        "import_workflows" => {
            let workflow = json!({ "id": uuid::Uuid::now_v7(), "name": "asks", "versions": [] });
            json!({ "package": { "relais_export": 1, "workflows": [workflow], "agents": [] } })
        }
        // Bob has one of this name himself by then.
        "export_workflows" => json!({ "workflows": ["hers"] }),
        "check_definition" | "convert_definition" => json!({ "definition": ASKS }),
        "create_token" => json!({ "user": "ada", "name": "stolen", "scopes": ["read"] }),
        other => panic!("give {other} an example of its body in {}", file!()),
    }
}

/// An operation of the document.
pub struct Operation {
    id: String,
    method: Method,
    path: String,
    query: Vec<(String, bool)>,
    has_body: bool,
}

pub fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(relais_server::document()).unwrap();
    let paths = document["paths"].as_object().unwrap().clone();
    let methods = |(path, item): (String, Value)| {
        let item = item.as_object().unwrap().clone();
        item.into_iter().map(move |(method, operation)| Operation::new(&method, &path, &operation)).collect::<Vec<_>>()
    };
    let mut found: Vec<Operation> = paths.into_iter().flat_map(methods).collect();
    found.retain(|operation| !PUBLIC.contains(&operation.id.as_str()));
    // What Bob makes under Ada's names must not be there yet when he asks for hers.
    found.sort_by_key(|operation| CHANGES.iter().any(|(id, _)| *id == operation.id));
    assert!(found.len() > 20, "the document has {} operations only", found.len());
    found
}

impl Operation {
    fn new(method: &str, path: &str, operation: &Value) -> Operation {
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operation id"));
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let named = |parameter: &Value| (parameter["name"].as_str().unwrap().to_owned(), parameter["required"] == true);
        Operation {
            id: id.to_owned(),
            method: method.to_uppercase().parse().unwrap(),
            path: path.to_owned(),
            query: query.map(named).collect(),
            has_body: operation["requestBody"].is_object(),
        }
    }

    fn is_of_a_thing(&self) -> bool {
        self.path.contains('{')
    }

    /// Its path with these ids in it, and what must stand behind the question mark.
    fn path(&self, things: &Things) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut before = "";
        for part in self.path.split('/') {
            let place = format!("{before}/{part}");
            let of = |id: Option<&String>| id.cloned().unwrap_or_else(|| panic!("make {place} in {}", file!()));
            parts.push(if part.starts_with('{') { of(things.get(place.as_str())) } else { part.to_owned() });
            before = part;
        }
        let needed = self.query.iter().filter(|(_, required)| *required).map(|(name, _)| pair(name, neutral(name)));
        format!("{}?{}", parts.join("/"), needed.collect::<Vec<_>>().join("&"))
    }

    /// The same once more for each thing that a query can name.
    fn queries(&self, things: &Things) -> Vec<String> {
        let path = self.path(things);
        let named = |name: &str| {
            let thing = things.iter().find(|(place, _)| place.strip_prefix('?') == Some(name));
            let known = NEUTRAL.iter().any(|(neutral, _)| *neutral == name);
            assert!(thing.is_some() || known, "{}: say in {} what `{name}` in a query means", self.id, file!());
            thing.map(|(_, value)| format!("{path}&{}", pair(name, value)))
        };
        self.query.iter().filter_map(|(name, _)| named(name)).collect()
    }

    fn body(&self) -> Option<Value> {
        self.has_body.then(|| body(&self.id))
    }
}

fn neutral(name: &str) -> &'static str {
    let found = NEUTRAL.iter().find(|(neutral, _)| *neutral == name);
    found.unwrap_or_else(|| panic!("give `{name}` a value in {}", file!())).1
}

fn pair(name: &str, value: &str) -> String {
    format!("{name}={}", value.replace(' ', "+"))
}

pub struct World {
    pub setup: Setup,
    pub ada: String,
    pub bob: String,
    /// All that Ada has, under each name that it goes by.
    pub hers: Vec<Things>,
}

impl World {
    pub async fn new() -> World {
        let setup = Setup::guarded(Settings::default()).await;
        std::fs::write(setup.path().join(WORD.0), WORD.1).unwrap();
        let (ada, bob) = (setup.token("ada", "read run write").await, setup.token("bob", "read run write").await);
        let mut world = World { setup, ada, bob, hers: Vec::new() };
        world.hers = world.make().await;
        world
    }

    /// One of everything, and what cannot be both at once (a run that waits, one that has ended) twice.
    async fn make(&self) -> Vec<Things> {
        let told = format!("{ASKS}\nnotify: {{ on_complete: true }}\n");
        let workflow = json!({ "definition": told, "alias": "hers", "thread_id": "her thread" });
        let workflow = self.made("/api/v1/workflows", workflow, 201).await;
        let id = workflow["id"].as_str().unwrap();
        let changed = json!({ "definition": told.replace("once more", "and again") });
        let (status, changed) =
            self.ask(&self.ada, Method::PATCH, &format!("/api/v1/workflows/{id}"), Some(changed)).await;
        assert_eq!((status.as_u16(), &changed["version"]), (200, &json!(2)), "{changed}");
        let (waiting, ended) = (self.run(id).await, self.run(id).await);
        self.made(&format!("/api/v1/runs/{ended}/answer"), json!({ "value": true }), 202).await;
        self.settle(&ended).await;
        self.setup.service.feed_once().await.unwrap();
        let (_, told) = self.ask(&self.ada, Method::GET, "/api/v1/notifications", None).await;
        let notification = told["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{told}"));
        let (_, who) = self.ask(&self.ada, Method::GET, "/api/v1/whoami", None).await;
        let token = who["token_id"].as_str().unwrap();
        let step = json!({ "type": "custom_llm", "name": "Label", "system_prompt": "Ada's secret" });
        let step = self.made("/api/v1/steps", step, 201).await;
        let trigger = self.trigger_of(id).await;
        let agent = json!({ "name": "clerk", "definition": { "model": "script/word.json" } });
        let agent = self.made("/api/v1/agents", agent, 201).await;
        let schedule = json!({ "at": "2090-01-01T00:00:00Z", "input": { "topic": "Ada's secret" } });
        let schedule = self.made(&format!("/api/v1/workflows/{id}/schedules"), schedule, 201).await;
        let (_, asked) = self.ask(&self.ada, Method::GET, "/api/v1/questions", None).await;
        let question = asked["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{asked}"));
        let bulk = json!({ "action": "resume", "filter": { "tags": ["none=such"] } });
        let bulk = self.made("/api/v1/bulk", bulk, 202).await;
        let mut all = Vec::new();
        for (workflow, run) in [(id, &waiting), ("hers", &ended), ("asks", &ended)] {
            let output = self.output_of(run).await;
            all.push(BTreeMap::from([
                ("workflows/{id}", workflow.to_owned()),
                ("runs/{id}", run.clone()),
                ("instances/{id}", run.clone()),
                ("questions/{id}", question.to_owned()),
                ("bulk/{id}", bulk["id"].as_str().unwrap().to_owned()),
                ("steps/{id}", step["uuid"].as_str().unwrap().to_owned()),
                ("steps/{step_id}", step["uuid"].as_str().unwrap().to_owned()),
                ("triggers/{id}", trigger.clone()),
                ("artifacts/{name}", "note.md".to_owned()),
                ("outputs/{id}", output),
                ("tokens/{id}", token.to_owned()),
                ("notifications/{id}", notification.to_owned()),
                ("?notification", notification.to_owned()),
                ("agents/{id}", agent["id"].as_str().unwrap().to_owned()),
                ("versions/{version}", "1".to_owned()),
                ("schedules/{id}", schedule["id"].as_str().unwrap().to_owned()),
                ("?workflow", workflow.to_owned()),
                ("?thread", "her thread".to_owned()),
                ("?parent", run.clone()),
                ("?user", "ada".to_owned()),
            ]));
        }
        all
    }

    async fn made(&self, path: &str, body: Value, status: u16) -> Value {
        let (found, made) = self.ask(&self.ada, Method::POST, path, Some(body)).await;
        assert_eq!(found.as_u16(), status, "{path}: {made}");
        made
    }

    async fn trigger_of(&self, workflow: &str) -> String {
        let (path, body) = (format!("/api/v1/workflows/{workflow}/trigger"), json!({ "trigger_type_id": "event" }));
        let (status, changed) = self.ask(&self.ada, Method::PUT, &path, Some(body)).await;
        assert_eq!(status.as_u16(), 200, "{changed}");
        changed["trigger_uuid"].as_str().unwrap().to_owned()
    }

    async fn run(&self, workflow: &str) -> String {
        let body = json!({ "input": { "topic": "Ada's secret" }, "thread": "her thread" });
        let run = self.made(&format!("/api/v1/workflows/{workflow}/run"), body, 202).await;
        let id = run["id"].as_str().unwrap().to_owned();
        self.settle(&id).await;
        id
    }

    async fn settle(&self, run: &str) {
        let service: Service = self.setup.service.as_user("ada");
        service.settle(run.parse().unwrap()).await.unwrap();
    }

    async fn output_of(&self, run: &str) -> String {
        let (_, view) = self.ask(&self.ada, Method::GET, &format!("/api/v1/runs/{run}/view?format=steps"), None).await;
        let id = view["step_instances"][0]["output"]["uuid"].as_str();
        id.unwrap_or_else(|| panic!("{view}")).to_owned()
    }

    pub async fn ask(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.setup.ask_as(token, method, path, body).await
    }

    /// Everything that Ada can see, and that she sees it.
    pub async fn seen(&self, operations: &[Operation]) -> BTreeMap<String, Value> {
        let mut seen = BTreeMap::new();
        for operation in operations.iter().filter(|operation| operation.method == Method::GET) {
            let mut found = Vec::new();
            // Nothing is changed by a question, so that what would be refused is shown all the same.
            let forced = if operation.query.iter().any(|(name, _)| name == "force") { "&force=true" } else { "" };
            for things in &self.hers {
                let path = format!("{}&user_id=ada{forced}", operation.path(things));
                let (status, mut body) = self.ask(&self.ada, Method::GET, &path, None).await;
                found.push(status.as_u16());
                forget_uses(&mut body);
                seen.insert(path, json!([status.as_u16(), body]));
            }
            assert!(found.contains(&200), "{}: Ada herself sees nothing: {seen:#?}", operation.id);
        }
        seen
    }

    /// Bob is told the same as if there were nothing, in the same words.
    async fn is_not_found(&self, operation: &Operation, path: &str, things: &Things) {
        let ask = async |path: &str| self.ask(&self.bob, operation.method.clone(), path, operation.body()).await;
        let (status, body) = ask(path).await;
        assert_eq!((status.as_u16(), &body["kind"]), (404, &json!("not_found")), "{} {path}: {body}", operation.method);
        let nothing: Things = things.iter().map(|(place, thing)| (*place, nobodys(thing))).collect();
        let (_, other) = ask(&operation.path(&nothing)).await;
        assert_eq!(without(&body, things), without(&other, &nothing), "{} {path}", operation.method);
    }

    /// Bob sees a list without anything of Ada's, or is told that what he names is not there.
    async fn is_without_hers(&self, operation: &Operation, path: &str) {
        let (status, body) = self.ask(&self.bob, operation.method.clone(), path, operation.body()).await;
        let changes = CHANGES.iter().find(|(id, _)| *id == operation.id).map(|(_, status)| *status);
        match changes {
            Some(expected) => assert_eq!(status, expected, "{path}: {body}"),
            None => assert!(operation.method == Method::GET, "say in {} what {} does", file!(), operation.id),
        }
        assert!(changes.is_some() || [200, 404].contains(&status.as_u16()), "{path}: {status} {body}");
        self.shows_nothing_of_hers(path, &body.to_string());
    }

    pub fn shows_nothing_of_hers(&self, asked: &str, shown: &str) {
        let ids = self.hers.iter().flatten().filter(|(place, _)| place.ends_with("{id}")).map(|(_, thing)| thing);
        for thing in ids.filter(|thing| thing.len() == 36) {
            assert!(!shown.contains(thing.as_str()), "{asked} shows {thing}: {shown}");
        }
        assert!(!shown.contains("Ada's secret"), "{asked}: {shown}");
    }
}

/// Nothing has this name.
pub fn nobodys(thing: &str) -> String {
    if thing.len() == 36 { uuid::Uuid::now_v7().to_string() } else { format!("{}-nobodys", thing.replace(' ', "-")) }
}

fn without(body: &Value, things: &Things) -> String {
    let mut things: Vec<&String> = things.values().collect();
    // A short one may stand in a long one.
    things.sort_by_key(|thing| std::cmp::Reverse(thing.len()));
    things.into_iter().fold(body.to_string(), |text, thing| text.replace(thing.as_str(), "…"))
}

/// That a token was used is written down when it is.
fn forget_uses(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("last_used_at");
            fields.values_mut().for_each(forget_uses);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_uses),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// keeps B-30
#[tokio::test(flavor = "multi_thread")]
async fn the_things_of_another_user_are_not_there() {
    let (world, operations) = (World::new().await, operations());
    let before = world.seen(&operations).await;
    // Before Bob has made anything that goes by a name of hers.
    for operation in operations.iter().filter(|operation| operation.is_of_a_thing()) {
        for things in &world.hers {
            world.is_not_found(operation, &operation.path(things), things).await;
        }
    }
    for operation in operations.iter().filter(|operation| !operation.is_of_a_thing()) {
        world.is_without_hers(operation, &operation.path(&world.hers[0])).await;
        for path in world.hers.iter().flat_map(|things| operation.queries(things)) {
            world.is_without_hers(operation, &path).await;
        }
    }
    let after = world.seen(&operations).await;
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nothing_is_there() {
    let (world, operations) = (World::new().await, operations());
    for operation in &operations {
        let path = operation.path(&world.hers[0]);
        let (status, body) = world.setup.ask(operation.method.clone(), &path, operation.body()).await;
        assert_eq!((status.as_u16(), &body["kind"]), (401, &json!("unauthorized")), "{}: {body}", operation.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_reading_changes_nothing() {
    let (world, operations) = (World::new().await, operations());
    let reader = world.setup.token("ada", "read").await;
    let changes = |operation: &&Operation| operation.method != Method::GET && !READS.contains(&operation.id.as_str());
    for operation in operations.iter().filter(changes) {
        let path = operation.path(&world.hers[0]);
        let (status, body) = world.ask(&reader, operation.method.clone(), &path, operation.body()).await;
        assert_eq!((status.as_u16(), &body["kind"]), (403, &json!("forbidden")), "{}: {body}", operation.id);
    }
}
