//! The format `pipeline`: agents and the steps that they take, in one file.
//!
//! `workflow` is a list of steps, or a map with `steps`, `max_loop_iterations` and `overrides`. A step runs an agent,
//! chooses by a condition, runs steps at the same time, or goes back. Each agent is shown what all steps before it gave.
//!
//! The way of a file: [`agents`] reads who works, [`tree`] which steps there are and what they are called, [`terms`] what
//! templates and conditions refer to, [`order`] puts conditions behind what they wait for, [`lower`] makes the steps.
//! What of the format has no meaning here is refused with advice, in [`keys`].

mod agents;
mod keys;
mod lower;
mod order;
mod terms;
mod toolsets;
mod tree;

use std::collections::HashMap;

use relais_plan::step::Workflow;
use relais_plan::{Expr, Problem, Schema, Span, Template};
use serde_json::{Value, json};

use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::yaml::{Data, Node};

/// How often a step may run in one cycle where the file does not say.
const MAX_LOOP_ITERATIONS: u32 = 100;
/// What the last step gave; where that is a condition that took no arm, what the agent before it did.
const OUTPUT: &str = "{{ (earlier | last).output if previous is none else previous }}";
const EXAMPLE: &str = "`workflow: [{ type: agent, name: writer }]`";

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    let Some(fields) = reader.known_map(root, "a pipeline", keys::TOP, keys::NOT_AT_TOP, EXAMPLE) else {
        return Workflow::default();
    };
    let mut workflow = Workflow {
        name: reader.stem.clone(),
        input_schema: prompt_schema(),
        output: Template::text(OUTPUT, Span::default()).ok(),
        ..Workflow::default()
    };
    fields.get("version").into_iter().for_each(|field| reader.version(field));
    workflow.description = fields.get("metadata").map(|field| reader.metadata(field)).unwrap_or_default();
    let mut staff = agents::Staff::read(&fields, reader);
    let (steps, limit) = reader.workflow_section(&fields);
    let tree = tree::Tree::read(steps, reader, &staff);
    staff.lend(&tree, reader);
    staff.instruct(&tree, reader);
    let conditions = conditions(&tree, &staff, reader);
    let order = order::of(&tree, &conditions, reader);
    workflow.steps = lower::Lowering::new(&tree, conditions, order, limit, reader).steps();
    (workflow.agents, workflow.servers) = staff.finish();
    workflow
}

/// A condition as an expression, with the steps that it reads.
struct Condition {
    when: Expr,
    reads: Vec<usize>,
}

/// Every condition, by its step.
fn conditions(tree: &tree::Tree<'_>, staff: &agents::Staff<'_>, reader: &mut Reader<'_>) -> HashMap<usize, Condition> {
    let mut found = HashMap::new();
    let mut terms = terms::Terms::new(tree, staff);
    for (step, item) in tree.items.iter().enumerate() {
        if let tree::What::Condition { test: Some(field), .. } = &item.what {
            found.insert(step, terms.condition(*field, reader));
        }
    }
    found
}

/// What a run is started with: the words of the person, if there are any.
fn prompt_schema() -> Option<Schema> {
    let json = json!({
        "type": "object",
        "properties": { "prompt": { "type": "string" } },
        "additionalProperties": false,
    });
    Schema::written(&json).ok()
}

impl Reader<'_> {
    /// Like `map`, with words of advice for keys that other programs know.
    fn known_map<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
        refused: &[(&str, &str)],
        example: &str,
    ) -> Option<Fields<'n>> {
        let fields = self.open_map(node, what, example)?;
        for field in fields.all().filter(|field| !known.contains(&field.key)) {
            match refused.iter().find(|(key, _)| *key == field.key) {
                Some((key, advice)) => {
                    let message = format!("`{key}` has no meaning in a workflow");
                    self.problems.push(Problem::error(field.key_span, message).help(*advice));
                }
                None => self.problems.push(crate::fields::unknown_key(field, what, known)),
            }
        }
        Some(fields)
    }

    /// The versions of the format differ in what is refused here anyway.
    fn version(&mut self, field: Field<'_>) {
        let number = match &field.node.data {
            Data::Scalar(Value::String(text)) => text.trim_start_matches('v').parse::<u32>().ok(),
            Data::Scalar(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            Data::Scalar(_) | Data::List(_) | Data::Map(_) => None,
        };
        if number.is_none() {
            self.wrong(field, "a whole number", "`version: \"2\"`");
        }
    }

    /// Who wrote the file and under which licence is for people; its description is that of the workflow.
    fn metadata(&mut self, field: Field<'_>) -> String {
        let example = "`metadata: { description: Translates and publishes }`";
        let Some(fields) = self.map(field.node, "`metadata`", keys::METADATA, example) else {
            return String::new();
        };
        for field in ["author", "license", "readme", "version"].iter().filter_map(|key| fields.get(key)) {
            self.text(field);
        }
        fields.get("tags").map(|field| self.texts(field));
        fields.get("description").and_then(|field| self.text(field)).unwrap_or_default()
    }

    /// The list of steps, and how often a step may run in one cycle.
    fn workflow_section<'n>(&mut self, fields: &Fields<'n>) -> (Option<Field<'n>>, u32) {
        let Some(field) = fields.get("workflow") else {
            let problem = Problem::error(Span::default(), "the file has no `workflow`");
            self.problems.push(problem.help(format!("add the steps, for example {EXAMPLE}")));
            return (None, MAX_LOOP_ITERATIONS);
        };
        if let Data::List(_) | Data::Scalar(_) = &field.node.data {
            return (Some(field), MAX_LOOP_ITERATIONS);
        }
        let example = "`workflow: { max_loop_iterations: 5, steps: [{ type: agent, name: writer }] }`";
        let Some(fields) = self.map(field.node, "`workflow`", keys::WORKFLOW, example) else {
            return (None, MAX_LOOP_ITERATIONS);
        };
        let steps = fields.get("steps");
        if steps.is_none() {
            self.problems.push(
                Problem::error(field.key_span, "`workflow` has no `steps`").help(format!("for example {example}")),
            );
        }
        (steps, self.loop_limit(&fields))
    }

    fn loop_limit(&mut self, fields: &Fields<'_>) -> u32 {
        let limit = fields.get("max_loop_iterations").and_then(|field| self.passes(field));
        let example = "`overrides: { max_loop_iterations: 5 }`";
        let overrides =
            fields.get("overrides").and_then(|field| self.map(field.node, "`overrides`", keys::OVERRIDES, example));
        let over = overrides.and_then(|fields| fields.get("max_loop_iterations")).and_then(|field| self.passes(field));
        over.or(limit).unwrap_or(MAX_LOOP_ITERATIONS)
    }
}
