//! `cargo xtask bench`: builds `relais-bench` in release mode and runs it: under the side-by-side driver where its folder
//! is at hand, else by itself. What is measured, and how, is written there and in `relais-bench`.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, run as run_program};

/// The workloads that need no stub chat server; W4 runs under the driver only, which brings one.
const WORKLOADS_ALONE: [&str; 6] = ["W1", "W2", "W3", "W5", "W6", "W7"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Handed to relais-bench as they are, for example `W2`, `load`, `edges` or `server a`; nothing means the limits and all workloads
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    run_program(&mut workspace.cargo(["build", "--release", "--locked", "--package", "relais-bench"]))?;
    let adapter = workspace.target.join("release/relais-bench");
    if arguments.words.first().is_some_and(|word| word == "server") {
        // The real program is what is measured; it lies beside relais-bench.
        run_program(&mut workspace.cargo(["build", "--release", "--locked", "--package", "relais-cli"]))?;
    }
    if !arguments.words.is_empty() {
        return run_program(workspace.program(&adapter).args(&arguments.words));
    }
    run_program(workspace.program(&adapter).arg("limits"))?;
    match driver_folder(workspace) {
        Some(folder) => side_by_side(workspace, &adapter, &folder),
        None => alone(workspace, &adapter),
    }
}

fn driver_folder(workspace: &Workspace) -> Option<PathBuf> {
    let folder = env::var_os("RELAIS_BENCH_DIR").map_or_else(|| workspace.root.join("../shared/bench"), PathBuf::from);
    folder.join("bench.py").is_file().then_some(folder)
}

fn side_by_side(workspace: &Workspace, adapter: &Path, folder: &Path) -> Result<()> {
    let peers = env::var_os("PEERS_DIR").map_or_else(|| workspace.target.join("bench-peers"), PathBuf::from);
    if !peers.join("target/release/stub").is_file() {
        let mut stub = workspace.cargo(["build", "--release"]);
        stub.current_dir(folder.join("stub")).env("CARGO_TARGET_DIR", peers.join("target"));
        run_program(&mut stub)?;
    }
    let results = peers.join("results.jsonl");
    let mut driver = workspace.program("python3");
    driver.env("OURS", adapter).env("PEERS_DIR", &peers).arg(folder.join("bench.py"));
    run_program(driver.args(["--peers", "ours", "--out"]).arg(&results))
}

fn alone(workspace: &Workspace, adapter: &Path) -> Result<()> {
    println!("no side-by-side driver (RELAIS_BENCH_DIR): running the adapter alone, without W4");
    let data = workspace.target.join("bench-data");
    for workload in WORKLOADS_ALONE {
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("cannot empty {}", data.display()))?;
        }
        fs::create_dir_all(&data).with_context(|| format!("cannot create {}", data.display()))?;
        workload_alone(workspace, adapter, workload, &data)?;
    }
    Ok(())
}

/// The adapter waits for one line after `@begin` and one after `@end`; without a driver both are there from the start.
fn workload_alone(workspace: &Workspace, adapter: &Path, workload: &str, data: &Path) -> Result<()> {
    println!("$ relais-bench {workload} {{}}");
    let mut command = workspace.program(adapter);
    command.args([workload, "{}"]).env("BENCH_DATA", data).stdin(Stdio::piped());
    let mut child = command.spawn().context("cannot start relais-bench")?;
    if let Some(mut input) = child.stdin.take() {
        // A program that ended before it read them is judged by its status below.
        let _ = input.write_all(b"\n\n");
    }
    let status = child.wait().context("cannot wait for relais-bench")?;
    if !status.success() {
        bail!("relais-bench {workload} ended with {status}");
    }
    Ok(())
}
