//! Records: one row each, replaced whole, and the edits that change several of them at once.

use relais_engine::{Millis, RunId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params, params_from_iter};

use super::documents::{self, Sheet};
use super::journal::{id, number, parsed, text};
use super::trouble::Trouble;
use super::writer::Written;
use crate::page;
use crate::{Edit, Error, Expect, Find, Listed, ListedRecord, Record, RecordKey};

/// An edit as it is written; its JSON is made on the caller's thread.
pub(super) enum Step {
    Put { key: RecordKey, label: String, due_at: Option<Millis>, body: String, expect: Expect },
    Remove { key: RecordKey, expect: Expect },
    Document(Sheet),
    Reported { run: RunId, seq: i64 },
}

impl Step {
    pub(super) fn of(edit: Edit) -> Result<Step, Error> {
        Ok(match edit {
            Edit::Put { key, label, due_at, body, expect } => {
                Step::Put { key, label, due_at, body: text(&body)?, expect }
            }
            Edit::Remove { key, expect } => Step::Remove { key, expect },
            Edit::Document(document) => Step::Document(Sheet::of(document)?),
            Edit::Reported { run, seq } => Step::Reported { run, seq: number(seq)? },
        })
    }
}

/// The records that belong to a run, as they are written.
pub(super) struct Roll {
    listed: Listed,
    /// One for each record.
    bodies: Vec<String>,
}

impl Roll {
    pub(super) fn of(listed: Listed) -> Result<Roll, Error> {
        let bodies = listed.records.iter().map(|record| text(&record.body)).collect::<Result<_, _>>()?;
        Ok(Roll { listed, bodies })
    }
}

/// Leaves exactly these records of the run.
pub(super) fn call_the_roll(db: &Connection, run: RunId, roll: &Roll, at: Millis) -> rusqlite::Result<()> {
    let (Roll { listed, bodies }, label) = (roll, run.to_string());
    let sql = "SELECT owner, id FROM records INDEXED BY records_label WHERE kind = ?1 AND label = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let there = statement.query_map([&listed.kind, &label], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let there: Vec<(String, String)> = there.collect::<Result<_, _>>()?;
    for (owner, id) in there.iter().filter(|(_, id)| !listed.has(id)) {
        let sql = "DELETE FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3";
        db.prepare_cached(sql)?.execute([&listed.kind, owner, id])?;
    }
    let sql = format!("{INSERT} ON CONFLICT DO NOTHING");
    for (record, body) in listed.records.iter().zip(bodies) {
        let ListedRecord { owner, id, due_at, .. } = record;
        db.prepare_cached(&sql)?.execute(params![listed.kind, owner, id, label, due_at, at, body])?;
    }
    Ok(())
}

const COLUMNS: &str = "SELECT kind, owner, id, label, due_at, revision, at, body FROM records";

const INSERT: &str = "INSERT INTO records (kind, owner, id, label, due_at, revision, at, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)";

/// Where label and time stay, no index is touched: a counter is changed with every run.
const REPLACE_BODY: &str =
    "UPDATE records SET revision = ?4, at = ?5, body = ?6 WHERE kind = ?1 AND owner = ?2 AND id = ?3";

const REPLACE: &str = "UPDATE records SET revision = ?4, at = ?5, body = ?6, label = ?7, due_at = ?8 \
     WHERE kind = ?1 AND owner = ?2 AND id = ?3";

const REPORTED: &str = "UPDATE runs SET unreported = 0, reported = ?2 WHERE run = ?1 AND unreported = 1 \
     AND (SELECT max(seq) FROM entries WHERE run = ?1) = ?2";

pub(super) fn change(db: &Connection, steps: &[Step], at: Millis) -> Result<Written<Vec<u64>>, Trouble> {
    let revisions = steps.iter().map(|step| perform(db, step, at)).collect::<Result<_, _>>()?;
    Ok(Written::quietly(revisions))
}

fn perform(db: &Connection, step: &Step, at: Millis) -> Result<u64, Trouble> {
    match step {
        Step::Put { key, label, due_at, body, expect } => {
            let before = expected(db, key, *expect)?;
            put(db, key, &Fresh { label, due_at: *due_at, at, body }, before)
        }
        Step::Remove { key, expect } => {
            expected(db, key, *expect)?;
            let sql = "DELETE FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3";
            db.prepare_cached(sql)?.execute([&key.kind, &key.owner, &key.id])?;
            Ok(0)
        }
        Step::Document(sheet) => documents::put(db, sheet).map(|_| 0),
        Step::Reported { run, seq } => reported(db, *run, *seq),
    }
}

/// What a record becomes.
struct Fresh<'a> {
    label: &'a str,
    due_at: Option<Millis>,
    at: Millis,
    body: &'a str,
}

/// What a record was, without its body.
struct Before {
    revision: i64,
    label: String,
    due_at: Option<Millis>,
}

fn expected(db: &Connection, key: &RecordKey, expect: Expect) -> Result<Option<Before>, Trouble> {
    let sql = "SELECT revision, label, due_at FROM records WHERE kind = ?1 AND owner = ?2 AND id = ?3";
    let read = |row: &SqlRow<'_>| Ok(Before { revision: row.get(0)?, label: row.get(1)?, due_at: row.get(2)? });
    let before = db.prepare_cached(sql)?.query_row([&key.kind, &key.owner, &key.id], read).optional()?;
    if expect.holds(before.as_ref().map(|before| before.revision.cast_unsigned())) {
        Ok(before)
    } else {
        Err(Error::Changed(format!("{} {}", key.kind, key.id)).into())
    }
}

fn put(db: &Connection, key: &RecordKey, fresh: &Fresh<'_>, before: Option<Before>) -> Result<u64, Trouble> {
    let RecordKey { kind, owner, id } = key;
    let Fresh { label, due_at, at, body } = *fresh;
    let Some(before) = before else {
        db.prepare_cached(INSERT)?.execute(params![kind, owner, id, label, due_at, at, body])?;
        return Ok(1);
    };
    let revision = before.revision + 1;
    if before.label == label && before.due_at == due_at {
        db.prepare_cached(REPLACE_BODY)?.execute(params![kind, owner, id, revision, at, body])?;
    } else {
        db.prepare_cached(REPLACE)?.execute(params![kind, owner, id, revision, at, body, label, due_at])?;
    }
    Ok(revision.cast_unsigned())
}

fn reported(db: &Connection, run: RunId, seq: i64) -> Result<u64, Trouble> {
    match db.prepare_cached(REPORTED)?.execute(params![id(&run), seq])? {
        0 => Err(Error::Changed(format!("run {run}")).into()),
        _ => Ok(0),
    }
}

pub(super) fn get(db: &Connection, key: &RecordKey) -> Result<Option<Record>, Trouble> {
    let sql = format!("{COLUMNS} WHERE kind = ?1 AND owner = ?2 AND id = ?3");
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_row([&key.kind, &key.owner, &key.id], read).optional()?)
}

pub(super) fn next_due(db: &Connection, kind: &str) -> Result<Option<Millis>, Trouble> {
    let sql = "SELECT due_at FROM records INDEXED BY records_due WHERE kind = ?1 AND due_at IS NOT NULL \
         ORDER BY due_at LIMIT 1";
    Ok(db.prepare_cached(sql)?.query_row([kind], |row| row.get(0)).optional()?)
}

pub(super) fn find(db: &Connection, find: &Find) -> Result<Vec<Record>, Trouble> {
    let (sql, values) = query(find);
    let mut statement = db.prepare_cached(&sql)?;
    let records = statement.query_map(params_from_iter(values), read)?;
    Ok(records.collect::<Result<_, _>>()?)
}

fn query(find: &Find) -> (String, Vec<Value>) {
    let mut sql = format!("{COLUMNS} INDEXED BY {} WHERE kind = ?", index(find));
    let mut values = vec![Value::Text(find.kind.clone())];
    let mut and = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql.push_str(condition);
            values.push(value);
        }
    };
    and(" AND owner = ?", find.owner.clone().map(Value::Text));
    and(" AND label = ?", find.label.clone().map(Value::Text));
    let beyond = if find.newest_first { " AND id < ?" } else { " AND id > ?" };
    and(beyond, find.after.clone().filter(|_| find.due_by.is_none()).map(Value::Text));
    and(" AND due_at IS NOT NULL AND due_at <= ?", find.due_by.map(Value::Integer));
    sql.push_str(match (find.due_by, find.newest_first) {
        (Some(_), _) => " ORDER BY due_at, id, owner LIMIT ?",
        (None, false) => " ORDER BY id, owner LIMIT ?",
        (None, true) => " ORDER BY id DESC, owner DESC LIMIT ?",
    });
    values.push(Value::Integer(page::sql_rows(find.limit)));
    (sql, values)
}

fn index(find: &Find) -> &'static str {
    match (find.due_by, &find.owner, &find.label) {
        (Some(_), _, _) => "records_due",
        (None, Some(_), Some(_)) => "records_owner_label",
        (None, None, Some(_)) => "records_label",
        (None, Some(_), None) => "sqlite_autoindex_records_1",
        (None, None, None) => "records_id",
    }
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Record> {
    let key = RecordKey { kind: row.get(0)?, owner: row.get(1)?, id: row.get(2)? };
    let revision: i64 = row.get(5)?;
    let (label, due_at, at) = (row.get(3)?, row.get(4)?, row.get(6)?);
    Ok(Record { key, label, due_at, revision: revision.cast_unsigned(), at, body: parsed(row, 7)? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sqlite::{pages::assert_walks, schema};

    // keeps
    #[test]
    fn no_search_sorts_or_scans() {
        let db = Connection::open_in_memory().unwrap();
        schema::migrate(&db, std::path::Path::new("memory")).unwrap();
        for bits in 0..32_u8 {
            let given = |place: u8| bits & (1 << place) != 0;
            let text = |place: u8| given(place).then(|| "x".to_owned());
            let (owner, label, after, newest_first) = (text(0), text(1), text(2), given(3));
            let due_by = given(4).then_some(7);
            let (sql, values) = query(&Find { owner, label, due_by, after, newest_first, ..Find::default() });
            assert_walks(&db, &sql, values);
        }
    }
}
