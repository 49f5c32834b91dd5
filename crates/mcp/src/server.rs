//! A server under supervision: started when needed, started again after it died, never waited for without end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::child::LastWords;
use crate::connection::Connection;
use crate::error::{Error, Kind, Trouble};

/// A server that failed is tried again after this, doubled with each further failure.
const BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A caller waits this long for the next try; beyond it the last error is the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How to reach it: `command` for a child process, `url` for streamable HTTP, or the HTTP transport before it. Values are
/// used as they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerConfig {
    pub command: Option<String>,
    pub args: Vec<String>,
    /// Besides PATH, HOME, LANG and TMPDIR; nothing else is passed on.
    pub env: BTreeMap<String, String>,
    pub url: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// None: the address is the operator's, and may be any.
    pub guard: Option<Guard>,
}

/// Decides about an address before it is called: the client that may call it, or why none may.
type Judge = dyn Fn(&str) -> Result<reqwest::ClientBuilder, String> + Send + Sync;

/// What stands before the address of a server whose name came from somebody who must not reach everything.
#[derive(Clone)]
pub struct Guard(Arc<Judge>);

impl Guard {
    /// The client must hold to the same decision for what a name resolves to. Redirects stay on the same origin.
    pub fn new(judge: impl Fn(&str) -> Result<reqwest::ClientBuilder, String> + Send + Sync + 'static) -> Guard {
        Guard(Arc::new(judge))
    }

    pub(crate) fn client(&self, url: &str) -> Result<reqwest::ClientBuilder, String> {
        (self.0)(url)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// The same only if it is the same one: a guarded server is never shared with one that is not.
impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Guard {}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For starting, and for listing tools.
    pub start: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { start: Duration::from_secs(30) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Changes nothing.
    pub read_only: bool,
    /// May be called again with the same arguments without further effect.
    pub idempotent: bool,
}

pub struct Server {
    name: String,
    config: ServerConfig,
    limits: Limits,
    state: Mutex<State>,
    /// Failures since the last good answer; beside the state, so that an answer never waits for a start.
    failures: AtomicU32,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// When it may be tried again, and why not before.
    last: Option<(Instant, Error)>,
}

impl Server {
    /// Starts nothing yet.
    pub fn new(name: impl Into<String>, config: ServerConfig, limits: Limits) -> Server {
        Server { name: name.into(), config, limits, state: Mutex::default(), failures: AtomicU32::new(0) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tools; listed again when the server says that they changed, and after a restart.
    pub async fn list_tools(&self) -> Result<Arc<[RemoteTool]>, Error> {
        let connection = self.connection().await?;
        let listed = connection.tools(self.limits).await;
        self.settle(&connection, listed).await
    }

    /// One call. Dropping it tells the server that the answer is no longer wanted.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        key: &str,
        timeout: Duration,
    ) -> Result<Value, Error> {
        let connection = self.connection().await?;
        let called = connection.call(tool, arguments, key, timeout).await;
        self.settle(&connection, called).await
    }

    /// The protocol version agreed on; starts the server.
    pub async fn protocol(&self) -> Result<String, Error> {
        Ok(self.connection().await?.protocol())
    }

    /// Ends the process and all that it started. The next call starts it again.
    pub async fn stop(&self) {
        let connection = self.state.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// The lock is held while starting, so that a server is started once however many want it.
    async fn connection(&self) -> Result<Arc<Connection>, Error> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if connection.is_alive().await {
                return Ok(connection.clone());
            }
            state.connection = None;
        }
        self.wait_for_turn(&state).await?;
        let started = self.start().await;
        match &started {
            Ok(connection) => {
                state.connection = Some(connection.clone());
                state.last = None;
            }
            Err(error) => self.failed(&mut state, error.clone()),
        }
        started
    }

    async fn start(&self) -> Result<Arc<Connection>, Error> {
        let words = LastWords::default();
        let time = self.limits.start;
        let late = |_| Trouble::new(Kind::Timeout, format!("it did not begin to talk within {time:?}"));
        let started = tokio::time::timeout(time, Connection::start(&self.config, &words, time)).await.map_err(late);
        match started.and_then(|started| started) {
            Ok(connection) => Ok(Arc::new(connection)),
            Err(trouble) => Err(trouble.of(&self.name, &words.text())),
        }
    }

    /// A good answer clears the record; a lost connection is let go, and counts.
    async fn settle<T>(&self, used: &Arc<Connection>, outcome: Result<T, Trouble>) -> Result<T, Error> {
        let trouble = match outcome {
            Ok(value) => {
                self.failures.store(0, Ordering::Relaxed);
                return Ok(value);
            }
            Err(trouble) => trouble,
        };
        // A tool that failed speaks for itself.
        let said = if trouble.kind == Kind::Tool { String::new() } else { used.words.text() };
        let error = trouble.of(&self.name, &said);
        if error.kind == Kind::Unreachable {
            self.let_go(used, &error).await;
        }
        Err(error)
    }

    async fn let_go(&self, used: &Arc<Connection>, error: &Error) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, used)) {
            state.connection = None;
            self.failed(&mut state, Error { sent: false, ..error.clone() });
        }
    }

    fn failed(&self, state: &mut State, error: Error) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let delay = BACKOFF.saturating_mul(1 << before.min(16)).min(BACKOFF_MAX);
        state.last = Some((Instant::now() + delay, error));
    }

    async fn wait_for_turn(&self, state: &State) -> Result<(), Error> {
        let Some((at, error)) = &state.last else { return Ok(()) };
        let left = at.saturating_duration_since(Instant::now());
        if left > PATIENCE {
            let times = self.failures.load(Ordering::Relaxed);
            let message = format!("{} (failed {times} times; next try in {left:.0?})", error.message);
            return Err(Error { message, ..error.clone() });
        }
        tokio::time::sleep(left).await;
        Ok(())
    }
}

impl From<rmcp::model::Tool> for RemoteTool {
    fn from(tool: rmcp::model::Tool) -> RemoteTool {
        let hints = tool.annotations.unwrap_or_default();
        RemoteTool {
            name: tool.name.into_owned(),
            description: tool.description.map_or_else(String::new, |text| text.into_owned()),
            parameters: Value::Object((*tool.input_schema).clone()),
            read_only: hints.read_only_hint == Some(true),
            idempotent: hints.idempotent_hint == Some(true),
        }
    }
}
