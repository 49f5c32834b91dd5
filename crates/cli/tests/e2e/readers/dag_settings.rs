//! The format `dag`: each setting of a workflow and of its nodes changes what the program does.

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::{Value, json};

use super::dag::{Project, fails, given, gives, plain, turn};
use crate::home::{Home, wait_until};

/// A node that the model's provider lets down.
fn down(node: &str, kind: &str) -> Vec<Value> {
    vec![turn(node, 0, json!({ "error": { "kind": kind, "message": "to order" } }))]
}

/// A node whose answer takes longer than any test.
fn hangs(node: &str) -> Vec<Value> {
    vec![turn(node, 0, json!({ "text": "late", "delay_ms": 60_000 }))]
}

/// How often a node has run.
fn entered(project: &Project, node: &str) -> usize {
    project.ended().iter().filter(|(key, _)| key == node).count()
}

#[test]
fn retry_policies_say_what_is_tried_again() {
    let check = |policy: &str, kind: &str, asked: usize| {
        let workflow = plain(&format!(
            "workflow: {{ nodes: [{{ id: a, agent_persona: P, retry_strategy: {{ limit: 1, retry_policy: {policy}, backoff: {{ duration: 1ms }} }} }}] }}"
        ));
        let project = Project::new(&workflow, vec![down("a", kind)]);
        project.run(json!({})).expect(1);
        project.home.expect_failure(kind, &["to order"]);
        let events = project.home.count("asked", |event| event.to_string().contains("\"model\""));
        assert_eq!(events, asked, "{policy} {kind}");
    };
    check("Always", "tool", 2);
    check("OnFailure", "tool", 2);
    check("OnError", "tool", 1);
    check("OnError", "provider", 2);
    check("OnTransientError", "provider", 1);
    check("OnTransientError", "transport", 2);
    check("Always", "timeout", 1);
}

#[test]
fn fail_fast_stops_what_else_is_running() {
    let nodes = "nodes: [{ id: bad, agent_persona: P }, { id: slow, agent_persona: P }]";
    let fast = Project::new(
        &plain(&format!("workflow: {{ fail_fast: true, {nodes} }}")),
        vec![fails("bad", "broken"), hangs("slow")],
    );
    fast.run(json!({})).expect(1);
    assert_eq!(fast.status("slow"), "cancelled");
    let mut late = gives("slow", json!({ "done": true }));
    late[0]["delay_ms"] = json!(200);
    let patient = Project::new(&plain(&format!("workflow: {{ {nodes} }}")), vec![fails("bad", "broken"), late]);
    patient.run(json!({})).expect(1);
    assert_eq!(patient.status("slow"), "completed");
}

const EXITS: &str = "
workflow:
  on_exit: { always: tidy, failure: alarm, success: cheer, cancel: excuse }
  nodes:
    - { id: work, agent_persona: P }
    - { id: tidy, agent_persona: P }
    - { id: alarm, agent_persona: P }
    - { id: cheer, agent_persona: P }
    - { id: excuse, agent_persona: P }
";

/// The nodes that ran, in order.
fn ran(project: &Project) -> Vec<String> {
    project.ended().into_iter().filter(|(_, status)| status != "skipped").map(|(key, _)| key).collect()
}

fn exits(work: Vec<Value>) -> Project {
    let others = ["tidy", "alarm", "cheer", "excuse"].map(|node| gives(node, json!({}))).concat();
    Project::new(&plain(EXITS), vec![work, others])
}

#[test]
fn exit_nodes_run_once_after_the_body_however_it_ends() {
    let fine = exits(gives("work", json!({ "n": 1 })));
    assert_eq!(fine.completes(json!({})), json!({ "n": 1 }));
    assert_eq!(ran(&fine), ["work", "tidy", "cheer"]);

    let failed = exits(fails("work", "broken"));
    failed.run(json!({})).expect(1);
    failed.home.expect_status("failed");
    assert_eq!(ran(&failed), ["work", "tidy", "alarm"]);

    let cancelled = exits(hangs("work"));
    let process = cancelled.home.start(&["run", "flow.yaml", "--model", "script/turns.json"]);
    wait_until("the model is asked", || {
        (cancelled.home.count("asked", |event| event.to_string().contains("\"model\"")) > 0).then_some(())
    });
    process.signal("INT");
    process.end().expect(130);
    cancelled.home.expect_status("cancelled");
    assert_eq!(ran(&cancelled), ["work", "tidy", "excuse"]);
}

#[test]
fn a_switch_takes_the_first_condition_that_holds() {
    let workflow = plain(
        "
workflow:
  nodes:
    - id: route
      type: switch
      cases:
        - { condition: \"{{workflow.input.n}} > 10\", node: large }
        - { condition: \"'{{workflow.input.word}}' == 'it\\\\'s'\", node: quoted }
      default: other
    - { id: large, agent_persona: P }
    - { id: quoted, agent_persona: P }
    - { id: other, agent_persona: P }
  output_mapping:
    took: { coalesce: [\"{{large.output.x}}\", \"{{quoted.output.x}}\", \"{{other.output.x}}\", nothing] }
    told: { concat: [\"n=\", \"{{workflow.input.n}}\", \"; \", \"{{workflow.input.word}}\"] }
",
    );
    let turns = ["large", "quoted", "other"].map(|node| gives(node, json!({ "x": node })));
    let project = Project::new(&workflow, turns.into());
    let check = |input: Value, took: &str, told: &str| {
        assert_eq!(project.completes(input), json!({ "took": took, "told": told }));
    };
    check(json!({ "n": 11, "word": "it's" }), "large", "n=11; it's");
    check(json!({ "n": 10, "word": "it's" }), "quoted", "n=10; it's");
    check(json!({ "n": 1, "word": "{{large.output}} 'a' \"b\"" }), "other", "n=1; {{large.output}} 'a' \"b\"");
}

#[test]
fn a_loop_rests_between_its_passes() {
    let workflow = |delay: &str| {
        plain(&format!(
            "workflow: {{ nodes: [{{ id: poll, type: loop, node: look, condition: \"{{{{look.output.ready}}}} == false\", max_iterations: 2{delay} }}, {{ id: look, agent_persona: P }}] }}"
        ))
    };
    let rests = |delay: &str| {
        let project = Project::new(&workflow(delay), vec![gives("look", json!({ "ready": false }))]);
        project.completes(json!({}));
        assert_eq!(entered(&project, "look"), 2);
        let calls = project.step("poll")["calls"].as_array().cloned().unwrap_or_default();
        calls.iter().filter(|call| call["what"] == "sleep").map(|call| call["ms"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let rested = rests(", delay: 1s");
    assert!(rested.len() == 1 && rested[0] >= 1000, "{rested:?}");
    assert!(rests("").is_empty());
}

#[test]
fn the_time_for_a_shutdown_is_part_of_the_plan() {
    let home = Home::new();
    home.file("flow.yaml", &plain("workflow: { shutdown_timeout: 90, nodes: [{ id: a, agent_persona: P }] }"));
    let native = home.relais(&["convert", "flow.yaml"]).expect(0).stdout;
    assert!(native.contains("shutdown_timeout: 90s") || native.contains("shutdown_timeout: 1m30s"), "{native}");
}

#[test]
fn what_must_not_be_seen_never_goes_over_the_wire() {
    // keeps E-03
    let server = ModelServer::start();
    server.answer_by(|request: &Received| {
        let messages =
            request.body["messages"].as_array().map_or(0, |all| all.iter().filter(|m| m["role"] == "tool").count());
        match messages {
            0 => {
                let content = json!({ "iban": "«value:node_pay_input.json:account.iban»" });
                let arguments = json!({ "name": "out.json", "content": content }).to_string();
                Behaviour::Say(Said::default().call("save_artifact", &arguments))
            }
            _ => Behaviour::say("«result:artifact=out.json status=success»"),
        }
    });
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "personas: [{ agent_name: P, instruction: Pay., model: openai/gpt-4o-mini }]\n\
         workflow: { nodes: [{ id: pay, agent_persona: P, request_template: \"Pay to {{input.account.iban}}.\" }] }\n",
    );
    home.file("input.json", r#"{ "account": { "iban": "DE00-4711-canary" } }"#);
    let output = home.relais(&["run", "flow.yaml", "--input", "@input.json"]).expect(0).json();
    assert_eq!(output, json!({ "iban": "DE00-4711-canary" }));
    let received = server.received();
    assert_eq!(received.len(), 2);
    for request in &received {
        assert!(!request.body.to_string().contains("canary"), "{:#}", request.body);
    }
    assert!(received[0].body.to_string().contains("Pay to «value:node_pay_input.json:account.iban»."));
}

/// What the apps of the released form share by anchors and merge keys reaches the personas; what belongs to their
/// deployment is named and not looked up.
#[test]
fn a_file_of_the_released_form_runs() {
    // keeps E-15
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/dag");
    let file = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let nodes = [
        ("validate", json!({ "valid": true, "order_id": "A-1" })),
        ("customer", json!({ "name": "Ann" })),
        ("stock", json!({ "all": true })),
        ("process_item", json!({ "line": 1 })),
        ("price", json!({ "total": 12 })),
        ("by_rule", json!({ "by": "rule" })),
        ("check_status", json!({ "ready": true })),
        ("pack", json!({ "parcel": 5 })),
        ("finish", json!({ "order_id": "A-1" })),
        ("tidy", json!({})),
    ];
    let project = Project::new(&file("released.yaml"), nodes.map(|(node, output)| gives(node, output)).into());
    project.home.file("parcel.yaml", &file("parcel.yaml"));
    let input = json!({ "order_id": "A-1", "priority": "normal", "items": [{ "item_id": "x", "quantity": 1 }, { "item_id": "y", "quantity": 2 }] });
    let outcome = project.run(input).expect(0).says(&["`broker` has no effect here", "`api_key` has no effect here"]);
    assert_eq!(
        outcome.json(),
        json!({ "order_id": "A-1", "parcel": { "parcel": 5 }, "seen": true, "summary": "Order A-1: 1 looks" })
    );
    assert_eq!(given(&project.step("customer")), json!({ "customer_id": "nobody" }));
    assert_eq!(given(&project.step("finish")), json!({ "order_id": "A-1", "approved": "rule" }));
    assert_eq!(project.status("tidy"), "completed");
    let native = project.home.relais(&["convert", "flow.yaml"]).expect(0).stdout;
    assert!(native.contains("temperature: 0.1") && native.contains("max_tokens: 16000"), "{native}");
    assert!(!native.contains("API_KEY") && !native.contains("ORDERS_"), "{native}");
}

const SEVERAL: &str = r#"
apps:
  - name: inner
    app_config: { agent_name: Inner, workflow: { nodes: [{ id: a, type: agent, agent_name: P }] } }
  - name: outer
    app_config: { agent_name: Outer, workflow: { nodes: [{ id: call, type: workflow, workflow_name: Inner, input: { x: 1 } }] } }
  - name: p
    app_config: { agent_name: P, instruction: Do it., output_schema: { type: object, properties: { r: { type: string } }, required: [r] } }
"#;

// keeps E-42
#[test]
fn workflows_of_one_file_call_one_another() {
    let home = Home::new();
    home.file("apps.yaml", SEVERAL);
    home.relais(&["validate", "apps.yaml"]).expect(0).prints(&["branch Inner: ", "branch Outer: "]);
    home.relais(&["run", "apps.yaml", "--simulate"]).expect(2).says(&["several workflows: Inner, Outer"]);
    home.relais(&["run", "apps.yaml", "--branch", "Outer", "--simulate"]).expect(0);
    let converted = home.relais(&["convert", "apps.yaml", "--branch", "Outer"]).expect(0);
    home.file("converted.yaml", &converted.stdout);
    home.relais(&["run", "converted.yaml", "--simulate"]).expect(0);
    home.file("apps.yaml", &SEVERAL.replace("id: a, type", "id: a, tipe: x, type"));
    home.relais(&["validate", "apps.yaml"]).expect(2).says(&["`tipe`"]);
}

#[test]
fn what_would_be_lost_or_never_taken_is_refused() {
    let check = |nodes: &str, said: &str| {
        let home = Home::new();
        let nodes = format!("personas: [{{ agent_name: P, instruction: Do it. }}]\nworkflow: {{ nodes: [{nodes}] }}\n");
        home.file("flow.yaml", &nodes);
        home.relais(&["validate", "flow.yaml"]).expect(2).says(&[said]);
    };
    let node = "agent_persona: P";
    check(
        &format!(
            "{{ id: f, type: fork, branches: [{{ id: a, {node}, output_key: k }}, {{ id: b, {node}, output_key: k }}] }}"
        ),
        "two children of this block would give their output as `k`",
    );
    check(
        &format!(
            "{{ id: f, type: fork, wait_for: [a], branches: [{{ id: a, {node}, output_key: k }}, {{ id: b, {node}, output_key: l }}] }}, \
             {{ id: n, {node}, input: {{ x: '{{{{f.output.l}}}}' }} }}"
        ),
        "`l`",
    );
    check(
        &format!(
            "{{ id: c, type: case, expression: '{{{{workflow.input.x}}}}', cases: [{{ value: high, nodes: [{{ id: a, {node} }}] }}, \
             {{ value: high, nodes: [{{ id: b, {node} }}] }}] }}"
        ),
        "two cases are the same",
    );
    check(
        &format!("{{ id: n, {node}, input: {{ name: x }}, request_template: 'Hello {{{{input.nam}}}}' }}"),
        "the input of this node has no `nam`",
    );
    let misspelt = "{ type: object, propertys: { r: { type: integer } } }";
    check(&format!("{{ id: n, {node}, output_schema_override: {misspelt} }}"), "did you mean `properties`?");
}
