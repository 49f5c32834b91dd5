//! `relais retry`: a run again from a step on.

use relais_service::Act;

use crate::exit::Exit;
use crate::many::Many;
use crate::onward::{Onward, Spoken};
use crate::session::{Global, Session};
use crate::which::Chosen as RunChoice;

/// Run a finished run again from a step on; what came before it is kept
///
/// The step and what comes after it, or depends on it, run again. Calls of tools that must not happen twice are listed
/// and need --redo.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  relais retry --last --from compare\n  relais retry 0198c9d2 --from 'each[7]/fetch'\n  relais retry --status failed --workflow price-monitor --since 1d --from fetch"
)]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
    #[command(flatten)]
    many: Many,
    /// The step, as a path of `relais show`
    #[arg(long, value_name = "STEP")]
    from: String,
    /// Make calls again that have been made, also those with effects
    #[arg(long)]
    redo: bool,
    #[command(flatten)]
    onward: Onward,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.many.is_given() {
        return args.many.say(global, Act::Retry { from: args.from, redo: args.redo });
    }
    args.onward.serve(global, async |session: &Session| {
        let run = args.run.find(session).await?;
        let spoken = Spoken::before(session, run).await?;
        session.retry(run, &args.from, args.redo).await?;
        Ok(Some(spoken))
    })
}
