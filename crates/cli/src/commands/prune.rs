//! `relais prune`: old runs removed.

use relais_engine::RunStatus;
use relais_plan::time::parse_duration;
use relais_service::Service;

use super::runs::status;
use crate::exit::Exit;
use crate::screen;
use crate::session::Global;
use crate::words::counted;

/// Remove finished runs that ended long ago, with their values, artifacts and workspaces
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais prune --keep 30d\n  relais prune --keep 7d --status failed")]
pub struct Args {
    /// Runs that ended within this time stay: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep: u64,
    /// Only runs of this status; may be repeated [default: every finished one]
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = status())]
    status: Vec<RunStatus>,
}

fn duration(text: &str) -> Result<u64, String> {
    parse_duration(text).ok_or_else(|| "write a time such as 12h or 30d".to_owned())
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve_here(async |service: &Service| {
        let pruned = service.prune(args.keep, &args.status).await?;
        let values = counted(pruned.blobs as usize, "stored value");
        screen::note(&format!("removed {} and {values}", counted(pruned.runs as usize, "run")));
        Ok(Exit::Done)
    })
}
