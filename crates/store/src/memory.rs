//! The same contract in memory, for tests and simulation. Nothing is durable, any call can be made to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relais_engine::{Entry, Millis, RunId, RunStatus, Summary};
use tokio::sync::broadcast;

mod records;

use crate::page;
use crate::{
    Awaited, Batch, Change, Claim, Claimed, Document, DocumentKey, Edit, Error, Filter, Find, Listed, ListedRecord,
    NewRun, Owner, Page, Prune, Pruned, Record, RecordKey, Reply, Row, Store, Which, Writer,
};

/// Changes kept for a slow receiver before it loses the oldest.
const TAIL_CHANGES: usize = 4_096;

/// How a call is made to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing has happened.
    Before(Error),
    /// It has happened, but the caller is told otherwise, as when the answer is lost.
    After(Error),
}

/// Asked before each call: the method's name, and which call of all this is, from 1.
type Faults = Box<dyn Fn(&'static str, u64) -> Option<Fault> + Send + Sync>;

pub struct MemoryStore {
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    faults: Option<Faults>,
    unused_blob_ms: Millis,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        let (changes, _) = broadcast::channel(TAIL_CHANGES);
        MemoryStore { state: Mutex::default(), changes, faults: None, unused_blob_ms: page::UNUSED_BLOB_MS }
    }
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    pub fn with_faults(faults: impl Fn(&'static str, u64) -> Option<Fault> + Send + Sync + 'static) -> MemoryStore {
        MemoryStore { faults: Some(Box::new(faults)), ..MemoryStore::default() }
    }

    /// How long a blob nobody refers to stays after it was put.
    pub fn unused_blob_ms(mut self, unused_blob_ms: Millis) -> MemoryStore {
        self.unused_blob_ms = unused_blob_ms;
        self
    }

    /// A poisoned lock means that a test panicked elsewhere; the state is whole, as no call panics half way.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs when the reply is first polled, so that a call nobody waits for does nothing.
    fn reply<'a, T: Send + 'a>(
        &'a self,
        method: &'static str,
        work: impl FnOnce(&mut State) -> Result<T, Error> + Send + 'a,
    ) -> Reply<'a, T> {
        Box::pin(async move {
            let mut state = self.state();
            state.calls += 1;
            let fault = self.faults.as_ref().and_then(|faults| faults(method, state.calls));
            if let Some(Fault::Before(error)) = fault {
                return Err(error);
            }
            let outcome = work(&mut state);
            for change in state.news.drain(..) {
                // Without receivers nobody wants to know.
                drop(self.changes.send(change));
            }
            if let Some(Fault::After(error)) = fault { Err(error) } else { outcome }
        })
    }
}

impl Store for MemoryStore {
    fn create(&self, new: NewRun) -> Reply<'_, RunId> {
        self.reply("create", move |state| state.create(new))
    }

    fn append(&self, batch: Batch) -> Reply<'_, ()> {
        self.reply("append", move |state| state.append(batch))
    }

    fn load(&self, run: RunId, after: u64) -> Reply<'_, Vec<Entry>> {
        self.reply("load", move |state| {
            let entries = state.runs.get(&run).map_or(&[][..], |held| &held.entries);
            Ok(entries.iter().filter(|entry| entry.seq > after).cloned().collect())
        })
    }

    fn claim(&self, claim: Claim) -> Reply<'_, Vec<Claimed>> {
        self.reply("claim", move |state| Ok(state.claim(&claim)))
    }

    fn held(&self, owner: Owner) -> Reply<'_, Vec<RunId>> {
        self.reply("held", move |state| {
            let unfinished = state.runs.values().filter(|held| !held.summary.status.is_final());
            Ok(unfinished.filter(|held| held.owner.as_ref() == Some(&owner)).map(|held| held.summary.run).collect())
        })
    }

    fn renew(&self, owner: Owner, until: Millis) -> Reply<'_, ()> {
        self.reply("renew", move |state| {
            if let Some(lease_until) = state.leases.get_mut(&owner) {
                *lease_until = until.max(*lease_until);
            }
            Ok(())
        })
    }

    fn release(&self, run: RunId, owner: Owner) -> Reply<'_, ()> {
        self.reply("release", move |state| {
            if let Some(held) = state.runs.get_mut(&run).filter(|held| held.owner.as_ref() == Some(&owner)) {
                held.owner = None;
            }
            Ok(())
        })
    }

    fn owners(&self) -> Reply<'_, Vec<Owner>> {
        self.reply("owners", move |state| {
            let unfinished = state.runs.values().filter(|held| !held.summary.status.is_final());
            let owners: BTreeSet<_> = unfinished.filter_map(|held| held.owner.clone()).collect();
            Ok(owners.into_iter().collect())
        })
    }

    fn list(&self, filter: Filter) -> Reply<'_, Page> {
        self.reply("list", move |state| state.list(&filter))
    }

    fn tail(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    fn put_document(&self, document: Document) -> Reply<'_, ()> {
        self.reply("put_document", move |state| {
            state.put_document(document);
            Ok(())
        })
    }

    fn get_document(&self, key: DocumentKey, version: Option<u64>) -> Reply<'_, Option<Document>> {
        self.reply("get_document", move |state| {
            let DocumentKey { kind, owner, name } = key;
            let (lowest, highest) = version.map_or((0, u64::MAX), |version| (version, version));
            let from = (kind.clone(), owner.clone(), name.clone(), lowest);
            let last = state.documents.range(from..=(kind, owner, name, highest)).next_back();
            Ok(last.map(|(_, document)| document.clone()))
        })
    }

    fn list_documents(&self, kind: String, owner: String) -> Reply<'_, Vec<Document>> {
        self.reply("list_documents", move |state| {
            let mut latest: BTreeMap<&str, &Document> = BTreeMap::new();
            let mine = state.documents.values().filter(|d| d.key.kind == kind && d.key.owner == owner);
            // Versions come in rising order, so the highest stays.
            latest.extend(mine.map(|document| (document.key.name.as_str(), document)));
            Ok(latest.into_values().cloned().collect())
        })
    }

    fn list_versions(&self, key: DocumentKey, limit: usize) -> Reply<'_, Vec<Document>> {
        self.reply("list_versions", move |state| {
            let versions = state.documents.values().rev().filter(|document| document.key == key);
            Ok(versions.take(page::rows(limit)).cloned().collect())
        })
    }

    fn change(&self, edits: Vec<Edit>, at: Millis) -> Reply<'_, Vec<u64>> {
        self.reply("change", move |state| state.change(edits, at))
    }

    fn get_record(&self, key: RecordKey) -> Reply<'_, Option<Record>> {
        self.reply("get_record", move |state| Ok(state.records.get(&key).cloned()))
    }

    fn records(&self, find: Find) -> Reply<'_, Vec<Record>> {
        self.reply("records", move |state| Ok(state.find(&find)))
    }

    fn next_due(&self, kind: String) -> Reply<'_, Option<Millis>> {
        self.reply("next_due", move |state| {
            let mine = state.records.values().filter(|record| record.key.kind == kind);
            Ok(mine.filter_map(|record| record.due_at).min())
        })
    }

    fn unfinished(&self) -> Reply<'_, Vec<(RunStatus, u64)>> {
        use relais_engine::RunStatus::{Pending, Running, Waiting};
        self.reply("unfinished", |state| {
            let count = |status| state.runs.values().filter(|held| held.summary.status == status).count() as u64;
            Ok([Pending, Running, Waiting].map(|status| (status, count(status))).to_vec())
        })
    }

    fn ended(&self, limit: usize) -> Reply<'_, Vec<Row>> {
        self.reply("ended", move |state| Ok(state.ended(limit)))
    }

    fn awaiting(&self, awaited: Awaited) -> Reply<'_, Vec<RunId>> {
        self.reply("awaiting", move |state| Ok(state.awaiting(awaited)))
    }

    fn probe(&self) -> Reply<'_, ()> {
        self.reply("probe", |_| Ok(()))
    }

    fn put_blob(&self, bytes: Vec<u8>) -> Reply<'_, String> {
        self.reply("put_blob", move |state| {
            let hash = blake3::hash(&bytes).to_hex().to_string();
            state.blobs.entry(hash.clone()).or_insert(bytes);
            state.fresh.insert(hash.clone(), page::now());
            Ok(hash)
        })
    }

    fn get_blob(&self, hash: String) -> Reply<'_, Option<Vec<u8>>> {
        self.reply("get_blob", move |state| Ok(state.blobs.get(&hash).cloned()))
    }

    fn prune(&self, prune: Prune) -> Reply<'_, Pruned> {
        let unused_since = page::now().saturating_sub(self.unused_blob_ms);
        self.reply("prune", move |state| Ok(state.prune(&prune, unused_since)))
    }
}

#[derive(Default)]
struct State {
    calls: u64,
    runs: BTreeMap<RunId, Held>,
    /// One per owner, as in every store.
    leases: BTreeMap<Owner, Millis>,
    documents: BTreeMap<(String, String, String, u64), Document>,
    records: BTreeMap<RecordKey, Record>,
    /// Users, types of events, and the runs that wait for them.
    awaited: BTreeSet<(String, String, RunId)>,
    blobs: BTreeMap<String, Vec<u8>>,
    /// When blobs were put that may not be referred to yet.
    fresh: BTreeMap<String, Millis>,
    /// To be published when the call is over.
    news: Vec<Change>,
}

struct Held {
    summary: Summary,
    entries: Vec<Entry>,
    /// Who appended what comes behind the entries that the run was created with.
    writers: BTreeMap<u64, Writer>,
    key: Option<String>,
    owner: Option<Owner>,
    blobs: BTreeSet<String>,
    /// Types of events that it waits for, as they are in `State::awaited`.
    awaited: Vec<String>,
    /// It has ended and nobody has taken note of it yet.
    unreported: bool,
    /// Number of the last entry when somebody last did.
    reported: u64,
}

impl Held {
    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.seq)
    }

    /// Whether this very append was made before.
    fn has(&self, batch: &Batch) -> bool {
        let same_entry = self.entries.iter().any(|entry| *entry == *batch.entry);
        same_entry && self.writers.get(&batch.entry.seq) == Some(&batch.writer)
    }

    fn is_ready(&self, now: Millis) -> bool {
        use relais_engine::RunStatus::{Pending, Running, Waiting};
        match self.summary.status {
            Pending | Running => true,
            Waiting => self.summary.wake_at.is_some_and(|at| at <= now),
            _ => false,
        }
    }
}

impl State {
    fn create(&mut self, new: NewRun) -> Result<RunId, Error> {
        new.check_numbers()?;
        let same = |held: &&Held| held.key == new.key && held.summary.user == new.summary.user;
        if new.key.is_some()
            && let Some(first) = self.runs.values().find(same)
        {
            return Ok(first.summary.run);
        }
        let run = new.summary.run;
        if let Some(held) = self.runs.get(&run) {
            let again = held.entries.first() == Some(&new.entry);
            return if again { Ok(run) } else { Err(Error::Conflict { run, seq: 1 }) };
        }
        let owner = new.lease.map(|(owner, until)| self.hold(owner, until));
        let blobs = new.blobs.into_iter().collect();
        let unreported = new.summary.status.is_final();
        let (summary, entries) = (new.summary, [vec![new.entry], new.more].concat());
        let seq = entries.len() as u64;
        let (writers, awaited) = Default::default();
        let held = Held { summary, entries, writers, key: new.key, owner, blobs, awaited, unreported, reported: 0 };
        self.runs.insert(run, held);
        self.news.push(Change { run, seq });
        Ok(run)
    }

    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        let run = batch.run;
        let seq = batch.entry.seq;
        let held = self.runs.get_mut(&run).ok_or_else(|| Error::NotFound(format!("run {run}")))?;
        if seq != held.last() + 1 {
            return if held.has(&batch) { Ok(()) } else { Err(Error::Conflict { run, seq }) };
        }
        held.entries.push((*batch.entry).clone());
        held.writers.insert(seq, batch.writer);
        held.blobs.extend(batch.blobs);
        if let Some(summary) = batch.summary {
            held.unreported = summary.status.is_final();
            held.summary = summary;
        }
        if batch.release.is_some() && batch.release == held.owner {
            held.owner = None;
        }
        if let Some(types) = batch.awaited {
            let (user, before) = (held.summary.user.clone(), std::mem::replace(&mut held.awaited, types.clone()));
            self.await_events(run, &user, before, types);
        }
        if let Some(listed) = batch.listed {
            self.call_the_roll(run, listed, batch.entry.at);
        }
        self.news.push(Change { run, seq });
        Ok(())
    }

    /// Leaves exactly these records of the run.
    fn call_the_roll(&mut self, run: RunId, listed: Listed, at: Millis) {
        let label = run.to_string();
        self.records.retain(|key, record| key.kind != listed.kind || record.label != label || listed.has(&key.id));
        for ListedRecord { owner, id, due_at, body } in listed.records {
            let key = RecordKey { kind: listed.kind.clone(), owner, id };
            let fresh = || Record { key: key.clone(), label: label.clone(), due_at, revision: 1, at, body };
            self.records.entry(key.clone()).or_insert_with(fresh);
        }
    }

    fn await_events(&mut self, run: RunId, user: &str, before: Vec<String>, types: Vec<String>) {
        for event in before {
            self.awaited.remove(&(user.to_owned(), event, run));
        }
        self.awaited.extend(types.into_iter().map(|event| (user.to_owned(), event, run)));
    }

    fn awaiting(&self, awaited: Awaited) -> Vec<RunId> {
        let Awaited { user, event, after, limit } = awaited;
        let first = (user.clone(), event.clone(), after.unwrap_or(RunId::nil()));
        let last = (user, event, RunId::max());
        let found = self.awaited.range(first..=last).map(|(_, _, run)| *run);
        found.filter(|run| Some(*run) != after).take(page::rows(limit)).collect()
    }

    fn hold(&mut self, owner: Owner, until: Millis) -> Owner {
        let lease_until = self.leases.entry(owner.clone()).or_insert(until);
        *lease_until = until.max(*lease_until);
        owner
    }

    fn claim(&mut self, claim: &Claim) -> Vec<Claimed> {
        let has_expired = |until: &Millis| !claim.patient && *until <= claim.now;
        let expired = self.leases.iter().filter(|(_, until)| has_expired(until)).map(|(owner, _)| owner);
        let mut gone: BTreeSet<Owner> = expired.chain(&claim.dead).cloned().collect();
        // It may still be at work on what it holds.
        gone.remove(&claim.owner);
        let candidates = match claim.which {
            Which::One(run) => vec![run],
            Which::Tree(root) => self.ready(&self.tree(root), claim.now),
            Which::Any => self.ready(&self.runs.keys().copied().collect::<Vec<_>>(), claim.now),
        };
        let is_free =
            |run: &RunId| self.runs.get(run).is_some_and(|held| held.owner.as_ref().is_none_or(|o| gone.contains(o)));
        let taken: Vec<RunId> = candidates.into_iter().filter(is_free).take(claim.limit).collect();
        let taken = taken.into_iter().map(|run| self.take(run, claim)).collect();
        if claim.which == Which::Any {
            self.leave_waiting(&gone);
        }
        taken
    }

    fn take(&mut self, run: RunId, claim: &Claim) -> Claimed {
        let owner = self.hold(claim.owner.clone(), claim.lease_until);
        let from = self.runs.get_mut(&run).and_then(|held| held.owner.replace(owner));
        Claimed { run, from }
    }

    /// Whoever left a waiting run for good has nothing to do with it any more: its row says what it waits for.
    fn leave_waiting(&mut self, gone: &BTreeSet<Owner>) {
        let waiting = self.runs.values_mut().filter(|held| held.summary.status == RunStatus::Waiting);
        for held in waiting.filter(|held| held.owner.as_ref().is_some_and(|owner| gone.contains(owner))) {
            held.owner = None;
        }
    }

    fn ready(&self, runs: &[RunId], now: Millis) -> Vec<RunId> {
        runs.iter().filter(|run| self.runs.get(run).is_some_and(|held| held.is_ready(now))).copied().collect()
    }

    /// The run and its descendants, each after its parent.
    fn tree(&self, root: RunId) -> Vec<RunId> {
        let mut tree = vec![root];
        let mut next = 0;
        while let Some(parent) = tree.get(next).copied() {
            let children = self.runs.values().filter(|held| held.summary.parent == Some(parent));
            let new: Vec<RunId> = children.map(|held| held.summary.run).filter(|run| !tree.contains(run)).collect();
            tree.extend(new);
            next += 1;
        }
        tree
    }

    fn list(&self, filter: &Filter) -> Result<Page, Error> {
        let limit = page::rows(filter.limit);
        let before = filter.cursor.as_deref().map(page::position).transpose()?;
        let place = |held: &&Held| (held.summary.started_at, held.summary.run);
        let mut found: Vec<&Held> = self.runs.values().filter(|held| matches(filter, &held.summary)).collect();
        found.retain(|held| before.is_none_or(|before| place(held) < before));
        found.sort_unstable_by_key(|held| std::cmp::Reverse(place(held)));
        let more = found.len() > limit;
        let rows: Vec<Row> = found.into_iter().take(limit).map(|held| self.row(held)).collect();
        let cursor = rows.last().filter(|_| more).map(|row| page::cursor(row.summary.started_at, row.summary.run));
        Ok(Page { rows, cursor })
    }

    fn row(&self, held: &Held) -> Row {
        let lease_until = held.owner.as_ref().and_then(|owner| self.leases.get(owner)).copied();
        let (summary, owner) = (held.summary.clone(), held.owner.clone());
        Row { summary, seq: held.last(), reported: held.reported, owner, lease_until }
    }

    fn prune(&mut self, prune: &Prune, unused_since: Millis) -> Pruned {
        let limit = page::pruned_runs(prune.limit);
        let mut removed: Vec<Held> = Vec::new();
        for root in self.old_roots(prune).into_iter().chain(prune.runs.iter().copied()) {
            if removed.len() >= limit {
                break;
            }
            let tree = self.tree(root);
            let unfinished = |run: &RunId| self.runs.get(run).is_some_and(|held| !held.summary.status.is_final());
            if !tree.iter().any(unfinished) {
                removed.extend(tree.iter().filter_map(|run| self.runs.remove(run)));
            }
        }
        let runs = u64::try_from(removed.len()).unwrap_or(u64::MAX);
        for held in &mut removed {
            let awaited = std::mem::take(&mut held.awaited);
            self.await_events(held.summary.run, &held.summary.user, awaited, Vec::new());
        }
        let mut hashes: BTreeSet<String> = removed.into_iter().flat_map(|held| held.blobs).collect();
        hashes.extend(self.fresh.iter().filter(|(_, at)| **at <= unused_since).map(|(hash, _)| hash.clone()));
        self.fresh.retain(|_, at| *at > unused_since);
        let blobs = hashes.iter().filter(|hash| self.remove_unused(hash)).count();
        Pruned { runs, blobs: u64::try_from(blobs).unwrap_or(u64::MAX) }
    }

    fn old_roots(&self, prune: &Prune) -> Vec<RunId> {
        let is_old = |summary: &Summary| {
            let rules = prune.before.iter().filter(|(status, _)| status.is_final() && *status == summary.status);
            rules.into_iter().any(|(_, before)| summary.ended_at.is_some_and(|ended| ended < *before))
        };
        let is_root = |held: &&Held| held.summary.parent.is_none_or(|parent| !self.runs.contains_key(&parent));
        let old = self.runs.values().filter(is_root).filter(|held| is_old(&held.summary));
        old.map(|held| held.summary.run).collect()
    }

    fn remove_unused(&mut self, hash: &str) -> bool {
        let used = self.fresh.contains_key(hash) || self.runs.values().any(|held| held.blobs.contains(hash));
        !used && self.blobs.remove(hash).is_some()
    }
}

fn matches(filter: &Filter, summary: &Summary) -> bool {
    fn is<T: PartialEq>(wanted: &Option<T>, actual: &T) -> bool {
        wanted.as_ref().is_none_or(|wanted| wanted == actual)
    }
    is(&filter.run, &summary.run)
        && is(&filter.user, &summary.user)
        && is(&filter.workflow, &summary.workflow)
        && is(&filter.workflow_id, &summary.target.workflow)
        && is(&filter.thread, &summary.thread)
        && filter.marks.iter().all(|mark| summary.marks().contains(mark))
        && (filter.status.is_empty() || filter.status.contains(&summary.status))
        && (filter.parent.is_none() || filter.parent == summary.parent)
        && (!filter.roots_only || summary.parent.is_none())
        && filter.started_after.is_none_or(|at| summary.started_at > at)
        && filter.started_before.is_none_or(|at| summary.started_at < at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use relais_engine::RunStatus;

    use super::*;
    use crate::conformance::{Handles, batch, conformance, numbers, started};

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn keeps_the_contract() {
        conformance(async || {
            let here = Arc::new(MemoryStore::new().unused_blob_ms(0));
            Handles { there: here.clone(), here }
        })
        .await;
    }

    #[tokio::test]
    async fn faults_come_before_or_after_the_write() {
        let busy = || Error::Busy("for a test".into());
        let store = MemoryStore::with_faults(move |method, nth| match (method, nth) {
            ("append", 2) => Some(Fault::Before(busy())),
            ("append", 3) => Some(Fault::After(busy())),
            _ => None,
        });
        let run = started(&store, RunStatus::Running).await;
        assert_eq!(store.append(batch(run, 2)).await, Err(busy()));
        assert_eq!(store.append(batch(run, 2)).await, Err(busy()));
        assert_eq!(numbers(&store, run).await, [1, 2], "the second append did happen");
    }

    #[tokio::test]
    async fn a_blob_put_lately_stays() {
        let store = MemoryStore::new();
        let hash = store.put_blob(b"on its way".to_vec()).await.unwrap();
        assert_eq!(store.prune(Prune::default()).await, Ok(Pruned::default()));
        assert!(store.get_blob(hash).await.unwrap().is_some());
    }
}
