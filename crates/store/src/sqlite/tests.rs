//! What only a file can suffer: crashes, damage, other processes, no space.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use relais_engine::RunStatus;
use tempfile::TempDir;

use super::*;
use crate::conformance::{Handles, batch, conformance, numbers, started, summary};

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("relais.db")
}

fn open(folder: &TempDir) -> Result<SqliteStore, Error> {
    SqliteStore::open(path(folder), Options::default())
}

#[track_caller]
fn assert_unusable<T>(outcome: Result<T, Error>, word: &str) {
    match outcome {
        Err(Error::Unusable(text) | Error::OutOfReach(text)) => assert!(text.contains(word), "{text}"),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("should be unusable: {word}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let count = AtomicU32::new(0);
    conformance(async || {
        let path = folder.path().join(format!("{}.db", count.fetch_add(1, Ordering::Relaxed)));
        let options = Options { unused_blob_ms: 0, ..Options::default() };
        let here = Arc::new(SqliteStore::open(&path, options.clone()).unwrap());
        Handles { here, there: Arc::new(SqliteStore::open(&path, options).unwrap()) }
    })
    .await;
}

const CHILD_FILE: &str = "RELAIS_STORE_TEST_CHILD_FILE";
const CHILD_RUNS: usize = 8;

/// The other half of `every_acknowledged_append_survives_a_kill`: appends and tells, until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_appends() {
    let Some(path) = std::env::var_os(CHILD_FILE) else { return };
    let store = Arc::new(SqliteStore::open(path, Options::default()).unwrap());
    let tasks: Vec<_> = (0..CHILD_RUNS).map(|_| tokio::spawn(append_and_tell(store.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn append_and_tell(store: Arc<SqliteStore>) {
    let run = started(&*store, RunStatus::Running).await;
    for seq in 2.. {
        store.append(batch(run, seq)).await.unwrap();
        writeln!(std::io::stdout(), "\nwritten {run} {seq}").unwrap();
    }
}

#[tokio::test]
async fn every_acknowledged_append_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::tests::child_that_appends", "--nocapture", "--test-threads=1"])
        .env(CHILD_FILE, path(&folder))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told: std::collections::BTreeMap<RunId, u64> = Default::default();
    let mut note = |line: String| {
        if let ["written", run, seq] = line.split(' ').collect::<Vec<_>>()[..] {
            // The kill may cut the last line short.
            if let (Ok(run), Ok(seq)) = (run.parse(), seq.parse::<u64>()) {
                let last = told.entry(run).or_default();
                *last = seq.max(*last);
            }
        }
    };
    lines.by_ref().take(1_000).for_each(|line| note(line.unwrap()));
    child.kill().unwrap();
    lines.for_each(|line| note(line.unwrap()));
    child.wait().unwrap();
    let store = open(&folder).unwrap();
    assert_eq!(told.len(), CHILD_RUNS);
    for (run, last) in told {
        let numbers = numbers(&store, run).await;
        assert!(numbers.len() as u64 >= last, "{last} was acknowledged, {} are there", numbers.len());
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
    assert_eq!(store.check().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_damaged_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(path(&folder), "this is no database, however long it may be: ".repeat(100)).unwrap();
    assert_unusable(open(&folder), "not a database");

    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let run = started(&store, RunStatus::Running).await;
    drop(store);
    let mut bytes = std::fs::read(path(&folder)).unwrap();
    let rest = bytes.len() - 4096;
    bytes[4096..].copy_from_slice(&vec![0xAB; rest]);
    std::fs::write(path(&folder), bytes).unwrap();
    assert_unusable(async { open(&folder)?.load(run, 0).await }.await, "damaged");
}

#[test]
fn a_file_that_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no").join("such").join("folder.db");
    assert_unusable(SqliteStore::open(missing, Options::default()), "folder exists");
    assert_unusable(SqliteStore::open(folder.path(), Options::default()), "cannot be opened");
}

/// Whoever runs as root may write anywhere but here.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_told() {
    assert_unusable(SqliteStore::open("/proc/relais.db", Options::default()), "may write there");
}

#[test]
fn a_newer_or_strange_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder).unwrap());
    let db = rusqlite::Connection::open(path(&folder)).unwrap();
    db.execute_batch("PRAGMA user_version = 99").unwrap();
    assert_unusable(open(&folder), "newer version");

    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(path(&folder)).unwrap();
    db.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    assert_unusable(open(&folder), "another program");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goes_on_when_there_is_space_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: Some(600_000), unused_blob_ms: 0, ..Options::default() };
    let store = Arc::new(SqliteStore::open(path(&folder), options).unwrap());
    let old = crate::conformance::created(&*store, summary(crate::conformance::run(), RunStatus::Completed)).await;
    let hash = store.put_blob(vec![7; 300_000]).await.unwrap();
    store.append(Batch { blobs: vec![hash], ..batch(old, 2) }).await.unwrap();
    let run = started(&*store, RunStatus::Running).await;

    // A request that is too large for the disk fails, those beside it do not.
    let large = tokio::spawn({
        let store = store.clone();
        async move { store.put_blob(vec![8; 500_000]).await }
    });
    let beside: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { started(&*store, RunStatus::Running).await })
        })
        .collect();
    assert_unusable(large.await.unwrap(), "no space");
    for task in beside {
        assert_eq!(numbers(&*store, task.await.unwrap()).await, [1]);
    }
    let mut seq = 1;
    let full = loop {
        seq += 1;
        if let Err(error) = store.append(batch(run, seq)).await {
            break error;
        }
    };
    assert_unusable(Err::<(), _>(full), "no space");
    let prune = Prune { before: vec![(RunStatus::Completed, i64::MAX)], ..Prune::default() };
    assert_eq!(store.prune(prune).await, Ok(Pruned { runs: 1, blobs: 1 }));
    store.append(batch(run, seq)).await.unwrap();
    assert_eq!(numbers(&*store, run).await, (1..=seq).collect::<Vec<_>>());
    assert_eq!(store.check().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_held_database_is_busy_until_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&folder), Options { busy_timeout_ms: 20, ..Options::default() }).unwrap();
    let run = started(&store, RunStatus::Running).await;
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(store.append(batch(run, 2)).await, Err(Error::Busy(_))));
    assert_eq!(numbers(&store, run).await, [1], "readers do not wait for writers");
    other.execute_batch("ROLLBACK").unwrap();
    store.append(batch(run, 2)).await.unwrap();
}

/// Requests pile up behind a held database and share a transaction; each gets its own answer.
#[tokio::test]
async fn one_bad_request_does_not_spoil_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(path(&folder), Options { max_bytes: Some(500_000), ..Options::default() }).unwrap();
    let first = started(&store, RunStatus::Running).await;
    let second = started(&store, RunStatus::Running).await;
    let mut tail = store.tail();
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let done = Some(summary(second, RunStatus::Completed));
    let outcomes = tokio::join!(
        store.append(batch(first, 2)),
        store.append(batch(first, 2)),
        store.append(Batch { summary: done, ..batch(second, 9) }),
        store.put_blob(vec![1; 2_000_000]),
        store.append(batch(second, 2)),
        async { other.execute_batch("ROLLBACK") },
    );
    assert_eq!(outcomes.0, Ok(()));
    assert_eq!(outcomes.1, Err(Error::Conflict { run: first, seq: 2 }));
    assert_eq!(outcomes.2, Err(Error::Conflict { run: second, seq: 9 }));
    assert_unusable(outcomes.3, "no space");
    assert_eq!(outcomes.4, Ok(()));
    assert_eq!(numbers(&store, first).await, [1, 2]);
    assert_eq!(numbers(&store, second).await, [1, 2]);
    let told = [tail.recv().await.unwrap().run, tail.recv().await.unwrap().run];
    assert_eq!(told, [first, second], "what was taken back is not told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opened_by_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let path = path(&folder);
            std::thread::spawn(move || SqliteStore::open(path, Options::default()).map(drop))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_backup_is_whole_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let run = started(&store, RunStatus::Running).await;
    store.append(batch(run, 2)).await.unwrap();
    let copy = folder.path().join("copy.db");
    store.backup(&copy).await.unwrap();
    store.append(batch(run, 3)).await.unwrap();
    assert_unusable(store.backup(&copy).await, "name a new file");
    let copy = SqliteStore::open(&copy, Options::default()).unwrap();
    assert_eq!(numbers(&copy, run).await, [1, 2]);
    assert_eq!(copy.check().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_check_finds_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let run = started(&store, RunStatus::Running).await;
    store.append(batch(run, 2)).await.unwrap();
    store.append(Batch { blobs: vec!["gone".into()], ..batch(run, 3) }).await.unwrap();
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("DELETE FROM entries WHERE seq = 2").unwrap();
    let id = run.simple();
    assert_eq!(store.check().await.unwrap(), [format!("run {id} lacks entries"), format!("run {id} lacks a blob")]);
}

/// A file of version 1, as the program of that version made it, with one finished and one running run.
fn version_1(folder: &TempDir) -> [RunId; 2] {
    let db = rusqlite::Connection::open(path(folder)).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    db.execute_batch(include_str!("schema/1.sql")).unwrap();
    db.execute_batch("CREATE VIEW workflow_runs AS SELECT 1 AS old FROM runs; CREATE VIEW mine AS SELECT 7 AS seven;")
        .unwrap();
    let run = |status: &str, ended_at: Option<i64>, parent: Option<RunId>| {
        let run = crate::conformance::run();
        let entry = crate::conformance::entry(1);
        let events = serde_json::to_string(&entry.events).unwrap();
        let sql = "INSERT INTO entries (run, seq, at, version, events) VALUES (?1, 1, ?2, ?3, ?4)";
        db.execute(sql, rusqlite::params![run.as_bytes(), entry.at, entry.version, events]).unwrap();
        let sql = "INSERT INTO runs (run, workflow, plan, user, thread, parent, status, started_at, ended_at, awaits, \
             usage) VALUES (?1, 'report', 'p', 'ann', 'chat', ?4, ?2, 1000, ?3, '[]', '{}')";
        let parent = parent.map(|parent| parent.as_bytes().to_vec());
        db.execute(sql, rusqlite::params![run.as_bytes(), status, ended_at, parent]).unwrap();
        run
    };
    let first = run("completed", Some(2_000), None);
    let runs = [first, run("running", None, Some(first))];
    db.execute_batch("PRAGMA user_version = 1; PRAGMA application_id = 0x524C4953").unwrap();
    runs
}

#[tokio::test]
async fn a_file_of_version_1_is_brought_forward() {
    let folder = tempfile::tempdir().unwrap();
    let [root, child] = version_1(&folder);
    let store = open(&folder).unwrap();
    let listed = async |filter| {
        let page = store.list(filter).await.unwrap();
        page.rows.into_iter().map(|row| (row.summary.run, row.summary.target)).collect::<Vec<_>>()
    };
    let all = || Filter { user: Some("ann".into()), thread: Some("chat".into()), ..Filter::default() };
    assert_eq!(listed(all()).await, [(child, Default::default()), (root, Default::default())]);
    assert_eq!(listed(Filter { roots_only: true, ..all() }).await, [(root, Default::default())]);
    assert!(store.ended(0).await.unwrap().is_empty(), "what ended before counts as noted");
    let done = Some(summary(child, RunStatus::Completed));
    store.append(Batch { summary: done, ..batch(child, 2) }).await.unwrap();
    let ended = store.ended(0).await.unwrap();
    assert_eq!(ended.iter().map(|row| (row.summary.run, row.seq)).collect::<Vec<_>>(), [(child, 2)]);
    assert_eq!(store.check().await, Ok(Vec::new()));
    drop(store);
    drop(open(&folder).unwrap());
    assert_eq!(schema_of(&folder), schema_of_a_new_file(), "the same tables as in a new file");
}

#[tokio::test]
async fn runs_that_waited_for_events_in_version_1_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let [_, waiting] = version_1(&folder);
    let db = rusqlite::Connection::open(path(&folder)).unwrap();
    let awaits = r#"["event:order.paid", "time", "signal:event:go", "event:order.paid"]"#;
    db.execute("UPDATE runs SET status = 'waiting', awaits = ?1 WHERE status = 'running'", [awaits]).unwrap();
    drop(db);
    let store = open(&folder).unwrap();
    for (event, expected) in [("order.paid", vec![waiting]), ("go", vec![])] {
        let awaited = crate::Awaited { user: "ann".into(), event: event.into(), ..Default::default() };
        assert_eq!(store.awaiting(awaited).await, Ok(expected), "{event}");
    }
}

/// A file as a program of its version made it, from its statements.
fn made_of(sql: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(path(&folder)).unwrap().execute_batch(sql).unwrap();
    folder
}

const VERSION_2: &str = include_str!("../../../../tests/databases/version-2.sql");

#[tokio::test]
async fn a_file_of_version_2_is_brought_forward_and_goes_on() {
    let folder = made_of(VERSION_2);
    let store = open(&folder).unwrap();
    let page = store.list(Filter::default()).await.unwrap();
    let rows: Vec<_> =
        page.rows.iter().map(|row| (row.summary.workflow.as_str(), row.summary.status, row.seq)).collect();
    let expected =
        [("done", RunStatus::Completed, 2), ("quick", RunStatus::Waiting, 2), ("ask", RunStatus::Waiting, 2)];
    assert_eq!(rows, expected);
    let run = page.rows[2].summary.run;
    let old = store.load(run, 1).await.unwrap().remove(0);
    let again = Batch { entry: Arc::new(old), ..batch(run, 2) };
    assert_eq!(store.append(again).await, Err(Error::Conflict { run, seq: 2 }), "nobody is known to have written it");
    let next = batch(run, 3);
    store.append(next.clone()).await.unwrap();
    store.append(next).await.unwrap();
    assert_eq!(numbers(&store, run).await, [1, 2, 3]);
    assert_eq!(store.check().await, Ok(Vec::new()));
    drop(store);
    assert_eq!(schema_of(&folder), schema_of_a_new_file(), "the same tables as in a new file");
}

/// What builds have left behind that called other tables by the same number.
#[tokio::test]
async fn tables_that_are_not_what_their_number_says_are_refused_by_name() {
    let table = [
        ("DROP TABLE awaited_events", "there is no table awaited_events"),
        ("ALTER TABLE runs DROP COLUMN reported", "the table runs has no column reported"),
        (
            "ALTER TABLE runs DROP COLUMN root; ALTER TABLE runs ADD COLUMN root TEXT",
            "runs.root is `TEXT` instead of `INTEGER NOT NULL DEFAULT 1`",
        ),
    ];
    for (change, told) in table {
        // Indexes keep a column from being dropped.
        let free = "DROP INDEX runs_status; DROP INDEX runs_user; DROP INDEX runs_user_workflow; \
             DROP INDEX runs_user_thread;";
        let folder = made_of(&format!("{VERSION_2}; {free} {change}"));
        let before = schema_of(&folder);
        assert_unusable(open(&folder), told);
        assert_unusable(open(&folder), "version 2");
        assert_eq!(schema_of(&folder), before, "nothing was changed");
    }
}

#[tokio::test]
async fn a_file_whose_tables_were_changed_since_is_looked_at_again() {
    let folder = made_of(VERSION_2);
    let store = open(&folder).unwrap();
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("DROP INDEX runs_due; DROP INDEX runs_user; CREATE INDEX runs_user ON runs (user)").unwrap();
    let told = ["runs_due", "runs_user"].map(|name| format!("the index {name} is not as it should be"));
    assert_eq!(store.check().await.unwrap(), told);
    drop(store);
    // Nothing is in an index that is not in its table.
    drop(open(&folder).unwrap());
    assert_eq!(schema_of(&folder), schema_of_a_new_file());
    other.execute_batch("CREATE TABLE notes_of_a_person (text)").unwrap();
    drop(open(&folder).unwrap());
    other.execute_batch("DROP TABLE notes_of_a_person; ALTER TABLE entries RENAME COLUMN writer TO author").unwrap();
    assert_unusable(open(&folder), "the table entries has no column writer");
}

/// Every table and index as SQLite tells it, without what a person added.
fn schema_of(folder: &TempDir) -> Vec<(String, String)> {
    let db = rusqlite::Connection::open(path(folder)).unwrap();
    let sql = "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name <> 'mine' ORDER BY name";
    let mut statement = db.prepare(sql).unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

fn schema_of_a_new_file() -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder).unwrap());
    schema_of(&folder)
}

#[test]
fn changed_views_reach_old_files() {
    let folder = tempfile::tempdir().unwrap();
    version_1(&folder);
    drop(open(&folder).unwrap());
    let db = rusqlite::Connection::open(path(&folder)).unwrap();
    let has = |sql: &str| db.prepare(sql).is_ok();
    assert!(has("SELECT run_id, status FROM workflow_runs"), "the view of version 1 was replaced");
    assert!(has("SELECT seven FROM mine"), "a person's own view stays");
    // As if a former program had made other views: one in another form, one that is no longer there.
    db.execute_batch(
        "DROP VIEW triggers; CREATE VIEW triggers AS SELECT 1 AS old; CREATE VIEW gone AS SELECT 1 AS old; \
         UPDATE meta SET value = value || ' gone' WHERE key = 'views'",
    )
    .unwrap();
    drop(open(&folder).unwrap());
    assert!(has("SELECT old FROM gone"), "with the same mark nothing is made anew");
    db.execute_batch("UPDATE meta SET value = 'another' WHERE key = 'views_hash'").unwrap();
    drop(open(&folder).unwrap());
    assert!(has("SELECT uuid FROM triggers") && !has("SELECT old FROM gone") && has("SELECT seven FROM mine"));
}

/// Every write and opening the file itself, each within its time.
#[tokio::test]
async fn a_held_database_is_busy_for_edits_too() {
    assert!(Options::default().busy_timeout_ms <= 5_000);
    let folder = tempfile::tempdir().unwrap();
    let options = Options { busy_timeout_ms: 20, ..Options::default() };
    let store = SqliteStore::open(path(&folder), options.clone()).unwrap();
    let run = started(&store, RunStatus::Completed).await;
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let edits = vec![Edit::Reported { run, seq: 1 }];
    let outcome = tokio::time::timeout(Duration::from_secs(5), store.change(edits.clone(), 1)).await;
    assert!(matches!(outcome, Ok(Err(Error::Busy(_)))), "{outcome:?}");
    assert_eq!(store.ended(0).await.unwrap().len(), 1, "readers do not wait for writers");
    other.execute_batch("UPDATE meta SET value = 'another' WHERE key = 'views_hash'; COMMIT; BEGIN IMMEDIATE").unwrap();
    let opened = SqliteStore::open(path(&folder), options);
    assert!(matches!(opened, Err(Error::Busy(_))), "the views cannot be made while it is held");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.change(edits, 1).await, Ok(vec![0]));
}

#[test]
fn a_new_file_that_another_holds_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(path(&folder)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE half_way (x)").unwrap();
    let start = std::time::Instant::now();
    let opened = SqliteStore::open(path(&folder), Options { busy_timeout_ms: 50, ..Options::default() });
    assert!(matches!(opened, Err(Error::Busy(_))));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn others_see_that_records_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (open(&folder).unwrap(), open(&folder).unwrap());
    let mut tail = there.tail();
    let key = RecordKey { kind: "agent".into(), owner: "ann".into(), id: "a".into() };
    let put = |body: u32| Edit::Put {
        key: key.clone(),
        label: String::new(),
        due_at: None,
        body: body.into(),
        expect: crate::Expect::Any,
    };
    here.change(vec![put(1)], 1).await.unwrap();
    let seen = tokio::time::timeout(Duration::from_secs(20), tail.recv()).await;
    assert_eq!(seen.expect("within moments"), Ok(Change::FOREIGN));
}

/// What a store says while its file is elsewhere, and that it goes on when all is as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_moved_away_is_neither_read_nor_written_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let run = started(&store, RunStatus::Running).await;
    for name in ["relais.db", "relais.db-wal"] {
        let (here, away) = (folder.path().join(name), folder.path().join("away"));
        std::fs::rename(&here, &away).unwrap();
        let (next, known) = (store.list(Filter::default()).await, "no longer there");
        assert_unusable(next.map(drop), known);
        assert_unusable(store.probe().await, known);
        // Another file in its place is not taken for it.
        std::fs::copy(&away, &here).unwrap();
        assert_unusable(store.load(run, 0).await, "was replaced");
        let length = std::fs::metadata(&here).unwrap().len();
        assert_unusable(store.append(batch(run, 2)).await, "was replaced");
        assert_eq!(std::fs::metadata(&here).unwrap().len(), length);
        std::fs::rename(&away, &here).unwrap();
        store.probe().await.unwrap();
        assert_eq!(numbers(&store, run).await, [1], "{name}");
    }
    store.append(batch(run, 2)).await.unwrap();
    drop(store);
    assert_eq!(numbers(&open(&folder).unwrap(), run).await, [1, 2]);
}
