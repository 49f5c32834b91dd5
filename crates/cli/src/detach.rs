//! Work left to a process in the background, which outlives the terminal.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use relais_engine::RunId;
use relais_service::Config;
use relais_service::config::WORKER_LOG;
use relais_store::private;

/// Starts `relais work RUN` in a process group of its own, so that Ctrl-C here does not reach it.
pub fn work_on(config: &Config, run: RunId) -> anyhow::Result<()> {
    let file = config.home.join(WORKER_LOG);
    let log = private::append_file(&file).with_context(|| format!("{} cannot be written", file.display()))?;
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let mut command = Command::new(program);
    command.arg("--home").arg(&config.home).arg("work").arg(run.to_string());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    command.spawn().context("the background worker could not be started")?;
    Ok(())
}
