//! Definitions that are looked at and not kept: checked, converted, described.

use relais_service::{Outline, Planned, Report, Times};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::workflows::DefinitionText;
use crate::App;
use crate::body::Json;
use crate::caller::Reads;
use crate::problem::{Finding, Problem, Problems};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(check)).routes(routes!(convert)).routes(routes!(schema))
}

/// A definition to be checked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckDefinition {
    pub definition: DefinitionText,
    /// Default: told by the definition's shape.
    pub format: Option<String>,
}

/// What a check has found.
#[derive(Debug, Serialize, ToSchema)]
pub struct DefinitionReport {
    /// It can be run as it is.
    pub ok: bool,
    pub format: &'static str,
    /// Errors and warnings, each with its place.
    pub findings: Vec<Finding>,
    /// Tools that only an MCP server can vouch for; it is asked when a version is kept and when a run begins.
    pub unverified: Vec<String>,
    /// What can be started: the main part and each branch.
    pub parts: Vec<DefinitionPart>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DefinitionPart {
    /// Null: the main part.
    pub branch: Option<String>,
    pub steps: Vec<PlannedStep>,
    pub triggers: Vec<TriggerTimes>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PlannedStep {
    pub id: String,
    pub name: Option<String>,
    /// `agent`, `if`, `for_each`, …
    pub kind: String,
}

/// A trigger that fires by time, as it was understood.
#[derive(Debug, Serialize, ToSchema)]
pub struct TriggerTimes {
    pub description: String,
    /// The next five times at most, as if it were set now.
    pub next_times: Vec<String>,
}

impl From<Report> for DefinitionReport {
    fn from(report: Report) -> DefinitionReport {
        DefinitionReport {
            ok: report.runs,
            format: report.format.word(),
            findings: report.findings.into_iter().map(Into::into).collect(),
            unverified: report.unverified,
            parts: report.parts.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Outline> for DefinitionPart {
    fn from(Outline { branch, steps, triggers, .. }: Outline) -> DefinitionPart {
        let step = |Planned { id, name, kind }: Planned| PlannedStep { id, name, kind };
        let timed = |Times { what, next }: Times| TriggerTimes {
            description: what,
            next_times: next.into_iter().map(instant).collect(),
        };
        let (steps, triggers) = (steps.into_iter().map(step).collect(), triggers.into_iter().map(timed).collect());
        DefinitionPart { branch, steps, triggers }
    }
}

/// A definition to be written in the native format.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvertDefinition {
    pub definition: DefinitionText,
    /// Default: told by the definition's shape.
    pub format: Option<String>,
    /// Which branch of a graph, or which of several workflows.
    pub branch: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ConvertedDefinition {
    /// In the native format, as YAML.
    pub definition: String,
}

/// Check a definition; nothing is kept, run or asked.
#[utoipa::path(post, path = "/definitions/check", operation_id = "check_definition", tag = "definitions", request_body = CheckDefinition,
    responses((status = OK, body = DefinitionReport), Problems))]
async fn check(Reads(service): Reads, Json(body): Json<CheckDefinition>) -> Result<Json<DefinitionReport>, Problem> {
    let written = body.definition.written(body.format.as_deref(), true)?;
    Ok(Json(service.check_definition(written).await?.into()))
}

/// Write a definition of any format in the native one.
#[utoipa::path(post, path = "/definitions/convert", operation_id = "convert_definition", tag = "definitions", request_body = ConvertDefinition,
    responses((status = OK, body = ConvertedDefinition), Problems))]
async fn convert(
    Reads(service): Reads,
    Json(body): Json<ConvertDefinition>,
) -> Result<Json<ConvertedDefinition>, Problem> {
    let written = body.definition.written(body.format.as_deref(), false)?;
    let definition = service.convert_definition(written, body.branch).await?;
    Ok(Json(ConvertedDefinition { definition }))
}

/// The JSON Schema of the native format, for editors and assistants.
#[utoipa::path(get, path = "/definitions/schema", operation_id = "get_definition_schema", tag = "definitions",
    responses((status = OK, body = Object), Problems))]
async fn schema(Reads(service): Reads) -> Json<Value> {
    Json(service.definition_schema())
}
