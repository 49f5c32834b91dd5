//! The tool that lists the tools agents can use.

use relais_mcp::serving::{Given, Trouble};
use relais_plan::Effect as ToolEffect;
use relais_runtime::tool::ToolSpec;
use relais_service::access::Scope;
use serde_json::{Value, json};

use super::Guest;
use super::arguments::Arguments;
use super::attend::Attended;
use super::render::given;
use super::tools::{Effect, Spec, text, user_id};
use super::trouble::trouble;

/// Tools of one answer; a search makes it fewer.
const LISTED_MAX: usize = 100;

pub fn list_spec() -> Spec {
    Spec {
        name: "list_tools",
        title: "List the tools of agents",
        about: "Lists the tools that agents and executors can be given by name: built in, and `mcp:SERVER/TOOL` of the \
                MCP servers that are configured. Use it before you write `tools` into an agent or an executor: a name \
                that is not in this list is refused. A definition may name further MCP servers by public addresses \
                (`mcp: {shop: {url: https://…}}`, then `mcp:shop/TOOL`); programs and private addresses only \
                relais.toml can name. Answers name, description and effect (read, idempotent, once) of \
                each, with details also the JSON Schema of its arguments.\n\
                Example: {\"search\": \"file\", \"details\": true}",
        takes: json!({
            "search": text("Only tools with this in their name or description."),
            "details": { "type": "boolean", "default": false, "description": "With the schema of each tool's arguments." },
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn list(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let search = arguments.text(&["search"])?.unwrap_or_default().to_lowercase();
    let details = arguments.flag("details").unwrap_or(false);
    let listed = guest.service.tools().await.map_err(trouble)?;
    let fits = |tool: &&ToolSpec| format!("{}\n{}", tool.name, tool.description).to_lowercase().contains(&search);
    let found: Vec<&ToolSpec> = listed.tools.iter().filter(fits).collect();
    let tools: Vec<Value> = found.iter().take(LISTED_MAX).map(|tool| shown(tool, details)).collect();
    let unreachable: Vec<&str> = listed.failed.iter().map(|failure| failure.message.as_str()).collect();
    Ok(given(json!({ "tools": tools, "count": found.len(), "unreachable": unreachable })))
}

fn shown(tool: &ToolSpec, details: bool) -> Value {
    let effect = match tool.effect {
        ToolEffect::Read => "read",
        ToolEffect::Idempotent => "idempotent",
        ToolEffect::Once => "once",
    };
    let mut shown = json!({ "name": tool.name, "description": tool.description, "effect": effect });
    if details {
        shown["parameters"] = tool.parameters.clone();
    }
    shown
}
