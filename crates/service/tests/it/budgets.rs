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
