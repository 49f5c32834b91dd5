//! Why a run was started, or was not: one record for each decision about a trigger, the newest of them kept.

use relais_engine::{Millis, RunId};
use relais_store::{Edit, Expect, Find, Record};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kept::{self, At, Kept};
use crate::{Error, Service, TriggerRecord};

/// Decisions that are shown of one trigger; older ones go.
pub(crate) const KEPT: usize = 100;
/// Looking for old ones with every decision would cost more than the decision: on average one in so many does.
const LOOKS_ONE_IN: u8 = 16;
/// Old ones removed in one go.
const REMOVED_AT_ONCE: usize = 1_000;
/// Longer than one decision takes.
const LATE_MS: Millis = 60_000;
/// Triggers that are gone, tidied up in one go; the next time does more.
const MAX_GONE: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// In the order of time.
    pub id: Uuid,
    pub trigger: Uuid,
    pub at: Millis,
    /// The time of the schedule that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Millis>,
    pub starts: bool,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How often it was decided so; what is refused again and again is counted, not listed.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

fn is_once(times: &u64) -> bool {
    *times == once()
}

/// What came to a trigger from somebody who did not show that they may send it. All of it is one record: whoever sends
/// much can neither fill the list nor push anything out of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Refused {
    trigger: Uuid,
    /// The last time, and why then.
    at: Millis,
    reason: String,
    times: u64,
}

impl Kept for Refused {
    const KIND: &'static str = "refused";
    const WORD: &'static str = "refusal";

    fn id(&self) -> String {
        self.trigger.to_string()
    }
}

impl Refused {
    fn shown(self) -> Decision {
        let Refused { trigger, at, reason, times } = self;
        Decision { id: trigger, trigger, at, tick: None, starts: false, reason, run: None, times }
    }
}

/// A trigger that was removed. What was decided about it goes a while later: by then whoever had read the trigger before
/// has written what it decided, too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Gone {
    trigger: Uuid,
    at: Millis,
}

impl Gone {
    pub(crate) fn new(trigger: Uuid, at: Millis) -> Gone {
        Gone { trigger, at }
    }
}

impl Kept for Gone {
    const KIND: &'static str = "gone_trigger";
    const WORD: &'static str = "removed trigger";

    fn id(&self) -> String {
        self.trigger.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        Some(self.at.saturating_add(LATE_MS))
    }
}

impl Kept for Decision {
    const KIND: &'static str = "decision";
    const WORD: &'static str = "decision";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn label(&self) -> String {
        self.trigger.to_string()
    }
}

/// An id that is sorted by time, and by `order` among those of one millisecond.
pub(crate) fn ordered_id(at: Millis, order: usize) -> Uuid {
    let mut chance = [0; 10];
    chance.copy_from_slice(&Uuid::new_v4().as_bytes()[6..]);
    let order = u16::try_from(order).unwrap_or(u16::MAX).to_be_bytes();
    chance[..2].copy_from_slice(&order);
    uuid::Builder::from_unix_timestamp_millis(at.max(0).cast_unsigned(), &chance).into_uuid()
}

impl Service {
    /// What keeps a decision, and now and then lets the old ones of its trigger go.
    pub(crate) async fn decision_edits(&self, decision: &Decision) -> Result<Vec<Edit>, Error> {
        let mut edits = vec![kept::put(self.user(), decision, Expect::Any)?];
        if decision.id.as_bytes()[15].is_multiple_of(LOOKS_ONE_IN) {
            edits.extend(self.old_decisions(decision.trigger).await?);
        }
        Ok(edits)
    }

    /// What keeps that nothing comes of the ticks that wait for the run before them.
    pub(crate) fn dropped_edits(&self, trigger: &TriggerRecord, reason: &str) -> Result<Vec<Edit>, Error> {
        let at = self.core.clock.now();
        let decision = |(order, tick): (usize, &Millis)| {
            let (id, tick, reason) = (ordered_id(at, order), Some(*tick), reason.to_owned());
            let decision = Decision { id, trigger: trigger.uuid, at, tick, starts: false, reason, run: None, times: 1 };
            kept::put(self.user(), &decision, Expect::Any)
        };
        trigger.queued.iter().enumerate().map(decision).collect()
    }

    async fn old_decisions(&self, trigger: Uuid) -> Result<Vec<Edit>, Error> {
        let found = self.decision_records(trigger, REMOVED_AT_ONCE).await?;
        Ok(found.into_iter().skip(KEPT).map(|old| Edit::Remove { key: old.key, expect: Expect::Any }).collect())
    }

    /// Removes what was decided about triggers that are gone, of all users.
    pub(crate) async fn forget_gone_triggers(&self) -> Result<(), Error> {
        for _ in 0..MAX_GONE {
            let due_by = Some(self.core.clock.now());
            let find = Find { kind: Gone::KIND.to_owned(), due_by, limit: 1, ..Find::default() };
            let Some(record) = self.core.store.records(find).await?.pop() else { return Ok(()) };
            let service = self.as_user(&record.key.owner);
            if let Some(At { it: gone, .. }) = self.read_due::<Gone>(record).await? {
                service.change(service.gone_edits(&gone).await?).await?;
            }
        }
        Ok(())
    }

    /// Some of the decisions, and with the last of them the rest.
    async fn gone_edits(&self, gone: &Gone) -> Result<Vec<Edit>, Error> {
        let found = self.decision_records(gone.trigger, REMOVED_AT_ONCE).await?;
        let is_last = found.len() < REMOVED_AT_ONCE;
        let remove = |record: Record| Edit::Remove { key: record.key, expect: Expect::Any };
        let mut edits: Vec<Edit> = found.into_iter().map(remove).collect();
        if is_last {
            edits.push(kept::remove::<Refused>(self.user(), &gone.id(), Expect::Any));
            edits.push(kept::remove::<Gone>(self.user(), &gone.id(), Expect::Any));
        }
        Ok(edits)
    }

    /// The newest first.
    async fn decision_records(&self, trigger: Uuid, limit: usize) -> Result<Vec<Record>, Error> {
        let label = Some(trigger.to_string());
        let find = Find { label, newest_first: true, limit, ..self.own::<Decision>() };
        Ok(self.core.store.records(find).await?)
    }

    /// Counts what was refused. Those who are refused at the same time may be counted as one.
    pub(crate) async fn note_refused(&self, trigger: Uuid, reason: String) -> Result<(), Error> {
        let before = self.find_kept::<Refused>(&trigger.to_string()).await?;
        let (times, expect) = match before {
            Some(At { it, revision }) => (it.times.saturating_add(1), Expect::Revision(revision)),
            None => (1, Expect::Absent),
        };
        let refused = Refused { trigger, at: self.core.clock.now(), reason, times };
        match self.change(vec![kept::put(self.user(), &refused, expect)?]).await {
            Ok(_) | Err(Error::Stale(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What was decided about a trigger lately, the newest first, and what was refused among it.
    pub async fn decisions(&self, trigger: Uuid) -> Result<Vec<Decision>, Error> {
        let mut decisions = self.listed_decisions(trigger).await?;
        if let Some(At { it: refused, .. }) = self.find_kept::<Refused>(&trigger.to_string()).await? {
            let place = decisions.partition_point(|decision| decision.at > refused.at);
            decisions.insert(place, refused.shown());
        }
        Ok(decisions)
    }

    async fn listed_decisions(&self, trigger: Uuid) -> Result<Vec<Decision>, Error> {
        let found = self.decision_records(trigger, KEPT).await?;
        found.into_iter().map(|record| Ok(kept::read::<Decision>(record)?.it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_of_time_and_of_making() {
        let ids: Vec<Uuid> = (0..50).flat_map(|at| (0..50).map(move |order| ordered_id(at, order))).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[0].get_version_num(), 7);
    }
}
