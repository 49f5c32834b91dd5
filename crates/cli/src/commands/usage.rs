//! `relais usage`: what runs used, by day, workflow, user or model.

use clap::ValueEnum;
use relais_engine::Millis;
use relais_plan::time::{format_duration, format_instant, parse_duration};
use relais_server::views::{UsagePart, UsageReport, UsageSum};
use relais_service::{UsageBy, UsageQuestion};

use crate::exit::Exit;
use crate::lists::{json_lines, table};
use crate::session::{Global, Session};
use crate::{screen, words};

/// Show what runs used: tokens, cost, calls, time
///
/// A run counts on the day of its end, in UTC; runs under way are in it with what they have used so far, under today.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais usage
  relais usage --by model --since 30d
  relais usage --by workflow --since 2026-02-01 --until 2026-02-28 --json")]
pub struct Args {
    /// What is told apart
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,
    /// The first day: 2026-02-01, or that of a time ago (7d) [default: the first of all]
    #[arg(long, value_name = "DAY")]
    since: Option<String>,
    /// The last day, which is included [default: today]
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
    /// Of all users; a server wants the scope `admin` for it
    #[arg(long)]
    all: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Day,
    Workflow,
    User,
    Model,
}

/// Before all runs, and after.
const FIRST_DAY: &str = "1970-01-01";
const LAST_DAY: &str = "9999-12-01";

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let now = jiff::Timestamp::now().as_millisecond();
    let by = match args.by {
        By::Day => UsageBy::Day,
        By::Workflow => UsageBy::Workflow,
        By::User => UsageBy::User,
        By::Model => UsageBy::Model,
    };
    let day = |text: Option<String>, else_: &str| text.map_or_else(|| else_.to_owned(), |text| day(&text, now));
    let (from, to) = (day(args.since, FIRST_DAY), day(args.until, LAST_DAY));
    let question = UsageQuestion { from, to, by, all_users: args.all };
    let report = global.serve(async |session: &Session| Ok(session.usage(&question).await?))?;
    if args.json {
        return json_lines(&[report]);
    }
    show(args.by, &report)
}

/// A day as it is, or that of a time ago.
fn day(text: &str, now: Millis) -> String {
    let before = parse_duration(text).and_then(|ms| now.checked_sub(i64::try_from(ms).ok()?));
    before.map_or_else(|| text.to_owned(), |at| format_instant(at).chars().take(FIRST_DAY.len()).collect())
}

fn show(by: By, report: &UsageReport) -> anyhow::Result<Exit> {
    if report.items.is_empty() {
        screen::note("nothing was used");
        return Ok(Exit::Done);
    }
    let first = match by {
        By::Day => "DAY",
        By::Workflow => "WORKFLOW",
        By::User => "USER",
        By::Model => "MODEL",
    };
    let rows = report.items.iter().map(|item| cells(called(item), &item.sum));
    let rows = rows.chain([cells("total".to_owned(), &report.total)]);
    let header = [first, "RUNS", "TOKENS", "COST", "MODEL CALLS", "TOOL CALLS", "RETRIES", "TIME"];
    screen::out(&table(header, rows))?;
    if report.unfinished > 0 {
        let count = usize::try_from(report.unfinished).unwrap_or(usize::MAX);
        screen::note(&format!("{} under way are in it with what they used so far", words::counted(count, "run")));
    }
    if report.incomplete {
        screen::warning("there was more than one answer adds up; ask for fewer days with --since and --until");
    }
    Ok(Exit::Done)
}

fn called(item: &UsagePart) -> String {
    match &item.name {
        Some(name) => format!("{} ({})", words::shorten(name, 40), item.key),
        None => words::shorten(&item.key, 60),
    }
}

/// Nothing is told by nothing.
fn cells(what: String, sum: &UsageSum) -> [String; 8] {
    let number = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    let time = if sum.duration_ms == 0 { String::new() } else { format_duration(sum.duration_ms) };
    [
        what,
        number(sum.runs),
        number(sum.prompt_tokens + sum.completion_tokens),
        words::cost((sum.cost_usd * 1e9).round() as u64).unwrap_or_default(),
        number(sum.model_calls),
        number(sum.tool_calls),
        number(sum.retries),
        time,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_or_counted_back() {
        let now = 1_772_236_800_000; // 2026-02-28
        for (text, expected) in
            [("2026-02-01", "2026-02-01"), ("7d", "2026-02-21"), ("1s", "2026-02-27"), ("soon", "soon")]
        {
            assert_eq!(day(text, now), expected, "{text}");
        }
    }
}
