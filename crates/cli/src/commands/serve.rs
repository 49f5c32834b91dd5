//! `relais serve`: the engine, the API and everything that starts runs by itself, in one process.

use std::net::SocketAddr;
use std::time::Duration;

use relais_plan::time::format_duration;
use relais_server::{App, Listening, Options, Telemetry, logs};
use relais_service::{Age, Config, Error, Retention, Service};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::screen;
use crate::session::Global;
use crate::words::counted;

/// Serve the API and work on runs until told to stop
///
/// Takes up every run that is due or that a dead process left behind. After SIGTERM or Ctrl-C nothing new starts;
/// runs that are going may end within the grace time, then the server stops. What is left goes on from the journal at
/// the next start. A second signal stops at once; both are safe.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais serve
  relais serve --listen 127.0.0.1:8080 --database /srv/relais.db
  relais serve --grace 5m --keep 30d")]
pub struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDR", env = "RELAIS_LISTEN", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,
    /// Let nobody in without a token, on this machine neither
    #[arg(long)]
    require_token: bool,
    /// The database: the path of a file, or sqlite:PATH [default: relais.db in the home folder]
    #[arg(long, value_name = "URL", env = "RELAIS_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// How long runs may go on after a signal to stop; a workflow's own `shutdown_timeout` stands over it
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = age)]
    grace: Age,
    /// Remove runs so long after they have ended: 12h, 30d [default: never, or as [retention] says]
    #[arg(long, value_name = "TIME", value_parser = age)]
    keep: Option<Age>,
    /// How lines of the log are written to standard error, text or json; RELAIS_LOG says how many [default: text]
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    log_format: logs::Format,
}

fn age(text: &str) -> Result<Age, String> {
    Age::try_from(text.to_owned())
}

/// How long what is under way may take to end when everything else has: requests, and loops in their last turn.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    logs::start(args.log_format).map_err(anyhow::Error::msg)?;
    let config = args.config(global.config()?)?;
    config.must_be_usable()?;
    global.serve_with(config, async |service: &Service| {
        let mut interrupts = Interrupts::listen()?;
        let options = Options { listen: args.listen, require_token: args.require_token };
        let server = relais_server::listen(App::new(service.clone()), &options).await?;
        Telemetry::start(service)?;
        let retention = args.retention(service.config());
        let loops = Loops::begin(service, retention);
        screen::note(&format!("listening on http://{}", server.address));
        interrupts.next().await;
        loops.start_nothing();
        leave(service, &args, &mut interrupts).await;
        end(server, loops).await;
        Ok(Exit::Done)
    })
}

impl Args {
    fn config(&self, config: Config) -> anyhow::Result<Config> {
        match &self.database {
            Some(text) => Ok(config.with_database(text, &std::env::current_dir()?)?),
            None => Ok(config),
        }
    }

    fn retention(&self, config: &Config) -> Retention {
        let configured = config.settings.retention;
        Retention { keep: self.keep.or(configured.keep), ..configured }
    }
}

/// Everything that goes on by itself, until it is told to stop.
pub struct Loops {
    starts: watch::Sender<bool>,
    follows: watch::Sender<bool>,
    all: JoinSet<()>,
}

impl Loops {
    pub fn begin(service: &Service, retention: Retention) -> Loops {
        let (starts, stopped) = watch::channel(false);
        let (follows, over) = watch::channel(false);
        let mut all = JoinSet::new();
        all.spawn(service.clone().run_adoption(stopped.clone(), told("runs cannot be taken up")));
        all.spawn(service.clone().run_scheduler(stopped.clone()));
        all.spawn(service.clone().run_summaries(stopped.clone()));
        all.spawn(service.clone().run_retention(retention, stopped, told("old runs cannot be removed")));
        all.spawn(feed(service.clone(), over));
        Loops { starts, follows, all }
    }

    /// Nothing starts by itself any more. What follows from the end of runs goes on: some are still to end.
    pub fn start_nothing(&self) {
        self.starts.send_replace(true);
    }

    /// Returns when all of them have ended.
    pub async fn end(mut self) {
        self.start_nothing();
        self.follows.send_replace(true);
        while self.all.join_next().await.is_some() {}
    }
}

/// What follows from the end of runs.
async fn feed(service: Service, stopped: watch::Receiver<bool>) {
    if let Err(error) = service.run_feed(stopped).await {
        screen::warning(&format!("ended runs are neither counted nor told: {error}"));
    }
}

fn told(what: &'static str) -> impl Fn(&Error) {
    move |error| screen::warning(&format!("{what}: {error}"))
}

/// What is going may end; nothing new starts. Requests are still answered: whoever watches a run sees its end.
async fn leave(service: &Service, args: &Args, interrupts: &mut Interrupts) {
    let grace = Duration::from_millis(args.grace.ms);
    service.worker().stop_taking();
    let going = service.worker().at_work();
    if going > 0 {
        let (runs, time) = (counted(going, "run"), format_duration(args.grace.ms));
        screen::note(&format!("shutting down; {runs} may go on for {time}, a second signal stops at once"));
    }
    let left = tokio::select! {
        left = service.drain(grace) => left,
        _ = interrupts.next() => service.let_everything_go().await,
    };
    if !left.is_empty() {
        screen::note(&format!("let go of {}; the next start goes on with them", counted(left.len(), "run")));
    }
}

async fn end(server: Listening, loops: Loops) {
    let rest = async { tokio::join!(server.stop(), loops.end()).0 };
    match tokio::time::timeout(LAST_REQUESTS, rest).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => screen::warning(&format!("the listener ended with an error: {error}")),
        Err(_) => screen::warning("some requests were cut off"),
    }
}
