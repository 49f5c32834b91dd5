//! What may happen: the plan, its expressions and schemas, the checker that proves it, and the drawing of it.
//!
//! This crate knows nothing of runs, stores, networks or clocks. A reader (crate `dialects`) turns text into a tree
//! of [`step::Step`]s, [`build`] turns that tree into a [`Plan`], and [`check`] proves the plan.

pub mod build;
pub mod check;
pub mod draw;
pub mod expr;
pub mod filter;
pub mod outline;
pub mod path;
pub mod plan;
pub mod problem;
pub mod schedule;
pub mod schema;
pub mod step;
pub mod tags;
pub mod template;
pub mod text;
pub mod time;
pub mod weight;
pub mod words;

pub use expr::Expr;
pub use filter::Filter;
pub use plan::*;
pub use problem::{Problem, Problems, Severity, Source, Span};
pub use schema::Schema;
pub use template::Template;
