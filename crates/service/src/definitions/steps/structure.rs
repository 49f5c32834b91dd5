//! Workflows that are made of step objects: steps added, attached, removed, put in order, saved.
//!
//! Each call reads the workflow and its steps, makes one change, and writes workflow, steps and the new version in one
//! transaction that holds only if nobody else has changed the workflow. If somebody has, the call looks again, unless
//! its caller said what it has read.

use std::collections::{HashMap, HashSet};

use relais_dialects::Format;
use relais_plan::Source;
use relais_store::{Edit, Expect};
use serde_json::Value;
use uuid::Uuid;

use super::{Step, StepFields, StepRecord, text};
use crate::definitions::workflows::must_be_unchanged;
use crate::kept::{self, At, Read};
use crate::{Error, Filter, Service, TriggerRecord, Workflow};

/// Steps of one workflow: a line of so many is already more than anybody reads.
const MAX_STEPS: usize = 500;
/// How often a call looks again when others change the same workflow at the same time.
const MAX_TRIES: usize = 10;

/// A workflow with everything that belongs to it.
#[derive(Debug, Clone)]
pub struct Details {
    pub workflow: At<Workflow>,
    pub trigger: Option<At<TriggerRecord>>,
    /// In order; empty where the workflow is not made of step objects.
    pub steps: Vec<Step>,
}

/// What is to become of the steps of a workflow.
enum Change {
    Add { word: String, name: String, position: i64 },
    Attach { step: Uuid, position: i64 },
    Remove(Uuid),
    Order(Vec<Uuid>),
    Save { step: Uuid, fields: Box<StepFields>, revision: Read },
}

/// A workflow and its steps while they are changed.
struct Editing {
    workflow: Workflow,
    revision: u64,
    steps: Vec<StepRecord>,
    /// Revisions of the steps that are kept already.
    revisions: HashMap<Uuid, u64>,
    /// What is to be written of steps; the workflow and its version are written anyway.
    edits: Vec<Edit>,
}

impl Service {
    /// Makes a step of a type and a name and puts it into a workflow; −1 is the end. Answers the whole workflow.
    pub async fn add_new_step(
        &self,
        workflow: &str,
        word: &str,
        name: &str,
        position: i64,
        revision: Read,
    ) -> Result<At<Workflow>, Error> {
        let change = Change::Add { word: word.to_owned(), name: name.to_owned(), position };
        self.change_steps(workflow, revision, change).await
    }

    /// Puts a step that stands by itself into a workflow.
    pub async fn attach_step(
        &self,
        workflow: &str,
        step: Uuid,
        position: i64,
        revision: Read,
    ) -> Result<At<Workflow>, Error> {
        self.change_steps(workflow, revision, Change::Attach { step, position }).await
    }

    /// Takes a step out of a workflow and deletes it.
    pub async fn remove_step(&self, workflow: &str, step: Uuid, revision: Read) -> Result<At<Workflow>, Error> {
        self.change_steps(workflow, revision, Change::Remove(step)).await
    }

    /// Puts the steps of a workflow in order; the order names each of them once.
    pub async fn reorder_steps(&self, workflow: &str, order: Vec<Uuid>, revision: Read) -> Result<At<Workflow>, Error> {
        self.change_steps(workflow, revision, Change::Order(order)).await
    }

    pub(super) async fn save_attached(
        &self,
        workflow: Uuid,
        step: Uuid,
        fields: StepFields,
        revision: Read,
    ) -> Result<(), Error> {
        let change = Change::Save { step, fields: Box::new(fields), revision };
        self.change_steps(&workflow.to_string(), None, change).await.map(|_| ())
    }

    /// A workflow with its trigger and its steps in order.
    pub async fn workflow_details(&self, workflow: &str) -> Result<Details, Error> {
        for _ in 0..MAX_TRIES {
            let found = self.find_workflow(workflow).await?;
            let Some((steps, revisions)) = self.steps_of(&found.it).await? else { continue };
            let trigger = match found.it.trigger_uuid {
                Some(id) => self.find_kept(&id.to_string()).await?,
                None => None,
            };
            let mut shown = Vec::with_capacity(steps.len());
            for it in steps {
                let revision = revisions.get(&it.uuid).copied().unwrap_or_default();
                shown.push(self.shown_step(At { it, revision }).await?);
            }
            return Ok(Details { workflow: found, trigger, steps: shown });
        }
        Err(too_busy(workflow))
    }

    /// A page of the runs of a workflow, newest first, each with its steps.
    pub async fn instances(
        &self,
        workflow: &str,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<(Vec<Value>, Option<String>), Error> {
        let At { it: workflow, .. } = self.find_workflow(workflow).await?;
        let filter = Filter { workflow_id: Some(workflow.id.to_string()), limit, cursor, ..Filter::default() };
        let page = self.runs(filter).await?;
        let mut instances = Vec::with_capacity(page.rows.len());
        for row in page.rows {
            instances.push(self.view(row.summary.run, Format::Steps).await?);
        }
        Ok((instances, page.cursor))
    }

    async fn change_steps(&self, workflow: &str, revision: Read, change: Change) -> Result<At<Workflow>, Error> {
        for _ in 0..MAX_TRIES {
            let Some(mut editing) = self.open_steps(workflow, &revision).await? else { continue };
            self.apply_change(&mut editing, &change).await?;
            if let Some(changed) = self.keep_steps(editing, &change).await? {
                return Ok(changed);
            }
        }
        Err(too_busy(workflow))
    }

    /// None: somebody is changing it right now.
    async fn open_steps(&self, workflow: &str, revision: &Read) -> Result<Option<Editing>, Error> {
        let At { it: workflow, revision: is } = self.find_workflow(workflow).await?;
        must_be_unchanged("workflow", workflow.id, is, revision)?;
        let Some((steps, revisions)) = self.steps_of(&workflow).await? else { return Ok(None) };
        let mut editing = Editing { workflow, revision: is, steps, revisions, edits: Vec::new() };
        if editing.workflow.steps.is_empty() && editing.workflow.version > 0 {
            self.adopt_text(&mut editing).await?;
        }
        Ok(Some(editing))
    }

    /// The steps of a workflow in order, with their revisions. None: they were read while they changed.
    async fn steps_of(&self, workflow: &Workflow) -> Result<Option<(Vec<StepRecord>, HashMap<Uuid, u64>)>, Error> {
        let found: Vec<At<StepRecord>> = match workflow.steps.is_empty() {
            true => Vec::new(),
            false => self.list_kept(Some(&workflow.id.to_string())).await?,
        };
        let revisions = found.iter().map(|step| (step.it.uuid, step.revision)).collect();
        let mut by_id: HashMap<Uuid, StepRecord> = found.into_iter().map(|step| (step.it.uuid, step.it)).collect();
        let steps: Option<Vec<StepRecord>> = workflow.steps.iter().map(|id| by_id.remove(id)).collect();
        Ok(steps.map(|steps| (steps, revisions)))
    }

    /// Makes step objects of a workflow that came as text.
    async fn adopt_text(&self, editing: &mut Editing) -> Result<(), Error> {
        let workflow = &editing.workflow;
        if workflow.format.as_deref() != Some(Format::Steps.word()) {
            let format = workflow.format.as_deref().unwrap_or_default();
            let text = format!("the workflow `{}` is written in the format `{format}`", workflow.name);
            return Err(Error::Conflict(format!("{text} and has no step objects; change its definition instead")));
        }
        let definition = self.definition_of(workflow).await?.unwrap_or_default();
        self.take_apart(editing, &definition).await
    }

    /// A workflow that comes as text of this format is made of objects from the first moment: what is to be written of
    /// them, and the text that they make. None: it cannot be taken apart, and stays the text that it is.
    pub(crate) async fn objects_of(
        &self,
        workflow: &mut Workflow,
        text: &str,
    ) -> Result<Option<(Vec<Edit>, String)>, Error> {
        let (steps, revisions, edits) = (Vec::new(), HashMap::new(), Vec::new());
        let mut editing = Editing { workflow: workflow.clone(), revision: 0, steps, revisions, edits };
        match self.take_apart(&mut editing, text).await {
            Ok(()) => {}
            Err(Error::Conflict(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let listed: Vec<&StepRecord> = editing.steps.iter().collect();
        let text = text::of_workflow(&editing.workflow, &listed);
        *workflow = editing.workflow;
        workflow.steps = editing.steps.iter().map(|step| step.uuid).collect();
        Ok(Some((editing.edits, text)))
    }

    async fn take_apart(&self, editing: &mut Editing, definition: &str) -> Result<(), Error> {
        let workflow = &editing.workflow;
        let unread = |e: &dyn std::fmt::Display| {
            let text = format!("the definition of `{}` cannot be taken apart into steps", workflow.name);
            Error::Conflict(format!("{text}: {e}; give it as JSON in which each step has a `uuid`"))
        };
        let tree: Value = serde_json::from_str(definition).map_err(|e| unread(&e))?;
        let written = tree["steps"].as_array().map_or(&[][..], Vec::as_slice);
        if written.len() > MAX_STEPS {
            return Err(unread(&format!("it has more than {MAX_STEPS} steps")));
        }
        let now = self.core.clock.now();
        let mut steps = Vec::new();
        for one in written {
            let step = adopted(one, workflow.id, now).map_err(|e| unread(&e))?;
            if self.find_kept::<StepRecord>(&step.uuid.to_string()).await?.is_some() {
                return Err(unread(&format!("the step {} is already kept elsewhere", step.uuid)));
            }
            steps.push(step);
        }
        for step in &steps {
            editing.edits.push(kept::put(self.user(), step, Expect::Absent)?);
        }
        editing.edits.extend(self.adopted_trigger(&mut editing.workflow, &tree["trigger"])?);
        editing.steps = steps;
        Ok(())
    }

    async fn apply_change(&self, editing: &mut Editing, change: &Change) -> Result<(), Error> {
        match change {
            Change::Add { word, name, position } => {
                let mut step = self.new_step(word, name)?;
                step.workflow = Some(editing.workflow.id);
                editing.insert(step.clone(), *position)?;
                editing.edits.push(kept::put(self.user(), &step, Expect::Absent)?);
                editing.edits.extend(self.summary_edit(None, &step).await?);
            }
            Change::Attach { step, position } => self.attach(editing, *step, *position).await?,
            Change::Remove(id) => {
                editing.steps.remove(editing.position(*id)?);
                let expect = editing.expect(*id);
                editing.edits.extend(self.step_removal(*id, expect));
            }
            Change::Order(order) => editing.reorder(order)?,
            Change::Save { step, fields, revision } => {
                let position = editing.position(*step)?;
                let is = editing.revisions.get(step).copied().unwrap_or_default();
                must_be_unchanged("step", *step, is, revision)?;
                let before = editing.steps[position].clone();
                let after = self.saved(&before, fields)?;
                editing.edits.push(kept::put(self.user(), &after, editing.expect(*step))?);
                editing.edits.extend(self.summary_edit(Some(&before), &after).await?);
                editing.steps[position] = after;
            }
        }
        Ok(())
    }

    async fn attach(&self, editing: &mut Editing, id: Uuid, position: i64) -> Result<(), Error> {
        let At { it: mut step, revision } = self.kept::<StepRecord>(&id.to_string()).await?;
        if let Some(other) = step.workflow {
            let text = format!("the step `{}` is in the workflow {other}", step.name);
            return Err(Error::Conflict(format!("{text}; only a step that stands by itself can be attached")));
        }
        step.workflow = Some(editing.workflow.id);
        step.updated_at = self.core.clock.now();
        editing.edits.push(kept::put(self.user(), &step, Expect::Revision(revision))?);
        editing.insert(step, position)
    }

    /// Everything in one transaction. None: somebody else came first.
    async fn keep_steps(&self, editing: Editing, change: &Change) -> Result<Option<At<Workflow>>, Error> {
        let wanted = editing.wanted(change);
        let Editing { mut workflow, revision, steps, edits: of_steps, .. } = editing;
        let listed: Vec<&StepRecord> = steps.iter().collect();
        let text = text::of_workflow(&workflow, &listed);
        let source = Source { name: workflow.name.clone(), text: text.clone() };
        text::check(&source, &listed, &wanted)?;
        workflow.steps = steps.iter().map(|step| step.uuid).collect();
        workflow.updated_at = self.core.clock.now();
        let mut edits = self.version_edits(&mut workflow, text, Some(Format::Steps), change.reason(), true).await?;
        edits.extend(of_steps);
        edits.push(kept::put(self.user(), &workflow, Expect::Revision(revision))?);
        match self.change(edits).await {
            Ok(_) => self.kept(&workflow.id.to_string()).await.map(Some),
            Err(Error::Stale(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What has to be written when a workflow is no longer made of step objects: it is deleted, or given another text.
    pub(crate) fn step_removals(&self, workflow: &Workflow) -> Vec<Edit> {
        workflow.steps.iter().flat_map(|id| self.step_removal(*id, Expect::Any)).collect()
    }
}

impl Change {
    /// Why there is a new version.
    fn reason(&self) -> &'static str {
        match self {
            Change::Add { .. } => "step added",
            Change::Attach { .. } => "step attached",
            Change::Remove(_) => "step deleted",
            Change::Order(_) => "steps reordered",
            Change::Save { .. } => "step saved",
        }
    }
}

impl Editing {
    fn position(&self, id: Uuid) -> Result<usize, Error> {
        let none = || Error::NotFound(format!("the workflow `{}` has no step {id}", self.workflow.name));
        self.steps.iter().position(|step| step.uuid == id).ok_or_else(none)
    }

    /// A step that was just made from the text is not kept yet; its edit is among ours.
    fn expect(&self, id: Uuid) -> Expect {
        self.revisions.get(&id).map_or(Expect::Any, |revision| Expect::Revision(*revision))
    }

    fn insert(&mut self, step: StepRecord, position: i64) -> Result<(), Error> {
        let count = self.steps.len();
        if count >= MAX_STEPS {
            return Err(Error::Invalid(format!("a workflow has at most {MAX_STEPS} steps")));
        }
        let index = match position {
            -1 => Some(count),
            position => usize::try_from(position).ok().filter(|index| *index <= count),
        };
        let wrong =
            || Error::Invalid(format!("there is no position {position}: it is 0 to {count}, or -1 for the end"));
        self.steps.insert(index.ok_or_else(wrong)?, step);
        Ok(())
    }

    fn reorder(&mut self, order: &[Uuid]) -> Result<(), Error> {
        let named: HashSet<&Uuid> = order.iter().collect();
        let known: HashSet<Uuid> = self.steps.iter().map(|step| step.uuid).collect();
        let unknown = order.iter().find(|id| !known.contains(id)).map(|id| format!("{id} is none of them"));
        let missing = self.steps.iter().find(|step| !named.contains(&step.uuid));
        let missing = missing.map(|step| format!("`{}` ({}) is missing", step.name, step.uuid));
        let twice = (named.len() < order.len()).then(|| "one is named twice".to_owned());
        if let Some(wrong) = unknown.or(missing).or(twice) {
            return Err(Error::Invalid(format!("an order names each step of the workflow once: {wrong}")));
        }
        let mut by_id: HashMap<Uuid, StepRecord> = self.steps.drain(..).map(|step| (step.uuid, step)).collect();
        self.steps = order.iter().filter_map(|id| by_id.remove(id)).collect();
        Ok(())
    }

    /// What cannot be done if a reference breaks, for people.
    fn wanted(&self, change: &Change) -> String {
        match change {
            Change::Remove(id) => format!("the step {id} cannot be deleted, for others read its output"),
            Change::Order(_) => "the steps cannot stand in this order".to_owned(),
            Change::Attach { .. } => "the step cannot be attached here".to_owned(),
            Change::Add { .. } | Change::Save { .. } => String::new(),
        }
    }
}

/// A step as an exported workflow has it.
fn adopted(one: &Value, workflow: Uuid, now: i64) -> Result<StepRecord, serde_json::Error> {
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    Ok(StepRecord {
        uuid: serde_json::from_value(one["uuid"].clone())?,
        name: text("name"),
        description: text("description"),
        kind: serde_json::from_value(serde_json::json!({ "type": one["type"], "details": one }))?,
        workflow: Some(workflow),
        created_at: now,
        updated_at: now,
    })
}

fn too_busy(workflow: &str) -> Error {
    Error::Busy(format!("the workflow {workflow} is being changed by others all the time; try again"))
}
