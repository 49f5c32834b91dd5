//! A workflow taken away with all that belongs to it. Its versions and the runs that have ended stay readable.

use std::collections::HashSet;

use relais_engine::{RunId, RunStatus};
use relais_store::{Edit, Expect, Filter, Page};

use crate::definitions::workflows::{Alias, WALKED, Workflow, must_be_unchanged};
use crate::kept::{self, At, Kept, Order, Read};
use crate::{Error, Service, TriggerRecord};

/// Runs that are cancelled at a time.
const CANCELLED_AT_ONCE: usize = 100;
/// Callers that a refusal names: enough to see what it is about.
const MAX_NAMED: usize = 5;

impl Service {
    /// Refused while others call it or runs are active. With `force` the runs are cancelled, and the others keep the plan
    /// that they have until they are saved again.
    pub async fn delete_workflow(&self, text: &str, force: bool, revision: Read) -> Result<(), Error> {
        let At { it: workflow, revision: read_at } = self.find_workflow(text).await?;
        must_be_unchanged(Workflow::WORD, workflow.id, read_at, &revision)?;
        let mut told = HashSet::new();
        if force {
            self.cancel_all(&workflow, &mut told).await?;
        } else if let Some(callers) = self.callers(&workflow).await? {
            let text = format!("the workflow `{}` is called by {callers}", workflow.name);
            return Err(Error::Conflict(format!("{text}; change or delete those first, or delete it with `force`")));
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

    /// Those whose newest version calls this workflow, as a message names them; none if there are none.
    async fn callers(&self, called: &Workflow) -> Result<Option<String>, Error> {
        let (mut names, mut after) = (Vec::new(), None);
        // Ends: each page begins behind the last.
        loop {
            let (page, next) = self.paged::<Workflow>(Order::ById, after, WALKED).await?;
            let calling = page.into_iter().filter(|at| at.it.calls.contains(&called.id));
            names.extend(calling.map(|at| format!("`{}`", at.it.name)));
            if next.is_none() || names.len() > MAX_NAMED {
                break;
            }
            after = next;
        }
        let more = if names.len() > MAX_NAMED { " and others" } else { "" };
        names.truncate(MAX_NAMED);
        Ok((!names.is_empty()).then(|| format!("{}{more}", names.join(", "))))
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
