//! The types that steps and triggers can have, for those who choose one.

use relais_service::{STEP_TYPES, TRIGGER_TYPES};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::body::Json;
use crate::caller::Reads;
use crate::problem::Problems;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_step_types)).routes(routes!(list_trigger_types))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StepTypeView {
    #[serde(rename = "type")]
    #[schema(example = "custom_llm")]
    pub word: &'static str,
    pub name: &'static str,
    pub description: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TriggerTypeView {
    #[schema(example = "schedule")]
    pub id: &'static str,
    pub name: &'static str,
    pub description: &'static str,
    /// What a new trigger of the type says of its initial data.
    pub initial_data_description: &'static str,
    pub settings: Vec<SettingView>,
}

/// A setting that triggers of a type take.
#[derive(Debug, Serialize, ToSchema)]
pub struct SettingView {
    pub name: &'static str,
    pub description: &'static str,
}

/// List the types of step.
#[utoipa::path(get, path = "/step-types", operation_id = "list_step_types", tag = "steps",
    responses((status = OK, body = Vec<StepTypeView>), Problems))]
async fn list_step_types(Reads(_service): Reads) -> Json<Vec<StepTypeView>> {
    let view = |kind: &relais_service::StepType| StepTypeView {
        word: kind.word,
        name: kind.name,
        description: kind.description,
    };
    Json(STEP_TYPES.iter().map(view).collect())
}

/// List the types of trigger, with the settings that each takes.
#[utoipa::path(get, path = "/trigger-types", operation_id = "list_trigger_types", tag = "triggers",
    responses((status = OK, body = Vec<TriggerTypeView>), Problems))]
async fn list_trigger_types(Reads(_service): Reads) -> Json<Vec<TriggerTypeView>> {
    let view = |kind: &relais_service::TriggerType| TriggerTypeView {
        id: kind.id,
        name: kind.name,
        description: kind.description,
        initial_data_description: kind.initial_data_description,
        settings: kind.settings.iter().map(|(name, description)| SettingView { name, description }).collect(),
    };
    Json(TRIGGER_TYPES.iter().map(view).collect())
}
