//! What is done with the file as a whole: copy it, check it, try whether it can be written.

use std::path::Path;
use std::time::Duration;

use relais_engine::Millis;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::trouble::Trouble;
use super::writer::Written;
use super::{schema, shape};
use crate::Error;

/// Pages copied in one go: 4 MiB.
const BACKUP_PAGES: i32 = 1_024;
/// Pause where somebody holds the new file: a virus scanner, say.
const BACKUP_PAUSE: Duration = Duration::from_millis(10);
/// Findings of each kind that are listed; a damaged file may have millions.
const MAX_FINDINGS: usize = 20;

/// A mark that nobody reads.
pub(super) fn probe(db: &Connection, at: Millis) -> Result<Written<()>, Trouble> {
    let sql = "INSERT INTO meta (key, value) VALUES ('probe', ?1) ON CONFLICT DO UPDATE SET value = excluded.value";
    db.prepare_cached(sql)?.execute([at.to_string()])?;
    Ok(Written::quietly(()))
}

/// Under another name until it is complete, so that a file with the right name is a whole copy.
pub(super) fn backup(db: &Connection, to: &Path) -> Result<(), Trouble> {
    let unwritable = |error: std::io::Error| {
        Error::Unusable(format!("the backup {} cannot be written: {error}; name a new file", to.display()))
    };
    if to.try_exists().map_err(unwritable)? {
        return Err(unwritable(std::io::ErrorKind::AlreadyExists.into()).into());
    }
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    match std::fs::remove_file(part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritable(error).into()),
        _ => {}
    }
    crate::private::create_file(part).map_err(unwritable)?;
    copy(db, part, || {}).map_err(|error| Trouble::from(error).tell(part))?;
    std::fs::rename(part, to).map_err(|error| unwritable(error).into())
}

/// As the database is now, whatever is written meanwhile: without a transaction around it SQLite would begin anew at
/// every write of another connection, and never end on a server that works. Nobody waits for a reader.
fn copy(db: &Connection, part: &Path, mut between: impl FnMut()) -> rusqlite::Result<()> {
    let mut copy = Connection::open(part)?;
    let now = db.unchecked_transaction()?;
    // A transaction sees the database as it is at its first read.
    now.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(&now, &mut copy)?;
    loop {
        match backup.step(BACKUP_PAGES)? {
            StepResult::Done => break,
            StepResult::More => between(),
            _ => std::thread::sleep(BACKUP_PAUSE),
        }
    }
    drop(backup);
    copy.close().map_err(|(_, error)| error)
}

/// What must not be found, and how it is told.
const FACTS: &[(&str, &str)] = &[
    ("SELECT hex(run) FROM runs WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.run = runs.run)", "has no entries"),
    (
        "SELECT DISTINCT hex(run) FROM entries e WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.run = e.run)",
        "has no row",
    ),
    ("SELECT hex(run) FROM entries GROUP BY run HAVING min(seq) <> 1 OR max(seq) <> count(*)", "lacks entries"),
    ("SELECT hex(run) FROM blob_uses u WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.hash = u.hash)", "lacks a blob"),
];

pub(super) fn check(db: &Connection) -> Result<Vec<String>, Trouble> {
    let mut statement = db.prepare(&format!("PRAGMA quick_check({MAX_FINDINGS})"))?;
    let told = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut findings: Vec<String> = told.collect::<Result<_, _>>()?;
    findings.retain(|finding| finding != "ok");
    findings.extend(shape::lacks(db, schema::MIGRATIONS.len())?);
    if !findings.is_empty() {
        return Ok(findings);
    }
    for (sql, lack) in FACTS {
        let mut statement = db.prepare(&format!("{sql} LIMIT {MAX_FINDINGS}"))?;
        for run in statement.query_map([], |row| row.get::<_, String>(0))? {
            findings.push(format!("run {} {lack}", run?.to_lowercase()));
        }
    }
    Ok(findings)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Options, schema};
    use super::*;

    /// Copies so many of the pages that a file has at most, whatever is written between.
    #[test]
    fn a_backup_ends_although_others_write_all_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("relais.db");
        let writer = schema::open_writer(&path, &Options::default()).unwrap();
        let put = |hash: &str, bytes: i64| {
            writer.execute("INSERT INTO blobs (hash, body) VALUES (?1, zeroblob(?2))", (hash, bytes)).unwrap();
        };
        put("large", 24 * 1024 * 1024);
        let reader = schema::open_reader(&path, &Options::default()).unwrap();
        let mut rounds = 0;
        copy(&reader, &folder.path().join("copy.db"), || {
            rounds += 1;
            assert!(rounds < 20, "it began anew at every write");
            put(&format!("between {rounds}"), 10);
        })
        .unwrap();
        assert!(rounds > 4, "{rounds}");
        let copied = Connection::open(folder.path().join("copy.db")).unwrap();
        let count = |db: &Connection| db.query_row("SELECT count(*) FROM blobs", [], |row| row.get::<_, u32>(0));
        assert_eq!((count(&copied), count(&reader)), (Ok(1), Ok(1 + rounds)), "the copy is of its beginning");
        assert_eq!(check(&copied).unwrap(), Vec::<String>::new());
    }
}
