//! One live connection to a server: started in either era of the protocol, then asked for tools and called.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientConfig, ClientRequest, ErrorCode, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, RequestMetaObject, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, NotificationContext, Peer, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport, Transport};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Map, Value};

use crate::child::{Child, LastWords, Meter};
use crate::content;
use crate::error::{Kind, Trouble};
use crate::lent::Lender;
use crate::server::{Limits, RemoteTool, ServerConfig};
use crate::sse::{self, Sse};

/// More tools than any model can choose from.
const TOOLS_MAX: usize = 1_000;
/// A server whose list has no end is cut off here.
const PAGES_MAX: usize = 100;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const REDIRECTS_MAX: usize = 5;
/// How long a server that let a call time out may take for a sign of life.
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(3);
/// Under which name a call carries its idempotency key.
const KEY_FIELD: &str = "relais/idempotencyKey";

pub struct Connection {
    service: RunningService<RoleClient, Listener>,
    /// Killed with the connection.
    child: tokio::sync::Mutex<Option<Child>>,
    pub words: LastWords,
    meter: Meter,
    tools: Mutex<Option<Arc<[RemoteTool]>>>,
    changed: Arc<AtomicBool>,
    /// A call has timed out since the last sign of life.
    doubtful: AtomicBool,
}

/// Hears that the list of tools has changed.
#[derive(Clone, Default)]
struct Listener {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        // What the handshake asks for; the stateless era is found by asking for it.
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.client_info = Implementation::new("relais", env!("CARGO_PKG_VERSION"));
        info
    }
}

impl Connection {
    /// Asks in both eras. A program that ends at the first message it does not know is started once more, for the old
    /// handshake alone; an address is also asked in the transport of 2024-11-05.
    pub async fn start(config: &ServerConfig, words: &LastWords, time: Duration) -> Result<Connection, Trouble> {
        let opened = match (&config.command, &config.url) {
            (Some(program), None) => Connection::of_program(program, config, words, Some(era_time(time))).await,
            (None, Some(url)) => Connection::of_address(url, config, words, both_eras()).await,
            _ => return Err(Trouble::new(Kind::Config, "give it either a `command` or a `url`, and not both")),
        };
        let trouble = match opened {
            Err(trouble) if trouble.kind == Kind::Unreachable => trouble,
            other => return other,
        };
        let again = match (&config.command, &config.url) {
            (Some(program), _) => Connection::of_program(program, config, words, None).await,
            (None, Some(url)) => Connection::in_older_ways(url, config, words).await,
            (None, None) => return Err(trouble),
        };
        again.map_err(|second| if second.kind == Kind::Config { second } else { trouble })
    }

    /// The old handshake, then the transport before it.
    async fn in_older_ways(url: &str, config: &ServerConfig, words: &LastWords) -> Result<Connection, Trouble> {
        match Connection::of_address(url, config, words, ClientLifecycleMode::Initialize).await {
            Err(trouble) if trouble.kind == Kind::Unreachable => Connection::of_events(url, config, words).await,
            other => other,
        }
    }

    /// `stateless`: how long the server may take to answer in that era before it is asked in the other, on the same
    /// pipes; none: it is asked in the other at once.
    async fn of_program(
        program: &str,
        config: &ServerConfig,
        words: &LastWords,
        stateless: Option<Duration>,
    ) -> Result<Connection, Trouble> {
        let (listener, meter) = (Listener::default(), Meter::default());
        let started = Child::start(program, &config.args, &config.env, words, &meter);
        let (mut child, pipes) = started.map_err(|error| cannot_start(program, &error))?;
        let lender = Lender::new(AsyncRwTransport::new_client(pipes.stdout, pipes.stdin));
        let served = match stateless {
            Some(time) => asked_first(&lender, &listener, time).await,
            None => None,
        };
        let served = match (served, lender.lend(false)) {
            (Some(served), _) => served,
            (None, Some(pipes)) => listener.clone().serve_with_lifecycle(pipes, ClientLifecycleMode::Initialize).await,
            (None, None) => Err(ClientInitializeError::ConnectionClosed("the pipes are gone".to_owned())),
        };
        match served {
            Ok(service) => Ok(Connection::new(service, Some(child), listener, words, meter)),
            Err(error) => Err(not_served(&error, child.ending().await, &meter)),
        }
    }

    async fn of_address(
        url: &str,
        config: &ServerConfig,
        words: &LastWords,
        mode: ClientLifecycleMode,
    ) -> Result<Connection, Trouble> {
        let (listener, meter) = (Listener::default(), Meter::default());
        let served = listener.clone().serve_with_lifecycle(http_transport(url, config)?, mode).await;
        let service = served.map_err(|error| not_served(&error, None, &meter))?;
        Ok(Connection::new(service, None, listener, words, meter))
    }

    async fn of_events(url: &str, config: &ServerConfig, words: &LastWords) -> Result<Connection, Trouble> {
        let (listener, meter) = (Listener::default(), Meter::default());
        let (client, headers) = http_client(url, config)?;
        let opened = Sse::open(client, url, headers).await;
        let opened = opened.map_err(|error| Trouble::new(Kind::Unreachable, chain(&error)))?;
        let served = listener.clone().serve_with_lifecycle(opened, ClientLifecycleMode::Initialize).await;
        let service = served.map_err(|error| not_served(&error, None, &meter))?;
        Ok(Connection::new(service, None, listener, words, meter))
    }

    fn new(
        service: RunningService<RoleClient, Listener>,
        child: Option<Child>,
        listener: Listener,
        words: &LastWords,
        meter: Meter,
    ) -> Connection {
        let Listener { changed } = listener;
        subscribe(service.peer(), &changed);
        let (child, words) = (tokio::sync::Mutex::new(child), words.clone());
        let (tools, doubtful) = (Mutex::default(), AtomicBool::new(false));
        Connection { service, child, words, meter, tools, changed, doubtful }
    }

    /// Kills the process even while calls are on their way; they fail.
    pub async fn close(&self) {
        self.service.cancellation_token().cancel();
        *self.child.lock().await = None;
    }

    pub fn protocol(&self) -> String {
        self.peer().peer_info().map_or_else(String::new, |info| info.protocol_version.to_string())
    }

    /// Worth another request. A server that let a call time out must first give a sign of life: any answer.
    pub async fn is_alive(&self) -> bool {
        if self.peer().is_transport_closed() || self.meter.is_flooded() {
            return false;
        }
        if !self.doubtful.load(Ordering::Acquire) {
            return true;
        }
        // Not `list_tools`, which may answer from a cache.
        let page = self.peer().send_request(ClientRequest::ListToolsRequest(ListToolsRequest::default()));
        let answers = !matches!(
            tokio::time::timeout(SIGN_OF_LIFE_TIMEOUT, page).await,
            Err(_) | Ok(Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)))
        );
        self.doubtful.store(!answers, Ordering::Release);
        answers
    }

    pub async fn tools(&self, limits: Limits) -> Result<Arc<[RemoteTool]>, Trouble> {
        let has_changed = self.changed.swap(false, Ordering::AcqRel);
        if let Some(known) = self.known_tools().filter(|_| !has_changed) {
            return Ok(known);
        }
        self.meter.reset();
        let late = |_| Trouble::new(Kind::Timeout, format!("it did not list its tools within {:?}", limits.start));
        let listed: Arc<[RemoteTool]> = tokio::time::timeout(limits.start, self.list()).await.map_err(late)??.into();
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed.clone());
        Ok(listed)
    }

    fn known_tools(&self) -> Option<Arc<[RemoteTool]>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn list(&self) -> Result<Vec<RemoteTool>, Trouble> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let mut page = PaginatedRequestParams::default();
            page.cursor = cursor;
            let result = match self.peer().list_tools(Some(page)).await {
                Ok(result) => result,
                Err(error) => return Err(self.lost(error, false).await),
            };
            tools.extend(result.tools.into_iter().map(RemoteTool::from));
            if tools.len() > TOOLS_MAX {
                return Err(Trouble::new(Kind::Protocol, format!("it lists more than {TOOLS_MAX} tools")));
            }
            cursor = result.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(Trouble::new(Kind::Protocol, format!("its list of tools does not end after {PAGES_MAX} pages")))
    }

    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        key: &str,
        timeout: Duration,
    ) -> Result<Value, Trouble> {
        self.meter.reset();
        let answer = tokio::time::timeout(timeout, self.peer().call_tool_once(request(tool, arguments, key)));
        let Ok(answer) = answer.await else {
            self.doubtful.store(true, Ordering::Release);
            return Err(Trouble::after_sending(Kind::Timeout, format!("`{tool}` did not answer within {timeout:?}")));
        };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return Err(self.lost(error, true).await),
        };
        match response {
            CallToolResponse::Complete(result) if result.is_error == Some(true) => {
                Err(Trouble::new(Kind::Tool, content::text(&result)))
            }
            CallToolResponse::Complete(result) => Ok(content::value(result)),
            CallToolResponse::InputRequired(_) => {
                Err(Trouble::new(Kind::Protocol, format!("`{tool}` asks for input in the middle of a call")))
            }
            _ => Err(Trouble::after_sending(Kind::Protocol, format!("`{tool}` went on as a background task"))),
        }
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    async fn lost(&self, error: ServiceError, is_call: bool) -> Trouble {
        match &error {
            ServiceError::McpError(refused) => Trouble::new(Kind::Tool, refused.message.to_string()),
            ServiceError::TransportSend(failed) if is_undelivered(failed.error.as_ref()) => {
                Trouble::new(Kind::Unreachable, chain(&error))
            }
            ServiceError::UnexpectedResponse => Trouble { kind: Kind::Protocol, message: chain(&error), sent: is_call },
            _ => Trouble { kind: Kind::Unreachable, message: self.loss(&error).await, sent: is_call },
        }
    }

    async fn loss(&self, error: &ServiceError) -> String {
        if self.meter.is_flooded() {
            return "it floods its output".to_owned();
        }
        let mut child = self.child.lock().await;
        let ended = match child.as_mut() {
            Some(child) => child.ending().await,
            None => None,
        };
        match (ended, error) {
            (Some(ended), _) => ended,
            (None, ServiceError::TransportClosed) => "the connection was lost".to_owned(),
            (None, other) => chain(other),
        }
    }
}

/// In the stateless era a server tells of changes only to those who ask. The task ends with the connection.
fn subscribe(peer: &Peer<RoleClient>, changed: &Arc<AtomicBool>) {
    let Some(info) = peer.peer_info() else { return };
    let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
    if info.protocol_version.has_initialize() || !tells {
        return;
    }
    let (peer, changed) = (peer.clone(), changed.clone());
    tokio::spawn(async move {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        // Something may have changed before the server listened.
        changed.store(true, Ordering::Release);
        while let Ok(Some(_)) = subscription.next().await {
            changed.store(true, Ordering::Release);
        }
    });
}

/// Most of the time to begin; the rest is for the old handshake, with servers that do not answer what they do not know.
fn era_time(start: Duration) -> Duration {
    start * 2 / 3
}

type Served = Result<RunningService<RoleClient, Listener>, ClientInitializeError>;

/// What came of asking in the stateless era; none: the server is of the other era, or does not say, and its pipes are
/// as they were.
async fn asked_first<T>(lender: &Lender<T>, listener: &Listener, time: Duration) -> Option<Served>
where
    T: Transport<RoleClient> + Send + 'static,
{
    let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let asked = listener.clone().serve_with_lifecycle(lender.lend(true)?, mode);
    match tokio::time::timeout(time, asked).await {
        Ok(Err(ClientInitializeError::JsonRpcError(error))) if !is_of_stateless_era(error.code) => None,
        Ok(served) => Some(served),
        Err(_) => None,
    }
}

/// Errors that only a server of that era gives.
fn is_of_stateless_era(code: ErrorCode) -> bool {
    [ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, ErrorCode::HEADER_MISMATCH].contains(&code)
}

fn both_eras() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
}

fn request(tool: &str, arguments: Map<String, Value>, key: &str) -> CallToolRequestParams {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    let mut meta = RequestMetaObject::default();
    meta.insert(KEY_FIELD.to_owned(), key.into());
    params.meta = Some(meta);
    params.arguments = Some(arguments);
    params
}

type Headers = HashMap<HeaderName, HeaderValue>;

pub(crate) fn http_transport(
    url: &str,
    config: &ServerConfig,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Trouble> {
    let (client, headers) = http_client(url, config)?;
    let settings = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    Ok(StreamableHttpClientTransport::with_client(client, settings))
}

fn http_client(url: &str, config: &ServerConfig) -> Result<(reqwest::Client, Headers), Trouble> {
    let bad = |text: String| Trouble::new(Kind::Config, text);
    // A second call changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = match &config.guard {
        Some(guard) => guard.client(url).map_err(bad)?,
        None => reqwest::Client::builder(),
    };
    let client = client.connect_timeout(CONNECT_TIMEOUT).redirect(same_origin());
    let client = client.build().map_err(|error| bad(format!("no HTTP client can be made: {error}")))?;
    let mut headers = HashMap::new();
    for (name, value) in &config.headers {
        let key = HeaderName::try_from(name).map_err(|_| bad(format!("`{name}` is no header name")))?;
        // The value is left out: it may be a secret.
        let value =
            HeaderValue::try_from(value).map_err(|_| bad(format!("header `{name}` has a value no header may have")))?;
        headers.insert(key, value);
    }
    Ok((client, headers))
}

/// Headers may hold secrets, and these are for one server only.
fn same_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let is_same = attempt.previous().first().is_some_and(|from| from.origin() == attempt.url().origin());
        if is_same && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
    })
}

fn cannot_start(program: &str, error: &std::io::Error) -> Trouble {
    Trouble::new(Kind::Config, format!("`{program}` cannot be started: {error}"))
}

fn not_served(error: &ClientInitializeError, ended: Option<String>, meter: &Meter) -> Trouble {
    let reason = match ended {
        _ if meter.is_flooded() => "it floods its output".to_owned(),
        Some(ended) => ended,
        None => chain(error),
    };
    Trouble::new(Kind::Unreachable, format!("it does not begin to talk: {reason}"))
}

/// Certain not to have been performed: no connection, or an answer that refuses the request.
fn is_undelivered(error: &(dyn StdError + Send + Sync + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<sse::Error>() {
        return error.is_undelivered();
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => {
            error.is_connect() || error.status().is_some_and(|s| s.is_client_error())
        }
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => true,
        Some(StreamableHttpError::HttpStatus(answer)) => answer.status < 500,
        Some(StreamableHttpError::SessionExpired) => true,
        _ => false,
    }
}

/// How the protocol library begins to quote an answer that it does not understand.
const QUOTING: &str = "unexpected server response: ";

/// What the other side sent is not repeated: it may be anything, and whoever reads the error need not be allowed to
/// see it. The status of an answer is.
fn without_body(text: String) -> String {
    let Some((before, said)) = text.split_once(QUOTING) else { return text };
    let status = said.strip_prefix("HTTP ").and_then(|rest| rest.get(..3));
    match status.filter(|status| status.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(status) => format!("{before}it answered HTTP {status}"),
        None => format!("{before}it answered with something that is not MCP"),
    }
}

/// The error with its causes, each said once.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let error = bare(error);
    let mut text = without_body(error.to_string());
    let mut at = cause(error);
    while let Some(cause) = at {
        let words = without_body(cause.to_string());
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        at = self::cause(cause);
    }
    text
}

/// What went wrong, without what the library wraps it in: that names types, and steps of the library's own.
fn bare<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let wrapped = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(ClientInitializeError::TransportError { error, .. }), ..) => error,
        (_, Some(ServiceError::TransportSend(error)), _) => error,
        (.., Some(error)) => error,
        _ => return error,
    };
    let DynamicTransportError { error, .. } = wrapped;
    bare(error.as_ref())
}

/// Some errors of the protocol library have a cause and do not give it as their source.
fn cause<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    if let Some(ClientInitializeError::LegacyFallbackFailed { fallback, .. }) = error.downcast_ref() {
        return Some(bare(fallback.as_ref()));
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        _ => error.source().map(bare),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_library_are_not_named() {
        let refused = std::io::Error::other("connection refused");
        let wrapped =
            DynamicTransportError::from_parts("rmcp::Worker<T>", std::any::TypeId::of::<()>(), refused.into());
        assert_eq!(chain(&ServiceError::TransportSend(wrapped)), "connection refused");
    }

    #[test]
    fn what_the_other_side_sent_is_not_repeated() {
        let check = |text: &str, wanted: &str| assert_eq!(without_body(text.to_owned()), wanted);
        check("no route", "no route");
        check("Send: unexpected server response: HTTP 500 Oops: private, when x", "Send: it answered HTTP 500");
        check("unexpected server response: private", "it answered with something that is not MCP");
        check("unexpected server response: HTTP aé private", "it answered with something that is not MCP");
    }
}
