//! All tools by name: those built in, those a program registers, those of MCP servers.
//!
//! Checks arguments before a call, keeps its time limit, says what a lost call means, masks secrets in what comes
//! back. Knows nothing of runs and journals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::{Effect, McpServer, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use select::{Listed, Manifest};

use crate::mask::{Mask, Secrets};
use crate::settings::Settings;
use crate::tool::{Returned, SavedArtifact, Tool, ToolCall, ToolSpec};

mod artifacts;
pub mod drift;
mod http_request;
mod list_artifacts;
mod list_files;
mod load_artifact;
mod mcp;
mod query_db;
mod read_file;
mod read_value;
mod run_python;
mod save_artifact;
mod search_web;
mod select;
pub mod send_message;
#[cfg(test)]
mod testing;
pub mod web;
mod workspace;
pub(crate) mod write_file;

/// How long a tool call may take where nothing else is said.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Names shown in an error.
const NAMES_SHOWN: usize = 50;

/// The registry. Cheap to clone; clones share what they hold.
#[derive(Clone)]
pub struct Tools {
    own: BTreeMap<String, Arc<dyn Tool>>,
    servers: mcp::Servers,
    secrets: Arc<Secrets>,
    mask: Arc<Mask>,
    /// Keys of model providers: masked, and given to no tool.
    keys: Arc<Vec<String>>,
    /// Argument schemas, compiled once per tool.
    schemas: Arc<Mutex<BTreeMap<String, Arc<Schema>>>>,
}

/// Compiled schemas kept; beyond this the cache starts anew.
const MAX_SCHEMAS: usize = 4_096;

impl Tools {
    /// The built-in tools and the MCP servers of the settings. Starts nothing yet.
    pub fn new(settings: &Settings) -> Tools {
        let secrets = Arc::new(Secrets::new(&settings.secrets));
        let environment = |name: &str| std::env::var(name).ok();
        let keys = Arc::new(crate::models::providers::keys(settings, &environment));
        let web = Arc::new(web::Web::new(&settings.tools.http_request));
        let (own, servers, mask) = (BTreeMap::new(), mcp::Servers::new(web.clone()), Arc::default());
        let mut tools = Tools { own, servers, secrets, mask, keys, schemas: Arc::default() };
        for tool in built_in(settings, web, &tools.secrets) {
            tools.register(tool);
        }
        tools.with_servers(&settings.mcp)
    }

    /// The same tools and further MCP servers, such as those of a workflow file. A server that is described in the
    /// same way elsewhere is shared with it.
    pub fn with_servers<'a>(&self, written: impl IntoIterator<Item = (&'a String, &'a McpServer)>) -> Tools {
        let mut tools = self.clone();
        let mut seen = (*tools.secrets).clone();
        for (name, server) in written {
            tools.servers.add(name, server, &mut seen);
        }
        tools.mask = Arc::new(Mask::new(&seen).hiding(tools.keys.iter()));
        tools.secrets = Arc::new(seen);
        tools
    }

    /// Ends all MCP servers; a later call starts them again.
    pub async fn stop(&self) {
        self.servers.stop().await;
    }

    /// Adds a tool of the embedding program, or replaces one of the same name.
    pub fn register(&mut self, tool: Arc<dyn Tool>) {
        self.own.insert(tool.spec().name.clone(), tool);
    }

    /// The tools of this process itself; no MCP server is asked.
    pub fn own_specs(&self) -> Vec<ToolSpec> {
        self.own.values().map(|tool| tool.spec().clone()).collect()
    }

    /// What a call of one of this process's own tools may do; MCP tools say it in their specification.
    pub fn own_effect(&self, name: &str, arguments: &Value) -> Option<Effect> {
        self.own.get(name).map(|tool| tool.effect(arguments))
    }

    /// For whoever else writes down what comes from outside.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// One call. Arguments are checked first; a failure says what a model must change, or what a person must.
    pub async fn call(&self, name: &str, call: ToolCall<'_>, limits: CallLimits) -> Result<Returned, Failure> {
        let outcome = match self.find(name).await {
            Ok(tool) => match self.check(tool.spec(), call.arguments) {
                Ok(()) => perform(tool.as_ref(), call, limits).await,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(returned) => Ok(self.masked(returned)),
            Err(failure) => Err(self.masked_failure(failure)),
        }
    }

    fn masked_failure(&self, failure: Failure) -> Failure {
        Failure::new(failure.kind, self.mask.mask_text(&failure.message))
    }

    fn check(&self, spec: &ToolSpec, arguments: &Value) -> Result<(), Failure> {
        let schema = self.schema_of(spec);
        schema.check(arguments).map_err(|violations| {
            let text = schema.explain(&format!("the arguments of {}", spec.name), &violations, arguments);
            Failure::new(ErrorKind::Schema, text)
        })
    }

    fn schema_of(&self, spec: &ToolSpec) -> Arc<Schema> {
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= MAX_SCHEMAS {
            schemas.clear();
        }
        match schemas.get(&spec.name) {
            Some(schema) if *schema.json() == spec.parameters => schema.clone(),
            _ => {
                let schema = Arc::new(Schema::new(spec.parameters.clone()));
                schemas.insert(spec.name.clone(), schema.clone());
                schema
            }
        }
    }

    fn masked(&self, returned: Returned) -> Returned {
        let artifacts = returned.artifacts.into_iter();
        let artifacts = artifacts.map(|saved| SavedArtifact { bytes: self.mask.mask_bytes(saved.bytes), ..saved });
        Returned { value: self.mask.mask_value(returned.value), artifacts: artifacts.collect() }
    }
}

/// How one call is made.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    pub timeout: Duration,
    /// What the workflow file says about the tool, in place of what the tool says of itself.
    pub effect: Option<Effect>,
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits { timeout: CALL_TIMEOUT, effect: None }
    }
}

async fn perform(tool: &dyn Tool, call: ToolCall<'_>, limits: CallLimits) -> Result<Returned, Failure> {
    let name = &tool.spec().name;
    let effect = limits.effect.unwrap_or_else(|| tool.effect(call.arguments));
    match tokio::time::timeout(limits.timeout, tool.call(call)).await {
        Ok(answer) => answer.map_err(|failure| settled(failure, effect)),
        Err(_) => Err(late(format!("{name} took longer than {}", shown(limits.timeout)), effect)),
    }
}

/// A call of unknown outcome is `uncertain` only where a second one would do harm. A tool that says `timeout` itself
/// has seen to it that its work is over, so that stands.
fn settled(failure: Failure, effect: Effect) -> Failure {
    match (failure.kind, effect) {
        (ErrorKind::Uncertain, Effect::Read | Effect::Idempotent) => {
            Failure::new(ErrorKind::Transport, failure.message)
        }
        _ => failure,
    }
}

/// A call that was given up without a word from the tool.
fn late(message: String, effect: Effect) -> Failure {
    match effect {
        Effect::Read | Effect::Idempotent => Failure::new(ErrorKind::Timeout, message),
        Effect::Once => Failure::new(ErrorKind::Uncertain, format!("{message}; it may or may not have done its work")),
    }
}

fn shown(time: Duration) -> String {
    if time.as_millis() < 1000 { format!("{} ms", time.as_millis()) } else { format!("{} s", time.as_secs_f64()) }
}

fn built_in(settings: &Settings, web: Arc<web::Web>, secrets: &Arc<Secrets>) -> Vec<Arc<dyn Tool>> {
    let tools = settings.tools.clone();
    vec![
        Arc::new(http_request::HttpRequest::new(web.clone(), secrets.clone())),
        Arc::new(list_artifacts::ListArtifacts::default()),
        Arc::new(list_files::ListFiles::default()),
        Arc::new(load_artifact::LoadArtifact::default()),
        Arc::new(query_db::QueryDb::new(tools.databases)),
        Arc::new(read_file::ReadFile::default()),
        Arc::new(read_value::ReadValue::default()),
        Arc::new(run_python::RunPython::new(tools.run_python)),
        Arc::new(save_artifact::SaveArtifact::default()),
        Arc::new(search_web::SearchWeb::new(tools.search_web, web.clone(), secrets.clone())),
        Arc::new(send_message::SendMessage::new(tools.channels, web, secrets.clone())),
        Arc::new(write_file::WriteFile::default()),
    ]
}

/// A mistake that a model can repair.
fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Tool, message)
}

/// The schema has been checked; what it does not say is checked here.
fn arguments<T: DeserializeOwned>(call: &ToolCall<'_>) -> Result<T, Failure> {
    T::deserialize(call.arguments).map_err(|error| wrong(format!("the arguments are not right: {error}")))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.take(NAMES_SHOWN).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::testing::{Bench, KEY};
    use super::*;
    use crate::model::BoxFuture;
    use serde_json::json;

    /// Does what its first argument says.
    struct Actor {
        spec: ToolSpec,
    }

    impl Tool for Actor {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
            Box::pin(async move {
                match call.arguments["act"].as_str().unwrap() {
                    "hang" => std::future::pending().await,
                    "stop" => Err(Failure::new(ErrorKind::Timeout, "stopped after 1 s")),
                    "lose" => Err(Failure::new(ErrorKind::Uncertain, "lost")),
                    "tell" => Err(Failure::new(ErrorKind::Tool, "it is tell-tale-heart")),
                    _ => {
                        let saved = SavedArtifact {
                            name: "a".into(),
                            media_type: String::new(),
                            bytes: b"tell-tale-heart".into(),
                        };
                        Ok(Returned { value: json!({"said": "tell-tale-heart"}), artifacts: vec![saved] })
                    }
                }
            })
        }
    }

    fn tools() -> Tools {
        let secrets = BTreeMap::from([("HEART".to_owned(), "tell-tale-heart".to_owned())]);
        let mut tools = Tools::new(&Settings { secrets, ..Settings::default() });
        let parameters = json!({"type": "object", "properties": {"act": {"type": "string"}}, "required": ["act"]});
        let spec = ToolSpec { name: "actor".into(), description: String::new(), parameters, effect: Effect::Once };
        tools.register(Arc::new(Actor { spec }));
        tools
    }

    async fn call(name: &str, arguments: Value, effect: Option<Effect>) -> Result<Returned, Failure> {
        let bench = Bench::new();
        let limits = CallLimits { timeout: Duration::from_millis(200), effect };
        tools().call(name, ToolCall { arguments: &arguments, key: KEY, run: &bench.run }, limits).await
    }

    #[tokio::test]
    async fn a_lost_call_is_uncertain_only_where_it_matters() {
        let check = async |act: &str, effect: Option<Effect>, kind: ErrorKind| {
            let failure = call("actor", json!({"act": act}), effect).await.unwrap_err();
            assert_eq!(failure.kind, kind, "{act} {effect:?}: {failure}");
        };
        check("hang", None, ErrorKind::Uncertain).await;
        check("hang", Some(Effect::Read), ErrorKind::Timeout).await;
        check("hang", Some(Effect::Idempotent), ErrorKind::Timeout).await;
        check("stop", None, ErrorKind::Timeout).await;
        check("lose", None, ErrorKind::Uncertain).await;
        check("lose", Some(Effect::Idempotent), ErrorKind::Transport).await;
        let late = call("actor", json!({"act": "hang"}), Some(Effect::Read)).await.unwrap_err();
        assert_eq!(late.message, "actor took longer than 200 ms");
    }

    #[tokio::test]
    async fn secrets_are_masked_in_values_files_and_errors() {
        let returned = call("actor", json!({"act": "speak"}), None).await.unwrap();
        assert_eq!(returned.value, json!({"said": "[secret]"}));
        assert_eq!(returned.artifacts[0].bytes, b"[secret]");
        assert_eq!(call("actor", json!({"act": "tell"}), None).await.unwrap_err().message, "it is [secret]");
    }

    #[tokio::test]
    async fn unknown_tools_and_wrong_arguments_are_told_so_that_a_model_can_repair_them() {
        let check = async |name: &str, arguments: Value, kind: ErrorKind, part: &str| {
            let failure = call(name, arguments, None).await.unwrap_err();
            assert!(failure.kind == kind && failure.message.contains(part), "{failure}");
        };
        check("acter", json!({}), ErrorKind::Tool, "did you mean `actor`?").await;
        check("actor", json!({}), ErrorKind::Schema, "act").await;
        check("actor", json!({"act": 1}), ErrorKind::Schema, "act").await;
        check("read_file", json!({"path": "x", "ofset": 1}), ErrorKind::Schema, "ofset").await;
        check("write_file", json!("text"), ErrorKind::Schema, "the arguments of write_file").await;
    }
}
