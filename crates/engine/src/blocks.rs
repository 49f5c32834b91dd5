//! Fan and Each: the only ops that open scopes, and they wait for them.

use relais_plan::{Each, Fan, LaneFailure, OnLimit, Over, WaitFor};
use serde_json::Value;

use crate::command::*;
use crate::decide::{Again, Events, NotLoaded, Step, Unready, cancel_scope};
use crate::event::*;
use crate::names::View;
use crate::run::*;

pub(crate) fn fan(step: Step<'_>, instance: &Instance, fan: &Fan) -> Events {
    let empty = FanWork { rescan: true, ..FanWork::default() };
    let work = match &instance.work {
        Work::Fan(work) => work,
        _ => &empty,
    };
    let failing = failed(work, fan).is_some() && fan.on_failure == LaneFailure::Cancel;
    if failing || enough(work, fan) {
        let events = stop_rest(step, work, fan, failing);
        if !events.is_empty() {
            return Ok(events);
        }
    }
    if !enough(work, fan) {
        let events = start_lanes(step, work, fan, failing);
        // Lanes that may not start yet keep the block open.
        if step.run.paused && !events.is_empty() {
            return Ok(Vec::new());
        }
        if !events.is_empty() {
            return Ok(events);
        }
    }
    if work.open == 0 || enough(work, fan) { end_fan(step, work, fan) } else { Ok(Vec::new()) }
}

/// The first failed lane, of those that the block waits for.
fn failed(work: &FanWork, fan: &Fan) -> Option<u32> {
    work.failed?;
    let has_failed = |lane: &u32| work.lanes.get(lane).is_some_and(|state| state.status == Some(StepStatus::Failed));
    match &fan.wait_for {
        WaitFor::All | WaitFor::Count(_) => work.failed,
        WaitFor::Lanes(_) => work.news.iter().copied().find(|lane| fan.awaits(*lane) && has_failed(lane)),
    }
}

/// As many lanes have ended as the block waits for.
fn enough(work: &FanWork, fan: &Fan) -> bool {
    match &fan.wait_for {
        WaitFor::All => false,
        WaitFor::Count(count) => work.completed >= *count,
        WaitFor::Lanes(lanes) => lanes.iter().all(|l| work.lanes.get(l).is_some_and(|s| s.status.is_some())),
    }
}

/// Ends the lanes that nobody waits for any more; detached ones are let finish.
fn stop_rest(step: Step<'_>, work: &FanWork, fan: &Fan, failing: bool) -> Vec<Event> {
    let mut events = Vec::new();
    if fan.detach && !failing {
        return events;
    }
    for (number, lane) in &work.lanes {
        let always = fan.lanes[*number as usize].always && failing;
        if let (Some(scope), None, false) = (lane.scope, lane.status, always) {
            cancel_scope(step.ctx, step.run, scope, &mut events);
        }
    }
    events
}

/// Lanes whose turn has come: all without `after` at first, then those that the news set free.
fn start_lanes(step: Step<'_>, work: &FanWork, fan: &Fan, failing: bool) -> Vec<Event> {
    let mut start = Vec::new();
    let mut skip = Vec::new();
    let mut consider = |lane: u32| match verdict(work, fan, lane, failing) {
        Verdict::Start => start.push(lane),
        Verdict::Skip => skip.push(lane),
        Verdict::Wait => {}
    };
    // After a failure `run_if: always` may come free of lanes that will never begin.
    if work.rescan || failing {
        (0..fan.lanes.len() as u32).for_each(&mut consider);
    } else {
        let mut seen = std::collections::BTreeSet::new();
        for ended in work.news.iter().skip(work.looked_at.0) {
            for lane in step.ctx.program.after(step.node, *ended) {
                if seen.insert(*lane) {
                    consider(*lane);
                }
            }
        }
    }
    let branched = |took| Event::Branched { scope: step.scope, node: step.node, took };
    let skipped = (!skip.is_empty()).then(|| branched(Took::Skipped(skip)));
    let started = (!start.is_empty()).then(|| branched(Took::Lanes(start)));
    skipped.into_iter().chain(started).collect()
}

enum Verdict {
    Start,
    Skip,
    Wait,
}

/// Runs when at least one of what it needs completed and none failed; skipped when all were; `always` overrides.
fn verdict(work: &FanWork, fan: &Fan, number: u32, failing: bool) -> Verdict {
    if work.lanes.contains_key(&number) {
        return Verdict::Wait;
    }
    let lane = &fan.lanes[number as usize];
    let mut needed = Vec::with_capacity(lane.after.len());
    for before in &lane.after {
        match work.lanes.get(before).and_then(|l| l.status) {
            Some(status) => needed.push(status),
            None if failing && lane.always && !work.lanes.contains_key(before) => needed.push(StepStatus::Skipped),
            None => return Verdict::Wait,
        }
    }
    if lane.always {
        return Verdict::Start;
    }
    if failing {
        return Verdict::Wait;
    }
    let bad = needed.iter().any(|s| matches!(s, StepStatus::Failed | StepStatus::Cancelled));
    let all_skipped = !needed.is_empty() && needed.iter().all(|s| *s == StepStatus::Skipped);
    if bad || all_skipped { Verdict::Skip } else { Verdict::Start }
}

fn end_fan(step: Step<'_>, work: &FanWork, fan: &Fan) -> Events {
    let counted = matches!(fan.wait_for, WaitFor::Count(count) if work.completed < count);
    if let Some(lane) =
        failed(work, fan).filter(|_| fan.on_failure != LaneFailure::Collect && !counted_enough(work, fan))
    {
        return step.fail(lane_failure(step, work, fan, lane), Again::Allowed);
    }
    if counted {
        let message = format!("only {} lanes of `{}` completed", work.completed, step.plan().key);
        return step.fail(Failure::new(ErrorKind::Limit, message), Again::Allowed);
    }
    step.complete(None, None)
}

fn counted_enough(work: &FanWork, fan: &Fan) -> bool {
    matches!(fan.wait_for, WaitFor::Count(count) if work.completed >= count)
}

fn lane_failure(step: Step<'_>, work: &FanWork, fan: &Fan, lane: u32) -> Failure {
    let settled = work.lanes.get(&lane).and_then(|l| l.scope).and_then(|s| step.run.scope(s).settled.as_ref());
    let inner = settled.and_then(|(_, error)| error.clone());
    let inner = inner.unwrap_or_else(|| Failure::new(ErrorKind::Internal, "no reason was given"));
    if step.plan().hidden || fan.lanes.len() == 1 {
        return inner;
    }
    let message = format!("`{}` failed: {}", fan.lanes[lane as usize].key, inner.message);
    Failure::new(inner.kind, message)
}

pub(crate) fn each(step: Step<'_>, instance: &Instance, each: &Each) -> Events {
    let empty = EachWork::default();
    let work = match &instance.work {
        Work::Each(work) => work,
        _ => &empty,
    };
    if let Some(number) = work.failed.filter(|_| each.on_failure == LaneFailure::Cancel) {
        return step.fail(body_failure(step, work, number), Again::Allowed);
    }
    if step.run.paused {
        return Ok(Vec::new());
    }
    match &each.over {
        Over::Items(list) => items(step, work, each, list),
        Over::Passes { while_, until, delay_ms } => {
            passes(step, work, each, Passes { while_: while_.as_ref(), until: until.as_ref(), delay_ms: *delay_ms })
        }
    }
}

fn body_failure(step: Step<'_>, work: &EachWork, number: u32) -> Failure {
    let settled = work.bodies.get(number as usize).and_then(|s| step.run.scope(*s).settled.as_ref());
    let inner = settled.and_then(|(_, error)| error.clone());
    let inner = inner.unwrap_or_else(|| Failure::new(ErrorKind::Internal, "no reason was given"));
    Failure::new(inner.kind, format!("`{}[{number}]` failed: {}", step.plan().key, inner.message))
}

fn items(step: Step<'_>, work: &EachWork, each: &Each, list: &relais_plan::Expr) -> Events {
    if work.items.is_none() {
        return match list.eval(&step.view()).map_err(Unready::from).and_then(|v| take_items(step, each, v)) {
            Ok(took) => Ok(vec![Event::Branched { scope: step.scope, node: step.node, took }]),
            Err(unready) => step.unready(unready),
        };
    }
    let begun = work.bodies.len() as u32;
    let room = each.width.saturating_sub(work.open).min(work.count - begun.min(work.count));
    if room > 0 {
        let took = Took::Bodies((begun..begun + room).collect());
        return Ok(vec![Event::Branched { scope: step.scope, node: step.node, took }]);
    }
    if work.open > 0 {
        return Ok(Vec::new());
    }
    match work.failed.filter(|_| each.on_failure == LaneFailure::Drain) {
        Some(number) => step.fail(body_failure(step, work, number), Again::Allowed),
        None => step.complete(None, None),
    }
}

fn take_items(step: Step<'_>, each: &Each, value: Value) -> Result<Took, Unready> {
    let key = &step.plan().key;
    let Value::Array(mut list) = value else {
        let message = format!("`for_each` of `{key}` must give a list, not {}", crate::call::kind_of(&value));
        return Err(Unready::Fail(Failure::new(ErrorKind::Schema, message)));
    };
    let max = each.max as usize;
    let truncated = list.len().saturating_sub(max) as u32;
    if truncated > 0 && each.on_limit != OnLimit::Truncate {
        let message = format!("`{key}` has {} items, more than its max of {max}", list.len());
        return Err(Unready::Fail(Failure::new(ErrorKind::Limit, message)));
    }
    list.truncate(max);
    let count = list.len() as u32;
    Ok(Took::Items { items: Stored::Value(Value::Array(list)), count, truncated })
}

struct Passes<'a> {
    while_: Option<&'a relais_plan::Expr>,
    until: Option<&'a relais_plan::Expr>,
    delay_ms: u64,
}

fn passes(step: Step<'_>, work: &EachWork, each: &Each, passes: Passes<'_>) -> Events {
    if work.open > 0 || work.pause.is_some() {
        return Ok(Vec::new());
    }
    if work.ended.is_some() {
        return match each.last.then(|| last_output(step, work)).transpose() {
            Ok(output) => step.complete(output, None),
            Err(unready) => step.unready(unready),
        };
    }
    match next_pass(step, work, each, &passes) {
        Ok(events) => Ok(events),
        Err(Unready::Load(hash)) => Err(NotLoaded(hash)),
        Err(Unready::Fail(failure)) => step.fail(failure, Again::Never),
    }
}

/// What the last pass gave, as it is kept where it is kept.
fn last_output(step: Step<'_>, work: &EachWork) -> Result<Stored, Unready> {
    let Some(scope) = work.bodies.last().copied() else { return Ok(Stored::null()) };
    let kept = step.run.scope(scope).last.and_then(|(node, _)| step.run.instance(scope, node)?.output.clone());
    match kept {
        Some(stored) => Ok(stored),
        None => Ok(Stored::Value(step.view().scope_output(scope)?.into_owned())),
    }
}

fn next_pass(step: Step<'_>, work: &EachWork, each: &Each, passes: &Passes<'_>) -> Result<Vec<Event>, Unready> {
    let made = work.bodies.len() as u32;
    let branched = |took| vec![Event::Branched { scope: step.scope, node: step.node, took }];
    // The conditions read the pass that has just ended.
    let view = match work.bodies.last() {
        Some(last) => View { scope: *last, ..step.view() },
        None => step.view(),
    };
    let rested = work.paused_after == Some(made);
    if made > 0 && !rested {
        if let Some(until) = passes.until
            && until.test(&view)?
        {
            return Ok(branched(Took::Ended(EndedBy::Until)));
        }
        if made >= each.max {
            return limit_of_passes(step, each, branched(Took::Ended(EndedBy::Limit)));
        }
        if passes.delay_ms > 0 {
            let until = step.run.at + passes.delay_ms as Millis;
            return Ok(vec![step.ask(Command::Sleep { until, retry: false })]);
        }
    }
    match passes.while_ {
        Some(go_on) if !go_on.test(&view)? => Ok(branched(Took::Ended(EndedBy::While))),
        _ => Ok(branched(Took::Bodies(vec![made]))),
    }
}

fn limit_of_passes(step: Step<'_>, each: &Each, end: Vec<Event>) -> Result<Vec<Event>, Unready> {
    match each.on_limit {
        OnLimit::Complete | OnLimit::Truncate => Ok(end),
        OnLimit::Fail => {
            let message = format!("`{}` made {} passes without reaching its end", step.plan().key, each.max);
            Err(Unready::Fail(Failure::new(ErrorKind::Limit, message)))
        }
    }
}
