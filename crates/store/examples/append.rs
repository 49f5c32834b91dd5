//! What a durable append costs, beside a bare append with fdatasync on the same disk in the same run.
//!
//! `cargo run --release -p relais-store --example append [folder]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use relais_engine::{Entry, Event, FORMAT, RunId, RunStatus, Signal, Summary, Usage};
use relais_store::{Batch, NewRun, Options, SqliteStore, Store, Writer};
use serde_json::Value;

/// Bytes of one append, bare or as the JSON of an entry.
const BYTES: usize = 256;
/// Rounds of the comparison; the two take turns, so that a disk in a bad mood slows both.
const ROUNDS: usize = 40;
const APPENDS_PER_ROUND: u64 = 50;
const APPENDERS: usize = 64;
/// Appends of each appender, in runs of so many entries: as many as most workflows write, and one that never ends.
const APPENDS_EACH: u64 = 3_000;
const ENTRIES_PER_RUN: [u64; 2] = [20, APPENDS_EACH];
/// Runs that each appender begins and ends, one after the other: what the indexes of the rows cost.
const RUNS_EACH: usize = 300;

#[tokio::main]
async fn main() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::args().nth(1).map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let store = Arc::new(SqliteStore::open(folder.join("append.db"), Options::default()).unwrap());
    alone(&store, &folder).await;
    for entries in ENTRIES_PER_RUN {
        together(&store, entries).await;
    }
    begun_and_ended(&store).await;
    drop(store);
    cold_start(&folder);
}

async fn alone(store: &SqliteStore, folder: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("bare")).unwrap();
    let run = create(store).await;
    let (mut bare, mut durable) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..APPENDS_PER_ROUND {
            let start = Instant::now();
            append_bare(&mut file);
            bare.push(start.elapsed());
        }
        for step in 0..APPENDS_PER_ROUND {
            let seq = 2 + round as u64 * APPENDS_PER_ROUND + step;
            let start = Instant::now();
            store.append(batch(run, seq)).await.unwrap();
            durable.push(start.elapsed());
        }
    }
    let (bare, durable) = (Times::of(bare), Times::of(durable));
    println!("bare append + fdatasync   {bare}");
    println!("store append, alone       {durable}");
    println!("ratio of medians          {:.2}", durable.median.as_secs_f64() / bare.median.as_secs_f64());
    println!("ratio of means            {:.2}", durable.mean.as_secs_f64() / bare.mean.as_secs_f64());
}

async fn together(store: &Arc<SqliteStore>, entries: u64) {
    let mut runs = vec![Vec::new(); APPENDERS];
    for mine in &mut runs {
        for _ in 0..APPENDS_EACH / entries {
            mine.push(create(store).await);
        }
    }
    let (start, cpu) = (Instant::now(), cpu_time());
    let append = |mine| tokio::spawn(append_many(Arc::clone(store), mine, entries));
    let tasks: Vec<_> = runs.into_iter().map(append).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (time, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let appends = APPENDERS as f64 * APPENDS_EACH as f64;
    let (rate, cost) = (appends / time.as_secs_f64(), cpu.as_secs_f64() * 1e6 / appends);
    println!("{APPENDERS} appenders, {entries:>4} each run {rate:.0} appends/s, {cost:.1} µs CPU per append");
}

async fn append_many(store: Arc<SqliteStore>, runs: Vec<RunId>, entries: u64) {
    for run in runs {
        for seq in 2..2 + entries {
            store.append(batch(run, seq)).await.unwrap();
        }
    }
}

async fn begun_and_ended(store: &Arc<SqliteStore>) {
    let (start, cpu) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = (0..APPENDERS).map(|user| tokio::spawn(begin_and_end(Arc::clone(store), user))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (time, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let runs = (APPENDERS * RUNS_EACH) as f64;
    let (rate, cost) = (runs / time.as_secs_f64(), cpu.as_secs_f64() * 1e6 / runs);
    println!("{APPENDERS} users, runs of 3 entries {rate:.0} runs/s, {cost:.1} µs CPU per run");
}

/// A row that is written three times: begun, still running, ended.
async fn begin_and_end(store: Arc<SqliteStore>, user: usize) {
    for number in 0..RUNS_EACH {
        let mut summary = summary();
        summary.user = format!("user {user}");
        summary.target.workflow = format!("{:032}", user * 10 + number % 10);
        let new = NewRun {
            entry: entry(1),
            more: Vec::new(),
            summary: summary.clone(),
            key: None,
            lease: None,
            blobs: Vec::new(),
        };
        let run = store.create(new).await.unwrap();
        summary.usage.prompt = 7;
        store.append(Batch { summary: Some(summary.clone()), ..batch(run, 2) }).await.unwrap();
        (summary.status, summary.ended_at) = (RunStatus::Completed, Some(9));
        store.append(Batch { summary: Some(summary), ..batch(run, 3) }).await.unwrap();
    }
}

fn cold_start(folder: &Path) {
    let open = || {
        let start = Instant::now();
        let store = SqliteStore::open(folder.join("append.db"), Options::default()).unwrap();
        let opened = start.elapsed();
        drop(store);
        (opened, start.elapsed())
    };
    let (opened, closed): (Vec<_>, Vec<_>) = (0..20).map(|_| open()).unzip();
    println!("open                      {}", Times::of(opened));
    println!("open and close            {}", Times::of(closed));
}

fn append_bare(file: &mut File) {
    file.write_all(&[b'x'; BYTES]).unwrap();
    file.sync_data().unwrap();
}

async fn create(store: &SqliteStore) -> RunId {
    let new =
        NewRun { entry: entry(1), more: Vec::new(), summary: summary(), key: None, lease: None, blobs: Vec::new() };
    store.create(new).await.unwrap()
}

fn summary() -> Summary {
    Summary {
        run: RunId::now_v7(),
        workflow: "append".into(),
        plan: String::new(),
        user: String::new(),
        thread: String::new(),
        parent: None,
        target: Default::default(),
        status: RunStatus::Running,
        started_at: 0,
        ended_at: None,
        wake_at: None,
        awaits: Vec::new(),
        usage: Usage::default(),
        error: None,
    }
}

fn batch(run: RunId, seq: u64) -> Batch {
    let (writer, entry) = (Writer::of("somebody at work"), entry(seq).into());
    Batch { run, writer, entry, summary: None, release: None, blobs: Vec::new(), awaited: None, listed: None }
}

fn entry(seq: u64) -> Entry {
    // The rest of the bytes is what the event is wrapped in.
    let value = Value::String("x".repeat(BYTES - 60));
    let signal = Signal::Sent { name: "go".into(), value };
    Entry { seq, at: 0, version: FORMAT, events: vec![Event::Signalled { signal, by: String::new() }] }
}

struct Times {
    median: Duration,
    mean: Duration,
    p99: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        Times { median: times[times.len() / 2], mean, p99: times[times.len() * 99 / 100] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "median {:.1?}, mean {:.1?}, p99 {:.1?}", self.median, self.mean, self.p99)
    }
}

/// User and system time of this process so far, in ticks of 10 ms; zero where there is no /proc.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
