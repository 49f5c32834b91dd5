//! `relais run`: a workflow file from its text to its result.

use crate::attend::{Ear, Manner, attend};
use crate::begin::Begin;
use crate::exit::Exit;
use crate::progress::Style;
use crate::screen;
use crate::session::{Global, Session};

/// Run a workflow file and print its result
///
/// The result goes to standard output, progress and everything else to standard error. Every model reply and tool
/// result is kept before anything follows from it: after a crash, `relais resume` goes on where the run was.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais run flow.yaml \"What moved today?\"
  cat question.txt | relais run flow.yaml -
  relais run flow.yaml --input products='[\"jug\", \"cup\"]' --input @more.json
  relais run graph.json --branch nightly
  relais run flow.yaml --simulate --seed 7
  relais run flow.yaml --detach")]
pub struct Args {
    #[command(flatten)]
    begin: Begin,
    /// One JSON object per event on standard output, the last one with the result
    #[arg(long)]
    json: bool,
    /// Leave the work to a background process and print the run's id at once
    #[arg(long, conflicts_with_all = ["json", "wait"])]
    detach: bool,
    /// Stay while the run waits for a person, a signal or an event
    #[arg(long)]
    wait: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.detach {
        return global.hand_over(async |session: &Session| start_and_leave(args.begin, session).await);
    }
    let manner = Manner { style: Style::of(args.json), verbose: global.verbose, wait: args.wait };
    global.serve(async |session: &Session| {
        let ear = Ear::open(session, manner.verbose);
        match args.begin.start(session).await? {
            Some(run) => attend(session, ear, run, 0, manner).await,
            None => Ok(Exit::Usage),
        }
    })
}

async fn start_and_leave(begin: Begin, session: &Session) -> anyhow::Result<Exit> {
    let Some(run) = begin.start(session).await? else { return Ok(Exit::Usage) };
    if !session.row(run).await?.summary.status.is_final() {
        session.leave(run)?;
    }
    screen::out(&run.to_string())?;
    Ok(Exit::Done)
}
