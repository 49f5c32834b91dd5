//! Steps as objects of their own: a workflow that is edited step by step, and steps that belong to none yet.
//!
//! Knows what a step is and how one is read and kept. `structure.rs` changes the workflows that steps are in, `text.rs`
//! writes such a workflow down and finds what is wrong with it, `alone.rs` runs one step by itself, `summary.rs` says
//! what a step does.

mod alone;
mod structure;
mod summary;
mod text;

use relais_engine::Millis;
use relais_plan::problem::nearest;
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::definitions::MCP_PREFIX;
use crate::definitions::workflows::{must_be_short, must_be_unchanged};
use crate::kept::{self, At, Kept, Order, Read};
use crate::{Error, Service};

pub use structure::Details;

/// A step as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    pub uuid: Uuid,
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(flatten)]
    pub kind: StepKind,
    /// The workflow that it is in; none: it stands by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Uuid>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// The type of a step, which never changes, and what steps of that type have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "details", rename_all = "snake_case")]
pub enum StepKind {
    CustomLlm {
        #[serde(default)]
        model: String,
        #[serde(default)]
        system_prompt: String,
    },
    CustomAgent {
        #[serde(default)]
        model: String,
        #[serde(default)]
        system_prompt: String,
        /// By id of the tool: `{ "enabled": true }`.
        #[serde(default)]
        tools: Map<String, Value>,
    },
    StopChecker {
        #[serde(default)]
        stop_conditions: Vec<Value>,
    },
}

/// A type that a step can have, for those who choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepType {
    pub word: &'static str,
    pub name: &'static str,
    pub description: &'static str,
}

pub const STEP_TYPES: &[StepType] = &[
    StepType { word: "custom_llm", name: "LLM", description: "Asks a model, without tools." },
    StepType { word: "custom_agent", name: "Agent", description: "Asks a model that may use tools until it is done." },
    StepType {
        word: "stop_checker",
        name: "Stop checker",
        description: "Ends the workflow if one of its conditions on earlier outputs holds.",
    },
];

/// Things on a page: one more is read, to see whether there are more, and the store gives a thousand at most.
pub(crate) const MAX_PAGE: usize = 500;

/// What somebody says of a step; what does not belong to its type is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepFields {
    pub name: Option<String>,
    /// Its type, where that is told again; it never changes.
    pub kind: Option<String>,
    pub description: Option<String>,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Map<String, Value>>,
    pub stop_conditions: Option<Vec<Value>>,
}

/// A step as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub record: StepRecord,
    pub revision: u64,
    /// What it does, in a sentence, as a model said it.
    pub generated_summary: Option<String>,
}

impl Kept for StepRecord {
    const KIND: &'static str = "step";
    const WORD: &'static str = "step";

    fn id(&self) -> String {
        self.uuid.to_string()
    }

    fn label(&self) -> String {
        self.workflow.map(|id| id.to_string()).unwrap_or_default()
    }
}

impl StepKind {
    /// A step of which nothing is known but its type.
    fn new(word: &str, default_model: &str) -> Result<StepKind, Error> {
        let (model, system_prompt) = (default_model.to_owned(), String::new());
        match word {
            "custom_llm" => Ok(StepKind::CustomLlm { model, system_prompt }),
            "custom_agent" => Ok(StepKind::CustomAgent { model, system_prompt, tools: Map::new() }),
            "stop_checker" => Ok(StepKind::StopChecker { stop_conditions: Vec::new() }),
            other => Err(no_type(other)),
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            StepKind::CustomLlm { .. } => "custom_llm",
            StepKind::CustomAgent { .. } => "custom_agent",
            StepKind::StopChecker { .. } => "stop_checker",
        }
    }

    fn fill(&mut self, fields: &StepFields) -> Result<(), Error> {
        let word = self.word();
        if let Some(other) = fields.kind.as_deref().filter(|other| *other != word) {
            return Err(Error::Invalid(format!("a step stays of its type: it is a {word} step, not `{other}`")));
        }
        let refuse = |given: bool, field: &str| if given { Err(not_of_type(field, word)) } else { Ok(()) };
        match self {
            StepKind::CustomLlm { model, system_prompt } => {
                refuse(fields.tools.is_some(), "tools")?;
                refuse(fields.stop_conditions.is_some(), "stop_conditions")?;
                take(model, &fields.model);
                take(system_prompt, &fields.system_prompt);
            }
            StepKind::CustomAgent { model, system_prompt, tools } => {
                refuse(fields.stop_conditions.is_some(), "stop_conditions")?;
                take(model, &fields.model);
                take(system_prompt, &fields.system_prompt);
                take(tools, &fields.tools);
            }
            StepKind::StopChecker { stop_conditions } => {
                refuse(fields.model.is_some(), "model")?;
                refuse(fields.system_prompt.is_some(), "system_prompt")?;
                refuse(fields.tools.is_some(), "tools")?;
                take(stop_conditions, &fields.stop_conditions);
            }
        }
        Ok(())
    }

    /// A step that is saved is given whole: what it must have and lacks was forgotten.
    fn must_be_whole(&self, fields: &StepFields) -> Result<(), Error> {
        let lacks = match self {
            StepKind::CustomLlm { .. } | StepKind::CustomAgent { .. } => {
                [("model", fields.model.is_none()), ("system_prompt", fields.system_prompt.is_none())]
            }
            StepKind::StopChecker { .. } => [("stop_conditions", fields.stop_conditions.is_none()), ("", false)],
        };
        match lacks.iter().find(|(_, lacks)| *lacks) {
            Some((field, _)) => Err(Error::Invalid(format!("a {} step needs `{field}`", self.word()))),
            None => Ok(()),
        }
    }
}

fn take<T: Clone>(field: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        *field = given.clone();
    }
}

fn no_type(word: &str) -> Error {
    let words: Vec<&str> = STEP_TYPES.iter().map(|kind| kind.word).collect();
    let near = nearest(word, words.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Error::Invalid(format!("there is no type of step `{word}`{near}; there are: {}", words.join(", ")))
}

fn not_of_type(field: &str, word: &str) -> Error {
    Error::Invalid(format!("a {word} step has no `{field}`"))
}

fn must_be_named(name: &str) -> Result<(), Error> {
    must_be_short("name", name)?;
    match name.trim().is_empty() {
        true => Err(Error::Invalid("a step needs a name; names are unique in a workflow".into())),
        false => Ok(()),
    }
}

impl Service {
    /// A step that is in no workflow yet.
    pub async fn create_step(&self, word: &str, fields: StepFields) -> Result<Step, Error> {
        let mut step = self.new_step(word, fields.name.as_deref().unwrap_or_default())?;
        self.fill_step(&mut step, &fields)?;
        text::check_alone(&step)?;
        let mut edits = vec![kept::put(self.user(), &step, Expect::Absent)?];
        edits.extend(self.summary_edit(None, &step).await?);
        self.change(edits).await?;
        self.step(step.uuid).await
    }

    fn new_step(&self, word: &str, name: &str) -> Result<StepRecord, Error> {
        must_be_named(name)?;
        let default_model = self.config().settings.default_model.as_deref().unwrap_or_default();
        let (kind, now) = (StepKind::new(word, default_model)?, self.core.clock.now());
        let (uuid, name, description) = (Uuid::now_v7(), name.to_owned(), String::new());
        Ok(StepRecord { uuid, name, description, kind, workflow: None, created_at: now, updated_at: now })
    }

    fn fill_step(&self, step: &mut StepRecord, fields: &StepFields) -> Result<(), Error> {
        take(&mut step.name, &fields.name);
        take(&mut step.description, &fields.description);
        must_be_named(&step.name)?;
        step.kind.fill(fields)?;
        self.must_know_tools(&step.kind)
    }

    /// Tools of MCP servers are asked for when the step runs; those of this process are known.
    fn must_know_tools(&self, kind: &StepKind) -> Result<(), Error> {
        let StepKind::CustomAgent { tools, .. } = kind else { return Ok(()) };
        let own: Vec<String> = self.core.definitions.tools.own_specs().into_iter().map(|tool| tool.name).collect();
        let is_unknown = |tool: &&String| !tool.starts_with(MCP_PREFIX) && !own.contains(tool);
        let Some(unknown) = tools.keys().find(is_unknown) else { return Ok(()) };
        let help = match nearest(unknown, own.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("tools are: {}, and those of MCP servers as mcp:SERVER/TOOL", own.join(", ")),
        };
        Err(Error::Invalid(format!("there is no tool `{unknown}`; {help}")))
    }

    pub async fn step(&self, id: Uuid) -> Result<Step, Error> {
        let found: At<StepRecord> = self.kept(&id.to_string()).await?;
        self.shown_step(found).await
    }

    async fn shown_step(&self, At { it, revision }: At<StepRecord>) -> Result<Step, Error> {
        let generated_summary = self.summary_of(&it).await?;
        Ok(Step { record: it, revision, generated_summary })
    }

    /// A page of steps by id: all, or those that stand by themselves.
    pub async fn steps(
        &self,
        standalone: bool,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Step>, Option<String>), Error> {
        let order = if standalone { Order::OfLabel("") } else { Order::ById };
        let (found, next) = self.paged::<StepRecord>(order, after, limit.min(MAX_PAGE)).await?;
        let mut steps = Vec::with_capacity(found.len());
        for one in found {
            steps.push(self.shown_step(one).await?);
        }
        Ok((steps, next))
    }

    /// Replaces what a step says; in a workflow, that is a new version of it. `revision`: what the caller has read, if
    /// it minds.
    pub async fn save_step(&self, id: Uuid, fields: StepFields, revision: Read) -> Result<Step, Error> {
        let found: At<StepRecord> = self.kept(&id.to_string()).await?;
        found.it.kind.must_be_whole(&fields)?;
        match found.it.workflow {
            Some(workflow) => self.save_attached(workflow, id, fields, revision).await?,
            None => self.save_standalone(found, fields, revision).await?,
        }
        self.step(id).await
    }

    async fn save_standalone(
        &self,
        At { it: before, revision: is }: At<StepRecord>,
        fields: StepFields,
        revision: Read,
    ) -> Result<(), Error> {
        must_be_unchanged("step", before.uuid, is, &revision)?;
        let step = self.saved(&before, &fields)?;
        text::check_alone(&step)?;
        let mut edits = vec![kept::put(self.user(), &step, Expect::Revision(is))?];
        edits.extend(self.summary_edit(Some(&before), &step).await?);
        self.change(edits).await.map(|_| ())
    }

    /// What is not given has the value that a new step has.
    fn saved(&self, before: &StepRecord, fields: &StepFields) -> Result<StepRecord, Error> {
        let kind = StepKind::new(before.kind.word(), "")?;
        let mut step = StepRecord { description: String::new(), kind, ..before.clone() };
        self.fill_step(&mut step, fields)?;
        step.updated_at = self.core.clock.now();
        Ok(step)
    }

    /// Deletes a step; one that is in a workflow goes out of it first.
    pub async fn delete_step(&self, id: Uuid, revision: Read) -> Result<(), Error> {
        let At { it: step, revision: is } = self.kept::<StepRecord>(&id.to_string()).await?;
        must_be_unchanged("step", id, is, &revision)?;
        match step.workflow {
            Some(workflow) => self.remove_step(&workflow.to_string(), id, None).await.map(|_| ()),
            None => self.change(self.step_removal(id, Expect::Revision(is))).await.map(|_| ()),
        }
    }

    fn step_removal(&self, id: Uuid, expect: Expect) -> Vec<Edit> {
        let summary = kept::remove::<summary::Summary>(self.user(), &id.to_string(), Expect::Any);
        vec![kept::remove::<StepRecord>(self.user(), &id.to_string(), expect), summary]
    }
}
