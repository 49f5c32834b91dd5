//! Outside work asked for, and what came back. The messages here are ours: providers' shapes stay in `runtime`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Blob, Millis, RunId, RunStatus, Stored};
use relais_plan::schema::{self, Violation};
use relais_plan::{Budget, Effect, People, Schema};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    CallModel {
        /// `provider/model`; empty means the configured default.
        model: String,
        /// What is said before this call. Earlier messages are in the journal already.
        say: Vec<Message>,
        reserve: Reserve,
        /// Tools that are offered from now on beside those of the agent, because what is said refers to what they read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lend: Vec<String>,
    },
    CallTool {
        tool: String,
        /// With `«value»` references put in.
        arguments: Value,
        effect: Effect,
        /// The model's own id of the call, where an agent asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        use_id: Option<String>,
    },
    /// `retry`: the pause before a failed step is tried again.
    Sleep {
        until: Millis,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry: bool,
    },
    AskPerson(Box<Question>),
    /// A named signal or an event from outside.
    Await(Awaiting),
    StartRun(Box<StartRun>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub question: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub show: Value,
    /// JSON Schema of the answer.
    pub answer: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// The tool call that waits for a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approves: Option<ToolUse>,
    #[serde(default, skip_serializing_if = "People::is_default")]
    pub people: People,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaiting {
    Signal(String),
    Event(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartRun {
    pub run: RunId,
    pub workflow: String,
    pub plan: String,
    pub input: Stored,
    /// What the child may use in all.
    pub budget: Budget,
    pub depth: u32,
    /// What was booked for this child before it came back short of budget.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub paid: Usage,
}

/// Set aside for a model call until its answer says what it really took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reserve {
    pub tokens: u64,
    pub usd_nanos: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        text: String,
    },
    User {
        text: String,
    },
    Assistant {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolUse>,
    },
    Tool {
        use_id: String,
        tool: String,
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
}

/// Bytes per token, where nobody has counted.
const BYTES_PER_TOKEN: u64 = 3;

/// About how many tokens so many bytes are.
pub fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

impl Message {
    /// About how many bytes of it a model reads.
    pub fn bytes(&self) -> u64 {
        match self {
            Message::System { text } | Message::User { text } | Message::Tool { text, .. } => text.len() as u64,
            Message::Assistant { text, calls } => {
                text.len() as u64 + calls.iter().map(|c| c.arguments.to_string().len() as u64 + 40).sum::<u64>()
            }
        }
    }
}

/// A tool call that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    pub id: String,
    pub tool: String,
    pub arguments: Value,
    /// What came instead of JSON arguments; `arguments` is null then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbled: Option<String>,
    /// Opaque provider data that must be sent back with the call (signatures of thinking models).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// What the performer sends to a model; made from the fold by `engine::request`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    pub model: String,
    pub messages: Vec<Message>,
    /// Names or patterns of the tools to offer.
    pub tools: Vec<String>,
    /// JSON Schema that the final answer must fit.
    pub output_schema: Option<Value>,
    pub max_tokens: Option<u32>,
    pub temperature: Option<f64>,
    /// What it is reckoned to take, for providers that count tokens by the minute.
    pub tokens: u64,
    /// Another model stands by; it is asked after one more try.
    pub has_spare: bool,
    /// A rate limit fails the call: the step's own retries are what waits.
    pub fails_when_limited: bool,
    /// Until the step's time is over.
    pub time_left_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub body: Body,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// How long it took, governor waits and transport retries included.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A model spoke.
    Replied(Reply),
    /// A tool returned.
    Returned {
        value: Stored,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        artifacts: Vec<Artifact>,
    },
    /// The time has come.
    Slept,
    /// A child run has ended.
    Ended {
        status: RunStatus,
        output: Stored,
        error: Option<Failure>,
    },
    Failed(Failure),
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolUse>,
    pub finish: Finish,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    ToolCalls,
    /// Cut off at the output limit.
    Length,
    /// The provider withheld the answer.
    Filtered,
}

/// A named file of the run; the fold gives it its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: String,
    pub blob: Blob,
    pub media_type: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub prompt: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub completion: u64,
    /// Part of `prompt` that was read from the provider's cache.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub cached: u64,
    /// Part of `completion` that was thought, not said.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub reasoning: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub usd_nanos: u64,
    /// Calls made, and transport tries beyond the first of each.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub model_calls: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub tool_calls: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub retries: u64,
    /// Tokens that nobody counted: part of `prompt` and `completion`, where the provider reported none.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub estimated: u64,
    /// How often and how long providers were waited for.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub waits: u64,
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub wait_ms: u64,
}

impl Usage {
    pub fn is_zero(&self) -> bool {
        *self == Usage::default()
    }

    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// What has come on top of an earlier figure.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            prompt: self.prompt.saturating_sub(earlier.prompt),
            completion: self.completion.saturating_sub(earlier.completion),
            cached: self.cached.saturating_sub(earlier.cached),
            reasoning: self.reasoning.saturating_sub(earlier.reasoning),
            usd_nanos: self.usd_nanos.saturating_sub(earlier.usd_nanos),
            model_calls: self.model_calls.saturating_sub(earlier.model_calls),
            tool_calls: self.tool_calls.saturating_sub(earlier.tool_calls),
            retries: self.retries.saturating_sub(earlier.retries),
            estimated: self.estimated.saturating_sub(earlier.estimated),
            waits: self.waits.saturating_sub(earlier.waits),
            wait_ms: self.wait_ms.saturating_sub(earlier.wait_ms),
        }
    }

    pub fn add(&mut self, other: &Usage) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
        self.cached = self.cached.saturating_add(other.cached);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.usd_nanos = self.usd_nanos.saturating_add(other.usd_nanos);
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.retries = self.retries.saturating_add(other.retries);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.waits = self.waits.saturating_add(other.waits);
        self.wait_ms = self.wait_ms.saturating_add(other.wait_ms);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Failure {
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// What was wanted and what came, for who looks closer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), detail: String::new() }
    }

    /// A value that does not fit its schema.
    pub fn misfit(what: &str, schema: &Schema, violations: &[Violation], value: &Value) -> Failure {
        let detail = schema.compared(value);
        Failure { kind: ErrorKind::Schema, message: schema::complaint(what, violations), detail }
    }

    /// All that is known of it.
    pub fn in_full(&self) -> String {
        if self.detail.is_empty() { self.message.clone() } else { format!("{}\n\n{}", self.message, self.detail) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    Config,
    Schema,
    Reference,
    Timeout,
    RateLimit,
    Transport,
    Provider,
    Tool,
    /// The agent's explicit failure.
    Refused,
    Budget,
    Loop,
    Limit,
    /// A `once` call may or may not have happened.
    Uncertain,
    Cancelled,
    /// Whoever works on the run dies of it, again and again.
    Crash,
    Internal,
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 16] = [
        ErrorKind::Config,
        ErrorKind::Schema,
        ErrorKind::Reference,
        ErrorKind::Timeout,
        ErrorKind::RateLimit,
        ErrorKind::Transport,
        ErrorKind::Provider,
        ErrorKind::Tool,
        ErrorKind::Refused,
        ErrorKind::Budget,
        ErrorKind::Loop,
        ErrorKind::Limit,
        ErrorKind::Uncertain,
        ErrorKind::Cancelled,
        ErrorKind::Crash,
        ErrorKind::Internal,
    ];

    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Config => "config",
            ErrorKind::Schema => "schema",
            ErrorKind::Reference => "reference",
            ErrorKind::Timeout => "timeout",
            ErrorKind::RateLimit => "rate_limit",
            ErrorKind::Transport => "transport",
            ErrorKind::Provider => "provider",
            ErrorKind::Tool => "tool",
            ErrorKind::Refused => "refused",
            ErrorKind::Budget => "budget",
            ErrorKind::Loop => "loop",
            ErrorKind::Limit => "limit",
            ErrorKind::Uncertain => "uncertain",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Crash => "crash",
            ErrorKind::Internal => "internal",
        }
    }
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

fn is_zero_u64(n: &u64) -> bool {
    *n == 0
}
