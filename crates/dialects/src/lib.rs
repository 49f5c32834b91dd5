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
/// Steps that call a workflow, in a file and all that it calls: each costs a look at the file it names.
pub const MAX_WORKFLOW_CALLS: usize = 1_000;

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
    let mut reading = Reading { loader, open: Vec::new(), known: HashMap::new(), loads: 0, children: Vec::new() };
    reading.open.push(Open { name: source.name.clone(), height: 1 });
    let (plan, problems) = reading.file(source);
    Loaded { plan, problems, children: reading.children }
}

/// One file and all that it calls.
struct Reading<'l> {
    loader: &'l dyn Loader,
    /// The files being read, outermost first.
    open: Vec<Open>,
    /// The workflows that were read, by the name of their source.
    known: HashMap<String, Result<Pinned, String>>,
    loads: usize,
    children: Vec<Plan>,
}

struct Open {
    name: String,
    /// Levels from this file down, as far as it is read.
    height: usize,
}

#[derive(Clone)]
struct Pinned {
    hash: String,
    /// Levels from this workflow down, itself included.
    height: usize,
}

impl Reading<'_> {
    fn file(&mut self, source: &Source) -> (Option<Plan>, Problems) {
        let root = match yaml::parse(source) {
            Ok(root) => root,
            Err(problems) => return (None, problems),
        };
        let (workflow, mut problems) = native::read(source, &root, self);
        let (plan, of_build) = relais_plan::build::build(workflow);
        problems.extend(of_build);
        for problem in &mut problems {
            problem.span = within(problem.span, &source.text);
        }
        problems.sort_by_key(|problem| problem.span);
        (plan, problems)
    }

    fn child(&mut self, reference: &str) -> Result<String, String> {
        self.loads += 1;
        if self.loads > MAX_WORKFLOW_CALLS {
            return Err(format!("more than {MAX_WORKFLOW_CALLS} calls of workflows in all"));
        }
        let from = self.open.last().map(|open| open.name.clone()).unwrap_or_default();
        let source = self.loader.load(reference, &from)?;
        self.refuse_cycle(&source.name)?;
        let pinned = match self.known.get(&source.name) {
            Some(known) => known.clone()?,
            None => self.compile(source)?,
        };
        if self.open.len() + pinned.height > MAX_WORKFLOW_DEPTH {
            return Err(self.too_deep());
        }
        if let Some(open) = self.open.last_mut() {
            open.height = open.height.max(pinned.height + 1);
        }
        Ok(pinned.hash)
    }

    fn refuse_cycle(&self, name: &str) -> Result<(), String> {
        let Some(first) = self.open.iter().position(|open| open.name == name) else {
            return Ok(());
        };
        if first + 1 == self.open.len() {
            return Err(format!("`{name}` calls itself; use `repeat`, or a `goto` with a condition"));
        }
        Err(format!("workflows call one another in a circle: {} calls {name}", self.chain(first)))
    }

    fn compile(&mut self, source: Source) -> Result<Pinned, String> {
        if self.open.len() >= MAX_WORKFLOW_DEPTH {
            return Err(self.too_deep());
        }
        self.open.push(Open { name: source.name.clone(), height: 1 });
        let (plan, problems) = self.file(&source);
        let height = self.open.pop().map_or(1, |open| open.height);
        let pinned = match plan {
            Some(plan) if !has_errors(&problems) => {
                let hash = plan.hash();
                self.children.push(plan);
                Ok(Pinned { hash, height })
            }
            Some(_) | None => Err(refused(&source, &problems)),
        };
        self.known.insert(source.name, pinned.clone());
        pinned
    }

    fn too_deep(&self) -> String {
        format!("workflows call one another more than {MAX_WORKFLOW_DEPTH} levels deep: {}", self.chain(0))
    }

    fn chain(&self, first: usize) -> String {
        self.open.iter().skip(first).map(|open| open.name.as_str()).collect::<Vec<_>>().join(" calls ")
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Workflows by name, each calling the others that are listed.
    struct Library(Vec<(&'static str, Vec<&'static str>)>);

    impl Loader for Library {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            let (name, calls) = self.0.iter().find(|(name, _)| *name == reference).ok_or("there is no such file")?;
            let steps: Vec<String> = calls.iter().map(|call| format!("{{ workflow: {call} }}")).collect();
            let text = format!("name: {name}\nsteps: [{{ wait: 1s }}, {}]\n", steps.join(", "));
            Ok(Source { name: (*name).to_owned(), text })
        }
    }

    /// The children that reading the first workflow brings, or the first problem.
    fn check(library: Vec<(&'static str, Vec<&'static str>)>, expected: Result<&[&str], &str>) {
        let library = Library(library);
        let source = library.load(library.0[0].0, "").unwrap();
        let loaded = read(&source, &library);
        let first = loaded.problems.first().map(|problem| problem.message.clone());
        match expected {
            Ok(names) => {
                let children: Vec<&str> = loaded.children.iter().map(|plan| plan.name.as_str()).collect();
                assert_eq!((first, children.as_slice()), (None, names));
            }
            Err(text) => assert!(first.as_deref().unwrap_or_default().contains(text), "{first:?}"),
        }
    }

    #[test]
    fn called_workflows_are_pinned_once() {
        check(vec![("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", vec![])], Ok(&["c", "b"]));
        check(vec![("a", vec!["b"])], Err("there is no such file"));
    }

    #[test]
    fn circles_are_refused_with_their_chain() {
        check(vec![("a", vec!["a"])], Err("`a` calls itself"));
        check(vec![("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["b"])], Err("b calls c calls b"));
    }

    #[test]
    fn depth_is_bounded_whatever_is_read_first() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let chain = |length: usize| -> Vec<(&'static str, Vec<&'static str>)> {
            let calls = |at: usize| names[at + 1..length].first().copied().into_iter().collect();
            (0..length).map(|at| (names[at], calls(at))).collect()
        };
        check(chain(10), Ok(&["j", "i", "h", "g", "f", "e", "d", "c", "b"]));
        check(chain(11), Err("more than 10 levels deep"));
        let mut late = chain(10);
        late[0].1 = vec!["c", "x"];
        late.extend([("x", vec!["y"]), ("y", vec!["z"]), ("z", vec!["c"])]);
        check(late, Err("more than 10 levels deep"));
    }

    #[test]
    fn the_hash_of_the_child_is_in_the_step() {
        let library = Library(vec![("a", vec!["b"]), ("b", vec![])]);
        let loaded = read(&library.load("a", "").unwrap(), &library);
        let text = serde_json::to_string(&loaded.plan.unwrap()).unwrap();
        assert!(text.contains(&loaded.children[0].hash()));
    }
}
