//! `relais runs`: the list, newest first.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use relais_engine::{RunStatus, Summary};
use relais_plan::time::format_duration;
use relais_store::Filter;

use crate::exit::Exit;
use crate::lists::List;
use crate::screen;
use crate::session::{Global, Session};
use crate::words;

/// List runs, newest first
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  relais runs --status failed\n  relais runs --workflow price-monitor --limit 5\n  relais runs --tag team=sales --error timeout"
)]
pub struct Args {
    /// Only runs of this status; may be repeated
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    status: Vec<RunStatus>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only runs with this tag; may be repeated, and a run must have all of them
    #[arg(long, value_name = "NAME=VALUE")]
    tag: Vec<String>,
    /// Only runs that ended with an error of this kind, such as timeout
    #[arg(long, value_name = "KIND")]
    error: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Also the runs that other runs have started
    #[arg(long)]
    children: bool,
    /// One JSON object per run
    #[arg(long)]
    json: bool,
}

/// A status by its word, whatever its case; the help lists them.
pub fn status() -> impl TypedValueParser<Value = RunStatus> {
    PossibleValuesParser::new(RunStatus::shown().map(RunStatus::word))
        .try_map(|word| RunStatus::named(&word.to_lowercase()).ok_or("no status of a run"))
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| {
        let filter = Filter {
            marks: relais_service::marks(&args.tag, args.error.as_deref())?,
            status: args.status.clone(),
            workflow: args.workflow.clone(),
            limit: usize::from(args.limit),
            roots_only: !args.children,
            ..Filter::default()
        };
        let page = session.runs(filter).await?;
        let rows: Vec<Summary> = page.rows.into_iter().map(|row| row.summary).collect();
        let list = List { items: &rows, more: page.cursor.is_some(), json: args.json, none: "no runs" };
        let exit = list.show(["RUN", "WORKFLOW", "STATUS", "STARTED", "TIME", "TOKENS", "COST"], cells)?;
        let interrupted = rows.iter().find(|row| row.status == RunStatus::Interrupted).filter(|_| !args.json);
        if let Some(row) = interrupted {
            screen::note(&format!("nobody works on an interrupted run; `relais resume {}` goes on with it", row.run));
        }
        Ok(exit)
    })
}

fn cells(row: &Summary) -> [String; 7] {
    let time = row.ended_at.map(|at| format_duration(words::elapsed(row.started_at, at)));
    let waits = if row.awaits.is_empty() { String::new() } else { format!(" ({})", kinds(&row.awaits)) };
    [
        row.run.to_string(),
        words::shorten(&row.workflow, 40),
        format!("{}{waits}", row.status.word()),
        words::instant(row.started_at),
        time.unwrap_or_default(),
        words::tokens(row.usage.tokens()).unwrap_or_default(),
        words::cost(row.usage.usd_nanos).unwrap_or_default(),
    ]
}

/// `person`, `signal`, `time`, …: what kinds of things a run waits for.
fn kinds(awaits: &[String]) -> String {
    let mut kinds: Vec<&str> = awaits.iter().map(|a| a.split(':').next().unwrap_or(a)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}
