//! The one thread that writes, and its group commit. It knows transactions, not what is written in them.
//!
//! No timer: the fsync in progress is the batching window. One lone append pays no delay, a thousand share one fsync.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::place::Place;
use super::trouble::Trouble;
use crate::{Change, Error};

/// Requests in one transaction: enough to make the fsync cheap per request, few enough to answer within milliseconds.
const MAX_GROUP: usize = 256;
/// Requests that wait. Beyond it callers wait for a place, so memory stays bounded whatever the load.
const MAX_WAITING: usize = 1_024;

/// How long the writer stays awake after a commit: about as long as it takes to wake whoever waited for it.
const LOOK_OUT: Duration = Duration::from_micros(50);

/// Something to be written. May be called again when the transaction around it came to nothing.
pub(super) trait Work<T>: FnMut(&Connection) -> Result<Written<T>, Trouble> + Send + 'static {}
impl<T, F: FnMut(&Connection) -> Result<Written<T>, Trouble> + Send + 'static> Work<T> for F {}

pub(super) struct Written<T> {
    pub value: T,
    /// To be published once it is durable.
    pub change: Option<Change>,
}

impl<T> Written<T> {
    pub(super) fn quietly(value: T) -> Written<T> {
        Written { value, change: None }
    }
}

/// Whether a request may leave something behind when it fails half way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// One statement, which SQLite undoes by itself.
    Statement,
    Several,
}

pub(super) struct Writer {
    /// Present until the store is dropped.
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

pub(super) enum Message {
    Write(Box<dyn Job>),
    /// Has another process written?
    Look,
}

impl Writer {
    pub(super) fn start(
        db: Connection,
        place: Arc<Place>,
        changes: broadcast::Sender<Change>,
    ) -> Result<Writer, Error> {
        let (queue, requests) = mpsc::channel(MAX_WAITING);
        let seen = data_version(&db).ok();
        let mut bench = Bench { db, place, changes, seen };
        let thread = std::thread::Builder::new()
            .name("relais-store".into())
            .spawn(move || bench.serve(requests))
            .map_err(|error| Error::Unusable(format!("no thread for the store's writer: {error}")))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) async fn write<T: Send + 'static>(&self, size: Size, work: impl Work<T>) -> Result<T, Error> {
        let stopped = || Error::Internal("the store's writer has stopped; start the program again".into());
        let (reply, answer) = oneshot::channel();
        let task = Task { work, size, written: None, reply };
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Message::Write(Box::new(task))).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// For whoever asks now and then whether others have written; does not keep the writer alive.
    pub(super) fn queue(&self) -> Option<mpsc::WeakSender<Message>> {
        self.queue.as_ref().map(mpsc::Sender::downgrade)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when the queue has no sender; what waits is written first.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already; there is nobody left to answer.
            drop(thread.join());
        }
    }
}

pub(super) trait Job: Send {
    fn perform(&mut self, db: &Connection) -> Result<(), Trouble>;
    fn size(&self) -> Size;
    fn change(&mut self) -> Option<Change>;
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
}

struct Task<T, W> {
    work: W,
    size: Size,
    written: Option<Written<T>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T: Send, W: Work<T>> Job for Task<T, W> {
    fn perform(&mut self, db: &Connection) -> Result<(), Trouble> {
        self.written = Some((self.work)(db)?);
        Ok(())
    }

    fn size(&self) -> Size {
        self.size
    }

    fn change(&mut self) -> Option<Change> {
        self.written.as_mut().and_then(|written| written.change.take())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let missing = || Error::Internal("a write was answered before it was done".into());
        let Task { written, reply, .. } = *self;
        let answer = outcome.and_then(|()| written.map(|written| written.value).ok_or_else(missing));
        // The caller may have gone away; what was written stays written.
        drop(reply.send(answer));
    }
}

type Group = Vec<Box<dyn Job>>;

/// Why a whole transaction came to nothing.
enum Lost {
    /// It could not even begin, or the file was gone when it was over: nobody's fault, the same for all.
    All(Error),
    /// It was undone on the way or at the commit. One request may be the cause.
    Undone(Error),
}

struct Bench {
    db: Connection,
    place: Arc<Place>,
    changes: broadcast::Sender<Change>,
    /// SQLite's mark that moves when another connection has written.
    seen: Option<i64>,
}

impl Bench {
    fn serve(&mut self, mut requests: mpsc::Receiver<Message>) {
        let mut group: Group = Vec::with_capacity(MAX_GROUP);
        while let Some(first) = next_request(&mut requests) {
            let mut look = false;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Write(job) => group.push(job),
                    Message::Look => look = true,
                }
                next = if group.len() < MAX_GROUP { requests.try_recv().ok() } else { None };
            }
            if !group.is_empty() {
                self.commit(&mut group);
            }
            if look {
                self.look();
            }
        }
    }

    /// Leaves the group empty, everyone answered.
    fn commit(&mut self, group: &mut Group) {
        match self.attempt(group) {
            Ok(outcomes) => group.drain(..).zip(outcomes).for_each(|(job, outcome)| self.answer(job, outcome)),
            Err(Lost::All(error)) => group.drain(..).for_each(|job| job.answer(Err(error.clone()))),
            Err(Lost::Undone(error)) if group.len() == 1 => {
                group.drain(..).for_each(|job| job.answer(Err(error.clone())));
            }
            Err(Lost::Undone(_)) => self.one_by_one(group),
        }
    }

    /// After a failure that took the whole group with it: each on its own, so that only the cause fails.
    fn one_by_one(&mut self, group: &mut Group) {
        let mut lost: Option<Error> = None;
        for job in group.drain(..) {
            let mut alone = [job];
            let outcome = match &lost {
                Some(error) => Err(error.clone()),
                None => match self.attempt(&mut alone) {
                    Ok(outcomes) => outcomes.into_iter().collect(),
                    Err(Lost::Undone(error)) => Err(error),
                    Err(Lost::All(error)) => Err(lost.insert(error).clone()),
                },
            };
            let [job] = alone;
            self.answer(job, outcome);
        }
    }

    fn answer(&self, mut job: Box<dyn Job>, outcome: Result<(), Error>) {
        if outcome.is_ok()
            && let Some(change) = job.change()
        {
            // Without receivers nobody wants to know.
            drop(self.changes.send(change));
        }
        job.answer(outcome);
    }

    /// One transaction around the group. The outcomes count only if it was committed.
    fn attempt(&self, group: &mut [Box<dyn Job>]) -> Result<Vec<Result<(), Error>>, Lost> {
        let tell = |error: rusqlite::Error| Trouble::from(error).tell(self.place.path());
        self.place.check().map_err(Lost::All)?;
        self.statement("BEGIN IMMEDIATE").map_err(|error| Lost::All(tell(error)))?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            let outcome = self.guarded(job.as_mut()).map_err(|trouble| trouble.tell(self.place.path()));
            if self.db.is_autocommit() {
                // SQLite has undone the whole transaction, not only this statement.
                let gone = || Error::Internal("the transaction ended by itself".into());
                return Err(Lost::Undone(outcome.err().unwrap_or_else(gone)));
            }
            outcomes.push(outcome);
        }
        if let Err(error) = self.statement("COMMIT") {
            if !self.db.is_autocommit() {
                self.statement("ROLLBACK").map_err(|error| Lost::Undone(tell(error)))?;
            }
            return Err(Lost::Undone(tell(error)));
        }
        // Nobody is told that something is kept which lies where nobody finds it.
        self.place.check().map_err(Lost::All)?;
        Ok(outcomes)
    }

    /// One request; what it wrote before it failed is taken back.
    fn guarded(&self, job: &mut dyn Job) -> Result<(), Trouble> {
        if job.size() == Size::Statement {
            return job.perform(&self.db);
        }
        self.statement("SAVEPOINT request")?;
        let outcome = job.perform(&self.db);
        if self.db.is_autocommit() {
            return outcome;
        }
        if outcome.is_err() {
            self.statement("ROLLBACK TO request")?;
        }
        self.statement("RELEASE request")?;
        outcome
    }

    fn statement(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    fn look(&mut self) {
        // Out of reach for now: the next look tells the same.
        let Ok(version) = data_version(&self.db) else { return };
        if self.seen.replace(version) != Some(version) {
            drop(self.changes.send(Change::FOREIGN));
        }
    }
}

/// Whoever appended last often appends again at once; looking out for that is quicker than to be woken. The wait is on
/// the caller's side, never on a request: what is there is written at once.
fn next_request(requests: &mut mpsc::Receiver<Message>) -> Option<Message> {
    let start = Instant::now();
    while start.elapsed() < LOOK_OUT {
        match requests.try_recv() {
            Ok(message) => return Some(message),
            Err(mpsc::error::TryRecvError::Disconnected) => return None,
            Err(mpsc::error::TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    requests.blocking_recv()
}

/// Moves with commits of other connections only, and this is the only one of the process that writes.
fn data_version(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
