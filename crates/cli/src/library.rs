//! Kept workflows and agents as commands see them, wherever they are kept.

use relais_engine::Millis;
use relais_service::{At, Workflow, WorkflowStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// A kept workflow; the same fields by the same names from the local database and from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shelved {
    pub id: Uuid,
    pub name: String,
    pub alias: Option<String>,
    pub description: String,
    pub status: WorkflowStatus,
    pub version: u64,
    pub format: Option<String>,
    /// Whether the newest version can be started without naming a branch.
    pub runnable: bool,
    pub published: bool,
    pub created_at: String,
    pub updated_at: String,
    /// The text of the newest version, where one workflow was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl From<At<Workflow>> for Shelved {
    fn from(at: At<Workflow>) -> Shelved {
        let it = at.it;
        Shelved {
            id: it.id,
            name: it.name,
            alias: it.alias,
            description: it.description,
            status: it.status,
            version: it.version,
            format: it.format,
            runnable: it.plan.is_some(),
            published: it.published,
            created_at: instant(it.created_at),
            updated_at: instant(it.updated_at),
            definition: None,
        }
    }
}

fn instant(at: Millis) -> String {
    relais_plan::time::format_instant(at)
}

/// What is to be kept or changed of a workflow; what is not named stays, or is what the definition says.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shelving {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkflowStatus>,
}

/// A kept agent; the same fields by the same names from the local database and from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub definition: Value,
    pub created_at: String,
    pub updated_at: String,
}

impl From<At<relais_service::Agent>> for Agent {
    fn from(at: At<relais_service::Agent>) -> Agent {
        let relais_service::Agent { id, name, description, definition, created_at, updated_at } = at.it;
        Agent { id, name, description, definition, created_at: instant(created_at), updated_at: instant(updated_at) }
    }
}

/// What is to be kept or changed of an agent; what is not named stays.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Employment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub definition: Value,
}
