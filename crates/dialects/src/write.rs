//! A workflow in the native format: what `relais convert` prints.

use relais_plan::step::Workflow;

pub(crate) fn native(_workflow: &Workflow) -> String {
    String::new()
}
