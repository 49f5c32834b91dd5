//! A disk that is full, a database that is locked, damaged or not to be written: a clear error, and no run is lost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;

use crate::home::{Home, Process, wait_until};

const SLOW: &str = "name: slow\nsteps:\n  - { id: one, set: { n: 1 } }\n  - { id: rest, wait: 2s }\n\
                    \x20 - { id: two, tool: write_file, with: { path: two.txt, content: two } }\noutput: \"{{ vars.n }}\"\n";
/// Fills the journal: a hundred kilobytes for each pass.
const LARGE: &str = "name: large\nsteps:\n  - id: fill\n    repeat:\n\
                     \x20     - { id: save, tool: write_file, with: { path: large.txt, content: \"{{ loop.index }} {{ input.text }}\" } }\n\
                     \x20     - { id: read, tool: read_file, with: { path: large.txt } }\n    max: 40\n    on_limit: complete\n\
                     output: \"{{ steps.fill.output.count }}\"\n";

/// A small disk of the test's own, where this user may mount one.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    pub fn mounted(at: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "small"]).arg(at).output().ok()?;
        mounted.status.success().then(|| SmallDisk(at.to_owned()))
    }

    fn remounted(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is being killed may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn fill(home: &Home) -> String {
    home.file("large.yaml", LARGE);
    // Just below what is stored beside the journal.
    let text = "x".repeat(50_000);
    home.file("text.json", &serde_json::json!({ "text": text }).to_string());
    "large.yaml".to_owned()
}

#[test]
fn a_full_disk_is_told_and_the_run_goes_on_when_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(&folder.path().join("disk"), "size=3m") else { return };
    let home = Home::new().at(&disk.0);
    let file = fill(&home);
    let outcome = home.relais(&["run", &file, "--input", "@text.json"]);
    assert!(outcome.code != Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("space"), "{outcome:?}");
    disk.remounted("size=60m");
    home.relais(&["resume", "--last"]).expect(0);
    assert_eq!(home.expect_status("completed")["output"]["value"], 40);
}

#[test]
fn a_file_that_may_not_grow_is_told_and_the_run_goes_on_later() {
    let home = Home::new();
    let file = fill(&home);
    let limited = "trap '' XFSZ; exec prlimit --fsize=1500000 \"$0\" \"$@\"";
    let words = ["-c", limited, env!("CARGO_BIN_EXE_relais"), "run", &file, "--input", "@text.json"];
    let outcome = Process::start(home.wrapped("sh", &words)).end();
    assert!(outcome.code.is_some_and(|code| code != 0), "{outcome:?}");
    assert!(outcome.stderr.contains("the database"), "{outcome:?}");
    home.relais(&["resume", "--last"]).expect(0);
    assert_eq!(home.expect_status("completed")["output"]["value"], 40);
}

#[test]
fn a_locked_database_is_waited_for() {
    let home = Home::new();
    home.file("slow.yaml", SLOW);
    home.relais(&["runs"]).expect(0);
    let process = home.start(&["run", "slow.yaml"]);
    wait_until("the run waits", || (home.count("asked", |_| true) >= 1).then_some(()));
    let lock = Connection::open(home.database()).unwrap();
    lock.busy_timeout(Duration::from_secs(5)).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let since = std::time::Instant::now();
    wait_until("the lock has been held for a while", || (since.elapsed() > Duration::from_secs(3)).then_some(()));
    lock.execute_batch("ROLLBACK").unwrap();
    process.end().expect(0);
    home.expect_status("completed");
}

#[test]
fn a_database_that_stays_locked_is_told() {
    let home = Home::new();
    home.file("slow.yaml", SLOW);
    home.relais(&["runs"]).expect(0);
    let lock = Connection::open(home.database()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    home.relais(&["run", "slow.yaml"]).expect(1).says(&["held by another process"]);
    lock.execute_batch("ROLLBACK").unwrap();
    home.relais(&["run", "slow.yaml"]).expect(0);
}

#[test]
fn a_folder_that_may_not_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(&folder.path().join("disk"), "size=8m") else { return };
    let home = Home::new().at(&disk.0);
    home.file("slow.yaml", SLOW);
    disk.remounted("ro");
    let outcome = home.relais(&["run", "slow.yaml"]).expect(1);
    assert!(outcome.stderr.contains("write"), "{outcome:?}");
    disk.remounted("rw");
    home.relais(&["run", "slow.yaml"]).expect(0);
    disk.remounted("ro");
    let outcome = home.relais(&["run", "slow.yaml"]).expect(1);
    assert!(outcome.stderr.contains("write"), "{outcome:?}");
}

#[test]
fn a_home_that_is_a_file_is_told() {
    let home = Home::new();
    let file = home.file("home", "not a folder");
    let home = Home::new().at(&file);
    home.file("slow.yaml", SLOW);
    home.relais(&["run", "slow.yaml"]).expect(1).says(&["home"]);
}

#[test]
fn a_damaged_database_is_told_and_left_alone() {
    for damage in [Damage::Nonsense, Damage::Holes, Damage::Cut] {
        let home = Home::new();
        home.file("slow.yaml", &SLOW.replace("2s", "1ms"));
        home.relais(&["run", "slow.yaml"]).expect(0);
        let before = damage.done(&home.database());
        for words in [&["run", "slow.yaml"][..], &["show", "--last"], &["resume", "--last"]] {
            let outcome = home.relais(words);
            assert!(outcome.code.is_some_and(|code| code != 0), "{damage:?} {outcome:?}");
            assert!(outcome.stderr.contains("damaged"), "{damage:?} {outcome:?}");
        }
        assert_eq!(std::fs::read(home.database()).unwrap().len(), before, "{damage:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Nonsense,
    Holes,
    Cut,
}

impl Damage {
    /// Damages the file; how long it is then.
    fn done(self, file: &Path) -> usize {
        let mut bytes = std::fs::read(file).unwrap();
        match self {
            Damage::Nonsense => bytes = b"this is no database at all, only text\n".repeat(200),
            Damage::Holes => bytes[100..].fill(0xA5),
            Damage::Cut => bytes.truncate(bytes.len() / 3),
        }
        std::fs::write(file, &bytes).unwrap();
        bytes.len()
    }
}

/// As a program left it whose tables had version 2: one run waits for a person, one for an event, one has ended.
fn home_of_version_2() -> (Home, Connection) {
    let home = Home::new();
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(include_str!("../../../../tests/databases/version-2.sql")).unwrap();
    (home, db)
}

#[test]
fn a_database_of_an_earlier_build_goes_on() {
    let (home, db) = home_of_version_2();
    drop(db);
    let listed = home.relais(&["runs"]).expect(0);
    assert!(["ask", "quick", "done"].iter().all(|name| listed.stdout.contains(name)), "{listed:?}");
    let run = "01a1e50f-f0cb-7180-afed-8ecbde6cb2df";
    home.relais(&["answer", run, "--step", "go", "yes"]).expect(0);
    let trace = home.relais(&["show", run, "--json"]).expect(0).json();
    assert_eq!((&trace["status"], &trace["output"]["value"]), (&"completed".into(), &"yes".into()), "{trace:#}");
    let doctor = home.relais(&["doctor"]).expect(0);
    assert!(doctor.stdout.contains("is sound"), "{doctor:?}");
}

#[test]
fn tables_that_are_not_what_their_version_says_are_named() {
    let (home, db) = home_of_version_2();
    db.execute_batch("ALTER TABLE runs DROP COLUMN reported").unwrap();
    let told = ["the table runs has no column reported", "restore a backup"];
    home.relais(&["runs"]).expect(1).says(&told);
    let doctor = home.relais(&["doctor"]).expect(1);
    assert!(told.iter().all(|part| doctor.stdout.contains(part)), "{doctor:?}");
}
