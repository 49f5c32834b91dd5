//! Gives every step its id and proves that ids are unique and well formed. Also measures the tree, so that the
//! lowering may recurse.

use std::collections::HashMap;

use super::{MAX_DEPTH, MAX_NODES};
use crate::step::{Kind, Step, Workflow};
use crate::{Problem, Problems, Span};

/// An id as long as this is text, not a name.
const MAX_ID_BYTES: usize = 128;

/// False if the tree is too large or too deep to be lowered.
pub(super) fn assign(workflow: &mut Workflow, problems: &mut Problems) -> bool {
    let mut ids = Ids { written: HashMap::new(), count: 0, fits: true, problems };
    ids.list(&mut workflow.steps, "step", 1, 1);
    let mut first = 1;
    for (_, steps) in &mut workflow.exits {
        ids.list(steps, "exit", first, 1);
        first += steps.len();
    }
    ids.fits
}

/// The id of a step without one: its position in the list, after the positions of the steps around it. The steps of
/// all arms of an if or switch are counted through.
pub fn positional(prefix: &str, position: usize) -> String {
    format!("{prefix}_{position}")
}

struct Ids<'p> {
    /// Each id with whether a person wrote it.
    written: HashMap<String, bool>,
    count: usize,
    fits: bool,
    problems: &'p mut Problems,
}

impl Ids<'_> {
    fn list(&mut self, steps: &mut [Step], prefix: &str, first: usize, depth: usize) {
        for (offset, step) in steps.iter_mut().enumerate() {
            self.step(step, positional(prefix, first + offset), depth);
        }
    }

    fn step(&mut self, step: &mut Step, position: String, depth: usize) {
        if !self.measure(step.span, depth) {
            return;
        }
        self.claim(step, &position);
        let mut first = 1;
        for steps in lists(&mut step.kind) {
            self.list(steps, &position, first, depth + 1);
            first += steps.len();
        }
        if let Some(undo) = &mut step.undo {
            self.step(undo, format!("{position}_undo"), depth + 1);
        }
    }

    fn measure(&mut self, span: Span, depth: usize) -> bool {
        if !self.fits {
            return false;
        }
        self.count += 1;
        if depth > MAX_DEPTH {
            self.refuse(span, format!("steps are nested more than {MAX_DEPTH} levels deep"));
        } else if self.count > MAX_NODES {
            self.refuse(span, format!("the workflow has more than {MAX_NODES} steps"));
        }
        self.fits
    }

    fn refuse(&mut self, span: Span, message: String) {
        self.fits = false;
        self.problems.push(Problem::error(span, message).help("move a part of it into a workflow of its own"));
    }

    fn claim(&mut self, step: &mut Step, position: &str) {
        let written = step.id.is_some();
        let id = step.id.get_or_insert_with(|| position.to_owned()).clone();
        if written && !is_id(&id) {
            let message = format!("`{id}` cannot be an id");
            let help = format!("ids have letters, digits, `_` and `-`, at most {MAX_ID_BYTES}");
            self.problems.push(Problem::error(step.span, message).help(help));
        }
        if let Some(first_written) = self.written.insert(id.clone(), written) {
            self.problems.push(doubled(step.span, &id, written && first_written));
        }
    }
}

fn doubled(span: Span, id: &str, both_written: bool) -> Problem {
    if both_written {
        return Problem::error(span, format!("a second step has the id `{id}`"))
            .help("ids are unique in the whole workflow, nested steps included");
    }
    Problem::error(span, format!("the id `{id}` is also what a step without id gets from its position"))
        .help("give that step an id, or choose another one here")
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_ID_BYTES && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// The lists of steps inside a step, in written order.
fn lists(kind: &mut Kind) -> Vec<&mut Vec<Step>> {
    match kind {
        Kind::Choose { arms, other } => arms.iter_mut().map(|arm| &mut arm.steps).chain(other).collect(),
        Kind::Parallel { lanes: steps, .. }
        | Kind::Group { steps, .. }
        | Kind::ForEach { steps, .. }
        | Kind::Repeat { steps, .. } => vec![steps],
        Kind::Call(_) | Kind::Wait(_) | Kind::StopIf(_) | Kind::Set(_) | Kind::Goto { .. } => Vec::new(),
    }
}
