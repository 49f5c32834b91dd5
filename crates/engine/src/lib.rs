//! The pure core: events, the fold, the decisions, the agent loop.
//!
//! No async, no clock, no randomness, no input or output, no logging: time comes in with each entry, and the only
//! effects are events for the journal and commands for whoever performs them. State is the fold of the journal.

pub mod command;
pub mod event;
pub mod summary;

pub use command::*;
pub use event::*;
pub use summary::Summary;
