//! Commands performed: the worker, models, tools, the governor.
//!
//! Acts only after the journal is durable, carrying the command's id; never decides what happens next.

pub mod asked;
pub mod clock;
pub mod governor;
pub mod host;
pub mod mask;
pub mod model;
pub mod models;
pub mod patience;
pub mod perform;
pub mod prepare;
pub mod process;
mod runner;
pub mod settings;
pub mod tool;
pub mod tools;
pub mod worker;

pub use worker::{Rest, Worker};
