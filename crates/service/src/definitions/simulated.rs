//! The seeded world in the places of models and tools: `sim/SEED`, and `--simulate`.

use std::sync::Arc;

use relais_runtime::model::Model;
use relais_runtime::perform::Simulation;
use relais_runtime::tool::ToolSpec;
use relais_sim::SimModel;
use relais_sim::chance::tie;
use serde_json::Value;

/// The model of `sim/NAME`; a number is a seed, and so is any other name.
pub fn model(name: &str) -> Arc<dyn Model> {
    Arc::new(SimModel::new(name.parse().unwrap_or_else(|_| tie(0, name))))
}

/// Made-up results in place of every tool's.
pub struct SimulatedTools;

impl Simulation for SimulatedTools {
    fn tool(&self, tool: &ToolSpec, arguments: &Value, seed: u64) -> Value {
        relais_sim::tools::result(seed, &tool.name, arguments)
    }
}
