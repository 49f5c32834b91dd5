//! `earlier`: what the steps before this one gave, in written order, as formats show it that hand every output on.
//!
//! Each is `{id, path, agent, output, said}`, where `said` is the output as its agent said it; the path of a child of a
//! parallel step is `parent/child`. A lane sees what was done before its block and, in a DAG, what it needs; never its
//! siblings. A step that is gone back to also sees what it gave itself the last time.

use std::borrow::Cow;
use std::collections::BTreeSet;

use relais_plan::expr::EvalError;
use relais_plan::{Fan, FanOutput, Lane, NodeId, Op, Until};
use serde_json::{Value, json};

use crate::event::{ScopeId, StepStatus};
use crate::names::{View, agent_of};
use crate::run::{ScopeKind, Work};

pub(crate) fn list(view: &View<'_>) -> Result<Cow<'static, Value>, EvalError> {
    let mut chain = Vec::new();
    let mut at = Some(view.scope);
    while let Some(scope) = at {
        chain.push(scope);
        at = view.run.scope(scope).parent.map(|(up, _)| up);
    }
    let mut found = Found { view, list: Vec::new() };
    let mut prefix = String::new();
    for scope in chain.into_iter().rev() {
        found.needed(scope, &prefix)?;
        prefix += &found.block(scope);
        found.scope(scope, &prefix)?;
    }
    Ok(Cow::Owned(Value::Array(found.list)))
}

struct Found<'v, 'a> {
    view: &'v View<'a>,
    list: Vec<Value>,
}

impl Found<'_, '_> {
    fn scope(&mut self, scope: ScopeId, prefix: &str) -> Result<(), EvalError> {
        for (node, step) in &self.view.run.scope(scope).steps {
            if step.status == StepStatus::Completed || step.tolerated {
                self.step(scope, *node, prefix)?;
            } else if let Some(former) = &step.former {
                let output = self.view.stored(former)?.into_owned();
                self.add(*node, prefix, output, None);
            }
        }
        Ok(())
    }

    fn step(&mut self, scope: ScopeId, node: NodeId, prefix: &str) -> Result<(), EvalError> {
        let plan = self.view.ctx.program.plan.node(node);
        match &plan.op {
            Op::Fan(fan) => {
                let below = match fan.output {
                    FanOutput::Keyed => format!("{prefix}{}/", plan.key),
                    FanOutput::Sinks(_) | FanOutput::Only => prefix.to_owned(),
                };
                self.lanes(scope, node, (0..fan.lanes.len() as u32).collect(), &below)
            }
            Op::Call(_) | Op::Each(_) | Op::Wait(Until::Person(_)) => {
                let output = self.view.output(scope, node)?.into_owned();
                let said = self.view.run.instance(scope, node).and_then(|step| step.text.clone());
                self.add(node, prefix, output, said);
                Ok(())
            }
            // The steps of an arm stand in the same scope; the others have nothing to hand on.
            Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => Ok(()),
        }
    }

    fn add(&mut self, node: NodeId, prefix: &str, output: Value, said: Option<String>) {
        let plan = self.view.ctx.program.plan.node(node);
        let path = format!("{prefix}{}", plan.key);
        let said = said.map_or_else(|| output.clone(), Value::String);
        self.list
            .push(json!({ "id": plan.key, "path": path, "agent": agent_of(plan), "output": output, "said": said }));
    }

    fn lanes(&mut self, scope: ScopeId, fan: NodeId, lanes: BTreeSet<u32>, prefix: &str) -> Result<(), EvalError> {
        let Some(Work::Fan(work)) = self.view.run.instance(scope, fan).map(|step| &step.work) else { return Ok(()) };
        for lane in lanes.iter().filter_map(|lane| work.lanes.get(lane)?.scope) {
            self.scope(lane, prefix)?;
        }
        Ok(())
    }

    /// What a lane adds to the paths of its steps, wherever they are seen from.
    fn block(&self, scope: ScopeId) -> String {
        let place = self.view.run.scope(scope);
        let (ScopeKind::Lane, Some((_, node))) = (place.kind, place.parent) else { return String::new() };
        let block = self.view.ctx.program.plan.node(node);
        match &block.op {
            Op::Fan(fan) if fan.output == FanOutput::Keyed => format!("{}/", block.key),
            Op::Fan(_) | Op::Call(_) | Op::Choose { .. } | Op::Each(_) | Op::Wait(_) | Op::End { .. } => String::new(),
        }
    }

    /// In a DAG, the lanes that this one comes after, directly or not.
    fn needed(&mut self, scope: ScopeId, prefix: &str) -> Result<(), EvalError> {
        let place = self.view.run.scope(scope);
        let (ScopeKind::Lane, Some((up, node))) = (place.kind, place.parent) else { return Ok(()) };
        let Op::Fan(fan) = &self.view.ctx.program.plan.node(node).op else { return Ok(()) };
        let lanes = before(fan, place.number);
        self.lanes(up, node, lanes, prefix)
    }
}

fn before(fan: &Fan, lane: u32) -> BTreeSet<u32> {
    let after = |lane: u32| fan.lanes.get(lane as usize).map_or(&[][..], |lane: &Lane| &lane.after);
    let mut found = BTreeSet::new();
    let mut todo: Vec<u32> = after(lane).to_vec();
    while let Some(lane) = todo.pop() {
        if found.insert(lane) {
            todo.extend(after(lane));
        }
    }
    found
}
