//! A run in the words of the pipeline: the step context, what each step gave by its id.
//!
//! A parallel step has `outputs` by the ids of its children and their `order`, nested as the steps are, so that the
//! path to a value here is the path that a template takes to it.

use relais_engine::agent_of;
use relais_plan::{Fan, FanOutput, Op};
use serde_json::{Map, Value, json};

use super::{Seen, Shown};
use crate::runs::trace::Tree;

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
                Op::Call(_) | Op::Each(_) | Op::Wait(_) => _ = context.insert(seen.step.key.clone(), leaf(seen)),
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

fn leaf(seen: &Seen<'_, '_>) -> Value {
    let mut leaf = bare(seen);
    leaf["output"] = seen.output.clone();
    if let Some(agent) = agent_of(seen.node) {
        leaf["agent"] = json!(agent);
    }
    leaf
}

fn bare(seen: &Seen<'_, '_>) -> Value {
    let mut step = json!({ "status": seen.step.status.word() });
    if let Some(error) = &seen.step.error {
        step["error"] = json!(error.message);
    }
    step
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::*;
    use super::*;
    use relais_engine::{RunStatus, StepStatus};

    #[test]
    fn parallel_steps_nest_in_written_order() {
        let plan = plan(
            "name: flow\nagents: { a: { model: sim/x, instructions: hi } }\nsteps:\n\
             - { id: first, agent: a }\n\
             - id: outer\n  parallel:\n  - { id: left, agent: a }\n\
             \x20 - { id: inner, parallel: [{ id: p, agent: a }, { id: q, agent: a }] }\n",
        );
        let done = |path: &str, output: &str| step(&plan, path, StepStatus::Completed, json!(output));
        let block = |path: &str| step(&plan, path, StepStatus::Completed, Value::Null);
        let steps = vec![
            done("first", "1"),
            block("outer"),
            block("outer/inner"),
            done("outer/inner/q", "q"),
            done("outer/inner/p", "p"),
            failed(step(&plan, "outer/left", StepStatus::Failed, Value::Null), "no"),
        ];
        let trace = trace(RunStatus::Failed, steps);
        let leaf = |output: &str| json!({ "status": "completed", "output": output, "agent": "a" });
        let context = view(&shown(&plan, &trace));
        let expected = json!({
            "first": leaf("1"),
            "outer": {
                "status": "completed",
                "outputs": {
                    "left": { "status": "failed", "error": "no", "output": null, "agent": "a" },
                    "inner": { "status": "completed", "outputs": { "p": leaf("p"), "q": leaf("q") }, "order": ["p", "q"] },
                },
                "order": ["left", "inner"],
            },
        });
        assert_eq!(context, expected);
        assert_eq!(context["outer"]["outputs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["left", "inner"]);
    }

    #[test]
    fn a_step_that_was_gone_back_to_has_its_latest_output() {
        let plan =
            plan("name: flow\nagents: { a: { model: sim/x, instructions: hi } }\nsteps: [{ id: s, agent: a }]\n");
        let done = |output: &str| step(&plan, "s", StepStatus::Completed, json!(output));
        let trace = trace(RunStatus::Completed, vec![done("old"), done("new")]);
        assert_eq!(view(&shown(&plan, &trace))["s"]["output"], "new");
    }
}
