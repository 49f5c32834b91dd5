//! What every reader works with: the problems found so far, the agents declared so far, and the way to other workflows.
//!
//! A format's own rules live in its module; the ways to read a map, a number or a schema are in `fields` and `values`
//! and are the same for all.

use indexmap::IndexMap;
use relais_plan::problem::nearest;
use relais_plan::{Agent, Problem, Problems, Schema, Span};
use serde_json::Value;

use crate::steps;

/// Pins the workflows that a workflow calls.
pub(crate) trait Workflows {
    /// The plan that the reference means.
    fn pin(&mut self, reference: &str, span: Span) -> Result<Pin, Problem>;

    /// An agent that is kept elsewhere, in the words of the native format.
    fn agent(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The models that the configuration has for a name.
    fn models(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A workflow that is called, as it was when the caller was loaded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pin {
    /// Of its plan.
    pub hash: String,
    /// The schema of its input.
    pub takes: Option<Schema>,
}

/// For what stands by itself and calls no workflows: an agent, a step, a trigger.
pub(crate) struct NoWorkflows;

impl Workflows for NoWorkflows {
    fn pin(&mut self, _reference: &str, span: Span) -> Result<Pin, Problem> {
        Err(Problem::error(span, "no workflow can be called from here"))
    }
}

/// What one pass over a file gathers.
pub(crate) struct Reader<'w> {
    pub workflows: &'w mut dyn Workflows,
    /// The name of a workflow that has none of its own: that of its file.
    pub stem: String,
    /// The file itself, as a workflow beside it would name it.
    pub file: String,
    /// Which graph of a file with several is read; none means the main one.
    pub branch: Option<String>,
    /// Declared agents and, under the id of their step, those written into a step.
    pub agents: IndexMap<String, Agent>,
    pub problems: Problems,
    /// What is only not filled in yet, where a format is put together step by step.
    pub unfinished: Problems,
    /// A step is read by itself: what it reads of others is given to the run (format `steps`).
    pub alone: Option<steps::Needs>,
    /// The file was written by a program (format `steps`): a field that nobody knows is told and does no harm.
    pub is_export: bool,
    searches: u32,
}

/// Nearest names that are looked for in a file: each costs a look at all that there are, and nobody reads further than
/// this before mending the first mistakes.
const MAX_SEARCHES: u32 = 50;

impl<'w> Reader<'w> {
    pub fn new(workflows: &'w mut dyn Workflows, stem: String, file: &str, branch: Option<String>) -> Reader<'w> {
        Reader {
            workflows,
            stem,
            file: format!("./{}", base(file)),
            branch,
            agents: IndexMap::new(),
            problems: Vec::new(),
            unfinished: Vec::new(),
            alone: None,
            is_export: false,
            searches: MAX_SEARCHES,
        }
    }

    /// The nearest of many names, as long as the file has not had too many mistakes.
    pub fn near<'k>(&mut self, written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
        self.searches = self.searches.checked_sub(1)?;
        nearest(written, known)
    }
}

fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// `dir/price-monitor.yaml` is called `price-monitor`.
pub(crate) fn stem(path: &str) -> String {
    let file = base(path);
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => file.to_owned(),
    }
}
