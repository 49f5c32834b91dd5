//! The commands, one file each. Each parses its own words, calls the service, and renders the answer.

mod run;
mod runs;
mod show;
mod validate;
mod work;

use clap::Subcommand;

use crate::exit::Exit;
use crate::session::Global;

#[derive(Subcommand)]
pub enum Command {
    #[command(visible_alias = "exec")]
    Run(run::Args),
    Validate(validate::Args),
    Runs(runs::Args),
    Show(show::Args),
    #[command(hide = true)]
    Work(work::Args),
}

impl Command {
    pub fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Command::Run(args) => run::run(args, global),
            Command::Validate(args) => validate::run(args, global),
            Command::Runs(args) => runs::run(args, global),
            Command::Show(args) => show::run(args, global),
            Command::Work(args) => work::run(args, global),
        }
    }
}
