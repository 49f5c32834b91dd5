//! `relais validate`: everything that is wrong with files, at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use relais_plan::Severity;
use relais_service::{Definition, Definitions, Whole};

use crate::definition::Reading;
use crate::exit::Exit;
use crate::schedules;
use crate::screen::{self, Paint};
use crate::session::{Global, block_on};
use crate::words::counted;

/// Check workflow files and show everything that is wrong with them
///
/// Names the format that each file was read as. Of a graph with branches, every branch is checked. Runs nothing.
///
/// MCP servers are asked for their tools, those of relais.toml and those that the file names by an address; each has 10
/// seconds. Tools of servers that do not answer, of programs that the file itself would start, and of addresses that
/// would be sent variables, are marked as unverified. With --offline no server is asked.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais validate flow.yaml\n  relais validate examples/*.yaml")]
pub struct Args {
    /// Workflow files, of any format that `--format` takes
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Ask no MCP server
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    reading: Reading,
}

/// A server that takes longer is started by a run, which waits for it.
const ASKED_FOR: Duration = Duration::from_secs(10);

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let definitions = global.definitions()?;
    let mut exit = Exit::Done;
    for file in &args.files {
        match check(&definitions, file, &args) {
            Ok(lines) => screen::out(&lines)?,
            Err(text) => {
                screen::note(&text);
                exit = Exit::Usage;
            }
        }
    }
    Ok(exit)
}

/// The lines for a good file, or what is wrong with a bad one.
fn check(definitions: &Definitions, file: &Path, args: &Args) -> Result<String, String> {
    let paint = Paint::stderr();
    let unreadable = |error: &dyn std::fmt::Display| format!("{} {error}", paint.red("error:"));
    let mut whole = definitions.read_whole(file, &args.reading.options()).map_err(|error| unreadable(&error))?;
    if !args.offline && !whole.unverified().is_empty() {
        let ask = async { Ok(definitions.ask_servers(&mut whole, ASKED_FOR).await) };
        for silent in block_on(ask).map_err(|error| unreadable(&error))? {
            screen::note(&format!("{} {silent}", paint.yellow("not asked:")));
        }
    }
    let problems = screen::colored(&whole.main.render(paint.0));
    if whole.has_errors() {
        return Err(format!("{problems}{}: {}", file.display(), paint.red(&counts(&whole.main))));
    }
    if !problems.is_empty() {
        screen::note(&problems);
    }
    told(file, &whole)
        .map_err(|why| format!("{} {why}\n{}: {}", paint.red("error:"), file.display(), paint.red("1 error")))
}

fn told(file: &Path, whole: &Whole) -> Result<String, String> {
    let Whole { main, branches } = whole;
    let counts = counts(main);
    let warnings = if counts.is_empty() { counts } else { format!(", {counts}") };
    let unverified = Vec::from_iter(whole.unverified()).join(", ");
    let unverified = if unverified.is_empty() { unverified } else { format!("; unverified: {unverified}") };
    let format = main.format.word();
    let mut lines = format!("{}: ok, {format}, {}{warnings}{unverified}", file.display(), steps(main));
    lines.push_str(&triggers(main, "\n  ")?);
    for branch in branches {
        let id = branch.branch.as_deref().unwrap_or_default();
        lines.push_str(&format!("\n  branch {id}: {}, {}", branch.execution_mode(), steps(branch)));
        lines.push_str(&triggers(branch, "\n    ")?);
    }
    Ok(lines)
}

/// What was understood of each trigger, or that one of them can never fire.
fn triggers(definition: &Definition, indent: &str) -> Result<String, String> {
    let lines = definition.plan.as_ref().map(schedules::lines).transpose()?.unwrap_or_default();
    Ok(lines.iter().map(|line| format!("{indent}{line}")).collect())
}

fn steps(definition: &Definition) -> String {
    let nodes = definition.plan.iter().flat_map(|plan| &plan.nodes);
    counted(nodes.filter(|node| !node.hidden).count(), "step")
}

fn number_of(definition: &Definition, severity: Severity) -> usize {
    definition.problems.iter().filter(|problem| problem.severity == severity).count()
}

fn counts(definition: &Definition) -> String {
    let parts = [(Severity::Error, "error"), (Severity::Warning, "warning")];
    let counted = parts.map(|(severity, noun)| (number_of(definition, severity), noun));
    let parts: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| self::counted(*n, noun)).collect();
    parts.join(", ")
}
