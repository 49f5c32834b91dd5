//! Runs: listed, read, signalled.

use relais_service::Row;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::Reads;
use crate::pages::{Page, Paging};
use crate::problem::Problem;
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

/// A run as lists show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunRow {
    pub id: Uuid,
    pub workflow: String,
    /// The id of the workflow, where the run is of a kept one.
    pub workflow_id: Option<String>,
    pub version: Option<u32>,
    pub branch: Option<String>,
    pub status: String,
    pub started_at: String,
    pub ended_at: Option<String>,
}

impl From<Row> for RunRow {
    fn from(row: Row) -> RunRow {
        let summary = row.summary;
        let target = summary.target;
        RunRow {
            id: summary.run,
            workflow: summary.workflow,
            workflow_id: Some(target.workflow).filter(|id| !id.is_empty()),
            version: Some(target.version).filter(|version| *version > 0),
            branch: target.branch,
            status: summary.status.word().to_owned(),
            started_at: instant(summary.started_at),
            ended_at: summary.ended_at.map(instant),
        }
    }
}

/// List runs, newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", params(Paging),
    responses((status = OK, body = Page<RunRow>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<RunRow>>, Problem> {
    let filter = relais_service::Filter { limit: paging.limit(), cursor: paging.cursor, ..Default::default() };
    let page = service.runs(filter).await?;
    Ok(Json(Page { items: page.rows.into_iter().map(RunRow::from).collect(), next: page.cursor }))
}

/// Read one run.
#[utoipa::path(get, path = "/runs/{id}", tag = "runs", params(("id" = Uuid, Path)),
    responses((status = OK, body = RunRow), (status = NOT_FOUND, body = Problem, content_type = "application/problem+json")))]
async fn get(Reads(service): Reads, Path(run): Path<Uuid>) -> Result<Json<RunRow>, Problem> {
    Ok(Json(service.row(run).await?.into()))
}
