//! The events of a run as a stream: each once, in order, over broken connections and restarts of the server. The id of
//! an event is its place in the journal, so whoever comes back says where it was.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use relais_service::narrate::Notice;
use relais_service::{Following, Place};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::Reads;
use crate::listen::told;
use crate::problem::{Problem, Problems};

/// Shorter than the patience of the usual proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How soon a client that lost its connection is to come back.
const COME_BACK: Duration = Duration::from_secs(1);

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct From {
    /// Where the header `Last-Event-ID` cannot be sent: the id of the last event that was seen.
    #[param(pattern = r"^(\d{1,18}\.\d{1,18})?$")]
    last_event_id: Option<String>,
}

/// One event of the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the stream writes its fields line by line")]
struct Streamed {
    /// The entry and the number in it; what `Last-Event-ID` takes.
    #[schema(example = "12.0")]
    id: Option<String>,
    /// What happened: `step_completed`.
    event: Option<String>,
    /// JSON.
    data: Option<String>,
}

/// The events of a run from its beginning, or behind the last one seen, until it has ended.
///
/// Each event has `id: <entry>.<number>`, `event: <what>` and JSON `data` with `run`, `seq`, `nth`, `at` and what
/// belongs to the event. A client that comes back with `Last-Event-ID` gets what came behind it, no event twice and
/// none left out. The stream ends with the run. Where all has been seen, the answer is 204: do not come back. With
/// `Accept: application/json` the answer is a list of the events so far, and not more than some thousand at once.
#[utoipa::path(get, path = "/runs/{id}/events", operation_id = "stream_run_events", tag = "runs",
    params(("id" = Uuid, Path), From,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen",
            pattern = r"^(\d{1,18}\.\d{1,18})?$")),
    responses((status = OK, content((Streamed = "text/event-stream"), (Vec<Object> = "application/json"))),
        (status = NO_CONTENT, description = "The run has ended and all of it was seen"), Problems))]
async fn events(
    Reads(service): Reads,
    State(app): State<App>,
    Path(run): Path<Uuid>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // What is no text is no id either, and is refused as such.
    let header = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let read = |id: Option<String>| id.filter(|id| !id.is_empty()).map(|id| place(&id)).transpose();
    let (header, query) = (read(header)?, read(from.last_event_id)?);
    let after = header.or(query);
    let held = app.room.lasting()?;
    let mut following = service.follow_after(run, after.unwrap_or_default()).await?;
    if after.is_some() && following.is_over().await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if wants_list(&headers) {
        return Ok(Json(following.so_far().await?).into_response());
    }
    let watched = Watched { following, stop: app.stop.subscribe(), _held: held };
    Ok(Sse::new(watched.events()).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn wants_list(headers: &HeaderMap) -> bool {
    let accept = headers.get(axum::http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.starts_with("application/json"))
}

fn place(id: &str) -> Result<Place, Problem> {
    let parsed = id.split_once('.').and_then(|(seq, nth)| Some((seq.parse().ok()?, nth.parse().ok()?)));
    parsed.ok_or_else(|| Problem::invalid(format!("Last-Event-ID: `{id}` is no id of an event, such as 12.0")))
}

/// What an open stream holds: a place in the journal, and its own among the streams.
struct Watched {
    following: Following,
    stop: watch::Receiver<bool>,
    _held: OwnedSemaphorePermit,
}

impl Watched {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        let told = stream::unfold(self, |mut watched| async move { Some((watched.next().await?, watched)) });
        let hint = stream::once(async { Ok(Event::default().retry(COME_BACK)) });
        hint.chain(told.flat_map(stream::iter).map(|notice| Ok(event(&notice))))
    }

    /// None when the run has ended, the server stops, or the journal cannot be read: the client comes back for the
    /// rest, and is told then what is wrong.
    async fn next(&mut self) -> Option<Vec<Notice>> {
        tokio::select! {
            notices = self.following.next() => notices.ok().flatten(),
            () = told(&mut self.stop) => None,
        }
    }
}

fn event(notice: &Notice) -> Event {
    let data = serde_json::to_value(notice).unwrap_or_default();
    let what = data["event"].as_str().unwrap_or("event").to_owned();
    Event::default().id(format!("{}.{}", notice.seq, notice.nth)).event(what).data(data.to_string())
}
