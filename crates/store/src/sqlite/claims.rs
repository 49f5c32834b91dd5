//! Who works on which run. A lease belongs to an owner, not to a run, so that renewing is one row.

use std::collections::BTreeSet;

use relais_engine::{Millis, RunId};
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::journal::{hold, id, run_id};
use super::trouble::Trouble;
use super::writer::Written;
use crate::{Claim, Claimed, Owner, Which};

const DUE: &str = "SELECT run, owner FROM runs INDEXED BY runs_due WHERE status = 'waiting' AND wake_at IS NOT NULL \
     AND wake_at <= ?1 ORDER BY wake_at";

const UNOWNED: &str = "SELECT run, owner FROM runs INDEXED BY runs_open WHERE owner IS NULL \
     AND status IN ('pending', 'running') ORDER BY started_at LIMIT ?1";

const OWNED_BY: &str = "SELECT run, owner FROM runs INDEXED BY runs_open WHERE owner = ?1 \
     AND status IN ('pending', 'running') ORDER BY started_at LIMIT ?2";

/// Whoever left one of these for good has nothing to do with it any more: its row says what it waits for.
const LEAVE_WAITING: &str = "UPDATE runs INDEXED BY runs_held SET owner = NULL WHERE owner = ?1 \
     AND owner IS NOT NULL AND status IN ('pending', 'running', 'waiting') AND status = 'waiting'";

const TREE: &str = "WITH RECURSIVE tree(run) AS (SELECT ?1 UNION SELECT runs.run FROM runs JOIN tree \
     ON runs.parent = tree.run) SELECT runs.run, runs.owner FROM tree CROSS JOIN runs ON runs.run = tree.run \
     WHERE status IN ('pending', 'running') OR (status = 'waiting' AND wake_at <= ?2)";

pub(super) fn claim(db: &Connection, claim: &Claim) -> Result<Written<Vec<Claimed>>, Trouble> {
    let Owners { alive, gone } = known(db, claim)?;
    let mut taken = Taken { alive: &alive, limit: claim.limit, runs: Vec::new() };
    match claim.which {
        Which::One(run) => one(db, run, &mut taken)?,
        Which::Tree(root) => tree(db, root, claim.now, &mut taken)?,
        Which::Any => any(db, claim.now, &gone, &mut taken)?,
    }
    let runs = taken.runs;
    for Claimed { run, .. } in &runs {
        let mut statement = db.prepare_cached("UPDATE runs SET owner = ?2 WHERE run = ?1")?;
        statement.execute(params![id(run), claim.owner])?;
    }
    if !runs.is_empty() {
        hold(db, &claim.owner, claim.lease_until)?;
    }
    for owner in &gone {
        forget_idle(db, owner)?;
    }
    Ok(Written::quietly(runs))
}

pub(super) fn renew(db: &Connection, owner: &str, until: Millis) -> Result<Written<()>, Trouble> {
    let sql = "UPDATE owners SET lease_until = max(lease_until, ?2) WHERE owner = ?1";
    db.prepare_cached(sql)?.execute(params![owner, until])?;
    Ok(Written::quietly(()))
}

pub(super) fn release(db: &Connection, run: RunId, owner: &str) -> Result<Written<()>, Trouble> {
    let mut statement = db.prepare_cached("UPDATE runs SET owner = NULL WHERE run = ?1 AND owner = ?2")?;
    statement.execute(params![id(&run), owner])?;
    Ok(Written::quietly(()))
}

pub(super) fn owners(db: &Connection) -> Result<Vec<Owner>, Trouble> {
    let sql = "SELECT owner FROM owners WHERE EXISTS (SELECT 1 FROM runs INDEXED BY runs_held \
         WHERE runs.owner = owners.owner AND runs.owner IS NOT NULL AND status IN ('pending', 'running', 'waiting')) \
         ORDER BY owner";
    let mut statement = db.prepare_cached(sql)?;
    let owners = statement.query_map([], |row| row.get(0))?;
    Ok(owners.collect::<Result<_, _>>()?)
}

pub(super) fn held(db: &Connection, owner: &str) -> Result<Vec<RunId>, Trouble> {
    let sql = "SELECT run FROM runs INDEXED BY runs_held WHERE owner = ?1 AND owner IS NOT NULL \
         AND status IN ('pending', 'running', 'waiting') ORDER BY run";
    let mut statement = db.prepare_cached(sql)?;
    let runs = statement.query_map([owner], |row| run_id(row, 0))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// What has been chosen so far.
struct Taken<'a> {
    alive: &'a BTreeSet<Owner>,
    limit: usize,
    runs: Vec<Claimed>,
}

impl Taken<'_> {
    fn is_full(&self) -> bool {
        self.runs.len() >= self.limit
    }

    fn consider(&mut self, row: &SqlRow<'_>) -> rusqlite::Result<()> {
        let from: Option<Owner> = row.get(1)?;
        if from.as_ref().is_none_or(|owner| !self.alive.contains(owner)) {
            self.runs.push(Claimed { run: run_id(row, 0)?, from });
        }
        Ok(())
    }

    /// How many may still come.
    fn room(&self) -> i64 {
        i64::try_from(self.limit.saturating_sub(self.runs.len())).unwrap_or(i64::MAX)
    }
}

struct Owners {
    alive: BTreeSet<Owner>,
    /// Known to be dead, or with an expired lease.
    gone: BTreeSet<Owner>,
}

/// The one who asks is alive whatever its lease says: it may still be at work on what it holds.
fn known(db: &Connection, claim: &Claim) -> rusqlite::Result<Owners> {
    let mut alive = BTreeSet::from([claim.owner.clone()]);
    let mut gone: BTreeSet<Owner> = claim.dead.iter().filter(|dead| **dead != claim.owner).cloned().collect();
    let mut statement = db.prepare_cached("SELECT owner, ?2 OR lease_until > ?1 FROM owners")?;
    let mut rows = statement.query(params![claim.now, claim.patient])?;
    while let Some(row) = rows.next()? {
        let owner: Owner = row.get(0)?;
        let holds: bool = row.get(1)?;
        if !alive.contains(&owner) && !gone.contains(&owner) {
            if holds {
                alive.insert(owner)
            } else {
                gone.insert(owner)
            };
        }
    }
    Ok(Owners { alive, gone })
}

fn one(db: &Connection, run: RunId, taken: &mut Taken<'_>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached("SELECT run, owner FROM runs WHERE run = ?1")?;
    if !taken.is_full() {
        statement.query_row([id(&run)], |row| taken.consider(row)).optional()?;
    }
    Ok(())
}

fn tree(db: &Connection, root: RunId, now: Millis, taken: &mut Taken<'_>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(TREE)?;
    let mut rows = statement.query(params![id(&root), now])?;
    while !taken.is_full()
        && let Some(row) = rows.next()?
    {
        taken.consider(row)?;
    }
    Ok(())
}

fn any(db: &Connection, now: Millis, gone: &BTreeSet<Owner>, taken: &mut Taken<'_>) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(DUE)?;
    let mut rows = statement.query([now])?;
    while !taken.is_full()
        && let Some(row) = rows.next()?
    {
        taken.consider(row)?;
    }
    let mut statement = db.prepare_cached(UNOWNED)?;
    let mut rows = statement.query([taken.room()])?;
    while let Some(row) = rows.next()? {
        taken.consider(row)?;
    }
    for owner in gone {
        db.prepare_cached(LEAVE_WAITING)?.execute([owner])?;
        let mut statement = db.prepare_cached(OWNED_BY)?;
        let mut rows = statement.query(params![owner, taken.room()])?;
        while let Some(row) = rows.next()? {
            taken.consider(row)?;
        }
    }
    Ok(())
}

/// Drops the lease of an owner who is gone and whose runs are all in other hands.
fn forget_idle(db: &Connection, owner: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM owners WHERE owner = ?1 AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_held \
         WHERE runs.owner = ?1 AND runs.owner IS NOT NULL AND status IN ('pending', 'running', 'waiting'))";
    db.prepare_cached(sql)?.execute([owner]).map(|_| ())
}
