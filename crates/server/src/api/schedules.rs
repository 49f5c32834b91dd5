//! Schedules: when workflows run by themselves, and what was decided about each time.

use axum::http::StatusCode;
use relais_plan::{CatchUp, Overlap, TriggerOn};
use relais_service::{Backfill, Backfilled, Decision, Origin, SetSchedule, Timed, Understood, backfill_time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs, Writes};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::revisions::{Created, Tagged};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(preview))
        .routes(routes!(get, remove))
        .routes(routes!(backfill))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(decisions))
        .routes(routes!(trigger_decisions))
        .routes(routes!(list_of_workflow, create_for_workflow))
}

/// When a workflow runs by itself.
#[derive(Debug, Serialize, ToSchema)]
struct ScheduleView {
    id: Uuid,
    workflow_id: Uuid,
    /// The name of the workflow.
    workflow: String,
    branch: Option<String>,
    kind: ScheduleKind,
    /// What was understood.
    #[schema(example = "cron \"0 9 * * MON-FRI\" Europe/Paris")]
    schedule: String,
    overlap: WhenBusy,
    catch_up: WhenMissed,
    /// What the runs are given, any JSON; null: nothing.
    #[schema(value_type = Value)]
    input: Value,
    set_by: SetBy,
    /// Whether it fires.
    active: bool,
    /// Why it does not fire.
    off: Option<String>,
    /// The next five times, RFC 3339 in UTC.
    next_times: Vec<String>,
    /// The same as clocks of its time zone show them.
    next_times_local: Vec<String>,
    /// The last time that was decided on.
    last_time: Option<String>,
    last_run: Option<Uuid>,
    created_at: String,
    updated_at: String,
    revision: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ScheduleKind {
    /// Once, at a time.
    Scheduled,
    /// Again and again, by the clock.
    Recurring,
    /// After each run.
    Continuous,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SetBy {
    /// It comes and goes with the definition.
    Definition,
    Call,
}

/// What happens at a time while the run before it is still going.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WhenBusy {
    /// Nothing starts.
    #[default]
    Skip,
    /// The run starts when that one has ended.
    Queue,
    /// Both go on.
    Allow,
    /// The run before is cancelled.
    CancelRunning,
}

/// What happens about times that passed while no server was running.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WhenMissed {
    /// The last one starts a run.
    #[default]
    One,
    None,
    /// Each starts a run, a hundred at most.
    All,
}

impl From<Overlap> for WhenBusy {
    fn from(overlap: Overlap) -> WhenBusy {
        match overlap {
            Overlap::Skip => WhenBusy::Skip,
            Overlap::Queue => WhenBusy::Queue,
            Overlap::Allow => WhenBusy::Allow,
            Overlap::CancelRunning => WhenBusy::CancelRunning,
        }
    }
}

impl From<WhenBusy> for Overlap {
    fn from(busy: WhenBusy) -> Overlap {
        match busy {
            WhenBusy::Skip => Overlap::Skip,
            WhenBusy::Queue => Overlap::Queue,
            WhenBusy::Allow => Overlap::Allow,
            WhenBusy::CancelRunning => Overlap::CancelRunning,
        }
    }
}

impl From<CatchUp> for WhenMissed {
    fn from(catch_up: CatchUp) -> WhenMissed {
        match catch_up {
            CatchUp::One => WhenMissed::One,
            CatchUp::None => WhenMissed::None,
            CatchUp::All => WhenMissed::All,
        }
    }
}

impl From<WhenMissed> for CatchUp {
    fn from(missed: WhenMissed) -> CatchUp {
        match missed {
            WhenMissed::One => CatchUp::One,
            WhenMissed::None => CatchUp::None,
            WhenMissed::All => CatchUp::All,
        }
    }
}

impl From<Timed> for ScheduleView {
    fn from(timed: Timed) -> ScheduleView {
        let Timed { trigger, revision, workflow, off, understood } = timed;
        ScheduleView {
            id: trigger.uuid,
            workflow_id: trigger.workflow_uuid,
            workflow,
            branch: trigger.branch,
            kind: kind_of(&trigger.on.on),
            schedule: understood.words,
            overlap: trigger.on.overlap.into(),
            catch_up: trigger.on.catch_up.into(),
            input: trigger.on.input,
            set_by: match trigger.origin {
                Origin::Definition => SetBy::Definition,
                Origin::Call => SetBy::Call,
            },
            active: off.is_none(),
            off,
            next_times: understood.next_at.into_iter().map(instant).collect(),
            next_times_local: understood.next_times,
            last_time: trigger.last_tick.map(instant),
            last_run: trigger.last_run,
            created_at: instant(trigger.created_at),
            updated_at: instant(trigger.updated_at),
            revision,
        }
    }
}

fn kind_of(on: &TriggerOn) -> ScheduleKind {
    match on {
        TriggerOn::At(_) => ScheduleKind::Scheduled,
        TriggerOn::Continuous { .. } => ScheduleKind::Continuous,
        TriggerOn::Cron(_) | TriggerOn::Every { .. } | TriggerOn::Calendar(_) => ScheduleKind::Recurring,
        TriggerOn::Manual | TriggerOn::Webhook { .. } | TriggerOn::Event(_) => ScheduleKind::Recurring,
    }
}

/// When a workflow is to run; exactly one of `at`, `cron`, `every` and `continuous`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ScheduleTime {
    /// Once: RFC 3339, or words such as `tomorrow 9am`.
    at: Option<String>,
    /// Cron fields, words such as `every weekday at 8:30`, or `daily@09:00`.
    cron: Option<String>,
    /// A duration such as `15m`, or `daily@09:00`.
    every: Option<String>,
    /// One run after the other; the delay between them, such as `5s`.
    continuous: Option<String>,
    /// An IANA name such as `Europe/Paris`; default: that of the server.
    timezone: Option<String>,
    /// Default: `skip`; with `catch_up: all`, `queue`.
    overlap: Option<WhenBusy>,
    #[serde(default)]
    catch_up: WhenMissed,
    /// What the runs are given, any JSON; checked against what the workflow takes.
    #[serde(default)]
    #[schema(value_type = Value)]
    input: Value,
    /// The branch of a graph; default: the workflow itself.
    branch: Option<String>,
    /// In the place of all schedules of the workflow that were set by calls.
    #[serde(default)]
    replaces: bool,
    /// Id, alias or name of the workflow, where the path names none.
    workflow: Option<String>,
}

impl From<ScheduleTime> for SetSchedule {
    fn from(body: ScheduleTime) -> SetSchedule {
        let ScheduleTime { at, cron, every, continuous, timezone, input, branch, replaces, .. } = body;
        let (overlap, catch_up) = (body.overlap.map(Into::into), body.catch_up.into());
        let by_tool = false;
        SetSchedule { at, cron, every, continuous, timezone, overlap, catch_up, input, branch, replaces, by_tool }
    }
}

/// What would be set.
#[derive(Debug, Serialize, ToSchema)]
struct SchedulePreview {
    schedule: String,
    next_times: Vec<String>,
    next_times_local: Vec<String>,
}

impl From<Understood> for SchedulePreview {
    fn from(understood: Understood) -> SchedulePreview {
        let next_times = understood.next_at.into_iter().map(instant).collect();
        SchedulePreview { schedule: understood.words, next_times, next_times_local: understood.next_times }
    }
}

/// Why a run was started, or was not.
#[derive(Debug, Serialize, ToSchema)]
struct DecisionView {
    id: Uuid,
    at: String,
    /// The time of the schedule that it is about.
    time: Option<String>,
    starts: bool,
    reason: String,
    run: Option<Uuid>,
    /// How often: what is wrongly signed is counted, with the last time and reason.
    times: u64,
}

impl From<Decision> for DecisionView {
    fn from(decision: Decision) -> DecisionView {
        let Decision { id, at, tick, starts, reason, run, times, trigger: _ } = decision;
        DecisionView { id, at: instant(at), time: tick.map(instant), starts, reason, run, times }
    }
}

/// List schedules, those of definitions too, with their next five times.
#[utoipa::path(get, path = "/schedules", operation_id = "list_schedules", tag = "schedules", params(Paging),
    responses((status = OK, body = Page<ScheduleView>), Problems))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<ScheduleView>>, Problem> {
    let limit = paging.limit();
    let (found, next) = service.schedules(paging.cursor, limit).await?;
    Ok(Json(Page { items: found.into_iter().map(ScheduleView::from).collect(), next }))
}

/// Set when a workflow runs by itself; answers what was understood.
#[utoipa::path(post, path = "/schedules", operation_id = "create_schedule", tag = "schedules", request_body = ScheduleTime,
    responses((status = CREATED, body = ScheduleView), Problems))]
async fn create(Writes(service): Writes, Json(mut body): Json<ScheduleTime>) -> Result<Created<ScheduleView>, Problem> {
    let Some(workflow) = body.workflow.take() else {
        return Err(Problem::invalid("say in `workflow` which one, by id, alias or name"));
    };
    Ok(created(service.schedule(&workflow, body.into()).await?))
}

/// Show what a schedule would mean, with its next five times; nothing is set.
#[utoipa::path(post, path = "/schedules/preview", operation_id = "preview_schedule", tag = "schedules", request_body = ScheduleTime,
    responses((status = OK, body = SchedulePreview), Problems))]
async fn preview(Writes(service): Writes, Json(body): Json<ScheduleTime>) -> Result<Json<SchedulePreview>, Problem> {
    Ok(Json(service.preview_schedule(&body.into())?.into()))
}

/// Read a schedule.
#[utoipa::path(get, path = "/schedules/{id}", operation_id = "get_schedule", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = OK, body = ScheduleView), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Tagged<ScheduleView>, Problem> {
    Ok(tagged(service.schedule_at(id).await?))
}

/// Take a schedule away; a run that is going goes on. One that a definition names can only be paused.
#[utoipa::path(delete, path = "/schedules/{id}", operation_id = "delete_schedule", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = NO_CONTENT), Problems))]
async fn remove(Writes(service): Writes, Path(id): Path<Uuid>) -> Result<StatusCode, Problem> {
    service.cancel_schedule(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A past range.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BackfillRange {
    /// A time (RFC 3339), or a day, which begins at midnight UTC.
    from: String,
    /// Up to and with this time.
    to: String,
    /// Only show the times; nothing is started.
    #[serde(default)]
    dry_run: bool,
}

/// The times whose runs are owed now.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BackfillView {
    pub schedule: Uuid,
    /// In order; RFC 3339.
    pub times: Vec<String>,
    /// The runs may overlap; else they start one after another.
    pub at_once: bool,
}

impl From<Backfilled> for BackfillView {
    fn from(done: Backfilled) -> BackfillView {
        let Backfilled { schedule, times, at_once } = done;
        BackfillView { schedule, times: times.into_iter().map(instant).collect(), at_once }
    }
}

/// Start the runs of a past range: one for each time at which the schedule would have fired, twice is once.
#[utoipa::path(post, path = "/schedules/{id}/backfill", operation_id = "backfill_schedule", tag = "schedules", params(("id" = Uuid, Path)),
    request_body = BackfillRange, responses((status = OK, body = BackfillView), Problems))]
async fn backfill(
    Writes(_writes): Writes,
    Runs(service): Runs,
    Path(id): Path<Uuid>,
    Json(range): Json<BackfillRange>,
) -> Result<Json<BackfillView>, Problem> {
    let workflow = service.schedule_at(id).await?.trigger.workflow_uuid.to_string();
    let (from, to) = (backfill_time("from", &range.from)?, backfill_time("to", &range.to)?);
    let wanted = Backfill { workflow, schedule: Some(id), from, to };
    let done = match range.dry_run {
        true => service.preview_backfill(&wanted).await?,
        false => service.backfill(&wanted).await?,
    };
    Ok(Json(done.into()))
}

/// Pause a schedule: nothing starts until it is resumed.
#[utoipa::path(post, path = "/schedules/{id}/pause", operation_id = "pause_schedule", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = OK, body = ScheduleView), Problems))]
async fn pause(Writes(service): Writes, Path(id): Path<Uuid>) -> Result<Tagged<ScheduleView>, Problem> {
    Ok(tagged(service.pause_schedule(id).await?))
}

/// Resume a schedule from its next time on; what passed meanwhile is not made up for.
#[utoipa::path(post, path = "/schedules/{id}/resume", operation_id = "resume_schedule", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = OK, body = ScheduleView), Problems))]
async fn resume(Writes(service): Writes, Path(id): Path<Uuid>) -> Result<Tagged<ScheduleView>, Problem> {
    Ok(tagged(service.resume_schedule(id).await?))
}

/// List what was decided about a schedule lately, newest first: what started, what did not, and why.
#[utoipa::path(get, path = "/schedules/{id}/decisions", operation_id = "list_schedule_decisions", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = OK, body = Page<DecisionView>), Problems))]
async fn decisions(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Json<Page<DecisionView>>, Problem> {
    let found = service.schedule_decisions(id).await?;
    Ok(Json(Page { items: found.into_iter().map(DecisionView::from).collect(), next: None }))
}

/// List what was decided about any trigger lately, newest first: webhooks and events, too.
#[utoipa::path(get, path = "/triggers/{id}/decisions", operation_id = "list_trigger_decisions", tag = "triggers", params(("id" = Uuid, Path)),
    responses((status = OK, body = Page<DecisionView>), Problems))]
async fn trigger_decisions(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Json<Page<DecisionView>>, Problem> {
    service.trigger(id).await?;
    let found = service.decisions(id).await?;
    Ok(Json(Page { items: found.into_iter().map(DecisionView::from).collect(), next: None }))
}

/// List the schedules of a workflow.
#[utoipa::path(get, path = "/workflows/{id}/schedules", operation_id = "list_workflow_schedules", tag = "schedules",
    params(("id" = String, Path, description = "Id, alias or name")),
    responses((status = OK, body = Page<ScheduleView>), Problems))]
async fn list_of_workflow(Reads(service): Reads, Path(id): Path<String>) -> Result<Json<Page<ScheduleView>>, Problem> {
    let found = service.schedules_of(&id).await?;
    Ok(Json(Page { items: found.into_iter().map(ScheduleView::from).collect(), next: None }))
}

/// Set when this workflow runs by itself.
#[utoipa::path(post, path = "/workflows/{id}/schedules", operation_id = "create_workflow_schedule", tag = "schedules", request_body = ScheduleTime,
    params(("id" = String, Path, description = "Id, alias or name")),
    responses((status = CREATED, body = ScheduleView), Problems))]
async fn create_for_workflow(
    Writes(service): Writes,
    Path(id): Path<String>,
    Json(body): Json<ScheduleTime>,
) -> Result<Created<ScheduleView>, Problem> {
    if body.workflow.is_some() {
        return Err(Problem::invalid("the path names the workflow; leave `workflow` out"));
    }
    Ok(created(service.schedule(&id, body.into()).await?))
}

fn tagged(timed: Timed) -> Tagged<ScheduleView> {
    let revision = timed.revision;
    Tagged(timed.into(), revision)
}

fn created(timed: Timed) -> Created<ScheduleView> {
    Created(format!("/api/v1/schedules/{}", timed.trigger.uuid), tagged(timed))
}
