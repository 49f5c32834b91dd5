//! Every use case, one method each; all that a surface may call.
//!
//! A surface (command line, HTTP, MCP) parses its own words, calls one method here, and renders the answer.

pub mod access;
pub mod config;
mod definitions;
mod error;
pub mod feed;
mod kept;
pub mod mistakes;
mod runs;
mod serving;
mod tokens;
mod triggers;
mod upkeep;

use std::sync::Arc;

use relais_runtime::Worker;
use relais_runtime::clock::{Clock, SystemClock};
use relais_runtime::models;
use relais_runtime::perform::Performer;
use relais_store::{Options, SqliteStore, Store};
use tokio::sync::Notify;

pub use config::Config;
pub use definitions::agents::{Agent, AgentChange, NewAgent};
pub use definitions::checking::{Outline, Planned, Report, Times};
pub use definitions::foresight;
pub use definitions::history::Numbered;
pub use definitions::portable::{Arrived, Imported, OnClash, Package};
pub use definitions::removal::{Deletion, Removal};
pub use definitions::steps::{Details, STEP_TYPES, Step, StepFields, StepKind, StepRecord, StepType};
pub use definitions::texts::{Begun, Text};
pub use definitions::workflows::{
    NewWorkflow, Once, Version, Workflow, WorkflowChange, WorkflowList, WorkflowStatus, Written,
};
pub use definitions::{Checked, Definition, Definitions, Whole, source_of};
pub use error::{Error, Finding};
pub use feed::notifications::Notification;
pub use feed::notifications::deliveries::Delivery;
pub use feed::tally::{LastRun, Tally};
pub use feed::usage::{Part, Sum, UsageAnswer, UsageBy, UsageQuestion, UsageRow};
pub use kept::{At, Read};
pub use relais_dialects::{Format, Options as ReadOptions, guide};
pub use relais_engine::Mode;
pub use relais_runtime::governor::Gauge;
pub use relais_runtime::settings::{Age, Retention};
pub use relais_store::{Filter, Page, Row};
pub use runs::bulk::{Act, Bulk, BulkProblem};
pub use runs::follow::{Following, Place};
pub use runs::outputs::Output;
pub use runs::questions::Asked;
pub use runs::trace::Trace;
pub use runs::{Fired, Fork, ResumeWith, Start, Waits, among, marks, meant, root_of};
pub use runs::{narrate, trace, views};
pub use serving::{END_TIME, Readiness, Running};
pub use tokens::{NewToken, Whose};
pub use triggers::backfill::{Backfill, Backfilled, backfill_time};
pub use triggers::decisions::Decision;
pub use triggers::events::{Effects, Happened};
pub use triggers::hooks::{HookAddress, Posted};
pub use triggers::schedules::{Rhythm, SetSchedule, Timed, Understood};
pub use triggers::sent::Fate;
pub use triggers::signature;
pub use triggers::step_triggers::{TRIGGER_TYPES, TriggerChange, TriggerType};
pub use triggers::{Origin, Owed, TriggerRecord};

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
    follows: Arc<runs::follow::Follows>,
    shelf: runs::shelf::Shelf,
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
        config::make_home(home).map_err(|e| Error::folder(home, &e))?;
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
        if let Some(limit) = config.settings.result_limit {
            performer.result_limit = limit.bytes;
        }
        performer.simulation = Some(Arc::new(definitions::simulated::SimulatedTools));
        performer.notices = Some(Arc::new(feed::notifications::posted::Board {
            store: store.clone(),
            clock: clock.clone(),
            patience: performer.patience.clone(),
        }));
        let worker = Worker::start(performer, tools.clone(), clock.clone());
        let user = config.user.as_str().into();
        let follows = Arc::new(runs::follow::Follows::new());
        let triggers_changed = Notify::new();
        let entrance = tokens::Entrance::new(&config.settings.auth, &clock)?;
        let observers = feed::Observers::default();
        let shelf = runs::shelf::Shelf::default();
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

    /// The time that everything here goes by.
    pub fn now(&self) -> relais_engine::Millis {
        self.core.clock.now()
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
