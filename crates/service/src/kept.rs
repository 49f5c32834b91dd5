//! Things that are kept as they are now (workflows, agents, triggers, tokens), as typed records of the store.
//!
//! Knows how a thing becomes a record and back. What the things are is in the file of each.

use relais_engine::Millis;
use relais_store::{Edit, Expect, Find, Record, RecordKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::definitions::workflows::must_be_unchanged;
use crate::triggers::hooks::Hook;
use crate::{Error, Service};

/// A kind of thing that is kept.
pub(crate) trait Kept: Serialize + DeserializeOwned {
    const KIND: &'static str;
    /// What a message calls it: "workflow".
    const WORD: &'static str;

    fn id(&self) -> String;

    /// What it is listed by besides its id.
    fn label(&self) -> String {
        String::new()
    }

    /// When something is to be done about it.
    fn due_at(&self) -> Option<Millis> {
        None
    }
}

/// A thing with the revision that it was read at.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    pub it: T,
    /// Counted up with each change; an ETag is made of it.
    pub revision: u64,
}

/// The revisions that a caller has read: what it changes must still be at one of them. None if it does not mind.
pub type Read = Option<Vec<u64>>;

/// Which things a list shows, and in which order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order<'a> {
    ById,
    NewestFirst,
    /// Those with this label only, by id.
    OfLabel(&'a str),
}

/// Things read in one go; a list that has more is read page by page.
const PAGE: usize = 1_000;
/// A list of more than this is shown in pages, never whole.
const MAX_LISTED: usize = 10_000;
/// How often something is read and changed anew when others changed it in between. Each time somebody got through, so
/// that this many callers at once all do; whoever meets more of them is told to come back.
pub(crate) const MAX_TRIES: usize = 50;

pub(crate) fn key<T: Kept>(owner: &str, id: &str) -> RecordKey {
    RecordKey { kind: T::KIND.to_owned(), owner: owner.to_owned(), id: id.to_owned() }
}

/// The edit that keeps a thing.
pub(crate) fn put<T: Kept>(owner: &str, it: &T, expect: Expect) -> Result<Edit, Error> {
    let body = serde_json::to_value(it).map_err(|e| Error::Unusable(e.to_string()))?;
    Ok(Edit::Put { key: key::<T>(owner, &it.id()), label: it.label(), due_at: it.due_at(), body, expect })
}

/// The edit that removes a thing.
pub(crate) fn remove<T: Kept>(owner: &str, id: &str, expect: Expect) -> Edit {
    Edit::Remove { key: key::<T>(owner, id), expect }
}

pub(crate) fn read<T: Kept>(record: Record) -> Result<At<T>, Error> {
    let Record { key, revision, body, .. } = record;
    let unread = |e| Error::Unusable(format!("the {} {} cannot be read: {e}", T::WORD, key.id));
    Ok(At { it: serde_json::from_value(body).map_err(unread)?, revision })
}

/// The same where many things are looked at together: one that cannot be read is told and left out.
pub(crate) fn readable<T: Kept>(record: Record) -> Option<At<T>> {
    let owner = record.key.owner.clone();
    read(record).map_err(|error| tracing::error!(owner, %error, "a record is left out")).ok()
}

fn touches_triggers(edit: &Edit) -> bool {
    matches!(edit, Edit::Put { key, .. } if key.kind == crate::TriggerRecord::KIND)
}

fn new_hook(edit: &Edit) -> Option<&RecordKey> {
    match edit {
        Edit::Put { key, expect: Expect::Absent, .. } if key.kind == Hook::KIND => Some(key),
        Edit::Put { .. } | Edit::Remove { .. } | Edit::Document(_) | Edit::Reported { .. } => None,
    }
}

/// Hooks are named by their authors, so one that is there is no race that a second try could win.
fn if_hook_is_taken(error: relais_store::Error, hooks: &[RecordKey]) -> Error {
    let relais_store::Error::Changed(what) = &error else { return error.into() };
    match hooks.iter().find(|key| *what == format!("{} {}", key.kind, key.id)) {
        Some(RecordKey { id, .. }) => {
            Error::Conflict(format!("the webhook `{id}` is there already; each trigger needs its own"))
        }
        None => error.into(),
    }
}

impl Service {
    /// One of the user's things by its id; the same answer whether there is none or it is another user's.
    pub(crate) async fn kept<T: Kept>(&self, id: &str) -> Result<At<T>, Error> {
        self.find_kept(id).await?.ok_or_else(|| Error::NotFound(format!("there is no {} {id}", T::WORD)))
    }

    pub(crate) async fn find_kept<T: Kept>(&self, id: &str) -> Result<Option<At<T>>, Error> {
        self.core.store.get_record(key::<T>(self.user(), id)).await?.map(read).transpose()
    }

    /// The user's things of a kind, by id, those with this label only if one is given.
    pub(crate) async fn list_kept<T: Kept>(&self, label: Option<&str>) -> Result<Vec<At<T>>, Error> {
        let mut all: Vec<At<T>> = Vec::new();
        while all.len() < MAX_LISTED {
            let after = all.last().map(|last| last.it.id());
            let page = self.page_kept(label, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
        Err(Error::Invalid(format!("there are more than {MAX_LISTED} of the kind {}; ask for them in pages", T::WORD)))
    }

    /// The same in pages: those after an id.
    pub(crate) async fn page_kept<T: Kept>(
        &self,
        label: Option<&str>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<At<T>>, Error> {
        self.ordered(label.map_or(Order::ById, Order::OfLabel), after, limit).await
    }

    /// A page of the user's things of a kind, and where the next begins. Whether there is one is looked for behind the
    /// last, since the store gives no more than the largest page at once.
    pub(crate) async fn paged<T: Kept>(
        &self,
        order: Order<'_>,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<At<T>>, Option<String>), Error> {
        let limit = limit.clamp(1, PAGE);
        let page: Vec<At<T>> = self.ordered(order, after, limit).await?;
        let last = page.last().filter(|_| page.len() == limit).map(|last| last.it.id());
        let Some(last) = last else { return Ok((page, None)) };
        let more: Vec<At<T>> = self.ordered(order, Some(last.clone()), 1).await?;
        Ok((page, Some(last).filter(|_| !more.is_empty())))
    }

    async fn ordered<T: Kept>(
        &self,
        order: Order<'_>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<At<T>>, Error> {
        let (label, newest_first) = match order {
            Order::ById => (None, false),
            Order::NewestFirst => (None, true),
            Order::OfLabel(label) => (Some(label.to_owned()), false),
        };
        let owner = Some(self.user().to_owned());
        let find = Find { kind: T::KIND.to_owned(), owner, label, after, limit, newest_first, ..Find::default() };
        self.core.store.records(find).await?.into_iter().map(read).collect()
    }

    /// A thing that is due. One that cannot be read would be due for ever and keep the others from their turn, so that it
    /// is due no more.
    pub(crate) async fn read_due<T: Kept>(&self, record: Record) -> Result<Option<At<T>>, Error> {
        let Record { key, label, revision, body, .. } = record.clone();
        if let Some(at) = readable(record) {
            return Ok(Some(at));
        }
        let expect = Expect::Revision(revision);
        match self.change(vec![Edit::Put { key, label, due_at: None, body, expect }]).await {
            // Stale: somebody has written it anew.
            Ok(_) | Err(Error::Stale(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds something and does something with it, anew while others change it in between. A caller that minds which
    /// revision it changes hears of it as soon as that is another one.
    pub(crate) async fn amend<T: Kept, R, Finding, Doing>(
        &self,
        read: &Read,
        find: impl Fn() -> Finding,
        act: impl Fn(At<T>) -> Doing,
    ) -> Result<R, Error>
    where
        Finding: Future<Output = Result<At<T>, Error>>,
        Doing: Future<Output = Result<R, Error>>,
    {
        for _ in 0..MAX_TRIES {
            let at = find().await?;
            must_be_unchanged(T::WORD, at.it.id(), at.revision, read)?;
            match act(at).await {
                Err(Error::Stale(_)) => {}
                done => return done,
            }
        }
        Err(Error::Busy(format!("this {} is being changed by many at once; try again", T::WORD)))
    }

    /// All edits or none; answers the revision of each.
    pub(crate) async fn change(&self, edits: Vec<Edit>) -> Result<Vec<u64>, Error> {
        let sets_triggers = edits.iter().any(touches_triggers);
        let hooks: Vec<RecordKey> = edits.iter().filter_map(new_hook).cloned().collect();
        let changed = self.core.store.change(edits, self.core.clock.now()).await;
        let revisions = changed.map_err(|error| if_hook_is_taken(error, &hooks))?;
        if sets_triggers {
            self.core.triggers_changed.notify_one();
        }
        Ok(revisions)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Agent, Config};

    /// As many agents as this, and a page of this size: what is on it, and whether another follows.
    async fn check(count: u128, limit: usize, shown: usize, has_next: bool) {
        let folder = tempfile::tempdir().unwrap();
        let (home, place) = (folder.path().join("home"), folder.path().to_owned());
        let (settings, user) = (Default::default(), "somebody".to_owned());
        let config = Config { home, folder: place, settings, read: Vec::new(), user };
        let service = Service::open(config).unwrap();
        let agent = |number: u128| Agent {
            id: uuid::Uuid::from_u128(number + 1),
            name: format!("agent {number}"),
            description: String::new(),
            definition: serde_json::Value::Null,
            created_at: 0,
            updated_at: 0,
        };
        let edits = (0..count).map(|number| put("somebody", &agent(number), Expect::Absent).unwrap());
        service.change(edits.collect()).await.unwrap();
        let (page, next) = service.agents(None, limit).await.unwrap();
        assert_eq!((page.len(), next.is_some()), (shown, has_next), "{count} agents, {limit} on a page");
        let (rest, _) = service.agents(next.clone(), limit).await.unwrap();
        let rest = if has_next { rest.len() } else { 0 };
        assert_eq!(page.len() + rest, (count as usize).min(2 * limit), "{count} agents, {limit} on a page");
    }

    #[tokio::test]
    async fn a_page_of_any_size_says_whether_there_are_more() {
        for (count, limit, shown, has_next) in [
            (0, 10, 0, false),
            (10, 10, 10, false),
            (11, 10, 10, true),
            (1_000, 1_000, 1_000, false),
            (1_001, 1_000, 1_000, true),
        ] {
            check(count, limit, shown, has_next).await;
        }
    }
}
