//! A server whose database is gone for a while, or whose disk is full: it says so, its runs wait, and everything goes on
//! when that is over, without a restart and without anything done twice.

use std::path::Path;
use std::time::{Duration, Instant};

use relais_testkit::{Behaviour, Gate, ModelServer};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::home::{Home, PATIENCE, wait_until};
use crate::serving::{SERVE, Server};
use crate::storage::SmallDisk;

const TALKS: &str = "name: talks\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\nsteps:\n\
                     - { id: one, agent: a, prompt: one }\n- { id: two, agent: a, prompt: two }\n";
const LISTENS: &str = "name: listens\nsteps: [{ id: go, wait: { signal: go } }]\n";
/// Until the answer has come and was tried to be kept several times.
const TROUBLE: Duration = Duration::from_secs(4);

/// A server with a run that waits for a signal, and one whose model is thinking.
struct World {
    models: ModelServer,
    /// The model's answer comes in the middle of the trouble.
    answer: Gate,
    home: Home,
    server: Server,
    listening: String,
    talking: String,
}

impl World {
    fn new(at: Option<&Path>, serve: impl FnOnce(&Home) -> Server) -> World {
        let models = ModelServer::start();
        let answer = Gate::default();
        models.push(Behaviour::say("one").behind(&answer));
        models.always(Behaviour::say("two"));
        let home = Home::with_model(&models);
        let home = if let Some(data) = at { home.at(data) } else { home };
        let server = serve(&home);
        for definition in [TALKS, LISTENS] {
            let body = json!({ "definition": definition }).to_string();
            assert_eq!(server.ask("POST", "/api/v1/workflows", body.as_bytes()).0, 201);
        }
        let (listening, talking) = (started(&server, "listens"), started(&server, "talks"));
        assert_eq!(rested(&server, &listening)["status"], "waiting");
        assert!(models.wait_for(1, PATIENCE));
        World { models, answer, home, server, listening, talking }
    }

    /// What everybody is told while it lasts; `word` is in what whoever asks for work is told.
    fn check_trouble(&self, word: &str) {
        let since = Instant::now();
        wait_until("it is not ready", || (self.server.ask("GET", "/readyz", b"").0 == 503).then_some(()));
        self.answer.open();
        while since.elapsed() < TROUBLE {
            let answer = self.server.asked("POST", "/api/v1/workflows/listens/run", b"{}");
            let head = answer.to_lowercase();
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(word), "{answer}");
            assert!(head.contains("retry-after: ") && head.contains("application/problem+json"), "{answer}");
            assert_eq!(self.server.ask("GET", "/healthz", b"").0, 200);
        }
        assert_eq!(self.server.ask("GET", "/readyz", b"").0, 503);
        assert_eq!(self.models.received().len(), 1, "nothing is asked of which the answer could not be kept");
    }

    /// Everything goes on, and no call is made twice.
    fn check_going_on(self) {
        wait_until("it is ready again", || (self.server.ask("GET", "/readyz", b"").0 == 200).then_some(()));
        assert_eq!(rested(&self.server, &self.talking)["status"], "completed");
        let signal = format!("/api/v1/runs/{}/signal", self.listening);
        assert_eq!(self.server.ask("POST", &signal, b"{\"name\": \"go\"}").0, 202);
        assert_eq!(rested(&self.server, &self.listening)["status"], "completed");
        assert_eq!(self.models.received().len(), 2, "each step was asked once");
        let runs = self.server.get("/api/v1/runs")["items"].as_array().map(Vec::len);
        assert_eq!(runs, Some(2), "what was refused was not kept");
        self.server.stop();
        let db = Connection::open(self.home.database()).unwrap();
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}

fn started(server: &Server, workflow: &str) -> String {
    let (status, body) = server.ask("POST", &format!("/api/v1/workflows/{workflow}/run"), b"{}");
    assert_eq!(status, 202, "{body}");
    let row: Value = serde_json::from_str(&body).unwrap();
    row["id"].as_str().unwrap().to_owned()
}

/// The run when it has ended or waits for somebody.
fn rested(server: &Server, run: &str) -> Value {
    wait_until("the run rests", || {
        let details = server.get(&format!("/api/v1/runs/{run}?wait=10s"));
        (details["rests"] == true).then_some(details)
    })
}

#[test]
fn a_database_that_is_moved_away_is_waited_for() {
    let world = World::new(None, Server::start);
    let (here, away) = (world.home.database(), world.home.data().join("away.db"));
    std::fs::rename(&here, &away).unwrap();
    world.check_trouble("no longer there");
    assert!(!here.exists(), "no other database was made in its place");
    let (status, body) = world.server.ask("GET", "/api/v1/runs", b"");
    assert_eq!(status, 503, "{body}");
    std::fs::rename(&away, &here).unwrap();
    world.check_going_on();
}

#[test]
fn a_database_that_was_replaced_is_refused_until_the_former_one_is_back() {
    let world = World::new(None, Server::start);
    let (here, away) = (world.home.database(), world.home.data().join("away.db"));
    std::fs::rename(&here, &away).unwrap();
    std::fs::copy(&away, &here).unwrap();
    let before = std::fs::read(&here).unwrap();
    world.check_trouble("was replaced");
    assert_eq!(std::fs::read(&here).unwrap(), before, "the other file is left alone");
    std::fs::rename(&away, &here).unwrap();
    world.check_going_on();
}

#[test]
fn a_folder_that_is_moved_away_is_waited_for() {
    let world = World::new(None, Server::start);
    let (here, away) = (world.home.data().to_owned(), world.home.data().with_extension("away"));
    std::fs::rename(&here, &away).unwrap();
    world.check_trouble("no longer there");
    std::fs::rename(&away, &here).unwrap();
    world.check_going_on();
}

#[test]
fn a_disk_that_is_full_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(&folder.path().join("disk"), "size=8m") else { return };
    let world = World::new(Some(&disk.0), Server::start);
    let filler = disk.0.join("filler");
    // More than there is room for.
    assert!(std::fs::write(&filler, vec![0; 16 * 1024 * 1024]).is_err());
    world.check_trouble("no space");
    assert_eq!(world.server.ask("GET", "/api/v1/runs", b"").0, 200, "what is there can be read");
    std::fs::remove_file(&filler).unwrap();
    world.check_going_on();
}

#[test]
fn a_disk_that_takes_no_writes_is_waited_for() {
    let limited = |home: &Home| {
        let words = ["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_relais")];
        Server::started(home.wrapped("sh", &[&words[..], &SERVE].concat()))
    };
    let world = World::new(None, limited);
    let limit = |bytes: &str| {
        let set = std::process::Command::new("prlimit").args(["--pid", &world.server.pid(), bytes]).status();
        assert!(set.unwrap().success());
    };
    limit("--fsize=1:unlimited");
    world.check_trouble("cannot be read or written");
    limit("--fsize=unlimited:unlimited");
    world.check_going_on();
}

// What ends while the server shuts down is counted and told by it, not only by the next one.
#[test]
fn an_end_within_the_grace_time_is_taken_note_of() {
    let world = World::new(None, Server::start);
    world.server.stop_while(|server| {
        wait_until("it takes nothing new", || (server.ask("GET", "/readyz", b"").0 == 503).then_some(()));
        world.answer.open();
    });
    let db = Connection::open(world.home.database()).unwrap();
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM runs WHERE status = 'completed'"), 1, "it ended within the grace time");
    assert_eq!(count("SELECT count(*) FROM runs WHERE unreported"), 0);
}
