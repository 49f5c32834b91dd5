//! What can be done with a run: cancel, pause, resume, retry, fork, answer, signal. Each is durable when it is
//! answered; the run comes to it in the background.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_service::{Checked, Fork, ResumeWith, Service};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::RunRow;
use crate::App;
use crate::api::budget::Budget;
use crate::body::{Json, Path};
use crate::caller::Runs;
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    let flow = OpenApiRouter::new().routes(routes!(cancel)).routes(routes!(pause)).routes(routes!(resume));
    flow.routes(routes!(retry)).routes(routes!(fork)).routes(routes!(answer)).routes(routes!(signal))
}

type Accepted = (StatusCode, Json<RunRow>);

async fn accepted(service: &Service, run: Uuid) -> Result<Accepted, Problem> {
    Ok((StatusCode::ACCEPTED, Json(service.row(run).await?.into())))
}

/// Nothing has to be said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Cancel a run: nothing new begins, its exit steps run.
#[utoipa::path(post, path = "/runs/{id}/cancel", operation_id = "cancel_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Option<Nothing>, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn cancel(
    Runs(service): Runs,
    Path(run): Path<Uuid>,
    Json(_nothing): Json<Nothing>,
) -> Result<Accepted, Problem> {
    service.cancel(run).await?;
    accepted(&service, run).await
}

/// Pause a run: nothing new begins until it is resumed.
#[utoipa::path(post, path = "/runs/{id}/pause", operation_id = "pause_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Option<Nothing>, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn pause(Runs(service): Runs, Path(run): Path<Uuid>, Json(_nothing): Json<Nothing>) -> Result<Accepted, Problem> {
    service.pause(run).await?;
    accepted(&service, run).await
}

/// How a run goes on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resumed {
    /// In place of the run's own.
    budget: Option<Budget>,
    /// Make calls again of which it is not known whether they were made.
    #[serde(default)]
    redo: bool,
    /// Go on as if such a call had answered this.
    assume: Option<Value>,
}

/// Go on after a pause, a failure or a cancel: finished steps keep their outputs.
#[utoipa::path(post, path = "/runs/{id}/resume", operation_id = "resume_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Option<Resumed>, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn resume(Runs(service): Runs, Path(run): Path<Uuid>, Json(how): Json<Resumed>) -> Result<Accepted, Problem> {
    let budget = how.budget.map(Budget::checked).transpose().map_err(Problem::invalid)?.unwrap_or_default();
    service.resume(run, ResumeWith { budget, redo: how.redo, assume: how.assume }).await?;
    accepted(&service, run).await
}

/// Where a run begins again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Retried {
    /// The path of the step, `loop[7]/fetch`.
    from: String,
    /// Make calls again that were made after that step and may be made once only.
    #[serde(default)]
    redo: bool,
}

/// Run again from a step on; what came before is kept.
#[utoipa::path(post, path = "/runs/{id}/retry", operation_id = "retry_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Retried, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn retry(Runs(service): Runs, Path(run): Path<Uuid>, Json(how): Json<Retried>) -> Result<Accepted, Problem> {
    service.retry(run, &how.from, how.redo).await?;
    accepted(&service, run).await
}

/// What a fork changes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Forked {
    /// The path of the step from which on the new run goes its own way.
    from: String,
    /// Input fields that are different.
    input: Option<Map<String, Value>>,
    /// The model of all agents.
    model: Option<String>,
    /// The workflow that the new run goes on with: another version of it, for example.
    definition: Option<Definition>,
    /// Make calls again that were made after that step and may be made once only.
    #[serde(default)]
    redo: bool,
}

/// A kept workflow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Definition {
    /// Its id, alias or name.
    workflow: String,
    /// The latest where it is not given.
    version: Option<u64>,
    branch: Option<String>,
}

impl Definition {
    async fn checked(self, service: &Service) -> Result<Checked, Problem> {
        let workflow = service.find_workflow(&self.workflow).await?;
        Ok(service.startable(&workflow.it, self.branch.as_deref(), self.version).await?)
    }
}

/// The id of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunCreated {
    pub id: Uuid,
}

/// A new run that shares what this one did before a step.
#[utoipa::path(post, path = "/runs/{id}/fork", operation_id = "fork_run", tag = "runs", params(("id" = Uuid, Path)),
    request_body = Forked,
    responses((status = CREATED, body = RunCreated, headers(("Location" = String, description = "The new run"))), Problems))]
async fn fork(Runs(service): Runs, Path(run): Path<Uuid>, Json(how): Json<Forked>) -> Result<Response, Problem> {
    let Forked { from, input, model, definition, redo } = how;
    let definition = match definition {
        Some(definition) => Some(definition.checked(&service).await?),
        None => None,
    };
    let id = service.fork(run, Fork { from, input, model, redo, definition }).await?;
    let location = [(header::LOCATION, format!("/api/v1/runs/{id}"))];
    Ok((StatusCode::CREATED, location, Json(RunCreated { id })).into_response())
}

/// The answer to a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Answered {
    /// The step that asks, or the number of the question; may be left out where only one is open.
    step: Option<String>,
    value: Value,
}

/// Answer a question of a run, an approval included.
#[utoipa::path(post, path = "/runs/{id}/answer", operation_id = "answer_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Answered, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn answer(Runs(service): Runs, Path(run): Path<Uuid>, Json(given): Json<Answered>) -> Result<Accepted, Problem> {
    service.answer(run, given.step.as_deref(), given.value).await?;
    accepted(&service, run).await
}

/// Something that a run may wait for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    #[serde(default)]
    value: Value,
}

/// Give a named signal to a run that waits for it, or will.
#[utoipa::path(post, path = "/runs/{id}/signal", operation_id = "signal_run", tag = "runs",
    params(("id" = Uuid, Path)), request_body = Sent, responses((status = ACCEPTED, body = RunRow), Problems))]
async fn signal(Runs(service): Runs, Path(run): Path<Uuid>, Json(sent): Json<Sent>) -> Result<Accepted, Problem> {
    service.send(run, &sent.name, sent.value).await?;
    accepted(&service, run).await
}
