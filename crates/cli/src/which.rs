//! Which run a command means.

use relais_engine::RunId;

use crate::session::Session;

#[derive(clap::Args)]
pub struct RunChoice {
    /// The run: its id, or a part of it that fits no other (the first or last four characters or more)
    #[arg(required_unless_present = "last", conflicts_with = "last")]
    run: Option<String>,
    /// The newest run
    #[arg(long)]
    last: bool,
}

impl RunChoice {
    pub async fn find(&self, session: &Session) -> anyhow::Result<RunId> {
        Ok(session.find_run(self.run.as_deref()).await?)
    }
}

/// The same for a command that can also be said to many runs (`Many`).
#[derive(clap::Args)]
pub struct Chosen {
    /// The run: its id, or a part of it that fits no other (the first or last four characters or more)
    #[arg(required_unless_present_any = ["last", "status", "workflow", "since", "tag", "error"], conflicts_with = "last")]
    run: Option<String>,
    /// The newest run
    #[arg(long)]
    last: bool,
}

impl Chosen {
    pub async fn find(&self, session: &Session) -> anyhow::Result<RunId> {
        Ok(session.find_run(self.run.as_deref()).await?)
    }
}

/// The run and the words after it, for commands with further words: after `--last` the first word is no run.
pub fn split(last: bool, mut words: Vec<String>) -> anyhow::Result<(Option<String>, Vec<String>)> {
    if last {
        return Ok((None, words));
    }
    if words.is_empty() {
        anyhow::bail!("say which run: its id, or --last for the newest; `relais runs` lists them");
    }
    let run = words.remove(0);
    Ok((Some(run), words))
}
