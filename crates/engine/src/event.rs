//! The journal: what happened, in the past tense, and nothing else. The one core type that is stored.
//!
//! `apply` never evaluates an expression and never sees the plan, so every decision carries its result here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::command::{Answer, Command, Failure};
use relais_plan::tags::Tags;
use relais_plan::{Budget, NodeId};

/// Milliseconds since 1970, UTC.
pub type Millis = i64;
/// One line of control in a run, numbered in the order of opening; 0 is the body.
pub type ScopeId = u32;
/// Number of a command within its run.
pub type CommandId = u32;
pub type RunId = Uuid;

/// Version of the event format written by this build. Older ones are lifted on load.
pub const FORMAT: u16 = 1;

/// One appended batch: everything that one turn decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// From 1, without gaps.
    pub seq: u64,
    pub at: Millis,
    pub version: u16,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// First of every journal.
    Opened(Box<Opened>),
    /// A node begins; the next attempt of a failed one too.
    Entered {
        scope: ScopeId,
        node: NodeId,
        /// 0 for the first, counted up by step retries and resumes.
        #[serde(default, skip_serializing_if = "is_zero")]
        attempt: u32,
        /// An agent goes on with the history it has.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kept: bool,
        /// Counted on the run's live clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Outside work was asked for; it is performed only after this is durable.
    Asked {
        id: CommandId,
        scope: ScopeId,
        node: NodeId,
        command: Box<Command>,
    },
    Answered {
        id: CommandId,
        answer: Box<Answer>,
    },
    /// A decision inside a node: an arm, lanes, items, passes.
    Branched {
        scope: ScopeId,
        node: NodeId,
        took: Took,
    },
    /// A node has ended; control goes `to`, or the scope is at its end.
    Left(Box<Left>),
    /// What a wait or a question was waiting for came in from outside.
    Received {
        id: CommandId,
        value: Value,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    Signalled {
        signal: Signal,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        by: String,
    },
    /// A lane, item, exit or undo scope has ended, or the body. Its output is that of its last completed step, except
    /// for the body, whose output is written here.
    Settled {
        scope: ScopeId,
        status: StepStatus,
        /// A stop step ended the run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stopped: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Stored>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
    /// The run has reached an end. Only a resume, retry or fork may follow.
    Closed {
        status: RunStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Stored>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub run: RunId,
    pub workflow: String,
    /// Hash of the plan that the run keeps to its end.
    pub plan: String,
    pub input: Stored,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub trigger: Value,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// What this run may use at most: the plan's limits, narrowed by a parent's allotment.
    pub budget: Budget,
    /// `--simulate`, `--model`: how this run was asked to be performed.
    #[serde(default, skip_serializing_if = "Mode::is_default")]
    pub mode: Mode,
    /// Hash of the tool list at the start.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    #[serde(default, skip_serializing_if = "Target::is_default")]
    pub target: Target,
}

/// Which kept definition a run is of, and what started it. The engine only carries it; all of it may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// The workflow's id; names may change, ids do not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workflow: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub version: u32,
    /// The branch of a graph, where it is not the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The id of the trigger that fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The trace that whoever started it is in, as a W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// How its tools had changed since the version was made, in words, when it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<String>,
    /// Words of people's own that the run is found by.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

impl Target {
    pub fn is_default(&self) -> bool {
        *self == Target::default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunId,
    /// The parent's command that this run answers.
    pub command: CommandId,
    /// 1 for a child of a run started by hand.
    pub depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mode {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simulate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Takes the place of every agent's models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The folder that file tools see, where it is not the run's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What of the input nobody gave and a simulation made up: `input.topic`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_up: Vec<String>,
}

impl Mode {
    pub fn is_default(&self) -> bool {
        *self == Mode::default()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Took {
    /// Choose: this arm, or none of them; control goes `to` inside the block, or the block ends.
    Arm { arm: Option<u32>, to: Option<NodeId> },
    /// Fan: these lanes start now; their scopes get the next ids, in this order.
    Lanes(Vec<u32>),
    /// Fan: these lanes will not run.
    Skipped(Vec<u32>),
    /// Each over a list.
    Items { items: Stored, count: u32, truncated: u32 },
    /// Each: these bodies start now (item or pass numbers); scopes get the next ids.
    Bodies(Vec<u32>),
    /// Each: no further body starts.
    Ended(EndedBy),
    /// The body is over; exit sequence number so many starts in the next scope.
    Exit(u32),
    /// The compensating step of a completed step starts in the next scope.
    Undo { scope: ScopeId, node: NodeId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    Items,
    Until,
    While,
    Limit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Left {
    pub scope: ScopeId,
    pub node: NodeId,
    pub status: StepStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Stored>,
    /// What an agent said before its JSON was taken from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// A policy in the file lets the run go on after this failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tolerated: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// Where control goes; none: the scope is at its end (or, after a failure, fails).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeId>,
    /// The jump counts as a visit of `to`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jump: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<NodeId>,
}

impl Left {
    /// A bare ending; the other fields are set by whoever has them.
    pub fn new(scope: ScopeId, node: NodeId, status: StepStatus) -> Left {
        Left {
            scope,
            node,
            status,
            output: None,
            text: None,
            error: None,
            tolerated: false,
            vars: Map::new(),
            to: None,
            jump: false,
            undo: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Cancel,
    Pause,
    /// Go on: after a pause, a failure or a cancel.
    Resume(Resume),
    /// A new owner took the run up after a crash; the time since the last entry does not count.
    Adopted,
    /// Run again from a step on; what the fold must forget is worked out by `rewind`.
    Rewound(Rewind),
    /// A named signal for `wait: {signal: …}` that nothing waits for yet.
    Sent {
        name: String,
        value: Value,
    },
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resume {
    /// Takes the place of the run's budget where given.
    #[serde(skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// Do uncertain calls again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redo: bool,
    /// Take this as the result of the uncertain call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assume: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rewind {
    /// The step that runs again, as a path: `loop[7]/fetch`.
    pub path: String,
    pub scope: ScopeId,
    pub node: NodeId,
    /// Set where the journal was copied from another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// For a fork: the run's new identity, plan and input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<Box<Opened>>,
    /// Lanes that depend on what runs again, per `Fan` on the way up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneReset>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneReset {
    pub scope: ScopeId,
    pub node: NodeId,
    pub lanes: Vec<u32>,
}

/// A value in the journal: itself, or the content hash of where it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    Value(Value),
    Blob(Blob),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub hash: String,
    pub bytes: u64,
    /// What it is, in a line, for people and prompts.
    pub summary: String,
    /// What the model hears of it, where a tool returned it to an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
}

/// What a model hears of a tool's result that is stored by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub text: String,
    /// Only its beginning, and how to read on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Stored {
    pub fn null() -> Stored {
        Stored::Value(Value::Null)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Pending,
    Running,
    Waiting,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Pending,
    Running,
    /// Shown of a run that somebody worked on who is gone. Never kept.
    Interrupted,
    Waiting,
    Completed,
    Stopped,
    PartialSuccess,
    Failed,
    Cancelled,
}

impl RunStatus {
    /// Those of a run that has not reached an end, as they are kept.
    pub const UNFINISHED: [RunStatus; 3] = [RunStatus::Pending, RunStatus::Running, RunStatus::Waiting];
    /// The ends.
    pub const FINAL: [RunStatus; 5] =
        [RunStatus::Completed, RunStatus::Stopped, RunStatus::PartialSuccess, RunStatus::Failed, RunStatus::Cancelled];

    pub fn all() -> impl Iterator<Item = RunStatus> {
        RunStatus::UNFINISHED.into_iter().chain(RunStatus::FINAL)
    }

    /// All that people are shown.
    pub fn shown() -> impl Iterator<Item = RunStatus> {
        RunStatus::all().chain([RunStatus::Interrupted])
    }

    /// The status that a word names.
    pub fn named(word: &str) -> Option<RunStatus> {
        RunStatus::shown().find(|status| status.word() == word)
    }

    /// Reached an end.
    pub fn is_final(self) -> bool {
        RunStatus::FINAL.contains(&self)
    }

    pub fn is_success(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Stopped)
    }

    pub fn word(self) -> &'static str {
        match self {
            RunStatus::Pending => "pending",
            RunStatus::Running => "running",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Waiting => "waiting",
            RunStatus::Completed => "completed",
            RunStatus::Stopped => "stopped",
            RunStatus::PartialSuccess => "partial_success",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        }
    }
}

impl StepStatus {
    pub fn word(self) -> &'static str {
        match self {
            StepStatus::Pending => "pending",
            StepStatus::Running => "running",
            StepStatus::Waiting => "waiting",
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
            StepStatus::Cancelled => "cancelled",
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
