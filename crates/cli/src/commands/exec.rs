//! `relais exec`: a workflow file run for a program that reads along, with what each step gave at the end.

use relais_service::Format;

use crate::attend::{Ear, Manner, attend};
use crate::begin::Begin;
use crate::exit::Exit;
use crate::progress::Style;
use crate::screen;
use crate::session::{Global, Session};

/// Run a workflow file, tell everything as it happens, and print what each step gave
///
/// Like `run`, but the events go to standard output as they happen, one line each, and the result is what comes last
/// there. Behind it, on standard error, stands the step context: what each step gave, as JSON.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais exec pipeline.yaml
  relais exec pipeline.yaml \"Write about relays\"
  cat question.txt | relais exec pipeline.yaml -
  relais exec pipeline.yaml 2> context.txt")]
pub struct Args {
    #[command(flatten)]
    begin: Begin,
    /// Events as one JSON object per line, the last one with the result
    #[arg(long)]
    json: bool,
    /// Stay while the run waits for a person, a signal or an event
    #[arg(long)]
    wait: bool,
}

/// What stands before the step context.
const HEADING: &str = "--- Step Context ---";

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let style = if args.json { Style::Json } else { Style::Stream };
    let manner = Manner { style, verbose: global.verbose, wait: args.wait };
    global.serve(async |session: &Session| {
        let ear = Ear::open(session, manner.verbose);
        let Some(run) = args.begin.start(session).await? else { return Ok(Exit::Usage) };
        let exit = attend(session, ear, run, 0, manner).await?;
        let context = session.view(run, Format::Pipeline).await?;
        screen::note(&format!("{HEADING}\n{}", serde_json::to_string_pretty(&context)?));
        Ok(exit)
    })
}
