//! The format `dag`: personas, nodes, marks and schemas, driven by a scripted model.

use serde_json::{Value, json};

use crate::home::{Home, Outcome};

/// What a persona of a test is called, and all that most tests need.
const PLAIN: &str = "personas: [{ agent_name: P, instruction: Do your work. Do it well. }]\n";

/// A workflow with the one plain persona.
pub(super) fn plain(workflow: &str) -> String {
    format!("{PLAIN}{workflow}")
}

/// Turns in which a node saves its output and marks it.
pub(super) fn gives(node: &str, output: Value) -> Vec<Value> {
    let name = format!("{node}_output.json");
    let save = json!([{ "tool": "save_artifact", "arguments": { "name": name, "content": output } }]);
    vec![
        turn(node, 0, json!({ "calls": save })),
        turn(node, 1, says(&format!("«result:artifact={name} status=success»"))),
    ]
}

/// A node that gives up at once.
pub(super) fn fails(node: &str, message: &str) -> Vec<Value> {
    vec![turn(node, 0, says(&format!("«result:status=failure message={message}»")))]
}

pub(super) fn says(text: &str) -> Value {
    json!({ "text": text })
}

pub(super) fn calls(tool: &str, arguments: Value) -> Value {
    json!({ "calls": [{ "tool": tool, "arguments": arguments }] })
}

/// What the model says to one node, the so manieth time.
pub(super) fn turn(node: &str, number: u32, mut answer: Value) -> Value {
    answer["when"] = json!({ "turn": number, "model_saw": format!("as node '{node}'.") });
    answer
}

pub(super) struct Project {
    pub home: Home,
}

impl Project {
    pub fn new(workflow: &str, turns: Vec<Vec<Value>>) -> Project {
        let home = Home::new();
        home.file("flow.yaml", workflow);
        home.file("turns.json", &Value::Array(turns.concat()).to_string());
        Project { home }
    }

    pub fn run(&self, input: Value) -> Outcome {
        self.home.file("input.json", &input.to_string());
        self.home.relais(&["run", "flow.yaml", "--model", "script/turns.json", "--input", "@input.json"])
    }

    /// Runs to a completed end; its output.
    pub fn completes(&self, input: Value) -> Value {
        self.run(input).expect(0).json()
    }

    /// The steps of the newest run by their ids, with how they ended.
    pub fn ended(&self) -> Vec<(String, String)> {
        let trace = self.home.show();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        trace["steps"].as_array().unwrap().iter().map(|step| (text(&step["key"]), text(&step["status"]))).collect()
    }

    pub fn status(&self, id: &str) -> String {
        self.ended().into_iter().find(|(key, _)| key == id).map(|(_, status)| status).unwrap_or_default()
    }

    pub fn step(&self, id: &str) -> Value {
        let trace = self.home.show();
        trace["steps"].as_array().unwrap().iter().find(|step| step["key"] == id).cloned().unwrap_or_default()
    }

    /// What a node's agent was told first, and the messages of its later calls.
    pub fn heard(&self, id: &str) -> Vec<Value> {
        let step = self.step(id);
        let calls = step["calls"].as_array().cloned().unwrap_or_default();
        calls.into_iter().filter(|call| call["what"] == "model").map(|call| call["input"].clone()).collect()
    }

    /// The texts that a node's agent has seen, all in one.
    pub fn seen(&self, id: &str) -> String {
        self.heard(id).iter().map(Value::to_string).collect()
    }
}

/// The file is refused, and says so.
fn refused(workflow: &str, parts: &[&str]) {
    let home = Home::new();
    home.file("flow.yaml", workflow);
    home.relais(&["validate", "flow.yaml"]).expect(2).says(parts);
}

/// What a step was given: the artifact with its input.
pub(super) fn given(step: &Value) -> Value {
    let content = step["calls"][0]["input"]["content"].as_str().unwrap_or_default();
    serde_json::from_str(content).unwrap_or_default()
}

#[test]
fn mistakes_are_configuration_errors() {
    // keeps E-02, E-15, E-35
    refused(
        &plain(
            "workflow: { nodes: [{ id: a, agent_persona: P, depends_on: [b] }, { id: b, agent_persona: P, input: { x: \"{{a.output.x}}\" } }] }",
        ),
        &["depend on one another in a circle: `a`, `b`", "flow.yaml:2:"],
    );
    refused(
        &plain(
            "workflow: { nodes: [{ id: extract, agent_persona: P }, { id: b, agent_persona: P, depends_on: [extrakt] }] }",
        ),
        &["no node is called `extrakt`", "did you mean `extract`?"],
    );
    refused(
        &plain(
            "workflow: { nodes: [{ id: extract, agent_persona: P }, { id: b, agent_persona: P, input: { x: \"{{extrat.output.x}}\" } }] }",
        ),
        &["no node is called `extrat`", "did you mean `extract`?"],
    );
    refused(&plain("workflow: { nodes: [{ agent_persona: P }] }"), &["a node needs an `id`"]);
    refused(&plain("workflow: { nodes: [{ id: a, type: agent }] }"), &["needs an `agent_persona`"]);
    refused(
        &plain("workflow: { nodes: [{ id: a, agent_persona: Q }] }"),
        &["there is no persona `Q`", "did you mean `P`?"],
    );
    refused(
        &plain("workflow: { nodes: [{ id: a, type: if, then: [{ id: b, agent_persona: P }] }] }"),
        &["`a` needs `condition`"],
    );
    refused(
        &plain("workflow: { nodes: [{ id: a, agent_persona: P, request_tempalte: x }] }"),
        &["did you mean `request_template`?"],
    );
    refused(
        &plain("workflow: { nodes: [{ id: a, agent_persona: P, agentName: P }] }"),
        &["`agent_persona` and `agentName` are the same setting"],
    );
    refused(
        &plain(
            "workflow: { nodes: [{ id: a, agent_persona: P }, { id: b, agent_persona: P }, { id: c, agent_persona: P, depends_on: [a, b] }] }",
        ),
        &["`c` depends on several nodes (a, b), and its `input` is left out"],
    );
    refused(
        &plain("workflow: { nodes: [{ id: a, agent_persona: P, request_template: \"{{steps.x}}\" }] }"),
        &["steps.x"],
    );
}

#[test]
fn value_references_reach_the_tool_and_not_the_model() {
    // keeps E-03, E-20, E-32
    let workflow = plain(
        "workflow: { nodes: [{ id: a, agent_persona: P, request_template: \"Copy {{input.order.lines[1].sku}} of {{input.id}} in {{workflow.name}}/{{node.id}}.\" }] }",
    );
    let content = json!({ "sku": "«value:node_a_input.json:order.lines[1].sku»", "id": "«value:node_a_input.json:id»", "text": "id «value:node_a_input.json:id»!" });
    let turns = vec![
        turn("a", 0, calls("save_artifact", json!({ "name": "out.json", "content": content }))),
        turn("a", 1, says("«result:artifact=out.json status=success»")),
    ];
    let project = Project::new(&workflow, vec![turns]);
    let input = json!({ "id": 900719925474099i64, "order": { "lines": [{ "sku": "x" }, { "sku": "secret-sku" }] } });
    let output = project.completes(input);
    assert_eq!(output, json!({ "sku": "secret-sku", "id": 900719925474099i64, "text": "id 900719925474099!" }));
    let seen = project.seen("a");
    assert!(!seen.contains("secret-sku") && !seen.contains("900719925474099"), "{seen}");
    assert!(
        seen.contains("Copy «value:node_a_input.json:order.lines[1].sku» of «value:node_a_input.json:id» in flow/a."),
        "{seen}"
    );
    let step = project.step("a");
    let results: Vec<&Value> = step["calls"].as_array().unwrap().iter().map(|call| &call["output"]).collect();
    assert!(results.iter().all(|result| !result.to_string().contains("secret-sku")), "{results:?}");
    assert_eq!(step["calls"][0]["input"]["name"], "node_a_input.json");
    assert_eq!(given(&step)["order"]["lines"][1]["sku"], "secret-sku");
}

#[test]
fn bad_value_references_say_what_would_be_right() {
    // keeps E-04, E-12, E-35
    let workflow = plain("workflow: { nodes: [{ id: a, agent_persona: P }] }");
    let save = |value: &str| calls("save_artifact", json!({ "name": "out.json", "content": { "x": value } }));
    let check = |bad: &str, parts: &[&str]| {
        let turns = vec![
            turn(
                "a",
                0,
                calls(
                    "save_artifact",
                    json!({ "name": "note.txt", "content": "plain words", "media_type": "text/plain" }),
                ),
            ),
            turn("a", 1, save(bad)),
            turn("a", 2, save("mended")),
            turn("a", 3, says("«result:artifact=out.json status=success»")),
        ];
        let project = Project::new(&workflow, vec![turns]);
        assert_eq!(project.completes(json!({ "order": { "id": 1 } })), json!({ "x": "mended" }));
        let seen = project.seen("a");
        parts.iter().for_each(|part| assert!(seen.contains(part), "{part:?} in {seen}"));
    };
    check("«value:order»", &["is not a value reference", "«value:ARTIFACT:PATH»"]);
    check("«value:none.json:x»", &["there is no artifact `none.json`", "node_a_input.json", "note.txt"]);
    check("«value:node_a_input.json:order.number»", &["has no `number` at `order`", "keys: id"]);
    check("«value:note.txt:x»", &["note.txt", "not JSON"]);
    // Three corrections, then the node fails.
    let again = (0..9).map(|number| turn("a", number, save("«value:none.json:x»"))).collect();
    let project = Project::new(&workflow, vec![again]);
    project.run(json!({})).expect(1);
    project.home.expect_failure("reference", &["none.json"]);
    assert_eq!(project.heard("a").len(), 4);
}

#[test]
fn result_marks_follow_their_rules() {
    // keeps E-05, E-06, E-07
    let workflow = plain("workflow: { nodes: [{ id: a, agent_persona: P }] }");
    let save =
        |n: u32| turn("a", n, calls("save_artifact", json!({ "name": "r.json", "content": { "version": n + 1 } })));
    let check = |mark: &str, then: Option<&str>, output: Value| {
        let mut turns = vec![save(0), save(1), turn("a", 2, says(mark))];
        turns.extend(then.map(|mark| turn("a", 3, says(mark))));
        assert_eq!(Project::new(&workflow, vec![turns]).completes(json!({})), output, "{mark}");
    };
    let good = "«result:artifact=r.json status=success»";
    check(good, None, json!({ "version": 2 }));
    // Versions count from 0.
    check(
        "Done. «result:artifact=r.json:0 status=success message=Processed 1000 records» Bye.",
        None,
        json!({ "version": 1 }),
    );
    check("«result:artifact=r.json:v1 status=success»", None, json!({ "version": 2 }));
    check("«result:artifact=r.json:2 status=success»", Some(good), json!({ "version": 2 }));
    check("«result:artifact=r.json»", Some(good), json!({ "version": 2 }));
    check("«result:status=success»", Some(good), json!({ "version": 2 }));
    check("«result:status=failure»", Some(good), json!({ "version": 2 }));
    check(&format!("{good} {good}"), Some(good), json!({ "version": 2 }));
    check("I am done.", Some(good), json!({ "version": 2 }));
}

#[test]
fn an_earlier_version_of_an_artifact_can_be_read() {
    // keeps E-05
    let save = |n: u32| turn("a", n, calls("save_artifact", json!({ "name": "r.json", "content": { "saved": n } })));
    let load =
        |n: u32, version: u32| turn("a", n, calls("load_artifact", json!({ "name": "r.json", "version": version })));
    let list = turn("a", 4, calls("list_artifacts", json!({})));
    let done = turn("a", 5, says("«result:artifact=r.json:v0 status=success»"));
    let workflow = plain("workflow: { nodes: [{ id: a, agent_persona: P }] }");
    let project = Project::new(&workflow, vec![vec![save(0), save(1), load(2, 0), load(3, 1), list, done]]);
    assert_eq!(project.completes(json!({})), json!({ "saved": 0 }));
    let step = project.step("a");
    let called = step["calls"].as_array().unwrap();
    let loaded: Vec<&Value> =
        called.iter().filter(|call| call["name"] == "load_artifact").map(|call| &call["output"]).collect();
    assert_eq!(loaded, [&json!({ "saved": 0 }), &json!({ "saved": 1 })], "{called:?}");
    let listed = called.iter().find(|call| call["name"] == "list_artifacts").unwrap();
    let newest = &listed["output"]["artifacts"].as_array().unwrap()[1];
    assert_eq!((&newest["name"], &newest["version"]), (&json!("r.json"), &json!(1)), "{listed}");
}

#[test]
fn an_explicit_failure_is_neither_checked_nor_retried() {
    // keeps E-05, E-07, E-13
    let workflow = "personas: [{ agent_name: P, instruction: Work., output_schema: { n: integer } }]
workflow: { nodes: [{ id: a, agent_persona: P, retry_strategy: { limit: 3, backoff: { duration: 1s } } }, { id: b, agent_persona: P, depends_on: [a] }] }";
    for mark in [
        "«result:status=failure message=Customer validation failed: invalid email»",
        "«result:artifact=error_log.txt status=failure message=Customer validation failed: invalid email»",
    ] {
        let project = Project::new(workflow, vec![vec![turn("a", 0, says(mark))]]);
        project.run(json!({})).expect(1);
        project.home.expect_failure("refused", &["Customer validation failed: invalid email"]);
        assert_eq!(project.heard("a").len(), 1);
        assert_eq!(project.status("b"), "skipped");
    }
}

/// The message as the format's description shows it.
const EXPLAINED: &str = r#"Schema validation failed for Node 'extract_info' output:
  - Path 'customer_name': Field is required but missing
  - Path 'email': Expected type 'string', got 'integer'

Expected schema:
{
  "type": "object",
  "properties": {
    "customer_name": {"type": "string"},
    "email": {"type": "string"}
  },
  "required": ["customer_name", "email"]
}

Received data:
{
  "email": 12345
}"#;

#[test]
fn output_is_corrected_with_the_message_and_the_history() {
    // keeps E-10, E-11, E-16, E-37
    let workflow = r#"
personas:
  - agent_name: "ExtractInfoAgent"
    instruction: Extract.
    output_schema: { type: object, properties: { customer_name: { type: string }, email: { type: string } }, required: [customer_name, email] }
workflow: { nodes: [{ id: extract_info, agent_persona: "ExtractInfoAgent" }] }
"#;
    let node = "extract_info";
    let save =
        |n: u32, content: Value| turn(node, n, calls("save_artifact", json!({ "name": "c.json", "content": content })));
    let mark = |n: u32| turn(node, n, says("«result:artifact=c.json status=success»"));
    let good = json!({ "customer_name": "Ann", "email": "ann@example.org" });
    let turns = vec![save(0, json!({ "email": 12345 })), mark(1), save(2, good.clone()), mark(3)];
    let project = Project::new(workflow, vec![turns]);
    assert_eq!(project.completes(json!({})), good);
    let heard = project.heard(node);
    let correction = heard[2].as_array().unwrap().last().unwrap();
    assert!(correction["text"].as_str().unwrap().starts_with(EXPLAINED), "{correction}");
    // The first attempt is never asked for again.
    assert_eq!(heard.len(), 4);
    let state = project.home.relais(&["show", "--last", "--format", "dag"]).expect(0).json();
    assert_eq!(state["workflow_execution"]["node_states"][node]["retry_count"], 1, "{state:#}");
    // After three corrections the node fails, and what was wanted and what came is beside what is wrong.
    let stubborn = (0..9).map(|n| if n == 0 { save(0, json!({ "email": 12345 })) } else { mark(n) }).collect();
    let project = Project::new(workflow, vec![stubborn]);
    project.run(json!({})).expect(1);
    let error = &project.home.expect_failure("schema", &["after 3 corrections"])["error"];
    let whole = format!("{}\n\n{}", error["message"].as_str().unwrap(), error["detail"].as_str().unwrap());
    assert!(whole.ends_with(EXPLAINED), "{whole}");
    assert_eq!(project.heard(node).len(), 5);
}

#[test]
fn every_edge_is_validated() {
    // keeps E-08, E-09, E-35
    let workflow = "
personas:
  - { agent_name: P, instruction: Work., input_schema: { type: object, properties: { n: { type: integer } }, required: [n] } }
workflow:
  input_schema: { type: object, required: [start] }
  output_schema: { type: object, properties: { total: { type: integer } }, required: [total] }
  nodes: [{ id: a, agent_persona: P, input: { n: \"{{workflow.input.start}}\" } }]
";
    let project = Project::new(workflow, vec![gives("a", json!({ "total": "many" }))]);
    project.run(json!({})).expect(2).says(&["Schema validation failed for the workflow input", "Path 'start'"]);
    project.run(json!({ "start": "x" })).expect(1);
    project.home.expect_failure(
        "schema",
        &["Schema validation failed for Node 'a' input:", "Path 'n': Expected type 'integer', got 'string'"],
    );
    assert_eq!(project.heard("a").len(), 0);
    project.run(json!({ "start": 1 })).expect(1);
    project.home.expect_failure("schema", &["Schema validation failed for the workflow output", "Path 'total'"]);
}

#[test]
fn edges_that_cannot_fit_are_refused_at_load() {
    // keeps E-14
    let check = |given: &str, wanted: &str, part: &str| {
        let workflow = format!(
            "personas:\n  - {{ agent_name: A, instruction: Give., output_schema: {given} }}\n  - {{ agent_name: B, instruction: Take., input_schema: {wanted} }}\nworkflow: {{ nodes: [{{ id: a, agent_persona: A }}, {{ id: b, agent_persona: B, depends_on: [a] }}] }}\n"
        );
        match part {
            "" => {
                let home = Home::new();
                home.file("flow.yaml", &workflow);
                home.relais(&["validate", "flow.yaml"]).expect(0);
            }
            part => refused(&workflow, &[part, "`b`"]),
        }
    };
    let object = |fields: &str, required: &str| {
        format!("{{ type: object, properties: {{ {fields} }}, required: [{required}] }}")
    };
    let number = object("n: { type: integer }", "n");
    check(&number, &number, "");
    check(&number, &object("n: { type: string }", "n"), "does not fit");
    check(&object("m: { type: integer }", "m"), &number, "does not fit");
    check(&object("n: { enum: [a, b, c] }", "n"), &object("n: { enum: [a, b] }", "n"), "does not fit");
    check(&object("n: { enum: [a, b] }", "n"), &object("n: { enum: [a, b, c] }", "n"), "");
    let nested = |inner: &str| object(&format!("o: {inner}"), "o");
    check(&nested(&number), &nested(&object("n: { type: string }", "n")), "does not fit");
    check("{ type: array }", &number, "does not fit");
}

#[test]
fn personas_are_described_to_people() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "personas: [{ agent_name: P, description: Knows the customers., instruction: Work., output_schema: { n: integer } }]
workflow: { nodes: [{ id: a, agent_persona: P }] }",
    );
    home.relais(&["plan", "flow.yaml"]).expect(0).prints(&["described as Knows the customers."]);
}

#[test]
fn nodes_have_states_and_times() {
    // keeps E-16, E-37
    let workflow = plain(
        "workflow: { nodes: [{ id: ok, agent_persona: P }, { id: bad, agent_persona: P, depends_on: [ok], retry_strategy: { limit: 1, backoff: { duration: 1ms } } }, { id: never, agent_persona: P, depends_on: [bad] }], on_exit: { failure: { id: report, agent_persona: P, input: { states: [\"{{ok.status}}\", \"{{bad.status}}\", \"{{never.status}}\"], why: \"{{bad.error.message}}\" } } } }",
    );
    let broken =
        (0..2).map(|_| turn("bad", 0, json!({ "error": { "kind": "provider", "message": "down" } }))).collect();
    let project = Project::new(&workflow, vec![gives("ok", json!({ "n": 1 })), broken, gives("report", json!({}))]);
    project.run(json!({ "x": 1 })).expect(1);
    let (ok, bad) = (project.step("ok"), project.step("bad"));
    assert_eq!((&ok["status"], &bad["status"]), (&json!("completed"), &json!("failed")));
    assert_eq!(project.step("never")["status"], "skipped");
    let report = given(&project.step("report"));
    assert_eq!(report["states"], json!(["completed", "failed", "skipped"]));
    assert!(report["why"].as_str().unwrap_or_default().contains("down"), "{report}");
    assert!(ok["started_at"].as_u64() <= ok["ended_at"].as_u64() && ok["started_at"].is_u64(), "{ok}");
    assert_eq!((&ok["output"]["value"], given(&ok)), (&json!({ "n": 1 }), json!({ "x": 1 })));
    assert!(bad["error"].to_string().contains("down"), "{bad}");
    assert_eq!(bad["attempts"], 2);
}

#[test]
fn independent_nodes_run_at_once_in_topological_order() {
    // keeps E-18
    let workflow = plain(
        "workflow: { nodes: [{ id: last, agent_persona: P, input: { l: \"{{left.output}}\", r: \"{{right.output}}\" } }, { id: left, agent_persona: P, depends_on: [first] }, { id: right, agent_persona: P, depends_on: [first] }, { id: first, agent_persona: P }] }",
    );
    let slow = |node: &str| {
        let mut turns = gives(node, json!({ "from": node }));
        turns.iter_mut().for_each(|turn| turn["delay_ms"] = json!(150));
        turns
    };
    let turns = vec![slow("left"), slow("right"), gives("first", json!({})), gives("last", json!({ "ok": 1 }))];
    let project = Project::new(&workflow, turns);
    assert_eq!(project.completes(json!({})), json!({ "ok": 1 }));
    let (first, left, right, last) =
        (project.step("first"), project.step("left"), project.step("right"), project.step("last"));
    let time = |step: &Value, key: &str| step[key].as_u64().unwrap();
    assert!(time(&first, "ended_at") <= time(&left, "started_at").min(time(&right, "started_at")));
    assert!(
        time(&left, "started_at") < time(&right, "ended_at") && time(&right, "started_at") < time(&left, "ended_at")
    );
    assert!(time(&last, "started_at") >= time(&left, "ended_at").max(time(&right, "ended_at")));
    assert_eq!(given(&last), json!({ "l": { "from": "left" }, "r": { "from": "right" } }));
}

#[test]
fn the_output_is_mapped_or_that_of_the_last_nodes() {
    // keeps E-19
    let nodes = "nodes: [{ id: a, agent_persona: P }, { id: b, agent_persona: P, depends_on: [a] }, { id: c, agent_persona: P, depends_on: [a] }]";
    let turns = || vec![gives("a", json!({ "n": 1 })), gives("b", json!({ "n": 2 })), gives("c", json!({ "n": 3 }))];
    let sinks = Project::new(&plain(&format!("workflow: {{ {nodes} }}")), turns());
    assert_eq!(sinks.completes(json!({})), json!({ "b": { "n": 2 }, "c": { "n": 3 } }));
    let mapping = "output_mapping: { sum: [\"{{a.output.n}}\", \"{{c.output.n}}\"], text: \"b={{b.output.n}}\", who: \"{{workflow.input.who}}\" }";
    let mapped = Project::new(&plain(&format!("workflow: {{ {nodes}, {mapping} }}")), turns());
    assert_eq!(
        mapped.completes(json!({ "who": "{{a.output.n}}" })),
        json!({ "sum": [1, 3], "text": "b=2", "who": "{{a.output.n}}" })
    );
}

#[test]
fn arms_that_are_not_taken_are_skipped() {
    // keeps E-22, E-23, E-24
    let workflow = plain("
workflow:
  nodes:
    - { id: check, agent_persona: P }
    - id: routing
      type: if
      condition: \"({{check.output.valid}} == true or {{check.output.score}} >= 90) and not {{check.output.name}} != \\\"O'Neil\\\" and {{check.output.score}} < 100 and {{check.output.score}} > 1 and {{check.output.score}} <= 99\"
      then: [{ id: yes, agent_persona: P }]
      else: [{ id: no, agent_persona: P }]
    - id: priority
      type: case
      expression: \"{{check.output.priority}}\"
      cases: [{ value: \"high\", nodes: [{ id: urgent, agent_persona: P }] }, { value: \"low\", nodes: [{ id: batch, agent_persona: P }] }]
      default: [{ id: fallback, agent_persona: P }]
  output_mapping:
    routing: \"{{routing.output}}\"
    priority: \"{{priority.output}}\"
    states: [\"{{yes.status}}\", \"{{no.status}}\", \"{{urgent.status}}\", \"{{batch.status}}\", \"{{fallback.status}}\"]
");
    let check = |output: Value, taken: [&str; 2], states: [&str; 5]| {
        let turns =
            vec![gives("check", output), gives(taken[0], json!({ "a": 1 })), gives(taken[1], json!({ "b": 2 }))];
        let project = Project::new(&workflow, turns);
        let output = project.completes(json!({}));
        assert_eq!(output, json!({ "routing": { "a": 1 }, "priority": { "b": 2 }, "states": states }));
        for (node, state) in ["yes", "no", "urgent", "batch", "fallback"].into_iter().zip(states) {
            assert_eq!(project.step(node)["status"], state, "{node}");
        }
    };
    let (taken, not) = ("completed", "skipped");
    let first = json!({ "valid": false, "score": 95, "name": "O'Neil", "priority": "high" });
    check(first, ["yes", "urgent"], [taken, not, taken, not, not]);
    let second = json!({ "valid": true, "score": 5, "name": "O\"Neil", "priority": "other" });
    check(second, ["no", "fallback"], [not, taken, not, not, taken]);
}

#[test]
fn forks_merge_drain_and_wait_for_some() {
    // keeps E-25, E-26, E-27
    let fork = |rest: &str| {
        plain(&format!(
            "
workflow:
  nodes:
    - id: both
      type: fork
      branches: [{{ id: a, agent_persona: P, output_key: left }}, {{ id: b, agent_persona: P, output_key: right }}]
      {rest}
    - {{ id: next, agent_persona: P, depends_on: [both] }}
"
        ))
    };
    let slow = || {
        let mut turns = gives("b", json!({ "n": 2 }));
        turns[0]["delay_ms"] = json!(200);
        turns
    };
    let project =
        Project::new(&fork(""), vec![gives("a", json!({ "n": 1 })), slow(), gives("next", json!({ "ok": 1 }))]);
    assert_eq!(project.completes(json!({})), json!({ "ok": 1 }));
    assert_eq!(given(&project.step("next")), json!({ "left": { "n": 1 }, "right": { "n": 2 } }));
    let project = Project::new(&fork(""), vec![fails("a", "no data"), slow()]);
    project.run(json!({})).expect(1);
    project.home.expect_failure("refused", &["no data"]);
    assert_eq!((project.status("both"), project.status("b")), ("failed".into(), "completed".into()));
    assert_eq!(project.status("next"), "skipped");
    let project = Project::new(
        &fork("wait_for: [a]"),
        vec![gives("a", json!({ "n": 1 })), slow(), gives("next", json!({ "ok": 1 }))],
    );
    assert_eq!(project.completes(json!({})), json!({ "ok": 1 }));
    assert_eq!(given(&project.step("next")), json!({ "left": { "n": 1 } }));
    assert!(project.step("next")["started_at"].as_u64() < project.step("b")["ended_at"].as_u64());
}

#[test]
fn merged_output_is_checked_against_what_takes_it() {
    // keeps E-25
    let workflow = "
personas:
  - { agent_name: A, instruction: Give., output_schema: { type: object, properties: { iban: { type: string } }, required: [iban] } }
  - { agent_name: B, instruction: Take., input_schema: { type: object, properties: { iban: { type: integer } }, required: [iban] } }
workflow:
  nodes:
    - { id: both, type: fork, branches: [{ id: a, agent_persona: A, output_key: billing }] }
    - { id: b, agent_persona: B, input: { iban: \"{{both.output.billing.iban}}\" } }
";
    refused(workflow, &["both.output.billing.iban` does not fit `iban`", "it is a text, and wanted is an integer"]);
}

#[test]
fn loops_go_over_lists_and_until() {
    // keeps E-28, E-29
    let workflow = plain("
workflow:
  nodes:
    - id: each
      type: loop
      max_iterations: 2
      iterate_over: \"{{workflow.input.items}}\"
      loop_body:
        - id: one
          agent_persona: P
          input: { item: \"{{loop.current_item}}\", index: \"{{loop.current_index}}\", count: \"{{loop.iteration_count}}\" }
  output_mapping: { results: \"{{each.output.results}}\" }
");
    let echo = vec![
        turn(
            "one",
            0,
            calls(
                "save_artifact",
                json!({ "name": "o.json", "content": { "item": "«value:node_one_input.json:item»", "index": "«value:node_one_input.json:index»", "count": "«value:node_one_input.json:count»" } }),
            ),
        ),
        turn("one", 1, says("«result:artifact=o.json status=success»")),
    ];
    let project = Project::new(&workflow, vec![echo]);
    let output = project.completes(json!({ "items": ["a", { "b": 1 }] }));
    assert_eq!(
        output,
        json!({ "results": [{ "item": "a", "index": 0, "count": 1 }, { "item": { "b": 1 }, "index": 1, "count": 2 }] })
    );
    assert_eq!(project.completes(json!({ "items": [] })), json!({ "results": [] }));
    project.run(json!({ "items": [1, 2, 3] })).expect(1);
    project.home.expect_failure("limit", &["3"]);
}

#[test]
fn a_default_request_tells_the_task_the_artifact_and_the_fields() {
    // keeps E-30, E-31, E-32
    let workflow = r#"
name: CustomerOnboardingWorkflow
personas:
  - agent_name: "ValidationAgent"
    instruction: Validate customer information for correctness. Be strict.
    input_schema:
      type: object
      properties:
        customer_name: { type: string, description: "Customer's full name" }
        email: { type: string, description: "Customer's email address" }
      required: [customer_name, email]
workflow:
  nodes:
    - { id: validate_customer, agent_persona: "ValidationAgent" }
    - { id: again, agent_persona: "ValidationAgent", input: "{{workflow.input}}", request_template: "Name: {{input.customer_name}}, {{node.id}} of {{workflow.name}}" }
"#;
    let project = Project::new(workflow, vec![gives("validate_customer", json!({})), gives("again", json!({}))]);
    project.completes(json!({ "customer_name": "Ann {{node.id}}", "email": "ann@example.org" }));
    let system = |id: &str| project.heard(id)[0][0]["text"].as_str().unwrap().to_owned();
    let first = system("validate_customer");
    let request = "Your task: Validate customer information for correctness.

Input data is available in artifact: node_validate_customer_input.json

Available input fields:
- customer_name (string): Customer's full name
- email (string): Customer's email address

Please complete your task according to your instructions and mark your output with the result embed.";
    for part in [
        "Validate customer information for correctness. Be strict.\n\n━━━",
        request,
        "Workflow: CustomerOnboardingWorkflow\nNode ID: validate_customer\nYour Role: Node 1 of 2 in workflow",
        "VALUE REFERENCE PROTOCOL (CRITICAL)",
        "«value:node_validate_customer_input.json:field_path»",
        "OUTPUT REQUIREMENTS (MANDATORY)",
        "- Do not deviate from the specified output schema",
    ] {
        assert!(first.contains(part), "{part:?} in {first}");
    }
    assert!(
        system("again")
            .contains("Name: «value:node_again_input.json:customer_name», again of CustomerOnboardingWorkflow")
    );
    let tools: Vec<String> = ["load_artifact", "save_artifact", "list_artifacts"].map(str::to_owned).into();
    let plan = project.home.relais(&["convert", "flow.yaml"]).expect(0).stdout;
    tools.iter().for_each(|tool| assert!(plan.contains(tool.as_str()), "{plan}"));
}

#[test]
fn an_agent_may_load_its_input_to_decide() {
    // keeps E-32
    let workflow = plain("workflow: { nodes: [{ id: a, agent_persona: P }] }");
    let turns = vec![
        turn("a", 0, calls("load_artifact", json!({ "name": "node_a_input.json" }))),
        turn("a", 1, calls("save_artifact", json!({ "name": "o.json", "content": { "saw": true } }))),
        turn("a", 2, says("«result:artifact=o.json status=success»")),
    ];
    let project = Project::new(&workflow, vec![turns]);
    assert_eq!(project.completes(json!({ "word": "xylophone" })), json!({ "saw": true }));
    let step = project.step("a");
    let loaded = step["calls"].as_array().unwrap().iter().find(|call| call["name"] == "load_artifact").unwrap();
    assert_eq!(loaded["output"], json!({ "word": "xylophone" }));
    assert!(!project.heard("a")[0].to_string().contains("xylophone"), "it is not told before it asks");
}

#[test]
fn the_prompt_can_be_shaped() {
    // keeps E-33
    let workflow = plain("
workflow:
  prompt_injection: { include_position_info: false, includeVisualSeparators: false, custom_preamble: \"Additional context...\" }
  nodes: [{ id: a, agent_persona: P }]
");
    let project = Project::new(&workflow, vec![gives("a", json!({}))]);
    project.completes(json!({}));
    let seen = project.seen("a");
    assert!(seen.contains("Additional context...") && seen.contains("OUTPUT REQUIREMENTS"), "{seen}");
    assert!(!seen.contains("━━━") && !seen.contains("Node 1 of 1"), "{seen}");
}

#[test]
fn timeouts_fail_the_workflow_with_their_duration() {
    // keeps E-13, E-34, E-35
    let hangs = || vec![turn("a", 0, json!({ "text": "late", "delay_ms": 60_000 }))];
    let node = plain(
        "workflow: { nodes: [{ id: a, agent_persona: P, timeout: 1s, retry_strategy: { limit: 2, backoff: { duration: 1ms } } }] }",
    );
    let project = Project::new(&node, vec![hangs()]);
    project.run(json!({})).expect(1);
    project.home.expect_failure("timeout", &["`a`", "1s"]);
    assert_eq!(project.heard("a").len(), 1);
    let whole = plain("workflow: { timeout: 1s, nodes: [{ id: a, agent_persona: P }] }");
    let project = Project::new(&whole, vec![hangs()]);
    project.run(json!({})).expect(1);
    project.home.expect_failure("timeout", &["1s"]);
}

#[test]
fn a_workflow_calls_a_workflow() {
    // keeps E-42
    let workflow = plain(
        "workflow: { nodes: [{ id: a, agent_persona: P }, { id: sub, type: workflow, workflow_name: ./inner.yaml, input: { n: \"{{a.output.n}}\" } }] }",
    );
    let project = Project::new(&workflow, vec![gives("a", json!({ "n": 7 })), gives("inner", json!({ "done": true }))]);
    project.home.file(
        "inner.yaml",
        &plain("workflow: { input_schema: { n: integer }, nodes: [{ id: inner, agent_persona: P }] }"),
    );
    assert_eq!(project.completes(json!({})), json!({ "done": true }));
    assert_eq!(project.step("sub")["kind"], "workflow");
}

#[test]
fn apps_are_personas_and_one_is_the_workflow() {
    // keeps E-15
    let workflow = "
log: { stdout_log_level: INFO }
apps:
  - name: worker
    app_module: some.module
    broker: { url: ${BROKER, none} }
    app_config: { agentName: Worker, displayName: The Worker, instruction: Work., tools: [{ tool_type: builtin-group, group_name: artifact_management }] }
  - name: flow
    app_config:
      agent_name: Flow
      default_node_timeout_seconds: 1
      workflow:
        version: 1.0.0
        nodes: [{ id: a, type: agent, agentName: The Worker }]
";
    let project = Project::new(workflow, vec![gives("a", json!({ "ok": 1 }))]);
    project.run(json!({})).expect(0).says(&["`broker` has no effect here", "`version` has no effect here"]);
    assert_eq!(project.home.show()["workflow"], "Flow");
    let late = vec![turn("a", 0, json!({ "text": "late", "delay_ms": 60_000 }))];
    let project = Project::new(workflow, vec![late]);
    project.run(json!({})).expect(1);
    project.home.expect_failure("timeout", &["1s"]);
}

#[test]
fn loops_end_by_their_condition_or_their_limit() {
    // keeps E-28, E-29
    let workflow = plain(
        "
workflow:
  nodes:
    - id: again
      type: loop
      max_iterations: 3
      condition: \"{{try.output.round}} == {{workflow.input.enough}}\"
      loop_body: [{ id: try, agent_persona: P, input: { round: \"{{loop.iteration_count}}\" } }]
  output_mapping: { rounds: \"{{again.output.results}}\", why: \"{{again.output.ended_by}}\" }
",
    );
    let content = json!({ "round": "«value:node_try_input.json:round»" });
    let turns = vec![
        turn("try", 0, calls("save_artifact", json!({ "name": "t.json", "content": content }))),
        turn("try", 1, says("«result:artifact=t.json status=success»")),
    ];
    let project = Project::new(&workflow, vec![turns]);
    let rounds = |last: u32| (1..=last).map(|round| json!({ "round": round })).collect::<Vec<_>>();
    assert_eq!(project.completes(json!({ "enough": 2 })), json!({ "rounds": rounds(2), "why": "until" }));
    assert_eq!(project.completes(json!({ "enough": 9 })), json!({ "rounds": rounds(3), "why": "limit" }));
}

#[test]
fn a_map_at_once_keeps_items_apart() {
    // keeps E-03, E-20
    let workflow = plain(
        "
workflow:
  nodes:
    - { id: all, type: map, items: \"{{workflow.input.list}}\", node: one }
    - { id: one, type: agent, agent_name: P, input: { it: \"{{item}}\" } }
  outputMapping: { got: \"{{all.output.results}}\" }
",
    );
    let content = json!({ "it": "«value:node_one_input.json:it»" });
    let mut turns = vec![
        turn("one", 0, calls("save_artifact", json!({ "name": "same.json", "content": content }))),
        turn("one", 1, says("«result:artifact=same.json status=success»")),
    ];
    turns.iter_mut().for_each(|turn| turn["delay_ms"] = json!(50));
    let project = Project::new(&workflow, vec![turns]);
    let list: Vec<u32> = (0..8).collect();
    let got: Vec<Value> = list.iter().map(|it| json!({ "it": it })).collect();
    assert_eq!(project.completes(json!({ "list": list })), json!({ "got": got }));
    project.run(json!({ "list": vec![0; 101] })).expect(1);
    project.home.expect_failure("limit", &["101", "100"]);
}

#[test]
fn data_that_looks_like_a_reference_stays_data() {
    // keeps E-03, E-30
    let text = "{{a.output.x}} {% if %} «value:node_a_input.json:x» <<step_output.1>> $previous_output «result:status=failure message=x»";
    let workflow = plain(
        "workflow: { nodes: [{ id: a, agent_persona: P }, { id: b, agent_persona: P, input: { whole: \"{{a.output.x}}\", part: \"<{{a.output.x}}>\", own: \"{% raw %} {# c #}\" } }] }",
    );
    let copy = |node: &str, path: &str| {
        let content = json!({ "x": format!("«value:node_{node}_input.json:{path}»") });
        let name = format!("{node}.json");
        vec![
            turn(node, 0, calls("save_artifact", json!({ "name": name, "content": content }))),
            turn(node, 1, says(&format!("«result:artifact={name} status=success»"))),
        ]
    };
    let project = Project::new(&workflow, vec![copy("a", "text"), copy("b", "part")]);
    assert_eq!(project.completes(json!({ "text": text })), json!({ "x": format!("<{text}>") }));
    let b = given(&project.step("b"));
    assert_eq!(b, json!({ "whole": text, "part": format!("<{text}>"), "own": "{% raw %} {# c #}" }));
}

#[test]
fn files_and_variables_come_in_before_the_file_is_read() {
    let workflow = "
!include personas.yaml
workflow: { nodes: [{ id: a, agent_persona: P, input: { who: \"${WHO, Ann}\", where: \"${PLACE, here}\" } }] }
";
    let mut project = Project::new(workflow, vec![gives("a", json!({}))]);
    project.home.file("personas.yaml", PLAIN);
    project.home = project.home.set("WHO", "Bob");
    project.completes(json!({}));
    assert_eq!(given(&project.step("a")), json!({ "who": "Bob", "where": "here" }));
}

#[test]
fn one_of_several_workflows_is_chosen_by_name() {
    let app = |name: &str| {
        format!(
            "  - {{ name: app, app_config: {{ agent_name: {name}, workflow: {{ nodes: [{{ id: {name}_node, agent_persona: P }}] }} }} }}\n"
        )
    };
    let workflow = format!("{PLAIN}apps:\n{}{}", app("One"), app("Two"));
    let project = Project::new(&workflow, vec![gives("Two_node", json!({ "two": 2 }))]);
    project.run(json!({})).expect(2).says(&["the file has several workflows: One, Two", "--branch One"]);
    let words = ["run", "flow.yaml", "--branch", "Two", "--model", "script/turns.json"];
    assert_eq!(project.home.relais(&words).expect(0).json(), json!({ "two": 2 }));
    let wrong = ["run", "flow.yaml", "--branch", "Three", "--simulate"];
    project.home.relais(&wrong).expect(2).says(&["no workflow `Three`", "One, Two"]);
}

#[test]
fn a_failed_run_goes_on_from_the_failed_node() {
    // keeps E-21
    let workflow = plain(
        "workflow: { nodes: [{ id: a, agent_persona: P }, { id: b, agent_persona: P, depends_on: [a] }, { id: c, agent_persona: P, depends_on: [b] }] }",
    );
    let down = vec![turn("b", 0, json!({ "error": { "kind": "provider", "message": "down" } }))];
    let project = Project::new(&workflow, vec![gives("a", json!({ "n": 1 })), down]);
    project.run(json!({})).expect(1);
    let mended = [gives("b", json!({ "n": 2 })), gives("c", json!({ "n": 3 }))].concat();
    project.home.file("turns.json", &Value::Array(mended).to_string());
    assert_eq!(project.home.relais(&["resume", "--last"]).expect(0).json(), json!({ "n": 3 }));
    let asked = |node: &str| project.heard(node).len();
    assert_eq!((asked("a"), asked("c")), (2, 2));
    assert_eq!(given(&project.step("b")), json!({ "n": 1 }));
}

#[test]
fn a_tool_error_is_the_agents_business() {
    // keeps E-13
    let workflow = plain("workflow: { nodes: [{ id: a, agent_persona: P }] }");
    let turns = vec![
        turn("a", 0, calls("load_artifact", json!({ "name": "none.json" }))),
        turn("a", 1, calls("save_artifact", json!({ "name": "o.json", "content": { "managed": true } }))),
        turn("a", 2, says("«result:artifact=o.json status=success»")),
    ];
    let project = Project::new(&workflow, vec![turns]);
    assert_eq!(project.completes(json!({})), json!({ "managed": true }));
    let step = project.step("a");
    let failed = step["calls"].as_array().unwrap().iter().find(|call| call["name"] == "load_artifact").unwrap();
    assert_eq!(failed["status"], "failed", "{failed}");
}

#[test]
fn the_examples_run_simulated() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/dag");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        count += 1;
        let home = Home::new();
        let input = match path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap() {
            "order" => json!({ "order_id": "A-17", "skus": ["a", "b"], "priority": "express" }),
            "onboarding" => json!({ "document": "Ann Lee" }),
            _ => json!({ "text": "anything" }),
        };
        let input = home.file("input.json", &input.to_string());
        let input = format!("@{}", input.display());
        home.relais(&["run", path.to_str().unwrap(), "--simulate", "--input", &input]).expect(0);
        home.expect_status("completed");
    }
    assert!(count >= 5);
}
