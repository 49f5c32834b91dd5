//! The plan as a picture: text, Mermaid, SVG.

use crate::Plan;

pub fn text(_plan: &Plan) -> String {
    String::new()
}

pub fn mermaid(_plan: &Plan) -> String {
    String::new()
}

pub fn svg(_plan: &Plan) -> String {
    String::new()
}
