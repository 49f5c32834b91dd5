//! The format `steps`.

use std::path::Path;

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::{Value, json};

use crate::home::Home;
use crate::servers::Shop;

fn llm(uuid: &str, name: &str, prompt: &str) -> Value {
    json!({
        "uuid": uuid, "user_id": "u", "name": name, "description": "", "type": "custom_llm",
        "model": "openai/gpt-4o-mini", "system_prompt": prompt, "generated_summary": null,
    })
}

fn agent(uuid: &str, name: &str, prompt: &str, tools: Value) -> Value {
    let mut step = llm(uuid, name, prompt);
    (step["type"], step["tools"]) = (json!("custom_agent"), tools);
    step
}

/// A checker with conditions `(step, path, operator, target)`.
fn checker(uuid: &str, name: &str, conditions: &[(&str, &str, &str, Value)]) -> Value {
    let condition = |(step, path, operator, target): &(&str, &str, &str, Value)| {
        json!({
            "step_definition_uuid": step, "extraction_json_path": path, "operator": operator, "target_value": target,
        })
    };
    json!({
        "uuid": uuid, "name": name, "type": "stop_checker",
        "stop_conditions": conditions.iter().map(condition).collect::<Vec<_>>(),
    })
}

fn workflow(steps: Vec<Value>) -> Value {
    json!({
        "uuid": "0b7f2a4e-6a2d-4c57-9a56-1f5f0f3f8a10", "user_id": "u", "name": "flow", "description": "",
        "is_active": true, "trigger": null, "steps": steps, "template_id": null, "template_version": null,
        "created_at": "2025-07-16T09:00:00", "updated_at": "2025-07-16T09:00:00",
    })
}

/// The same without what only an export has: written by hand, a key that says nothing is a mistake.
fn by_hand(mut file: Value) -> Value {
    file.as_object_mut().unwrap().retain(|key, _| !["user_id", "created_at", "updated_at"].contains(&key.as_str()));
    file
}

fn home(server: &ModelServer, file: &Value) -> Home {
    let home = Home::with_model(server);
    home.file("flow.json", &serde_json::to_string_pretty(file).unwrap());
    home
}

/// What the model was told: the system message, the user message.
fn told(received: &Received) -> (String, String) {
    let text = |at: usize| received.body["messages"][at]["content"].as_str().unwrap_or_default().to_owned();
    (text(0), text(1))
}

fn tools_of(received: &Received) -> Vec<String> {
    let tools = received.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| Some(tool["function"]["name"].as_str()?.to_owned())).collect()
}

/// A model that answers these texts, one after the other.
fn saying(texts: &[&str]) -> ModelServer {
    let server = ModelServer::start();
    texts.iter().for_each(|text| server.push(Behaviour::say(text)));
    server
}

// keeps B-03
#[test]
fn names_and_descriptions_are_for_people() {
    let server = saying(&["said", "said"]);
    let mut one = llm("s1", "Summarizer", "Summarize <<trigger_output>>");
    one["description"] = json!("Makes it short.");
    let mut two = llm("s2", "Labeler", "Label <<step_output.s1>>");
    two["generated_summary"] = json!("Puts a label on it.");
    let home = home(&server, &workflow(vec![one, two]));
    let plan = ["s1  Summarizer", "Makes it short.", "s2  Labeler", "Puts a label on it."];
    home.relais(&["plan", "flow.json"]).expect(0).prints(&plan);
    home.relais(&["graph", "flow.json"]).expect(0).prints(&["Summarizer", "Labeler"]);
    home.relais(&["run", "flow.json", "the mail"]).expect(0);
    home.relais(&["show", "--last"]).expect(0).prints(&["s1  Summarizer", "s2  Labeler"]);
    let shown = home.relais(&["show", "--last", "--format", "steps"]).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["step_instances"][1]["name"], "Labeler");
}

// keeps B-01, B-02, B-03, B-10, B-11, B-12
#[test]
fn outputs_go_where_the_prompt_names_them() {
    let server = saying(&["a <<trigger_output>> {{ summary }}", "nothing", "labelled"]);
    let home = home(
        &server,
        &workflow(vec![
            llm("summarizer_uuid", "Summarizer", "Summarize {{ this }}: <<trigger_output>>"),
            llm("5b7f2a4e-6a2d-4c57-9a56-1f5f0f3f8a12", "Second", "Say nothing."),
            llm("third", "Labeler", "Label this summary: <<step_output.summarizer_uuid>>"),
        ]),
    );
    let outcome = home.relais(&["run", "flow.json", "the mail"]).expect(0);
    assert_eq!(outcome.stdout.trim(), "labelled");
    let heard: Vec<(String, String)> = server.received().iter().map(told).collect();
    let system =
        ["Summarize {{ this }}: the mail", "Say nothing.", "Label this summary: a <<trigger_output>> {{ summary }}"];
    let expected = system.map(|text| (text.to_owned(), "Execute your task.".to_owned()));
    assert_eq!(heard, expected);
    assert!(server.received().iter().all(|received| tools_of(received).is_empty()));
    let trace = home.expect_status("completed");
    assert_eq!(trace["steps"][1]["key"], "5b7f2a4e-6a2d-4c57-9a56-1f5f0f3f8a12");
}

// keeps B-09, B-10, B-12
#[test]
fn trigger_data_goes_in_as_markdown_or_text_or_json() {
    let check = |input: &[&str], expected: &str| {
        let server = saying(&["ok"]);
        let home = home(&server, &workflow(vec![llm("a", "A", "<<trigger_output>>")]));
        home.relais(&[&["run", "flow.json"], input].concat()).expect(0);
        assert_eq!(told(&server.received()[0]).0, expected);
    };
    check(&["a prompt"], "a prompt");
    check(&["--input", "size=3", "--input", "from=ann"], r#"{"size":3,"from":"ann"}"#);
    check(&["--input", "markdown_representation=# Mail", "--input", "raw_data={}"], "# Mail");
}

// keeps B-04, B-35
#[test]
fn an_agent_has_the_tools_that_are_switched_on() {
    let server = ModelServer::start();
    server.push(Behaviour::Say(Said::text("").call("list_files", "{}")));
    server.push(Behaviour::Say(Said::text("").call("list_files", "{\"path\": \".\"}")));
    server.push(Behaviour::say("done"));
    let tools = json!({ "list_files": { "enabled": true }, "write_file": { "enabled": false } });
    let home = home(&server, &workflow(vec![agent("a", "Worker", "Work.", tools)]));
    assert_eq!(home.relais(&["run", "flow.json", "x"]).expect(0).stdout.trim(), "done");
    // It went on until the model answered without a call.
    assert_eq!(server.received().len(), 3);
    assert!(server.received().iter().all(|received| tools_of(received) == ["list_files"]));
}

/// Runs one step that says this, a checker, and a step behind it; whether the checker stopped the run.
fn stops(said: &str, conditions: &[(&str, &str, &str, Value)]) -> bool {
    let server = saying(&[said, "went on"]);
    let home =
        home(&server, &workflow(vec![llm("a", "A", "x"), checker("c", "Check", conditions), llm("b", "B", "y")]));
    home.relais(&["run", "flow.json", "x"]).expect(0);
    let status = home.show()["status"].as_str().unwrap().to_owned();
    let stopped = status == "stopped";
    assert!(stopped || status == "completed", "{status}");
    assert_eq!(server.received().len(), if stopped { 1 } else { 2 });
    stopped
}

// keeps B-05, B-06, B-18
#[test]
fn conditions_stop_the_run() {
    let said = r#"{"score": 4, "label": "spam", "tags": ["x", "y"], "none": null, "deep": {"a": [1, 2]}}"#;
    let check = |path: &str, operator: &str, target: Value, expected: bool| {
        assert_eq!(stops(said, &[("a", path, operator, target.clone())]), expected, "{path} {operator} {target}");
    };
    check("$.score", "equals", json!(4.0), true);
    check("$.score", "equals", json!("4"), false);
    check("$.score", "not_equals", json!(5), true);
    check("$.score", "greater_than", json!(3), true);
    check("$.score", "less_than", json!(4), false);
    check("$.label", "contains", json!("pa"), true);
    check("$.tags", "contains", json!("y"), true);
    check("$.tags[*]", "equals", json!("y"), true);
    check("$.none", "equals", json!(null), true);
    check("$.deep", "equals", json!({ "a": [1, 2] }), true);
    check("$..a[?@ > 1]", "equals", json!(2), true);
    // What is not there is no match, whatever the operator.
    check("$.missing", "not_equals", json!(1), false);
    assert!(stops("plain text", &[("a", "$", "contains", json!("text"))]));
}

// keeps B-43
#[test]
fn placeholders_work_in_the_conditions_of_a_checker() {
    let status = |limit: &str, path: &str, operator: &str, target: Value| {
        let server = saying(&[r#"{"score": 4, "label": "mail of Ada"}"#, limit]);
        let check = checker("c", "Check", &[("a", path, operator, target)]);
        let home = home(&server, &workflow(vec![llm("a", "A", "x"), llm("b", "B", "y"), check]));
        home.relais(&["run", "flow.json", "score"]).expect(0);
        home.show()["status"].as_str().unwrap().to_owned()
    };
    let limit = || json!("<<step_output.b>>");
    assert_eq!(status("3", "$.score", "greater_than", limit()), "stopped");
    assert_eq!(status("5", "$.score", "greater_than", limit()), "completed");
    // Among other text it is its text; a path may be put together, too.
    assert_eq!(status("Ada", "$.label", "equals", json!("mail of <<step_output.b>>")), "stopped");
    assert_eq!(status("x", "$.<<trigger_output>>", "equals", json!(4)), "stopped");
    assert_eq!(status("x", "$.score", "equals", json!("<<unknown>>")), "completed", "what is no placeholder is text");
}

// keeps B-07
#[test]
fn any_of_several_conditions_stops() {
    let no = ("a", "$.n", "equals", json!(0));
    let yes = ("a", "$.n", "equals", json!(1));
    assert!(stops(r#"{"n": 1}"#, &[no.clone(), yes]));
    assert!(!stops(r#"{"n": 1}"#, &[no.clone(), no]));
}

// keeps B-06
#[test]
fn a_condition_without_a_match_shows_in_the_trace() {
    let server = saying(&[r#"{"n": 1}"#]);
    let check = checker("c", "Check", &[("a", "$.m", "equals", json!(1)), ("a", "$.n", "equals", json!(2))]);
    let home = home(&server, &workflow(vec![llm("a", "A", "x"), check]));
    // A checker yields nothing: the result is that of the step before it.
    assert_eq!(home.relais(&["run", "flow.json", "x"]).expect(0).json(), json!({ "n": 1 }));
    let trace = home.expect_status("completed").to_string();
    assert!(trace.contains(r#""found_1":[]"#) && trace.contains(r#""found_2":[1]"#), "{trace}");
}

// keeps B-06, B-19
#[test]
fn order_of_what_is_no_number_fails_the_run() {
    let server = saying(&[r#"{"n": "many"}"#]);
    let check = checker("c", "Check", &[("a", "$.n", "greater_than", json!(1))]);
    let home = home(&server, &workflow(vec![llm("a", "A", "x"), check, llm("b", "B", "y")]));
    home.relais(&["run", "flow.json", "x"]).expect(1);
    home.expect_failure("schema", &["many"]);
    assert_eq!(server.received().len(), 1);
}

// keeps B-19
#[test]
fn a_failed_step_ends_the_run() {
    let server = ModelServer::start();
    server.always(Behaviour::status(400));
    let home = home(&server, &workflow(vec![llm("a", "A", "x"), llm("b", "B", "y")]));
    home.relais(&["run", "flow.json", "x"]).expect(1);
    home.expect_status("failed");
    assert_eq!(server.received().len(), 1);
}

/// The file is refused, and nothing starts.
fn refused(file: &Value, parts: &[&str]) {
    let home = Home::new();
    home.file("flow.json", &serde_json::to_string_pretty(file).unwrap());
    home.relais(&["validate", "flow.json"]).expect(2).says(parts);
    home.relais(&["run", "flow.json", "--simulate"]).expect(2).says(parts);
    assert_eq!(home.entries(), 0);
}

// keeps B-40
#[test]
fn a_step_of_type_and_name_alone_is_not_run() {
    let bare = |kind: &str| workflow(vec![json!({ "uuid": "a", "name": "Fresh", "type": kind })]);
    refused(&bare("custom_llm"), &["`Fresh` has no `model`", "`Fresh` has no `system_prompt`"]);
    refused(&bare("custom_agent"), &["`Fresh` has no `model`", "`Fresh` has no `system_prompt`"]);
    refused(&bare("stop_checker"), &["`Fresh` has no `stop_conditions`"]);
    refused(&workflow(vec![llm("a", "Same", "x"), llm("b", "Same", "y")]), &["two steps have the name `Same`"]);
}

// keeps B-02, B-05, B-11
#[test]
fn references_that_cannot_be_read_are_refused() {
    let first = || llm("first", "First", "x");
    let with = |prompt: &str| {
        workflow(vec![
            first(),
            checker("c", "Check", &[("first", "$", "equals", json!(1))]),
            llm("second", "Second", prompt),
            llm("third", "Third", "y"),
        ])
    };
    let before = "steps before it: first (First)";
    refused(&with("<<step_output.nowhere>>"), &["no step has the uuid `nowhere`", before]);
    refused(&with("<<step_output.third>>"), &["`Third` comes later", before]);
    refused(&with("<<step_output.second>>"), &["`Second` cannot read its own output", before]);
    refused(&with("<<step_output.c>>"), &["`Check` is a stop_checker and has no output", before]);
    refused(&with("<<triger_output>>"), &["did you mean `<<trigger_output>>`?"]);
    let mut tools = with("x");
    tools["steps"][0]["tools"] = json!({});
    refused(&by_hand(tools), &["`tools` has no effect on a custom_llm step", "custom_agent"]);
    let mut kind = with("x");
    kind["steps"][0]["type"] = json!("custom_lm");
    refused(&kind, &["no type of step `custom_lm`", "did you mean `custom_llm`?"]);
    let mut path = with("x");
    path["steps"][1]["stop_conditions"][0]["extraction_json_path"] = json!("$.[");
    refused(&path, &["is no JSONPath"]);
    let mut late = with("x");
    late["steps"][1]["stop_conditions"][0]["step_definition_uuid"] = json!("third");
    refused(&late, &["`Third` comes later"]);
}

// keeps B-09
#[test]
fn a_trigger_says_what_it_brings() {
    let mut file = workflow(vec![llm("a", "A", "x")]);
    file["trigger"] = json!({ "filter_rules": { "folder": "inbox" } });
    refused(&file, &["a trigger needs an `initial_data_description`"]);
    file["trigger"]["initial_data_description"] = json!("A mail");
    let home = Home::new();
    home.file("flow.json", &file.to_string());
    let converted = home.relais(&["convert", "flow.json"]).expect(0).stdout;
    for part in ["Initial data: A mail", "event: 0b7f2a4e", "folder", "inbox"] {
        assert!(converted.contains(part), "{part} in {converted}");
    }
    // A workflow that is switched off has no trigger, and may be run by hand.
    file["is_active"] = json!(false);
    home.file("flow.json", &file.to_string());
    assert!(!home.relais(&["convert", "flow.json"]).expect(0).stdout.contains("triggers"));
    home.relais(&["run", "flow.json", "x", "--simulate"]).expect(0);
}

// keeps B-08
#[test]
fn a_workflow_is_active_unless_it_says_otherwise() {
    let mut file = workflow(vec![llm("a", "A", "x")]);
    file["trigger"] = json!({ "initial_data_description": "A mail" });
    file["trigger_uuid"] = json!(null);
    file.as_object_mut().unwrap().remove("is_active");
    let home = Home::new();
    home.file("flow.json", &file.to_string());
    let converted = home.relais(&["convert", "flow.json"]).expect(0).stdout;
    for part in ["name: flow", "alias: 0b7f2a4e-6a2d-4c57-9a56-1f5f0f3f8a10", "triggers"] {
        assert!(converted.contains(part), "{part} in {converted}");
    }
    file["is_activ"] = json!(true);
    refused(&by_hand(file), &["unknown key `is_activ`", "did you mean `is_active`?"]);
}

// keeps B-39
#[test]
fn each_output_stands_with_its_step() {
    let server = saying(&["# One", "two"]);
    let home = home(&server, &workflow(vec![llm("a", "A", "x"), llm("b", "B", "y")]));
    home.relais(&["run", "flow.json", "x"]).expect(0);
    let trace = home.expect_status("completed");
    let outputs: Vec<&Value> = trace["steps"].as_array().unwrap().iter().map(|step| &step["output"]).collect();
    assert!(outputs[0].to_string().contains("# One") && outputs[1].to_string().contains("two"), "{outputs:?}");
}

#[test]
fn the_example_runs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/steps/label-mail.json").display().to_string();
    let home = Home::new();
    home.relais(&["validate", &file]).expect(0);
    home.relais(&["run", &file, "A mail", "--simulate"]).expect(0);
}

#[test]
fn the_tools_of_mcp_servers_are_listed() {
    // keeps B-27
    let home = Home::new();
    let shop = Shop::new(&home);
    let arguments = shop.command().replacen("python3, ", "", 1);
    home.settings(&format!("[mcp.shop]\ncommand = \"python3\"\nargs = {arguments}\n"));
    let listed = home.relais(&["tools", "--mcp", "shop", "--json"]).expect(0).stdout;
    let tools: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["tool"].as_str()).collect();
    assert_eq!(names, ["mcp:shop/confide", "mcp:shop/look", "mcp:shop/pay", "mcp:shop/put"]);
    assert_eq!(tools[1]["parameters"]["properties"]["n"]["type"], "integer", "{listed}");
}
