//! Facts kept: the journal, one summary row per run, documents and blobs.
//!
//! A store has no engine logic: it never looks into an event. Nobody above this crate sees SQL.

mod error;
mod store;

pub use error::Error;
pub use store::*;
