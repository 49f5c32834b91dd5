//! Text to plan. One reader per format; all of them produce the tree of steps that `relais_plan::build` lowers.
//!
//! This crate reads no files: a [`Loader`] brings the text of the workflows that a workflow calls. It knows nothing
//! of runs, stores or networks.

mod agents;
mod chain;
mod dag;
mod fields;
mod graph;
pub mod guide;
mod native;
mod normal;
mod paths;
mod pipeline;
mod reader;
mod schema;
mod shape;
mod steps;
mod values;
mod write;
mod yaml;

use std::collections::HashMap;

use relais_plan::problem::has_errors;
use relais_plan::step::Workflow;
use relais_plan::{Plan, Problem, Problems, Source, Span};
use serde_json::Value;

use dag::expand::{self, Expansion, Resolved};
use reader::Reader;
use yaml::Node;

pub use agents::{check_agent, read_agent};
pub use native::read_trigger;
pub use paths::Paths;
pub use schema::json_schema;
pub use shape::Format;
pub use steps::{Draft, draft, read_alone};

/// Workflows within workflows.
pub const MAX_WORKFLOW_DEPTH: usize = 10;
/// Steps that call a workflow, in a file and all that it calls: each costs a look at the file it names.
pub const MAX_WORKFLOW_CALLS: usize = 1_000;

/// Brings the text of another workflow. Two references to the same workflow must give the same [`Source::name`], for
/// that is how a cycle is seen.
pub trait Loader {
    /// `reference` as it is written (`./other.yaml`) in the file that is named `from`.
    fn load(&self, reference: &str, from: &str) -> Result<Source, String>;

    /// A file that is to stand in place of its name (`!include`).
    fn include(&self, reference: &str, from: &str) -> Result<Source, String> {
        self.load(reference, from)
    }

    /// A variable of the environment, for formats that name them; an error says why none can be had.
    fn variable(&self, _name: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// An agent that a workflow names and does not declare, in the words of the native format.
    fn agent(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The names of all agents that it could bring.
    fn agents(&self) -> Vec<String> {
        Vec::new()
    }

    /// The models, in fallback order, that the configuration has for a name (`model_provider: [planning]`).
    fn models(&self, _name: &str) -> Vec<String> {
        Vec::new()
    }

    /// The texts come over the network: the MCP servers that they name are called under guard.
    fn is_network(&self) -> bool {
        false
    }

    /// What is known of a source that is not to be told by its name and shape.
    fn about(&self, _source: &Source) -> About {
        About::default()
    }
}

#[derive(Debug, Clone, Default)]
pub struct About {
    /// What a workflow is called that does not say so itself; none: after its file.
    pub title: Option<String>,
    /// None: found by its shape.
    pub format: Option<Format>,
}

/// How a file is to be read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// None: found by the file's shape.
    pub format: Option<Format>,
    /// Which graph of a file with several; none means the main one.
    pub branch: Option<String>,
}

/// What a file became.
#[derive(Debug)]
pub struct Loaded {
    pub format: Format,
    /// The branches that the file has beside its main graph.
    pub branches: Vec<String>,
    /// There is a plan whenever one could be made, so that a check can find still more; it may run only if
    /// `problems` has no error.
    pub plan: Option<Plan>,
    pub problems: Problems,
    /// The plans of all workflows that this one calls, directly or not, each once.
    pub children: Vec<Plan>,
}

/// Reads a file. Its format is found by its shape, unless the options say which it is.
pub fn read(source: &Source, loader: &dyn Loader, options: &Options) -> Loaded {
    let mut reading = Reading::new(source, loader, options);
    let Read { format, branches, workflow, mut problems } = reading.workflow(source, options);
    let plan = workflow.and_then(|workflow| built(workflow, source, &mut problems));
    Loaded { format, branches, plan, problems, children: reading.children }
}

/// A file of any format in the native one; or what is wrong with it.
pub fn convert(source: &Source, loader: &dyn Loader, options: &Options) -> Result<String, Problems> {
    let Read { workflow, problems, .. } = Reading::new(source, loader, options).workflow(source, options);
    match workflow {
        Some(workflow) if !has_errors(&problems) => Ok(write::native(&workflow)),
        Some(_) | None => Err(problems),
    }
}

/// A file as its reader finds it.
struct Parsed {
    format: Format,
    tree: Tree,
}

enum Tree {
    /// That of the text as it was written.
    Written(Node),
    Expanded(Expansion, Resolved),
}

fn format_of(root: &Node, options: &Options) -> Result<Format, Problems> {
    options.format.map_or_else(|| shape::of(root), Ok).map_err(|problem| vec![problem])
}

/// A file as its reader leaves it.
struct Read {
    format: Format,
    branches: Vec<String>,
    workflow: Option<Workflow>,
    problems: Problems,
}

fn built(workflow: Workflow, source: &Source, problems: &mut Problems) -> Option<Plan> {
    let (plan, of_build) = relais_plan::build::build(workflow);
    problems.extend(of_build);
    for problem in problems.iter_mut() {
        problem.span = within(problem.span, &source.text);
    }
    problems.sort_by_key(|problem| problem.span);
    plan
}

/// What a file holds beside its main part, or instead of one.
fn branches(format: Format, root: &Node) -> Vec<String> {
    match format {
        Format::Graph => graph::branches(root),
        Format::Dag => dag::workflows(root),
        Format::Native | Format::Chain | Format::Steps | Format::Pipeline => Vec::new(),
    }
}

fn by_format(format: Format, root: &Node, reader: &mut Reader<'_>) -> Workflow {
    match format {
        Format::Native => native::read(root, reader),
        Format::Chain => chain::read(root, reader),
        Format::Steps => steps::read(root, reader),
        Format::Pipeline => pipeline::read(root, reader),
        Format::Graph => graph::read(root, reader),
        Format::Dag => dag::read(root, reader),
    }
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
    pin: reader::Pin,
    /// Levels from this workflow down, itself included.
    height: usize,
}

impl<'l> Reading<'l> {
    fn new(source: &Source, loader: &'l dyn Loader, options: &Options) -> Reading<'l> {
        let open = vec![Open { name: part_name(&source.name, options.branch.as_deref()), height: 1 }];
        Reading { loader, open, known: HashMap::new(), loads: 0, children: Vec::new() }
    }

    fn workflow(&mut self, source: &Source, options: &Options) -> Read {
        let Parsed { format, tree } = match self.parse(source, options) {
            Ok(parsed) => parsed,
            Err(problems) => {
                let format = options.format.unwrap_or(Format::Native);
                return Read { format, branches: Vec::new(), workflow: None, problems };
            }
        };
        let (branches, (workflow, problems)) = match tree {
            Tree::Written(root) => (branches(format, &root), self.tree(format, &root, source, options)),
            Tree::Expanded(expansion, resolved) => {
                let branches = branches(format, &resolved.root);
                (branches, self.expanded_tree(format, &expansion, resolved, source, options))
            }
        };
        Read { format, branches, workflow: Some(workflow), problems }
    }

    fn expanded_tree(
        &mut self,
        format: Format,
        expansion: &Expansion,
        resolved: Resolved,
        source: &Source,
        options: &Options,
    ) -> (Workflow, Problems) {
        // Problems say the line of an included file; a plan knows only the outermost one.
        let located = expansion.has_files().then(|| {
            let found = self.tree(format, &resolved.root, source, options).1;
            expansion.located(resolved.sound(found))
        });
        let resolved = resolved.mapped(expansion);
        let (workflow, found) = self.tree(format, &resolved.root, source, options);
        let found = located.unwrap_or_else(|| resolved.sound(found));
        let mut problems = resolved.problems;
        problems.extend(found);
        (workflow, problems)
    }

    fn tree(&mut self, format: Format, root: &Node, source: &Source, options: &Options) -> (Workflow, Problems) {
        let loader = self.loader;
        let title = loader.about(source).title.unwrap_or_else(|| reader::stem(&source.name));
        let mut reader = Reader::new(self, title, &source.name, options.branch.clone());
        let mut workflow = by_format(format, root, &mut reader);
        // Before a plan has a hash, so that a parent pins the child that is guarded.
        workflow.servers.values_mut().for_each(|server| server.guarded = loader.is_network());
        let (mut problems, unfinished) = (reader.problems, reader.unfinished);
        problems.extend(unfinished);
        normal::workflow(&mut workflow);
        agents::complete(&mut workflow, loader, &mut problems);
        (workflow, problems)
    }

    fn parse(&self, source: &Source, options: &Options) -> Result<Parsed, Problems> {
        let is_likely = || options.format.is_none() && expand::is_likely(&source.text);
        let is_needed = expand::is_needed(&source.text);
        if is_needed && (options.format == Some(Format::Dag) || is_likely()) {
            let parsed = self.expanded(source, options)?;
            if parsed.format == Format::Dag {
                return Ok(parsed);
            }
        }
        let root = if chain::is_python(&source.text) { chain::python(source)? } else { yaml::parse(source)? };
        match format_of(&root, options)? {
            Format::Dag if is_needed => self.expanded(source, options),
            format => Ok(Parsed { format, tree: Tree::Written(root) }),
        }
    }

    fn expanded(&self, source: &Source, options: &Options) -> Result<Parsed, Problems> {
        let expansion = expand::expand(source, self.loader)?;
        let resolved = expansion.parse(self.loader)?;
        let format = format_of(&resolved.root, options).map_err(|problems| expansion.located(problems))?;
        Ok(Parsed { format, tree: Tree::Expanded(expansion, resolved) })
    }

    fn file(&mut self, source: &Source, branch: Option<String>) -> (Option<Plan>, Problems) {
        let Read { workflow, mut problems, .. } =
            self.workflow(source, &Options { format: self.loader.about(source).format, branch });
        (workflow.and_then(|workflow| built(workflow, source, &mut problems)), problems)
    }

    fn child(&mut self, reference: &str) -> Result<reader::Pin, String> {
        self.loads += 1;
        if self.loads > MAX_WORKFLOW_CALLS {
            return Err(format!("more than {MAX_WORKFLOW_CALLS} calls of workflows in all"));
        }
        let from = self.open.last().map(|open| open.name.clone()).unwrap_or_default();
        let (file, branch) = match reference.rsplit_once('#') {
            Some((file, branch)) if !branch.is_empty() => (file, Some(branch.to_owned())),
            _ => (reference, None),
        };
        let source = self.loader.load(file, &from)?;
        let name = part_name(&source.name, branch.as_deref());
        self.refuse_cycle(&name)?;
        let pinned = match self.known.get(&name) {
            Some(known) => known.clone()?,
            None => self.compile(source, name, branch)?,
        };
        if self.open.len() + pinned.height > MAX_WORKFLOW_DEPTH {
            return Err(self.too_deep());
        }
        if let Some(open) = self.open.last_mut() {
            open.height = open.height.max(pinned.height + 1);
        }
        Ok(pinned.pin)
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

    fn compile(&mut self, source: Source, name: String, branch: Option<String>) -> Result<Pinned, String> {
        if self.open.len() >= MAX_WORKFLOW_DEPTH {
            return Err(self.too_deep());
        }
        self.open.push(Open { name: name.clone(), height: 1 });
        let (plan, problems) = self.file(&source, branch);
        let height = self.open.pop().map_or(1, |open| open.height);
        let pinned = match plan {
            Some(plan) if !has_errors(&problems) => {
                let pin = reader::Pin { hash: plan.hash(), takes: plan.input_schema.clone() };
                self.children.push(plan);
                Ok(Pinned { pin, height })
            }
            Some(_) | None => Err(refused(&source, &problems)),
        };
        self.known.insert(name, pinned.clone());
        pinned
    }

    fn too_deep(&self) -> String {
        format!("workflows call one another more than {MAX_WORKFLOW_DEPTH} levels deep: {}", self.chain(0))
    }

    fn chain(&self, first: usize) -> String {
        self.open.iter().skip(first).map(|open| open.name.as_str()).collect::<Vec<_>>().join(" calls ")
    }
}

/// `apps.yaml#nightly` is the part `nightly` of a file with several.
fn part_name(file: &str, branch: Option<&str>) -> String {
    match branch {
        Some(branch) => format!("{file}#{branch}"),
        None => file.to_owned(),
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

impl reader::Workflows for Reading<'_> {
    fn pin(&mut self, reference: &str, span: Span) -> Result<reader::Pin, Problem> {
        self.child(reference)
            .map_err(|message| Problem::error(span, format!("the workflow `{reference}` cannot be called: {message}")))
    }

    fn agent(&self, name: &str) -> Option<Value> {
        self.loader.agent(name)
    }

    fn models(&self, name: &str) -> Vec<String> {
        self.loader.models(name)
    }
}

/// What a text says, as JSON, whatever its format; none where it cannot be read at all.
pub fn tree(text: &str) -> Option<serde_json::Value> {
    let source = Source { name: String::new(), text: text.to_owned() };
    let root = if chain::is_python(text) { chain::python(&source) } else { yaml::parse(&source) };
    root.ok().map(|root| root.to_value())
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
        let loaded = read(&source, &library, &Options::default());
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
        let loaded = read(&library.load("a", "").unwrap(), &library, &Options::default());
        let text = serde_json::to_string(&loaded.plan.unwrap()).unwrap();
        assert!(text.contains(&loaded.children[0].hash()));
    }

    /// A workflow that calls another, each with a server; the texts come over the network or they do not.
    struct Serving {
        network: bool,
    }

    impl Loader for Serving {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            let step = if reference == "a" { "{ workflow: b }" } else { "{ wait: 1s }" };
            let text = format!("name: {reference}\nmcp: {{ s: {{ url: \"http://s.example\" }} }}\nsteps: [{step}]\n");
            Ok(Source { name: reference.to_owned(), text })
        }

        fn is_network(&self) -> bool {
            self.network
        }
    }

    #[test]
    fn servers_of_the_network_are_guarded_in_every_plan_and_others_keep_their_hashes() {
        let plans = |network: bool| {
            let loader = Serving { network };
            let loaded = read(&loader.load("a", "").unwrap(), &loader, &Options::default());
            let plans = [loaded.plan.unwrap(), loaded.children[0].clone()];
            let mother = serde_json::to_string(&plans[0]).unwrap();
            assert!(mother.contains(&plans[1].hash()), "the guarded child is the one that is called");
            plans
        };
        for plan in plans(true) {
            let kept = serde_json::to_value(&plan).unwrap();
            assert_eq!(kept["servers"]["s"]["guarded"], true);
            assert!(serde_json::from_value::<Plan>(kept).unwrap().servers["s"].guarded);
        }
        for plan in plans(false) {
            assert_eq!(serde_json::to_value(&plan).unwrap()["servers"]["s"].get("guarded"), None);
        }
    }
}
