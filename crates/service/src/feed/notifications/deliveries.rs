//! Notifications on their way to a channel: kept until they were taken or given up, tried again with growing pauses.
//!
//! Whoever tries first writes down that it does, with the time at which somebody else may try if nothing is heard of it:
//! a process that dies while it sends loses nothing, and a message may then arrive twice, with the same id.

use std::sync::Arc;
use std::time::Duration;

use relais_engine::Millis;
use relais_store::{Expect, Find, Record};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::feed::notify::{self, Failed, Message, Recipient, Senders};
use crate::kept::{self, At, Kept};
use crate::{Error, Service};

/// Pauses after the first, second … attempt that failed: ten attempts within a day, as is usual for webhooks.
const PAUSES_S: [i64; 9] = [5, 30, 2 * 60, 10 * 60, 30 * 60, 3_600, 2 * 3_600, 4 * 3_600, 8 * 3_600];
/// Longer than one attempt can take; then somebody else may try.
const TAKEN_MS: Millis = 3 * 60 * 1_000;
/// Under way at once; a slow receiver holds up few others.
const AT_ONCE: usize = 16;
/// How often the list is looked at when nothing is known to be due.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// What a receiver tells repetitions by (`webhook-id`).
    pub id: Uuid,
    pub notification: Uuid,
    pub recipient: Recipient,
    pub message: Message,
    pub created_at: Millis,
    /// Attempts begun.
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Millis>,
    /// When it is tried next; none once it was taken or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Millis>,
}

impl Kept for Delivery {
    const KIND: &'static str = "delivery";
    const WORD: &'static str = "delivery";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.notification.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        self.next_at
    }
}

impl Delivery {
    pub(in crate::feed) fn new(
        id: Uuid,
        notification: Uuid,
        recipient: Recipient,
        message: Message,
        now: Millis,
    ) -> Delivery {
        let (last_error, delivered_at) = (None, None);
        let (created_at, next_at) = (now, Some(now));
        Delivery { id, notification, recipient, message, created_at, attempts: 0, last_error, delivered_at, next_at }
    }

    /// `delivered`, `waiting` or `given_up`.
    pub fn state(&self) -> &'static str {
        match (self.delivered_at, self.next_at) {
            (Some(_), _) => "delivered",
            (None, Some(_)) => "waiting",
            (None, None) => "given_up",
        }
    }

    /// What becomes of it after an attempt.
    fn after(mut self, outcome: Result<(), Failed>, now: Millis) -> Delivery {
        match outcome {
            Ok(()) => (self.delivered_at, self.next_at, self.last_error) = (Some(now), None, None),
            Err(failed) => {
                let pause = PAUSES_S.get(self.attempts.saturating_sub(1) as usize).filter(|_| failed.again);
                self.next_at = pause.map(|pause| now + pause * 1_000);
                self.last_error = Some(failed.message);
            }
        }
        self
    }
}

impl Service {
    /// The user's deliveries, newest first, those of one notification only if one is given.
    pub async fn deliveries(
        &self,
        notification: Option<Uuid>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<At<Delivery>>, Error> {
        let label = notification.map(|id| id.to_string());
        let find = Find { label, after, limit, newest_first: true, ..self.own::<Delivery>() };
        self.core.store.records(find).await?.into_iter().map(kept::read).collect()
    }

    /// Sends what is due, until it is told to stop; what is being sent then is sent to its end.
    pub(crate) async fn deliver(&self, senders: Arc<Senders>, mut stop: watch::Receiver<bool>) {
        let mut sending = JoinSet::new();
        while !*stop.borrow() {
            let due = self.take_due(AT_ONCE.saturating_sub(sending.len())).await;
            let due = due.unwrap_or_else(|error| {
                tracing::warn!(%error, "deliveries could not be read");
                Vec::new()
            });
            let busy = !due.is_empty();
            for (owner, at) in due {
                let (service, senders) = (self.as_user(&owner), senders.clone());
                sending.spawn(async move { service.attempt(&senders, at).await });
            }
            if busy && sending.len() < AT_ONCE {
                continue;
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                Some(_) = sending.join_next() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        while sending.join_next().await.is_some() {}
    }

    /// Tries everything that is due now once, and answers how much that was.
    pub async fn deliver_once(&self) -> Result<usize, Error> {
        let senders = Senders::new(&self.config().settings, self.core.clock.clone())?;
        let due = self.take_due(AT_ONCE).await?;
        let tried = due.len();
        for (owner, at) in due {
            self.as_user(&owner).attempt(&senders, at).await;
        }
        Ok(tried)
    }

    /// Deliveries that nobody else tries meanwhile, with their users.
    async fn take_due(&self, limit: usize) -> Result<Vec<(String, At<Delivery>)>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let now = self.core.clock.now();
        let find = Find { kind: Delivery::KIND.into(), due_by: Some(now), limit, ..Find::default() };
        let mut taken = Vec::new();
        for record in self.core.store.records(find).await? {
            let owner = record.key.owner.clone();
            match self.take(record, now).await {
                Ok(at) => taken.extend(at.map(|at| (owner, at))),
                Err(error) if taken.is_empty() => return Err(error),
                Err(error) => {
                    // Those that were taken are nobody else's for a while.
                    tracing::warn!(%error, "no more deliveries can be taken for now");
                    break;
                }
            }
        }
        Ok(taken)
    }

    /// Writes down that a delivery is tried here, unless another server was quicker.
    async fn take(&self, record: Record, now: Millis) -> Result<Option<At<Delivery>>, Error> {
        let owner = record.key.owner.clone();
        let Some(At { mut it, revision }) = self.read_due::<Delivery>(record).await? else { return Ok(None) };
        it.attempts += 1;
        it.next_at = Some(now + TAKEN_MS);
        match self.change(vec![kept::put(&owner, &it, Expect::Revision(revision))?]).await {
            Ok(revisions) => Ok(Some(At { it, revision: revisions.first().copied().unwrap_or(revision + 1) })),
            Err(Error::Stale(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn attempt(&self, senders: &Senders, At { it, revision }: At<Delivery>) {
        let outcome = match senders.channel(&it.recipient) {
            Ok(channel) => notify::send(&channel, &it.message, senders).await,
            Err(failed) => Err(failed),
        };
        if let Err(failed) = &outcome {
            tracing::warn!(delivery = %it.id, attempt = it.attempts, error = %failed, "a notification was not taken");
        }
        let it = it.after(outcome, self.core.clock.now());
        let kept = match kept::put(self.user(), &it, Expect::Revision(revision)) {
            Ok(edit) => self.change(vec![edit]).await.map(drop),
            Err(error) => Err(error),
        };
        // Not written down, it is tried again: the receiver knows it by its id.
        if let Err(error) = kept {
            tracing::warn!(delivery = %it.id, %error, "what became of a delivery could not be written");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
