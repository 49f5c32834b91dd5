//! Tools that take their time, and the ledger in which every call is written down where it takes effect.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relais_engine::{Failure, RunId};
use relais_plan::Effect;
use relais_runtime::model::BoxFuture;
use relais_runtime::tool::{Returned, Tool, ToolCall, ToolSpec};
use serde_json::{Value, json};

use super::shaky::Weather;
use crate::chance::tie;

/// Some calls last longer than a lease.
const MAX_LATENCY_MS: u64 = 15_000;

/// Which calls took effect, by whom and when.
#[derive(Default)]
pub(super) struct Ledger {
    calls: Mutex<BTreeMap<(RunId, String), Vec<String>>>,
}

impl Ledger {
    fn calls(&self) -> MutexGuard<'_, BTreeMap<(RunId, String), Vec<String>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, run: RunId, call: String, by: String) {
        self.calls().entry((run, call)).or_default().push(by);
    }

    /// The calls of `once` tools that happened more than once.
    pub fn twice(&self) -> Vec<String> {
        let calls = self.calls();
        let twice = calls.iter().filter(|((_, call), by)| call.starts_with("pay") && by.len() > 1);
        twice.map(|((run, call), by)| format!("{call} of run {run} by {}", by.join(" and "))).collect()
    }

    pub fn told(&self) -> String {
        let line = |((run, call), by): (&(RunId, String), &Vec<String>)| format!("{run} {call}: {}", by.join(", "));
        self.calls().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

struct Slow {
    spec: ToolSpec,
    ledger: Arc<Ledger>,
    weather: Arc<Weather>,
}

pub(super) fn all(ledger: &Arc<Ledger>, weather: &Arc<Weather>) -> Vec<Arc<dyn Tool>> {
    let tool = |(name, effect): (&str, Effect)| -> Arc<dyn Tool> {
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let spec = ToolSpec { name: name.to_owned(), description: String::new(), parameters, effect };
        Arc::new(Slow { spec, ledger: ledger.clone(), weather: weather.clone() })
    };
    [("pay", Effect::Once), ("put", Effect::Idempotent), ("get", Effect::Read)].map(tool).into()
}

impl Tool for Slow {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move {
            self.weather.while_still().await;
            let name = format!("{} {}", self.spec.name, call.arguments["n"]);
            let latency = tie(self.weather.seed, &format!("{} {name}", call.run.run)) % MAX_LATENCY_MS;
            self.ledger.note(call.run.run, name, self.weather.place());
            tokio::time::sleep(Duration::from_millis(latency)).await;
            self.weather.while_still().await;
            Ok(Returned { value: Value::Bool(true), artifacts: Vec::new() })
        })
    }
}
