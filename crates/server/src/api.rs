//! The routes under `/api/v1` and the OpenAPI document that is generated from them.

mod agents;
pub(crate) mod budget;
mod bulk;
mod definitions;
mod events;
mod instances;
mod notifications;
mod outputs;
mod portable;
mod questions;
mod runs;
mod schedules;
mod step_triggers;
mod step_types;
mod steps;
mod tokens;
mod tools;
mod usage;
mod versions;
mod workflow_steps;
mod workflows;

/// What the API answers, for those who read it in Rust: the fields have the same names on both sides.
pub mod views {
    pub use super::bulk::{BulkCount, BulkView};
    pub use super::events::{EventEffects, Reaction};
    pub use super::notifications::NotificationRow;
    pub use super::portable::ImportedView;
    pub use super::questions::OpenQuestionView;
    pub use super::schedules::BackfillView;
    pub use super::usage::{UsagePart, UsageReport, UsageSum};
    pub use super::versions::VersionView;
    pub use super::workflows::DeletionView;
}

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::App;
use crate::body::Json;
use crate::guard::guard;
use crate::lasting::watch_over;
use crate::metrics;
use crate::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(title = "Relais", description = "Runs agent workflows: definitions, runs, schedules, triggers, outputs."),
    components(schemas(Problem)),
    modifiers(&Bearer),
    security((), ("bearer" = []))
)]
struct Base;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let text = "A token of `relais token create`, or a JWT; on the machine itself none may be needed";
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text)).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi()).nest("/api/v1", resources()).merge(crate::hooks::routes())
}

/// One line per resource.
fn resources() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(runs::routes())
        .merge(questions::routes())
        .merge(bulk::routes())
        .merge(tokens::routes())
        .merge(workflows::routes())
        .merge(outputs::routes())
        .merge(notifications::routes())
        .merge(usage::routes())
        .merge(step_types::routes())
        .merge(steps::routes())
        .merge(workflow_steps::routes())
        .merge(step_triggers::routes())
        .merge(instances::routes())
        .merge(versions::routes())
        .merge(portable::routes())
        .merge(agents::routes())
        .merge(definitions::routes())
        .merge(tools::routes())
        .merge(schedules::routes())
        .merge(events::routes())
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
        .merge(crate::health::routes())
        .route("/metrics", axum::routing::get(metrics::show))
        .route("/mcp", axum::routing::any(crate::mcp::route))
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(app.clone(), watch_over))
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(from_fn_with_state(app.clone(), metrics::watch))
        .with_state(app)
}

async fn nothing_there(uri: Uri) -> Problem {
    Problem::not_found(format!("there is no {}; /api/v1/openapi.json lists what there is", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let text = format!("{} does not take {method}; /api/v1/openapi.json lists what it takes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "unsupported", text)
}
