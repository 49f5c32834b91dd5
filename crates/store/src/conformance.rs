//! What every store must keep, as one suite: `conformance(make).await` panics where a store breaks the contract.
//!
//! It knows the trait and nothing of any store behind it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use relais_engine::{Entry, Event, FORMAT, Millis, RunId, RunStatus, Signal, Summary, Usage};
use serde_json::json;

use crate::{Batch, Claim, Claimed, Error, NewRun, Store, Which, Writer};

mod awaited;
mod claims;
mod contents;
mod journal;
mod listed;
mod lost;
mod marks;
mod pages;
mod prune;
mod records;

/// Two handles on the same data, as two processes would have them. For a store that only one process can use they are
/// the same. Blobs that nobody refers to must not be kept from `prune` for any time.
#[derive(Clone)]
pub struct Handles {
    pub here: Arc<dyn Store>,
    pub there: Arc<dyn Store>,
}

/// Runs every case on an empty store from `make`. Needs a tokio runtime with time and more than one thread.
pub async fn conformance(make: impl AsyncFn() -> Handles) {
    journal::created_once(make().await).await;
    journal::created_once_per_key_and_user(make().await).await;
    journal::numbers_are_checked(make().await).await;
    journal::a_conflict_leaves_nothing(make().await).await;
    journal::loads_after_a_number(make().await).await;
    journal::the_same_append_again(make().await).await;
    journal::many_runs_at_once(make().await).await;
    journal::many_writers_on_one_run(make().await).await;
    journal::tail_sees_own_and_foreign_changes(make().await).await;
    claims::orphans_and_due_waits(make().await).await;
    claims::given_to_one_owner_only(make().await).await;
    claims::answered_with_the_former_owner(make().await).await;
    claims::a_late_owner_is_refused_by_its_number(make().await).await;
    claims::a_late_owner_gives_nothing_of_the_new_one_up(make().await).await;
    claims::the_patient_take_from_the_dead_alone(make().await).await;
    claims::held_by_an_owner(make().await).await;
    claims::dead_and_expired_owners(make().await).await;
    claims::a_waiting_run_outlives_its_owner(make().await).await;
    claims::a_finished_run_outlives_its_owner(make().await).await;
    claims::a_tree_and_a_single_run(make().await).await;
    claims::released_with_the_last_entry(make().await).await;
    claims::renewed(make().await).await;
    pages::filters(make().await).await;
    pages::every_combination_of_filters(make().await).await;
    pages::cursors_hold_still(make().await).await;
    pages::rows_tell_what_was_written(make().await).await;
    awaited::found_by_type_and_user(make().await).await;
    awaited::gone_with_the_run(make().await).await;
    listed::exactly_those_that_a_run_has(make().await).await;
    marks::found_by_tag_and_error(make().await).await;
    contents::documents(make().await).await;
    contents::versions(make().await).await;
    contents::blobs(make().await).await;
    records::replaced_whole(make().await).await;
    records::expectations(make().await).await;
    records::all_or_nothing(make().await).await;
    records::one_of_many_wins(make().await).await;
    records::found_in_order(make().await).await;
    records::pages_are_bounded(make().await).await;
    records::an_end_is_told_until_it_is_noted(make().await).await;
    records::a_pruned_run_is_not_told(make().await).await;
    records::unfinished_runs_are_counted(make().await).await;
    records::the_own_tail_tells_no_change(make().await).await;
    lost::answers(make().await).await;
    prune::old_roots_with_their_children(make().await).await;
    prune::named_roots_with_their_children(make().await).await;
    prune::blobs_shared_by_two_runs_stay(make().await).await;
    prune::stops_at_the_limit(make().await).await;
}

pub(crate) fn run() -> RunId {
    RunId::now_v7()
}

pub(crate) fn entry(seq: u64) -> Entry {
    let signal = Signal::Sent { name: format!("go {seq}"), value: json!({ "seq": seq, "text": "«é\u{0}'\"" }) };
    let event = Event::Signalled { signal, by: "somebody".into() };
    Entry { seq, at: 1_000 + Millis::try_from(seq).unwrap(), version: FORMAT, events: vec![event] }
}

pub(crate) fn summary(run: RunId, status: RunStatus) -> Summary {
    Summary {
        run,
        workflow: "report".into(),
        plan: "plan-hash".into(),
        user: "ann".into(),
        thread: String::new(),
        parent: None,
        target: Default::default(),
        status,
        started_at: 1_000,
        ended_at: status.is_final().then_some(2_000),
        wake_at: None,
        awaits: Vec::new(),
        usage: Usage::default(),
        error: None,
    }
}

pub(crate) fn new_run(summary: Summary) -> NewRun {
    NewRun { entry: entry(1), more: Vec::new(), summary, key: None, lease: None, blobs: Vec::new() }
}

pub(crate) fn batch(run: RunId, seq: u64) -> Batch {
    let (writer, entry) = (Writer::outside(), entry(seq).into());
    Batch { run, writer, entry, summary: None, release: None, blobs: Vec::new(), awaited: None, listed: None }
}

pub(crate) async fn started(store: &dyn Store, status: RunStatus) -> RunId {
    created(store, summary(run(), status)).await
}

pub(crate) async fn created(store: &dyn Store, summary: Summary) -> RunId {
    store.create(new_run(summary)).await.unwrap()
}

pub(crate) fn claim(owner: &str, now: Millis, which: Which) -> Claim {
    let (owner, dead) = (owner.into(), Vec::new());
    Claim { owner, now, lease_until: now + 100, dead, patient: false, which, limit: 10 }
}

/// The numbers a run has.
pub(crate) async fn numbers(store: &dyn Store, run: RunId) -> Vec<u64> {
    store.load(run, 0).await.unwrap().iter().map(|entry| entry.seq).collect()
}

#[track_caller]
pub(crate) fn assert_conflict(outcome: Result<(), Error>, run: RunId, seq: u64) {
    assert_eq!(outcome, Err(Error::Conflict { run, seq }));
}
