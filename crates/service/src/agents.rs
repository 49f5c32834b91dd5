//! Agents kept on the server, used by workflows by name or id.

use relais_engine::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{At, Kept};
use crate::{Error, Service};

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

impl Service {
    /// An agent by its id or its name.
    pub async fn find_agent(&self, text: &str) -> Result<At<Agent>, Error> {
        let found = match text.parse::<Uuid>() {
            Ok(id) => self.find_kept(&id.to_string()).await?,
            Err(_) => self.page_kept(Some(text), None, 1).await?.pop(),
        };
        found.ok_or_else(|| Error::NotFound(format!("there is no agent `{text}`")))
    }
}
