//! What a process does that stays: it takes up what others left behind, starts what is due, does what follows from the
//! end of runs, removes what is old, and leaves in order. Knows nothing of sockets and signals: a surface says when.

use std::future::Future;
use std::time::Duration;

use relais_engine::RunId;
use relais_store::Filter;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
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
/// How long what is under way may take to end when everything else has: requests, and what goes on by itself in its last
/// turn. What they wrote is durable. One budget for all of it, so that a process is gone when its supervisor expects it.
pub const END_TIME: Duration = Duration::from_secs(5);

/// Everything that goes on by itself in a process that stays. If it is dropped, all of it ends where it is.
pub struct Running<T> {
    service: Service,
    /// True when nothing is to start any more.
    starts: watch::Sender<bool>,
    /// True when nothing is to follow from the end of runs any more.
    follows: watch::Sender<bool>,
    all: JoinSet<()>,
    tell: T,
}

impl Service {
    /// Begins with all that a server does by itself: runs are taken up, triggers fire, summaries are made, what follows
    /// from the end of runs is done, and old runs are removed. Trouble that people should hear of is told in whole
    /// sentences. Must be called inside a tokio runtime.
    pub fn serve<T: Fn(&str) + Clone + Send + 'static>(&self, retention: Retention, tell: T) -> Running<T> {
        let (starts, stopped) = watch::channel(false);
        let (follows, over) = watch::channel(false);
        let mut all = JoinSet::new();
        all.spawn(self.clone().run_adoption(stopped.clone(), trouble(&tell, "runs cannot be taken up")));
        all.spawn(self.clone().run_scheduler(stopped.clone()));
        all.spawn(self.clone().run_summaries(stopped.clone()));
        all.spawn(self.clone().run_bulk(stopped.clone()));
        all.spawn(self.clone().run_retention(retention, stopped, trouble(&tell, "old runs cannot be removed")));
        all.spawn(feed(self.clone(), over, trouble(&tell, "ended runs are neither counted nor told")));
        Running { service: self.clone(), starts, follows, all, tell }
    }
}

impl<T: Fn(&str)> Running<T> {
    /// From now on nothing new is started or taken up; what follows from the end of runs goes on, because some are still
    /// to end. Answers how many are at work.
    pub fn stop_taking(&self) -> usize {
        self.starts.send_replace(true);
        self.service.worker().stop_taking();
        self.service.worker().at_work()
    }

    /// Returns when all that was going has ended, waits, or was let go because its `grace` or `hurry` was over; those
    /// are answered and go on from the journal in the next process. A workflow's own time stands over `grace`.
    pub async fn drain(&self, grace: Duration, hurry: impl Future) -> Vec<RunId> {
        self.stop_taking();
        let worker = self.service.worker();
        tokio::select! {
            left = worker.drain(grace) => left,
            _ = hurry => worker.let_everything_go().await,
        }
    }

    /// Returns when all that goes on by itself has ended, or was cut off because [`END_TIME`] was over. Runs that are
    /// at work go on.
    pub async fn end(mut self) {
        self.starts.send_replace(true);
        self.follows.send_replace(true);
        let ended = async { while self.all.join_next().await.is_some() {} };
        if tokio::time::timeout(END_TIME, ended).await.is_err() {
            (self.tell)("some of the work in the background was cut off; the next start does it");
        }
    }
}

/// What follows from the end of runs.
async fn feed(service: Service, stop: watch::Receiver<bool>, report: impl Fn(&Error)) {
    if let Err(error) = service.run_feed(stop).await {
        report(&error);
    }
}

fn trouble<T: Fn(&str) + Clone>(tell: &T, what: &'static str) -> impl Fn(&Error) + use<T> {
    let tell = tell.clone();
    move |error| tell(&format!("{what}: {error}"))
}

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
    async fn run_adoption(self, stop: watch::Receiver<bool>, report: impl Fn(&Error)) {
        self.worker().stay();
        let mut rhythm = Rhythm { every: LOOK_EVERY, stop, report, told: false };
        while rhythm.goes_on(self.adopt_all().await.err()).await {}
    }

    /// Removes runs that are older than the settings keep them.
    async fn run_retention(self, retention: Retention, stop: watch::Receiver<bool>, report: impl Fn(&Error)) {
        if retention == Retention::default() {
            return;
        }
        let mut rhythm = Rhythm { every: TIDY_EVERY, stop, report, told: false };
        while rhythm.goes_on(self.retain(&retention).await.err()).await {}
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
