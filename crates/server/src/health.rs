//! For whoever watches over the process: is it alive, and are requests welcome. Asked without a token, so nothing is
//! told but that.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use relais_service::Readiness;
use serde_json::json;

use crate::App;
use crate::problem::Problem;

/// When a client that met a server on its way out may ask again; the next one starts within seconds.
const RETRY_AFTER_S: u32 = 5;

pub fn routes() -> Router<App> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

async fn alive() -> Response {
    axum::Json(json!({ "status": "alive" })).into_response()
}

async fn ready(State(app): State<App>) -> Response {
    let unavailable = |kind: &'static str, text: &str| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, text).retry_after(RETRY_AFTER_S).into_response()
    };
    match app.service.readiness().await {
        Readiness::Ready => axum::Json(json!({ "status": "ready" })).into_response(),
        Readiness::Draining => unavailable("draining", "the server is shutting down and starts nothing new"),
        // Why is in the server's log, not for strangers.
        Readiness::Database(_) => unavailable("busy", "the database is out of reach for now"),
    }
}
