//! `relais graph`: a workflow as a picture.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use relais_plan::draw;
use relais_service::ReadOptions;

use crate::definition;
use crate::exit::Exit;
use crate::screen::{self, Paint};
use crate::session::Global;

/// Draw a workflow file
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais graph flow.yaml\n  relais graph flow.yaml --format svg -o flow.svg")]
pub struct Args {
    /// Workflow file, of any format that `--reader` takes
    file: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Read the file as this format instead of the one that its shape tells
    #[arg(long, value_name = "FORMAT", value_parser = definition::formats())]
    reader: Option<relais_service::Format>,
    /// The branch of a graph that is meant, instead of its main nodes; or which of several workflows of a dag file
    #[arg(long, value_name = "ID")]
    branch: Option<String>,
    /// Write here instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree for a terminal
    Text,
    /// A flowchart for Markdown pages
    Mermaid,
    /// An image for browsers
    Svg,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let options = ReadOptions { format: args.reader, branch: args.branch.clone() };
    let definition = global.definitions()?.read(&args.file, &options)?;
    let Some(plan) = definition.plan.as_ref().filter(|_| !definition.has_errors()) else {
        screen::note(&screen::colored(&definition.render(Paint::stderr().0)));
        return Ok(Exit::Usage);
    };
    let picture = match args.format {
        Format::Text => draw::text(plan),
        Format::Mermaid => draw::mermaid(plan),
        Format::Svg => draw::svg(plan),
    };
    match &args.output {
        Some(file) => std::fs::write(file, picture).with_context(|| format!("{} cannot be written", file.display()))?,
        None => screen::data(&picture)?,
    }
    Ok(Exit::Done)
}
