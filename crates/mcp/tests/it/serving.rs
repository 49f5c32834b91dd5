//! What we offer, used by our own client, by the one that others wrote, and by requests made by hand.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::Request;
use relais_mcp::serving::{Caller, Http, HttpOptions, http};
use relais_mcp::{Kind, Server};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::fake::Fake;
use crate::{KEY, PATIENT, fields, fixture, peers, stdio};

/// The version that has no handshake.
const STATELESS: &str = "2026-07-28";
const HANDSHAKES: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The example, which cargo builds beside the tests.
fn program() -> String {
    let tests: PathBuf = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap().parent().unwrap();
    folder.join("examples/fake").to_str().unwrap().to_owned()
}

/// A server that believes the header `x-caller`.
pub struct Site {
    pub url: String,
    pub service: Http,
    pub fake: Arc<Fake>,
    pub client: Client,
}

pub async fn site(options: HttpOptions) -> Site {
    // The client insists on it, though nothing here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let fake = Arc::new(Fake::new());
    let service = http(fake.clone(), options);
    let says_who = |mut request: Request| async {
        let name = request.headers().get("x-caller").map_or("owner", |name| name.to_str().unwrap()).to_owned();
        if name != "nobody" {
            request.extensions_mut().insert(Caller::new(&name, 7_u8));
        }
        request
    };
    let router =
        axum::Router::new().route_service("/mcp", service.clone()).layer(axum::middleware::map_request(says_who));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Site { url, service, fake, client: Client::new() }
}

impl Site {
    pub fn post(&self) -> RequestBuilder {
        let accept = "application/json, text/event-stream";
        self.client.post(&self.url).header("accept", accept).header("content-type", "application/json")
    }

    /// A request as the handshake era makes it.
    pub async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut post = self.post().body(body.to_string());
        if let Some(session) = session {
            post = post.header("mcp-session-id", session);
        }
        post.send().await.unwrap()
    }

    /// A request as the stateless era makes it.
    async fn ask_alone(&self, method: &str, name: Option<&str>, mut params: Value) -> Response {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "p"});
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params});
        let mut post = self.post().header("mcp-protocol-version", STATELESS).header("mcp-method", method);
        if let Some(name) = name {
            post = post.header("mcp-name", name);
        }
        post.body(body.to_string()).send().await.unwrap()
    }

    /// Opens a session; the version agreed on, and the session's id.
    pub async fn open(&self, version: &str, caller: &str) -> (String, String) {
        let hello =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        let answer = self.post().header("x-caller", caller).body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let agreed = last(answer).await["result"]["protocolVersion"].as_str().unwrap().to_owned();
        (agreed, id)
    }
}

/// All messages of an answer, be it a stream or not.
async fn messages(answer: Response) -> Vec<Value> {
    let text = answer.text().await.unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data:")).filter(|data| !data.trim().is_empty());
    let mut found: Vec<Value> = lines.map(|data| serde_json::from_str(data).unwrap()).collect();
    if found.is_empty() {
        found.push(serde_json::from_str(&text).unwrap_or(Value::String(text)));
    }
    found
}

pub async fn last(answer: Response) -> Value {
    messages(answer).await.pop().unwrap()
}

async fn use_offers(server: Server) {
    assert_eq!(server.protocol().await.unwrap(), STATELESS);
    let tools = server.list_tools().await.unwrap();
    let add = tools.iter().find(|tool| tool.name == "add").unwrap();
    assert!(tools.len() == 9 && add.read_only && add.parameters["required"] == json!(["a", "b"]), "{tools:?}");
    let sum = server.call("add", fields(json!({"a": 2, "b": 3})), KEY, PATIENT).await.unwrap();
    assert_eq!(sum, json!({"sum": 5}));
    let refused = async |tool: &str, arguments: Value, part: &str| {
        let error = server.call(tool, fields(arguments), KEY, PATIENT).await.unwrap_err();
        assert!(error.kind == Kind::Tool && error.message.contains(part), "{error}");
    };
    refused("ad", json!({}), "did you mean `add`?").await;
    refused("add", json!({"a": 2, "c": 3}), "`b`: Field is required").await;
    refused("fail", json!({}), "Out of stock").await;
    server.call("grow", fields(json!({})), KEY, PATIENT).await.unwrap();
    crate::lists_later(&server, "later").await;
    // Giving a call up reaches it.
    let arguments = fields(json!({}));
    let wait = server.call("wait", arguments, KEY, std::time::Duration::from_millis(200));
    assert_eq!(wait.await.unwrap_err().kind, Kind::Timeout);
    let told = server.call("cancelled", fields(json!({"at_least": 1})), KEY, PATIENT).await.unwrap();
    assert_eq!(told, json!("so many"));
}

#[tokio::test]
async fn our_client_over_stdio() {
    use_offers(stdio(&program(), &[], PATIENT)).await;
}

#[tokio::test]
async fn our_client_over_http() {
    use_offers(peers::http(site(HttpOptions::default()).await.url)).await;
}

async fn use_from_python(mode: &str, target: &str, version: &str) {
    let mut command = Command::new(peers::python());
    command.arg(fixture("client.py")).args([mode, target]).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENT * 2, command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), version);
}

#[tokio::test]
async fn python_client_with_handshake_over_stdio() {
    use_from_python("legacy", &program(), "2025-11-25").await;
}

#[tokio::test]
async fn python_client_without_handshake_over_stdio() {
    use_from_python("auto", &program(), STATELESS).await;
    use_from_python(STATELESS, &program(), STATELESS).await;
}

#[tokio::test]
async fn python_client_with_handshake_over_http() {
    use_from_python("legacy", &site(HttpOptions::default()).await.url, "2025-11-25").await;
}

#[tokio::test]
async fn python_client_without_handshake_over_http() {
    use_from_python("auto", &site(HttpOptions::default()).await.url, STATELESS).await;
    use_from_python(STATELESS, &site(HttpOptions::default()).await.url, STATELESS).await;
}

#[tokio::test]
async fn every_version_of_the_handshake_is_agreed_on() {
    let site = site(HttpOptions::default()).await;
    for version in HANDSHAKES {
        let (agreed, id) = site.open(version, "owner").await;
        assert_eq!(agreed, version);
        let called = site.ask(Some(&id), "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})).await;
        assert_eq!(last(called).await["result"]["structuredContent"], json!({"sum": 3}));
        let ended = site.client.delete(&site.url).header("mcp-session-id", &id).send().await.unwrap();
        assert!(ended.status().is_success(), "{ended:?}");
        assert_eq!(site.ask(Some(&id), "tools/list", json!({})).await.status(), 404);
    }
    assert_eq!((site.open("1999-01-01", "owner").await.0.as_str(), site.service.sessions()), ("2025-11-25", 1));
}

#[tokio::test]
async fn a_request_of_the_handshake_era_needs_no_session() {
    let site = site(HttpOptions::default()).await;
    let listed = last(site.ask(None, "tools/list", json!({})).await).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(listed["result"]["nextCursor"], "3");
    let wrong = last(site.ask(None, "tools/list", json!({"cursor": "x"})).await).await;
    assert!(wrong["error"]["message"].as_str().unwrap().contains("begin without a cursor"), "{wrong}");
    let who = last(site.ask(None, "tools/call", json!({"name": "who"})).await).await;
    assert_eq!(who["result"]["content"][0]["text"], "owner Some(7)");
    assert_eq!(site.service.sessions(), 0);
}

#[tokio::test]
async fn the_stateless_era_by_hand() {
    let site = site(HttpOptions::default()).await;
    let discovered = last(site.ask_alone("server/discover", None, json!({})).await).await;
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(STATELESS)), "{discovered}");
    assert_eq!(discovered["result"]["instructions"], "Begin with `add`.");
    let listed = last(site.ask_alone("tools/list", None, json!({})).await).await;
    assert_eq!((&listed["result"]["cacheScope"], &listed["id"]), (&json!("private"), &json!("x")), "{listed}");
    let counted = site.ask_alone("tools/call", Some("count"), json!({"name": "count", "arguments": {"to": 2}})).await;
    let counted = messages(counted).await;
    let done: Vec<&Value> = counted.iter().filter_map(|message| message["params"].get("progress")).collect();
    assert_eq!(done, [&json!(1.0), &json!(2.0)], "{counted:?}");
    assert_eq!(counted.last().unwrap()["result"]["content"][0]["text"], "counted");
    let missing = last(site.ask_alone("resources/read", Some("fake://x"), json!({"uri": "fake://x"})).await).await;
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    assert_eq!(site.service.sessions(), 0);
}

#[tokio::test]
async fn going_away_in_the_stateless_era_cancels_the_call() {
    let site = site(HttpOptions::default()).await;
    let mut answer = site.ask_alone("tools/call", Some("wait"), json!({"name": "wait", "arguments": {}})).await;
    site.fake.until_waiting(1).await;
    assert!(answer.chunk().await.unwrap().is_some());
    drop(answer);
    site.fake.until_cancelled(1).await;
}

#[tokio::test]
async fn what_the_stateless_era_has_not_is_not_found() {
    let site = site(HttpOptions::default()).await;
    let hello = json!({"protocolVersion": STATELESS, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}});
    let of_fake = json!({"uri": "fake://one"});
    for (method, params) in
        [("initialize", hello), ("resources/subscribe", of_fake.clone()), ("resources/unsubscribe", of_fake)]
    {
        let answer = site.ask_alone(method, None, params).await;
        assert_eq!(answer.status(), 404, "{method}");
        let answer = last(answer).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32601), &json!("x")), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(method), "{answer}");
    }
    assert_eq!(site.service.sessions(), 0);
    assert_eq!(site.ask_alone("tools/list", None, json!({})).await.status(), 200);
}

#[tokio::test]
async fn what_is_answered_is_declared() {
    let site = site(HttpOptions::default()).await;
    let found = last(site.ask_alone("server/discover", None, json!({})).await).await;
    let prompts = last(site.ask_alone("prompts/list", None, json!({})).await).await;
    assert!(found["result"]["capabilities"]["prompts"].is_object(), "{found}");
    assert_eq!(prompts["result"]["prompts"], json!([]), "{prompts}");
}

#[tokio::test]
async fn a_session_ends_as_official_clients_expect() {
    let site = site(HttpOptions::default()).await;
    let (_, id) = site.open("2025-11-25", "owner").await;
    let delete = || site.client.delete(&site.url).header("mcp-session-id", &id);
    assert_eq!((delete().send().await.unwrap().status().as_u16(), site.service.sessions()), (204, 0));
    assert_eq!(site.ask(Some(&id), "tools/list", json!({})).await.status(), 404);
    let stateless = site.client.delete(&site.url).header("mcp-protocol-version", STATELESS);
    assert_eq!(stateless.send().await.unwrap().status(), 405);
}
