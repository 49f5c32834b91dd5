//! The steps of a workflow: added, put in order, taken out. Each call answers the whole workflow.

use relais_service::{At, Details, Workflow, WorkflowStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::step_triggers::TriggerModel;
use super::steps::StepModel;
use crate::App;
use crate::body::{Json, Path};
use crate::caller::{Reads, Writes};
use crate::problem::{Problem, Problems};
use crate::revisions::{IfMatch, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(details)).routes(routes!(add, reorder)).routes(routes!(remove))
}

/// A workflow that is made of steps.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowModel {
    #[serde(flatten)]
    pub about: AboutWorkflow,
    pub trigger_uuid: Option<Uuid>,
    /// In order.
    pub steps: Vec<Uuid>,
}

/// A workflow with its trigger and its steps, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowWithDetails {
    #[serde(flatten)]
    pub about: AboutWorkflow,
    pub trigger: Option<TriggerModel>,
    pub steps: Vec<StepModel>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AboutWorkflow {
    pub uuid: Uuid,
    pub user_id: String,
    pub name: String,
    pub description: String,
    /// False: its trigger does not fire. It may be started by hand unless it is archived.
    pub is_active: bool,
    /// Its newest version: each change of a step is one.
    pub version: u64,
    pub template_id: Option<String>,
    pub template_version: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

impl AboutWorkflow {
    fn new(workflow: &Workflow, user: &str) -> AboutWorkflow {
        AboutWorkflow {
            uuid: workflow.id,
            user_id: user.to_owned(),
            name: workflow.name.clone(),
            description: workflow.description.clone(),
            is_active: workflow.status == WorkflowStatus::Active,
            version: workflow.version,
            template_id: workflow.template_id.clone(),
            template_version: workflow.template_version.clone(),
            created_at: instant(workflow.created_at),
            updated_at: instant(workflow.updated_at),
        }
    }
}

/// A workflow as the calls answer it that change its parts.
pub fn whole(At { it, revision }: At<Workflow>, user: &str) -> Tagged<WorkflowModel> {
    let about = AboutWorkflow::new(&it, user);
    Tagged(WorkflowModel { about, trigger_uuid: it.trigger_uuid, steps: it.steps }, revision)
}

/// A new step by `type` and `name`, or one that stands by itself by `step_uuid`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddStep {
    /// `custom_llm`, `custom_agent` or `stop_checker`.
    #[serde(rename = "type")]
    #[schema(pattern = "^(custom_llm|custom_agent|stop_checker)$")]
    pub word: Option<String>,
    #[schema(max_length = 255)]
    pub name: Option<String>,
    pub step_uuid: Option<Uuid>,
    /// Where it comes to stand, from 0; -1 is the end.
    #[serde(default = "end")]
    pub position: i64,
}

fn end() -> i64 {
    -1
}

/// Each step of the workflow once, in the order in which they are to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub ordered_step_uuids: Vec<Uuid>,
}

/// Read a workflow with its trigger and its steps.
#[utoipa::path(get, path = "/workflows/{id}/details", operation_id = "get_workflow_details", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name")),
    responses((status = OK, body = WorkflowWithDetails), Problems))]
async fn details(Reads(service): Reads, Path(id): Path<String>) -> Result<Tagged<WorkflowWithDetails>, Problem> {
    let Details { workflow, trigger, steps } = service.workflow_details(&id).await?;
    let about = AboutWorkflow::new(&workflow.it, service.user());
    let trigger = trigger.map(|trigger| TriggerModel::new(trigger.it, service.user()));
    let steps = steps.into_iter().map(|step| StepModel::new(step, service.user())).collect();
    Ok(Tagged(WorkflowWithDetails { about, trigger, steps }, workflow.revision))
}

/// Add a step to a workflow: a new one, or one that stands by itself.
#[utoipa::path(post, path = "/workflows/{id}/steps", operation_id = "add_step", tag = "steps", request_body = AddStep,
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WorkflowModel), Problems))]
async fn add(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(body): Json<AddStep>,
) -> Result<Tagged<WorkflowModel>, Problem> {
    let AddStep { word, name, step_uuid, position } = body;
    let changed = match (word, name, step_uuid) {
        (Some(word), Some(name), None) => service.add_new_step(&id, &word, &name, position, revision).await?,
        (None, None, Some(step)) => service.attach_step(&id, step, position, revision).await?,
        (_, _, Some(_)) => {
            return Err(Problem::invalid("a step that is there has its `type` and `name`: leave them out"));
        }
        (_, _, None) => {
            return Err(Problem::invalid("a new step needs `type` and `name`; one that is there, `step_uuid`"));
        }
    };
    Ok(whole(changed, service.user()))
}

/// Put the steps of a workflow in order.
#[utoipa::path(put, path = "/workflows/{id}/steps", operation_id = "reorder_steps", tag = "steps", request_body = Order,
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WorkflowModel), Problems))]
async fn reorder(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(body): Json<Order>,
) -> Result<Tagged<WorkflowModel>, Problem> {
    Ok(whole(service.reorder_steps(&id, body.ordered_step_uuids, revision).await?, service.user()))
}

/// Take a step out of a workflow and delete it.
#[utoipa::path(delete, path = "/workflows/{id}/steps/{step_id}", operation_id = "remove_step", tag = "steps",
    params(("id" = String, Path, description = "Id, alias or name"), ("step_id" = Uuid, Path),
        IfMatch),
    responses((status = OK, body = WorkflowModel), Problems))]
async fn remove(
    Writes(service): Writes,
    Path((id, step)): Path<(String, Uuid)>,
    IfMatch(revision): IfMatch,
) -> Result<Tagged<WorkflowModel>, Problem> {
    Ok(whole(service.remove_step(&id, step, revision).await?, service.user()))
}
