//! `relais signal`: gives a run the signal that it waits for.

use serde_json::Value;

use crate::exit::Exit;
use crate::onward::{Onward, Spoken};
use crate::session::{Global, Session};
use crate::{given, which};

/// Send a named signal to a run that waits for it, or will
#[derive(clap::Args)]
#[command(
    override_usage = "relais signal [OPTIONS] <RUN|--last> <NAME> [VALUE]",
    after_help = "Examples:\n  relais signal 0198c9d2 go\n  relais signal --last approved '{\"by\": \"Ada\"}'"
)]
pub struct Args {
    /// The run (unless --last), the signal's name, and a value: JSON if it parses as JSON, else text
    #[arg(value_name = "RUN NAME VALUE", num_args = 1..=3, required = true)]
    words: Vec<String>,
    /// The newest run
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    onward: Onward,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let (run, words) = which::split(args.last, args.words)?;
    let (name, value) = match words.as_slice() {
        [name] => (name.clone(), Value::Null),
        [name, value] => (name.clone(), given::value_of(value)),
        [] => anyhow::bail!("say the signal's name: relais signal RUN NAME [VALUE]"),
        [..] => anyhow::bail!("too many words; with --last leave out the run: relais signal --last NAME [VALUE]"),
    };
    args.onward.serve(global, async |session: &Session| {
        let run = session.find_run(run.as_deref()).await?;
        let spoken = Spoken::before(session, run).await?;
        session.send(run, &name, value).await?;
        Ok(Some(spoken))
    })
}
