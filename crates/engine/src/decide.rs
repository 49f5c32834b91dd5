//! The turn: what follows from what is known, until something outside must happen first.
//!
//! Every decision is an event that is applied at once, so the live state and the fold are made by the same code.
//! Nothing here changes a run except through `apply`.

use std::collections::HashMap;

use relais_plan::expr::EvalError;
use relais_plan::{Effect, Expr, NodeId, OnError, Op, Template};
use serde_json::{Map, Value};

use crate::apply::Corrupt;
use crate::command::*;
use crate::event::*;
use crate::names::View;
use crate::program::Program;
use crate::run::*;

/// What a turn may know besides the run.
pub struct Context<'a> {
    pub program: &'a Program,
    /// Blobs loaded so far, parsed.
    pub values: &'a Values,
    pub catalog: &'a dyn Catalog,
}

pub type Values = HashMap<String, Value>;

/// What the performer knows about tools and models.
pub trait Catalog {
    fn effect(&self, tool: &str, arguments: &Value) -> Effect;
    /// Prices and sizes of a model, where known.
    fn model(&self, model: &str) -> ModelFacts;
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelFacts {
    pub context_tokens: Option<u64>,
    pub prompt_nanos: u64,
    pub completion_nanos: u64,
}

#[derive(Debug, Default)]
pub struct Turn {
    /// What goes into the journal as one entry; empty means that nothing happened.
    pub events: Vec<Event>,
    /// Values that must be loaded before the run can go on.
    pub loads: Vec<String>,
    /// Values too large for the journal; to be stored before the entry is.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// What blobs and variables come to, about.
    bytes: usize,
}

/// Decisions in one turn, so that no entry outgrows its row, and other runs and a cancel get their word after some
/// hundredths of a second. Whoever drives the run takes another turn while it [`Run::has_decisions`]; only long loops of
/// steps that never wait come to that.
const MAX_DECISIONS: usize = 10_000;
/// The same for what the decisions of one turn wrote: it is all in memory until the turn is in the journal.
const MAX_TURN_BYTES: usize = 16 * 1024 * 1024;

/// Takes in what came from outside and decides everything that follows from it.
pub fn turn(ctx: &Context<'_>, run: &mut Run, at: Millis, inputs: Vec<Event>) -> Result<Turn, Corrupt> {
    let clock = (run.at, run.live_ms, run.seq);
    run.begin(at, inputs.first());
    let mut turn = Turn::default();
    turn.take(run, inputs)?;
    if run.closed.is_none() {
        decide_all(ctx, run, &mut turn)?;
    }
    if turn.events.is_empty() {
        (run.at, run.live_ms, run.seq) = clock;
    }
    Ok(turn)
}

/// Goes on with a turn whose values have been loaded meanwhile; still the same entry.
pub fn turn_on(ctx: &Context<'_>, run: &mut Run, at: Millis, mut former: Turn) -> Result<Turn, Corrupt> {
    if former.events.is_empty() {
        return turn(ctx, run, at, Vec::new());
    }
    former.loads.clear();
    if run.closed.is_none() {
        decide_all(ctx, run, &mut former)?;
    }
    Ok(former)
}

/// When a time-out fires next, if nothing else happens. None while time-outs stand still: the run is paused, or waits
/// for people alone.
pub fn next_deadline(program: &Program, run: &Run) -> Option<Millis> {
    let whole = program.plan.limits.timeout_ms.filter(|_| run.ending.is_none());
    let whole = whole.map(|ms| run.at + (run.live_from_ms + ms).saturating_sub(run.live_ms) as Millis);
    if run.paused || run.closed.is_some() || run.waits_for_people() {
        return None;
    }
    whole.into_iter().chain(run.next_deadline()).min()
}

impl Turn {
    fn take(&mut self, run: &mut Run, events: Vec<Event>) -> Result<(), Corrupt> {
        for event in events {
            let before = run.wrote_bytes;
            run.apply(&event)?;
            self.bytes += (run.wrote_bytes - before) as usize;
            self.events.push(event);
        }
        Ok(())
    }
}

/// What one decision came to.
pub(crate) enum Decided {
    Events(Vec<Event>),
    Nothing,
    Load(String),
}

fn decide_all(ctx: &Context<'_>, run: &mut Run, turn: &mut Turn) -> Result<(), Corrupt> {
    let mut blocked: Vec<ScopeId> = Vec::new();
    for _ in 0..MAX_DECISIONS {
        let (decided, scope) = next_decision(ctx, run);
        match decided {
            Decided::Events(mut events) => {
                externalise(ctx, &mut events, turn);
                turn.take(run, events)?;
            }
            Decided::Load(hash) => {
                if !turn.loads.contains(&hash) {
                    turn.loads.push(hash);
                }
                // What the run as a whole needs comes before anything else.
                let Some(scope) = scope else { break };
                blocked.push(scope);
                run.agenda.remove(&scope);
                run.thirsty.remove(&scope);
            }
            Decided::Nothing if scope.is_none() && run.agenda.is_empty() && run.thirsty.is_empty() => break,
            Decided::Nothing => forget(run, scope),
        }
        if run.closed.is_some() || turn.bytes > MAX_TURN_BYTES {
            break;
        }
    }
    // A scope that waits for a value is looked at again when it is there.
    run.agenda.extend(blocked);
    Ok(())
}

fn forget(run: &mut Run, scope: Option<ScopeId>) {
    match scope {
        Some(scope) => run.looked_at(scope),
        None => run.stirred = false,
    }
}

/// The run as a whole first (signals, time-outs, the end), then scope by scope.
fn next_decision(ctx: &Context<'_>, run: &Run) -> (Decided, Option<ScopeId>) {
    if !run.paused
        && let Some((due, scope, node)) = run.deadlines.first().copied()
        && due <= run.live_ms
    {
        return (timed_out(ctx, run, scope, node), None);
    }
    if let Some(events) = crate::ending::run_timed_out(ctx, run) {
        return (Decided::Events(events), None);
    }
    for end in [crate::ending::crashed, crate::ending::outgrown] {
        let decided = end(ctx, run);
        if !matches!(decided, Decided::Nothing) {
            return (decided, None);
        }
    }
    if run.stirred {
        let events = crate::ending::decide(ctx, run);
        if !matches!(events, Decided::Nothing) {
            return (events, None);
        }
    }
    // Who is short of budget comes last: what others do may leave something.
    let next = run.agenda.first().or_else(|| run.thirsty.first());
    let Some(scope) = next.copied() else { return (Decided::Nothing, None) };
    (decide_scope(ctx, run, scope), Some(scope))
}

fn timed_out(ctx: &Context<'_>, run: &Run, scope: ScopeId, node: NodeId) -> Decided {
    let limit = run.instance(scope, node).and_then(|i| i.timeout_ms).unwrap_or(0);
    let key = &ctx.program.plan.node(node).key;
    let message = format!("step `{key}` did not end within {}", relais_plan::time::format_duration(limit));
    let uncertain = run.instance(scope, node).is_some_and(|i| crate::agent::has_once_in_flight(run, i));
    let failure = match uncertain {
        true => Failure::new(
            ErrorKind::Uncertain,
            format!("{message}, and a call that must not be made twice was under way"),
        ),
        false => Failure::new(ErrorKind::Timeout, message),
    };
    decided(Step { ctx, run, scope, node }.fail(failure, Again::Allowed))
}

fn decide_scope(ctx: &Context<'_>, run: &Run, scope: ScopeId) -> Decided {
    let place = run.scope(scope);
    if place.settled.is_some() {
        return Decided::Nothing;
    }
    let decided = match place.at {
        At::Start => match entry_of(ctx, run, scope) {
            Some(node) => before(Step { ctx, run, scope, node }, false),
            None => settle(ctx, run, scope),
        },
        At::Before { node, jump } => before(Step { ctx, run, scope, node }, jump),
        At::In(node) => inside(Step { ctx, run, scope, node }),
        At::Broken(node) => Ok(broken(run, scope, node)),
        At::End => settle(ctx, run, scope),
    };
    self::decided(decided)
}

fn decided(events: Events) -> Decided {
    match events {
        Ok(events) if events.is_empty() => Decided::Nothing,
        Ok(events) => Decided::Events(events),
        Err(hash) => Decided::Load(hash.0),
    }
}

/// The first node of a scope.
fn entry_of(ctx: &Context<'_>, run: &Run, scope: ScopeId) -> Option<NodeId> {
    let place = run.scope(scope);
    let plan = &ctx.program.plan;
    match (place.kind, place.parent) {
        (ScopeKind::Body, _) => plan.entry,
        (ScopeKind::Exit, _) => plan.exits.get(place.number as usize)?.entry,
        (ScopeKind::Undo, Some((_, node))) => plan.node(node).undo,
        (ScopeKind::Lane | ScopeKind::Item, Some((_, node))) => match &plan.node(node).op {
            Op::Fan(fan) => fan.lanes.get(place.number as usize)?.entry,
            Op::Each(each) => each.body,
            Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => None,
        },
        (ScopeKind::Undo | ScopeKind::Lane | ScopeKind::Item, None) => None,
    }
}

/// A value must be loaded before this can be decided.
pub(crate) struct NotLoaded(pub String);

pub(crate) type Events = Result<Vec<Event>, NotLoaded>;

/// What an evaluation came to, when it did not come to a value.
pub(crate) enum Unready {
    Load(String),
    Fail(Failure),
}

impl From<EvalError> for Unready {
    fn from(error: EvalError) -> Unready {
        match error {
            EvalError::Load(hash) => Unready::Load(hash),
            EvalError::Reference(message) => Unready::Fail(Failure::new(ErrorKind::Reference, message)),
            EvalError::Type(message) => Unready::Fail(Failure::new(ErrorKind::Schema, message)),
            EvalError::Limit(message) => Unready::Fail(Failure::new(ErrorKind::Limit, message)),
        }
    }
}

/// May a failure be tried again, if the step's `retry` says so?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Allowed,
    Never,
}

/// One node in one scope: where most decisions are taken.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub ctx: &'a Context<'a>,
    pub run: &'a Run,
    pub scope: ScopeId,
    pub node: NodeId,
}

impl<'a> Step<'a> {
    pub fn plan(&self) -> &'a relais_plan::Node {
        self.ctx.program.plan.node(self.node)
    }

    pub fn instance(&self) -> Option<&'a Instance> {
        self.run.instance(self.scope, self.node)
    }

    pub fn view(&self) -> View<'a> {
        View { ctx: self.ctx, run: self.run, scope: self.scope, node: Some(self.node), event: None, own: None }
    }

    pub fn render(&self, template: &Template) -> Result<Value, Unready> {
        Ok(template.render(&self.view())?)
    }

    pub fn test(&self, expr: &Expr) -> Result<bool, Unready> {
        Ok(expr.test(&self.view())?)
    }

    pub fn ask(&self, command: Command) -> Event {
        let id = self.run.next_command;
        Event::Asked { id, scope: self.scope, node: self.node, command: Box::new(command) }
    }

    /// The node has done its work.
    pub fn complete(&self, output: Option<Stored>, text: Option<String>) -> Events {
        self.complete_to(output, text, self.plan().next, false)
    }

    pub fn complete_to(&self, output: Option<Stored>, text: Option<String>, to: Option<NodeId>, jump: bool) -> Events {
        let vars = match self.assigned(output.as_ref()) {
            Ok(vars) => vars,
            Err(unready) => return self.unready(unready),
        };
        let mut left = Left::new(self.scope, self.node, StepStatus::Completed);
        // A `set` gives what it wrote; other steps that write have an output of their own.
        let writes = !vars.is_empty() && matches!(self.plan().op, Op::Choose { .. });
        let output = output.or_else(|| writes.then(|| Stored::Value(Value::Object(vars.clone()))));
        (left.output, left.text, left.vars) = (output, text, vars);
        left.undo = self.plan().undo;
        Ok(self.leave(left, to, jump))
    }

    fn assigned(&self, own: Option<&Stored>) -> Result<Map<String, Value>, Unready> {
        let view = View { own, ..self.view() };
        let mut vars = Map::new();
        for (name, template) in &self.plan().assign {
            vars.insert(name.clone(), template.render(&view)?);
        }
        Ok(vars)
    }

    /// The node ends, and with it every if or switch that control walks out of.
    pub fn leave(&self, mut left: Left, to: Option<NodeId>, jump: bool) -> Vec<Event> {
        (left.to, left.jump) = (to, jump);
        let mut events = vec![Event::Left(Box::new(left))];
        let mut at = self.plan().inside;
        while let Some(block) = at {
            if to.is_some_and(|to| self.ctx.program.is_inside(to, block)) {
                break;
            }
            let mut left = Left::new(self.scope, block, StepStatus::Completed);
            (left.to, left.jump) = (to, jump);
            left.undo = self.ctx.program.plan.node(block).undo;
            events.push(Event::Left(Box::new(left)));
            at = self.ctx.program.plan.node(block).inside;
        }
        events
    }

    pub fn unready(&self, unready: Unready) -> Events {
        match unready {
            Unready::Load(hash) => Err(NotLoaded(hash)),
            Unready::Fail(failure) => self.fail(failure, Again::Never),
        }
    }

    /// The node has failed: what it opened ends; then another try, a policy, or the end of its scope.
    pub fn fail(&self, failure: Failure, again: Again) -> Events {
        let mut events = Vec::new();
        cancel_inner(self.ctx, self.run, self.scope, self.node, &mut events);
        // What was interrupted inside and must not happen twice is not tried again without a person's word.
        let again = if self.interrupts_once() { Again::Never } else { again };
        if again == Again::Allowed && self.may_retry(&failure) {
            events.push(self.ask(Command::Sleep { until: self.retry_at(), retry: true }));
            return Ok(events);
        }
        let mut left = Left::new(self.scope, self.node, StepStatus::Failed);
        left.error = Some(failure);
        match &self.plan().on_error {
            OnError::Fail => events.extend(self.break_scope(left)),
            OnError::Continue => events.extend(self.tolerate(left, self.plan().next, false)),
            OnError::Goto(node) => events.extend(self.tolerate(left, Some(*node), true)),
            OnError::Value(template) => match self.render(template) {
                Ok(value) => {
                    left.output = Some(Stored::Value(value));
                    events.extend(self.tolerate(left, self.plan().next, false));
                }
                Err(Unready::Load(hash)) => return Err(NotLoaded(hash)),
                Err(Unready::Fail(_)) => events.extend(self.break_scope(left)),
            },
        }
        Ok(events)
    }

    fn tolerate(&self, mut left: Left, to: Option<NodeId>, jump: bool) -> Vec<Event> {
        left.tolerated = true;
        self.leave(left, to, jump)
    }

    /// The failure reaches the scope's end; enclosing ifs and switches fail with it.
    fn break_scope(&self, left: Left) -> Vec<Event> {
        let (status, error) = (left.status, left.error.clone());
        let mut events = vec![Event::Left(Box::new(left))];
        let mut at = self.plan().inside;
        while let Some(block) = at {
            let mut left = Left::new(self.scope, block, status);
            left.error = error.clone();
            events.push(Event::Left(Box::new(left)));
            at = self.ctx.program.plan.node(block).inside;
        }
        events
    }

    fn interrupts_once(&self) -> bool {
        let mut todo = self.run.inner_scopes(self.scope, self.node);
        while let Some(scope) = todo.pop() {
            let place = self.run.scope(scope);
            let (At::In(node) | At::Broken(node)) = place.at else { continue };
            let Some(instance) = place.steps.get(&node).filter(|_| !place.detached) else { continue };
            if crate::agent::has_once_in_flight(self.run, instance) || instance.work.uncertain().is_some() {
                return true;
            }
            todo.extend(self.run.inner_scopes(scope, node));
        }
        false
    }

    fn may_retry(&self, failure: &Failure) -> bool {
        let retry = &self.plan().retry;
        let retries = self.instance().map_or(0, |i| i.retries);
        if retries >= retry.max_attempts || self.run.cancels > 0 {
            return false;
        }
        let never = [ErrorKind::Refused, ErrorKind::Config, ErrorKind::Budget, ErrorKind::Loop];
        let never =
            never.contains(&failure.kind) || matches!(failure.kind, ErrorKind::Uncertain | ErrorKind::Cancelled);
        let excluded = retry.never.iter().any(|on| matches_failure(on, failure));
        !never && !excluded && (retry.on.is_empty() || retry.on.iter().any(|on| matches_failure(on, failure)))
    }

    /// When the next try may begin: the delay and up to a tenth of jitter from the key.
    fn retry_at(&self) -> Millis {
        let delay = retry_delay_ms(&self.plan().retry, self.instance().map_or(0, |i| i.retries));
        let key = self.run.key(self.run.next_command);
        let jitter = key.bytes().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))) % (delay / 10 + 1);
        self.run.at + delay.saturating_add(jitter) as Millis
    }
}

/// The pause after so many retries: as written, or grown by its factor for each of them.
fn retry_delay_ms(retry: &relais_plan::Retry, retries: u32) -> u64 {
    let delay = match retry.backoff {
        relais_plan::Backoff::Fixed => retry.delay_ms,
        relais_plan::Backoff::Exponential => {
            retry.delay_ms.saturating_mul(u64::from(retry.factor).saturating_pow(retries.min(MAX_DOUBLINGS)))
        }
    };
    delay.min(retry.max_delay_ms.unwrap_or(MAX_RETRY_DELAY_MS)).min(MAX_RETRY_DELAY_MS)
}

/// Beyond this the wait would be longer than [`MAX_RETRY_DELAY_MS`] for any delay worth writing.
const MAX_DOUBLINGS: u32 = 20;
/// An hour: longer pauses belong into a `wait` step that people can see.
const MAX_RETRY_DELAY_MS: u64 = 3_600_000;

/// A kind of error, or a piece of its text in any case.
fn matches_failure(on: &str, failure: &Failure) -> bool {
    if ErrorKind::ALL.iter().any(|kind| kind.word() == on) {
        return failure.kind.word() == on;
    }
    failure.message.to_lowercase().contains(&on.to_lowercase())
}

/// Control has reached a node that has not begun.
fn before(step: Step<'_>, jump: bool) -> Events {
    if step.run.paused {
        return Ok(Vec::new());
    }
    if let Some(failure) = limit_reached(step, jump) {
        return step.fail(failure, Again::Never);
    }
    if let Some(when) = &step.plan().when {
        match step.test(when) {
            Ok(true) => {}
            Ok(false) => return Ok(skip(step)),
            Err(unready) => return step.unready(unready),
        }
    }
    let (attempt, kept) = match step.instance() {
        Some(i) if i.status == StepStatus::Pending => (i.attempt + 1, true),
        _ => (0, false),
    };
    Ok(vec![step.enter(attempt, kept)])
}

impl Step<'_> {
    pub fn enter(&self, attempt: u32, kept: bool) -> Event {
        let own = self.plan().timeout_ms;
        let timeout_ms = match crate::ending::exit_limit(self.run, self.scope) {
            Some(limit) => Some(own.unwrap_or(limit).min(limit)),
            None => own,
        };
        Event::Entered { scope: self.scope, node: self.node, attempt, kept, timeout_ms }
    }
}

fn skip(step: Step<'_>) -> Vec<Event> {
    let left = Left::new(step.scope, step.node, StepStatus::Skipped);
    step.leave(left, step.plan().next, false)
}

/// A limit of N lets a step run exactly N times per cycle; the next entry trips it.
fn limit_reached(step: Step<'_>, jump: bool) -> Option<Failure> {
    let limit = step.plan().limit.filter(|_| jump)?;
    let visits = step.run.scope(step.scope).ran(step.node);
    let key = &step.plan().key;
    let message = format!("workflow: max loop iterations exceeded (step: {key}, limit: {limit})");
    (visits >= limit).then(|| Failure::new(ErrorKind::Limit, message))
}

/// Control is in a node.
fn inside(step: Step<'_>) -> Events {
    let Some(instance) = step.instance() else { return Ok(Vec::new()) };
    match &instance.work {
        Work::Resting(_) => return Ok(Vec::new()),
        Work::Asked(id) => return Ok(crate::wait::sent(step, *id).into_iter().collect()),
        Work::Rested if step.run.paused => return Ok(Vec::new()),
        Work::Rested => return Ok(vec![step.enter(instance.attempt + 1, false)]),
        Work::Fresh | Work::Answered(_) | Work::Received(_) | Work::Chose(_) => {}
        Work::Agent(_) | Work::Fan(_) | Work::Each(_) => {}
    }
    match &step.plan().op {
        Op::Call(call) => crate::call::decide(step, instance, call),
        Op::Choose { arms, other } => choose(step, arms, other.as_ref()),
        Op::Fan(fan) => crate::blocks::fan(step, instance, fan),
        Op::Each(each) => crate::blocks::each(step, instance, each),
        Op::Wait(until) => crate::wait::decide(step, instance, until),
        Op::End { outcome, value } => crate::ending::end_now(step, *outcome, value.as_ref()),
    }
}

fn choose(step: Step<'_>, arms: &[relais_plan::Arm], other: Option<&relais_plan::Jump>) -> Events {
    if step.run.paused {
        return Ok(Vec::new());
    }
    let mut taken = None;
    for (number, arm) in arms.iter().enumerate() {
        match step.test(&arm.when) {
            Ok(true) => {
                taken = Some(number);
                break;
            }
            Ok(false) => {}
            Err(unready) => return step.unready(unready),
        }
    }
    let jump = match taken {
        Some(number) => Some(&arms[number].jump),
        None => other,
    };
    let to = jump.and_then(|j| j.to);
    let stays = to.filter(|to| step.ctx.program.is_inside(*to, step.node));
    let took = Took::Arm { arm: taken.map(|n| n as u32), to: stays };
    let mut events = Vec::new();
    if !arms.is_empty() {
        events.push(Event::Branched { scope: step.scope, node: step.node, took });
    }
    if stays.is_none() {
        let counted = jump.is_some_and(|j| j.counted);
        // An if or switch without an arm to take yields null; what only steers yields nothing.
        let output = (!arms.is_empty() && !steers(step, arms)).then(Stored::null);
        events.extend(step.complete_to(output, None, to.or(step.plan().next), counted)?);
    }
    Ok(events)
}

/// A `goto` or a `stop_if`, which lead control but are no steps of their own.
fn steers(step: Step<'_>, arms: &[relais_plan::Arm]) -> bool {
    let ends = |node: NodeId| matches!(step.ctx.program.plan.node(node).op, Op::End { .. });
    arms.iter().all(|arm| arm.jump.counted || arm.jump.to.is_some_and(ends))
}

/// A scope whose node failed or was cancelled ends in the same way.
fn broken(run: &Run, scope: ScopeId, node: NodeId) -> Vec<Event> {
    let instance = run.instance(scope, node);
    let status = instance.map_or(StepStatus::Failed, |i| i.status);
    let error = instance.and_then(|i| i.error.clone());
    vec![Event::Settled { scope, status, stopped: false, output: None, error }]
}

/// A scope has come to its end.
fn settle(ctx: &Context<'_>, run: &Run, scope: ScopeId) -> Events {
    let place = run.scope(scope);
    if place.kind == ScopeKind::Body {
        return crate::ending::settle_body(ctx, run);
    }
    let any_skipped = place.steps.values().any(|i| i.status == StepStatus::Skipped);
    let status = match place.last {
        None if any_skipped => StepStatus::Skipped,
        _ => StepStatus::Completed,
    };
    Ok(vec![Event::Settled { scope, status, stopped: false, output: None, error: None }])
}

/// Ends everything a scope is in the middle of, innermost first.
pub(crate) fn cancel_scope(ctx: &Context<'_>, run: &Run, scope: ScopeId, events: &mut Vec<Event>) {
    let place = run.scope(scope);
    if place.settled.is_some() {
        return;
    }
    let inside = match place.at {
        At::In(node) => {
            cancel_inner(ctx, run, scope, node, events);
            events.push(Event::Left(Box::new(Left::new(scope, node, StepStatus::Cancelled))));
            ctx.program.plan.node(node).inside
        }
        At::Before { node, .. } => ctx.program.plan.node(node).inside.filter(|b| is_open(run, scope, *b)),
        At::Start | At::Broken(_) | At::End => None,
    };
    let mut at = inside;
    while let Some(block) = at {
        events.push(Event::Left(Box::new(Left::new(scope, block, StepStatus::Cancelled))));
        at = ctx.program.plan.node(block).inside;
    }
    if place.kind != ScopeKind::Body {
        events.push(Event::Settled { scope, status: StepStatus::Cancelled, stopped: false, output: None, error: None });
    }
}

fn is_open(run: &Run, scope: ScopeId, node: NodeId) -> bool {
    run.instance(scope, node).is_some_and(|i| i.status == StepStatus::Running)
}

/// Ends what a block has opened.
pub(crate) fn cancel_inner(ctx: &Context<'_>, run: &Run, scope: ScopeId, node: NodeId, events: &mut Vec<Event>) {
    for inner in run.inner_scopes(scope, node) {
        if !run.scope(inner).detached {
            cancel_scope(ctx, run, inner, events);
        }
    }
}

/// Moves values that are too large for the journal out of the events.
fn externalise(ctx: &Context<'_>, events: &mut [Event], turn: &mut Turn) {
    let limit = ctx.program.plan.limits.inline_bytes;
    for event in events {
        let stored = match event {
            Event::Left(left) => left.output.as_mut(),
            Event::Settled { output, .. } | Event::Closed { output, .. } => output.as_mut(),
            Event::Branched { took: Took::Items { items, .. }, .. } => Some(items),
            Event::Asked { command, .. } => match &mut **command {
                Command::StartRun(start) => Some(&mut start.input),
                Command::CallModel { .. } | Command::CallTool { .. } | Command::Sleep { .. } => None,
                Command::AskPerson(_) | Command::Await(_) => None,
            },
            Event::Opened(_) | Event::Entered { .. } | Event::Answered { .. } | Event::Received { .. } => None,
            Event::Signalled { .. } | Event::Branched { .. } => None,
        };
        if let Some(stored) = stored
            && let Some(blob) = stored.externalise(limit)
        {
            turn.bytes += blob.1.len();
            turn.blobs.push(blob);
        }
    }
}

#[cfg(test)]
mod tests {
    use relais_plan::{Backoff, Retry};

    use super::*;

    #[test]
    fn pauses_between_tries_grow_up_to_an_hour() {
        for (backoff, delay_ms, retries, expected) in [
            (Backoff::Fixed, 500, 7, 500),
            (Backoff::Exponential, 1_000, 0, 1_000),
            (Backoff::Exponential, 1_000, 3, 8_000),
            (Backoff::Exponential, 1_000, 15, MAX_RETRY_DELAY_MS),
            (Backoff::Exponential, u64::MAX, u32::MAX, MAX_RETRY_DELAY_MS),
        ] {
            let retry = Retry { backoff, delay_ms, ..Retry::default() };
            assert_eq!(retry_delay_ms(&retry, retries), expected, "{retry:?} after {retries}");
        }
        let retry = Retry { factor: 3, max_delay_ms: Some(20_000), ..Retry::default() };
        let delays: Vec<u64> = (0..4).map(|retries| retry_delay_ms(&retry, retries)).collect();
        assert_eq!(delays, [1_000, 3_000, 9_000, 20_000]);
    }
}
