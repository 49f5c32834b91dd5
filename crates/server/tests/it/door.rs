//! The door: whatever strangers send, others are still served.

use relais_service::END_TIME;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::flows::ASKS;
use crate::setup::{Setup, answered};

const SIGNAL: &str = "/api/v1/runs/0190a0b0-c0d0-7000-8000-00000000000a/signal";

/// One request with a body as it stands.
async fn send(setup: &Setup, method: Method, path: &str, kind: &str, body: String) -> (u16, HeaderMap, Value) {
    let request = setup.client.request(method, format!("http://{}{path}", setup.server.address));
    let answer = request.header(CONTENT_TYPE, kind).body(body).send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_problems() {
    let setup = Setup::new().await;
    let json_kind = "application/json";
    let check = async |method: Method, path: &str, kind: &str, body: String, status: u16, word: &str| {
        let shown: String = body.chars().take(60).collect();
        let (found, headers, problem) = send(&setup, method, path, kind, body).await;
        assert_eq!((found, problem["kind"].as_str()), (status, Some(word)), "{shown}: {problem}");
        assert_eq!(headers[CONTENT_TYPE], "application/problem+json", "{shown}");
    };
    let deep = format!("{{\"name\": \"x\", \"value\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let list = |count: usize| format!("{{\"name\": \"x\", \"value\": [{}0]}}", "0,".repeat(count));
    check(Method::POST, SIGNAL, json_kind, "{".into(), 400, "invalid").await;
    check(Method::POST, SIGNAL, json_kind, deep, 400, "invalid").await;
    // Not as the fields of an object in their order.
    check(Method::POST, SIGNAL, json_kind, "[\"go\", 1]".into(), 400, "invalid").await;
    check(Method::POST, SIGNAL, json_kind, " null".into(), 400, "invalid").await;
    // A million elements are read, and the run is not there; more are refused before they are.
    check(Method::POST, SIGNAL, json_kind, list(1_000_000), 404, "not_found").await;
    check(Method::POST, SIGNAL, json_kind, list(2_000_000), 400, "invalid").await;
    check(Method::POST, SIGNAL, "text/plain", "{}".into(), 415, "unsupported").await;
    check(Method::POST, SIGNAL, json_kind, " ".repeat(9 * 1024 * 1024), 413, "too_large").await;
    check(Method::PUT, SIGNAL, json_kind, "{}".into(), 405, "unsupported").await;
    check(Method::POST, "/api/v1/%ff%00", json_kind, "{}".into(), 404, "not_found").await;
    let long = format!("/api/v1/runs?cursor={}", "x".repeat(20_000));
    check(Method::GET, &long, json_kind, String::new(), 431, "too_large").await;
}

// A name that is misspelt would otherwise do something else than was meant.
#[tokio::test(flavor = "multi_thread")]
async fn queries_with_names_that_are_not_known_are_refused() {
    let setup = Setup::new().await;
    let queries = [
        (Method::DELETE, "/api/v1/workflows/x?forse=true"),
        (Method::GET, "/api/v1/workflows/x/export?histroy=true"),
        (Method::GET, "/api/v1/tools?server=x"),
        (Method::GET, "/api/v1/steps?stand_alone=true"),
    ];
    for (method, path) in queries {
        let (status, problem) = setup.ask(method, path, None).await;
        assert_eq!((status.as_u16(), problem["kind"].as_str()), (400, Some("invalid")), "{path}: {problem}");
    }
}

/// What a server answers to bytes, as far as it does.
async fn raw(setup: &Setup, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(setup.server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused() {
    let setup = Setup::new().await;
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    {
        assert!(raw(&setup, bytes).await.starts_with("HTTP/1.1 400"), "{bytes:?}");
    }
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert!(raw(&setup, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let smuggled = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!";
    assert!(raw(&setup, smuggled.as_bytes()).await.starts_with("HTTP/1.1 400"));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_send_nothing_further_keep_nobody_out() {
    let setup = Setup::new().await;
    let mut slow = Vec::new();
    for nth in 0..500 {
        let mut stream = TcpStream::connect(setup.server.address).await.unwrap();
        let head = "POST /api/v1/runs/x/cancel HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
        let begun = if nth % 2 == 0 { head.to_owned() } else { format!("{head}content-length: 90\r\n\r\n{{") };
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    assert_eq!(setup.get("/api/v1/runs").await.0, 200);
    drop(slow);
    assert_eq!(setup.get("/api/v1/runs").await.0, 200);
}

#[tokio::test]
async fn a_request_that_does_not_come_to_its_end_holds_up_the_stop_for_a_while_only() {
    let setup = Setup::new().await;
    let mut slow = TcpStream::connect(setup.server.address).await.unwrap();
    let host = setup.server.address;
    let head =
        format!("POST {SIGNAL} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 90\r\n");
    slow.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
    // When the server asks for the body, the request is under way.
    let mut go_on = [0; 12];
    slow.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let stopped = setup.server.stop().await;
    assert!(matches!(stopped, Err(relais_server::Error::CutOff)), "{stopped:?}");
    let took = began.elapsed();
    assert!((END_TIME..END_TIME * 2).contains(&took), "{took:?}");
}

/// How long a request may take that nobody keeps from being served.
const SOON: std::time::Duration = std::time::Duration::from_secs(5);

// Whoever has no token and knows no address takes no turn at large bodies.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_with_large_bodies_keep_nobody_out() {
    let setup = Setup::guarded(Default::default()).await;
    let mut slow = Vec::new();
    for path in ["/hooks/none", "/api/v1/events", "/mcp", "/nothing"].repeat(4) {
        let mut stream = TcpStream::connect(setup.server.address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
        let begun = format!("{head}content-length: 1000000\r\n\r\n{}", " ".repeat(100_000));
        stream.write_all(begun.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let token = setup.token("somebody", "run").await;
    let body = json!({ "name": "x", "value": "x".repeat(200_000) });
    let asked = setup.ask_as(&token, Method::POST, SIGNAL, Some(body));
    let (status, _) = tokio::time::timeout(SOON, asked).await.expect("it waits for strangers");
    assert_eq!(status, 404);
}

// The database is another process's for some seconds: requests that write are told to come back, those that read are
// answered, runs wait, and all goes on afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_database_is_waited_for_and_told() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    let other = setup.begin("name: timed\nsteps: [{ id: pause, wait: 1s }, { id: done, set: { x: 1 } }]\n").await;
    let file = setup.service.config().database();
    let holder = rusqlite::Connection::open(file).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let answered = setup.post(&format!("/api/v1/runs/{run}/signal"), json!({ "name": "go" })).await;
    assert_eq!((answered.0, &answered.1["kind"]), (503, &json!("busy")), "{}", answered.1);
    assert_eq!(setup.get(&format!("/api/v1/runs/{run}")).await.0, 200);
    let url = format!("http://{}/api/v1/runs/{run}/signal", setup.server.address);
    let again = setup.client.post(url).json(&json!({ "name": "go" })).send().await.unwrap();
    assert_eq!((again.status().as_u16(), &again.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!(setup.post(&format!("/api/v1/runs/{run}/signal"), json!({ "name": "go" })).await.0, 202);
    assert_eq!(setup.rested(other).await["status"], "completed");
}

/// Words of the program that say nothing to whoever calls.
const INSIDE: [&str; 10] =
    ["struct", "enum ", "uuid::", "UUID", "u64", "usize", "sequence", "map,", "variant of", "deserialize"];

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_told_in_the_words_of_the_interface() {
    let setup = Setup::new().await;
    let id = "0190a0b0-c0d0-7000-8000-00000000000a";
    let (run, patch) = (format!("/api/v1/runs/{id}"), "/api/v1/workflows/w");
    let check = async |method: Method, path: &str, body: Value, parts: &[&str]| {
        let body = Some(body).filter(|body| !body.is_null());
        let (status, problem) = setup.ask(method, path, body).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status.is_client_error() && parts.iter().all(|part| detail.contains(part)), "{path}: {problem}");
        assert!(!INSIDE.iter().any(|word| detail.contains(word)), "{path}: {problem}");
    };
    check(Method::POST, "/api/v1/workflows/w/run", json!([]), &["a JSON object"]).await;
    let (text, number, list) = (r#"the text "x""#, "the number 5", "a list");
    for (body, parts) in [
        (json!({ "name": 5 }), ["name: ", number, "a text is expected"]),
        (json!({ "definition": 5 }), ["definition: ", "a text", "an object"]),
        (json!({ "published": "x" }), ["published: ", text, "true or false"]),
        (json!({ "colour": 1 }), ["colour: ", "`colour`", "`name`"]),
        (json!({ "status": "x" }), ["status: ", "`x`", "`active`"]),
        (json!({ "status": [1] }), ["status: ", list, "a word"]),
    ] {
        check(Method::PATCH, patch, body, &parts).await;
    }
    for (what, body, parts) in [
        ("resume", json!({ "budget": [1] }), ["budget: ", list, "an object"]),
        ("resume", json!({ "budget": { "tokens": "x" } }), ["budget.tokens: ", text, "a whole number"]),
        ("resume", json!({ "budget": { "tokens": -5 } }), ["budget.tokens: ", "the number -5", "not below 0"]),
        ("resume", json!({ "budget": { "usd": "x" } }), ["budget.usd: ", text, "a number"]),
        ("retry", json!({}), ["`from`", "missing", ""]),
        ("fork", json!({ "from": "a", "input": [] }), ["input: ", list, "an object"]),
    ] {
        check(Method::POST, &format!("{run}/{what}"), body, &parts).await;
    }
    let order = json!({ "ordered_step_uuids": [id, "x"] });
    let steps = "/api/v1/workflows/w/steps";
    check(Method::PUT, steps, order, &["ordered_step_uuids[1]: ", "an id, such as"]).await;
    check(Method::DELETE, &format!("{steps}/x"), Value::Null, &["`x` is no id, such as"]).await;
    for (path, parts) in [
        ("/api/v1/runs/x", ["`x`", "is no id", "such as"]),
        ("/api/v1/runs?limit=x", ["limit: ", "a whole number", ""]),
        ("/api/v1/runs?limit=-1", ["limit: ", "a whole number", ""]),
        ("/api/v1/runs?roots_only=x", ["roots_only: ", "true or false", ""]),
        ("/api/v1/runs?parent=x", ["parent: ", "an id, such as", ""]),
        ("/api/v1/runs?colour=red", ["`colour`", "`workflow`", ""]),
        ("/api/v1/runs?status=x", ["status: ", "`x`", "`running`"]),
    ] {
        check(Method::GET, path, Value::Null, &parts).await;
    }
    let request = setup.request(Method::POST, "/api/v1/workflows").header("content-type", "application/json");
    let (status, problem) = answered(request.body("{ \"name\": \"a\",\n }"), None).await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 400 && detail.contains("line 2 column 2"), "{problem}");
}

/// What a program of some account gets to hear that asks without a token; its own account where none is named.
fn asked_by(account: Option<u32>, address: std::net::SocketAddr) -> String {
    use std::os::unix::process::CommandExt;
    let script = format!(
        "exec 3<>/dev/tcp/{}/{}; printf 'GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3; \
         cat <&3",
        address.ip(),
        address.port()
    );
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir("/").env_clear();
    if let Some(account) = account {
        command.uid(account).gid(account);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Where the tests run as root another account is tried for real; elsewhere nobody can become another one, and what the
/// table says of others is tested where it is read.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn another_account_of_this_machine_needs_a_token() {
    let setup = Setup::new().await;
    let address = setup.server.address;
    let asked = |account| tokio::task::spawn_blocking(move || asked_by(account, address));
    let own = asked(None).await.unwrap();
    assert!(own.starts_with("HTTP/1.1 200") && own.contains("somebody"), "{own}");
    let is_root = std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t");
    if is_root {
        let other = asked(Some(65_534)).await.unwrap();
        assert!(other.starts_with("HTTP/1.1 401"), "{other}");
        assert!(other.contains("another account of this machine sent it"), "{other}");
    }
}
