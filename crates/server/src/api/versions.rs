//! The versions of a workflow, and the way back to one of them.

use relais_service::{Numbered, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::workflows::{WholeWorkflow, whole};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Writes};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::revisions::{IfMatch, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(roll_back))
        .routes(routes!(accept_tools))
}

/// One version of a workflow; it never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    pub version: u64,
    pub created_at: String,
    /// Why it was made, such as `created` or `rolled back to 3`.
    pub reason: String,
    pub format: String,
    /// Whether it can be started.
    pub runnable: bool,
    pub branches: Vec<String>,
    /// The kept agents that it uses.
    pub agents: Vec<Uuid>,
    /// The tools when it was made: `version`, `hash`, `unverified`; null where it cannot run.
    #[schema(value_type = Option<Object>)]
    pub manifest: Value,
    /// The text as its author wrote it; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl VersionView {
    pub fn new(numbered: Numbered, with_text: bool) -> VersionView {
        let Numbered { number, at, version } = numbered;
        let Version { definition, format, plan, branches, manifest, agents, reason } = version;
        VersionView {
            version: number,
            created_at: instant(at),
            reason,
            format,
            runnable: plan.is_some() || !branches.is_empty(),
            branches: branches.into_keys().collect(),
            agents,
            manifest,
            definition: Some(definition).filter(|_| with_text),
        }
    }
}

/// Where to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    pub version: u64,
}

/// List the versions of a workflow, newest first.
#[utoipa::path(get, path = "/workflows/{id}/versions", operation_id = "list_versions", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), Paging),
    responses((status = OK, body = Page<VersionView>), Problems))]
async fn list(
    Reads(service): Reads,
    Path(id): Path<String>,
    Query(paging): Query<Paging>,
) -> Result<Json<Page<VersionView>>, Problem> {
    let wrong = |_| Problem::invalid("cursor: give `next` of the page before");
    let limit = paging.limit();
    let before = paging.cursor.filter(|text| !text.is_empty()).map(|text| text.parse::<u64>().map_err(wrong));
    let (found, next) = service.versions(&id, before.transpose()?, limit).await?;
    let items = found.into_iter().map(|version| VersionView::new(version, false)).collect();
    Ok(Json(Page { items, next: next.map(|next| next.to_string()) }))
}

/// Read one version with its text.
#[utoipa::path(get, path = "/workflows/{id}/versions/{version}", operation_id = "get_version", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), ("version" = u64, Path)),
    responses((status = OK, body = VersionView), Problems))]
async fn get(Reads(service): Reads, Path((id, version)): Path<(String, String)>) -> Result<Json<VersionView>, Problem> {
    Ok(Json(VersionView::new(service.version(&id, &version).await?, true)))
}

/// Make a new version that says what an old one said.
#[utoipa::path(post, path = "/workflows/{id}/rollback", operation_id = "roll_back_workflow", tag = "workflows", request_body = RollBack,
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WholeWorkflow), Problems))]
async fn roll_back(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(RollBack { version }): Json<RollBack>,
) -> Result<Tagged<WholeWorkflow>, Problem> {
    let changed = service.roll_back(&id, version, revision).await?;
    whole(&service, changed).await
}

/// Take the tools as they are now for the known ones: a new version that says what the newest says. Where they were known
/// already, nothing changes.
#[utoipa::path(post, path = "/workflows/{id}/accept-tools", operation_id = "accept_workflow_tools", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WholeWorkflow), Problems))]
async fn accept_tools(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
) -> Result<Tagged<WholeWorkflow>, Problem> {
    let changed = service.accept_tools(&id, revision).await?;
    whole(&service, changed).await
}
