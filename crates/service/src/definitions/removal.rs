//! A workflow taken away with all that belongs to it. Its versions and the runs that have ended stay readable.

use std::collections::HashSet;

use relais_engine::{RunId, RunStatus};
use relais_store::{Edit, Expect, Filter, Page};

use crate::definitions::workflows::{Alias, Workflow, must_be_unchanged};
use crate::kept::{self, At, Kept};
use crate::{Error, Service, TriggerRecord};

/// Runs that are cancelled at a time.
const CANCELLED_AT_ONCE: usize = 100;

impl Service {
    /// Refused while runs are active, unless they are to be cancelled.
    pub async fn delete_workflow(&self, text: &str, force: bool, revision: Option<u64>) -> Result<(), Error> {
        let At { it: workflow, revision: read_at } = self.find_workflow(text).await?;
        must_be_unchanged(Workflow::WORD, workflow.id, read_at, revision)?;
        let mut told = HashSet::new();
        if force {
            self.cancel_all(&workflow, &mut told).await?;
        } else if let Some(row) = self.active(&workflow, None, 1).await?.rows.first() {
            let text = format!("runs of the workflow `{}` are active, such as {}", workflow.name, row.summary.run);
            return Err(Error::Conflict(format!("{text}; cancel them, or delete it with `force`")));
        }
        self.change(self.removal_edits(&workflow, read_at).await?).await?;
        // What was started while the others were being cancelled.
        if force { self.cancel_all(&workflow, &mut told).await } else { Ok(()) }
    }

    async fn removal_edits(&self, workflow: &Workflow, revision: u64) -> Result<Vec<Edit>, Error> {
        let (user, id) = (self.user(), workflow.id.to_string());
        let mut edits = vec![kept::remove::<Workflow>(user, &id, Expect::Revision(revision))];
        edits.extend(workflow.alias.as_deref().map(|alias| kept::remove::<Alias>(user, alias, Expect::Any)));
        let triggers: Vec<At<TriggerRecord>> = self.list_kept(Some(&id)).await?;
        for at in &triggers {
            edits.extend(self.remove_trigger_edits(at)?);
        }
        edits.extend(self.step_removals(workflow));
        Ok(edits)
    }

    async fn active(&self, workflow: &Workflow, cursor: Option<String>, limit: usize) -> Result<Page, Error> {
        let status = RunStatus::UNFINISHED.to_vec();
        let workflow_id = Some(workflow.id.to_string());
        self.runs(Filter { workflow_id, status, cursor, limit, ..Filter::default() }).await
    }

    /// Each is told to stop, once; those that are worked on elsewhere stop there.
    async fn cancel_all(&self, workflow: &Workflow, told: &mut HashSet<RunId>) -> Result<(), Error> {
        let mut cursor = None;
        // Ends: each page begins behind the last, and those that are started later stand in front of the first.
        loop {
            let page = self.active(workflow, cursor, CANCELLED_AT_ONCE).await?;
            for run in page.rows.into_iter().map(|row| row.summary.run).filter(|run| told.insert(*run)) {
                match self.cancel(run).await {
                    // It has ended meanwhile.
                    Ok(()) | Err(Error::Conflict(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}
