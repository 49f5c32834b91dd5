//! Runs followed as they go, by any number of watchers. The watchers of one run share what was read: the journal is
//! read once for each change, whoever comes first reads for all. A watcher itself is a place in the journal and no
//! more; one that is too slow for the shared notices reads the journal again from its place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex as StdMutex, Once, Weak};
use std::time::Duration;

use relais_engine::*;
use relais_runtime::prepare::load_plan;
use relais_store::{Change, Store};
use tokio::sync::{Mutex, Semaphore, broadcast, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::runs::narrate::{Narrator, Notice};
use crate::{Error, Service};

/// Notices of one run that are kept for its watchers; whoever is further behind reads the journal.
const SHARED_NOTICES: usize = 1_024;
/// Notices that a watcher takes at once; bounds the memory that one of them holds while its client reads nothing.
const AT_ONCE: usize = 256;
/// Notices that a watcher who reads the journal takes at once; bounds the memory that one of them holds.
const MAX_TAKEN: usize = 1_024;
/// Whole journals read at once for watchers who are behind: each holds a journal and its fold in memory.
const JOURNALS_AT_ONCE: usize = 4;
/// What was shared of a run that nothing happened to for so long is forgotten; its journal has it all.
const QUIET: Duration = Duration::from_secs(5);
/// Another process's write may concern any run. With so many followed, looking at all of them is put off a little.
const MANY: usize = 256;
const FOREIGN_PAUSE: Duration = Duration::from_secs(1);

/// A place in the journal: the number of an entry, and of an event in it.
pub type Place = (u64, usize);

/// All runs that somebody in this process watches.
pub(crate) struct Follows {
    runs: StdMutex<HashMap<RunId, Weak<Followed>>>,
    begun: Once,
    journals: Semaphore,
}

/// One run, shared by all who watch it.
struct Followed {
    run: RunId,
    /// Counts what may have happened to the run.
    news: watch::Sender<u64>,
    shared: Mutex<Shared>,
}

/// What the first who looked has found, for all.
#[derive(Default)]
struct Shared {
    /// The count of news that was looked at.
    looked: u64,
    /// Gone after a while without news.
    narrator: Option<Narrator>,
    /// Number of the last entry that was told; 0 before the first look.
    seq: u64,
    closed: bool,
    /// The latest notices: all of those after `since`.
    notices: VecDeque<Notice>,
    since: Place,
    /// The count of news at the last sweep.
    swept: u64,
}

/// A run as one watcher follows it: each event once, in order, whoever works on it.
pub struct Following {
    service: Service,
    followed: Arc<Followed>,
    news: watch::Receiver<u64>,
    after: Place,
}

impl Follows {
    pub(crate) fn new() -> Follows {
        let journals = Semaphore::new(JOURNALS_AT_ONCE);
        Follows { runs: StdMutex::default(), begun: Once::new(), journals }
    }

    fn followed(self: &Arc<Follows>, store: &dyn Store, run: RunId) -> Arc<Followed> {
        self.begun.call_once(|| {
            // Subscribed before anybody's first look, so that nothing falls between.
            let tail = store.tail();
            tokio::spawn(dispatch(self.clone(), tail));
        });
        let mut runs = locked(&self.runs);
        if let Some(followed) = runs.get(&run).and_then(Weak::upgrade) {
            return followed;
        }
        let followed = Arc::new(Followed { run, news: watch::Sender::new(1), shared: Mutex::default() });
        runs.insert(run, Arc::downgrade(&followed));
        followed
    }

    fn tell(&self, run: RunId) {
        if let Some(followed) = locked(&self.runs).get(&run).and_then(Weak::upgrade) {
            followed.happened();
        }
    }

    fn all(&self) -> Vec<Arc<Followed>> {
        locked(&self.runs).values().filter_map(Weak::upgrade).collect()
    }

    fn many(&self) -> bool {
        locked(&self.runs).len() > MANY
    }

    /// Forgets runs that nobody watches any more, and what was shared of those that are quiet.
    fn sweep(&self) {
        locked(&self.runs).retain(|_, followed| followed.strong_count() > 0);
        for followed in self.all() {
            // Whoever holds it is about to share something.
            if let Ok(mut shared) = followed.shared.try_lock() {
                shared.sweep(*followed.news.borrow());
            }
        }
    }
}

fn locked<T>(mutex: &StdMutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Wakes those whom a change concerns. Ends with the store.
async fn dispatch(follows: Arc<Follows>, mut tail: broadcast::Receiver<Change>) {
    let mut sweeps = interval(QUIET);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let change = tokio::select! {
            change = tail.recv() => change,
            _ = sweeps.tick() => {
                follows.sweep();
                continue;
            }
        };
        match change {
            Ok(change) if !change.is_foreign() => follows.tell(change.run),
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {
                if follows.many() {
                    tokio::time::sleep(FOREIGN_PAUSE).await;
                    // What came meanwhile is found by the look at all of them.
                    tail = tail.resubscribe();
                }
                follows.all().iter().for_each(|followed| followed.happened());
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Followed {
    fn happened(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}

/// The place behind all events of an entry; many entries have none that is told.
fn behind(seq: u64) -> Place {
    (seq, usize::MAX)
}

impl Shared {
    fn sweep(&mut self, news: u64) {
        if self.swept == news {
            (self.narrator, self.notices) = (None, VecDeque::new());
            self.since = behind(self.seq);
        }
        self.swept = news;
    }

    /// Takes in what was appended since the last look.
    fn take_in(&mut self, entries: &[Entry], narrator: &mut Narrator) -> Result<(), Error> {
        for entry in entries {
            let notices = narrator.tell(entry).map_err(|e| Error::Unusable(e.to_string()))?;
            if entry.seq > self.seq {
                self.notices.extend(notices);
                self.seq = entry.seq;
            }
            while self.notices.len() > SHARED_NOTICES {
                if let Some(oldest) = self.notices.pop_front() {
                    self.since = (oldest.seq, oldest.nth);
                }
            }
        }
        self.closed = narrator.run().is_some_and(|run| run.closed.is_some());
        Ok(())
    }

    /// What came after a place, if all of it is here: at most so many, and the place that is reached with them.
    fn after(&self, place: Place, most: usize) -> Option<(Vec<Notice>, Place)> {
        if place < self.since {
            return None;
        }
        let later = |notice: &&Notice| (notice.seq, notice.nth) > place;
        let found: Vec<Notice> = self.notices.iter().filter(later).take(most).cloned().collect();
        let reached = match found.last() {
            Some(last) if found.len() == most => (last.seq, last.nth),
            Some(_) | None => behind(self.seq),
        };
        Some((found, reached))
    }
}

impl Service {
    /// A run from its beginning.
    pub async fn follow(&self, run: RunId) -> Result<Following, Error> {
        self.follow_after(run, (0, 0)).await
    }

    /// A run from behind an event of it, the last that somebody has seen.
    pub async fn follow_after(&self, run: RunId, after: Place) -> Result<Following, Error> {
        let last = self.row(run).await?.seq;
        if after.0 > last {
            let text = format!("run {run} has no event {}.{}; its last entry is {last}", after.0, after.1);
            return Err(Error::Invalid(text));
        }
        let followed = self.core.follows.followed(self.core.store.as_ref(), run);
        let news = followed.news.subscribe();
        Ok(Following { service: self.clone(), followed, news, after })
    }

    /// What happens to a run, without what it is: for those who look at its row.
    pub(crate) fn news_of(&self, run: RunId) -> News {
        let followed = self.core.follows.followed(self.core.store.as_ref(), run);
        News { news: followed.news.subscribe(), _followed: followed }
    }

    async fn narrator(&self, run: RunId) -> Result<(Narrator, Vec<Entry>), Error> {
        let entries = self.core.store.load(run, 0).await?;
        let Some(Event::Opened(opened)) = entries.first().and_then(|entry| entry.events.first()) else {
            return Err(Error::NotFound(format!("there is no run {run}")));
        };
        let plan = load_plan(self.core.store.as_ref(), &opened.plan).await?;
        Ok((Narrator::new(Arc::new(Program::new(plan))), entries))
    }
}

/// Tells that something may have happened to a run.
pub(crate) struct News {
    news: watch::Receiver<u64>,
    _followed: Arc<Followed>,
}

impl News {
    pub(crate) async fn next(&mut self) {
        // The sender is in what we hold, so there is no end of it.
        let _ = self.news.changed().await;
    }
}

impl Following {
    /// What happened since the last call; waits until there is something. None when the run has ended and all is told.
    pub async fn next(&mut self) -> Result<Option<Vec<Notice>>, Error> {
        loop {
            let count = *self.news.borrow_and_update();
            let (notices, closed) = self.look(count, AT_ONCE).await?;
            if !notices.is_empty() {
                return Ok(Some(notices));
            }
            if closed {
                return Ok(None);
            }
            if self.news.changed().await.is_err() {
                return Err(Error::Unusable("the database was closed".into()));
            }
        }
    }

    /// What is in the journal and was not told yet, which may be nothing; never waits.
    pub async fn so_far(&mut self) -> Result<Vec<Notice>, Error> {
        self.followed.happened();
        let count = *self.news.borrow_and_update();
        Ok(self.look(count, SHARED_NOTICES).await?.0)
    }

    /// The run has ended and all of it was told.
    pub async fn is_over(&mut self) -> Result<bool, Error> {
        let count = *self.news.borrow();
        let before = self.after;
        let (notices, closed) = self.look(count, 1).await?;
        self.after = before;
        Ok(closed && notices.is_empty())
    }

    async fn look(&mut self, count: u64, most: usize) -> Result<(Vec<Notice>, bool), Error> {
        let (found, closed) = {
            let mut shared = self.followed.shared.lock().await;
            if shared.looked < count {
                self.share(&mut shared).await?;
                shared.looked = count;
            }
            (shared.after(self.after, most), shared.closed)
        };
        let (notices, reached) = match found {
            Some(found) => found,
            None => self.read_journal().await?,
        };
        self.after = self.after.max(reached);
        Ok((notices, closed))
    }

    /// Reads what is new, for everybody who watches this run.
    async fn share(&self, shared: &mut Shared) -> Result<(), Error> {
        let (service, run) = (&self.service, self.followed.run);
        let (mut narrator, entries) = match shared.narrator.take() {
            Some(narrator) => {
                let entries = service.core.store.load(run, narrator.seq()).await;
                match entries {
                    Ok(entries) => (narrator, entries),
                    Err(error) => {
                        shared.narrator = Some(narrator);
                        return Err(error.into());
                    }
                }
            }
            None => {
                let _turn = service.core.follows.journals.acquire().await;
                service.narrator(run).await?
            }
        };
        shared.take_in(&entries, &mut narrator)?;
        shared.narrator = Some(narrator);
        Ok(())
    }

    /// For one who is too far behind for what is shared.
    async fn read_journal(&self) -> Result<(Vec<Notice>, Place), Error> {
        let _turn = self.service.core.follows.journals.acquire().await;
        let (mut narrator, entries) = self.service.narrator(self.followed.run).await?;
        let mut missed = Vec::new();
        for entry in &entries {
            let notices = narrator.tell(entry).map_err(|e| Error::Unusable(e.to_string()))?;
            missed.extend(notices.into_iter().filter(|notice| (notice.seq, notice.nth) > self.after));
            if missed.len() >= MAX_TAKEN {
                break;
            }
        }
        Ok((missed, behind(narrator.seq())))
    }
}
