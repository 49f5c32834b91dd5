//! Workflows kept on the server: one record for what a workflow is now, one document for each of its versions.

use relais_engine::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::Kept;

/// A workflow as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub id: Uuid,
    pub name: String,
    /// Another name, unique for the user, that is accepted wherever the id is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub status: WorkflowStatus,
    /// Its newest version; 0 while it is empty.
    #[serde(default)]
    pub version: u64,
    /// The format that it is written in; none while it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Hash of the plan of the newest version; none while it cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Offered as a tool and an agent of its own.
    #[serde(default)]
    pub published: bool,
    /// The step objects that it is made of, in order, where it is edited step by step.
    #[serde(default)]
    pub steps: Vec<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_uuid: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<String>,
    #[serde(default)]
    pub thread_id: String,
    /// The tools as they were when the newest version was made: version, hash, and all of them where that is asked for.
    #[serde(default)]
    pub manifest: Value,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    #[default]
    Active,
    /// Triggers do not fire; it may be started by hand.
    Paused,
    /// Hidden, not runnable.
    Archived,
}

/// What one version says; the body of its document, immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The text as its author wrote it.
    pub definition: String,
    pub format: String,
    /// Hash of the plan; none where the text is kept although it cannot run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Hash of the plan of each branch.
    #[serde(default)]
    pub branches: indexmap::IndexMap<String, String>,
    #[serde(default)]
    pub manifest: Value,
    /// Ids of the kept agents that it uses.
    #[serde(default)]
    pub agents: Vec<Uuid>,
    /// Why it was made: `created`, `updated`, `rolled back to 3`, `agent writer changed`.
    #[serde(default)]
    pub reason: String,
}

impl Kept for Workflow {
    const KIND: &'static str = "workflow";
    const WORD: &'static str = "workflow";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.name.clone()
    }
}
