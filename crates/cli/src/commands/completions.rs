//! `relais completions`: what a shell needs to complete our words.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::{Cli, screen};

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais completions bash > ~/.local/share/bash-completion/completions/relais
  relais completions zsh > \"${fpath[1]}/_relais\"
  relais completions fish > ~/.config/fish/completions/relais.fish")]
pub struct Args {
    shell: Shell,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    // Into memory first: the generator panics on a pipe that breaks.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "relais", &mut script);
    screen::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
