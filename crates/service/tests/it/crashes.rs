//! Whatever somebody says to a run, and wherever the process dies over it: the next process goes on with the run, or
//! finds it as it was before. No run stands still for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use relais_engine::{RunId, RunStatus};
use relais_runtime::settings::Settings;
use relais_runtime::worker::LEASE_MS;
use relais_service::{Config, Error, Filter, Fork, ResumeWith, Row, Service, Start};
use relais_store::{Fault, MemoryStore, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::setup::VirtualClock;

const FAILS: &str = "name: fails\nsteps:\n  - { id: read, tool: read_file, with: { path: wanted.txt } }\n";
const ASKS: &str = "name: asks\nsteps:\n  - { id: sure, ask: { question: Sure?, approve: true } }\n";
const LISTENS: &str = "name: listens\nsteps:\n  - { id: go, wait: { signal: go } }\n";

/// What somebody does with a run that rests, and how it rests before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Resume,
    Retry,
    RetryCompleted,
    Fork,
    Answer,
    Signal,
    Cancel,
    Pause,
    GoOn,
}

const ACTS: [Act; 9] = [
    Act::Resume,
    Act::Retry,
    Act::RetryCompleted,
    Act::Fork,
    Act::Answer,
    Act::Signal,
    Act::Cancel,
    Act::Pause,
    Act::GoOn,
];

impl Act {
    fn workflow(self) -> &'static str {
        match self {
            Act::Resume | Act::Retry | Act::RetryCompleted | Act::Fork => FAILS,
            Act::Answer | Act::Cancel | Act::Pause | Act::GoOn => ASKS,
            Act::Signal => LISTENS,
        }
    }

    /// Brings a fresh run to where the act is done.
    async fn prepare(self, service: &Service, run: RunId) {
        settled(service, run).await;
        match self {
            Act::RetryCompleted => {
                write_wanted(service, run);
                service.resume(run, ResumeWith::default()).await.unwrap();
                settled(service, run).await;
            }
            Act::GoOn => {
                service.pause(run).await.unwrap();
                settled(service, run).await;
            }
            Act::Resume | Act::Retry | Act::Fork => write_wanted(service, run),
            Act::Answer | Act::Signal | Act::Cancel | Act::Pause => {}
        }
    }

    async fn done(self, service: &Service, run: RunId) -> Result<(), Error> {
        match self {
            Act::Resume | Act::GoOn => service.resume(run, ResumeWith::default()).await,
            Act::Retry | Act::RetryCompleted => service.retry(run, "read", false).await,
            Act::Fork => service.fork(run, Fork { from: "read".into(), ..Fork::default() }).await.map(drop),
            Act::Answer => service.answer(run, None, json!(true)).await,
            Act::Signal => service.send(run, "go", json!(null)).await,
            Act::Cancel => service.cancel(run).await,
            Act::Pause => service.pause(run).await,
        }
    }

    /// Whether it shows that the act was done, given all runs.
    fn is_seen(self, rows: &[Row], before: u64) -> bool {
        let (first, status) = (&rows[0], rows[0].summary.status);
        let awaits = |what: &str| first.summary.awaits.iter().any(|awaited| awaited.starts_with(what));
        match self {
            Act::Resume | Act::Retry | Act::Answer | Act::Signal => status == RunStatus::Completed,
            Act::RetryCompleted => status == RunStatus::Completed && first.seq > before + 1,
            Act::Fork => rows.len() == 2 && rows[1].summary.status == RunStatus::Completed,
            Act::Cancel => status == RunStatus::Cancelled,
            Act::Pause => awaits("paused"),
            Act::GoOn => awaits("person") && !awaits("paused"),
        }
    }
}

async fn settled(service: &Service, run: RunId) {
    service.settle(run).await.unwrap();
    service.worker().let_go(run).await;
}

fn write_wanted(service: &Service, run: RunId) {
    let folder = service.config().workspaces().join(run.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("wanted.txt"), "here").unwrap();
}

/// Fails every call of the store from one on, as if the process had been killed there.
struct Power {
    calls: AtomicU64,
    cut_at: AtomicU64,
    is_after: bool,
}

impl Power {
    fn fault(&self) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let gone = || relais_store::Error::Unusable("the power is gone".into());
        match call.cmp(&self.cut_at.load(Ordering::SeqCst)) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal if self.is_after => Some(Fault::After(gone())),
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => Some(Fault::Before(gone())),
        }
    }

    fn cut_after(&self, calls: u64) {
        self.cut_at.store(self.calls.load(Ordering::SeqCst) + calls, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.cut_at.load(Ordering::SeqCst)
    }

    fn back(&self) {
        self.cut_at.store(u64::MAX, Ordering::SeqCst);
    }
}

struct World {
    folder: TempDir,
    store: Arc<dyn Store>,
    power: Arc<Power>,
    clock: Arc<VirtualClock>,
}

impl World {
    fn new(is_after: bool) -> World {
        let power = Arc::new(Power { calls: AtomicU64::new(0), cut_at: AtomicU64::new(u64::MAX), is_after });
        let faults = power.clone();
        let store = Arc::new(MemoryStore::with_faults(move |_, _| faults.fault()));
        let clock = Arc::new(VirtualClock(AtomicI64::new(1_000_000)));
        World { folder: tempfile::tempdir().unwrap(), store, power, clock }
    }

    /// A process: what it does ends with it, in the middle if need be.
    fn process<T>(&self, work: impl AsyncFnOnce(Service) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(async {
            let (home, folder) = (self.folder.path().join("home"), self.folder.path().to_owned());
            let config = Config { home, folder, settings: Settings::default(), read: vec![], user: "somebody".into() };
            work(Service::open_on(config, self.store.clone(), self.clock.clone(), false).unwrap()).await
        });
        runtime.shutdown_background();
        // Whoever comes next finds the leases of this one run out.
        self.clock.0.fetch_add(2 * LEASE_MS, Ordering::SeqCst);
        done
    }
}

async fn begun(service: &Service, folder: &TempDir, text: &str) -> RunId {
    let file = folder.path().join("flow.yaml");
    std::fs::write(&file, text).unwrap();
    let definition = service.read(&file, &Default::default()).unwrap();
    let checked = service.publish(definition, false, None).await.unwrap();
    service.start(&checked, Start::default()).await.unwrap()
}

/// All runs, the oldest first.
async fn rows(service: &Service) -> Vec<Row> {
    let mut rows = service.runs(Filter::default()).await.unwrap().rows;
    rows.sort_by_key(|row| row.summary.run);
    rows
}

/// What a process does that comes after another: it takes up what is due, until everything rests.
async fn goes_on(service: &Service) -> Vec<Row> {
    service.adopt_all().await.unwrap();
    for row in rows(service).await {
        service.worker().let_go(row.summary.run).await;
    }
    let rows = rows(service).await;
    for row in &rows {
        assert!(service.rests(row).await.unwrap(), "a run stands still: {row:#?}");
    }
    rows
}

/// The process dies at one call of the store, in the act or in what follows from it. Says whether there were so many.
fn check_cut(act: Act, nth: u64, is_after: bool) -> bool {
    let world = World::new(is_after);
    let place = format!("{act:?}, cut at call {nth}, after it: {is_after}");
    let (run, before) = world.process(async |service| {
        let run = begun(&service, &world.folder, act.workflow()).await;
        act.prepare(&service, run).await;
        (run, service.row(run).await.unwrap().seq)
    });
    let was_told = world.process(async |service| {
        world.power.cut_after(nth);
        let told = act.done(&service, run).await;
        if told.is_ok() {
            let _ = service.settle(run).await;
            service.worker().drain(std::time::Duration::MAX).await;
        }
        told.is_ok()
    });
    let was_cut = world.power.is_cut();
    world.power.back();
    let seen = world.process(async |service| act.is_seen(&goes_on(&service).await, before));
    assert!(seen || !was_told, "{place}: it was answered and did not happen");
    if !seen {
        let seen = world.process(async |service| {
            act.done(&service, run).await.unwrap_or_else(|error| panic!("{place}: {error}"));
            act.is_seen(&goes_on(&service).await, before)
        });
        assert!(seen, "{place}: it cannot be done again");
    }
    was_cut
}

#[test]
fn a_run_goes_on_wherever_the_process_dies_that_was_told_something() {
    for act in ACTS {
        for is_after in [false, true] {
            let mut nth = 0;
            while check_cut(act, nth, is_after) {
                nth += 1;
            }
            assert!(nth > 4, "{act:?}: there were {nth} calls only");
        }
    }
}
