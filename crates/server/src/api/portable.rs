//! Workflows carried from one server to another.

use relais_service::{Arrived, Imported, OnClash, Package};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::workflows::{WholeWorkflow, whole};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Writes};
use crate::problem::{Problem, Problems};
use crate::revisions::{Created, Tagged};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(export)).routes(routes!(export_several)).routes(routes!(import))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
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
    /// `name (2)`, and no alias; refused where the export itself goes by the name.
    #[default]
    Rename,
    /// An agent or a called workflow of that name is used as it is here; the rest is renamed.
    Reuse,
    Refuse,
}

impl From<Clash> for OnClash {
    fn from(clash: Clash) -> OnClash {
        match clash {
            Clash::Rename => OnClash::Rename,
            Clash::Reuse => OnClash::Reuse,
            Clash::Refuse => OnClash::Refuse,
        }
    }
}

/// Workflows to be exported together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportWorkflows {
    /// Ids, aliases or names.
    #[schema(min_items = 1, max_items = 100)]
    pub workflows: Vec<String>,
    /// The older versions, too: the newest hundred of each.
    #[serde(default)]
    pub history: bool,
}

/// What came in: the first workflow of the export, and a line for each.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImportView {
    #[serde(flatten)]
    pub first: WholeWorkflow,
    pub imported: Vec<ImportedView>,
}

/// A workflow that came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportedView {
    pub id: Uuid,
    pub name: String,
    pub alias: Option<String>,
    pub version: u64,
    /// What it is called in the export.
    pub exported_name: String,
    pub exported_alias: Option<String>,
}

impl From<Arrived> for ImportedView {
    fn from(arrived: Arrived) -> ImportedView {
        let Arrived { workflow, exported_name, exported_alias } = arrived;
        let relais_service::Workflow { id, name, alias, version, .. } = workflow.it;
        ImportedView { id, name, alias, version, exported_name, exported_alias }
    }
}

/// A workflow with all that it uses (workflows, agents, steps, triggers) as one document.
#[utoipa::path(get, path = "/workflows/{id}/export", operation_id = "export_workflow", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), Exporting),
    responses((status = OK, body = Object), Problems))]
async fn export(
    Reads(service): Reads,
    Path(id): Path<String>,
    Query(Exporting { history }): Query<Exporting>,
) -> Result<Json<Package>, Problem> {
    Ok(Json(service.export_workflows(&[id], history).await?))
}

/// Several workflows with all that they use as one document.
#[utoipa::path(post, path = "/workflows/export", operation_id = "export_workflows", tag = "workflows", request_body = ExportWorkflows,
    responses((status = OK, body = Object), Problems))]
async fn export_several(
    Reads(service): Reads,
    Json(ExportWorkflows { workflows, history }): Json<ExportWorkflows>,
) -> Result<Json<Package>, Problem> {
    Ok(Json(service.export_workflows(&workflows, history).await?))
}

/// Take in an export: everything in it gets an id of its own here. Answers its first workflow, and what each became.
#[utoipa::path(post, path = "/workflows/import", operation_id = "import_workflows", tag = "workflows", request_body = ImportWorkflows,
    responses((status = CREATED, body = ImportView), Problems))]
async fn import(Writes(service): Writes, Json(body): Json<ImportWorkflows>) -> Result<Created<ImportView>, Problem> {
    let Imported { first, all } = service.import_workflows(body.package, body.on_clash.into()).await?;
    let path = format!("/api/v1/workflows/{}", first.it.id);
    let Tagged(first, revision) = whole(&service, first).await?;
    let imported = all.into_iter().map(ImportedView::from).collect();
    Ok(Created(path, Tagged(ImportView { first, imported }, revision)))
}
