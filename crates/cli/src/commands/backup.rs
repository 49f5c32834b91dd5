//! `relais backup`: a copy of the database while it is in use.

use std::path::PathBuf;

use relais_service::Service;

use crate::exit::Exit;
use crate::screen;
use crate::session::Global;

/// Copy the database to a new file, also while runs are going
///
/// The copy has every run, value and artifact. Workspaces are folders beside it and are not copied.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  relais backup relais-$(date +%F).db")]
pub struct Args {
    /// A file that does not exist yet
    file: PathBuf,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve_here(async |service: &Service| {
        service.backup(&args.file).await?;
        screen::note(&format!("copied to {}", args.file.display()));
        Ok(Exit::Done)
    })
}
