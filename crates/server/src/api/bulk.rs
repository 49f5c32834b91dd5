//! The same said to many runs: cancel, resume, retry or fork all that a filter finds.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_service::{Act, Bulk, Filter, Service};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::budget::Budget;
use super::runs::{moment, of_workflow, statuses};
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, begin)).routes(routes!(get))
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    Cancel,
    Resume,
    Retry,
    Fork,
}

/// What is said to which runs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBulk {
    pub action: BulkAction,
    pub filter: BulkFilter,
    /// Retry and fork: the step to begin with.
    pub from: Option<String>,
    /// Fork: the model of all agents.
    pub model: Option<String>,
    /// Resume: in place of the runs' own.
    pub budget: Option<Budget>,
    /// Make calls again that were made and may be made once only, or of which it is not known whether they were made.
    #[serde(default)]
    pub redo: bool,
    /// Only count the runs; nothing is said to them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which runs; at least one of these, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkFilter {
    /// One status or several, with commas between. Left out: those that the action can be said to.
    pub status: Option<String>,
    /// The id, the alias or the name of a workflow.
    pub workflow: Option<String>,
    pub thread: Option<String>,
    /// `team=sales`; a run must have all of them.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Only runs that ended with an error of this kind.
    pub error: Option<String>,
    /// RFC 3339.
    #[schema(format = DateTime)]
    pub started_after: Option<String>,
    /// RFC 3339.
    #[schema(format = DateTime)]
    pub started_before: Option<String>,
    /// All runs that the action can be said to.
    #[serde(default)]
    pub all: bool,
}

impl BulkFilter {
    pub async fn filter(self, service: &Service) -> Result<Filter, Problem> {
        let given =
            [&self.status, &self.workflow, &self.thread, &self.error, &self.started_after, &self.started_before];
        if !self.all && self.tags.is_empty() && given.iter().all(|given| given.is_none()) {
            let ways = "status, workflow, thread, tags, error, started_after, started_before";
            return Err(Problem::invalid(format!("filter: say which runs ({ways}), or `all: true` for all of them")));
        }
        let (workflow_id, workflow) = match self.workflow {
            Some(text) => of_workflow(service, text).await?,
            None => (None, None),
        };
        Ok(Filter {
            workflow_id,
            workflow,
            thread: self.thread,
            marks: relais_service::marks(&self.tags, self.error.as_deref())?,
            status: statuses(self.status.as_deref())?,
            started_after: moment("started_after", self.started_after.as_deref())?,
            started_before: moment("started_before", self.started_before.as_deref())?,
            roots_only: true,
            ..Filter::default()
        })
    }
}

impl NewBulk {
    pub fn act(&mut self) -> Result<Act, Problem> {
        let redo = self.redo;
        let mut from = || {
            let lacks = || Problem::invalid("from: retry and fork need the step to begin with");
            self.from.take().ok_or_else(lacks)
        };
        Ok(match self.action {
            BulkAction::Cancel => Act::Cancel,
            BulkAction::Resume => {
                let budget = self.budget.take().map(Budget::checked).transpose().map_err(Problem::invalid)?;
                Act::Resume { redo, budget: budget.unwrap_or_default() }
            }
            BulkAction::Retry => Act::Retry { from: from()?, redo },
            BulkAction::Fork => Act::Fork { from: from()?, model: self.model.take(), redo },
        })
    }
}

/// How far something has come that is said to many runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkView {
    pub id: Uuid,
    /// `cancel`, `resume`, `retry` or `fork`.
    pub action: String,
    #[schema(format = DateTime)]
    pub at: String,
    /// `running` or `done`.
    pub status: String,
    /// Runs in all.
    pub total: usize,
    /// Those that it was said to.
    pub done: usize,
    /// Those that refused it.
    pub refused: usize,
    /// The first that refused it, and why.
    pub problems: Vec<BulkProblemView>,
    /// The runs that forks have made.
    pub made: Vec<Uuid>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
}

/// A run that refused what was said to it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkProblemView {
    pub run: Uuid,
    pub message: String,
}

impl From<Bulk> for BulkView {
    fn from(bulk: Bulk) -> BulkView {
        let status = if bulk.ended_at.is_some() { "done" } else { "running" };
        let problem = |it: relais_service::BulkProblem| BulkProblemView { run: it.run, message: it.message };
        BulkView {
            id: bulk.id,
            action: bulk.act.word().to_owned(),
            at: instant(bulk.at),
            status: status.to_owned(),
            total: bulk.total,
            done: bulk.done,
            refused: bulk.refused,
            problems: bulk.problems.into_iter().map(problem).collect(),
            made: bulk.made,
            ended_at: bulk.ended_at.map(instant),
        }
    }
}

/// How many runs a filter finds.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BulkCount {
    pub total: usize,
}

/// Say the same to all runs that a filter finds.
///
/// Which runs those are is decided now; they are spoken to in the background, also after a restart. With `dry_run` the
/// answer is only their number.
#[utoipa::path(post, path = "/bulk", operation_id = "begin_bulk", tag = "bulk", request_body = NewBulk,
    responses((status = OK, body = BulkCount),
        (status = ACCEPTED, body = BulkView, headers(("Location" = String, description = "How far it has come"))),
        Problems))]
async fn begin(Runs(service): Runs, Json(mut new): Json<NewBulk>) -> Result<Response, Problem> {
    let act = new.act()?;
    let filter = new.filter.filter(&service).await?;
    if new.dry_run {
        let total = service.count_bulk(&act, filter).await?;
        return Ok(Json(BulkCount { total }).into_response());
    }
    let bulk = service.begin_bulk(act, filter).await?;
    let location = [(header::LOCATION, format!("/api/v1/bulk/{}", bulk.id))];
    Ok((StatusCode::ACCEPTED, location, Json(BulkView::from(bulk))).into_response())
}

/// List what was said to many runs, newest first.
#[utoipa::path(get, path = "/bulk", operation_id = "list_bulk", tag = "bulk", params(Paging),
    responses((status = OK, body = Page<BulkView>), Problems))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<BulkView>>, Problem> {
    let (found, next) = service.bulks(paging.cursor.clone(), paging.limit()).await?;
    Ok(Json(Page { items: found.into_iter().map(|at| at.it.into()).collect(), next }))
}

/// See how far it has come.
#[utoipa::path(get, path = "/bulk/{id}", operation_id = "get_bulk", tag = "bulk",
    params(("id" = Uuid, Path)), responses((status = OK, body = BulkView), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Json<BulkView>, Problem> {
    Ok(Json(service.bulk(id).await?.into()))
}
