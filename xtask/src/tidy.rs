//! `cargo xtask tidy`: the rules of STYLE.md that a program can check, one file per rule. Each rule returns its problems as
//! text that says what to do; this file runs them all and prints what they found.

mod arrows;
mod lengths;
mod links;
mod lock;
mod purity;
mod source;
mod sources;
mod words;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// Lower the ratchet of function lengths to what the code has now; never raises it
    #[arg(long)]
    update: bool,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    if arguments.update {
        lengths::lower_ratchet(workspace, &workspace.files()?)?;
    }
    check(workspace)
}

pub fn check(workspace: &Workspace) -> Result<()> {
    let files = workspace.files()?;
    let mut problems = arrows::check(workspace.packages());
    problems.extend(purity::check(workspace, &files)?);
    problems.extend(sources::check(&files));
    problems.extend(lengths::check(workspace, &files)?);
    problems.extend(links::check(workspace, &files));
    problems.extend(words::check(&files));
    problems.extend(lock::check(&files));
    for problem in &problems {
        println!("tidy: {problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => bail!("tidy found {count} problem(s), listed above"),
    }
}
