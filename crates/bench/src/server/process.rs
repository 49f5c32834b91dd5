//! Servers as processes of their own: started, looked at, killed.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Says that the limit on open files has been raised, so that it is tried once.
const RAISED: &str = "RELAIS_BENCH_RAISED";
/// Files that a process needs beside one for each stream.
const OTHER_FILES: usize = 200;

pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// `relais serve`, built beside this program.
    pub fn serve(home: &Path, environment: &[(&str, &str)]) -> Result<Process> {
        let program = std::env::current_exe()?.with_file_name("relais");
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(home).env("RELAIS_HOME", home);
        // A line for each request would be measured, too.
        command.env("RELAIS_LOG", "warn").envs(environment.iter().copied());
        Process::start(command).with_context(|| format!("cannot start {}", program.display()))
    }

    /// This program again, as the bare server.
    pub fn bare(folder: &Path) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare").env("BENCH_DATA", folder);
        Process::start(command)
    }

    fn start(mut command: Command) -> Result<Process> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("no standard error")?).lines();
        let mut said = Vec::new();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let address = line.split_once("listening on http://").and_then(|(_, address)| address.trim().parse().ok());
            said.push(line);
            address
        });
        let address = address.with_context(|| format!("it never listened: {}", said.join(" ")))?;
        std::thread::spawn(move || lines.map_while(Result::ok).count());
        Ok(Process { child, address })
    }

    /// Memory in use, in bytes.
    pub fn rss(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.context("memory is measured on Linux only")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    /// SIGKILL, as a crash would be.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

/// Starts this program once more with as many files as the machine allows; its servers inherit that.
pub fn raise_limit() -> Result<()> {
    if std::env::var_os(RAISED).is_some() {
        return Ok(());
    }
    let script = "ulimit -n \"$(ulimit -Hn)\" 2>/dev/null; exec \"$0\" \"$@\"";
    let program = std::env::current_exe()?;
    let mut again = Command::new("sh");
    again.args(["-c", script]).arg(program).args(std::env::args_os().skip(1)).env(RAISED, "yes");
    Err(again.exec()).context("cannot start again with more open files")
}

/// How many streams this process may have open.
pub fn most_streams() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).and_then(|soft| soft.parse::<usize>().ok());
    soft.map_or(usize::MAX, |soft| soft.saturating_sub(OTHER_FILES))
}
