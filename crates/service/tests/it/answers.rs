//! Several people, or a person and the time, say something to a run at once: one of them is heard, and the run goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_engine::{Entry, Event, FORMAT, Millis, RunId, RunStatus};
use relais_runtime::clock::Clock;
use relais_runtime::settings::Settings;
use relais_service::{Config, Error, ResumeWith, Service, Start};
use relais_store::{Batch, MemoryStore, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::setup::VirtualClock;

const ASKS: &str = "
name: asks
steps:
  - { id: sure, ask: { question: Sure?, approve: true, deadline: 1m } }
  - { id: really, ask: { question: Really?, approve: true } }
";
const FAILS: &str = "name: fails\nsteps:\n  - { id: read, tool: read_file, with: { path: wanted.txt } }\n";
/// How often two meet, each time at another moment of each other's way.
const MEETINGS: usize = 20;
const LATER_MS: Millis = 120_000;

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
        let settings = Settings::default();
        let config = Config { home, folder: place, settings, read: Vec::new(), user: "somebody".into() };
        let service = Service::open_on(config, store.clone(), clock.clone(), false).unwrap();
        World { service, store, clock, folder }
    }

    /// A run that rests.
    async fn resting(&self, text: &str) -> RunId {
        let file = self.folder.path().join("flow.yaml");
        std::fs::write(&file, text).unwrap();
        let definition = self.service.read(&file, &Default::default()).unwrap();
        let checked = self.service.publish(definition, false, None).await.unwrap();
        let run = self.service.start(&checked, Start::default()).await.unwrap();
        self.rest(run).await;
        run
    }

    async fn rest(&self, run: RunId) {
        self.service.settle(run).await.unwrap();
        self.service.worker().let_go(run).await;
    }

    /// How many answers the journal took, and how the run stands.
    async fn heard(&self, run: RunId) -> (usize, RunStatus) {
        self.rest(run).await;
        let (_, entries, _) = self.service.load(run).await.unwrap();
        let received = |event: &&Event| matches!(event, Event::Received { .. });
        let heard = entries.iter().flat_map(|entry| &entry.events).filter(received).count();
        self.service.trace(run).await.unwrap();
        (heard, self.service.row(run).await.unwrap().summary.status)
    }
}

fn is_heard(told: &Result<(), Error>) -> bool {
    match told {
        Ok(()) => true,
        Err(Error::Conflict(_)) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Lets two begin at the same time, the second after a few turns of the first.
async fn after_turns(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn of_two_answers_at_once_one_is_taken_and_the_next_question_stays_open() {
    for turns in 0..MEETINGS {
        let world = World::new();
        let run = world.resting(ASKS).await;
        let answer = || world.service.answer(run, Some("sure"), json!(true));
        let late = async {
            after_turns(turns).await;
            world.service.answer(run, Some("sure"), json!(true)).await
        };
        let (one, other) = tokio::join!(answer(), late);
        let refused = |told: &Result<(), Error>| matches!(told, Err(Error::Conflict(_) | Error::Invalid(_)));
        assert!(one.is_ok() && refused(&other), "{one:?}, {other:?}");
        assert_eq!(world.heard(run).await, (1, RunStatus::Waiting), "after {turns} turns");
        world.service.answer(run, None, json!(true)).await.unwrap();
        assert_eq!(world.heard(run).await, (2, RunStatus::Completed));
        let too_late = world.service.answer(run, None, json!(true)).await;
        assert!(matches!(too_late, Err(Error::Conflict(_))), "{too_late:?}");
    }
}

#[tokio::test]
async fn an_answer_that_meets_a_cancel_leaves_a_run_that_was_cancelled() {
    for turns in 0..MEETINGS {
        let world = World::new();
        let run = world.resting(ASKS).await;
        let cancel = async {
            after_turns(turns).await;
            world.service.cancel(run).await
        };
        let (cancelled, answered) = tokio::join!(cancel, world.service.answer(run, None, json!(true)));
        assert!(is_heard(&cancelled));
        let heard = usize::from(is_heard(&answered));
        assert_eq!(world.heard(run).await, (heard, RunStatus::Cancelled), "after {turns} turns");
        let again = world.service.cancel(run).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
    }
}

#[tokio::test]
async fn an_answer_that_meets_its_deadline_is_taken_or_refused() {
    for turns in 0..MEETINGS {
        let world = World::new();
        let run = world.resting(ASKS).await;
        world.clock.0.fetch_add(LATER_MS, Ordering::SeqCst);
        let answer = async {
            after_turns(turns).await;
            world.service.answer(run, None, json!(true)).await
        };
        let (woken, answered) = tokio::join!(world.service.adopt_tree(run), answer);
        woken.unwrap();
        let expected = match is_heard(&answered) {
            true => (1, RunStatus::Waiting),
            false => (0, RunStatus::Failed),
        };
        assert_eq!(world.heard(run).await, expected, "after {turns} turns");
    }
}

/// Journals were once written with two answers to one question.
#[tokio::test]
async fn a_journal_with_a_late_answer_can_be_read_and_goes_on() {
    let world = World::new();
    let run = world.resting(ASKS).await;
    let question = world.service.questions(run).await.unwrap().remove(0).command;
    for value in [true, false] {
        let row = world.service.row(run).await.unwrap();
        let events = vec![Event::Received { id: question, value: json!(value), by: "somebody".into() }];
        let entry = Entry { seq: row.seq + 1, at: world.clock.now(), version: FORMAT, events };
        world.store.append(Batch::said(row, entry)).await.unwrap();
    }
    world.service.adopt_tree(run).await.unwrap();
    assert_eq!(world.heard(run).await, (2, RunStatus::Waiting));
    let trace = world.service.trace(run).await.unwrap();
    assert_eq!(trace.steps[0].calls[0].output, json!(true), "the first answer counts");
    world.service.answer(run, Some("really"), json!(true)).await.unwrap();
    assert_eq!(world.heard(run).await, (3, RunStatus::Completed));
}

#[tokio::test]
async fn of_two_who_resume_or_retry_at_once_one_is_written_down() {
    for turns in 0..MEETINGS {
        let world = World::new();
        let run = world.resting(FAILS).await;
        let before = world.service.row(run).await.unwrap().seq;
        let retry = async {
            after_turns(turns).await;
            world.service.retry(run, "read", false).await
        };
        let (resumed, retried) = tokio::join!(world.service.resume(run, ResumeWith::default()), retry);
        resumed.unwrap();
        is_heard(&retried);
        assert_eq!(world.heard(run).await, (0, RunStatus::Failed));
        assert!(world.service.row(run).await.unwrap().seq > before);
    }
}
