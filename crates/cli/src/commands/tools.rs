//! `relais tools`: what agents and steps can call.

use relais_service::{Definitions, Error};

use crate::exit::Exit;
use crate::lists::List;
use crate::offer::{Tool, Tools};
use crate::session::{Global, block_on};
use crate::{screen, words};

/// List the tools that workflows can use: built in, and of the MCP servers in relais.toml
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais tools
  relais tools --mcp shop --json
  relais tools --server http://127.0.0.1:7300")]
pub struct Args {
    /// Only the tools of this MCP server
    #[arg(long, value_name = "NAME")]
    mcp: Option<String>,
    /// One JSON object per tool, with the schema of its arguments
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let mcp = args.mcp.as_deref();
    let Tools { tools, failed } = match global.client()? {
        Some(client) => block_on(async { Ok(client.tools(mcp).await?) }),
        None => here(&global.definitions()?, mcp),
    }?;
    failed.iter().for_each(|failure| screen::warning(failure));
    let list = List { items: &tools, more: false, json: args.json, none: "no tools" };
    list.show(["TOOL", "EFFECT", "DESCRIPTION"], cells)?;
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Without a database: the tools do not depend on it.
fn here(definitions: &Definitions, mcp: Option<&str>) -> anyhow::Result<Tools> {
    let tools = &definitions.tools;
    block_on(async {
        let found = match mcp {
            Some(server) => tools.select(&[format!("mcp:{server}/*")]).await.map(|found| (found, Vec::new())),
            None => {
                let listed = tools.list().await;
                Ok((listed.tools, listed.failed))
            }
        };
        tools.stop().await;
        let (found, failed) = found.map_err(Error::from)?;
        let failed = failed.into_iter().map(|failure| failure.message).collect();
        Ok(Tools { tools: found.into_iter().map(Tool::from).collect(), failed })
    })
}

fn cells(tool: &Tool) -> [String; 3] {
    let first = tool.description.lines().next().unwrap_or_default();
    [tool.name.clone(), tool.effect.clone(), words::shorten(first, 80)]
}
