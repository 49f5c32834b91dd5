//! Clients that send garbage, too much, in others' names, or go away: each is answered, and nothing grows.

use std::sync::Arc;
use std::time::Duration;

use relais_mcp::serving::{Caller, Hosts, HttpOptions, serve_pipes};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;

use crate::PATIENT;
use crate::fake::Fake;
use crate::serving::{Site, last, site};

const HUGE: usize = 5 * 1024 * 1024;

struct Pipe {
    to: WriteHalf<DuplexStream>,
    from: BufReader<ReadHalf<DuplexStream>>,
    fake: Arc<Fake>,
    served: JoinHandle<()>,
}

fn pipe() -> Pipe {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let fake = Arc::new(Fake::new());
    let (input, output) = split(theirs);
    let offers = fake.clone();
    let served = tokio::spawn(async move {
        serve_pipes(offers, Caller::new("owner", ()), input, output).await.unwrap();
    });
    let (from, to) = split(ours);
    Pipe { to, from: BufReader::new(from), fake, served }
}

impl Pipe {
    async fn say(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).await.unwrap();
        self.to.write_all(b"\n").await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(PATIENT, self.from.read_line(&mut line)).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap_or(Value::String(line))
    }

    async fn check(&mut self, line: &str, wanted: &str) {
        self.say(line).await;
        let heard = self.hear().await.to_string();
        assert!(heard.contains(wanted), "{line:.100}: {heard}");
    }

    async fn greet(&mut self) {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}});
        self.check(&hello.to_string(), "2025-06-18").await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }
}

#[tokio::test]
async fn garbage_on_a_pipe_is_answered_and_survived() {
    let mut pipe = pipe();
    // Before the client has introduced itself, and after.
    for round in 0..2 {
        pipe.check("garbage", "-32700").await;
        pipe.check("{\"a\": 1}", "-32600").await;
        pipe.check("[]", "send each by itself").await;
        pipe.check(&"[".repeat(100_000), "-32700").await;
        pipe.check(&format!("{{\"x\": \"{}\"}}", "x".repeat(HUGE)), "larger than").await;
        pipe.check(r#"{"jsonrpc":"2.0","id":7,"method":5}"#, r#""id":7"#).await;
        pipe.say("").await;
        pipe.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#).await;
        pipe.say(r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#).await;
        pipe.say(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#).await;
        if round == 0 {
            pipe.greet().await;
        }
    }
    pipe.check(r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, "There is no method `no/such`").await;
    let words = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":"{}"}}"#;
    pipe.check(words, "an object, not a text").await;
    pipe.check(r#"{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{}}"#, "`uri` (text)").await;
    pipe.check(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ad"}}"#, "`add`").await;
    pipe.check(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#, r#""id":5"#).await;
    drop((pipe.to, pipe.from));
    pipe.served.await.unwrap();
}

#[tokio::test]
async fn an_empty_pipe_ends_at_once() {
    let pipe = pipe();
    drop((pipe.to, pipe.from));
    pipe.served.await.unwrap();
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
    let mut pipe = pipe();
    pipe.greet().await;
    pipe.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who"}}"#).await;
    pipe.to.shutdown().await.unwrap();
    assert_eq!(pipe.hear().await["result"]["content"][0]["text"], "owner None");
    pipe.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_at_work_when_the_pipe_ends_are_cancelled_in_time() {
    let mut pipe = pipe();
    pipe.greet().await;
    pipe.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}"#).await;
    pipe.fake.until_waiting(1).await;
    pipe.to.shutdown().await.unwrap();
    pipe.served.await.unwrap();
    pipe.fake.until_cancelled(1).await;
}

#[tokio::test]
async fn a_cancelled_call_is_told_on_a_pipe() {
    let mut pipe = pipe();
    pipe.greet().await;
    pipe.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}"#).await;
    pipe.fake.until_waiting(1).await;
    pipe.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    pipe.fake.until_cancelled(1).await;
}

#[tokio::test]
async fn so_many_calls_at_once_and_no_more() {
    let mut pipe = pipe();
    pipe.greet().await;
    for id in 1..=256 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait"}});
        pipe.say(&call.to_string()).await;
    }
    pipe.fake.until_waiting(256).await;
    let call = r#"{"jsonrpc":"2.0","id":999,"method":"tools/call","params":{"name":"who"}}"#;
    pipe.check(call, "256 calls are at work already").await;
}

async fn post(site: &Site, change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder) -> (u16, String) {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let answer = change(site.post().body(list)).send().await.unwrap();
    (answer.status().as_u16(), last(answer).await.to_string())
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong() {
    let site = site(HttpOptions::default()).await;
    let check = async |change: &dyn Fn(reqwest::RequestBuilder) -> reqwest::RequestBuilder, status: u16, part: &str| {
        let (got, text) = post(&site, change).await;
        assert_eq!(got, status, "{text}");
        assert!(text.contains(part), "{text}");
    };
    check(&|post| post, 200, "tools").await;
    check(&|post| post.body("garbage"), 400, "-32700").await;
    check(&|post| post.body("[]"), 400, "send each by itself").await;
    check(&|post| post.body(r#"{"jsonrpc":"2.0","id":7,"method":5}"#), 400, "-32600").await;
    check(&|post| post.body("x".repeat(HUGE)), 413, "larger than 4194304 bytes").await;
    check(&|post| post.body(r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#), 200, "no method `no/such`").await;
    check(&|post| post.header("mcp-session-id", "no such"), 404, "").await;
    check(&|post| post.header("mcp-protocol-version", "1999-01-01"), 400, "1999-01-01").await;
    check(&|post| post.header("x-caller", "nobody"), 401, "who calls").await;
    check(&|post| post.header("host", "evil.example"), 403, "Host").await;
    check(&|post| post.header("origin", "http://evil.example"), 403, "Origin").await;
    check(&|post| post.header("origin", "http://localhost:3000"), 200, "tools").await;
    let put = site.client.put(&site.url).send().await.unwrap();
    assert_eq!(put.status(), 405);
}

#[tokio::test]
async fn the_names_of_the_server_can_be_set() {
    let check = async |hosts: Hosts, host: &str, status: u16| {
        let site = site(HttpOptions { hosts, ..HttpOptions::default() }).await;
        assert_eq!(post(&site, |post| post.header("host", host.to_owned())).await.0, status, "{host}");
    };
    let named = || Hosts::Only(vec!["relais.example".into()]);
    check(named(), "relais.example", 200).await;
    check(named(), "localhost", 403).await;
    check(Hosts::Only(vec![]), "localhost", 403).await;
    check(Hosts::Any, "whatever.example", 200).await;
}

#[tokio::test]
async fn a_session_is_of_use_to_its_owner_only() {
    let site = site(HttpOptions::default()).await;
    let (_, id) = site.open("2025-06-18", "anna").await;
    let as_caller = async |name: &str| {
        post(&site, |post| post.header("mcp-session-id", id.clone()).header("x-caller", name.to_owned())).await.0
    };
    assert_eq!((as_caller("ben").await, as_caller("anna").await), (404, 200));
    let delete = site.client.delete(&site.url).header("mcp-session-id", &id).header("x-caller", "ben");
    assert_eq!(delete.send().await.unwrap().status(), 404);
    assert_eq!((as_caller("anna").await, site.service.sessions()), (200, 1));
}

#[tokio::test]
async fn a_thousand_sessions_opened_and_dropped() {
    let site = site(HttpOptions { sessions_max: 50, ..HttpOptions::default() }).await;
    let (_, mine) = site.open("2025-06-18", "owner").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}).to_string();
    let at_work = site.post().header("mcp-session-id", &mine).body(call).send().await.unwrap();
    site.fake.until_waiting(1).await;
    for _ in 0..1_000 {
        site.open("2025-06-18", "owner").await;
        assert!(site.service.sessions() <= 50);
    }
    // The one at work was not thrown out by the others.
    assert_eq!(site.ask(Some(&mine), "tools/list", json!({})).await.status(), 200);
    drop(at_work);
}

#[tokio::test]
async fn when_all_sessions_are_in_use_the_next_is_refused() {
    let site = site(HttpOptions { sessions_max: 1, ..HttpOptions::default() }).await;
    let (_, id) = site.open("2025-06-18", "owner").await;
    let listening = site.client.get(&site.url).header("accept", "text/event-stream").header("mcp-session-id", &id);
    let listening = listening.send().await.unwrap();
    assert_eq!(listening.status(), 200);
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    let refused = site.ask(None, "initialize", hello).await;
    assert_eq!(refused.status(), 503);
    assert!(refused.text().await.unwrap().contains("or talk without one"));
    assert_eq!(site.ask(None, "tools/list", json!({})).await.status(), 200);
}

#[tokio::test]
async fn closing_ends_sessions_streams_and_calls() {
    let site = site(HttpOptions { session_idle: Duration::from_secs(60), ..HttpOptions::default() }).await;
    let (_, id) = site.open("2025-06-18", "owner").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}).to_string();
    let in_session = site.post().header("mcp-session-id", &id).body(call.clone()).send().await.unwrap();
    let alone = tokio::spawn(site.post().body(call).send());
    site.fake.until_waiting(2).await;
    site.service.close().await;
    site.fake.until_cancelled(2).await;
    in_session.text().await.unwrap();
    alone.await.unwrap().unwrap();
    assert_eq!((site.service.sessions(), site.ask(None, "tools/list", json!({})).await.status().as_u16()), (0, 503));
}
