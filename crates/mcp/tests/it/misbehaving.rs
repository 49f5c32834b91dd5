//! Whatever a server does, the answer comes in time and names it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use relais_mcp::{Error, Kind, Limits, Server, ServerConfig};
use serde_json::{Value, json};

use crate::{KEY, PATIENT, fields, fixture, stdio};

const BRIEF: Duration = Duration::from_millis(700);

fn server(mode: &str, start: Duration) -> Server {
    stdio("python3", &[&fixture("misbehaving.py"), mode], start)
}

async fn call(server: &Server, tool: &str, timeout: Duration) -> Result<Value, Error> {
    server.call(tool, fields(json!({"a": 1})), KEY, timeout).await
}

fn check(error: Error, kind: Kind, sent: bool, parts: &[&str]) {
    assert_eq!((error.kind, error.sent), (kind, sent), "{error}");
    for part in parts.iter().chain(&["MCP server `shop`"]) {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
}

#[tokio::test]
async fn a_bad_start_is_told_with_the_last_words() {
    let fails = async |mode: &str, kind: Kind, parts: &[&str]| {
        let started = Instant::now();
        check(server(mode, Duration::from_secs(3)).list_tools().await.unwrap_err(), kind, false, parts);
        assert!(started.elapsed() < Duration::from_secs(20), "{mode}");
    };
    fails("exit", Kind::Unreachable, &["cannot find my settings", "exit status: 1"]).await;
    fails("silent", Kind::Timeout, &["did not begin to talk within 3s"]).await;
    fails("noise", Kind::Timeout, &["did not begin to talk within 3s"]).await;
    let missing = stdio("/no/such/server", &[], PATIENT).list_tools().await.unwrap_err();
    check(missing, Kind::Config, false, &["`/no/such/server` cannot be started"]);
    let nothing = Server::new("shop", ServerConfig::default(), Limits::default());
    check(nothing.list_tools().await.unwrap_err(), Kind::Config, false, &["either a `command` or a `url`"]);
}

#[tokio::test]
async fn a_flood_at_the_start_is_cut_off() {
    check(server("flood", PATIENT).list_tools().await.unwrap_err(), Kind::Unreachable, false, &["floods its output"]);
}

#[tokio::test]
async fn a_server_that_ends_at_an_unknown_method_gets_the_old_handshake() {
    assert_eq!(server("strict", PATIENT).protocol().await.unwrap(), "2025-11-25");
}

#[tokio::test]
async fn a_server_is_started_once_however_it_takes_the_first_question() {
    let folder = tempfile::tempdir().unwrap();
    // It knows the question, does not answer what it does not know, or answers only when it has been asked again.
    for mode in ["good", "deaf", "late"] {
        let starts = folder.path().join(mode);
        let mut config = ServerConfig {
            command: Some("python3".into()),
            args: vec![fixture("misbehaving.py"), mode.into()],
            ..ServerConfig::default()
        };
        config.env = BTreeMap::from([("STARTS".to_owned(), starts.to_str().unwrap().to_owned())]);
        let server = Server::new("shop", config, Limits { start: Duration::from_secs(9) });
        assert_eq!(server.protocol().await.unwrap(), "2025-11-25", "{mode}");
        assert_eq!(call(&server, "echo", PATIENT).await.unwrap(), json!({"echo": {"a": 1}}), "{mode}");
        assert_eq!(std::fs::read_to_string(starts).unwrap(), "started\n", "{mode}");
    }
}

#[tokio::test]
async fn endless_lists_are_refused() {
    check(server("many", PATIENT).list_tools().await.unwrap_err(), Kind::Protocol, false, &["more than 1000 tools"]);
    check(
        server("endless", PATIENT).list_tools().await.unwrap_err(),
        Kind::Protocol,
        false,
        &["does not end after 100 pages"],
    );
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again() {
    let server = server("good", PATIENT);
    let died = call(&server, "die", PATIENT).await.unwrap_err();
    check(died, Kind::Unreachable, true, &["exit status: 3", "boom in the middle"]);
    assert_eq!(call(&server, "echo", PATIENT).await.unwrap(), json!({"echo": {"a": 1}}));
}

#[tokio::test]
async fn a_server_that_hangs_is_replaced_after_the_call_timed_out() {
    let server = server("good", PATIENT);
    server.list_tools().await.unwrap();
    let late = call(&server, "hang", BRIEF).await.unwrap_err();
    check(late, Kind::Timeout, true, &["`hang` did not answer within 700ms"]);
    assert_eq!(call(&server, "echo", PATIENT).await.unwrap(), json!({"echo": {"a": 1}}));
}

#[tokio::test]
async fn garbage_floods_and_wrong_ids_do_no_harm() {
    let server = server("good", PATIENT);
    assert_eq!(call(&server, "garbage", PATIENT).await.unwrap(), json!({"echo": {"a": 1}}));
    server.list_tools().await.unwrap();
    check(call(&server, "wrong_id", BRIEF).await.unwrap_err(), Kind::Timeout, true, &["did not answer"]);
    check(call(&server, "fail", PATIENT).await.unwrap_err(), Kind::Tool, false, &["no such product"]);
    check(call(&server, "flood", PATIENT).await.unwrap_err(), Kind::Unreachable, true, &["floods its output"]);
    assert_eq!(call(&server, "echo", PATIENT).await.unwrap(), json!({"echo": {"a": 1}}));
}

#[tokio::test]
async fn tools_are_listed_again_when_they_change_and_carry_hints() {
    let server = server("good", PATIENT);
    let first = server.list_tools().await.unwrap();
    let hints = |name: &str| first.iter().find(|tool| tool.name == name).map(|tool| (tool.read_only, tool.idempotent));
    assert_eq!(hints("key"), Some((true, false)));
    assert_eq!(hints("echo"), Some((false, true)));
    assert_eq!(hints("die"), Some((false, false)));
    call(&server, "change", PATIENT).await.unwrap();
    crate::lists_later(&server, "new").await;
}

#[tokio::test]
async fn calls_carry_the_key_and_a_clean_environment() {
    let mut config = ServerConfig {
        command: Some("python3".into()),
        args: vec![fixture("misbehaving.py"), "good".into()],
        ..ServerConfig::default()
    };
    config.env = BTreeMap::from([("TOKEN".to_owned(), "t".to_owned())]);
    let server = Server::new("shop", config, Limits::default());
    assert_eq!(call(&server, "key", PATIENT).await.unwrap()["relais/idempotencyKey"], KEY);
    let environment = call(&server, "environment", PATIENT).await.unwrap();
    assert_eq!(environment["TOKEN"], "t");
    assert!(environment.get("PATH").is_some() && environment.get("CARGO_MANIFEST_DIR").is_none());
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let server = server("good", PATIENT);
    server.list_tools().await.unwrap();
    let dropped = tokio::time::timeout(BRIEF, call(&server, "wait", PATIENT)).await;
    assert!(dropped.is_err());
    let deadline = Instant::now() + PATIENT;
    while call(&server, "cancelled", PATIENT).await.unwrap() == json!([]) {
        assert!(Instant::now() < deadline, "the server is never told");
    }
}

#[tokio::test]
async fn fifty_calls_at_once() {
    let server = server("good", PATIENT);
    let calls = (0..50).map(|n| {
        let server = &server;
        async move { (n, server.call("echo", fields(json!({"n": n})), KEY, PATIENT).await.unwrap()) }
    });
    for (n, answer) in futures::future::join_all(calls).await {
        assert_eq!(answer, json!({"echo": {"n": n}}));
    }
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let server = server("good", PATIENT);
    let ids = call(&server, "children", PATIENT).await.unwrap();
    server.stop().await;
    for id in ids.as_array().unwrap() {
        assert!(gone(id.as_u64().unwrap()).await, "process {id} is left");
    }
}

/// No such process any more, or one that its parent has yet to reap.
async fn gone(id: u64) -> bool {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    for _ in 0..1000 {
        looks.tick().await;
        match std::fs::read_to_string(format!("/proc/{id}/stat")) {
            Ok(text) if !text.rsplit(')').next().unwrap().trim_start().starts_with('Z') => {}
            _ => return true,
        }
    }
    false
}

#[tokio::test]
async fn failures_in_a_row_are_answered_at_once() {
    let server = server("exit", PATIENT);
    let deadline = Instant::now() + PATIENT;
    loop {
        let error = server.list_tools().await.unwrap_err();
        if error.message.contains("next try in") {
            break check(error, Kind::Unreachable, false, &["cannot find my settings"]);
        }
        assert!(Instant::now() < deadline, "it is tried without end: {error}");
    }
}
