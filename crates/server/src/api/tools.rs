//! What definitions can name: tools and models.

use relais_plan::Effect;
use relais_runtime::model::ModelFacts;
use relais_runtime::models::Listed;
use relais_runtime::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::body::{Json, Query};
use crate::caller::Reads;
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_tools)).routes(routes!(list_models))
}

/// The tools that agents and steps can call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolList {
    pub tools: Vec<ToolView>,
    /// MCP servers that could not be asked, and why.
    pub failed: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// `mcp:SERVER/TOOL` for a tool of an MCP server.
    pub name: String,
    /// Null: built in.
    pub server: Option<String>,
    pub description: String,
    /// What a second call does: `read` (nothing), `idempotent` (the same again), `once` (harm).
    pub effect: &'static str,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

impl From<ToolSpec> for ToolView {
    fn from(ToolSpec { name, description, parameters, effect }: ToolSpec) -> ToolView {
        let effect = match effect {
            Effect::Read => "read",
            Effect::Idempotent => "idempotent",
            Effect::Once => "once",
        };
        let server = name.strip_prefix("mcp:").and_then(|rest| rest.split_once('/')).map(|(server, _)| server.into());
        ToolView { name, server, description, effect, parameters }
    }
}

/// A provider of models.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProviderView {
    pub provider: String,
    /// The variables of the server's environment that are looked at for a key, in order.
    pub key_variables: Vec<String>,
    pub has_key: bool,
    /// A key is there, or none is needed.
    pub usable: bool,
    /// Seconds until it is asked again, while it is left out for having failed several times in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_s: Option<u64>,
    /// The models whose prices are known; others work as well.
    pub models: Vec<ModelView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelView {
    /// As an agent names it: `provider/model`.
    pub model: String,
    pub context_tokens: Option<u64>,
    /// Billionths of a dollar per token.
    pub prompt_nanos: Option<u64>,
    pub cached_nanos: Option<u64>,
    pub completion_nanos: Option<u64>,
}

impl From<Listed> for ProviderView {
    fn from(listed: Listed) -> ProviderView {
        let Listed { provider, key_variables, has_key, usable, models, base_url: _ } = listed;
        let view = |(name, facts): (String, ModelFacts)| {
            let model = name.strip_prefix(&format!("{provider}/")).unwrap_or(&name);
            ModelView {
                model: format!("{provider}/{model}"),
                context_tokens: facts.context_tokens,
                prompt_nanos: facts.prompt_nanos,
                cached_nanos: facts.cached_nanos,
                completion_nanos: facts.completion_nanos,
            }
        };
        let models = models.into_iter().map(view).collect();
        ProviderView { provider, key_variables, has_key, usable, left_out_s: None, models }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those of this MCP server.
    mcp: Option<String>,
}

/// List the tools: built in, and of all MCP servers of the configuration.
#[utoipa::path(get, path = "/tools", operation_id = "list_tools", tag = "tools", params(Which),
    responses((status = OK, body = ToolList), Problems))]
async fn list_tools(Reads(service): Reads, Query(Which { mcp }): Query<Which>) -> Result<Json<ToolList>, Problem> {
    if let Some(server) = mcp {
        let tools = service.tools_of(&server).await?.into_iter().map(Into::into).collect();
        return Ok(Json(ToolList { tools, failed: Vec::new() }));
    }
    let listed = service.tools().await?;
    let failed = listed.failed.into_iter().map(|failure| failure.message).collect();
    Ok(Json(ToolList { tools: listed.tools.into_iter().map(Into::into).collect(), failed }))
}

/// List the providers of models, and the models whose prices are known.
#[utoipa::path(get, path = "/models", operation_id = "list_models", tag = "tools",
    responses((status = OK, body = Vec<ProviderView>), Problems))]
async fn list_models(Reads(service): Reads) -> Json<Vec<ProviderView>> {
    let mut providers: Vec<ProviderView> = service.models().into_iter().map(Into::into).collect();
    for (provider, gauge) in service.governors().into_iter().filter(|(_, gauge)| gauge.left_out_ms > 0) {
        if let Some(view) = providers.iter_mut().find(|view| view.provider == provider) {
            view.left_out_s = Some(gauge.left_out_ms.div_ceil(1_000));
        }
    }
    Json(providers)
}
