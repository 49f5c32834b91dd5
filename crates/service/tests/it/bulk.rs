//! The same said to many runs: exactly those that the filter found, each once, also after a death halfway.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_engine::{Event, RunId, RunStatus, Signal};
use relais_runtime::settings::Settings;
use relais_service::{Act, Bulk, Config, Error, Filter, Service, Start, marks};
use relais_store::{Edit, Expect, Find, MemoryStore, Store};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::setup::VirtualClock;

const FAILS: &str =
    "name: fails\ntags: { kind: bad }\nsteps:\n  - { id: read, tool: read_file, with: { path: wanted.txt } }\n";
const ASKS: &str = "name: asks\nsteps:\n  - { id: sure, ask: Sure? }\n";

struct World {
    service: Service,
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Arc::new(VirtualClock(AtomicI64::new(1_000_000)));
        let (home, place) = (folder.path().join("home"), folder.path().to_owned());
        let (settings, read, user) = (Settings::default(), Vec::new(), "somebody".to_owned());
        let config = Config { home, folder: place, settings, read, user };
        let service = Service::open_on(config, store.clone(), clock.clone(), false).unwrap();
        World { service, store, clock, folder }
    }

    async fn run(&self, text: &str) -> RunId {
        let file = self.folder.path().join("flow.yaml");
        std::fs::write(&file, text).unwrap();
        let definition = self.service.read(&file, &Default::default()).unwrap();
        let checked = self.service.publish(definition, false, None).await.unwrap();
        let run = self.service.start(&checked, Start::default()).await.unwrap();
        self.service.settle(run).await.unwrap();
        run
    }

    async fn work(&self) -> usize {
        let (_going, stop) = watch::channel(false);
        self.service.bulk_once(&stop).await.unwrap()
    }

    /// How often the journal of a run has such a signal.
    async fn heard(&self, run: RunId, is: impl Fn(&Signal) -> bool) -> usize {
        self.service.settle(run).await.unwrap();
        let (_, entries, _) = self.service.load(run).await.unwrap();
        let events = entries.iter().flat_map(|entry| &entry.events);
        events.filter(|event| matches!(event, Event::Signalled { signal, .. } if is(signal))).count()
    }

    /// As if what was done had not been written down: the process died just before.
    async fn forget_progress(&self, bulk: &Bulk) {
        let find = Find { kind: "bulk".into(), ..Find::default() };
        let record = self.store.records(find).await.unwrap().remove(0);
        let mut body = record.body.clone();
        (body["done"], body["ended_at"], body["next_at"]) = (0.into(), serde_json::Value::Null, bulk.at.into());
        let (key, label, expect) = (record.key, record.label, Expect::Revision(record.revision));
        self.store.change(vec![Edit::Put { key, label, due_at: Some(bulk.at), body, expect }], bulk.at).await.unwrap();
    }
}

fn of(workflow: &str) -> Filter {
    Filter { workflow: Some(workflow.into()), roots_only: true, ..Filter::default() }
}

#[tokio::test]
async fn what_the_filter_found_is_spoken_to_and_nothing_else() {
    let world = World::new();
    let (first, second) = (world.run(FAILS).await, world.run(FAILS).await);
    let (waiting, other) = (world.run(ASKS).await, world.run(&FAILS.replace("fails", "other")).await);
    let act = Act::Retry { from: "read".into(), redo: false };
    assert_eq!(world.service.count_bulk(&act, of("fails")).await.unwrap(), 2);
    let tagged = Filter { marks: marks(&["kind=bad".into()], Some("tool")).unwrap(), ..Filter::default() };
    assert_eq!(world.service.count_bulk(&act, tagged).await.unwrap(), 3);
    let bulk = world.service.begin_bulk(act, of("fails")).await.unwrap();
    // Decided: what fails from now on is not part of it.
    let late = world.run(FAILS).await;
    assert_eq!(world.work().await, 1);
    assert_eq!(world.work().await, 0);
    let bulk = world.service.bulk(bulk.id).await.unwrap();
    assert_eq!((bulk.total, bulk.done, bulk.refused, bulk.ended_at.is_some()), (2, 2, 0, true));
    let back = |signal: &Signal| matches!(signal, Signal::Rewound(_));
    for (run, times) in [(first, 1), (second, 1), (late, 0), (other, 0)] {
        assert_eq!(world.heard(run, back).await, times);
    }
    // Nobody else sees it, and a step that is not there is each run's own problem.
    let stranger = world.service.as_user("eve");
    assert!(matches!(stranger.bulk(bulk.id).await, Err(Error::NotFound(_))));
    world.clock.0.fetch_add(1, Ordering::SeqCst);
    let wrong = Act::Retry { from: "nowhere".into(), redo: false };
    let wrong = world.service.begin_bulk(wrong, of("fails")).await.unwrap();
    world.work().await;
    let wrong = world.service.bulk(wrong.id).await.unwrap();
    assert_eq!((wrong.total, wrong.done, wrong.refused, wrong.problems.len()), (3, 0, 3, 3));
    let ended = world.service.begin_bulk(Act::Cancel, of("asks")).await.unwrap();
    world.work().await;
    assert_eq!(world.service.bulk(ended.id).await.unwrap().done, 1);
    world.service.settle(waiting).await.unwrap();
    assert_eq!(world.service.row(waiting).await.unwrap().summary.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_job_that_died_before_it_wrote_goes_on_and_says_nothing_twice() {
    let back = |signal: &Signal| matches!(signal, Signal::Rewound(_));
    let cancel = |signal: &Signal| matches!(signal, Signal::Cancel);
    let world = World::new();
    let run = world.run(FAILS).await;
    let retry = world.service.begin_bulk(Act::Retry { from: "read".into(), redo: false }, of("fails")).await.unwrap();
    world.work().await;
    world.forget_progress(&retry).await;
    assert_eq!(world.work().await, 1);
    let bulk = world.service.bulk(retry.id).await.unwrap();
    assert_eq!((bulk.done, bulk.refused, world.heard(run, back).await), (1, 0, 1));

    let world = World::new();
    world.run(FAILS).await;
    let act = Act::Fork { from: "read".into(), model: None, redo: false };
    let fork = world.service.begin_bulk(act, of("fails")).await.unwrap();
    world.work().await;
    world.forget_progress(&fork).await;
    world.work().await;
    assert_eq!(world.service.runs(of("fails")).await.unwrap().rows.len(), 2);

    let world = World::new();
    let run = world.run(ASKS).await;
    let ended = world.service.begin_bulk(Act::Cancel, of("asks")).await.unwrap();
    world.work().await;
    world.forget_progress(&ended).await;
    world.work().await;
    let bulk = world.service.bulk(ended.id).await.unwrap();
    assert_eq!((bulk.done, bulk.refused, world.heard(run, cancel).await), (1, 0, 1));
}
