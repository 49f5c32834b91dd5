//! The plan as a picture: text, Mermaid, SVG.
//!
//! The plan is walked once into an [`outline`]; each form renders that. Everything a person wrote is escaped, so any
//! id or label is safe in a terminal, a page and a diagram.

mod mermaid;
mod outline;
mod svg;
mod text;

use crate::Plan;
use outline::Outline;

pub fn text(plan: &Plan) -> String {
    text::render(&Outline::of(plan))
}

pub fn mermaid(plan: &Plan) -> String {
    mermaid::render(&Outline::of(plan))
}

pub fn svg(plan: &Plan) -> String {
    svg::render(&Outline::of(plan))
}

#[cfg(test)]
mod tests;
