//! The HTTP transport of 2024-11-05, which many servers still speak alone: a stream of events that the server keeps
//! open, and an address, told in the first of them, that messages are sent to.

use std::borrow::Cow;
use std::collections::HashMap;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// As much as the library takes for one event of the newer transport.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Messages that came and were not looked at yet; beyond it the server waits.
const WAITING_MAX: usize = 64;
const EVENTS: &str = "text/event-stream";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it answered HTTP {0}")]
    Status(StatusCode),
    #[error("it answered with something that is no stream of events")]
    NoEvents,
    #[error("its stream of events ended before it said where messages go")]
    NoEndpoint,
    #[error("it wants messages to go to another server")]
    Elsewhere,
    #[error(transparent)]
    Http(#[from] reqwest::Error),
}

impl Error {
    /// Certain not to have been performed.
    pub fn is_undelivered(&self) -> bool {
        match self {
            Error::Status(status) => status.is_client_error(),
            Error::Http(error) => error.is_connect(),
            Error::NoEvents | Error::NoEndpoint | Error::Elsewhere => true,
        }
    }
}

pub struct Sse {
    client: Client,
    headers: HeaderMap,
    endpoint: Url,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    reading: JoinHandle<()>,
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Sse {
    /// Opens the stream and waits for the address. The caller bounds the time.
    pub async fn open(client: Client, url: &str, headers: HashMap<HeaderName, HeaderValue>) -> Result<Sse, Error> {
        let headers: HeaderMap = headers.into_iter().collect();
        let response = client.get(url).headers(headers.clone()).header(ACCEPT, EVENTS).send().await?;
        if !response.status().is_success() {
            return Err(Error::Status(response.status()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with(EVENTS) {
            return Err(Error::NoEvents);
        }
        let at = response.url().clone();
        let (told, hears) = oneshot::channel();
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        let reading = tokio::spawn(read(response, told, sender));
        let endpoint = hears.await.ok().and_then(|text: String| at.join(text.trim()).ok()).ok_or(Error::NoEndpoint)?;
        if endpoint.origin() != at.origin() {
            return Err(Error::Elsewhere);
        }
        Ok(Sse { client, headers, endpoint, messages, reading })
    }
}

async fn read(
    mut response: Response,
    told: oneshot::Sender<String>,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
) {
    let (mut events, mut told) = (Events::default(), Some(told));
    while let Ok(Some(chunk)) = response.chunk().await {
        for (name, data) in events.take(&chunk) {
            if name == "endpoint" {
                if let Some(told) = told.take() {
                    let _ = told.send(data);
                }
            } else if let Ok(message) = serde_json::from_str(&data)
                && messages.send(message).await.is_err()
            {
                return;
            }
        }
        if events.is_flooded() {
            return;
        }
    }
}

/// Puts events together from whatever pieces they come in.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    name: String,
    data: String,
}

impl Events {
    fn is_flooded(&self) -> bool {
        self.line.len() + self.data.len() > EVENT_BYTES_MAX
    }

    /// The events that this piece completes, each with its name.
    fn take(&mut self, chunk: &[u8]) -> Vec<(String, String)> {
        let mut complete = Vec::new();
        for byte in chunk {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            complete.extend(self.line(line.trim_end_matches('\r')));
        }
        complete
    }

    fn line(&mut self, line: &str) -> Option<(String, String)> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return (!data.is_empty()).then_some((name, data));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" if self.data.is_empty() => self.data = value.to_owned(),
            "data" => {
                self.data.push('\n');
                self.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

impl Transport<RoleClient> for Sse {
    type Error = Error;

    fn name() -> Cow<'static, str> {
        "HTTP with a stream of events".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let body = serde_json::to_vec(&message).unwrap_or_default();
        let request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        async move {
            let response = request.send().await?;
            if response.status().is_success() { Ok(()) } else { Err(Error::Status(response.status())) }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.reading.abort();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_any_pieces() {
        let text =
            ": hello\r\nevent: endpoint\r\ndata: /message?id=1\r\n\r\nevent: message\ndata: {\ndata: }\nid: 7\n\n";
        let wanted = [("endpoint", "/message?id=1"), ("message", "{\n}")];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<(String, String)> =
                text.as_bytes().chunks(size).flat_map(|part| events.take(part)).collect();
            let found: Vec<(&str, &str)> = found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(found, wanted, "in pieces of {size}");
        }
    }
}
