//! Nobody at work: a run that somebody worked on who is gone is shown as interrupted.
//!
//! Never kept: a process that dies cannot say so. Whoever looks finds out, in this one place.

use relais_engine::{Millis, RunStatus};
use relais_runtime::host;
use relais_store::{Filter, Owner, Page, Row};

use crate::{Error, Service};

/// Pages looked through for one that has something on it.
const MAX_PAGES: usize = 100;

impl Service {
    /// Runs as they are to be shown, newest first.
    pub async fn runs(&self, filter: Filter) -> Result<Page, Error> {
        let wanted = wanted(&filter.status);
        let mut filter = Filter { user: Some(self.user().to_owned()), status: kept(&wanted), ..filter };
        for _ in 1..MAX_PAGES {
            let page = self.shown(self.core.store.list(filter.clone()).await?, &wanted);
            if !page.rows.is_empty() || page.cursor.is_none() {
                return Ok(page);
            }
            filter.cursor = page.cursor;
        }
        Ok(self.shown(self.core.store.list(filter).await?, &wanted))
    }

    fn shown(&self, mut page: Page, wanted: &[RunStatus]) -> Page {
        self.mark_interrupted(&mut page.rows);
        page.rows.retain(|row| wanted.is_empty() || wanted.contains(&row.summary.status));
        page
    }

    /// Says of each run that is left alone that it is.
    pub(crate) fn mark_interrupted(&self, rows: &mut [Row]) {
        let mut owners: Vec<Owner> =
            rows.iter().filter(|row| is_at_work(row)).filter_map(|row| row.owner.clone()).collect();
        owners.sort_unstable();
        owners.dedup();
        let (dead, now) = (host::dead(&owners), self.core.clock.now());
        for row in rows.iter_mut().filter(|row| is_left_alone(row, &dead, now)) {
            row.summary.status = RunStatus::Interrupted;
        }
    }
}

fn is_at_work(row: &Row) -> bool {
    matches!(row.summary.status, RunStatus::Running | RunStatus::Pending)
}

/// A run that nobody has begun waits for somebody; one that was begun has lost him.
fn is_left_alone(row: &Row, dead: &[Owner], now: Millis) -> bool {
    match &row.owner {
        None => row.summary.status == RunStatus::Running,
        Some(owner) => is_at_work(row) && (dead.contains(owner) || row.lease_until.is_none_or(|until| until <= now)),
    }
}

/// Whoever asks for everything unfinished means those, too.
fn wanted(statuses: &[RunStatus]) -> Vec<RunStatus> {
    let mut wanted = statuses.to_vec();
    if RunStatus::UNFINISHED.iter().all(|status| wanted.contains(status)) {
        wanted.push(RunStatus::Interrupted);
    }
    wanted
}

/// How the runs that are wanted are kept.
fn kept(wanted: &[RunStatus]) -> Vec<RunStatus> {
    let mut kept: Vec<RunStatus> = wanted.iter().copied().filter(|s| *s != RunStatus::Interrupted).collect();
    if wanted.contains(&RunStatus::Interrupted) {
        let begun = [RunStatus::Running, RunStatus::Pending];
        kept.extend(begun.into_iter().filter(|status| !wanted.contains(status)));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_looked_for_where_it_is_kept() {
        use RunStatus::*;
        for (asked, expected) in [
            (vec![], vec![]),
            (vec![Failed], vec![Failed]),
            (vec![Interrupted], vec![Running, Pending]),
            (vec![Running, Interrupted], vec![Running, Pending]),
            (RunStatus::UNFINISHED.to_vec(), RunStatus::UNFINISHED.to_vec()),
        ] {
            assert_eq!(kept(&wanted(&asked)), expected, "{asked:?}");
        }
    }
}
