//! What one run did: its trace, the same in the words of each format, its output, its artifacts and its questions.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use relais_service::Format;
use relais_service::trace::ArtifactTrace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::Question;
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::Reads;
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    let told = OpenApiRouter::new().routes(routes!(trace)).routes(routes!(trail)).routes(routes!(state));
    let told = told.routes(routes!(view)).routes(routes!(output)).routes(routes!(questions));
    told.routes(routes!(artifacts)).routes(routes!(artifact))
}

/// Everything a run did, step by step and call by call; times are milliseconds since 1970.
#[utoipa::path(get, path = "/runs/{id}/trace", operation_id = "get_run_trace", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Object), Problems))]
async fn trace(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Response, Problem> {
    Ok(Json(service.trace(run).await?).into_response())
}

/// What each agent was given and gave, in order.
#[derive(Debug, Serialize, ToSchema)]
struct Trail {
    trail: Vec<Turn>,
}

/// One turn of an agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Turn {
    node_id: String,
    agent_id: Option<String>,
    /// Which round of the innermost cycle, from 1.
    round: u64,
    status: String,
    input: Value,
    output: Value,
    error: Option<String>,
}

/// The trail of a run: what each agent was given and gave.
#[utoipa::path(get, path = "/runs/{id}/trail", operation_id = "get_run_trail", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Trail), Problems))]
async fn trail(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Trail>, Problem> {
    let mut execution = service.view(run, Format::Graph).await?;
    let trail = serde_json::from_value(execution["trail"].take());
    let trail = trail.map_err(|error| relais_service::Error::Unusable(format!("the trail: {error}")))?;
    Ok(Json(Trail { trail }))
}

/// The execution state of a run, under `workflow_execution`.
#[utoipa::path(get, path = "/runs/{id}/state", operation_id = "get_run_state", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Object), Problems))]
async fn state(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Value>, Problem> {
    Ok(Json(service.view(run, Format::Dag).await?))
}

/// The format in whose words a run is told.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Words {
    Chain,
    Steps,
    Pipeline,
    Graph,
    Dag,
}

impl From<Words> for Format {
    fn from(words: Words) -> Format {
        match words {
            Words::Chain => Format::Chain,
            Words::Steps => Format::Steps,
            Words::Pipeline => Format::Pipeline,
            Words::Graph => Format::Graph,
            Words::Dag => Format::Dag,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct InWords {
    #[param(inline)]
    format: Words,
}

/// A run in the words of a format.
#[utoipa::path(get, path = "/runs/{id}/view", operation_id = "view_run", tag = "runs",
    params(("id" = Uuid, Path), InWords), responses((status = OK, body = Object), Problems))]
async fn view(
    Reads(service): Reads,
    Path(run): Path<Uuid>,
    Query(words): Query<InWords>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(service.view(run, words.format.into()).await?))
}

/// The value that a run ended with; null while it goes.
#[utoipa::path(get, path = "/runs/{id}/output", operation_id = "get_run_output", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Value), Problems))]
async fn output(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Value>, Problem> {
    Ok(Json(service.output(run).await?))
}

/// What a run asks people.
#[derive(Debug, Serialize, ToSchema)]
struct Questions {
    items: Vec<Question>,
}

/// What a run, or a child run that it waits for, asks people.
#[utoipa::path(get, path = "/runs/{id}/questions", operation_id = "list_run_questions", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Questions), Problems))]
async fn questions(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Questions>, Problem> {
    Ok(Json(Questions { items: super::questions(&service, run).await? }))
}

/// One version of something that a run has made.
#[derive(Debug, Serialize, ToSchema)]
struct Artifact {
    name: String,
    version: u32,
    media_type: String,
    bytes: u64,
    /// BLAKE3 of the content, in hex.
    hash: String,
}

impl From<ArtifactTrace> for Artifact {
    fn from(artifact: ArtifactTrace) -> Artifact {
        let ArtifactTrace { name, version, media_type, bytes, hash } = artifact;
        Artifact { name, version, media_type, bytes, hash }
    }
}

/// The artifacts of a run.
#[derive(Debug, Serialize, ToSchema)]
struct Artifacts {
    items: Vec<Artifact>,
}

/// List the artifacts of a run, every version.
#[utoipa::path(get, path = "/runs/{id}/artifacts", operation_id = "list_run_artifacts", tag = "runs",
    params(("id" = Uuid, Path)), responses((status = OK, body = Artifacts), Problems))]
async fn artifacts(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<Artifacts>, Problem> {
    let items = service.artifacts(run).await?;
    Ok(Json(Artifacts { items: items.into_iter().map(Artifact::from).collect() }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OfVersion {
    /// Counted from 1; the latest where it is not given.
    #[param(minimum = 1)]
    version: Option<u32>,
}

/// Download an artifact of a run.
#[utoipa::path(get, path = "/runs/{id}/artifacts/{name}", operation_id = "get_run_artifact", tag = "runs",
    params(("id" = Uuid, Path), ("name" = String, Path), OfVersion),
    responses((status = OK, body = Vec<u8>, content_type = "application/octet-stream"), Problems))]
async fn artifact(
    Reads(service): Reads,
    Path((run, name)): Path<(Uuid, String)>,
    Query(wanted): Query<OfVersion>,
) -> Result<Response, Problem> {
    let (_, bytes) = service.artifact(run, &name, wanted.version).await?;
    // Strangers' content: to be saved, never to be taken for a page of ours. Its own type is in the list.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, bytes).into_response())
}
