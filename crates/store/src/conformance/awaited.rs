//! Runs are found by the events that they wait for.

use relais_engine::RunStatus::{Completed, Running, Waiting};

use super::*;
use crate::{Awaited, Prune};

async fn says(store: &dyn Store, run: RunId, seq: u64, types: &[&str]) {
    let awaited = Some(types.iter().map(ToString::to_string).collect());
    store.append(Batch { awaited, ..batch(run, seq) }).await.unwrap();
}

async fn found(store: &dyn Store, user: &str, event: &str) -> Vec<RunId> {
    let awaited = Awaited { user: user.into(), event: event.into(), ..Awaited::default() };
    store.awaiting(awaited).await.unwrap()
}

pub(super) async fn found_by_type_and_user(Handles { here, there }: Handles) {
    let waiting = started(&*here, Waiting).await;
    let working = started(&*here, Running).await;
    let other = created(&*here, Summary { user: "bob".into(), ..summary(run(), Waiting) }).await;
    says(&*here, waiting, 2, &["order.paid", "it's \u{e9}"]).await;
    says(&*here, working, 2, &["order.paid"]).await;
    says(&*here, other, 2, &["order.paid"]).await;
    assert_eq!(found(&*there, "ann", "order.paid").await, [waiting, working]);
    assert_eq!(found(&*there, "ann", "it's \u{e9}").await, [waiting]);
    assert_eq!(found(&*there, "bob", "order.paid").await, [other]);
    for (user, event) in [("ann", "order"), ("ann", "order.paid2"), ("eve", "order.paid"), ("", "")] {
        assert!(found(&*there, user, event).await.is_empty(), "{user} {event}");
    }
    let after = Awaited { user: "ann".into(), event: "order.paid".into(), after: Some(waiting), limit: 0 };
    assert_eq!(there.awaiting(after.clone()).await, Ok(vec![working]));
    assert_eq!(there.awaiting(Awaited { after: None, limit: 1, ..after }).await, Ok(vec![waiting]));
    // A batch that says nothing of it changes nothing, a refused one neither.
    here.append(batch(waiting, 3)).await.unwrap();
    let late = Batch { awaited: Some(Vec::new()), ..batch(waiting, 9) };
    assert_conflict(here.append(late).await, waiting, 9);
    assert_eq!(found(&*there, "ann", "order.paid").await, [waiting, working]);
    says(&*here, waiting, 4, &["order.sent"]).await;
    assert_eq!(found(&*there, "ann", "order.paid").await, [working]);
    assert_eq!(found(&*there, "ann", "order.sent").await, [waiting]);
    says(&*here, waiting, 5, &[]).await;
    assert!(found(&*there, "ann", "order.sent").await.is_empty());
}

pub(super) async fn gone_with_the_run(Handles { here, .. }: Handles) {
    let run = started(&*here, Completed).await;
    says(&*here, run, 2, &["order.paid"]).await;
    here.prune(Prune { before: vec![(Completed, 9_000)], ..Prune::default() }).await.unwrap();
    assert!(found(&*here, "ann", "order.paid").await.is_empty());
}
