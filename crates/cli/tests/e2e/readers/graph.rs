//! The format `graph`.

use std::path::Path;

use relais_testkit::{Behaviour, ModelServer, Received};
use serde_json::{Value, json};

use crate::home::Home;

/// Two agents that talk, as the guide to the format has them.
const TALK: &str = r#"
{
  "nodes": [
    { "id": "a1", "type": "agent", "config": { "agentId": "<agent-1-id>" } },
    { "id": "a2", "type": "agent", "config": { "agentId": "<agent-2-id>" } }
  ],
  "edges": [
    { "id": "e1", "from": "a1", "to": "a2" },
    { "id": "e2", "from": "a2", "to": "a1" }
  ],
  "maxRounds": 10
}
"#;

/// The graph with its agents, so that the file is complete.
fn complete(graph: &str, agents: &[&str]) -> String {
    let mut file: Value = serde_json::from_str(graph).unwrap();
    for agent in agents {
        file["agents"][*agent] = json!({ "model": "openai/gpt-4o-mini", "instructions": format!("You are {agent}.") });
    }
    file.to_string()
}

/// A graph of nodes `(id, agent)` and edges `(from, to)`.
fn graph(nodes: &[(&str, &str)], edges: &[(&str, &str)]) -> Value {
    let node = |(id, agent): &(&str, &str)| json!({ "id": id, "type": "agent", "config": { "agentId": agent } });
    let edge = |(from, to): &(&str, &str)| json!({ "from": from, "to": to });
    json!({
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
        "edges": edges.iter().map(edge).collect::<Vec<_>>(),
    })
}

/// Who was asked, and with what.
fn asked(received: &Received) -> (String, String) {
    let text = |at: usize| received.body["messages"][at]["content"].as_str().unwrap_or_default().to_owned();
    (text(0).trim_start_matches("You are ").trim_end_matches('.').to_owned(), text(1))
}

fn home(server: &ModelServer, file: &str) -> Home {
    let home = Home::with_model(server);
    home.file("flow.json", file);
    home
}

/// Every agent says its own name and what it was told.
fn echoing() -> ModelServer {
    let server = ModelServer::start();
    server.answer_by(|received| {
        let (agent, heard) = asked(received);
        Behaviour::say(&format!("{agent}({heard})"))
    });
    server
}

/// Runs the graph with a prompt; who heard what, in the order of asking.
fn heard(file: &str, prompt: &str) -> (Vec<(String, String)>, String) {
    let server = echoing();
    let home = home(&server, file);
    let outcome = home.relais(&["run", "flow.json", prompt]).expect(0);
    home.expect_status("completed");
    (server.received().iter().map(asked).collect(), outcome.stdout.trim().to_owned())
}

// keeps D-01, D-02, D-03
#[test]
fn two_agents_talk_for_ten_rounds() {
    let server = ModelServer::start();
    let turn = std::sync::atomic::AtomicUsize::new(0);
    server.answer_by(move |_| {
        Behaviour::say(&format!("turn {}", turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1))
    });
    let home = home(&server, &complete(TALK, &["<agent-1-id>", "<agent-2-id>"]));
    let outcome = home.relais(&["run", "flow.json", "Tea or coffee?"]).expect(0);
    assert_eq!(outcome.stdout.trim(), "turn 20");
    let turns: Vec<(String, String)> = server.received().iter().map(asked).collect();
    assert_eq!(turns.len(), 20);
    for (turn, (agent, heard)) in turns.iter().enumerate() {
        let speaker = if turn % 2 == 0 { "<agent-1-id>" } else { "<agent-2-id>" };
        let before = if turn == 0 { "Tea or coffee?".to_owned() } else { format!("turn {turn}") };
        assert_eq!((agent.as_str(), heard), (speaker, &before));
    }
    home.expect_status("completed");
}

// keeps D-04
#[test]
fn a_graph_begins_where_nothing_leads_and_follows_all_edges() {
    let mut file = graph(
        &[("last", "z"), ("l", "l"), ("r", "r"), ("start", "s")],
        &[("start", "l"), ("start", "r"), ("l", "last"), ("r", "last")],
    );
    file["name"] = json!("fan");
    let (mut turns, said) = heard(&complete(&file.to_string(), &["z", "l", "r", "s"]), "go");
    turns[1..3].sort();
    let expected = [("s", "go"), ("l", "s(go)"), ("r", "s(go)"), ("z", r#"{"l":"l(s(go))","r":"r(s(go))"}"#)];
    assert_eq!(turns, expected.map(|(agent, heard)| (agent.to_owned(), heard.to_owned())));
    assert_eq!(said, format!("z({})", expected[3].1));
}

// keeps D-04
#[test]
fn where_every_node_is_led_to_the_first_listed_begins() {
    let mut file = graph(&[("b", "b"), ("a", "a")], &[("a", "b"), ("b", "a")]);
    file["maxRounds"] = json!(1);
    let (turns, _) = heard(&complete(&file.to_string(), &["a", "b"]), "go");
    assert_eq!(turns.iter().map(|(agent, _)| agent.as_str()).collect::<Vec<_>>(), ["b", "a"]);
}

// keeps D-03, D-19
#[test]
fn edges_out_of_a_cycle_are_followed_once_after_its_rounds() {
    let mut file = graph(
        &[("in", "i"), ("x", "x"), ("y", "y"), ("out", "o")],
        &[("in", "x"), ("x", "y"), ("y", "x"), ("x", "out")],
    );
    file["maxRounds"] = json!(2);
    let (turns, said) = heard(&complete(&file.to_string(), &["i", "x", "y", "o"]), "go");
    let order: Vec<&str> = turns.iter().map(|(agent, _)| agent.as_str()).collect();
    assert_eq!(order, ["i", "x", "y", "x", "y", "o"]);
    // The way out hands over what its node said in the last round.
    assert_eq!(said, "o(x(y(x(i(go)))))");
}

// keeps D-19
#[test]
fn other_nodes_are_steps_of_the_native_format() {
    let mut file = graph(&[("a", "a"), ("b", "b")], &[("a", "save"), ("save", "b")]);
    let save = json!({
        "id": "save", "type": "tool",
        "parameters": { "tool": "write_file", "with": { "path": "a.txt", "content": "{{ steps.a.output }}" } },
    });
    file["nodes"].as_array_mut().unwrap().push(save);
    let server = echoing();
    let home = home(&server, &complete(&file.to_string(), &["a", "b"]));
    home.relais(&["run", "flow.json", "go"]).expect(0);
    let trace = home.expect_status("completed");
    assert_eq!(trace["steps"][1]["calls"][0]["input"]["content"], "a(go)", "{trace:#}");
    assert!(asked(&server.received()[1]).1.contains("a.txt"));
}

#[test]
fn a_cycle_without_a_number_of_rounds_is_warned_about() {
    let home = Home::new();
    let file = graph(&[("a", "a"), ("b", "a")], &[("a", "b"), ("b", "a")]);
    home.file("flow.json", &complete(&file.to_string(), &["a"]));
    home.relais(&["validate", "flow.json"]).expect(0).says(&["without `maxRounds`", "100 rounds"]);
}

#[test]
fn mistakes_in_a_graph_are_told_where_they_are() {
    let check = |file: Value, parts: &[&str]| {
        let home = Home::new();
        home.file("flow.json", &serde_json::to_string_pretty(&file).unwrap());
        home.relais(&["validate", "flow.json"]).expect(2).says(parts);
        home.relais(&["run", "flow.json", "--simulate"]).expect(2).says(parts);
        assert_eq!(home.entries(), 0);
    };
    let agents = json!({ "writer": { "model": "sim/x" } });
    let mut file = graph(&[("a", "writter")], &[]);
    file["agents"] = agents.clone();
    check(file, &["no agent is called `writter`", "did you mean `writer`?", "flow.json:"]);
    let mut file = graph(&[("first", "writer"), ("b", "writer"), ("c", "writer")], &[("b", "c"), ("c", "b")]);
    file["agents"] = agents.clone();
    check(file, &["no way leads to the node `b`", "no way leads to the node `c`"]);
    let mut file = graph(&[("a", "writer")], &[("a", "bb")]);
    (file["agents"], file["nodes"][0]["typ"]) = (agents, json!("agent"));
    check(file, &["no node has the id `bb`", "unknown key `typ`", "did you mean `type`?"]);
}

/// A file with a main graph that fails, a branch that is fine and one that runs by itself.
fn branched() -> String {
    let mut file = graph(&[("m", "main")], &[]);
    let mut fine = graph(&[("f", "fine")], &[]);
    (fine["id"], fine["name"]) = (json!("side"), json!("The side way"));
    let mut bad = graph(&[("b", "bad")], &[]);
    (bad["id"], bad["executionMode"], bad["schedule"]) = (json!("broken"), json!("interval"), json!("daily@09:00"));
    let mut endless = graph(&[("e", "fine")], &[]);
    endless["executionMode"] = json!("continuous");
    (file["name"], file["id"], file["branches"]) = (json!("many"), json!("wf-1"), json!([fine, bad, endless]));
    complete(&file.to_string(), &["main", "fine", "bad"])
}

// keeps D-05, D-11, D-12
#[test]
fn branches_run_apart_from_one_another() {
    let server = ModelServer::start();
    server.answer_by(|received| match asked(received).0.as_str() {
        "bad" => Behaviour::status(400),
        agent => Behaviour::say(agent),
    });
    let home = home(&server, &branched());
    home.relais(&["run", "flow.json", "go", "--branch", "broken"]).expect(1);
    assert_eq!(home.show()["workflow"], "many/broken");
    assert_eq!(home.relais(&["run", "flow.json", "go", "--branch", "side"]).expect(0).stdout.trim(), "fine");
    assert_eq!(home.expect_status("completed")["workflow"], "many/side");
    // A branch without an id has one from its place.
    assert_eq!(home.relais(&["run", "flow.json", "--branch", "branch_3"]).expect(0).stdout.trim(), "fine");
    assert_eq!(home.relais(&["run", "flow.json", "go"]).expect(0).stdout.trim(), "main");
    assert_eq!(home.expect_status("completed")["workflow"], "many");
    home.relais(&["run", "flow.json", "--branch", "sid"]).expect(2).says(&["no branch is called `sid`", "`side`"]);
}

// keeps D-12
#[test]
fn a_file_of_branches_alone_asks_which() {
    let mut file: Value = serde_json::from_str(&branched()).unwrap();
    file.as_object_mut().unwrap().retain(|key, _| key != "nodes" && key != "edges");
    file["agents"].as_object_mut().unwrap().remove("main");
    let home = Home::new();
    home.file("flow.json", &file.to_string());
    home.relais(&["run", "flow.json", "--simulate"]).expect(2).says(&["no main graph", "side, broken, branch_3"]);
    home.relais(&["validate", "flow.json"]).expect(0);
    file["branches"][1]["nodes"][0]["config"]["agentId"] = json!("bda");
    home.file("flow.json", &file.to_string());
    home.relais(&["validate", "flow.json"]).expect(2).says(&["no agent is called `bda`"]);
}

// keeps D-06, D-07, D-08, D-09, D-18
#[test]
fn modes_and_schedules_become_triggers() {
    let converted = |mode: Value, schedule: Value| {
        let home = Home::new();
        let mut file = graph(&[("a", "w")], &[]);
        (file["executionMode"], file["schedule"]) = (mode, schedule);
        home.file("flow.json", &complete(&file.to_string(), &["w"]));
        home.relais(&["convert", "flow.json"])
    };
    let good = |mode: &str, schedule: Value, part: &str| {
        let said = converted(json!(mode), schedule).expect(0).stdout;
        assert!(said.contains(part), "{part} in {said}");
    };
    good("interval", json!("60"), "every: 1m");
    good("interval", json!(90), "every: 1m30s");
    good("interval", json!("daily@09:00"), "09:00");
    good("interval", json!("weekly@1,3,5"), "1,3,5");
    good("interval", json!("weekly@0@23:30"), "0@23:30");
    good("continuous", json!("5"), "5s");
    good("continuous", json!(null), "continuous");
    // Sunday is 0; without a time it is midnight, in UTC.
    for (schedule, times) in [("weekly@0", "Sun"), ("weekly@6@23:30", "Sat")] {
        let home = Home::new();
        let mut file = graph(&[("a", "w")], &[]);
        (file["executionMode"], file["schedule"]) = (json!("interval"), json!(schedule));
        home.file("flow.json", &complete(&file.to_string(), &["w"]));
        let told = home.relais(&["validate", "flow.json"]).expect(0).stdout;
        let at = if schedule.ends_with("23:30") { "23:30 +00:00" } else { "00:00 +00:00" };
        assert_eq!((told.matches(times).count(), told.matches(at).count()), (5, 5), "{told}");
    }
    // Modes can be mixed: each branch has its own.
    let home = Home::new();
    home.file("flow.json", &branched());
    let triggers = |branch: &str| home.relais(&["convert", "flow.json", "--branch", branch]).expect(0).stdout;
    assert!(triggers("broken").contains("09:00") && triggers("branch_3").contains("continuous"));
    assert!(!triggers("side").contains("triggers"));
    for mode in [json!("one_time"), json!(null)] {
        assert!(!converted(mode, json!(null)).expect(0).stdout.contains("triggers"));
    }
    let wrong =
        |mode: &str, schedule: Value, part: &str| drop(converted(json!(mode), schedule).expect(2).says(&[part]));
    wrong("one_time", json!("60"), "no effect");
    wrong("interval", json!(null), "needs a `schedule`");
    wrong("interval", json!("soon"), "daily@HH:mm");
    wrong("interval", json!("weekly@7"), "0 is Sunday");
    wrong("continuous", json!("daily@09:00"), "number of seconds");
    wrong("sometimes", json!(null), "one_time, interval, continuous");
}

#[test]
fn the_examples_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/graph");
    for name in ["debate", "newsroom"] {
        let file = folder.join(format!("{name}.json")).display().to_string();
        let home = Home::new();
        home.relais(&["validate", &file]).expect(0);
        home.relais(&["run", &file, "Are four days of work enough?", "--simulate"]).expect(0);
        home.expect_status("completed");
    }
}

#[test]
fn a_thousand_nodes_meet_in_one() {
    let ids: Vec<String> = (0..1_000).map(|lane| format!("lane_{lane}")).collect();
    let node = |id: &str| json!({ "id": id, "config": { "agentId": "w" } });
    let mut nodes: Vec<Value> = ids.iter().map(|id| node(id)).collect();
    // A run makes at most a thousand model calls.
    let with = json!({ "name": "zero.json", "content": "zero" });
    nodes[0] = json!({ "id": ids[0], "type": "tool", "config": { "tool": "save_artifact", "with": with } });
    nodes.push(node("join"));
    let edges: Vec<Value> = ids.iter().map(|id| json!({ "from": id, "to": "join" })).collect();
    let home = Home::new();
    let graph = json!({ "agents": { "w": { "model": "sim/x" } }, "nodes": nodes, "edges": edges });
    home.file("wide.json", &graph.to_string());
    let turns = json!([{ "when": { "model_saw": "lane_999" }, "text": "all of them" }, { "text": "one" }]);
    home.file("turns.json", &turns.to_string());
    let output = home.relais(&["run", "wide.json", "--model", "script/turns.json"]).expect(0).stdout;
    assert!(output.contains("all of them"), "{output}");
}
