//! Addresses that others send data to, and the trigger behind each. One address belongs to one user.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kept::Kept;

/// Hooks are found before it is known whose they are, so no user owns the records.
pub(crate) const NOBODY: &str = "";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hook {
    pub id: String,
    pub owner: String,
    pub trigger: Uuid,
}

impl Kept for Hook {
    const KIND: &'static str = "hook";
    const WORD: &'static str = "webhook";

    fn id(&self) -> String {
        self.id.clone()
    }
}
