//! What stands between the socket and the routes: bounds on the head and on the room that large bodies take, a limit
//! on time, and an answer where a handler fell over. Knows nothing of what the routes do.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::App;
use crate::problem::Problem;

/// A request is answered within this; long polls wait less, streams begin at once. What it had begun goes on.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Address and headers together; tokens and cookies are far smaller.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Bodies of this size or less need no turn.
const SMALL_BODY_BYTES: u64 = 64 * 1024;
/// Large bodies worked on at once: read into memory they may take some hundred megabytes each.
const LARGE_BODIES: usize = 4;
/// How long a large body waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(30);
/// Streams and long polls at once; fewer than there are connections, so that there is room for others.
const MAX_LASTING: usize = 12_000;

/// The room that requests share.
pub struct Room {
    large: Arc<Semaphore>,
    lasting: Arc<Semaphore>,
}

impl Room {
    pub fn new() -> Room {
        Room { large: Arc::new(Semaphore::new(LARGE_BODIES)), lasting: Arc::new(Semaphore::new(MAX_LASTING)) }
    }

    /// A place for a request that lasts, to be held as long as it does.
    pub fn lasting(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let text = format!("{MAX_LASTING} streams and long polls are open, more are not served");
        self.lasting.clone().try_acquire_owned().map_err(|_| Problem::busy(text))
    }

    async fn turn(&self, small: bool) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        if small {
            return Ok(None);
        }
        match timeout(TURN_TIME, self.large.clone().acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            Ok(Err(_)) | Err(_) => Err(Problem::busy("too many large bodies are being read; try again")),
        }
    }
}

/// A body that does not say its length may be of any.
fn is_small(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) => length <= SMALL_BODY_BYTES,
        None => !headers.contains_key(header::TRANSFER_ENCODING),
    }
}

fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.uri().to_string().len() + headers.sum::<usize>()
}

/// Every request passes here. The handler runs as a task of its own: a client that goes away or a time that is up does
/// not cut off in the middle what it had begun.
pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    if head_bytes(&request) > MAX_HEAD_BYTES {
        let text = format!("address and headers together are larger than {MAX_HEAD_BYTES} bytes");
        return Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too_large", text).into_response();
    }
    let small = is_small(request.headers());
    let turn = match app.room.turn(small).await {
        Ok(turn) => turn,
        Err(problem) => return problem.into_response(),
    };
    let answer = tokio::spawn(async move {
        let response = next.run(request).await;
        drop(turn);
        response
    });
    match timeout(ANSWER_TIME, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => fell_over().into_response(),
        Err(_) => Problem::busy("the answer takes too long; what was asked for may still be done").into_response(),
    }
}

fn fell_over() -> Problem {
    let text = "the server made a mistake with this request; it goes on, and its log says more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unusable", text)
}
