//! The pure core: events, the fold, the decisions, the agent loop.
//!
//! No async, no clock, no randomness, no input or output, no logging: time comes in with each entry, and the only
//! effects are events for the journal and commands for whoever performs them. State is the fold of the journal.

mod agent;
mod apply;
mod blocks;
mod book;
mod call;
pub mod command;
mod decide;
mod earlier;
mod ending;
pub mod event;
mod extract;
pub mod large;
mod marks;
mod names;
mod program;
mod questions;
pub mod rewind;
mod run;
pub mod summary;
mod value;
mod wait;

pub use agent::breaker::Heard;
pub use agent::request;
pub use apply::{Corrupt, Verdict};
pub use book::dollars;
pub use command::*;
pub use decide::{Catalog, Context, ModelFacts, Turn, Values, next_deadline, turn, turn_on};
pub use ending::adopt;
pub use event::*;
pub use names::{agent_of, files_folder, step_output};
pub use program::{Program, matches_pattern};
pub use questions::{OpenQuestion, Yes, agreed, asked_now, open_questions, question_id};
pub use run::*;
pub use summary::{Summary, awaited_events, error_mark, status, summary, tag_mark, wake_at};
pub use value::{READ_VALUE, text_in};
pub use wait::check_answer;
