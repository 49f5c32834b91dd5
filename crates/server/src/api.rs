//! The routes under `/api/v1` and the OpenAPI document that is generated from them.

mod runs;
mod workflows;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::App;
use crate::body::{Json, MAX_BODY_BYTES};
use crate::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(title = "Relais", description = "Runs agent workflows: definitions, runs, schedules, triggers, outputs."),
    components(schemas(Problem))
)]
struct Base;

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi()).nest("/api/v1", resources())
}

/// One line per resource.
fn resources() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(runs::routes()).merge(workflows::routes())
}

/// The OpenAPI document.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

pub fn router(app: App) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = std::sync::Arc::new(document);
    let openapi = axum::routing::get(move || {
        let document = document.clone();
        async move { Json(document) }
    });
    router
        .route("/api/v1/openapi.json", openapi)
        .fallback(nothing_there)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}

async fn nothing_there(uri: axum::http::Uri) -> Problem {
    Problem::not_found(format!("there is no {}; /api/v1/openapi.json lists what there is", uri.path()))
}
