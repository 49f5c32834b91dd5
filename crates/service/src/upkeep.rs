//! What keeps the home folder in order: old runs removed, the database copied and checked.

use std::path::Path;

use relais_engine::RunStatus;
use relais_runtime::settings::Retention;
use relais_store::{Prune, Pruned, SqliteStore};

use crate::{Error, Service};

/// Runs removed in one transaction, so that others get their turn at the file.
const PRUNED_AT_ONCE: usize = 500;

fn kept_ms(retention: &Retention, status: RunStatus) -> Option<u64> {
    let own = match status {
        RunStatus::Completed => retention.completed,
        RunStatus::Stopped => retention.stopped,
        RunStatus::PartialSuccess => retention.partial_success,
        RunStatus::Failed => retention.failed,
        RunStatus::Cancelled => retention.cancelled,
        RunStatus::Pending | RunStatus::Running | RunStatus::Interrupted | RunStatus::Waiting => return None,
    };
    own.or(retention.keep).map(|age| age.ms)
}

impl Service {
    /// Removes finished runs (of these statuses, or all) that ended before the time to keep, and their workspaces.
    pub async fn prune(&self, keep_ms: u64, statuses: &[RunStatus]) -> Result<Pruned, Error> {
        if let Some(status) = statuses.iter().find(|status| !status.is_final()) {
            return Err(Error::Invalid(format!("a run that is {} cannot be removed; cancel it first", status.word())));
        }
        let statuses = if statuses.is_empty() { &RunStatus::FINAL } else { statuses };
        self.prune_older(statuses.iter().map(|status| (*status, keep_ms))).await
    }

    /// Removes what the settings do not keep any longer.
    pub async fn retain(&self, retention: &Retention) -> Result<Pruned, Error> {
        let kept = RunStatus::FINAL.iter().filter_map(|status| Some((*status, kept_ms(retention, *status)?)));
        self.prune_older(kept).await
    }

    /// Each status with the time that its runs are kept after they ended.
    async fn prune_older(&self, kept: impl Iterator<Item = (RunStatus, u64)>) -> Result<Pruned, Error> {
        let now = self.core.clock.now();
        let limit = |keep_ms: u64| now.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX));
        let before: Vec<_> = kept.map(|(status, keep_ms)| (status, limit(keep_ms))).collect();
        let mut total = Pruned::default();
        loop {
            let pruned = self
                .core
                .store
                .prune(Prune { before: before.clone(), limit: PRUNED_AT_ONCE, ..Prune::default() })
                .await?;
            total.runs += pruned.runs;
            total.blobs += pruned.blobs;
            if pruned.runs == 0 {
                break;
            }
        }
        if total.runs > 0 {
            self.remove_workspaces().await?;
        }
        Ok(total)
    }

    fn file(&self) -> Result<&SqliteStore, Error> {
        let file = self.core.file.as_deref();
        file.ok_or_else(|| Error::Unusable("this database is no file that could be copied or checked".into()))
    }

    /// A copy of the database, made while it is in use.
    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        Ok(self.file()?.backup(to).await?)
    }

    /// What is wrong with the database; nothing if all is well.
    pub async fn check_database(&self) -> Result<Vec<String>, Error> {
        Ok(self.file()?.check().await?)
    }
}
