//! Workflows as a document that another server takes: with the workflows and agents that they use, under new ids there.
//!
//! The document holds definitions, no plans: what comes in is compiled and checked like any text of the network.

use std::collections::{BTreeMap, HashMap, HashSet};

use relais_engine::Millis;
use relais_plan::time::format_instant;
use relais_plan::{Trigger, TriggerOn, schedule};
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::definitions::agents::must_be_an_agent;
use crate::definitions::library::{Pending, Used};
use crate::definitions::workflows::{Alias, Version, Workflow, WorkflowStatus, must_be_named};
use crate::kept::{self, At};
use crate::mistakes;
use crate::{Agent, Error, Format, Origin, Service, StepRecord, TriggerRecord};

/// Exported workflows with all that they need.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The form of this document.
    relais_export: u32,
    /// Those that were asked for, then those that they call.
    workflows: Vec<Packed>,
    agents: Vec<PackedAgent>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    id: Uuid,
    name: String,
    #[serde(default)]
    alias: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    status: WorkflowStatus,
    #[serde(default)]
    published: bool,
    /// Oldest first; the last is the newest. None while the workflow is empty.
    versions: Vec<PackedVersion>,
    /// What its newest version calls other workflows and agents, and which it means by that.
    #[serde(default)]
    calls: BTreeMap<String, Uuid>,
    #[serde(default)]
    employs: BTreeMap<String, Uuid>,
    /// Step objects, in order.
    #[serde(default)]
    steps: Vec<Value>,
    /// Triggers that were set by a call; those of the definition stand in the definition.
    #[serde(default)]
    triggers: Vec<PackedTrigger>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedVersion {
    definition: String,
    format: String,
    #[serde(default)]
    reason: String,
    /// It could run where it was.
    runs: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedTrigger {
    id: Uuid,
    #[serde(default)]
    branch: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    on: Trigger,
    #[serde(default)]
    initial_data_description: String,
    /// Why it does not fire, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    off: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_tool: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedAgent {
    id: Uuid,
    name: String,
    #[serde(default)]
    description: String,
    definition: Value,
}

/// What is done about a name that is taken by something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnClash {
    /// `name (2)`, and no alias; refused where the export itself goes by the name.
    #[default]
    Rename,
    /// An agent or a called workflow of that name is used as it is here; the rest is renamed.
    Reuse,
    Refuse,
}

impl OnClash {
    pub const ALL: [OnClash; 3] = [OnClash::Rename, OnClash::Reuse, OnClash::Refuse];

    pub fn word(self) -> &'static str {
        match self {
            OnClash::Rename => "rename",
            OnClash::Reuse => "reuse",
            OnClash::Refuse => "refuse",
        }
    }
}

/// What an import brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub first: At<Workflow>,
    /// In the order of the export.
    pub all: Vec<Arrived>,
}

/// A workflow that an import brought, with what it is called in the export.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrived {
    pub workflow: At<Workflow>,
    pub exported_name: String,
    pub exported_alias: Option<String>,
}

const FORM: u32 = 1;
/// Each is compiled while the caller waits; a workflow calls at most some dozens.
const MAX_WORKFLOWS: usize = 100;
/// Versions that one export holds, the newest of each.
const MAX_VERSIONS: u64 = 100;
/// Names that are tried for one that is taken.
const MAX_RENAMES: usize = 1_000;

impl Service {
    /// Workflows by id, alias or name, the workflows and agents that they use, and their older versions if they are
    /// asked for.
    pub async fn export_workflows(&self, texts: &[String], history: bool) -> Result<Package, Error> {
        must_be_few(texts.len())?;
        let mut wanted = Vec::new();
        for text in texts {
            let id = self.find_workflow(text).await?.it.id;
            add_new(&mut wanted, [id]);
        }
        let (mut workflows, mut agents) = (Vec::new(), BTreeMap::new());
        while let Some(id) = wanted.get(workflows.len()) {
            let At { it: workflow, .. } = self.kept(&id.to_string()).await?;
            let packed = self.packed(&workflow, history).await?;
            add_new(&mut wanted, packed.calls.values().copied());
            must_be_few(wanted.len())?;
            for agent in packed.employs.values() {
                let At { it, .. } = self.kept::<Agent>(&agent.to_string()).await?;
                let Agent { id, name, description, definition, .. } = it;
                agents.insert(id, PackedAgent { id, name, description, definition });
            }
            workflows.push(packed);
        }
        Ok(Package { relais_export: FORM, workflows, agents: agents.into_values().collect() })
    }

    async fn packed(&self, workflow: &Workflow, history: bool) -> Result<Packed, Error> {
        let oldest = if history { workflow.version.saturating_sub(MAX_VERSIONS - 1).max(1) } else { workflow.version };
        let mut versions = Vec::new();
        for number in oldest.max(1)..=workflow.version {
            let version = self.version_of(workflow, Some(number)).await?;
            let runs = version.can_run();
            let Version { definition, format, reason, .. } = version;
            versions.push(PackedVersion { definition, format, reason, runs });
        }
        let Used { agents, workflows } = self.used_by(workflow, versions.last()).await?;
        let triggers: Vec<At<TriggerRecord>> = self.list_kept(Some(&workflow.id.to_string())).await?;
        let set = triggers.into_iter().filter(|at| at.it.origin == Origin::Call);
        Ok(Packed {
            id: workflow.id,
            name: workflow.name.clone(),
            alias: workflow.alias.clone(),
            description: workflow.description.clone(),
            status: workflow.status,
            published: workflow.published,
            versions,
            calls: workflows,
            employs: agents,
            steps: self.step_bodies(workflow).await?,
            triggers: set.map(|at| PackedTrigger::new(at.it, self.timezone())).collect(),
        })
    }

    /// What the newest version names, found by reading it once more.
    async fn used_by(&self, workflow: &Workflow, newest: Option<&PackedVersion>) -> Result<Used, Error> {
        let Some(PackedVersion { definition, format, .. }) = newest else { return Ok(Used::default()) };
        let (title, format) = (Some(workflow.name.clone()), Format::named(format));
        Ok(self.compile(workflow.id, title, definition.clone(), format).await?.used)
    }

    async fn step_bodies(&self, workflow: &Workflow) -> Result<Vec<Value>, Error> {
        let mut bodies = Vec::new();
        for step in &workflow.steps {
            bodies.extend(
                self.core
                    .store
                    .get_record(kept::key::<StepRecord>(self.user(), &step.to_string()))
                    .await?
                    .map(|record| record.body),
            );
        }
        Ok(bodies)
    }

    /// Takes a package in, all of it or nothing.
    pub async fn import_workflows(&self, package: Value, on_clash: OnClash) -> Result<Imported, Error> {
        let package: Package =
            mistakes::read_value(&package).map_err(|e| Error::Invalid(format!("this is no export of Relais: {e}")))?;
        must_be_taken(&package)?;
        let mut arriving = Arriving::default();
        for agent in &package.agents {
            self.arriving_agent(agent, &package, on_clash, &mut arriving).await?;
        }
        if on_clash == OnClash::Reuse {
            self.reuse_called(&package, &mut arriving).await?;
        }
        arriving.new_ids(&package);
        for packed in package.workflows.iter().filter(|packed| !arriving.reused.contains(&packed.id)) {
            let workflow = self.arriving_workflow(packed, &package, on_clash, &arriving).await?;
            arriving.workflows.push((workflow, packed));
        }
        let nothing = || Error::Invalid("the workflows of the export call each other, and all of them are here".into());
        let (first, _) = arriving.workflows.first().ok_or_else(nothing)?;
        let edits = self.import_edits(&arriving).await?;
        self.change(edits).await?;
        let mut all = Vec::new();
        for (workflow, packed) in &arriving.workflows {
            let workflow = self.kept(&workflow.id.to_string()).await?;
            let (exported_name, exported_alias) = (packed.name.clone(), packed.alias.clone());
            all.push(Arrived { workflow, exported_name, exported_alias });
        }
        Ok(Imported { first: self.kept(&first.id.to_string()).await?, all })
    }

    /// Workflows that others of the package call, and that are here under their name or alias.
    async fn reuse_called(&self, package: &Package, arriving: &mut Arriving<'_>) -> Result<(), Error> {
        let called: HashSet<Uuid> =
            package.workflows.iter().flat_map(|packed| packed.calls.values().copied()).collect();
        for packed in package.workflows.iter().filter(|packed| called.contains(&packed.id)) {
            if let Some(present) = self.present(packed).await? {
                arriving.ids.insert(packed.id, present);
                arriving.reused.insert(packed.id);
            }
        }
        Ok(())
    }

    async fn present(&self, packed: &Packed) -> Result<Option<Uuid>, Error> {
        for name in packed.alias.iter().chain([&packed.name]) {
            match self.find_workflow(name).await {
                Ok(At { it, .. }) => return Ok(Some(it.id)),
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// An agent that is here in just the same form is used as it is.
    async fn arriving_agent<'p>(
        &self,
        packed: &PackedAgent,
        package: &Package,
        on_clash: OnClash,
        arriving: &mut Arriving<'p>,
    ) -> Result<(), Error> {
        let present = self.page_kept::<Agent>(Some(&packed.name), None, 1).await?.pop();
        if let Some(At { it, .. }) = present.as_ref().filter(|at| at.it.definition == packed.definition) {
            arriving.ids.insert(packed.id, it.id);
            return Ok(());
        }
        let by_name = package.workflows.iter().any(|workflow| workflow.employs.contains_key(&packed.name));
        let name = match (present, on_clash) {
            (None, _) => packed.name.clone(),
            (Some(At { it, .. }), OnClash::Reuse) => {
                arriving.ids.insert(packed.id, it.id);
                return Ok(());
            }
            (Some(_), OnClash::Rename) if !by_name => self.free_agent_name(&packed.name).await?,
            (Some(_), OnClash::Rename | OnClash::Refuse) => return Err(clash("agent", &packed.name, on_clash)),
        };
        let (id, now) = (Uuid::now_v7(), self.core.clock.now());
        let (description, definition) = (packed.description.clone(), packed.definition.clone());
        let agent = Agent { id, name, description, definition, created_at: now, updated_at: now };
        must_be_an_agent(&agent)?;
        arriving.ids.insert(packed.id, id);
        arriving.agents.push(agent);
        Ok(())
    }

    async fn arriving_workflow(
        &self,
        packed: &Packed,
        package: &Package,
        on_clash: OnClash,
        arriving: &Arriving<'_>,
    ) -> Result<Workflow, Error> {
        let by_name = |name: &str| package.workflows.iter().any(|workflow| workflow.calls.contains_key(name));
        let name = match arriving.has_alias(&packed.name) || !self.is_free_name(&packed.name).await? {
            false => packed.name.clone(),
            true if on_clash == OnClash::Refuse || by_name(&packed.name) => {
                return Err(clash("workflow", &packed.name, on_clash));
            }
            true => self.free_workflow_name(&packed.name).await?,
        };
        let (own, mut alias) = (arriving.id(packed.id), packed.alias.clone());
        if let Some(taken) = &packed.alias
            && (arriving.has_name(taken) || !self.is_free_alias(taken, own).await?)
        {
            if on_clash == OnClash::Refuse || by_name(taken) {
                return Err(clash("alias", taken, on_clash));
            }
            alias = None;
        }
        let mut workflow = Workflow::new(own, name, self.core.clock.now());
        (workflow.alias, workflow.description) = (alias, packed.description.clone());
        (workflow.status, workflow.published) = (packed.status, packed.published);
        workflow.steps = packed.steps.iter().filter_map(step_id).map(|id| arriving.id(id)).collect();
        workflow.trigger_uuid = packed.triggers.first().map(|trigger| arriving.id(trigger.id));
        must_be_named(&workflow)?;
        Ok(workflow)
    }

    async fn free_agent_name(&self, name: &str) -> Result<String, Error> {
        for other in other_names(name) {
            if self.page_kept::<Agent>(Some(&other), None, 1).await?.is_empty() {
                return Ok(other);
            }
        }
        Err(no_name_left(name))
    }

    async fn free_workflow_name(&self, name: &str) -> Result<String, Error> {
        for other in other_names(name) {
            if self.is_free_name(&other).await? {
                return Ok(other);
            }
        }
        Err(no_name_left(name))
    }

    /// No workflow goes by this text.
    async fn is_free_name(&self, name: &str) -> Result<bool, Error> {
        let is_name = !self.page_kept::<Workflow>(Some(name), None, 1).await?.is_empty();
        Ok(!is_name && self.find_kept::<Alias>(name).await?.is_none())
    }

    async fn is_free_alias(&self, alias: &str, own: Uuid) -> Result<bool, Error> {
        Ok(self.find_kept::<Alias>(alias).await?.is_none() && self.called(alias, own).await?.is_none())
    }

    async fn import_edits(&self, arriving: &Arriving<'_>) -> Result<Vec<Edit>, Error> {
        let pending = arriving.pending();
        let mut edits = Vec::new();
        for agent in &arriving.agents {
            edits.extend(self.name_edits(agent, None).await?);
            edits.push(kept::put(self.user(), agent, Expect::Absent)?);
        }
        for (workflow, packed) in &arriving.workflows {
            edits.extend(self.packed_edits(workflow.clone(), packed, arriving, &pending).await?);
        }
        Ok(edits)
    }

    async fn packed_edits(
        &self,
        mut workflow: Workflow,
        packed: &Packed,
        arriving: &Arriving<'_>,
        pending: &Pending,
    ) -> Result<Vec<Edit>, Error> {
        let mut edits = self.alias_edits(&workflow, None).await?;
        for (number, old) in (1..).zip(&packed.versions).take(packed.versions.len().saturating_sub(1)) {
            edits.push(self.numbered_edit(&workflow, number, &arriving.version(old))?);
            workflow.version = number;
        }
        if let Some(newest) = packed.versions.last() {
            let Version { definition, format, .. } = arriving.version(newest);
            let (title, format) = (Some(workflow.name.clone()), Format::named(&format));
            let compiled = self.compile_with(workflow.id, title, definition, format, pending.clone()).await?;
            let version = self.checked_version(&compiled, "imported", !newest.runs).await?;
            edits.extend(self.edits_of(&mut workflow, compiled, version).await?);
        }
        edits.extend(self.step_edits(&workflow, packed, arriving)?);
        for trigger in &packed.triggers {
            edits.extend(self.new_trigger_edits(&self.arriving_trigger(&workflow, trigger, arriving)?)?);
        }
        edits.push(kept::put(self.user(), &workflow, Expect::Absent)?);
        Ok(edits)
    }

    fn step_edits(&self, workflow: &Workflow, packed: &Packed, arriving: &Arriving<'_>) -> Result<Vec<Edit>, Error> {
        let put = |(number, step): (usize, &Value)| {
            let text = arriving.remapped(&step.to_string());
            let place = || format!("steps[{number}] of the workflow `{}` of the export", workflow.name);
            let unread = |error| Error::Invalid(format!("{} is no step: {error}", place()));
            let step: StepRecord = mistakes::read(text.as_bytes()).map_err(unread)?;
            kept::put(self.user(), &StepRecord { workflow: Some(workflow.id), ..step }, Expect::Absent)
        };
        packed.steps.iter().enumerate().map(put).collect()
    }

    fn arriving_trigger(
        &self,
        workflow: &Workflow,
        packed: &PackedTrigger,
        arriving: &Arriving<'_>,
    ) -> Result<TriggerRecord, Error> {
        let now = (self.core.clock.now(), self.timezone());
        let (branch, on) = (packed.branch.clone(), packed.on.clone());
        let set = TriggerRecord::set(workflow.id, branch, on, Origin::Call, now)?;
        let set = TriggerRecord { by_tool: packed.by_tool, ..set };
        let (kind, initial_data_description) = (packed.kind.clone(), packed.initial_data_description.clone());
        let off = packed.off.clone().or(set.off);
        let next_at = set.next_at.filter(|_| off.is_none());
        Ok(TriggerRecord { uuid: arriving.id(packed.id), kind, initial_data_description, off, next_at, ..set })
    }
}

/// `name (2)`, `name (3)` and so on.
fn other_names(name: &str) -> impl Iterator<Item = String> {
    (2..MAX_RENAMES).map(move |number| format!("{name} ({number})"))
}

fn no_name_left(name: &str) -> Error {
    Error::Conflict(format!("there are {MAX_RENAMES} of the name `{name}` already; give it another one"))
}

impl PackedTrigger {
    fn new(trigger: TriggerRecord, timezone: &str) -> PackedTrigger {
        let on = dated(&trigger, timezone);
        let TriggerRecord { uuid, branch, kind, initial_data_description, off, by_tool, .. } = trigger;
        PackedTrigger { id: uuid, branch, kind, on, initial_data_description, off, by_tool }
    }
}

/// The trigger with the time that its words meant when it was set: elsewhere and later they would mean another one, and
/// a time that is past would come again.
fn dated(trigger: &TriggerRecord, timezone: &str) -> Trigger {
    let mut on = trigger.on.clone();
    let said = schedule::parse(&on, timezone, trigger.set_at).ok().flatten();
    if let (TriggerOn::At(text), Some(at)) = (&mut on.on, said.and_then(|schedule| schedule.next(Millis::MIN))) {
        *text = format_instant(at);
    }
    on
}

/// What a package becomes here.
#[derive(Default)]
struct Arriving<'p> {
    /// The new id of each thing, by its old one.
    ids: HashMap<Uuid, Uuid>,
    /// Workflows of the package in whose place one that is here is used.
    reused: HashSet<Uuid>,
    agents: Vec<Agent>,
    workflows: Vec<(Workflow, &'p Packed)>,
}

impl Arriving<'_> {
    fn new_ids(&mut self, package: &Package) {
        for packed in &package.workflows {
            let parts = packed.steps.iter().filter_map(step_id).chain(packed.triggers.iter().map(|t| t.id));
            for old in parts.chain([packed.id]) {
                self.ids.entry(old).or_insert_with(Uuid::now_v7);
            }
        }
    }

    fn id(&self, old: Uuid) -> Uuid {
        self.ids.get(&old).copied().unwrap_or(old)
    }

    fn has_name(&self, text: &str) -> bool {
        self.workflows.iter().any(|(workflow, _)| workflow.name == text)
    }

    fn has_alias(&self, text: &str) -> bool {
        self.workflows.iter().any(|(workflow, _)| workflow.alias.as_deref() == Some(text))
    }

    /// The same text with the new ids in it, wherever they stand.
    fn remapped(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let part = rest.get(..UUID_CHARS).filter(|part| part.as_bytes()[8] == b'-');
            let taken = match part.and_then(|part| self.ids.get(&part.parse().ok()?)) {
                Some(new) => {
                    out.push_str(&new.to_string());
                    UUID_CHARS
                }
                None => {
                    out.push(first);
                    first.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        out
    }

    fn version(&self, packed: &PackedVersion) -> Version {
        Version {
            definition: self.remapped(&packed.definition),
            format: packed.format.clone(),
            plan: None,
            branches: Default::default(),
            manifest: Value::Null,
            agents: Vec::new(),
            reason: packed.reason.clone(),
        }
    }

    fn pending(&self) -> Pending {
        let newest = |(workflow, packed): &(Workflow, &Packed)| {
            packed.versions.last().map(|version| (workflow.clone(), self.version(version)))
        };
        Pending { agents: self.agents.clone(), workflows: self.workflows.iter().filter_map(newest).collect() }
    }
}

/// An id as it is written: 32 digits and four hyphens.
const UUID_CHARS: usize = 36;

fn step_id(step: &Value) -> Option<Uuid> {
    step["uuid"].as_str()?.parse().ok()
}

fn must_be_taken(package: &Package) -> Result<(), Error> {
    if package.relais_export != FORM {
        let text = format!("this export has the form {}", package.relais_export);
        return Err(Error::Invalid(format!("{text}; this version of Relais takes the form {FORM}")));
    }
    must_be_few(package.workflows.len())
}

fn must_be_few(workflows: usize) -> Result<(), Error> {
    if (1..=MAX_WORKFLOWS).contains(&workflows) {
        return Ok(());
    }
    Err(Error::Invalid(format!("an export has 1 to {MAX_WORKFLOWS} workflows, those that they call included")))
}

fn add_new(ids: &mut Vec<Uuid>, more: impl IntoIterator<Item = Uuid>) {
    for id in more {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
}

fn clash(word: &str, name: &str, on_clash: OnClash) -> Error {
    let text = format!("the {word} `{name}` of the export is here already, as another one");
    let help = match on_clash {
        OnClash::Refuse => "`on_clash: rename` takes it in under another name",
        OnClash::Rename | OnClash::Reuse => {
            "the export goes by that name: `on_clash: reuse` uses the one that is here, or rename one of them"
        }
    };
    Error::Conflict(format!("{text}; {help}"))
}
