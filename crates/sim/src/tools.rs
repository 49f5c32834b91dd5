//! Tools that are not there: for `--simulate`, every tool but workspace files and artifacts answers from the seed.

use relais_engine::Failure;
use relais_runtime::model::BoxFuture;
use relais_runtime::tool::{Returned, Tool, ToolCall, ToolSpec};
use serde_json::{Value, json};

use crate::chance::{Chance, tie};

/// These touch nothing but the run's own files, so they stay as they are.
const REAL: [&str; 6] = ["read_file", "write_file", "list_files", "load_artifact", "save_artifact", "list_artifacts"];

/// Is a tool replaced when a run is simulated?
pub fn is_simulated(tool: &str) -> bool {
    !REAL.contains(&tool)
}

/// Stands in for a tool: the same name and parameters, a made-up result.
#[derive(Debug, Clone)]
pub struct SimTool {
    spec: ToolSpec,
    seed: u64,
}

impl SimTool {
    pub fn new(spec: ToolSpec, seed: u64) -> SimTool {
        SimTool { spec, seed }
    }
}

impl Tool for SimTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        let value = result(self.seed, &self.spec.name, call.arguments);
        Box::pin(std::future::ready(Ok(Returned { value, artifacts: Vec::new() })))
    }
}

/// A plausible result, the same for the same seed, tool and arguments.
pub fn result(seed: u64, tool: &str, arguments: &Value) -> Value {
    let mut chance = Chance::named(tie(seed, tool), &arguments.to_string());
    let list: Vec<u64> = (0..chance.below(4)).map(|_| chance.below(5)).collect();
    json!({
        "ok": chance.percent(70),
        "n": chance.below(5),
        "list": list,
        "text": format!("simulated {tool} {:04x}", chance.below(0x1_0000)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_depend_on_seed_tool_and_arguments() {
        let base = result(1, "search", &json!({ "q": 1 }));
        assert_eq!(base, result(1, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(2, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "other", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "search", &json!({ "q": 2 })));
        assert!(is_simulated("search_web") && !is_simulated("write_file"));
    }
}
