//! Entries and the row of a run: create, append, load. The numbers are checked by the database, because other
//! processes write too.

use relais_engine::{Entry, Millis, RunId, Summary};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement, ToSql, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records::{self, Roll};
use super::trouble::Trouble;
use super::writer::{Size, Written};
use crate::{Batch, Change, Error, NewRun, Owner, Writer};

/// An entry as it is stored. Made on the caller's thread, so that the writer only writes.
pub(super) struct Line {
    seq: i64,
    at: Millis,
    version: u16,
    events: String,
}

impl Line {
    pub(super) fn of(entry: &Entry) -> Result<Line, Error> {
        let seq = number(entry.seq)?;
        Ok(Line { seq, at: entry.at, version: entry.version, events: text(&entry.events)? })
    }
}

/// The row of a run as it is stored.
pub(super) struct Card {
    summary: Summary,
    target: String,
    awaits: String,
    usage: String,
    error: Option<String>,
}

impl Card {
    pub(super) fn of(summary: Summary) -> Result<Card, Error> {
        let target = text(&summary.target)?;
        let awaits = text(&summary.awaits)?;
        let usage = text(&summary.usage)?;
        let error = summary.error.as_ref().map(text).transpose()?;
        Ok(Card { summary, target, awaits, usage, error })
    }

    /// An end that nobody has taken note of yet, as far as this row tells.
    fn unreported(&self) -> bool {
        self.summary.status.is_final()
    }
}

pub(super) struct Opening {
    line: Line,
    more: Vec<Line>,
    card: Card,
    key: Option<String>,
    lease: Option<(Owner, Millis)>,
    blobs: Vec<String>,
}

impl Opening {
    pub(super) fn of(new: NewRun) -> Result<Opening, Error> {
        new.check_numbers()?;
        let line = Line::of(&new.entry)?;
        let more = new.more.iter().map(Line::of).collect::<Result<_, _>>()?;
        Ok(Opening { line, more, card: Card::of(new.summary)?, key: new.key, lease: new.lease, blobs: new.blobs })
    }
}

pub(super) struct Addition {
    run: RunId,
    writer: Writer,
    line: Line,
    card: Option<Card>,
    release: Option<Owner>,
    blobs: Vec<String>,
    awaited: Option<Vec<String>>,
    listed: Option<Roll>,
}

impl Addition {
    pub(super) fn of(batch: Batch) -> Result<Addition, Error> {
        let line = Line::of(&batch.entry)?;
        let card = batch.summary.map(Card::of).transpose()?;
        let listed = batch.listed.map(Roll::of).transpose()?;
        let Batch { run, writer, release, blobs, awaited, .. } = batch;
        Ok(Addition { run, writer, line, card, release, blobs, awaited, listed })
    }

    pub(super) fn size(&self) -> Size {
        let has_rows = self.card.is_some() || self.release.is_some();
        let has_lists = self.awaited.is_some() || self.listed.is_some();
        let only_the_entry = !has_rows && !has_lists && self.blobs.is_empty();
        if only_the_entry { Size::Statement } else { Size::Several }
    }
}

const INSERT_ENTRY: &str = "INSERT INTO entries (run, seq, at, version, events) VALUES (?1, ?2, ?3, ?4, ?5)";

/// Only where the number is the next one.
const APPEND_ENTRY: &str = "INSERT INTO entries (run, seq, at, version, events, writer) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6 \
     WHERE (SELECT max(seq) FROM entries WHERE run = ?1) = ?2 - 1";

const INSERT_RUN: &str = "INSERT INTO runs (run, workflow, plan, user, thread, parent, status, started_at, ended_at, \
     wake_at, awaits, usage, error, workflow_id, target, unreported, start_key, owner, root) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?6 IS NULL)";

/// What has changed of the columns that have an index: nothing, where the run is, or what it is. SQLite writes an index
/// anew for every column that an UPDATE names, changed or not.
const COMPARE_RUN: &str = "SELECT workflow = ?2 AND plan = ?3 AND user = ?4 AND thread = ?5 AND parent IS ?6 \
     AND started_at = ?8 AND workflow_id = ?14 AND target = ?15, \
     status = ?7 AND ended_at IS ?9 AND wake_at IS ?10 AND unreported = ?16 FROM runs WHERE run = ?1";

/// What it has used so far and the like: in no index.
const UPDATE_NOTES: &str = "UPDATE runs SET awaits = ?11, usage = ?12, error = ?13 WHERE run = ?1";

const UPDATE_STATUS: &str = "UPDATE runs SET status = ?7, ended_at = ?9, wake_at = ?10, awaits = ?11, usage = ?12, \
     error = ?13, unreported = ?16 WHERE run = ?1";

const UPDATE_RUN: &str = "UPDATE runs SET workflow = ?2, plan = ?3, user = ?4, thread = ?5, parent = ?6, status = ?7, \
     started_at = ?8, ended_at = ?9, wake_at = ?10, awaits = ?11, usage = ?12, error = ?13, workflow_id = ?14, \
     target = ?15, unreported = ?16, root = ?6 IS NULL WHERE run = ?1";

pub(super) fn create(db: &Connection, opening: &Opening) -> Result<Written<RunId>, Trouble> {
    let summary = &opening.card.summary;
    if let Some(first) = started_with(db, &summary.user, opening.key.as_deref())? {
        return Ok(Written::quietly(first));
    }
    let run = summary.run;
    if let Some(same) = is_first_entry(db, run, &opening.line)? {
        return if same { Ok(Written::quietly(run)) } else { Err(Error::Conflict { run, seq: 1 }.into()) };
    }
    let mut last = 0;
    for line in std::iter::once(&opening.line).chain(&opening.more) {
        db.prepare_cached(INSERT_ENTRY)?.execute(params![id(&run), line.seq, line.at, line.version, line.events])?;
        last = line.seq;
    }
    insert_run(db, opening)?;
    if let Some((owner, until)) = &opening.lease {
        hold(db, owner, *until)?;
    }
    use_blobs(db, run, &opening.blobs)?;
    Ok(Written { value: run, change: Some(Change { run, seq: last.cast_unsigned() }) })
}

pub(super) fn append(db: &Connection, addition: &Addition) -> Result<Written<()>, Trouble> {
    let Addition { run, writer, line, .. } = addition;
    let mut statement = db.prepare_cached(APPEND_ENTRY)?;
    if statement.execute(params![id(run), line.seq, line.at, line.version, line.events, writer.0])? == 0 {
        return if is_there(db, addition)? { Ok(Written::quietly(())) } else { Err(refusal(db, *run, line.seq)?) };
    }
    if let Some(card) = &addition.card {
        update_run(db, card)?;
    }
    if let Some(owner) = &addition.release {
        let sql = "UPDATE runs SET owner = NULL WHERE run = ?1 AND owner = ?2";
        db.prepare_cached(sql)?.execute(params![id(run), owner])?;
    }
    use_blobs(db, *run, &addition.blobs)?;
    if let Some(types) = &addition.awaited {
        await_events(db, *run, types)?;
    }
    if let Some(roll) = &addition.listed {
        records::call_the_roll(db, *run, roll, line.at)?;
    }
    let seq = line.seq.cast_unsigned();
    Ok(Written { value: (), change: Some(Change { run: *run, seq }) })
}

pub(super) fn load(db: &Connection, run: RunId, after: u64) -> Result<Vec<Entry>, Trouble> {
    let sql = "SELECT seq, at, version, events FROM entries WHERE run = ?1 AND seq > ?2 ORDER BY seq";
    let mut statement = db.prepare_cached(sql)?;
    // A number beyond all entries asks for nothing.
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![id(&run), after])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry(run, row)?);
    }
    Ok(entries)
}

/// Makes the owner's lease last until then at least.
pub(super) fn hold(db: &Connection, owner: &str, until: Millis) -> rusqlite::Result<()> {
    let sql = "INSERT INTO owners (owner, lease_until) VALUES (?1, ?2) \
         ON CONFLICT (owner) DO UPDATE SET lease_until = max(lease_until, excluded.lease_until)";
    db.prepare_cached(sql)?.execute(params![owner, until]).map(|_| ())
}

/// The run that this user started with this key before.
fn started_with(db: &Connection, user: &str, key: Option<&str>) -> rusqlite::Result<Option<RunId>> {
    let Some(key) = key else { return Ok(None) };
    let mut statement = db.prepare_cached("SELECT run FROM runs WHERE user = ?1 AND start_key = ?2")?;
    statement.query_row([user, key], |row| run_id(row, 0)).optional()
}

/// Whether the run begins with this very entry; none if there is no such run.
fn is_first_entry(db: &Connection, run: RunId, line: &Line) -> rusqlite::Result<Option<bool>> {
    let sql = "SELECT at = ?2 AND version = ?3 AND events = ?4 FROM entries WHERE run = ?1 AND seq = 1";
    let mut statement = db.prepare_cached(sql)?;
    statement.query_row(params![id(&run), line.at, line.version, line.events], |row| row.get(0)).optional()
}

fn insert_run(db: &Connection, opening: &Opening) -> rusqlite::Result<()> {
    let owner = opening.lease.as_ref().map(|(owner, _)| owner);
    let mut statement = db.prepare_cached(INSERT_RUN)?;
    bind(&mut statement, &opening.card)?;
    statement.raw_bind_parameter(17, &opening.key)?;
    statement.raw_bind_parameter(18, owner)?;
    statement.raw_execute()?;
    write_marks(db, &opening.card.summary)
}

/// What the run is found by besides the columns of its row.
fn write_marks(db: &Connection, summary: &Summary) -> rusqlite::Result<()> {
    let sql = "INSERT INTO run_marks (user, mark, status, root, started_at, run) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO NOTHING";
    let (status, root) = (summary.status.word(), summary.parent.is_none());
    for mark in summary.marks() {
        let values = params![summary.user, mark, status, root, summary.started_at, id(&summary.run)];
        db.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

fn update_run(db: &Connection, card: &Card) -> rusqlite::Result<()> {
    let Some((same_run, same_status)) = compared(db, card)? else { return Ok(()) };
    let sql = match (same_run, same_status) {
        (true, true) => UPDATE_NOTES,
        (true, false) => UPDATE_STATUS,
        (false, _) => UPDATE_RUN,
    };
    let mut statement = db.prepare_cached(sql)?;
    bind(&mut statement, card)?;
    statement.raw_execute()?;
    if same_run && same_status {
        return Ok(());
    }
    db.prepare_cached("DELETE FROM run_marks WHERE run = ?1")?.execute([id(&card.summary.run)])?;
    write_marks(db, &card.summary)
}

fn compared(db: &Connection, card: &Card) -> rusqlite::Result<Option<(bool, bool)>> {
    let mut statement = db.prepare_cached(COMPARE_RUN)?;
    bind(&mut statement, card)?;
    let mut rows = statement.raw_query();
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// The row's values by number; a statement takes those it names.
fn bind(statement: &mut Statement<'_>, card: &Card) -> rusqlite::Result<()> {
    let Card { summary, target, awaits, usage, error } = card;
    let status = summary.status.word();
    let parent = summary.parent.as_ref().map(id);
    let unreported = card.unreported();
    let run = id(&summary.run);
    let values: [&dyn ToSql; 16] = [
        &run,
        &summary.workflow,
        &summary.plan,
        &summary.user,
        &summary.thread,
        &parent,
        &status,
        &summary.started_at,
        &summary.ended_at,
        &summary.wake_at,
        awaits,
        usage,
        error,
        &summary.target.workflow,
        target,
        &unreported,
    ];
    for (number, value) in (1..).zip(values).take(statement.parameter_count()) {
        statement.raw_bind_parameter(number, value)?;
    }
    Ok(())
}

fn use_blobs(db: &Connection, run: RunId, hashes: &[String]) -> rusqlite::Result<()> {
    for hash in hashes {
        let sql = "INSERT INTO blob_uses (run, hash) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        db.prepare_cached(sql)?.execute(params![id(&run), hash])?;
    }
    Ok(())
}

fn await_events(db: &Connection, run: RunId, types: &[String]) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM awaited_events WHERE run = ?1")?.execute([id(&run)])?;
    let sql = "INSERT INTO awaited_events (user, event, run) SELECT user, ?2, run FROM runs WHERE run = ?1 \
         ON CONFLICT DO NOTHING";
    for event in types {
        db.prepare_cached(sql)?.execute(params![id(&run), event])?;
    }
    Ok(())
}

/// Whether this very append was made before, and only its answer was lost.
fn is_there(db: &Connection, addition: &Addition) -> rusqlite::Result<bool> {
    let Addition { run, writer, line, .. } = addition;
    let sql =
        "SELECT writer IS ?3 AND at = ?4 AND version = ?5 AND events = ?6 FROM entries WHERE run = ?1 AND seq = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let values = params![id(run), line.seq, writer.0, line.at, line.version, line.events];
    Ok(statement.query_row(values, |row| row.get(0)).optional()?.unwrap_or(false))
}

/// Why an entry was not taken.
fn refusal(db: &Connection, run: RunId, seq: i64) -> rusqlite::Result<Trouble> {
    let mut statement = db.prepare_cached("SELECT max(seq) FROM entries WHERE run = ?1")?;
    let last: Option<i64> = statement.query_row([id(&run)], |row| row.get(0))?;
    let error = match last {
        None => Error::NotFound(format!("run {run}")),
        Some(_) => Error::Conflict { run, seq: seq.cast_unsigned() },
    };
    Ok(error.into())
}

fn entry(run: RunId, row: &SqlRow<'_>) -> Result<Entry, Trouble> {
    let seq: i64 = row.get(0)?;
    let events = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
    let events = serde_json::from_str(events).map_err(|error| {
        let advice = "it was written by a newer version of this program, or is damaged";
        Error::Unusable(format!("entry {seq} of run {run} cannot be read: {error}; {advice}"))
    })?;
    Ok(Entry { seq: seq.cast_unsigned(), at: row.get(1)?, version: row.get(2)?, events })
}

pub(super) fn id(run: &RunId) -> &[u8] {
    run.as_bytes().as_slice()
}

pub(super) fn run_id(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<RunId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(RunId::from_bytes(bytes))
}

/// SQLite's integers have a sign.
pub(super) fn number(number: u64) -> Result<i64, Error> {
    i64::try_from(number).map_err(|_| Error::Internal(format!("the number {number} is too large for the database")))
}

pub(super) fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Internal(format!("cannot be written as JSON: {error}")))
}

/// A JSON column.
pub(super) fn parsed<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}
