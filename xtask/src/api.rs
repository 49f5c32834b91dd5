//! `cargo xtask api`: the server as a stranger meets it. Starts `relais serve` with a home of its own, makes one of
//! everything there (`xtask/api/furnish.py`), and lets schemathesis make requests from its OpenAPI document, right ones
//! and wrong ones. What the routes do is their own business: here only what the document promises is looked at.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, output_of, run as run_program};

/// Requests that are made up for each operation, beside those that try the bounds of every field: more than a hundred
/// take minutes and have found what these do not.
const EXAMPLES: u32 = 20;
/// The same requests each time; a failure can be repeated.
const SEED: u64 = 1;
/// The server needs one core, what makes the requests another. Python 3.11 parses code wrongly in several threads.
const WORKERS: &str = "1";
/// Longer than the longest time that a request may ask to be kept waiting.
const REQUEST_TIMEOUT_S: &str = "70";
/// Not checked: what fits the document may still mean nothing (a definition with a mistake in it, a time that is none)
/// and is refused for that.
const UNCHECKED: &str = "positive_data_acceptance";

#[derive(clap::Args)]
pub struct Arguments {
    /// Requests that are made up for each operation
    #[arg(long, default_value_t = EXAMPLES)]
    examples: u32,
    /// Repeats the requests that were made with it
    #[arg(long, default_value_t = SEED)]
    seed: u64,
}

impl Default for Arguments {
    fn default() -> Arguments {
        Arguments { examples: EXAMPLES, seed: SEED }
    }
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    run_program(&mut workspace.cargo(["build", "--locked", "--package", "relais-cli"]))?;
    let home = workspace.target.join("api-home");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot empty {}", home.display()))?;
    }
    let token = token(workspace, &home)?;
    let (mut server, address) = start(workspace, &home)?;
    let outcome =
        furnish(workspace, &address, &token).and_then(|ids| attack(workspace, arguments, &ids, &address, &token));
    // It may have fallen over; then the attack has failed as well.
    let _ = server.kill();
    server.wait().context("cannot wait for the server")?;
    outcome
}

/// The token of somebody who may do everything, so that requests come as far as they can.
fn token(workspace: &Workspace, home: &Path) -> Result<String> {
    let mut command = workspace.program(relais(workspace));
    command.args(["token", "create", "--scope", "admin", "--scope", "read", "--scope", "run", "--scope", "write"]);
    Ok(output_of(command.env("RELAIS_HOME", home))?.trim().to_owned())
}

fn relais(workspace: &Workspace) -> PathBuf {
    workspace.target.join("debug/relais")
}

/// Without a token nobody is let in, so that what is left open shows.
fn start(workspace: &Workspace, home: &Path) -> Result<(Child, String)> {
    let mut command = workspace.program(relais(workspace));
    command.args(["serve", "--listen", "127.0.0.1:0", "--require-token"]).env("RELAIS_HOME", home);
    let mut server = command.stderr(Stdio::piped()).spawn().context("cannot start the server")?;
    let output = server.stderr.take().context("the server has no output")?;
    let mut lines = BufReader::new(output).lines();
    let said = |line: std::io::Result<String>| Some(line.ok()?.split("http://").nth(1)?.trim().to_owned());
    let address = lines.by_ref().find_map(said).context("the server did not say where it listens")?;
    std::thread::spawn(move || lines.count());
    Ok((server, address))
}

/// Requests with ids that are made up come no further than "not found": the file that is answered has ids of things that
/// are there.
fn furnish(workspace: &Workspace, address: &str, token: &str) -> Result<PathBuf> {
    let mut python = workspace.program(workspace.peers().join("venv/bin/python"));
    python.arg("xtask/api/furnish.py").arg(format!("http://{address}")).env("TOKEN", token);
    let ids = workspace.target.join("api-ids.toml");
    fs::write(&ids, output_of(&mut python)?).with_context(|| format!("cannot write {}", ids.display()))?;
    Ok(ids)
}

fn attack(workspace: &Workspace, arguments: &Arguments, ids: &Path, address: &str, token: &str) -> Result<()> {
    let Arguments { examples, seed } = arguments;
    let mut schemathesis = workspace.program(workspace.peers().join("venv/bin/schemathesis"));
    schemathesis.arg("--config-file").arg(ids);
    schemathesis.args(["run", &format!("http://{address}/api/v1/openapi.json")]);
    schemathesis.args(["--checks", "all", "--exclude-checks", UNCHECKED]);
    schemathesis.env("TOKEN", token);
    schemathesis.args(["--phases", "examples,coverage,fuzzing,stateful", "--workers", WORKERS]);
    schemathesis.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
    // Nothing is kept from one time to the next, so that each is the same.
    schemathesis.args(["--generation-database", "none"]);
    run_program(schemathesis.args(["--request-timeout", REQUEST_TIMEOUT_S, "--no-color"]))
}
