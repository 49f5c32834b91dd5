//! The runs of a past range: the times that a schedule would have fired at are owed now, under the keys of those times.
//! So what has run then, or was asked for before, is not run again.

use relais_engine::Millis;
use relais_plan::time::{format_instant, parse_instant};
use relais_plan::{Overlap, TriggerOn, schedule};
use relais_store::Expect;
use uuid::Uuid;

use crate::kept::{self, At};
use crate::triggers::Owed;
use crate::{Error, Service, Timed, TriggerRecord, Workflow};

/// More is asked for in several goes: each waits in the trigger's record.
const MAX_TIMES: usize = 500;

/// Which times of which schedule.
#[derive(Debug, Clone)]
pub struct Backfill {
    /// Id, alias or name of the workflow.
    pub workflow: String,
    /// Which of its schedules, where it has several.
    pub schedule: Option<Uuid>,
    pub from: Millis,
    /// Up to and with this time.
    pub to: Millis,
}

/// What is owed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backfilled {
    pub schedule: Uuid,
    pub times: Vec<Millis>,
    /// The runs may overlap; else they start one after another.
    pub at_once: bool,
}

/// A time, or a day, which begins at midnight UTC.
pub fn backfill_time(name: &str, text: &str) -> Result<Millis, Error> {
    let text = text.trim();
    let found = parse_instant(text).or_else(|| parse_instant(&format!("{text}T00:00:00Z")));
    found.ok_or_else(|| {
        Error::Invalid(format!("{name}: `{text}` is no time; write 2026-11-01, or 2026-11-01T09:00:00Z"))
    })
}

impl Service {
    /// The times that would be run; nothing is started.
    pub async fn preview_backfill(&self, wanted: &Backfill) -> Result<Backfilled, Error> {
        let Timed { trigger, .. } = self.schedule_of(wanted).await?;
        self.backfill_of(&trigger, wanted)
    }

    /// Owes the runs of those times; durable when this returns. The scheduler starts them, one after another unless the
    /// schedule lets runs overlap.
    pub async fn backfill(&self, wanted: &Backfill) -> Result<Backfilled, Error> {
        let find = || async {
            let Timed { trigger, revision, .. } = self.schedule_of(wanted).await?;
            Ok::<_, Error>(At { it: trigger, revision })
        };
        self.amend(&None, find, |at| self.owe(at, wanted)).await
    }

    async fn owe(
        &self,
        At { it: mut trigger, revision }: At<TriggerRecord>,
        wanted: &Backfill,
    ) -> Result<Backfilled, Error> {
        let backfilled = self.backfill_of(&trigger, wanted)?;
        self.must_fire(&trigger).await?;
        let waits = |trigger: &TriggerRecord, tick: &Millis| {
            trigger.queued.contains(tick) || trigger.owed.iter().any(|owed| owed.tick == *tick)
        };
        for tick in &backfilled.times {
            if waits(&trigger, tick) {
                continue;
            }
            match backfilled.at_once {
                true => trigger.owed.push(Owed { tick: *tick, reason: "backfilled".to_owned(), tries: 0 }),
                false => trigger.queued.push_back(*tick),
            }
        }
        if trigger.queued.len() + trigger.owed.len() > 2 * MAX_TIMES {
            let text =
                format!("more than {} times wait for their runs already; ask again when those have run", MAX_TIMES);
            return Err(Error::Conflict(text));
        }
        trigger.look_at = Some(self.core.clock.now());
        self.change(vec![kept::put(self.user(), &trigger, Expect::Revision(revision))?]).await?;
        Ok(backfilled)
    }

    /// What is paused starts nothing, so nothing is promised.
    async fn must_fire(&self, trigger: &TriggerRecord) -> Result<(), Error> {
        let At { it: workflow, .. } = self.kept::<Workflow>(&trigger.workflow_uuid.to_string()).await?;
        let closed = super::sent::closed(&workflow).map(str::to_owned);
        match trigger.off.clone().or(closed) {
            Some(reason) => Err(Error::Conflict(format!("nothing can be backfilled: {reason}"))),
            None => Ok(()),
        }
    }

    async fn schedule_of(&self, wanted: &Backfill) -> Result<Timed, Error> {
        let has_times = |on: &TriggerOn| {
            matches!(on, TriggerOn::Cron(_) | TriggerOn::Every { .. } | TriggerOn::Calendar(_) | TriggerOn::At(_))
        };
        let mut found = self.schedules_of(&wanted.workflow).await?;
        found.retain(|timed| {
            has_times(&timed.trigger.on.on) && wanted.schedule.is_none_or(|id| id == timed.trigger.uuid)
        });
        match (found.len(), wanted.schedule) {
            (1, _) => Ok(found.remove(0)),
            (0, Some(id)) => Err(Error::NotFound(format!("there is no schedule {id}"))),
            (0, None) => Err(Error::Invalid(format!("the workflow `{}` has no schedule with times", wanted.workflow))),
            (_, _) => {
                let ids: Vec<String> = found.iter().map(|timed| timed.trigger.uuid.to_string()).collect();
                Err(Error::Invalid(format!("the workflow has several schedules; say which: {}", ids.join(", "))))
            }
        }
    }

    fn backfill_of(&self, trigger: &TriggerRecord, wanted: &Backfill) -> Result<Backfilled, Error> {
        let now = self.core.clock.now();
        let (from, to) = (wanted.from, wanted.to);
        if from >= to || to > now {
            let text = "a backfill goes from one time to a later one that has passed";
            return Err(Error::Invalid(format!("{text}, not from {} to {}", format_instant(from), format_instant(to))));
        }
        let parsed = schedule::parse(&trigger.on, self.timezone(), trigger.set_at).map_err(Error::Invalid)?;
        let Some(schedule) = parsed else { return Err(Error::Invalid("this trigger has no times".into())) };
        // The first moment is part of the range.
        let due = schedule.between(from - 1, to, MAX_TIMES);
        if due.has_more {
            let text =
                format!("these are more than {MAX_TIMES} times; choose a shorter range, and repeat it for the rest");
            return Err(Error::Invalid(text));
        }
        if due.times.is_empty() {
            return Err(Error::Invalid(format!("{} has no time in that range", schedule.describe())));
        }
        Ok(Backfilled { schedule: trigger.uuid, times: due.times, at_once: trigger.on.overlap == Overlap::Allow })
    }
}
