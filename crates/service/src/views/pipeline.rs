//! A run in the words of the pipeline: the step context, what each step gave by its id.
//!
//! A parallel step has `outputs` by the ids of its children and their `order`, nested as the steps are, so that the
//! path to a value here is the path that a template takes to it.

use relais_engine::agent_of;
use relais_plan::{Fan, FanOutput, Op};
use serde_json::{Map, Value, json};

use super::{Seen, Shown};
use crate::trace::Tree;

pub(super) fn view(shown: &Shown<'_>) -> Value {
    let steps: Vec<Seen<'_, '_>> = shown.steps().collect();
    let context = Context { tree: Tree::of(&shown.trace.steps), steps };
    Value::Object(context.of(&context.tree.outermost))
}

struct Context<'a, 'o> {
    tree: Tree,
    steps: Vec<Seen<'a, 'o>>,
}

impl Context<'_, '_> {
    fn of(&self, steps: &[usize]) -> Map<String, Value> {
        let mut context = Map::new();
        for index in steps {
            let (seen, inside) = (&self.steps[*index], &self.tree.inside[*index]);
            match &seen.node.op {
                Op::Fan(Fan { output: FanOutput::Sinks(_) | FanOutput::Only, .. }) => context.extend(self.of(inside)),
                Op::Fan(fan) => _ = context.insert(seen.step.key.clone(), self.parallel(seen, fan, inside)),
                Op::Call(_) | Op::Each(_) | Op::Wait(_) => _ = context.insert(seen.step.key.clone(), step(seen)),
                // It gives nothing of its own; the steps of its arm stand beside it.
                Op::Choose { .. } | Op::End { .. } => _ = context.insert(seen.step.key.clone(), bare(seen)),
            }
        }
        context
    }

    fn parallel(&self, seen: &Seen<'_, '_>, fan: &Fan, inside: &[usize]) -> Value {
        let mut found = self.of(inside);
        let order: Vec<&str> = fan.lanes.iter().map(|lane| lane.key.as_str()).collect();
        let mut outputs: Map<String, Value> = Map::new();
        for id in &order {
            outputs.extend(found.remove_entry(*id));
        }
        outputs.extend(found);
        let mut parallel = bare(seen);
        parallel["outputs"] = Value::Object(outputs);
        parallel["order"] = json!(order);
        parallel
    }
}

fn step(seen: &Seen<'_, '_>) -> Value {
    let mut step = bare(seen);
    step["output"] = seen.output.clone();
    if let Some(agent) = agent_of(seen.node) {
        step["agent"] = json!(agent);
    }
    step
}

fn bare(seen: &Seen<'_, '_>) -> Value {
    let mut step = json!({ "status": seen.step.status.word() });
    if let Some(error) = &seen.step.error {
        step["error"] = json!(error.message);
    }
    step
}
