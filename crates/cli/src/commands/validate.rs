//! `relais validate`: everything that is wrong with files, at once.

use std::path::PathBuf;

use relais_plan::Severity;
use relais_service::{Definition, Definitions};

use crate::exit::Exit;
use crate::screen::{self, Paint};
use crate::session::Global;
use crate::words::counted;

/// Check workflow files and show everything that is wrong with them
///
/// Runs nothing and asks no MCP server: tools of MCP servers are taken as they are written and marked as unverified.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais validate flow.yaml\n  relais validate examples/*.yaml")]
pub struct Args {
    /// Workflow files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let definitions = global.definitions()?;
    let mut exit = Exit::Done;
    for file in &args.files {
        match check(&definitions, file) {
            Ok(line) => screen::out(&line)?,
            Err(text) => {
                screen::note(&text);
                exit = Exit::Usage;
            }
        }
    }
    Ok(exit)
}

/// The line for a good file, or what is wrong with a bad one.
fn check(definitions: &Definitions, file: &std::path::Path) -> Result<String, String> {
    let paint = Paint::stderr();
    let definition = definitions
        .read(file, &relais_service::ReadOptions::default())
        .map_err(|e| format!("{} {e}", paint.red("error:")))?;
    let problems = definition.render(paint.0);
    if definition.has_errors() {
        return Err(format!("{problems}{}: {}", file.display(), paint.red(&counts(&definition))));
    }
    if !problems.is_empty() {
        screen::note(&problems);
    }
    let steps = definition.plan.iter().flat_map(|p| &p.nodes).filter(|n| !n.hidden).count();
    let counts = counts(&definition);
    let warnings = if counts.is_empty() { counts } else { format!(", {counts}") };
    let unverified = definition.unverified().join(", ");
    let unverified = if unverified.is_empty() { unverified } else { format!("; unverified: {unverified}") };
    Ok(format!("{}: ok, {}{warnings}{unverified}", file.display(), counted(steps, "step")))
}

fn counts(definition: &Definition) -> String {
    let count = |severity| definition.problems.iter().filter(|p| p.severity == severity).count();
    let parts = [(count(Severity::Error), "error"), (count(Severity::Warning), "warning")];
    parts.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| counted(*n, noun)).collect::<Vec<_>>().join(", ")
}
