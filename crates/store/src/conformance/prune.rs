//! Old runs go, with what belongs to them only.

use relais_engine::RunStatus::{Completed, Failed, Running};

use super::*;
use crate::{Filter, Prune, Pruned};

fn before(status: RunStatus, at: Millis) -> Prune {
    Prune { before: vec![(status, at)], ..Prune::default() }
}

async fn left(store: &dyn Store) -> Vec<RunId> {
    let mut runs: Vec<_> = store.list(Filter::default()).await.unwrap().rows.iter().map(|r| r.summary.run).collect();
    runs.sort_unstable();
    runs
}

pub(super) async fn old_roots_with_their_children(Handles { here, there }: Handles) {
    let child_of = |parent, status| Summary { parent: Some(parent), ..summary(run(), status) };
    let old = started(&*here, Completed).await;
    let child = created(&*here, child_of(old, Failed)).await;
    let grandchild = created(&*here, child_of(child, Completed)).await;
    let keyed = NewRun { key: Some("k".into()), ..new_run(summary(run(), Completed)) };
    here.create(keyed.clone()).await.unwrap();
    let recent = created(&*here, Summary { ended_at: Some(5_000), ..summary(run(), Completed) }).await;
    let failed = started(&*here, Failed).await;
    let parent = started(&*here, Running).await;
    let done = created(&*here, child_of(parent, Completed)).await;
    let busy = started(&*here, Completed).await;
    let unfinished = created(&*here, child_of(busy, Running)).await;
    let pruned = there.prune(before(Completed, 5_000)).await.unwrap();
    assert_eq!(pruned, Pruned { runs: 4, blobs: 0 });
    assert_eq!(left(&*here).await, [recent, failed, parent, done, busy, unfinished]);
    for gone in [old, child, grandchild] {
        assert!(numbers(&*here, gone).await.is_empty());
    }
    assert_eq!(here.create(keyed.clone()).await, Ok(keyed.summary.run), "its key is free again");
    assert_eq!(there.prune(before(Running, 9_000)).await, Ok(Pruned::default()), "unfinished runs stay");
    assert_eq!(there.prune(before(Failed, 9_000)).await, Ok(Pruned { runs: 1, blobs: 0 }));
}

pub(super) async fn named_roots_with_their_children(Handles { here, there }: Handles) {
    let child_of = |parent, status| Summary { parent: Some(parent), ..summary(run(), status) };
    let [named, stays, busy, open] = [
        started(&*here, Completed).await,
        started(&*here, Completed).await,
        started(&*here, Failed).await,
        started(&*here, Running).await,
    ];
    created(&*here, child_of(named, Failed)).await;
    let unfinished = created(&*here, child_of(busy, Running)).await;
    let prune = Prune { runs: vec![named, named, busy, open, run()], ..Prune::default() };
    assert_eq!(there.prune(prune.clone()).await, Ok(Pruned { runs: 2, blobs: 0 }));
    assert_eq!(left(&*here).await, [stays, busy, open, unfinished]);
    assert_eq!(there.prune(prune).await, Ok(Pruned::default()));
}

pub(super) async fn blobs_shared_by_two_runs_stay(Handles { here, .. }: Handles) {
    let shared = here.put_blob(b"shared".to_vec()).await.unwrap();
    let own = here.put_blob(b"own".to_vec()).await.unwrap();
    let old = summary(run(), Completed);
    here.create(NewRun { blobs: vec![own.clone()], ..new_run(old.clone()) }).await.unwrap();
    here.append(Batch { blobs: vec![shared.clone(), shared.clone()], ..batch(old.run, 2) }).await.unwrap();
    let user = NewRun { blobs: vec![shared.clone()], ..new_run(summary(run(), Failed)) };
    here.create(user).await.unwrap();
    assert_eq!(here.prune(before(Completed, 9_000)).await, Ok(Pruned { runs: 1, blobs: 1 }));
    assert_eq!(here.get_blob(own).await, Ok(None));
    assert!(here.get_blob(shared.clone()).await.unwrap().is_some());
    let unused = here.put_blob(b"never referred to".to_vec()).await.unwrap();
    assert_eq!(here.prune(before(Failed, 9_000)).await, Ok(Pruned { runs: 1, blobs: 2 }));
    assert_eq!(here.get_blob(shared).await, Ok(None));
    assert_eq!(here.get_blob(unused).await, Ok(None));
}

pub(super) async fn stops_at_the_limit(Handles { here, .. }: Handles) {
    for _ in 0..5 {
        started(&*here, Completed).await;
    }
    let some = Prune { limit: 2, ..before(Completed, 9_000) };
    let counts = [2, 2, 1, 0];
    for runs in counts {
        assert_eq!(here.prune(some.clone()).await, Ok(Pruned { runs, blobs: 0 }));
    }
}
