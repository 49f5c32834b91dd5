//! The `Store` trait: some twenty methods that every store must keep in the same way (see the conformance suite).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use relais_engine::{Entry, Millis, RunId, RunStatus, Summary};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Who works on a run: a name that is unique per process.
pub type Owner = String;

/// Who appends, as entries carry it: two who come to the same entry in the same moment are told apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer(pub(crate) u32);

impl Writer {
    /// Whoever works on a run.
    pub fn of(owner: &str) -> Writer {
        let [a, b, c, d, ..] = *blake3::hash(owner.as_bytes()).as_bytes();
        Writer(u32::from_be_bytes([a, b, c, d]))
    }

    /// Somebody outside, for one thing that is said.
    pub fn outside() -> Writer {
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        Writer(u32::from_be_bytes([a, b, c, d]))
    }
}

pub trait Store: Send + Sync + 'static {
    /// Entry 1, what comes behind it, and the row of a new run, in one transaction. With a key that was used before (per user) nothing is
    /// written and the first run's id comes back. Creating the same run id again with the same entry is also no error.
    fn create(&self, new: NewRun) -> Reply<'_, RunId>;

    /// Durable when it returns. `Conflict` if `entry.seq` is not the next number of the run; nothing is written then.
    /// The same entry by the same writer again is no conflict but the same append, whose answer was lost: nothing is
    /// written, and whoever asks knows that it was. No append looks at a lease.
    fn append(&self, batch: Batch) -> Reply<'_, ()>;

    /// Entries with `seq > after`, in order.
    fn load(&self, run: RunId, after: u64) -> Reply<'_, Vec<Entry>>;

    /// Takes runs under a lease: those nobody works on (no owner, an expired lease, or an owner in `dead`) that are
    /// pending or running, and those waiting whose time has come. One run is given to one owner only, who learns from
    /// whom it was taken: that one may be late, not dead, and go on until it meets an entry of the new owner.
    fn claim(&self, claim: Claim) -> Reply<'_, Vec<Claimed>>;

    /// The unfinished runs that this owner has, by id: after a claim whose answer was lost nobody else knows of them.
    fn held(&self, owner: Owner) -> Reply<'_, Vec<RunId>>;

    /// Prolongs all leases of an owner. A lease belongs to the owner, so a claim prolongs what it held before, too.
    fn renew(&self, owner: Owner, until: Millis) -> Reply<'_, ()>;

    /// Gives up the lease of one run, if `owner` still has it.
    fn release(&self, run: RunId, owner: Owner) -> Reply<'_, ()>;

    /// Everyone who holds a lease on an unfinished run.
    fn owners(&self) -> Reply<'_, Vec<Owner>>;

    /// Newest first, by start and then by id.
    fn list(&self, filter: Filter) -> Reply<'_, Page>;

    /// Changes from now on, those of other processes included (within 100 ms). Lagging loses the oldest changes, never
    /// blocks a writer; a reader that lagged loads from the number it has.
    fn tail(&self) -> tokio::sync::broadcast::Receiver<Change>;

    /// Stores one version of a document; the same `(kind, owner, name, version)` again replaces its body.
    fn put_document(&self, document: Document) -> Reply<'_, ()>;

    /// The given version, or the highest.
    fn get_document(&self, key: DocumentKey, version: Option<u64>) -> Reply<'_, Option<Document>>;

    /// The highest version of each document of a kind and owner, by name.
    fn list_documents(&self, kind: String, owner: String) -> Reply<'_, Vec<Document>>;

    /// The versions of one document, newest first. 0 means 100, at most 1,000.
    fn list_versions(&self, key: DocumentKey, limit: usize) -> Reply<'_, Vec<Document>>;

    /// All edits in one transaction, in their order, durable when it returns; if one expectation does not hold nothing
    /// is written (`Changed`, naming the record). Answers the new revision for each edit (0 for others than `Put`).
    /// The tail of this process tells nothing of it; other processes see a foreign change.
    fn change(&self, edits: Vec<Edit>, at: Millis) -> Reply<'_, Vec<u64>>;

    fn get_record(&self, key: RecordKey) -> Reply<'_, Option<Record>>;

    fn records(&self, find: Find) -> Reply<'_, Vec<Record>>;

    /// The earliest `due_at` of a kind.
    fn next_due(&self, kind: String) -> Reply<'_, Option<Millis>>;

    /// Finished runs of which nobody has taken note yet (`Edit::Reported`), children too, oldest end first. A run that
    /// goes on again is no longer among them, and is again when it has ended again. 0 means 100, at most 1,000.
    fn ended(&self, limit: usize) -> Reply<'_, Vec<Row>>;

    /// How many runs are pending, running and waiting, of all users; a walk along an index.
    fn unfinished(&self) -> Reply<'_, Vec<(RunStatus, u64)>>;

    /// Runs of a user that wait for events of a type, as their batches said (`Batch::awaited`), however they stand; by
    /// id, those after one. Walks one index. 0 means 100, at most 1,000.
    fn awaiting(&self, awaited: Awaited) -> Reply<'_, Vec<RunId>>;

    /// Writes a mark that nobody reads, durable when it returns: whether anything can be kept now.
    fn probe(&self) -> Reply<'_, ()>;

    /// Stores bytes once by content; answers their hash (blake3, hex).
    fn put_blob(&self, bytes: Vec<u8>) -> Reply<'_, String>;

    fn get_blob(&self, hash: String) -> Reply<'_, Option<Vec<u8>>>;

    /// Removes finished runs, those that ended before and those named, with children, entries, and blobs nobody refers to
    /// any more. A blob that was put within the last day stays: the entry that refers to it may be on its way.
    fn prune(&self, prune: Prune) -> Reply<'_, Pruned>;
}

#[derive(Debug, Clone)]
pub struct NewRun {
    pub entry: Entry,
    /// What comes behind it from the start: a fork begins with the journal of another run.
    pub more: Vec<Entry>,
    pub summary: Summary,
    /// A second start with the same key (per user) answers the first run.
    pub key: Option<String>,
    /// Who works on it from the start, and until when.
    pub lease: Option<(Owner, Millis)>,
    /// Hashes of the blobs that the entries refer to; they stay as long as the run.
    pub blobs: Vec<String>,
}

impl NewRun {
    /// The entries are numbered from 1, without a gap.
    pub(crate) fn check_numbers(&self) -> Result<(), Error> {
        let seqs = std::iter::once(&self.entry).chain(&self.more).map(|entry| entry.seq);
        match seqs.zip(1..).find(|(seq, expected)| seq != expected) {
            None => Ok(()),
            Some((seq, expected)) => {
                Err(Error::Internal(format!("a run is created with entry {expected} here, not {seq}")))
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Batch {
    pub run: RunId,
    pub writer: Writer,
    /// Shared, so that trying again costs nothing.
    pub entry: Arc<Entry>,
    /// Present where the row has changed.
    pub summary: Option<Summary>,
    /// This owner gives the run up in the same transaction, if it still has it.
    pub release: Option<Owner>,
    /// Hashes of the blobs that the entry refers to; they stay as long as the run.
    pub blobs: Vec<String>,
    /// The types of events that the run waits for from now on; present where they have changed.
    pub awaited: Option<Vec<String>>,
    /// All records of a kind that belong to the run from now on; present where they have changed.
    pub listed: Option<Listed>,
}

/// The records of a kind whose label is the run's id: exactly these. One that is there stays as it is, with its
/// revision; one of this id that another owner was given stays, too; others go.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub kind: String,
    pub records: Vec<ListedRecord>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListedRecord {
    pub owner: String,
    pub id: String,
    pub due_at: Option<Millis>,
    pub body: Value,
}

impl Listed {
    pub(crate) fn has(&self, id: &str) -> bool {
        self.records.iter().any(|record| record.id == id)
    }
}

impl Batch {
    /// What somebody outside says to a run that stands as `row`. What the row says of it then is written in the same
    /// transaction. Whoever tries again after trouble does so with this very batch.
    pub fn said(row: Row, entry: Entry) -> Batch {
        let run = row.summary.run;
        let summary = row.summary.said(&entry.events, entry.at);
        let (writer, entry) = (Writer::outside(), entry.into());
        Batch { run, writer, entry, summary, release: None, blobs: Vec::new(), awaited: None, listed: None }
    }
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub owner: Owner,
    pub now: Millis,
    pub lease_until: Millis,
    /// Owners known to be gone.
    pub dead: Vec<Owner>,
    /// Leases that have run out still hold: only the dead are gone.
    pub patient: bool,
    pub which: Which,
    pub limit: usize,
}

/// A run that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub run: RunId,
    /// Who had it until now; none if nobody did.
    pub from: Option<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Due waits and orphans.
    Any,
    /// Due waits and orphans of these runs and their descendants only.
    Tree(RunId),
    /// This one, whatever it waits for, unless somebody alive holds it. Finished runs too (to resume them).
    One(RunId),
}

/// An entry was appended. Another process's writes are seen without their details: such a change carries the nil run
/// and number 0 and means that anything may have been written, so look at the runs you care about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub run: RunId,
    pub seq: u64,
}

impl Change {
    /// Somebody else wrote something.
    pub const FOREIGN: Change = Change { run: RunId::nil(), seq: 0 };

    pub fn is_foreign(&self) -> bool {
        *self == Change::FOREIGN
    }

    /// Whether a reader of this run should look for new entries.
    pub fn concerns(&self, run: RunId) -> bool {
        self.run == run || self.is_foreign()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub run: Option<RunId>,
    pub user: Option<String>,
    /// The name that the file gives.
    pub workflow: Option<String>,
    /// The id of the kept definition (`Target::workflow`).
    pub workflow_id: Option<String>,
    pub thread: Option<String>,
    pub status: Vec<RunStatus>,
    pub parent: Option<RunId>,
    /// Only runs that are nobody's child.
    pub roots_only: bool,
    /// Only runs that have all of these among their marks (`Summary::marks`).
    pub marks: Vec<String>,
    pub started_after: Option<Millis>,
    pub started_before: Option<Millis>,
    /// From a former page.
    pub cursor: Option<String>,
    /// Rows on the page, at most 1,000; 0 means 100.
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Row {
    pub summary: Summary,
    /// Number of the last entry.
    pub seq: u64,
    /// Number of the last entry when its end was last taken note of (`Edit::Reported`); 0 if it never was.
    pub reported: u64,
    pub owner: Option<Owner>,
    pub lease_until: Option<Millis>,
}

#[derive(Debug, Clone)]
pub struct Page {
    pub rows: Vec<Row>,
    /// For the next page, if there is one.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentKey {
    /// `plan`, `workflow`, `agent`, `manifest`, …
    pub kind: String,
    pub owner: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub key: DocumentKey,
    pub version: u64,
    pub at: Millis,
    pub body: Value,
}

/// One thing as it is now: a workflow, an agent, a trigger, a token. Replaced whole; each replacement counts its
/// revision up, from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub key: RecordKey,
    /// One more thing to find it by.
    pub label: String,
    /// When something is to be done about it.
    pub due_at: Option<Millis>,
    pub revision: u64,
    /// When it was last put.
    pub at: Millis,
    pub body: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordKey {
    pub kind: String,
    pub owner: String,
    pub id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    Put {
        key: RecordKey,
        label: String,
        due_at: Option<Millis>,
        body: Value,
        expect: Expect,
    },
    /// Of an absent record with `Expect::Any` it is no error.
    Remove {
        key: RecordKey,
        expect: Expect,
    },
    /// Like `put_document`.
    Document(Document),
    /// The end of this run has been taken note of; `Changed` unless it is among `ended` with this last number.
    Reported {
        run: RunId,
        seq: u64,
    },
}

/// How a record must be for an edit of it to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Any,
    Absent,
    Revision(u64),
}

impl Expect {
    /// `revision`: of the record that is there, if there is one.
    pub(crate) fn holds(self, revision: Option<u64>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => revision.is_none(),
            Expect::Revision(wanted) => revision == Some(wanted),
        }
    }
}

/// Which records, by id and then by owner. Walks one index, never sorts or scans.
#[derive(Debug, Clone, Default)]
pub struct Find {
    pub kind: String,
    pub owner: Option<String>,
    pub label: Option<String>,
    /// Only those with a `due_at` up to this time, by `due_at` and then by id; `after` and `newest_first` are not used.
    pub due_by: Option<Millis>,
    /// Ids beyond this one, in the direction of the walk.
    pub after: Option<String>,
    /// From the highest id down: ids that hold their time begin with the newest.
    pub newest_first: bool,
    /// At most 1,000; 0 means 100.
    pub limit: usize,
}

/// Which runs wait for an event.
#[derive(Debug, Clone, Default)]
pub struct Awaited {
    pub user: String,
    /// The type.
    pub event: String,
    pub after: Option<RunId>,
    pub limit: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Prune {
    /// `(status, ended before)`; runs of other statuses stay. Children go with the run that started them and stay as
    /// long as it does; a run with an unfinished descendant stays.
    pub before: Vec<(RunStatus, Millis)>,
    /// These too, whenever they ended. One that is unfinished, or has an unfinished descendant, stays.
    pub runs: Vec<RunId>,
    /// No further run is begun when so many are gone; 0 means 1,000.
    pub limit: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    pub runs: u64,
    pub blobs: u64,
}
