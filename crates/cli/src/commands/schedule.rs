//! `relais schedule`: when kept workflows run by themselves.

use relais_plan::{CatchUp, Overlap};
use relais_server::views::BackfillView;
use relais_service::{Backfill, SetSchedule, backfill_time};
use serde_json::Value;
use uuid::Uuid;

use crate::exit::Exit;
use crate::lists::{List, json_lines};
use crate::session::{Global, Session};
use crate::timetable::{Decided, Foreseen, Planned};
use crate::{given, many, screen, words};

/// List, set and take away the schedules of kept workflows
///
/// Schedules fire while `relais serve` is running. What a workflow's definition says under `triggers` is listed too; it
/// can be paused here, and goes when the definition no longer says it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais schedule
  relais schedule set prices --cron \"every weekday at 9am\" --timezone Europe/Paris
  relais schedule set prices --at \"tomorrow 9am\" --input topic=tea
  relais schedule preview --every 15m
  relais schedule decisions 0190a0b0-c0d0-7000-8000-00000000000a
  relais schedule backfill prices --from 2026-11-01 --to 2026-11-08
  relais schedule remove 0190a0b0-c0d0-7000-8000-00000000000a")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only those of this workflow: its id, alias or name
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// One JSON object per schedule
    #[arg(long)]
    json: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(clap::Subcommand)]
enum What {
    /// Set when a workflow runs; shows what was understood, with the next five times
    Set(Set),
    /// Show what a time means, with the next five times; nothing is set
    Preview {
        #[command(flatten)]
        time: Time,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Start the runs of a past range: one for each time at which the schedule would have fired
    ///
    /// A time whose run is there is not run again. The runs start one after another, unless the schedule lets them
    /// overlap, while `relais serve` is running.
    Backfill(Range),
    /// Take a schedule away; a run that is going goes on
    Remove {
        /// The id, as `relais schedule` shows it
        schedule: Uuid,
    },
    /// Let a schedule start nothing until it is resumed
    Pause { schedule: Uuid },
    /// Let a paused schedule go on from its next time
    Resume { schedule: Uuid },
    /// Show what was decided about a schedule lately, newest first, and why
    Decisions {
        schedule: Uuid,
        /// One JSON object per decision
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Range {
    /// Id, alias or name of the workflow
    workflow: String,
    /// The first time (RFC 3339), or day, which begins at midnight UTC
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The last time
    #[arg(long, value_name = "TIME")]
    to: String,
    /// Which schedule, where the workflow has several
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<Uuid>,
    /// Do not ask before the runs are started
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
struct Set {
    /// Id, alias or name
    workflow: String,
    #[command(flatten)]
    time: Time,
    /// While the run before is still going: skip (default; with `--catch-up all`: queue), queue, allow or
    /// cancel_running
    #[arg(long, value_name = "HOW", value_parser = named::<Overlap>)]
    overlap: Option<Overlap>,
    /// About times that passed while no server was running: one, none or all
    #[arg(long, value_name = "WHICH", default_value = "one", value_parser = named::<CatchUp>)]
    catch_up: CatchUp,
    /// What the runs are given: NAME=VALUE, or @FILE for a JSON file; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// The branch of a graph
    #[arg(long)]
    branch: Option<String>,
    /// In place of all schedules of the workflow that were set so before
    #[arg(long)]
    replace: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Exactly one of the first four.
#[derive(clap::Args)]
struct Time {
    /// Once: a time (RFC 3339), or words such as "tomorrow 9am"
    #[arg(long, value_name = "TIME", required_unless_present_any = ["cron", "every", "continuous"])]
    at: Option<String>,
    /// Cron fields, or words such as "every weekday at 8:30"
    #[arg(long, value_name = "CRON", conflicts_with_all = ["at", "every", "continuous"])]
    cron: Option<String>,
    /// A duration such as 15m, or daily@09:00, or weekly@1,3,5@09:00 (0 is Sunday)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["at", "continuous"])]
    every: Option<String>,
    /// One run after the other, with this delay between them
    #[arg(long, value_name = "DELAY", num_args = 0..=1, default_missing_value = "1s", conflicts_with = "at")]
    continuous: Option<String>,
    /// The time zone of clock times: an IANA name [default: as `timezone` in relais.toml, else UTC]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

impl Time {
    fn set(self) -> SetSchedule {
        let Time { at, cron, every, continuous, timezone } = self;
        SetSchedule { at, cron, every, continuous, timezone, ..SetSchedule::default() }
    }
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| match args.what {
        None => list(session, args.workflow.as_deref(), usize::from(args.limit), args.json).await,
        Some(What::Set(args)) => set(session, args).await,
        Some(What::Preview { time, json }) => preview(session, time, json).await,
        Some(What::Backfill(range)) => backfill(session, range).await,
        Some(What::Remove { schedule }) => {
            session.cancel_schedule(schedule).await?;
            screen::note(&format!("removed {schedule}"));
            Ok(Exit::Done)
        }
        Some(What::Pause { schedule }) => {
            told(&session.pause_schedule(schedule).await?, "is paused");
            Ok(Exit::Done)
        }
        Some(What::Resume { schedule }) => {
            told(&session.resume_schedule(schedule).await?, "goes on");
            Ok(Exit::Done)
        }
        Some(What::Decisions { schedule, json }) => decisions(session, schedule, json).await,
    })
}

async fn list(session: &Session, workflow: Option<&str>, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.schedules(workflow, limit).await?;
    let none = "nothing is scheduled; `relais schedule set` sets a time";
    List { items: &found, more, json, none }.show(["SCHEDULE", "WORKFLOW", "WHEN", "NEXT", "LAST RUN"], cells)
}

fn cells(one: &Planned) -> [String; 5] {
    let branch = one.branch.as_ref().map(|branch| format!("/{branch}")).unwrap_or_default();
    let next = match (&one.off, one.next_times_local.first()) {
        (Some(off), _) => format!("never: {off}"),
        (None, Some(next)) => next.clone(),
        (None, None) => "after each run".to_owned(),
    };
    [
        one.id.to_string(),
        words::shorten(&format!("{}{branch}", one.workflow), 60),
        words::shorten(&one.schedule, 60),
        words::shorten(&next, 60),
        one.last_run.map(|run| run.to_string()).unwrap_or_default(),
    ]
}

async fn set(session: &Session, args: Set) -> anyhow::Result<Exit> {
    let Set { workflow, time, overlap, catch_up, input, branch, replace, json } = args;
    let input = if input.is_empty() { Value::Null } else { Value::Object(given::pairs(&input, None)?) };
    let set = SetSchedule { overlap, catch_up, input, branch, replaces: replace, ..time.set() };
    let planned = session.schedule(&workflow, set).await?;
    if json {
        return json_lines(&[planned]);
    }
    screen::note(&understood(&planned.schedule, &planned.next_times_local));
    screen::out(&planned.id.to_string())?;
    Ok(Exit::Done)
}

async fn backfill(session: &Session, range: Range) -> anyhow::Result<Exit> {
    let Range { workflow, from, to, schedule, yes } = range;
    let (from, to) = (backfill_time("--from", &from)?, backfill_time("--to", &to)?);
    let wanted = Backfill { workflow, schedule, from, to };
    let BackfillView { times, at_once, .. } = session.backfill(&wanted, true).await?;
    let how = if at_once { "at once" } else { "one after another" };
    let span = [times.first(), times.last()].map(|time| time.map_or("", String::as_str)).join(" to ");
    let what = format!("start {} {how}, {span}", words::counted(times.len(), "run"));
    if !yes && !many::agreed(&what)? {
        screen::note("nothing was started");
        return Ok(Exit::Done);
    }
    let done = session.backfill(&wanted, false).await?;
    screen::note(&format!("{} owed; `relais serve` starts them {how}", words::counted(done.times.len(), "run")));
    screen::out(&done.schedule.to_string())?;
    Ok(Exit::Done)
}

async fn preview(session: &Session, time: Time, json: bool) -> anyhow::Result<Exit> {
    let foreseen: Foreseen = session.preview_schedule(&time.set()).await?;
    if json {
        return json_lines(&[foreseen]);
    }
    screen::note(&foreseen.schedule);
    foreseen.next_times_local.iter().try_for_each(|time| screen::out(time))?;
    Ok(Exit::Done)
}

fn told(planned: &Planned, what: &str) {
    screen::note(&format!("{} {what}", understood(&planned.schedule, &planned.next_times_local)));
}

fn understood(schedule: &str, times: &[String]) -> String {
    let times = if times.is_empty() { String::new() } else { format!(": {}", times.join(", ")) };
    format!("{schedule}{times}")
}

async fn decisions(session: &Session, schedule: Uuid, json: bool) -> anyhow::Result<Exit> {
    let found: Vec<Decided> = session.schedule_decisions(schedule).await?;
    let list = List { items: &found, more: false, json, none: "nothing was decided yet" };
    list.show(["DECIDED", "ABOUT", "RUN", "WHY"], |one| {
        let run = one.run.map_or_else(|| "none".to_owned(), |run| run.to_string());
        [one.at.clone(), one.time.clone().unwrap_or_default(), run, words::shorten(&one.reason, 100)]
    })
}
