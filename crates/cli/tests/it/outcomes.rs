//! Each way a run can end, as a script sees it: exit code, standard output, standard error.

use std::io::Write;
use std::process::Stdio;

use relais_testkit::Behaviour;

use crate::support::{Home, ONE_CALL, QUESTION, ended, json_lines};

#[test]
fn completed_prints_its_result_and_nothing_else() {
    let home = Home::new(ONE_CALL);
    home.server.push(Behaviour::say("hello"));
    let run = home.relais(&["run", "flow.yaml"]);
    run.expect(0).says("✓ say").says("completed");
    assert_eq!(run.out, "hello\n");
}

#[test]
fn the_end_of_a_run_of_many_steps_is_told() {
    let home = Home::new(
        "name: long\nsteps:\n  - { id: r, repeat: [{ set: { x: 1 } }], until: 'false', max: 30000, on_limit: complete }\n",
    );
    let run = home.relais(&["run", "flow.yaml"]);
    run.expect(0).says("completed");
}

#[test]
fn each_outcome_has_its_code() {
    let stop = "name: s\nsteps:\n  - { id: quiet, stop_if: 'true' }\n";
    let fail = "name: f\nsteps:\n  - { id: read, tool: read_file, with: { path: none.txt } }\n";
    let partial = format!("on_failure: partial\n{}", fail.replace("steps:", "steps:\n  - { id: one, set: { a: 1 } }"));
    let unknown = "name: u\nsteps:\n  - { id: read, tool: raed_file, with: { path: none.txt } }\n";
    for (flow, code, says, out) in [
        (stop, 0, "stopped", ""),
        (fail, 1, "none.txt", ""),
        (partial.as_str(), 1, "partial_success", "{\n  \"a\": 1\n}\n"),
        (unknown, 2, "read_file", ""),
        (QUESTION, 3, "--step approve yes|no", ""),
    ] {
        let home = Home::new(flow);
        let run = home.relais(&["run", "flow.yaml"]);
        run.expect(code).says(says);
        assert_eq!(run.out, out, "{flow}");
    }
}

#[test]
fn wrong_words_and_files_are_usage_errors() {
    let home = Home::new(ONE_CALL);
    for words in [
        &["run"][..],
        &["run", "none.yaml"],
        &["run", "."],
        &["run", "flow.yaml", "--input", "nothing"],
        &["run", "flow.yaml", "--input", "@none.json"],
        &["run", "flow.yaml", "--seed", "1"],
        &["fly"],
        &["show", "--last"],
        &["show", "0123456789"],
        &["answer"],
        &["retry", "--last"],
        &["resume", "--last", "--budget", "euro=3"],
    ] {
        let ended = home.relais(words);
        ended.expect(2).says("error:");
        assert_eq!(ended.out, "", "{words:?}");
    }
}

#[test]
fn without_a_key_the_variables_are_named() {
    let home = Home::new(ONE_CALL);
    // With an address of one's own a key may not be needed.
    let child =
        home.command(&["run", "flow.yaml"]).env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").spawn().unwrap();
    ended(child).expect(2).says("OPENAI_API_KEY").says("--simulate");
    home.relais(&["run", "flow.yaml", "--simulate", "--seed", "3"]).expect(0);
    assert_eq!(home.server.received().len(), 0);
}

#[test]
fn three_mistakes_are_three_errors() {
    let home =
        Home::new("name: bad\nstesp: []\nsteps:\n  - { id: a, agnet: x }\n  - { id: b, stop_if: steps.c.output }\n");
    for command in ["validate", "run", "plan", "graph"] {
        let checked = home.relais(&[command, "flow.yaml"]);
        checked.expect(2).says("stesp").says("agnet").says("steps.c");
        assert!(checked.err.matches("error:").count() >= 3, "{}", checked.err);
    }
    home.write("good.yaml", ONE_CALL);
    let both = home.relais(&["validate", "good.yaml", "flow.yaml"]);
    both.expect(2);
    assert_eq!(both.out, "good.yaml: ok, native, 1 step\n");
}

#[test]
fn the_prompt_comes_as_a_word_or_from_standard_input() {
    let home = Home::new(ONE_CALL);
    home.relais(&["run", "flow.yaml", "cheese"]).expect(0);
    let mut child = home.command(&["exec", "flow.yaml", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"tomato").unwrap();
    ended(child).expect(0);
    home.write("input.json", "{\"prompt\": \"pepper\"}");
    home.relais(&["run", "flow.yaml", "--input", "@input.json"]).expect(0);
    let asked: Vec<String> = home.server.received().iter().map(|r| r.body.to_string()).collect();
    for (body, word) in asked.iter().zip(["Say cheese", "Say tomato", "Say pepper"]) {
        assert!(body.contains(word), "{word} in {body}");
    }
}

#[test]
fn json_is_one_event_per_line_and_the_output_last() {
    let home = Home::new(ONE_CALL);
    let run = home.relais(&["run", "flow.yaml", "--json"]);
    run.expect(0);
    let lines = json_lines(&run.out);
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events.first(), Some(&"run_started"));
    assert_eq!(events[events.len() - 2..], ["run_ended", "output"]);
    assert_eq!(lines.last().unwrap()["output"], "ok");
    assert!(!run.err.contains('✓'), "{}", run.err);
}

#[test]
fn a_key_makes_the_second_start_the_first_run() {
    let home = Home::new(ONE_CALL);
    let first = home.relais(&["run", "flow.yaml", "--key", "k"]);
    let second = home.relais(&["run", "flow.yaml", "--key", "k"]);
    assert_eq!((first.expect(0).out.as_str(), second.expect(0).out.as_str()), ("ok\n", "ok\n"));
    assert_eq!((home.runs().len(), home.server.received().len()), (1, 1));
}

#[test]
fn a_broken_pipe_ends_quietly() {
    let home = Home::new(ONE_CALL);
    let mut child = home.spawn(&["schema"]);
    drop(child.stdout.take());
    let schema = ended(child);
    schema.expect(0);
    assert_eq!(schema.err, "");
}

#[test]
fn a_home_that_cannot_be_written_is_told() {
    let home = Home::new(ONE_CALL);
    home.write("file", "");
    let run = home.relais(&["--home", "file/below", "run", "flow.yaml"]);
    run.expect(1).says("RELAIS_HOME");
    let doctor = home.relais(&["--home", "file/below", "doctor"]);
    assert!(doctor.expect(1).out.contains("fail  home folder"), "{}", doctor.out);
}

#[test]
fn a_simulation_makes_up_the_input_that_nobody_gave() {
    let home = Home::new(
        "input: { topic: string, count: integer, note?: string }\nsteps: [{ id: say, set: { topic: \"{{ input.topic }}\" } }]\n\
         output: \"{{ input }}\"\n",
    );
    home.relais(&["run", "flow.yaml"]).expect(2).says("`topic` (a text)").says("`note` (a text; may be left out)");
    let run = |words: &[&str]| home.relais(&[&["run", "flow.yaml", "--simulate"], words].concat());
    let made = run(&["--input", "count=3"]);
    made.expect(0).says("made up, since it was not given: input.topic");
    let input: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    assert!(input["topic"].is_string() && input["count"] == 3 && input.get("note").is_none(), "{input}");
    assert!(home.relais(&["show", "--last"]).expect(0).out.contains("made up: input.topic"));
    let all = run(&[]);
    all.expect(0).says("input.topic, input.count");
    assert_eq!(run(&[]).out, all.out, "the same each time");
    assert!(!run(&["--input", "count=3", "--input", "topic=tea"]).err.contains("made up"));
    run(&["--input", "count=many"]).expect(2).says("Path 'count'");
}

#[test]
fn an_answer_that_stays_wrong_is_told_without_what_the_model_was_told() {
    let flow = "agents: { a: { model: openai/m, instructions: Count., output: { n: integer }, output_retries: 1 } }\n\
                steps: [{ id: count, agent: a, prompt: go }]\n";
    for (said, told) in [
        ("{\"n\": \"x\"}", "Path 'n': Expected type 'integer', got 'string'"),
        ("no idea", "Node 'count' output is not JSON"),
    ] {
        let home = Home::new(flow);
        home.server.push(relais_testkit::Behaviour::say(said));
        home.server.push(relais_testkit::Behaviour::say(said));
        let failed = home.relais(&["run", "flow.yaml"]);
        failed.expect(1).says("after one correction").says(told);
        assert!(!failed.err.contains("Expected schema") && !failed.err.contains("Your answer"), "{}", failed.err);
    }
}

#[test]
fn a_plan_tells_what_waits_for_what() {
    let step = |id: &str, needs: &str| format!("  - {{ id: {id}, set: {{ {id}: 1 }}{needs} }}\n");
    let dag = format!("steps:\n{}{}{}", step("a", ""), step("b", ", needs: a"), step("c", ", needs: [a, b]"));
    let home = Home::new(&dag);
    let shown = home.relais(&["plan", "flow.yaml"]);
    assert!(!shown.expect(0).out.contains("side by side"), "{}", shown.out);
    assert!(shown.out.contains("after a\n") && shown.out.contains("after a and b\n"), "{}", shown.out);
    home.write("flow.yaml", &format!("steps:\n- id: all\n  {}", dag.replace("\n  ", "\n    ")));
    let inner = home.relais(&["plan", "flow.yaml"]);
    assert!(inner.expect(0).out.contains("has ended: a, b after a, c after a and b\n"), "{}", inner.out);
    home.write("flow.yaml", "steps:\n  - { id: p, parallel: [{ id: a, set: { x: 1 } }, { id: b, set: { y: 1 } }] }\n");
    assert!(home.relais(&["plan", "flow.yaml"]).expect(0).out.contains("side by side: a, b"));
}
