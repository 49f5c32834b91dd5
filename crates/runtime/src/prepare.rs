//! A plan made ready for this process: its program, the tools it may use, and what the engine asks about them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use relais_engine::{Catalog, ErrorKind, Failure, ModelFacts, Program, READ_VALUE, matches_pattern};
use relais_plan::{Effect, Op, Plan, Task};
use relais_store::{Document, DocumentKey, Error, Store};
use serde_json::Value;

use crate::models::Models;
use crate::perform::is_local;
use crate::tool::ToolSpec;
use crate::tools::Tools;

pub struct Prepared {
    pub program: Program,
    /// With the MCP servers that the file declares.
    pub tools: Tools,
    /// What is known of the tools that the plan names.
    specs: BTreeMap<String, ToolSpec>,
    models: Arc<Models>,
    facts: Mutex<HashMap<String, ModelFacts>>,
    simulate: bool,
}

/// Kind of the documents that hold plans, by hash.
pub const PLAN: &str = "plan";

pub fn plan_key(hash: &str) -> DocumentKey {
    DocumentKey { kind: PLAN.to_owned(), owner: String::new(), name: hash.to_owned() }
}

/// The plan with this hash, as it was when the run was started. A database that is busy says so: the plan is not lost.
pub async fn load_plan(store: &dyn Store, hash: &str) -> Result<Plan, Error> {
    let found = store.get_document(plan_key(hash), None).await?;
    read_plan(hash, found).map_err(Error::Internal)
}

/// The plan in what was found under its key.
pub fn plan_of(hash: &str, found: Result<Option<Document>, Error>) -> Result<Plan, Failure> {
    let internal = |message: String| Failure::new(ErrorKind::Internal, message);
    let document = found.map_err(|e| internal(e.to_string()))?;
    read_plan(hash, document).map_err(internal)
}

fn read_plan(hash: &str, found: Option<Document>) -> Result<Plan, String> {
    let document = found.ok_or_else(|| format!("the plan {hash} is not in the database"))?;
    serde_json::from_value(document.body).map_err(|e| format!("the plan {hash} cannot be read: {e}"))
}

/// Tools that an agent may be lent beside its own: they read what it was given by reference.
const LENT: [&str; 2] = [READ_VALUE, "read_file"];

/// The names and patterns of all tools that a plan may call.
pub fn tools_of(plan: &Plan) -> Vec<String> {
    let direct = plan.nodes.iter().filter_map(|node| match &node.op {
        Op::Call(call) => match &call.task {
            Task::Tool { tool, .. } => Some(tool.clone()),
            Task::Agent { .. } | Task::Workflow { .. } => None,
        },
        Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
    });
    let mut names: Vec<String> = plan.agents.values().flat_map(|a| a.tools.clone()).chain(direct).collect();
    names.sort();
    names.dedup();
    names
}

impl Prepared {
    /// Tools that cannot be reached now are left out; calling one fails, or finds it by then.
    pub async fn new(mut plan: Plan, tools: &Tools, models: &Arc<Models>, simulate: bool) -> Prepared {
        if simulate {
            plan.tools.values_mut().for_each(|rule| rule.effect = None);
        }
        let tools = if plan.servers.is_empty() { tools.clone() } else { tools.with_servers(&plan.servers) };
        let mut specs = BTreeMap::new();
        for name in tools_of(&plan).into_iter().chain(LENT.map(str::to_owned)) {
            if simulate && name.starts_with("mcp:") {
                continue;
            }
            if let Ok(found) = tools.select(std::slice::from_ref(&name)).await {
                specs.extend(found.into_iter().map(|spec| (spec.name.clone(), spec)));
            }
        }
        let program = Program::new(plan);
        Prepared { program, tools, specs, models: models.clone(), facts: Mutex::default(), simulate }
    }

    /// The tools that an agent is offered.
    pub fn offered(&self, patterns: &[String]) -> Vec<ToolSpec> {
        let listed = |spec: &&ToolSpec| patterns.iter().any(|p| matches_pattern(p, &spec.name));
        self.specs.values().filter(listed).cloned().collect()
    }

    pub fn spec(&self, tool: &str) -> Option<&ToolSpec> {
        self.specs.get(tool)
    }
}

impl Catalog for Prepared {
    fn effect(&self, tool: &str, arguments: &Value) -> Effect {
        if self.simulate && !is_local(tool) {
            // Nothing outside happens, so after a crash the call can be made again.
            return Effect::Idempotent;
        }
        match self.tools.own_effect(tool, arguments) {
            Some(effect) => effect,
            None => self.specs.get(tool).map_or(Effect::Once, |spec| spec.effect),
        }
    }

    fn model(&self, model: &str) -> ModelFacts {
        let mut known = self.facts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(facts) = known.get(model) {
            return *facts;
        }
        let facts = self.models.resolve(model).map(|r| r.facts).unwrap_or_default();
        let facts = ModelFacts {
            context_tokens: facts.context_tokens,
            prompt_nanos: facts.prompt_nanos.unwrap_or(0),
            completion_nanos: facts.completion_nanos.unwrap_or(0),
        };
        known.insert(model.to_owned(), facts);
        facts
    }
}
