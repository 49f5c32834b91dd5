//! Runs: listed, read, waited for. What one run did is in [`parts`], what can be done with it in [`signals`], and what
//! happens to it in [`events`].

mod events;
mod parts;
mod signals;
mod starts;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use relais_engine::{Failure, Millis, RunStatus, Usage};
use relais_plan::time::{parse_duration, parse_instant};
use relais_service::{Error, Filter, Row, Service, Waits, mistakes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::Reads;
use crate::listen::told;
use crate::pages::{DEFAULT_LIMIT, Page, bounded};
use crate::problem::{Problem, Problems};
use crate::times::instant;

/// Less than the time in which every request is answered.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub fn routes() -> OpenApiRouter<App> {
    let own = OpenApiRouter::new().routes(routes!(list)).routes(routes!(get));
    own.merge(parts::routes()).merge(signals::routes()).merge(events::routes()).merge(starts::routes())
}

/// How a run stands. `completed`, `stopped`, `partial_success`, `failed` and `cancelled` are ends. `interrupted`: whoever
/// worked on it is gone; a server takes it up by itself, and `POST /runs/{id}/resume` at once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RunStatus)]
pub enum Status {
    Pending,
    Running,
    Interrupted,
    Waiting,
    Completed,
    Stopped,
    PartialSuccess,
    Failed,
    Cancelled,
}

impl From<RunStatus> for Status {
    fn from(status: RunStatus) -> Status {
        match status {
            RunStatus::Pending => Status::Pending,
            RunStatus::Running => Status::Running,
            RunStatus::Interrupted => Status::Interrupted,
            RunStatus::Waiting => Status::Waiting,
            RunStatus::Completed => Status::Completed,
            RunStatus::Stopped => Status::Stopped,
            RunStatus::PartialSuccess => Status::PartialSuccess,
            RunStatus::Failed => Status::Failed,
            RunStatus::Cancelled => Status::Cancelled,
        }
    }
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> RunStatus {
        match status {
            Status::Pending => RunStatus::Pending,
            Status::Running => RunStatus::Running,
            Status::Interrupted => RunStatus::Interrupted,
            Status::Waiting => RunStatus::Waiting,
            Status::Completed => RunStatus::Completed,
            Status::Stopped => RunStatus::Stopped,
            Status::PartialSuccess => RunStatus::PartialSuccess,
            Status::Failed => RunStatus::Failed,
            Status::Cancelled => RunStatus::Cancelled,
        }
    }
}

/// A run as lists show it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunRow {
    pub id: Uuid,
    /// Number of the last entry in its journal.
    pub seq: u64,
    /// Hash of the plan that it follows.
    pub plan: String,
    pub user: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The id of the workflow, where the run is of a kept one.
    pub workflow_id: Option<String>,
    pub version: Option<u32>,
    pub branch: Option<String>,
    /// The id of the trigger that started it.
    pub trigger: Option<String>,
    pub thread: Option<String>,
    /// Words of people's own that it is found by.
    pub tags: BTreeMap<String, String>,
    /// The run that started it.
    pub parent: Option<Uuid>,
    pub status: Status,
    #[schema(format = DateTime)]
    pub started_at: String,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    pub usage: Used,
    pub error: Option<RunError>,
    /// `time`, `person:3`, `signal:go`, `event:order.paid`, `run:<id>`, `paused`.
    pub waits_for: Vec<String>,
    /// When time alone makes it go on.
    #[schema(format = DateTime)]
    pub wakes_at: Option<String>,
    /// How the tools of the workflow had changed since its version was made, in words, when the run was started.
    pub drift: Option<String>,
}

/// What was used so far, child runs included.
#[derive(Debug, Serialize, ToSchema)]
pub struct Used {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Part of `prompt_tokens` that came from the provider's cache.
    pub cached_tokens: u64,
    /// Part of `completion_tokens` that was thought, not said.
    pub reasoning_tokens: u64,
    /// Part of both: tokens that no provider counted.
    pub estimated_tokens: u64,
    pub usd: f64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub retries: u64,
}

impl From<Usage> for Used {
    fn from(usage: Usage) -> Used {
        Used {
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            cached_tokens: usage.cached,
            reasoning_tokens: usage.reasoning,
            estimated_tokens: usage.estimated,
            usd: usage.usd_nanos as f64 / 1e9,
            model_calls: usage.model_calls,
            tool_calls: usage.tool_calls,
            retries: usage.retries,
        }
    }
}

/// Why a run failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunError {
    /// `config`, `schema`, `reference`, `timeout`, `rate_limit`, `transport`, `provider`, `tool`, `refused`, `budget`,
    /// `loop`, `limit`, `uncertain`, `cancelled` or `internal`.
    pub kind: String,
    pub message: String,
}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> RunError {
        RunError { kind: failure.kind.to_string(), message: failure.message }
    }
}

impl From<Row> for RunRow {
    fn from(row: Row) -> RunRow {
        let summary = row.summary;
        let target = summary.target;
        RunRow {
            id: summary.run,
            seq: row.seq,
            plan: summary.plan,
            user: summary.user,
            workflow: summary.workflow,
            workflow_id: Some(target.workflow).filter(|id| !id.is_empty()),
            version: Some(target.version).filter(|version| *version > 0),
            branch: target.branch,
            trigger: target.trigger,
            tags: target.tags,
            thread: Some(summary.thread).filter(|thread| !thread.is_empty()),
            parent: summary.parent,
            status: summary.status.into(),
            started_at: instant(summary.started_at),
            ended_at: summary.ended_at.map(instant),
            usage: summary.usage.into(),
            error: summary.error.map(RunError::from),
            waits_for: summary.awaits,
            wakes_at: summary.wake_at.map(instant),
            drift: target.drift,
        }
    }
}

/// Which runs a list shows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// One status or several, with commas between.
    #[param(value_type = Option<Vec<Status>>, style = Form, explode = false)]
    status: Option<String>,
    /// The id, the alias or the name of a workflow.
    workflow: Option<String>,
    thread: Option<String>,
    /// One tag, `team=sales`, or several with commas between; a run must have all of them.
    tag: Option<String>,
    /// Only runs that ended with an error of this kind, such as `timeout`.
    error: Option<String>,
    /// Only the child runs of this run.
    parent: Option<Uuid>,
    /// Leave out runs that other runs have started.
    #[serde(default)]
    roots_only: bool,
    /// RFC 3339.
    #[param(format = DateTime)]
    started_after: Option<String>,
    /// RFC 3339.
    #[param(format = DateTime)]
    started_before: Option<String>,
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

impl Which {
    async fn filter(self, service: &Service) -> Result<Filter, Problem> {
        let (workflow_id, workflow) = match self.workflow {
            Some(text) => of_workflow(service, text).await?,
            None => (None, None),
        };
        Ok(Filter {
            workflow_id,
            workflow,
            thread: self.thread,
            marks: relais_service::marks(&listed(self.tag.as_deref()), self.error.as_deref())?,
            status: statuses(self.status.as_deref())?,
            parent: self.parent,
            roots_only: self.roots_only,
            started_after: moment("started_after", self.started_after.as_deref())?,
            started_before: moment("started_before", self.started_before.as_deref())?,
            cursor: self.cursor,
            limit: self.limit.unwrap_or(DEFAULT_LIMIT),
            ..Filter::default()
        })
    }
}

/// The id of a kept workflow, or else a name. Runs are found by the id of a workflow that is gone, and by the name of
/// one that is only a file.
pub(super) async fn of_workflow(service: &Service, text: String) -> Result<(Option<String>, Option<String>), Problem> {
    if let Ok(id) = text.parse::<Uuid>() {
        return Ok((Some(id.to_string()), None));
    }
    match service.find_workflow(&text).await {
        Ok(found) => Ok((Some(found.it.id.to_string()), None)),
        Err(Error::NotFound(_)) => Ok((None, Some(text))),
        Err(error) => Err(error.into()),
    }
}

/// Words with commas between.
fn listed(text: Option<&str>) -> Vec<String> {
    text.map_or_else(Vec::new, |text| text.split(',').map(|word| word.trim().to_owned()).collect())
}

pub(super) fn statuses(text: Option<&str>) -> Result<Vec<RunStatus>, Problem> {
    let one = |word: &str| {
        let status: Result<Status, _> = serde_json::from_value(Value::String(word.trim().to_owned()));
        status
            .map(RunStatus::from)
            .map_err(|error| Problem::invalid(format!("status: {}", mistakes::in_words(&error.to_string()))))
    };
    text.map_or_else(|| Ok(Vec::new()), |text| text.split(',').map(one).collect())
}

pub(super) fn moment(name: &str, text: Option<&str>) -> Result<Option<Millis>, Problem> {
    let unclear = |text: &str| {
        let right = "write it like 2026-11-16T08:30:00Z";
        Problem::invalid(format!("{name}: `{text}` is no time; {right}"))
    };
    text.map(|text| parse_instant(text).ok_or_else(|| unclear(text))).transpose()
}

/// List runs, newest first.
#[utoipa::path(get, path = "/runs", operation_id = "list_runs", tag = "runs", params(Which),
    responses((status = OK, body = Page<RunRow>), Problems))]
async fn list(Reads(service): Reads, Query(which): Query<Which>) -> Result<Json<Page<RunRow>>, Problem> {
    let page = service.runs(which.filter(&service).await?).await?;
    Ok(Json(Page { items: page.rows.into_iter().map(RunRow::from).collect(), next: page.cursor }))
}

/// A run with what it asks people.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunDetails {
    #[serde(flatten)]
    pub row: RunRow,
    /// It has ended, or nothing more happens until somebody does something.
    pub rests: bool,
    /// What it, or a child run that it waits for, asks people.
    pub questions: Vec<Question>,
}

/// Something that a run waits for and a person can give.
#[derive(Debug, Serialize, ToSchema)]
pub struct Question {
    /// The run that asks.
    pub run: Uuid,
    /// The step that asks; how the answer names it.
    pub step: String,
    /// The number of the question, for a step that asks several.
    pub id: u32,
    pub question: String,
    /// What belongs to the question: the arguments of a tool call, for example.
    pub show: Value,
    /// JSON Schema of the answer.
    pub answer: Value,
    #[schema(format = DateTime)]
    pub deadline: Option<String>,
    /// The tool that waits for a yes.
    pub tool: Option<String>,
}

impl Question {
    fn new(run: Uuid, waits: Waits) -> Question {
        let question = waits.question;
        Question {
            run,
            step: waits.step,
            id: waits.command,
            question: question.question,
            show: question.show,
            answer: question.answer,
            deadline: question.deadline.map(instant),
            tool: question.approves.map(|call| call.tool),
        }
    }
}

async fn questions(service: &Service, run: Uuid) -> Result<Vec<Question>, Problem> {
    let open = service.open_questions(run).await?;
    Ok(open.into_iter().map(|(run, waits)| Question::new(run, waits)).collect())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Waiting {
    /// Answer when the run has ended or waits for somebody, at the latest after this time: `30s`, at most `60s`.
    #[param(example = "30s")]
    wait: Option<String>,
}

impl Waiting {
    fn limit(&self) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.wait.as_deref() else { return Ok(None) };
        let limit = parse_duration(text).map(Duration::from_millis).filter(|limit| *limit <= MAX_WAIT);
        let unclear = || Problem::invalid(format!("wait: `{text}` must be a time of at most 60s, such as 30s"));
        limit.map(Some).ok_or_else(unclear)
    }
}

/// Read one run.
#[utoipa::path(get, path = "/runs/{id}", operation_id = "get_run", tag = "runs",
    params(("id" = Uuid, Path), Waiting), responses((status = OK, body = RunDetails), Problems))]
async fn get(
    Reads(service): Reads,
    State(app): State<App>,
    Path(run): Path<Uuid>,
    Query(waiting): Query<Waiting>,
) -> Result<Json<RunDetails>, Problem> {
    let row = match waiting.limit()? {
        None => service.row(run).await?,
        Some(limit) => {
            let _place = app.room.lasting()?;
            let mut stop = app.stop.subscribe();
            tokio::select! {
                row = service.rested(run, limit) => row?,
                () = told(&mut stop) => service.row(run).await?,
            }
        }
    };
    let asks = row.summary.status == RunStatus::Waiting;
    let questions = if asks { questions(&service, run).await? } else { Vec::new() };
    let rests = service.rests(&row).await?;
    Ok(Json(RunDetails { row: row.into(), rests, questions }))
}
