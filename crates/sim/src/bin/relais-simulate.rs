//! Proves the laws of the core over many seeds, of one run and of workers that share a store:
//! `relais-simulate --seeds 10000 [--from 1]`, or `--seed 17` to see what one seed does. Exit code 1 if a law is broken,
//! 2 for wrong arguments.

use std::io::Write;
use std::process::ExitCode;

use relais_engine::RunStatus;
use relais_sim::{fleet, laws, plans};

const USAGE: &str = "relais-simulate --seeds N [--from S] | --seed S";
/// Enough to see a pattern; the rest would only scroll.
const MAX_SHOWN: usize = 10;

enum Job {
    Many { from: u64, count: u64 },
    One(u64),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match read(&arguments) {
        Ok(Job::Many { from, count }) => many(from, count),
        Ok(Job::One(seed)) => one(seed),
        Err(problem) => {
            say(&format!("{problem}\n{USAGE}"));
            ExitCode::from(2)
        }
    }
}

fn read(arguments: &[String]) -> Result<Job, String> {
    let mut values = std::collections::BTreeMap::new();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("`{}` needs a number", pair[0])) };
        if !["--seeds", "--from", "--seed"].contains(&name.as_str()) {
            return Err(format!("`{name}` is unknown"));
        }
        let number: u64 = value.parse().map_err(|_| format!("`{name}` takes a number, not `{value}`"))?;
        values.insert(name.as_str(), number);
    }
    match (values.get("--seed"), values.get("--seeds")) {
        (Some(seed), None) => Ok(Job::One(*seed)),
        (None, Some(count)) => Ok(Job::Many { from: values.get("--from").copied().unwrap_or(1), count: *count }),
        _ => Err("one of `--seed` and `--seeds` is needed".to_owned()),
    }
}

fn many(from: u64, count: u64) -> ExitCode {
    let mut broken = Vec::new();
    let mut ended = std::collections::BTreeMap::new();
    for seed in from..from.saturating_add(count) {
        match checked(seed) {
            Ok(statuses) => statuses.into_iter().for_each(|status| *ended.entry(status.word()).or_insert(0u64) += 1),
            Err(law) => {
                if broken.len() < MAX_SHOWN {
                    say(&format!("seed {seed}: {}", law.lines().next().unwrap_or_default()));
                }
                broken.push(seed);
            }
        }
    }
    let ended: Vec<String> = ended.iter().map(|(status, times)| format!("{times} {status}")).collect();
    say(&format!("runs: {}", ended.join(", ")));
    if broken.is_empty() {
        say(&format!("{count} seeds keep the laws"));
        return ExitCode::SUCCESS;
    }
    let seeds: Vec<String> = broken.iter().take(MAX_SHOWN).map(u64::to_string).collect();
    say(&format!("{} of {count} seeds break a law; see them with --seed: {}", broken.len(), seeds.join(" ")));
    ExitCode::FAILURE
}

fn one(seed: u64) -> ExitCode {
    match checked(seed) {
        Ok(_) => {
            say(&format!("{:#}\nseed {seed} keeps the laws", plans::workflow(seed, plans::Manner::Wild)));
            ExitCode::SUCCESS
        }
        Err(law) => {
            say(&law);
            ExitCode::FAILURE
        }
    }
}

/// How the runs of a seed ended, by themselves and among workers; or the law that it breaks and all there is to see.
fn checked(seed: u64) -> Result<Vec<RunStatus>, String> {
    let alone = laws::check(seed).map_err(|breach| format!("{}\n{}", breach.law, breach.workflow))?;
    Ok([alone, fleet::check(seed)?].concat())
}

/// A closed pipe is no reason to stop.
fn say(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}
