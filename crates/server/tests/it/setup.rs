//! A server with a home of its own, on a port of its own, and a client that talks to it.

use relais_runtime::settings::Settings;
use relais_server::{App, Listening, Options, listen};
use relais_service::{Config, Service};
use reqwest::{Client, Method, StatusCode};
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
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().to_owned());
        let config = Config { home, folder: project, settings, read: Vec::new(), user: "somebody".into() };
        let service = Service::open(config).unwrap();
        relais_runtime::models::install_crypto();
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), require_token: false };
        let server = listen(App::new(service.clone()), &options).await.unwrap();
        Setup { service, server, client: Client::new(), folder }
    }

    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// One request; the body of the answer is JSON, or text in quotes.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = self.client.request(method, format!("http://{}{path}", self.server.address));
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }
}
