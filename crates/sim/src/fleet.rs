//! Several real workers on one store, in virtual time: answers are lost, the database is away, workers stand still beyond
//! their lease and go on, or never do. What must hold then is counted where it happens, in the tools.

mod shaky;
mod tools;
mod workflows;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use relais_engine::*;
use relais_plan::Plan;
use relais_runtime::Worker;
use relais_runtime::clock::Clock;
use relais_runtime::models::{self, Models};
use relais_runtime::perform::Performer;
use relais_runtime::prepare::plan_key;
use relais_runtime::settings::Settings;
use relais_runtime::tools::Tools;
use relais_store::{Document, Error, Filter, MemoryStore, Row, Store, Which};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chance::Chance;
use crate::drive::{Broken, START};
use shaky::{Shaky, Weather};
use tools::Ledger;
use workflows::Workflow;

/// Trouble comes within this time; then there is none any more.
const STORM: Duration = Duration::from_secs(90);
/// All runs must have ended by then: long after the last lease and the longest wait.
const END: Duration = Duration::from_secs(900);
/// How often a worker looks for runs, as a server does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks at whether all has ended.
const PAUSE: Duration = Duration::from_secs(5);

/// How the runs of a seed ended.
pub type Ends = Vec<RunStatus>;

/// What a seed does among workers that share a store; or what it breaks.
pub fn check(seed: u64) -> Result<Ends, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    // The runtime ends with this call, and with it whatever still goes on.
    runtime.block_on(Fleet::of(seed).sail())
}

/// The same for all seeds, and slow to make.
struct Kit {
    settings: Settings,
    models: Arc<Models>,
    tools: Tools,
}

static KIT: LazyLock<Result<Kit, Broken>> = LazyLock::new(|| {
    let settings = Settings::default();
    let models = Models::new(&settings, &|_| None, &PathBuf::new()).map_err(|e| e.to_string())?;
    Ok(Kit { models: Arc::new(models), tools: Tools::new(&settings), settings })
});

/// Virtual time, the same for all.
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Millis {
        START + self.0.elapsed().as_millis() as Millis
    }
}

struct Fleet {
    seed: u64,
    chance: Chance,
    store: Arc<MemoryStore>,
    clock: Arc<Virtual>,
    ledger: Arc<Ledger>,
    workflows: Vec<Workflow>,
}

impl Fleet {
    fn of(seed: u64) -> Fleet {
        let mut chance = Chance::named(seed, "fleet");
        let workflows = (0..1 + chance.below(3)).map(|number| Workflow::of(seed, number)).collect();
        let clock = Arc::new(Virtual(Instant::now()));
        Fleet { seed, chance, store: Arc::new(MemoryStore::new()), clock, ledger: Arc::default(), workflows }
    }

    async fn sail(mut self) -> Result<Ends, Broken> {
        self.keep_plans().await?;
        let count = 1 + self.chance.below(3);
        let weather: Vec<Arc<Weather>> = (0..count).map(|nth| Arc::new(self.weather(nth))).collect();
        let mut workers = Vec::new();
        for (nth, weather) in weather.iter().enumerate() {
            workers.push(self.worker(nth, weather)?);
        }
        for number in 0..self.workflows.len() {
            self.start(number, &workers);
        }
        while self.clock.0.elapsed() < END {
            tokio::time::sleep(PAUSE).await;
            self.wake_those_who_wait(&workers[0]).await?;
            if self.clock.0.elapsed() > STORM && self.have_ended().await? {
                break;
            }
        }
        let calm = count == 1;
        self.judge(calm).await.map_err(|broken| self.told(&broken))
    }

    /// The first worker is there in the end; others may be gone for good.
    fn weather(&mut self, nth: u64) -> Weather {
        let alone = nth == 0;
        let mut weather = Weather::new(self.seed, nth, self.clock.0, STORM);
        for _ in 0..self.chance.below(3) {
            let from = Duration::from_millis(self.chance.below(STORM.as_millis() as u64));
            let length = match self.chance.below(8) {
                0 if !alone => END * 2,
                1 | 2 => Duration::from_millis(self.chance.below(3_000)),
                _ => Duration::from_millis(8_000 + self.chance.below(20_000)),
            };
            weather.stand_still(from, length);
        }
        weather
    }

    fn worker(&self, nth: usize, weather: &Arc<Weather>) -> Result<Arc<Worker>, Broken> {
        let kit = KIT.as_ref().map_err(Clone::clone)?;
        let store = Arc::new(Shaky { store: self.store.clone(), weather: weather.clone() });
        let performer =
            Performer::new(store, kit.models.clone(), models::governors(&kit.settings), PathBuf::from("nowhere"));
        let mut tools = kit.tools.clone();
        for tool in tools::all(&self.ledger, weather) {
            tools.register(tool);
        }
        let worker = Worker::start_as(format!("worker {nth}"), performer, tools, self.clock.clone());
        worker.stay();
        let looking = worker.clone();
        tokio::spawn(async move {
            loop {
                // What cannot be taken up now is taken up at the next look.
                let _ = looking.adopt(Which::Any).await;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Ok(worker)
    }

    async fn keep_plans(&self) -> Result<(), Broken> {
        for plan in self.workflows.iter().flat_map(|workflow| &workflow.plans) {
            let body = serde_json::to_value(plan).map_err(|e| e.to_string())?;
            let document = Document { key: plan_key(&plan.hash()), version: 1, at: START, body };
            self.store.put_document(document).await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn start(&mut self, number: usize, workers: &[Arc<Worker>]) {
        let Some(opened) = self.workflows[number].opened(self.run_id(number)) else { return };
        let after = Duration::from_millis(self.chance.below(20_000));
        let Some(worker) = self.chance.pick(workers).cloned() else { return };
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            // Whoever is told that it is not certain asks again, for the same run.
            while let Err(Error::Busy(_) | Error::OutOfReach(_)) = worker.create(opened.clone(), None).await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
    }

    fn run_id(&self, number: usize) -> RunId {
        RunId::from_u128((u128::from(self.seed) << 8) + number as u128 + 1)
    }

    async fn rows(&self) -> Result<Vec<Row>, Broken> {
        let page = self.store.list(Filter { limit: 1_000, ..Filter::default() }).await;
        Ok(page.map_err(|e| e.to_string())?.rows)
    }

    /// Signals come from outside, through any worker that is there.
    async fn wake_those_who_wait(&self, worker: &Arc<Worker>) -> Result<(), Broken> {
        for row in self.rows().await? {
            if row.summary.status == RunStatus::Waiting && row.summary.awaits.iter().any(|a| a.starts_with("signal:")) {
                let (worker, run) = (worker.clone(), row.summary.run);
                tokio::spawn(async move {
                    let signal = Signal::Sent { name: "go".into(), value: Value::Null };
                    let said = worker.signal(run, vec![Event::Signalled { signal, by: "a person".into() }]).await;
                    if said.is_ok() {
                        // If that fails, its row says that it is due.
                        let _ = worker.take_up(run).await;
                    }
                });
            }
        }
        Ok(())
    }

    async fn have_ended(&self) -> Result<bool, Broken> {
        let rows = self.rows().await?;
        let roots = rows.iter().filter(|row| row.summary.parent.is_none()).count();
        // A start whose worker is gone for good never came.
        Ok(roots > 0 && rows.iter().all(|row| row.summary.status.is_final()))
    }

    /// No call of a `once` tool happens twice; every run ends, as it would have ended without trouble, unless a call
    /// was under way when its worker was replaced.
    async fn judge(&self, alone: bool) -> Result<Ends, Broken> {
        let twice = self.ledger.twice();
        if !twice.is_empty() {
            return Err(format!("law 5: called twice: {}", twice.join(", ")));
        }
        let mut ends = Vec::new();
        for row in self.rows().await? {
            let summary = row.summary;
            let kind = summary.error.as_ref().map(|e| e.kind);
            // Who was replaced too often without getting further is not taken up for ever.
            let was_replaced = matches!(kind, Some(ErrorKind::Uncertain | ErrorKind::Crash));
            match summary.status {
                RunStatus::Completed => {}
                RunStatus::Failed if was_replaced && !alone => {}
                status => {
                    let error = summary.error.map(|e| e.message).unwrap_or_default();
                    return Err(format!("law 6: run {} is {} in the end: {error}", summary.run, status.word()));
                }
            }
            ends.push(summary.status);
            let entries = self.store.load(summary.run, 0).await.map_err(|e| e.to_string())?;
            Run::fold(&entries).map_err(|e| e.to_string())?;
        }
        Ok(ends)
    }

    /// With the journals of all runs, so that a person can see what happened.
    fn told(&self, broken: &str) -> Broken {
        let texts: Vec<&str> = self.workflows.iter().map(|workflow| workflow.text.as_str()).collect();
        format!("{broken}\n{}\n{}", texts.join("\n"), self.ledger.told())
    }
}

/// Who calls whom by which plan.
pub(crate) fn opened(run: RunId, plan: &Plan) -> Opened {
    Opened {
        run,
        workflow: plan.name.clone(),
        plan: plan.hash(),
        input: Stored::Value(json!({})),
        trigger: Value::Null,
        user: String::new(),
        thread: String::new(),
        parent: None,
        budget: plan.limits.budget,
        mode: Mode::default(),
        manifest: String::new(),
        target: Default::default(),
    }
}
