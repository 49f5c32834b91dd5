//! Against real servers and clients, and a server that misbehaves on purpose.
//!
//! Needs in the folder RELAIS_TEST_PEERS, put there by `cargo xtask test`: `node_modules/` with npm
//! `@modelcontextprotocol/server-everything`, `@modelcontextprotocol/server-filesystem` and two lines of
//! `@modelcontextprotocol/conformance`, and `venv/` with PyPI `mcp`. The misbehaving server needs `python3` alone.

#![allow(clippy::unwrap_used)]

mod conformance;
mod fake;
mod misbehaving;
mod peers;
mod serving;
mod serving_badly;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use relais_mcp::{Limits, Server, ServerConfig};
use serde_json::{Map, Value};

/// Longer than any of the servers takes, shorter than a person waits.
pub const PATIENT: Duration = Duration::from_secs(60);
pub const KEY: &str = "run/7";

pub fn fixture(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(name).to_str().unwrap().to_owned()
}

pub fn stdio(program: &str, args: &[&str], start: Duration) -> Server {
    let args = args.iter().map(|word| word.to_string()).collect();
    let config = ServerConfig { command: Some(program.into()), args, ..ServerConfig::default() };
    Server::new("shop", config, Limits { start })
}

pub fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The notice of a change and the answer to a call are worked on at once, so the list may lag a moment behind.
pub async fn lists_later(server: &Server, tool: &str) {
    let deadline = Instant::now() + PATIENT;
    while !server.list_tools().await.unwrap().iter().any(|listed| listed.name == tool) {
        assert!(Instant::now() < deadline, "{tool} is never listed");
        tokio::task::yield_now().await;
    }
}
