//! What a page of runs costs in a large database, for every kind of filter.
//!
//! `cargo run --release -p relais-store --example pages [file] [runs]`; an existing file is measured as it is.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use relais_engine::RunStatus::{Cancelled, Completed, Failed, Running, Waiting};
use relais_engine::{Entry, Event, FORMAT, RunId, Signal, Summary, Target, Usage};
use relais_store::{Durability, Filter, NewRun, Options, SqliteStore, Store};
use rusqlite::Connection;

const RUNS: usize = 1_000_000;
const WRITERS: usize = 256;
/// Pages asked for per filter: enough that the 99th percentile is not the worst alone.
const PAGES: usize = 300;
/// One in so many runs is nobody's child.
const CHILDREN: usize = 200;

#[tokio::main]
async fn main() {
    let temporary = tempfile::tempdir().unwrap();
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().map_or_else(|| temporary.path().join("pages.db"), PathBuf::from);
    let runs = arguments.next().map_or(RUNS, |number| number.parse().unwrap());
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let exists = path.exists();
    let store = Arc::new(SqliteStore::open(&path, options).unwrap());
    if !exists {
        let start = Instant::now();
        let indexes = without_indexes(&path);
        fill(&store, runs).await;
        Connection::open(&path).unwrap().execute_batch(&indexes).unwrap();
        println!("{runs} runs written in {:.1?}", start.elapsed());
    }
    for (name, filter) in filters(runs) {
        measure(&store, name, filter).await;
    }
}

/// Takes the indexes for pages away and answers how to make them again: one sort each is far quicker than a million
/// insertions.
fn without_indexes(path: &Path) -> String {
    let db = Connection::open(path).unwrap();
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'runs' AND sql IS NOT NULL";
    let mut statement = db.prepare(sql).unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let indexes: Vec<(String, String)> = found.map(Result::unwrap).collect();
    for (name, _) in &indexes {
        db.execute_batch(&format!("DROP INDEX {name}")).unwrap();
    }
    indexes.into_iter().map(|(_, sql)| sql + ";").collect()
}

async fn fill(store: &Arc<SqliteStore>, runs: usize) {
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for number in (writer..runs).step_by(WRITERS) {
                    store.create(new_run(number)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// A number that looks like chance and is the same each time.
fn mixed(number: usize, salt: u64) -> u64 {
    let mut mixed = (number as u64).wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 31)
}

/// Few large and many small: half of all share the first.
fn skewed(number: usize, salt: u64, count: u64) -> u64 {
    let chance = mixed(number, salt);
    if chance.is_multiple_of(2) { 0 } else { (chance >> 8) % count }
}

fn new_run(number: usize) -> NewRun {
    let run = RunId::from_u128(((number as u128) << 64) | u128::from(mixed(number, 0)));
    let status = match mixed(number, 1) % 10_000 {
        0 => Cancelled,
        1..100 => Failed,
        100..110 => Running,
        110..500 => Waiting,
        _ => Completed,
    };
    let thread = skewed(number, 4, 10_000);
    let started_at = number as i64;
    let summary = Summary {
        run,
        workflow: format!("report {}", skewed(number, 3, 50)),
        plan: format!("{:064}", skewed(number, 3, 50)),
        user: format!("user {}", skewed(number, 2, 1_000)),
        thread: if number.is_multiple_of(3) { String::new() } else { format!("thread {thread}") },
        parent: (!number.is_multiple_of(CHILDREN)).then(|| RunId::from_u128(mixed(number / CHILDREN, 9).into())),
        target: Target { workflow: format!("workflow {}", skewed(number, 5, 2_000)), ..Target::default() },
        status,
        started_at,
        ended_at: status.is_final().then_some(started_at + 5),
        wake_at: None,
        awaits: Vec::new(),
        usage: Usage::default(),
        error: None,
    };
    let signal = Signal::Sent { name: "go".into(), value: number.into() };
    let events = vec![Event::Signalled { signal, by: String::new() }];
    let entry = Entry { seq: 1, at: started_at, version: FORMAT, events };
    NewRun { entry, summary, key: None, lease: None, blobs: Vec::new() }
}

fn filters(runs: usize) -> Vec<(&'static str, Filter)> {
    let all = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    let middle = runs as i64 / 2;
    let user = || Filter { user: text("user 0"), ..all() };
    let small = || Filter { user: text("user 7"), ..all() };
    let workflow = || Filter { workflow_id: text("workflow 0"), ..all() };
    let rare = |filter: Filter| Filter { status: vec![Cancelled], ..filter };
    let open = |filter: Filter| Filter { status: vec![Running, Waiting, Failed], ..filter };
    let roots = |filter: Filter| Filter { roots_only: true, ..filter };
    let window = |filter| Filter { started_after: Some(middle), started_before: Some(middle + 5_000), ..filter };
    let deep = |filter| Filter { cursor: Some(format!("{}.{}", middle, RunId::nil().simple())), ..filter };
    vec![
        ("all", all()),
        ("all, half way", deep(all())),
        ("roots", roots(all())),
        ("rare status", rare(all())),
        ("rare status, roots", roots(rare(all()))),
        ("window", window(all())),
        ("window, roots", window(roots(all()))),
        ("user", user()),
        ("user, half way", deep(user())),
        ("user, roots, three statuses", roots(open(user()))),
        ("small user", small()),
        ("small user, rare status", rare(small())),
        ("user, window", window(user())),
        ("user + workflow id", Filter { user: text("user 0"), ..workflow() }),
        ("user + workflow id, roots", roots(Filter { user: text("user 0"), ..workflow() })),
        ("user + workflow id, rare, window", window(rare(Filter { user: text("user 0"), ..workflow() }))),
        ("small user + workflow id", Filter { user: text("user 7"), ..workflow() }),
        ("user + small workflow id", Filter { workflow_id: text("workflow 77"), ..user() }),
        ("small user + small workflow id", Filter { workflow_id: text("workflow 77"), ..small() }),
        ("user + name", Filter { workflow: text("report 0"), ..user() }),
        ("small user + name", Filter { workflow: text("report 0"), ..small() }),
        ("user + thread", Filter { thread: text("thread 0"), ..user() }),
        ("small user + thread", Filter { thread: text("thread 0"), ..small() }),
        ("small user + thread, roots", roots(Filter { thread: text("thread 0"), ..small() })),
        (
            "user + thread + no such workflow id",
            Filter { thread: text("thread 0"), workflow_id: text("none"), ..user() },
        ),
        ("user + no thread, roots", roots(Filter { thread: text(""), ..user() })),
        ("nobody", Filter { user: text("nobody"), ..all() }),
    ]
}

async fn measure(store: &SqliteStore, name: &str, filter: Filter) {
    let mut times = Vec::with_capacity(PAGES);
    let mut rows = 0;
    for _ in 0..PAGES {
        let start = Instant::now();
        rows = store.list(filter.clone()).await.unwrap().rows.len();
        times.push(start.elapsed());
        // A filter as bad as that need not be asked for again and again.
        if times.iter().sum::<Duration>() > Duration::from_secs(10) {
            break;
        }
    }
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{name:<40} {rows:>4} rows  p50 {p50:>9.2?}  p99 {p99:>9.2?}");
}
