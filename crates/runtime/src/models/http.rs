//! One call over HTTP, for every wire format: sends the JSON, reads the stream or the body, bounded.
//!
//! Knows no provider's fields: those are the formats'. What goes wrong is put into words in `refusal`.

use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use relais_engine::{Message, Reply, Request, Usage, tokens_of};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::draft::{Draft, broken};
use super::format::{Ask, Format, LiveFn, names_of, turn_of};
use super::refusal::{self, Origin};
use super::sse;
use crate::model::{BoxFuture, Model, ModelCall, ModelError, ModelFacts, Spoken};

/// An answer in one piece; the longest that any model gives is below 2 MiB.
pub const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// A whole stream. Each token travels in some 250 bytes of envelope, so this is room for 256,000 tokens.
const STREAM_MAX_BYTES: usize = 64 * 1024 * 1024;
/// An error page; only its first words are shown.
const ERROR_MAX_BYTES: usize = 64 * 1024;
/// A provider that does not even take the connection is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// The end of the transfer is nearly always in the same packet as the end marker.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);

/// A model behind an address.
pub struct HttpModel {
    pub format: Arc<dyn Format>,
    /// Without the provider's prefix.
    pub model: String,
    pub endpoint: Arc<Endpoint>,
    pub facts: ModelFacts,
    /// Longest silence: no byte of the answer for this long ends the try.
    pub stall: Duration,
}

/// Where a provider is and what opens it.
pub struct Endpoint {
    pub provider: String,
    /// Without a slash at its end.
    pub base_url: String,
    pub key: Option<String>,
    /// Where the key was looked for, for messages.
    pub key_variables: Vec<String>,
}

impl Model for HttpModel {
    fn call<'a>(&'a self, call: ModelCall<'a>) -> BoxFuture<'a, Result<Spoken, ModelError>> {
        Box::pin(async move { self.speak(&call).await.map_err(|error| self.masked(error)) })
    }

    fn facts(&self) -> ModelFacts {
        self.facts
    }

    fn has_schema_mode(&self) -> bool {
        self.format.has_schema_mode(&self.model)
    }
}

impl HttpModel {
    async fn speak(&self, call: &ModelCall<'_>) -> Result<Spoken, ModelError> {
        let names = names_of(call.request, call.tools);
        let ask = Ask { model: &self.model, request: call.request, tools: call.tools, names: &names };
        let response = self.send(&self.format.body(&ask), call.key).await?;
        let mut draft = Draft::default();
        self.read(response, &mut draft, call.live).await?;
        let mut spoken = draft.into_spoken(&names, turn_of(call.request))?;
        if spoken.usage.tokens() == 0 {
            spoken.usage = estimated(call.request, &spoken.reply);
        }
        Ok(spoken)
    }

    async fn send(&self, body: &Value, key: &str) -> Result<Response, ModelError> {
        let url = self.url();
        let client = client(&url)?;
        let request = client.post(url).headers(self.headers(key)?).json(body).build();
        let request = request.map_err(|error| refusal::bad_address(&self.origin(), &error))?;
        let sent = timeout(self.stall, client.execute(request)).await.map_err(|_| self.stalled())?;
        let response = sent.map_err(|error| refusal::unreachable(&self.origin(), &error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response).await) }
    }

    async fn read(&self, mut response: Response, draft: &mut Draft, live: LiveFn<'_>) -> Result<(), ModelError> {
        if media_type(&response) == "text/event-stream" {
            return self.read_stream(&mut response, draft, live).await;
        }
        let body = self.read_body(&mut response, BODY_MAX_BYTES).await?;
        self.read_text(&String::from_utf8_lossy(&body), draft, live)
    }

    async fn read_stream(
        &self,
        response: &mut Response,
        draft: &mut Draft,
        live: LiveFn<'_>,
    ) -> Result<(), ModelError> {
        let mut parser = sse::Parser::default();
        let mut bytes_read = 0;
        while let Some(bytes) = self.next_part(response, draft).await? {
            bytes_read += bytes.len();
            if bytes_read > STREAM_MAX_BYTES {
                return Err(refusal::too_large(&self.origin(), STREAM_MAX_BYTES));
            }
            for event in parser.push(&bytes).map_err(|error| broken(&error.to_string()))? {
                self.format.read_event(draft, &event, live)?;
            }
            if draft.ended {
                drain(response).await;
                return Ok(());
            }
        }
        parser.finish().map_or(Ok(()), |event| self.format.read_event(draft, &event, live))
    }

    /// What breaks after the stop reason takes nothing from the answer: asking again would be paying twice.
    async fn next_part(&self, response: &mut Response, draft: &Draft) -> Result<Option<Vec<u8>>, ModelError> {
        let part = self.next_chunk(response).await;
        if draft.finish.is_some() { Ok(part.unwrap_or(None)) } else { part }
    }

    /// A body whose media type does not say that it is a stream.
    fn read_text(&self, text: &str, draft: &mut Draft, live: LiveFn<'_>) -> Result<(), ModelError> {
        let start = text.trim_start();
        if start.starts_with('<') {
            return Err(refusal::html(&self.origin(), 200));
        }
        if start.starts_with("data:") || start.starts_with("event:") {
            return self.read_unmarked_stream(text, draft, live);
        }
        if start.is_empty() {
            return Err(broken(&format!("{} answered with an empty body", self.endpoint.provider)));
        }
        let json = serde_json::from_str(text)
            .map_err(|error| broken(&format!("{} answered with invalid JSON: {error}", self.endpoint.provider)))?;
        self.format.read_whole(draft, &json)
    }

    fn read_unmarked_stream(&self, text: &str, draft: &mut Draft, live: LiveFn<'_>) -> Result<(), ModelError> {
        let mut parser = sse::Parser::default();
        let events = parser.push(text.as_bytes()).map_err(|error| broken(&error.to_string()))?;
        for event in events.into_iter().chain(parser.finish()) {
            self.format.read_event(draft, &event, live)?;
        }
        Ok(())
    }

    async fn refused(&self, mut response: Response) -> ModelError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        // The status alone says enough where the page cannot be read.
        let body = self.read_body(&mut response, ERROR_MAX_BYTES).await.unwrap_or_default();
        // Before it is shortened: half a key is still a secret.
        let text = self.without_key(&String::from_utf8_lossy(&body));
        refusal::from_status(&self.origin(), status, &headers, &text)
    }

    async fn read_body(&self, response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next_chunk(response).await? {
            if body.len() + bytes.len() > max_bytes {
                return Err(refusal::too_large(&self.origin(), max_bytes));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    async fn next_chunk(&self, response: &mut Response) -> Result<Option<Vec<u8>>, ModelError> {
        let chunk = timeout(self.stall, response.chunk()).await.map_err(|_| self.stalled())?;
        Ok(chunk.map_err(|error| refusal::cut_off(&self.origin(), &error))?.map(Vec::from))
    }

    fn url(&self) -> String {
        format!("{}{}", self.endpoint.base_url, self.format.path(&self.model))
    }

    fn headers(&self, key: &str) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        for (name, text) in self.format.headers(self.endpoint.key.as_deref()) {
            let mut value = HeaderValue::from_str(&text).map_err(|_| refusal::unusable_key(&self.origin()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        if let Ok(value) = HeaderValue::from_str(key) {
            headers.insert(HeaderName::from_static("idempotency-key"), value);
        }
        Ok(headers)
    }

    fn stalled(&self) -> ModelError {
        broken(&format!("{} sent nothing for {}", self.endpoint.provider, refusal::duration_text(self.stall)))
    }

    fn origin(&self) -> Origin<'_> {
        Origin { provider: &self.endpoint.provider, url: self.url(), key_variables: &self.endpoint.key_variables }
    }

    fn masked(&self, error: ModelError) -> ModelError {
        ModelError { message: refusal::shortened(&self.without_key(&error.message)), ..error }
    }

    /// Providers repeat what they were sent; the key must not come out that way.
    fn without_key(&self, text: &str) -> String {
        match self.endpoint.key.as_deref() {
            Some(key) if !key.is_empty() => text.replace(key, "***"),
            Some(_) | None => text.to_owned(),
        }
    }
}

/// Reads the end of the transfer, so that the connection can serve the next call. Some servers keep it open after
/// their end marker: those are not waited for.
async fn drain(response: &mut Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // Out of time means only that the connection is not used again.
    let _ = timeout(DRAIN_TIMEOUT, rest).await;
}

/// What a call must have taken whose provider counts nothing: a budget that it escaped would be none.
fn estimated(request: &Request, reply: &Reply) -> Usage {
    let calls: usize = reply.calls.iter().map(|call| call.tool.len() + call.arguments.to_string().len()).sum();
    let prompt = tokens_of(request.messages.iter().map(Message::bytes).sum());
    let completion = tokens_of((reply.text.len() + calls) as u64);
    Usage { prompt, completion, estimated: prompt + completion, ..Usage::default() }
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The process's clients, each made at its first call: a run without a remote model should not pay for reading the
/// system's certificates.
fn client(url: &str) -> Result<&'static Client, ModelError> {
    static REMOTE: OnceLock<Result<Client, String>> = OnceLock::new();
    static LOCAL: OnceLock<Result<Client, String>> = OnceLock::new();
    let made = if is_local(url) {
        // Plain HTTP to this machine: needs no certificates, and no proxy could reach it.
        LOCAL.get_or_init(|| build(Client::builder().tls_certs_only([]).no_proxy()))
    } else {
        REMOTE.get_or_init(|| build(Client::builder()))
    };
    made.as_ref().map_err(|message| refusal::no_client(message))
}

fn build(builder: ClientBuilder) -> Result<Client, String> {
    install_crypto();
    builder
        // A redirect would carry the key to a host that nobody chose.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("relais/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}

fn is_local(url: &str) -> bool {
    let authority = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    matches!(host, "127.0.0.1" | "localhost" | "[::1]")
}

/// TLS needs a crypto provider before the first client; whoever comes first installs it for the process.
pub fn install_crypto() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An embedding program may have installed its own: that one is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}
