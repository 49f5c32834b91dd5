//! The MCP server of a test: `shop.py`, its log, and the mood that says how it treats calls.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::home::{Home, wait_until};

pub struct Shop {
    log: PathBuf,
    mood: PathBuf,
}

impl Shop {
    pub fn new(home: &Home) -> Shop {
        let shop = Shop { log: home.file("shop.log", ""), mood: home.file("shop.mood", "answer") };
        shop.feel("answer");
        shop
    }

    /// `answer`, `slow`, `refuse`, `die`, `hang`, `garbage`; `grown`: its tools take something else.
    pub fn feel(&self, mood: &str) {
        std::fs::write(&self.mood, mood).unwrap();
    }

    /// The server as a workflow file or `relais.toml` declares it.
    pub fn command(&self) -> String {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/shop.py");
        format!("[python3, {:?}, {:?}, {:?}]", program.display(), self.log.display(), self.mood.display())
            .replace("\"\\\"", "\"")
    }

    fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The calls of one tool, in the order they came.
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["tool"] == tool).collect()
    }

    pub fn wait_for_call(&self, tool: &str) {
        wait_until("the shop is called", || (!self.calls(tool).is_empty()).then_some(()));
    }

    /// Every process that this server ever was has ended.
    pub fn wait_until_gone(&self) {
        let pids: Vec<u64> = self.records().iter().filter_map(|record| record["pid"].as_u64()).collect();
        assert!(!pids.is_empty(), "the shop was never opened");
        wait_until("the shop's processes are gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    }
}

/// A server that hangs outlives a program that was killed.
impl Drop for Shop {
    fn drop(&mut self) {
        let log = self.log.display().to_string();
        for pid in self.records().iter().filter_map(|record| record["pid"].as_u64()) {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&command).contains(&log) {
                let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
            }
        }
    }
}

fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("Z");
    state != "Z" && state != "X"
}
