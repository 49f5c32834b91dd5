//! Many schedules: what they cost in memory, and how late runs start that fall due in the same second.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use relais_plan::time::{format_instant, parse_instant};
use serde_json::{Value, json};

use super::client::Connection;
use super::process::{Process, mebibytes};
use super::{Times, emptied, title};
use crate::protocol::{Args, print as say};

/// Triggers of one workflow; a page of runs holds the runs of all of them.
const EACH: usize = 100;
/// Runs that have not started so long after their time are not waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const SECOND: i64 = 1_000;

pub async fn print(args: &Args) -> Result<()> {
    let (schedules, due) = (args.number("schedules")?.max(1), args.number("due")?.max(1));
    title(&format!("c: {schedules} schedules, then {due} due in the same second"))?;
    let server = Process::serve(&emptied("ticks")?, &[])?;
    let mut connection = Connection::open(server.address).await?;
    let before = server.rss()?;
    let rest = format!("{{ daily: \"{:02}:00\" }}", (now()? / (3_600 * SECOND) + 12) % 24);
    keep(&mut connection, "rests", schedules, &rest).await?;
    let after = server.rss()?;
    let memory = format!("{:.1} MiB empty, {:.1} MiB with all of them", mebibytes(before), mebibytes(after));
    say(&format!("memory: {memory}, {} bytes each", after.saturating_sub(before) / schedules as u64))?;
    let at = (now()? / SECOND + args.number("lead")? as i64) * SECOND;
    let names =
        keep(&mut connection, "due", due, &format!("{{ at: \"{}\", overlap: allow }}", format_instant(at))).await?;
    ensure!(now()? < at, "keeping them took longer than the lead; say more with {{\"lead\": seconds}}");
    let mut late = lateness(server.address, &names, due, at).await?;
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| late.ms(part));
    say(&format!("late by: p50 {p50:.0} ms, p99 {p99:.0} ms, at most {max:.0} ms"))?;
    say(&format!("memory after it: {:.1} MiB", mebibytes(server.rss()?)))
}

fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Keeps so many triggers, some to each workflow; the names of the workflows.
async fn keep(connection: &mut Connection, name: &str, count: usize, trigger: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for number in 0..count.div_ceil(EACH) {
        let triggers = vec![trigger; EACH.min(count - number * EACH)].join(", ");
        let name = format!("{name}-{number}");
        let text = format!("name: {name}\nsteps: [{{ id: note, set: {{ n: 1 }} }}]\ntriggers: [{triggers}]\n");
        connection.expect(201, "POST", "/api/v1/workflows", &json!({ "definition": text })).await?;
        names.push(name);
    }
    Ok(names)
}

/// How long after its time each run has started.
async fn lateness(address: SocketAddr, names: &[String], due: usize, at: i64) -> Result<Times> {
    let until = at + i64::try_from(PATIENCE.as_millis())?;
    // Whoever asks too soon is part of what is measured.
    tokio::time::sleep(Duration::from_millis((at - now()? + SECOND).max(0).unsigned_abs())).await;
    let mut connection = Connection::open(address).await?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let mut times = Times::default();
        for name in names {
            let page = connection.get(&format!("/api/v1/runs?limit={EACH}&workflow={name}")).await?;
            for run in page["items"].as_array().context("no runs")? {
                times.0.push(Duration::from_millis(started_at(run)?.saturating_sub(at).unsigned_abs()));
            }
        }
        match times.0.len() {
            started if started == due => return Ok(times),
            started if now()? > until => bail!("{started} of {due} have started after {PATIENCE:?}"),
            _ => {}
        }
    }
}

fn started_at(run: &Value) -> Result<i64> {
    run["started_at"].as_str().and_then(parse_instant).context("a run without a start")
}
