//! The commands, one file each. Each parses its own words, calls the service, and renders the answer.

mod agents;
mod answer;
mod backup;
mod cancel;
mod completions;
mod convert;
mod doctor;
mod event;
mod exec;
mod export;
mod fork;
mod graph;
mod import;
mod mcp;
mod models;
mod notifications;
mod pause;
mod plan;
mod prune;
mod questions;
mod resume;
mod retry;
mod run;
pub mod runs;
mod schedule;
mod schema;
mod serve;
mod show;
mod signal;
mod token;
mod tools;
mod trust;
mod usage;
mod validate;
mod watch;
mod work;
mod workflows;

use clap::Subcommand;

use crate::exit::Exit;
use crate::session::Global;

#[derive(Subcommand)]
pub enum Command {
    Run(run::Args),
    Exec(exec::Args),
    Validate(validate::Args),
    Plan(plan::Args),
    Graph(graph::Args),
    Convert(convert::Args),
    Workflows(workflows::Args),
    Agents(agents::Args),
    Export(export::Args),
    Import(import::Args),
    Schedule(schedule::Args),
    Runs(runs::Args),
    Show(show::Args),
    Watch(watch::Args),
    Questions(questions::Args),
    Answer(answer::Args),
    Signal(signal::Args),
    Event(event::Args),
    Cancel(cancel::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Retry(retry::Args),
    Fork(fork::Args),
    Notifications(notifications::Args),
    Usage(usage::Args),
    Tools(tools::Args),
    Models(models::Args),
    Mcp(mcp::Args),
    Schema(schema::Args),
    Serve(serve::Args),
    Token(token::Args),
    Trust(trust::Args),
    Doctor(doctor::Args),
    Prune(prune::Args),
    Backup(backup::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Work(work::Args),
}

impl Command {
    pub fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Command::Run(args) => run::run(args, global),
            Command::Exec(args) => exec::run(args, global),
            Command::Validate(args) => validate::run(args, global),
            Command::Plan(args) => plan::run(args, global),
            Command::Graph(args) => graph::run(args, global),
            Command::Convert(args) => convert::run(args, global),
            Command::Workflows(args) => workflows::run(args, global),
            Command::Agents(args) => agents::run(args, global),
            Command::Export(args) => export::run(args, global),
            Command::Import(args) => import::run(args, global),
            Command::Schedule(args) => schedule::run(args, global),
            Command::Runs(args) => runs::run(args, global),
            Command::Show(args) => show::run(args, global),
            Command::Watch(args) => watch::run(args, global),
            Command::Questions(args) => questions::run(args, global),
            Command::Answer(args) => answer::run(args, global),
            Command::Signal(args) => signal::run(args, global),
            Command::Event(args) => event::run(args, global),
            Command::Cancel(args) => cancel::run(args, global),
            Command::Pause(args) => pause::run(args, global),
            Command::Resume(args) => resume::run(args, global),
            Command::Retry(args) => retry::run(args, global),
            Command::Fork(args) => fork::run(args, global),
            Command::Notifications(args) => notifications::run(args, global),
            Command::Usage(args) => usage::run(args, global),
            Command::Tools(args) => tools::run(args, global),
            Command::Models(args) => models::run(args, global),
            Command::Mcp(args) => mcp::run(args, global),
            Command::Schema(args) => schema::run(args),
            Command::Serve(args) => serve::run(args, global),
            Command::Token(args) => token::run(args, global),
            Command::Trust(args) => trust::run(args, global),
            Command::Doctor(args) => doctor::run(args, global),
            Command::Prune(args) => prune::run(args, global),
            Command::Backup(args) => backup::run(args, global),
            Command::Completions(args) => completions::run(args),
            Command::Work(args) => work::run(args, global),
        }
    }
}
