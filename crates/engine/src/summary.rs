//! The one row about a run that a store may index. Computed here; a store never looks into events.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::command::{Awaiting, Command, ErrorKind, Failure, Usage};
use crate::event::{CommandId, Event, Millis, Opened, RunId, RunStatus, Target};
use crate::program::Program;
use crate::run::{Owed, Run};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub run: RunId,
    pub workflow: String,
    pub plan: String,
    pub user: String,
    pub thread: String,
    pub parent: Option<RunId>,
    pub target: Target,
    pub status: RunStatus,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// When time alone makes the run go on.
    pub wake_at: Option<Millis>,
    /// What else it waits for: `person:3`, `signal:go`, `event:order.paid`, `run:<id>`, `paused`.
    pub awaits: Vec<String>,
    pub usage: Usage,
    pub error: Option<Failure>,
}

/// The row as it is now.
pub fn summary(program: &Program, run: &Run) -> Summary {
    let status = status(run);
    let waiting = status == RunStatus::Waiting;
    Summary {
        status,
        ended_at: run.ended_at,
        wake_at: waiting.then(|| wake_at(program, run)).flatten(),
        awaits: if waiting { awaits(run) } else { Vec::new() },
        usage: run.usage,
        error: run.closed.as_ref().and_then(|c| c.error.clone()),
        ..Summary::pending(run)
    }
}

/// What a run with this tag is found by.
pub fn tag_mark(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// What a run that ended with such an error is found by. No tag has this form.
pub fn error_mark(kind: ErrorKind) -> String {
    format!("error:{}", kind.word())
}

impl Summary {
    /// What the run is found by besides the columns of its row: its tags, and the kind of its error.
    pub fn marks(&self) -> Vec<String> {
        let tags = self.target.tags.iter().map(|(key, value)| tag_mark(key, value));
        tags.chain(self.error.iter().map(|error| error_mark(error.kind))).collect()
    }

    /// The row of a run that nobody has taken up yet.
    pub fn pending(run: &Run) -> Summary {
        let Opened { workflow, plan, user, thread, parent, target, .. } = &run.opened;
        Summary {
            run: run.id(),
            workflow: workflow.clone(),
            plan: plan.clone(),
            user: user.clone(),
            thread: thread.clone(),
            parent: parent.as_ref().map(|p| p.run),
            target: target.clone(),
            status: RunStatus::Pending,
            started_at: run.started_at,
            ended_at: None,
            wake_at: None,
            awaits: Vec::new(),
            usage: Usage::default(),
            error: None,
        }
    }

    /// The row of a run to which somebody outside says this, if it changes with it: one that waits is due from then on,
    /// and one that had ended and is to go on is open again. Should whoever says it die before the run is taken up,
    /// others find it by its row.
    pub fn said(self, events: &[Event], at: Millis) -> Option<Summary> {
        if self.status == RunStatus::Waiting {
            let due = self.wake_at.map_or(at, |wake_at| wake_at.min(at));
            return Some(Summary { wake_at: Some(due), ..self });
        }
        let goes_on = self.status.is_final() && events.iter().any(|event| event.reopens(self.status));
        let reopened = |row| Summary { status: RunStatus::Pending, ended_at: None, error: None, ..row };
        goes_on.then(|| reopened(self))
    }
}

/// How the run stands.
pub fn status(run: &Run) -> RunStatus {
    match &run.closed {
        Some(closed) => closed.status,
        None if run.in_flight().next().is_some() || run.has_decisions() => RunStatus::Running,
        None if run.paused || !run.owed.is_empty() => RunStatus::Waiting,
        None => RunStatus::Running,
    }
}

/// The next moment at which time alone makes the run go on. A paused run is not woken by time.
pub fn wake_at(program: &Program, run: &Run) -> Option<Millis> {
    if run.paused {
        return None;
    }
    let due = |owed: &Owed| match &*owed.command {
        Command::Sleep { until, .. } => Some(*until),
        Command::AskPerson(question) => question.deadline,
        Command::CallModel { .. } | Command::CallTool { .. } | Command::Await(_) | Command::StartRun(_) => None,
    };
    let time_out = crate::decide::next_deadline(program, run);
    run.owed.values().filter_map(due).chain(time_out).min()
}

/// The types of events that the run waits for, all of them, also while it is at work elsewhere.
pub fn awaited_events(run: &Run) -> BTreeSet<&str> {
    let awaited = run.owed.values().filter_map(|owed| match &*owed.command {
        Command::Await(Awaiting::Event(of)) => Some(of.as_str()),
        Command::Await(Awaiting::Signal(_)) | Command::AskPerson(_) | Command::Sleep { .. } => None,
        Command::CallModel { .. } | Command::CallTool { .. } | Command::StartRun(_) => None,
    });
    awaited.collect()
}

fn awaits(run: &Run) -> Vec<String> {
    let word = |(id, owed): (&CommandId, &Owed)| match &*owed.command {
        Command::AskPerson(_) => Some(format!("person:{id}")),
        Command::Await(Awaiting::Signal(name)) => Some(format!("signal:{name}")),
        Command::Await(Awaiting::Event(name)) => Some(format!("event:{name}")),
        Command::Sleep { .. } => Some("time".to_owned()),
        Command::StartRun(start) => Some(format!("run:{}", start.run)),
        Command::CallModel { .. } | Command::CallTool { .. } => None,
    };
    let paused = run.paused.then(|| "paused".to_owned());
    paused.into_iter().chain(run.owed.iter().filter_map(word).take(MAX_AWAITS)).collect()
}

/// Enough for a person to see what a run waits for; a row is not the place for a thousand.
const MAX_AWAITS: usize = 20;
