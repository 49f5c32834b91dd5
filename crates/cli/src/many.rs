//! Commands that are said to many runs at once: which those are, the question before, and how far it has come.

use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use relais_engine::{Millis, RunStatus};
use relais_plan::time::parse_duration;
use relais_runtime::clock::{Clock, SystemClock};
use relais_server::views::BulkView;
use relais_service::{Act, Error, Filter};

use crate::commands::runs::status;
use crate::exit::Exit;
use crate::session::{Global, Session};
use crate::{screen, words};

/// How often it is looked at how far a server has come.
const LOOK: Duration = Duration::from_millis(500);

/// In place of one run: all that this finds.
#[derive(clap::Args)]
#[command(next_help_heading = "Many runs")]
pub struct Many {
    /// All runs of this status; may be repeated
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status(), conflicts_with_all = ["run", "last"])]
    status: Vec<RunStatus>,
    /// All runs of this workflow
    #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "last"])]
    workflow: Option<String>,
    /// All runs that started within this time, such as 1d
    #[arg(long, value_name = "DURATION", value_parser = age, conflicts_with_all = ["run", "last"])]
    since: Option<u64>,
    /// All runs with this tag; may be repeated, and a run must have all of them
    #[arg(long, value_name = "NAME=VALUE", conflicts_with_all = ["run", "last"])]
    tag: Vec<String>,
    /// All runs that ended with an error of this kind, such as timeout
    #[arg(long, value_name = "KIND", conflicts_with_all = ["run", "last"])]
    error: Option<String>,
    /// Do not ask before it is done
    #[arg(long)]
    yes: bool,
}

fn age(text: &str) -> Result<u64, String> {
    parse_duration(text).ok_or_else(|| format!("`{text}` is no duration; write 90m, 12h or 1d"))
}

impl Many {
    pub fn is_given(&self) -> bool {
        let named = self.workflow.is_some() || self.since.is_some() || self.error.is_some();
        named || !self.status.is_empty() || !self.tag.is_empty()
    }

    /// Shows how many runs those are, asks once, and sees it through.
    pub fn say(&self, global: &Global, act: Act) -> anyhow::Result<Exit> {
        global.serve(async |session: &Session| {
            let filter = self.filter(session).await?;
            let count = session.count_bulk(&act, &filter).await?;
            if count == 0 {
                screen::note("no such runs");
                return Ok(Exit::Done);
            }
            let what = format!("{} {}", act.word(), words::counted(count, "run"));
            if !self.yes && !agreed(&what)? {
                screen::note("nothing was done");
                return Ok(Exit::Done);
            }
            let begun = session.begin_bulk(&act, &filter).await?;
            screen::note(&format!("{what}: job {}", begun.id));
            let ended = see_through(session, begun).await?;
            settle(session, &act, &ended).await?;
            Ok(told(&ended))
        })
    }

    async fn filter(&self, session: &Session) -> anyhow::Result<Filter> {
        let workflow_id = match &self.workflow {
            Some(name) => session.workflow(name).await.ok().map(|kept| kept.id.to_string()),
            None => None,
        };
        let workflow = self.workflow.clone().filter(|_| workflow_id.is_none());
        let now: Millis = SystemClock.now();
        Ok(Filter {
            status: self.status.clone(),
            workflow,
            workflow_id,
            marks: relais_service::marks(&self.tag, self.error.as_deref())?,
            started_after: self.since.map(|age| now.saturating_sub_unsigned(age)),
            roots_only: true,
            ..Filter::default()
        })
    }
}

/// Whether a person at the terminal says yes; nothing said is a no.
pub fn agreed(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Error::Invalid(format!("nobody can be asked here; say --yes to {what}")).into());
    }
    screen::piece(&format!("{what}? [y/N] "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Without a server this process does it; with one it is watched.
async fn see_through(session: &Session, begun: BulkView) -> anyhow::Result<BulkView> {
    let mut job = begun;
    while job.status != "done" {
        match session {
            Session::Local(service) => {
                let (_, stop) = tokio::sync::watch::channel(false);
                service.bulk_once(&stop).await?;
            }
            Session::Remote(_) => tokio::time::sleep(LOOK).await,
        }
        job = session.bulk(job.id).await?;
        if io::stderr().is_terminal() {
            screen::note(&format!("{} of {}", job.done + job.refused, job.total));
        }
    }
    Ok(job)
}

/// Runs that go on in this process are seen to their end; those of a server go on without us.
async fn settle(session: &Session, act: &Act, job: &BulkView) -> anyhow::Result<()> {
    let Session::Local(service) = session else { return Ok(()) };
    let runs = match act {
        Act::Fork { .. } => job.made.clone(),
        Act::Cancel | Act::Resume { .. } | Act::Retry { .. } => service.bulk_runs(job.id).await?,
    };
    for run in runs.into_iter().filter(|run| job.problems.iter().all(|problem| problem.run != *run)) {
        session.settle(run).await?;
    }
    Ok(())
}

fn told(job: &BulkView) -> Exit {
    for problem in &job.problems {
        screen::note(&format!("{}: {}", problem.run, problem.message));
    }
    let rest = job.refused.saturating_sub(job.problems.len());
    if rest > 0 {
        screen::note(&format!("{} more refused it", words::counted(rest, "run")));
    }
    screen::note(&format!("{}: {} done, {} refused", job.action, job.done, job.refused));
    if job.refused == 0 { Exit::Done } else { Exit::Failed }
}
