//! The same said to many runs: cancel, resume, retry or fork all that a filter finds.
//!
//! Which runs those are is decided once and kept, with how far the work has come. So a process that dies halfway leaves
//! a job that the next one goes on with; each run is spoken to once, also where the last word was not written down.

use std::time::Duration;

use relais_engine::{Entry, Event, Millis, RunId, RunStatus, Signal};
use relais_plan::Budget;
use relais_store::{Expect, Filter, Find, Record};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use uuid::Uuid;

use crate::kept::{self, At, Kept, Order};
use crate::runs::{Fork, OWN_KEYS, ResumeWith};
use crate::{Error, Service};

/// More than this is said in several goes: the list is read and kept whole.
const MAX_RUNS: usize = 10_000;
/// Runs between two notes of how far it has come.
const BATCH: usize = 20;
/// Somebody else goes on when nothing was noted for so long.
const TAKEN_MS: Millis = 60_000;
/// Problems that are kept in full; the rest is counted.
const MAX_PROBLEMS: usize = 100;
const LOOK: Duration = Duration::from_secs(1);

/// What is said to each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum Act {
    Cancel,
    Resume {
        #[serde(default)]
        redo: bool,
        #[serde(default)]
        budget: Budget,
    },
    Retry {
        from: String,
        #[serde(default)]
        redo: bool,
    },
    Fork {
        from: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default)]
        redo: bool,
    },
}

impl Act {
    pub fn word(&self) -> &'static str {
        match self {
            Act::Cancel => "cancel",
            Act::Resume { .. } => "resume",
            Act::Retry { .. } => "retry",
            Act::Fork { .. } => "fork",
        }
    }

    /// The runs that it can be said to, where nobody names a status.
    fn statuses(&self) -> Vec<RunStatus> {
        match self {
            Act::Cancel => RunStatus::UNFINISHED.to_vec(),
            Act::Resume { .. } | Act::Retry { .. } | Act::Fork { .. } => {
                vec![RunStatus::Failed, RunStatus::PartialSuccess, RunStatus::Cancelled]
            }
        }
    }
}

/// Something that is said to many runs, and how far that has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    pub id: Uuid,
    pub at: Millis,
    pub act: Act,
    /// Runs in all, and those that it was said to or that refused it.
    pub total: usize,
    pub done: usize,
    pub refused: usize,
    /// The first that refused, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<BulkProblem>,
    /// Runs that were made by forks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// When somebody is to go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_at: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkProblem {
    pub run: RunId,
    pub message: String,
}

impl Kept for Bulk {
    const KIND: &'static str = "bulk";
    const WORD: &'static str = "bulk job";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        self.next_at
    }
}

/// The runs of a job; apart from it, because they never change.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BulkRuns {
    id: Uuid,
    runs: Vec<RunId>,
}

impl Kept for BulkRuns {
    const KIND: &'static str = "bulk_runs";
    const WORD: &'static str = "bulk job";

    fn id(&self) -> String {
        self.id.to_string()
    }
}

impl Bulk {
    /// Runs that were looked at.
    fn passed(&self) -> usize {
        self.done + self.refused
    }

    fn note(&mut self, run: RunId, outcome: Result<Option<RunId>, Error>) {
        match outcome {
            Ok(made) => {
                self.done += 1;
                self.made.extend(made);
            }
            Err(error) => {
                self.refused += 1;
                if self.problems.len() < MAX_PROBLEMS {
                    self.problems.push(BulkProblem { run, message: error.to_string() });
                }
            }
        }
    }
}

impl Service {
    /// How many runs a filter finds for something that is to be said to them; more than the largest job is an error.
    pub async fn count_bulk(&self, act: &Act, filter: Filter) -> Result<usize, Error> {
        Ok(self.chosen(act, filter).await?.len())
    }

    /// Decides which runs it is said to; durable when this returns, done in the background.
    pub async fn begin_bulk(&self, act: Act, filter: Filter) -> Result<Bulk, Error> {
        self.must_take_work()?;
        let runs = self.chosen(&act, filter).await?;
        let now = self.core.clock.now();
        let (id, total) = (Uuid::now_v7(), runs.len());
        let ended_at = (total == 0).then_some(now);
        let (problems, made, next_at) = (Vec::new(), Vec::new(), (total > 0).then_some(now));
        let bulk = Bulk { id, at: now, act, total, done: 0, refused: 0, problems, made, ended_at, next_at };
        let list = kept::put(self.user(), &BulkRuns { id, runs }, Expect::Absent)?;
        self.change(vec![list, kept::put(self.user(), &bulk, Expect::Absent)?]).await?;
        Ok(bulk)
    }

    /// Newest first.
    pub async fn bulks(&self, after: Option<String>, limit: usize) -> Result<(Vec<At<Bulk>>, Option<String>), Error> {
        self.paged(Order::NewestFirst, after, limit).await
    }

    pub async fn bulk(&self, id: Uuid) -> Result<Bulk, Error> {
        Ok(self.kept::<Bulk>(&id.to_string()).await?.it)
    }

    /// The runs that a job is about.
    pub async fn bulk_runs(&self, id: Uuid) -> Result<Vec<RunId>, Error> {
        Ok(self.kept::<BulkRuns>(&id.to_string()).await?.it.runs)
    }

    async fn chosen(&self, act: &Act, filter: Filter) -> Result<Vec<RunId>, Error> {
        let status = if filter.status.is_empty() { act.statuses() } else { filter.status.clone() };
        let mut filter = Filter { status, limit: 1_000, ..filter };
        let mut runs = Vec::new();
        loop {
            let page = self.runs(filter.clone()).await?;
            runs.extend(page.rows.iter().map(|row| row.summary.run));
            if runs.len() > MAX_RUNS {
                let text =
                    format!("these are more than {MAX_RUNS} runs; narrow the filter, and repeat it for the rest");
                return Err(Error::Invalid(text));
            }
            match page.cursor {
                Some(cursor) => filter.cursor = Some(cursor),
                None => return Ok(runs),
            }
        }
    }

    /// Goes on with jobs until it is told to stop.
    pub(crate) async fn run_bulk(self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            if let Err(error) = self.bulk_once(&stop).await {
                tracing::warn!(%error, "what is said to many runs stands still for a moment");
            }
            let _ = tokio::time::timeout(LOOK, stop.wait_for(|stop| *stop)).await;
        }
    }

    /// Goes on with every job that nobody is at; answers how many those were.
    pub async fn bulk_once(&self, stop: &watch::Receiver<bool>) -> Result<usize, Error> {
        let due_by = Some(self.core.clock.now());
        let find = Find { kind: Bulk::KIND.into(), due_by, limit: BATCH, ..Find::default() };
        let mut worked = 0;
        for record in self.core.store.records(find).await? {
            worked += usize::from(self.go_on_with(record, stop).await?);
        }
        Ok(worked)
    }

    async fn go_on_with(&self, record: Record, stop: &watch::Receiver<bool>) -> Result<bool, Error> {
        let user = self.as_user(&record.key.owner);
        let Some(At { mut it, mut revision }) = self.read_due::<Bulk>(record).await? else { return Ok(false) };
        let runs = user.bulk_runs(it.id).await?;
        // Written down before anything is said, so that one process is at it.
        while user.noted(&mut it, &mut revision, &runs).await? {
            if it.ended_at.is_some() || *stop.borrow() {
                return Ok(true);
            }
            let rest = &runs[it.passed().min(runs.len())..];
            for run in rest.iter().take(BATCH) {
                let outcome = user.say_once(&it, *run).await;
                it.note(*run, outcome);
            }
        }
        Ok(false)
    }

    /// Keeps how far a job has come; false where another process is at it.
    async fn noted(&self, it: &mut Bulk, revision: &mut u64, runs: &[RunId]) -> Result<bool, Error> {
        let now = self.core.clock.now();
        let is_over = it.passed() >= runs.len();
        (it.ended_at, it.next_at) = (is_over.then_some(now), (!is_over).then_some(now + TAKEN_MS));
        match self.change(vec![kept::put(self.user(), &*it, Expect::Revision(*revision))?]).await {
            Ok(revisions) => {
                *revision = revisions.first().copied().unwrap_or(*revision + 1);
                Ok(true)
            }
            Err(Error::Stale(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says it to one run, unless this job has done so before it was cut off.
    async fn say_once(&self, bulk: &Bulk, run: RunId) -> Result<Option<RunId>, Error> {
        match &bulk.act {
            Act::Cancel => {
                let status = self.row(run).await?.summary.status;
                if status.is_final() && status != RunStatus::Cancelled {
                    return Err(Error::Conflict(format!("run {run} has ended as {}", status.word())));
                }
                self.cancel_once(run).await.map(|()| None)
            }
            Act::Resume { redo, budget } => {
                let with = ResumeWith { budget: *budget, redo: *redo, assume: None };
                self.resume(run, with).await.map(|()| None)
            }
            Act::Retry { from, redo } => {
                let (_, entries, _) = self.load(run).await?;
                if was_sent_back(&entries, bulk.at) {
                    return Ok(None);
                }
                self.retry(run, from, *redo).await.map(|()| None)
            }
            Act::Fork { from, model, redo } => {
                let fork = Fork { from: from.clone(), model: model.clone(), redo: *redo, ..Fork::default() };
                let key = format!("{OWN_KEYS}bulk:{}:{run}", bulk.id);
                self.fork_once(run, fork, Some(key)).await.map(Some)
            }
        }
    }
}

/// Whether somebody has sent the run back to a step since then.
fn was_sent_back(entries: &[Entry], since: Millis) -> bool {
    let is_back = |event: &Event| matches!(event, Event::Signalled { signal: Signal::Rewound(_), .. });
    entries.iter().rev().take_while(|entry| entry.at >= since).any(|entry| entry.events.iter().any(is_back))
}
