//! What a command works with: the configuration, the definitions, the service. Opened only as far as needed.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use relais_service::{Config, Definitions, Service};

/// Options that every command takes.
#[derive(clap::Args)]
pub struct Global {
    /// The folder that data lives in [default: $RELAIS_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub home: Option<PathBuf>,
    /// Say more: every event, and what models say while they say it
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub verbose: bool,
}

/// Network and timers hardly need a core; the engine's work is short.
const THREADS: usize = 2;
/// How long tasks that are left over may take to end, so that child processes are killed with them.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

impl Global {
    pub fn config(&self) -> anyhow::Result<Config> {
        let current = std::env::current_dir().context("the current folder cannot be read")?;
        Ok(Config::load(self.home.clone(), &current)?)
    }

    /// Enough to read files: no database, no runtime.
    pub fn definitions(&self) -> anyhow::Result<Definitions> {
        Ok(Definitions::new(self.config()?)?)
    }

    /// Runs a command on the opened service and ends every child process with it.
    pub fn serve<T>(&self, command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>) -> anyhow::Result<T> {
        serve_as(self.config()?, command, Service::open)
    }

    /// The same with a configuration that the command has changed.
    pub fn serve_with<T>(
        &self,
        config: Config,
        command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        serve_as(config, command, Service::open)
    }

    /// The same for a command that leaves the work to another process.
    pub fn hand_over<T>(&self, command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>) -> anyhow::Result<T> {
        serve_as(self.config()?, command, Service::open_hands_off)
    }
}

fn serve_as<T>(
    config: Config,
    command: impl AsyncFnOnce(&Service) -> anyhow::Result<T>,
    open: impl FnOnce(Config) -> Result<Service, relais_service::Error>,
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
