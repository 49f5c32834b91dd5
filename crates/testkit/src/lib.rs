//! A model server for tests: real HTTP on 127.0.0.1, every wire format, and misbehaviour to order.
//!
//! ```no_run
//! use relais_testkit::{Behaviour, ModelServer, Said};
//!
//! let server = ModelServer::start();
//! server.push(Behaviour::status(429).header("retry-after-ms", "20"));
//! server.push(Behaviour::say("hello"));
//! // point OPENAI_BASE_URL at server.openai_url(), run, then:
//! assert_eq!(server.received().len(), 2);
//! ```
//!
//! What answers a request, in this order: the queue (`push`), the rule (`answer_by`), the fallback (`always`), and
//! where nothing was set, the word `ok`. The server runs on its own thread, so it serves blocking tests and tests with
//! a paused clock alike; it ends when the last clone of it is dropped.
//!
//! Knows nothing of the crates it tests.

mod wire;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

pub use wire::{AskedCall, Said, Wire};

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// In lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// Null where the body was not JSON.
    pub body: Value,
    pub at: Instant,
    /// The other end; the same port means the same connection.
    pub peer: SocketAddr,
    /// How many requests came before this one.
    pub number: usize,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The format that the path asks for.
    pub fn wire(&self) -> Wire {
        Wire::of_path(&self.path)
    }
}

/// What the server does with one request.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// A proper reply, streamed if the request asks for it.
    Say(Said),
    /// A proper reply in one piece, also where a stream was asked for.
    Whole(Said),
    /// A stream that ends without its end marker.
    Half(Said),
    /// A stream that stays open and silent after its first event.
    Stall(Said),
    /// A whole stream, end marker included, whose connection then stays open.
    Linger(Said),
    /// Takes the request and never answers.
    Silence,
    /// A stream whose connection breaks in the middle.
    Break(Said),
    /// Any status, headers and body.
    Raw { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// The same, later.
    After(Duration, Box<Behaviour>),
    /// The same, when the test has opened the gate.
    Behind(Gate, Box<Behaviour>),
}

/// Holds answers back until a test lets them go: what a pause would do, without a guess at how long it must be.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn opened(&self) {
        // The sender lives as long as this gate, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Behaviour {
    pub fn say(text: &str) -> Behaviour {
        Behaviour::Say(Said::text(text))
    }

    /// An error in the shape that providers give it.
    pub fn status(status: u16) -> Behaviour {
        Behaviour::body(status, "application/json", format!(r#"{{"error":{{"message":"status {status} to order"}}}}"#))
    }

    pub fn html(status: u16) -> Behaviour {
        Behaviour::body(status, "text/html; charset=utf-8", "<!doctype html><html><body>Welcome!</body></html>")
    }

    pub fn redirect(to: &str) -> Behaviour {
        Behaviour::body(307, "text/plain", "").header("location", to)
    }

    pub fn body(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Behaviour {
        Behaviour::Raw { status, headers: vec![("content-type".into(), media_type.into())], body: body.into() }
    }

    /// With one more header; only `Raw` answers have headers of their own.
    pub fn header(mut self, name: &str, value: &str) -> Behaviour {
        if let Behaviour::Raw { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub fn after(self, delay: Duration) -> Behaviour {
        Behaviour::After(delay, Box::new(self))
    }

    pub fn behind(self, gate: &Gate) -> Behaviour {
        Behaviour::Behind(gate.clone(), Box::new(self))
    }
}

type Rule = Arc<dyn Fn(&Received) -> Behaviour + Send + Sync>;

/// The handle of a test; clones are the same server.
#[derive(Clone)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: Arc<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<VecDeque<Behaviour>>,
    rule: Mutex<Option<Rule>>,
    fallback: Mutex<Option<Behaviour>>,
    received: Mutex<Vec<Received>>,
    came: Condvar,
}

impl ModelServer {
    /// Starts on a free port and returns when it listens.
    #[allow(clippy::expect_used, reason = "a test cannot go on without its server")]
    pub fn start() -> ModelServer {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let (listening, address) = mpsc::channel();
        let for_thread = shared.clone();
        std::thread::spawn(move || serve(for_thread, listening, stopped));
        let address = address.recv().expect("the model server starts");
        ModelServer { address, shared, _stop: Arc::new(stop) }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// For `OPENAI_BASE_URL`; `ANTHROPIC_BASE_URL` and `GEMINI_BASE_URL` take [`ModelServer::url`].
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Answers the next request that nothing before it in the queue answers.
    pub fn push(&self, behaviour: Behaviour) {
        lock(&self.shared.queue).push_back(behaviour);
    }

    /// Answers by what was asked, once the queue is empty.
    pub fn answer_by(&self, rule: impl Fn(&Received) -> Behaviour + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Some(Arc::new(rule));
    }

    /// Answers everything that queue and rule do not.
    pub fn always(&self, behaviour: Behaviour) {
        *lock(&self.shared.fallback) = Some(behaviour);
    }

    /// All requests so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// Blocks until that many requests have come; false if they have not after `limit`.
    pub fn wait_for(&self, count: usize, limit: Duration) -> bool {
        let too_few = |log: &mut Vec<Received>| log.len() < count;
        let log = lock(&self.shared.received);
        let waited = self.shared.came.wait_timeout_while(log, limit, too_few);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Shared {
    fn behaviour(&self, received: &Received) -> Behaviour {
        if let Some(next) = lock(&self.queue).pop_front() {
            return next;
        }
        let rule = lock(&self.rule).clone();
        if let Some(rule) = rule {
            return rule(received);
        }
        lock(&self.fallback).clone().unwrap_or_else(|| Behaviour::say("ok"))
    }
}

#[allow(clippy::expect_used, reason = "a test cannot go on without its server")]
fn serve(shared: Arc<Shared>, listening: mpsc::Sender<SocketAddr>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        // The test may have gone already; then there is nobody to tell.
        let _ = listening.send(listener.local_addr().expect("a bound listener has an address"));
        let app = Router::new().fallback(handle).with_state(shared);
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        // Not graceful: open streams that stall on purpose would keep the thread for ever.
        tokio::select! {
            served = async { axum::serve(listener, app).await } => drop(served),
            _ = stopped => {}
        }
    });
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    // Half a request is recorded as it came: without a body.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let received = record(&shared, &parts, peer, &body);
    let mut behaviour = shared.behaviour(&received);
    loop {
        behaviour = match behaviour {
            Behaviour::After(delay, then) => {
                tokio::time::sleep(delay).await;
                *then
            }
            Behaviour::Behind(gate, then) => {
                gate.opened().await;
                *then
            }
            now => return respond(now, &received).await,
        }
    }
}

fn record(shared: &Shared, parts: &Parts, peer: SocketAddr, body: &[u8]) -> Received {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut log = lock(&shared.received);
    let received = Received {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: serde_json::from_slice(body).unwrap_or_default(),
        at: Instant::now(),
        peer,
        number: log.len(),
    };
    log.push(received.clone());
    shared.came.notify_all();
    received
}

async fn respond(behaviour: Behaviour, received: &Received) -> Response {
    let wire = received.wire();
    let streamed = wire.is_stream_asked(&received.path, &received.body);
    match behaviour {
        Behaviour::Say(said) if streamed => stream(wire.events(&said), Ending::Clean),
        Behaviour::Say(said) | Behaviour::Whole(said) => json(&wire.whole(&said)),
        Behaviour::Half(said) => stream(half(wire.events(&said)), Ending::Clean),
        Behaviour::Break(said) => stream(half(wire.events(&said)), Ending::Broken),
        Behaviour::Stall(said) => stream(wire.events(&said).into_iter().take(1).collect(), Ending::Never),
        Behaviour::Linger(said) => stream(wire.events(&said), Ending::Never),
        Behaviour::Silence => futures::future::pending().await,
        Behaviour::Raw { status, headers, body } => raw(status, &headers, body),
        Behaviour::After(..) | Behaviour::Behind(..) => raw(500, &[], b"a delay within a delay".to_vec()),
    }
}

enum Ending {
    Clean,
    Broken,
    Never,
}

fn half(mut events: Vec<String>) -> Vec<String> {
    events.truncate((events.len() / 2).max(1));
    events
}

fn stream(events: Vec<String>, ending: Ending) -> Response {
    let said = futures::stream::iter(events.into_iter().map(Ok::<String, std::io::Error>));
    let body = match ending {
        Ending::Clean => Body::from_stream(said),
        Ending::Broken => {
            let cut = std::io::Error::other("broken to order");
            // The pause lets what was said reach the other side before the connection breaks.
            let last = futures::stream::once(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(cut)
            });
            Body::from_stream(said.chain(last))
        }
        Ending::Never => Body::from_stream(said.chain(futures::stream::pending())),
    };
    with_header("text/event-stream", body)
}

fn json(value: &Value) -> Response {
    with_header("application/json", Body::from(value.to_string()))
}

fn with_header(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", axum::http::HeaderValue::from_static(media_type));
    response
}

fn raw(status: u16, headers: &[(String, String)], body: Vec<u8>) -> Response {
    let mut builder = Response::builder().status(StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT));
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(body)).unwrap_or_else(|error| Response::new(Body::from(error.to_string())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
