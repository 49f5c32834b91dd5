//! What a definition may reach that came in over the network: the user's kept workflows and agents, and nothing else.
//! No file, no variable of the environment.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use relais_dialects::{About, Format, Loader};
use relais_plan::{Plan, Source};
use serde_json::Value;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::workflows::Version;
use crate::{At, Error, Service};

/// Reads on a thread of its own, where it may wait for the store.
pub(crate) struct Library {
    service: Service,
    runtime: Handle,
    /// The one that is read: not kept yet, or not as it is kept.
    own: (Source, About),
    seen: RefCell<HashMap<String, About>>,
    /// The kept agents that were found to be used.
    agents: RefCell<BTreeSet<Uuid>>,
}

const NO_FILES: &str = "a definition on the server reads no files; name a workflow that is kept here by its id, alias \
                        or name";
const NO_INCLUDES: &str = "a definition on the server reads no files; put the text itself here";
const NO_VARIABLES: &str = "a definition on the server reads no environment";

impl Library {
    /// The source is named by the workflow's id, so that every way to name a workflow finds the same one.
    pub fn new(service: Service, id: Uuid, title: Option<String>, text: String, format: Option<Format>) -> Library {
        let own = (Source { name: id.to_string(), text }, About { title, format });
        Library { service, runtime: Handle::current(), own, seen: RefCell::default(), agents: RefCell::default() }
    }

    pub fn source(&self) -> Source {
        self.own.0.clone()
    }

    pub fn used_agents(self) -> Vec<Uuid> {
        self.agents.into_inner().into_iter().collect()
    }

    async fn source_of(&self, reference: &str) -> Result<Source, Error> {
        let At { it: workflow, .. } = self.service.find_workflow(reference).await?;
        if workflow.id.to_string() == self.own.0.name {
            return Ok(self.own.0.clone());
        }
        let Version { definition, format, .. } = self.service.version_of(&workflow, None).await?;
        let about = About { title: Some(workflow.name), format: Format::named(&format) };
        let name = workflow.id.to_string();
        self.seen.borrow_mut().insert(name.clone(), about);
        Ok(Source { name, text: definition })
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
        let At { it: agent, .. } = self.runtime.block_on(self.service.find_agent(name)).ok()?;
        self.agents.borrow_mut().insert(agent.id);
        Some(agent.definition)
    }

    fn about(&self, source: &Source) -> About {
        let (own, about) = &self.own;
        if own.name == source.name {
            return about.clone();
        }
        self.seen.borrow().get(&source.name).cloned().unwrap_or_default()
    }
}

/// What a plan would take from the environment of this machine when it runs.
pub(crate) fn named_variable(plan: &Plan) -> Option<String> {
    let texts = plan.servers.iter().flat_map(|(name, server)| {
        let texts = server.env.values().chain(server.headers.values()).chain(&server.url);
        texts.map(move |text| (name, text))
    });
    let (server, text) = { texts }.find(|(_, text)| text.contains("${"))?;
    Some(format!("the MCP server `{server}` names a variable, `{text}`: {NO_VARIABLES}"))
}
