//! What a tool is to us, built in or from an MCP server.

use std::path::Path;
use std::sync::Arc;

use relais_engine::{Artifact, Failure, RunId};
use relais_plan::Effect;
use relais_store::Store;
use serde_json::Value;

use crate::model::BoxFuture;
use crate::patience::Patience;

/// One tool. Adding one means implementing this and registering it.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// What one call may do; a tool whose calls differ (a GET and a POST) says so here.
    fn effect(&self, _arguments: &Value) -> Effect {
        self.spec().effect
    }

    /// One try, without a time limit of its own. A call that was sent and whose outcome is not known fails as
    /// `uncertain`; [`crate::tools::Tools`] makes that `transport` where the call may simply be made again. One that
    /// took too long and is known to be over fails as `timeout`.
    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `write_file`, or `mcp:SERVER/TOOL`.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments; always an object schema.
    pub parameters: Value,
    pub effect: Effect,
}

pub struct ToolCall<'a> {
    pub arguments: &'a Value,
    /// The idempotency key: the same for every try of the same command.
    pub key: &'a str,
    pub run: &'a RunFiles,
}

/// What a tool may touch of its run.
pub struct RunFiles {
    pub run: RunId,
    /// The only folder that file tools see.
    pub workspace: Arc<Path>,
    pub store: Arc<dyn Store>,
    pub patience: Arc<Patience>,
    pub notices: Option<Arc<dyn Noticeboard>>,
    /// Latest version of each artifact at the time of the call, oldest first: name, version, artifact.
    pub artifacts: Vec<(String, u32, Artifact)>,
    /// So many bytes of a result are told to a model at once.
    pub piece_bytes: usize,
}

/// The list of messages for people. Who keeps it knows the run's user.
pub trait Noticeboard: Send + Sync {
    fn post<'a>(&'a self, notice: Notice<'a>) -> BoxFuture<'a, Result<(), String>>;
}

/// A message of a run for the list. The same key leaves one notice, however often it is posted.
pub struct Notice<'a> {
    pub run: RunId,
    pub key: &'a str,
    pub title: &'a str,
    pub text: &'a str,
}

#[derive(Debug, Clone, Default)]
pub struct Returned {
    pub value: Value,
    /// Files the call made; bytes are stored by the caller.
    pub artifacts: Vec<SavedArtifact>,
}

#[derive(Debug, Clone)]
pub struct SavedArtifact {
    pub name: String,
    pub media_type: String,
    pub bytes: Vec<u8>,
}
