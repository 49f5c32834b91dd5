//! Large values through the real program: whatever the format, what a prompt names reaches the model whole, what a tool
//! returns can be read to its end, and a prompt that is too long for its model is refused before it is paid for.

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::{Value, json};

use crate::home::Home;

/// Many languages, and nothing that repeats: a part that is missing or moved is seen.
fn long(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    for line in 0.. {
        text.push_str(&format!("{line}: größer, 大きい, больше, \"quoted\" 😀\n"));
        if text.len() >= bytes {
            break;
        }
    }
    text.push_str("the very end");
    text
}

fn model(asked: &Received) -> String {
    asked.body["model"].as_str().unwrap_or_default().to_owned()
}

/// The last message of a role that a model was sent.
fn message(asked: &Received, role: &str) -> String {
    let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
    let found = messages.iter().rev().find(|message| message["role"] == role);
    found.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// What the model of this name was told the last time.
fn heard(server: &ModelServer, name: &str, role: &str) -> String {
    let received = server.received();
    received.iter().rev().find(|asked| model(asked) == name).map(|asked| message(asked, role)).unwrap_or_default()
}

fn tools_of(asked: &Received) -> Vec<String> {
    let tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| Some(tool["function"]["name"].as_str()?.to_owned())).collect()
}

/// Runs the program with a text at its standard input.
fn piped(home: &Home, words: &str, text: &str) {
    home.file("given.txt", text);
    let script = format!("exec \"$0\" {words} < given.txt");
    let words = ["-c", &script, env!("CARGO_BIN_EXE_relais")];
    crate::home::Process::start(home.wrapped("sh", &words)).end().expect(0);
}

fn assert_same(got: &str, expected: &str, what: &str) {
    let same = got.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    assert!(got == expected, "{what}: {} bytes instead of {}, the same up to {same}", got.len(), expected.len());
}

// keeps C-02, C-03, C-05, C-26, C-30
#[test]
fn a_pipeline_hands_on_data_of_any_size() {
    for size in [100_000, 3_000_000] {
        let (answer, prompt) = (long(size), format!("{} from standard input", long(size)));
        let server = ModelServer::start();
        let said = answer.clone();
        server.answer_by(move |asked| Behaviour::say(if model(asked) == "writer" { &said } else { "done" }));
        let home = Home::with_model(&server);
        home.file(
            "flow.yaml",
            "agents:\n  writer: { model: openai/writer, instruction: Write. }\n\
             \x20 reader: { model: openai/reader, instruction: 'Mind {{ $steps.writer.output }}.' }\n\
             workflow:\n  - { type: agent, name: writer }\n  - { type: agent, name: reader }\n",
        );
        piped(&home, "exec flow.yaml -", &prompt);
        home.expect_status("completed");
        assert_same(&heard(&server, "writer", "user"), &prompt, "the prompt from standard input");
        let block = format!(
            "--- Prior Step Outputs ---\n\n[writer (agent: writer)]:\n{answer}\n\n--- End Prior Step Outputs ---\n\n{prompt}"
        );
        assert_same(&heard(&server, "reader", "user"), &block, "the block of earlier outputs");
        assert_same(&heard(&server, "reader", "system"), &format!("Mind {answer}."), "an instruction");
    }
}

// keeps B-10
#[test]
fn steps_hand_on_data_of_any_size() {
    let step = |uuid: &str, prompt: &str| json!({"uuid": uuid, "name": uuid, "type": "custom_llm", "model": format!("openai/{uuid}"), "system_prompt": prompt});
    let steps = [step("one", "Shorten <<trigger_output>>."), step("two", "Label <<step_output.one>>.")];
    let server = ModelServer::start();
    let (answer, mail) = (long(2_000_000), long(150_000));
    let said = answer.clone();
    server.answer_by(move |asked| Behaviour::say(if model(asked) == "one" { &said } else { "done" }));
    let home = Home::with_model(&server);
    home.file("flow.json", &json!({"name": "flow", "trigger": null, "steps": steps}).to_string());
    piped(&home, "run flow.json -", &mail);
    assert_same(&heard(&server, "one", "system"), &format!("Shorten {mail}."), "trigger data");
    assert_same(&heard(&server, "two", "system"), &format!("Label {answer}."), "a step's output");
}

/// A model that reads a stored value piece by piece until it has come to the end of it.
fn reads_on(asked: &Received) -> Behaviour {
    let told = message(asked, "tool");
    let value = || {
        let messages = asked.body["messages"].as_array().unwrap();
        let told = messages.iter().filter_map(|message| message["content"].as_str());
        let mut named =
            told.filter_map(|text| text.rsplit_once("read_value {\"value\": \"")).map(|(_, rest)| &rest[..64]);
        named.next_back().unwrap().to_owned()
    };
    match told.rsplit_once("\"offset\": ") {
        Some((_, offset)) => {
            let offset: usize = offset.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
            let arguments = json!({"value": value(), "offset": offset}).to_string();
            Behaviour::Say(Said::text("").call("read_value", &arguments))
        }
        None => Behaviour::say("I have read all of it."),
    }
}

/// What the tool messages of the last request come to when their notes are taken off.
fn read_in_all(server: &ModelServer) -> String {
    let last = server.received().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let told = messages.iter().filter(|message| message["role"] == "tool");
    let texts = told.map(|message| message["content"].as_str().unwrap().rsplit_once("\n\n[").unwrap().0.to_owned());
    texts.collect()
}

// keeps C-30
#[test]
fn a_long_tool_result_is_read_to_its_end() {
    let text = long(200_000);
    let server = ModelServer::start();
    server.answer_by(|asked| match message(asked, "tool").is_empty() {
        true => Behaviour::Say(Said::text("").call("read_file", r#"{"path": "big.txt"}"#)),
        false => reads_on(asked),
    });
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "agents: { reader: { model: openai/m, tools: [read_file] } }\nsteps: [{ id: a, agent: reader }]\n",
    );
    home.file("big.txt", &text);
    home.relais(&["run", "flow.yaml", "--workspace", "."]).expect(0);
    assert_same(&read_in_all(&server), &text, "what the model was told piece by piece");
    let offered: Vec<Vec<String>> = server.received().iter().map(tools_of).collect();
    assert_eq!(offered[0], ["read_file"]);
    assert_eq!(offered[1], ["read_file", "read_value"], "offered when there is something to read");
    let trace = home.expect_status("completed");
    let calls = trace["steps"][0]["calls"].as_array().unwrap();
    assert!(calls[1]["notes"][0].as_str().unwrap().contains("told the beginning of"), "{:#}", calls[1]);
    assert_eq!(calls[2]["notes"], json!(["read_value is offered from here on"]));
    home.relais(&["show", "--last"]).expect(0).prints(&["told the beginning of", "read_value is offered"]);
}

#[test]
fn how_much_of_a_result_is_told_can_be_set() {
    let check = |settings: &str, agent: &str, told: usize| {
        let server = ModelServer::start();
        server.push(Behaviour::Say(Said::text("").call("read_file", r#"{"path": "big.txt"}"#)));
        server.push(Behaviour::say("done"));
        let home = Home::with_model(&server);
        let agent = format!("agents: {{ reader: {{ model: openai/m, tools: [read_file]{agent} }} }}");
        home.file("flow.yaml", &format!("{agent}\nsteps: [{{ id: a, agent: reader }}]\n"));
        home.file("big.txt", &"x".repeat(300_000));
        home.file("data/relais.toml", settings);
        home.relais(&["run", "flow.yaml", "--workspace", "."]).expect(0);
        let heard = heard(&server, "m", "tool");
        assert_eq!(heard.bytes().take_while(|byte| *byte == b'x').count(), told, "{settings:?} {agent:?}");
    };
    check("", "", 65_536);
    check("result_limit = '2k'", "", 2_048);
    check("result_limit = '2k'", ", result_limit: 4k", 4_096);
    check("", ", result_limit: 1M", 300_000);
    let home = Home::new();
    home.file("flow.yaml", "agents: { a: { result_limit: 10 } }\nsteps: [{ id: a, agent: a }]\n");
    home.relais(&["validate", "flow.yaml"]).expect(2).says(&["result_limit", "at least `1k`"]);
}

fn executor(id: &str, prompt: &str, schema: Value) -> Value {
    json!({"executor_id": id, "name": id, "model": format!("openai/{id}"), "tools": [], "system_prompt": prompt,
           "output_schema": schema})
}

// keeps A-18, A-19, A-43
#[test]
fn a_reference_comes_with_the_tool_that_reads_it() {
    let rows: Vec<Value> = (0..9_000).map(|n| json!({"n": n, "word": format!("größe {n}")})).collect();
    for (kind, tool) in [("file", "read_file"), ("db", "read_value")] {
        let server = ModelServer::start();
        let output = json!({"rows": rows, "day": "monday"}).to_string();
        server.answer_by(move |asked| {
            if model(asked) == "a" {
                return Behaviour::say(&output);
            }
            assert_eq!(tools_of(asked), [tool], "offered without being listed");
            let system = message(asked, "system");
            let shown: Value =
                serde_json::from_str(system.split("<<<").nth(1).unwrap().split(">>>").next().unwrap()).unwrap();
            let summary = shown["summary"].as_str().unwrap();
            for part in ["object with rows, day", "9000 items with n, word", "\"n\":0", "größe 8999"] {
                assert!(summary.contains(part), "{part} in {summary}");
            }
            assert_eq!(shown["meta"]["count"], 9_000);
            if !message(asked, "tool").is_empty() {
                return Behaviour::say(r#"{"ok": true}"#);
            }
            let place = &shown["output_ref"];
            let arguments = match kind {
                "file" => json!({"path": place["path"], "limit": 300}),
                _ => json!({"value": place["row_id"], "path": "rows[8999].word"}),
            };
            Behaviour::Say(Said::text("").call(tool, &arguments.to_string()))
        });
        let mut first = executor("a", "A", json!({"rows": [{"n": "int", "word": "str"}], "day": "str"}));
        first["output_ref"] = json!({"type": kind});
        let second = executor("b", "See <<<$previous_output>>>", json!({"ok": "bool"}));
        let home = Home::with_model(&server);
        home.file("chain.json", &json!({"name": "Chain", "executors": [first, second]}).to_string());
        home.relais(&["run", "chain.json"]).expect(0);
        let told = heard(&server, "b", "tool");
        assert!(told.contains(if kind == "file" { "größe 0" } else { "größe 8999" }), "{kind}: {told}");
    }
}

// keeps E-32
#[test]
fn a_node_can_read_all_of_a_large_input() {
    let text = long(150_000);
    let server = ModelServer::start();
    server.answer_by(|asked| match (message(asked, "tool").is_empty(), message(asked, "tool")) {
        (true, _) => {
            Behaviour::Say(Said::text("").call("load_artifact", r#"{"name": "node_read_input.json", "path": "text"}"#))
        }
        (false, told) if told.contains("\"offset\": ") => reads_on(asked),
        (false, told) if told.contains("this is the end") => {
            Behaviour::Say(Said::text("").call("save_artifact", r#"{"name": "out.json", "content": "{\"ok\": true}"}"#))
        }
        (false, _) => Behaviour::say("«result:artifact=out.json status=success»"),
    });
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "personas: [{ agent_name: Reader, instruction: Read., model: openai/m }]\n\
         workflow: { nodes: [{ id: read, agent_persona: Reader, input: { text: '{{workflow.input.text}}' } }] }\n",
    );
    home.file("input.json", &json!({"text": text}).to_string());
    home.relais(&["run", "flow.yaml", "--input", "@input.json"]).expect(0);
    let last = server.received().pop().unwrap();
    let all: String = (last.body["messages"].as_array().unwrap().iter())
        .filter(|message| message["role"] == "tool" && message["content"].as_str().unwrap().contains("\n\n["))
        .map(|message| message["content"].as_str().unwrap().rsplit_once("\n\n[").unwrap().0.to_owned())
        .collect();
    assert_same(&all, &text, "the input, read piece by piece");
}

// keeps C-30
#[test]
fn a_prompt_that_its_model_cannot_take_is_refused_before_it_is_paid_for() {
    let server = ModelServer::start();
    let said = long(90_000);
    server.answer_by(move |_| Behaviour::say(&said));
    let home = Home::with_model(&server);
    home.file("data/relais.toml", "[models.\"openai/small\"]\ncontext_tokens = 8000\n");
    home.file(
        "flow.yaml",
        "agents:\n  writer: { model: openai/writer, instruction: Write. }\n\
         \x20 reader: { model: openai/small, instruction: Read. }\n\
         workflow:\n  - { type: agent, name: writer }\n  - { type: agent, name: reader }\n",
    );
    home.relais(&["run", "flow.yaml", "hello"]).expect(1).says(&["`openai/small` takes 8000", "step `writer`"]);
    home.expect_failure("limit", &["the prompt has about 30", "The most of it comes from step `writer`"]);
    assert_eq!(server.received().len(), 1, "nothing was sent that could not be read");
}
