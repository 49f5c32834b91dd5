//! Workflows carried from one server to another.

use relais_service::{OnClash, Package};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::workflows::{WorkflowView, whole};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Writes};
use crate::problem::Problem;
use crate::revisions::Created;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(export)).routes(routes!(import))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Exporting {
    /// The older versions, too: the newest hundred.
    #[serde(default)]
    history: bool,
}

/// An export to be taken in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportWorkflows {
    /// What `export_workflow` answered.
    #[schema(value_type = Object)]
    pub package: Value,
    /// What is done about a name that is taken; default: `rename`.
    #[serde(default)]
    pub on_clash: Clash,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clash {
    /// `name (2)`; refused where the export itself goes by the name.
    #[default]
    Rename,
    Refuse,
}

impl From<Clash> for OnClash {
    fn from(clash: Clash) -> OnClash {
        match clash {
            Clash::Rename => OnClash::Rename,
            Clash::Refuse => OnClash::Refuse,
        }
    }
}

/// A workflow with all that it uses (workflows, agents, steps, triggers) as one document.
#[utoipa::path(get, path = "/workflows/{id}/export", operation_id = "export_workflow", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), Exporting),
    responses((status = OK, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
async fn export(
    Reads(service): Reads,
    Path(id): Path<String>,
    Query(Exporting { history }): Query<Exporting>,
) -> Result<Json<Package>, Problem> {
    Ok(Json(service.export_workflow(&id, history).await?))
}

/// Take in an export: everything in it gets an id of its own here. Answers its first workflow.
#[utoipa::path(post, path = "/workflows/import", operation_id = "import_workflows", tag = "workflows", request_body = ImportWorkflows,
    responses((status = CREATED, body = WorkflowView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
async fn import(Writes(service): Writes, Json(body): Json<ImportWorkflows>) -> Result<Created<WorkflowView>, Problem> {
    let made = service.import_workflows(body.package, body.on_clash.into()).await?;
    let path = format!("/api/v1/workflows/{}", made.it.id);
    Ok(Created(path, whole(&service, made).await?))
}
