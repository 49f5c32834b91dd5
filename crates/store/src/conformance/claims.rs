//! Claim, renew, release, owners.

use std::collections::BTreeSet;

use relais_engine::RunStatus::{Completed, Pending, Running, Waiting};
use tokio::task::JoinSet;

use super::*;
use crate::Filter;

async fn claimed(store: &dyn Store, claim: Claim) -> BTreeSet<RunId> {
    let runs = store.claim(claim).await.unwrap();
    let set: BTreeSet<RunId> = runs.iter().map(|claimed| claimed.run).collect();
    assert_eq!(set.len(), runs.len(), "no run is given twice");
    set
}

async fn waiting_until(store: &dyn Store, wake_at: Option<Millis>) -> RunId {
    created(store, Summary { wake_at, ..summary(run(), Waiting) }).await
}

pub(super) async fn orphans_and_due_waits(Handles { here, there }: Handles) {
    let pending = started(&*here, Pending).await;
    let running = started(&*here, Running).await;
    started(&*here, Completed).await;
    let due = waiting_until(&*here, Some(500)).await;
    let later = waiting_until(&*here, Some(501)).await;
    let signal = waiting_until(&*here, None).await;
    assert_eq!(claimed(&*there, claim("a", 500, Which::Any)).await, [pending, running, due].into());
    assert_eq!(claimed(&*here, claim("b", 500, Which::Any)).await, [].into());
    assert_eq!(claimed(&*here, claim("b", 550, Which::Any)).await, [later].into());
    assert_eq!(here.owners().await.unwrap(), ["a", "b"]);
    let page = there.list(Filter { run: Some(due), ..Filter::default() }).await.unwrap();
    assert_eq!((page.rows[0].owner.as_deref(), page.rows[0].lease_until), (Some("a"), Some(600)));
    assert_eq!(claimed(&*here, claim("b", 550, Which::One(signal))).await, [signal].into());
}

pub(super) async fn given_to_one_owner_only(Handles { here, there }: Handles) {
    let mut runs = BTreeSet::new();
    for _ in 0..40 {
        runs.insert(started(&*here, Pending).await);
    }
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        tasks.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let some = Claim { limit: 3, ..claim(&format!("owner {number}"), 10, Which::Any) };
                let some = store.claim(some).await.unwrap();
                assert!(some.len() <= 3);
                if some.is_empty() {
                    return mine;
                }
                mine.extend(some.into_iter().map(|claimed| claimed.run));
            }
        });
    }
    let given = tasks.join_all().await.concat();
    assert_eq!(given.len(), runs.len(), "none twice");
    assert_eq!(given.into_iter().collect::<BTreeSet<_>>(), runs, "all of them");
}

pub(super) async fn answered_with_the_former_owner(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    let taken = |from: Option<&str>| Ok(vec![Claimed { run, from: from.map(str::to_owned) }]);
    assert_eq!(here.claim(claim("a", 10, Which::Any)).await, taken(None), "nobody had it");
    assert_eq!(there.claim(claim("b", 110, Which::One(run))).await, taken(Some("a")), "its lease had run out");
    let dead = Claim { dead: vec!["b".into()], ..claim("c", 120, Which::Any) };
    assert_eq!(here.claim(dead).await, taken(Some("b")), "it was dead");
    here.release(run, "c".into()).await.unwrap();
    assert_eq!(there.claim(claim("d", 130, Which::Tree(run))).await, taken(None), "it was given up");
}

/// The journal is the fence: a late owner may append until the new one has, and never again.
pub(super) async fn a_late_owner_is_refused_by_its_number(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    let by = |owner: &str, seq: u64| Batch { writer: Writer::of(owner), ..batch(run, seq) };
    claimed(&*here, claim("late", 10, Which::Any)).await;
    claimed(&*there, claim("new", 110, Which::Any)).await;
    here.append(by("late", 2)).await.unwrap();
    assert_conflict(there.append(by("new", 2)).await, run, 2);
    there.append(by("new", 3)).await.unwrap();
    assert_conflict(here.append(by("late", 3)).await, run, 3);
    assert_eq!(here.append(by("late", 2)).await, Ok(()), "what it has written, it has written");
}

pub(super) async fn a_late_owner_gives_nothing_of_the_new_one_up(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    claimed(&*here, claim("late", 10, Which::Any)).await;
    claimed(&*there, claim("new", 110, Which::Any)).await;
    here.append(Batch { release: Some("late".into()), ..batch(run, 2) }).await.unwrap();
    here.release(run, "late".into()).await.unwrap();
    assert_eq!(there.held("new".into()).await, Ok(vec![run]));
    let last = Batch { release: Some("new".into()), ..batch(run, 3) };
    there.append(last.clone()).await.unwrap();
    assert_eq!(there.held("new".into()).await, Ok(vec![]));
    claimed(&*there, claim("new", 120, Which::Any)).await;
    there.append(last).await.unwrap();
    assert_eq!(there.held("new".into()).await, Ok(vec![run]), "the same append again gives nothing up");
}

pub(super) async fn the_patient_take_from_the_dead_alone(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    claimed(&*here, claim("a", 10, Which::Any)).await;
    let patient = |which: Which| Claim { patient: true, ..claim("b", 500, which) };
    for which in [Which::Any, Which::Tree(run), Which::One(run)] {
        assert_eq!(claimed(&*there, patient(which)).await, [].into(), "its lease has run out, and it may be there");
    }
    let free = started(&*here, Pending).await;
    assert_eq!(claimed(&*there, patient(Which::Any)).await, [free].into(), "nobody had it");
    let dead = Claim { dead: vec!["a".into()], ..patient(Which::Any) };
    assert_eq!(claimed(&*there, dead).await, [run].into());
}

pub(super) async fn held_by_an_owner(Handles { here, there }: Handles) {
    let leased = |status| NewRun { lease: Some(("a".into(), 100)), ..new_run(summary(run(), status)) };
    let pending = here.create(leased(Pending)).await.unwrap();
    here.create(leased(Completed)).await.unwrap();
    started(&*here, Running).await;
    let waiting = waiting_until(&*here, None).await;
    claimed(&*here, claim("a", 10, Which::One(waiting))).await;
    let mut held = there.held("a".into()).await.unwrap();
    held.sort_unstable();
    let mut expected = vec![pending, waiting];
    expected.sort_unstable();
    assert_eq!(held, expected, "what has not ended");
    assert_eq!(there.held("nobody".into()).await, Ok(vec![]));
}

pub(super) async fn dead_and_expired_owners(Handles { here, there }: Handles) {
    let leased = NewRun { lease: Some(("a".into(), 100)), ..new_run(summary(run(), Running)) };
    let first = here.create(leased).await.unwrap();
    assert_eq!(claimed(&*there, claim("b", 99, Which::Any)).await, [].into());
    assert_eq!(claimed(&*here, claim("a", 99, Which::Any)).await, [].into(), "it has it already");
    assert_eq!(claimed(&*there, claim("b", 100, Which::Any)).await, [first].into(), "the lease has expired");
    assert_eq!(here.owners().await.unwrap(), ["b"]);
    let dead = Claim { dead: vec!["b".into(), "x".into()], ..claim("c", 101, Which::Any) };
    assert_eq!(claimed(&*here, dead).await, [first].into(), "b is dead, its lease counts no more");
    let held =
        NewRun { lease: Some(("d".into(), 1_000)), ..new_run(Summary { wake_at: Some(5), ..summary(run(), Waiting) }) };
    let waiting = here.create(held).await.unwrap();
    assert_eq!(claimed(&*here, claim("e", 150, Which::Any)).await, [].into(), "d lives and has it");
    let dead = Claim { dead: vec!["d".into()], ..claim("e", 150, Which::Any) };
    assert_eq!(claimed(&*here, dead).await, [waiting].into());
}

/// A run that waits for somebody is nobody's when whoever had it last is gone: it needs no one before it is spoken to.
pub(super) async fn a_waiting_run_outlives_its_owner(Handles { here, there }: Handles) {
    let run = waiting_until(&*here, None).await;
    assert_eq!(claimed(&*here, claim("a", 10, Which::One(run))).await, [run].into());
    let owner =
        async || there.list(Filter { run: Some(run), ..Filter::default() }).await.unwrap().rows[0].owner.clone();
    assert_eq!(claimed(&*there, claim("b", 10, Which::Any)).await, [].into());
    assert_eq!(owner().await.as_deref(), Some("a"), "a lives and has it");
    let dead = Claim { dead: vec!["a".into()], ..claim("b", 10, Which::Any) };
    assert_eq!(claimed(&*there, dead).await, [].into(), "it is not due");
    assert_eq!((owner().await, here.owners().await.unwrap()), (None, Vec::new()));
}

/// Whoever claims a finished run to resume it and is gone before it does, does not keep it.
pub(super) async fn a_finished_run_outlives_its_owner(Handles { here, there }: Handles) {
    let run = started(&*here, Completed).await;
    assert_eq!(claimed(&*here, claim("a", 10, Which::One(run))).await, [run].into());
    assert_eq!(claimed(&*there, claim("b", 10, Which::One(run))).await, [].into());
    assert_eq!(claimed(&*there, claim("b", 500, Which::Any)).await, [].into());
    assert_eq!(claimed(&*there, claim("b", 500, Which::One(run))).await, [run].into());
}

pub(super) async fn a_tree_and_a_single_run(Handles { here, .. }: Handles) {
    let root = started(&*here, Running).await;
    let child = created(&*here, Summary { parent: Some(root), ..summary(run(), Completed) }).await;
    let grandchild = created(&*here, Summary { parent: Some(child), ..summary(run(), Pending) }).await;
    let late = created(&*here, Summary { parent: Some(root), wake_at: Some(9_000), ..summary(run(), Waiting) }).await;
    let other = started(&*here, Running).await;
    assert_eq!(claimed(&*here, claim("a", 10, Which::Tree(root))).await, [root, grandchild].into());
    assert_eq!(claimed(&*here, claim("b", 10, Which::Tree(root))).await, [].into());
    assert_eq!(claimed(&*here, claim("b", 10, Which::One(root))).await, [].into(), "a has it");
    assert_eq!(claimed(&*here, claim("a", 10, Which::One(root))).await, [].into(), "nobody gets it twice");
    assert_eq!(claimed(&*here, claim("b", 10, Which::One(child))).await, [child].into(), "finished ones too");
    assert_eq!(claimed(&*here, claim("b", 10, Which::One(late))).await, [late].into());
    assert_eq!(claimed(&*here, claim("b", 10, Which::One(run()))).await, [].into());
    assert_eq!(claimed(&*here, claim("b", 10, Which::Any)).await, [other].into());
    let none = Claim { limit: 0, dead: vec!["a".into()], ..claim("c", 10, Which::Any) };
    assert_eq!(claimed(&*here, none).await, [].into());
}

pub(super) async fn released_with_the_last_entry(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    assert_eq!(claimed(&*here, claim("a", 10, Which::Any)).await, [run].into());
    there.release(run, "b".into()).await.unwrap();
    assert_eq!(claimed(&*there, claim("b", 10, Which::Any)).await, [].into(), "it is not b's to release");
    here.release(run, "a".into()).await.unwrap();
    assert_eq!(claimed(&*there, claim("b", 10, Which::Any)).await, [run].into());
    let waiting = Summary { wake_at: Some(50), ..summary(run, Waiting) };
    there.append(Batch { summary: Some(waiting), release: Some("b".into()), ..batch(run, 2) }).await.unwrap();
    assert!(here.owners().await.unwrap().is_empty());
    assert_eq!(claimed(&*here, claim("a", 50, Which::Any)).await, [run].into());
    let done = Some(summary(run, Completed));
    here.append(Batch { summary: done, ..batch(run, 3) }).await.unwrap();
    assert!(here.owners().await.unwrap().is_empty(), "a finished run needs no owner");
}

pub(super) async fn renewed(Handles { here, there }: Handles) {
    let first = started(&*here, Running).await;
    let second = started(&*here, Running).await;
    assert_eq!(claimed(&*here, claim("a", 10, Which::Any)).await, [first, second].into());
    here.renew("a".into(), 500).await.unwrap();
    here.renew("nobody".into(), 500).await.unwrap();
    assert_eq!(claimed(&*there, claim("b", 499, Which::Any)).await, [].into());
    assert_eq!(here.owners().await.unwrap(), ["a"]);
    assert_eq!(claimed(&*there, claim("b", 500, Which::Any)).await, [first, second].into());
    here.renew("a".into(), 900).await.unwrap();
    assert_eq!(here.owners().await.unwrap(), ["b"], "what was lost is not won back by renewing");
}
