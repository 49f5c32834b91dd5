//! The same walk for assistants: every tool that is listed, called by Bob with what is Ada's. A tool that this file has
//! no example for fails the walk.

use reqwest::Method;
use serde_json::{Value, json};

use crate::walk::{Things, World, nobodys, operations};

const STATELESS: &str = "2026-07-28";

/// What a tool works on, and the other arguments that it needs.
enum Example {
    /// One thing that is kept, under each name that the tool takes for it; the place is the one of the REST walk.
    Of { place: &'static str, names: &'static [&'static str], with: Value },
    /// Nothing that is there already.
    New(Value),
}

const WORKFLOW: &[&str] = &["id", "workflow_id", "workflowId"];
const RUN: &[&str] = &["id", "run_id", "runId"];
const AGENT: &[&str] = &["id", "agent_id", "agentId"];

fn example(tool: &str) -> Example {
    let of = |place, names, with| Example::Of { place, names, with };
    let workflow = |with| of("workflows/{id}", WORKFLOW, with);
    let run = |with| of("runs/{id}", RUN, with);
    let agent = |with| of("agents/{id}", AGENT, with);
    match tool {
        "update_workflow" => workflow(json!({ "name": "taken", "status": "archived" })),
        "get_workflow" | "list_runs" | "list_failed_runs" | "validate_workflow" | "cancel_workflow" => {
            workflow(json!({}))
        }
        "delete_workflow" => workflow(json!({ "confirm": true, "force": true })),
        "schedule_workflow" => workflow(json!({ "schedule_type": "recurring", "cron_expression": "@daily" })),
        "run_workflow" | "execute_workflow" => workflow(json!({ "wait_seconds": 0 })),
        "get_workflow_run" | "get_run" | "cancel_run" | "pause_run" => run(json!({})),
        "retry_run" | "fork_run" => run(json!({ "from": "say", "wait_seconds": 0 })),
        "signal_run" => run(json!({ "name": "go", "wait_seconds": 0 })),
        "plan_workflow" => workflow(json!({ "input": { "topic": "tea" } })),
        "backfill_workflow" => workflow(json!({ "from": "2020-01-01", "to": "2020-01-02" })),
        "bulk_runs" => of("workflows/{id}", WORKFLOW, json!({ "action": "cancel", "confirm": true })),
        "get_bulk" => of("bulk/{id}", &["id"], json!({})),
        "resume_run" => run(json!({ "wait_seconds": 0 })),
        "answer_run" => run(json!({ "answer": true, "wait_seconds": 0 })),
        "get_agent" => agent(json!({})),
        "update_agent" => agent(json!({ "instructions": "Obey Bob." })),
        // What is not Ada's own: a workflow that calls hers, an agent that is called as hers.
        "create_workflow" => {
            Example::New(json!({ "name": "thief", "definition": "steps: [{ id: call, workflow: hers }]" }))
        }
        "create_agent" => Example::New(json!({ "name": "clerk" })),
        "list_workflows" | "list_agents" | "list_tools" | "list_questions" => Example::New(json!({})),
        other => panic!("give {other} an example in {}", file!()),
    }
}

impl Example {
    /// The arguments under each name that the tool takes, with something to be put in the place of Ada's.
    fn arguments(&self, tool: &Value, things: &Things) -> Vec<Value> {
        match self {
            Example::New(arguments) => vec![arguments.clone()],
            Example::Of { place, names, with } => {
                let taken = names.iter().filter(|name| tool["inputSchema"]["properties"].get(**name).is_some());
                let found: Vec<Value> = taken.map(|name| with_field(with, name, &things[place])).collect();
                assert!(!found.is_empty(), "{tool} takes none of {names:?}");
                found
            }
        }
    }
}

fn with_field(arguments: &Value, name: &str, value: &str) -> Value {
    let mut arguments = arguments.clone();
    arguments[name] = json!(value);
    arguments
}

impl World {
    /// One request of MCP: the status, and the one message that is the answer.
    async fn say(&self, token: Option<&str>, method: &str, name: Option<&str>, mut params: Value) -> (u16, Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": { "name": "walk", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = self.setup.request(Method::POST, "/mcp").json(&body).header("mcp-method", method);
        request = request.header("accept", "application/json, text/event-stream");
        request = request.header("mcp-protocol-version", STATELESS);
        request = name.iter().fold(request, |request, name| request.header("mcp-name", *name));
        request = token.iter().fold(request, |request, token| request.bearer_auth(token));
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        let last = text.lines().filter_map(|line| line.strip_prefix("data:")).rfind(|data| !data.trim().is_empty());
        (status, serde_json::from_str(last.unwrap_or(&text)).unwrap_or_else(|_| panic!("{method}: {status} {text}")))
    }

    /// Whether the call went well, and what the model is told.
    async fn call(&self, token: &str, tool: &str, arguments: &Value) -> (bool, String) {
        let params = json!({ "name": tool, "arguments": arguments });
        let (status, answer) = self.say(Some(token), "tools/call", Some(tool), params).await;
        let result = &answer["result"];
        match result["content"][0]["text"].as_str() {
            Some(text) => (result["isError"] != true, text.to_owned()),
            // A tool that is not there is an error of the protocol.
            None => (false, format!("{status} {}", answer["error"]["message"].as_str().unwrap())),
        }
    }

    async fn tools(&self, token: &str) -> Vec<Value> {
        let (_, listed) = self.say(Some(token), "tools/list", None, json!({})).await;
        listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone()
    }

    async fn publish(&self) {
        let path = format!("/api/v1/workflows/{}", self.hers[0]["workflows/{id}"]);
        let (status, body) = self.ask(&self.ada, Method::PATCH, &path, Some(json!({ "published": true }))).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Bob is told the same as if there were nothing, in the same words, whoever he says he is.
    async fn is_no_tool_of_hers(&self, tool: &Value, example: &Example, things: &Things) {
        let name = tool["name"].as_str().unwrap();
        let nothing: Things = things.iter().map(|(place, thing)| (*place, nobodys(thing))).collect();
        let others = example.arguments(tool, &nothing);
        for (hers, nobodys) in example.arguments(tool, things).iter().zip(&others) {
            let (went_well, told) = self.call(&self.bob, name, hers).await;
            assert!(!went_well && told.contains("there is no "), "{name} {hers}: {told}");
            let (_, other) = self.call(&self.bob, name, nobodys).await;
            assert_eq!(without(&told, hers), without(&other, nobodys), "{name} {hers}");
            self.is_refused_as_ada(name, hers).await;
        }
    }

    /// Whoever names another user is told no more than whoever names one that never was.
    async fn is_refused_as_ada(&self, tool: &str, arguments: &Value) {
        let mut told = Vec::new();
        for user in ["ada", "nobody"] {
            let (went_well, text) = self.call(&self.bob, tool, &with_field(arguments, "user_id", user)).await;
            assert!(!went_well, "{tool} {arguments} as {user}: {text}");
            self.shows_nothing_of_hers(tool, &without(&text, arguments));
            told.push(text.replace(user, "…"));
        }
        assert_eq!(told[0], told[1], "{tool} {arguments}");
    }
}

/// Without what was asked for.
fn without(told: &str, arguments: &Value) -> String {
    let asked = arguments.as_object().unwrap().values().filter_map(Value::as_str);
    asked.fold(told.to_owned(), |told, thing| told.replace(thing, "…"))
}

// keeps B-30
#[tokio::test(flavor = "multi_thread")]
async fn no_tool_gives_what_is_another_users() {
    let (world, operations) = (World::new().await, operations());
    let before = world.seen(&operations).await;
    let tools = world.tools(&world.bob).await;
    assert!(tools.len() > 20, "{} tools only", tools.len());
    for tool in &tools {
        let (name, example) = (tool["name"].as_str().unwrap(), example(tool["name"].as_str().unwrap()));
        match &example {
            Example::Of { .. } => {
                for things in &world.hers {
                    world.is_no_tool_of_hers(tool, &example, things).await;
                }
            }
            Example::New(arguments) => {
                world.is_refused_as_ada(name, arguments).await;
                let (_, told) = world.call(&world.bob, name, arguments).await;
                world.shows_nothing_of_hers(name, &told);
            }
        }
    }
    assert_eq!(before, world.seen(&operations).await);
}

/// The other half of the walk: what Bob is refused, Ada is given.
#[tokio::test(flavor = "multi_thread")]
async fn every_tool_that_reads_gives_ada_what_is_hers() {
    let world = World::new().await;
    for tool in world.tools(&world.ada).await.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true) {
        let name = tool["name"].as_str().unwrap();
        for arguments in example(name).arguments(tool, &world.hers[0]) {
            let (went_well, told) = world.call(&world.ada, name, &with_field(&arguments, "user_id", "ada")).await;
            assert!(went_well, "{name} {arguments}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_not_found_by_a_part_of_its_id_either() {
    let world = World::new().await;
    let run = &world.hers[0]["runs/{id}"];
    for (part, nobodys) in [(&run[28..], "00000000"), (&run[..8], "ffffffff")] {
        let (_, told) = world.call(&world.bob, "get_run", &json!({ "id": part })).await;
        let (_, other) = world.call(&world.bob, "get_run", &json!({ "id": nobodys })).await;
        assert_eq!(told.replace(part, "…"), other.replace(nobodys, "…"));
        assert!(!told.contains(run), "{told}");
    }
    let (went_well, told) = world.call(&world.ada, "get_run", &json!({ "id": &run[..2] })).await;
    assert!(!went_well && told.contains("at least 4 characters"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_resource_gives_what_is_another_users() {
    let world = World::new().await;
    let read = async |token: &str, uri: &str| {
        world.say(Some(token), "resources/read", Some(uri), json!({ "uri": uri })).await.1
    };
    let (_, listed) = world.say(Some(&world.bob), "resources/list", None, json!({})).await;
    let listed = listed["result"]["resources"].as_array().unwrap().iter().map(|found| found["uri"].clone());
    assert_eq!(listed.collect::<Vec<_>>(), ["relais://format", "relais://schema"], "what is everybody's");
    for things in &world.hers {
        for (kind, thing) in [("runs", &things["runs/{id}"]), ("workflows", &things["workflows/{id}"])] {
            let nothing = nobodys(thing);
            let (hers, other) = (format!("relais://{kind}/{thing}"), format!("relais://{kind}/{nothing}"));
            let (told, nobodys) = (read(&world.bob, &hers).await, read(&world.bob, &other).await);
            assert!(told["error"].is_object() && told["result"].is_null(), "{hers}: {told}");
            assert_eq!(told.to_string().replace(thing, "…"), nobodys.to_string().replace(&nothing, "…"));
            assert!(read(&world.ada, &hers).await["result"]["contents"][0]["text"].is_string(), "{hers}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_workflow_is_a_tool_of_its_owner_alone() {
    let world = World::new().await;
    world.publish().await;
    let names = async |token: &str| {
        let tools = world.tools(token).await;
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names(&world.ada).await.contains(&"workflow_hers".to_owned()));
    assert!(!names(&world.bob).await.iter().any(|name| name.starts_with("workflow_")));
    let (went_well, told) = world.call(&world.bob, "workflow_hers", &json!({})).await;
    let (_, other) = world.call(&world.bob, "workflow_nobodys", &json!({})).await;
    assert!(!went_well);
    assert_eq!(told.replace("hers", "…"), other.replace("nobodys", "…"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_there_is_no_assistant() {
    let world = World::new().await;
    let run = &world.hers[0]["runs/{id}"];
    for (method, name, params) in [
        ("server/discover", None, json!({})),
        ("tools/list", None, json!({})),
        ("tools/call", Some("get_run"), json!({ "name": "get_run", "arguments": { "id": run } })),
        ("resources/list", None, json!({})),
        ("resources/read", Some("relais://runs/x"), json!({ "uri": format!("relais://runs/{run}") })),
    ] {
        let (status, told) = world.say(None, method, name, params).await;
        assert_eq!((status, &told["kind"]), (401, &json!("unauthorized")), "{method}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_for_reading_no_tool_changes_anything() {
    let (world, operations) = (World::new().await, operations());
    world.publish().await;
    let reader = world.setup.token("ada", "read").await;
    let before = world.seen(&operations).await;
    let mut refused = 0;
    for tool in &world.tools(&reader).await {
        let name = tool["name"].as_str().unwrap();
        let example = if name == "workflow_hers" { Example::New(json!({})) } else { example(name) };
        let arguments = &example.arguments(tool, &world.hers[0])[0];
        let (went_well, told) = world.call(&reader, name, arguments).await;
        let reads = tool["annotations"]["readOnlyHint"] == true;
        assert_eq!(went_well, reads, "{name}: {told}");
        assert!(reads || told.contains("scope"), "{name}: {told}");
        refused += usize::from(!reads);
    }
    assert!(refused > 10, "{refused} tools change something");
    assert_eq!(before, world.seen(&operations).await);
}
