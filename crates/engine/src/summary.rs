//! The one row about a run that a store may index. Computed here; a store never looks into events.

use serde::{Deserialize, Serialize};

use crate::command::{Failure, Usage};
use crate::event::{Millis, RunId, RunStatus};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub run: RunId,
    pub workflow: String,
    pub plan: String,
    pub user: String,
    pub thread: String,
    pub parent: Option<RunId>,
    pub status: RunStatus,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// When time alone makes the run go on.
    pub wake_at: Option<Millis>,
    /// What else it waits for: `person:3`, `signal:go`, `event:order.paid`, `run:<id>`, `paused`.
    pub awaits: Vec<String>,
    pub usage: Usage,
    pub error: Option<Failure>,
}
