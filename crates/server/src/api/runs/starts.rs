//! Runs of a definition that comes with the request.

use std::collections::BTreeMap;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_service::{Begun, Format, Mode, ReadOptions, Start, Text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::Json;
use crate::caller::{Runs, Writes};
use crate::problem::{Finding, Problem, Problems};
use crate::revisions::IdempotencyKey;
use crate::traced::TraceParent;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(start))
}

/// A definition, and how a run of it is to be started.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct StartText {
    /// The text, of any format.
    definition: String,
    /// What messages call it.
    #[serde(default)]
    name: String,
    /// `native`, `chain`, `steps`, `pipeline`, `graph` or `dag`; default: told by the definition's shape.
    format: Option<String>,
    /// The branch of a graph, or one of several workflows of a definition.
    branch: Option<String>,
    #[serde(default)]
    #[schema(value_type = Value)]
    input: Value,
    #[serde(default)]
    thread: String,
    /// Words of your own that the run is found by, beside those of the definition.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Made-up answers in place of every model and tool.
    #[serde(default)]
    simulate: bool,
    /// What made-up answers are made from.
    #[schema(format = "uint64")]
    seed: Option<u64>,
    /// Takes the place of every agent's model.
    model: Option<String>,
}

impl StartText {
    fn options(&self) -> Result<ReadOptions, Problem> {
        let words = Format::ALL.map(Format::word).join(", ");
        let unknown = |word: &str| Problem::invalid(format!("there is no format `{word}`; there are: {words}"));
        let format = self.format.as_deref().map(|word| Format::named(word).ok_or_else(|| unknown(word)));
        Ok(ReadOptions { format: format.transpose()?, branch: self.branch.clone() })
    }
}

/// A run that was started.
#[derive(Debug, Serialize, ToSchema)]
struct Started {
    id: Uuid,
    /// What is not right with the definition but does not keep it from running.
    findings: Vec<Finding>,
    warnings: Vec<String>,
}

/// Start a run of a definition that comes with the request; it is durable when this answers and goes on in the background.
///
/// The definition is kept as `relais run FILE` keeps a file: as the workflow of its name among those that were run so,
/// with a new version where it says something else than the newest. Its triggers are not set. So whoever does this must be
/// allowed to change workflows and to run them.
#[utoipa::path(post, path = "/runs", operation_id = "start_run", tag = "runs", request_body = StartText,
    params(IdempotencyKey,
        ("traceparent" = Option<String>, Header, description = "The trace that the run joins (W3C Trace Context)")),
    responses((status = CREATED, body = Started, headers(("Location" = String, description = "The new run"))), Problems))]
async fn start(
    Writes(_writes): Writes,
    Runs(service): Runs,
    IdempotencyKey(key): IdempotencyKey,
    TraceParent(traceparent): TraceParent,
    Json(body): Json<StartText>,
) -> Result<Response, Problem> {
    let options = body.options()?;
    let mode = Mode { simulate: body.simulate, seed: body.seed, model: body.model, ..Mode::default() };
    let start =
        Start { input: body.input, mode, thread: body.thread, tags: body.tags, key, traceparent, ..Start::default() };
    let text = Text { name: body.name, text: body.definition, options };
    let Begun { run, findings, warnings } = service.start_text(text, start).await?;
    let started = Started { id: run, findings: findings.into_iter().map(Finding::from).collect(), warnings };
    let location = [(header::LOCATION, format!("/api/v1/runs/{run}"))];
    Ok((StatusCode::CREATED, location, Json(started)).into_response())
}
