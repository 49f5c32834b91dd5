//! Resume, retry and fork of whole runs.

use relais_engine::RunStatus;
use relais_service::{Error, Fork, ResumeWith};

use crate::setup::{ONE_WORD, Setup};

const CHAIN: &str = r#"
name: chain
input: { name?: string }
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: first, agent: talker, prompt: "one" }
  - { id: file, tool: read_file, with: { path: wanted.txt } }
  - { id: last, agent: talker, prompt: "{{ steps.file.output }}" }
output: "{{ input.name | default('nobody') }}: {{ steps.last.output }}"
"#;

/// A run that failed because a file was missing, and the folder that file belongs into.
async fn failed(setup: &Setup) -> relais_engine::RunId {
    let (run, status) = setup.run("chain.yaml").await;
    assert_eq!(status, RunStatus::Failed);
    run
}

fn write_wanted(setup: &Setup, run: relais_engine::RunId) {
    let folder = setup.path().join("home/workspaces").join(run.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("wanted.txt"), "here").unwrap();
}

#[tokio::test]
async fn a_failed_run_goes_on_where_it_failed() {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let run = failed(&setup).await;
    write_wanted(&setup, run);
    setup.service.resume(run, ResumeWith::default()).await.unwrap();
    assert_eq!(setup.end_of(run).await, RunStatus::Completed);
    let trace = setup.service.trace(run).await.unwrap();
    assert_eq!(trace.usage.model_calls, 2, "the first step was not paid again");
    let again = setup.service.resume(run, ResumeWith::default()).await.unwrap_err();
    assert!(again.to_string().contains("nothing to resume"), "{again}");
}

#[tokio::test]
async fn a_fork_shares_what_came_before_and_leaves_the_other_alone() {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let run = failed(&setup).await;
    write_wanted(&setup, run);
    setup.service.resume(run, ResumeWith::default()).await.unwrap();
    setup.end_of(run).await;
    let input = serde_json::json!({ "name": "fork" }).as_object().cloned();
    let fork = Fork { from: "last".into(), input, ..Fork::default() };
    let other = setup.service.fork(run, fork).await.unwrap();
    assert_eq!(setup.end_of(other).await, RunStatus::Completed);
    assert_eq!(setup.service.output(other).await.unwrap(), "fork: word");
    assert_eq!(setup.service.output(run).await.unwrap(), "nobody: word");
    assert_eq!(setup.service.trace(other).await.unwrap().usage.model_calls, 1);
    let shared = setup.path().join("home/workspaces").join(other.to_string()).join("wanted.txt");
    assert!(shared.is_file(), "the files of the other run are there");
}

/// The changed input of a fork is checked as that of a start.
async fn check_fork(input: serde_json::Value, refused: Option<&str>) {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let run = failed(&setup).await;
    let fork = Fork { from: "file".into(), input: input.as_object().cloned(), ..Fork::default() };
    match (setup.service.fork(run, fork).await, refused) {
        (Ok(_), None) => {}
        (Err(Error::Invalid(said)), Some(text)) => assert!(said.contains(text), "{said}"),
        (other, _) => panic!("{input}: {other:?}"),
    }
}

#[tokio::test]
async fn the_changed_input_of_a_fork_must_fit() {
    check_fork(serde_json::json!({ "name": "fork" }), None).await;
    check_fork(serde_json::json!({ "name": 7 }), Some("the workflow input")).await;
    check_fork(serde_json::json!({ "nam": "fork" }), Some("did you mean `name`?")).await;
}

#[tokio::test]
async fn a_large_input_of_a_fork_is_no_part_of_its_journal() {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let run = failed(&setup).await;
    let input = serde_json::json!({ "name": "x".repeat(100_000) }).as_object().cloned();
    let other = setup.service.fork(run, Fork { from: "file".into(), input, ..Fork::default() }).await.unwrap();
    let (_, _, state) = setup.service.load(other).await.unwrap();
    assert!(matches!(state.opened.input, relais_engine::Stored::Blob(_)));
}

#[tokio::test]
async fn a_fork_shows_and_books_only_what_it_used_itself() {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let run = failed(&setup).await;
    write_wanted(&setup, run);
    setup.service.resume(run, ResumeWith::default()).await.unwrap();
    setup.end_of(run).await;
    let fork = Fork { from: "last".into(), ..Fork::default() };
    let other = setup.service.fork(run, fork).await.unwrap();
    setup.end_of(other).await;
    let trace = setup.service.trace(other).await.unwrap();
    let used: Vec<(&str, u64)> = trace.steps.iter().map(|step| (step.path.as_str(), step.usage.model_calls)).collect();
    assert_eq!(used, [("first", 0), ("file", 0), ("last", 1)], "each step once, and paid for once");
    assert_eq!(trace.usage.model_calls, 1);
}

/// The chain without some of its steps, forked from a step.
async fn fork_without(steps: &str, from: &str, expected: Result<&str, &str>) {
    let shorter = format!(
        "name: chain\ninput: {{ name?: string }}\nagents:\n  talker: {{ model: script/word.json, instructions: Say a word. }}\nsteps: [{steps}]\n"
    );
    let setup = Setup::with(&[("chain.yaml", CHAIN), ("shorter.yaml", &shorter), ONE_WORD]);
    let run = failed(&setup).await;
    write_wanted(&setup, run);
    setup.service.resume(run, ResumeWith::default()).await.unwrap();
    setup.end_of(run).await;
    let definition = Some(setup.publish("shorter.yaml").await);
    let fork = Fork { from: from.into(), definition, ..Fork::default() };
    match (setup.service.fork(run, fork).await, expected) {
        (Ok(fork), Ok(output)) => {
            assert_eq!(setup.end_of(fork).await, RunStatus::Completed);
            assert_eq!(setup.service.output(fork).await.unwrap(), output);
        }
        (Err(Error::Invalid(said)), Err(text)) => assert!(said.contains(text), "{said}"),
        (other, _) => panic!("{steps} from {from}: {other:?}"),
    }
}

#[tokio::test]
async fn a_fork_may_lack_steps_that_would_not_be_kept() {
    let (first, file) =
        ("{ id: first, agent: talker, prompt: one }", "{ id: file, tool: read_file, with: { path: wanted.txt } }");
    let last = "{ id: last, agent: talker, prompt: two }";
    fork_without(&format!("{first}, {file}"), "file", Ok("here")).await;
    fork_without(&format!("{first}, {last}"), "first", Ok("word")).await;
    let kept = "the new definition has no step `file`, and what it gave would be kept";
    fork_without(&format!("{first}, {last}"), "last", Err(kept)).await;
}
