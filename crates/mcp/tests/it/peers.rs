//! Servers that others wrote, in both eras of the protocol and over both transports.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use relais_mcp::{Kind, Limits, Server, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::{KEY, PATIENT, fields, fixture, stdio};

/// Ports may be taken between the moment they are found free and the moment they are used.
const TRIES: usize = 5;

pub fn peers() -> PathBuf {
    let folder = std::env::var_os("RELAIS_TEST_PEERS");
    folder.expect("RELAIS_TEST_PEERS is not set; `cargo xtask test` installs the peers and sets it").into()
}

fn node_package(name: &str) -> String {
    let path = peers().join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js");
    path.to_str().unwrap().to_owned()
}

pub fn python() -> String {
    peers().join("venv/bin/python").to_str().unwrap().to_owned()
}

pub fn http(url: String) -> Server {
    Server::new("shop", ServerConfig { url: Some(url), ..ServerConfig::default() }, Limits::default())
}

/// Starts a server and waits for the line on stderr that has `ready`; none if it ends before.
async fn listening(mut command: Command, ready: &str) -> Option<(Child, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains(ready) {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Some((child, line));
        }
    }
    None
}

async fn everything_over_http(transport: &str, path: &str) -> (Child, String) {
    for _ in 0..TRIES {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("node");
        command.arg(node_package("server-everything")).arg(transport).env("PORT", port.to_string());
        if let Some((child, _)) = listening(command, "on port").await {
            return (child, format!("http://127.0.0.1:{port}/{path}"));
        }
    }
    panic!("the server does not start");
}

async fn modern_over_http() -> (Child, String) {
    let mut command = Command::new(python());
    command.arg(fixture("modern.py")).arg("streamable-http");
    let (child, line) = listening(command, "running on http://").await.expect("the server starts");
    let address = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    (child, format!("http://{address}/mcp"))
}

async fn use_everything(server: Server) {
    let tools = server.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo" && tool.parameters["type"] == "object"));
    let echo = server.call("echo", fields(json!({"message": "hé"})), KEY, PATIENT).await.unwrap();
    assert_eq!(echo, json!("Echo: hé"));
    let sum = server.call("get-sum", fields(json!({"a": 2, "b": 3})), KEY, PATIENT).await.unwrap();
    assert!(sum.as_str().unwrap().contains('5'), "{sum}");
    let wrong = server.call("get-sum", fields(json!({"a": "x"})), KEY, PATIENT).await.unwrap_err();
    assert_eq!((wrong.kind, wrong.sent), (Kind::Tool, false), "{wrong}");
    let unknown = server.call("no-such-tool", fields(json!({})), KEY, PATIENT).await.unwrap_err();
    assert_eq!((unknown.kind, unknown.sent), (Kind::Tool, false), "{unknown}");
}

async fn use_modern(server: Server) {
    assert_eq!(server.protocol().await.unwrap(), "2026-07-28");
    assert_eq!(server.list_tools().await.unwrap().len(), 3);
    let sum = server.call("add", fields(json!({"a": 2, "b": 3})), KEY, PATIENT).await.unwrap();
    assert_eq!(sum, json!({"result": 5}));
    let failed = server.call("fails", fields(json!({})), KEY, PATIENT).await.unwrap_err();
    assert_eq!(failed.kind, Kind::Tool);
    assert!(failed.message.contains("out of stock"), "{failed}");
    assert_eq!(server.call("grow", fields(json!({})), KEY, PATIENT).await.unwrap(), json!({"result": "grown"}));
    crate::lists_later(&server, "later").await;
}

#[tokio::test]
async fn everything_stdio() {
    let server = stdio("node", &[&node_package("server-everything"), "stdio"], PATIENT);
    assert_eq!(server.protocol().await.unwrap(), "2025-11-25");
    use_everything(server).await;
}

#[tokio::test]
async fn everything_streamable_http() {
    let (_child, url) = everything_over_http("streamableHttp", "mcp").await;
    use_everything(http(url)).await;
}

#[tokio::test]
async fn everything_over_the_http_transport_of_2024() {
    let (_child, url) = everything_over_http("sse", "sse").await;
    use_everything(http(url)).await;
}

#[tokio::test]
async fn modern_stdio() {
    use_modern(stdio(&python(), &[&fixture("modern.py"), "stdio"], PATIENT)).await;
}

#[tokio::test]
async fn modern_streamable_http() {
    let (_child, url) = modern_over_http().await;
    use_modern(http(url)).await;
}

#[tokio::test]
async fn files_through_the_filesystem_server() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "content of a").unwrap();
    let server = stdio("node", &[&node_package("server-filesystem"), root.to_str().unwrap()], PATIENT);
    let tools = server.list_tools().await.unwrap();
    let read = tools.iter().find(|tool| tool.name == "read_text_file").unwrap();
    assert!(read.read_only);
    let path = root.join("a.txt");
    let got = server.call("read_text_file", fields(json!({"path": path})), KEY, PATIENT).await.unwrap();
    assert!(got.to_string().contains("content of a"), "{got}");
}

/// Answers every request with the same bytes, or with silence.
async fn parrot(answer: Option<&'static str>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 8192];
            let _ = socket.read(&mut request).await;
            if let Some(answer) = answer {
                let _ = socket.write_all(answer.as_bytes()).await;
            } else {
                kept.push(socket);
            }
        }
    });
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn strange_http_servers_are_told_apart() {
    let check = async |answer: Option<&'static str>, kind: Kind, part: &str| {
        let config = ServerConfig { url: Some(parrot(answer).await), ..ServerConfig::default() };
        let server = Server::new("shop", config, Limits { start: Duration::from_secs(3) });
        let error = server.list_tools().await.unwrap_err();
        assert_eq!((error.kind, error.sent), (kind, false), "{error}");
        assert!(error.message.contains(part) && !error.message.contains("private"), "{error}");
    };
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: 6\r\n\r\n<html>";
    let closed =
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let broken = "HTTP/1.1 500 Oops\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let quoted = "HTTP/1.1 404 Gone\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 15\r\n\r\n\
                  {\"a\":\"private\"}";
    let other = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 15\r\n\r\n\
                 {\"a\":\"private\"}";
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":";
    check(Some(html), Kind::Unreachable, "text/html").await;
    check(Some(closed), Kind::Unreachable, "uth").await;
    check(Some(broken), Kind::Unreachable, "500").await;
    check(Some(quoted), Kind::Unreachable, "404").await;
    check(Some(other), Kind::Unreachable, "not MCP").await;
    check(Some(half), Kind::Unreachable, "").await;
    check(Some("nonsense"), Kind::Unreachable, "").await;
    check(None, Kind::Timeout, "within 3s").await;
}

#[tokio::test]
async fn an_http_server_that_goes_away_and_comes_back() {
    let (mut child, url) = modern_over_http().await;
    let server = http(url);
    server.list_tools().await.unwrap();
    child.kill().await.unwrap();
    let gone = server.call("add", fields(json!({"a": 1, "b": 1})), KEY, PATIENT).await.unwrap_err();
    assert_eq!(gone.kind, Kind::Unreachable, "{gone}");
    assert!(!server.call("add", fields(json!({"a": 1, "b": 1})), KEY, PATIENT).await.unwrap_err().sent);
    let nobody = Server::new(
        "shop",
        ServerConfig { url: Some("http://127.0.0.1:1/mcp".into()), ..ServerConfig::default() },
        Limits { start: Duration::from_secs(20) },
    );
    assert_eq!(nobody.list_tools().await.unwrap_err().kind, Kind::Unreachable);
}
