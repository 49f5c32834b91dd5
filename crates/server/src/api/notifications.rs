//! What people were told of ended runs, and what became of it on its way.

use axum::http::StatusCode;
use relais_service::{At, Delivery, Notification};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs};
use crate::pages::{Page, Paging, bounded};
use crate::problem::{Problem, Problems};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(read_all))
        .routes(routes!(get, mark, delete))
        .routes(routes!(deliveries))
}

/// What was told of a run.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NotificationRow {
    pub id: Uuid,
    pub at: String,
    /// `run.completed`, `run.failed`, `run.waiting`, or `run.message` where a run itself has something to say.
    pub kind: String,
    pub title: String,
    pub text: String,
    pub run: Uuid,
    /// The id of the workflow, or its name where it is not kept.
    pub workflow: String,
    pub read: bool,
}

impl From<At<Notification>> for NotificationRow {
    fn from(at: At<Notification>) -> NotificationRow {
        let Notification { id, at, kind, title, text, run, workflow, read } = at.it;
        NotificationRow { id, at: instant(at), kind, title, text, run, workflow, read }
    }
}

/// A notification on its way to a channel.
#[derive(Debug, Serialize, ToSchema)]
struct DeliveryRow {
    /// What a receiver tells repetitions by (`webhook-id`).
    id: Uuid,
    notification: Uuid,
    /// `channel ops`, `webhook`, `mail to ops@example.org`.
    to: String,
    /// `waiting`, `delivered` or `given_up`.
    state: String,
    attempts: u32,
    last_error: Option<String>,
    created_at: String,
    delivered_at: Option<String>,
    /// When it is tried next.
    next_at: Option<String>,
}

impl From<At<Delivery>> for DeliveryRow {
    fn from(at: At<Delivery>) -> DeliveryRow {
        let state = at.it.state().to_owned();
        let to = at.it.recipient.to_string();
        let Delivery { id, notification, attempts, last_error, created_at, delivered_at, next_at, .. } = at.it;
        DeliveryRow {
            id,
            notification,
            to,
            state,
            attempts,
            last_error,
            created_at: instant(created_at),
            delivered_at: delivered_at.map(instant),
            next_at: next_at.map(instant),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those that were not read yet.
    #[serde(default)]
    unread: bool,
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Marked {
    read: bool,
}

/// How many were marked.
#[derive(Debug, Serialize, ToSchema)]
struct Read {
    marked: usize,
}

/// A page that may have another behind it: the cursor is the last id.
fn page<T, R: From<T>>(items: Vec<T>, limit: usize, id: fn(&R) -> Uuid) -> Page<R> {
    let full = items.len() == limit;
    let items: Vec<R> = items.into_iter().map(R::from).collect();
    let next = items.last().filter(|_| full).map(|last| id(last).to_string());
    Page { items, next }
}

/// List notifications, newest first.
#[utoipa::path(get, path = "/notifications", operation_id = "list_notifications", tag = "notifications",
    params(Which), responses((status = OK, body = Page<NotificationRow>),
    Problems))]
async fn list(
    Reads(service): Reads,
    Query(Which { unread, limit, cursor }): Query<Which>,
) -> Result<Json<Page<NotificationRow>>, Problem> {
    let paging = Paging { limit, cursor };
    let limit = paging.limit();
    let found = service.notifications(unread, paging.cursor, limit).await?;
    Ok(Json(page(found, limit, |row: &NotificationRow| row.id)))
}

/// Read one notification.
#[utoipa::path(get, path = "/notifications/{id}", operation_id = "get_notification", tag = "notifications",
    params(("id" = Uuid, Path)), responses((status = OK, body = NotificationRow),
    Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>) -> Result<Json<NotificationRow>, Problem> {
    Ok(Json(service.notification(id).await?.into()))
}

/// Mark a notification as read or unread.
#[utoipa::path(patch, path = "/notifications/{id}", operation_id = "mark_notification", tag = "notifications",
    params(("id" = Uuid, Path)), request_body = Marked, responses((status = OK, body = NotificationRow),
    Problems))]
async fn mark(
    Runs(service): Runs,
    Path(id): Path<Uuid>,
    Json(marked): Json<Marked>,
) -> Result<Json<NotificationRow>, Problem> {
    Ok(Json(service.mark_notification(id, marked.read).await?.into()))
}

/// Mark all notifications as read.
#[utoipa::path(post, path = "/notifications/read", operation_id = "read_notifications", tag = "notifications",
    responses((status = OK, body = Read), Problems))]
async fn read_all(Runs(service): Runs) -> Result<Json<Read>, Problem> {
    Ok(Json(Read { marked: service.mark_all_notifications().await? }))
}

/// Delete a notification. What is still to be sent is sent all the same.
#[utoipa::path(delete, path = "/notifications/{id}", operation_id = "delete_notification", tag = "notifications",
    params(("id" = Uuid, Path)), responses((status = NO_CONTENT),
    Problems))]
async fn delete(Runs(service): Runs, Path(id): Path<Uuid>) -> Result<StatusCode, Problem> {
    service.delete_notification(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Of {
    /// Only those of this notification.
    notification: Option<Uuid>,
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// List what was sent or is to be sent to channels, newest first.
#[utoipa::path(get, path = "/deliveries", operation_id = "list_deliveries", tag = "notifications",
    params(Of), responses((status = OK, body = Page<DeliveryRow>),
    Problems))]
async fn deliveries(
    Reads(service): Reads,
    Query(Of { notification, limit, cursor }): Query<Of>,
) -> Result<Json<Page<DeliveryRow>>, Problem> {
    let paging = Paging { limit, cursor };
    let limit = paging.limit();
    let found = service.deliveries(notification, paging.cursor, limit).await?;
    Ok(Json(page(found, limit, |row: &DeliveryRow| row.id)))
}
