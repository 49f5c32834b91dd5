//! What we offer to others over MCP: the trait that a surface implements, and the types it speaks in.
//!
//! [`stdio`](serve_stdio) and [`http`] carry it in both eras of the protocol. What a tool does is no business of this
//! crate; that its arguments fit its schema is, so that every tool refuses a wrong call in the same helpful words.

mod arguments;
mod call;
mod changes;
mod handler;
mod http;
mod message;
mod progress;
mod relay;
mod render;
mod sessions;
mod stdio;

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::broadcast;

pub use http::{Hosts, Http, HttpBody, HttpOptions, http};
pub use progress::{Cancelled, Progress};
pub use relay::relay_stdio;
pub use stdio::{serve_pipes, serve_stdio};

/// A list that has more pages than this is not searched for a tool's name any further.
const PAGES_MAX: usize = 100;

pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send + 'a>>;

/// What is offered. Every method is told who calls, and gives each caller what that caller may see.
pub trait Offers: Send + Sync + 'static {
    /// Told to every client when it connects: what this is, and where to begin.
    fn instructions(&self) -> String;

    /// One page of the tools, from the cursor that the page before ended with.
    fn tools<'a>(&'a self, caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Offered>>;

    /// One tool by its name. Whoever has many tools finds it faster than by turning pages.
    fn tool<'a>(&'a self, caller: &'a Caller, name: &'a str) -> Reply<'a, Option<Offered>> {
        Box::pin(async move {
            let mut cursor = None;
            for _ in 0..PAGES_MAX {
                let page = self.tools(caller, cursor).await?;
                if let Some(found) = page.items.into_iter().find(|tool| tool.name == name) {
                    return Ok(Some(found));
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            Ok(None)
        })
    }

    /// The arguments fit the tool's schema. When `cancelled` is set, nobody waits for the answer any more; a call
    /// that does not end soon after is dropped.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        tool: String,
        arguments: Map<String, Value>,
        progress: Progress,
        cancelled: Cancelled,
    ) -> Reply<'a, Given>;

    fn resources<'a>(&'a self, caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Resource>>;

    fn resource_templates<'a>(
        &'a self,
        caller: &'a Caller,
        cursor: Option<String>,
    ) -> Reply<'a, Page<ResourceTemplate>>;

    fn read<'a>(&'a self, caller: &'a Caller, uri: &'a str) -> Reply<'a, Vec<Contents>>;

    /// What changes from now on, if this tells of changes at all. A client that lags behind is told of all at once.
    fn changes(&self) -> Option<broadcast::Receiver<Change>>;
}

/// A tool, as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// JSON Schema of an object. Arguments that it does not name are refused, unless it says `additionalProperties`.
    pub input_schema: Value,
    /// JSON Schema of an object; what the tool gives must then fit it, since clients check it.
    pub output_schema: Option<Value>,
    /// Changes nothing.
    pub read_only: bool,
    /// May take away or overwrite something.
    pub destructive: bool,
    /// May be called again with the same arguments without further effect.
    pub idempotent: bool,
}

/// What a call gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// For programs. Only an object is passed on as such; whatever else it is, clients get the text alone.
    pub content: Value,
    /// For models; the JSON itself if it is empty.
    pub text: String,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime_type: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// As RFC 6570 has it: `run://{id}`.
    pub uri_template: String,
    pub name: String,
    pub description: String,
    pub mime_type: String,
}

/// One text of a resource that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    pub uri: String,
    pub mime_type: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// All there is.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Tools,
    Resources,
    /// The resource with this uri has new contents.
    Resource(String),
}

/// Who calls. The name stands for the person; a session belongs to the name that opened it.
#[derive(Clone)]
pub struct Caller {
    name: Arc<str>,
    what: Arc<dyn Any + Send + Sync>,
}

impl Caller {
    /// `what` is whatever the surrounding server knows of the caller.
    pub fn new(name: &str, what: impl Any + Send + Sync) -> Caller {
        Caller { name: name.into(), what: Arc::new(what) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn what<T: Any>(&self) -> Option<&T> {
        self.what.downcast_ref()
    }
}

/// Why something could not be given. In a call the text goes to the model, so it says how to do better.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// What was asked cannot be done as it was asked.
    #[error("{0}")]
    Invalid(String),
    /// There is no such thing, or not for this caller.
    #[error("{0}")]
    NotFound(String),
    /// Our fault.
    #[error("{0}")]
    Internal(String),
}
