//! How a run comes to its end: cancel, the body's outcome, undo, exit steps, closed.

use relais_plan::expr::EvalError;
use relais_plan::{ExitWhen, Outcome, RunFailure, Template};

use crate::command::*;
use crate::decide::{Context, Decided, Events, NotLoaded, Step, Unready, cancel_scope};
use crate::event::*;
use crate::names::View;
use crate::rewind::step_path;
use crate::run::*;

/// Exit steps of a cancelled run may take so long.
pub const CANCEL_EXIT_MS: u64 = 60_000;

/// Steps that one run may begin, and scopes that it may open, beyond the steps that its file has: what loops within
/// loops come to. All of them are kept in memory while the run is at work, and again for who looks at it; so many take
/// about 100 MB each time.
pub const MAX_STEPS: u64 = 50_000;

/// What the variables of one run may come to. They are in memory while the run is at work, those of every pass and lane.
const MAX_WROTE_BYTES: u64 = 256 * 1024 * 1024;

/// What the run as a whole must do now.
pub(crate) fn decide(ctx: &Context<'_>, run: &Run) -> Decided {
    let Some(ending) = &run.ending else {
        return if run.cancels > 0 { Decided::Events(cancel_body(ctx, run)) } else { Decided::Nothing };
    };
    if let Some(scope) = ending.at_work {
        let enough = if ending.status == StepStatus::Cancelled { 2 } else { 1 };
        return if run.cancels >= enough { cancel_exit(ctx, run, scope) } else { Decided::Nothing };
    }
    if !run.open_scopes.is_empty() {
        return if run.cancels > 0 { cancel_detached(ctx, run) } else { Decided::Nothing };
    }
    match next_part(ctx, run, ending) {
        Ok(events) => Decided::Events(events),
        Err(NotLoaded(hash)) => Decided::Load(hash),
    }
}

fn cancel_body(ctx: &Context<'_>, run: &Run) -> Vec<Event> {
    let error = Failure::new(ErrorKind::Cancelled, "the run was cancelled");
    end_body(ctx, run, StepStatus::Cancelled, false, None, Some(error))
}

/// Stops everything and settles the body. Detached lanes end with it.
fn end_body(
    ctx: &Context<'_>,
    run: &Run,
    status: StepStatus,
    stopped: bool,
    output: Option<Stored>,
    error: Option<Failure>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for scope in run.open_scopes.iter().filter(|s| run.scope(**s).detached) {
        cancel_scope(ctx, run, *scope, &mut events);
    }
    cancel_scope(ctx, run, BODY, &mut events);
    events.push(Event::Settled { scope: BODY, status, stopped, output, error });
    events
}

/// The body has ended and the run waits for lanes that were let go.
fn cancel_detached(ctx: &Context<'_>, run: &Run) -> Decided {
    let mut events = Vec::new();
    for scope in run.open_scopes.iter().filter(|s| run.scope(**s).detached) {
        cancel_scope(ctx, run, *scope, &mut events);
    }
    if events.is_empty() { Decided::Nothing } else { Decided::Events(events) }
}

fn cancel_exit(ctx: &Context<'_>, run: &Run, scope: ScopeId) -> Decided {
    let mut events = Vec::new();
    cancel_scope(ctx, run, scope, &mut events);
    if events.is_empty() { Decided::Nothing } else { Decided::Events(events) }
}

/// The time-out of the whole run.
pub(crate) fn run_timed_out(ctx: &Context<'_>, run: &Run) -> Option<Vec<Event>> {
    let limit = ctx.program.plan.limits.timeout_ms?;
    if run.ending.is_some() || run.paused || run.live_ms - run.live_from_ms < limit {
        return None;
    }
    let limit = relais_plan::time::format_duration(limit);
    let error = Failure::new(ErrorKind::Timeout, format!("the run did not end within {limit}"));
    Some(end_body(ctx, run, StepStatus::Failed, false, None, Some(error)))
}

/// Whoever takes the run up dies of it. No policy of a step may let that pass, so the body ends; a person may resume it.
pub(crate) fn crashed(ctx: &Context<'_>, run: &Run) -> Decided {
    if run.recoveries <= ctx.program.plan.limits.max_recoveries {
        return Decided::Nothing;
    }
    let at: Vec<String> = run.in_flight().map(|(_, owed)| step_path(ctx.program, run, owed.scope, owed.node)).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at `{}`", at.join("`, `")) };
    let message = format!(
        "the run was taken over {} times without getting further{at}: each time the process that worked on it ended; \
         resume it when the reason is gone",
        run.recoveries
    );
    end_or_cancel(ctx, run, Failure::new(ErrorKind::Crash, message))
}

/// Ends the body as failed; what comes behind it is cancelled.
fn end_or_cancel(ctx: &Context<'_>, run: &Run, failure: Failure) -> Decided {
    match &run.ending {
        None => Decided::Events(end_body(ctx, run, StepStatus::Failed, false, None, Some(failure))),
        Some(Ending { at_work: Some(scope), .. }) => cancel_exit(ctx, run, *scope),
        Some(Ending { at_work: None, .. }) => cancel_detached(ctx, run),
    }
}

/// The run has come to more steps than one run may have, or to more of variables. No policy of a step may let that pass, so the body ends. Undo
/// and exit steps have as many again; beyond them, what is at work is cancelled.
pub(crate) fn outgrown(ctx: &Context<'_>, run: &Run) -> Decided {
    match outgrown_in(ctx, run) {
        Some(failure) => end_or_cancel(ctx, run, failure),
        None => Decided::Nothing,
    }
}

fn outgrown_in(ctx: &Context<'_>, run: &Run) -> Option<Failure> {
    let most = MAX_STEPS + ctx.program.plan.nodes.len() as u64;
    let times = if run.ending.is_none() { 1 } else { 2 };
    if run.steps_begun() > times * most || run.scopes_opened() > times * most {
        return Some(too_many_steps(most));
    }
    (run.wrote_bytes > times * MAX_WROTE_BYTES).then(too_much_written)
}

fn too_much_written() -> Failure {
    let message = format!(
        "the variables that the run has set come to more than {} MiB, the most that one run may have; set smaller \
         values, or refer to the outputs of steps instead",
        MAX_WROTE_BYTES / (1024 * 1024)
    );
    Failure::new(ErrorKind::Limit, message)
}

fn too_many_steps(most: u64) -> Failure {
    let message = format!(
        "the run came to more than {most} steps, passes, items and lanes, the most that one run may have; let its \
         loops end earlier, or give parts of the work to workflows of their own"
    );
    Failure::new(ErrorKind::Limit, message)
}

/// Steps that run after a cancel have a time-out of their own.
pub(crate) fn exit_limit(run: &Run, scope: ScopeId) -> Option<u64> {
    let cancelled = run.ending.as_ref().is_some_and(|e| e.status == StepStatus::Cancelled);
    let mut at = Some(scope);
    while let Some(scope) = at {
        let place = run.scope(scope);
        if place.kind == ScopeKind::Exit {
            return cancelled.then_some(CANCEL_EXIT_MS);
        }
        at = place.parent.map(|(up, _)| up);
    }
    None
}

/// An `End` node: the run ends here and now.
pub(crate) fn end_now(step: Step<'_>, outcome: Outcome, value: Option<&Template>) -> Events {
    let output = match value.map(|t| step.render(t)).transpose() {
        Ok(value) => value.map(Stored::Value),
        Err(unready) => return step.unready(unready),
    };
    if run_is_ending(step.run) {
        // In an exit or undo sequence it only ends that sequence.
        return step.complete(output, None);
    }
    let output = match (output, outcome) {
        (None, Outcome::Completed | Outcome::Stopped) => output_so_far(step)?,
        (output, _) => output,
    };
    let (status, stopped, error) = match outcome {
        Outcome::Completed => (StepStatus::Completed, false, None),
        Outcome::Stopped => (StepStatus::Completed, true, None),
        Outcome::Failed => {
            let message = format!("`{}` ends the run as failed", step.plan().key);
            (StepStatus::Failed, false, Some(Failure::new(ErrorKind::Refused, message)))
        }
    };
    let mut events = close_line(step);
    events.extend(end_others(step, status, stopped, output, error));
    Ok(events)
}

/// What the workflow yields when it is stopped, as far as that can be told by now.
fn output_so_far(step: Step<'_>) -> Result<Option<Stored>, NotLoaded> {
    match body_output(step.ctx, step.run) {
        Ok(output) => Ok(Some(output)),
        Err(Unready::Load(hash)) => Err(NotLoaded(hash)),
        Err(Unready::Fail(_)) => Ok(None),
    }
}

fn run_is_ending(run: &Run) -> bool {
    run.ending.is_some()
}

/// The steps that led to the end have completed: the node itself and the ifs around it, up to the body.
fn close_line(step: Step<'_>) -> Vec<Event> {
    let mut events = step.leave(Left::new(step.scope, step.node, StepStatus::Completed), None, false);
    if step.scope != BODY {
        let status = StepStatus::Completed;
        events.push(Event::Settled { scope: step.scope, status, stopped: false, output: None, error: None });
    }
    events
}

fn end_others(
    step: Step<'_>,
    status: StepStatus,
    stopped: bool,
    output: Option<Stored>,
    error: Option<Failure>,
) -> Vec<Event> {
    let mut events = end_body(step.ctx, step.run, status, stopped, output, error);
    // What `close_line` has ended is not ended twice.
    let mine = step.scope;
    events.retain(|event| match event {
        Event::Settled { scope, .. } => *scope != mine || mine == BODY,
        Event::Left(left) => left.scope != mine,
        Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Answered { .. } => true,
        Event::Branched { .. } | Event::Received { .. } | Event::Signalled { .. } | Event::Closed { .. } => true,
    });
    events
}

/// The body has come to its last step: its output is made and checked.
pub(crate) fn settle_body(ctx: &Context<'_>, run: &Run) -> Events {
    let settled = |status, output, error| vec![Event::Settled { scope: BODY, status, stopped: false, output, error }];
    match body_output(ctx, run) {
        Ok(output) => Ok(settled(StepStatus::Completed, Some(output), None)),
        Err(Unready::Load(hash)) => Err(NotLoaded(hash)),
        Err(Unready::Fail(failure)) => Ok(settled(StepStatus::Failed, None, Some(failure))),
    }
}

fn body_output(ctx: &Context<'_>, run: &Run) -> Result<Stored, Unready> {
    let plan = &ctx.program.plan;
    let view = View { ctx, run, scope: BODY, node: None, event: None, own: None };
    if plan.output.is_none()
        && plan.output_schema.is_none()
        && let Some(stored) = last_stored(run)
    {
        return Ok(stored);
    }
    let value = match &plan.output {
        Some(template) => template.render(&view)?,
        None => view.scope_output(BODY)?.into_owned(),
    };
    if let Some(schema) = &plan.output_schema {
        let misfit = |violations: Vec<_>| Failure::misfit("the workflow output", schema, &violations, &value);
        schema.check(&value).map_err(|violations| Unready::Fail(misfit(violations)))?;
    }
    Ok(Stored::Value(value))
}

/// The last step's output as it is kept, so that a large one need not be loaded.
fn last_stored(run: &Run) -> Option<Stored> {
    let (node, _) = run.scope(BODY).last?;
    run.instance(BODY, node)?.output.clone()
}

/// Undo in reverse order, then the exit sequences, then closed.
fn next_part(ctx: &Context<'_>, run: &Run, ending: &Ending) -> Events {
    let plan = &ctx.program.plan;
    if ending.status == StepStatus::Failed && plan.on_failure == RunFailure::Undo && ending.exits == 0 {
        let next = run.undoable.iter().filter(|u| !u.undone).max_by_key(|u| u.order);
        if let Some(undo) = next {
            let took = Took::Undo { scope: undo.scope, node: undo.node };
            return Ok(vec![Event::Branched { scope: BODY, node: undo.undo, took }]);
        }
    }
    let due = plan.exits.iter().enumerate().skip(ending.exits as usize);
    if let Some((number, exit)) = due.into_iter().find(|(_, e)| applies(e.when, ending.status)) {
        let took = Took::Exit(number as u32);
        return Ok(vec![Event::Branched { scope: BODY, node: exit.entry.unwrap_or(0), took }]);
    }
    close(ctx, run, ending).map(|closed| vec![closed])
}

fn applies(when: ExitWhen, status: StepStatus) -> bool {
    match when {
        ExitWhen::Always => true,
        ExitWhen::Success => status == StepStatus::Completed,
        ExitWhen::Failure => status == StepStatus::Failed,
        ExitWhen::Cancel => status == StepStatus::Cancelled,
    }
}

fn close(ctx: &Context<'_>, run: &Run, ending: &Ending) -> Result<Event, NotLoaded> {
    let partial = ctx.program.plan.on_failure == RunFailure::Partial && run.completed_steps > 0;
    let status = match ending.status {
        StepStatus::Cancelled => RunStatus::Cancelled,
        StepStatus::Failed if partial => RunStatus::PartialSuccess,
        StepStatus::Failed => RunStatus::Failed,
        _ if ending.stopped => RunStatus::Stopped,
        _ => RunStatus::Completed,
    };
    let output = match &ending.output {
        Some(output) => Some(output.clone()),
        None if status == RunStatus::PartialSuccess => last_output(ctx, run)?,
        // What its last step gave is not what the workflow was to give.
        None if status == RunStatus::Failed => None,
        None => last_stored(run),
    };
    Ok(Event::Closed { status, output, error: ending.error.clone() })
}

/// What the last completed step gave, also where it is put together from several.
fn last_output(ctx: &Context<'_>, run: &Run) -> Result<Option<Stored>, NotLoaded> {
    if run.scope(BODY).last.is_none() {
        return Ok(None);
    }
    if let Some(stored) = last_stored(run) {
        return Ok(Some(stored));
    }
    match (View { ctx, run, scope: BODY, node: None, event: None, own: None }).scope_output(BODY) {
        Ok(value) => Ok(Some(Stored::Value(value.into_owned()))),
        Err(EvalError::Load(hash)) => Err(NotLoaded(hash)),
        Err(EvalError::Reference(_) | EvalError::Type(_) | EvalError::Limit(_)) => Ok(None),
    }
}

/// Somebody new takes the run up: what was in flight is asked again, except what must not happen twice.
pub fn adopt(run: &Run) -> Vec<Event> {
    let mut events = vec![Event::Signalled { signal: Signal::Adopted, by: String::new() }];
    for (id, owed) in &run.owed {
        if let Command::CallTool { tool, arguments, effect: relais_plan::Effect::Once, .. } = &*owed.command {
            events.push(Event::Answered { id: *id, answer: Box::new(Answer::uncertain(tool, arguments)) });
        }
    }
    events
}
