//! `relais tools`: what agents and steps can call.

use comfy_table::{Table, presets};
use relais_plan::Effect;
use relais_runtime::tool::ToolSpec;
use serde_json::json;

use crate::exit::Exit;
use crate::session::{Global, block_on};
use crate::{screen, words};

/// List the tools that workflows can use: built in, and of the MCP servers in relais.toml
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais tools\n  relais tools --mcp shop --json")]
pub struct Args {
    /// Only the tools of this MCP server
    #[arg(long, value_name = "NAME")]
    mcp: Option<String>,
    /// One JSON object per tool, with the schema of its arguments
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let tools = global.definitions()?.tools;
    block_on(async {
        let mut exit = Exit::Done;
        let found = match &args.mcp {
            Some(server) => tools.select(&[format!("mcp:{server}/*")]).await.map_err(relais_service::Error::from),
            None => {
                let listed = tools.list().await;
                for failure in &listed.failed {
                    screen::warning(&failure.message);
                    exit = Exit::Failed;
                }
                Ok(listed.tools)
            }
        };
        tools.stop().await;
        show(&found?, args.json)?;
        Ok(exit)
    })
}

fn show(tools: &[ToolSpec], json: bool) -> std::io::Result<()> {
    if json {
        return tools.iter().try_for_each(|tool| screen::out(&line(tool)));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["TOOL", "EFFECT", "DESCRIPTION"]);
    for tool in tools {
        let first = tool.description.lines().next().unwrap_or_default();
        table.add_row([tool.name.as_str(), effect(tool.effect), &words::shorten(first, 80)]);
    }
    screen::out(&screen::table(&table))
}

fn line(tool: &ToolSpec) -> String {
    let ToolSpec { name, description, parameters, effect: may } = tool;
    json!({ "tool": name, "effect": effect(*may), "description": description, "parameters": parameters }).to_string()
}

pub fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    }
}
