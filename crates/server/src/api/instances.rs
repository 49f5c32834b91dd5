//! Runs as instances of a workflow of steps: each with its step instances, their messages and outputs.

use axum::http::{HeaderName, StatusCode, header};
use relais_service::{Format, Service, Start};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::revisions::IdempotencyKey;
use crate::traced::TraceParent;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get)).routes(routes!(cancel))
}

/// Each instance is put together from its journal; more at once would keep a client waiting.
const MAX_INSTANCES: usize = 100;

/// A run with its steps: `uuid`, `user_id`, `workflow_definition_uuid`, `status` (running, completed, stopped, failed),
/// `error_message`, `trigger_output`, `step_instances` (each with `uuid`, `type`, `status`, the uuid of its definition,
/// `messages`, `input_data`, `output`, times), `created_at`, `updated_at`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = Object)]
pub struct Instance(pub Value);

/// What an instance has beside what every run has.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct InstancePart {
    pub uuid: Uuid,
    pub user_id: String,
    pub workflow_definition_uuid: String,
    pub error_message: Option<String>,
    /// `uuid`, `raw_data`, `summary`, `markdown_representation`.
    #[schema(value_type = Object)]
    pub trigger_output: Value,
    #[schema(value_type = Vec<Object>)]
    pub step_instances: Vec<Value>,
    pub created_at: String,
    pub updated_at: String,
}

impl InstancePart {
    pub async fn of(service: &Service, run: Uuid) -> Result<InstancePart, Problem> {
        let view = service.view(run, Format::Steps).await?;
        serde_json::from_value(view).map_err(|error| relais_service::Error::Unusable(error.to_string()).into())
    }
}

/// What a run is started with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateInstance {
    /// Any JSON; what `<<trigger_output>>` stands for.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub triggering_data: Value,
}

/// An answer to whoever started a run.
pub type Started = (StatusCode, [(HeaderName, String); 1], Json<Instance>);

pub async fn started(service: &Service, run: Uuid) -> Result<Started, Problem> {
    let location = [(header::LOCATION, format!("/api/v1/instances/{run}"))];
    Ok((StatusCode::ACCEPTED, location, Json(instance(service, run).await?)))
}

async fn instance(service: &Service, run: Uuid) -> Result<Instance, Problem> {
    Ok(Instance(service.view(run, Format::Steps).await?))
}

/// List the runs of a workflow, newest first.
#[utoipa::path(get, path = "/workflows/{id}/instances", operation_id = "list_instances", tag = "instances",
    params(("id" = String, Path, description = "Id, alias or name"), Paging),
    responses((status = OK, body = Page<Instance>), Problems))]
async fn list(
    Reads(service): Reads,
    Path(id): Path<String>,
    Query(paging): Query<Paging>,
) -> Result<Json<Page<Instance>>, Problem> {
    let (instances, next) = service.instances(&id, paging.limit().min(MAX_INSTANCES), paging.cursor).await?;
    Ok(Json(Page { items: instances.into_iter().map(Instance).collect(), next }))
}

/// Start a run by hand; it goes on in the background.
#[utoipa::path(post, path = "/workflows/{id}/instances", operation_id = "create_instance", tag = "instances", request_body = CreateInstance,
    params(("id" = String, Path, description = "Id, alias or name"),
        IdempotencyKey,
        ("traceparent" = Option<String>, Header, description = "The trace that the run joins (W3C Trace Context)")),
    responses((status = ACCEPTED, body = Instance), Problems))]
async fn create(
    Runs(service): Runs,
    Path(id): Path<String>,
    IdempotencyKey(key): IdempotencyKey,
    TraceParent(traceparent): TraceParent,
    Json(body): Json<CreateInstance>,
) -> Result<Started, Problem> {
    let start = Start { input: body.triggering_data, key, traceparent, ..Start::default() };
    let run = service.start_workflow(&id, None, None, start).await?;
    started(&service, run).await
}

/// Read a run with its steps.
#[utoipa::path(get, path = "/instances/{id}", operation_id = "get_instance", tag = "instances", params(("id" = Uuid, Path)),
    responses((status = OK, body = Instance), Problems))]
async fn get(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Instance>, Problem> {
    Ok(Json(instance(&service, run).await?))
}

/// Cancel a run; it ends as soon as what is under way has been told.
#[utoipa::path(post, path = "/instances/{id}/cancel", operation_id = "cancel_instance", tag = "instances", params(("id" = Uuid, Path)),
    responses((status = ACCEPTED, body = Instance), Problems))]
async fn cancel(Runs(service): Runs, Path(run): Path<Uuid>) -> Result<Started, Problem> {
    service.cancel(run).await?;
    started(&service, run).await
}
