//! What lies between a worker and the store: delays, answers that are lost before or after the write, and times in which
//! the worker stands still as a whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relais_engine::{Entry, Millis, RunId, RunStatus};
use relais_store::*;
use tokio::time::Instant;

use crate::chance::Chance;

/// How things stand for one worker.
pub(super) struct Weather {
    pub seed: u64,
    worker: u64,
    began: Instant,
    storm: Duration,
    /// How many calls in a hundred fail.
    share: u64,
    still: Vec<(Duration, Duration)>,
    calls: AtomicU64,
    /// Calls in a row that failed; bounded, so that a lease is not lost to bad luck alone.
    failed: Mutex<u32>,
}

/// Failed calls in a row at most.
const MAX_FAILED: u32 = 3;
const MAX_DELAY_MS: u64 = 400;

enum Fate {
    Passes,
    LostBefore,
    LostAfter,
}

impl Weather {
    pub fn new(seed: u64, worker: u64, began: Instant, storm: Duration) -> Weather {
        let share = Chance::named(seed, &format!("weather {worker}")).below(30);
        let (still, calls, failed) = Default::default();
        Weather { seed, worker, began, storm, share, still, calls, failed }
    }

    pub fn stand_still(&mut self, from: Duration, length: Duration) {
        self.still.push((from, from + length));
    }

    /// Who and when, for the ledger.
    pub fn place(&self) -> String {
        format!("worker {} at {} ms", self.worker, self.began.elapsed().as_millis())
    }

    /// Returns at once, or when the worker goes on.
    pub async fn while_still(&self) {
        loop {
            let now = self.began.elapsed();
            let until = self.still.iter().filter(|(from, to)| (*from..*to).contains(&now)).map(|(_, to)| *to).max();
            match until {
                Some(until) => tokio::time::sleep_until(self.began + until).await,
                None => return,
            }
        }
    }

    fn fate(&self, method: &str) -> (Duration, Fate) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut chance = Chance::named(self.seed, &format!("{}/{method}/{call}", self.worker));
        let calm = self.began.elapsed() > self.storm;
        let delay = if calm { 0 } else { chance.below(MAX_DELAY_MS) };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = !calm && *failed < MAX_FAILED && chance.percent(self.share);
        *failed = if fails { *failed + 1 } else { 0 };
        let fate = match (fails, chance.percent(50)) {
            (false, _) => Fate::Passes,
            (true, true) => Fate::LostBefore,
            (true, false) => Fate::LostAfter,
        };
        (Duration::from_millis(delay), fate)
    }

    async fn pass<T>(&self, method: &str, call: Reply<'_, T>) -> Result<T, Error> {
        self.while_still().await;
        let (delay, fate) = self.fate(method);
        tokio::time::sleep(delay / 2).await;
        if let Fate::LostBefore = fate {
            return Err(Error::Busy("away".into()));
        }
        let answer = call.await;
        tokio::time::sleep(delay / 2).await;
        self.while_still().await;
        match fate {
            Fate::LostAfter => Err(Error::OutOfReach("the answer was lost".into())),
            Fate::Passes | Fate::LostBefore => answer,
        }
    }
}

/// The store as one worker sees it.
pub(super) struct Shaky {
    pub store: Arc<MemoryStore>,
    pub weather: Arc<Weather>,
}

macro_rules! pass_on {
    ($($method:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Store for Shaky {
            $(fn $method(&self, $($name: $type),*) -> Reply<'_, $answer> {
                Box::pin(self.weather.pass(stringify!($method), self.store.$method($($name),*)))
            })*

            fn tail(&self) -> tokio::sync::broadcast::Receiver<Change> {
                self.store.tail()
            }
        }
    };
}

pass_on! {
    create(new: NewRun) -> RunId;
    append(batch: Batch) -> ();
    load(run: RunId, after: u64) -> Vec<Entry>;
    claim(claim: Claim) -> Vec<Claimed>;
    held(owner: Owner) -> Vec<RunId>;
    renew(owner: Owner, until: Millis) -> ();
    release(run: RunId, owner: Owner) -> ();
    owners() -> Vec<Owner>;
    list(filter: Filter) -> Page;
    put_document(document: Document) -> ();
    get_document(key: DocumentKey, version: Option<u64>) -> Option<Document>;
    list_documents(kind: String, owner: String) -> Vec<Document>;
    list_versions(key: DocumentKey, limit: usize) -> Vec<Document>;
    change(edits: Vec<Edit>, at: Millis) -> Vec<u64>;
    get_record(key: RecordKey) -> Option<Record>;
    records(find: Find) -> Vec<Record>;
    next_due(kind: String) -> Option<Millis>;
    ended(limit: usize) -> Vec<Row>;
    unfinished() -> Vec<(RunStatus, u64)>;
    awaiting(awaited: Awaited) -> Vec<RunId>;
    probe() -> ();
    put_blob(bytes: Vec<u8>) -> String;
    get_blob(hash: String) -> Option<Vec<u8>>;
    prune(prune: Prune) -> Pruned;
}
