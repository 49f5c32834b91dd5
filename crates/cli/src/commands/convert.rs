//! `relais convert`: a file of any format in the native one.

use std::path::PathBuf;

use anyhow::Context;

use crate::definition::Written;
use crate::exit::Exit;
use crate::screen::{self, Paint};
use crate::session::Global;

/// Print a workflow file of another format in the native one
///
/// The printed file runs as the other does: the same steps, the same prompts, the same calls. What is wrong with the
/// file is shown, and a file with errors is not converted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais convert chain.json
  relais convert graph.json --branch nightly -o nightly.yaml")]
pub struct Args {
    #[command(flatten)]
    written: Written,
    /// Write here instead of standard output
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let Written { file, reading } = &args.written;
    let definitions = global.definitions()?;
    let definition = definitions.read(file, &reading.options())?;
    let problems = screen::colored(&definition.render(Paint::stderr().0));
    if !problems.is_empty() {
        screen::note(&problems);
    }
    if definition.has_errors() {
        return Ok(Exit::Usage);
    }
    let text = definitions.convert(&definition)?;
    match &args.output {
        Some(out) => std::fs::write(out, text).with_context(|| format!("{} cannot be written", out.display()))?,
        None => screen::data(&text)?,
    }
    Ok(Exit::Done)
}
