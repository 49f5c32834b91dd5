//! `relais export`: kept workflows as a file that another server takes.

use std::path::PathBuf;

use anyhow::Context;

use crate::exit::Exit;
use crate::screen;
use crate::session::{Global, Session};

/// Write kept workflows, with the workflows and agents that they use, as one JSON document
///
/// It holds definitions, step objects and triggers, no runs and no secrets. `relais import` takes it in, here or on
/// another server.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais export prices -o prices.json
  relais export prices news --history | relais import - --server http://127.0.0.1:7300")]
pub struct Args {
    /// Ids, aliases or names
    #[arg(required = true, value_name = "WORKFLOW")]
    workflows: Vec<String>,
    /// The older versions, too: the newest hundred of each
    #[arg(long)]
    history: bool,
    /// Write here instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let package = global.serve(async |session: &Session| Ok(session.export(&args.workflows, args.history).await?))?;
    let text = format!("{package:#}\n");
    match &args.output {
        Some(file) => std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?,
        None => screen::data(&text)?,
    }
    Ok(Exit::Done)
}
