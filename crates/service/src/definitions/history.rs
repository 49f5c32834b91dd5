//! What a workflow was: its versions one by one, and the way back to one of them.

use relais_engine::Millis;
use relais_store::Document;

use crate::definitions::versions::version_key;
use crate::definitions::workflows::{Version, Workflow, WorkflowChange, Written};
use crate::kept::{At, Read};
use crate::{Error, Format, Service};

/// A version with its number and the time when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    pub number: u64,
    pub at: Millis,
    pub version: Version,
}

impl Service {
    /// A page of a workflow's versions, newest first: those below `before`; and where the next page begins.
    pub async fn versions(
        &self,
        text: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<Numbered>, Option<u64>), Error> {
        let At { it: workflow, .. } = self.find_workflow(text).await?;
        let mut number = before.map_or(workflow.version, |before| before.saturating_sub(1).min(workflow.version));
        let mut page = Vec::new();
        while number > 0 && page.len() < limit {
            page.push(self.numbered(&workflow, number).await?);
            number -= 1;
        }
        let next = page.last().map(|last| last.number).filter(|last| *last > 1);
        Ok((page, next))
    }

    /// One version by its number.
    pub async fn version(&self, text: &str, number: &str) -> Result<Numbered, Error> {
        let At { it: workflow, .. } = self.find_workflow(text).await?;
        let parsed = number.parse().ok().filter(|number| *number > 0);
        let missing = || Error::NotFound(format!("the workflow `{}` has no version `{number}`", workflow.name));
        self.numbered(&workflow, parsed.ok_or_else(missing)?).await
    }

    pub(crate) async fn numbered(&self, workflow: &Workflow, number: u64) -> Result<Numbered, Error> {
        let key = version_key(self.user(), workflow.id);
        let document = match number {
            // What is above the newest may be too large even to be asked for.
            number if number == 0 || number > workflow.version => None,
            number => self.core.store.get_document(key, Some(number)).await?,
        };
        let Some(Document { at, body, .. }) = document else { return Err(no_version(workflow, number)) };
        let unread =
            |e| Error::Unusable(format!("version {number} of the workflow {} cannot be read: {e}", workflow.id));
        Ok(Numbered { number, at, version: serde_json::from_value(body).map_err(unread)? })
    }

    /// A new version that says what an old one said. One that could not run then is kept as it was.
    pub async fn roll_back(&self, text: &str, to: u64, revision: Read) -> Result<At<Workflow>, Error> {
        let At { it: workflow, .. } = self.find_workflow(text).await?;
        let version = self.version_of(&workflow, Some(to)).await?;
        let (lenient, format) = (!version.can_run(), Format::named(&version.format));
        let definition = Some(Written { text: version.definition, format, lenient });
        let change = WorkflowChange { definition, ..WorkflowChange::default() };
        self.save_workflow(&workflow.id.to_string(), change, revision, &format!("rolled back to {to}")).await
    }
}

fn no_version(workflow: &Workflow, number: u64) -> Error {
    match number {
        0 if workflow.version > 0 => Error::Invalid("there is no version 0; versions count from 1".into()),
        0 => Error::Conflict(format!("the workflow `{}` is empty; give it a definition first", workflow.name)),
        number => Error::NotFound(format!("the workflow `{}` has no version {number}", workflow.name)),
    }
}
