//! The fold: everything known of a run, and nothing else. Only `apply` changes it.
//!
//! It knows no plan. What a decision needs later (where control goes, time-outs, counts) came with the event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use relais_plan::NodeId;
use serde_json::Value;

use crate::agent::breaker::Heard;
use crate::command::*;
use crate::event::*;
use crate::questions::Yes;

pub const BODY: ScopeId = 0;

#[derive(Debug, Clone)]
pub struct Run {
    pub opened: Opened,
    /// Number of the last entry.
    pub seq: u64,
    /// Time of the last entry.
    pub at: Millis,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// Time that counts for time-outs: stands still while nobody works on the run.
    pub live_ms: u64,
    /// Where the time-out of the whole run counts from: its start, or the last resume after an end.
    pub live_from_ms: u64,
    pub scopes: Vec<Scope>,
    /// Asked and not yet answered.
    pub owed: BTreeMap<CommandId, Owed>,
    /// Given up by the run; an answer is kept as a receipt.
    pub dropped: BTreeMap<CommandId, Owed>,
    pub next_command: CommandId,
    pub usage: Usage,
    /// Estimates of calls whose answer will never come.
    pub lost: Reserve,
    /// Set aside for calls in flight.
    pub reserved: Reserve,
    /// Allotted to child runs that have not ended.
    pub allotted: BTreeMap<CommandId, relais_plan::Budget>,
    /// Calls in flight; they count as made.
    pub calls: Calls,
    pub artifacts: IndexMap<String, Vec<Artifact>>,
    /// Which step saved each version of an artifact: a step that runs beside others of its kind reads its own.
    pub savers: IndexMap<String, Vec<(ScopeId, NodeId)>>,
    /// Completed steps that can be undone, in order of completion.
    pub undoable: Vec<Undoable>,
    /// Completed calls of `once` tools, for retry and fork.
    pub effects: Vec<Done>,
    /// Named signals nothing has waited for yet.
    pub sent: Vec<(String, Value)>,
    pub paused: bool,
    /// How often somebody asked to cancel, since the last resume.
    pub cancels: u32,
    /// How often it was taken over in a row without getting further.
    pub recoveries: u32,
    pub ending: Option<Ending>,
    pub closed: Option<Closing>,
    /// Steps that completed, at any depth.
    pub completed_steps: u64,
    /// Failures that a policy let pass.
    pub tolerated: Vec<(ScopeId, NodeId)>,
    /// Open time-outs on the live clock.
    pub(crate) deadlines: BTreeSet<(u64, ScopeId, NodeId)>,
    /// Counts entries and leavings, so that "after" can be told.
    pub(crate) order: u64,
    /// What all variables weigh that were ever set; those of passes and lanes stay with them.
    pub(crate) wrote_bytes: u64,
    pub(crate) open_scopes: BTreeSet<ScopeId>,
    /// Scopes where something may have to be decided. A hint, not state: `turn` empties it.
    pub(crate) agenda: BTreeSet<ScopeId>,
    /// Lines of control that are short of budget and wait until something comes back. A hint, too: those that are
    /// looked at again and find nothing are put here anew.
    pub(crate) starved: BTreeSet<ScopeId>,
    /// Those of them that something may have come back for. Looked at when nothing else is left to decide.
    pub(crate) thirsty: BTreeSet<ScopeId>,
    /// The run as a whole needs a decision (a signal, the end of the body). A hint, too.
    pub(crate) stirred: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Owed {
    pub scope: ScopeId,
    pub node: NodeId,
    pub command: Box<Command>,
    pub asked_at: Millis,
    /// Who has said yes to a question that needs several, in order.
    pub yes: Vec<Yes>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Undoable {
    pub scope: ScopeId,
    pub node: NodeId,
    pub undo: NodeId,
    pub order: u64,
    pub undone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub scope: ScopeId,
    pub node: NodeId,
    pub tool: String,
    pub order: u64,
}

/// The body has ended; undo and exit steps may still run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub status: StepStatus,
    pub stopped: bool,
    pub output: Option<Stored>,
    pub error: Option<Failure>,
    /// Exit sequences begun.
    pub exits: u32,
    /// The exit or undo scope at work.
    pub at_work: Option<ScopeId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    pub status: RunStatus,
    pub output: Option<Stored>,
    pub error: Option<Failure>,
}

/// Variables by name, in the order in which they were first set. Values are shared: what a step was entered with is kept
/// beside what it left.
pub type Variables = IndexMap<String, Arc<Value>>;

#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    pub kind: ScopeKind,
    /// The scope and node that opened it.
    pub parent: Option<(ScopeId, NodeId)>,
    /// Lane, item or pass number.
    pub number: u32,
    pub at: At,
    /// Variables written in this scope.
    pub wrote: Arc<Variables>,
    /// The last step that completed here, and when.
    pub last: Option<(NodeId, u64)>,
    /// Boxed, because a map has room for eleven from the first on, and most scopes of a long loop hold one step.
    pub steps: BTreeMap<NodeId, Box<Instance>>,
    /// Entries by jump per target, within its cycle.
    pub visits: Arc<BTreeMap<NodeId, u32>>,
    pub settled: Option<(StepStatus, Option<Failure>)>,
    /// Let finish on its own; nobody waits for it.
    pub detached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeKind {
    Body,
    Lane,
    Item,
    Exit,
    Undo,
}

/// Where a scope's line of control is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Opened; the plan says where it begins.
    Start,
    Before {
        node: NodeId,
        jump: bool,
    },
    In(NodeId),
    /// This node ended it: failed or cancelled.
    Broken(NodeId),
    /// Past its last node.
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    pub status: StepStatus,
    pub attempt: u32,
    /// Step retries since it was begun or resumed.
    pub retries: u32,
    /// When it was entered, in the run's order.
    pub order: u64,
    pub entered_at: Millis,
    pub left_at: Option<Millis>,
    /// On the live clock; none while a person is asked.
    pub deadline: Option<u64>,
    pub timeout_ms: Option<u64>,
    /// What was left of the time-out when a person was asked.
    pub suspended_ms: Option<u64>,
    pub entered_live: u64,
    pub output: Option<Stored>,
    /// What it gave when control was here before; a step that is gone back to is shown it.
    pub former: Option<Stored>,
    pub text: Option<String>,
    pub error: Option<Failure>,
    pub tolerated: bool,
    pub work: Work,
    pub usage: Usage,
    pub reserved: Reserve,
    pub calls: Calls,
    /// The last step that completed in an if or switch: its output is that of the block.
    pub yields: Option<NodeId>,
    pub before: Before,
    /// The child run that was asked for last.
    pub child: Option<Box<StartRun>>,
}

/// Calls asked for and not yet answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    pub model: u64,
    pub tool: u64,
}

/// What it was like when the node was entered; retry and fork go back to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Before {
    pub wrote: Arc<Variables>,
    pub visits: Arc<BTreeMap<NodeId, u32>>,
    pub last: Option<(NodeId, u64)>,
    /// A jump led here.
    pub jump: bool,
}

/// What a node is in the middle of; grown from the events.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Fresh,
    /// A direct tool call, child run, sleep, question or awaited thing.
    Asked(CommandId),
    Answered(Box<Answer>),
    Received(Value),
    /// Waiting to try again.
    Resting(CommandId),
    /// The wait before the next try is over.
    Rested,
    Chose(Option<u32>),
    Agent(Box<AgentWork>),
    Fan(FanWork),
    Each(EachWork),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentWork {
    pub messages: Vec<Message>,
    pub asked: Option<CommandId>,
    /// The last model call failed; nothing was said.
    pub failed: Option<Failure>,
    /// Position in the fallback list.
    pub model: usize,
    /// Which model said the last words.
    pub spoken_by: String,
    pub finish: Option<Finish>,
    pub turns: u32,
    pub corrections: u32,
    pub empties: u32,
    /// The calls of the last reply.
    pub uses: Vec<Use>,
    /// The last calls and what came of them, as far back as loops are looked for.
    pub recent: Vec<Heard>,
    /// Tools that are offered beside those of the agent.
    pub lent: Vec<String>,
    /// A `once` tool has been asked, so the history must be kept.
    pub once: bool,
    /// Waiting before the whole step is tried again.
    pub resting: Option<CommandId>,
    pub rested: bool,
}

/// One tool call of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    pub call: ToolUse,
    /// A person changed the arguments.
    pub edited: bool,
    pub state: UseState,
}

#[derive(Debug, Clone, PartialEq)]
pub enum UseState {
    New,
    /// A person is asked.
    Approving(CommandId),
    /// A person said yes, perhaps with other arguments.
    Approved(Option<Value>),
    Asked(CommandId),
    Returned(Stored),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct FanWork {
    pub lanes: BTreeMap<u32, LaneState>,
    pub open: u32,
    pub completed: u32,
    /// The first failure, which decides the block's error.
    pub failed: Option<u32>,
    /// Lanes that have ended, in that order.
    pub news: Vec<u32>,
    /// So many of them have been looked at.
    pub(crate) looked_at: Hint,
    /// Look at all lanes again (after a resume).
    pub rescan: bool,
}

/// Saves looking twice. Not part of what is known, so any two are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hint(pub usize);

impl PartialEq for Hint {
    fn eq(&self, _other: &Hint) -> bool {
        true
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneState {
    pub scope: Option<ScopeId>,
    pub status: Option<StepStatus>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct EachWork {
    pub items: Option<Stored>,
    pub count: u32,
    pub truncated: u32,
    /// The scope of each body begun, by number.
    pub bodies: Vec<ScopeId>,
    pub open: u32,
    pub failed: Option<u32>,
    pub ended: Option<EndedBy>,
    /// The pause between two passes.
    pub pause: Option<CommandId>,
    pub paused_after: Option<u32>,
}

impl Run {
    pub fn id(&self) -> RunId {
        self.opened.run
    }

    pub fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id as usize]
    }

    pub fn instance(&self, scope: ScopeId, node: NodeId) -> Option<&Instance> {
        self.scopes.get(scope as usize)?.steps.get(&node).map(|instance| &**instance)
    }

    /// The idempotency key of a command: the same whenever and wherever it is performed.
    pub fn key(&self, id: CommandId) -> String {
        uuid::Uuid::new_v5(&self.id(), format!("command/{id}").as_bytes()).to_string()
    }

    /// The next moment at which a time-out fires, if nothing else happens.
    pub fn next_deadline(&self) -> Option<Millis> {
        let (due, _, _) = self.deadlines.first()?;
        Some(self.at + due.saturating_sub(self.live_ms) as Millis)
    }

    /// Steps that were begun or skipped. Each is counted when it is entered and when it is left.
    pub(crate) fn steps_begun(&self) -> u64 {
        self.order / 2
    }

    /// Passes, items, lanes, exit and undo sequences that were opened, besides the body.
    pub(crate) fn scopes_opened(&self) -> u64 {
        (self.scopes.len() as u64).saturating_sub(1)
    }

    /// Every open line of control waits for a person, and nothing is in flight.
    pub(crate) fn waits_for_people(&self) -> bool {
        !self.owed.is_empty() && self.owed.values().all(|o| matches!(*o.command, Command::AskPerson(_)))
    }

    /// Nothing follows from what a scope has come to: the lanes that ended need not be looked at again.
    pub(crate) fn looked_at(&mut self, scope: ScopeId) {
        let first = self.agenda.remove(&scope);
        self.thirsty.remove(&scope);
        if self.is_short(scope) {
            let waiting = if first { &mut self.thirsty } else { &mut self.starved };
            waiting.insert(scope);
        }
        let Some(place) = self.scopes.get_mut(scope as usize).filter(|_| !self.paused) else { return };
        if let At::In(node) = place.at
            && let Some(Work::Fan(fan)) = place.steps.get_mut(&node).map(|i| &mut i.work)
        {
            fan.looked_at = Hint(fan.news.len());
        }
    }

    /// A call that could be made and was not, after all was decided that can be: the budget is short.
    fn is_short(&self, scope: ScopeId) -> bool {
        let place = self.scope(scope);
        let At::In(node) = place.at else { return false };
        let Some(instance) = place.steps.get(&node).filter(|_| !self.paused && place.settled.is_none()) else {
            return false;
        };
        let calls = matches!(instance.work, Work::Fresh | Work::Answered(_) | Work::Received(_) | Work::Agent(_));
        calls && instance.commands().is_empty()
    }

    /// Something may have come back for those who wait for it.
    pub(crate) fn come_back(&mut self) {
        self.thirsty.append(&mut self.starved);
    }

    /// Something is left to decide: once a value is loaded, or in a further turn where one was not enough.
    pub fn has_decisions(&self) -> bool {
        let is_open = !self.agenda.is_empty() || !self.thirsty.is_empty();
        is_open && !self.paused
    }

    /// Commands that need somebody alive to perform them now.
    pub fn in_flight(&self) -> impl Iterator<Item = (CommandId, &Owed)> {
        self.owed.iter().filter(|(_, o)| o.command.is_active()).map(|(id, o)| (*id, o))
    }
}

impl Command {
    /// Needs a process that works on it; the others are waits that cost a row.
    pub fn is_active(&self) -> bool {
        match self {
            Command::CallModel { .. } | Command::CallTool { .. } | Command::StartRun(_) => true,
            Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) => false,
        }
    }
}

/// Equality of what is known; the hints of what to look at next do not count.
impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.opened == other.opened
            && self.seq == other.seq
            && self.at == other.at
            && (self.started_at, self.ended_at) == (other.started_at, other.ended_at)
            && (self.live_ms, self.live_from_ms) == (other.live_ms, other.live_from_ms)
            && self.scopes == other.scopes
            && self.owed == other.owed
            && self.dropped == other.dropped
            && self.next_command == other.next_command
            && (self.usage, self.lost, self.reserved) == (other.usage, other.lost, other.reserved)
            && (&self.allotted, self.calls) == (&other.allotted, other.calls)
            && (&self.artifacts, &self.savers) == (&other.artifacts, &other.savers)
            && self.undoable == other.undoable
            && self.effects == other.effects
            && self.sent == other.sent
            && (self.paused, self.cancels, self.recoveries) == (other.paused, other.cancels, other.recoveries)
            && self.ending == other.ending
            && self.closed == other.closed
            && self.completed_steps == other.completed_steps
            && self.tolerated == other.tolerated
            && self.deadlines == other.deadlines
            && self.order == other.order
            && self.open_scopes == other.open_scopes
    }
}
