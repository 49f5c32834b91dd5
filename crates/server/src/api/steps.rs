//! Steps as objects: made by themselves, read, saved, deleted, run by themselves.

use std::time::Duration;

use relais_engine::RunStatus;
use relais_service::{Mode, Start, Step, StepFields, StepKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::instances::{Instance, Started, started};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs, Writes};
use crate::pages::{Page, Paging, bounded};
use crate::problem::{Problem, Problems};
use crate::revisions::{Created, IdempotencyKey, IfMatch, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, save, delete)).routes(routes!(run))
}

/// A step; its `type` says which.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepModel {
    CustomLlm(CustomLlm),
    CustomAgent(CustomAgent),
    StopChecker(StopChecker),
}

/// Asks a model, without tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustomLlm {
    #[serde(flatten)]
    pub about: AboutStep,
    pub model: String,
    /// May name `<<trigger_output>>` and `<<step_output.UUID>>`.
    pub system_prompt: String,
    /// What it does, in a sentence that a model said.
    pub generated_summary: Option<String>,
}

/// Asks a model that may use tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustomAgent {
    #[serde(flatten)]
    pub about: AboutStep,
    pub model: String,
    pub system_prompt: String,
    /// By the id of the tool: `{ "enabled": true }`; only those are offered to the model.
    pub tools: Map<String, Value>,
    pub generated_summary: Option<String>,
}

/// Ends the workflow if a condition holds.
#[derive(Debug, Serialize, ToSchema)]
pub struct StopChecker {
    #[serde(flatten)]
    pub about: AboutStep,
    /// Any of them stops.
    #[schema(value_type = Vec<StopCondition>)]
    pub stop_conditions: Vec<Value>,
}

/// What all steps have.
#[derive(Debug, Serialize, ToSchema)]
pub struct AboutStep {
    pub uuid: Uuid,
    pub user_id: String,
    pub name: String,
    pub description: String,
    /// The workflow that it is in; null: it stands by itself.
    pub workflow_uuid: Option<Uuid>,
    pub created_at: String,
    pub updated_at: String,
}

/// A test on what an earlier step gave.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct StopCondition {
    pub step_definition_uuid: Uuid,
    /// JSONPath (RFC 9535) on the step's raw data.
    #[schema(example = "$.score")]
    pub extraction_json_path: String,
    pub operator: Operator,
    /// Any JSON.
    #[schema(value_type = Value)]
    pub target_value: Value,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    Equals,
    NotEquals,
    Contains,
    GreaterThan,
    LessThan,
}

impl StepModel {
    pub fn new(step: Step, user: &str) -> StepModel {
        let Step { record, generated_summary, .. } = step;
        let about = AboutStep {
            uuid: record.uuid,
            user_id: user.to_owned(),
            name: record.name,
            description: record.description,
            workflow_uuid: record.workflow,
            created_at: instant(record.created_at),
            updated_at: instant(record.updated_at),
        };
        match record.kind {
            StepKind::CustomLlm { model, system_prompt } => {
                StepModel::CustomLlm(CustomLlm { about, model, system_prompt, generated_summary })
            }
            StepKind::CustomAgent { model, system_prompt, tools } => {
                StepModel::CustomAgent(CustomAgent { about, model, system_prompt, tools, generated_summary })
            }
            StepKind::StopChecker { stop_conditions } => StepModel::StopChecker(StopChecker { about, stop_conditions }),
        }
    }
}

/// A step to be made. What is left out is as in a new step: the server's default model, no prompt, no conditions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateStep {
    /// `custom_llm`, `custom_agent` or `stop_checker`.
    #[serde(rename = "type")]
    #[schema(pattern = "^(custom_llm|custom_agent|stop_checker)$")]
    pub word: String,
    #[schema(max_length = 255)]
    pub name: String,
    pub description: Option<String>,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Map<String, Value>>,
    #[schema(value_type = Option<Vec<StopCondition>>)]
    pub stop_conditions: Option<Vec<Value>>,
}

/// A step as it is to be, whole. What only the server says may be sent back as it was read: `uuid`, `user_id` and
/// `type` must be those of the step; `workflow_uuid`, `generated_summary`, `created_at` and `updated_at` change nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveStep {
    pub uuid: Option<Uuid>,
    /// Whoever calls; another user's is refused before this is read.
    #[serde(rename = "user_id")]
    pub _user_id: Option<String>,
    #[serde(rename = "type")]
    pub word: Option<String>,
    #[schema(max_length = 255)]
    pub name: String,
    pub description: Option<String>,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Map<String, Value>>,
    #[schema(value_type = Option<Vec<StopCondition>>)]
    pub stop_conditions: Option<Vec<Value>>,
    #[serde(rename = "workflow_uuid")]
    pub _workflow_uuid: Option<Uuid>,
    #[serde(rename = "generated_summary")]
    pub _generated_summary: Option<String>,
    #[serde(rename = "created_at")]
    pub _created_at: Option<String>,
    #[serde(rename = "updated_at")]
    pub _updated_at: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Only those that are in no workflow.
    #[serde(default)]
    standalone: bool,
    /// Steps on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// What a step that runs by itself is given in the place of its workflow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStep {
    /// For `<<trigger_output>>`; any JSON.
    #[schema(value_type = Option<Value>)]
    pub trigger_output: Option<Value>,
    /// For `<<step_output.UUID>>` and conditions, by the uuid of the step.
    pub step_outputs: Option<Map<String, Value>>,
    /// Made-up answers in place of every model and tool.
    #[serde(default)]
    pub simulate: bool,
}

/// List steps.
#[utoipa::path(get, path = "/steps", operation_id = "list_steps", tag = "steps", params(Listing),
    responses((status = OK, body = Page<StepModel>), Problems))]
async fn list(Reads(service): Reads, Query(listing): Query<Listing>) -> Result<Json<Page<StepModel>>, Problem> {
    let paging = Paging { limit: listing.limit, cursor: listing.cursor };
    let limit = paging.limit();
    let (steps, next) = service.steps(listing.standalone, paging.cursor, limit).await?;
    let items = steps.into_iter().map(|step| StepModel::new(step, service.user())).collect();
    Ok(Json(Page { items, next }))
}

/// Make a step that is in no workflow yet.
#[utoipa::path(post, path = "/steps", operation_id = "create_step", tag = "steps", request_body = CreateStep,
    responses((status = CREATED, body = StepModel), Problems))]
async fn create(Writes(service): Writes, Json(body): Json<CreateStep>) -> Result<Created<StepModel>, Problem> {
    let fields = StepFields {
        name: Some(body.name),
        kind: None,
        description: body.description,
        model: body.model,
        system_prompt: body.system_prompt,
        tools: body.tools,
        stop_conditions: body.stop_conditions,
    };
    let made = service.create_step(&body.word, fields).await?;
    Ok(Created(format!("/api/v1/steps/{}", made.record.uuid), tagged(made, service.user())))
}

/// Read a step.
#[utoipa::path(get, path = "/steps/{id}", operation_id = "get_step", tag = "steps", params(("id" = Uuid, Path)),
    responses((status = OK, body = StepModel), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Tagged<StepModel>, Problem> {
    Ok(tagged(service.step(id).await?, service.user()))
}

/// Save a step. Of a step in a workflow, that is a new version of the workflow.
#[utoipa::path(put, path = "/steps/{id}", operation_id = "save_step", tag = "steps", request_body = SaveStep,
    params(("id" = Uuid, Path), IfMatch),
    responses((status = OK, body = StepModel), Problems))]
async fn save(
    Writes(service): Writes,
    Path(id): Path<Uuid>,
    IfMatch(revision): IfMatch,
    Json(body): Json<SaveStep>,
) -> Result<Tagged<StepModel>, Problem> {
    must_be_same("uuid", body.uuid, id)?;
    let fields = StepFields {
        name: Some(body.name),
        kind: body.word,
        description: body.description,
        model: body.model,
        system_prompt: body.system_prompt,
        tools: body.tools,
        stop_conditions: body.stop_conditions,
    };
    Ok(tagged(service.save_step(id, fields, revision).await?, service.user()))
}

/// Delete a step; one that is in a workflow goes out of it.
#[utoipa::path(delete, path = "/steps/{id}", operation_id = "delete_step", tag = "steps",
    params(("id" = Uuid, Path), IfMatch),
    responses((status = NO_CONTENT), Problems))]
async fn delete(
    Writes(service): Writes,
    Path(id): Path<Uuid>,
    IfMatch(revision): IfMatch,
) -> Result<axum::http::StatusCode, Problem> {
    service.delete_step(id, revision).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}

/// How long a checker, which calls nothing, is waited for.
const CHECK_TIME: Duration = Duration::from_secs(10);

/// Run a step by itself. A checker is answered when it has decided, with `result`: true if it would stop its workflow.
#[utoipa::path(post, path = "/steps/{id}/run", operation_id = "run_step", tag = "steps", request_body = RunStep,
    params(("id" = Uuid, Path),
        IdempotencyKey),
    responses((status = ACCEPTED, body = Instance), Problems))]
async fn run(
    Runs(service): Runs,
    Path(id): Path<Uuid>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<RunStep>,
) -> Result<Started, Problem> {
    let trigger = body.trigger_output.map(|value| ("trigger_output".to_owned(), value));
    let outputs = body.step_outputs.map(|outputs| ("step_outputs".to_owned(), json!(outputs)));
    let input = Value::Object(trigger.into_iter().chain(outputs).collect());
    let mode = Mode { simulate: body.simulate, ..Mode::default() };
    let is_checker = matches!(service.step(id).await?.record.kind, StepKind::StopChecker { .. });
    let run = service.run_step(id, Start { input, mode, key, ..Start::default() }).await?;
    if !is_checker {
        return started(&service, run).await;
    }
    let status = service.rested(run, CHECK_TIME).await?.summary.status;
    let mut answer = started(&service, run).await?;
    if status.is_success() {
        answer.2.0.0["result"] = json!(status == RunStatus::Stopped);
    }
    Ok(answer)
}

fn tagged(step: Step, user: &str) -> Tagged<StepModel> {
    let revision = step.revision;
    Tagged(StepModel::new(step, user), revision)
}

/// What names a thing may be sent along, but not changed.
pub fn must_be_same(field: &str, given: Option<Uuid>, is: Uuid) -> Result<(), Problem> {
    match given.filter(|given| *given != is) {
        None => Ok(()),
        Some(given) => {
            let text = format!("`{field}` is {is} and cannot be changed to {given}");
            Err(relais_service::Error::Invalid(text).into())
        }
    }
}
