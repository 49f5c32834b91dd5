//! A home folder, files, and processes of `relais` in it.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use relais_testkit::ModelServer;
use serde_json::Value;
use tempfile::TempDir;

/// Far beyond what anything here takes, so that a slow machine fails no test.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Home {
    folder: TempDir,
    pub server: ModelServer,
}

pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Home {
    /// With a workflow `flow.yaml`; `openai/…` models are the test's own server.
    pub fn new(flow: &str) -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap(), server: ModelServer::start() };
        home.write("flow.yaml", flow);
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The user's own `relais.toml`, in the home folder.
    pub fn settings(&self, text: &str) {
        std::fs::create_dir_all(self.path("home")).unwrap();
        self.write("home/relais.toml", text);
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relais"));
        command.args(words).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("USER", "ada").env("TZ", "UTC");
        command.env("RELAIS_HOME", self.path("home"));
        command.env("OPENAI_API_KEY", "test").env("OPENAI_BASE_URL", self.server.openai_url());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn spawn(&self, words: &[&str]) -> Child {
        self.command(words).spawn().unwrap()
    }

    pub fn relais(&self, words: &[&str]) -> Ended {
        ended(self.spawn(words))
    }

    /// The rows of `relais runs --json`, newest first.
    pub fn runs(&self) -> Vec<Value> {
        json_lines(&self.relais(&["runs", "--json"]).out)
    }

    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < LIMIT, "never: {what}");
            std::thread::yield_now();
        }
    }

    pub fn wait_for_status(&self, status: &str) {
        self.wait_until(status, || self.runs().first().is_some_and(|run| run["status"] == status));
    }
}

pub fn ended(child: Child) -> Ended {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(!err.contains("panicked"), "{err}");
    Ended { code: status.code(), out, err }
}

pub fn kill(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Ended {
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Ended {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(&self, part: &str) -> &Ended {
        assert!(self.err.contains(part), "{part} in {}", self.err);
        self
    }
}

/// One step that asks the server's model.
pub const ONE_CALL: &str = "\
name: one
agents:
  speaker: { model: openai/gpt-4o-mini, instructions: Speak. }
steps:
  - { id: say, agent: speaker, prompt: \"Say {{ input.prompt | default('hi') }}\" }
";

/// A person's word between two steps.
pub const QUESTION: &str = "\
name: question
steps:
  - { id: before, set: { n: 1 } }
  - id: approve
    ask: { question: Shall I go on?, answer: boolean }
  - { id: after, set: { said: '{{ steps.approve.output }}' } }
output: '{{ vars.said }}'
";
