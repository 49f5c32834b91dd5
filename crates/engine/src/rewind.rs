//! Going back: resume after a failure, retry from a step, fork.
//!
//! What the fold must forget is worked out here with the plan; `apply` then only carries it out.

use relais_plan::problem::nearest;
use relais_plan::{Budget, NodeId, Op};

use crate::apply::Corrupt;
use crate::command::*;
use crate::event::*;
use crate::program::Program;
use crate::run::*;

impl Event {
    /// Whether a run that has ended so goes on with this.
    pub fn reopens(&self, ended: RunStatus) -> bool {
        match self {
            Event::Signalled { signal, .. } => match signal {
                Signal::Resume(_) => !ended.is_success(),
                Signal::Rewound(_) => true,
                Signal::Cancel | Signal::Pause | Signal::Adopted | Signal::Sent { .. } => false,
            },
            Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Answered { .. } => false,
            Event::Branched { .. } | Event::Left(_) | Event::Received { .. } => false,
            Event::Settled { .. } | Event::Closed { .. } => false,
        }
    }
}

impl Event {
    /// Something has come of the work on the run. That it was taken over has not, nor has what nobody heard of since.
    pub(crate) fn gets_further(&self) -> bool {
        match self {
            Event::Answered { answer, .. } => !answer.is_uncertain(),
            Event::Signalled { signal, .. } => matches!(signal, Signal::Resume(_) | Signal::Rewound(_)),
            Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Branched { .. } => true,
            Event::Left(_) | Event::Received { .. } | Event::Settled { .. } | Event::Closed { .. } => true,
        }
    }
}

impl Run {
    /// Go on: after a pause, or from the first unfinished step of a run that ended.
    pub(crate) fn resumed(&mut self, resume: &Resume) -> Result<(), Corrupt> {
        self.paused = false;
        self.opened.budget.replace(&resume.budget);
        // A run that succeeded has nothing left to go on with.
        if self.closed.as_ref().is_some_and(|closed| !closed.status.is_success()) {
            (self.closed, self.ended_at, self.ending) = (None, None, None);
            self.cancels = 0;
            self.live_from_ms = self.live_ms;
            self.assume(resume);
            self.reopen(BODY, resume);
            self.unfinish_undone();
        }
        self.agenda = self.open_scopes.clone();
        Ok(())
    }

    /// A person's word stands for one call, the first that is uncertain; the others stay so.
    fn assume(&mut self, resume: &Resume) {
        let Some(value) = &resume.assume else { return };
        let instances = self.scopes.iter_mut().flat_map(|scope| scope.steps.values_mut());
        let broken = instances.filter(|i| i.is_broken());
        for instance in broken {
            if instance.work.assume(value) {
                // A direct call has its answer now; an agent goes on from its tool result.
                if matches!(instance.work, Work::Answered(_)) {
                    instance.status = StepStatus::Running;
                }
                return;
            }
        }
    }

    /// A scope that failed or was cancelled goes back to before the node that broke it.
    fn reopen(&mut self, scope: ScopeId, resume: &Resume) {
        let place = &mut self.scopes[scope as usize];
        if matches!(place.settled, Some((StepStatus::Completed | StepStatus::Skipped, _))) && scope != BODY {
            return;
        }
        place.settled = None;
        self.open_scopes.insert(scope);
        let place = &mut self.scopes[scope as usize];
        for instance in place.steps.values_mut().filter(|i| matches!(i.work, Work::Chose(_)) && i.is_broken()) {
            instance.status = StepStatus::Running;
        }
        if let At::Broken(node) = place.at {
            self.reopen_node(scope, node, resume);
        }
    }

    fn reopen_node(&mut self, scope: ScopeId, node: NodeId, resume: &Resume) {
        let inner = self.inner_scopes(scope, node);
        let place = &mut self.scopes[scope as usize];
        let Some(instance) = place.steps.get_mut(&node) else { return };
        instance.error = None;
        match &mut instance.work {
            Work::Fan(fan) if !fan.lanes.is_empty() => {
                fan.reopen();
                instance.status = StepStatus::Running;
                place.at = At::In(node);
                self.rearm(scope, node);
            }
            Work::Each(each) if each.items.is_some() || !each.bodies.is_empty() => {
                each.failed = None;
                each.pause = None;
                instance.status = StepStatus::Running;
                place.at = At::In(node);
                self.rearm(scope, node);
            }
            _ => {
                if instance.status != StepStatus::Running {
                    instance.retake(resume);
                }
                place.at = match &instance.work {
                    Work::Answered(_) => At::In(node),
                    _ => At::Before { node, jump: instance.before.jump },
                };
            }
        }
        for scope in inner {
            let broken = matches!(self.scope(scope).settled, Some((StepStatus::Failed | StepStatus::Cancelled, _)));
            if broken {
                self.reopen(scope, resume);
            }
        }
        self.count_open(scope, node);
    }

    /// A block that goes on has its whole time-out again.
    fn rearm(&mut self, scope: ScopeId, node: NodeId) {
        let live = self.live_ms;
        let Some(instance) = self.scopes[scope as usize].steps.get_mut(&node) else { return };
        instance.left_at = None;
        if let (Some(ms), None) = (instance.timeout_ms, instance.deadline) {
            instance.deadline = Some(live + ms);
            self.deadlines.insert((live + ms, scope, node));
        }
    }

    /// How many lanes or bodies of a block are open, after some were reopened or forgotten. It waits for all of them.
    fn count_open(&mut self, scope: ScopeId, node: NodeId) {
        let inner = self.inner_scopes(scope, node);
        for id in &inner {
            self.scopes[*id as usize].detached = false;
        }
        let open = inner.iter().filter(|s| self.scope(**s).settled.is_none()).count() as u32;
        match self.scopes[scope as usize].steps.get_mut(&node).map(|i| &mut i.work) {
            Some(Work::Fan(fan)) => fan.open = open,
            Some(Work::Each(each)) => each.open = open,
            _ => {}
        }
    }

    /// An undone step counts as unfinished: its sequence goes back to it.
    fn unfinish_undone(&mut self) {
        let undone: Vec<(ScopeId, NodeId)> =
            self.undoable.iter().filter(|u| u.undone).map(|u| (u.scope, u.node)).collect();
        self.undoable.retain(|u| !u.undone);
        for (scope, node) in undone {
            if self.instance(scope, node).is_some() && is_current(self, scope) {
                self.go_back(scope, node, &[]);
            }
        }
    }

    pub(crate) fn rewound(&mut self, rewind: &Rewind) -> Result<(), Corrupt> {
        if self.instance(rewind.scope, rewind.node).is_none() {
            return self.corrupt(format!("there is nothing to go back to at `{}`", rewind.path));
        }
        if let Some(opened) = &rewind.opened {
            self.opened = (**opened).clone();
            (self.usage, self.lost, self.reserved) = Default::default();
            // Whoever did it has paid for it.
            let kept = self.scopes.iter_mut().flat_map(|scope| scope.steps.values_mut());
            kept.for_each(|instance| instance.usage = Usage::default());
            self.started_at = self.at;
        }
        (self.closed, self.ended_at, self.ending) = (None, None, None);
        (self.cancels, self.paused) = (0, false);
        self.live_from_ms = self.live_ms;
        self.go_back(rewind.scope, rewind.node, &rewind.lanes);
        self.agenda = self.open_scopes.clone();
        Ok(())
    }

    /// Forgets a node and what came after it, here and in the scopes around it.
    fn go_back(&mut self, scope: ScopeId, node: NodeId, lanes: &[LaneReset]) {
        let Some(order) = self.instance(scope, node).map(|i| i.order) else { return };
        self.effects.retain(|done| done.order < order);
        self.forget_after(scope, node, true);
        let mut at = self.scope(scope).parent;
        let mut from = scope;
        while let Some((up, opener)) = at {
            if self.instance(up, opener).is_none() {
                break;
            }
            self.forget_after(up, opener, false);
            let reset = lanes.iter().find(|l| (l.scope, l.node) == (up, opener));
            self.reopen_block(up, opener, from, reset.map_or(&[], |l| &l.lanes));
            from = up;
            at = self.scope(up).parent;
        }
    }

    /// Everything entered after the node goes; with `itself` the node too, and the scope stands before it again.
    fn forget_after(&mut self, scope: ScopeId, node: NodeId, itself: bool) {
        let Some(target) = self.instance(scope, node) else { return };
        let (order, before) = (target.order, target.before.clone());
        let later: Vec<NodeId> = self
            .scope(scope)
            .steps
            .iter()
            .filter(|(id, i)| i.order > order || (itself && **id == node))
            .map(|(id, _)| *id)
            .collect();
        for id in later {
            for inner in self.inner_scopes(scope, id) {
                self.abandon(inner);
            }
            self.drop_node(scope, id);
        }
        let place = &mut self.scopes[scope as usize];
        place.settled = None;
        (place.wrote, place.visits, place.last) = (before.wrote, before.visits, before.last);
        for instance in place.steps.values_mut().filter(|i| matches!(i.work, Work::Chose(_)) && i.is_broken()) {
            instance.status = StepStatus::Running;
        }
        place.at = if itself { At::Before { node, jump: before.jump } } else { At::In(node) };
        self.undoable.retain(|u| u.scope != scope || u.order < order);
        self.open_scopes.insert(scope);
    }

    fn drop_node(&mut self, scope: ScopeId, node: NodeId) {
        let Some(instance) = self.scopes[scope as usize].steps.remove(&node) else { return };
        for id in instance.commands() {
            let Some(owed) = self.owed.remove(&id) else { continue };
            self.book_loss(id, &owed);
            if owed.command.is_active() {
                self.dropped.insert(id, owed);
            }
        }
        if let Some(due) = instance.deadline {
            self.deadlines.remove(&(due, scope, node));
        }
    }

    /// A scope whose opener is forgotten ends without a trace in what is known.
    fn abandon(&mut self, scope: ScopeId) {
        self.open_scopes.remove(&scope);
        self.agenda.remove(&scope);
        let nodes: Vec<NodeId> = self.scope(scope).steps.keys().copied().collect();
        for node in nodes {
            for inner in self.inner_scopes(scope, node) {
                self.abandon(inner);
            }
            self.drop_node(scope, node);
        }
        self.scopes[scope as usize].settled = Some((StepStatus::Cancelled, None));
        self.undoable.retain(|u| u.scope != scope);
    }

    /// A block around what runs again: its lane is open once more; lanes that depend on it, and later passes, go.
    fn reopen_block(&mut self, scope: ScopeId, node: NodeId, inner: ScopeId, dependents: &[u32]) {
        let number = self.scope(inner).number;
        let mut gone = Vec::new();
        let Some(instance) = self.scopes[scope as usize].steps.get_mut(&node) else { return };
        instance.status = StepStatus::Running;
        (instance.output, instance.error, instance.left_at) = (None, None, None);
        match &mut instance.work {
            Work::Fan(fan) => {
                gone.extend(dependents.iter().filter_map(|l| fan.lanes.remove(l)).filter_map(|l| l.scope));
                if let Some(lane) = fan.lanes.get_mut(&number) {
                    lane.status = None;
                }
                fan.reopen();
            }
            Work::Each(each) => {
                if each.items.is_none() {
                    gone.extend(each.bodies.split_off((number as usize + 1).min(each.bodies.len())));
                }
                (each.failed, each.ended, each.pause, each.paused_after) = (None, None, None, None);
            }
            _ => {}
        }
        for scope in gone {
            self.abandon(scope);
        }
        self.reopen_siblings(scope, node, inner);
        self.rearm(scope, node);
        self.count_open(scope, node);
    }

    /// What failed or was cancelled beside it runs again, too.
    fn reopen_siblings(&mut self, scope: ScopeId, node: NodeId, inner: ScopeId) {
        for sibling in self.inner_scopes(scope, node) {
            let broken = matches!(self.scope(sibling).settled, Some((StepStatus::Failed | StepStatus::Cancelled, _)));
            if sibling != inner && broken {
                self.reopen(sibling, &Resume::default());
            }
        }
    }
}

impl FanWork {
    /// Lanes that failed, were cancelled, or never began may run again.
    fn reopen(&mut self) {
        let stays = |lane: &LaneState| lane.status != Some(StepStatus::Skipped) || lane.scope.is_some();
        self.lanes.retain(|_, lane| stays(lane));
        for lane in
            self.lanes.values_mut().filter(|l| matches!(l.status, Some(StepStatus::Failed | StepStatus::Cancelled)))
        {
            lane.status = None;
        }
        self.failed = None;
        self.rescan = true;
        self.news.clear();
        self.looked_at = Hint::default();
        self.completed = self.lanes.values().filter(|l| l.status == Some(StepStatus::Completed)).count() as u32;
        self.open = 0;
    }
}

impl Instance {
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.status, StepStatus::Failed | StepStatus::Cancelled) && !self.tolerated
    }

    /// A failed step is to run again. Uncertain calls are done again or taken as answered, as the person said.
    fn retake(&mut self, resume: &Resume) {
        self.status = StepStatus::Pending;
        match &mut self.work {
            Work::Agent(agent) => agent.retake(resume),
            // Without a word from a person it stays uncertain: it must not be called again.
            Work::Answered(answer) if answer.is_uncertain() && !resume.redo => self.status = StepStatus::Running,
            _ => self.work = Work::Fresh,
        }
    }
}

impl AgentWork {
    fn retake(&mut self, resume: &Resume) {
        self.failed = None;
        self.forget_flight();
        for used in &mut self.uses {
            let uncertain = matches!(&used.state, UseState::Failed(f) if f.kind == ErrorKind::Uncertain);
            if uncertain && resume.redo {
                used.state = UseState::New;
            }
        }
    }
}

impl Answer {
    /// A `once` call of which nobody knows whether it happened.
    pub fn uncertain(tool: &str, arguments: &serde_json::Value) -> Answer {
        let arguments = crate::value::summary(arguments);
        let message = format!("`{tool}` was called with {arguments}, and whether it happened is not known");
        let body = Body::Failed(Failure::new(ErrorKind::Uncertain, message));
        Answer { body, usage: Usage { tool_calls: 1, ..Usage::default() }, ms: 0 }
    }

    pub fn is_uncertain(&self) -> bool {
        matches!(&self.body, Body::Failed(failure) if failure.kind == ErrorKind::Uncertain)
    }
}

/// The uncertain calls that keep a run from being resumed without a word.
pub fn uncertain(run: &Run) -> Vec<String> {
    if run.closed.as_ref().is_none_or(|closed| closed.status.is_success()) {
        return Vec::new();
    }
    let instances = run.scopes.iter().flat_map(|scope| scope.steps.values()).filter(|i| i.is_broken());
    instances.filter_map(|i| i.work.uncertain()).map(|failure| failure.message.clone()).collect()
}

impl Work {
    /// Takes a person's word for the result of the first uncertain call, if there is one.
    fn assume(&mut self, value: &serde_json::Value) -> bool {
        match self {
            Work::Answered(answer) if answer.is_uncertain() => {
                answer.body = Body::Returned { value: Stored::Value(value.clone()), artifacts: Vec::new() };
                true
            }
            Work::Agent(agent) => {
                let uncertain =
                    |u: &&mut Use| matches!(&u.state, UseState::Failed(f) if f.kind == ErrorKind::Uncertain);
                let first = agent.uses.iter_mut().find(uncertain);
                first.map(|used| used.state = UseState::Returned(Stored::Value(value.clone()))).is_some()
            }
            Work::Answered(_) | Work::Fresh | Work::Asked(_) | Work::Received(_) | Work::Resting(_) => false,
            Work::Rested | Work::Chose(_) | Work::Fan(_) | Work::Each(_) => false,
        }
    }

    /// The call of which nobody knows whether it happened.
    pub(crate) fn uncertain(&self) -> Option<&Failure> {
        let uncertain = |failure: &&Failure| failure.kind == ErrorKind::Uncertain;
        match self {
            Work::Answered(answer) => match &answer.body {
                Body::Failed(failure) => Some(failure).filter(uncertain),
                Body::Replied(_) | Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled => None,
            },
            Work::Agent(agent) => agent.uses.iter().find_map(|used| match &used.state {
                UseState::Failed(failure) => Some(failure).filter(uncertain),
                UseState::New | UseState::Approving(_) | UseState::Approved(_) => None,
                UseState::Asked(_) | UseState::Returned(_) => None,
            }),
            Work::Fresh | Work::Asked(_) | Work::Received(_) | Work::Resting(_) | Work::Rested => None,
            Work::Chose(_) | Work::Fan(_) | Work::Each(_) => None,
        }
    }
}

/// Finds a step by its path (`loop[7]/fetch`) and works out what must run again with it.
pub fn rewind(program: &Program, run: &Run, path: &str) -> Result<Rewind, String> {
    let (scope, node) = find(program, run, path)?;
    let mut lanes = Vec::new();
    let mut at = run.scope(scope).parent;
    let mut from = scope;
    while let Some((up, opener)) = at {
        if let Op::Fan(_) = &program.plan.node(opener).op {
            let number = run.scope(from).number;
            lanes.push(LaneReset { scope: up, node: opener, lanes: dependents(program, opener, number) });
        }
        from = up;
        at = run.scope(up).parent;
    }
    lanes.retain(|reset| !reset.lanes.is_empty());
    Ok(Rewind { path: path.to_owned(), scope, node, lanes, ..Rewind::default() })
}

/// The calls of `once` tools that would be made again.
pub fn repeated_effects<'r>(run: &'r Run, rewind: &Rewind) -> Vec<&'r Done> {
    let from = run.instance(rewind.scope, rewind.node).map_or(0, |i| i.order);
    run.effects.iter().filter(|done| done.order >= from).collect()
}

fn dependents(program: &Program, fan: NodeId, lane: u32) -> Vec<u32> {
    let mut found = std::collections::BTreeSet::new();
    let mut todo = vec![lane];
    while let Some(lane) = todo.pop() {
        for after in program.after(fan, lane) {
            if found.insert(*after) {
                todo.push(*after);
            }
        }
    }
    found.into_iter().collect()
}

/// Names that an error lists.
const NAMES_SHOWN: usize = 10;

fn find(program: &Program, run: &Run, path: &str) -> Result<(ScopeId, NodeId), String> {
    let all = steps_so_far(program, run);
    let key = |node: NodeId| program.plan.node(node).key.as_str();
    let fits = |(here, _, node): &&(String, ScopeId, NodeId)| here == path || key(*node) == path;
    let found: Vec<&(String, ScopeId, NodeId)> = all.iter().filter(fits).collect();
    match found.as_slice() {
        [] => {
            let names: Vec<&str> = all.iter().map(|(here, ..)| here.as_str()).collect();
            let keys = all.iter().map(|(.., node)| key(*node));
            Err(no_step(program, path, nearest(path, names.iter().copied().chain(keys)), &names))
        }
        [(_, scope, node)] => Ok((*scope, *node)),
        several => match several.iter().find(|(here, ..)| here == path) {
            Some((_, scope, node)) => Ok((*scope, *node)),
            None => {
                let names: Vec<&str> = several.iter().take(NAMES_SHOWN).map(|(here, ..)| here.as_str()).collect();
                Err(format!("`{path}` ran more than once; say which: {}", names.join(", ")))
            }
        },
    }
}

/// The steps that one can go back to, by their paths.
fn steps_so_far(program: &Program, run: &Run) -> Vec<(String, ScopeId, NodeId)> {
    let current = (0..run.scopes.len() as ScopeId).filter(|id| is_current(run, *id));
    let nodes = current.flat_map(|id| run.scope(id).steps.keys().map(move |node| (id, *node)));
    let shown = nodes.filter(|(_, node)| !program.plan.node(*node).hidden);
    shown.map(|(scope, node)| (step_path(program, run, scope, node), scope, node)).collect()
}

/// A step that is not there, or has not run: what is near it, else what there is.
fn no_step(program: &Program, path: &str, near: Option<&str>, names: &[&str]) -> String {
    let planned = program.plan.nodes.iter().any(|node| !node.hidden && node.key == path);
    let what = match planned {
        true => format!("the step `{path}` has not run in this run"),
        false => format!("no step `{path}` has run in this run"),
    };
    match (near.filter(|_| !planned), names) {
        (Some(near), _) => format!("{what}; did you mean `{near}`?"),
        (None, []) => format!("{what}; none has"),
        (None, names) => {
            let shown = &names[..names.len().min(NAMES_SHOWN)];
            let more = if names.len() > shown.len() { ", …" } else { "" };
            format!("{what}; those that have are: {}{more}", shown.join(", "))
        }
    }
}

/// Is a scope part of what the body has come to? Those of former attempts and passes are history, exits never were.
fn is_current(run: &Run, scope: ScopeId) -> bool {
    let mut at = scope;
    while let Some((up, opener)) = run.scope(at).parent {
        if !run.inner_scopes(up, opener).contains(&at) {
            return false;
        }
        at = up;
    }
    at == BODY
}

/// Where a step stands in a run: `loop[7]/fetch`, `tell/mail`.
pub fn step_path(program: &Program, run: &Run, scope: ScopeId, node: NodeId) -> String {
    let mut parts = vec![program.plan.node(node).key.clone()];
    let mut at = scope;
    while let Some((up, opener)) = run.scope(at).parent {
        let place = run.scope(at);
        let key = &program.plan.node(opener).key;
        match place.kind {
            ScopeKind::Item => parts.push(format!("{key}[{}]", place.number)),
            ScopeKind::Lane if !program.plan.node(opener).hidden => parts.push(key.clone()),
            ScopeKind::Exit => parts.push("on_exit".to_owned()),
            ScopeKind::Undo => parts.push(format!("undo:{key}")),
            ScopeKind::Body | ScopeKind::Lane => {}
        }
        at = up;
    }
    parts.reverse();
    parts.join("/")
}

trait Replace {
    fn replace(&mut self, other: &Budget);
}

impl Replace for Budget {
    fn replace(&mut self, other: &Budget) {
        self.usd_nanos = other.usd_nanos.or(self.usd_nanos);
        self.tokens = other.tokens.or(self.tokens);
        self.model_calls = other.model_calls.or(self.model_calls);
        self.tool_calls = other.tool_calls.or(self.tool_calls);
        self.time_ms = other.time_ms.or(self.time_ms);
    }
}

/// The journal of a fork: the other run's entries under a new identity, with nodes found again by their keys.
pub struct Translated {
    /// Up to the first of them that the other plan cannot have.
    pub entries: Vec<Entry>,
    /// Why it ends there: what the other plan lacks.
    pub lacks: Option<String>,
}

/// What one plan's journal would be with another plan.
pub fn translate(entries: &[Entry], from: &Program, to: &Program) -> Translated {
    let map: Vec<Option<NodeId>> = from.plan.nodes.iter().map(|n| same_node(to, n)).collect();
    let mut translated = Translated { entries: Vec::new(), lacks: None };
    for entry in entries {
        let mut kept = Entry { events: Vec::new(), ..entry.clone() };
        for event in &entry.events {
            match moved(event, &map, from, to) {
                Ok(event) => kept.events.push(event),
                Err(lacks) => {
                    translated.lacks = Some(lacks);
                    break;
                }
            }
        }
        translated.entries.push(kept);
        if translated.lacks.is_some() {
            break;
        }
    }
    translated
}

/// The event with the other plan's nodes, or what that plan lacks for it.
fn moved(event: &Event, map: &[Option<NodeId>], from: &Program, to: &Program) -> Result<Event, String> {
    let node = |id: &mut NodeId| -> Result<(), String> {
        let key = from.plan.nodes.get(*id as usize).map_or("?", |n| n.key.as_str());
        let there = map.get(*id as usize).copied().flatten();
        *id = there.ok_or_else(|| format!("the new definition has no step `{key}`"))?;
        Ok(())
    };
    let mut event = event.clone();
    match &mut event {
        Event::Entered { node: n, .. } | Event::Asked { node: n, .. } => node(n)?,
        Event::Branched { node: n, took, .. } => {
            let was = *n;
            node(n)?;
            match took {
                Took::Arm { to: Some(to), .. } => node(to)?,
                Took::Undo { node: undo, .. } => node(undo)?,
                Took::Lanes(lanes) | Took::Skipped(lanes) => same_lanes(from, was, to, *n, lanes)?,
                Took::Arm { to: None, .. } | Took::Items { .. } => {}
                Took::Bodies(_) | Took::Ended(_) | Took::Exit(_) => {}
            }
        }
        Event::Left(left) => {
            node(&mut left.node)?;
            left.to.as_mut().map(&node).transpose()?;
            left.undo.as_mut().map(&node).transpose()?;
        }
        Event::Opened(_) | Event::Answered { .. } | Event::Received { .. } | Event::Signalled { .. } => {}
        Event::Settled { .. } | Event::Closed { .. } => {}
    }
    Ok(event)
}

/// Lanes go by their numbers, so each must still be the one that it was.
fn same_lanes(from: &Program, was: NodeId, to: &Program, is: NodeId, lanes: &[u32]) -> Result<(), String> {
    let (Op::Fan(old), Op::Fan(new)) = (&from.plan.node(was).op, &to.plan.node(is).op) else { return Ok(()) };
    let key = |fan: &relais_plan::Fan, lane: u32| fan.lanes.get(lane as usize).map(|lane| lane.key.clone());
    match lanes.iter().find(|lane| key(old, **lane) != key(new, **lane)) {
        None => Ok(()),
        Some(lane) => {
            let (block, lane) = (&from.plan.node(was).key, key(old, *lane).unwrap_or_default());
            Err(format!("in the new definition `{lane}` is not where it was in `{block}`"))
        }
    }
}

fn same_node(to: &Program, node: &relais_plan::Node) -> Option<NodeId> {
    let same = |n: &relais_plan::Node| n.key == node.key && n.hidden == node.hidden && n.kind == node.kind;
    to.plan.nodes.iter().position(same).map(|id| id as NodeId)
}
