//! What a command works with: the configuration, the definitions, and the session: the local service or a server.
//! Opened only as far as needed.

mod kept;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use anyhow::Context;
use relais_engine::RunId;
use relais_plan::{Schema, Source};
use relais_runtime::Rest;
use relais_runtime::perform::LiveText;
use relais_service::config::Loaded;
use relais_service::narrate::Notice;
use relais_service::{
    At, Config, Definitions, Error, Filter, Following, Fork, Format, NewWorkflow, Page, ResumeWith, Row, Service,
    SetSchedule, Start, Trace, Waits, Workflow, WorkflowChange, WorkflowList, Written,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::detach;
use crate::library::{Shelved, Shelving};
use crate::remote::{Client, Stream};
use crate::screen;
use crate::timetable::{Decided, Foreseen, Planned};

/// Options that every command takes.
#[derive(clap::Args)]
pub struct Global {
    /// The folder that data lives in [default: $RELAIS_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub home: Option<PathBuf>,
    /// Work with this server instead of the local database; $RELAIS_TOKEN is its token [default: $RELAIS_URL]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "RELAIS_URL",
        hide_env = true,
        help_heading = "Global options"
    )]
    pub server: Option<String>,
    /// Say more: every event, and what models say while they say it
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub verbose: bool,
}

/// Network and timers hardly need a core; the engine's work is short.
const THREADS: usize = 2;
/// How long tasks that are left over may take to end, so that child processes are killed with them.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

impl Global {
    /// The configuration; what of a project's file is not used is told once.
    pub fn config(&self) -> anyhow::Result<Config> {
        static TOLD: Once = Once::new();
        let Loaded { config, left_out, warnings } = self.loaded()?;
        TOLD.call_once(|| {
            left_out.iter().for_each(|left_out| screen::warning(&left_out.told()));
            warnings.iter().for_each(|warning| screen::warning(warning));
        });
        Ok(config)
    }

    /// The same for a server: what of a project's file is not used may be what keeps others out.
    pub fn whole_config(&self) -> anyhow::Result<Config> {
        match self.loaded()?.left_out {
            Some(left_out) => Err(Error::Invalid(left_out.told()).into()),
            None => self.config(),
        }
    }

    fn loaded(&self) -> anyhow::Result<Loaded> {
        let current = std::env::current_dir().context("the current folder cannot be read")?;
        Ok(Config::load(self.home.clone(), &current)?)
    }

    /// Enough to read files: no database, no runtime.
    pub fn definitions(&self) -> anyhow::Result<Definitions> {
        Ok(Definitions::new(self.config()?)?)
    }

    /// Runs a command on the local service, or on the server that was named.
    pub fn serve<T>(&self, command: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.serve_as(command, Service::open)
    }

    /// The same for a command that leaves the work to another process.
    pub fn hand_over<T>(&self, command: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.serve_as(command, Service::open_hands_off)
    }

    fn serve_as<T>(
        &self,
        command: impl AsyncFnOnce(&Session) -> anyhow::Result<T>,
        open: impl FnOnce(Config) -> Result<Service, Error>,
    ) -> anyhow::Result<T> {
        let Some(client) = self.client()? else {
            return on_service(self.config()?, open, async |service| command(&Session::Local(service.clone())).await);
        };
        block_on(async { command(&Session::Remote(client)).await })
    }

    /// The server that was named, for commands that need no database without one.
    pub fn client(&self) -> Result<Option<Client>, Error> {
        let Some(url) = self.named_server() else { return Ok(None) };
        let token = std::env::var("RELAIS_TOKEN").ok().filter(|token| !token.is_empty());
        Client::new(url, token).map(Some)
    }

    fn named_server(&self) -> Option<&str> {
        self.server.as_deref().filter(|url| !url.trim().is_empty())
    }

    /// For commands that work on the database itself, which only its own machine can.
    pub fn serve_here<T>(&self, command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>) -> anyhow::Result<T> {
        if let Some(url) = self.named_server() {
            let text = "this command works on the database itself; call it where the database is, without --server";
            return Err(Error::Invalid(format!("{text} and RELAIS_URL (now {url})")).into());
        }
        self.serve_with(self.config()?, command)
    }

    /// The same with a configuration of the command's own, and whatever server is named.
    pub fn serve_with<T>(
        &self,
        config: Config,
        command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        on_service(config, Service::open, command)
    }
}

/// Ends every child process with the command.
fn on_service<T>(
    config: Config,
    open: impl FnOnce(Config) -> Result<Service, Error>,
    command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    block_on(async {
        let service = open(config)?;
        let outcome = command(&service).await;
        service.shut_down().await;
        outcome
    })
}

pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_MOMENTS);
    outcome
}

/// Where runs are. Commands ask a session and do not care.
pub enum Session {
    Local(Service),
    Remote(Client),
}

/// A run followed as it goes.
pub enum Followed {
    Local(Following),
    Remote(Stream),
}

/// Asks whichever there is the same question.
macro_rules! ask {
    ($session:expr, $method:ident($($argument:expr),*)) => {
        match $session {
            Session::Local(service) => service.$method($($argument),*).await,
            Session::Remote(client) => client.$method($($argument),*).await,
        }
    };
}

impl Session {
    pub async fn runs(&self, filter: Filter) -> Result<Page, Error> {
        ask!(self, runs(filter))
    }

    pub async fn row(&self, run: RunId) -> Result<Row, Error> {
        ask!(self, row(run))
    }

    pub async fn find_run(&self, text: Option<&str>) -> Result<RunId, Error> {
        ask!(self, find_run(text))
    }

    pub async fn root_of(&self, run: RunId) -> Result<RunId, Error> {
        ask!(self, root_of(run))
    }

    pub async fn trace(&self, run: RunId) -> Result<Trace, Error> {
        ask!(self, trace(run))
    }

    pub async fn view(&self, run: RunId, format: Format) -> Result<Value, Error> {
        ask!(self, view(run, format))
    }

    pub async fn output(&self, run: RunId) -> Result<Value, Error> {
        ask!(self, output(run))
    }

    pub async fn open_questions(&self, run: RunId) -> Result<Vec<(RunId, Waits)>, Error> {
        ask!(self, open_questions(run))
    }

    /// Waits until the run has ended or waits for something other than time.
    pub async fn settle(&self, run: RunId) -> Result<Rest, Error> {
        ask!(self, settle(run))
    }

    pub async fn said(&self, notice: &Notice) -> Result<String, Error> {
        ask!(self, said(notice))
    }

    pub async fn cancel(&self, run: RunId) -> Result<(), Error> {
        ask!(self, cancel(run))
    }

    pub async fn pause(&self, run: RunId) -> Result<(), Error> {
        ask!(self, pause(run))
    }

    pub async fn resume(&self, run: RunId, with: ResumeWith) -> Result<(), Error> {
        ask!(self, resume(run, with))
    }

    pub async fn retry(&self, run: RunId, from: &str, redo: bool) -> Result<(), Error> {
        ask!(self, retry(run, from, redo))
    }

    pub async fn answer(&self, run: RunId, step: Option<&str>, value: Value) -> Result<(), Error> {
        ask!(self, answer(run, step, value))
    }

    pub async fn send(&self, run: RunId, name: &str, value: Value) -> Result<(), Error> {
        ask!(self, send(run, name, value))
    }

    /// The text of a kept workflow's newest version; none while it is empty.
    pub async fn kept_text(&self, name: &str) -> Result<Option<Source>, Error> {
        Ok(self.workflow(name).await?.definition.map(|text| Source { name: name.to_owned(), text }))
    }

    /// Kept workflows, and whether there are more.
    pub async fn workflows(&self, archived: bool, limit: usize) -> Result<(Vec<Shelved>, bool), Error> {
        match self {
            Session::Local(service) => {
                let list = WorkflowList { status: None, archived_too: archived, after: None, limit };
                let (found, next) = service.workflows(list).await?;
                Ok((found.into_iter().map(Shelved::from).collect(), next.is_some()))
            }
            Session::Remote(client) => client.workflows(archived, limit).await,
        }
    }

    pub async fn workflow(&self, name: &str) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => {
                let found = service.find_workflow(name).await?;
                let definition = service.definition_of(&found.it).await?;
                Ok(Shelved { definition, ..Shelved::from(found) })
            }
            Session::Remote(client) => client.workflow(name).await,
        }
    }

    /// Makes a workflow, or changes the one that is named.
    pub async fn shelve(&self, to: Option<&str>, shelving: Shelving) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => Ok(shelved(service, to, shelving).await?.into()),
            Session::Remote(client) => client.shelve(to, &shelving).await,
        }
    }

    /// Starts a kept workflow, named by id, alias or name.
    pub async fn start_workflow(&self, name: &str, branch: Option<&str>, start: Start) -> Result<RunId, Error> {
        match self {
            Session::Local(service) => service.start_workflow(name, branch, None, start).await,
            Session::Remote(client) => client.start_workflow(name, branch, start).await,
        }
    }

    /// Schedules, those of one workflow only if it is named, and whether there are more.
    pub async fn schedules(&self, workflow: Option<&str>, limit: usize) -> Result<(Vec<Planned>, bool), Error> {
        match (self, workflow) {
            (Session::Local(service), Some(workflow)) => {
                let found = service.schedules_of(workflow).await?;
                let more = found.len() > limit;
                Ok((found.into_iter().take(limit).map(Planned::from).collect(), more))
            }
            (Session::Local(service), None) => {
                let (found, next) = service.schedules(None, limit).await?;
                Ok((found.into_iter().map(Planned::from).collect(), next.is_some()))
            }
            (Session::Remote(client), _) => client.schedules(workflow, limit).await,
        }
    }

    /// Sets when a workflow, named by id, alias or name, runs by itself.
    pub async fn schedule(&self, workflow: &str, set: SetSchedule) -> Result<Planned, Error> {
        match self {
            Session::Local(service) => service.schedule(workflow, set).await.map(Planned::from),
            Session::Remote(client) => client.schedule(workflow, &set).await,
        }
    }

    pub async fn preview_schedule(&self, set: &SetSchedule) -> Result<Foreseen, Error> {
        match self {
            Session::Local(service) => service.preview_schedule(set).map(Foreseen::from),
            Session::Remote(client) => client.preview_schedule(set).await,
        }
    }

    pub async fn cancel_schedule(&self, id: Uuid) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.cancel_schedule(id).await.map(drop),
            Session::Remote(client) => client.cancel_schedule(id).await,
        }
    }

    pub async fn pause_schedule(&self, id: Uuid) -> Result<Planned, Error> {
        match self {
            Session::Local(service) => service.pause_schedule(id).await.map(Planned::from),
            Session::Remote(client) => client.tell_schedule(id, "pause").await,
        }
    }

    pub async fn resume_schedule(&self, id: Uuid) -> Result<Planned, Error> {
        match self {
            Session::Local(service) => service.resume_schedule(id).await.map(Planned::from),
            Session::Remote(client) => client.tell_schedule(id, "resume").await,
        }
    }

    pub async fn schedule_decisions(&self, id: Uuid) -> Result<Vec<Decided>, Error> {
        match self {
            Session::Local(service) => {
                Ok(service.schedule_decisions(id).await?.into_iter().map(Decided::from).collect())
            }
            Session::Remote(client) => client.schedule_decisions(id).await,
        }
    }

    pub async fn follow(&self, run: RunId) -> Result<Followed, Error> {
        match self {
            Session::Local(service) => service.follow(run).await.map(Followed::Local),
            Session::Remote(client) => client.follow(run).await.map(Followed::Remote),
        }
    }

    /// Is a process at work on it that this command has no say in? A server always has.
    pub async fn worked_on_elsewhere(&self, run: RunId) -> Result<bool, Error> {
        match self {
            Session::Local(service) => service.worked_on_elsewhere(run).await,
            Session::Remote(_) => Ok(false),
        }
    }

    /// Does nobody work on it, and will nobody by himself? A server takes up what it finds.
    pub async fn is_left_alone(&self, run: RunId) -> Result<bool, Error> {
        match self {
            Session::Local(service) => Ok(!service.worked_on_elsewhere(run).await?),
            Session::Remote(_) => Ok(false),
        }
    }

    /// Leaves the work to a process in the background; a server is one.
    pub fn leave(&self, run: RunId) -> anyhow::Result<()> {
        match self {
            Session::Local(service) => detach::work_on(service.config(), run),
            Session::Remote(_) => Ok(()),
        }
    }

    pub async fn fork(&self, run: RunId, fork: Fork) -> Result<RunId, Error> {
        match self {
            Session::Local(service) => service.fork(run, fork).await,
            Session::Remote(client) => client.fork(run, fork).await,
        }
    }

    /// What models say while they say it; only the process that works on a run hears it.
    pub fn live(&self) -> Option<broadcast::Receiver<LiveText>> {
        match self {
            Session::Local(service) => Some(service.worker().performer().live()),
            Session::Remote(_) => None,
        }
    }

    /// The types of a run's input, to read words as. A server shows the input that it had; what is text there is text.
    pub async fn input_schema(&self, run: RunId) -> Result<Option<Schema>, Error> {
        match self {
            Session::Local(service) => Ok(service.load(run).await?.0.plan.input_schema.clone()),
            Session::Remote(client) => Ok(Some(typed(&client.trace(run).await?))),
        }
    }

    /// The local service, for what a server is not asked for.
    pub fn local(&self, what: &str) -> Result<&Service, Error> {
        match self {
            Session::Local(service) => Ok(service),
            Session::Remote(client) => {
                let text =
                    format!("{what} works with the local database only, not with the server {}", client.address());
                Err(Error::Invalid(text))
            }
        }
    }
}

async fn shelved(service: &Service, to: Option<&str>, shelving: Shelving) -> Result<At<Workflow>, Error> {
    let Shelving { name, alias, description, definition, format, published, status } = shelving;
    let format = format.and_then(Format::named);
    let definition = definition.map(|text| Written { text, format, lenient: false });
    match to {
        Some(workflow) => {
            let change = WorkflowChange { name, alias, description, definition, published, status };
            service.update_workflow(workflow, change, None).await
        }
        None => {
            let published = published.unwrap_or_default();
            let new = NewWorkflow { name, alias, description, definition, published, ..NewWorkflow::default() };
            service.create_workflow(new).await
        }
    }
}

fn typed(trace: &Trace) -> Schema {
    let input = match &trace.input {
        relais_engine::Stored::Value(Value::Object(input)) => input.clone(),
        relais_engine::Stored::Value(_) | relais_engine::Stored::Blob(_) => serde_json::Map::new(),
    };
    let texts = input.iter().filter(|(_, value)| value.is_string());
    let texts = texts.map(|(name, _)| (name.clone(), json!({ "type": "string" })));
    Schema::new(json!({ "properties": texts.collect::<serde_json::Map<_, _>>() }))
}

impl Followed {
    /// What happened since the last call; waits until there is something. None when the run has ended and all is told.
    pub async fn next(&mut self) -> Result<Option<Vec<Notice>>, Error> {
        match self {
            Followed::Local(following) => following.next().await,
            Followed::Remote(stream) => stream.next().await,
        }
    }

    /// What is in the journal and was not told yet, which may be nothing; never waits.
    pub async fn so_far(&mut self) -> Result<Vec<Notice>, Error> {
        match self {
            Followed::Local(following) => following.so_far().await,
            Followed::Remote(stream) => stream.so_far().await,
        }
    }
}
