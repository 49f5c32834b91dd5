//! What goes wrong easily, in every format that it can go wrong in, as a model server sees it.

use std::time::Duration;

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::{Value, json};

use crate::home::Home;

const SLOW: &str = "gpt-4o";
const FAST: &str = "gpt-4o-mini";

/// Two agents at once, the slow one written first. Both answer with a tool call and then with what they are.
fn never_mixed(file: &str, text: &str) -> (Value, Vec<Received>) {
    let server = ModelServer::start();
    server.answer_by(|request: &Received| {
        let is_slow = request.body["model"] == SLOW;
        let called = request.body["messages"].to_string().contains("tool_call_id");
        let (name, arguments) = ("save_artifact", json!({ "name": "own.json", "content": { "slow": is_slow } }));
        let offers = tools(request).iter().any(|tool| tool == name);
        let answer = match (called, offers) {
            (false, true) => Behaviour::Say(Said::default().call(name, &arguments.to_string())),
            (true, true) => Behaviour::say("«result:artifact=own.json status=success»"),
            (_, false) => Behaviour::say(if is_slow { "slow" } else { "fast" }),
        };
        if is_slow { answer.after(Duration::from_millis(150)) } else { answer }
    });
    let home = Home::with_model(&server);
    home.file(file, text);
    let outcome = home.relais(&["run", file]).expect(0);
    let output = serde_json::from_str(&outcome.stdout).unwrap_or(Value::String(outcome.stdout));
    (output, server.received())
}

fn tools(request: &Received) -> Vec<String> {
    let all = request.body["tools"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

/// Each was asked with its own instructions and its own tool, and with no other's.
fn check(received: &[Received]) {
    for (model, own, other) in [(SLOW, "read_file", "list_files"), (FAST, "list_files", "read_file")] {
        let asked: Vec<&Received> = received.iter().filter(|request| request.body["model"] == model).collect();
        assert!(!asked.is_empty(), "{model}");
        for request in asked {
            let tools = tools(request);
            assert!(tools.iter().any(|tool| tool == own) && !tools.iter().any(|tool| tool == other), "{tools:?}");
            let said = request.body["messages"].to_string();
            let (own, other) = if model == SLOW { ("Be slow.", "Be fast.") } else { ("Be fast.", "Be slow.") };
            assert!(said.contains(own) && !said.contains(other), "{said}");
        }
    }
}

#[test]
fn parallel_agents_keep_their_tools_and_models_in_a_pipeline() {
    let (output, received) = never_mixed(
        "flow.yaml",
        "
agents:
  slow: { model: openai/gpt-4o, instruction: Be slow., toolsets: [{ type: filesystem, tools: [read_file] }] }
  fast: { model: openai/gpt-4o-mini, instruction: Be fast., toolsets: [{ type: filesystem, tools: [list_files] }] }
workflow:
  - { id: both, type: parallel, steps: [{ id: a, type: agent, name: slow }, { id: b, type: agent, name: fast }] }
",
    );
    check(&received);
    let text = output.to_string();
    assert!(text.find("slow") < text.find("fast"), "{text}");
}

#[test]
fn parallel_agents_keep_their_tools_and_models_in_a_graph() {
    let graph = json!({
        "nodes": [
            { "id": "a", "config": { "agentId": "slow" } },
            { "id": "b", "config": { "agentId": "fast" } },
            { "id": "join", "config": { "agentId": "fast" } }
        ],
        "edges": [{ "from": "a", "to": "join" }, { "from": "b", "to": "join" }],
        "agents": {
            "slow": { "model": "openai/gpt-4o", "instructions": "Be slow.", "tools": ["read_file"] },
            "fast": { "model": "openai/gpt-4o-mini", "instructions": "Be fast.", "tools": ["list_files"] }
        }
    });
    let (_, received) = never_mixed("flow.json", &graph.to_string());
    check(&received);
    let heard = received.last().unwrap().body["messages"].to_string();
    assert!(heard.contains(r#"{\"a\":\"slow\",\"b\":\"fast\"}"#), "{heard}");
}

#[test]
fn parallel_agents_keep_their_tools_and_models_in_a_dag() {
    let (output, received) = never_mixed(
        "flow.yaml",
        "
personas:
  - { agent_name: Slow, instruction: Be slow., model: openai/gpt-4o, tools: [read_file] }
  - { agent_name: Fast, instruction: Be fast., model: openai/gpt-4o-mini, tools: [list_files] }
workflow:
  nodes:
    - id: both
      type: fork
      branches:
        - { id: a, agent_persona: Slow, output_key: z }
        - { id: b, agent_persona: Fast, output_key: y }
",
    );
    check(&received);
    assert_eq!(output.to_string(), r#"{"z":{"slow":true},"y":{"slow":false}}"#);
}
