//! What a definition may reach that came in over the network: the user's kept workflows and agents, and nothing else.
//! No file, no variable of the environment but those that are meant for the secrets of webhooks.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use relais_dialects::{About, Format, Loader};
use relais_plan::{Plan, Source};
use relais_runtime::models::script;
use serde_json::Value;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::definitions::workflows::{Version, Workflow};
use crate::definitions::{Definition, Definitions};
use crate::triggers::hooks::refused_secret;
use crate::{Agent, At, Error, Service};

/// What is about to be kept in the same change: it stands in front of what is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pending {
    pub agents: Vec<Agent>,
    pub workflows: Vec<(Workflow, Version)>,
}

impl Pending {
    fn agent(&self, text: &str) -> Option<&Agent> {
        let id = text.parse::<Uuid>().ok();
        self.agents.iter().find(|agent| if let Some(id) = id { agent.id == id } else { agent.name == text })
    }

    fn workflow(&self, text: &str) -> Option<&(Workflow, Version)> {
        let id = text.parse::<Uuid>().ok();
        let is_meant = |workflow: &Workflow| match id {
            Some(id) => workflow.id == id,
            None => workflow.alias.as_deref() == Some(text) || workflow.name == text,
        };
        self.workflows.iter().find(|(workflow, _)| is_meant(workflow))
    }
}

/// What a text was found to use, by what it calls each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    pub agents: BTreeMap<String, Uuid>,
    pub workflows: BTreeMap<String, Uuid>,
}

/// Reads on a thread of its own, where it may wait for the store.
pub(crate) struct Library {
    service: Service,
    runtime: Handle,
    /// The one that is read: not kept yet, or not as it is kept.
    own: (Source, About),
    seen: RefCell<HashMap<String, About>>,
    pending: Pending,
    used: RefCell<Used>,
}

/// As many as a message can name, and as many again to find a near one.
const AGENTS_NAMED: usize = 100;
const NO_FILES: &str = "a definition on the server reads no files; name a workflow that is kept here by its id, alias \
                        or name";
const NO_INCLUDES: &str = "a definition on the server reads no files; put the text itself here";
const NO_VARIABLES: &str = "a definition on the server reads no environment";

impl Library {
    /// The source is named by the workflow's id, so that every way to name a workflow finds the same one.
    pub fn new(service: Service, id: Uuid, title: Option<String>, text: String, format: Option<Format>) -> Library {
        let own = (Source { name: id.to_string(), text }, About { title, format });
        let (pending, runtime) = (Pending::default(), Handle::current());
        Library { service, runtime, own, seen: RefCell::default(), pending, used: RefCell::default() }
    }

    pub fn with(self, pending: Pending) -> Library {
        Library { pending, ..self }
    }

    pub fn source(&self) -> Source {
        self.own.0.clone()
    }

    pub fn used(self) -> Used {
        self.used.into_inner()
    }

    async fn source_of(&self, reference: &str) -> Result<Source, Error> {
        let (workflow, version) = match self.pending.workflow(reference) {
            Some((workflow, version)) => (workflow.clone(), Some(version.clone())),
            None => (self.service.find_workflow(reference).await?.it, None),
        };
        if workflow.id.to_string() == self.own.0.name {
            return Ok(self.own.0.clone());
        }
        let Version { definition, format, .. } = match version {
            Some(version) => version,
            None => self.service.version_of(&workflow, None).await?,
        };
        self.used.borrow_mut().workflows.insert(reference.to_owned(), workflow.id);
        let about = About { title: Some(workflow.name), format: Format::named(&format) };
        let name = workflow.id.to_string();
        self.seen.borrow_mut().insert(name.clone(), about);
        Ok(Source { name, text: definition })
    }
}

impl Library {
    /// One that is about to be called something else is no longer there under its old name.
    fn kept_agent(&self, name: &str) -> Option<Agent> {
        let At { it: agent, .. } = self.runtime.block_on(self.service.find_agent(name)).ok()?;
        let is_pending = self.pending.agents.iter().any(|pending| pending.id == agent.id);
        (!is_pending).then_some(agent)
    }
}

impl Loader for Library {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        // A part of the same text is named by the source's own name, as a file beside it would be.
        let beside = reference.strip_prefix("./").filter(|rest| rest.parse::<Uuid>().is_ok());
        let named = beside.unwrap_or(reference);
        if named == self.own.0.name {
            return Ok(self.own.0.clone());
        }
        if ["./", "../", "/", "~"].iter().any(|start| named.starts_with(start)) {
            return Err(NO_FILES.into());
        }
        self.runtime.block_on(self.source_of(named)).map_err(|error| match error {
            Error::NotFound(text) if named.contains('.') => format!("{text}; {NO_FILES}"),
            other => other.to_string(),
        })
    }

    fn include(&self, _reference: &str, _from: &str) -> Result<Source, String> {
        Err(NO_INCLUDES.into())
    }

    fn variable(&self, _name: &str) -> Result<Option<String>, String> {
        Err(NO_VARIABLES.into())
    }

    fn agent(&self, name: &str) -> Option<Value> {
        let agent = match self.pending.agent(name) {
            Some(agent) => agent.clone(),
            None => self.kept_agent(name)?,
        };
        self.used.borrow_mut().agents.insert(name.to_owned(), agent.id);
        Some(agent.definition)
    }

    fn agents(&self) -> Vec<String> {
        let kept = self.runtime.block_on(self.service.agents(None, AGENTS_NAMED)).map(|(page, _)| page);
        let pending = self.pending.agents.iter().map(|agent| agent.name.clone());
        let mut names: Vec<String> = kept.unwrap_or_default().into_iter().map(|at| at.it.name).chain(pending).collect();
        names.sort();
        names.dedup();
        names
    }

    fn models(&self, name: &str) -> Vec<String> {
        self.service.config().models_named(name)
    }

    fn is_network(&self) -> bool {
        true
    }

    fn about(&self, source: &Source) -> About {
        let (own, about) = &self.own;
        if own.name == source.name {
            return about.clone();
        }
        self.seen.borrow().get(&source.name).cloned().unwrap_or_default()
    }
}

impl Definitions {
    /// What a definition of the network names and must not reach on this machine. The workflows that it calls are
    /// looked at too: a part of the same text is one of them, and so is a kept text that cannot run by itself.
    pub(crate) fn refused(&self, definition: &Definition) -> Option<String> {
        definition.plan.iter().chain(&definition.children).find_map(|plan| self.refused_plan(plan))
    }

    fn refused_plan(&self, plan: &Plan) -> Option<String> {
        let command = if self.config.settings.server.allow_commands { None } else { named_command(plan) };
        let secret = || plan.triggers.iter().find_map(|trigger| refused_secret(&trigger.on));
        command.or_else(|| named_variable(plan)).or_else(|| named_file(plan)).or_else(secret)
    }
}

/// A script that a plan would read outside its folder. A run would not read it either; here it is told in time.
fn named_file(plan: &Plan) -> Option<String> {
    let models = plan.agents.iter().flat_map(|(name, agent)| agent.models.iter().map(move |model| (name, model)));
    let outside = |(agent, model): (&String, &String)| {
        let why = script::outside(model)?;
        Some(format!("the agent `{agent}` has the model `{model}`: {why}"))
    };
    { models }.find_map(outside)
}

/// What a plan would take from the environment of this machine when it runs.
fn named_variable(plan: &Plan) -> Option<String> {
    let texts = plan.servers.iter().flat_map(|(name, server)| {
        let texts = server.env.values().chain(server.headers.values()).chain(&server.url);
        texts.map(move |text| (name, text))
    });
    let (server, text) = { texts }.find(|(_, text)| text.contains("${"))?;
    Some(format!("the MCP server `{server}` names a variable, `{text}`: {NO_VARIABLES}"))
}

const NO_COMMANDS: &str = "a definition that comes over the network starts no program: name the server under `[mcp]` in \
                           relais.toml, or set `allow_commands = true` under `[server]` there";

/// A program that a plan would start on this machine.
fn named_command(plan: &Plan) -> Option<String> {
    let (name, _) = plan.servers.iter().find(|(_, server)| server.command.is_some())?;
    Some(format!("the MCP server `{name}` has a `command`: {NO_COMMANDS}"))
}
