//! Text to plan. One reader per format; all of them produce the tree of steps that `relais_plan::build` lowers.
//!
//! This crate reads no files: a [`Loader`] brings the text of the workflows that a workflow calls. It knows nothing
//! of runs, stores or networks.

mod native;
mod schema;
mod yaml;

use std::collections::HashMap;

use relais_plan::problem::has_errors;
use relais_plan::{Plan, Problem, Problems, Source, Span};

pub use schema::json_schema;

/// Workflows within workflows.
pub const MAX_WORKFLOW_DEPTH: usize = 10;
/// Different workflows that one file may pull in, directly or not.
pub const MAX_WORKFLOWS: usize = 256;

/// Brings the text of another workflow. Two references to the same workflow must give the same [`Source::name`], for
/// that is how a cycle is seen.
pub trait Loader {
    /// `reference` as it is written (`./other.yaml`) in the file that is named `from`.
    fn load(&self, reference: &str, from: &str) -> Result<Source, String>;
}

/// What a file became.
#[derive(Debug)]
pub struct Loaded {
    /// There is a plan whenever one could be made, so that a check can find still more; it may run only if
    /// `problems` has no error.
    pub plan: Option<Plan>,
    pub problems: Problems,
    /// The plans of all workflows that this one calls, directly or not, each once.
    pub children: Vec<Plan>,
}

/// Reads a file. Its format is found by its shape; at present there is one, the native format.
pub fn read(source: &Source, loader: &dyn Loader) -> Loaded {
    let mut reading = Reading { loader, chain: Vec::new(), known: HashMap::new(), children: Vec::new() };
    let (plan, problems) = reading.file(source);
    Loaded { plan, problems, children: reading.children }
}

/// One file and all that it calls.
struct Reading<'l> {
    loader: &'l dyn Loader,
    /// Names of the files being read, outermost first.
    chain: Vec<String>,
    /// Hash of each workflow that was read, by the name of its source.
    known: HashMap<String, Result<String, String>>,
    children: Vec<Plan>,
}

impl Reading<'_> {
    fn file(&mut self, source: &Source) -> (Option<Plan>, Problems) {
        let root = match yaml::parse(source) {
            Ok(root) => root,
            Err(problems) => return (None, problems),
        };
        self.chain.push(source.name.clone());
        let (workflow, mut problems) = native::read(source, &root, self);
        self.chain.pop();
        let (plan, of_build) = relais_plan::build::build(workflow);
        problems.extend(of_build);
        for problem in &mut problems {
            problem.span = within(problem.span, &source.text);
        }
        problems.sort_by_key(|problem| problem.span);
        (plan, problems)
    }

    fn child(&mut self, reference: &str) -> Result<String, String> {
        let from = self.chain.last().cloned().unwrap_or_default();
        let source = self.loader.load(reference, &from)?;
        self.refuse_cycle(&source.name)?;
        if let Some(known) = self.known.get(&source.name) {
            return known.clone();
        }
        if self.chain.len() >= MAX_WORKFLOW_DEPTH {
            let chain = self.chain.join(" calls ");
            return Err(format!("workflows call one another more than {MAX_WORKFLOW_DEPTH} levels deep: {chain}"));
        }
        if self.known.len() >= MAX_WORKFLOWS {
            return Err(format!("the file calls more than {MAX_WORKFLOWS} different workflows"));
        }
        let hash = self.compile(&source);
        self.known.insert(source.name, hash.clone());
        hash
    }

    fn refuse_cycle(&self, name: &str) -> Result<(), String> {
        let Some(first) = self.chain.iter().position(|open| open == name) else {
            return Ok(());
        };
        if first + 1 == self.chain.len() {
            return Err(format!("`{name}` calls itself; use `repeat`, or a `goto` with a condition"));
        }
        Err(format!("workflows call one another in a circle: {} calls {name}", self.chain[first..].join(" calls ")))
    }

    fn compile(&mut self, source: &Source) -> Result<String, String> {
        let (plan, problems) = self.file(source);
        match plan {
            Some(plan) if !has_errors(&problems) => {
                let hash = plan.hash();
                self.children.push(plan);
                Ok(hash)
            }
            _ => Err(refused(source, &problems)),
        }
    }
}

/// A place inside quoted text is computed from the text without its quotes and escapes, so it can be off by a little;
/// it must still lie in the file and on the borders of characters.
fn within(span: Span, text: &str) -> Span {
    let start = text.floor_char_boundary(span.start as usize);
    let end = text.ceil_char_boundary((span.end as usize).max(start).min(text.len()));
    Span::new(start, end)
}

/// Where the first error of a called workflow is; the file itself shows them all.
fn refused(source: &Source, problems: &[Problem]) -> String {
    let mut errors = problems.iter().filter(|problem| problem.severity == relais_plan::Severity::Error);
    let first = errors.next().map(|problem| {
        let (line, column) = source.position(problem.span.start);
        format!("{}:{line}:{column}: {}", source.name, problem.message)
    });
    match errors.count() {
        0 => first.unwrap_or_else(|| format!("{} cannot be read", source.name)),
        more => format!("{} (and {more} more)", first.unwrap_or_default()),
    }
}

impl native::Workflows for Reading<'_> {
    fn pin(&mut self, reference: &str, span: Span) -> Result<String, Problem> {
        self.child(reference)
            .map_err(|message| Problem::error(span, format!("the workflow `{reference}` cannot be called: {message}")))
    }
}
