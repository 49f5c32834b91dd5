//! The command `relais`: reads the words, hands them to one command, and says how it went.
//!
//! Knows which commands there are and nothing of what they do.

mod attend;
mod begin;
mod commands;
mod consent;
mod definition;
mod detach;
mod exit;
mod foresight;
mod given;
mod interrupts;
mod library;
mod lists;
mod many;
mod offer;
mod onward;
mod progress;
mod questions;
mod remote;
mod schedules;
mod screen;
mod session;
mod timetable;
mod which;
mod words;

use clap::Parser;

use commands::Command;
use session::Global;

/// Runs agent workflows that no crash can hurt: every model reply and tool result is kept before anything follows from
/// it.
#[derive(Parser)]
#[command(name = "relais", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  relais run examples/price-monitor.yaml --simulate    no key, no network, no cost
  relais run flow.yaml \"What moved today?\"             the text is the input `prompt`
  relais show --last                                   what happened, step by step
  relais resume --last                                 go on after a failure or a crash

Exit codes: 0 completed or stopped, 1 failed or partial_success, 2 usage or invalid file, 3 waiting, 130 cancelled,
143 let go after SIGTERM (the run goes on with `relais resume`).";

fn main() -> std::process::ExitCode {
    let Cli { global, command } = Cli::parse();
    exit::code(command.run(&global))
}
