//! Every use case, one method each; all that a surface may call.
//!
//! A surface (command line, HTTP, MCP) parses its own words, calls one method here, and renders the answer.

pub mod access;
mod agents;
mod artifacts;
mod checking;
pub mod config;
mod decisions;
mod definitions;
mod error;
mod events;
pub mod feed;
mod follow;
mod history;
mod hooks;
mod kept;
mod library;
pub mod narrate;
mod notifications;
pub mod notify;
mod offered;
mod outputs;
mod portable;
mod publishing;
mod removal;
mod resting;
mod runs;
mod scheduler;
mod schedules;
mod sent;
mod serving;
mod shelf;
pub mod signature;
mod simulated;
mod step_triggers;
mod steps;
mod tally;
mod texts;
mod tokens;
pub mod trace;
mod triggers;
mod upkeep;
mod usage;
mod versions;
pub mod views;
mod workflows;
mod workspaces;

use std::sync::Arc;

use relais_runtime::Worker;
use relais_runtime::clock::{Clock, SystemClock};
use relais_runtime::models;
use relais_runtime::perform::Performer;
use relais_store::{Options, SqliteStore, Store};
use tokio::sync::Notify;

pub use agents::{Agent, AgentChange, NewAgent};
pub use checking::{Outline, Planned, Report, Times};
pub use config::Config;
pub use decisions::Decision;
pub use definitions::{Checked, Definition, Definitions, Whole, source_of};
pub use error::{Error, Finding};
pub use events::{Effects, Happened};
pub use follow::{Following, Place};
pub use history::Numbered;
pub use hooks::Posted;
pub use kept::At;
pub use notifications::Notification;
pub use notifications::deliveries::Delivery;
pub use outputs::Output;
pub use portable::{Arrived, Imported, OnClash, Package};
pub use relais_dialects::{Format, Options as ReadOptions};
pub use relais_engine::Mode;
pub use relais_runtime::governor::Gauge;
pub use relais_runtime::settings::{Age, Retention};
pub use relais_store::{Filter, Page, Row};
pub use runs::{Fired, Fork, ResumeWith, Start, Waits, among, meant, root_of};
pub use schedules::{Rhythm, SetSchedule, Timed, Understood};
pub use sent::Fate;
pub use serving::{END_TIME, Readiness, Running};
pub use step_triggers::{TRIGGER_TYPES, TriggerChange, TriggerType};
pub use steps::{Details, STEP_TYPES, Step, StepFields, StepKind, StepRecord, StepType};
pub use tally::{LastRun, Tally};
pub use texts::{Begun, Text};
pub use tokens::{NewToken, Whose};
pub use trace::Trace;
pub use triggers::{Origin, Owed, TriggerRecord};
pub use usage::{Part, Sum, UsageAnswer, UsageBy, UsageQuestion, UsageRow};
pub use workflows::{
    NewWorkflow, Once, Timing, Version, Workflow, WorkflowChange, WorkflowList, WorkflowStatus, Written,
};

/// A handle on everything that one user may do. Another user's things are not there: whatever they are asked for by,
/// the answer is that nothing was found.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
    user: Arc<str>,
}

/// What the handles of all users share.
struct Core {
    definitions: Definitions,
    store: Arc<dyn Store>,
    /// The same store where it is a file, for what only a file can do: backup and check.
    file: Option<Arc<SqliteStore>>,
    worker: Arc<Worker>,
    clock: Arc<dyn Clock>,
    entrance: tokens::Entrance,
    /// Runs are left for another process to take up.
    hands_off: bool,
    follows: Arc<follow::Follows>,
    shelf: shelf::Shelf,
    /// A trigger was written here, so that the scheduler looks again.
    triggers_changed: Notify,
    /// Who hears of ended runs.
    observers: feed::Observers,
    readiness: serving::Known,
}

impl Service {
    /// Opens the database and makes models and tools ready. Must be called inside a tokio runtime.
    pub fn open(config: Config) -> Result<Service, Error> {
        Service::open_as(config, false)
    }

    /// The same, but what is started or signalled here is left for another process to work on.
    pub fn open_hands_off(config: Config) -> Result<Service, Error> {
        Service::open_as(config, true)
    }

    fn open_as(config: Config, hands_off: bool) -> Result<Service, Error> {
        let home = &config.home;
        make_home(home).map_err(|e| Error::folder(home, &e))?;
        let file = Arc::new(SqliteStore::open(config.database(), Options::default())?);
        Service::assemble(config, file.clone(), Some(file), Arc::new(SystemClock), hands_off)
    }

    /// On any store and with any clock; what only a file can do is refused. Runs are left alone if `hands_off`.
    pub fn open_on(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        hands_off: bool,
    ) -> Result<Service, Error> {
        Service::assemble(config, store, None, clock, hands_off)
    }

    fn assemble(
        config: Config,
        store: Arc<dyn Store>,
        file: Option<Arc<SqliteStore>>,
        clock: Arc<dyn Clock>,
        hands_off: bool,
    ) -> Result<Service, Error> {
        // Before the first client of anybody who is built upon this.
        models::install_crypto();
        let definitions = Definitions::new(config)?;
        let Definitions { config, models, tools } = &definitions;
        let governors = models::governors(&config.settings);
        let mut performer = Performer::new(store.clone(), models.clone(), governors, config.workspaces());
        performer.simulation = Some(Arc::new(simulated::SimulatedTools));
        let worker = Worker::start(performer, tools.clone(), clock.clone());
        let user = config.user.as_str().into();
        let follows = Arc::new(follow::Follows::new());
        let triggers_changed = Notify::new();
        let entrance = tokens::Entrance::new(&config.settings.auth, &clock)?;
        let observers = feed::Observers::default();
        let shelf = shelf::Shelf::default();
        let readiness = serving::Known::default();
        let core = Core {
            definitions,
            store,
            file,
            worker,
            clock,
            entrance,
            hands_off,
            follows,
            shelf,
            triggers_changed,
            observers,
            readiness,
        };
        Ok(Service { core: Arc::new(core), user })
    }

    /// The same for another user.
    pub fn as_user(&self, user: &str) -> Service {
        Service { core: self.core.clone(), user: user.into() }
    }

    pub fn config(&self) -> &Config {
        &self.core.definitions.config
    }

    /// Whose runs these are.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn worker(&self) -> &Arc<Worker> {
        &self.core.worker
    }

    /// How busy the providers are.
    pub fn governors(&self) -> Vec<(String, Gauge)> {
        self.worker().performer().governors.gauges()
    }

    /// A setting with the secrets that it names as `${NAME}`.
    pub fn with_secrets(&self, text: &str) -> Result<String, Error> {
        let secrets = relais_runtime::mask::Secrets::new(&self.config().settings.secrets);
        secrets.expand(text).map_err(|error| Error::Invalid(format!("relais.toml: {error}")))
    }

    /// Ends child processes; runs still going are taken up by the next process.
    pub async fn shut_down(&self) {
        self.core.worker.shut_down().await;
    }
}

/// The folder holds prompts, answers and files: it is made for its owner alone. One that is there stays as it is.
fn make_home(path: &std::path::Path) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}
