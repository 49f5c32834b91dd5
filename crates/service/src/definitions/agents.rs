//! Agents kept on the server, used by workflows by name or id. A change of one is a new version of each workflow that
//! uses it, in the same change.

use relais_engine::Millis;
use relais_plan::{Source, problem};
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::definitions::library::Pending;
use crate::definitions::workflows::{Once, must_be_described, must_be_short};
use crate::kept::{self, At, Kept, Order, Read};
use crate::{Error, Finding, Format, Service, Workflow};

/// An agent as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: Uuid,
    /// Unique for the user.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// What an agent of the native format may say: model, instructions, tools, input, output, limits.
    pub definition: Value,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl Kept for Agent {
    const KIND: &'static str = "agent";
    const WORD: &'static str = "agent";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.name.clone()
    }
}

/// The name of an agent; its record's id is the name, so that each is there once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AgentName {
    name: String,
    agent: Uuid,
}

impl Kept for AgentName {
    const KIND: &'static str = "agent_name";
    const WORD: &'static str = "name of an agent";

    fn id(&self) -> String {
        self.name.clone()
    }

    fn label(&self) -> String {
        self.agent.to_string()
    }
}

/// An agent to be made.
#[derive(Debug, Clone, Default)]
pub struct NewAgent {
    pub name: String,
    pub description: String,
    pub definition: Value,
    pub once: Option<Once>,
}

/// What is to be changed of an agent; what is not named stays.
#[derive(Debug, Clone, Default)]
pub struct AgentChange {
    pub name: Option<String>,
    pub description: Option<String>,
    pub definition: Option<Value>,
}

/// Workflows that one change of an agent makes versions of: each is compiled while the caller waits.
const MAX_USING: usize = 100;
/// Workflows that a refusal names.
const MAX_NAMED: usize = 10;
/// The instructions of an agent are the largest part of it.
const MAX_AGENT_BYTES: usize = 1024 * 1024;

impl Service {
    /// An agent by its id or its name.
    pub async fn find_agent(&self, text: &str) -> Result<At<Agent>, Error> {
        let found = match text.parse::<Uuid>() {
            Ok(id) => self.find_kept(&id.to_string()).await?,
            Err(_) => self.page_kept(Some(text), None, 1).await?.pop(),
        };
        found.ok_or_else(|| Error::NotFound(format!("there is no agent `{text}`")))
    }

    /// A page of agents, newest first, and where the next begins.
    pub async fn agents(&self, after: Option<String>, limit: usize) -> Result<(Vec<At<Agent>>, Option<String>), Error> {
        self.paged(Order::NewestFirst, after, limit).await
    }

    pub async fn create_agent(&self, new: NewAgent) -> Result<At<Agent>, Error> {
        let NewAgent { name, description, definition, once } = new;
        if let Some(made) = self.made_before(&once).await? {
            return Ok(made);
        }
        let (id, now) = (once.as_ref().map_or_else(Uuid::now_v7, Once::made), self.core.clock.now());
        let agent = Agent { id, name, description, definition, created_at: now, updated_at: now };
        must_be_an_agent(&agent)?;
        self.check_agent(&agent).await?;
        let mut edits = self.name_edits(&agent, None).await?;
        edits.push(kept::put(self.user(), &agent, Expect::Absent)?);
        edits.extend(self.once_edits(&once).await?);
        match (self.change(edits).await, self.made_before(&once).await?) {
            (Ok(_), _) => self.kept(&agent.id()).await,
            // Another request with the same key came first.
            (Err(Error::Stale(_)), Some(made)) => Ok(made),
            (Err(error), _) => Err(error),
        }
    }

    /// Changes an agent, and with it every workflow that uses it. `revision`: what the caller has read, if it minds.
    pub async fn update_agent(&self, text: &str, change: AgentChange, revision: Read) -> Result<At<Agent>, Error> {
        self.amend(&revision, || self.find_agent(text), |at| self.change_agent(at, change.clone())).await
    }

    async fn change_agent(&self, at: At<Agent>, change: AgentChange) -> Result<At<Agent>, Error> {
        let At { it: before, revision: read_at } = at;
        let agent = changed(&before, change);
        if agent == before {
            return Ok(At { it: before, revision: read_at });
        }
        must_be_an_agent(&agent)?;
        if agent.definition != before.definition {
            self.check_agent(&agent).await?;
        }
        let agent = Agent { updated_at: self.core.clock.now(), ..agent };
        let mut edits = self.name_edits(&agent, Some(&before.name)).await?;
        edits.push(kept::put(self.user(), &agent, Expect::Revision(read_at))?);
        if (&agent.definition, &agent.name) != (&before.definition, &before.name) {
            edits.extend(self.user_edits(&agent).await?);
        }
        self.change(edits).await?;
        self.kept(&agent.id()).await
    }

    pub async fn delete_agent(&self, text: &str, revision: Read) -> Result<(), Error> {
        self.amend(&revision, || self.find_agent(text), |at| self.remove_agent(at)).await
    }

    async fn remove_agent(&self, at: At<Agent>) -> Result<(), Error> {
        let At { it: agent, revision: read_at } = at;
        let using = self.using(agent.id).await?;
        if !using.is_empty() {
            let names: Vec<String> = using.iter().take(MAX_NAMED).map(|at| format!("`{}`", at.it.name)).collect();
            let more = using.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = format!("the agent `{}` is used by {}{more}", agent.name, names.join(", "));
            return Err(Error::Conflict(format!("{text}; change or delete those workflows first")));
        }
        let edits = vec![
            kept::remove::<Agent>(self.user(), &agent.id(), Expect::Revision(read_at)),
            kept::remove::<AgentName>(self.user(), &agent.name, Expect::Any),
        ];
        self.change(edits).await.map(drop)
    }

    /// The workflows whose newest version uses an agent.
    async fn using(&self, agent: Uuid) -> Result<Vec<At<Workflow>>, Error> {
        let all: Vec<At<Workflow>> = self.list_kept(None).await?;
        Ok(all.into_iter().filter(|at| at.it.agents.contains(&agent)).collect())
    }

    /// The records of an agent's name, where it is another than before.
    pub(crate) async fn name_edits(&self, agent: &Agent, before: Option<&str>) -> Result<Vec<Edit>, Error> {
        if before == Some(agent.name.as_str()) {
            return Ok(Vec::new());
        }
        if self.find_kept::<AgentName>(&agent.name).await?.is_some() {
            let text = format!("there is an agent `{}` already", agent.name);
            return Err(Error::Conflict(format!("{text}; an agent's name is its own")));
        }
        let mut edits: Vec<Edit> = Vec::new();
        edits.extend(before.map(|before| kept::remove::<AgentName>(self.user(), before, Expect::Any)));
        let name = AgentName { name: agent.name.clone(), agent: agent.id };
        edits.push(kept::put(self.user(), &name, Expect::Absent)?);
        Ok(edits)
    }

    /// New versions of the workflows that use an agent. One that could run must still be able to.
    async fn user_edits(&self, agent: &Agent) -> Result<Vec<Edit>, Error> {
        let using = self.using(agent.id).await?;
        if using.len() > MAX_USING {
            let text = format!("the agent `{}` is used by {} workflows", agent.name, using.len());
            return Err(Error::Invalid(format!("{text}, and one change makes new versions of at most {MAX_USING}")));
        }
        let mut edits = Vec::new();
        for at in using {
            edits.extend(self.using_edits(agent, at).await?);
        }
        Ok(edits)
    }

    async fn using_edits(&self, agent: &Agent, at: At<Workflow>) -> Result<Vec<Edit>, Error> {
        let At { it: mut workflow, revision } = at;
        let version = self.version_of(&workflow, None).await?;
        let (title, format) = (Some(workflow.name.clone()), Format::named(&version.format));
        let pending = Pending { agents: vec![agent.clone()], ..Pending::default() };
        let lenient = !version.can_run();
        let compiled = self.compile_with(workflow.id, title, version.definition, format, pending).await?;
        let reason = format!("agent {} changed", agent.name);
        let made = self.compiled_edits(&mut workflow, compiled, &reason, lenient).await;
        let mut edits = made.map_err(|error| {
            let text = format!("with this change the workflow `{}` could not run", workflow.name);
            Error::Conflict(format!("{text}: {error}"))
        })?;
        if !edits.is_empty() {
            edits.push(kept::put(self.user(), &workflow, Expect::Revision(revision))?);
        }
        Ok(edits)
    }
}

fn changed(before: &Agent, change: AgentChange) -> Agent {
    Agent {
        name: change.name.unwrap_or_else(|| before.name.clone()),
        description: change.description.unwrap_or_else(|| before.description.clone()),
        definition: change.definition.unwrap_or_else(|| before.definition.clone()),
        ..before.clone()
    }
}

/// Everything that is wrong with an agent, each with its place in the definition.
pub(crate) fn must_be_an_agent(agent: &Agent) -> Result<(), Error> {
    must_be_short("name", &agent.name)?;
    must_be_described(&agent.description)?;
    if agent.name.trim().is_empty() || agent.name.parse::<Uuid>().is_ok() {
        let text = format!("`{}` is no name of an agent", agent.name);
        return Err(Error::Invalid(format!("{text}: it needs a letter, and is not written as an id")));
    }
    let source = Source { name: agent.name.clone(), text: format!("{:#}", agent.definition) };
    if source.text.len() > MAX_AGENT_BYTES {
        return Err(Error::Invalid(format!("an agent has at most {MAX_AGENT_BYTES} bytes")));
    }
    let problems = relais_dialects::check_agent(&source);
    if problem::has_errors(&problems) {
        return Err(Error::Findings(Finding::all(&source, &problems)));
    }
    Ok(())
}
