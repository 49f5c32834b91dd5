//! What a process does that stays: it takes up what others left behind, removes what is old, and leaves in order.

use std::time::Duration;

use relais_engine::RunId;
use relais_store::Filter;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::{Error, Retention, Service};

/// How often runs are looked for whose time has come or whose process has died. Leases last longer than that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often old runs are looked for: their time is given in hours and days.
const TIDY_EVERY: Duration = Duration::from_secs(600);
/// The database is tried at most so often, however many ask: each try is a write, and anybody may ask.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// A database that takes longer than this to answer one question is in trouble.
const DATABASE_PATIENCE: Duration = Duration::from_secs(2);

/// Whether requests are welcome, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// It is about to leave and starts nothing new.
    Draining,
    Database(String),
}

/// How the database was found when somebody last asked.
pub(crate) type Known = Mutex<Option<(Instant, Readiness)>>;

impl Service {
    pub async fn readiness(&self) -> Readiness {
        if self.worker().is_draining() {
            return Readiness::Draining;
        }
        let mut known = self.core.readiness.lock().await;
        match &*known {
            Some((at, readiness)) if at.elapsed() < TRY_EVERY => readiness.clone(),
            Some(_) | None => {
                let readiness = self.try_database().await;
                tell_change(known.as_ref().map(|(_, before)| before), &readiness);
                *known = Some((Instant::now(), readiness.clone()));
                readiness
            }
        }
    }

    /// By reading and by writing: a full disk can still be read.
    async fn try_database(&self) -> Readiness {
        let tried = async {
            self.core.store.list(Filter { limit: 1, ..Filter::default() }).await?;
            self.core.store.probe().await
        };
        match tokio::time::timeout(DATABASE_PATIENCE, tried).await {
            Ok(Ok(())) => Readiness::Ready,
            Ok(Err(error)) => Readiness::Database(error.to_string()),
            Err(_) => Readiness::Database("the database does not answer".into()),
        }
    }

    /// Refuses new work in a process that is about to leave.
    pub(crate) fn must_take_work(&self) -> Result<(), Error> {
        if !self.worker().is_draining() {
            return Ok(());
        }
        Err(Error::Busy("the server is shutting down and starts nothing new; ask again in a moment".into()))
    }

    /// Takes up what is due and what dead processes left behind, again and again until told to stop.
    pub async fn run_adoption(self, stop: watch::Receiver<bool>, report: impl Fn(&Error)) {
        self.worker().stay();
        let mut rhythm = Rhythm { every: LOOK_EVERY, stop, report, told: false };
        while rhythm.goes_on(self.adopt_all().await.err()).await {}
    }

    /// Removes runs that are older than the settings keep them.
    pub async fn run_retention(self, retention: Retention, stop: watch::Receiver<bool>, report: impl Fn(&Error)) {
        if retention == Retention::default() {
            return;
        }
        let mut rhythm = Rhythm { every: TIDY_EVERY, stop, report, told: false };
        while rhythm.goes_on(self.retain(&retention).await.err()).await {}
    }

    /// From now on nothing new is started or taken up. Returns when all that was going has ended, waits, or was let go
    /// because its time was over; those are answered.
    pub async fn drain(&self, grace: Duration) -> Vec<RunId> {
        self.worker().drain(grace).await
    }

    /// Lets go of everything where it is; it goes on from the journal in the next process.
    pub async fn let_everything_go(&self) -> Vec<RunId> {
        self.worker().let_everything_go().await
    }
}

/// Trouble is told once, and so is its end.
fn tell_change(before: Option<&Readiness>, now: &Readiness) {
    match (before, now) {
        (Some(Readiness::Database(_)), Readiness::Database(_)) => {}
        (_, Readiness::Database(error)) => tracing::warn!(error, "the database is out of reach; work waits"),
        (Some(Readiness::Database(_)), _) => tracing::info!("the database is back; work goes on"),
        (Some(_) | None, _) => {}
    }
}

/// The pace of something that is done again and again. Trouble is told once until it is over.
struct Rhythm<R> {
    every: Duration,
    stop: watch::Receiver<bool>,
    report: R,
    told: bool,
}

impl<R: Fn(&Error)> Rhythm<R> {
    /// Waits for the next time; false when it is over.
    async fn goes_on(&mut self, trouble: Option<Error>) -> bool {
        match &trouble {
            Some(error) if !self.told => (self.report)(error),
            Some(_) | None => {}
        }
        self.told = trouble.is_some();
        tokio::time::timeout(self.every, self.stop.wait_for(|stop| *stop)).await.is_err()
    }
}
