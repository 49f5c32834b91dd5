//! The tools and models that definitions can name, as commands see them, here or on a server.

use relais_plan::Effect;
use relais_runtime::model::ModelFacts;
use relais_runtime::models;
use relais_runtime::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tools, and the MCP servers that could not be asked.
#[derive(Debug, Deserialize)]
pub struct Tools {
    pub tools: Vec<Tool>,
    pub failed: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Tool {
    #[serde(rename(serialize = "tool", deserialize = "name"))]
    pub name: String,
    pub effect: String,
    pub description: String,
    pub parameters: Value,
}

impl From<ToolSpec> for Tool {
    fn from(ToolSpec { name, description, parameters, effect: may }: ToolSpec) -> Tool {
        Tool { name, effect: effect(may).to_owned(), description, parameters }
    }
}

pub fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    }
}

/// A provider of models.
#[derive(Debug, Serialize, Deserialize)]
pub struct Provider {
    pub provider: String,
    /// A server does not tell where it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    pub key_variables: Vec<String>,
    pub has_key: bool,
    pub usable: bool,
    /// Only a server has asked it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_s: Option<u64>,
    pub models: Vec<Model>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Model {
    /// As an agent names it: `provider/model`.
    pub model: String,
    pub context_tokens: Option<u64>,
    pub prompt_nanos: Option<u64>,
    pub cached_nanos: Option<u64>,
    pub completion_nanos: Option<u64>,
}

impl From<models::Listed> for Provider {
    fn from(listed: models::Listed) -> Provider {
        let models::Listed { provider, base_url, key_variables, has_key, usable, models } = listed;
        let models = models.into_iter().map(|(name, facts)| Model::new(&provider, &name, &facts)).collect();
        Provider { provider, base_url: Some(base_url), key_variables, has_key, usable, left_out_s: None, models }
    }
}

impl Model {
    fn new(provider: &str, name: &str, facts: &ModelFacts) -> Model {
        let name = name.strip_prefix(&format!("{provider}/")).unwrap_or(name);
        Model {
            model: format!("{provider}/{name}"),
            context_tokens: facts.context_tokens,
            prompt_nanos: facts.prompt_nanos,
            cached_nanos: facts.cached_nanos,
            completion_nanos: facts.completion_nanos,
        }
    }
}
