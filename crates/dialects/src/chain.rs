//! The format `chain`: chains of executors: each hands its structured output to the next.

use relais_plan::step::Workflow;

use crate::reader::Reader;
use crate::yaml::Node;

pub(crate) fn read(_root: &Node, _reader: &mut Reader<'_>) -> Workflow {
    Workflow::default()
}
