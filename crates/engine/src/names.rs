//! What an expression sees of a run: the one place where `steps.ID`, `previous`, `item` and the others are looked up.

use std::borrow::Cow;

use relais_plan::expr::{EvalError, Names, Part, Root};
use relais_plan::{FanOutput, NodeId, Op, RegionId};
use serde_json::{Map, Value, json};

use crate::Context;
use crate::event::*;
use crate::run::*;

pub(crate) struct View<'a> {
    pub ctx: &'a Context<'a>,
    pub run: &'a Run,
    pub scope: ScopeId,
    /// The node at hand, for `on_missing` and for `previous` in a DAG.
    pub node: Option<NodeId>,
    pub event: Option<&'a Value>,
    /// What the node at hand gives, when it is about to complete.
    pub own: Option<&'a Stored>,
}

impl Names for View<'_> {
    fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError> {
        match root {
            Root::Input => self.stored(&self.run.opened.input),
            Root::Trigger => Ok(Cow::Borrowed(&self.run.opened.trigger)),
            Root::Previous => self.previous(),
            Root::Earlier => crate::earlier::list(self),
            Root::Item => self.item(),
            Root::Index => Ok(Cow::Owned(json!(self.turn_of_loop().map(|(_, _, number)| number)))),
            Root::Loop => self.loop_facts().map(Cow::Owned),
            Root::Vars => Ok(Cow::Owned(Value::Object(self.variables()))),
            Root::Run => Ok(Cow::Owned(self.run_facts())),
            Root::Workflow => Ok(Cow::Owned(json!({ "name": self.run.opened.workflow }))),
            Root::Now => Ok(Cow::Owned(Value::String(relais_plan::time::format_instant(self.run.at)))),
            Root::Event => Ok(Cow::Borrowed(self.event.unwrap_or(&Value::Null))),
            Root::Step { key, part } => self.step(key, *part),
        }
    }

    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        let mut wrote = self.writers().into_iter().map(|scope| &self.run.scope(scope).wrote);
        wrote.find_map(|wrote| wrote.get(name)).map(|value| Cow::Borrowed(&**value))
    }

    fn reader(&self) -> Option<String> {
        Some(match self.node {
            Some(node) => format!("step `{}`", self.ctx.program.plan.node(node).key),
            None => "the output of the workflow".to_owned(),
        })
    }

    fn missing_is_null(&self) -> bool {
        self.node.is_some_and(|node| self.ctx.program.plan.node(node).on_missing_null)
    }

    fn inline_bytes(&self) -> u64 {
        self.ctx.program.plan.limits.inline_bytes
    }
}

impl View<'_> {
    pub fn stored<'s>(&'s self, stored: &'s Stored) -> Result<Cow<'s, Value>, EvalError> {
        match stored {
            Stored::Value(value) => Ok(Cow::Borrowed(value)),
            Stored::Blob(blob) => match self.ctx.values.get(&blob.hash) {
                Some(value) => Ok(Cow::Borrowed(value)),
                None => Err(EvalError::Load(blob.hash.clone())),
            },
        }
    }

    fn run_facts(&self) -> Value {
        let opened = &self.run.opened;
        json!({
            "id": opened.run.to_string(),
            "user": opened.user,
            "thread": opened.thread,
            "files": files_folder(opened),
            "usage": usage_facts(&self.run.usage),
        })
    }

    /// The scopes whose variables are seen from here, innermost first: each on the way up, and in a DAG the lanes that
    /// its lane needs, directly or through others.
    fn writers(&self) -> Vec<ScopeId> {
        let mut writers = Vec::new();
        let mut at = Some(self.scope);
        while let Some(scope) = at {
            writers.push(scope);
            writers.extend(self.needed_lanes(scope));
            at = self.run.scope(scope).parent.map(|(up, _)| up);
        }
        writers
    }

    /// The lanes that a lane needs and that completed, the last to end first.
    fn needed_lanes(&self, scope: ScopeId) -> Vec<ScopeId> {
        let place = self.run.scope(scope);
        let Some((up, opener)) = place.parent.filter(|_| place.kind == ScopeKind::Lane) else { return Vec::new() };
        let (Op::Fan(plan), Some(Work::Fan(work))) =
            (&self.ctx.program.plan.node(opener).op, self.run.instance(up, opener).map(|i| &i.work))
        else {
            return Vec::new();
        };
        let needed = plan.needed(place.number);
        let completed =
            work.news.iter().rev().filter(|lane| needed.contains(lane)).filter_map(|lane| work.lanes.get(lane));
        completed.filter(|lane| lane.status == Some(StepStatus::Completed)).filter_map(|lane| lane.scope).collect()
    }

    fn variables(&self) -> Map<String, Value> {
        let mut vars = Map::new();
        for scope in self.writers().into_iter().rev() {
            vars.extend(self.run.scope(scope).wrote.iter().map(|(name, value)| (name.clone(), (**value).clone())));
        }
        vars
    }

    fn step(&self, key: &str, part: Part) -> Result<Cow<'_, Value>, EvalError> {
        let unknown = || EvalError::Reference(format!("there is no step `{key}`"));
        let node = self.ctx.program.find(key).ok_or_else(unknown)?;
        let Some(scope) = self.scope_of(node) else { return Ok(Cow::Owned(absent(part))) };
        let Some(instance) = self.run.instance(scope, node) else { return Ok(Cow::Owned(absent(part))) };
        match part {
            Part::Output => self.output(scope, node),
            Part::Outputs => self.outputs(scope, node),
            Part::Status => Ok(Cow::Owned(json!(instance.status.word()))),
            Part::Error => Ok(Cow::Owned(error_facts(instance))),
        }
    }

    /// The scope in which a node's latest instance is, seen from here: up to the region that both share, then down
    /// along the lanes.
    fn scope_of(&self, node: NodeId) -> Option<ScopeId> {
        let program = self.ctx.program;
        let chain = program.regions_above(program.plan.node(node).region);
        let mut at = Some(self.scope);
        while let Some(scope) = at {
            if let Some(depth) = chain.iter().position(|r| self.region_of(scope) == Some(*r)) {
                return self.descend(scope, &chain[..depth]);
            }
            at = self.run.scope(scope).parent.map(|(up, _)| up);
        }
        self.descend(BODY, chain.strip_suffix(&[relais_plan::ROOT])?)
    }

    fn descend(&self, from: ScopeId, regions: &[RegionId]) -> Option<ScopeId> {
        let mut scope = from;
        for region in regions.iter().rev() {
            let region = &self.ctx.program.plan.regions[*region as usize];
            scope = match &self.run.instance(scope, region.opener?)?.work {
                Work::Fan(fan) => fan.lanes.get(&region.lane)?.scope?,
                Work::Each(each) => *each.bodies.last()?,
                _ => return None,
            };
        }
        Some(scope)
    }

    fn region_of(&self, scope: ScopeId) -> Option<RegionId> {
        region_of(self.ctx, self.run, scope)
    }

    /// A node's output, put together from its lanes or bodies where it has them.
    pub fn output(&self, scope: ScopeId, node: NodeId) -> Result<Cow<'_, Value>, EvalError> {
        if let Some(own) = self.own.filter(|_| (self.scope, self.node) == (scope, Some(node))) {
            return self.stored(own);
        }
        let Some(instance) = self.run.instance(scope, node) else { return Ok(Cow::Owned(Value::Null)) };
        if let Some(stored) = &instance.output {
            return self.stored(stored);
        }
        if instance.status == StepStatus::Skipped {
            return Ok(Cow::Owned(Value::Null));
        }
        match (&instance.work, &self.ctx.program.plan.node(node).op) {
            (Work::Fan(work), Op::Fan(fan)) => self.fan_output(work, fan),
            (Work::Each(work), _) => self.each_output(work).map(Cow::Owned),
            (Work::Chose(_), _) => match instance.yields {
                Some(inner) => self.output(scope, inner),
                None => Ok(Cow::Owned(Value::Null)),
            },
            _ => Ok(Cow::Owned(Value::Null)),
        }
    }

    fn fan_output(&self, work: &FanWork, fan: &relais_plan::Fan) -> Result<Cow<'_, Value>, EvalError> {
        let lane_output = |lane: u32| match work.lanes.get(&lane).and_then(|l| l.scope) {
            Some(scope) => self.scope_output(scope),
            None => Ok(Cow::Owned(Value::Null)),
        };
        let map = |lanes: &mut dyn Iterator<Item = u32>| -> Result<Cow<'_, Value>, EvalError> {
            let mut out = Map::new();
            for number in lanes {
                let lane = &fan.lanes[number as usize];
                let key = lane.output_key.as_ref().unwrap_or(&lane.key);
                out.insert(key.clone(), lane_output(number)?.into_owned());
            }
            Ok(Cow::Owned(Value::Object(out)))
        };
        match &fan.output {
            FanOutput::Only => lane_output(0),
            FanOutput::Sinks(sinks) => match sinks.as_slice() {
                [only] => lane_output(*only),
                several => map(&mut several.iter().copied()),
            },
            FanOutput::Keyed => map(&mut (0..fan.lanes.len() as u32).filter(|lane| fan.awaits(*lane))),
        }
    }

    fn each_output(&self, each: &EachWork) -> Result<Value, EvalError> {
        let mut results = Vec::with_capacity(each.bodies.len());
        for scope in &each.bodies {
            results.push(self.item_output(*scope)?);
        }
        let ended_by = each.ended.unwrap_or(EndedBy::Items);
        let mut out = json!({ "results": results, "count": each.bodies.len(), "ended_by": ended_by });
        if each.truncated > 0 {
            out["truncated"] = json!(each.truncated);
        }
        Ok(out)
    }

    /// What an item gave; one that failed shows its error in its place.
    fn item_output(&self, scope: ScopeId) -> Result<Value, EvalError> {
        match &self.run.scope(scope).settled {
            Some((StepStatus::Failed, error)) => Ok(json!({ "error": error })),
            _ => Ok(self.scope_output(scope)?.into_owned()),
        }
    }

    /// A sequence's output: that of its last completed step.
    pub fn scope_output(&self, scope: ScopeId) -> Result<Cow<'_, Value>, EvalError> {
        match self.run.scope(scope).last {
            Some((node, _)) => self.output(scope, node),
            None => Ok(Cow::Owned(Value::Null)),
        }
    }

    /// `steps.P.outputs`: `{ID: {output, status, error, agent}}` in written order, and `order`.
    fn outputs(&self, scope: ScopeId, node: NodeId) -> Result<Cow<'_, Value>, EvalError> {
        let (Some(instance), Op::Fan(fan)) = (self.run.instance(scope, node), &self.ctx.program.plan.node(node).op)
        else {
            return Ok(Cow::Owned(Value::Null));
        };
        let Work::Fan(work) = &instance.work else { return Ok(Cow::Owned(Value::Null)) };
        let mut out = Map::new();
        for (number, lane) in fan.lanes.iter().enumerate() {
            out.insert(lane.key.clone(), self.lane_facts(work.lanes.get(&(number as u32)), lane)?);
        }
        Ok(Cow::Owned(Value::Object(out)))
    }

    fn lane_facts(&self, state: Option<&LaneState>, lane: &relais_plan::Lane) -> Result<Value, EvalError> {
        let scope = state.and_then(|s| s.scope);
        let output = match scope {
            Some(scope) => self.scope_output(scope)?.into_owned(),
            None => Value::Null,
        };
        let settled = scope.and_then(|s| self.run.scope(s).settled.as_ref());
        let error = settled.and_then(|(_, error)| error.as_ref()).map(|e| json!(e));
        let status = state.and_then(|s| s.status).unwrap_or(StepStatus::Skipped);
        let agent = lane.entry.and_then(|n| agent_of(self.ctx.program.plan.node(n)));
        let nested = match (scope, lane.entry) {
            (Some(scope), Some(entry)) => self.outputs(scope, entry)?.into_owned(),
            _ => Value::Null,
        };
        let mut facts = json!({ "output": output, "status": status.word(), "error": error, "agent": agent });
        if !nested.is_null() {
            facts["outputs"] = nested;
        }
        Ok(facts)
    }

    /// The last completed step before in the same sequence, else that of the enclosing block, else the input.
    fn previous(&self) -> Result<Cow<'_, Value>, EvalError> {
        let mut scope = self.scope;
        let mut last = self.run.scope(scope).last;
        loop {
            if let Some((node, _)) = last {
                return self.output(scope, node);
            }
            let place = self.run.scope(scope);
            let Some((up, opener)) = place.parent else { break };
            if let Some(lane) = self.needed_lane(up, opener, place) {
                return self.scope_output(lane);
            }
            // What came before the block, even if its sequence has gone on since: a detached lane must not notice.
            last = match (place.kind, self.run.instance(up, opener)) {
                (ScopeKind::Lane | ScopeKind::Item | ScopeKind::Undo, Some(block)) => block.before.last,
                _ => self.run.scope(up).last,
            };
            scope = up;
        }
        self.stored(&self.run.opened.input)
    }

    /// In a DAG, the single lane that this lane needs.
    fn needed_lane(&self, scope: ScopeId, fan: NodeId, lane: &Scope) -> Option<ScopeId> {
        if lane.kind != ScopeKind::Lane {
            return None;
        }
        let Op::Fan(plan) = &self.ctx.program.plan.node(fan).op else { return None };
        let [needed] = plan.lanes.get(lane.number as usize)?.after.as_slice() else { return None };
        match &self.run.instance(scope, fan)?.work {
            Work::Fan(work) => work.lanes.get(needed)?.scope,
            _ => None,
        }
    }

    /// The innermost loop around this scope: its scope, node, and which turn this is.
    fn turn_of_loop(&self) -> Option<(ScopeId, NodeId, u32)> {
        let mut at = self.scope;
        loop {
            let scope = self.run.scope(at);
            let (up, opener) = scope.parent?;
            if scope.kind == ScopeKind::Item {
                return Some((up, opener, scope.number));
            }
            at = up;
        }
    }

    fn each_at(&self, scope: ScopeId, node: NodeId) -> Option<&EachWork> {
        match &self.run.instance(scope, node)?.work {
            Work::Each(each) => Some(each),
            _ => None,
        }
    }

    /// The item of the innermost `for_each`; a `repeat` in between has none of its own.
    fn item(&self) -> Result<Cow<'_, Value>, EvalError> {
        let mut at = self.scope;
        loop {
            let scope = self.run.scope(at);
            let Some((up, opener)) = scope.parent else { return Ok(Cow::Owned(Value::Null)) };
            if let Some(items) = self.each_at(up, opener).and_then(|e| e.items.as_ref())
                && scope.kind == ScopeKind::Item
            {
                let index = scope.number as usize;
                return Ok(match self.stored(items)? {
                    Cow::Borrowed(list) => Cow::Borrowed(list.get(index).unwrap_or(&Value::Null)),
                    Cow::Owned(mut list) => Cow::Owned(list.get_mut(index).map(Value::take).unwrap_or_default()),
                });
            }
            at = up;
        }
    }

    fn loop_facts(&self) -> Result<Value, EvalError> {
        let Some((scope, node, number)) = self.turn_of_loop() else { return Ok(Value::Null) };
        let Some(each) = self.each_at(scope, node) else { return Ok(Value::Null) };
        let count = if each.items.is_some() { each.count } else { number + 1 };
        let mut facts =
            json!({ "index": number, "count": count, "iteration_count": number + 1, "current_index": number });
        if each.items.is_none() {
            facts["previous"] = self.pass_before(each, number)?;
        }
        Ok(facts)
    }

    /// What the pass before this one gave; null in the first.
    fn pass_before(&self, each: &EachWork, number: u32) -> Result<Value, EvalError> {
        let before = number.checked_sub(1).and_then(|before| each.bodies.get(before as usize));
        before.map_or(Ok(Value::Null), |scope| self.scope_output(*scope).map(Cow::into_owned))
    }
}

/// What a step gave, put together where it is a block, as `steps.ID.output` would. None where that takes a value that
/// was not loaded.
pub fn step_output(ctx: &Context<'_>, run: &Run, scope: ScopeId, node: NodeId) -> Option<Value> {
    let view = View { ctx, run, scope, node: None, event: None, own: None };
    view.output(scope, node).ok().map(Cow::into_owned)
}

/// The folder in a run's workspace where its large outputs lie, if the plan asks for files.
pub fn files_folder(opened: &Opened) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let thread: String = opened.thread.chars().map(safe).collect();
    let thread = if thread.is_empty() { "default" } else { &thread };
    format!("data/users/{thread}/workflows/{}", opened.run)
}

/// The region whose nodes a scope runs.
pub(crate) fn region_of(ctx: &Context<'_>, run: &Run, scope: ScopeId) -> Option<RegionId> {
    let place = run.scope(scope);
    let plan = &ctx.program.plan;
    match (place.kind, place.parent) {
        (ScopeKind::Body, _) => Some(relais_plan::ROOT),
        (ScopeKind::Exit, _) => plan.exits.get(place.number as usize).map(|e| e.region),
        (ScopeKind::Undo, Some((_, node))) => plan.node(node).undo.map(|u| plan.node(u).region),
        (ScopeKind::Lane | ScopeKind::Item, Some((_, node))) => match &plan.node(node).op {
            Op::Fan(fan) => fan.lanes.get(place.number as usize).map(|l| l.region),
            Op::Each(each) => Some(each.region),
            Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => None,
        },
        (ScopeKind::Undo | ScopeKind::Lane | ScopeKind::Item, None) => None,
    }
}

/// What the run has used by now, its child runs as far as they have ended.
fn usage_facts(usage: &crate::Usage) -> Value {
    json!({
        "usd": usage.usd_nanos as f64 / 1e9,
        "tokens": usage.tokens(),
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "model_calls": usage.model_calls,
        "tool_calls": usage.tool_calls,
    })
}

fn absent(part: Part) -> Value {
    match part {
        Part::Status => json!("skipped"),
        Part::Output | Part::Outputs | Part::Error => Value::Null,
    }
}

fn error_facts(instance: &Instance) -> Value {
    instance.error.as_ref().map_or(Value::Null, |e| json!(e))
}

/// The agent that a step calls.
pub fn agent_of(node: &relais_plan::Node) -> Option<&str> {
    match &node.op {
        Op::Call(call) => match &call.task {
            relais_plan::Task::Agent { agent, .. } => Some(agent),
            relais_plan::Task::Tool { .. } | relais_plan::Task::Workflow { .. } => None,
        },
        Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
    }
}
