//! `relais fork`: a new run that shares what another did before a step.

use std::path::PathBuf;

use relais_service::{Act, Fork};

use crate::exit::Exit;
use crate::many::Many;
use crate::onward::{Onward, Spoken};
use crate::session::{Global, Session};
use crate::which::Chosen as RunChoice;
use crate::{definition, given, screen};

/// Start a new run that shares what a finished run did before a step, with another definition, model or input
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais fork --last --from compare --model anthropic/claude-haiku-4-5
  relais fork 0198c9d2 --from compare --file changed.yaml")]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
    #[command(flatten)]
    many: Many,
    /// The first step that runs anew, as a path of `relais show`
    #[arg(long, value_name = "STEP")]
    from: String,
    /// Go on with this definition
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Use this model in place of every agent's own
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// Change an input; the value is JSON if it parses as JSON, else text. `@FILE` reads a JSON object
    #[arg(long, short, value_name = "NAME=VALUE|@FILE")]
    input: Vec<String>,
    /// Make calls again that have been made, also those with effects
    #[arg(long)]
    redo: bool,
    #[command(flatten)]
    onward: Onward,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.many.is_given() {
        if args.file.is_some() || !args.input.is_empty() {
            anyhow::bail!("--file and --input are for the fork of one run; many runs take --model");
        }
        return args.many.say(global, Act::Fork { from: args.from, model: args.model, redo: args.redo });
    }
    args.onward.serve(global, async |session: &Session| {
        let run = args.run.find(session).await?;
        let since = session.row(run).await?.seq;
        let input = given::pairs(&args.input, session.input_schema(run).await?.as_ref())?;
        let definition = match &args.file {
            Some(file) => {
                let service = session.local("`fork --file`")?;
                let simulate = service.trace(run).await?.simulated;
                let checked = definition::checked_file(service, file, simulate, args.model.as_deref()).await?;
                let Some(checked) = checked else { return Ok(None) };
                Some(checked)
            }
            None => None,
        };
        let input = Some(input).filter(|fields| !fields.is_empty());
        let fork = Fork { from: args.from.clone(), input, model: args.model.clone(), definition, redo: args.redo };
        let root = session.fork(run, fork).await?;
        screen::note(&format!("run {root}, forked from {run}"));
        // What both share has been shown with the other run.
        Ok(Some(Spoken { root, since, is_ours: true }))
    })
}
