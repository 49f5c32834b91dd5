//! What a person can do about a run, from this terminal or another.

use relais_testkit::Behaviour;
use serde_json::json;

use crate::support::{Home, LIMIT, ONE_CALL, QUESTION, ended, json_lines, kill};

/// A run whose model call hangs.
fn hanging(home: &Home) -> std::process::Child {
    home.server.push(Behaviour::Silence);
    let child = home.spawn(&["run", "flow.yaml"]);
    assert!(home.server.wait_for(1, LIMIT));
    child
}

#[test]
fn another_terminal_cancels() {
    let home = Home::new(ONE_CALL);
    let child = hanging(&home);
    home.relais(&["cancel", "--last"]).expect(0).says("told to end");
    ended(child).expect(130).says("cancelled");
    assert_eq!(home.runs()[0]["status"], "cancelled");
    home.relais(&["cancel", "--last"]).expect(1).says("has ended");
}

#[test]
fn ctrl_c_cancels_and_resume_goes_on() {
    let home = Home::new(ONE_CALL);
    let child = hanging(&home);
    kill(&child, "-INT");
    ended(child).expect(130).says("cancelling");
    home.server.push(Behaviour::say("late"));
    let resumed = home.relais(&["resume", "--last"]);
    assert_eq!(resumed.expect(0).out, "late\n");
}

#[test]
fn sigterm_lets_go_without_cancelling() {
    let home = Home::new(ONE_CALL);
    let child = hanging(&home);
    kill(&child, "-TERM");
    ended(child).expect(143).says("let go");
    assert_eq!(home.runs()[0]["status"], "interrupted");
    home.relais(&["resume", "--all"]).expect(0).says("1 run taken up").says("completed");
}

#[test]
fn after_kill_9_the_run_goes_on() {
    let home = Home::new(ONE_CALL);
    let child = hanging(&home);
    kill(&child, "-KILL");
    assert_eq!(ended(child).code, None);
    let resumed = home.relais(&["resume", "--last"]);
    assert_eq!(resumed.expect(0).out, "ok\n");
    assert_eq!(home.server.received().len(), 2, "only the call without an answer is made again");
}

#[test]
fn ctrl_c_leaves_no_child_process() {
    let code =
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'ready')\ntime.sleep(600)\n";
    let flow = format!("name: p\nsteps:\n  - {{ id: sleep, tool: run_python, with: {{ code: {code:?} }} }}\n");
    let home = Home::new(&flow);
    home.settings("[tools.run_python]\nenabled = true\n");
    let child = home.spawn(&["run", "flow.yaml", "--workspace", "files"]);
    home.wait_until("python started", || ready(&home).is_some());
    let pid = std::fs::read_to_string(ready(&home).unwrap()).unwrap();
    kill(&child, "-INT");
    ended(child).expect(130);
    home.wait_until("python ended", || !alive(&pid));
}

/// Each call of the tool has a folder of its own.
fn ready(home: &Home) -> Option<std::path::PathBuf> {
    let folders = std::fs::read_dir(home.path("files/python")).ok()?;
    folders.flatten().map(|folder| folder.path().join("ready")).find(|file| file.exists())
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

#[test]
fn an_answer_makes_a_waiting_run_go_on() {
    let home = Home::new(QUESTION);
    home.relais(&["run", "flow.yaml"]).expect(3);
    let listed = home.relais(&["answer", "--last"]);
    assert!(listed.expect(0).out.contains("Shall I go on?"), "{}", listed.out);
    home.relais(&["resume", "--last"]).expect(3).says("Shall I go on?");
    let wrong = home.relais(&["answer", "--last", "perhaps"]);
    wrong.expect(2).says("the answer must be yes or no").says("\"perhaps\"");
    assert!(!wrong.err.contains("schema"), "{}", wrong.err);
    home.relais(&["answer", "--last", "yes", "--step", "other"]).expect(2).says("approve");
    let answered = home.relais(&["answer", "--last", "yes"]);
    answered.expect(0).says("✓ after");
    assert!(!answered.err.contains("✓ before"), "what was shown is not shown again: {}", answered.err);
    assert_eq!(answered.out, "true\n");
    home.relais(&["answer", "--last", "yes"]).expect(2).says("asks nothing");
}

#[test]
fn a_question_is_answered_as_it_is_listed() {
    let home = Home::new(QUESTION);
    home.relais(&["run", "flow.yaml"]).expect(3);
    home.relais(&["run", "flow.yaml"]).expect(3);
    let listed = json_lines(&home.relais(&["questions", "--json"]).expect(0).out);
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["question"], &listed[0]["step"]), (&json!("Shall I go on?"), &json!("approve")));
    let id = listed[0]["id"].as_str().unwrap();
    home.relais(&["answer", id, "perhaps"]).expect(2);
    home.relais(&["answer", id, "yes"]).expect(0).says("✓ after");
    home.relais(&["answer", id, "yes"]).expect(2).says("there is no open question");
    let left = home.relais(&["questions"]);
    assert_eq!(left.expect(0).out.matches("Shall I go on?").count(), 1);
    let run = listed[0]["run"].as_str().unwrap();
    assert!(home.relais(&["show", run]).expect(0).out.contains("answered by "));
}

#[test]
fn many_runs_are_retried_and_cancelled_at_once() {
    let home = Home::new("name: fails\nsteps:\n  - { id: read, tool: read_file, with: { path: none.txt } }\n");
    home.write("question.yaml", QUESTION);
    for file in ["flow.yaml", "flow.yaml", "question.yaml", "question.yaml", "question.yaml"] {
        home.relais(&["run", file]);
    }
    home.relais(&["retry", "--status", "failed", "--from", "read"]).expect(2).says("--yes to retry 2 runs");
    home.relais(&["retry", "--status", "failed", "--from", "read", "--yes"]).expect(0).says("retry: 2 done, 0 refused");
    home.relais(&["retry", "--status", "failed", "--from", "nowhere", "--yes"]).expect(1).says("2 refused");
    home.relais(&["cancel", "--workflow", "question", "--since", "1h", "--yes"]).expect(0).says("cancel: 3 done");
    let statuses: Vec<_> = home.runs().iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(statuses, ["cancelled", "cancelled", "cancelled", "failed", "failed"]);
    home.relais(&["cancel", "--workflow", "question", "--yes"]).expect(0).says("no such runs");
}

#[test]
fn another_terminal_answers_a_run_that_stays() {
    let home = Home::new(QUESTION);
    let child = home.spawn(&["run", "flow.yaml", "--wait"]);
    home.wait_for_status("waiting");
    let id = home.runs()[0]["run"].as_str().unwrap().to_owned();
    home.relais(&["answer", &id, "no"]).expect(0);
    assert_eq!(ended(child).expect(0).out, "false\n");
}

#[test]
fn a_question_of_a_child_run_is_answered_through_its_parent() {
    let home = Home::new("name: parent\nsteps:\n  - { id: below, workflow: ./child.yaml }\n");
    home.write("child.yaml", QUESTION);
    home.relais(&["run", "flow.yaml"]).expect(3).says("Shall I go on?");
    home.relais(&["answer", "--last", "yes"]).expect(0).says("✓ below");
    assert_eq!(home.runs()[0]["status"], "completed");
}

#[test]
fn a_signal_is_what_a_run_waits_for() {
    let home = Home::new("name: s\nsteps:\n  - { id: go, wait: { signal: start } }\noutput: '{{ steps.go.output }}'\n");
    home.relais(&["run", "flow.yaml"]).expect(3).says("relais signal");
    let signalled = home.relais(&["signal", "--last", "start", "{\"n\": 1}"]);
    assert!(signalled.expect(0).out.contains("\"n\": 1"), "{}", signalled.out);
}

#[test]
fn a_paused_run_goes_on_when_resumed() {
    let home = Home::new(QUESTION);
    home.relais(&["run", "flow.yaml"]).expect(3);
    home.relais(&["pause", "--last"]).expect(0);
    home.relais(&["resume", "--last"]).expect(3).says("Shall I go on?");
    home.relais(&["answer", "--last", "y"]).expect(0);
}

#[test]
fn watching_ends_with_the_run_and_its_code() {
    let home = Home::new(ONE_CALL);
    home.server.push(Behaviour::say("a word"));
    home.relais(&["run", "flow.yaml"]).expect(0);
    home.relais(&["watch", "--last", "--text"]).expect(0).says("a word").says("✓ say");
    let lines = home.relais(&["watch", "--last", "--json"]);
    assert_eq!(json_lines(&lines.expect(0).out).last().unwrap()["event"], "run_ended");
}

#[test]
fn another_terminal_watches_a_run_that_is_going() {
    let home = Home::new(ONE_CALL);
    let child = hanging(&home);
    let watching = home.spawn(&["watch", "--last", "--json"]);
    home.relais(&["cancel", "--last"]).expect(0);
    ended(child).expect(130);
    let watched = ended(watching);
    assert_eq!(json_lines(&watched.expect(130).out).last().unwrap()["status"], "cancelled");
}

#[test]
fn a_failed_run_is_resumed_retried_and_forked() {
    let home = Home::new(ONE_CALL);
    home.server.push(Behaviour::body(400, "application/json", "{\"error\": {\"message\": \"bad prompt\"}}"));
    home.relais(&["run", "flow.yaml"]).expect(1).says("bad prompt").says("relais resume");
    home.server.push(Behaviour::say("first"));
    assert_eq!(home.relais(&["resume", "--last"]).expect(0).out, "first\n");
    home.relais(&["resume", "--last"]).expect(1).says("nothing to resume");
    home.server.push(Behaviour::say("second"));
    assert_eq!(home.relais(&["retry", "--last", "--from", "say"]).expect(0).out, "second\n");
    home.server.push(Behaviour::say("third"));
    let forked = home.relais(&["fork", "--last", "--from", "say", "--input", "prompt=cheese"]);
    assert_eq!(forked.expect(0).says("forked from").out, "third\n");
    assert_eq!(home.runs().len(), 2);
    assert!(home.server.received().last().unwrap().body.to_string().contains("Say cheese"));
    home.relais(&["retry", "--last", "--from", "nowhere"]).expect(2).says("those that have are: say");
    for command in ["retry", "fork"] {
        home.relais(&[command, "--last", "--from", "sya"]).expect(2).says("no step `sya`").says("did you mean `say`?");
    }
}

#[test]
fn show_tells_what_happened() {
    let home = Home::new(ONE_CALL);
    home.server.push(Behaviour::say("cheese is milk"));
    home.relais(&["run", "flow.yaml", "cheese"]).expect(0);
    let id = home.runs()[0]["run"].as_str().unwrap().to_owned();
    let tail = &id[id.len() - 12..];
    for words in [&["show", "--last"][..], &["show", &id], &["show", tail]] {
        let shown = home.relais(words);
        for part in ["one  completed", "✓ say", "model openai/gpt-4o-mini → cheese is milk", "output: cheese is milk"]
        {
            assert!(shown.expect(0).out.contains(part), "{part} in {}", shown.out);
        }
    }
    let step = home.relais(&["show", "--last", "--step", "say"]);
    assert!(step.expect(0).out.contains("Say cheese"), "{}", step.out);
    home.relais(&["show", "--last", "--step", "nowhere"]).expect(2).says("it has: say");
    let trace = json_lines(&home.relais(&["show", "--last", "--json"]).out);
    assert_eq!(trace[0]["status"], "completed");
}

#[test]
fn old_runs_are_pruned_and_the_database_is_copied() {
    let home = Home::new(ONE_CALL);
    home.relais(&["run", "flow.yaml"]).expect(0);
    home.relais(&["backup", "copy.db"]).expect(0);
    assert!(home.path("copy.db").exists());
    home.relais(&["backup", "copy.db"]).expect(1).says("copy.db");
    home.relais(&["prune", "--keep", "1d"]).expect(0).says("removed 0 runs");
    home.relais(&["prune", "--keep", "0s", "--status", "failed"]).expect(0).says("removed 0 runs");
    home.relais(&["prune", "--keep", "0s", "--status", "running"]).expect(2).says("cancel it first");
    home.wait_until("a later millisecond", || home.relais(&["prune", "--keep", "0s"]).err.contains("removed 1 run "));
    assert!(home.runs().is_empty());
}
