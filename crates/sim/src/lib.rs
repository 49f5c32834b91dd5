//! The seeded world: a model, tools and faults that depend on nothing but a seed, and the laws every run must keep.
//!
//! `model` and `tools` ship as `sim/…` and `--simulate`; the rest proves the engine. No real clock, no randomness:
//! the same seed gives the same run.

pub mod chance;
pub mod drive;
pub mod faults;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod laws;
pub mod model;
pub mod plans;
pub mod tools;
pub mod world;

pub use model::SimModel;
