//! The engine as a program that embeds it would set it up: a store on disk, a worker, one tool of its own.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use relais_dialects::Loader;
use relais_engine::{Failure, Mode, Opened, RunStatus, Stored};
use relais_plan::{Effect, Plan, Source};
use relais_runtime::clock::SystemClock;
use relais_runtime::model::BoxFuture;
use relais_runtime::models::{self, Models};
use relais_runtime::perform::Performer;
use relais_runtime::prepare::plan_key;
use relais_runtime::settings::{Provider, Settings};
use relais_runtime::tool::{Returned, Tool, ToolCall, ToolSpec};
use relais_runtime::tools::Tools;
use relais_runtime::{Rest, Worker};
use relais_store::{Document, Options, SqliteStore, Store};
use serde_json::{Value, json};

pub struct Rig {
    store: Arc<SqliteStore>,
    worker: Arc<Worker>,
}

/// A plan that is in the database.
pub struct Published {
    plan: Plan,
    hash: String,
}

pub const WAITING: &str = "name: waiting\nsteps:\n  - { id: wait, wait: 1h }\n";

pub const AGENTS: &str = r#"
name: agents
agents:
  helper:
    model: openai/stub
    instructions: You are a helpful agent.
    tools: [lookup]
steps:
  - { id: first, agent: helper, prompt: "What is the weather in Paris today?" }
  - { id: second, agent: helper, prompt: "What is the weather in Paris today?" }
  - { id: third, agent: helper, prompt: "What is the weather in Paris today?" }
"#;

pub fn chain(steps: usize) -> String {
    let mut text = "name: chain\nsteps:\n".to_owned();
    for number in 0..steps {
        let _ = writeln!(text, "  - {{ id: s{number}, tool: noop, with: {{}} }}");
    }
    text
}

pub fn lanes(branches: usize) -> String {
    let mut text = "name: lanes\nsteps:\n  - id: all\n    parallel:\n".to_owned();
    for number in 0..branches {
        let _ = writeln!(text, "      - {{ id: b{number}, tool: noop, with: {{}} }}");
    }
    text
}

/// When each step was performed.
#[derive(Clone, Default)]
pub struct Stamps(Arc<Mutex<Vec<Instant>>>);

/// Steps over which the cost at the beginning and at the end is taken.
const WINDOW: usize = 100;

impl Stamps {
    fn hit(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn first_and_last(&self) -> Value {
        let stamps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = stamps.len().saturating_sub(1);
        let micros = |from: usize, to: usize| (stamps[to] - stamps[from]).as_secs_f64() / WINDOW as f64 * 1e6;
        let (first, end) = (micros(0, WINDOW.min(last)), micros(last.saturating_sub(WINDOW), last));
        json!({ "first_us": first, "last_us": end, "growth": end / first })
    }
}

/// A step that does nothing and returns 200 bytes.
struct Noop {
    spec: ToolSpec,
    stamps: Stamps,
}

impl Tool for Noop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        self.stamps.hit();
        let value = json!({ "answer": "ok", "score": 0.93, "n": 42, "note": "x".repeat(140) });
        Box::pin(async { Ok(Returned { value, artifacts: Vec::new() }) })
    }
}

struct Lookup {
    spec: ToolSpec,
}

impl Tool for Lookup {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async { Ok(Returned { value: json!({ "temp": 21, "sky": "clear" }), artifacts: Vec::new() }) })
    }
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters, effect: Effect::Idempotent }
}

pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Err(format!("no file {reference} here"))
    }
}

impl Rig {
    pub fn open(stamps: Stamps) -> Result<Rig> {
        let folder: PathBuf = crate::protocol::folder();
        std::fs::create_dir_all(&folder)?;
        let store = Arc::new(SqliteStore::open(folder.join("relais.db"), Options::default())?);
        let mut settings = Settings::default();
        let base_url = std::env::var("STUB_URL").ok();
        settings.providers.insert("openai".to_owned(), Provider { base_url, ..Provider::default() });
        let environment = |name: &str| (name == "OPENAI_API_KEY").then(|| "x".to_owned());
        let models = Arc::new(Models::new(&settings, &environment, &folder)?);
        let mut tools = Tools::new(&settings);
        tools.register(Arc::new(Noop { spec: spec("noop", "Does nothing.", json!({ "type": "object" })), stamps }));
        let query = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
        tools.register(Arc::new(Lookup { spec: spec("lookup", "Look a thing up.", query) }));
        let governors = models::governors(&settings);
        let performer = Performer::new(store.clone(), models, governors, folder.join("workspaces"));
        let worker = Worker::start(performer, tools, Arc::new(SystemClock));
        Ok(Rig { store, worker })
    }

    pub async fn publish(&self, text: &str) -> Result<Published> {
        let source = Source { name: "bench.yaml".to_owned(), text: text.to_owned() };
        let loaded = relais_dialects::read(&source, &NoFiles, &Default::default());
        let Some(plan) = loaded.plan else { bail!("{}", source.render(&loaded.problems, false)) };
        let hash = plan.hash();
        let body = serde_json::to_value(&plan)?;
        self.store.put_document(Document { key: plan_key(&hash), version: 1, at: 0, body }).await?;
        Ok(Published { plan, hash })
    }

    async fn start(&self, published: &Published) -> Result<relais_engine::RunId> {
        let opened = Opened {
            run: uuid::Uuid::now_v7(),
            workflow: published.plan.name.clone(),
            plan: published.hash.clone(),
            input: Stored::Value(json!({})),
            trigger: Value::Null,
            user: String::new(),
            thread: String::new(),
            parent: None,
            budget: published.plan.limits.budget,
            mode: Mode::default(),
            manifest: String::new(),
            target: Default::default(),
        };
        Ok(self.worker.create(opened, None).await?)
    }

    pub async fn run(&self, published: &Published) -> Result<()> {
        let run = self.start(published).await?;
        match self.worker.settle(run).await? {
            Rest::Ended(RunStatus::Completed) => Ok(()),
            other => bail!("run {run} came to rest as {other:?}"),
        }
    }

    /// Starts runs, so many at a time, and waits until each is at rest.
    pub async fn wait_for_many(self: &Arc<Rig>, published: &Published, runs: usize, at_once: usize) -> Result<()> {
        let next = AtomicUsize::new(0);
        let lane = || async {
            while next.fetch_add(1, Ordering::Relaxed) < runs {
                let run = self.start(published).await?;
                self.worker.let_go(run).await;
            }
            anyhow::Ok(())
        };
        futures::future::try_join_all((0..at_once.min(runs)).map(|_| lane())).await?;
        Ok(())
    }
}

/// Runs of one plan, so many at a time.
pub async fn gather(rig: &Arc<Rig>, published: &Published, runs: usize, at_once: usize) -> Result<()> {
    let next = AtomicUsize::new(0);
    let lane = || async {
        while next.fetch_add(1, Ordering::Relaxed) < runs {
            rig.run(published).await?;
        }
        anyhow::Ok(())
    };
    futures::future::try_join_all((0..at_once.min(runs)).map(|_| lane())).await?;
    Ok(())
}
