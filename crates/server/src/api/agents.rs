//! Agents: made, read, changed, deleted.

use relais_service::{Agent, AgentChange, At, NewAgent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Writes};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::revisions::{Created, IdempotencyKey, IfMatch, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, update, delete))
}

/// An agent that workflows name by its name or its id.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentView {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    /// As an agent of the native format: `model`, `instructions`, `tools`, `input`, `output`, `max_turns`, …
    #[schema(value_type = Object)]
    pub definition: Value,
    pub created_at: String,
    pub updated_at: String,
    /// Counted up with each change; the ETag is made of it.
    pub revision: u64,
}

impl AgentView {
    fn tagged(at: At<Agent>) -> Tagged<AgentView> {
        let revision = at.revision;
        Tagged(at.into(), revision)
    }
}

impl From<At<Agent>> for AgentView {
    fn from(At { it, revision }: At<Agent>) -> AgentView {
        let Agent { id, name, description, definition, created_at, updated_at } = it;
        let (created_at, updated_at) = (instant(created_at), instant(updated_at));
        AgentView { id, name, description, definition, created_at, updated_at, revision }
    }
}

/// An agent to be made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAgent {
    /// Unique.
    #[schema(max_length = 255)]
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[schema(value_type = Object)]
    pub definition: Map<String, Value>,
}

/// What is to be changed; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateAgent {
    #[schema(max_length = 255)]
    pub name: Option<String>,
    pub description: Option<String>,
    /// Takes the place of the present one as a whole.
    #[schema(value_type = Option<Object>)]
    pub definition: Option<Map<String, Value>>,
}

/// List agents, newest first.
#[utoipa::path(get, path = "/agents", operation_id = "list_agents", tag = "agents", params(Paging),
    responses((status = OK, body = Page<AgentView>), Problems))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<AgentView>>, Problem> {
    let limit = paging.limit();
    let (found, next) = service.agents(paging.cursor, limit).await?;
    Ok(Json(Page { items: found.into_iter().map(Into::into).collect(), next }))
}

/// Make an agent.
#[utoipa::path(post, path = "/agents", operation_id = "create_agent", tag = "agents", request_body = CreateAgent,
    params(IdempotencyKey),
    responses((status = CREATED, body = AgentView), Problems))]
async fn create(
    Writes(service): Writes,
    key: IdempotencyKey,
    Json(body): Json<CreateAgent>,
) -> Result<Created<AgentView>, Problem> {
    let once = key.once(&service, "agents", &body);
    let CreateAgent { name, description, definition } = body;
    let new = NewAgent { name, description, definition: Value::Object(definition), once };
    let made = service.create_agent(new).await?;
    Ok(Created(format!("/api/v1/agents/{}", made.it.id), AgentView::tagged(made)))
}

/// Read an agent by id or name.
#[utoipa::path(get, path = "/agents/{id}", operation_id = "get_agent", tag = "agents",
    params(("id" = String, Path, description = "Id or name")),
    responses((status = OK, body = AgentView), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<String>) -> Result<Tagged<AgentView>, Problem> {
    Ok(AgentView::tagged(service.find_agent(&id).await?))
}

/// Change an agent; each workflow that uses it gets a new version in the same change.
#[utoipa::path(patch, path = "/agents/{id}", operation_id = "update_agent", tag = "agents", request_body = UpdateAgent,
    params(("id" = String, Path, description = "Id or name"),
        IfMatch),
    responses((status = OK, body = AgentView), Problems))]
async fn update(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(body): Json<UpdateAgent>,
) -> Result<Tagged<AgentView>, Problem> {
    let UpdateAgent { name, description, definition } = body;
    let change = AgentChange { name, description, definition: definition.map(Value::Object) };
    Ok(AgentView::tagged(service.update_agent(&id, change, revision).await?))
}

/// Delete an agent that no workflow uses.
#[utoipa::path(delete, path = "/agents/{id}", operation_id = "delete_agent", tag = "agents",
    params(("id" = String, Path, description = "Id or name"),
        IfMatch),
    responses((status = NO_CONTENT), Problems))]
async fn delete(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<axum::http::StatusCode, Problem> {
    service.delete_agent(&id, revision).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}
