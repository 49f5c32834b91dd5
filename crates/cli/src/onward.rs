//! What follows when a person has said something to a run: this process works on it, another does, or one in the
//! background will.

use relais_engine::RunId;

use crate::attend::{Ear, Manner, attend};
use crate::exit::Exit;
use crate::progress::Style;
use crate::screen;
use crate::session::{Global, Session};

#[derive(clap::Args)]
pub struct Onward {
    /// One JSON object per event on standard output, the last one with the result
    #[arg(long)]
    json: bool,
    /// Leave the work to a background process and return at once
    #[arg(long, conflicts_with_all = ["json", "wait"])]
    detach: bool,
    /// Stay while the run waits for a person, a signal or an event
    #[arg(long)]
    wait: bool,
}

/// A run that was spoken to: its tree goes on from here.
pub struct Spoken {
    /// The run at the top of the tree.
    pub root: RunId,
    /// Number of its last entry before; what came before has been shown to somebody.
    pub since: u64,
    /// Somebody else's run goes on without us.
    pub is_ours: bool,
}

impl Spoken {
    /// To be made before the run is spoken to.
    pub async fn before(session: &Session, run: RunId) -> anyhow::Result<Spoken> {
        let root = session.root_of(run).await?;
        let since = session.row(root).await?.seq;
        Ok(Spoken { root, since, is_ours: true })
    }

    /// To a run of another user, which cannot be looked at.
    pub fn elsewhere(run: RunId) -> Spoken {
        Spoken { root: run, since: 0, is_ours: false }
    }
}

impl Onward {
    /// Says something to a run and sees to it that somebody goes on with it.
    pub fn serve(
        &self,
        global: &Global,
        say: impl AsyncFnOnce(&Session) -> anyhow::Result<Option<Spoken>>,
    ) -> anyhow::Result<Exit> {
        let verbose = global.verbose;
        let command = async |session: &Session| {
            let ear = Ear::open(session, verbose);
            match say(session).await? {
                Some(spoken) => self.go_on(session, ear, &spoken, verbose).await,
                None => Ok(Exit::Usage),
            }
        };
        if self.detach { global.hand_over(command) } else { global.serve(command) }
    }

    async fn go_on(&self, session: &Session, ear: Ear, spoken: &Spoken, verbose: bool) -> anyhow::Result<Exit> {
        let run = spoken.root;
        if !spoken.is_ours {
            return Ok(Exit::Done);
        }
        if session.worked_on_elsewhere(run).await? {
            screen::note(&format!("another process works on run {run}; `relais watch {run}` shows it"));
            return Ok(Exit::Done);
        }
        if self.detach {
            session.leave(run)?;
            screen::out(&run.to_string())?;
            return Ok(Exit::Done);
        }
        let manner = Manner { style: Style::of(self.json), verbose, wait: self.wait };
        attend(session, ear, run, spoken.since, manner).await
    }
}
