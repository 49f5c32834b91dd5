//! A run in the words of each format, the commands that read files of any format, and the database as a person reads it.

use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::home::{Home, Outcome};

/// Two agents, the second of which has a tool that takes too long; then one that never has its turn.
const CHAIN: &str = r#"
name: Price monitor
alias: daily_price_monitor
on_failure: partial
tools: { run_python: { effect: read, timeout: 300ms } }
agents:
  fetcher: { model: script/fetch.json, instructions: Fetch the prices., tools: [write_file], output: { prices: [number] } }
  comparer: { model: script/compare.json, instructions: Compare them., tools: [run_python] }
steps:
  - { id: fetch_prices, agent: fetcher, prompt: "Fetch {{ input.product }}" }
  - { id: compare_prices, agent: comparer, prompt: "Compare {{ steps.fetch_prices.output }}" }
  - { id: report, agent: comparer, prompt: Report. }
"#;

fn chain() -> Home {
    let home = Home::new();
    home.settings("[tools.run_python]\nenabled = true\n");
    home.file("flow.yaml", CHAIN);
    home.file(
        "fetch.json",
        r#"[{"when": {"turn": 0}, "calls": [{"tool": "write_file", "arguments": {"path": "seen.txt", "content": "x"}}]},
            {"text": "{\"prices\": [999, 949]}", "usage": {"prompt": 7, "completion": 2}}]"#,
    );
    home.file(
        "compare.json",
        r#"[{"when": {"turn": 0}, "calls": [{"tool": "run_python", "arguments": {"code": "import time; time.sleep(60)"}}]},
            {"error": {"kind": "provider", "message": "cannot go on without the history"}}]"#,
    );
    home
}

fn shown(home: &Home, format: &str) -> Value {
    home.relais(&["show", "--last", "--format", format]).expect(0).json()
}

/// Each path of a value, and what stands there.
fn check(value: &Value, expected: &[(&str, Value)]) {
    for (path, expected) in expected {
        assert_eq!(value.pointer(path), Some(expected), "{path} in {value:#}");
    }
}

// keeps A-12, A-30, A-38, A-39, A-40
#[test]
fn a_run_reads_as_a_chain_of_executors() {
    let home = chain();
    home.relais(&["run", "flow.yaml", "--input", "product=jug", "--thread", "t1"]).expect(1);
    let view = shown(&home, "chain");
    check(
        &view,
        &[
            ("/workflow_id", json!("daily_price_monitor")),
            ("/status", json!("partial_success")),
            ("/thread_id", json!("t1")),
            ("/current_executor", json!(1)),
            ("/total_executors", json!(3)),
            ("/final_output", json!({"prices": [999, 949]})),
            ("/executor_runs/0/executor_id", json!("fetch_prices")),
            ("/executor_runs/0/status", json!("success")),
            ("/executor_runs/0/structured_output", json!({"prices": [999, 949]})),
            ("/executor_runs/0/tools_used", json!(["write_file"])),
            ("/executor_runs/0/tool_calls/0/tool", json!("write_file")),
            ("/executor_runs/0/tool_calls/0/input", json!({"path": "seen.txt", "content": "x"})),
            ("/executor_runs/0/tool_calls/0/status", json!("success")),
            ("/executor_runs/0/retry_count", json!(0)),
            ("/executor_runs/1/status", json!("failed")),
            ("/executor_runs/1/tool_calls/0/status", json!("timeout")),
            ("/executor_runs/2/executor_id", json!("report")),
            ("/executor_runs/2/status", json!("skipped")),
            ("/executor_results/0/status", json!("success")),
            ("/executor_results/0/output", json!({"prices": [999, 949]})),
            ("/executor_results/1/status", json!("failed")),
        ],
    );
    let failed = &view["executor_runs"][1];
    assert!(failed["error_message"].as_str().unwrap().contains("cannot go on"), "{failed:#}");
    assert!(failed["tool_calls"][0]["error_message"].as_str().unwrap().contains("300 ms"), "{failed:#}");
    assert!(failed["tool_calls"][0]["duration_ms"].as_u64().unwrap() >= 300, "{failed:#}");
    assert!(view["executor_results"][1]["error"].as_str().unwrap().contains("cannot go on"));
    assert_eq!(view["executor_runs"][0]["tokens"], json!({"prompt": 7, "completion": 2, "total": 9}));
    for field in ["/run_id", "/started_at", "/completed_at", "/executor_runs/0/started_at", "/executor_runs/0/model"] {
        assert!(view.pointer(field).is_some_and(Value::is_string), "{field} in {view:#}");
    }
}

// keeps A-19
#[test]
fn a_large_output_is_a_reference_with_a_summary() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: large\ninline_limit: 1k\nagents: { a: { model: script/a.json, instructions: Fetch. } }\n\
         steps: [{ id: fetch, agent: a }, { id: small, set: { n: 1 } }]\noutput: short\n",
    );
    home.file("a.json", &json!([{ "text": "words ".repeat(1_000) }]).to_string());
    home.relais(&["run", "flow.yaml"]).expect(0);
    let executor = &shown(&home, "chain")["executor_runs"][0];
    assert_eq!(executor["structured_output_ref"]["type"], "db");
    assert_eq!(executor["structured_output_ref"]["table"], "blobs");
    assert!(executor["structured_output_summary"].as_str().unwrap().contains("words words"));
    assert!(executor.get("structured_output").is_none());
    let step = &shown(&home, "steps")["step_instances"][0];
    assert_eq!(step["output"]["raw_data"].as_str().map(str::len), Some("words ".len() * 1_000));
}

/// A step that writes, one that looks with a tool, a checker that stops, and one behind it.
const STEPS: &str = r#"
name: letters
agents:
  writer: { model: script/write.json, instructions: Write. }
  looker: { model: script/look.json, instructions: Look., tools: [write_file] }
steps:
  - { id: write, agent: writer, prompt: "About {{ input.prompt }}" }
  - { id: look, agent: looker, prompt: Look it up. }
  - { id: enough, stop_if: "steps.look.output == 'enough'" }
  - { id: send, agent: writer, prompt: Send. }
"#;

fn steps() -> Home {
    let home = Home::new();
    home.file("flow.yaml", STEPS);
    home.file("write.json", r##"[{"text": "# Letter"}]"##);
    home.file(
        "look.json",
        r#"[{"when": {"turn": 0}, "calls": [{"tool": "write_file", "arguments": {"path": "a", "content": "b"}}]},
            {"text": "enough"}]"#,
    );
    home
}

// keeps B-13, B-14, B-15, B-16, B-17, B-41
#[test]
fn a_run_reads_as_an_instance_of_linear_steps() {
    let home = steps();
    home.relais(&["run", "flow.yaml", "tea"]).expect(0);
    let view = shown(&home, "steps");
    check(
        &view,
        &[
            ("/status", json!("stopped")),
            ("/trigger_output/raw_data", json!({"prompt": "tea"})),
            ("/step_instances/0/llm_definition_uuid", json!("write")),
            ("/step_instances/0/workflow_instance_uuid", view["uuid"].clone()),
            ("/step_instances/0/status", json!("completed")),
            ("/step_instances/0/error_message", Value::Null),
            ("/step_instances/0/input_data", json!({"system_prompt": "Write.", "prompt": "About tea"})),
            ("/step_instances/0/messages/0", json!({"role": "system", "content": "Write."})),
            ("/step_instances/0/messages/1", json!({"role": "user", "content": "About tea"})),
            ("/step_instances/0/messages/2/content", json!("# Letter")),
            ("/step_instances/0/output/raw_data", json!("# Letter")),
            ("/step_instances/0/output/summary", json!("# Letter")),
            ("/step_instances/0/output/markdown_representation", json!("# Letter")),
            ("/step_instances/1/agent_definition_uuid", json!("look")),
            ("/step_instances/1/messages/2/tool_calls/0/name", json!("write_file")),
            ("/step_instances/1/messages/2/tool_calls/0/arguments", json!({"path": "a", "content": "b"})),
            ("/step_instances/1/messages/3/role", json!("tool")),
            ("/step_instances/1/messages/4/content", json!("enough")),
            ("/step_instances/2/checker_definition_uuid", json!("enough")),
            ("/step_instances/2/status", json!("completed")),
            ("/step_instances/3/status", json!("skipped")),
        ],
    );
    for field in ["/user_id", "/created_at", "/step_instances/0/uuid", "/step_instances/0/user_id"] {
        assert!(view.pointer(field).is_some_and(Value::is_string), "{field} in {view:#}");
    }
    for field in ["started_at", "finished_at", "created_at"] {
        assert!(view["step_instances"][0][field].is_string(), "{field} in {view:#}");
    }
    let checker = view["step_instances"][2].as_object().unwrap();
    assert!(!checker.contains_key("messages") && !checker.contains_key("output"), "{checker:#?}");
    let ids = |view: &Value| {
        let of = |path: &str| view.pointer(path).cloned().unwrap();
        [of("/trigger_output/uuid"), of("/step_instances/0/output/uuid"), of("/step_instances/1/output/uuid")]
    };
    let [trigger, write, look] = ids(&view);
    assert!(trigger != write && write != look && trigger.is_string());
    assert_eq!(ids(&shown(&home, "steps")), [trigger, write, look], "the ids stay what they are");
}

// keeps D-14, D-15
#[test]
fn a_run_reads_as_an_execution_with_its_trail() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: debate\nbranch: nightly\nagents: { pro: { model: script/pro.json, instructions: Pro. }, \
         con: { model: script/con.json, instructions: Con. } }\n\
         steps: [{ id: rounds, repeat: [{ id: a, agent: pro, prompt: \"{{ previous.prompt | default(previous) }}\" }, \
         { id: b, agent: con, prompt: \"{{ previous }}\" }], max: 2, on_limit: complete }]\n",
    );
    home.file("pro.json", r#"[{"text": "yes"}]"#);
    home.file("con.json", r#"[{"text": "no"}]"#);
    home.relais(&["run", "flow.yaml", "begin"]).expect(0);
    let view = shown(&home, "graph");
    let run = home.show()["run"].clone();
    check(
        &view,
        &[
            ("/id", run),
            ("/targetType", json!("workflow")),
            ("/targetId", json!("debate")),
            ("/targetBranchId", json!("nightly")),
            ("/status", json!("completed")),
            ("/error", Value::Null),
        ],
    );
    let turn = |t: &Value| ["nodeId", "agentId", "round", "input", "output"].map(|field| t[field].clone());
    let trail: Vec<_> = view["trail"].as_array().unwrap().iter().map(turn).collect();
    let expected = json!([
        ["a", "pro", 1, "begin", "yes"],
        ["b", "con", 1, "yes", "no"],
        ["a", "pro", 2, "begin", "yes"],
        ["b", "con", 2, "yes", "no"]
    ]);
    assert_eq!(json!(trail), expected);
    assert_eq!(view["output"]["count"], 2, "{view:#}");
}

// keeps E-16, E-17, E-21, E-37
#[test]
fn a_run_reads_as_the_state_of_a_dag() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: orders\nagents: { a: { model: script/a.json, instructions: Work. }, \
         b: { model: script/b.json, instructions: Fail. } }\nsteps:\n\
         - { id: check, agent: a, prompt: \"Check {{ input.order }}\" }\n\
         - { id: route, if: \"steps.check.output == 'fine'\", then: [{ id: ship, agent: b, prompt: Ship., retry: \
         { max_attempts: 1, delay: 0s } }], else: [{ id: refuse, agent: a, prompt: Refuse. }] }\n\
         - { id: close, agent: a, prompt: Close. }\n",
    );
    home.file("a.json", r#"[{"text": "fine"}]"#);
    home.file("b.json", r#"[{"error": {"kind": "tool", "message": "no ship"}}]"#);
    home.relais(&["run", "flow.yaml", "--input", "order=17", "--thread", "session-1"]).expect(1);
    let view = shown(&home, "dag");
    let state = &view["workflow_execution"];
    check(
        state,
        &[
            ("/workflow_name", json!("orders")),
            ("/status", json!("failed")),
            ("/session_id", json!("session-1")),
            ("/input", json!({"order": 17})),
            ("/output", Value::Null),
            ("/current_node_id", json!("ship")),
            ("/node_states/check/status", json!("completed")),
            ("/node_states/check/input", json!("Check 17")),
            ("/node_states/check/output", json!("fine")),
            ("/node_states/check/retry_count", json!(0)),
            ("/node_states/ship/status", json!("failed")),
            ("/node_states/ship/retry_count", json!(1)),
            ("/node_states/refuse/status", json!("skipped")),
            ("/node_states/close/status", json!("skipped")),
            ("/errors/0/kind", json!("tool")),
        ],
    );
    for path in ["/user_id", "/start_time", "/end_time", "/node_states/ship/start_time", "/node_states/ship/end_time"] {
        assert!(state.pointer(path).is_some_and(Value::is_string), "{path} in {state:#}");
    }
    assert!(state["node_states"]["ship"]["error"].as_str().unwrap().contains("no ship"), "{state:#}");
    // The next process loads the state, runs the failed node again and goes on from there; what is done stays done.
    home.file("b.json", r#"[{"text": "shipped"}]"#);
    home.relais(&["resume", "--last"]).expect(0);
    let resumed = shown(&home, "dag")["workflow_execution"].clone();
    let states = &resumed["node_states"];
    check(
        &resumed,
        &[
            ("/status", json!("completed")),
            ("/execution_id", state["execution_id"].clone()),
            ("/node_states/check/start_time", state["node_states"]["check"]["start_time"].clone()),
            ("/node_states/check/end_time", state["node_states"]["check"]["end_time"].clone()),
            ("/node_states/ship/output", json!("shipped")),
            ("/node_states/close/output", json!("fine")),
        ],
    );
    assert!(states["check"].get("executions").is_none(), "{states:#}");
}

#[test]
fn the_words_of_a_run_under_way_say_so() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: ask\nagents: { a: { model: sim/x, instructions: Work. } }\n\
         steps: [{ id: sure, ask: Sure? }, { id: then, agent: a, prompt: Go. }]\n",
    );
    home.relais(&["run", "flow.yaml"]).expect(3);
    assert_eq!(shown(&home, "chain")["status"], "running");
    assert_eq!(shown(&home, "steps")["status"], "running");
    assert_eq!(shown(&home, "steps")["step_instances"][1]["status"], "pending");
    let state = shown(&home, "dag")["workflow_execution"].clone();
    assert_eq!((&state["status"], &state["current_node_id"]), (&json!("running"), &json!("sure")));
    assert_eq!((&state["pending_nodes"], &state["end_time"]), (&json!(["then"]), &Value::Null));
    home.relais(&["cancel", "--last"]).expect(0);
    assert_eq!(shown(&home, "steps")["status"], "failed");
    assert_eq!(shown(&home, "steps")["error_message"], "the run was cancelled");
    home.relais(&["show", "--last", "--format", "tree"])
        .expect(2)
        .says(&["native, chain, steps, pipeline, graph, dag"]);
}

/// What stands behind the heading on standard error.
fn context(outcome: &Outcome) -> Value {
    let (_, text) = outcome.stderr.split_once("--- Step Context ---\n").expect("the heading");
    assert!(text.starts_with("{\n  \""), "indented by two: {text}");
    serde_json::from_str(text).unwrap()
}

const PARALLEL: &str = r#"
name: pair
agents: { a: { model: script/a.json, instructions: Work. }, b: { model: script/b.json, instructions: Work. } }
steps:
  - { id: first, agent: a, prompt: "{{ input.prompt | default('nothing') }}" }
  - id: both
    parallel:
      - { id: slow, agent: a, prompt: go }
      - { id: inner, parallel: [{ id: p, agent: b, prompt: go }, { id: q, agent: a, prompt: go }] }
  - { id: last, agent: b, prompt: done }
"#;

// keeps C-18, C-25, C-26, C-28
#[test]
fn exec_tells_events_then_the_result_then_the_step_context() {
    let home = Home::new();
    home.file("flow.yaml", PARALLEL);
    home.file("a.json", r#"[{"when": {"contains": "tea"}, "text": "tea"}, {"text": "from a", "delay_ms": 30}]"#);
    home.file("b.json", r#"[{"text": "from b"}]"#);
    let ended = home.relais(&["exec", "flow.yaml", "tea"]).expect(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.last(), Some(&"from b"), "{ended:#?}");
    for (before, after) in [("▸ first", "✓ first"), ("✓ first", "▸ both"), ("✓ both", "▸ last"), ("✓ last", "from b")]
    {
        let at = |part: &str| lines.iter().position(|line| line.starts_with(part)).expect(part);
        assert!(at(before) < at(after), "{before} before {after}: {lines:#?}");
    }
    let leaf = |output: &str, agent: &str| json!({"status": "completed", "output": output, "agent": agent});
    let expected = json!({
        "first": leaf("tea", "a"),
        "both": {
            "status": "completed",
            "outputs": {
                "slow": leaf("from a", "a"),
                "inner": {
                    "status": "completed",
                    "outputs": { "p": leaf("from b", "b"), "q": leaf("from a", "a") },
                    "order": ["p", "q"],
                },
            },
            "order": ["slow", "inner"],
        },
        "last": leaf("from b", "b"),
    });
    assert_eq!(context(&ended), expected);
    assert_eq!(shown(&home, "pipeline"), expected, "show has the same words");
    let alone = home.relais(&["exec", "flow.yaml"]).expect(0);
    assert_eq!(context(&alone)["first"]["output"], "from a");
}

// keeps C-26
#[test]
fn exec_reads_its_prompt_from_standard_input() {
    let home = Home::new();
    home.file("flow.yaml", PARALLEL);
    home.file("a.json", r#"[{"when": {"contains": "two\nlines"}, "text": "both lines"}, {"text": "other"}]"#);
    home.file("b.json", r#"[{"text": "from b"}]"#);
    home.file("question.txt", "two\nlines");
    let relais = env!("CARGO_BIN_EXE_relais");
    let words = ["-c", "exec \"$0\" exec flow.yaml - < question.txt", relais];
    let ended = crate::home::Process::start(home.wrapped("sh", &words)).end().expect(0);
    assert_eq!(context(&ended)["first"]["output"], "both lines");
}

// keeps C-29
#[test]
fn exec_gives_the_step_context_and_the_error_of_a_failed_run() {
    let home = Home::new();
    home.file("flow.yaml", PARALLEL);
    home.file("a.json", r#"[{"text": "from a"}]"#);
    home.file("b.json", r#"[{"error": {"kind": "tool", "message": "b is broken"}}]"#);
    let ended = home.relais(&["exec", "flow.yaml", "--json"]).expect(1);
    let context = context(&ended);
    assert_eq!((&context["first"]["output"], &context["both"]["status"]), (&json!("from a"), &json!("failed")));
    assert!(context["both"]["outputs"]["inner"]["outputs"]["p"]["error"].as_str().unwrap().contains("b is broken"));
    assert!(context.get("last").is_none(), "it never had its turn: {context:#}");
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["status"]), (&json!("output"), &json!("failed")));
}

fn events(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// keeps E-36
#[test]
fn events_carry_what_happened_and_no_data() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: quiet\nagents: { a: { model: script/a.json, instructions: The canary instructions., tools: [write_file] }, \
         b: { model: script/b.json, instructions: The canary instructions. } }\n\
         steps: [{ id: good, agent: a, prompt: \"A canary prompt, {{ input.word }}\" }, { id: bad, agent: b, prompt: no }]\n",
    );
    home.file(
        "a.json",
        r#"[{"when": {"turn": 0}, "calls": [{"tool": "write_file", "arguments": {"path": "c", "content": "canary file"}}]},
            {"text": "canary answer"}]"#,
    );
    home.file("b.json", r#"[{"error": {"kind": "tool", "message": "out of order"}}]"#);
    home.relais(&["run", "flow.yaml", "--input", "word=canary"]).expect(1);
    let watched = home.relais(&["watch", "--last", "--json"]).expect(1);
    assert!(!watched.stdout.contains("canary"), "{watched:#?}");
    let events = events(&watched);
    let find = |event: &str, step: Value| {
        let fits = |e: &&Value| e["event"] == event && e["step"] == step;
        events.iter().find(fits).unwrap_or_else(|| panic!("{event} {step} in {events:#?}")).clone()
    };
    assert_eq!(find("run_started", Value::Null)["workflow"], "quiet");
    assert_eq!(find("step_started", json!("good"))["kind"], "agent");
    assert!(find("step_completed", json!("good"))["ms"].is_u64());
    let failed = find("step_failed", json!("bad"));
    assert!(failed["ms"].is_u64() && failed["error"]["message"].as_str().unwrap().contains("out of order"), "{failed}");
    let ended = find("run_ended", Value::Null);
    assert_eq!((&ended["status"], ended["ms"].is_u64()), (&json!("failed"), true));
    assert!(ended["error"]["message"].as_str().unwrap().contains("out of order"), "{ended}");
    home.file("b.json", r#"[{"text": "fine"}]"#);
    home.relais(&["run", "flow.yaml", "--input", "word=canary"]).expect(0);
    let watched = home.relais(&["watch", "--last", "--json"]).expect(0);
    let last: Value = serde_json::from_str(watched.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["status"]), (&json!("run_ended"), &json!("completed")));
    assert_eq!(last["output_summary"], "fine", "the end tells what came of it, in short");
}

/// Rows of the database as JSON; text that is JSON is parsed.
fn rows(home: &Home, sql: &str) -> Vec<Value> {
    let db = rusqlite::Connection::open(home.database()).unwrap();
    let mut statement = db.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| {
        let cell = |column: usize| match row.get_ref(column).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => json!(number),
            other => {
                let text = other.as_str().unwrap();
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            }
        };
        Ok(names.iter().cloned().enumerate().map(|(column, name)| (name, cell(column))).collect())
    };
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

// keeps A-28, A-29, A-30
#[test]
fn the_database_has_the_rows_of_a_chain() {
    let home = chain();
    home.relais(&["run", "flow.yaml", "--input", "product=jug", "--thread", "t1"]).expect(1);
    let run = rows(
        &home,
        "SELECT run_id, workflow_id, user_id, thread_id, status, current_executor, total_executors, result, \
         final_output_ref, final_output_summary, error_message, started_at, completed_at, created_at FROM workflow_runs",
    );
    assert_eq!(run.len(), 1);
    let expected = [("thread_id", json!("t1")), ("status", json!("partial_success")), ("total_executors", json!(3))];
    for (column, expected) in expected.into_iter().chain([("current_executor", json!(1))]) {
        assert_eq!(run[0][column], expected, "{column} in {run:#?}");
    }
    assert!(run[0]["error_message"].as_str().unwrap().contains("cannot go on"), "{run:#?}");
    let executors = rows(
        &home,
        "SELECT executor_id, executor_name, input_data, model, tools_used, status, structured_output, total_tokens, \
         prompt_tokens, completion_tokens, duration_ms, error_message, retry_count, started_at, completed_at, \
         structured_output_ref, structured_output_summary FROM workflow_executor_runs ORDER BY id",
    );
    let facts = |e: &Value| json!([e["executor_id"], e["status"], e["tools_used"], e["retry_count"]]);
    assert_eq!(
        executors.iter().map(facts).collect::<Vec<_>>(),
        [json!(["fetch_prices", "success", ["write_file"], 0]), json!(["compare_prices", "failed", ["run_python"], 0])],
    );
    let first = &executors[0];
    assert_eq!(first["structured_output"], json!({"prices": [999, 949]}));
    let count = |column: &str| first[column].as_u64().unwrap();
    assert_eq!(count("prompt_tokens") + count("completion_tokens"), count("total_tokens"));
    let calls = rows(
        &home,
        "SELECT t.tool_name, t.tool_input, t.tool_output, t.status, t.error_message, t.duration_ms, t.started_at, \
         t.completed_at, e.executor_id FROM workflow_tool_calls t \
         JOIN workflow_executor_runs e ON e.id = t.executor_run_id ORDER BY t.id",
    );
    let facts = |c: &Value| json!([c["executor_id"], c["tool_name"], c["status"]]);
    assert_eq!(
        calls.iter().map(facts).collect::<Vec<_>>(),
        [json!(["fetch_prices", "write_file", "success"]), json!(["compare_prices", "run_python", "timeout"])],
    );
    assert!(calls[1]["duration_ms"].as_u64().unwrap() >= 300, "{calls:#?}");
}

// keeps A-42
#[test]
fn an_executor_shows_what_it_received() {
    let home = Home::new();
    let executor = |id: &str, prompt: &str| {
        json!({ "executor_id": id, "model": format!("script/{id}.json"), "tools": ["write_file"], "system_prompt": prompt,
            "output_schema": { "text": "str" } })
    };
    let second = executor("second", "Shorten this: $previous_output");
    let spec = json!({ "name": "Pass on", "executors": [executor("first", "Write."), second.clone()] });
    home.file("chain.json", &spec.to_string());
    home.file("first.json", &json!([{ "text": json!({ "text": "tea" }).to_string() }]).to_string());
    let long = "long ".repeat(20_000);
    let write = json!({ "tool": "write_file", "arguments": { "path": "x.txt", "content": long } });
    let said = json!([{ "when": { "turn": 0 }, "calls": [write] }, { "text": json!({ "text": "t" }).to_string() }]);
    home.file("second.json", &said.to_string());
    home.relais(&["run", "chain.json"]).expect(0);
    let received = &shown(&home, "chain")["executor_runs"][1];
    assert_eq!(received["input"]["system_prompt"], "Shorten this: {\n  \"text\": \"tea\"\n}", "{received:#}");
    assert_eq!(received["input"]["prompt"], "Execute your task.", "{received:#}");
    let row = &rows(&home, "SELECT input_data, input_ref FROM workflow_executor_runs WHERE executor_id = 'second'")[0];
    assert!(row["input_data"][0]["text"].as_str().unwrap().contains("\"tea\"") && row["input_ref"].is_null(), "{row}");
    // What is large is a reference, which can be followed.
    let call = &received["tool_calls"][0];
    assert!(call.get("input").is_none() && call["input_ref"]["table"] == "journal_events", "{call:#}");
    let row = &rows(&home, "SELECT tool_input, tool_input_ref FROM workflow_tool_calls")[0];
    assert_eq!((&row["tool_input"], &row["tool_input_ref"]), (&Value::Null, &call["input_ref"]));
    let place = call["input_ref"]["row_id"].as_str().unwrap();
    let found = rows(&home, &format!("SELECT body FROM journal_events WHERE row_id = '{place}'"));
    assert_eq!(found[0]["body"]["command"]["call_tool"]["arguments"]["content"], long);
}

// keeps A-28
#[test]
fn a_deleted_workflow_takes_its_runs_along() {
    let home = Home::new();
    let large = "inline_limit: 1k\nagents: { a: { model: script/a.json, instructions: Fetch. } }\n\
                 steps: [{ id: fetch, agent: a }, { id: keep, tool: write_file, with: { path: x.txt, content: x } }]\n";
    home.file("a.json", &json!([{ "text": "words ".repeat(1_000) }]).to_string());
    for name in ["goes", "stays", "kept"] {
        home.file(&format!("{name}.yaml"), &format!("name: {name}\n{large}"));
        home.relais(&["workflows", "save", &format!("{name}.yaml")]).expect(0);
        home.relais(&["run", name]).expect(0);
    }
    let count = |of: &str| rows(&home, &format!("SELECT count(*) AS n FROM {of}"))[0]["n"].as_u64().unwrap();
    let folders = || std::fs::read_dir(home.data().join("workspaces")).unwrap().count();
    assert_eq!((count("workflow_runs"), folders()), (3, 3));
    // Nobody can be asked here, so somebody must have said so.
    let asked = home.relais(&["workflows", "delete", "goes"]).expect(2);
    assert!(
        asked.stderr.contains("1 run with outputs and artifacts") && asked.stderr.contains("--yes"),
        "{}",
        asked.stderr
    );
    assert_eq!(count("workflow_runs"), 3);
    let usage = || home.relais(&["usage", "--json"]).expect(0).stdout;
    let before = usage();
    home.relais(&["workflows", "delete", "goes", "--yes"]).expect(0);
    assert_eq!((count("workflow_runs"), count("workflows"), folders()), (2, 2, 2));
    assert_eq!(count("entries WHERE run NOT IN (SELECT run FROM runs)"), 0);
    assert_eq!(usage(), before, "what was used stays booked");
    home.relais(&["workflows", "delete", "kept", "--keep-runs", "--yes"]).expect(0);
    assert_eq!((count("workflow_runs"), count("workflows")), (2, 1));
}

// keeps A-41
#[test]
fn runs_are_found_by_an_index() {
    let home = steps();
    home.relais(&["run", "flow.yaml", "tea"]).expect(0);
    for (sql, index) in [
        (
            "SELECT * FROM runs WHERE user = 'ann' AND workflow_id = 'x' AND workflow_id <> '' ORDER BY status",
            "runs_user_workflow",
        ),
        ("SELECT * FROM runs WHERE status = 'failed' ORDER BY started_at DESC", "runs_status"),
        ("SELECT * FROM runs WHERE user = 'ann' AND status = 'failed' ORDER BY started_at", "runs_user"),
        ("SELECT * FROM entries WHERE run = x'00' ORDER BY seq", "sqlite_autoindex_entries_1"),
    ] {
        let plan = rows(&home, &format!("EXPLAIN QUERY PLAN {sql}"));
        let found = plan.iter().any(|row| row["detail"].as_str().unwrap().contains(index));
        assert!(found, "{sql}: {plan:#?}");
    }
}

// keeps B-36
#[test]
fn the_database_has_the_rows_of_linear_steps() {
    let home = steps();
    home.relais(&["run", "flow.yaml", "tea"]).expect(0);
    let instances = rows(
        &home,
        "SELECT uuid, user_id, workflow_definition_uuid, status, trigger_output, created_at, updated_at \
         FROM workflow_instances",
    );
    // What the rows tell is what the surfaces tell, under the same ids.
    let shown = shown(&home, "steps");
    assert_eq!(
        (&instances[0]["status"], &instances[0]["trigger_output"]),
        (&json!("stopped"), &shown["trigger_output"])
    );
    assert_eq!(shown["trigger_output"]["raw_data"], json!({"prompt": "tea"}));
    let steps = rows(
        &home,
        "SELECT uuid, user_id, workflow_instance_uuid, step_definition_uuid, status, started_at, finished_at, \
         output_id, output, details, error_message FROM workflow_step_instances ORDER BY uuid",
    );
    let facts = |s: &Value| json!([s["step_definition_uuid"], s["status"], s["output"]["raw_data"]]);
    let expected =
        json!([["write", "completed", "# Letter"], ["look", "completed", "enough"], ["enough", "completed", null]]);
    assert_eq!(json!(steps.iter().map(facts).collect::<Vec<_>>()), expected);
    for number in [0, 1] {
        let output = &shown["step_instances"][number]["output"];
        assert_eq!((&steps[number]["output"], &steps[number]["output_id"]), (output, &output["uuid"]));
    }
    assert_eq!((&steps[2]["output"], &steps[2]["output_id"]), (&Value::Null, &Value::Null));
    assert_eq!(steps[0]["details"]["messages"][1]["text"], "About tea");
}

#[test]
fn a_format_can_be_forced_and_is_named() {
    let home = Home::new();
    home.file("flow.yaml", STEPS);
    let words = "native, chain, steps, pipeline, graph, dag";
    for command in ["run", "exec", "validate", "plan", "convert"] {
        home.relais(&[command, "flow.yaml", "--format", "xml"]).expect(2).says(&["xml", words]);
        let branch = home.relais(&[command, "flow.yaml", "--branch", "nightly"]).expect(2);
        branch.says(&["--branch nightly", "the format `native` has no branches", "only graphs"]);
    }
    home.relais(&["graph", "flow.yaml", "--reader", "xml"]).expect(2).says(&["xml", words]);
    home.relais(&["graph", "flow.yaml", "--reader", "native", "--format", "mermaid"]).expect(0);
    home.relais(&["graph", "flow.yaml", "--branch", "nightly"]).expect(2).says(&["has no branches"]);
    let named = home.relais(&["validate", "flow.yaml"]).expect(0);
    assert_eq!(named.stdout, "flow.yaml: ok, native, 4 steps\n");
}

#[test]
fn a_converted_file_runs_and_a_wrong_one_is_not_converted() {
    let home = steps();
    let printed = home.relais(&["convert", "flow.yaml"]).expect(0);
    home.relais(&["convert", "flow.yaml", "-o", "native.yaml"]).expect(0);
    let one = home.relais(&["run", "flow.yaml", "tea"]).expect(0);
    let two = home.relais(&["run", "native.yaml", "tea"]).expect(0);
    assert_eq!(one.stdout, two.stdout);
    let again = home.relais(&["convert", "native.yaml"]).expect(0);
    assert_eq!(printed.stdout, again.stdout, "what is native already stays as it is");
    home.file("wrong.yaml", "name: wrong\nstesp: []\n");
    let refused = home.relais(&["convert", "wrong.yaml"]).expect(2);
    assert_eq!(refused.stdout, "");
    refused.says(&["stesp"]);
}
