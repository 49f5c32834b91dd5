//! `relais watch`: a run that somebody else works on, as it goes.

use relais_engine::{RunId, RunStatus};
use relais_service::narrate::{Notice, What};

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::progress::{Progress, Style};
use crate::questions;
use crate::session::{Global, Session};
use crate::which::RunChoice;

/// Watch a run as it goes, whichever process works on it
///
/// Ends with the run and with its exit code. Ctrl-C ends the watching and leaves the run alone.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais watch --last\n  relais watch --last --text")]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
    /// Also what models say, answer by answer
    #[arg(long)]
    text: bool,
    /// One JSON object per event on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let style = Style::of(args.json);
    let verbose = global.verbose;
    // Watching must not become working.
    global.hand_over(async |session: &Session| {
        let run = args.run.find(session).await?;
        let mut watching = Watching { session, run, text: args.text, progress: Progress::new(style, verbose) };
        let outcome = watching.watch().await;
        watching.progress.close();
        outcome
    })
}

struct Watching<'s> {
    session: &'s Session,
    run: RunId,
    text: bool,
    progress: Progress,
}

impl Watching<'_> {
    async fn watch(&mut self) -> anyhow::Result<Exit> {
        let mut following = self.session.follow(self.run).await?;
        let mut interrupts = Interrupts::listen()?;
        let mut told_orphan = false;
        loop {
            tokio::select! {
                _ = interrupts.next() => return Ok(Exit::Done),
                notices = following.next() => match notices? {
                    Some(notices) => self.tell(&notices).await?,
                    None => return Ok(Exit::of(self.session.row(self.run).await?.summary.status)),
                },
            }
            if !std::mem::replace(&mut told_orphan, true) {
                self.tell_standing().await?;
            }
        }
    }

    async fn tell(&mut self, notices: &[Notice]) -> anyhow::Result<()> {
        for notice in notices {
            if self.text && matches!(notice.what, What::ModelAnswered { .. }) {
                let said = self.said(notice).await?;
                self.progress.live(&said);
            }
            self.progress.tell(notice, true)?;
            if matches!(notice.what, What::Asked { .. }) {
                self.ask().await?;
            }
        }
        Ok(())
    }

    /// Who would make it go on, if nobody is at it.
    async fn tell_standing(&mut self) -> anyhow::Result<()> {
        let status = self.session.row(self.run).await?.summary.status;
        let idle = matches!(status, RunStatus::Pending | RunStatus::Running | RunStatus::Interrupted);
        if idle && self.session.is_left_alone(self.run).await? {
            self.progress.say(&format!("no process works on this run; `relais resume {}` takes it up", self.run));
        }
        Ok(())
    }

    async fn ask(&mut self) -> anyhow::Result<()> {
        for block in questions::told(self.session, self.run).await? {
            self.progress.say(&block);
        }
        Ok(())
    }

    /// What a model has answered, as a block of lines.
    async fn said(&self, notice: &Notice) -> anyhow::Result<String> {
        let text = self.session.said(notice).await?;
        Ok(if text.is_empty() { text } else { format!("{}\n", text.trim_end()) })
    }
}
