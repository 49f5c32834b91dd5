//! A run that ends takes everything below with it, also what waits and is in no process.

use relais_engine::RunId;
use relais_service::Start;
use relais_store::Filter;
use serde_json::json;

use crate::setup::Setup;

/// Waits for each thing that a run can wait for, two levels below the root.
const CHILD: &str = r#"
name: child
steps:
  - id: all
    parallel:
      - { id: person, ask: May it? }
      - { id: time, wait: 1h }
      - { id: event, wait: { event: order.paid } }
      - { id: below, workflow: ./below.yaml }
"#;
const BELOW: &str = "name: below\nsteps: [{ id: person, ask: And this? }]\n";

fn parent(steps: &str) -> String {
    format!("name: parent\nsteps:\n{steps}\n")
}

/// Starts the parent, waits until all of it waits, lets something happen, and looks at the tree.
async fn check(steps: &str, happens: Happens, ended: &str) {
    let parent = parent(steps);
    let setup = Setup::with(&[("parent.yaml", &parent), ("child.yaml", CHILD), ("below.yaml", BELOW)]);
    let service = &setup.service;
    let checked = setup.publish("parent.yaml").await;
    let run = service.start(&checked, Start::default()).await.unwrap();
    match happens {
        Happens::Cancel => {
            service.settle(run).await.unwrap();
            assert_eq!(service.open_questions(run).await.unwrap().len(), 2, "{steps}");
            service.cancel(run).await.unwrap();
        }
        Happens::Signal => {
            service.settle(run).await.unwrap();
            service.send(run, "go", json!(null)).await.unwrap();
        }
        Happens::Nothing => {
            let mut following = service.follow(run).await.unwrap();
            while following.next().await.unwrap().is_some() {}
        }
    }
    assert_eq!(setup.end_of(run).await.word(), ended, "{steps}");
    let below = tree(&setup, run).await;
    let all_cancelled = below.iter().all(|(_, status)| status == "cancelled");
    assert!(all_cancelled && !below.is_empty(), "{steps}: {below:?}");
    for (child, _) in &below {
        assert!(service.open_questions(*child).await.unwrap().is_empty(), "{steps}: a question stays open");
    }
}

enum Happens {
    Cancel,
    Signal,
    Nothing,
}

/// Every run below one, with its status.
async fn tree(setup: &Setup, run: RunId) -> Vec<(RunId, String)> {
    let filter = Filter { parent: Some(run), ..Filter::default() };
    let mut below = Vec::new();
    for row in setup.service.runs(filter).await.unwrap().rows {
        below.push((row.summary.run, row.summary.status.word().to_owned()));
        below.extend(Box::pin(tree(setup, row.summary.run)).await);
    }
    below
}

#[tokio::test]
async fn a_cancel_reaches_children_that_wait() {
    check("  - { id: child, workflow: ./child.yaml }", Happens::Cancel, "cancelled").await;
}

#[tokio::test]
async fn children_that_wait_end_with_a_sibling_that_fails() {
    let steps = r#"  - id: both
    parallel:
      - { id: child, workflow: ./child.yaml }
      - { id: other, steps: [{ wait: { signal: go } }, { id: bad, tool: read_file, with: { path: none.txt } }] }"#;
    check(steps, Happens::Signal, "failed").await;
}

#[tokio::test]
async fn children_that_wait_end_with_their_step() {
    // The time-out counts while the child waits, however far it has come by then.
    check("  - { id: child, workflow: ./child.yaml, timeout: 0.3s }", Happens::Nothing, "failed").await;
}

#[tokio::test]
async fn children_that_wait_end_with_a_stop() {
    let steps = r#"  - id: both
    parallel:
      - { id: child, workflow: ./child.yaml }
      - { id: other, steps: [{ wait: { signal: go } }, { id: enough, stop_if: "true" }] }"#;
    check(steps, Happens::Signal, "stopped").await;
}

#[tokio::test]
async fn children_that_nobody_waits_for_any_more_end() {
    let steps = r#"  - id: both
    wait_for: 1
    parallel:
      - { id: child, workflow: ./child.yaml }
      - { id: other, wait: { signal: go } }"#;
    check(steps, Happens::Signal, "completed").await;
}
