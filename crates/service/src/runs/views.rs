//! A run in the words of each format: what its people know from where they come from, as JSON.
//!
//! The views are pure: they see the plan, the trace, and values that were read beforehand. A run of any format can be
//! shown in the words of any other; what a format has no word for is left out.

mod chain;
mod dag;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod fixture;
mod graph;
mod pipeline;
mod steps;

use std::collections::{HashMap, HashSet};

use relais_dialects::Format;
use relais_engine::*;
use relais_plan::time::format_instant;
use relais_plan::{Call, Effect, Node, NodeId, Op, Plan};
use serde_json::Value;

use crate::runs::trace::unreached::written;
use crate::runs::trace::{CallTrace, StepTrace, Trace};
use crate::{Error, Service};

/// A run with everything that a view may show of it.
pub struct Shown<'a> {
    pub plan: &'a Plan,
    pub trace: &'a Trace,
    pub input: Value,
    /// What the run ended with; null while it goes.
    pub output: Value,
    /// What each step of the trace gave, by its position there; blocks are put together.
    pub outputs: Vec<Value>,
    /// The folder in the run's workspace where large outputs lie, if the plan asks for files.
    pub files: String,
}

impl<'a> Shown<'a> {
    /// The steps of the trace, each with what the plan says about it and what it gave.
    fn steps(&self) -> impl Iterator<Item = Seen<'a, '_>> {
        let plan = self.plan;
        let seen = move |(step, output): (&'a StepTrace, _)| Seen { step, node: plan.node(step.place.1), output };
        self.trace.steps.iter().zip(&self.outputs).map(seen)
    }

    /// The steps that a person wrote and that were never begun.
    fn untouched(&self) -> impl Iterator<Item = (NodeId, &'a Node)> {
        let begun: HashSet<NodeId> = self.trace.steps.iter().map(|step| step.place.1).collect();
        let never = written(self.plan).filter(move |id| !begun.contains(id));
        never.map(|id| (id, self.plan.node(id)))
    }

    fn error_message(&self) -> Option<String> {
        self.trace.error.as_ref().map(|error| error.message.clone())
    }

    /// The name that the author knows the workflow by.
    fn workflow_id(&self) -> &str {
        self.plan.alias.as_deref().unwrap_or(&self.trace.workflow)
    }
}

/// One step that was begun.
struct Seen<'a, 'o> {
    step: &'a StepTrace,
    node: &'a Node,
    output: &'o Value,
}

impl<'a> Seen<'a, '_> {
    fn call(&self) -> Option<&'a Call> {
        call_of(self.node)
    }

    /// The calls that it made of itself: without the one that puts its input where the agent can refer to it.
    fn calls(&self) -> impl Iterator<Item = &'a CallTrace> {
        let saves = self.saves();
        self.step.calls.iter().enumerate().filter(move |(nth, _)| Some(*nth) != saves).map(|(_, call)| call)
    }

    /// Which of its calls put its input into an artifact.
    fn saves(&self) -> Option<usize> {
        let artifact = self.call()?.input_as.as_deref()?;
        self.step.calls.iter().position(|call| call.what == "tool" && call.input["name"] == artifact)
    }

    /// What it was given: the value in its artifact, a tool's arguments, or what was said to the model first.
    fn input(&self) -> Value {
        if let Some(saved) = self.saves() {
            let content = self.step.calls[saved].input["content"].as_str().unwrap_or_default();
            return serde_json::from_str(content).unwrap_or_default();
        }
        let Some(first) = self.step.calls.iter().find(|call| matches!(&*call.what, "model" | "tool" | "run")) else {
            return Value::Null;
        };
        if first.what == "model" {
            said_to(first, "user").map(Value::String).unwrap_or_default()
        } else {
            first.input.clone()
        }
    }
}

fn call_of(node: &Node) -> Option<&Call> {
    match &node.op {
        Op::Call(call) => Some(call),
        Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
    }
}

/// What a model was told by somebody, all of it.
fn said_to(call: &CallTrace, role: &str) -> Option<String> {
    let messages = call.input.as_array()?.iter().filter(|message| message["role"] == role);
    let texts: Vec<&str> = messages.filter_map(|message| message["text"].as_str()).collect();
    Some(texts.join("\n\n")).filter(|text| !text.is_empty())
}

/// An id that is the same whenever it is asked for.
fn derived(run: RunId, of: &str) -> uuid::Uuid {
    uuid::Uuid::new_v5(&run, of.as_bytes())
}

fn instant(at: Millis) -> String {
    format_instant(at)
}

fn ms(from: Millis, to: Option<Millis>) -> Option<u64> {
    to.map(|to| to.saturating_sub(from).max(0) as u64)
}

/// A step that waits is at work, and one that was cancelled has failed, in formats without words for it.
fn step_word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Waiting => StepStatus::Running.word(),
        StepStatus::Cancelled => StepStatus::Failed.word(),
        other => other.word(),
    }
}

/// A run that waits goes on, and one that was stopped is complete, in formats without words for it.
fn run_word(word: &str) -> &str {
    match word {
        word if word == RunStatus::Waiting.word() => RunStatus::Running.word(),
        word if word == RunStatus::Interrupted.word() => RunStatus::Running.word(),
        word if word == RunStatus::Stopped.word() => RunStatus::Completed.word(),
        other => other,
    }
}

impl Service {
    /// A run in the words of a format; the native one is the trace itself.
    pub async fn view(&self, run: RunId, words: Format) -> Result<Value, Error> {
        let (program, entries, state) = self.load(run).await?;
        let mut trace = self.traced(&program, &entries, run).await?;
        if words != Format::Native {
            // Each format has words of its own for what was never begun.
            trace.steps.retain(|step| step.attempts > 0);
        }
        let of_steps = trace.steps.iter().filter_map(|step| step.output.as_ref());
        let values = self.values_of(hashes(of_steps.chain([&trace.input]).chain(&trace.output))).await?;
        let outputs = outputs(&program, &state, &trace, &values);
        let (input, output) = (plain(&trace.input, &values), trace.output.as_ref().map(|o| plain(o, &values)));
        let output = output.unwrap_or_default();
        let shown =
            Shown { plan: &program.plan, trace: &trace, input, output, outputs, files: files_folder(&state.opened) };
        let mut view = match words {
            Format::Native => serde_json::to_value(&trace).map_err(|e| Error::Unusable(e.to_string()))?,
            Format::Chain => chain::view(&shown),
            Format::Steps => steps::view(&shown),
            Format::Pipeline => pipeline::view(&shown),
            Format::Graph => graph::view(&shown),
            Format::Dag => dag::view(&shown),
        };
        if let (false, Some(fields)) = (trace.made_up.is_empty(), view.as_object_mut()) {
            fields.insert("made_up".to_owned(), Value::from(trace.made_up.clone()));
        }
        Ok(view)
    }

    /// Large values, read from where they are kept.
    pub(crate) async fn values_of(&self, hashes: Vec<String>) -> Result<Values, Error> {
        let mut values = HashMap::new();
        for hash in hashes {
            if let Some(bytes) = self.core.store.get_blob(hash.clone()).await? {
                values.insert(hash, serde_json::from_slice(&bytes).unwrap_or_default());
            }
        }
        Ok(values)
    }
}

/// The hashes of those values that are kept apart.
pub(crate) fn hashes<'a>(stored: impl IntoIterator<Item = &'a Stored>) -> Vec<String> {
    let hash = |stored: &Stored| match stored {
        Stored::Value(_) => None,
        Stored::Blob(blob) => Some(blob.hash.clone()),
    };
    stored.into_iter().filter_map(hash).collect()
}

pub(crate) fn plain(stored: &Stored, values: &Values) -> Value {
    match stored {
        Stored::Value(value) => value.clone(),
        Stored::Blob(blob) => values.get(&blob.hash).cloned().unwrap_or_else(|| blob.reference()),
    }
}

pub(crate) fn outputs(program: &Program, run: &Run, trace: &Trace, values: &Values) -> Vec<Value> {
    let context = Context { program, values, catalog: &Nothing };
    let output = |step: &StepTrace| match (&step.output, step.status) {
        (Some(stored), _) => plain(stored, values),
        // A block that a jump has entered again has the output of its latest visit.
        (None, StepStatus::Completed) => step_output(&context, run, step.place.0, step.place.1).unwrap_or_default(),
        (None, _) => Value::Null,
    };
    trace.steps.iter().map(output).collect()
}

/// Nothing is called for a view.
struct Nothing;

impl Catalog for Nothing {
    fn effect(&self, _tool: &str, _arguments: &Value) -> Effect {
        Effect::Once
    }

    fn model(&self, _model: &str) -> ModelFacts {
        ModelFacts::default()
    }
}
