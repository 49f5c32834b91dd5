//! Agents that a workflow names and does not declare: brought by the loader, read as the native format writes them.
//!
//! Knows where the steps of a tree name agents. What an agent may say is in `native/agents.rs`.

use std::collections::BTreeMap;

use relais_plan::problem::has_errors;
use relais_plan::step::{Kind, Step, Workflow};
use relais_plan::{Problem, Problems, Source, Span, Task};
use serde_json::Value;

use crate::Loader;
use crate::reader::{Reader, Workflows};
use crate::yaml;

/// What is wrong with an agent that stands alone, as JSON or YAML text.
pub fn check_agent(source: &Source) -> Problems {
    read(source).1
}

/// An agent that stands alone as a value, whether it is written as JSON or YAML; or what is wrong with it.
pub fn read_agent(source: &Source) -> Result<Value, Problems> {
    let problems = check_agent(source);
    if has_errors(&problems) {
        return Err(problems);
    }
    Ok(yaml::parse(source)?.to_value())
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
    fn pin(&mut self, _reference: &str, span: Span) -> Result<crate::reader::Pin, Problem> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Options;

    /// Knows one agent, by its name and by its id.
    struct Shelf(Value);

    const ID: &str = "0190a0b0-c0d0-7000-8000-00000000000a";

    impl Loader for Shelf {
        fn load(&self, _reference: &str, _from: &str) -> Result<Source, String> {
            Err("there is no such workflow".into())
        }

        fn agent(&self, name: &str) -> Option<Value> {
            ["writer", ID].contains(&name).then(|| self.0.clone())
        }
    }

    fn read_with(agent: Value, text: &str) -> crate::Loaded {
        let source = Source { name: "flow.yaml".into(), text: text.to_owned() };
        crate::read(&source, &Shelf(agent), &Options::default())
    }

    #[test]
    fn an_agent_alone_is_read_as_the_native_format_writes_one() {
        let check = |text: &str, expected: &[&str]| {
            let problems = check_agent(&Source { name: "agent".into(), text: text.to_owned() });
            let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            assert!(told.len() == expected.len(), "{text}: {told:?}");
            assert!(told.iter().zip(expected).all(|(told, part)| told.contains(part)), "{text}: {told:?}");
        };
        check(r#"{ "model": "sim/1", "instructions": "Write.", "tools": ["read_file"], "max_turns": 3 }"#, &[]);
        check(r#"{ "modle": "sim/1", "temperature": 9 }"#, &["modle", "temperature"]);
        check(r#"["sim/1"]"#, &["an agent"]);
        check(r#"{ "instructions": "{{ input. }}" }"#, &[""]);
        check("{", &[""]);
    }

    #[test]
    fn agents_that_are_kept_elsewhere_are_found_by_every_format() {
        let agent = || json!({ "model": "sim/1", "instructions": "Write.", "output": { "ok": "boolean" } });
        let check = |text: &str, name: &str| {
            let loaded = read_with(agent(), text);
            assert!(!relais_plan::problem::has_errors(&loaded.problems), "{text}: {:?}", loaded.problems);
            assert_eq!(loaded.plan.unwrap().agents[name].models, ["sim/1"], "{text}");
        };
        check("steps: [{ id: a, agent: writer }]", "writer");
        check(&format!("steps: [{{ id: a, agent: {ID} }}]"), ID);
        check(r#"{ "nodes": [{ "id": "a", "config": { "agentId": "writer" } }], "edges": [] }"#, "writer");
        let graph = json!({ "nodes": [{ "id": "a", "config": { "agentId": ID } }], "edges": [] });
        check(&graph.to_string(), ID);
        check("workflow: [{ type: agent, name: writer }]\n", "writer");
        let condition = "{ type: condition, condition: \"{{ $steps.writer.output.ok }}\", true: [{ type: agent, id: b, name: w }] }";
        let text = format!(
            "version: \"2\"\nagents: {{ w: {{ model: sim/1 }} }}\nworkflow: [{{ type: agent, name: writer }}, {condition}]\n"
        );
        check(&text, "writer");
    }

    #[test]
    fn a_mistake_in_a_kept_agent_is_shown_where_it_is_named() {
        let loaded = read_with(json!({ "modle": "sim/1" }), "steps:\n  - { id: a, agent: writer }\n");
        let problem = &loaded.problems[0];
        assert!(problem.message.starts_with("the agent `writer`: ") && problem.span.start > 7, "{problem:?}");
    }
}
