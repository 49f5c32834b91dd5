//! The seeded world: model, tools, clock, faults and crash points.
pub struct SimModel; impl SimModel { pub fn named(_n: &str) -> SimModel { SimModel } }
impl relais_runtime::model::Model for SimModel { fn call<'a>(&'a self, _c: relais_runtime::model::ModelCall<'a>) -> relais_runtime::model::BoxFuture<'a, Result<relais_runtime::model::Spoken, relais_runtime::model::ModelError>> { Box::pin(async { Err(relais_runtime::model::ModelError{kind: relais_engine::ErrorKind::Internal, message: "x".into(), retry_after: None, transient: false}) }) } }
pub struct SimTools;
impl relais_runtime::perform::Simulation for SimTools { fn tool(&self, _t: &relais_runtime::tool::ToolSpec, _a: &serde_json::Value, _s: u64) -> serde_json::Value { serde_json::Value::Null } }
