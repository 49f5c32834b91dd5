//! Runs by the thousand, written by the store alone: few large workflows, users and threads, and many small ones.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use relais_engine::RunStatus::{Cancelled, Completed, Failed, Waiting};
use relais_engine::{Entry, Event, FORMAT, RunId, Signal, Summary, Target, Usage};
use relais_store::{Durability, Edit, NewRun, Options, SqliteStore, Store};

/// Writers at once, so that commits are shared.
const WRITERS: usize = 256;
/// Ends that are taken note of in one change.
const NOTED: usize = 1_000;
/// One in so many runs is nobody's child.
const CHILDREN: usize = 200;
/// Whom a server on this machine takes its callers for.
pub const USER: &str = "local";

/// A database with so many runs, none of which a server would work on.
pub async fn fill(database: &Path, runs: usize) -> Result<()> {
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let store = Arc::new(SqliteStore::open(database, options)?);
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in (writer..runs).step_by(WRITERS) {
                store.create(new_run(number)).await?;
            }
            anyhow::Ok(())
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer??;
    }
    note_ends(&store).await
}

/// As if the server had been there when they ended.
async fn note_ends(store: &SqliteStore) -> Result<()> {
    loop {
        let ended = store.ended(NOTED).await?;
        let edits: Vec<Edit> = ended.iter().map(|row| Edit::Reported { run: row.summary.run, seq: row.seq }).collect();
        if edits.is_empty() {
            return Ok(());
        }
        store.change(edits, 0).await?;
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

pub fn workflow(number: u64) -> String {
    RunId::from_u128(number.into()).to_string()
}

pub fn new_run(number: usize) -> NewRun {
    let run = RunId::from_u128(((number as u128) << 64) | u128::from(mixed(number, 0)));
    let status = match mixed(number, 1) % 10_000 {
        0 => Cancelled,
        1..100 => Failed,
        100..500 => Waiting,
        _ => Completed,
    };
    let thread = skewed(number, 4, 10_000);
    let user = skewed(number, 2, 1_000);
    let started_at = number as i64;
    let summary = Summary {
        run,
        workflow: format!("report {}", skewed(number, 3, 50)),
        plan: format!("{:064}", skewed(number, 3, 50)),
        user: if user == 0 { USER.to_owned() } else { format!("user {user}") },
        thread: if number.is_multiple_of(3) { String::new() } else { format!("thread {thread}") },
        parent: (!number.is_multiple_of(CHILDREN)).then(|| RunId::from_u128(mixed(number / CHILDREN, 9).into())),
        target: Target { workflow: workflow(skewed(number, 5, 2_000)), ..Target::default() },
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
    NewRun { entry, more: Vec::new(), summary, key: None, lease: None, blobs: Vec::new() }
}
