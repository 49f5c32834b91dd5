//! Workflow definitions: read from text, checked against the world, kept with a version for every change.
//!
//! Reading and checking need no database ([`Definitions`]); keeping does ([`Service`]): kept workflows and all that is
//! done with them, agents and steps are in the folder.

pub(crate) mod agents;
pub(crate) mod checking;
pub(crate) mod drift;
pub mod foresight;
pub(crate) mod history;
pub(crate) mod library;
pub(crate) mod offered;
pub(crate) mod portable;
pub(crate) mod publishing;
pub(crate) mod removal;
pub(crate) mod simulated;
pub(crate) mod steps;
pub(crate) mod texts;
pub(crate) mod versions;
pub(crate) mod workflows;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use relais_dialects::{Format, Loaded, Loader, Options as ReadOptions};
use relais_engine::Target;
use relais_plan::check::World;
use relais_plan::{McpServer, Plan, Problem, Problems, Source, Span, Trigger, TriggerOn, problem};
use relais_runtime::models::Models;
use relais_runtime::prepare::tools_of;
use relais_runtime::tool::ToolSpec;
use relais_runtime::tools::{Manifest, Tools};
use serde_json::Value;

use crate::{Config, Error, Service};

/// What definitions are read and checked with: the configuration, and the models and tools that it makes known.
pub struct Definitions {
    pub config: Config,
    pub models: Arc<Models>,
    pub tools: Tools,
}

/// A definition that was read; its plan may be run if there are no errors.
pub struct Definition {
    pub source: Source,
    pub format: Format,
    /// Which of its branches was read; none means the main graph.
    pub branch: Option<String>,
    /// The branches that the file has beside its main graph.
    pub branches: Vec<String>,
    pub plan: Option<Plan>,
    /// Every plan of the tree, the children's too.
    pub children: Vec<Plan>,
    pub problems: Problems,
    /// The MCP servers that have vouched for their tools.
    pub asked: BTreeSet<String>,
}

/// A definition that may be run.
pub struct Checked {
    pub plan: Arc<Plan>,
    /// The plan's.
    pub hash: String,
    pub format: Format,
    pub children: Vec<Plan>,
    /// The workflow's version, counted up with each change.
    pub version: u64,
    pub manifest: String,
    /// Which kept workflow it is.
    pub target: Target,
}

/// How the names of tools of MCP servers begin.
pub(crate) const MCP_PREFIX: &str = "mcp:";
/// A workflow file larger than this is none.
pub(crate) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

impl Definition {
    pub fn has_errors(&self) -> bool {
        self.plan.is_none() || problem::has_errors(&self.problems)
    }

    /// Tools that only an MCP server can vouch for; a run asks it before it begins.
    pub fn unverified(&self) -> Vec<String> {
        let named = self.plan.iter().flat_map(tools_of);
        named.filter(|tool| tool.starts_with(MCP_PREFIX) && !self.is_vouched(tool)).collect()
    }

    fn is_vouched(&self, tool: &str) -> bool {
        let server = tool.strip_prefix(MCP_PREFIX).and_then(|rest| rest.split_once('/'));
        server.is_some_and(|(server, _)| self.asked.contains(server))
    }

    /// How runs of it are started, in the words that graphs have for it.
    pub fn execution_mode(&self) -> &'static str {
        let triggers = self.plan.iter().flat_map(|plan| &plan.triggers);
        let mode = |trigger: &Trigger| match &trigger.on {
            TriggerOn::Continuous { .. } => "continuous",
            TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } | TriggerOn::Calendar(_) => "interval",
            TriggerOn::Manual | TriggerOn::Webhook { .. } | TriggerOn::Event(_) => "one_time",
        };
        triggers.map(mode).find(|mode| *mode != "one_time").unwrap_or("one_time")
    }

    /// All problems as a person reads them.
    pub fn render(&self, color: bool) -> String {
        self.source.render(&self.problems, color)
    }
}

/// A definition with all of its branches.
pub struct Whole {
    /// Has the problems of all branches, each once.
    pub main: Definition,
    pub branches: Vec<Definition>,
}

impl Whole {
    fn new(mut main: Definition, branches: Vec<Definition>) -> Whole {
        if !branches.is_empty() {
            gather(&mut main, &branches);
        }
        Whole { main, branches }
    }

    pub fn has_errors(&self) -> bool {
        let mut all = self.branches.iter().chain([&self.main]);
        all.all(|part| part.plan.is_none()) || problem::has_errors(&self.main.problems)
    }

    /// The main plan; none where there are only branches to choose from.
    pub fn plan(&self) -> Option<&Plan> {
        self.main.plan.as_ref().filter(|plan| self.branches.is_empty() || !plan.nodes.is_empty())
    }

    /// Every plan that can be started, with the name of its branch.
    pub fn plans(&self) -> impl Iterator<Item = (Option<&str>, &Plan)> {
        let branches = self.branches.iter().filter_map(|part| Some((part.branch.as_deref(), part.plan.as_ref()?)));
        self.plan().map(|plan| (None, plan)).into_iter().chain(branches)
    }

    /// Tools that only an MCP server can vouch for.
    pub fn unverified(&self) -> BTreeSet<String> {
        self.branches.iter().chain([&self.main]).flat_map(Definition::unverified).collect()
    }
}

/// That there is no main graph to run is no mistake of a file with branches.
fn gather(main: &mut Definition, branches: &[Definition]) {
    let of_branches = || branches.iter().flat_map(|branch| &branch.problems);
    if main.plan.as_ref().is_none_or(|plan| plan.nodes.is_empty()) {
        let known: HashSet<(Span, &str)> = of_branches().map(|p| (p.span, p.message.as_str())).collect();
        main.problems.retain(|problem| known.contains(&(problem.span, problem.message.as_str())));
    }
    main.problems.extend(of_branches().cloned());
    main.problems.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
    main.problems.dedup();
}

/// The files of this machine, its variables, and the models that the configuration has names for.
pub(crate) struct Files<'a> {
    config: &'a Config,
}

impl Loader for Files<'_> {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        let base = Path::new(from).parent().unwrap_or(Path::new("."));
        source_of(&plain(&base.join(reference))).map_err(|e| e.to_string())
    }

    fn variable(&self, name: &str) -> Result<Option<String>, String> {
        Ok(std::env::var(name).ok())
    }

    fn models(&self, name: &str) -> Vec<String> {
        self.config.models_named(name)
    }
}

/// The path without `.` and without `..` behind a name, so that one file has one name however it is referred to.
fn plain(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                parts.pop();
            }
            (part, _) => parts.push(part),
        }
    }
    parts.iter().collect()
}

/// The text of a workflow file.
pub fn source_of(path: &Path) -> Result<Source, Error> {
    let name = path.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| Error::Invalid(format!("{name}: {error}"));
    let facts = std::fs::metadata(path).map_err(|e| wrong(&e))?;
    if facts.is_dir() {
        return Err(wrong(&"is a folder, not a workflow file"));
    }
    if facts.len() > MAX_FILE_BYTES {
        return Err(wrong(&format!("is larger than {MAX_FILE_BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
    let text = String::from_utf8(bytes).map_err(|e| wrong(&format!("is not UTF-8 text: {e}")))?;
    Ok(Source { name, text })
}

/// What is known outside the file. Tools of MCP servers are looked up only when somebody waits for them.
struct Known<'a> {
    definitions: &'a Definitions,
    loader: &'a dyn Loader,
    tools: Option<Vec<ToolSpec>>,
}

impl World for Known<'_> {
    fn tools(&self) -> Option<Vec<(String, Value)>> {
        let tools = self.tools.as_ref()?;
        Some(tools.iter().map(|t| (t.name.clone(), t.parameters.clone())).collect())
    }

    fn servers(&self) -> Vec<String> {
        self.definitions.config.settings.mcp.keys().cloned().collect()
    }

    fn agents(&self) -> Vec<String> {
        self.loader.agents()
    }

    fn price_known(&self, model: &str) -> bool {
        let default = self.definitions.config.settings.default_model.as_deref();
        let model = if model.is_empty() { default } else { Some(model) };
        model.is_some_and(|m| self.definitions.models.price_known(m))
    }
}

/// Is it a tool of a server that only a run may start or call?
fn is_left_to_runs(plan: &Plan, tool: &str) -> bool {
    let server = tool.strip_prefix(MCP_PREFIX).and_then(|rest| rest.split_once('/'));
    server.and_then(|(name, _)| plan.servers.get(name)).is_some_and(acts_for_the_file)
}

/// Whoever looks at a file of somebody else neither starts its programs nor sends variables to its addresses.
fn acts_for_the_file(server: &McpServer) -> bool {
    let mut sent = server.url.iter().chain(server.headers.values());
    server.command.is_some() || sent.any(|text| text.contains("${"))
}

/// Graphs have branches, and a dag file may have several workflows; their readers find the one that is meant, or say
/// which there are.
fn without_branches(branch: &str, format: Format, plan: &Option<Plan>) -> Option<Problem> {
    if matches!(format, Format::Graph | Format::Dag) || plan.is_none() {
        return None;
    }
    let message = format!("`--branch {branch}`: a file of the format `{}` has no branches", format.word());
    Some(
        Problem::error(Span::default(), message)
            .help("leave `--branch` out; only graphs and dag files have several parts to choose from"),
    )
}

impl Definitions {
    /// Starts nothing and opens nothing but files of the configuration.
    pub fn new(config: Config) -> Result<Definitions, Error> {
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let mut models = Models::new(&config.settings, &environment, &config.folder)?;
        models.register("sim", Arc::new(simulated::model));
        let tools = Tools::new(&config.settings);
        Ok(Definitions { config, models: Arc::new(models), tools })
    }

    /// Reads a workflow file and finds everything wrong with it. MCP servers are not asked.
    pub fn read(&self, path: &Path, options: &ReadOptions) -> Result<Definition, Error> {
        Ok(self.check_text(source_of(path)?, &self.files(), options))
    }

    /// The same with every branch of it, unless one of them was asked for.
    pub fn read_whole(&self, path: &Path, options: &ReadOptions) -> Result<Whole, Error> {
        Ok(self.check_whole(source_of(path)?, &self.files(), options))
    }

    pub(crate) fn files(&self) -> Files<'_> {
        Files { config: &self.config }
    }

    /// The same in the native format, if there are no errors.
    pub fn convert(&self, definition: &Definition) -> Result<String, Error> {
        if definition.has_errors() {
            return Err(Error::Invalid(format!("{} has errors", definition.source.name)));
        }
        let options = ReadOptions { format: Some(definition.format), branch: definition.branch.clone() };
        let refused = |problems: Problems| Error::Invalid(definition.source.render(&problems, false));
        relais_dialects::convert(&definition.source, &self.files(), &options).map_err(refused)
    }

    pub(crate) fn check_whole(&self, source: Source, loader: &dyn Loader, options: &ReadOptions) -> Whole {
        let main = self.check_text(source, loader, options);
        let names = if main.branch.is_some() { &[] } else { main.branches.as_slice() };
        let one = |id: &String| {
            let options = ReadOptions { format: Some(main.format), branch: Some(id.clone()) };
            self.check_text(main.source.clone(), loader, &options)
        };
        let branches = names.iter().map(one).collect();
        Whole::new(main, branches)
    }

    pub(crate) fn check_text(&self, source: Source, loader: &dyn Loader, options: &ReadOptions) -> Definition {
        let loaded = relais_dialects::read(&source, loader, options);
        self.check_loaded(source, loaded, loader, options.branch.clone())
    }

    /// What was read, checked against the world.
    pub(crate) fn check_loaded(
        &self,
        source: Source,
        loaded: Loaded,
        loader: &dyn Loader,
        branch: Option<String>,
    ) -> Definition {
        let Loaded { format, branches, plan, mut problems, children } = loaded;
        if let Some(plan) = &plan {
            let world = Known { definitions: self, loader, tools: Some(self.tools.own_specs()) };
            problems.extend(relais_plan::check::check(plan, &world));
        }
        problems.extend(branch.as_ref().and_then(|branch| without_branches(branch, format, &plan)));
        problems.sort_by_key(|p| (p.span, p.message.clone()));
        problems.dedup();
        Definition { source, format, branch, branches, plan, children, problems, asked: BTreeSet::new() }
    }

    /// Asks the MCP servers whose tools a definition names, as far as they can be reached in time. What is wrong with the
    /// tools is then a problem of the definition; why servers could not be asked is the answer. Programs that the file
    /// itself names are not started: it is only looked at.
    pub async fn ask_servers(&self, whole: &mut Whole, time: Duration) -> Vec<String> {
        let mut silent = BTreeSet::new();
        for part in whole.branches.iter_mut().chain([&mut whole.main]) {
            let Some(plan) = &part.plan else { continue };
            let of_file = plan.servers.iter().filter(|(_, server)| !acts_for_the_file(server));
            let tools = self.tools.with_servers(of_file);
            let mut meant = part.unverified();
            meant.retain(|tool| !is_left_to_runs(plan, tool));
            let (asked, listed) = tools.ask(&meant, time).await;
            tools.stop().await;
            silent.extend(listed.failed.into_iter().map(|failure| failure.message));
            part.asked = asked.into_iter().collect();
            let known = [self.tools.own_specs(), listed.tools].concat();
            let world = Known { definitions: self, loader: &self.files(), tools: Some(known) };
            part.problems.extend(relais_plan::check::check(plan, &world));
            part.problems.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
            part.problems.dedup();
        }
        if !whole.branches.is_empty() {
            gather(&mut whole.main, &whole.branches);
        }
        silent.into_iter().collect()
    }

    /// Every model that a step may call has a provider and a key.
    pub(crate) fn check_models(&self, plan: &Plan, model: Option<&str>) -> Result<(), Error> {
        let mut seen = BTreeMap::new();
        for (name, agent) in &plan.agents {
            let models = match (model, agent.models.as_slice()) {
                (Some(model), _) => vec![model.to_owned()],
                (None, []) => vec![String::new()],
                (None, models) => models.to_vec(),
            };
            // One that answers is enough; the others of a fallback list are tried when it does not.
            let failures: Vec<String> =
                models.iter().filter_map(|m| self.models.resolve(m).err()).map(|f| f.message).collect();
            if failures.len() == models.len() {
                seen.entry(failures.join("; ")).or_insert_with(|| name.clone());
            }
        }
        if seen.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = seen.iter().map(|(message, agent)| format!("agent `{agent}`: {message}")).collect();
        Err(Error::Invalid(lines.join("\n")))
    }

    pub(crate) async fn check_tools(&self, plan: &Plan) -> Result<Vec<ToolSpec>, Error> {
        let tools = self.tools.with_servers(&plan.servers);
        let found = tools.select(&tools_of(plan)).await;
        tools.stop().await;
        Ok(found?)
    }
}

impl Service {
    pub fn read(&self, path: &Path, options: &ReadOptions) -> Result<Definition, Error> {
        self.core.definitions.read(path, options)
    }

    /// Makes sure that a definition can run now, and keeps it under its version.
    pub async fn publish(&self, definition: Definition, simulate: bool, model: Option<&str>) -> Result<Checked, Error> {
        let Some(plan) = definition.plan else { return Err(Error::Invalid("the file has errors".into())) };
        if !simulate {
            self.core.definitions.check_models(&plan, model)?;
        }
        // A simulated run asks no tools: nothing is known of them.
        let tools = if simulate { None } else { Some(self.core.definitions.check_tools(&plan).await?) };
        let mut checked = Checked {
            hash: plan.hash(),
            plan: Arc::new(plan),
            format: definition.format,
            children: definition.children,
            version: 1,
            manifest: Manifest::new(self.today(), tools.as_deref().unwrap_or_default()).hash,
            target: Target { branch: definition.branch, ..Target::default() },
        };
        self.keep_version(&mut checked, &definition.source, tools.as_deref()).await?;
        Ok(checked)
    }
}
