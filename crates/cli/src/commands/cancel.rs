//! `relais cancel`: ends a run that is going or waiting.

use relais_service::Act;

use crate::attend::{Ear, Manner, attend};
use crate::exit::Exit;
use crate::many::Many;
use crate::progress::Style;
use crate::screen;
use crate::session::{Global, Session};
use crate::which::Chosen as RunChoice;

/// Cancel a run: model calls are closed, tool processes killed, exit steps run
///
/// A run that another process works on is told; it ends within 5 seconds, its exit steps included within a minute. A
/// run that nobody works on is ended by this command.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais cancel --last\n  relais cancel --workflow price-monitor --since 1h")]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
    #[command(flatten)]
    many: Many,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.many.is_given() {
        return args.many.say(global, Act::Cancel);
    }
    let manner = Manner { style: Style::Plain, verbose: global.verbose, wait: false };
    global.serve(async |session: &Session| {
        let run = args.run.find(session).await?;
        let since = session.row(run).await?.seq;
        let ear = Ear::open(session, manner.verbose);
        session.cancel(run).await?;
        if session.worked_on_elsewhere(run).await? {
            screen::note(&format!("run {run} was told to end"));
            return Ok(Exit::Done);
        }
        let exit = attend(session, ear, run, since, manner).await?;
        // That it is cancelled is what was wanted.
        Ok(if exit == Exit::Cancelled { Exit::Done } else { exit })
    })
}
