//! A workflow taken away with all that belongs to it: its runs with their outputs and artifacts, too, unless they are to
//! be kept.

use std::time::Duration;

use relais_engine::RunStatus;
use relais_store::{Edit, Expect, Filter, Page, Prune};

use crate::definitions::workflows::{Alias, WALKED, Workflow, must_be_unchanged};
use crate::feed::tally::Tally;
use crate::kept::{self, At, Kept, Order, Read};
use crate::{Error, Service, TriggerRecord};

/// Runs that are cancelled or removed at a time.
const RUNS_AT_ONCE: usize = 100;
/// Runs that are counted for whoever is asked; beyond it the number says nothing more.
const MAX_COUNTED: usize = 10_000;
/// How long runs that were told to stop may take to end, with their exit steps, before the deletion is refused.
const ENDING: Duration = Duration::from_secs(60);
/// Callers that a refusal names: enough to see what it is about.
const MAX_NAMED: usize = 5;

/// How a workflow is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removal {
    /// Cancel the runs that are active, and let those that call it keep the plan that they have until they are saved again.
    pub force: bool,
    /// Its runs stay readable until they are pruned.
    pub keep_runs: bool,
}

/// What goes with a workflow that is deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    pub workflow: Workflow,
    pub triggers: usize,
    /// Those that go: none where they are kept.
    pub runs: usize,
    /// There are more; only so many were counted.
    pub more_runs: bool,
    /// Those among them that would be cancelled.
    pub active: usize,
}

impl Service {
    /// What a deletion would take away, or why it is refused. Changes nothing.
    pub async fn deletion(&self, text: &str, removal: Removal) -> Result<Deletion, Error> {
        let At { it: workflow, .. } = self.find_workflow(text).await?;
        self.must_be_idle(&workflow, removal).await?;
        let triggers: Vec<At<TriggerRecord>> = self.list_kept(Some(&workflow.id.to_string())).await?;
        let (mut deletion, mut cursor) =
            (Deletion { workflow, triggers: triggers.len(), runs: 0, more_runs: false, active: 0 }, None);
        if removal.keep_runs {
            return Ok(deletion);
        }
        // Ends: each page begins behind the last.
        loop {
            let page = self.own_runs(&deletion.workflow, &[], cursor, MAX_COUNTED.min(1_000)).await?;
            deletion.runs += page.rows.len();
            deletion.active += page.rows.iter().filter(|row| !row.summary.status.is_final()).count();
            cursor = page.cursor;
            deletion.more_runs = cursor.is_some();
            if cursor.is_none() || deletion.runs >= MAX_COUNTED {
                return Ok(deletion);
            }
        }
    }

    /// Refused while others call it or runs are active, unless it is forced.
    pub async fn delete_workflow(&self, text: &str, removal: Removal, revision: Read) -> Result<(), Error> {
        let At { it: workflow, revision: read_at } = self.find_workflow(text).await?;
        must_be_unchanged(Workflow::WORD, workflow.id, read_at, &revision)?;
        self.must_be_idle(&workflow, removal).await?;
        // The runs go first: whoever dies in between leaves a workflow that can be deleted again.
        self.clear_runs(&workflow, removal).await?;
        self.change(self.removal_edits(&workflow, read_at, removal).await?).await?;
        // What was started meanwhile.
        self.clear_runs(&workflow, removal).await
    }

    async fn must_be_idle(&self, workflow: &Workflow, removal: Removal) -> Result<(), Error> {
        if removal.force {
            return Ok(());
        }
        if let Some(callers) = self.callers(workflow).await? {
            let text = format!("the workflow `{}` is called by {callers}", workflow.name);
            return Err(Error::Conflict(format!("{text}; change or delete those first, or delete it with `force`")));
        }
        match self.active(workflow, None, 1).await?.rows.first() {
            None => Ok(()),
            Some(row) => {
                let text = format!("runs of the workflow `{}` are active, such as {}", workflow.name, row.summary.run);
                Err(Error::Conflict(format!("{text}; cancel them, or delete it with `force`")))
            }
        }
    }

    /// No run of the workflow is active any longer, and none is left unless they are to be kept.
    async fn clear_runs(&self, workflow: &Workflow, removal: Removal) -> Result<(), Error> {
        if removal.force {
            self.cancel_all(workflow).await?;
        }
        if removal.keep_runs {
            return Ok(());
        }
        self.must_end(workflow).await?;
        // What they have used stays booked.
        self.feed_once().await?;
        self.remove_runs(workflow).await
    }

    /// Waits for those that were told to stop; some are worked on elsewhere, and some have exit steps.
    async fn must_end(&self, workflow: &Workflow) -> Result<(), Error> {
        let mut tail = self.core.store.tail();
        let ended = async {
            while !self.active(workflow, None, 1).await?.rows.is_empty() {
                // Lagging is news, too.
                if let Err(tokio::sync::broadcast::error::RecvError::Closed) = tail.recv().await {
                    break;
                }
            }
            Ok::<(), Error>(())
        };
        match tokio::time::timeout(ENDING, ended).await {
            Ok(ended) => ended,
            Err(_) => {
                let text = format!("runs of the workflow `{}` were told to stop and have not ended yet", workflow.name);
                Err(Error::Conflict(format!("{text}; nothing was deleted, try again when they have")))
            }
        }
    }

    /// Those that were started for a run of another workflow belong to that run, and stay as long as it does.
    async fn remove_runs(&self, workflow: &Workflow) -> Result<(), Error> {
        let (mut cursor, mut removed) = (None, 0);
        // Ends: each page begins behind the last.
        loop {
            let page = self.own_runs(workflow, &RunStatus::FINAL, cursor, RUNS_AT_ONCE).await?;
            let runs = page.rows.iter().map(|row| row.summary.run).collect();
            removed += self.core.store.prune(Prune { runs, ..Prune::default() }).await?.runs;
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        if removed > 0 { self.remove_workspaces().await } else { Ok(()) }
    }

    async fn removal_edits(&self, workflow: &Workflow, revision: u64, removal: Removal) -> Result<Vec<Edit>, Error> {
        let (user, id) = (self.user(), workflow.id.to_string());
        let mut edits = vec![kept::remove::<Workflow>(user, &id, Expect::Revision(revision))];
        edits.extend(workflow.alias.as_deref().map(|alias| kept::remove::<Alias>(user, alias, Expect::Any)));
        let triggers: Vec<At<TriggerRecord>> = self.list_kept(Some(&id)).await?;
        for at in &triggers {
            edits.extend(self.remove_trigger_edits(at)?);
        }
        edits.extend(self.step_removals(workflow));
        if !removal.keep_runs {
            edits.push(kept::remove::<Tally>(user, &id, Expect::Any));
        }
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

    /// Those that nobody else started, of these statuses or all.
    async fn own_runs(
        &self,
        workflow: &Workflow,
        status: &[RunStatus],
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page, Error> {
        let (status, workflow_id) = (status.to_vec(), Some(workflow.id.to_string()));
        self.runs(Filter { workflow_id, status, roots_only: true, cursor, limit, ..Filter::default() }).await
    }

    /// Each is told to stop, once; those that are worked on elsewhere stop there.
    async fn cancel_all(&self, workflow: &Workflow) -> Result<(), Error> {
        let mut cursor = None;
        // Ends: each page begins behind the last, and those that are started later stand in front of the first.
        loop {
            let page = self.active(workflow, cursor, RUNS_AT_ONCE).await?;
            for row in page.rows {
                self.cancel_once(row.summary.run).await?;
            }
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}
