//! `cargo xtask test`: every check in a row, and what each took. A stage that fails does not keep the later ones from
//! running, except that the tests are skipped when their peers are missing. What a stage checks is its own business.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::workspace::{Workspace, run as run_program, succeeds};
use crate::{api, setup, sim, tidy};

/// Enough to meet each kind of fault many times within a minute; `cargo xtask sim` goes further.
const SEEDS: u64 = 300;

#[derive(clap::Args)]
pub struct Arguments {
    /// Leave out format, clippy, the API and the simulator
    #[arg(long)]
    quick: bool,
    /// Only tests whose name contains one of these
    filter: Vec<String>,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<()> {
    let mut report = Report::default();
    let ready = report.stage("setup", || setup::run(workspace));
    if !arguments.quick {
        report.stage("format", || run_program(&mut workspace.cargo(["fmt", "--all", "--check"])));
        report.stage("clippy", || run_program(&mut clippy(workspace)));
    }
    if ready {
        report.stage("tests", || run_program(&mut runner(workspace, &arguments.filter)));
    } else {
        report.skip("tests", "the setup failed");
    }
    if arguments.filter.is_empty() {
        report.stage("documentation tests", || run_program(&mut documentation_tests(workspace)));
    }
    report.stage("tidy", || tidy::check(workspace));
    if !arguments.quick {
        attack(workspace, ready, &mut report);
        simulate(workspace, &mut report);
    }
    report.finish()
}

/// The command that runs the tests: nextest where it is installed, else cargo's own runner.
pub fn runner(workspace: &Workspace, filter: &[String]) -> Command {
    let has_nextest = succeeds(&mut workspace.cargo(["nextest", "--version"]));
    let words: &[&str] = if has_nextest { &["nextest", "run"] } else { &["test", "--all-targets"] };
    let mut command = workspace.cargo(words);
    command.args(["--workspace", "--locked"]).env("RELAIS_TEST_PEERS", workspace.peers());
    if !filter.is_empty() {
        command.arg("--").args(filter);
    }
    command
}

fn clippy(workspace: &Workspace) -> Command {
    workspace.cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn documentation_tests(workspace: &Workspace) -> Command {
    workspace.cargo(["test", "--doc", "--workspace", "--locked", "--quiet"])
}

/// Requests that are made up need what the setup has installed.
fn attack(workspace: &Workspace, ready: bool, report: &mut Report) {
    if ready {
        report.stage("api", || api::run(workspace, &api::Arguments::default()));
    } else {
        report.skip("api", "the setup failed");
    }
}

fn simulate(workspace: &Workspace, report: &mut Report) {
    if sim::exists(workspace) {
        report.stage("simulator", || sim::simulate(workspace, SEEDS, None, sim::Profile::Dev));
    } else {
        report.skip("simulator", "there is no simulator to run");
    }
}

enum Outcome {
    Passed(Duration),
    Failed(Duration, String),
    Skipped(&'static str),
}

#[derive(Default)]
struct Report {
    stages: Vec<(&'static str, Outcome)>,
}

impl Report {
    /// Runs a stage and says whether it passed.
    fn stage(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> bool {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = match work() {
            Ok(()) => Outcome::Passed(start.elapsed()),
            Err(error) => Outcome::Failed(start.elapsed(), format!("{error:#}")),
        };
        let passed = matches!(outcome, Outcome::Passed(_));
        self.stages.push((name, outcome));
        passed
    }

    fn skip(&mut self, name: &'static str, reason: &'static str) {
        self.stages.push((name, Outcome::Skipped(reason)));
    }

    fn finish(&self) -> Result<()> {
        println!();
        for (name, outcome) in &self.stages {
            println!("{}", line(name, outcome));
        }
        let failed = self.failed();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }

    fn failed(&self) -> Vec<&'static str> {
        let is_failed = |stage: &&(&str, Outcome)| matches!(stage.1, Outcome::Failed(..));
        self.stages.iter().filter(is_failed).map(|stage| stage.0).collect()
    }
}

fn line(name: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed(took) => format!("ok      {:>7.1} s  {name}", took.as_secs_f64()),
        Outcome::Failed(took, why) => {
            let first = why.lines().next().unwrap_or_default();
            format!("FAILED  {:>7.1} s  {name}: {first}", took.as_secs_f64())
        }
        Outcome::Skipped(why) => format!("skipped            {name}: {why}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_stage_fails_the_whole_and_later_stages_still_run() {
        let mut report = Report::default();
        assert!(report.stage("first", || Ok(())));
        assert!(!report.stage("second", || bail!("it broke")));
        assert!(report.stage("third", || Ok(())));
        report.skip("fourth", "nothing to run");
        assert_eq!(report.failed(), ["second"]);
        assert_eq!(report.finish().unwrap_err().to_string(), "failed: second");
    }

    #[test]
    fn the_line_of_a_failure_says_why() {
        let text = line("tidy", &Outcome::Failed(Duration::from_millis(1_500), "2 problems\nand more".to_string()));
        assert_eq!(text, "FAILED      1.5 s  tidy: 2 problems");
    }
}
