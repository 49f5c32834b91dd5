//! What follows from the end of a run, exactly once whatever happens: each run that has ended is taken note of in one
//! change together with the tallies, the usage, the notifications and what triggers wait for it. If anything of that was
//! changed meanwhile, by this server or another, nothing is written and all is read again.
//!
//! What is written with an end has a file each in the folder: `tally`, `usage`, `notifications`; `notify` sends those.
//! `waiting` tells people what they are asked.
//! Observers (metrics, traces) hear of an end after that; what they make of it is lost with the process.

pub(crate) mod notifications;
pub mod notify;
pub(crate) mod tally;
pub(crate) mod usage;
mod waiting;

mod bill;
mod spans;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relais_engine::{Entry, Millis, Program, RunId};
use relais_runtime::prepare::load_plan;
use relais_store::{Edit, Expect, Filter, Row};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::feed::notify::Senders;
use crate::feed::tally::Tally;
use crate::feed::usage::UsageRow;
use crate::kept::{self, At, Kept};
use crate::{Decision, Error, Service};

pub use bill::{Bill, CallCourse, Course, StepCourse};
pub(crate) use bill::{add_to, bill};
pub use spans::{Recorded, Recording, Span, SpanId, Spanned};

/// Runs in one change. Larger ones meet others' changes more often.
const BATCH: usize = 50;
/// The longest that an end stays unnoticed when the tail says nothing.
const LOOK: Duration = Duration::from_secs(1);
/// Ends come in crowds; a moment's patience makes one change of many.
const GATHER: Duration = Duration::from_millis(20);
/// How often a batch that met others' changes is read again before it is made smaller.
const TRIES: u32 = 3;
/// Plans kept at hand.
const MAX_PROGRAMS: usize = 64;
/// How often what is old is removed.
const TIDY: Duration = Duration::from_secs(60 * 60);

/// Hears of ended runs, each once. Must return at once.
pub trait Observer: Send + Sync {
    fn ended(&self, end: &End);

    /// A trigger was decided on so long after its time.
    fn decided(&self, _late_ms: u64) {}
}

/// A run that has ended, as far as it is new.
pub struct End {
    pub row: Row,
    pub bill: Bill,
    pub course: Course,
    /// The run that was started by hand or by a trigger; this one, or what it is part of.
    pub root: Row,
    program: Arc<Program>,
    entries: Arc<Vec<Entry>>,
}

/// Who hears of ended runs.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<Arc<dyn Observer>>>);

impl Observers {
    fn all(&self) -> Vec<Arc<dyn Observer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Service {
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.core.observers.0.lock().unwrap_or_else(PoisonError::into_inner).push(observer);
    }

    /// For the scheduler: a decision about a trigger was kept.
    pub(crate) fn tell_decision(&self, decision: &Decision) {
        let Decision { trigger, at, tick, starts, reason, run, .. } = decision;
        let late_ms = tick.map_or(0, |tick| at.saturating_sub(tick).max(0).cast_unsigned());
        tracing::info!(%trigger, starts, reason, run = ?run.map(|run| run.to_string()), late_ms, "trigger decided");
        for observer in self.core.observers.all() {
            observer.decided(late_ms);
        }
    }

    /// Takes note of ended runs and sends notifications, until it is told to stop.
    pub async fn run_feed(self, stop: watch::Receiver<bool>) -> Result<(), Error> {
        let senders = Arc::new(Senders::new(&self.config().settings, self.core.clock.clone())?);
        tokio::join!(self.note_ends(stop.clone()), self.tell_questions(stop.clone()), self.deliver(senders, stop));
        Ok(())
    }

    async fn note_ends(&self, mut stop: watch::Receiver<bool>) {
        // Subscribed before the first look, so that nothing falls between.
        let mut tail = self.core.store.tail();
        let mut feed = Feed { service: self.clone(), programs: HashMap::new(), strikes: HashMap::new() };
        let mut tidied: Option<Instant> = None;
        while !*stop.borrow() {
            if let Err(error) = feed.take_all().await {
                tracing::warn!(%error, "ended runs could not be taken note of; trying again");
                tokio::time::sleep(LOOK).await;
            }
            if tidied.is_none_or(|at| at.elapsed() > TIDY) {
                tidied = Some(Instant::now());
                if let Err(error) = self.forget_old().await {
                    tracing::warn!(%error, "what nobody will look at any more could not be removed");
                }
            }
            let heard = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => false,
                () = news(&mut tail) => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            if heard {
                tokio::time::sleep(GATHER).await;
            }
        }
        // What ended in the last moment; what cannot be noted now is noted at the next start.
        if let Err(error) = feed.take_all().await {
            tracing::warn!(%error, "ended runs could not be taken note of; the next start does it");
        }
    }

    /// Takes note of everything that has ended by now.
    pub async fn feed_once(&self) -> Result<usize, Error> {
        Feed { service: self.clone(), programs: HashMap::new(), strikes: HashMap::new() }.take_all().await
    }

    /// The run that this one was started for, or itself.
    pub(crate) async fn root_row(&self, row: &Row) -> Result<Row, Error> {
        let mut root = row.clone();
        for _ in 0..relais_dialects::MAX_WORKFLOW_DEPTH {
            let Some(parent) = root.summary.parent else { break };
            let filter = Filter { run: Some(parent), ..Filter::default() };
            let Some(above) = self.core.store.list(filter).await?.rows.pop() else { break };
            root = above;
        }
        Ok(root)
    }
}

/// Something was written, or too much to be told.
async fn news(tail: &mut broadcast::Receiver<relais_store::Change>) {
    match tail.recv().await {
        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => while tail.try_recv().is_ok() {},
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}

struct Feed {
    service: Service,
    programs: HashMap<String, Arc<Program>>,
    /// How often a run could not be read.
    strikes: HashMap<RunId, u32>,
}

impl Feed {
    async fn take_all(&mut self) -> Result<usize, Error> {
        let (mut noted, mut size, mut tries) = (0, BATCH, 0);
        loop {
            let rows = self.service.core.store.ended(size).await?;
            if rows.is_empty() {
                return Ok(noted);
            }
            match self.take(apart(rows)).await {
                Ok(ends) => {
                    noted += ends.len();
                    (size, tries) = (BATCH, 0);
                    self.tell(&ends);
                }
                Err(Error::Stale(error)) if tries < TRIES || size > 1 => {
                    tracing::debug!(%error, "others changed what follows from an end; reading again");
                    tries += 1;
                    size = if tries > TRIES { 1 } else { size };
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// One change for all of them.
    async fn take(&mut self, rows: Vec<Row>) -> Result<Vec<End>, Error> {
        let mut ends = Vec::with_capacity(rows.len());
        let mut ledger = Ledger::default();
        let mut edits = Vec::new();
        for row in rows {
            let (run, seq) = (row.summary.run, row.seq);
            let end = match self.read(row).await {
                Ok(end) => end,
                Err(Error::Unusable(error)) if self.gives_up(run) => {
                    tracing::error!(%run, %error, "an ended run cannot be read and is left out");
                    edits.push(Edit::Reported { run, seq });
                    continue;
                }
                Err(other) => return Err(other),
            };
            edits.push(Edit::Reported { run, seq });
            self.count(&mut ledger, &end).await?;
            if end.bill.closed.is_some() {
                edits.extend(self.follow(&end).await?);
            }
            ends.push(end);
        }
        edits.extend(ledger.edits()?);
        self.service.change(edits).await?;
        Ok(ends)
    }

    /// One run that cannot be read must not keep the others from being taken note of.
    fn gives_up(&mut self, run: RunId) -> bool {
        let strikes = self.strikes.entry(run).or_default();
        *strikes += 1;
        let gives_up = *strikes > TRIES;
        if gives_up {
            self.strikes.remove(&run);
        }
        gives_up
    }

    async fn read(&mut self, row: Row) -> Result<End, Error> {
        let store = &self.service.core.store;
        let mut entries = store.load(row.summary.run, 0).await?;
        // What came in since the row was read is for the next time.
        entries.retain(|entry| entry.seq <= row.seq);
        let program = self.program(&row.summary.plan).await?;
        let bill = bill::bill(&entries, row.reported, self.service.default_model());
        let course = bill::course(&program, &entries, row.reported).map_err(|e| Error::Unusable(e.to_string()))?;
        let root = self.service.root_row(&row).await?;
        Ok(End { bill, course, program, entries: Arc::new(entries), root, row })
    }

    async fn program(&mut self, hash: &str) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.programs.get(hash) {
            return Ok(program.clone());
        }
        let plan = load_plan(self.service.core.store.as_ref(), hash).await?;
        let program = Arc::new(Program::new(plan));
        if self.programs.len() >= MAX_PROGRAMS {
            self.programs.clear();
        }
        self.programs.insert(hash.to_owned(), program.clone());
        Ok(program)
    }

    async fn count(&self, ledger: &mut Ledger, end: &End) -> Result<(), Error> {
        let (summary, bill) = (&end.row.summary, &end.bill);
        let ended_at = summary.ended_at.unwrap_or_else(|| self.service.core.clock.now());
        let user = self.service.as_user(&summary.user);
        let is_root = summary.parent.is_none();
        let used = UsageRow::of(&end.root, ended_at);
        if let Some(used) = ledger.usage.open(&user, used).await? {
            used.add(bill, ended_at, is_root);
        }
        if is_root && !summary.target.workflow.is_empty() {
            let tally = Tally { workflow: summary.target.workflow.clone(), ..Tally::default() };
            if let Some(tally) = ledger.tallies.open(&user, tally).await? {
                tally.count(summary.run, bill, ended_at);
            }
        }
        Ok(())
    }

    /// What others make of an end that is new.
    async fn follow(&self, end: &End) -> Result<Vec<Edit>, Error> {
        let summary = &end.row.summary;
        let mut edits = self.service.after_end_edits(&end.row).await?;
        if summary.parent.is_none() {
            edits.extend(self.service.notification_edits(summary, &end.program.plan.notify)?);
        }
        Ok(edits)
    }

    fn tell(&self, ends: &[End]) {
        for end in ends {
            let summary = &end.row.summary;
            if end.bill.closed.is_some() {
                let (ms, status) = (duration_ms(end), summary.status.word());
                tracing::info!(run = %summary.run, workflow = %summary.workflow, status, ms, "run ended");
            }
            for observer in self.service.core.observers.all() {
                observer.ended(end);
            }
        }
    }
}

/// How long the run took, as far as it is new.
pub fn duration_ms(end: &End) -> u64 {
    let ended_at: Millis = end.row.summary.ended_at.unwrap_or(end.bill.from);
    ended_at.saturating_sub(end.bill.from).max(0).cast_unsigned()
}

/// At most one run of each trigger: both would change the same trigger, which one change cannot do.
fn apart(rows: Vec<Row>) -> Vec<Row> {
    let mut triggers = HashSet::new();
    let fresh = |row: &Row| row.summary.target.trigger.as_ref().is_none_or(|trigger| triggers.insert(trigger.clone()));
    rows.into_iter().filter(fresh).collect()
}

/// Records that a batch adds to, read once and written once.
#[derive(Default)]
struct Ledger {
    tallies: Pages<Tally>,
    usage: Pages<UsageRow>,
}

/// By owner and id; none where the record cannot be read, so that nothing can be added to it.
struct Pages<T>(BTreeMap<(String, String), Option<(T, Expect)>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages(BTreeMap::new())
    }
}

impl Ledger {
    fn edits(self) -> Result<Vec<Edit>, Error> {
        let mut edits = self.tallies.edits()?;
        edits.extend(self.usage.edits()?);
        Ok(edits)
    }
}

impl<T: Kept> Pages<T> {
    /// The user's record as it is kept, or the empty one. One that cannot be read must not keep the end of this run, and
    /// of all others, from being taken note of.
    async fn open(&mut self, user: &Service, empty: T) -> Result<Option<&mut T>, Error> {
        let place = (user.user().to_owned(), empty.id());
        if !self.0.contains_key(&place) {
            let page = match user.core.store.get_record(kept::key::<T>(&place.0, &place.1)).await? {
                Some(record) => kept::readable(record).map(|At { it, revision }| (it, Expect::Revision(revision))),
                None => Some((empty, Expect::Absent)),
            };
            self.0.insert(place.clone(), page);
        }
        Ok(self.0.get_mut(&place).and_then(Option::as_mut).map(|(it, _)| it))
    }

    fn edits(self) -> Result<Vec<Edit>, Error> {
        let read = self.0.into_iter().filter_map(|((owner, _), page)| Some((owner, page?)));
        read.map(|(owner, (it, expect))| kept::put(&owner, &it, expect)).collect()
    }
}

/// Runs of all users that have not ended, by how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    pub pending: u64,
    pub running: u64,
    pub waiting: u64,
}

impl Service {
    pub async fn queue(&self) -> Result<Queue, Error> {
        use relais_engine::RunStatus::{Pending, Running, Waiting};
        let counts = self.core.store.unfinished().await?;
        let of = |status| counts.iter().find(|(found, _)| *found == status).map_or(0, |(_, count)| *count);
        Ok(Queue { pending: of(Pending), running: of(Running), waiting: of(Waiting) })
    }
}
