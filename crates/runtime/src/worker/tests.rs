//! Workers that share a store: answers that are lost, owners that are late, a database that was away.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use relais_plan::{Effect, Plan, Source};
use relais_store::{Document, Fault, MemoryStore};
use serde_json::json;

use super::*;
use crate::model::BoxFuture;
use crate::models;
use crate::settings::Settings;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// Virtual time, with an offset that shows how leases look from another machine or much later.
struct Virtual(Instant, i64);

impl Clock for Virtual {
    fn now(&self) -> Millis {
        1_000_000 + self.1 + self.0.elapsed().as_millis() as Millis
    }
}

/// A tool that must not be called twice and takes its time.
struct Pay {
    spec: ToolSpec,
    takes: Duration,
    calls: Arc<AtomicU32>,
}

impl Tool for Pay {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            passes(self.takes.as_secs()).await;
            Ok(Returned { value: json!("paid"), artifacts: Vec::new() })
        })
    }
}

/// Some workers, one store, and one tool whose calls are counted.
struct Bench {
    store: Arc<MemoryStore>,
    calls: Arc<AtomicU32>,
    takes: Duration,
    began: Instant,
}

impl Bench {
    fn new(store: MemoryStore, takes_s: u64) -> Bench {
        let takes = Duration::from_secs(takes_s);
        Bench { store: Arc::new(store), calls: Arc::default(), takes, began: Instant::now() }
    }

    fn worker(&self, name: &str, offset_ms: i64) -> Arc<Worker> {
        let settings = Settings::default();
        let models = Models::new(&settings, &|_| None, &PathBuf::new()).unwrap();
        let performer =
            Performer::new(self.store.clone(), Arc::new(models), models::governors(&settings), PathBuf::new());
        let mut tools = Tools::new(&settings);
        let (name_of_tool, parameters) = ("pay".to_owned(), json!({ "type": "object" }));
        let spec = ToolSpec { name: name_of_tool, description: String::new(), parameters, effect: Effect::Once };
        tools.register(Arc::new(Pay { spec, takes: self.takes, calls: self.calls.clone() }));
        let worker = Worker::start_as(name.into(), performer, tools, Arc::new(Virtual(self.began, offset_ms)));
        worker.stay();
        worker
    }

    /// A run that pays once.
    async fn opened(&self) -> Opened {
        struct Alone;
        impl relais_dialects::Loader for Alone {
            fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
                Err(format!("there is no {reference}"))
            }
        }
        let text = "name: pays\nsteps:\n  - { id: pay, tool: pay }\noutput: '{{ steps.pay.output }}'\n";
        let source = Source { name: "pays.yaml".into(), text: text.into() };
        let plan: Plan = relais_dialects::read(&source, &Alone, &Default::default()).plan.unwrap();
        let body = serde_json::to_value(&plan).unwrap();
        self.store.put_document(Document { key: plan_key(&plan.hash()), version: 1, at: 0, body }).await.unwrap();
        Opened {
            run: uuid::Uuid::now_v7(),
            workflow: plan.name.clone(),
            plan: plan.hash(),
            input: Stored::Value(json!({})),
            trigger: serde_json::Value::Null,
            user: String::new(),
            thread: String::new(),
            parent: None,
            budget: plan.limits.budget,
            mode: Mode::default(),
            manifest: String::new(),
            target: Default::default(),
        }
    }

    /// How the run has ended after so long, by its row, how often the tool was called and the run taken over.
    async fn after(&self, seconds: u64, run: RunId) -> (RunStatus, u32, usize) {
        passes(seconds).await;
        let filter = Filter { run: Some(run), ..Filter::default() };
        let status = self.store.list(filter).await.unwrap().rows[0].summary.status;
        let entries = self.store.load(run, 0).await.unwrap();
        let is_adopted = |event: &&Event| matches!(event, Event::Signalled { signal: Signal::Adopted, .. });
        let adopted = entries.iter().flat_map(|entry| &entry.events).filter(is_adopted).count();
        (status, self.calls.load(Ordering::Relaxed), adopted)
    }
}

/// Virtual time passes, and whoever has something to do in it does it.
async fn passes(seconds: u64) {
    tokio::time::sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
}

/// Loses the answer to the `nth` call of a method, as a network may do; the write itself is done.
fn losing(method: &'static str, nth: u32, error: Error) -> MemoryStore {
    let calls = AtomicU32::new(0);
    MemoryStore::with_faults(move |called, _| {
        let is_meant = called == method && calls.fetch_add(1, Ordering::Relaxed) + 1 == nth;
        is_meant.then(|| Fault::After(error.clone()))
    })
}

fn trouble() -> [Error; 2] {
    [Error::Busy("away".into()), Error::OutOfReach("the answer was lost".into())]
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_answer_was_lost_is_followed_by_what_it_asks_for() {
    for error in trouble() {
        for nth in 1..=2 {
            let bench = Bench::new(losing("append", nth, error.clone()), 1);
            let run = bench.worker("a", 0).create(bench.opened().await, None).await.unwrap();
            assert_eq!(bench.after(20, run).await, (RunStatus::Completed, 1, 0), "append {nth}: {error}");
        }
    }
}

/// A is slow beyond its lease, as B sees it; B takes over what A is doing, and A comes back with its result.
#[tokio::test(start_paused = true)]
async fn a_late_owner_and_the_new_one_do_not_both_perform() {
    let bench = Bench::new(MemoryStore::new(), 5);
    let (a, b) = (bench.worker("a", 0), bench.worker("b", 3_600_000));
    let run = a.create(bench.opened().await, None).await.unwrap();
    assert_eq!(bench.after(1, run).await, (RunStatus::Running, 1, 0));
    assert_eq!(b.adopt(Which::Any).await, Ok(vec![run]));
    assert_eq!(bench.after(20, run).await, (RunStatus::Failed, 1, 1));
    let error = b.row(run).await.unwrap().summary.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Uncertain);
    assert_eq!((a.at_work(), b.at_work()), (0, 0), "the late one has let it go");
}

#[tokio::test(start_paused = true)]
async fn what_is_ours_and_not_at_work_is_taken_up() {
    for error in trouble() {
        let bench = Bench::new(losing("claim", 1, error.clone()), 1);
        let worker = bench.worker("a", 0);
        let run = worker.enqueue(bench.opened().await, None).await.unwrap();
        assert_eq!(worker.adopt(Which::Any).await, Err(error.clone()), "the answer to the claim was lost");
        assert_eq!(bench.after(10, run).await, (RunStatus::Completed, 1, 1), "after trouble at the next beat");

        let bench = Bench::new(losing("create", 1, error.clone()), 1);
        let opened = bench.opened().await;
        let run = opened.run;
        assert_eq!(bench.worker("a", 0).create(opened, None).await, Err(error));
        assert_eq!(bench.after(10, run).await, (RunStatus::Completed, 1, 1));
    }
    // Nothing failed: somebody else gave it to us.
    let bench = Bench::new(MemoryStore::new(), 1);
    let worker = bench.worker("a", 0);
    let run = worker.enqueue(bench.opened().await, None).await.unwrap();
    let (owner, now) = (worker.hold_name(), worker.clock.now());
    let claim =
        Claim { owner, now, lease_until: now + 1, dead: Vec::new(), patient: false, which: Which::Any, limit: 1 };
    bench.store.claim(claim).await.unwrap();
    assert_eq!(bench.after(35, run).await, (RunStatus::Completed, 1, 1), "every half minute");
}

/// All leases have run out when the database is back; whoever asks first would get everything.
#[tokio::test(start_paused = true)]
async fn after_an_outage_nobody_is_robbed() {
    let away = Arc::new(AtomicBool::new(false));
    let is_away = away.clone();
    let store = MemoryStore::with_faults(move |_, _| {
        is_away.load(Ordering::Relaxed).then(|| Fault::Before(Error::Busy("away".into())))
    });
    let bench = Bench::new(store, 40);
    let (a, b) = (bench.worker("a", 0), bench.worker("b", 0));
    let run = a.create(bench.opened().await, None).await.unwrap();
    passes(1).await;
    away.store(true, Ordering::Relaxed);
    for _ in 0..15 {
        passes(1).await;
        assert!(b.adopt(Which::Any).await.is_err());
    }
    away.store(false, Ordering::Relaxed);
    for _ in 0..10 {
        assert_eq!(b.adopt(Which::Any).await, Ok(vec![]), "its owner may have been cut off, too");
        passes(1).await;
    }
    assert_eq!(bench.after(30, run).await, (RunStatus::Completed, 1, 0));
}

/// Beyond that, patience ends: an owner that does not come back is replaced.
#[tokio::test(start_paused = true)]
async fn whoever_does_not_come_back_is_replaced() {
    let bench = Bench::new(MemoryStore::new(), 1);
    let b = bench.worker("b", 0);
    let gone =
        NewRun { lease: Some(("gone".into(), b.clock.now() + 1_000)), ..new_run(&bench.opened().await, b.clock.now()) };
    let run = bench.store.create(gone).await.unwrap();
    let _ = b.lease.noted(Err::<(), _>(Error::Busy("away".into())));
    passes(2).await;
    assert_eq!(b.adopt(Which::Any).await, Ok(vec![]));
    passes(8).await;
    assert_eq!(b.adopt(Which::Any).await, Ok(vec![run]));
    assert_eq!(bench.after(5, run).await, (RunStatus::Completed, 1, 1));
}

fn new_run(opened: &Opened, at: Millis) -> NewRun {
    let entry = Entry { seq: 1, at, version: FORMAT, events: vec![Event::Opened(Box::new(opened.clone()))] };
    let summary = Summary::pending(&Run::open(&entry).unwrap());
    NewRun { entry, more: Vec::new(), summary, key: None, lease: None, blobs: Vec::new() }
}
