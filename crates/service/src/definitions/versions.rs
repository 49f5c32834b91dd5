//! The versions of a kept workflow: text compiled and checked against the world, kept with its plans, started.
//!
//! A version is immutable; what a workflow is now is in `workflows.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use relais_dialects::{Format, Options as ReadOptions};
use relais_engine::{ErrorKind, Failure, RunId, Target};
use relais_plan::{Plan, Problem, Source, Span, Trigger, problem};
use relais_runtime::prepare::{load_plan, plan_key, tools_of};
use relais_runtime::tool::ToolSpec;
use relais_runtime::tools::Manifest;
use relais_store::{Document, DocumentKey, Edit};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::definitions::drift;
use crate::definitions::library::{Library, Pending, Used};
use crate::definitions::workflows::{Version, Workflow, WorkflowStatus};
use crate::definitions::{MAX_FILE_BYTES, MCP_PREFIX};
use crate::kept::Kept;
use crate::runs::shelf::Shelved;
use crate::runs::{same_plan, same_workflow};
use crate::{At, Checked, Error, Finding, Mode, Service, Start, TriggerRecord, Whole};

/// How long the MCP servers of a definition may take to tell their tools while somebody waits for it to be saved.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(10);

/// A text of the network, read.
pub(crate) struct Compiled {
    pub whole: Whole,
    pub used: Used,
}

impl Compiled {
    pub fn source(&self) -> &Source {
        &self.whole.main.source
    }

    fn findings(&self) -> Error {
        Error::Findings(Finding::all(self.source(), &self.whole.main.problems))
    }

    fn plans(&self) -> impl Iterator<Item = &Plan> {
        let parts = || self.whole.branches.iter().chain([&self.whole.main]);
        parts().flat_map(|part| &part.children).chain(self.whole.plans().map(|(_, plan)| plan))
    }

    fn triggers(&self) -> Vec<(Option<String>, Trigger)> {
        let of = |(branch, plan): (Option<&str>, &Plan)| {
            let branch = branch.map(str::to_owned);
            plan.triggers.iter().map(move |trigger| (branch.clone(), trigger.clone())).collect::<Vec<_>>()
        };
        self.whole.plans().flat_map(of).collect()
    }
}

pub(crate) fn version_key(owner: &str, workflow: Uuid) -> DocumentKey {
    DocumentKey { kind: Workflow::KIND.to_owned(), owner: owner.to_owned(), name: workflow.to_string() }
}

impl Service {
    /// Reads a text that came in over the network, off the threads that serve others.
    pub(crate) async fn compile(
        &self,
        id: Uuid,
        title: Option<String>,
        text: String,
        format: Option<Format>,
    ) -> Result<Compiled, Error> {
        self.compile_with(id, title, text, format, Pending::default()).await
    }

    /// The same together with what is about to be kept beside it.
    pub(crate) async fn compile_with(
        &self,
        id: Uuid,
        title: Option<String>,
        text: String,
        format: Option<Format>,
        pending: Pending,
    ) -> Result<Compiled, Error> {
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::Invalid(format!("the definition is larger than {MAX_FILE_BYTES} bytes")));
        }
        let library = Library::new(self.clone(), id, title, text, format).with(pending);
        let service = self.clone();
        let read = move || {
            let options = ReadOptions { format, branch: None };
            let mut whole = service.core.definitions.check_whole(library.source(), &library, &options);
            let definitions = &service.core.definitions;
            let refused = whole.branches.iter().chain([&whole.main]).find_map(|part| definitions.refused(part));
            whole.main.problems.extend(refused.map(|text| Problem::error(Span::default(), text)));
            Compiled { whole, used: library.used() }
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| Error::Unusable(error.to_string()))
    }

    /// What has to be written so that this text is the workflow's newest version: the version, its plans, and its
    /// triggers. Counts the version up; the workflow's own record is put by whoever calls. The same text again is no
    /// new version. `lenient`: a text that cannot run is kept, and whoever starts it is told why it cannot.
    pub async fn version_edits(
        &self,
        workflow: &mut Workflow,
        text: String,
        format: Option<Format>,
        reason: &str,
        lenient: bool,
    ) -> Result<Vec<Edit>, Error> {
        let compiled = self.compile(workflow.id, Some(workflow.name.clone()), text, format).await?;
        self.compiled_edits(workflow, compiled, reason, lenient).await
    }

    pub(crate) async fn compiled_edits(
        &self,
        workflow: &mut Workflow,
        compiled: Compiled,
        reason: &str,
        lenient: bool,
    ) -> Result<Vec<Edit>, Error> {
        let version = self.checked_version(&compiled, reason, lenient).await?;
        // The same text may mean another workflow than before.
        workflow.calls = called(&compiled);
        if workflow.version > 0 && self.version_of(workflow, None).await?.says_the_same(&version) {
            return Ok(Vec::new());
        }
        self.edits_of(workflow, compiled, version).await
    }

    /// What a text is as a version: with its plans if it can run, without if that is allowed.
    pub(crate) async fn checked_version(
        &self,
        compiled: &Compiled,
        reason: &str,
        lenient: bool,
    ) -> Result<Version, Error> {
        let runs = !compiled.whole.has_errors();
        if !runs && !lenient {
            return Err(compiled.findings());
        }
        let plans = compiled.whole.plans().map(|(_, plan)| plan);
        let manifest = if runs { self.manifest_of(plans).await? } else { Value::Null };
        Ok(new_version(compiled, runs, manifest, reason))
    }

    pub(crate) async fn edits_of(
        &self,
        workflow: &mut Workflow,
        compiled: Compiled,
        version: Version,
    ) -> Result<Vec<Edit>, Error> {
        workflow.version += 1;
        workflow.format = Some(version.format.clone());
        workflow.plan = version.plan.clone();
        workflow.manifest = version.manifest.clone();
        workflow.agents = version.agents.clone();
        workflow.calls = called(&compiled);
        workflow.definition = executors(&version);
        workflow.updated_at = self.core.clock.now();
        let mut edits = Vec::new();
        if version.can_run() {
            for plan in compiled.plans() {
                edits.extend(self.plan_edit(plan).await?);
            }
        }
        edits.push(self.version_edit(workflow, &version)?);
        let named = if version.can_run() { compiled.triggers() } else { Vec::new() };
        let present: Vec<At<TriggerRecord>> = self.list_kept(Some(&workflow.id.to_string())).await?;
        edits.extend(self.trigger_edits(workflow, &named, &present)?);
        Ok(edits)
    }

    pub(crate) async fn plan_edit(&self, plan: &Plan) -> Result<Option<Edit>, Error> {
        let key = plan_key(&plan.hash());
        if self.core.store.get_document(key.clone(), None).await?.is_some() {
            return Ok(None);
        }
        let body = serde_json::to_value(plan).map_err(|e| Error::Unusable(e.to_string()))?;
        Ok(Some(Edit::Document(Document { key, version: 1, at: self.core.clock.now(), body })))
    }

    pub(crate) fn version_edit(&self, workflow: &Workflow, version: &Version) -> Result<Edit, Error> {
        self.numbered_edit(workflow, workflow.version, version)
    }

    pub(crate) fn numbered_edit(&self, workflow: &Workflow, number: u64, version: &Version) -> Result<Edit, Error> {
        let body = serde_json::to_value(version).map_err(|e| Error::Unusable(e.to_string()))?;
        let key = version_key(self.user(), workflow.id);
        Ok(Edit::Document(Document { key, version: number, at: workflow.updated_at, body }))
    }

    /// The tools as they are now. A server that cannot be asked in time leaves its tools unverified: a run asks again.
    pub(crate) async fn manifest_of<'a>(&self, plans: impl Iterator<Item = &'a Plan>) -> Result<Value, Error> {
        let mut found: Vec<ToolSpec> = Vec::new();
        let mut unverified = Vec::new();
        for plan in plans {
            let (remote, own): (Vec<String>, Vec<String>) =
                tools_of(plan).into_iter().partition(|tool| tool.starts_with(MCP_PREFIX));
            found.extend(self.select(plan, &own).await?);
            for tool in remote {
                match tokio::time::timeout(TOOLS_TIMEOUT, self.select(plan, std::slice::from_ref(&tool))).await {
                    Ok(Ok(tools)) => found.extend(tools),
                    Ok(Err(failure)) if is_mistake(&failure) => return Err(failure.into()),
                    Ok(Err(_)) | Err(_) => unverified.push(tool),
                }
            }
        }
        unverified.dedup();
        Ok(self.manifest(found, &unverified))
    }

    fn manifest(&self, mut tools: Vec<ToolSpec>, unverified: &[String]) -> Value {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.dedup_by(|a, b| a.name == b.name);
        let mut kept = Manifest::new(self.today(), &tools).kept();
        if !unverified.is_empty() {
            kept["unverified"] = json!(unverified);
        }
        kept
    }

    pub(crate) fn today(&self) -> String {
        relais_plan::time::format_instant(self.core.clock.now())[..10].to_owned()
    }

    /// Servers that others use, too, go on; those that only this plan declares end with the registry.
    async fn select(&self, plan: &Plan, tools: &[String]) -> Result<Vec<ToolSpec>, Failure> {
        self.core.definitions.tools.with_servers(&plan.servers).select(tools).await
    }

    /// One version of a workflow, the newest if none is named.
    pub(crate) async fn version_of(&self, workflow: &Workflow, version: Option<u64>) -> Result<Version, Error> {
        Ok(self.numbered(workflow, version.unwrap_or(workflow.version)).await?.version)
    }

    /// What a run of this workflow is started with, from what is kept: nothing is compiled, no server is asked.
    pub async fn startable(
        &self,
        workflow: &Workflow,
        branch: Option<&str>,
        version: Option<u64>,
    ) -> Result<Checked, Error> {
        if workflow.status == WorkflowStatus::Archived {
            let text = format!("the workflow `{}` is archived; make it active to run it", workflow.name);
            return Err(Error::Conflict(text));
        }
        let number = version.unwrap_or(workflow.version);
        let shelved = self.shelved(workflow, number, branch).await?;
        let Shelved { version, hash, plan } = shelved.as_ref();
        let target = Target {
            workflow: workflow.id.to_string(),
            version: u32::try_from(number).unwrap_or(u32::MAX),
            branch: branch.map(str::to_owned),
            ..Target::default()
        };
        Ok(Checked {
            plan: plan.clone(),
            hash: hash.clone(),
            format: Format::named(&version.format).unwrap_or(Format::Native),
            children: Vec::new(),
            version: number,
            manifest: version.manifest["hash"].as_str().unwrap_or_default().to_owned(),
            target,
        })
    }

    async fn shelved(&self, workflow: &Workflow, number: u64, branch: Option<&str>) -> Result<Arc<Shelved>, Error> {
        let place = (self.user.clone(), workflow.id, number, branch.map(str::to_owned));
        if let Some(shelved) = self.core.shelf.get(&place) {
            return Ok(shelved);
        }
        let version = self.version_of(workflow, Some(number)).await?;
        let Some(hash) = version.plan_of(branch).cloned() else {
            return Err(self.why_not(workflow, version, branch).await);
        };
        let plan = Arc::new(load_plan(self.core.store.as_ref(), &hash).await?);
        Ok(self.core.shelf.put(place, Shelved { version, hash, plan }))
    }

    /// Why a version has nothing to start.
    async fn why_not(&self, workflow: &Workflow, version: Version, branch: Option<&str>) -> Error {
        let there: Vec<&str> = version.branches.keys().map(String::as_str).collect();
        match branch {
            None if !there.is_empty() => {
                let text = format!("the workflow `{}` has no main graph, only branches", workflow.name);
                return Error::Invalid(format!("{text}; say which: {}", there.join(", ")));
            }
            Some(branch) if version.can_run() => {
                let there =
                    if there.is_empty() { "it has none".to_owned() } else { format!("it has: {}", there.join(", ")) };
                return Error::Invalid(format!("the workflow `{}` has no branch `{branch}`; {there}", workflow.name));
            }
            None | Some(_) => {}
        }
        let format = Format::named(&version.format);
        match self.compile(workflow.id, Some(workflow.name.clone()), version.definition, format).await {
            Ok(compiled) if problem::has_errors(&compiled.whole.main.problems) => compiled.findings(),
            Ok(_) => Error::Conflict(format!(
                "the workflow `{}` could not run when it was saved; save it again",
                workflow.name
            )),
            Err(error) => error,
        }
    }

    /// A new run of a kept workflow, named by id, alias or name.
    pub async fn start_workflow(
        &self,
        text: &str,
        branch: Option<&str>,
        version: Option<u64>,
        start: Start,
    ) -> Result<RunId, Error> {
        let At { it: workflow, .. } = self.find_workflow(text).await?;
        let checked = self.ready(&workflow, branch, version, &start.mode).await?;
        let is_same = if version.is_some() { same_plan } else { same_workflow };
        self.start_unless(&checked, start, is_same).await
    }

    /// The same as `startable`, and what it needs of the world is there: keys of models, and tools.
    pub(crate) async fn ready(
        &self,
        workflow: &Workflow,
        branch: Option<&str>,
        version: Option<u64>,
        mode: &Mode,
    ) -> Result<Checked, Error> {
        let mut checked = self.startable(workflow, branch, version).await?;
        if !mode.simulate {
            self.core.definitions.check_models(&checked.plan, mode.model.as_deref())?;
            self.check_drift(workflow, &mut checked).await?;
        }
        Ok(checked)
    }

    /// The tools must be there, and are compared with those of the time when the version was made.
    async fn check_drift(&self, workflow: &Workflow, checked: &mut Checked) -> Result<(), Error> {
        let tools = self.select(&checked.plan, &tools_of(&checked.plan)).await?;
        let shelved = self.shelved(workflow, checked.version, checked.target.branch.as_deref()).await?;
        drift::tell(checked, &workflow.name, &shelved.version, &tools)
    }
}

fn new_version(compiled: &Compiled, runs: bool, manifest: Value, reason: &str) -> Version {
    let whole = &compiled.whole;
    let of_branch = |(branch, plan): (Option<&str>, &Plan)| Some((branch?.to_owned(), plan.hash()));
    let branches: IndexMap<String, String> = whole.plans().filter_map(of_branch).filter(|_| runs).collect();
    Version {
        definition: compiled.source().text.clone(),
        format: whole.main.format.word().to_owned(),
        plan: whole.plan().filter(|_| runs).map(Plan::hash),
        branches,
        manifest,
        agents: BTreeSet::from_iter(compiled.used.agents.values().copied()).into_iter().collect(),
        reason: reason.to_owned(),
    }
}

fn called(compiled: &Compiled) -> Vec<Uuid> {
    BTreeSet::from_iter(compiled.used.workflows.values().copied()).into_iter().collect()
}

/// Those of a chain, for whoever reads the tables, with what it says of its schedule.
pub(crate) fn executors(version: &Version) -> Value {
    if version.format != Format::Chain.word() {
        return Value::Null;
    }
    let spec = relais_dialects::tree(&version.definition).unwrap_or_default();
    json!({ "executors": spec["executors"], "cron_expression": spec["cron_expression"] })
}

/// A tool or server that nobody knows, as opposed to one that does not answer now.
fn is_mistake(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Tool | ErrorKind::Config)
}
