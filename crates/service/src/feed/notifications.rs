//! What people are told of ended runs, and by runs (`posted`): the list that everyone has, and what is sent to channels (`deliveries`).
//!
//! Written by the feed in the change that takes note of an end, so each end is told exactly once here, and at least
//! once outside.

pub(crate) mod deliveries;
pub(crate) mod posted;

use relais_engine::{Millis, RunId, RunStatus, Summary};
use relais_plan::{Notify, time};
use relais_store::{Edit, Expect, Find};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::feed::notify::{Message, recipients};
use crate::kept::{self, At, Kept};
use crate::runs::bulk::BulkRuns;
use crate::{Bulk, Error, Service};
use deliveries::Delivery;

/// News older than this is listed and no longer sent: nobody wants a hundred mails after a long stop.
const NEWS_MS: Millis = 24 * 60 * 60 * 1_000;
/// What of an error goes into a text.
const ERROR_CHARS_MAX: usize = 1_000;
/// Marked as read in one change.
const MARKED_AT_ONCE: usize = 1_000;
/// Marked as read by one call; more are marked by the next.
const MARKED_MAX: usize = 100_000;
/// Notifications and deliveries older than this are removed, read or not.
const KEEP_MS: Millis = 90 * 24 * 60 * 60 * 1_000;
/// Removed in one change.
const REMOVED_AT_ONCE: usize = 500;
/// Changes in one go: a million in all, more than an hour brings; the next hour does what is left.
const REMOVALS_MAX: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// Holds its time: the newest is the highest.
    pub id: Uuid,
    pub at: Millis,
    /// `run.completed`, `run.failed`, `run.waiting`, or `run.message` where a run itself has something to say.
    pub kind: String,
    pub title: String,
    pub text: String,
    pub run: RunId,
    /// The workflow's id, or its name where it is not kept.
    pub workflow: String,
    pub read: bool,
}

/// The label of what was not read yet; what was read has none.
const UNREAD: &str = "unread";

impl Kept for Notification {
    const KIND: &'static str = "notification";
    const WORD: &'static str = "notification";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        if self.read { String::new() } else { UNREAD.to_owned() }
    }
}

/// Whether the file wants this end told. A run that was cancelled is no news to who cancelled it.
pub(crate) fn wanted(notify: &Notify, status: RunStatus) -> bool {
    match status {
        RunStatus::Completed | RunStatus::Stopped => notify.on_complete,
        RunStatus::Failed | RunStatus::PartialSuccess => notify.on_failure,
        RunStatus::Cancelled | RunStatus::Pending | RunStatus::Running => false,
        RunStatus::Interrupted | RunStatus::Waiting => false,
    }
}

fn told(summary: &Summary, id: Uuid, at: Millis) -> Notification {
    let (name, status) = (&summary.workflow, summary.status);
    let (kind, title) = match status.is_success() {
        true => ("run.completed", format!("{name} has completed")),
        false if status == RunStatus::PartialSuccess => ("run.failed", format!("{name} has succeeded only in part")),
        false => ("run.failed", format!("{name} has failed")),
    };
    let took = at.saturating_sub(summary.started_at).max(0).cast_unsigned();
    let mut text = format!("Run {} ended as {} after {}.", summary.run, status.word(), time::format_duration(took));
    if let Some(error) = &summary.error {
        text.push_str(&format!(" {}", cut(&error.to_string())));
    }
    let workflow = &summary.target.workflow;
    let workflow = if workflow.is_empty() { name.clone() } else { workflow.clone() };
    Notification { id, at, kind: kind.into(), title, text, run: summary.run, workflow, read: false }
}

fn cut(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}

/// What programs get: numbers and names, none of the run's data.
fn facts(summary: &Summary) -> Value {
    json!({
        "run": summary.run,
        "workflow": summary.workflow,
        "workflow_id": summary.target.workflow,
        "version": summary.target.version,
        "trigger": summary.target.trigger,
        "user": summary.user,
        "thread": summary.thread,
        "status": summary.status.word(),
        "started_at": time::format_instant(summary.started_at),
        "ended_at": summary.ended_at.map(time::format_instant),
        "error": summary.error.as_ref().map(|e| json!({ "kind": e.kind.word(), "message": cut(&e.message) })),
        "usage": summary.usage,
    })
}

impl Service {
    /// What is written about an end that the file wants told.
    pub(crate) fn notification_edits(&self, summary: &Summary, notify: &Notify) -> Result<Vec<Edit>, Error> {
        if !wanted(notify, summary.status) {
            return Ok(Vec::new());
        }
        let now = self.core.clock.now();
        let ended_at = summary.ended_at.unwrap_or(now);
        let notification = told(summary, Uuid::now_v7(), ended_at);
        let mut edits = vec![kept::put(&summary.user, &notification, Expect::Absent)?];
        if now.saturating_sub(ended_at) > NEWS_MS {
            return Ok(edits);
        }
        let Notification { kind, title, text, .. } = &notification;
        for recipient in recipients(notify, &self.config().settings) {
            let (kind, title, text) = (kind.clone(), title.clone(), text.clone());
            let id = Uuid::now_v7();
            let message = Message { id: id.to_string(), kind, title, text, data: facts(summary), at: ended_at };
            let delivery = Delivery::new(id, notification.id, recipient, message, now);
            edits.push(kept::put(&summary.user, &delivery, Expect::Absent)?);
        }
        Ok(edits)
    }

    /// Newest first; those after an id.
    pub async fn notifications(
        &self,
        unread: bool,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<At<Notification>>, Error> {
        let label = unread.then(|| UNREAD.to_owned());
        let find = Find { label, after, limit, newest_first: true, ..self.own::<Notification>() };
        self.core.store.records(find).await?.into_iter().map(kept::read).collect()
    }

    pub async fn notification(&self, id: Uuid) -> Result<At<Notification>, Error> {
        self.kept(&id.to_string()).await
    }

    pub async fn mark_notification(&self, id: Uuid, read: bool) -> Result<At<Notification>, Error> {
        let At { mut it, revision } = self.notification(id).await?;
        it.read = read;
        let revisions = self.change(vec![kept::put(self.user(), &it, Expect::Revision(revision))?]).await?;
        Ok(At { it, revision: revisions.first().copied().unwrap_or(revision + 1) })
    }

    /// All that were not read; answers how many those were.
    pub async fn mark_all_notifications(&self) -> Result<usize, Error> {
        let mut marked = 0;
        while marked < MARKED_MAX {
            let unread = self.notifications(true, None, MARKED_AT_ONCE).await?;
            if unread.is_empty() {
                break;
            }
            marked += unread.len();
            let put = |At { it, revision }| {
                kept::put(self.user(), &Notification { read: true, ..it }, Expect::Revision(revision))
            };
            self.change(unread.into_iter().map(put).collect::<Result<_, _>>()?).await?;
        }
        Ok(marked)
    }

    /// What is still to be sent is sent all the same.
    pub async fn delete_notification(&self, id: Uuid) -> Result<(), Error> {
        let At { it, revision } = self.notification(id).await?;
        self.change(vec![kept::remove::<Notification>(self.user(), &it.id(), Expect::Revision(revision))]).await?;
        Ok(())
    }

    /// Removes what nobody will look at any more.
    pub(crate) async fn forget_old(&self) -> Result<(), Error> {
        for kind in [Notification::KIND, Delivery::KIND, posted::Posted::KIND, Bulk::KIND, BulkRuns::KIND] {
            self.forget_old_of(kind).await?;
        }
        self.forget_gone_triggers().await
    }

    /// From the oldest on, until there is none that is old.
    async fn forget_old_of(&self, kind: &str) -> Result<(), Error> {
        let before = self.core.clock.now().saturating_sub(KEEP_MS);
        let mut after = None;
        for _ in 0..REMOVALS_MAX {
            let find = Find { kind: kind.to_owned(), after, limit: REMOVED_AT_ONCE, ..Find::default() };
            let oldest = self.core.store.records(find).await?;
            after = oldest.last().map(|record| record.key.id.clone());
            let old = oldest.into_iter().filter(|record| record.at < before);
            let edits: Vec<Edit> = old.map(|r| Edit::Remove { key: r.key, expect: Expect::Any }).collect();
            if edits.is_empty() {
                break;
            }
            self.change(edits).await?;
        }
        Ok(())
    }

    pub(crate) fn own<T: Kept>(&self) -> Find {
        Find { kind: T::KIND.to_owned(), owner: Some(self.user().to_owned()), ..Find::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // keeps A-03
    #[test]
    fn failures_are_told_and_the_rest_only_if_asked_for() {
        let quiet = Notify { on_failure: false, ..Notify::default() };
        let loud = Notify { on_complete: true, ..Notify::default() };
        let check = |status, by_default, when_quiet, when_loud| {
            let found = [&Notify::default(), &quiet, &loud].map(|notify| wanted(notify, status));
            assert_eq!(found, [by_default, when_quiet, when_loud], "{status:?}");
        };
        check(RunStatus::Completed, false, false, true);
        check(RunStatus::Stopped, false, false, true);
        check(RunStatus::Failed, true, false, true);
        check(RunStatus::PartialSuccess, true, false, true);
        check(RunStatus::Cancelled, false, false, false);
    }
}
