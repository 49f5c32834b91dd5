//! What a model is to us: a request in our words, a reply in our words. One implementation per wire format.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use relais_engine::{ErrorKind, Reply, Request, Usage};

use crate::tool::ToolSpec;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A provider's model. Adding one means implementing this and registering it with [`crate::models::Models`].
pub trait Model: Send + Sync {
    /// One try. Transport retries, the governor and time-outs are the caller's.
    fn call<'a>(&'a self, call: ModelCall<'a>) -> BoxFuture<'a, Result<Spoken, ModelError>>;

    /// Dollars and context size, where known.
    fn facts(&self) -> ModelFacts {
        ModelFacts::default()
    }

    /// The provider can be held to a JSON Schema itself.
    fn has_schema_mode(&self) -> bool {
        false
    }
}

pub struct ModelCall<'a> {
    pub request: &'a Request,
    /// The tools to offer, resolved.
    pub tools: &'a [ToolSpec],
    /// Stable over retries and restarts.
    pub key: &'a str,
    /// Text as it comes, for screens; beside the machine, never through it.
    pub live: &'a (dyn Fn(Live<'_>) + Send + Sync),
}

pub enum Live<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// Nothing is said: the provider is waited for.
    Waiting(&'a str),
}

#[derive(Debug, Clone)]
pub struct Spoken {
    pub reply: Reply,
    /// Tokens as the provider counted them; cost is put in by the caller from the price table.
    pub usage: Usage,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct ModelError {
    /// `transport` and 5xx `provider` errors are tried again, `rate_limit` waits at the governor, others are final.
    pub kind: ErrorKind,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// Worth another try, or the next model of a fallback list.
    pub transient: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelFacts {
    pub context_tokens: Option<u64>,
    /// Billionths of a dollar per token.
    pub prompt_nanos: Option<u64>,
    pub cached_nanos: Option<u64>,
    pub completion_nanos: Option<u64>,
}
