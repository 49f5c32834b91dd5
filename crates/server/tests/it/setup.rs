//! A server with a home of its own, on a port of its own, and a client that talks to it.

use relais_runtime::settings::Settings;
use relais_server::{App, Listening, Options, listen};
use relais_service::{Config, NewToken, Service};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

pub struct Setup {
    pub service: Service,
    pub server: Listening,
    pub client: Client,
    folder: TempDir,
}

impl Setup {
    pub async fn new() -> Setup {
        Setup::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Setup {
        Setup::open(settings, false).await
    }

    /// Nobody is let in without a token.
    pub async fn guarded(settings: Settings) -> Setup {
        Setup::open(settings, true).await
    }

    async fn open(settings: Settings, require_token: bool) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().to_owned());
        let config = Config { home, folder: project, settings, read: Vec::new(), user: "somebody".into() };
        let service = Service::open(config).unwrap();
        relais_runtime::models::install_crypto();
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), require_token };
        let server = listen(App::new(service.clone()), &options).await.unwrap();
        Setup { service, server, client: Client::new(), folder }
    }

    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A token of this user for these scopes.
    pub async fn token(&self, user: &str, scopes: &str) -> String {
        let scopes = scopes.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let new = NewToken { user: user.into(), name: "test".into(), scopes, expires_at: None };
        self.service.create_token(new).await.unwrap().0
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.server.address))
    }

    /// One request by somebody who presents a token.
    pub async fn ask_as(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        answered(self.request(method, path).bearer_auth(token), body).await
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Runs a file to its end.
    pub async fn run(&self, file: &str) -> relais_engine::RunId {
        let definition = self.service.read(&self.path().join(file), &Default::default()).unwrap();
        assert!(!definition.has_errors(), "{}", definition.render(false));
        let checked = self.service.publish(definition, false, None).await.unwrap();
        let run = self.service.start(&checked, Default::default()).await.unwrap();
        self.service.settle(run).await.unwrap();
        run
    }

    /// One request; the body of the answer is JSON, or text in quotes.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        answered(self.request(method, path), body).await
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }
}

/// A stream is not read: it may have no end.
pub async fn answered(request: RequestBuilder, body: Option<Value>) -> (StatusCode, Value) {
    let request = if let Some(body) = body { request.json(&body) } else { request };
    let answer = request.send().await.unwrap();
    let status = answer.status();
    if answer.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        return (status, Value::Null);
    }
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
