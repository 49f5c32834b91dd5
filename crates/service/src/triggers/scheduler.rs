//! Starts runs when their time has come.
//!
//! The scheduler asks the store for the earliest time, sleeps until then, and takes what is due in batches; no trigger
//! stays in memory. Each batch goes through two changes. The first writes down what was decided, and the runs that are
//! owed; the second, when those runs are there, that they are. A run is started under a key made of trigger and tick.
//! So whatever is cut off in between is done again with the same outcome, by this server or another.

mod decide;
mod start;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::time::Duration;

use relais_engine::{Millis, RunId};
use relais_plan::{Overlap, schedule};
use relais_store::{Change, Edit, Expect, Find, Record, Row};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use self::decide::{Decided, Facts};
use crate::kept::{self, At, Kept};
use crate::triggers::decisions::{Decision, ordered_id};
use crate::triggers::sent::{self, Arrival, arrival_id};
use crate::{Error, Service, TriggerRecord, Workflow};

/// Triggers taken in one go: their changes share a transaction, and so many runs are started side by side.
const BATCH: usize = 250;
/// Batches before the loop asks again whether it is to stop.
const MAX_BATCHES: usize = 20;
/// The longest sleep: clocks are set, and a change of another process may go unheard.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);
/// After an error of the store.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A trigger as it is to be kept, with what was decided about it.
struct Moved {
    /// Of the user whose trigger it is.
    service: Service,
    at: At<TriggerRecord>,
    /// It is in the store like this; only the runs that it owes are missing.
    is_kept: bool,
    decisions: Vec<Decision>,
}

impl Service {
    /// Fires triggers until it is told to stop. One for each server; several servers may share a database.
    pub async fn run_scheduler(self, mut stop: watch::Receiver<bool>) {
        let mut tail = self.core.store.tail();
        while !*stop.borrow() {
            let pause = match self.fire_due().await {
                Ok(next) => self.until(next),
                Err(error) => self.tell_trouble(&error),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.core.triggers_changed.notified() => {}
                () = foreign_change(&mut tail) => {}
                stopped = stop.changed() => if stopped.is_err() { return },
            }
        }
    }

    fn until(&self, next: Option<Millis>) -> Duration {
        let ms = next.map_or(Millis::MAX, |next| next.saturating_sub(self.core.clock.now()).max(0));
        Duration::from_millis(ms.cast_unsigned()).min(LONGEST_SLEEP)
    }

    /// Starts what is due now, of all users; answers when something will be due again.
    pub async fn fire_due(&self) -> Result<Option<Millis>, Error> {
        for _ in 0..MAX_BATCHES {
            let now = self.core.clock.now();
            let kind = TriggerRecord::KIND.to_owned();
            let find = Find { kind: kind.clone(), due_by: Some(now), limit: BATCH, ..Find::default() };
            let due = self.core.store.records(find).await?;
            if due.is_empty() {
                return Ok(self.core.store.next_due(kind).await?);
            }
            self.fire(due, now).await?;
        }
        Ok(Some(self.core.clock.now()))
    }

    fn tell_trouble(&self, error: &Error) -> Duration {
        tracing::warn!(%error, "schedules stand still for a moment");
        let text = format!("\n[schedules stand still for a moment: {error}]\n");
        self.worker().performer().say(RunId::nil(), text);
        AFTER_ERROR
    }

    async fn fire(&self, due: Vec<Record>, now: Millis) -> Result<(), Error> {
        let mut triggers = Vec::new();
        for record in due {
            let service = self.as_user(&record.key.owner);
            triggers.extend(self.read_due::<TriggerRecord>(record).await?.map(|at| (service, at)));
        }
        let (judged, trouble) = side_by_side(triggers, |(service, at)| service.judge(at, now)).await;
        let judged = judged.into_iter().flatten();
        let (mut owing, moved): (Vec<Moved>, Vec<Moved>) = judged.partition(|moved| moved.is_kept);
        owing.extend(self.keep(moved).await?.into_iter().filter(|moved| !moved.at.it.owed.is_empty()));
        let (started, more_trouble) = side_by_side(owing, |moved| moved.start_owed(now)).await;
        self.keep(started).await?;
        trouble.or(more_trouble).map_or(Ok(()), Err)
    }

    /// What becomes of a trigger that is due.
    async fn judge(self, at: At<TriggerRecord>, now: Millis) -> Result<Option<Moved>, Error> {
        let Some(at) = self.close_gathering(at, now).await? else { return Ok(None) };
        self.judged(at, now).await.map(Some)
    }

    async fn judged(self, at: At<TriggerRecord>, now: Millis) -> Result<Moved, Error> {
        let is_kept = !at.it.owed.is_empty();
        let mut moved = Moved { service: self, at, is_kept, decisions: Vec::new() };
        if is_kept {
            return Ok(moved);
        }
        if moved.at.it.off.is_some() {
            moved.rest(now);
            return Ok(moved);
        }
        let service = &moved.service;
        let trigger = &moved.at.it;
        let Some(workflow) = service.find_kept::<Workflow>(&trigger.workflow_uuid.to_string()).await? else {
            moved.put_aside("its workflow is gone", now);
            return Ok(moved);
        };
        match schedule::parse(&trigger.on, service.timezone(), trigger.set_at) {
            Ok(Some(schedule)) => {
                let facts = service.facts(trigger, &workflow.it).await?;
                let decided = decide::decide(trigger, &schedule, now, &facts);
                moved.take(decided, now);
            }
            Ok(None) => {
                let facts = service.facts(trigger, &workflow.it).await?;
                moved.take(decide::queued(trigger, now, &facts), now);
            }
            Err(reason) => moved.put_aside(&reason, now),
        }
        Ok(moved)
    }

    /// The run that a trigger started last, if it is still going.
    pub(crate) async fn going(&self, trigger: &TriggerRecord) -> Result<Option<RunId>, Error> {
        Ok(self.last_run(trigger).await?.0)
    }

    async fn facts(&self, trigger: &TriggerRecord, workflow: &Workflow) -> Result<Facts, Error> {
        let closed = sent::closed(workflow).map(str::to_owned);
        let overlaps = trigger.on.overlap == Overlap::Allow && !decide::waits_for_run(trigger);
        if overlaps {
            return Ok(Facts { closed, ..Facts::default() });
        }
        let (going, ended_at) = self.last_run(trigger).await?;
        Ok(Facts { closed, going, ended_at })
    }

    /// The last run, if it is going, or else when it ended.
    async fn last_run(&self, trigger: &TriggerRecord) -> Result<(Option<RunId>, Option<Millis>), Error> {
        let Some(run) = trigger.last_run else { return Ok((None, None)) };
        match self.row(run).await {
            Ok(Row { summary, .. }) if summary.status.is_final() => Ok((None, summary.ended_at)),
            Ok(_) => Ok((Some(run), None)),
            // It has ended long ago and was removed.
            Err(Error::NotFound(_)) => Ok((None, None)),
            Err(error) => Err(error),
        }
    }

    /// Starts what a trigger that is kept like this owes; answers what became of each time.
    pub(crate) async fn start_now(
        &self,
        at: At<TriggerRecord>,
        now: Millis,
    ) -> Result<Vec<(Millis, String, Option<RunId>)>, Error> {
        let moved = Moved { service: self.clone(), at, is_kept: true, decisions: Vec::new() };
        let moved = moved.start_owed(now).await?;
        let told = |decision: &Decision| (decision.tick.unwrap_or(now), decision.reason.clone(), decision.run);
        let told = moved.decisions.iter().map(told).collect();
        self.keep(vec![moved]).await?;
        Ok(told)
    }

    /// Keeps what was decided; answers those that nobody else had changed in the meantime.
    async fn keep(&self, moved: Vec<Moved>) -> Result<Vec<Moved>, Error> {
        let mut edits = Vec::new();
        let mut first_edits = Vec::new();
        for one in &moved {
            first_edits.push(edits.len());
            edits.extend(one.edits().await?);
        }
        if edits.is_empty() {
            return Ok(moved);
        }
        match self.core.store.change(edits, self.core.clock.now()).await.map_err(Error::from) {
            Ok(revisions) => {
                moved.iter().flat_map(|moved| &moved.decisions).for_each(|decision| self.tell_decision(decision));
                let revised = moved.into_iter().zip(first_edits).map(|(moved, edit)| moved.revised(revisions[edit]));
                Ok(revised.collect())
            }
            Err(Error::Stale(_)) if moved.len() > 1 => self.keep_each(moved).await,
            // Another server was quicker, or somebody has changed the trigger: it is due again if it still is.
            Err(Error::Stale(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn keep_each(&self, moved: Vec<Moved>) -> Result<Vec<Moved>, Error> {
        let mut kept = Vec::new();
        for one in moved {
            kept.extend(Box::pin(self.keep(vec![one])).await?);
        }
        Ok(kept)
    }

    /// What has to be written when a run has ended, so that what waits for it goes on: the rest of a queue, or the next
    /// run of a continuous trigger.
    pub async fn after_end_edits(&self, row: &Row) -> Result<Vec<Edit>, Error> {
        let Some(id) = &row.summary.target.trigger else { return Ok(Vec::new()) };
        let service = self.as_user(&row.summary.user);
        let record = self.core.store.get_record(kept::key::<TriggerRecord>(service.user(), id)).await?;
        let Some(mut at) = record.and_then(kept::readable::<TriggerRecord>) else { return Ok(Vec::new()) };
        if !decide::waits_for_run(&at.it) && at.it.owed.is_empty() {
            return Ok(Vec::new());
        }
        at.it.look_at = Some(self.core.clock.now());
        Ok(vec![kept::put(service.user(), &at.it, Expect::Revision(at.revision))?])
    }
}

impl Moved {
    fn take(&mut self, decided: Decided, now: Millis) {
        let Decided { start, declined, next_at, look_at, queued } = decided;
        let trigger = &mut self.at.it;
        let ticks = start.iter().map(|owed| owed.tick).chain(declined.iter().map(|declined| declined.tick));
        trigger.last_tick = ticks.chain(trigger.last_tick).max();
        (trigger.owed, trigger.next_at, trigger.look_at, trigger.queued) = (start, next_at, look_at, queued);
        for declined in declined {
            self.decide(now, declined.tick, declined.reason, None);
        }
    }

    /// It is switched off; somebody had asked to look at it before, or without knowing.
    fn rest(&mut self, now: Millis) {
        let trigger = &mut self.at.it;
        (trigger.next_at, trigger.look_at) = (None, None);
        let reason = trigger.off.clone().unwrap_or_default();
        for tick in std::mem::take(&mut trigger.queued) {
            self.decide(now, tick, reason.clone(), None);
        }
    }

    /// It can never fire again as it is.
    fn put_aside(&mut self, reason: &str, now: Millis) {
        let trigger = &mut self.at.it;
        let waiting = std::mem::take(&mut trigger.queued);
        // One that is looked at for the sake of its queue has no time of its own.
        let tick = trigger.next_at.or_else(|| waiting.is_empty().then_some(now));
        (trigger.next_at, trigger.look_at, trigger.off) = (None, None, Some(reason.to_owned()));
        for tick in waiting.into_iter().chain(tick) {
            self.decide(now, tick, reason.to_owned(), None);
        }
    }

    fn decide(&mut self, at: Millis, tick: Millis, reason: String, run: Option<RunId>) {
        let id = ordered_id(at, self.decisions.len());
        let (trigger, starts) = (self.at.it.uuid, run.is_some());
        self.decisions.push(Decision { id, trigger, at, tick: Some(tick), starts, reason, run, times: 1 });
    }

    /// The trigger itself first.
    async fn edits(&self) -> Result<Vec<Edit>, Error> {
        let mut edits = vec![kept::put(self.service.user(), &self.at.it, Expect::Revision(self.at.revision))?];
        for decision in &self.decisions {
            edits.extend(self.service.decision_edits(decision).await?);
            if let Some(tick) = decision.tick.filter(|_| self.at.it.is_sent()) {
                let id = arrival_id(self.at.it.uuid, tick);
                edits.push(kept::remove::<Arrival>(self.service.user(), &id, Expect::Any));
            }
        }
        Ok(edits)
    }

    fn revised(self, revision: u64) -> Moved {
        Moved { at: At { revision, ..self.at }, is_kept: true, decisions: Vec::new(), ..self }
    }
}

/// All at once, at most a batch of them; one that fails does not keep the others.
async fn side_by_side<I, T, F>(items: Vec<I>, work: impl Fn(I) -> F) -> (Vec<T>, Option<Error>)
where
    F: Future<Output = Result<T, Error>> + Send + 'static,
    T: Send + 'static,
{
    let mut tasks: JoinSet<_> = items.into_iter().map(work).collect();
    let (mut done, mut trouble) = (Vec::new(), None);
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok(Ok(it)) => done.push(it),
            Ok(Err(error)) => trouble = Some(error),
            Err(error) => trouble = Some(Error::Unusable(error.to_string())),
        }
    }
    (done, trouble)
}

/// Waits until another process has written something, or so much has happened here that this may have been missed.
async fn foreign_change(tail: &mut broadcast::Receiver<Change>) {
    loop {
        match tail.recv().await {
            Ok(change) if change.is_foreign() => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
