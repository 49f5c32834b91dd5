//! How each event changes what is known. Never evaluates, never decides; what cannot follow is `Corrupt`.
//!
//! Here the run and its scopes; one step is in `step`, an agent at work in `agent`.

mod agent;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use relais_plan::weight::weight;
use relais_plan::{Effect, NodeId};
use serde_json::Value;

use crate::book::Allotment;
use crate::command::*;
use crate::event::*;
use crate::run::*;

pub use agent::Verdict;

/// The journal says something that cannot have happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal is damaged at entry {seq}: {what}")]
pub struct Corrupt {
    pub seq: u64,
    pub what: String,
}

/// Signals kept for a wait that may come; beyond so many the oldest go, so that a sender cannot fill the memory.
const MAX_SENT: usize = 1_000;

type Applied = Result<(), Corrupt>;

/// Entries of a newer program may say what this one does not know; older formats will be lifted here.
fn readable(entry: &Entry) -> Applied {
    if entry.version <= FORMAT {
        return Ok(());
    }
    let what = format!("it has format {}, this program knows up to {FORMAT}; use a newer one", entry.version);
    Err(Corrupt { seq: entry.seq, what })
}

impl Run {
    pub fn fold(entries: &[Entry]) -> Result<Run, Corrupt> {
        let empty = || Corrupt { seq: 0, what: "it is empty".into() };
        let first = entries.first().ok_or_else(empty)?;
        let mut run = Run::open(first)?;
        for entry in &entries[1..] {
            run.append(entry)?;
        }
        Ok(run)
    }

    /// The first entry makes the run.
    pub fn open(entry: &Entry) -> Result<Run, Corrupt> {
        readable(entry)?;
        let Some(Event::Opened(opened)) = entry.events.first() else {
            return Err(Corrupt { seq: entry.seq, what: "it does not begin with `opened`".into() });
        };
        let mut run = Run::new((**opened).clone(), entry.at);
        run.seq = entry.seq;
        for event in &entry.events[1..] {
            run.apply(event)?;
        }
        Ok(run)
    }

    /// One more entry, as it comes from a store.
    pub fn append(&mut self, entry: &Entry) -> Applied {
        readable(entry)?;
        if entry.seq != self.seq + 1 {
            return Err(Corrupt { seq: entry.seq, what: format!("entry {} was expected", self.seq + 1) });
        }
        self.begin(entry.at, entry.events.first());
        for event in &entry.events {
            self.apply(event)?;
        }
        Ok(())
    }

    /// Begins the next entry: time moves on, and counts as lived unless the run was left alone meanwhile.
    pub fn begin(&mut self, at: Millis, first: Option<&Event>) {
        let idle = match first {
            Some(Event::Signalled { signal: Signal::Adopted | Signal::Resume(_) | Signal::Rewound(_), .. }) => true,
            _ => self.paused || self.waits_for_people(),
        };
        let gap = at.saturating_sub(self.at).max(0) as u64;
        if !idle {
            self.live_ms += gap;
        }
        self.at = self.at.max(at);
        self.seq += 1;
    }

    fn new(opened: Opened, at: Millis) -> Run {
        let mut run = Run {
            opened,
            seq: 1,
            at,
            started_at: at,
            ended_at: None,
            live_ms: 0,
            live_from_ms: 0,
            scopes: Vec::new(),
            owed: BTreeMap::new(),
            dropped: BTreeMap::new(),
            next_command: 1,
            usage: Usage::default(),
            lost: Reserve::default(),
            reserved: Reserve::default(),
            allotted: BTreeMap::new(),
            calls: Calls::default(),
            artifacts: IndexMap::new(),
            savers: IndexMap::new(),
            undoable: Vec::new(),
            effects: Vec::new(),
            sent: Vec::new(),
            paused: false,
            cancels: 0,
            recoveries: 0,
            ending: None,
            closed: None,
            completed_steps: 0,
            tolerated: Vec::new(),
            deadlines: BTreeSet::new(),
            order: 0,
            wrote_bytes: 0,
            open_scopes: BTreeSet::new(),
            agenda: BTreeSet::new(),
            starved: BTreeSet::new(),
            thirsty: BTreeSet::new(),
            stirred: true,
        };
        run.open_scope(ScopeKind::Body, None, 0);
        run
    }

    pub fn apply(&mut self, event: &Event) -> Applied {
        if event.gets_further() {
            self.recoveries = 0;
        }
        match event {
            Event::Opened(_) => self.corrupt("a second `opened`"),
            Event::Entered { scope, node, attempt, kept, timeout_ms } => {
                self.entered(*scope, *node, *attempt, *kept, *timeout_ms)
            }
            Event::Asked { id, scope, node, command } => self.asked(*id, *scope, *node, command),
            Event::Answered { id, answer } => self.answered(*id, answer),
            Event::Branched { scope, node, took } => self.branched(*scope, *node, took),
            Event::Left(left) => self.left(left),
            Event::Received { id, value, by } => self.received(*id, value, by),
            Event::Signalled { signal, .. } => self.signalled(signal),
            Event::Settled { scope, status, stopped, output, error } => {
                self.settled(*scope, *status, *stopped, output, error)
            }
            Event::Closed { status, output, error } => self.closed(*status, output, error),
        }
    }

    pub(crate) fn corrupt<T>(&self, what: impl Into<String>) -> Result<T, Corrupt> {
        Err(Corrupt { seq: self.seq, what: what.into() })
    }

    fn scope_mut(&mut self, id: ScopeId) -> Result<&mut Scope, Corrupt> {
        let seq = self.seq;
        self.scopes.get_mut(id as usize).ok_or_else(|| Corrupt { seq, what: format!("there is no scope {id}") })
    }

    pub(crate) fn instance_mut(&mut self, scope: ScopeId, node: NodeId) -> Result<&mut Instance, Corrupt> {
        let seq = self.seq;
        let what = || Corrupt { seq, what: format!("node {node} was never entered in scope {scope}") };
        self.scope_mut(scope)?.steps.get_mut(&node).map(|instance| &mut **instance).ok_or_else(what)
    }

    pub(crate) fn look_at(&mut self, scope: ScopeId) {
        self.agenda.insert(scope);
    }

    pub(crate) fn open_scope(&mut self, kind: ScopeKind, parent: Option<(ScopeId, NodeId)>, number: u32) -> ScopeId {
        let id = self.scopes.len() as ScopeId;
        self.scopes.push(Scope {
            kind,
            parent,
            number,
            at: At::Start,
            wrote: Arc::default(),
            last: None,
            steps: BTreeMap::new(),
            visits: Arc::default(),
            settled: None,
            detached: false,
        });
        self.open_scopes.insert(id);
        self.look_at(id);
        id
    }

    fn entered(&mut self, scope: ScopeId, node: NodeId, attempt: u32, kept: bool, timeout_ms: Option<u64>) -> Applied {
        self.order += 1;
        let (order, at, live) = (self.order, self.at, self.live_ms);
        let place = self.scope_mut(scope)?;
        if place.settled.is_some() {
            return self.corrupt(format!("node {node} entered in scope {scope}, which has ended"));
        }
        let jump = matches!(place.at, At::Before { jump: true, .. });
        let before = place.before(jump);
        if attempt == 0 {
            place.count_visit(node, jump);
        }
        let former = place.steps.remove(&node);
        let mut instance = Instance::fresh(order, at, live, before);
        instance.former = former.as_deref().and_then(Instance::latest);
        if let Some(former) = former.filter(|_| attempt > 0 || kept) {
            // What a loop wrote in its failed attempt is forgotten with it.
            if former.status == StepStatus::Running && !kept {
                place.wrote = former.before.wrote.clone();
            }
            instance.carry_over(*former, kept);
        }
        instance.attempt = attempt;
        instance.timeout_ms = timeout_ms;
        instance.deadline = timeout_ms.map(|ms| live + ms);
        let deadline = instance.deadline;
        place.steps.insert(node, Box::new(instance));
        place.at = At::In(node);
        if let Some(due) = deadline {
            self.deadlines.insert((due, scope, node));
        }
        self.look_at(scope);
        Ok(())
    }

    fn asked(&mut self, id: CommandId, scope: ScopeId, node: NodeId, command: &Command) -> Applied {
        if id != self.next_command {
            return self.corrupt(format!("command {id} asked, {} was expected", self.next_command));
        }
        self.next_command += 1;
        if matches!(command, Command::Sleep { retry: true, .. }) {
            self.drop_commands(scope, node);
            self.clear_deadline(scope, node)?;
        }
        let instance = self.instance_mut(scope, node)?;
        instance.ask(id, command);
        let asked_at = self.at;
        self.hold(scope, node, command);
        if let Command::StartRun(start) = command {
            self.allotted.insert(id, start.budget.less(&start.paid));
        }
        if matches!(command, Command::AskPerson(_)) {
            self.suspend(scope, node)?;
        }
        let owed = Owed { scope, node, command: Box::new(command.clone()), asked_at, yes: Vec::new() };
        self.owed.insert(id, owed);
        Ok(())
    }

    /// A time-out stands still while a person is asked.
    fn suspend(&mut self, scope: ScopeId, node: NodeId) -> Applied {
        let live = self.live_ms;
        let instance = self.instance_mut(scope, node)?;
        let Some(due) = instance.deadline.take() else { return Ok(()) };
        instance.suspended_ms = Some(due.saturating_sub(live));
        self.deadlines.remove(&(due, scope, node));
        Ok(())
    }

    fn unsuspend(&mut self, scope: ScopeId, node: NodeId) -> Applied {
        let still_asked = |o: &Owed| (o.scope, o.node) == (scope, node) && matches!(*o.command, Command::AskPerson(_));
        if self.owed.values().any(still_asked) {
            return Ok(());
        }
        let live = self.live_ms;
        let instance = self.instance_mut(scope, node)?;
        let Some(rest) = instance.suspended_ms.take() else { return Ok(()) };
        instance.deadline = Some(live + rest);
        self.deadlines.insert((live + rest, scope, node));
        Ok(())
    }

    /// Is this an answer that the run still takes, or at least keeps as a receipt?
    pub fn takes(&self, id: CommandId) -> bool {
        self.owed.contains_key(&id) || self.dropped.contains_key(&id)
    }

    fn answered(&mut self, id: CommandId, answer: &Answer) -> Applied {
        if let Some(receipt) = self.dropped.remove(&id) {
            self.book_receipt(&receipt, answer);
            return Ok(());
        }
        let Some(owed) = self.owed.remove(&id) else {
            return self.corrupt(format!("an answer to command {id}, which is not owed"));
        };
        self.book(id, &owed, answer);
        self.note_effect(&owed, answer);
        let (scope, node) = (owed.scope, owed.node);
        self.instance_mut(scope, node)?.answer(id, &owed.command, answer);
        if matches!(*owed.command, Command::AskPerson(_)) {
            self.unsuspend(scope, node)?;
        }
        self.look_at(scope);
        Ok(())
    }

    fn note_effect(&mut self, owed: &Owed, answer: &Answer) {
        let Body::Returned { artifacts, .. } = &answer.body else { return };
        for artifact in artifacts {
            self.artifacts.entry(artifact.name.clone()).or_default().push(artifact.clone());
            self.savers.entry(artifact.name.clone()).or_default().push((owed.scope, owed.node));
        }
        if let Command::CallTool { tool, effect: Effect::Once, .. } = &*owed.command {
            let done = Done { scope: owed.scope, node: owed.node, tool: tool.clone(), order: self.order };
            self.effects.push(done);
        }
    }

    fn received(&mut self, id: CommandId, value: &Value, by: &str) -> Applied {
        if id >= self.next_command {
            return self.corrupt(format!("something received for command {id}, which was never asked"));
        }
        if self.owed.get_mut(&id).is_some_and(|owed| !owed.settles(value, by)) {
            return Ok(());
        }
        // Somebody answered first, or nobody waits any more: what comes late changes nothing.
        let Some(owed) = self.owed.remove(&id) else { return Ok(()) };
        if let Command::Await(Awaiting::Signal(name)) = &*owed.command
            && let Some(at) = self.sent.iter().position(|(sent, _)| sent == name)
        {
            self.sent.remove(at);
        }
        self.instance_mut(owed.scope, owed.node)?.receive(id, &owed.command, value);
        self.unsuspend(owed.scope, owed.node)?;
        self.look_at(owed.scope);
        Ok(())
    }

    fn branched(&mut self, scope: ScopeId, node: NodeId, took: &Took) -> Applied {
        match took {
            Took::Arm { arm, to } => self.took_arm(scope, node, *arm, *to),
            Took::Lanes(lanes) => self.took_lanes(scope, node, lanes),
            Took::Skipped(lanes) => self.skipped_lanes(scope, node, lanes),
            Took::Items { items, count, truncated } => {
                let each = self.each_mut(scope, node)?;
                (each.items, each.count, each.truncated) = (Some(items.clone()), *count, *truncated);
                Ok(())
            }
            Took::Bodies(numbers) => self.took_bodies(scope, node, numbers),
            Took::Ended(by) => {
                self.each_mut(scope, node)?.ended = Some(*by);
                Ok(())
            }
            Took::Exit(number) => self.began_exit(*number),
            Took::Undo { scope, node } => self.began_undo(*scope, *node),
        }
    }

    fn took_arm(&mut self, scope: ScopeId, node: NodeId, arm: Option<u32>, to: Option<NodeId>) -> Applied {
        self.instance_mut(scope, node)?.work = Work::Chose(arm);
        if let Some(node) = to {
            self.scope_mut(scope)?.at = At::Before { node, jump: false };
        }
        self.look_at(scope);
        Ok(())
    }

    fn took_lanes(&mut self, scope: ScopeId, node: NodeId, lanes: &[u32]) -> Applied {
        for lane in lanes {
            let id = self.open_scope(ScopeKind::Lane, Some((scope, node)), *lane);
            let fan = self.fan_mut(scope, node)?;
            fan.lanes.insert(*lane, LaneState { scope: Some(id), status: None });
            fan.open += 1;
        }
        self.fan_mut(scope, node)?.rescan = false;
        Ok(())
    }

    fn skipped_lanes(&mut self, scope: ScopeId, node: NodeId, lanes: &[u32]) -> Applied {
        let fan = self.fan_mut(scope, node)?;
        fan.rescan = false;
        for lane in lanes {
            fan.lanes.insert(*lane, LaneState { scope: None, status: Some(StepStatus::Skipped) });
            fan.news.push(*lane);
        }
        self.look_at(scope);
        Ok(())
    }

    fn took_bodies(&mut self, scope: ScopeId, node: NodeId, numbers: &[u32]) -> Applied {
        for number in numbers {
            let id = self.open_scope(ScopeKind::Item, Some((scope, node)), *number);
            let each = self.each_mut(scope, node)?;
            each.bodies.truncate(*number as usize);
            each.bodies.push(id);
            each.open += 1;
        }
        Ok(())
    }

    fn began_exit(&mut self, number: u32) -> Applied {
        let id = self.open_scope(ScopeKind::Exit, Some((BODY, 0)), number);
        let Some(ending) = &mut self.ending else { return self.corrupt("an exit step before the body ended") };
        ending.exits = number + 1;
        ending.at_work = Some(id);
        Ok(())
    }

    fn began_undo(&mut self, scope: ScopeId, node: NodeId) -> Applied {
        let id = self.open_scope(ScopeKind::Undo, Some((scope, node)), node);
        let Some(ending) = &mut self.ending else { return self.corrupt("an undo step before the body ended") };
        ending.at_work = Some(id);
        let last = self.undoable.iter_mut().rev().find(|u| !u.undone && (u.scope, u.node) == (scope, node));
        match last {
            Some(undoable) => undoable.undone = true,
            None => return self.corrupt(format!("nothing to undo at node {node}")),
        }
        Ok(())
    }

    pub(crate) fn fan_mut(&mut self, scope: ScopeId, node: NodeId) -> Result<&mut FanWork, Corrupt> {
        let seq = self.seq;
        let instance = self.instance_mut(scope, node)?;
        if !matches!(instance.work, Work::Fan(_)) {
            instance.work = Work::Fan(FanWork::default());
        }
        match &mut instance.work {
            Work::Fan(fan) => Ok(fan),
            _ => Err(Corrupt { seq, what: format!("node {node} has no lanes") }),
        }
    }

    pub(crate) fn each_mut(&mut self, scope: ScopeId, node: NodeId) -> Result<&mut EachWork, Corrupt> {
        let seq = self.seq;
        let instance = self.instance_mut(scope, node)?;
        if !matches!(instance.work, Work::Each(_)) {
            instance.work = Work::Each(EachWork::default());
        }
        match &mut instance.work {
            Work::Each(each) => Ok(each),
            _ => Err(Corrupt { seq, what: format!("node {node} has no bodies") }),
        }
    }

    fn left(&mut self, left: &Left) -> Applied {
        self.order += 1;
        let (order, at) = (self.order, self.at);
        self.drop_commands(left.scope, left.node);
        let entered = self.instance(left.scope, left.node).is_some_and(|i| i.status == StepStatus::Running);
        if !entered {
            self.never_entered(left.scope, left.node)?;
        }
        self.detach_rest(left);
        self.note_let_pass(left);
        self.clear_deadline(left.scope, left.node)?;
        let instance = self.instance_mut(left.scope, left.node)?;
        instance.leave(left, at);
        let entered = instance.order;
        self.merge_vars(left)?;
        let place = self.scope_mut(left.scope)?;
        let is_block =
            matches!(place.at, At::In(node) | At::Before { node, .. } | At::Broken(node) if node != left.node);
        let yields = place.last.filter(|(_, at)| *at > entered).map(|(node, _)| node);
        if let Some(instance) = place.steps.get_mut(&left.node).filter(|i| matches!(i.work, Work::Chose(_))) {
            instance.yields = yields;
        }
        place.move_on(left, order, is_block);
        self.count(left, order, entered);
        self.look_at(left.scope);
        Ok(())
    }

    /// A step that is skipped or trips its limit ends without having begun.
    fn never_entered(&mut self, scope: ScopeId, node: NodeId) -> Applied {
        let (order, at, live) = (self.order, self.at, self.live_ms);
        let place = self.scope_mut(scope)?;
        let before = place.before(matches!(place.at, At::Before { jump: true, .. }));
        place.steps.insert(node, Box::new(Instance::fresh(order, at, live, before)));
        Ok(())
    }

    /// Lanes that a completed block did not wait for belong to the run from now on.
    fn detach_rest(&mut self, left: &Left) {
        if left.status != StepStatus::Completed {
            return;
        }
        for inner in self.inner_scopes(left.scope, left.node) {
            let scope = &mut self.scopes[inner as usize];
            scope.detached |= scope.settled.is_none();
        }
    }

    /// The failed lanes and items of a block that completes all the same: its policy let them pass.
    fn note_let_pass(&mut self, left: &Left) {
        if left.status != StepStatus::Completed {
            return;
        }
        for inner in self.inner_scopes(left.scope, left.node) {
            let scope = self.scope(inner);
            if let (Some((StepStatus::Failed, _)), At::Broken(node)) = (&scope.settled, scope.at) {
                self.tolerated.push((inner, node));
            }
        }
    }

    fn clear_deadline(&mut self, scope: ScopeId, node: NodeId) -> Applied {
        let instance = self.instance_mut(scope, node)?;
        instance.suspended_ms = None;
        if let Some(due) = instance.deadline.take() {
            self.deadlines.remove(&(due, scope, node));
        }
        Ok(())
    }

    /// Variables that lanes wrote reach the scope at the join, in lane order; the node's own come last.
    fn merge_vars(&mut self, left: &Left) -> Applied {
        let mut vars = Variables::new();
        if left.status == StepStatus::Completed {
            for scope in self.inner_scopes(left.scope, left.node) {
                let completed = matches!(self.scope(scope).settled, Some((StepStatus::Completed, _)));
                if !completed {
                    continue;
                }
                let wrote = self.scope(scope).wrote.clone();
                vars.extend(wrote.iter().map(|(k, v)| (k.clone(), v.clone())));
            }
        }
        self.wrote_bytes += left.vars.values().map(|value| weight(value) as u64).sum::<u64>();
        vars.extend(left.vars.iter().map(|(name, value)| (name.clone(), Arc::new(value.clone()))));
        if !vars.is_empty() {
            Arc::make_mut(&mut self.scope_mut(left.scope)?.wrote).extend(vars);
        }
        Ok(())
    }

    /// The scopes that a block opened, in order.
    pub(crate) fn inner_scopes(&self, scope: ScopeId, node: NodeId) -> Vec<ScopeId> {
        match self.instance(scope, node).map(|i| &i.work) {
            Some(Work::Fan(fan)) => fan.lanes.values().filter_map(|l| l.scope).collect(),
            Some(Work::Each(each)) => each.bodies.clone(),
            _ => Vec::new(),
        }
    }

    fn count(&mut self, left: &Left, order: u64, entered: u64) {
        if left.tolerated {
            self.tolerated.push((left.scope, left.node));
        }
        if left.status != StepStatus::Completed {
            return;
        }
        self.completed_steps += 1;
        if let Some(undo) = left.undo {
            let done = Undoable { scope: left.scope, node: left.node, undo, order: order.max(entered), undone: false };
            self.undoable.push(done);
        }
    }

    /// What a node that has ended asked for is no longer owed; a late answer is only a receipt.
    fn drop_commands(&mut self, scope: ScopeId, node: NodeId) {
        let mine = self.instance(scope, node).map(Instance::commands).unwrap_or_default();
        for id in mine {
            let Some(owed) = self.owed.remove(&id) else { continue };
            self.book_loss(id, &owed);
            if let Ok(instance) = self.instance_mut(scope, node) {
                instance.give_up(id, &owed.command);
            }
            if owed.command.is_active() {
                self.dropped.insert(id, owed);
            }
        }
    }

    fn settled(
        &mut self,
        scope: ScopeId,
        status: StepStatus,
        stopped: bool,
        output: &Option<Stored>,
        error: &Option<Failure>,
    ) -> Applied {
        let place = self.scope_mut(scope)?;
        if place.settled.is_some() {
            return self.corrupt(format!("scope {scope} ended twice"));
        }
        place.settled = Some((status, error.clone()));
        let (kind, parent, number, detached) = (place.kind, place.parent, place.number, place.detached);
        self.open_scopes.remove(&scope);
        self.agenda.remove(&scope);
        self.come_back();
        self.stirred = true;
        match (kind, parent) {
            (ScopeKind::Body, _) => {
                let (output, error) = (output.clone(), error.clone());
                self.ending = Some(Ending { status, stopped, output, error, exits: 0, at_work: None });
            }
            (ScopeKind::Exit | ScopeKind::Undo, _) => {
                if let Some(ending) = &mut self.ending {
                    ending.at_work = None;
                }
            }
            (ScopeKind::Lane, Some((up, node))) if !detached => self.lane_settled(up, node, number, status)?,
            (ScopeKind::Item, Some((up, node))) => self.body_settled(up, node, number, status)?,
            (ScopeKind::Lane | ScopeKind::Item, _) => {}
        }
        Ok(())
    }

    fn lane_settled(&mut self, scope: ScopeId, node: NodeId, lane: u32, status: StepStatus) -> Applied {
        let fan = self.fan_mut(scope, node)?;
        if let Some(state) = fan.lanes.get_mut(&lane) {
            state.status = Some(status);
        }
        fan.open = fan.open.saturating_sub(1);
        fan.completed += u32::from(status == StepStatus::Completed);
        if status == StepStatus::Failed {
            fan.failed.get_or_insert(lane);
        }
        fan.news.push(lane);
        self.look_at(scope);
        Ok(())
    }

    fn body_settled(&mut self, scope: ScopeId, node: NodeId, number: u32, status: StepStatus) -> Applied {
        // Passes follow one another, so what one wrote is there for the next.
        let completed = status == StepStatus::Completed;
        let body = self.each_mut(scope, node)?.bodies.get(number as usize).copied();
        let wrote = body.map(|body| self.scope(body).wrote.clone());
        if let Some(wrote) = wrote.filter(|w| completed && !w.is_empty()) {
            Arc::make_mut(&mut self.scope_mut(scope)?.wrote).extend((*wrote).clone());
        }
        let each = self.each_mut(scope, node)?;
        each.open = each.open.saturating_sub(1);
        if status == StepStatus::Failed {
            each.failed.get_or_insert(number);
        }
        self.look_at(scope);
        Ok(())
    }

    fn closed(&mut self, status: RunStatus, output: &Option<Stored>, error: &Option<Failure>) -> Applied {
        if self.closed.is_some() {
            return self.corrupt("it was closed twice");
        }
        self.closed = Some(Closing { status, output: output.clone(), error: error.clone() });
        self.ended_at = Some(self.at);
        self.deadlines.clear();
        Ok(())
    }

    fn signalled(&mut self, signal: &Signal) -> Applied {
        self.stirred = true;
        match signal {
            Signal::Cancel => self.cancels += 1,
            Signal::Pause => self.paused = true,
            Signal::Resume(resume) => self.resumed(resume)?,
            Signal::Adopted => {
                self.recoveries += 1;
                self.book_interrupted();
            }
            Signal::Rewound(rewind) => self.rewound(rewind)?,
            Signal::Sent { name, value } => self.sent_signal(name, value),
        }
        Ok(())
    }

    fn sent_signal(&mut self, name: &str, value: &Value) {
        if self.sent.len() >= MAX_SENT {
            self.sent.remove(0);
        }
        self.sent.push((name.to_owned(), value.clone()));
        let waits = |o: &&Owed| matches!(&*o.command, Command::Await(Awaiting::Signal(n)) if n == name);
        if let Some(scope) = self.owed.values().find(waits).map(|o| o.scope) {
            self.look_at(scope);
        }
    }
}

impl Scope {
    fn before(&self, jump: bool) -> Before {
        Before { wrote: self.wrote.clone(), visits: self.visits.clone(), last: self.last, jump }
    }

    /// A cycle that is entered from outside counts from one again.
    fn count_visit(&mut self, node: NodeId, jump: bool) {
        let ran = self.ran(node);
        if jump || self.visits.contains_key(&node) {
            let count = if jump { ran + 1 } else { 1 };
            Arc::make_mut(&mut self.visits).insert(node, count);
        }
    }

    /// How often a node has run in its present cycle.
    pub(crate) fn ran(&self, node: NodeId) -> u32 {
        let before = self.steps.get(&node).is_some_and(|i| i.status != StepStatus::Skipped);
        self.visits.get(&node).copied().unwrap_or(u32::from(before))
    }

    fn move_on(&mut self, left: &Left, order: u64, is_block: bool) {
        let steers = left.output.is_none() && self.steps.get(&left.node).is_some_and(|step| step.only_steers());
        match left.status {
            StepStatus::Completed if steers => {}
            StepStatus::Completed => self.last = Some((left.node, order)),
            StepStatus::Failed if left.tolerated && left.output.is_some() => self.last = Some((left.node, order)),
            _ => {}
        }
        let broken = matches!(left.status, StepStatus::Failed | StepStatus::Cancelled) && !left.tolerated;
        // An enclosing if or switch that ends together with its last step does not move control a second time.
        if broken {
            if !is_block {
                self.at = At::Broken(left.node);
            }
            return;
        }
        self.at = match left.to {
            Some(node) => At::Before { node, jump: left.jump },
            None => At::End,
        };
    }
}
