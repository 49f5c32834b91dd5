//! Removes old runs with everything that belongs to them, and blobs that nobody refers to.

use std::collections::BTreeSet;

use relais_engine::{Millis, RunId, RunStatus};
use rusqlite::{Connection, params};

use super::journal::{id, run_id};
use super::trouble::Trouble;
use super::writer::Written;
use crate::page;
use crate::{Prune, Pruned};

/// Blobs looked at by one call besides those of the removed runs, so that a call stays short.
const MAX_STALE_BLOBS: i64 = 1_000;

/// A run is a root if nobody started it, or if whoever did is gone.
const ROOTS: &str = "SELECT run FROM runs INDEXED BY runs_ended WHERE status = ?1 AND ended_at IS NOT NULL \
     AND ended_at < ?2 AND NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.run = runs.parent) ORDER BY ended_at LIMIT ?3";

const TREE: &str = "WITH RECURSIVE tree(run) AS (SELECT ?1 UNION SELECT runs.run FROM runs JOIN tree \
     ON runs.parent = tree.run) SELECT runs.run, status IN ('pending', 'running', 'waiting') \
     FROM tree CROSS JOIN runs ON runs.run = tree.run";

pub(super) fn prune(db: &Connection, prune: &Prune, unused_since: Millis) -> Result<Written<Pruned>, Trouble> {
    let limit = page::pruned_runs(prune.limit);
    let mut pruned = Pruned::default();
    let mut hashes = BTreeSet::new();
    for root in all_roots(db, prune, limit)? {
        if usize::try_from(pruned.runs).unwrap_or(usize::MAX) >= limit {
            break;
        }
        for run in finished_tree(db, root)? {
            remove(db, run, &mut hashes)?;
            pruned.runs += 1;
        }
    }
    for hash in &hashes {
        pruned.blobs += remove_unused(db, hash)?;
    }
    pruned.blobs += remove_stale(db, unused_since)?;
    Ok(Written::quietly(pruned))
}

/// Each is looked at when its turn comes: what was named twice is gone by then.
fn all_roots(db: &Connection, prune: &Prune, limit: usize) -> rusqlite::Result<Vec<RunId>> {
    let mut found = Vec::new();
    for &(status, before) in &prune.before {
        found.extend(roots(db, status, before, limit)?);
    }
    found.extend(&prune.runs);
    Ok(found)
}

fn roots(db: &Connection, status: RunStatus, before: Millis, limit: usize) -> rusqlite::Result<Vec<RunId>> {
    if !status.is_final() {
        return Ok(Vec::new());
    }
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(ROOTS)?;
    statement.query_map(params![status.word(), before, limit], |row| run_id(row, 0))?.collect()
}

/// The run and its descendants, or nothing while one of them is unfinished.
fn finished_tree(db: &Connection, root: RunId) -> rusqlite::Result<Vec<RunId>> {
    let mut statement = db.prepare_cached(TREE)?;
    let mut rows = statement.query([id(&root)])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get(1)? {
            return Ok(Vec::new());
        }
        runs.push(run_id(row, 0)?);
    }
    Ok(runs)
}

fn remove(db: &Connection, run: RunId, hashes: &mut BTreeSet<String>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached("SELECT hash FROM blob_uses WHERE run = ?1")?;
    for hash in statement.query_map([id(&run)], |row| row.get(0))? {
        hashes.insert(hash?);
    }
    for sql in [
        "DELETE FROM blob_uses WHERE run = ?1",
        "DELETE FROM awaited_events WHERE run = ?1",
        "DELETE FROM run_marks WHERE run = ?1",
        "DELETE FROM entries WHERE run = ?1",
        "DELETE FROM runs WHERE run = ?1",
    ] {
        db.prepare_cached(sql)?.execute([id(&run)])?;
    }
    Ok(())
}

/// Removes a blob unless a run refers to it or it was put lately.
fn remove_unused(db: &Connection, hash: &str) -> rusqlite::Result<u64> {
    let sql = "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE hash = ?1) \
         AND NOT EXISTS (SELECT 1 FROM fresh_blobs WHERE hash = ?1)";
    Ok(db.prepare_cached(sql)?.execute([hash])?.try_into().unwrap_or(u64::MAX))
}

/// What was put long ago counts as fresh no longer.
fn remove_stale(db: &Connection, unused_since: Millis) -> rusqlite::Result<u64> {
    let mut statement =
        db.prepare_cached("SELECT hash FROM fresh_blobs WHERE put_at <= ?1 ORDER BY put_at LIMIT ?2")?;
    let stale = statement.query_map(params![unused_since, MAX_STALE_BLOBS], |row| row.get(0));
    let stale: Vec<String> = stale?.collect::<Result<_, _>>()?;
    let mut removed = 0;
    for hash in stale {
        db.prepare_cached("DELETE FROM fresh_blobs WHERE hash = ?1")?.execute([&hash])?;
        removed += remove_unused(db, &hash)?;
    }
    Ok(removed)
}
