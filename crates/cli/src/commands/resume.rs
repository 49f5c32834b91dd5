//! `relais resume`: a run goes on after a pause, a failure, a cancel or a crash.

use anyhow::{Context, bail};
use relais_engine::RunId;
use relais_plan::Budget;
use relais_plan::time::parse_duration;
use relais_runtime::Rest;
use relais_service::{Act, ResumeWith};
use serde_json::Value;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::many::Many;
use crate::onward::{Onward, Spoken};
use crate::screen;
use crate::session::{Global, Session};

/// Go on with a run after a pause, a failure, a cancel or a crash
///
/// Finished steps keep their outputs; the run goes on from the first unfinished one. No answered model or tool call is
/// made again.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais resume --last
  relais resume --last --budget usd=2,tokens=500k
  relais resume 0198c9d2 --assume '{\"status\": 200}'
  relais resume --status failed --error rate_limit --since 1h
  relais resume --all")]
pub struct Args {
    /// The run: its id, or a part of it that fits no other (the first or last four characters or more)
    #[arg(required_unless_present_any = ["last", "all", "status", "workflow", "since", "tag", "error"], conflicts_with_all = ["last", "all"])]
    run: Option<String>,
    /// The newest run
    #[arg(long, conflicts_with = "all")]
    last: bool,
    /// Every run whose process has died, or whose time has come
    #[arg(long, conflicts_with_all = ["redo", "assume", "budget", "json", "detach", "wait"])]
    all: bool,
    /// Make the call again whose outcome is not known
    #[arg(long, conflicts_with = "assume")]
    redo: bool,
    /// Take this as the result of the call whose outcome is not known
    #[arg(long, value_name = "JSON")]
    assume: Option<String>,
    /// A new budget in place of the run's: usd, tokens, model_calls, tool_calls, time
    #[arg(long, value_name = "usd=N,tokens=N,…", value_parser = budget)]
    budget: Option<Budget>,
    #[command(flatten)]
    many: Many,
    #[command(flatten)]
    onward: Onward,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.all {
        return global.serve(async |session: &Session| all(session).await);
    }
    if args.many.is_given() {
        return args.many.say(global, Act::Resume { redo: args.redo, budget: args.budget.unwrap_or_default() });
    }
    let assume = args.assume.as_deref().map(assumed).transpose()?;
    let with = ResumeWith { budget: args.budget.unwrap_or_default(), redo: args.redo, assume };
    args.onward.serve(global, async |session: &Session| {
        let run = session.find_run(args.run.as_deref()).await?;
        let spoken = Spoken::before(session, run).await?;
        session.resume(run, with).await?;
        Ok(Some(spoken))
    })
}

fn assumed(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).with_context(|| format!("--assume {text} is not JSON; text goes in quotes: '\"text\"'"))
}

/// Takes everything up and stays until all of it rests.
async fn all(session: &Session) -> anyhow::Result<Exit> {
    let runs = session.local("`resume --all`")?.adopt_all().await?;
    screen::note(&format!("{} taken up", crate::words::counted(runs.len(), "run")));
    let mut interrupts = Interrupts::listen()?;
    let mut exit = Exit::Done;
    for run in runs {
        tokio::select! {
            _ = interrupts.next() => {
                screen::note("let go; `relais resume --all` goes on");
                return Ok(Exit::LetGo);
            }
            rest = session.settle(run) => exit = told(run, &rest?, exit),
        }
    }
    Ok(exit)
}

fn told(run: RunId, rest: &Rest, so_far: Exit) -> Exit {
    match rest {
        Rest::Ended(status) => {
            screen::note(&format!("{run}  {}", status.word()));
            if status.is_success() { so_far } else { Exit::Failed }
        }
        Rest::Waiting(awaits) => {
            screen::note(&format!("{run}  waiting for {}", awaits.join(", ")));
            so_far
        }
    }
}

fn budget(text: &str) -> anyhow::Result<Budget> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, amount) = part.split_once('=').context("write name=amount, such as usd=2")?;
        let unclear = || format!("`{amount}` is no amount for {name}");
        match name.trim() {
            "usd" => budget.usd_nanos = Some(nanos(amount).with_context(unclear)?),
            "tokens" => budget.tokens = Some(count(amount).with_context(unclear)?),
            "model_calls" => budget.model_calls = Some(count(amount).with_context(unclear)?),
            "tool_calls" => budget.tool_calls = Some(count(amount).with_context(unclear)?),
            "time" => budget.time_ms = Some(parse_duration(amount).with_context(unclear)?),
            other => bail!("there is no budget `{other}`; there are usd, tokens, model_calls, tool_calls, time"),
        }
    }
    Ok(budget)
}

fn nanos(amount: &str) -> Option<u64> {
    let usd: f64 = amount.trim().trim_start_matches('$').parse().ok()?;
    // More than a million dollars is a slip.
    (0.0..=1e6).contains(&usd).then_some((usd * 1e9).round() as u64)
}

/// `500`, `200k`, `1.5M`.
fn count(amount: &str) -> Option<u64> {
    let amount = amount.trim();
    let (digits, unit) = match amount.chars().last()? {
        'k' | 'K' => (&amount[..amount.len() - 1], 1e3),
        'm' | 'M' => (&amount[..amount.len() - 1], 1e6),
        _ => (amount, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    (0.0..=1e15).contains(&(number * unit)).then_some((number * unit).round() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_or_refused() {
        let full = budget("usd=0.5,tokens=200k,model_calls=7,tool_calls=1M,time=10m").unwrap();
        let expected = Budget {
            usd_nanos: Some(500_000_000),
            tokens: Some(200_000),
            model_calls: Some(7),
            tool_calls: Some(1_000_000),
            time_ms: Some(600_000),
        };
        assert_eq!(full, expected);
        for wrong in ["", "usd", "usd=x", "usd=-1", "usd=nan", "euro=3", "tokens=k", "time=soon"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }
}
