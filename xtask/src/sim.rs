//! `cargo xtask sim`: starts the simulator of `relais-sim`. What a seed does, and which laws are checked, is its business.

use anyhow::{Result, bail};

use crate::workspace::{Workspace, run as run_program};

const PACKAGE: &str = "relais-sim";
const BINARY: &str = "relais-simulate";
/// Workers in virtual time are left out of what ships.
const FEATURES: &str = "fleet";

#[derive(clap::Args)]
pub struct Arguments {
    /// How many seeds to try
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed; with `--seeds 1` exactly this one
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy)]
pub enum Profile {
    Dev,
    Release,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    if !exists(workspace) {
        bail!("{PACKAGE} has no binary {BINARY}: there is nothing to run");
    }
    simulate(workspace, arguments.seeds, arguments.seed, Profile::Release)
}

pub fn exists(workspace: &Workspace) -> bool {
    workspace.has_binary(PACKAGE, BINARY)
}

pub fn simulate(workspace: &Workspace, seeds: u64, seed: Option<u64>, profile: Profile) -> Result<()> {
    let mut command = workspace.cargo(["run", "--quiet", "--locked", "--package", PACKAGE, "--bin", BINARY]);
    command.args(["--features", FEATURES]);
    if let Profile::Release = profile {
        command.arg("--release");
    }
    command.args(["--", "--seeds", &seeds.to_string()]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    run_program(&mut command)
}
