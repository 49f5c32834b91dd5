//! `relais mcp` and `/mcp` of `relais serve`, driven by an assistant that others' client library gives a voice.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Home, ONE_CALL, ended};

/// Both eras of the protocol.
const HANDSHAKE: &str = "legacy";
const STATELESS: &str = "auto";

fn home() -> Home {
    let home = Home::new(ONE_CALL);
    home.write("friendly.json", r#"[{"text": "That is what I think, too."}]"#);
    home.write("broken.json", r#"[{"error": {"kind": "provider", "message": "the model is out of order"}}]"#);
    home
}

fn python() -> PathBuf {
    let folder = std::env::var_os("RELAIS_TEST_PEERS");
    let folder = folder.expect("RELAIS_TEST_PEERS is not set; `cargo xtask test` installs the peers and sets it");
    PathBuf::from(folder).join("venv/bin/python")
}

/// The script in the home's folder and with its environment.
fn script(home: &Home, name: &str, mode: &str, target: &str) -> Command {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/assistants").join(name);
    let like = home.command(&[]);
    let mut command = Command::new(python());
    command.arg(file).args([mode, target]).current_dir(home.path("")).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Nothing is written beside the scripts.
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn over_pipes(name: &str, mode: &str) {
    let home = home();
    ended(script(&home, name, mode, env!("CARGO_BIN_EXE_relais")).spawn().unwrap()).expect(0);
}

struct Serving {
    child: Child,
    url: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(home: &Home) -> Serving {
    let mut child = home.spawn(&["serve", "--listen", "127.0.0.1:0", "--require-token"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("it says where it listens").unwrap();
        if let Some((_, address)) = line.split_once("http://") {
            break address.trim().to_owned();
        }
    };
    std::thread::spawn(move || while let Some(Ok(_)) = lines.next() {});
    Serving { child, url: format!("http://{address}/mcp") }
}

fn over_http(name: &str, mode: &str) {
    let home = home();
    let token = home.relais(&["token", "create"]);
    let server = serve(&home);
    let mut command = script(&home, name, mode, &server.url);
    ended(command.env("TOKEN", token.out.trim()).spawn().unwrap()).expect(0);
}

#[test]
fn stories_over_pipes() {
    over_pipes("stories.py", HANDSHAKE);
}

#[test]
fn stories_over_http() {
    over_http("stories.py", STATELESS);
}

/// An assistant that can only start a program, and a server.
#[test]
fn stories_through_a_program_to_a_server() {
    let home = home();
    let token = home.relais(&["token", "create"]);
    let server = serve(&home);
    let mut command = script(&home, "stories.py", HANDSHAKE, env!("CARGO_BIN_EXE_relais"));
    let address = server.url.trim_end_matches("/mcp");
    command.env("RELAIS_URL", address).env("RELAIS_TOKEN", token.out.trim()).env("RELAIS_HOME", home.path("other"));
    ended(command.spawn().unwrap()).expect(0);
    assert!(!home.path("other").exists(), "nothing is kept here");
}

#[test]
fn variants_over_pipes() {
    over_pipes("variants.py", STATELESS);
}

#[test]
fn variants_over_http() {
    over_http("variants.py", HANDSHAKE);
}
