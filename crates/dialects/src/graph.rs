//! The format `graph`: the agent graph: nodes, edges, rounds, branches.

use relais_plan::step::Workflow;

use crate::reader::Reader;
use crate::shape::Format;
use crate::yaml::Node;

pub(crate) fn read(_root: &Node, _reader: &mut Reader<'_>) -> Workflow {
    Workflow::default()
}

/// The branches of a file, by id.
pub(crate) fn branches(_format: Format, _root: &Node) -> Vec<String> {
    Vec::new()
}
