//! The format `dag`: the schema-checked DAG of personas.

pub(crate) mod expand;
mod prompt;

use relais_plan::step::Workflow;

use crate::reader::Reader;
use crate::yaml::Node;

pub(crate) fn read(_root: &Node, _reader: &mut Reader<'_>) -> Workflow {
    Workflow::default()
}
