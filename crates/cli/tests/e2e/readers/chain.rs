//! The format `chain`.

use std::path::Path;

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::{Value, json};

use crate::home::Home;
use crate::servers::Shop;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn example(name: &str) -> String {
    Path::new(ROOT).join("examples/chain").join(name).canonicalize().unwrap().display().to_string()
}

fn executor(id: &str, prompt: &str, schema: Value) -> Value {
    json!({"executor_id": id, "name": id, "model": "openai/gpt-4o-mini", "tools": [], "system_prompt": prompt,
           "output_schema": schema})
}

/// A chain in a home whose models are behind a server.
fn chain(server: &ModelServer, executors: &[Value]) -> Home {
    let home = Home::with_model(server);
    let spec = json!({"workflow_id": "c1", "name": "Chain", "description": "d", "executors": executors});
    home.file("chain.json", &spec.to_string());
    home
}

/// What a message of a role said in a request.
fn said(received: &Received, role: &str) -> String {
    let messages = received.body["messages"].as_array().unwrap();
    let found = messages.iter().find(|message| message["role"] == role);
    found.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

fn step<'t>(trace: &'t Value, key: &str) -> &'t Value {
    trace["steps"].as_array().unwrap().iter().find(|step| step["key"] == key).unwrap()
}

#[test]
fn the_examples_run_as_they_are_written() {
    // keeps A-03, A-09
    for (file, steps) in [("daily-price-monitor.py", 3), ("daily-price-monitor.json", 3), ("price-monitor.py", 2)] {
        let home = Home::new();
        home.relais(&["run", &example(file), "--simulate", "--seed", "7"]).expect(0);
        let trace = home.expect_status("completed");
        assert_eq!(trace["steps"].as_array().unwrap().len(), steps, "{file}: {trace:#}");
    }
}

#[test]
fn names_and_descriptions_are_for_people() {
    // keeps A-01, A-29
    let server = ModelServer::start();
    server.always(Behaviour::say(r#"{"x": 1}"#));
    let mut fetch = executor("fetch", "Fetch", json!({"x": "int"}));
    (fetch["name"], fetch["description"]) = (json!("Price Fetcher"), json!("Asks the shops."));
    let home = chain(&server, &[fetch]);
    home.relais(&["plan", "chain.json"]).expect(0).prints(&["fetch  Price Fetcher", "Asks the shops."]);
    home.relais(&["graph", "chain.json"]).expect(0).prints(&["Price Fetcher"]);
    home.relais(&["run", "chain.json"]).expect(0);
    home.relais(&["show", "--last"]).expect(0).prints(&["fetch  Price Fetcher"]);
    let shown = home.relais(&["show", "--last", "--format", "chain"]).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["executor_runs"][0]["executor_id"], "fetch");
    assert_eq!(shown["executor_runs"][0]["executor_name"], "Price Fetcher");
    let db = rusqlite::Connection::open(home.database()).unwrap();
    let name = "SELECT executor_name FROM workflow_executor_runs";
    assert_eq!(db.query_row(name, [], |row| row.get::<_, String>(0)).unwrap(), "Price Fetcher");
    for received in server.received() {
        assert!(!received.body.to_string().contains("Asks the shops"), "{}", received.body);
    }
}

#[test]
fn outputs_reach_the_next_prompt() {
    // keeps A-05, A-06, A-07, A-08, A-09
    let server = ModelServer::start();
    for text in [r#"{"prices": [{"p": 1}], "s": "x"}"#, r#"{"y": 2}"#, r#"{"z": 3}"#] {
        server.push(Behaviour::say(text));
    }
    let home = chain(
        &server,
        &[
            executor("a", "First: $previous_output", json!({"prices": [{"p": "int"}], "s": "str"})),
            executor(
                "b",
                "All: $previous_output. List: $previous_output.prices; {previous_output.s}; {previous_output}",
                json!({"y": "int"}),
            ),
            executor("c", "No reference {{ here }}", json!({"z": "int"})),
        ],
    );
    home.relais(&["run", "chain.json"]).expect(0);
    let received = server.received();
    assert!(said(&received[0], "system").starts_with("First: $previous_output"));
    let whole = "{\n  \"prices\": [\n    {\n      \"p\": 1\n    }\n  ],\n  \"s\": \"x\"\n}";
    let second = said(&received[1], "system");
    let expected = format!("All: {whole}. List: [\n  {{\n    \"p\": 1\n  }}\n]; x; {whole}");
    assert!(second.starts_with(&expected), "{second}");
    assert_eq!(said(&received[1], "user"), "Execute your task.");
    assert!(said(&received[2], "system").starts_with("No reference {{ here }}"));
    let third = said(&received[2], "user");
    assert!(third.starts_with("Previous executor outputs:\n{\n  \"a\": {\n    \"prices\": ["), "{third}");
    assert!(third.ends_with("  \"b\": {\n    \"y\": 2\n  }\n}\n\nNow execute your task."), "{third}");
}

#[test]
fn executors_share_variables_and_the_trace_shows_them() {
    // keeps A-09, A-44
    let server = ModelServer::start();
    for text in [r#"{"prices": [{"p": 1}]}"#, r#"{"y": 2}"#, r#"{"z": 3}"#] {
        server.push(Behaviour::say(text));
    }
    let mut first = executor("a", "First.", json!({"prices": [{"p": "int"}]}));
    first["set"] = json!({"cheapest": "$output.prices[0]", "region": "EU"});
    let second = executor("b", "Second.", json!({"y": "int"}));
    let third = executor("c", "In $shared.region: {shared.cheapest.p}. Not $shared.", json!({"z": "int"}));
    let home = chain(&server, &[first, second, third]);
    home.relais(&["run", "chain.json"]).expect(0);
    assert!(said(&server.received()[2], "system").starts_with("In EU: 1. Not $shared."));
    let trace = home.expect_status("completed");
    assert_eq!(step(&trace, "a")["vars"], json!({"cheapest": {"p": 1}, "region": "EU"}));
    home.relais(&["show", "--last"]).expect(0).prints(&["set region = EU"]);
    let unset = executor("d", "In $shared.regoin.", json!({"z": "int"}));
    chain(&server, &[unset]).relais(&["run", "chain.json"]).expect(2).says(&["no step sets the variable `regoin`"]);
}

#[test]
fn an_unknown_tool_is_refused_and_only_listed_tools_are_offered() {
    // keeps A-10
    let server = ModelServer::start();
    server.always(Behaviour::say(r#"{"x": 1}"#));
    let mut wrong = executor("a", "A", json!({"x": "int"}));
    wrong["tools"] = json!(["serch_web"]);
    chain(&server, &[wrong]).relais(&["run", "chain.json"]).expect(2).says(&["serch_web", "search_web"]);
    let mut listed = executor("a", "A", json!({"x": "int"}));
    listed["tools"] = json!(["read_file", "execute_python"]);
    chain(&server, &[listed]).relais(&["run", "chain.json"]).expect(0);
    let received = server.received();
    let offered = received.last().unwrap().body["tools"].as_array().unwrap();
    let names: Vec<&str> = offered.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert_eq!(names, ["read_file", "run_python"]);
}

#[test]
fn a_failure_stops_the_chain_keeps_the_last_output_and_can_be_resumed() {
    // keeps A-11, A-13, A-25
    let server = ModelServer::start();
    server.push(Behaviour::say(r#"{"x": 1}"#));
    server.push(Behaviour::status(401));
    let steps = ["a", "b", "c"].map(|id| executor(id, "Go on from $previous_output", json!({"x": "int"})));
    let home = chain(&server, &steps);
    home.relais(&["run", "chain.json"]).expect(1);
    let trace = home.expect_status("partial_success");
    assert_eq!(trace["output"]["value"], json!({"x": 1}));
    let last = trace["steps"].as_array().unwrap().iter().find(|step| step["key"] == "c").unwrap();
    assert_eq!((&last["status"], &last["attempts"]), (&json!("skipped"), &json!(0)), "it never starts");
    assert_eq!(server.received().len(), 2);
    server.push(Behaviour::say(r#"{"x": 2}"#));
    server.push(Behaviour::say(r#"{"x": 3}"#));
    home.relais(&["resume", "--last"]).expect(0);
    assert_eq!(home.expect_status("completed")["output"]["value"], json!({"x": 3}));
    assert_eq!(server.received().len(), 4, "the first executor is not asked again");
}

#[test]
fn a_failure_of_the_first_executor_is_no_partial_success() {
    // keeps A-13
    let server = ModelServer::start();
    server.always(Behaviour::status(401));
    let home = chain(&server, &[executor("a", "A", json!({"x": "int"}))]);
    home.relais(&["run", "chain.json"]).expect(1);
    home.expect_status("failed");
}

#[test]
fn loops_in_a_prompt_stay_in_one_executor() {
    // keeps A-14
    let server = ModelServer::start();
    for n in 0..3 {
        server.push(Behaviour::Say(Said::text("").call("list_files", &format!("{{\"path\": \".\", \"n\": {n}}}"))));
    }
    server.push(Behaviour::say(r#"{"x": 3}"#));
    let mut one = executor("a", "Keep calling list_files until it is complete or max 10 tries", json!({"x": "int"}));
    one["tools"] = json!(["list_files"]);
    let home = chain(&server, &[one]);
    home.relais(&["run", "chain.json"]).expect(0);
    let trace = home.expect_status("completed");
    assert_eq!(trace["steps"].as_array().unwrap().len(), 1);
    let calls = step(&trace, "a")["calls"].as_array().unwrap();
    assert_eq!(calls.iter().filter(|call| call["what"] == "tool").count(), 3);
}

#[test]
fn loops_in_the_spec_are_kept_by_the_engine() {
    // keeps A-15, A-16
    let server = ModelServer::start();
    for text in [
        r#"{"items": ["p", "q", "r"]}"#,
        r#"{"n": 1}"#,
        r#"{"n": 2}"#,
        r#"{"status": "pending"}"#,
        r#"{"status": "complete"}"#,
        r#"{"status": "pending"}"#,
        r#"{"status": "pending"}"#,
    ] {
        server.push(Behaviour::say(text));
    }
    let looped = |id: &str, prompt: &str, schema: Value, spec: Value| {
        let mut made = executor(id, prompt, schema);
        made["loop"] = spec;
        made
    };
    let until = |max: u32| json!({"type": "repeat_until", "predicate_path": "status", "predicate_value": "complete", "max_iters": max});
    let each = json!({"type": "for_each", "input_path": "items", "max_items": 2});
    let home = chain(
        &server,
        &[
            executor("list", "List", json!({"items": ["str"]})),
            looped("each", "Item $previous_output", json!({"n": "int"}), each),
            looped("done", "Poll", json!({"status": "str"}), until(5)),
            looped("limit", "Poll", json!({"status": "str"}), until(2)),
        ],
    );
    home.relais(&["run", "chain.json"]).expect(0);
    let trace = home.expect_status("completed");
    assert!(said(&server.received()[2], "system").starts_with("Item q"));
    assert_eq!(trace["output"]["value"], json!({"status": "pending"}));
    let note = |key: &str| step(&trace, key)["note"].to_string();
    assert!(note("limit").contains("limit"), "{}", note("limit"));
    assert!(note("each").contains("1 left out"), "{}", note("each"));
    assert_eq!(server.received().len(), 7);
}

#[test]
fn output_that_does_not_fit_is_corrected_within_bounds() {
    // keeps A-04, A-17, A-29
    let server = ModelServer::start();
    server.push(Behaviour::say("no JSON"));
    server.push(Behaviour::say(r#"{"x": "one"}"#));
    server.push(Behaviour::say(r#"{"x": 1}"#));
    let home = chain(&server, &[executor("a", "A", json!({"x": "int"}))]);
    home.relais(&["run", "chain.json"]).expect(0);
    assert_eq!(server.received().len(), 3);
    let shown = home.relais(&["show", "--last", "--format", "chain"]).expect(0).json();
    assert_eq!(shown["executor_runs"][0]["retry_count"], 2, "{shown:#}");
    let db = rusqlite::Connection::open(home.database()).unwrap();
    let counted: u32 = db.query_row("SELECT retry_count FROM workflow_executor_runs", [], |row| row.get(0)).unwrap();
    assert_eq!(counted, 2, "corrections count as retries");
    let never = ModelServer::start();
    never.always(Behaviour::say("no JSON"));
    let home = chain(&never, &[executor("a", "A", json!({"x": "int"}))]);
    home.relais(&["run", "chain.json"]).expect(1);
    assert_eq!(never.received().len(), 4, "one answer and three corrections");
}

#[test]
fn a_large_output_is_a_file_that_the_next_executor_can_read() {
    // keeps A-18, A-19
    let server = ModelServer::start();
    let large = json!({"list": vec!["0123456789"; 10_000]});
    server.push(Behaviour::say(&large.to_string()));
    server.answer_by(|received| {
        let system = said(received, "system");
        let shown: Value =
            serde_json::from_str(system.split("<<<").nth(1).unwrap().split(">>>").next().unwrap()).unwrap();
        assert_eq!(shown["meta"]["count"], 10_000);
        assert!(shown["summary"].as_str().unwrap().len() <= 200);
        let path = shown["output_ref"]["path"].as_str().unwrap().to_owned();
        let is_read = received.body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
        match is_read {
            true => Behaviour::say(r#"{"ok": true}"#),
            false => {
                let arguments = json!({"path": path, "limit": 200}).to_string();
                Behaviour::Say(Said::text("").call("read_file", &arguments))
            }
        }
    });
    let mut elsewhere = executor("a", "A", json!({"list": ["str"]}));
    elsewhere["output_ref"] = json!({"type": "kb"});
    chain(&server, &[elsewhere]).relais(&["validate", "chain.json"]).expect(2).says(&["no knowledge store"]);
    let mut second = executor("b", "See <<<$previous_output>>>", json!({"ok": "bool"}));
    second["tools"] = json!(["read_file"]);
    let home = chain(&server, &[executor("a", "A", json!({"list": ["str"]})), second]);
    home.relais(&["run", "chain.json", "--thread", "t 1"]).expect(0);
    let trace = home.expect_status("completed");
    let calls = step(&trace, "b")["calls"].as_array().unwrap();
    let read = calls.iter().find(|call| call["what"] == "tool").unwrap();
    let path = read["input"]["path"].as_str().unwrap();
    let run = trace["run"].as_str().unwrap();
    assert_eq!(path, format!("data/users/t_1/workflows/{run}/executor_a.json"));
    assert_eq!(read["status"], "success");
    assert!(read["output"].to_string().contains("0123456789"), "{read:#}");
}

#[test]
fn schedules_in_words_are_understood_or_refused() {
    // keeps A-03, A-21
    let home = Home::new();
    let spec = |more: Value| {
        let mut spec = json!({"name": "S", "executors": [executor("a", "A", json!({"x": "int"}))]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec.to_string()
    };
    for (more, expected) in [
        (json!({"schedule_type": "recurring", "cron_expression": "daily at 9am"}), "0 9 * * *"),
        (json!({"schedule_type": "recurring", "cron_expression": "0 9 * * MON-FRI"}), "0 9 * * MON-FRI"),
        (json!({"schedule_type": "scheduled", "schedule_time": "tomorrow 9am"}), "tomorrow 9am"),
        (json!({"notify_on_complete": true, "notify_on_failure": false}), "on_complete: true"),
    ] {
        home.file("s.json", &spec(more));
        let native = home.relais(&["convert", "s.json"]).expect(0).stdout;
        assert!(native.contains(expected), "{expected} in {native}");
    }
    // Told of a failure and not of success: as in the native format, where nothing is said.
    home.file("s.json", &spec(json!({})));
    let native = home.relais(&["convert", "s.json"]).expect(0).stdout;
    assert!(!native.contains("notify") && !native.contains("triggers"), "{native}");
    for (more, expected) in [
        (json!({"schedule_type": "recurring", "cron_expression": "now and then"}), "schedules that are understood"),
        (json!({"schedule_type": "recurring"}), "needs `cron_expression`"),
        (json!({"schedule_type": "scheduled", "schedule_time": "some day"}), "times that are understood"),
        (json!({"schedule_type": "often"}), "immediate, scheduled, recurring"),
        (json!({"cron_expression": "@daily"}), "has no effect"),
        (json!({"thread_id": "t"}), "--thread"),
    ] {
        home.file("s.json", &spec(more));
        home.relais(&["validate", "s.json"]).expect(2).says(&[expected]);
    }
}

#[test]
fn an_executor_is_what_its_spec_says() {
    // keeps A-01, A-02, A-04
    let server = ModelServer::start();
    server.always(Behaviour::say(r#"{"s": "x", "n": 1, "f": 0.5, "b": true, "list": [{"p": 1}]}"#));
    let shorthand = json!({"s": "str", "n": "int", "f": "float", "b": "bool", "list": [{"p": "float"}]});
    // No description; a hint about how often it goes round.
    let mut spec = executor("a", "Fetch.", shorthand);
    (spec["tools"], spec["iteration_hint"]) = (json!(["read_file"]), json!("Once per product."));
    let home = chain(&server, &[spec, executor("b", "Report.", json!({"s": "str"}))]);
    home.relais(&["run", "chain.json"]).expect(0);
    let received = server.received();
    let body = &received[0].body;
    assert_eq!(body["model"], "gpt-4o-mini");
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
    assert!(said(&received[0], "system").starts_with("Fetch.\n\nIteration hint: Once per product."));
    assert!(!said(&received[1], "system").contains("Iteration hint"));
    let schema = &body["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["required"], json!(["s", "n", "f", "b", "list"]));
    for (path, kind) in [
        ("s/type", "string"),
        ("n/type", "integer"),
        ("f/type", "number"),
        ("b/type", "boolean"),
        ("list/type", "array"),
        ("list/items/type", "object"),
        ("list/items/properties/p/type", "number"),
    ] {
        assert_eq!(schema["properties"].pointer(&format!("/{path}")), Some(&json!(kind)), "{path} in {schema:#}");
    }
}

/// The manifest kept with the newest version of a workflow.
fn manifest(home: &Home, name: &str) -> Value {
    let db = rusqlite::Connection::open(home.database()).unwrap();
    let query = "SELECT d.body FROM documents d JOIN records w ON w.kind = 'workflow' AND w.id = d.name \
                 WHERE d.kind = 'workflow' AND w.label = ?1 ORDER BY d.version DESC LIMIT 1";
    let body: String = db.query_row(query, [name], |row| row.get(0)).unwrap();
    serde_json::from_str::<Value>(&body).unwrap()["manifest"].clone()
}

#[test]
fn the_tools_of_a_chain_are_kept_with_it() {
    // keeps A-22, A-23
    let server = ModelServer::start();
    server.always(Behaviour::say(r#"{"x": 1}"#));
    let mut one = executor("a", "A", json!({"x": "int"}));
    one["tools"] = json!(["read_file"]);
    let home = chain(&server, &[one.clone()]);
    home.relais(&["run", "chain.json"]).expect(0);
    let kept = manifest(&home, "Chain");
    assert!(kept["hash"].as_str().unwrap().starts_with("sha256:"), "{kept}");
    assert_eq!(kept["hash"].as_str().unwrap().len(), "sha256:".len() + 64);
    assert_eq!(kept["version"].as_str().unwrap().len(), "2026-01-16".len());
    assert!(kept.get("tools").is_none(), "{kept}");
    let home = chain(&server, &[one]).set("DEBUG_WORKFLOWS", "true");
    home.relais(&["run", "chain.json"]).expect(0);
    let kept = manifest(&home, "Chain");
    assert_eq!(kept["tools"][0]["name"], "read_file");
    assert_eq!(kept["tools"][0]["args"]["path"]["type"], "string");
}

#[test]
fn a_run_can_be_cancelled_and_keeps_what_it_has() {
    // keeps A-25
    let server = ModelServer::start();
    server.push(Behaviour::say(r#"{"x": 1}"#));
    server.push(Behaviour::Silence);
    let steps = ["a", "b"].map(|id| executor(id, "Go on from $previous_output", json!({"x": "int"})));
    let home = chain(&server, &steps);
    let process = home.start(&["run", "chain.json"]);
    crate::home::wait_until("the second executor is asked", || (server.received().len() == 2).then_some(()));
    process.signal("INT");
    process.end().expect(130);
    let trace = home.expect_status("cancelled");
    assert_eq!(trace["output"]["value"], json!({"x": 1}));
}

/// What is said where the shop's tool has grown.
const DRIFT: &str = "the tools of `Chain` have changed since version 1 was made: `mcp:shop/look`: `n` takes something \
                     else, `unit` is new and must be given";

#[test]
fn tools_that_have_changed_are_told_wherever_a_run_starts() {
    // keeps A-24
    let server = ModelServer::start();
    server.always(Behaviour::say(r#"{"x": 1}"#));
    let mut one = executor("a", "A", json!({"x": "int"}));
    one["tools"] = json!(["mcp:shop/look"]);
    let home = chain(&server, &[one]);
    let shop = Shop::new(&home);
    let args = shop.command().replacen("[python3, ", "[", 1);
    home.settings(&format!("[mcp.shop]\ncommand = \"python3\"\nargs = {args}\n"));
    home.relais(&["run", "chain.json"]).expect(0);
    home.relais(&["workflows", "save", "chain.json", "--alias", "kept"]).expect(0);
    shop.feel("grown");
    // A file and a kept workflow, on the command line and in the trace.
    for started in [&["run", "chain.json"], &["run", "kept"]] {
        let told = home.relais(started).expect(0);
        assert_eq!(told.stderr.matches(DRIFT).count(), 1, "{started:?}: {}", told.stderr);
        assert_eq!(home.show()["drift"], DRIFT, "{started:?}");
        assert!(home.relais(&["show", "--last"]).stdout.contains(DRIFT));
    }
    // A definition can say that this is no warning: nothing is paid for then.
    let strict = home.relais(&["convert", "chain.json"]).expect(0).stdout;
    shop.feel("answer");
    home.file("strict.yaml", &format!("on_tool_drift: fail\n{strict}").replace("name: Chain", "name: Strict"));
    home.relais(&["workflows", "save", "strict.yaml"]).expect(0);
    shop.feel("grown");
    let asked = server.received().len();
    home.relais(&["run", "Strict"]).expect(2).says(&["`mcp:shop/look`: `n` takes something else", "accept-tools"]);
    assert_eq!(server.received().len(), asked);
    // Once they are accepted they are the known ones.
    home.relais(&["workflows", "accept-tools", "kept"]).expect(0).says(&["version 2"]);
    home.relais(&["workflows", "accept-tools", "kept"]).expect(0).says(&["nothing was changed"]);
    let told = home.relais(&["run", "kept"]).expect(0);
    assert!(!told.stderr.contains("have changed") && home.show().get("drift").is_none(), "{}", told.stderr);
    home.relais(&["workflows", "accept-tools", "Strict"]).expect(0);
    home.relais(&["run", "Strict"]).expect(0);
}

#[test]
fn a_tool_that_takes_too_long_shows_at_the_call_and_at_the_executor() {
    // keeps A-39
    let server = ModelServer::start();
    server.push(Behaviour::say(r#"{"x": 1}"#));
    let code = json!({"code": "while True: pass", "timeout_s": 1}).to_string();
    server.push(Behaviour::Say(Said::text("").call("run_python", &code)));
    server.always(Behaviour::say("I cannot go on."));
    let mut second = executor("b", "B $previous_output", json!({"y": "int"}));
    second["tools"] = json!(["execute_python"]);
    let home = chain(&server, &[executor("a", "A", json!({"x": "int"})), second]);
    home.settings("[tools.run_python]\nenabled = true\n");
    home.relais(&["run", "chain.json"]).expect(1);
    let trace = home.expect_status("partial_success");
    let failed = step(&trace, "b");
    let call = failed["calls"].as_array().unwrap().iter().find(|call| call["what"] == "tool").unwrap();
    let told = call["error"]["message"].as_str().unwrap();
    assert!(call["status"] == "timeout" && told.contains("ran longer than 1 s"), "{call:#}");
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("the tool `run_python` had failed: timeout: {told}")), "{message}");
    let chain: Value =
        serde_json::from_str(&home.relais(&["show", "--last", "--format", "chain"]).expect(0).stdout).unwrap();
    let shown = &chain["executor_runs"][1];
    assert!(shown["status"] == "failed" && shown["tool_calls"][0]["status"] == "timeout", "{chain:#}");
}

#[test]
fn a_large_output_lies_there_again_after_a_restart() {
    // keeps A-18, A-25
    let server = ModelServer::start();
    server.push(Behaviour::say(&json!({"list": vec!["0123456789"; 10_000]}).to_string()));
    server.push(Behaviour::status(401));
    let steps = [executor("a", "A", json!({"list": ["str"]})), executor("b", "$previous_output", json!({"y": "int"}))];
    let home = chain(&server, &steps);
    let work = home.file("w", "").with_file_name("work");
    home.relais(&["run", "chain.json", "--workspace", "work"]).expect(1);
    let run = home.expect_status("partial_success")["run"].as_str().unwrap().to_owned();
    let file = work.join(format!("data/users/default/workflows/{run}/executor_a.json"));
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap()["list"].as_array().unwrap().len(), 10_000);
    std::fs::remove_dir_all(&work).unwrap();
    server.push(Behaviour::say(r#"{"y": 1}"#));
    home.relais(&["resume", "--last"]).expect(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
}
