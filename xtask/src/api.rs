//! `cargo xtask api`: the server as a stranger meets it. Starts `relais serve` with a home of its own and lets
//! schemathesis make requests from its OpenAPI document, right ones and wrong ones. What the routes do is their own
//! business: here only what the document promises is looked at.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, output_of, run as run_program};

/// Requests of each kind for each operation: a few minutes in all, at most.
const EXAMPLES: &str = "25";
/// The same requests each time; a failure can be repeated.
const SEED: &str = "1";
/// What holds for every answer. Whether data is taken that fits the document but means nothing (a run that is not
/// there) is left out: such requests are refused for good reasons.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,negative_data_rejection,unsupported_method";

pub fn run(workspace: &Workspace) -> Result<()> {
    run_program(&mut workspace.cargo(["build", "--locked", "--package", "relais-cli"]))?;
    let home = workspace.target.join("api-home");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot empty {}", home.display()))?;
    }
    let token = token(workspace, &home)?;
    let (mut server, address) = start(workspace, &home)?;
    let outcome = attack(workspace, &address, &token);
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

fn start(workspace: &Workspace, home: &Path) -> Result<(Child, String)> {
    let mut command = workspace.program(relais(workspace));
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("RELAIS_HOME", home);
    let mut server = command.stderr(Stdio::piped()).spawn().context("cannot start the server")?;
    let output = server.stderr.take().context("the server has no output")?;
    let mut lines = BufReader::new(output).lines();
    let said = |line: std::io::Result<String>| Some(line.ok()?.split("http://").nth(1)?.trim().to_owned());
    let address = lines.by_ref().find_map(said).context("the server did not say where it listens")?;
    std::thread::spawn(move || lines.count());
    Ok((server, address))
}

fn attack(workspace: &Workspace, address: &str, token: &str) -> Result<()> {
    let mut schemathesis = workspace.program(workspace.peers().join("venv/bin/schemathesis"));
    schemathesis.args(["run", &format!("http://{address}/api/v1/openapi.json"), "--checks", CHECKS]);
    schemathesis.args(["--header", &format!("Authorization: Bearer {token}")]);
    schemathesis.args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", SEED]);
    run_program(schemathesis.args(["--request-timeout", "70", "--no-color"]))
}
