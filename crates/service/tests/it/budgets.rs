//! Budgets over the tree of a run.

use crate::setup::{ONE_WORD, Setup};

const CHILD: &str = r#"
name: child
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - id: four
    for_each: [1, 2, 3, 4]
    do:
      - { id: say, agent: talker, prompt: "word {{ item }}" }
output: "{{ steps.four.output.count }}"
"#;

fn parent(calls: u32) -> String {
    format!(
        r#"
name: parent
budget: {{ model_calls: {calls} }}
agents:
  talker: {{ model: script/word.json, instructions: Say a word. }}
steps:
  - id: both
    parallel:
      - {{ id: child, workflow: ./child.yaml }}
      - {{ id: own, agent: talker, prompt: one word }}
output: "{{{{ steps.child.output }}}}"
"#
    )
}

/// Runs the parent under a budget; gives its status, the calls booked to it, and its error.
async fn check(calls: u32, status: &str, booked: u64, error: &str) {
    let parent = parent(calls);
    let setup = Setup::with(&[("child.yaml", CHILD), ("parent.yaml", &parent), ONE_WORD]);
    let (run, ended) = setup.run("parent.yaml").await;
    let trace = setup.service.trace(run).await.unwrap();
    let message = trace.error.map(|e| e.message).unwrap_or_default();
    assert_eq!((ended.word(), trace.usage.model_calls), (status, booked), "{calls} calls: {message}");
    assert!(message.contains(error), "{message}");
}

#[tokio::test]
async fn a_child_that_runs_short_gets_what_its_parent_has_left() {
    // Half of six is not enough for the child's four calls; the rest of the parent's budget is.
    check(6, "completed", 5, "").await;
    check(100, "completed", 5, "").await;
}

#[tokio::test]
async fn a_tree_never_uses_more_than_its_root_may() {
    check(4, "failed", 4, "budget").await;
}

const ONE_CALL: &str = r#"
name: one
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps: [{ id: say, agent: talker, prompt: one }]
"#;

/// Five children at once, of which each makes one call; says how many of them completed, and the error of the others.
async fn five(calls: u32) -> (String, usize, u64, String) {
    let parent = format!(
        "name: parent\nbudget: {{ model_calls: {calls} }}\nsteps:\n  - id: each\n    for_each: [1, 2, 3, 4, 5]\n    at_once: 5\n    on_failure: collect\n    do: [{{ id: child, workflow: ./one.yaml }}]\noutput: \"{{{{ steps.each.output.results }}}}\"\n"
    );
    let setup = Setup::with(&[("one.yaml", ONE_CALL), ("parent.yaml", &parent), ONE_WORD]);
    let (run, status) = setup.run("parent.yaml").await;
    let output = setup.service.output(run).await.unwrap();
    let words = output.as_array().unwrap().iter().filter(|result| **result == "word").count();
    let error = output.as_array().unwrap().iter().find_map(|result| result["error"]["message"].as_str());
    let trace = setup.service.trace(run).await.unwrap();
    assert_eq!(trace.tolerated.len(), 5 - words, "{:?}", trace.tolerated);
    (status.word().to_owned(), words, trace.usage.model_calls, error.unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_share_of_nothing_is_no_wall() {
    let (status, words, calls, error) = five(3).await;
    assert_eq!((status.as_str(), words, calls), ("completed", 3, 3), "{error}");
    assert!(error.contains("of the run that called it 3 of 3 model calls are used (`child` 3)"), "{error}");
    assert_eq!(five(5).await, ("completed".to_owned(), 5, 5, String::new()));
}

#[tokio::test]
async fn a_line_waits_for_an_estimate_to_come_back() {
    // Each call sets aside more than half of the budget and uses eleven tokens of it.
    let text = "name: two\nbudget: { tokens: 5000 }\nagents:\n  talker: { model: script/word.json, instructions: Say a word., max_tokens: 3000 }\nsteps:\n  - id: p\n    parallel: [{ id: a, agent: talker }, { id: b, agent: talker }, { id: c, agent: talker }]\n";
    let setup = Setup::with(&[("two.yaml", text), ONE_WORD]);
    let (run, status) = setup.run("two.yaml").await;
    let trace = setup.service.trace(run).await.unwrap();
    assert_eq!((status.word(), trace.usage.tokens()), ("completed", 33), "{:?}", trace.error);
}
