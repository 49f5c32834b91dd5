//! A home folder of a test's own, the program run in it, and a look into its journal.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

/// Longer than anything here takes on a slow machine; only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Looks at a condition until it gives something; a test that waits longer than its patience has failed.
pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

pub struct Home {
    folder: tempfile::TempDir,
    data: PathBuf,
    environment: Vec<(String, String)>,
}

impl Home {
    pub fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        Home { folder, data, environment: Vec::new() }
    }

    /// With an OpenAI-compatible server behind every `openai/` model.
    pub fn with_model(server: &relais_testkit::ModelServer) -> Home {
        Home::new().set("OPENAI_BASE_URL", &server.openai_url()).set("OPENAI_API_KEY", "sk-test-key")
    }

    pub fn set(mut self, name: &str, value: &str) -> Home {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where the program keeps its data: `RELAIS_HOME`.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Keeps the data elsewhere.
    pub fn at(mut self, data: &Path) -> Home {
        self.data = data.to_owned();
        self
    }

    pub fn database(&self) -> PathBuf {
        self.data.join("relais.db")
    }

    /// A file in the project's folder, which is the folder that the program runs in.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The user's own `relais.toml`, in the home folder.
    pub fn settings(&self, text: &str) {
        std::fs::write(self.data.join("relais.toml"), text).unwrap();
    }

    /// The program as a person would call it: nothing of the test's own environment.
    pub fn command(&self, words: &[&str]) -> Command {
        self.wrapped(env!("CARGO_BIN_EXE_relais"), words)
    }

    /// Another program that calls it.
    pub fn wrapped(&self, program: impl AsRef<OsStr>, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("RELAIS_HOME", &self.data);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn start(&self, words: &[&str]) -> Process {
        Process::start(self.command(words))
    }

    pub fn relais(&self, words: &[&str]) -> Outcome {
        self.start(words).end()
    }

    /// The trace of the newest run.
    pub fn show(&self) -> Value {
        self.relais(&["show", "--last", "--json"]).expect(0).json()
    }

    /// The newest run has ended so; its trace.
    pub fn expect_status(&self, status: &str) -> Value {
        let trace = self.show();
        assert_eq!(trace["status"], status, "{trace:#}");
        trace
    }

    /// The newest run has failed with an error of this kind, whose text has these parts.
    pub fn expect_failure(&self, kind: &str, parts: &[&str]) -> Value {
        let trace = self.expect_status("failed");
        assert_eq!(trace["error"]["kind"], kind, "{}", trace["error"]);
        let message = trace["error"]["message"].as_str().unwrap_or_default();
        for part in parts {
            assert!(message.contains(part), "{part:?} in {message:?}");
        }
        trace
    }

    /// All events of all runs, in the order of each run's journal.
    pub fn events(&self) -> Vec<Value> {
        let Some(db) = self.look() else { return Vec::new() };
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = db.prepare("SELECT events FROM entries ORDER BY run, seq")?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        let entries = read().unwrap_or_default();
        entries.iter().flat_map(|text| serde_json::from_str::<Vec<Value>>(text).unwrap()).collect()
    }

    /// How many entries all journals have together; none while there is no database to look at.
    pub fn entries(&self) -> u32 {
        let count = |db: Connection| db.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).ok();
        self.look().and_then(count).unwrap_or(0)
    }

    /// How many events of a kind have come true for a test.
    pub fn count(&self, kind: &str, fits: impl Fn(&Value) -> bool) -> usize {
        self.events().iter().filter(|event| event.get(kind).is_some_and(&fits)).count()
    }

    fn look(&self) -> Option<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.database(), flags).ok()
    }
}

/// A running program; killed when the test lets go of it.
pub struct Process {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Process {
    pub fn start(mut command: Command) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = reading(child.stdout.take().unwrap());
        let stderr = reading(child.stderr.take().unwrap());
        Process { child, stdout, stderr }
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name, as `kill` takes it.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// What came of it; a program that does not end in time has failed its test.
    pub fn end(mut self) -> Outcome {
        // Its outputs end with it.
        let text = |from: &Receiver<String>| from.recv_timeout(PATIENCE).expect("the program ends in time");
        let (stdout, stderr) = (text(&self.stdout), text(&self.stderr));
        let code = self.child.wait().unwrap().code();
        let outcome = Outcome { code, stdout, stderr };
        assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
        outcome
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reading(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before a fault is all there is to see.
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[derive(Debug)]
pub struct Outcome {
    /// None after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The words that must stand in what was asked for.
    pub fn prints(self, parts: &[&str]) -> Outcome {
        for part in parts {
            assert!(self.stdout.contains(part), "{part:?} in {self:#?}");
        }
        self
    }

    /// The words that must have been said to the person.
    pub fn says(self, parts: &[&str]) -> Outcome {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} in {self:#?}");
        }
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}
