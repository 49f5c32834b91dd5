//! `relais serve`: the engine, the API and everything that starts runs by itself, in one process.

use std::net::SocketAddr;
use std::time::Duration;

use relais_plan::time::format_duration;
use relais_server::{App, Options, Telemetry, logs};
use relais_service::{Age, Config, Retention, Running, Service};

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

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    logs::start(args.log_format).map_err(anyhow::Error::msg)?;
    let config = args.config(global.whole_config()?)?;
    config.must_be_usable()?;
    global.serve_with(config, async |service: &Service| {
        let mut interrupts = Interrupts::listen()?;
        let options = Options { listen: args.listen, require_token: args.require_token };
        let server = relais_server::listen(App::new(service.clone()), &options).await?;
        Telemetry::start(service)?;
        let running = service.serve(args.retention(service.config()), screen::warning);
        screen::note(&format!("listening on http://{}", server.address));
        interrupts.next().await;
        leave(&running, args.grace, &mut interrupts).await;
        let (stopped, ()) = tokio::join!(server.stop(), running.end());
        if let Err(error) = stopped {
            screen::warning(&error.to_string());
        }
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

/// What is going may end; nothing new starts. Requests are still answered: whoever watches a run sees its end.
async fn leave<T: Fn(&str)>(running: &Running<T>, grace: Age, interrupts: &mut Interrupts) {
    let going = running.stop_taking();
    if going > 0 {
        let (runs, time) = (counted(going, "run"), format_duration(grace.ms));
        screen::note(&format!("shutting down; {runs} may go on for {time}, a second signal stops at once"));
    }
    let left = running.drain(Duration::from_millis(grace.ms), interrupts.next()).await;
    if !left.is_empty() {
        screen::note(&format!("let go of {}; the next start goes on with them", counted(left.len(), "run")));
    }
}
