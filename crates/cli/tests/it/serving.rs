//! `relais serve` as a supervisor meets it: taken-up runs, health, signals to stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr};

use relais_testkit::{Behaviour, Gate};

use crate::support::{Ended, Home, LIMIT, ONE_CALL, QUESTION, kill};

/// A server of its own for a test.
pub struct Server {
    child: Child,
    pub address: String,
    said: BufReader<ChildStderr>,
    heard: String,
}

impl Server {
    pub fn start(home: &Home, words: &[&str]) -> Server {
        Server::start_at(home, "127.0.0.1:0", words)
    }

    pub fn start_at(home: &Home, address: &str, words: &[&str]) -> Server {
        let mut child = home.spawn(&[&["serve", "--listen", address], words].concat());
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut server = Server { child, address: String::new(), said, heard: String::new() };
        let line = server.hear("listening on http://");
        server.address = line.trim().rsplit('/').next().unwrap().to_owned();
        server
    }

    /// Reads on until a line says this.
    pub fn hear(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "{part} in {}", self.heard);
            self.heard.push_str(&line);
            if line.contains(part) {
                return line;
            }
        }
    }

    pub fn signal(&self, signal: &str) {
        kill(&self.child, signal);
    }

    /// How it ended; it has been told to.
    pub fn ended(mut self) -> Ended {
        self.said.read_to_string(&mut self.heard).unwrap();
        assert!(!self.heard.contains("panicked"), "{}", self.heard);
        let code = self.child.wait().unwrap().code();
        Ended { code, out: String::new(), err: self.heard }
    }

    /// Status and body of a plain request.
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
    }
}

/// A run that a process left in the middle of a model call.
fn orphan(home: &Home) {
    home.server.push(Behaviour::Silence);
    let child = home.spawn(&["run", "flow.yaml"]);
    assert!(home.server.wait_for(1, LIMIT));
    kill(&child, "-KILL");
    child.wait_with_output().unwrap();
}

// keeps E-40
#[test]
fn after_sigterm_what_is_going_may_end() {
    let home = Home::new(ONE_CALL);
    orphan(&home);
    let gate = Gate::default();
    home.server.push(Behaviour::say("late").behind(&gate));
    let mut server = Server::start(&home, &[]);
    assert!(home.server.wait_for(2, LIMIT), "the orphan was taken up");
    assert_eq!(server.get("/readyz").0, 200);
    server.signal("-TERM");
    server.hear("1 run may go on for 30m");
    let (status, body) = server.get("/readyz");
    assert_eq!((status, body.contains("draining")), (503, true), "{body}");
    assert_eq!(server.get("/healthz").0, 200);
    let url = format!("http://{}", server.address);
    home.relais(&["run", "flow.yaml", "--server", &url]).expect(1).says("shutting down");
    home.relais(&["runs", "--server", &url]).expect(0);
    gate.open();
    server.ended().expect(0);
    assert_eq!(home.runs()[0]["status"], "completed");
}

/// A server with a run that hangs, told to stop; then the run goes on at the next start.
fn is_let_go(flow: &str, words: &[&str]) {
    let home = Home::new(flow);
    orphan(&home);
    home.server.push(Behaviour::Silence);
    let server = Server::start(&home, words);
    assert!(home.server.wait_for(2, LIMIT));
    server.signal("-TERM");
    server.ended().expect(0).says("let go of 1 run");
    let row = &home.runs()[0];
    assert_eq!(row["status"], "interrupted");
    let next = Server::start(&home, &[]);
    home.wait_for_status("completed");
    assert_eq!(home.server.received().len(), 3);
    next.signal("-TERM");
    next.ended().expect(0);
}

// keeps E-40
#[test]
fn what_takes_longer_than_the_grace_time_goes_on_at_the_next_start() {
    is_let_go(ONE_CALL, &["--grace", "1ms"]);
}

// keeps E-40
#[test]
fn a_workflow_has_a_grace_time_of_its_own() {
    is_let_go(&format!("shutdown_timeout: 1ms\n{ONE_CALL}"), &[]);
}

#[test]
fn a_second_signal_stops_at_once() {
    let home = Home::new(ONE_CALL);
    orphan(&home);
    home.server.push(Behaviour::Silence);
    let mut server = Server::start(&home, &[]);
    assert!(home.server.wait_for(2, LIMIT));
    server.signal("-TERM");
    server.hear("a second signal stops at once");
    server.signal("-TERM");
    server.ended().expect(0).says("let go of 1 run");
}

#[test]
fn runs_that_wait_do_not_hold_a_server_up() {
    let home = Home::new(QUESTION);
    home.relais(&["run", "flow.yaml", "--detach"]).expect(0);
    home.wait_for_status("waiting");
    let server = Server::start(&home, &[]);
    server.signal("-TERM");
    let ended = server.ended();
    assert!(!ended.expect(0).err.contains("let go"), "{}", ended.err);
    assert_eq!(home.runs()[0]["status"], "waiting");
}

/// What other processes leave behind while the server is up is found, and so is what comes due.
#[test]
fn a_server_takes_up_what_is_left_behind_and_what_is_due() {
    let home = Home::new(ONE_CALL);
    let server = Server::start(&home, &[]);
    orphan(&home);
    home.wait_for_status("completed");
    home.write("flow.yaml", "name: nap\nsteps:\n  - { id: nap, wait: 4s }\n  - { id: then, set: { n: 1 } }\n");
    let child = home.spawn(&["run", "flow.yaml"]);
    home.wait_for_status("waiting");
    kill(&child, "-KILL");
    child.wait_with_output().unwrap();
    home.wait_for_status("completed");
    server.signal("-INT");
    server.ended().expect(0);
}

#[test]
fn another_database_is_a_file_or_refused() {
    let home = Home::new(ONE_CALL);
    home.relais(&["serve", "--database", "postgres://me:secret@db/relais"]).expect(2).says("SQLite only");
    let server = Server::start(&home, &["--database", "sqlite:other.db", "--keep", "30d"]);
    server.signal("-TERM");
    server.ended().expect(0);
    assert!(home.path("other.db").exists());
    home.relais(&["serve", "--keep", "soon"]).expect(2).says("12h or 30d");
}

#[test]
fn a_server_starts_with_a_collector_as_its_first_client() {
    let home = Home::new(ONE_CALL);
    home.settings("[telemetry]\notlp_endpoint = \"http://127.0.0.1:9\"\n");
    let server = Server::start(&home, &[]);
    server.signal("-TERM");
    server.ended().expect(0);
}

/// Nobody finds out by waiting for a message that never comes.
#[test]
fn a_server_does_not_start_with_channels_that_could_never_be_told() {
    let home = Home::new(ONE_CALL);
    for (text, told) in [
        ("[notify.ops]\nwebhook = \"ops.example.org\"\n", "relais.toml, line 2: [notify.ops] `webhook`: "),
        ("[notify.ops]\nwebhok = \"https://ops.example.org\"\n", "webhok"),
        (
            "[notify.ops]\nemail = [\"a@example.org\"]\n",
            "relais.toml, line 2: [notify.ops] `email` needs a mail server",
        ),
        ("[notify.ops]\nwebhook = \"${NOT_SET_HERE}\"\n", "`NOT_SET_HERE` is not defined; set the variable"),
    ] {
        home.settings(text);
        home.relais(&["serve", "--listen", "127.0.0.1:0"]).expect(2).says(told);
        let doctor = home.relais(&["doctor"]);
        assert!(doctor.expect(1).out.contains(told), "{}", doctor.out);
    }
}

#[test]
fn old_runs_are_removed_as_told() {
    let home = Home::new(ONE_CALL);
    home.settings("[retention]\nkeep = \"1ms\"\nfailed = \"1d\"\n");
    home.relais(&["run", "flow.yaml"]).expect(0);
    home.server.push(Behaviour::status(400));
    home.relais(&["run", "flow.yaml"]).expect(1);
    let server = Server::start(&home, &[]);
    home.wait_until("only the failed run is left", || home.runs().len() == 1);
    assert_eq!(home.runs()[0]["status"], "failed");
    server.signal("-TERM");
    server.ended().expect(0);
}
