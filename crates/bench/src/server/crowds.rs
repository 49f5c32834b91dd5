//! Many who watch: one busy run told to all of them, and many streams on which nothing happens.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Connection, Events};
use super::process::{Process, mebibytes, most_streams};
use super::starts::flood;
use super::{Times, emptied, title};
use crate::protocol::{Args, print as say};

/// Idle streams that share a run.
const SHARE: usize = 100;
const WAITS: &str = "name: waits\nsteps: [{ id: go, wait: { signal: go } }]\n";
/// The made-up answers need no model, but the check of the definition wants to know that there is a key.
const KEY: [(&str, &str); 1] = [("OPENAI_API_KEY", "none")];

/// Waits for a signal, then asks an agent again and again.
fn busy_flow(items: usize) -> String {
    format!(
        "name: busy\nbudget: {{ model_calls: {items} }}\n\
         agents: {{ a: {{ model: openai/gpt-4o-mini, instructions: Hi. }} }}\nsteps:\n\
         - {{ id: go, wait: {{ signal: go }} }}\n- id: all\n  for_each: \"range({items})\"\n  max: {items}\n  do:\n\
         \x20 - {{ id: say, agent: a, prompt: \"{{{{ item }}}}\" }}\n"
    )
}

pub async fn busy(args: &Args) -> Result<()> {
    let (watchers, items) = (args.number("watchers")?.clamp(1, most_streams()), args.number("items")?.max(1));
    title(&format!("d: one run of {items} agent steps, watched by one and by {watchers}"))?;
    let server = Process::serve(&emptied("crowds")?, &KEY)?;
    let mut connection = Connection::open(server.address).await?;
    connection.expect(201, "POST", "/api/v1/workflows", &json!({ "definition": busy_flow(items) })).await?;
    let words = ("watchers", "events each", "events/s", "late p50 ms", "p99", "max", "MiB");
    let (a, b, c, d, e, f, g) = words;
    say(&format!("{a:>8} {b:>12} {c:>12} {d:>12} {e:>8} {f:>8} {g:>8}"))?;
    for watchers in [1, watchers] {
        say(&watched(&server, &mut connection, watchers).await?)?;
    }
    Ok(())
}

async fn watched(server: &Process, connection: &mut Connection, watchers: usize) -> Result<String> {
    let body = json!({ "simulate": true });
    let run = started(connection, "busy", &body).await?;
    let mut watching = JoinSet::new();
    for mut events in streams(server.address, &run, watchers).await? {
        watching.spawn(async move { all_late(&mut events).await });
    }
    let start = Instant::now();
    connection.expect(202, "POST", &format!("/api/v1/runs/{run}/signal"), &json!({ "name": "go" })).await?;
    let mut late = Times::default();
    while let Some(times) = watching.join_next().await {
        late.0.extend(times??);
    }
    let per_second = late.0.len() as f64 / start.elapsed().as_secs_f64();
    let (each, memory) = (late.0.len() / watchers, mebibytes(server.rss()?));
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| late.ms(part));
    Ok(format!("{watchers:>8} {each:>12} {per_second:>12.0} {p50:>12.0} {p99:>8.0} {max:>8.0} {memory:>8.1}"))
}

async fn started(connection: &mut Connection, workflow: &str, body: &Value) -> Result<String> {
    let row = connection.expect(202, "POST", &format!("/api/v1/workflows/{workflow}/run"), body).await?;
    let run = row["id"].as_str().context("a run without an id")?.to_owned();
    let details = connection.get(&format!("/api/v1/runs/{run}?wait=30s")).await?;
    ensure!(details["status"] == "waiting", "the run does not wait: {details}");
    Ok(run)
}

/// Streams that have told what had happened before; what comes is new.
async fn streams(address: SocketAddr, run: &str, count: usize) -> Result<Vec<Events>> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut events = Connection::open(address).await?.follow(run).await?;
        while events.next().await?.is_some_and(|told| told["event"] != "waiting") {}
        streams.push(events);
    }
    Ok(streams)
}

/// How long after it was written down each event came, until the run has ended.
async fn all_late(events: &mut Events) -> Result<Vec<Duration>> {
    let mut late = Vec::new();
    while let Some(told) = events.next().await? {
        let at = Duration::from_millis(told["at"].as_u64().context("an event without a time")?);
        late.push(SystemTime::now().duration_since(UNIX_EPOCH)?.saturating_sub(at));
    }
    Ok(late)
}

pub async fn idle(args: &Args) -> Result<()> {
    let asked = args.number("streams")?.max(1);
    let count = asked.min(most_streams());
    title(&format!("f: memory, idle and with {count} idle streams"))?;
    if count < asked {
        say(&format!("{asked} were asked for; the machine allows no more open files"))?;
    }
    let server = Process::serve(&emptied("idle")?, &[])?;
    let mut connection = Connection::open(server.address).await?;
    connection.expect(201, "POST", "/api/v1/workflows", &json!({ "definition": WAITS })).await?;
    let empty = server.rss()?;
    let mut held = Vec::new();
    for number in 0..count.div_ceil(SHARE) {
        let run = started(&mut connection, "waits", &json!({})).await?;
        held.extend(streams(server.address, &run, SHARE.min(count - number * SHARE)).await?);
    }
    let full = server.rss()?;
    let each = full.saturating_sub(empty) / count as u64;
    say(&format!(
        "idle {:.1} MiB, with {count} streams {:.1} MiB, {each} bytes each",
        mebibytes(empty),
        mebibytes(full)
    ))?;
    let (starts, clients) = (args.number("starts")?.max(1), args.number("clients")?.max(1));
    flood(server.address, "/api/v1/workflows/waits/run", clients, starts).await?;
    say(&format!("after {starts} runs were started beside them: {:.1} MiB", mebibytes(server.rss()?)))
}
