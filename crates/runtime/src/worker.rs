//! The worker: which runs this process works on, when it takes them up and lets them go.
//!
//! Each run that is going has a task (`runner`). A run that waits for long is forgotten and costs a row; its wake-up
//! time is in the store. Leases say who works on what; a process that died is found out and its runs are taken over.

mod drain;
mod lease;

use std::cmp::Reverse;
use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use relais_engine::*;
use relais_store::{Batch, Change, Claim, Claimed, Error, Filter, NewRun, Owner, Row, Store, Which, Writer};
use tokio::sync::{Notify, RwLock, Semaphore, broadcast, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::host;
use crate::models::Models;
use crate::perform::Performer;
use crate::prepare::{Prepared, plan_key, plan_of};
use crate::runner::{Ended, Input, Runner};
use crate::tools::Tools;
use lease::Lease;

/// A run is ours for so long unless the lease is renewed.
pub const LEASE_MS: i64 = 10_000;
const HEARTBEAT: Duration = Duration::from_secs(3);
/// What is ours and not at work is looked for at every so many beats, and after trouble with the database.
const LOOK_AT_OWN: u64 = 10;
/// Foreign writes are looked for at most so often per run.
const FOREIGN_CHECK: Duration = Duration::from_millis(100);
/// Whoever waits for a run looks at its row at least so often.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Messages waiting for one run; senders wait when it is full.
const MAILBOX: usize = 1_024;
/// Plans kept ready; beyond this the cache starts anew.
const MAX_PREPARED: usize = 512;
/// A run that could not be taken up when its time had come is tried again after so long.
const WAKE_AGAIN_MS: i64 = 1_000;
/// Runs taken up in one go.
const CLAIM_LIMIT: usize = 256;
/// Runs in memory at once. New ones beyond this stay in the database until there is room; child runs do not count,
/// because their parents wait for them.
pub const MAX_ACTIVE: usize = 20_000;
/// Journals read and folded at once: after a restart thousands of runs want theirs, and each is in memory twice then.
const MAX_LOADING: usize = 32;

pub struct Worker {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) performer: Performer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: Owner,
    pub(crate) writer: Writer,
    pub(crate) lease: Lease,
    tools: Tools,
    models: Arc<Models>,
    prepared: Mutex<HashMap<(String, bool), Arc<Prepared>>>,
    active: Mutex<BTreeMap<RunId, Active>>,
    /// Told whenever a run leaves `active`.
    left: Notify,
    loading: Semaphore,
    /// Nothing new is taken up any more.
    draining: AtomicBool,
    /// Held by whoever is about to take something up; see `drain`.
    taking: RwLock<()>,
    timers: Mutex<BinaryHeap<Reverse<(Millis, RunId)>>>,
    timer_set: Notify,
}

/// A run that a task of this process is at work on.
struct Active {
    mailbox: mpsc::Sender<Input>,
    standing: Arc<Standing>,
    task: AbortHandle,
    /// How the run stood when the task ended, if it knows.
    ended: watch::Receiver<Option<Result<Rest, Error>>>,
}

/// How a run comes to this process.
pub(crate) enum Origin {
    /// Made here.
    New(Box<Run>),
    /// Nobody had it.
    Free,
    /// Somebody had it and may go on with it until told: another owner, or this one, which forgot.
    Taken,
}

/// What the task of a run lets others see of it.
#[derive(Default)]
pub(crate) struct Standing {
    /// Number of the last entry that the task knows of.
    pub seq: AtomicU64,
    /// While the task was about to end, the run was taken from another owner.
    pub taken: AtomicBool,
    /// How long the workflow wants to go on while the process shuts down; unset until the plan is loaded.
    pub shutdown_timeout_ms: OnceLock<Option<u64>>,
}

impl Active {
    /// The run was claimed while the task is there. Should it be about to end, the next one must know from whom.
    fn retaken(&self, origin: &Origin) {
        self.standing.taken.fetch_or(matches!(origin, Origin::Taken), Ordering::AcqRel);
        self.nudge();
    }

    /// The task is to look what is new. A full mailbox wakes it anyway.
    fn nudge(&self) {
        let _ = self.mailbox.try_send(Input::Changed);
    }
}

/// How a run stands when this process has nothing to do for it at the moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    Ended(RunStatus),
    /// For a person, a signal or an event.
    Waiting(Vec<String>),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Starts the tasks that watch over leases, timers and foreign signals; they end with the runtime.
    pub fn start(performer: Performer, tools: Tools, clock: Arc<dyn Clock>) -> Arc<Worker> {
        Worker::start_as(host::owner(), performer, tools, clock)
    }

    /// Under a name that no other process has or had.
    pub fn start_as(owner: Owner, performer: Performer, tools: Tools, clock: Arc<dyn Clock>) -> Arc<Worker> {
        let worker = Arc::new(Worker {
            store: performer.store.clone(),
            models: performer.models.clone(),
            performer,
            clock,
            writer: Writer::of(&owner),
            owner,
            lease: Lease::default(),
            tools,
            prepared: Mutex::default(),
            active: Mutex::default(),
            left: Notify::new(),
            loading: Semaphore::new(MAX_LOADING),
            draining: AtomicBool::new(false),
            taking: RwLock::default(),
            timers: Mutex::default(),
            timer_set: Notify::new(),
        });
        tokio::spawn(heartbeat(Arc::downgrade(&worker)));
        tokio::spawn(timers(worker.clone()));
        tokio::spawn(changes(worker.clone(), worker.store.tail()));
        worker
    }

    /// The name under which this process holds leases.
    pub fn hold_name(&self) -> Owner {
        self.owner.clone()
    }

    pub fn performer(&self) -> &Performer {
        &self.performer
    }

    /// This process stays: its runs wait until a database that is out of reach is mended. Otherwise the trouble is told
    /// to whoever waits for the run.
    pub fn stay(&self) {
        self.performer.patience.stay();
    }

    /// What a run at work asks of the store.
    pub(crate) async fn outlast<T, F>(&self, act: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (lease, act) = (&self.lease, &act);
        self.performer.patience.outlast(|| async move { lease.noted(act().await) }).await
    }

    /// A new run, durable when this returns; the work on it goes on in the background.
    pub async fn create(self: &Arc<Worker>, opened: Opened, key: Option<String>) -> Result<RunId, Error> {
        let turn = self.turn_at_taking().await;
        self.create_idle(opened, key, turn.is_some() && self.room() > 0).await
    }

    /// A new run, durable when this returns, that another process is to take up.
    pub async fn enqueue(self: &Arc<Worker>, opened: Opened, key: Option<String>) -> Result<RunId, Error> {
        self.create_idle(opened, key, false).await
    }

    /// A new run that waits to be taken up, by this process if `work`.
    async fn create_idle(self: &Arc<Worker>, opened: Opened, key: Option<String>, work: bool) -> Result<RunId, Error> {
        let now = self.clock.now();
        let run = opened.run;
        let blobs = Event::Opened(Box::new(opened.clone())).blobs();
        let entry = Entry { seq: 1, at: now, version: FORMAT, events: vec![Event::Opened(Box::new(opened))] };
        let Ok(state) = Run::open(&entry) else { return Err(Error::Internal("a run could not be opened".into())) };
        let summary = Summary::pending(&state);
        let lease = work.then(|| (self.owner.clone(), now + LEASE_MS));
        let begun = Instant::now();
        let new = NewRun { entry, more: Vec::new(), summary, key, lease, blobs };
        let created = self.lease.noted(self.store.create(new).await)?;
        if work && created == run {
            self.lease.prolonged(begun);
            self.spawn(run, Origin::New(Box::new(state)));
        }
        Ok(created)
    }

    /// Takes a run up, whatever it waits for, unless somebody alive works on it. Says whether it is now ours. While
    /// this process shuts down, a run that waits is left as it is.
    pub async fn take_up(self: &Arc<Worker>, run: RunId) -> Result<bool, Error> {
        let turn = self.turn_at_taking().await;
        if turn.is_none() && !locked(&self.active).contains_key(&run) {
            return Ok(false);
        }
        self.take(run).await
    }

    /// The same for the parent or child of a run at work here, which goes on also while the process shuts down.
    async fn take(self: &Arc<Worker>, run: RunId) -> Result<bool, Error> {
        if let Some(active) = locked(&self.active).get(&run) {
            active.nudge();
            return Ok(true);
        }
        Ok(!self.claim(Which::One(run), 1).await?.is_empty() || self.take_own(run).await?)
    }

    /// Takes up a run that is ours, if no task of ours is at work on it: the answer to a claim or a start was lost.
    async fn take_own(self: &Arc<Worker>, run: RunId) -> Result<bool, Error> {
        let ours = match self.lease.noted(self.row(run).await) {
            Ok(row) => row.owner.as_ref() == Some(&self.owner),
            Err(Error::NotFound(_)) => false,
            Err(error) => return Err(error),
        };
        if ours {
            self.spawn(run, Origin::Taken);
        }
        Ok(ours)
    }

    async fn take_all_own(self: &Arc<Worker>) -> Result<(), Error> {
        let Some(_turn) = self.turn_at_taking().await else { return Ok(()) };
        let begun = Instant::now();
        let mut held = self.lease.noted(self.store.held(self.owner.clone()).await)?;
        held.retain(|run| !locked(&self.active).contains_key(run));
        for run in held {
            // Its row is read again: the task may have let it go since.
            self.take_own(run).await?;
        }
        self.lease.looked(begun);
        Ok(())
    }

    /// Prolongs the lease of this process.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        let begun = Instant::now();
        self.lease.noted(self.store.renew(self.owner.clone(), self.clock.now() + LEASE_MS).await)?;
        self.lease.prolonged(begun);
        Ok(())
    }

    /// Takes up what is due or orphaned, as far as there is room.
    pub async fn adopt(self: &Arc<Worker>, which: Which) -> Result<Vec<RunId>, Error> {
        let turn = self.turn_at_taking().await;
        match self.room().min(CLAIM_LIMIT) {
            limit if limit > 0 && turn.is_some() => self.claim(which, limit).await,
            _ => Ok(Vec::new()),
        }
    }

    /// How many runs may still be taken up.
    fn room(&self) -> usize {
        MAX_ACTIVE.saturating_sub(locked(&self.active).len())
    }

    async fn claim(self: &Arc<Worker>, which: Which, limit: usize) -> Result<Vec<RunId>, Error> {
        self.lease.beat(self.clock.now());
        let patient = self.lease.was_cut_off();
        if patient && self.at_work() > 0 {
            self.renew().await?;
        }
        let dead = host::dead(&self.lease.noted(self.store.owners().await)?);
        let (owner, now, begun) = (self.owner.clone(), self.clock.now(), Instant::now());
        let claim = Claim { owner, now, lease_until: now + LEASE_MS, dead, patient, which, limit };
        let claimed = self.lease.noted(self.store.claim(claim).await)?;
        if !claimed.is_empty() {
            self.lease.prolonged(begun);
        }
        for Claimed { run, from } in &claimed {
            self.spawn(*run, if from.is_some() { Origin::Taken } else { Origin::Free });
        }
        Ok(claimed.into_iter().map(|claimed| claimed.run).collect())
    }

    /// Puts a task to work on a run that is leased to us.
    fn spawn(self: &Arc<Worker>, run: RunId, origin: Origin) {
        let (mailbox, inbox) = mpsc::channel(MAILBOX);
        let (ended_tx, ended) = watch::channel(None);
        let standing = Arc::new(Standing::default());
        let mut active = locked(&self.active);
        let free = match active.entry(run) {
            // It has been let go and claimed again before its task came to an end; that looks once more.
            Place::Occupied(at_work) => return at_work.get().retaken(&origin),
            Place::Vacant(free) => free,
        };
        let runner = Runner::new(self.clone(), run, origin, mailbox.clone(), inbox, standing.clone());
        // Spawned under the lock: its task is known from the moment on from which it may be let go.
        let task = tokio::spawn(self.clone().work_on(run, runner, standing.clone(), ended_tx)).abort_handle();
        free.insert(Active { mailbox, standing, task, ended });
    }

    async fn work_on(
        self: Arc<Worker>,
        run: RunId,
        mut runner: Runner,
        standing: Arc<Standing>,
        told: watch::Sender<Option<Result<Rest, Error>>>,
    ) {
        let ended = runner.work().await;
        self.forget(run);
        let mail = if matches!(ended, Ended::Waiting { .. }) { runner.mail() } else { Vec::new() };
        drop(runner);
        let _ = told.send(ended.rest());
        drop(told);
        self.after(run, ended).await;
        if !mail.is_empty() {
            self.look_again(run, &standing, &mail).await;
        }
    }

    fn forget(&self, run: RunId) {
        locked(&self.active).remove(&run);
        self.left.notify_waiters();
    }

    /// Waits for a turn at reading a journal. The worker never closes the gate.
    pub(crate) async fn loading(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.loading.acquire().await.ok()
    }

    /// Something was said to a task that had already let its run go.
    async fn look_again(self: &Arc<Worker>, run: RunId, standing: &Standing, mail: &[Input]) {
        let told = mail.iter().any(|input| !matches!(input, Input::Changed));
        let seq = standing.seq.load(Ordering::Acquire);
        let origin = if standing.taken.load(Ordering::Acquire) { Origin::Taken } else { Origin::Free };
        match self.row(run).await {
            Ok(row) if row.owner.as_ref() == Some(&self.owner) => self.spawn(run, origin),
            Ok(row) if told || row.seq > seq => self.wake(run, self.clock.now()).await,
            Ok(_) => {}
            Err(_) => self.wake_later(run, self.clock.now() + WAKE_AGAIN_MS),
        }
    }

    /// What is left to do when a task has ended: remember when to wake it, and tell its parent.
    async fn after(self: &Arc<Worker>, run: RunId, ended: Ended) {
        match ended {
            Ended::Waiting { wake_at, parent } => {
                if let Some(at) = wake_at {
                    self.wake_later(run, at);
                }
                self.tell(parent, Input::ChildWaits(run)).await;
            }
            Ended::Closed { parent, .. } => self.wake_parent(run, parent).await,
            // It may have come back to us in between; if that cannot be told now, the next look at what is ours tells it.
            Ended::LetGo => {
                if let Some(_turn) = self.turn_at_taking().await {
                    let _ = self.take_own(run).await;
                }
            }
            Ended::Broken(message) => self.report(run, &message),
        }
    }

    fn report(&self, run: RunId, message: &str) {
        let text = format!("\n[run {run} stands still: {message}]\n");
        self.performer.say(run, text);
    }

    async fn tell(&self, parent: Option<Parent>, input: Input) {
        let Some(parent) = parent else { return };
        let mailbox = locked(&self.active).get(&parent.run).map(|a| a.mailbox.clone());
        if let Some(mailbox) = mailbox {
            let _ = mailbox.send(input).await;
        }
    }

    /// A child has ended: its parent goes on, here if nobody else has it.
    async fn wake_parent(self: &Arc<Worker>, child: RunId, parent: Option<Parent>) {
        let Some(parent) = parent else { return };
        if locked(&self.active).contains_key(&parent.run) {
            return self.tell(Some(parent), Input::ChildEnded(child)).await;
        }
        // A parent that waited is somebody's to take; if that fails its own wake-up time finds it.
        let _ = self.take(parent.run).await;
    }

    pub(crate) fn wake_later(&self, run: RunId, at: Millis) {
        locked(&self.timers).push(Reverse((at, run)));
        self.timer_set.notify_one();
    }

    /// Waits until a run has ended, or waits for something other than time: a child run, for one, which may wait for
    /// time itself.
    pub async fn settle(self: &Arc<Worker>, run: RunId) -> Result<Rest, Error> {
        loop {
            let ended = locked(&self.active).get(&run).map(|a| a.ended.clone());
            if let Some(mut ended) = ended {
                // An error means that the sender is gone: the task has ended.
                let _ = ended.changed().await;
                match ended.borrow().clone() {
                    Some(told) => return told,
                    None => continue,
                }
            }
            // Listening before the look at the row, so that nothing falls between.
            let mut tail = self.store.tail();
            let summary = self.row(run).await?.summary;
            match summary.status {
                status if status.is_final() => return Ok(Rest::Ended(status)),
                RunStatus::Waiting if summary.wake_at.is_none() || !only_time(&summary.awaits) => {
                    return Ok(Rest::Waiting(summary.awaits));
                }
                _ => self.until_something_happens(run, &mut tail).await?,
            }
        }
    }

    /// Waits until no task of this process is at work on a run, however it stands then.
    pub async fn let_go(&self, run: RunId) {
        let ended = locked(&self.active).get(&run).map(|a| a.ended.clone());
        if let Some(mut ended) = ended {
            let _ = ended.changed().await;
        }
    }

    async fn until_something_happens(
        self: &Arc<Worker>,
        run: RunId,
        tail: &mut broadcast::Receiver<Change>,
    ) -> Result<(), Error> {
        self.adopt(Which::Tree(run)).await?;
        let _ = tokio::time::timeout(LOOK_AGAIN, tail.recv()).await;
        Ok(())
    }

    pub async fn row(&self, run: RunId) -> Result<Row, Error> {
        let filter = Filter { run: Some(run), limit: 1, ..Filter::default() };
        let page = self.store.list(filter).await?;
        page.rows.into_iter().next().ok_or_else(|| Error::NotFound(format!("run {run}")))
    }

    pub(crate) async fn prepared(&self, plan: &str, simulate: bool) -> Result<Arc<Prepared>, Failure> {
        let key = (plan.to_owned(), simulate);
        if let Some(prepared) = locked(&self.prepared).get(&key) {
            return Ok(prepared.clone());
        }
        let document = self.outlast(|| self.store.get_document(plan_key(plan), None)).await;
        let loaded = plan_of(plan, document)?;
        let prepared = Arc::new(Prepared::new(loaded, &self.tools, &self.models, simulate).await);
        let mut cache = locked(&self.prepared);
        if cache.len() >= MAX_PREPARED {
            cache.clear();
        }
        cache.insert(key, prepared.clone());
        Ok(prepared)
    }

    /// Starts the child run that a command names, or finds it; its end comes back through `wake_parent`.
    /// With `again` it came back short of budget and goes on with more.
    pub(crate) async fn start_child(self: &Arc<Worker>, mut opened: Opened, again: bool) -> Result<(), Error> {
        let (run, plan, simulate) = (opened.run, opened.plan.clone(), opened.mode.simulate);
        let declared = self.prepared(&plan, simulate).await.map_err(|f| Error::Internal(f.message))?;
        opened.budget = narrower(&opened.budget, &declared.program.plan.limits.budget);
        let budget = opened.budget;
        match self.create_idle(opened, None, true).await {
            // It was started before its parent was interrupted.
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        let summary = self.row(run).await?.summary;
        let short = summary.error.as_ref().is_some_and(|e| e.kind == ErrorKind::Budget);
        if again && short && summary.status.is_final() {
            let resume = Signal::Resume(Resume { budget, ..Resume::default() });
            self.signal(run, vec![Event::Signalled { signal: resume, by: "its parent".into() }]).await?;
        } else if summary.status.is_final() {
            return Ok(());
        }
        self.take(run).await?;
        Ok(())
    }

    /// Cancels a child run that its parent has given up, once: a second cancel would cut off its exit steps.
    pub(crate) async fn cancel_child(self: &Arc<Worker>, parent: RunId, child: RunId) -> Result<(), Error> {
        match self.row(child).await {
            Ok(row) if row.summary.status.is_final() => return Ok(()),
            Ok(_) => {}
            // It was never started.
            Err(Error::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
        // One that cannot be read cannot go on either.
        let Ok(state) = Run::fold(&self.store.load(child, 0).await?) else { return Ok(()) };
        // A fork has the journal of another run, and with it that one's children.
        if state.opened.parent.as_ref().is_none_or(|of| of.run != parent) {
            return Ok(());
        }
        if state.cancels == 0 {
            let cancel = Event::Signalled { signal: Signal::Cancel, by: "its parent".into() };
            self.signal(child, vec![cancel]).await?;
        }
        self.take_up(child).await.map(drop)
    }

    /// Appends signals from outside behind whatever is there: only such as mean the same wherever they stand. The owner
    /// meets them and reads on.
    pub async fn signal(self: &Arc<Worker>, run: RunId, events: Vec<Event>) -> Result<(), Error> {
        for _ in 0..SIGNAL_TRIES {
            let row = self.outlast(|| self.row(run)).await?;
            let entry = Entry { seq: row.seq + 1, at: self.clock.now(), version: FORMAT, events: events.clone() };
            let batch = Batch::said(row, entry);
            match self.outlast(|| self.store.append(batch.clone())).await {
                Err(Error::Conflict { .. }) => {}
                other => return other,
            }
        }
        Err(Error::Busy(format!("run {run} moves on too fast to be signalled; try again")))
    }

    /// Ends all MCP servers and other children of this process.
    pub async fn shut_down(&self) {
        self.tools.stop().await;
        let prepared: Vec<Arc<Prepared>> = locked(&self.prepared).values().cloned().collect();
        for prepared in prepared {
            prepared.tools.stop().await;
        }
    }
}

/// A signal meets at most so many entries of the owner on its way in.
const SIGNAL_TRIES: usize = 100;

/// The smaller of two bounds, each.
fn narrower(a: &relais_plan::Budget, b: &relais_plan::Budget) -> relais_plan::Budget {
    let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    relais_plan::Budget {
        usd_nanos: least(a.usd_nanos, b.usd_nanos),
        tokens: least(a.tokens, b.tokens),
        model_calls: least(a.model_calls, b.model_calls),
        tool_calls: least(a.tool_calls, b.tool_calls),
        time_ms: least(a.time_ms, b.time_ms),
    }
}

fn only_time(awaits: &[String]) -> bool {
    awaits.iter().all(|a| a == "time")
}

async fn heartbeat(worker: std::sync::Weak<Worker>) {
    for beat in 1.. {
        tokio::time::sleep(HEARTBEAT).await;
        let Some(worker) = worker.upgrade() else { return };
        // What fails now is tried again at the next beat.
        let _ = worker.beat(beat).await;
    }
}

impl Worker {
    async fn beat(self: &Arc<Worker>, beat: u64) -> Result<(), Error> {
        self.lease.beat(self.clock.now());
        let forgetful = self.lease.may_have_missed_something();
        if forgetful || self.at_work() > 0 {
            self.renew().await?;
        }
        if forgetful || beat.is_multiple_of(LOOK_AT_OWN) {
            self.take_all_own().await?;
        }
        Ok(())
    }

    /// Nobody else may be there to find it due, so a database in trouble is asked again.
    async fn wake(self: &Arc<Worker>, run: RunId, now: Millis) {
        if self.take_up(run).await.is_err() {
            self.wake_later(run, now + WAKE_AGAIN_MS);
        }
    }
}

/// Wakes the runs that this process let go to sleep.
async fn timers(worker: Arc<Worker>) {
    loop {
        let next = locked(&worker.timers).peek().map(|Reverse((at, _))| *at);
        let now = worker.clock.now();
        match next {
            // What waits goes on in the next process.
            _ if worker.is_draining() => return,
            Some(at) if at <= now => {
                let due = locked(&worker.timers).pop();
                if let Some(Reverse((_, run))) = due {
                    worker.wake(run, now).await;
                }
            }
            Some(at) => {
                let sleep = Duration::from_millis((at - now) as u64);
                let _ = tokio::time::timeout(sleep, worker.timer_set.notified()).await;
            }
            None => worker.timer_set.notified().await,
        }
    }
}

/// Tells runs at work of entries that somebody else appended.
async fn changes(worker: Arc<Worker>, mut tail: broadcast::Receiver<Change>) {
    let mut last_foreign = None;
    loop {
        match tail.recv().await {
            Ok(change) if change.is_foreign() => {
                let recent = last_foreign.is_some_and(|at: tokio::time::Instant| at.elapsed() < FOREIGN_CHECK);
                if recent {
                    tokio::time::sleep(FOREIGN_CHECK).await;
                }
                last_foreign = Some(tokio::time::Instant::now());
                worker.nudge(None);
            }
            Ok(change) => worker.nudge(Some(change)),
            Err(broadcast::error::RecvError::Lagged(_)) => worker.nudge(None),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Worker {
    fn nudge(&self, change: Option<Change>) {
        let active = locked(&self.active);
        let news = |a: &Active, change: &Change| change.seq > a.standing.seq.load(Ordering::Acquire);
        match change {
            Some(change) => {
                if let Some(active) = active.get(&change.run).filter(|a| news(a, &change)) {
                    active.nudge();
                }
            }
            None => active.values().for_each(Active::nudge),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
