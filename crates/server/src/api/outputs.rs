//! Outputs by their ids alone, for services that were handed one.

use relais_service::Output;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::Reads;
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct How {
    /// `1` for the whole record instead of its `raw_data`.
    #[param(minimum = 0, maximum = 1)]
    full: Option<u8>,
}

/// An output with everything that is known of it.
#[derive(Debug, Serialize, ToSchema)]
struct OutputRecord {
    uuid: Uuid,
    raw_data: Value,
    summary: Option<String>,
    markdown_representation: Option<String>,
}

impl From<Output> for OutputRecord {
    fn from(output: Output) -> OutputRecord {
        OutputRecord {
            uuid: output.id,
            raw_data: output.value,
            summary: Some(output.summary).filter(|summary| !summary.is_empty()),
            markdown_representation: output.markdown,
        }
    }
}

/// What a step gave, or a trigger handed to a run: its data, or with `full=1` the record.
#[utoipa::path(get, path = "/outputs/{id}", operation_id = "get_output", tag = "outputs",
    params(("id" = Uuid, Path), How), responses((status = OK, body = Value), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<Uuid>, Query(how): Query<How>) -> Result<Json<Value>, Problem> {
    let output = service.output_by_id(id).await?;
    match how.full {
        None | Some(0) => Ok(Json(output.value)),
        Some(1) => Ok(Json(serde_json::to_value(OutputRecord::from(output)).unwrap_or_default())),
        Some(other) => Err(Problem::invalid(format!("full: `{other}` must be 0 or 1"))),
    }
}
