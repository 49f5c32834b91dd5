//! Agents kept on the server, used by workflows by name or id.

use relais_engine::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::Kept;

/// An agent as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: Uuid,
    /// Unique for the user.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// What an agent of the native format may say: model, instructions, tools, input, output, limits.
    pub definition: Value,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl Kept for Agent {
    const KIND: &'static str = "agent";
    const WORD: &'static str = "agent";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.name.clone()
    }
}
