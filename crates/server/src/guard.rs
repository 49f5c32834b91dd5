//! What stands between the socket and the routes: bounds on the head and on the room that large bodies take, a limit
//! on time, and an answer where a handler fell over. Knows nothing of what the routes do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::App;
use crate::problem::Problem;

/// A request is answered within this; long polls wait less, streams begin at once. What it had begun goes on.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Longer than any call waits for a run.
const CALL_TIME: Duration = Duration::from_secs(crate::mcp::MAX_WAIT_S + 60);
/// Address and headers together; tokens and cookies are far smaller.
const MAX_HEAD_BYTES: usize = 16 * 1024;
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

    fn turn(&self) -> Turn {
        Turn { large: self.large.clone(), held: Arc::default() }
    }
}

/// The turn of one request at reading a large body and working on it. Whoever reads the body takes it, when it is known
/// who sends it; it is given back when the request is answered.
#[derive(Clone)]
pub struct Turn {
    large: Arc<Semaphore>,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Turn {
    pub async fn take(&self) -> Result<(), Problem> {
        match timeout(TURN_TIME, self.large.clone().acquire_owned()).await {
            Ok(Ok(turn)) => *self.held() = Some(turn),
            Ok(Err(_)) | Err(_) => return Err(Problem::busy("too many large bodies are being read; try again")),
        }
        Ok(())
    }

    fn give_back(&self) {
        self.held().take();
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.uri().to_string().len() + headers.sum::<usize>()
}

/// Every request passes here. The handler runs as a task of its own: a client that goes away or a time that is up does
/// not cut off in the middle what it had begun.
pub async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if head_bytes(&request) > MAX_HEAD_BYTES {
        let text = format!("address and headers together are larger than {MAX_HEAD_BYTES} bytes");
        return Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too_large", text).into_response();
    }
    let is_call = request.uri().path() == "/mcp";
    let turn = app.room.turn();
    request.extensions_mut().insert(turn.clone());
    let answer = tokio::spawn(async move {
        let response = next.run(request).await;
        turn.give_back();
        response
    });
    // A call over MCP may wait for a run as long as its client does.
    if is_call { answered(answer, CALL_TIME).await } else { answered(answer, ANSWER_TIME).await }
}

async fn answered(answer: JoinHandle<Response>, limit: Duration) -> Response {
    match timeout(limit, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => fell_over().into_response(),
        Err(_) => takes_too_long(limit).into_response(),
    }
}

/// Not `busy`: the work goes on, and the same again would be a second piece of it.
fn takes_too_long(limit: Duration) -> Problem {
    let text = format!("there was no answer within {} s", limit.as_secs());
    let more = "what was asked for goes on; look whether it is done before you ask again";
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "too_slow", format!("{text}; {more}"))
}

fn fell_over() -> Problem {
    let text = "the server made a mistake with this request; it goes on, and its log says more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unusable", text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::http::header;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_too_long_does_not_ask_for_a_second_try() {
        let answer = answered(tokio::spawn(std::future::pending()), ANSWER_TIME).await;
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
        assert!(!answer.headers().contains_key(header::RETRY_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_and_comes_back_with_the_answer() {
        let room = Room::new();
        let turns: Vec<Turn> = (0..LARGE_BODIES).map(|_| room.turn()).collect();
        for turn in &turns {
            turn.take().await.unwrap();
        }
        let next = room.turn();
        assert_eq!(next.take().await.unwrap_err().status, 503);
        turns[0].give_back();
        next.take().await.unwrap();
    }
}
