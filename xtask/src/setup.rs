//! `cargo xtask setup`: the MCP servers that the tests talk to, at pinned versions, in `peers` under the target folder:
//! `node_modules/.bin/mcp-server-everything`, `node_modules/.bin/mcp-server-filesystem`, the official conformance suite
//! in two lines (`node_modules/conformance`, `node_modules/conformance-next`), and `venv/bin/python` with the packages
//! `mcp` and `schemathesis`. The tests find the folder through `RELAIS_TEST_PEERS`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, output_of, run as run_program, succeeds};

/// The pinned lists, in `xtask/peers`. What they say decides whether there is anything to do.
const LISTS: [&str; 4] = ["package.json", "package-lock.json", ".npmrc", "requirements.txt"];

/// What must be there after an installation.
const INSTALLED: [&str; 6] = [
    "node_modules/.bin/mcp-server-everything",
    "node_modules/.bin/mcp-server-filesystem",
    "node_modules/conformance/dist/index.js",
    "node_modules/conformance-next/dist/index.js",
    "venv/bin/python",
    "venv/bin/schemathesis",
];

/// Holds the lists that were installed last; written at the very end, so a broken installation is done again.
const STAMP: &str = "installed";

pub fn run(workspace: &Workspace) -> Result<()> {
    let peers = workspace.peers();
    let wanted = wanted(workspace)?;
    if is_current(&peers, &wanted) {
        println!("test peers are up to date: {}", peers.display());
        return Ok(());
    }
    install_system_packages(workspace)?;
    place_lists(workspace, &peers)?;
    install_node_packages(workspace, &peers)?;
    install_python_packages(workspace, &peers)?;
    if let Some(missing) = first_missing(&peers) {
        bail!("the installation ended well but {missing} is not there: check the versions in xtask/peers");
    }
    fs::write(peers.join(STAMP), wanted).context("cannot write the stamp of the test peers")?;
    println!("test peers installed: {}", peers.display());
    Ok(())
}

fn wanted(workspace: &Workspace) -> Result<String> {
    let mut text = String::new();
    for list in LISTS {
        let path = workspace.root.join("xtask/peers").join(list);
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

fn is_current(peers: &Path, wanted: &str) -> bool {
    fs::read_to_string(peers.join(STAMP)).is_ok_and(|stamp| stamp == wanted) && first_missing(peers).is_none()
}

fn first_missing(peers: &Path) -> Option<&'static str> {
    INSTALLED.into_iter().find(|path| !peers.join(path).exists())
}

fn place_lists(workspace: &Workspace, peers: &Path) -> Result<()> {
    fs::create_dir_all(peers).with_context(|| format!("cannot create {}", peers.display()))?;
    let stamp = peers.join(STAMP);
    if stamp.exists() {
        fs::remove_file(&stamp).with_context(|| format!("cannot remove {}", stamp.display()))?;
    }
    for list in LISTS {
        let from = workspace.root.join("xtask/peers").join(list);
        fs::copy(&from, peers.join(list)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

fn install_node_packages(workspace: &Workspace, peers: &Path) -> Result<()> {
    let mut npm = workspace.program("npm");
    npm.current_dir(peers).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run_program(&mut npm)
}

fn install_python_packages(workspace: &Workspace, peers: &Path) -> Result<()> {
    let python = peers.join("venv/bin/python");
    run_program(workspace.program("python3").args(["-m", "venv", "--clear"]).arg(peers.join("venv")))?;
    let mut pip = workspace.program(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    run_program(pip.arg(peers.join("requirements.txt")))?;
    run_program(workspace.program(&python).args(["-c", "import mcp"]))
}

/// Node, npm and Python's venv, where they are missing and can be installed.
fn install_system_packages(workspace: &Workspace) -> Result<()> {
    let missing = missing_packages(workspace);
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root(workspace) || !succeeds(workspace.program("apt-get").arg("--version")) {
        bail!("the tests need {}: install them (this command does it by itself as root on Debian)", missing.join(", "));
    }
    run_program(workspace.program("apt-get").args(["update", "--quiet"]))?;
    let mut install = workspace.program("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "--yes", "--no-install-recommends"]);
    run_program(install.args(&missing))?;
    match missing_packages(workspace).first() {
        Some(package) => bail!("{package} was installed but does not work: check which one comes first in PATH"),
        None => Ok(()),
    }
}

/// The Debian packages whose programs do not answer.
fn missing_packages(workspace: &Workspace) -> Vec<&'static str> {
    let checks: [(&str, &[&str], &str); 3] = [
        ("node", &["--version"], "nodejs"),
        ("npm", &["--version"], "npm"),
        ("python3", &["-c", "import venv, ensurepip"], "python3-venv"),
    ];
    let fails = |program: &str, arguments: &[&str]| !succeeds(workspace.program(program).args(arguments));
    checks.into_iter().filter(|(program, arguments, _)| fails(program, arguments)).map(|check| check.2).collect()
}

fn is_root(workspace: &Workspace) -> bool {
    output_of(workspace.program("id").arg("-u")).is_ok_and(|user| user.trim() == "0")
}
