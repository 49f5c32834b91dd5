//! Over streamable HTTP, as a service to put at a path of a surrounding server, which says who calls.
//!
//! Three ways to talk are served at once: the handshake with a session, the handshake era without one, and the
//! stateless era. A request of the handshake era that names no session is served by itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ProtocolVersion, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, Shared};
use super::sessions::Sessions;
use super::{Caller, Offers, message};

/// A workflow with all its prompts is far below.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A body that takes longer is not meant to end.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Clients that talk in sessions at the same time; beyond it the one that was silent longest has to begin anew.
const SESSIONS_MAX: usize = 256;
/// A client that comes back later than this begins anew.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";

pub type HttpBody = BoxBody<Bytes, Infallible>;

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Under which names this server may be called. A page in a browser that has made its own name point to this
    /// machine is kept out by it.
    pub hosts: Hosts,
    /// Web pages that may call, as `https://name:port` or `https://name:*`. Programs send no origin and may always.
    pub origins: Vec<String>,
    pub body_bytes_max: usize,
    pub sessions_max: usize,
    pub session_idle: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Names, with a port or for any.
    Only(Vec<String>),
    /// Right only where something in front of this server checks it, or where every caller needs a token.
    Any,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            hosts: Hosts::Only(["localhost", "127.0.0.1", "::1"].map(String::from).into()),
            origins: ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(String::from).into(),
            body_bytes_max: BODY_BYTES_MAX,
            sessions_max: SESSIONS_MAX,
            session_idle: SESSION_IDLE,
        }
    }
}

/// A service for `axum::Router::route_service`, or anything else that speaks tower. The surrounding server puts a
/// [`Caller`] into the extensions of each request; a request without one is refused.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

struct Inner {
    with_sessions: StreamableHttpService<Handler, Sessions>,
    alone: StreamableHttpService<Handler, Sessions>,
    sessions: Arc<Sessions>,
    shared: Arc<Shared>,
    /// Ends the streams.
    ended: CancellationToken,
    body_bytes_max: usize,
}

pub fn http(offers: Arc<dyn Offers>, options: HttpOptions) -> Http {
    let shared = Shared::new(offers, None);
    let sessions = Arc::new(Sessions::new(options.sessions_max, options.session_idle));
    let ended = CancellationToken::new();
    let service = |has_sessions: bool| {
        let config = config(&options, has_sessions, ended.clone());
        let shared = shared.clone();
        StreamableHttpService::new(move || Ok(shared.handler()), sessions.clone(), config)
    };
    let (with_sessions, alone) = (service(true), service(false));
    let body_bytes_max = options.body_bytes_max;
    Http { inner: Arc::new(Inner { with_sessions, alone, sessions, shared, ended, body_bytes_max }) }
}

fn config(options: &HttpOptions, has_sessions: bool, ended: CancellationToken) -> StreamableHttpServerConfig {
    let hosts = match &options.hosts {
        // To the library an empty list means any, to us none; an empty name is in no request.
        Hosts::Only(names) => names.iter().cloned().chain([String::new()]).collect(),
        Hosts::Any => Vec::new(),
    };
    StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(options.origins.clone())
        .enforce_origin_validation()
        .with_legacy_session_mode(has_sessions)
        .with_json_response(true)
        .with_max_request_body_bytes(options.body_bytes_max)
        .with_cancellation_token(ended)
}

impl Http {
    /// Refuses new requests, cancels the calls at work, waits some seconds for them, and ends all streams, which
    /// would else keep the surrounding server from stopping.
    pub async fn close(&self) {
        self.inner.shared.end().await;
        self.inner.ended.cancel();
        self.inner.sessions.close_all().await;
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.count()
    }
}

impl<B> tower_service::Service<Request<B>> for Http
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { Ok(inner.answer(request).await.unwrap_or_else(|refused| *refused)) })
    }
}

type Answer = Result<Response<HttpBody>, Box<Response<HttpBody>>>;

impl Inner {
    async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.shared.is_ending() {
            return Err(plain(StatusCode::SERVICE_UNAVAILABLE, "This server is about to end."));
        }
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| plain(StatusCode::UNAUTHORIZED, "It is not known who calls."))?;
        let (parts, body) = request.into_parts();
        let body = self.collect(body).await?;
        self.route(Request::from_parts(parts, Full::new(body)), &caller).await
    }

    async fn collect<B>(&self, body: B) -> Result<Bytes, Box<Response<HttpBody>>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let body = std::pin::pin!(Limited::new(body, self.body_bytes_max));
        match tokio::time::timeout(BODY_TIME, body.collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(json(StatusCode::PAYLOAD_TOO_LARGE, &message::too_large(self.body_bytes_max)))
            }
            Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "The body broke off.")),
            Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "The body did not come in time.")),
        }
    }

    async fn route(&self, request: Request<Full<Bytes>>, caller: &Caller) -> Answer {
        if is_stateless(request.headers())
            && let Some(message) = self.understood(&request).await?
            && let Some(answer) = message::of_the_other_era(&message)
        {
            return Err(json(StatusCode::NOT_FOUND, &answer));
        }
        let id = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if let Some(id) = id {
            if self.sessions.is_of_another(&id, caller.name()) {
                // As if it were not there: whether it is, is not this caller's business.
                return Err(plain(StatusCode::NOT_FOUND, "Not Found: Session not found"));
            }
            self.understood(&request).await?;
            let ends = request.method() == Method::DELETE;
            let answer = self.with_sessions.handle(request).await;
            // What official clients take for a session that has ended; to some, 202 means that it has not.
            let is_over = ends && answer.status() == StatusCode::ACCEPTED;
            return Ok(if is_over { empty(StatusCode::NO_CONTENT) } else { answer });
        }
        if request.method() != Method::POST {
            return Ok(self.with_sessions.handle(request).await);
        }
        match self.understood(&request).await? {
            Some(message) if opens(&message) => self.open(request, caller).await,
            Some(_) => Ok(self.alone.handle(request).await),
            None => Ok(empty(StatusCode::ACCEPTED)),
        }
    }

    /// The message of a POST. The library reads it again; it would answer what is no message with other words.
    async fn understood(
        &self,
        request: &Request<Full<Bytes>>,
    ) -> Result<Option<ClientJsonRpcMessage>, Box<Response<HttpBody>>> {
        if request.method() != Method::POST {
            return Ok(None);
        }
        let Ok(collected) = request.body().clone().collect().await;
        message::read(&collected.to_bytes()).map_err(|answer| json(StatusCode::BAD_REQUEST, &answer))
    }

    async fn open(&self, request: Request<Full<Bytes>>, caller: &Caller) -> Answer {
        if !self.sessions.make_room().await {
            let words = "All sessions are in use; come back later, or talk without one.";
            return Err(plain(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        let response = self.with_sessions.handle(request).await;
        if let Some(id) = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()) {
            self.sessions.own(id, caller.name());
        }
        Ok(response)
    }
}

/// Does the request belong to the stateless era?
fn is_stateless(headers: &http::HeaderMap) -> bool {
    let version = headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    version == Some(ProtocolVersion::V_2026_07_28.as_str())
}

fn opens(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

fn plain(status: StatusCode, words: &'static str) -> Box<Response<HttpBody>> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(words.as_bytes()))
}

fn json(status: StatusCode, message: &ServerJsonRpcMessage) -> Box<Response<HttpBody>> {
    response(status, "application/json", serde_json::to_vec(message).unwrap_or_default().into())
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Box<Response<HttpBody>> {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    Box::new(response)
}

fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = status;
    response
}
