//! Agents that a workflow names and does not declare: brought by the loader, read as the native format writes them.
//!
//! Knows where the steps of a tree name agents. What an agent may say is in `native/agents.rs`.

use std::collections::BTreeMap;

use relais_plan::step::{Kind, Step, Workflow};
use relais_plan::{Problem, Problems, Source, Span, Task};

use crate::Loader;
use crate::reader::{Reader, Workflows};
use crate::yaml;

/// What is wrong with an agent that stands alone, as JSON or YAML text.
pub fn check_agent(source: &Source) -> Problems {
    read(source).1
}

/// Gives the workflow the agents that it lacks and the loader has. Who is still lacking is found by the check.
pub(crate) fn complete(workflow: &mut Workflow, loader: &dyn Loader, problems: &mut Problems) {
    let mut named = BTreeMap::new();
    workflow.steps.iter().for_each(|step| of_step(step, &mut named));
    workflow.exits.iter().flat_map(|(_, steps)| steps).for_each(|step| of_step(step, &mut named));
    named.retain(|name, _| !workflow.agents.contains_key(name));
    for (name, span) in named {
        let Some(definition) = loader.agent(&name) else { continue };
        let (agent, wrong) = read(&Source { name: name.clone(), text: definition.to_string() });
        // Places in the agent's own text mean nothing here: it is shown where it is named.
        problems.extend(wrong.into_iter().map(|problem| Problem {
            span,
            message: format!("the agent `{name}`: {}", problem.message),
            ..problem
        }));
        workflow.agents.insert(name, relais_plan::Agent { span, ..agent });
    }
}

fn read(source: &Source) -> (relais_plan::Agent, Problems) {
    let node = match yaml::parse(source) {
        Ok(node) => node,
        Err(problems) => return (relais_plan::Agent::default(), problems),
    };
    let mut alone = Alone;
    let mut reader = Reader::new(&mut alone, source.name.clone(), &source.name, None);
    let mut agent = reader.agent(&node);
    let problems = std::mem::take(&mut reader.problems);
    crate::normal::agent(&mut agent);
    (agent, problems)
}

/// An agent calls no workflows.
struct Alone;

impl Workflows for Alone {
    fn pin(&mut self, _reference: &str, span: Span) -> Result<String, Problem> {
        Err(Problem::error(span, "an agent calls no workflows"))
    }
}

/// The first place that names each agent. A tree is never deeper than the reader of YAML allows.
fn of_step(step: &Step, named: &mut BTreeMap<String, Span>) {
    step.undo.iter().for_each(|undo| of_step(undo, named));
    match &step.kind {
        Kind::Call(call) => match &call.task {
            Task::Agent { agent, .. } => {
                named.entry(agent.clone()).or_insert(step.span);
            }
            Task::Tool { .. } | Task::Workflow { .. } => {}
        },
        Kind::Choose { arms, other } => {
            arms.iter().flat_map(|arm| &arm.steps).for_each(|step| of_step(step, named));
            other.iter().flatten().for_each(|step| of_step(step, named));
        }
        Kind::Parallel { lanes: steps, .. }
        | Kind::Group { steps, .. }
        | Kind::ForEach { steps, .. }
        | Kind::Repeat { steps, .. } => steps.iter().for_each(|step| of_step(step, named)),
        Kind::Wait(_) | Kind::StopIf(_) | Kind::Set(_) | Kind::Goto { .. } => {}
    }
}
