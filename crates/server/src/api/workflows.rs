//! Workflows: made, read, changed, started.

use std::collections::BTreeMap;

use relais_service::{
    Deletion, Format, Mode, NewWorkflow, Removal, Service, Start, Tally, Workflow, WorkflowChange, WorkflowList,
    Written,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::instances::InstancePart;
use super::runs::RunRow;
use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs, Writes};
use crate::pages::{DEFAULT_LIMIT, Page, bounded};
use crate::problem::{Problem, Problems};
use crate::revisions::{Created, IdempotencyKey, IfMatch, Tagged};
use crate::times::instant;
use crate::traced::TraceParent;

pub fn routes() -> OpenApiRouter<App> {
    let router = OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, update, delete));
    router.routes(routes!(deletion)).routes(routes!(run))
}

/// A workflow as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowView {
    pub id: Uuid,
    pub name: String,
    /// Accepted wherever the id is.
    pub alias: Option<String>,
    pub description: String,
    pub status: Status,
    /// The newest version; 0 while the workflow is empty.
    pub version: u64,
    pub format: Option<String>,
    /// Whether the newest version has something to start without naming a branch.
    pub runnable: bool,
    /// Offered as a tool and an agent of its own.
    pub published: bool,
    /// The step objects that it is made of, in order, where it is edited step by step.
    pub steps: Vec<Uuid>,
    pub trigger_uuid: Option<Uuid>,
    pub template_id: Option<String>,
    pub template_version: Option<String>,
    pub thread_id: String,
    /// The tools when the newest version was made: `version`, `hash` (that of an empty list where it uses none),
    /// `unverified`; null while it cannot run.
    #[schema(value_type = Option<Object>)]
    pub manifest: Value,
    pub created_at: String,
    pub updated_at: String,
    /// Counted up with each change; the ETag is made of it.
    pub revision: u64,
}

/// A workflow with what it does and how its runs have ended; lists leave that out.
#[derive(Debug, Serialize, ToSchema)]
pub struct WholeWorkflow {
    #[serde(flatten)]
    pub workflow: WorkflowView,
    /// The text of the newest version; null while the workflow is empty.
    pub definition: Option<String>,
    #[serde(flatten)]
    pub counters: Counters,
}

/// Runs that have ended, each counted once, as it ended last. Cancelled ones are in the total alone.
#[derive(Debug, Serialize, ToSchema)]
pub struct Counters {
    pub total_runs: u64,
    pub successful_runs: u64,
    /// Those that succeeded in part are among them.
    pub failed_runs: u64,
    /// The one that ended last.
    pub last_run: Option<LastRun>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LastRun {
    pub id: Uuid,
    pub status: super::runs::Status,
    pub ended_at: String,
}

impl From<Tally> for Counters {
    fn from(tally: Tally) -> Counters {
        let last_run = tally.last.map(|last| LastRun {
            id: last.run,
            status: last.status.into(),
            ended_at: instant(last.ended_at),
        });
        Counters { total_runs: tally.total, successful_runs: tally.successful, failed_runs: tally.failed, last_run }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Active,
    /// Triggers do not fire; it may be started by hand.
    Paused,
    /// Hidden from lists, not runnable.
    Archived,
}

impl From<relais_service::WorkflowStatus> for Status {
    fn from(status: relais_service::WorkflowStatus) -> Status {
        match status {
            relais_service::WorkflowStatus::Active => Status::Active,
            relais_service::WorkflowStatus::Paused => Status::Paused,
            relais_service::WorkflowStatus::Archived => Status::Archived,
        }
    }
}

impl From<Status> for relais_service::WorkflowStatus {
    fn from(status: Status) -> relais_service::WorkflowStatus {
        match status {
            Status::Active => relais_service::WorkflowStatus::Active,
            Status::Paused => relais_service::WorkflowStatus::Paused,
            Status::Archived => relais_service::WorkflowStatus::Archived,
        }
    }
}

impl WorkflowView {
    pub fn new(at: relais_service::At<Workflow>) -> WorkflowView {
        let relais_service::At { it, revision } = at;
        WorkflowView {
            id: it.id,
            name: it.name,
            alias: it.alias,
            description: it.description,
            status: it.status.into(),
            version: it.version,
            format: it.format,
            runnable: it.plan.is_some(),
            published: it.published,
            steps: it.steps,
            trigger_uuid: it.trigger_uuid,
            template_id: it.template_id,
            template_version: it.template_version,
            thread_id: it.thread_id,
            manifest: it.manifest,
            created_at: instant(it.created_at),
            updated_at: instant(it.updated_at),
            revision,
        }
    }
}

/// A definition: its text, or the same as a JSON object.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or an object is expected")]
pub enum DefinitionText {
    Text(String),
    Tree(Map<String, Value>),
}

impl DefinitionText {
    pub fn written(self, format: Option<&str>, lenient: bool) -> Result<Written, Problem> {
        let text = match self {
            DefinitionText::Text(text) => text,
            DefinitionText::Tree(tree) => format!("{:#}", Value::Object(tree)),
        };
        Ok(Written { text, format: format.map(format_named).transpose()?, lenient })
    }
}

fn format_named(word: &str) -> Result<Format, Problem> {
    let words = Format::ALL.map(Format::word).join(", ");
    Format::named(word).ok_or_else(|| Problem::invalid(format!("there is no format `{word}`; there are: {words}")))
}

/// A workflow to be made; without a definition it is empty.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkflow {
    /// Default: the name that the definition gives.
    #[schema(max_length = 255)]
    pub name: Option<String>,
    pub description: Option<String>,
    /// Unique; default: the one that the definition gives, if any.
    #[schema(max_length = 255)]
    pub alias: Option<String>,
    pub definition: Option<DefinitionText>,
    /// `native`, `chain`, `steps`, `pipeline`, `graph` or `dag`; default: told by the definition's shape.
    pub format: Option<String>,
    /// Keep a definition that cannot run yet.
    #[serde(default)]
    pub lenient: bool,
    #[serde(default)]
    pub published: bool,
    #[serde(default)]
    pub thread_id: String,
    pub template_id: Option<String>,
    pub template_version: Option<String>,
}

/// What is to be changed; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateWorkflow {
    #[schema(max_length = 255)]
    pub name: Option<String>,
    pub description: Option<String>,
    /// An empty text takes the alias away.
    #[schema(max_length = 255)]
    pub alias: Option<String>,
    pub status: Option<Status>,
    pub published: Option<bool>,
    /// A definition that says something else than the newest version is a new version.
    pub definition: Option<DefinitionText>,
    pub format: Option<String>,
    #[serde(default)]
    pub lenient: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Only those of this status; default: all but the archived.
    status: Option<Status>,
    /// The archived, too.
    #[serde(default)]
    archived: bool,
    /// Workflows on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// How a run is to be started.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Any JSON; checked against what the workflow takes.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub input: Value,
    /// The branch of a graph, or one of several workflows of a definition.
    pub branch: Option<String>,
    /// Default: the newest.
    pub version: Option<u64>,
    /// The same as `input`, in the words of instances: any JSON, what `<<trigger_output>>` stands for.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    pub triggering_data: Value,
    #[serde(default)]
    pub thread: String,
    /// Words of your own that the run is found by, beside those of the definition.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Made-up answers in place of every model and tool.
    #[serde(default)]
    pub simulate: bool,
    /// What made-up answers are made from.
    #[schema(format = "uint64")]
    pub seed: Option<u64>,
    /// Takes the place of every agent's model.
    pub model: Option<String>,
}

/// List workflows, newest first.
#[utoipa::path(get, path = "/workflows", operation_id = "list_workflows", tag = "workflows", params(Listing),
    responses((status = OK, body = Page<WorkflowView>), Problems))]
async fn list(
    Reads(service): Reads,
    Query(Listing { status, archived, limit, cursor }): Query<Listing>,
) -> Result<Json<Page<WorkflowView>>, Problem> {
    let (limit, status) = (limit.unwrap_or(DEFAULT_LIMIT), status.map(Into::into));
    let list = WorkflowList { status, archived_too: archived, after: cursor, limit };
    let (found, next) = service.workflows(list).await?;
    Ok(Json(Page { items: found.into_iter().map(WorkflowView::new).collect(), next }))
}

/// Make a workflow, empty or from a definition of any format.
#[utoipa::path(post, path = "/workflows", operation_id = "create_workflow", tag = "workflows", request_body = CreateWorkflow,
    params(IdempotencyKey),
    responses((status = CREATED, body = WorkflowView), Problems))]
async fn create(
    Writes(service): Writes,
    key: IdempotencyKey,
    Json(body): Json<CreateWorkflow>,
) -> Result<Created<WorkflowView>, Problem> {
    let once = key.once(&service, "workflows", &body);
    let (format, lenient) = (body.format, body.lenient);
    let new = NewWorkflow {
        name: body.name,
        description: body.description,
        alias: body.alias,
        definition: body.definition.map(|text| text.written(format.as_deref(), lenient)).transpose()?,
        published: body.published,
        thread_id: body.thread_id,
        template_id: body.template_id,
        template_version: body.template_version,
        once,
    };
    let made = service.create_workflow(new).await?;
    Ok(Created(format!("/api/v1/workflows/{}", made.it.id), Tagged(WorkflowView::new(made.clone()), made.revision)))
}

/// Read a workflow by id, alias or name, with the text of its newest version and the counters of its runs.
#[utoipa::path(get, path = "/workflows/{id}", operation_id = "get_workflow", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name")),
    responses((status = OK, body = WholeWorkflow), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<String>) -> Result<Tagged<WholeWorkflow>, Problem> {
    let found = service.find_workflow(&id).await?;
    whole(&service, found).await
}

/// Change a workflow.
#[utoipa::path(patch, path = "/workflows/{id}", operation_id = "update_workflow", tag = "workflows", request_body = UpdateWorkflow,
    params(("id" = String, Path, description = "Id, alias or name"),
        IfMatch),
    responses((status = OK, body = WholeWorkflow), Problems))]
async fn update(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Json(body): Json<UpdateWorkflow>,
) -> Result<Tagged<WholeWorkflow>, Problem> {
    let (format, lenient) = (body.format, body.lenient);
    let change = WorkflowChange {
        name: body.name,
        description: body.description,
        alias: body.alias,
        status: body.status.map(Into::into),
        published: body.published,
        definition: body.definition.map(|text| text.written(format.as_deref(), lenient)).transpose()?,
    };
    let changed = service.update_workflow(&id, change, revision).await?;
    whole(&service, changed).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Deleting {
    /// Cancel its runs that are active, and let those that call it go on with the plan that they have until they are saved
    /// again; without it both are in the way.
    #[serde(default)]
    force: bool,
    /// Its runs, their outputs and artifacts stay.
    #[serde(default)]
    keep_runs: bool,
}

impl From<Deleting> for Removal {
    fn from(Deleting { force, keep_runs }: Deleting) -> Removal {
        Removal { force, keep_runs }
    }
}

/// What goes with a workflow that is deleted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeletionView {
    pub workflow_id: Uuid,
    pub name: String,
    pub versions: u64,
    pub triggers: usize,
    /// Step objects.
    pub steps: usize,
    /// Runs with their outputs and artifacts; those that it would keep are not among them.
    pub runs: usize,
    /// There are more than were counted.
    pub more_runs: bool,
    /// Runs among them that are active and would be cancelled.
    pub active_runs: usize,
}

impl From<Deletion> for DeletionView {
    fn from(Deletion { workflow, triggers, runs, more_runs, active }: Deletion) -> DeletionView {
        DeletionView {
            workflow_id: workflow.id,
            name: workflow.name,
            versions: workflow.version,
            triggers,
            steps: workflow.steps.len(),
            runs,
            more_runs,
            active_runs: active,
        }
    }
}

/// What a deletion with the same parameters would take away, or why it would be refused. Changes nothing.
#[utoipa::path(get, path = "/workflows/{id}/deletion", operation_id = "get_workflow_deletion", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), Deleting),
    responses((status = OK, body = DeletionView), Problems))]
async fn deletion(
    Reads(service): Reads,
    Path(id): Path<String>,
    Query(deleting): Query<Deleting>,
) -> Result<Json<DeletionView>, Problem> {
    Ok(Json(service.deletion(&id, deleting.into()).await?.into()))
}

/// Delete a workflow with its triggers and steps, and its runs with their outputs and artifacts.
#[utoipa::path(delete, path = "/workflows/{id}", operation_id = "delete_workflow", tag = "workflows",
    params(("id" = String, Path, description = "Id, alias or name"), Deleting,
        IfMatch),
    responses((status = NO_CONTENT), Problems))]
async fn delete(
    Writes(service): Writes,
    Path(id): Path<String>,
    IfMatch(revision): IfMatch,
    Query(deleting): Query<Deleting>,
) -> Result<axum::http::StatusCode, Problem> {
    service.delete_workflow(&id, deleting.into(), revision).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}

/// Start a run; it is durable when this answers and goes on in the background.
#[utoipa::path(post, path = "/workflows/{id}/run", operation_id = "run_workflow", tag = "workflows", request_body = StartRun,
    params(("id" = String, Path, description = "Id, alias or name"),
        IdempotencyKey,
        ("traceparent" = Option<String>, Header, description = "The trace that the run joins (W3C Trace Context)")),
    responses((status = ACCEPTED, body = StartedRun), Problems))]
async fn run(
    Runs(service): Runs,
    Path(id): Path<String>,
    IdempotencyKey(key): IdempotencyKey,
    TraceParent(traceparent): TraceParent,
    Json(body): Json<StartRun>,
) -> Result<Accepted, Problem> {
    let mode = Mode { simulate: body.simulate, seed: body.seed, model: body.model, ..Mode::default() };
    let input = one_input(body.input, body.triggering_data)?;
    let start = Start { input, mode, thread: body.thread, tags: body.tags, key, traceparent, ..Start::default() };
    let run = service.start_workflow(&id, body.branch.as_deref(), body.version, start).await?;
    let location = [(axum::http::header::LOCATION, format!("/api/v1/runs/{run}"))];
    let started = StartedRun { run: service.row(run).await?.into(), instance: InstancePart::of(&service, run).await? };
    Ok((axum::http::StatusCode::ACCEPTED, location, Json(started)))
}

type Accepted = (axum::http::StatusCode, [(axum::http::HeaderName, String); 1], Json<StartedRun>);

/// A run that was started: what lists show of it, and what it is as an instance.
#[derive(Debug, Serialize, ToSchema)]
pub struct StartedRun {
    #[serde(flatten)]
    pub run: RunRow,
    #[serde(flatten)]
    pub instance: InstancePart,
}

/// Both names mean the same thing.
fn one_input(input: Value, triggering_data: Value) -> Result<Value, Problem> {
    match (input.is_null(), triggering_data.is_null()) {
        (_, true) => Ok(input),
        (true, false) => Ok(triggering_data),
        (false, false) => {
            let text = "`input` and `triggering_data` are two names of the same thing; give one of them";
            Err(relais_service::Error::Invalid(text.into()).into())
        }
    }
}

pub(super) async fn whole(
    service: &Service,
    at: relais_service::At<Workflow>,
) -> Result<Tagged<WholeWorkflow>, Problem> {
    let definition = service.definition_of(&at.it).await?;
    let counters = service.tally(at.it.id).await?.into();
    let revision = at.revision;
    Ok(Tagged(WholeWorkflow { workflow: WorkflowView::new(at), definition, counters }, revision))
}
