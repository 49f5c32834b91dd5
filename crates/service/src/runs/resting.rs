//! Waiting for a run without working on it: until it has ended, or waits for somebody.

use std::time::Duration;

use relais_engine::{Awaiting, Command, Run, RunId, RunStatus, Summary};
use relais_store::Row;
use tokio::time::{Instant, timeout_at};

use crate::{Error, Service};

/// How often a run that waits for its child runs is looked at: what happens to a child is not told to its parent's
/// watchers.
const CHILD_PAUSE: Duration = Duration::from_millis(250);
/// How often any other is: a lease that is given up is not told to anybody.
const PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// How the run stands when it has ended or waits for somebody, and in any case when the time is up.
    pub async fn rested(&self, run: RunId, limit: Duration) -> Result<Row, Error> {
        let until = Instant::now() + limit;
        // The news are asked for before the first look, so that nothing falls between.
        let mut news = self.news_of(run);
        loop {
            let row = self.row(run).await?;
            let looks_down = row.summary.awaits.iter().any(|what| what.starts_with("run:"));
            if Instant::now() >= until || self.rests(&row).await? {
                return Ok(row);
            }
            let pause = if looks_down { CHILD_PAUSE } else { PAUSE };
            // Late or not, the next look tells.
            let _ = timeout_at(until.min(Instant::now() + pause), news.next()).await;
        }
    }

    /// Nothing more happens to it until somebody does something.
    pub async fn rests(&self, row: &Row) -> Result<bool, Error> {
        let summary = &row.summary;
        // Whoever has taken it up has read an answer or a signal that the row does not show yet.
        if row.owner.is_some() {
            return Ok(false);
        }
        let waits = summary.status == RunStatus::Waiting && summary.awaits.iter().any(|what| what != "time");
        if !(summary.status.is_final() || waits) || self.moving_child(&summary.awaits).await?.is_some() {
            return Ok(false);
        }
        // Nor does it show what was appended behind it, before somebody takes the run up.
        let (_, _, state) = self.load(summary.run).await?;
        Ok(is_of(summary, &state))
    }
}

/// Whether a row shows all that its journal has: a pause, a cancel, an answer or a signal that nobody has come to yet
/// is in the journal alone.
fn is_of(row: &Summary, state: &Run) -> bool {
    let waits_for = |what: &str| row.awaits.iter().any(|awaited| awaited == what);
    let is_owed = |what: &String| match what.split_once(':') {
        Some(("person", id)) => id.parse().is_ok_and(|id| state.owed.contains_key(&id)),
        Some(("signal", name)) => state.owed.values().any(|owed| is_signal(&owed.command, name)),
        Some(_) | None => true,
    };
    let is_closed = state.closed.is_some();
    row.status.is_final() == is_closed
        && (is_closed || waits_for("paused") == state.paused && state.cancels == 0)
        && row.awaits.iter().all(is_owed)
}

fn is_signal(command: &Command, wanted: &str) -> bool {
    matches!(command, Command::Await(Awaiting::Signal(name)) if name == wanted)
}
