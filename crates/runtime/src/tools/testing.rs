//! A workspace, a store in memory and a local HTTP peer for the tests of tools.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use relais_engine::{Artifact, Blob, Entry, Failure, RunId};
use relais_store::*;
use serde_json::Value;

use crate::tool::{Returned, RunFiles, Tool, ToolCall};

/// The idempotency key of every test call.
pub const KEY: &str = "run-1/command-7";

pub struct Bench {
    pub run: RunFiles,
    store: Arc<Shelf>,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Shelf::default());
        let workspace = folder.path().into();
        let run = RunFiles {
            run: RunId::nil(),
            workspace,
            store: store.clone(),
            patience: Arc::default(),
            notices: None,
            artifacts: Vec::new(),
            piece_bytes: relais_plan::DEFAULT_RESULT_LIMIT as usize,
        };
        Bench { run, store, _folder: folder }
    }

    pub fn workspace(&self) -> &Path {
        &self.run.workspace
    }

    pub async fn blob(&self, bytes: &[u8]) -> String {
        self.store.put_blob(bytes.to_vec()).await.unwrap()
    }

    pub async fn artifact(&mut self, name: &str, version: u32, media_type: &str, bytes: &[u8]) {
        self.blob(bytes).await;
        let blob = Blob::of(bytes, String::new());
        let artifact = Artifact { name: name.into(), blob, media_type: media_type.into() };
        self.run.artifacts.push((name.into(), version, artifact));
    }

    pub async fn call(&self, tool: &dyn Tool, arguments: Value) -> Result<Returned, Failure> {
        tool.call(ToolCall { arguments: &arguments, key: KEY, run: &self.run }).await
    }

    pub async fn check(&self, tool: &dyn Tool, arguments: Value, wanted: Value) {
        let returned = self.call(tool, arguments.clone()).await;
        assert_eq!(returned.map(|returned| returned.value), Ok(wanted), "{arguments}");
    }

    pub async fn check_fails(&self, tool: &dyn Tool, arguments: Value, part: &str) {
        let failure = self.call(tool, arguments.clone()).await.unwrap_err();
        assert!(failure.message.contains(part), "{failure} should say {part:?}");
    }
}

/// Blobs only: tools touch nothing else.
#[derive(Default)]
struct Shelf {
    blobs: Mutex<HashMap<String, Vec<u8>>>,
}

fn absent<T: Send + 'static>() -> Reply<'static, T> {
    Box::pin(async { Err(Error::Internal("not in this store".into())) })
}

impl Store for Shelf {
    fn create(&self, _: NewRun) -> Reply<'_, RunId> {
        absent()
    }
    fn append(&self, _: Batch) -> Reply<'_, ()> {
        absent()
    }
    fn load(&self, _: RunId, _: u64) -> Reply<'_, Vec<Entry>> {
        absent()
    }
    fn claim(&self, _: Claim) -> Reply<'_, Vec<Claimed>> {
        absent()
    }
    fn held(&self, _: Owner) -> Reply<'_, Vec<RunId>> {
        absent()
    }
    fn renew(&self, _: Owner, _: i64) -> Reply<'_, ()> {
        absent()
    }
    fn release(&self, _: RunId, _: Owner) -> Reply<'_, ()> {
        absent()
    }
    fn owners(&self) -> Reply<'_, Vec<Owner>> {
        absent()
    }
    fn list(&self, _: Filter) -> Reply<'_, Page> {
        absent()
    }
    fn tail(&self) -> tokio::sync::broadcast::Receiver<Change> {
        tokio::sync::broadcast::channel(1).1
    }
    fn put_document(&self, _: Document) -> Reply<'_, ()> {
        absent()
    }
    fn get_document(&self, _: DocumentKey, _: Option<u64>) -> Reply<'_, Option<Document>> {
        absent()
    }
    fn list_documents(&self, _: String, _: String) -> Reply<'_, Vec<Document>> {
        absent()
    }
    fn list_versions(&self, _: DocumentKey, _: usize) -> Reply<'_, Vec<Document>> {
        absent()
    }
    fn change(&self, _: Vec<Edit>, _: i64) -> Reply<'_, Vec<u64>> {
        absent()
    }
    fn get_record(&self, _: RecordKey) -> Reply<'_, Option<Record>> {
        absent()
    }
    fn records(&self, _: Find) -> Reply<'_, Vec<Record>> {
        absent()
    }
    fn unfinished(&self) -> Reply<'_, Vec<(relais_engine::RunStatus, u64)>> {
        absent()
    }

    fn next_due(&self, _: String) -> Reply<'_, Option<i64>> {
        absent()
    }
    fn ended(&self, _: usize) -> Reply<'_, Vec<Row>> {
        absent()
    }
    fn awaiting(&self, _: Awaited) -> Reply<'_, Vec<RunId>> {
        absent()
    }
    fn probe(&self) -> Reply<'_, ()> {
        absent()
    }

    fn put_blob(&self, bytes: Vec<u8>) -> Reply<'_, String> {
        let hash = blake3::hash(&bytes).to_hex().to_string();
        self.blobs.lock().unwrap().insert(hash.clone(), bytes);
        Box::pin(async { Ok(hash) })
    }
    fn get_blob(&self, hash: String) -> Reply<'_, Option<Vec<u8>>> {
        let found = self.blobs.lock().unwrap().get(&hash).cloned();
        Box::pin(async { Ok(found) })
    }
    fn prune(&self, _: Prune) -> Reply<'_, Pruned> {
        absent()
    }
}

/// A local server that remembers what it was asked and answers by path.
pub struct Peer {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    pub async fn start() -> Peer {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().fallback(answer).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Peer { address, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    State(seen): State<Arc<Mutex<Vec<String>>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut text = format!("{method} {uri}\n");
    for (name, value) in &headers {
        text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
    }
    text.push_str(&String::from_utf8_lossy(&body));
    seen.lock().unwrap().push(text.clone());
    let json = |text: &'static str| ([("content-type", "application/json")], text).into_response();
    let to = uri.query().unwrap_or_default().to_owned();
    match uri.path() {
        "/echo" => text.into_response(),
        "/json" => json("{\"a\":1}"),
        "/search" => json("{\"results\":[{\"title\":\"T\",\"url\":\"u\",\"content\":\"s\"}]}"),
        "/html" => "<html>".into_response(),
        "/big" => "x".repeat(3 * 1024 * 1024).into_response(),
        "/hang" => std::future::pending().await,
        "/redirect" => (StatusCode::FOUND, [("location", to)]).into_response(),
        "/redirect307" => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
        path => {
            let status = path.strip_prefix("/status/").and_then(|code| code.parse().ok()).unwrap_or(404);
            StatusCode::from_u16(status).unwrap().into_response()
        }
    }
}
