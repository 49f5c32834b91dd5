//! Every use case, one method each; all that a surface may call.
//!
//! A surface (command line, HTTP, MCP) parses its own words, calls one method here, and renders the answer.

pub mod config;
mod definitions;
mod error;
pub mod narrate;
mod runs;
pub mod trace;

use std::sync::Arc;

use relais_runtime::clock::{Clock, SystemClock};
use relais_runtime::models::{self, Models};
use relais_runtime::perform::Performer;
use relais_runtime::tools::Tools;
use relais_runtime::{Worker, model};
use relais_store::{Options, SqliteStore, Store};

pub use config::Config;
pub use definitions::{Checked, Definition};
pub use error::Error;
pub use runs::{Fork, ResumeWith, Start, Waits};
pub use trace::Trace;

pub struct Service {
    pub config: Config,
    pub store: Arc<dyn Store>,
    /// The same store, for what only a file can do: backup and check.
    pub file: Arc<SqliteStore>,
    pub models: Arc<Models>,
    pub tools: Tools,
    worker: Arc<Worker>,
    clock: Arc<dyn Clock>,
}

impl Service {
    /// Opens the database and makes models and tools ready. Must be called inside a tokio runtime.
    pub fn open(config: Config) -> Result<Service, Error> {
        std::fs::create_dir_all(&config.home).map_err(|e| Error::folder(&config.home, &e))?;
        let file = Arc::new(SqliteStore::open(config.database(), Options::default())?);
        let store: Arc<dyn Store> = file.clone();
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let mut models = Models::new(&config.settings, &environment, &config.folder)?;
        models.register("sim", Arc::new(|name: &str| Arc::new(relais_sim::SimModel::named(name)) as Arc<dyn model::Model>));
        let models = Arc::new(models);
        let tools = Tools::new(&config.settings)?;
        let governors = models::governors(&config.settings);
        let mut performer = Performer::new(store.clone(), models.clone(), governors, config.workspaces());
        performer.simulation = Some(Arc::new(relais_sim::SimTools));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let worker = Worker::start(performer, tools.clone(), clock.clone());
        Ok(Service { config, store, file, models, tools, worker, clock })
    }

    pub fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    /// Ends child processes; runs still going are taken up by the next process.
    pub async fn shut_down(&self) {
        self.worker.shut_down().await;
    }
}
