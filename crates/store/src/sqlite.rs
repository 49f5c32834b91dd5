//! The store on one SQLite file: one thread writes, a few connections read. Several processes may share the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use relais_engine::{Entry, Millis, RunId, RunStatus};
use tokio::sync::{broadcast, mpsc};

mod claims;
mod documents;
mod journal;
mod pages;
mod place;
mod prune;
mod readers;
mod records;
mod schema;
mod shape;
mod trouble;
mod upkeep;
mod writer;

use crate::Error;
use crate::page;
use crate::store::{
    Awaited, Batch, Change, Claim, Claimed, Document, DocumentKey, Edit, Filter, Find, NewRun, Owner, Page, Prune,
    Pruned, Record, RecordKey, Reply, Row, Store,
};
use journal::{Addition, Opening};
use place::Place;
use readers::Readers;
use writer::{Message, Size, Writer};

/// Changes kept for a slow receiver before it loses the oldest.
const TAIL_CHANGES: usize = 4_096;
/// How often other processes' writes are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives a power loss: every commit is synced.
    #[default]
    Full,
    /// Survives a crash of the process; a power loss may take the last commits, never the order.
    Normal,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub durability: Durability,
    /// How long a write waits for another process before it is `Busy`.
    pub busy_timeout_ms: u64,
    /// The database does not grow beyond this; none: as far as the disk goes.
    pub max_bytes: Option<u64>,
    /// A blob nobody refers to stays this long after it was put.
    pub unused_blob_ms: Millis,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Full,
            busy_timeout_ms: 5_000,
            max_bytes: None,
            unused_blob_ms: page::UNUSED_BLOB_MS,
        }
    }
}

pub struct SqliteStore {
    // Dropped before the writer, so that the last connection to close is one that may tidy up the log.
    readers: Arc<Readers>,
    writer: Writer,
    changes: broadcast::Sender<Change>,
    watch: Once,
    unused_blob_ms: Millis,
}

impl SqliteStore {
    /// Opens the file or makes it. Cheap: no table is looked at but the mark of the views.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<SqliteStore, Error> {
        let path = path.as_ref().to_path_buf();
        let (changes, _) = broadcast::channel(TAIL_CHANGES);
        crate::private::claim(&path);
        let db = schema::open_writer(&path, &options)?;
        let place = Arc::new(Place::of(&path));
        let writer = Writer::start(db, place.clone(), changes.clone())?;
        let unused_blob_ms = options.unused_blob_ms;
        let readers = Arc::new(Readers::new(place, options));
        Ok(SqliteStore { readers, writer, changes, watch: Once::new(), unused_blob_ms })
    }

    /// Copies the whole database to a new file while work goes on.
    pub fn backup(&self, to: &Path) -> Reply<'_, ()> {
        let to: PathBuf = to.to_path_buf();
        Box::pin(self.readers.read(move |db| upkeep::backup(db, &to)))
    }

    /// What is wrong with the database, one sentence each; empty if all is well. Reads the whole file.
    pub fn check(&self) -> Reply<'_, Vec<String>> {
        Box::pin(self.readers.read(upkeep::check))
    }

    fn start_watch(&self) {
        let Some(queue) = self.writer.queue() else { return };
        let changes = self.changes.clone();
        let thread = std::thread::Builder::new().name("relais-store-watch".into());
        // Without the thread only other processes' changes are missed; the next look at a run finds them.
        drop(thread.spawn(move || watch(&queue, &changes)));
    }
}

/// Asks the writer now and then whether others have written, while somebody listens. Ends with the store.
fn watch(queue: &mpsc::WeakSender<Message>, changes: &broadcast::Sender<Change>) {
    loop {
        std::thread::sleep(LOOK_EVERY);
        let Some(queue) = queue.upgrade() else { return };
        if changes.receiver_count() > 0 {
            // A full queue is busy enough; the next round asks again.
            drop(queue.try_send(Message::Look));
        }
    }
}

impl Store for SqliteStore {
    fn create(&self, new: NewRun) -> Reply<'_, RunId> {
        Box::pin(async move {
            let opening = Opening::of(new)?;
            self.writer.write(Size::Several, move |db| journal::create(db, &opening)).await
        })
    }

    fn append(&self, batch: Batch) -> Reply<'_, ()> {
        Box::pin(async move {
            let addition = Addition::of(batch)?;
            self.writer.write(addition.size(), move |db| journal::append(db, &addition)).await
        })
    }

    fn load(&self, run: RunId, after: u64) -> Reply<'_, Vec<Entry>> {
        Box::pin(self.readers.read(move |db| journal::load(db, run, after)))
    }

    fn claim(&self, claim: Claim) -> Reply<'_, Vec<Claimed>> {
        Box::pin(self.writer.write(Size::Several, move |db| claims::claim(db, &claim)))
    }

    fn held(&self, owner: Owner) -> Reply<'_, Vec<RunId>> {
        Box::pin(self.readers.read(move |db| claims::held(db, &owner)))
    }

    fn renew(&self, owner: Owner, until: Millis) -> Reply<'_, ()> {
        Box::pin(self.writer.write(Size::Statement, move |db| claims::renew(db, &owner, until)))
    }

    fn release(&self, run: RunId, owner: Owner) -> Reply<'_, ()> {
        Box::pin(self.writer.write(Size::Statement, move |db| claims::release(db, run, &owner)))
    }

    fn owners(&self) -> Reply<'_, Vec<Owner>> {
        Box::pin(self.readers.read(claims::owners))
    }

    fn list(&self, filter: Filter) -> Reply<'_, Page> {
        Box::pin(self.readers.read(move |db| pages::list(db, &filter)))
    }

    fn tail(&self) -> broadcast::Receiver<Change> {
        let receiver = self.changes.subscribe();
        self.watch.call_once(|| self.start_watch());
        receiver
    }

    fn put_document(&self, document: Document) -> Reply<'_, ()> {
        Box::pin(async move {
            let sheet = documents::Sheet::of(document)?;
            self.writer.write(Size::Statement, move |db| documents::put(db, &sheet)).await
        })
    }

    fn get_document(&self, key: DocumentKey, version: Option<u64>) -> Reply<'_, Option<Document>> {
        Box::pin(self.readers.read(move |db| documents::get(db, &key, version)))
    }

    fn list_documents(&self, kind: String, owner: String) -> Reply<'_, Vec<Document>> {
        Box::pin(self.readers.read(move |db| documents::list(db, &kind, &owner)))
    }

    fn list_versions(&self, key: DocumentKey, limit: usize) -> Reply<'_, Vec<Document>> {
        Box::pin(self.readers.read(move |db| documents::versions(db, &key, limit)))
    }

    fn change(&self, edits: Vec<Edit>, at: Millis) -> Reply<'_, Vec<u64>> {
        Box::pin(async move {
            let edits = edits.into_iter().map(records::Step::of).collect::<Result<Vec<_>, _>>()?;
            self.writer.write(Size::Several, move |db| records::change(db, &edits, at)).await
        })
    }

    fn get_record(&self, key: RecordKey) -> Reply<'_, Option<Record>> {
        Box::pin(self.readers.read(move |db| records::get(db, &key)))
    }

    fn records(&self, find: Find) -> Reply<'_, Vec<Record>> {
        Box::pin(self.readers.read(move |db| records::find(db, &find)))
    }

    fn next_due(&self, kind: String) -> Reply<'_, Option<Millis>> {
        Box::pin(self.readers.read(move |db| records::next_due(db, &kind)))
    }

    fn unfinished(&self) -> Reply<'_, Vec<(RunStatus, u64)>> {
        Box::pin(self.readers.read(pages::unfinished))
    }

    fn ended(&self, limit: usize) -> Reply<'_, Vec<Row>> {
        Box::pin(self.readers.read(move |db| pages::ended(db, limit)))
    }

    fn awaiting(&self, awaited: Awaited) -> Reply<'_, Vec<RunId>> {
        Box::pin(self.readers.read(move |db| pages::awaiting(db, &awaited)))
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.writer.write(Size::Statement, |db| upkeep::probe(db, page::now())))
    }

    fn put_blob(&self, bytes: Vec<u8>) -> Reply<'_, String> {
        Box::pin(async move {
            let hash = blake3::hash(&bytes).to_hex().to_string();
            let work = move |db: &_| documents::put_blob(db, &hash, &bytes, page::now());
            self.writer.write(Size::Several, work).await
        })
    }

    fn get_blob(&self, hash: String) -> Reply<'_, Option<Vec<u8>>> {
        Box::pin(self.readers.read(move |db| documents::get_blob(db, &hash)))
    }

    fn prune(&self, prune: Prune) -> Reply<'_, Pruned> {
        let unused_since = page::now().saturating_sub(self.unused_blob_ms);
        Box::pin(self.writer.write(Size::Several, move |db| prune::prune(db, &prune, unused_since)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "sqlite/views_test.rs"]
mod views;
