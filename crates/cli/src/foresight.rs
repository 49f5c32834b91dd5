//! What can be known of a run before it starts, for a terminal.

use relais_plan::Template;
pub use relais_service::foresight::{Costs, Known};

use crate::screen;

/// The text that a template gives, or the template where that is not known yet.
pub fn constant(template: &Template, known: &Known) -> String {
    words::line(&relais_service::foresight::constant(template, known))
}
