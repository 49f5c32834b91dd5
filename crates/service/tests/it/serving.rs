//! What goes on by itself in a process that stays.

use std::time::Duration;

use relais_engine::RunStatus;
use relais_service::{Error, Readiness, Retention, Start};

use crate::setup::{FLOW, ONE_WORD, Setup};

const GRACE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn whoever_leaves_starts_nothing_and_does_what_follows_from_what_has_ended() {
    let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
    let checked = setup.publish("flow.yaml").await;
    let running = setup.service.serve(Retention::default(), |trouble| panic!("{trouble}"));
    let run = setup.service.start(&checked, Start::default()).await.unwrap();
    assert_eq!(setup.end_of(run).await, RunStatus::Completed);
    assert_eq!(setup.service.readiness().await, Readiness::Ready);
    assert!(running.drain(GRACE, std::future::pending::<()>()).await.is_empty());
    assert_eq!(running.stop_taking(), 0);
    assert_eq!(setup.service.readiness().await, Readiness::Draining);
    let refused = setup.service.start(&checked, Start::default()).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    running.end().await;
    let told = setup.service.notifications(true, None, 100).await.unwrap();
    assert_eq!(told.into_iter().map(|at| at.it.title).collect::<Vec<_>>(), ["flow has completed"]);
}

// A second signal: what is at work is let go where it is.
#[tokio::test]
async fn whoever_is_in_a_hurry_lets_everything_go() {
    let setup = Setup::with(&[("flow.yaml", FLOW), ("word.json", r#"[{ "text": "word", "delay_ms": 600000 }]"#)]);
    let checked = setup.publish("flow.yaml").await;
    let running = setup.service.serve(Retention::default(), |trouble| panic!("{trouble}"));
    let run = setup.service.start(&checked, Start::default()).await.unwrap();
    assert_eq!(running.stop_taking(), 1);
    assert_eq!(running.drain(GRACE, std::future::ready(())).await, [run]);
    running.end().await;
    setup.service.shut_down().await;
    assert_eq!(setup.service.row(run).await.unwrap().owner, None);
}
