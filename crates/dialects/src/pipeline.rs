//! The format `pipeline`: the pipeline of named agents: sequence, condition, going back, parallel, retry.

use relais_plan::step::Workflow;

use crate::reader::Reader;
use crate::yaml::Node;

pub(crate) fn read(_root: &Node, _reader: &mut Reader<'_>) -> Workflow {
    Workflow::default()
}
