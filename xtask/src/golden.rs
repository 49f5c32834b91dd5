//! `cargo xtask golden`: runs the tests so that they rewrite their snapshots. Whether the new ones are right is for the
//! reader of the difference to say.

use anyhow::Result;

use crate::workspace::{Workspace, run as run_program};
use crate::{setup, test};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only tests whose name contains one of these
    filter: Vec<String>,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    setup::run(workspace)?;
    let mut tests = test::runner(workspace, &arguments.filter);
    // The second is the name by which insta knows the same wish.
    run_program(tests.env("UPDATE_EXPECT", "1").env("INSTA_UPDATE", "always"))?;
    println!("snapshots rewritten: read `git diff` before you commit");
    Ok(())
}
