//! Answers that last: a stream ends soon after whoever opened it would no longer be let in. Knows nothing of what is
//! streamed.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt;
use relais_service::{Error, Service};

use crate::App;
use crate::caller::presented;

/// A token that was revoked or has run out shows nothing more after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Ends streams with the access of those who read them.
pub async fn watch_over(State(app): State<App>, request: Request, next: Next) -> Response {
    let token = presented(request.headers()).ok().flatten().map(str::to_owned);
    let response = next.run(request).await;
    let Some(token) = token.filter(|_| is_stream(&response)) else { return response };
    let over = shut_out(app.service, token);
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(over))))
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Returns when the token lets nobody in any more. Where that cannot be told just now, it is asked again.
async fn shut_out(service: Service, token: String) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if matches!(service.admit_again(&token).await, Err(Error::Unauthorized(_) | Error::Forbidden(_))) {
            return;
        }
    }
}
