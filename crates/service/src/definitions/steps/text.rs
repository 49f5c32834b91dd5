//! A workflow of steps as text of the format `steps`, and what is wrong with it. Every step stands on a line of its own,
//! so that the place of a mistake tells its step.

use relais_dialects::draft;
use relais_plan::{Problem, Severity, Source};
use serde_json::{Value, json};

use super::StepRecord;
use crate::{Error, Workflow};

/// The line of the first step.
const FIRST_LINE: usize = 2;
/// Mistakes that one message tells.
const MAX_TOLD: usize = 5;

pub(super) fn of_workflow(workflow: &Workflow, steps: &[&StepRecord]) -> String {
    let head = json!({ "uuid": workflow.id, "name": workflow.name, "description": workflow.description });
    with_head(&head, steps)
}

pub(super) fn of_step(step: &StepRecord) -> Source {
    let name = step.name.clone();
    Source { text: with_head(&json!({ "name": name }), &[step]), name }
}

fn with_head(head: &Value, steps: &[&StepRecord]) -> String {
    let head = head.to_string();
    let lines: Vec<String> = steps.iter().map(|step| of_one(step).to_string()).collect();
    format!("{}, \"steps\": [\n{}\n]}}\n", head.trim_end_matches('}'), lines.join(",\n"))
}

/// A step as the format writes it: what its type has stands beside what all have.
fn of_one(step: &StepRecord) -> Value {
    let mut one = json!({ "uuid": step.uuid, "name": step.name, "description": step.description });
    let kind = serde_json::to_value(&step.kind).unwrap_or_default();
    if let Some(details) = kind["details"].as_object() {
        details.iter().for_each(|(key, value)| one[key] = value.clone());
    }
    one["type"] = kind["type"].clone();
    one
}

/// A step in no workflow may name steps that it will come after.
pub(super) fn check_alone(step: &StepRecord) -> Result<(), Error> {
    let source = of_step(step);
    let found = draft(&source, true);
    refuse(&source, &found.mistakes, &[step], "")
}

/// Refuses what would be wrong however the steps were filled in. `wanted`: what cannot be done then, for people.
pub(super) fn check(source: &Source, steps: &[&StepRecord], wanted: &str) -> Result<(), Error> {
    refuse(source, &draft(source, false).mistakes, steps, wanted)
}

pub(super) fn refuse(source: &Source, found: &[Problem], steps: &[&StepRecord], wanted: &str) -> Result<(), Error> {
    let errors: Vec<&Problem> = found.iter().filter(|problem| problem.severity == Severity::Error).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let mut told: Vec<String> = errors.iter().take(MAX_TOLD).map(|problem| tell(source, problem, steps)).collect();
    if errors.len() > MAX_TOLD {
        told.push(format!("and {} more", errors.len() - MAX_TOLD));
    }
    let told = told.join("; ");
    Err(Error::Invalid(if wanted.is_empty() { told } else { format!("{wanted}: {told}") }))
}

fn tell(source: &Source, problem: &Problem, steps: &[&StepRecord]) -> String {
    let (line, _) = source.position(problem.span.start);
    let step = line.checked_sub(FIRST_LINE).and_then(|index| steps.get(index));
    let step = step.map(|step| format!("in the step `{}`: ", step.name)).unwrap_or_default();
    let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{step}{}{help}", problem.message)
}
