//! Records, and the outbox of ended runs, in memory.

use relais_engine::{Millis, RunId};

use super::{Held, State};
use crate::page;
use crate::{Document, DocumentKey, Edit, Error, Expect, Find, Record, RecordKey, Row};

impl State {
    /// On copies of what edits touch, so that a refused edit leaves nothing.
    pub(super) fn change(&mut self, edits: Vec<Edit>, at: Millis) -> Result<Vec<u64>, Error> {
        let before = (self.records.clone(), self.documents.clone());
        let noted: Vec<(RunId, u64)> = self.unreported().map(|held| (held.summary.run, held.reported)).collect();
        let outcome: Result<Vec<u64>, Error> = edits.into_iter().map(|edit| self.edit(edit, at)).collect();
        if outcome.is_err() {
            (self.records, self.documents) = before;
            for (run, reported) in noted {
                self.runs.entry(run).and_modify(|held| (held.unreported, held.reported) = (true, reported));
            }
        }
        outcome
    }

    fn edit(&mut self, edit: Edit, at: Millis) -> Result<u64, Error> {
        match edit {
            Edit::Put { key, label, due_at, body, expect } => {
                let revision = self.expected(&key, expect)?.unwrap_or(0) + 1;
                self.records.insert(key.clone(), Record { key, label, due_at, revision, at, body });
                Ok(revision)
            }
            Edit::Remove { key, expect } => {
                self.expected(&key, expect)?;
                self.records.remove(&key);
                Ok(0)
            }
            Edit::Document(document) => {
                self.put_document(document);
                Ok(0)
            }
            Edit::Reported { run, seq } => self.report(run, seq),
        }
    }

    /// The revision that is there.
    fn expected(&self, key: &RecordKey, expect: Expect) -> Result<Option<u64>, Error> {
        let revision = self.records.get(key).map(|record| record.revision);
        let changed = || Error::Changed(format!("{} {}", key.kind, key.id));
        expect.holds(revision).then_some(revision).ok_or_else(changed)
    }

    fn report(&mut self, run: RunId, seq: u64) -> Result<u64, Error> {
        let held = self.runs.get_mut(&run).filter(|held| held.unreported && held.last() == seq);
        let held = held.ok_or_else(|| Error::Changed(format!("run {run}")))?;
        (held.unreported, held.reported) = (false, seq);
        Ok(0)
    }

    pub(super) fn put_document(&mut self, document: Document) {
        let DocumentKey { kind, owner, name } = document.key.clone();
        self.documents.insert((kind, owner, name, document.version), document);
    }

    pub(super) fn find(&self, find: &Find) -> Vec<Record> {
        let mut found: Vec<&Record> = self.records.values().filter(|record| matches(find, record)).collect();
        found.sort_by_key(|record| {
            let due_at = find.due_by.and(record.due_at);
            (due_at, &record.key.id, &record.key.owner)
        });
        if find.newest_first && find.due_by.is_none() {
            found.reverse();
        }
        found.into_iter().take(page::rows(find.limit)).cloned().collect()
    }

    fn unreported(&self) -> impl Iterator<Item = &Held> {
        self.runs.values().filter(|held| held.unreported)
    }

    pub(super) fn ended(&self, limit: usize) -> Vec<Row> {
        let mut ended: Vec<&Held> = self.unreported().collect();
        ended.sort_by_key(|held| (held.summary.ended_at, held.summary.run));
        ended.into_iter().take(page::rows(limit)).map(|held| self.row(held)).collect()
    }
}

fn matches(find: &Find, record: &Record) -> bool {
    let beyond = |after: &String| if find.newest_first { record.key.id < *after } else { record.key.id > *after };
    let in_order = match find.due_by {
        Some(due_by) => record.due_at.is_some_and(|due_at| due_at <= due_by),
        None => find.after.as_ref().is_none_or(beyond),
    };
    in_order
        && record.key.kind == find.kind
        && find.owner.as_ref().is_none_or(|owner| *owner == record.key.owner)
        && find.label.as_ref().is_none_or(|label| *label == record.label)
}
