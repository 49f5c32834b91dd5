//! What an assistant can do over MCP: the tools and resources, over HTTP at `/mcp` and over pipes (`relais mcp`).
//!
//! Each tool reads its arguments, calls the service, and answers so that a model can go on: with ids, with what can be
//! done next, and with errors that say how to repair the call. How MCP itself is spoken is the business of
//! [`relais_mcp::serving`].

mod agents;
mod arguments;
mod attend;
mod bulk;
mod catalog;
mod definition;
mod deletion;
mod published;
mod questions;
mod render;
mod resources;
mod runs;
mod schedules;
mod signals;
mod tools;
mod trouble;
mod workflows;

pub use attend::MAX_WAIT_S;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use relais_mcp::serving::{
    Caller, Cancelled, Change, Contents, Given, Hosts, Http, HttpOptions, Offered, Offers, Page, Progress, Reply,
    Resource, ResourceTemplate, Trouble, http,
};
use relais_service::Service;
use relais_service::access::Access;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tower::ServiceExt;

use crate::App;
use crate::body;
use crate::caller::Known;
use crate::problem::Problem;
use attend::Attended;
use tools::Tool;

/// Changes that a client has not been told yet; one that lags behind is told of all at once.
const CHANGES_MAX: usize = 64;

const INSTRUCTIONS: &str = "\
Relais runs agent workflows that survive crashes. A workflow is a definition, a run is one execution of it.
- To build: create_workflow with `definition` says everything (branches, loops, questions to people, budgets, triggers); \
the description of validate_workflow has that format in short, the resource relais://format in full, and \
validate_workflow checks one first. Simpler: `executors` (a chain of agents), or create_agent for each agent and then \
`nodes` and `edges` (a graph).
- To run: run_workflow or execute_workflow; both wait a while and answer the run's id. get_run shows how it stands, \
list_runs the newest ones. A run that waits for a person is answered with answer_run.
- To repair: list_failed_runs, then get_run for the error and the trail; get_workflow and get_agent for what is set; \
update_workflow or update_agent; then resume_run, which keeps what is finished, or a new run.
- To start by itself: schedule_workflow; cancel_workflow takes the schedule away.
Ids in answers are accepted wherever a tool takes an id; workflows and agents are found by their names, too.";

/// Who calls, as the tools see them.
pub(crate) struct Guest {
    pub service: Service,
    pub access: Access,
    changes: broadcast::Sender<Change>,
}

impl Guest {
    /// The list of tools is another from now on.
    fn tools_changed(&self) {
        // Nobody may listen.
        let _ = self.changes.send(Change::Tools);
    }
}

/// The tools and resources of whoever calls.
pub(crate) struct Desk {
    changes: broadcast::Sender<Change>,
}

impl Desk {
    pub fn new() -> Desk {
        Desk { changes: broadcast::Sender::new(CHANGES_MAX) }
    }

    fn caller(&self, service: Service, access: Access) -> Caller {
        let name = access.user.clone();
        Caller::new(&name, Guest { service, access, changes: self.changes.clone() })
    }
}

fn guest(caller: &Caller) -> Result<&Guest, Trouble> {
    caller.what::<Guest>().ok_or_else(|| Trouble::Internal("It is not known who calls.".into()))
}

impl Offers for Desk {
    fn instructions(&self) -> String {
        INSTRUCTIONS.to_owned()
    }

    /// All on one page: the number of published workflows that are offered is bounded.
    fn tools<'a>(&'a self, caller: &'a Caller, _cursor: Option<String>) -> Reply<'a, Page<Offered>> {
        Box::pin(async move {
            let guest = guest(caller)?;
            let mut items: Vec<Offered> = Tool::ALL.iter().map(|tool| tool.spec().offered()).collect();
            items.extend(published::offered(guest).await?);
            Ok(Page::whole(items))
        })
    }

    fn tool<'a>(&'a self, caller: &'a Caller, name: &'a str) -> Reply<'a, Option<Offered>> {
        Box::pin(async move {
            match Tool::named(name) {
                Some(tool) => Ok(Some(tool.spec().offered())),
                None => Ok(published::offered(guest(caller)?).await?.into_iter().find(|tool| tool.name == name)),
            }
        })
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        tool: String,
        arguments: Map<String, Value>,
        progress: Progress,
        cancelled: Cancelled,
    ) -> Reply<'a, Given> {
        Box::pin(async move {
            let (guest, attended) = (guest(caller)?, Attended { progress, cancelled });
            match Tool::named(&tool) {
                Some(tool) => tool.call(guest, arguments, &attended).await,
                None => published::call(guest, &tool, arguments, &attended).await,
            }
        })
    }

    fn resources<'a>(&'a self, caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Resource>> {
        Box::pin(async move { resources::list(guest(caller)?, cursor).await })
    }

    fn resource_templates<'a>(
        &'a self,
        _caller: &'a Caller,
        _cursor: Option<String>,
    ) -> Reply<'a, Page<ResourceTemplate>> {
        Box::pin(async { Ok(Page::whole(resources::templates())) })
    }

    fn read<'a>(&'a self, caller: &'a Caller, uri: &'a str) -> Reply<'a, Vec<Contents>> {
        Box::pin(async move { resources::read(guest(caller)?, uri).await })
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.changes.subscribe())
    }
}

/// MCP over HTTP, for the routes.
#[derive(Clone)]
pub(crate) struct Mcp {
    desk: Arc<Desk>,
    http: Http,
}

impl Mcp {
    pub fn new() -> Mcp {
        let desk = Arc::new(Desk::new());
        // Whoever has no token was let in by the gate, which has looked at the name that was called.
        let options = HttpOptions { hosts: Hosts::Any, ..HttpOptions::default() };
        Mcp { http: http(desk.clone(), options), desk }
    }

    /// Ends streams and calls, which would else keep the server from stopping.
    pub async fn close(&self) {
        self.http.close().await;
    }
}

/// `/mcp`: the caller is known as for every other route.
pub(crate) async fn route(State(app): State<App>, known: Known, request: Request) -> Result<Response, Problem> {
    let Known(access, service) = known;
    let mut request = in_turn(request).await?;
    request.extensions_mut().insert(app.mcp.desk.caller(service, access));
    match app.mcp.http.clone().oneshot(request).await {
        Ok(response) => Ok(response.map(Body::new)),
        Err(never) => match never {},
    }
}

/// The request with its body read, as every other body is.
async fn in_turn(request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let mut unread = Request::new(body);
    unread.headers_mut().clone_from(&parts.headers);
    unread.extensions_mut().clone_from(&parts.extensions);
    let bytes = body::read(unread).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// MCP on this process's own pipes, until the client closes them.
pub async fn serve_stdio(service: Service) -> Result<(), Trouble> {
    let desk = Arc::new(Desk::new());
    let access = Access::local(service.user());
    let caller = desk.caller(service, access);
    relais_mcp::serving::serve_stdio(desk, caller).await
}
