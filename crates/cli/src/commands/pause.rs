//! `relais pause`: nothing new starts in a run until it is resumed.

use crate::exit::Exit;
use crate::screen;
use crate::session::{Global, Session};
use crate::which::RunChoice;

/// Pause a run: what is under way ends, nothing new starts
#[derive(clap::Args)]
#[command(after_help = "Example:\n  relais pause --last; relais resume --last")]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| {
        let run = args.run.find(session).await?;
        session.pause(run).await?;
        if !session.worked_on_elsewhere(run).await? {
            session.settle(run).await?;
        }
        screen::note(&format!("run {run} is paused; `relais resume {run}` goes on"));
        Ok(Exit::Done)
    })
}
