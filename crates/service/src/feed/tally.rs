//! How often a kept workflow has run and how that went. Written by the feed alone, in the change that takes note of a
//! run's end.

use relais_engine::{Millis, RunId, RunStatus};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::feed::Bill;
use crate::kept::Kept;
use crate::{Error, Service};

/// Runs that have ended; each counts once, as it ended last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// The workflow's id.
    pub workflow: String,
    pub total: u64,
    pub successful: u64,
    /// Those that succeeded in part are among them.
    pub failed: u64,
    pub cancelled: u64,
    pub last: Option<LastRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    pub run: RunId,
    pub status: RunStatus,
    pub ended_at: Millis,
}

impl Kept for Tally {
    const KIND: &'static str = "tally";
    const WORD: &'static str = "tally";

    fn id(&self) -> String {
        self.workflow.clone()
    }
}

impl Tally {
    /// A run that had been counted and went on is taken back first.
    pub(crate) fn count(&mut self, run: RunId, bill: &Bill, ended_at: Millis) {
        let Some(status) = bill.closed else { return };
        if let Some(before) = bill.before.and_then(|before| self.place(before)) {
            *before = before.saturating_sub(1);
        }
        if bill.before.is_none() {
            self.total += 1;
        }
        if let Some(now) = self.place(status) {
            *now += 1;
        }
        self.last = Some(LastRun { run, status, ended_at });
    }

    fn place(&mut self, status: RunStatus) -> Option<&mut u64> {
        match status {
            RunStatus::Completed | RunStatus::Stopped => Some(&mut self.successful),
            RunStatus::Failed | RunStatus::PartialSuccess => Some(&mut self.failed),
            RunStatus::Cancelled => Some(&mut self.cancelled),
            RunStatus::Pending | RunStatus::Running | RunStatus::Interrupted | RunStatus::Waiting => None,
        }
    }
}

impl Service {
    /// Zeros for a workflow that has not run.
    pub async fn tally(&self, workflow: Uuid) -> Result<Tally, Error> {
        let id = workflow.to_string();
        let found = self.find_kept::<Tally>(&id).await?;
        Ok(found.map_or_else(|| Tally { workflow: id, ..Tally::default() }, |at| at.it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // keeps A-26
    #[test]
    fn a_run_counts_once_as_it_ended_last() {
        use RunStatus::{Cancelled, Completed, Failed, PartialSuccess, Stopped};
        let check = |endings: &[(Option<RunStatus>, RunStatus)], expected: (u64, u64, u64, u64)| {
            let mut tally = Tally::default();
            for (before, closed) in endings {
                let bill = Bill { before: *before, closed: Some(*closed), ..Bill::default() };
                tally.count(RunId::nil(), &bill, 7);
            }
            assert_eq!((tally.total, tally.successful, tally.failed, tally.cancelled), expected, "{endings:?}");
        };
        check(&[], (0, 0, 0, 0));
        check(&[(None, Completed), (None, Stopped), (None, Failed)], (3, 2, 1, 0));
        check(&[(None, PartialSuccess), (None, Cancelled)], (2, 0, 1, 1));
        check(&[(None, Failed), (Some(Failed), Completed)], (1, 1, 0, 0));
        check(&[(None, Completed), (Some(Completed), Cancelled)], (1, 0, 0, 1));
    }
}
