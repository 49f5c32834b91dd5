//! What is done with the file as a whole: copy it, check it, try whether it can be written.

use std::path::Path;
use std::time::Duration;

use relais_engine::Millis;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::trouble::Trouble;
use super::writer::Written;
use crate::Error;

/// Pages copied before others get a turn at the file, and the pause that gives it to them.
const BACKUP_PAGES: i32 = 1_024;
const BACKUP_PAUSE: Duration = Duration::from_millis(1);
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
    copy(db, part).map_err(|error| Trouble::from(error).tell(part))?;
    std::fs::rename(part, to).map_err(|error| unwritable(error).into())
}

fn copy(db: &Connection, part: &Path) -> rusqlite::Result<()> {
    let mut copy = Connection::open(part)?;
    Backup::new(db, &mut copy)?.run_to_completion(BACKUP_PAGES, BACKUP_PAUSE, None)?;
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
