//! The working copy as the commands see it: where it is, which files it has, and how programs are started in it. Knows
//! nothing about what any command does.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub struct Workspace {
    pub root: PathBuf,
    /// Where cargo builds, absolute; `CARGO_TARGET_DIR` decides.
    pub target: PathBuf,
    metadata: Value,
}

/// A file of the project: its path from the root, with forward slashes, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

impl Workspace {
    /// The workspace that `cargo run` started us for. Asked at run time: working copies may share one target folder, and
    /// with it this very program.
    pub fn find() -> Result<Workspace> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        if let Some(folder) = env::var_os("CARGO_MANIFEST_DIR") {
            command.current_dir(folder);
        }
        let metadata: Value = serde_json::from_str(&output_of(&mut command)?).context("cargo metadata gave no JSON")?;
        let folder = |key: &str| metadata[key].as_str().map(PathBuf::from).with_context(|| format!("no {key}"));
        Ok(Workspace { root: folder("workspace_root")?, target: folder("target_directory")?, metadata })
    }

    /// The packages of the workspace, as `cargo metadata` describes them.
    pub fn packages(&self) -> &[Value] {
        self.metadata["packages"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn has_binary(&self, package: &str, binary: &str) -> bool {
        let is_binary = |target: &Value| target["name"] == binary && target["kind"][0] == "bin";
        let has_it = |found: &Value| found["targets"].as_array().is_some_and(|targets| targets.iter().any(is_binary));
        self.packages().iter().any(|found| found["name"] == package && has_it(found))
    }

    /// Where `setup` puts the servers that the tests talk to.
    pub fn peers(&self) -> PathBuf {
        self.target.join("peers")
    }

    pub fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root).args(arguments);
        command
    }

    pub fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(name);
        command.current_dir(&self.root);
        command
    }

    /// Every file that git tracks or would track, as far as it is text.
    pub fn files(&self) -> Result<Vec<File>> {
        let mut command = self.program("git");
        command.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let listing = output_of(&mut command)?;
        let mut files: Vec<File> = listing.lines().filter_map(|path| self.file(path)).collect();
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(files)
    }

    /// A path that is gone or not text is no file to check.
    fn file(&self, path: &str) -> Option<File> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(File { path: path.to_string(), text })
    }
}

/// Cargo, as a person would start it. `cargo run` describes xtask itself in the environment; build scripts that watch
/// those variables would run again each time, and half the dependencies with them.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs a program to its end with its output on the screen, after saying what runs.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", spelled(command));
    let status = command.status().with_context(|| format!("cannot start {}", spelled(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", spelled(command));
    }
    Ok(())
}

/// Runs a program to its end and returns what it printed.
pub fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", spelled(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` ended with {}: {}",
            spelled(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed something that is not text", spelled(command)))
}

/// Whether a program can be started and ends well; its output is of no interest.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
