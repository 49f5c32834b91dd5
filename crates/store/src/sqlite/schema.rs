//! The tables and views, their version, and the settings of a connection.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::trouble::Trouble;
use super::{Durability, Options, shape};
use crate::Error;

/// Forward only, one step per change; the position is the version it starts from. A step that has been in anybody's
/// hands is never edited: `a_step_stays_as_it_is` holds on to that.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];
/// Made anew whenever they or the tables have changed, so that they have no versions.
const VIEWS: &str = include_str!("schema/views.sql");
const CREATE_VIEW: &str = "CREATE VIEW ";

/// Marks the file as ours: "RLIS".
const APPLICATION_ID: i32 = 0x524C_4953;
/// Statements kept prepared per connection: more than this store has.
const CACHED_STATEMENTS: usize = 128;
/// Pages in the write-ahead log before they go to the database: 16 MiB, so that hot pages are copied once for many
/// commits, and reading the log after a crash still takes milliseconds.
const CHECKPOINT_PAGES: i32 = 4_096;
/// The log is cut back to this after a burst.
const LOG_BYTES: i64 = 64 * 1024 * 1024;
/// Memory for pages of the writer, in KiB; readers keep SQLite's default.
const CACHE_KIB: i32 = 2 * 1024;
/// Pause between tries to switch a new database to its log mode while another process does the same.
const MODE_PAUSE: Duration = Duration::from_millis(20);

pub(super) fn open_writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = || -> Result<Connection, Trouble> {
        let db = connect(path, flags, options)?;
        log_mode(&db, Duration::from_millis(options.busy_timeout_ms))?;
        let synchronous = match options.durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
        };
        db.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{CACHE_KIB}; \
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA journal_size_limit = {LOG_BYTES};"
        ))?;
        migrate(&db, path)?;
        if let Some(bytes) = options.max_bytes {
            limit_size(&db, bytes)?;
        }
        Ok(db)
    };
    opened().map_err(|trouble| trouble.tell(path))
}

pub(super) fn open_reader(path: &Path, options: &Options) -> Result<Connection, Trouble> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(connect(path, flags, options)?)
}

fn connect(path: &Path, flags: OpenFlags, options: &Options) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(Duration::from_millis(options.busy_timeout_ms))?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Otherwise a statement that a partial index might serve is compiled anew for every value bound to it.
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// SQLite does not wait by itself where two processes make the same new file, and in other cases it does: so this is
/// bounded by the time, not by a number of tries.
fn log_mode(db: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let start = Instant::now();
    loop {
        let outcome = db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match outcome {
            Err(error) if is_busy(&error) && start.elapsed() < patience => std::thread::sleep(MODE_PAUSE),
            outcome => return outcome,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// Brings the tables and views to this program's version, in one transaction.
pub(super) fn migrate(db: &Connection, path: &Path) -> Result<(), Trouble> {
    let views = blake3::hash(VIEWS.as_bytes()).to_hex();
    if version(db, path)? == MIGRATIONS.len()
        && noted(db, "views_hash")?.as_deref() == Some(views.as_str())
        && noted(db, "schema_hash")? == Some(schema_mark(db)?)
    {
        return Ok(());
    }
    db.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = steps(db, path).and_then(|()| {
        make_views(db, &views)?;
        Ok(note(db, "schema_hash", &schema_mark(db)?)?)
    });
    db.execute_batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    outcome
}

fn steps(db: &Connection, path: &Path) -> Result<(), Trouble> {
    // Another process may have been faster.
    let from = version(db, path)?;
    if from > 0 {
        must_be(db, from, path)?;
    }
    for step in MIGRATIONS.iter().skip(from) {
        db.execute_batch(step)?;
    }
    let version = MIGRATIONS.len();
    Ok(db.execute_batch(&format!("PRAGMA user_version = {version}; PRAGMA application_id = {APPLICATION_ID};"))?)
}

/// The tables are those of the version that the file says it has; no step could be built on others.
fn must_be(db: &Connection, version: usize, path: &Path) -> Result<(), Trouble> {
    let lacks = shape::mend(db, version)?;
    if lacks.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the database {} says that its tables have version {version}, but they are others: {}; it was made by a build of \
         this program that was never released, or changed by hand: restore a backup, or move the file away to start afresh",
        path.display(),
        lacks.join(", ")
    );
    Err(Error::Unusable(text).into())
}

/// Which steps made the tables, and SQLite's own count of changes of them since: as long as both are as noted, the
/// tables are what this program expects and need not be looked at.
fn schema_mark(db: &Connection) -> rusqlite::Result<String> {
    let mut steps = blake3::Hasher::new();
    for step in MIGRATIONS {
        steps.update(step.as_bytes());
    }
    let changes: i64 = db.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    Ok(format!("{} {changes}", steps.finalize().to_hex()))
}

/// Replaces the views that this program has made; those that a person has added stay.
fn make_views(db: &Connection, hash: &str) -> rusqlite::Result<()> {
    let names: Vec<&str> = VIEWS.lines().filter_map(view_name).collect();
    let before = noted(db, "views")?.unwrap_or_default();
    for name in before.split_whitespace().chain(names.iter().copied()) {
        db.execute_batch(&format!("DROP VIEW IF EXISTS {name}"))?;
    }
    db.execute_batch(VIEWS)?;
    note(db, "views", &names.join(" "))?;
    note(db, "views_hash", hash)
}

fn view_name(line: &str) -> Option<&str> {
    line.strip_prefix(CREATE_VIEW)?.split_whitespace().next()
}

fn noted(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()
}

fn note(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    db.execute(sql, [key, value]).map(|_| ())
}

fn version(db: &Connection, path: &Path) -> Result<usize, Trouble> {
    let file = path.display();
    if !is_ours(db)? {
        let text = format!("the database {file} belongs to another program; name another file");
        return Err(Error::Unusable(text).into());
    }
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let known = MIGRATIONS.len();
    match usize::try_from(version) {
        Ok(version) if version <= known => Ok(version),
        _ => {
            let text = format!(
                "the database {file} was written by a newer version of this program (its tables have version \
                 {version}, this program knows {known}); use the newer program, or another file"
            );
            Err(Error::Unusable(text).into())
        }
    }
}

/// Marked as ours, or empty. One statement: between two, another process may make the tables, and then they would be a
/// stranger's.
fn is_ours(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT application_id = ?1 OR (application_id = 0 AND NOT EXISTS (SELECT 1 FROM sqlite_schema)) \
         FROM pragma_application_id";
    db.query_row(sql, [APPLICATION_ID], |row| row.get(0))
}

fn limit_size(db: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let page_bytes: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page_bytes.max(1);
    db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    // A step that somebody has run is history: a change is a step of its own. A new step adds its line here.
    #[test]
    fn a_step_stays_as_it_is() {
        let hashes: Vec<String> =
            MIGRATIONS.iter().map(|s| blake3::hash(s.as_bytes()).to_hex()[..16].to_owned()).collect();
        assert_eq!(hashes, ["34bd9cd1c067f4e9", "94523ed609ea45a5", "822c75705e68add4", "2b9e05d690794fca"]);
    }

    // Somebody looks all the time while somebody else makes the tables.
    #[test]
    fn a_file_is_ours_at_every_moment_of_its_making() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("relais.db");
            let looking = Connection::open(&path).unwrap();
            log_mode(&looking, Duration::from_secs(5)).unwrap();
            std::thread::scope(|scope| {
                let making = scope.spawn(|| open_writer(&path, &Options::default()).map(drop));
                while !making.is_finished() {
                    assert!(is_ours(&looking).unwrap());
                }
                assert_eq!(making.join().unwrap(), Ok(()));
            });
        }
    }
}
