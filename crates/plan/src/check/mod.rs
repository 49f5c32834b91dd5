//! Proves at load what can be proved: references, types along edges, bounds, reachability.
//!
//! Each file asks one kind of question and returns what it found; all problems of a plan come at once. Nothing here
//! changes a plan or knows how it is run.

mod bounds;
mod catalog;
mod edges;
#[cfg(test)]
pub(crate) mod fixture;
mod flow;
mod graph;
mod labels;
mod names;
mod shape;
mod variables;

use crate::{Plan, Problems};

/// What the checker may know of the world outside the file.
pub trait World {
    /// All tools that exist, with the JSON Schema of their arguments; none means that it is not known yet.
    fn tools(&self) -> Option<Vec<(String, serde_json::Value)>>;
    /// MCP servers that the configuration names. Their tools may be unknown until somebody asks them.
    fn servers(&self) -> Vec<String>;
    /// Agents that are kept outside the file and that it may name.
    fn agents(&self) -> Vec<String> {
        Vec::new()
    }
    /// Dollars per token are known for this model (needed where there is a USD budget).
    fn price_known(&self, model: &str) -> bool;
}

/// All problems of a plan that `build` has made, in the order of the text.
pub fn check(plan: &Plan, world: &dyn World) -> Problems {
    let flow = flow::Flow::new(plan);
    let keys = names::keys(plan);
    let known = world.tools();
    let tools: Option<catalog::Tools<'_>> =
        known.as_ref().map(|tools| tools.iter().map(|(name, schema)| (name.as_str(), schema)).collect());
    let mut problems = names::Names::new(plan, &flow, &keys).check();
    problems.extend(edges::Edges::new(plan, &flow, &keys).check(tools.as_ref().unwrap_or(&Default::default())));
    problems.extend(labels::check(plan));
    problems.extend(bounds::check(plan, &flow));
    problems.extend(catalog::check(plan, &flow, tools.as_ref(), world));
    in_order(problems)
}

/// By place, each once: an agent's instructions are looked at from every step that uses it.
fn in_order(mut problems: Problems) -> Problems {
    problems.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
    problems.dedup();
    problems
}

#[cfg(test)]
mod tests;
