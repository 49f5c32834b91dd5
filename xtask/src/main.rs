//! `cargo xtask`: the project's own commands. This file reads the command line and hands over; each command lives in its
//! own file. Nothing here is part of the shipped program.
#![allow(clippy::print_stdout)] // A command-line tool for developers: its output is its result.

mod api;
mod bench;
mod golden;
mod setup;
mod sim;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set up, test, tidy, simulate and measure Relais")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the servers that the tests talk to into the target folder
    Setup,
    /// Set up, then run every check: format, clippy, tests, tidy, API, simulator
    Test(test::Arguments),
    /// Check the rules of STYLE.md that a program can check
    Tidy(tidy::Arguments),
    /// Let schemathesis make requests to a server from its OpenAPI document
    Api(api::Arguments),
    /// Run seeded simulations in release mode
    Sim(sim::Arguments),
    /// Build in release mode and measure
    Bench(bench::Arguments),
    /// Run the tests and rewrite their snapshots
    Golden(golden::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup => setup::run(&workspace),
        Command::Test(arguments) => test::run(&workspace, &arguments),
        Command::Tidy(arguments) => tidy::run(&workspace, &arguments),
        Command::Api(arguments) => api::run(&workspace, &arguments),
        Command::Sim(arguments) => sim::run(&workspace, &arguments),
        Command::Bench(arguments) => bench::run(&workspace, &arguments),
        Command::Golden(arguments) => golden::run(&workspace, &arguments),
    }
}
