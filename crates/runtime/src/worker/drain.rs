//! Shutting down in order: nothing new is taken up, what is going may end within its time, the rest is let go and
//! goes on from the journal in the next process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relais_engine::RunId;
use tokio::sync::RwLockReadGuard;
use tokio::time::Instant;

use super::{Worker, locked};

impl Worker {
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// From now on nothing is taken up that is not at work here. A run that comes to wait leaves and is not woken.
    pub fn stop_taking(&self) {
        self.draining.store(true, Ordering::Release);
        self.timer_set.notify_one();
    }

    /// A turn at taking something up, none while this process shuts down. Whoever shuts down waits for the turns of
    /// others: a run that was let go would be claimed again by one who had looked before.
    pub(super) async fn turn_at_taking(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let turn = self.taking.read().await;
        (!self.is_draining()).then_some(turn)
    }

    async fn nothing_is_taken(&self) {
        self.stop_taking();
        drop(self.taking.write().await);
    }

    /// How many runs this process works on.
    pub fn at_work(&self) -> usize {
        locked(&self.active).len()
    }

    /// Waits until nothing is at work here any more. A run is let go when the time is over that its workflow wants for
    /// this, else `grace`. Answers the runs that were let go.
    pub async fn drain(self: &Arc<Worker>, grace: Duration) -> Vec<RunId> {
        self.nothing_is_taken().await;
        let began = Instant::now();
        let mut left = Vec::new();
        loop {
            // Listening before the look, so that no end falls between.
            let mut someone_left = std::pin::pin!(self.left.notified());
            someone_left.as_mut().enable();
            let (overdue, next) = self.overdue(began, grace);
            self.let_all_go(&overdue).await;
            left.extend(overdue);
            match next {
                None if self.at_work() == 0 => return left,
                None => {}
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, someone_left).await;
                }
            }
        }
    }

    /// The runs whose time is over, and when that of the next one is.
    fn overdue(&self, began: Instant, grace: Duration) -> (Vec<RunId>, Option<Instant>) {
        let (mut overdue, mut next) = (Vec::new(), None);
        for (run, active) in locked(&self.active).iter() {
            let own = active.standing.shutdown_timeout_ms.get().copied().flatten();
            let until = began + own.map_or(grace, Duration::from_millis).min(LONGEST);
            if until <= Instant::now() {
                overdue.push(*run);
            } else {
                next = Some(next.map_or(until, |next: Instant| next.min(until)));
            }
        }
        (overdue, next)
    }

    /// Lets everything go at once; answers the runs.
    pub async fn let_everything_go(self: &Arc<Worker>) -> Vec<RunId> {
        self.nothing_is_taken().await;
        let runs: Vec<RunId> = locked(&self.active).keys().copied().collect();
        self.let_all_go(&runs).await;
        runs
    }

    /// Ends the tasks of these runs where they are. Their journals are whole at every entry; the leases are given up,
    /// so that another process need not wait until they have run out.
    async fn let_all_go(self: &Arc<Worker>, runs: &[RunId]) {
        for run in runs {
            let Some(active) = locked(&self.active).remove(run) else { continue };
            active.task.abort();
        }
        for run in runs {
            // A lease that cannot be given up runs out by itself.
            let _ = self.store.release(*run, self.owner.clone()).await;
        }
    }
}

/// Far enough away, and no overflow of the clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);
