//! Commands performed: the worker, models, tools, the governor.
//!
//! Acts only after the journal is durable, carrying the command's id; never decides what happens next.

pub mod governor;
pub mod mask;
pub mod model;
pub mod models;
pub mod process;
pub mod settings;
pub mod tool;
pub mod tools;
