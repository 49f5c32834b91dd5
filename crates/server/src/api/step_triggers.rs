//! The trigger of a workflow: chosen by its type, then filled in; and triggers by their ids.

use relais_service::{At, TriggerChange, TriggerRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::steps::must_be_same;
use super::workflow_steps::{WorkflowModel, whole};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Writes};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::revisions::{IfMatch, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_for_workflow, set, remove))
        .routes(routes!(list))
        .routes(routes!(get, save, delete))
}

/// What starts runs of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub struct TriggerModel {
    pub uuid: Uuid,
    pub user_id: String,
    pub workflow_uuid: Uuid,
    #[schema(example = "schedule")]
    pub trigger_type_id: String,
    /// As the type takes them (`/trigger-types`).
    pub settings: Map<String, Value>,
    /// Rules about the data that was sent; a trigger of a definition may have an expression.
    #[schema(value_type = Value)]
    pub filter_rules: Value,
    pub initial_data_description: String,
    /// Why it does not fire, if it does not.
    pub off: Option<String>,
    /// When it fires next, if that is known.
    pub next_at: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

impl TriggerModel {
    pub fn new(trigger: TriggerRecord, user: &str) -> TriggerModel {
        TriggerModel {
            settings: trigger.settings(),
            uuid: trigger.uuid,
            user_id: user.to_owned(),
            workflow_uuid: trigger.workflow_uuid,
            trigger_type_id: trigger.kind,
            filter_rules: if trigger.filter_rules.is_null() { Value::Object(Map::new()) } else { trigger.filter_rules },
            initial_data_description: trigger.initial_data_description,
            off: trigger.off,
            next_at: trigger.next_at.map(instant),
            created_at: instant(trigger.created_at),
            updated_at: instant(trigger.updated_at),
        }
    }
}

/// A trigger to be set, in the place of the one that the workflow has.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTrigger {
    /// `manual`, `schedule`, `webhook` or `event`.
    #[schema(pattern = "^(manual|schedule|webhook|event)$")]
    pub trigger_type_id: String,
    pub settings: Option<Map<String, Value>>,
    #[schema(value_type = Option<Object>)]
    pub filter_rules: Option<Value>,
    /// Default: what the type says.
    pub initial_data_description: Option<String>,
}

/// What is to be changed of a trigger; what is left out stays. What only the server says may be sent back as it was
/// read: `uuid`, `user_id`, `workflow_uuid` and `trigger_type_id` must be those of the trigger, the others change
/// nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveTrigger {
    pub uuid: Option<Uuid>,
    /// Whoever calls; another user's is refused before this is read.
    #[serde(rename = "user_id")]
    pub _user_id: Option<String>,
    pub workflow_uuid: Option<Uuid>,
    pub trigger_type_id: Option<String>,
    pub settings: Option<Map<String, Value>>,
    #[schema(value_type = Option<Object>)]
    pub filter_rules: Option<Value>,
    pub initial_data_description: Option<String>,
    #[serde(rename = "off")]
    pub _off: Option<String>,
    #[serde(rename = "next_at")]
    pub _next_at: Option<String>,
    #[serde(rename = "created_at")]
    pub _created_at: Option<String>,
    #[serde(rename = "updated_at")]
    pub _updated_at: Option<String>,
}

/// Read the trigger of a workflow.
#[utoipa::path(get, path = "/workflows/{id}/trigger", operation_id = "get_workflow_trigger", tag = "triggers",
    params(("id" = String, Path, description = "Id, alias or name")),
    responses((status = OK, body = TriggerModel), Problems))]
async fn get_for_workflow(Reads(service): Reads, Path(id): Path<String>) -> Result<Tagged<TriggerModel>, Problem> {
    Ok(tagged(service.trigger_of_workflow(&id).await?, service.user()))
}

/// Set the trigger of a workflow; a former one goes. Answers the whole workflow.
#[utoipa::path(put, path = "/workflows/{id}/trigger", operation_id = "set_workflow_trigger", tag = "triggers", request_body = SetTrigger,
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WorkflowModel), Problems))]
async fn set(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(body): Json<SetTrigger>,
) -> Result<Tagged<WorkflowModel>, Problem> {
    let SetTrigger { trigger_type_id, settings, filter_rules, initial_data_description } = body;
    let change = TriggerChange { settings, filter_rules, initial_data_description, ..TriggerChange::default() };
    Ok(whole(service.set_trigger(&id, &trigger_type_id, change, revision).await?, service.user()))
}

/// Take the trigger of a workflow away. Answers the whole workflow.
#[utoipa::path(delete, path = "/workflows/{id}/trigger", operation_id = "remove_workflow_trigger", tag = "triggers",
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WorkflowModel), Problems))]
async fn remove(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<Tagged<WorkflowModel>, Problem> {
    Ok(whole(service.remove_trigger(&id, revision).await?, service.user()))
}

/// List all triggers, those of definitions too.
#[utoipa::path(get, path = "/triggers", operation_id = "list_triggers", tag = "triggers", params(Paging),
    responses((status = OK, body = Page<TriggerModel>), Problems))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<TriggerModel>>, Problem> {
    let limit = paging.limit();
    let (found, next) = service.triggers(paging.cursor, limit).await?;
    let items = found.into_iter().map(|at| TriggerModel::new(at.it, service.user())).collect();
    Ok(Json(Page { items, next }))
}

/// Read a trigger.
#[utoipa::path(get, path = "/triggers/{id}", operation_id = "get_trigger", tag = "triggers", params(("id" = Uuid, Path)),
    responses((status = OK, body = TriggerModel), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Tagged<TriggerModel>, Problem> {
    Ok(tagged(service.trigger(id).await?, service.user()))
}

/// Save a trigger: its settings, its filter rules, what its data is.
#[utoipa::path(put, path = "/triggers/{id}", operation_id = "save_trigger", tag = "triggers", request_body = SaveTrigger,
    params(("id" = Uuid, Path), IfMatch),
    responses((status = OK, body = TriggerModel), Problems))]
async fn save(
    Writes(service): Writes,
    Path(id): Path<Uuid>,
    IfMatch(revision): IfMatch,
    Json(body): Json<SaveTrigger>,
) -> Result<Tagged<TriggerModel>, Problem> {
    must_be_same("uuid", body.uuid, id)?;
    let change = TriggerChange {
        workflow: body.workflow_uuid,
        kind: body.trigger_type_id,
        settings: body.settings,
        filter_rules: body.filter_rules,
        initial_data_description: body.initial_data_description,
    };
    Ok(tagged(service.save_trigger(id, change, revision).await?, service.user()))
}

/// Delete a trigger; its workflow has none then.
#[utoipa::path(delete, path = "/triggers/{id}", operation_id = "delete_trigger", tag = "triggers",
    params(("id" = Uuid, Path), IfMatch),
    responses((status = NO_CONTENT), Problems))]
async fn delete(
    Writes(service): Writes,
    Path(id): Path<Uuid>,
    IfMatch(revision): IfMatch,
) -> Result<axum::http::StatusCode, Problem> {
    service.delete_trigger(id, revision).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}

fn tagged(At { it, revision }: At<TriggerRecord>, user: &str) -> Tagged<TriggerModel> {
    Tagged(TriggerModel::new(it, user), revision)
}
