//! One command performed: a model called, a tool called. Only after its intent is durable, carrying its key.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relais_engine::*;
use relais_plan::Effect;
use relais_store::Store;
use serde_json::Value;
use tokio::sync::{Semaphore, broadcast};

use crate::governor::Governors;
use crate::mask::Pieces;
use crate::model::Live;
use crate::models::{self, Models};
use crate::patience::Patience;
use crate::prepare::Prepared;
use crate::tool::{Noticeboard, Returned, RunFiles, SavedArtifact, ToolCall, ToolSpec};
use crate::tools::{CALL_TIMEOUT, CallLimits};

/// Tool calls at once in one process; more wait their turn.
const TOOLS_AT_ONCE: usize = 256;
/// Live text that nobody has read yet; older text is dropped, never waited for.
const LIVE_BACKLOG: usize = 1_024;

/// Everything that can be performed, and with what.
pub struct Performer {
    pub store: Arc<dyn Store>,
    pub patience: Arc<Patience>,
    pub models: Arc<Models>,
    pub governors: Governors,
    /// The folder below which each run has its own.
    pub workspaces: PathBuf,
    pub simulation: Option<Arc<dyn Simulation>>,
    /// Where `send_message` lists what is for people.
    pub notices: Option<Arc<dyn Noticeboard>>,
    /// So many bytes of a tool's result an agent is told that says nothing of it itself.
    pub result_limit: u64,
    /// Models that report no tokens and of which that was said.
    uncounted: Mutex<BTreeSet<String>>,
    live: broadcast::Sender<LiveText>,
    tool_slots: Semaphore,
}

/// What takes the place of tools when a run is simulated.
pub trait Simulation: Send + Sync {
    fn tool(&self, tool: &ToolSpec, arguments: &Value, seed: u64) -> Value;
}

/// A piece of what a model is saying just now.
#[derive(Debug, Clone)]
pub struct LiveText {
    pub run: RunId,
    pub node: relais_plan::NodeId,
    pub text: String,
}

impl LiveText {
    /// A line from ourselves, not what a model says.
    pub fn is_note(&self) -> bool {
        self.node == relais_plan::NodeId::MAX
    }
}

/// A command and what its performing needs to know of the run.
pub struct Job {
    pub run: RunId,
    pub node: relais_plan::NodeId,
    pub key: String,
    pub mode: Mode,
    pub work: JobWork,
}

pub enum JobWork {
    Model(Request),
    Tool { tool: String, arguments: Value, effect: Effect, artifacts: Vec<(String, u32, Artifact)> },
}

impl Performer {
    pub fn new(store: Arc<dyn Store>, models: Arc<Models>, governors: Governors, workspaces: PathBuf) -> Performer {
        let (live, _) = broadcast::channel(LIVE_BACKLOG);
        let tool_slots = Semaphore::new(TOOLS_AT_ONCE);
        let patience = Arc::default();
        let result_limit = relais_plan::DEFAULT_RESULT_LIMIT;
        let (simulation, notices, uncounted) = (None, None, Mutex::default());
        Performer {
            store,
            patience,
            models,
            governors,
            workspaces,
            simulation,
            notices,
            result_limit,
            uncounted,
            live,
            tool_slots,
        }
    }

    pub fn live(&self) -> broadcast::Receiver<LiveText> {
        self.live.subscribe()
    }

    /// Text for whoever watches a run, from ourselves.
    pub fn say(&self, run: RunId, text: String) {
        let _ = self.live.send(LiveText { run, node: relais_plan::NodeId::MAX, text });
    }

    /// The folder that the file tools of a run see.
    pub fn workspace(&self, run: RunId, mode: &Mode) -> PathBuf {
        let own = || self.workspaces.join(run.to_string());
        mode.workspace.as_ref().map_or_else(own, PathBuf::from)
    }

    pub async fn perform(&self, prepared: &Prepared, job: Job) -> Answer {
        let Job { run, node, key, mode, work } = job;
        match work {
            // Boxed: a model call's future is large, and every spawned tool call would be as large as it.
            JobWork::Model(request) => Box::pin(self.call_model(prepared, run, node, &key, &mode, request)).await,
            JobWork::Tool { tool, arguments, effect, artifacts } => {
                let workspace = self.workspace(run, &mode).into();
                let told = prepared.program.result_limit(node, self.result_limit);
                let piece_bytes = told.unwrap_or(self.result_limit) as usize;
                let (store, patience, notices) = (self.store.clone(), self.patience.clone(), self.notices.clone());
                let files = RunFiles { run, workspace, store, patience, notices, artifacts, piece_bytes };
                let call = Calling { tool: &tool, arguments: &arguments, effect, key: &key, node };
                self.call_tool(prepared, &mode, call, files).await
            }
        }
    }

    async fn call_model(
        &self,
        prepared: &Prepared,
        run: RunId,
        node: relais_plan::NodeId,
        key: &str,
        mode: &Mode,
        mut request: Request,
    ) -> Answer {
        if mode.simulate {
            request.model = format!("sim/{}", mode.seed.unwrap_or(0));
        }
        let mut tools = prepared.offered(&request.tools);
        if mode.simulate {
            tools.extend(unknown_tools(&request.tools, &tools));
        }
        let masked = Mutex::new(Pieces::new(prepared.tools.mask()));
        let send = |text: String| drop(self.live.send(LiveText { run, node, text }));
        let live = |piece: Live<'_>| match piece {
            Live::Text(text) if self.live.receiver_count() > 0 => {
                send(masked.lock().unwrap_or_else(PoisonError::into_inner).push(text));
            }
            Live::Waiting(text) => self.say(run, prepared.tools.mask().mask_text(text)),
            Live::Text(_) | Live::Thought(_) => {}
        };
        let mut answer = models::call::call(&self.models, &self.governors, &request, &tools, key, &live).await;
        send(masked.into_inner().unwrap_or_else(PoisonError::into_inner).rest());
        mask_answer(prepared, &mut answer);
        if answer.usage.estimated > 0 {
            self.warn_uncounted(run, &request.model);
        }
        answer
    }

    /// Once for each model: what it takes is only estimated.
    fn warn_uncounted(&self, run: RunId, model: &str) {
        let mut warned = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(model.to_owned()) {
            self.say(run, format!("warning: {model} reports no tokens; budgets go by an estimate"));
        }
    }

    async fn call_tool(&self, prepared: &Prepared, mode: &Mode, call: Calling<'_>, files: RunFiles) -> Answer {
        let started = Instant::now();
        let _slot = self.tool_slots.acquire().await;
        let outcome = match (&self.simulation, mode.simulate && !is_local(call.tool)) {
            (Some(simulation), true) => Ok(simulated(simulation.as_ref(), prepared, mode, &call)),
            _ => self.really_call(prepared, &call, &files).await,
        };
        let body = match outcome {
            Ok(returned) => self.keep(prepared, returned, call.node).await,
            Err(failure) => Body::Failed(failure),
        };
        let usage = Usage { tool_calls: 1, ..Usage::default() };
        Answer { body, usage, ms: started.elapsed().as_millis() as u64 }
    }

    async fn really_call(
        &self,
        prepared: &Prepared,
        call: &Calling<'_>,
        files: &RunFiles,
    ) -> Result<Returned, Failure> {
        let rule = prepared.program.rule(call.tool);
        let timeout = rule.and_then(|r| r.timeout_ms).map_or(CALL_TIMEOUT, Duration::from_millis);
        let limits = CallLimits { timeout, effect: Some(call.effect) };
        let tool_call = ToolCall { arguments: call.arguments, key: call.key, run: files };
        let outcome = Box::pin(prepared.tools.call(call.tool, tool_call, limits)).await;
        outcome.map_err(|failure| match failure.kind {
            // Whoever has to decide about it must see which call it was.
            ErrorKind::Uncertain => {
                let arguments = prepared.tools.mask().mask_text(&Stored::Value(call.arguments.clone()).summary());
                let text = format!("`{}` was called with {arguments}, and whether it happened is not known", call.tool);
                Failure::new(failure.kind, format!("{text}: {}", failure.message))
            }
            _ => failure,
        })
    }

    /// What a tool returned goes into the journal, or into a blob when it is large; its files always do.
    async fn keep(&self, prepared: &Prepared, returned: Returned, node: relais_plan::NodeId) -> Body {
        match self.try_keep(prepared, returned, node).await {
            Ok(body) => body,
            Err(error) => {
                Body::Failed(Failure::new(ErrorKind::Internal, format!("the result could not be kept: {error}")))
            }
        }
    }

    async fn try_keep(
        &self,
        prepared: &Prepared,
        returned: Returned,
        node: relais_plan::NodeId,
    ) -> Result<Body, relais_store::Error> {
        let (value, blob) = prepared.program.result(node, returned.value, self.result_limit);
        if let Some((_, bytes)) = blob {
            self.patience.outlast(|| self.store.put_blob(bytes.clone())).await?;
        }
        let mut artifacts = Vec::with_capacity(returned.artifacts.len());
        for SavedArtifact { name, media_type, bytes } in returned.artifacts {
            let summary = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
            let blob = Blob::of(&bytes, summary);
            self.patience.outlast(|| self.store.put_blob(bytes.clone())).await?;
            artifacts.push(Artifact { name, blob, media_type });
        }
        Ok(Body::Returned { value, artifacts })
    }
}

struct Calling<'a> {
    tool: &'a str,
    arguments: &'a Value,
    effect: Effect,
    key: &'a str,
    node: relais_plan::NodeId,
}

/// Even a simulated run really has its workspace and its artifacts.
pub(crate) fn is_local(tool: &str) -> bool {
    const LOCAL: &[&str] =
        &["read_file", "write_file", "list_files", "load_artifact", "save_artifact", "list_artifacts", READ_VALUE];
    LOCAL.contains(&tool)
}

fn simulated(simulation: &dyn Simulation, prepared: &Prepared, mode: &Mode, call: &Calling<'_>) -> Returned {
    let unknown = generic_spec(call.tool);
    let spec = prepared.spec(call.tool).unwrap_or(&unknown);
    let value = simulation.tool(spec, call.arguments, mode.seed.unwrap_or(0));
    Returned { value, artifacts: Vec::new() }
}

/// In a simulated run nobody asks MCP servers for their tools; a name alone must do.
fn unknown_tools(patterns: &[String], known: &[ToolSpec]) -> Vec<ToolSpec> {
    let unknown = |name: &&String| !name.contains('*') && !known.iter().any(|spec| spec.name == **name);
    patterns.iter().filter(unknown).map(|name| generic_spec(name)).collect()
}

fn generic_spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({ "type": "object" }),
        effect: Effect::Once,
    }
}

/// Secrets that the configuration knows do not reach the journal.
fn mask_answer(prepared: &Prepared, answer: &mut Answer) {
    let mask = prepared.tools.mask();
    match &mut answer.body {
        Body::Replied(reply) => {
            reply.text = mask.mask_text(&reply.text);
            for call in &mut reply.calls {
                call.tool = mask.mask_text(&call.tool);
                call.arguments = mask.mask_value(call.arguments.take());
                call.garbled = call.garbled.take().map(|text| mask.mask_text(&text));
            }
        }
        Body::Failed(failure) => failure.message = mask.mask_text(&failure.message),
        Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled => {}
    }
}
