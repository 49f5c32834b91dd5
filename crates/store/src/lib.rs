//! Facts kept: the journal, one summary row per run, documents, records and blobs.
//!
//! A store has no engine logic: it never looks into an event. Nobody above this crate sees SQL.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod memory;
mod page;
pub mod private;
mod sqlite;
mod store;

pub use error::Error;
pub use memory::{Fault, MemoryStore};
pub use sqlite::{Durability, Options, SqliteStore};
pub use store::*;
