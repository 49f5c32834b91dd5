//! Workflows kept on the server: one record for what a workflow is now, one document for each of its versions
//! (`versions.rs`).

use std::fmt::Display;

use relais_dialects::Format;
use relais_engine::Millis;
use relais_plan::text::is_name;
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::definitions::versions::Compiled;
use crate::kept::{self, At, Kept, Order, Read};
use crate::triggers::sent::REMEMBERED_MS;
use crate::{Error, Service};

/// A workflow as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub id: Uuid,
    pub name: String,
    /// Another name, unique for the user, that is accepted wherever the id is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub status: WorkflowStatus,
    /// Its newest version; 0 while it is empty.
    #[serde(default)]
    pub version: u64,
    /// The format that it is written in; none while it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Hash of the plan of the newest version; none while it cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Offered as a tool and an agent of its own.
    #[serde(default)]
    pub published: bool,
    /// The step objects that it is made of, in order, where it is edited step by step.
    #[serde(default)]
    pub steps: Vec<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_uuid: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<String>,
    #[serde(default)]
    pub thread_id: String,
    /// The tools as they were when the newest version was made: version, hash, and all of them where that is asked for.
    #[serde(default)]
    pub manifest: Value,
    /// The kept agents that the newest version uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Uuid>,
    /// The kept workflows that the newest version calls, also by way of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Uuid>,
    /// Of a chain its `executors` and what it says of its schedule, for whoever reads the tables.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub definition: Value,
    /// The file that it was published from, on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl Workflow {
    /// One that is empty.
    pub(crate) fn new(id: Uuid, name: String, now: Millis) -> Workflow {
        Workflow {
            id,
            name,
            alias: None,
            description: String::new(),
            status: WorkflowStatus::Active,
            version: 0,
            format: None,
            plan: None,
            published: false,
            steps: Vec::new(),
            trigger_uuid: None,
            template_id: None,
            template_version: None,
            thread_id: String::new(),
            manifest: Value::Null,
            agents: Vec::new(),
            calls: Vec::new(),
            file: None,
            definition: Value::Null,
            created_at: now,
            updated_at: now,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    #[default]
    Active,
    /// Triggers do not fire; it may be started by hand.
    Paused,
    /// Hidden, not runnable.
    Archived,
}

/// What one version says; the body of its document, immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The text as its author wrote it.
    pub definition: String,
    pub format: String,
    /// Hash of the plan; none where the text is kept although it cannot run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Hash of the plan of each branch.
    #[serde(default)]
    pub branches: indexmap::IndexMap<String, String>,
    #[serde(default)]
    pub manifest: Value,
    /// Ids of the kept agents that it uses.
    #[serde(default)]
    pub agents: Vec<Uuid>,
    /// Why it was made: `created`, `updated`, `rolled back to 3`, `agent writer changed`.
    #[serde(default)]
    pub reason: String,
}

impl Version {
    /// The plan of a branch, or the main one.
    pub(crate) fn plan_of(&self, branch: Option<&str>) -> Option<&String> {
        match branch {
            None => self.plan.as_ref(),
            Some(branch) => self.branches.get(branch),
        }
    }

    pub(crate) fn can_run(&self) -> bool {
        self.plan.is_some() || !self.branches.is_empty()
    }

    /// Whether saving the other would change nothing. The tools are not looked at: a version keeps them as they were.
    pub(crate) fn says_the_same(&self, other: &Version) -> bool {
        let facts = |v: &Version| (v.definition.clone(), v.format.clone(), v.plan.clone(), v.branches.clone());
        facts(self) == facts(other)
    }
}

impl Kept for Workflow {
    const KIND: &'static str = "workflow";
    const WORD: &'static str = "workflow";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.name.clone()
    }
}

/// Another name of a workflow; its record's id is the name, so that each is there once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Alias {
    pub alias: String,
    pub workflow: Uuid,
}

impl Kept for Alias {
    const KIND: &'static str = "alias";
    const WORD: &'static str = "alias";

    fn id(&self) -> String {
        self.alias.clone()
    }

    fn label(&self) -> String {
        self.workflow.to_string()
    }
}

/// A request that is answered once, however often it is sent; remembered for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
    /// The same for the same user, route and key.
    id: Uuid,
    /// What was asked for.
    body: String,
    /// The id of what it makes; once it was that of the key.
    #[serde(default)]
    made: Option<Uuid>,
    /// When it was asked for.
    #[serde(default)]
    at: Millis,
}

impl Once {
    pub fn new(service: &Service, route: &str, key: &str, body: &str) -> Once {
        let name = format!("{}\n{route}\n{key}", service.user());
        let id = |text: &str| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes());
        let (made, at) = (Some(Uuid::now_v7()), service.core.clock.now());
        Once { id: id(&name), body: id(body).to_string(), made, at }
    }

    pub(crate) fn made(&self) -> Uuid {
        self.made.unwrap_or(self.id)
    }
}

impl Kept for Once {
    const KIND: &'static str = "key";
    const WORD: &'static str = "key";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        Some(self.at.saturating_add(REMEMBERED_MS))
    }
}

/// A definition as somebody wrote it.
#[derive(Debug, Clone, Default)]
pub struct Written {
    pub text: String,
    /// None: found by its shape.
    pub format: Option<Format>,
    /// Kept even if it cannot run yet.
    pub lenient: bool,
}

/// A workflow to be made. Without a definition it is empty.
#[derive(Debug, Clone, Default)]
pub struct NewWorkflow {
    /// None: the one that the definition gives.
    pub name: Option<String>,
    pub description: Option<String>,
    pub alias: Option<String>,
    pub definition: Option<Written>,
    pub published: bool,
    pub thread_id: String,
    pub template_id: Option<String>,
    pub template_version: Option<String>,
    pub once: Option<Once>,
}

/// What is to be changed of a workflow; what is not named stays.
#[derive(Debug, Clone, Default)]
pub struct WorkflowChange {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Empty: it shall have none.
    pub alias: Option<String>,
    pub status: Option<WorkflowStatus>,
    pub published: Option<bool>,
    pub definition: Option<Written>,
}

/// Which workflows are listed.
#[derive(Debug, Clone, Default)]
pub struct WorkflowList {
    /// None: all but the archived.
    pub status: Option<WorkflowStatus>,
    pub archived_too: bool,
    /// The last id of the page before.
    pub after: Option<String>,
    pub limit: usize,
}

/// Names and aliases are shown in lists and written into commands.
const MAX_NAME_CHARS: usize = 255;
/// A description is a paragraph or two.
const MAX_DESCRIPTION_CHARS: usize = 10_000;
/// Records read at once while a page is gathered: a page of the usual size is mostly one read.
pub(crate) const WALKED: usize = 200;
/// Workflows of one name that an error lists.
const MAX_AMBIGUOUS: usize = 10;

impl Service {
    /// A new workflow: empty, or with its first version.
    pub async fn create_workflow(&self, new: NewWorkflow) -> Result<At<Workflow>, Error> {
        let once = new.once.clone();
        if let Some(made) = self.made_before(&once).await? {
            return Ok(made);
        }
        let (workflow, mut edits) = self.first_edits(new).await?;
        edits.extend(self.once_edits(&once).await?);
        match (self.change(edits).await, self.made_before(&once).await?) {
            (Ok(_), _) => self.kept(&workflow.id.to_string()).await,
            // Another request with the same key came first.
            (Err(Error::Stale(_) | Error::Conflict(_)), Some(made)) => Ok(made),
            (Err(error), _) => Err(self.if_taken(error, &workflow).await),
        }
    }

    /// What a request with this key has made.
    pub(crate) async fn made_before<T: Kept>(&self, once: &Option<Once>) -> Result<Option<At<T>>, Error> {
        let Some(once) = once else { return Ok(None) };
        let Some(known) = self.find_kept::<Once>(&once.id()).await? else { return Ok(None) };
        if known.it.body != once.body {
            let text = "this Idempotency-Key was used before with another body";
            return Err(Error::Conflict(format!("{text}; give each request a key of its own")));
        }
        let made = known.it.made();
        let gone =
            || Error::Conflict(format!("the {} {made} was made with this Idempotency-Key and deleted since", T::WORD));
        self.find_kept(&made.to_string()).await?.ok_or_else(gone).map(Some)
    }

    /// Remembers a request; those that were made long ago are forgotten.
    pub(crate) async fn once_edits(&self, once: &Option<Once>) -> Result<Vec<Edit>, Error> {
        let Some(once) = once else { return Ok(Vec::new()) };
        let mut edits = vec![kept::put(self.user(), once, Expect::Absent)?];
        edits.extend(self.forgotten(Once::KIND).await?);
        Ok(edits)
    }

    async fn first_edits(&self, new: NewWorkflow) -> Result<(Workflow, Vec<Edit>), Error> {
        let id = new.once.as_ref().map_or_else(Uuid::now_v7, Once::made);
        let described = new.description.is_some();
        let mut workflow = Workflow {
            alias: new.alias,
            description: new.description.unwrap_or_default(),
            published: new.published,
            template_id: new.template_id,
            template_version: new.template_version,
            thread_id: new.thread_id,
            ..Workflow::new(id, new.name.clone().unwrap_or_default(), self.core.clock.now())
        };
        let mut edits = Vec::new();
        if let Some(Written { text, format, lenient }) = new.definition {
            let compiled = self.compile(id, new.name, text, format).await?;
            adopt(&mut workflow, compiled.whole.main.plan.as_ref());
            if compiled.whole.main.format == Format::Steps {
                adopt_export(&mut workflow, described, &compiled.source().text);
            }
            pause(&mut workflow, compiled.whole.main.plan.as_ref());
            edits = self.first_version(&mut workflow, compiled, lenient).await?;
        }
        must_be_named(&workflow)?;
        edits.extend(self.alias_edits(&workflow, None).await?);
        edits.push(kept::put(self.user(), &workflow, Expect::Absent)?);
        Ok((workflow, edits))
    }

    /// Steps and trigger of an export are objects at once.
    async fn first_version(
        &self,
        workflow: &mut Workflow,
        compiled: Compiled,
        lenient: bool,
    ) -> Result<Vec<Edit>, Error> {
        let reason = "created";
        if compiled.whole.main.format == Format::Steps
            && !compiled.whole.has_errors()
            && let Some((mut edits, text)) = self.objects_of(workflow, &compiled.source().text).await?
        {
            edits.extend(self.version_edits(workflow, text, Some(Format::Steps), reason, lenient).await?);
            return Ok(edits);
        }
        self.compiled_edits(workflow, compiled, reason, lenient).await
    }

    /// A workflow by its id, its alias or its name.
    pub async fn find_workflow(&self, text: &str) -> Result<At<Workflow>, Error> {
        let id = text.parse::<Uuid>().ok().map(|id| id.to_string());
        if let Some(id) = &id
            && let Some(found) = self.find_kept(id).await?
        {
            return Ok(found);
        }
        // A workflow that comes from elsewhere may bring the id that it had there as its alias.
        if let Some(At { it: alias, .. }) = self.find_kept::<Alias>(text).await? {
            return self.kept(&alias.workflow.to_string()).await;
        }
        if let Some(id) = id {
            return self.kept(&id).await;
        }
        let mut named = self.page_kept::<Workflow>(Some(text), None, MAX_AMBIGUOUS).await?;
        // One that is only known because its file was run stands behind one that was kept under the same name.
        if named.iter().filter(|found| found.it.file.is_none()).count() == 1 {
            named.retain(|found| found.it.file.is_none());
        }
        if named.len() > 1 {
            let ids: Vec<String> = named.iter().map(|found| found.it.id.to_string()).collect();
            let text = format!("several workflows are called `{text}`; say which by its id: {}", ids.join(", "));
            return Err(Error::Invalid(text));
        }
        named.pop().ok_or_else(|| Error::NotFound(format!("there is no workflow `{text}`")))
    }

    /// The text of the newest version; none while the workflow is empty.
    pub async fn definition_of(&self, workflow: &Workflow) -> Result<Option<String>, Error> {
        match workflow.version {
            0 => Ok(None),
            _ => Ok(Some(self.version_of(workflow, None).await?.definition)),
        }
    }

    /// A page of workflows, newest first, and where the next begins.
    pub async fn workflows(&self, list: WorkflowList) -> Result<(Vec<At<Workflow>>, Option<String>), Error> {
        let wanted = |workflow: &Workflow| match list.status {
            Some(status) => workflow.status == status,
            None => list.archived_too || workflow.status != WorkflowStatus::Archived,
        };
        let (mut page, mut after) = (Vec::new(), list.after.clone());
        // Ends: each pass moves on past the last record that it read.
        while page.len() <= list.limit {
            let (more, next) = self.paged::<Workflow>(Order::NewestFirst, after, WALKED).await?;
            after = next;
            page.extend(more.into_iter().filter(|one| wanted(&one.it)));
            if after.is_none() {
                break;
            }
        }
        let has_more = page.len() > list.limit;
        page.truncate(list.limit);
        let next = page.last().filter(|_| has_more).map(|last| last.it.id.to_string());
        Ok((page, next))
    }

    /// Changes a workflow; a definition that says something else is a new version. `revision`: what the caller has
    /// read, if it minds.
    pub async fn update_workflow(
        &self,
        text: &str,
        change: WorkflowChange,
        revision: Read,
    ) -> Result<At<Workflow>, Error> {
        self.save_workflow(text, change, revision, "updated").await
    }

    /// The same for whatever reason.
    pub(crate) async fn save_workflow(
        &self,
        text: &str,
        change: WorkflowChange,
        revision: Read,
        reason: &str,
    ) -> Result<At<Workflow>, Error> {
        let change_it = |at| self.change_workflow(at, change.clone(), reason);
        self.amend(&revision, || self.find_workflow(text), change_it).await
    }

    async fn change_workflow(
        &self,
        at: At<Workflow>,
        change: WorkflowChange,
        reason: &str,
    ) -> Result<At<Workflow>, Error> {
        let At { it: before, revision: read_at } = at;
        let mut workflow = before.clone();
        apply(&mut workflow, &change);
        must_be_named(&workflow)?;
        let mut edits = self.alias_edits(&workflow, Some(&before)).await?;
        if let Some(Written { text, format, lenient }) = change.definition {
            // The text is what counts from here on; step objects are made of it again when somebody wants them.
            edits.extend(self.step_removals(&workflow));
            workflow.steps.clear();
            let compiled = self.compile(workflow.id, Some(workflow.name.clone()), text, format).await?;
            if change.status.is_none() {
                pause(&mut workflow, compiled.whole.main.plan.as_ref());
            }
            edits.extend(self.compiled_edits(&mut workflow, compiled, reason, lenient).await?);
        }
        if workflow == before {
            return Ok(At { it: before, revision: read_at });
        }
        workflow.updated_at = self.core.clock.now();
        edits.push(kept::put(self.user(), &workflow, Expect::Revision(read_at))?);
        match self.change(edits).await {
            Ok(_) => self.kept(&workflow.id.to_string()).await,
            Err(error) => Err(self.if_taken(error, &workflow).await),
        }
    }

    /// The records of a workflow's alias, where it is another than before. Refused where its name or its alias would
    /// mean another workflow, too.
    pub(crate) async fn alias_edits(&self, workflow: &Workflow, before: Option<&Workflow>) -> Result<Vec<Edit>, Error> {
        let is_renamed = before.is_none_or(|before| before.name != workflow.name);
        if is_renamed && let Some(other) = self.aliased(&workflow.name, workflow.id).await? {
            return Err(other.has_alias(&workflow.name));
        }
        let (alias, before) = (workflow.alias.as_deref(), before.and_then(|before| before.alias.as_deref()));
        if alias == before {
            return Ok(Vec::new());
        }
        let mut edits = Vec::new();
        edits.extend(before.map(|before| kept::remove::<Alias>(self.user(), before, Expect::Any)));
        if let Some(alias) = alias {
            self.must_be_free(alias, workflow.id).await?;
            let record = Alias { alias: alias.to_owned(), workflow: workflow.id };
            edits.push(kept::put(self.user(), &record, Expect::Absent)?);
        }
        Ok(edits)
    }

    /// No other workflow goes by this text.
    async fn must_be_free(&self, alias: &str, own: Uuid) -> Result<(), Error> {
        if let Some(other) = self.aliased(alias, own).await? {
            return Err(other.has_alias(alias));
        }
        match self.called(alias, own).await? {
            Some(other) => Err(other.has_name()),
            None => Ok(()),
        }
    }

    /// Another workflow that has this alias.
    pub(crate) async fn aliased(&self, alias: &str, own: Uuid) -> Result<Option<Workflow>, Error> {
        match self.find_kept::<Alias>(alias).await? {
            Some(At { it, .. }) if it.workflow != own => Ok(Some(self.kept(&it.workflow.to_string()).await?.it)),
            Some(_) | None => Ok(None),
        }
    }

    /// Another workflow that has this name. One that is only known because its file was run stands behind the others.
    pub(crate) async fn called(&self, name: &str, own: Uuid) -> Result<Option<Workflow>, Error> {
        let named = self.page_kept::<Workflow>(Some(name), None, MAX_AMBIGUOUS).await?;
        Ok(named.into_iter().map(|at| at.it).find(|other| other.id != own && other.file.is_none()))
    }

    /// A change that failed because somebody took the alias in between says so.
    async fn if_taken(&self, error: Error, workflow: &Workflow) -> Error {
        match (error, workflow.alias.as_deref()) {
            (Error::Stale(text), Some(alias)) => match self.aliased(alias, workflow.id).await {
                Ok(Some(other)) => other.has_alias(alias),
                Ok(None) | Err(_) => Error::Stale(text),
            },
            (error, _) => error,
        }
    }
}

/// Why a text cannot be the alias or the name of a further workflow.
impl Workflow {
    fn has_alias(&self, alias: &str) -> Error {
        let text = format!("the workflow `{}` ({}) has the alias `{alias}`", self.name, self.id);
        Error::Conflict(format!("{text}; an alias names one workflow, so choose another text"))
    }

    fn has_name(&self) -> Error {
        let text = format!("`{}` is the name of another workflow ({})", self.name, self.id);
        Error::Conflict(format!("{text}; an alias names one workflow, so choose another text"))
    }
}

/// The caller has read what is there now.
pub(crate) fn must_be_unchanged(word: &str, id: impl Display, is: u64, read: &Read) -> Result<(), Error> {
    if read.as_ref().is_none_or(|read| read.contains(&is)) {
        return Ok(());
    }
    Err(Error::Stale(format!("the {word} {id} has changed since it was read; read it again")))
}

/// What an exported workflow says of itself stays as it was said: what its trigger brings is told with the trigger.
fn adopt_export(workflow: &mut Workflow, described: bool, text: &str) {
    let export = relais_dialects::tree(text).unwrap_or_default();
    let said = |key: &str| match &export[key] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    workflow.template_id = workflow.template_id.take().or_else(|| said("template_id"));
    workflow.template_version = workflow.template_version.take().or_else(|| said("template_version"));
    if !described {
        workflow.description = said("description").unwrap_or_default();
    }
}

/// What the caller leaves open is as the definition says.
fn adopt(workflow: &mut Workflow, plan: Option<&relais_plan::Plan>) {
    let Some(plan) = plan else { return };
    if workflow.name.is_empty() && plan.name != workflow.id.to_string() {
        workflow.name = plan.name.clone();
    }
    if workflow.description.is_empty() {
        workflow.description = plan.description.clone();
    }
    if workflow.alias.is_none() {
        workflow.alias = plan.alias.clone();
    }
}

/// A definition may say that it is not active. That it is active again is said of the workflow, since a text that says
/// nothing of it must not start what somebody has paused.
fn pause(workflow: &mut Workflow, plan: Option<&relais_plan::Plan>) {
    let is_active = workflow.status == WorkflowStatus::Active;
    if is_active && plan.is_some_and(|plan| plan.paused) {
        workflow.status = WorkflowStatus::Paused;
    }
}

fn apply(workflow: &mut Workflow, change: &WorkflowChange) {
    if let Some(name) = &change.name {
        workflow.name = name.clone();
    }
    if let Some(description) = &change.description {
        workflow.description = description.clone();
    }
    if let Some(alias) = &change.alias {
        workflow.alias = Some(alias.clone()).filter(|alias| !alias.is_empty());
    }
    workflow.status = change.status.unwrap_or(workflow.status);
    workflow.published = change.published.unwrap_or(workflow.published);
}

pub(crate) fn must_be_named(workflow: &Workflow) -> Result<(), Error> {
    must_be_short("name", &workflow.name)?;
    if workflow.name.trim().is_empty() {
        return Err(Error::Invalid("a workflow needs a name; give it as `name`, or in the definition".into()));
    }
    must_be_short("thread_id", &workflow.thread_id)?;
    must_be_described(&workflow.description)?;
    let Some(alias) = &workflow.alias else { return Ok(()) };
    must_be_short("alias", alias)?;
    if alias.trim().is_empty() {
        return Err(Error::Invalid(format!("`{alias}` is no alias: it needs a letter")));
    }
    Ok(())
}

pub(crate) fn must_be_described(text: &str) -> Result<(), Error> {
    if text.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(Error::Invalid(format!("a description has at most {MAX_DESCRIPTION_CHARS} characters")));
    }
    Ok(())
}

pub(crate) fn must_be_short(what: &str, text: &str) -> Result<(), Error> {
    if text.chars().count() > MAX_NAME_CHARS || !is_name(text) {
        return Err(Error::Invalid(format!("`{what}` has at most {MAX_NAME_CHARS} characters, all on one line")));
    }
    Ok(())
}
