//! What is sent faster than runs are to start: gathered (`debounce`, `batch`) and started when the time for it has come,
//! or declined (`throttle`). What is gathered, and until when, stands in the trigger; the scheduler goes on with it,
//! whoever has died meanwhile.

use std::collections::VecDeque;

use relais_engine::Millis;
use relais_plan::time::format_duration;
use relais_plan::{Overlap, Pace};
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kept::{self, At, MAX_TRIES};
use crate::triggers::Owed;
use crate::triggers::decisions::{Decision, ordered_id};
use crate::triggers::sent::{Arrival, Fate, Sent, arrival_id};
use crate::{Error, Service, TriggerRecord};

/// However much comes: after so many times its `debounce` the last one starts.
const MAX_DEBOUNCES: Millis = 100;

/// What was sent and has not become a run yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathering {
    pub since: Millis,
    /// When it becomes a run.
    pub until: Millis,
    /// What came, in order.
    pub ticks: Vec<Millis>,
}

impl TriggerRecord {
    /// Takes one more; answers those that it takes the place of, and why it does not start at once.
    fn gather(&mut self, tick: Millis, now: Millis) -> (Vec<Millis>, String) {
        let mut gathering = self.gathering.take().unwrap_or(Gathering { since: now, until: now, ticks: Vec::new() });
        let (replaced, reason) = match &self.on.pace {
            Pace { debounce_ms: Some(ms), .. } => {
                let pause = Millis::try_from(*ms).unwrap_or(Millis::MAX);
                let latest = gathering.since.saturating_add(pause.saturating_mul(MAX_DEBOUNCES));
                gathering.until = now.saturating_add(pause).min(latest);
                let reason = format!("it starts when nothing more has come for {} (`debounce`)", format_duration(*ms));
                (std::mem::take(&mut gathering.ticks), reason)
            }
            Pace { batch: Some(batch), .. } => {
                let within = Millis::try_from(batch.within_ms).unwrap_or(Millis::MAX);
                let is_full = gathering.ticks.len() + 1 >= batch.size as usize;
                gathering.until = if is_full { now } else { gathering.since.saturating_add(within) };
                let within = format_duration(batch.within_ms);
                let reason = format!("it starts with up to {} that come within {within} (`batch`)", batch.size);
                (Vec::new(), reason)
            }
            Pace { .. } => (Vec::new(), String::new()),
        };
        gathering.ticks.push(tick);
        self.gathering = Some(gathering);
        (replaced, reason)
    }

    /// Why no more runs start now, if that is so.
    pub(crate) fn throttled(&self, now: Millis) -> Option<String> {
        let throttle = self.on.pace.throttle.as_ref()?;
        let since = now.saturating_sub_unsigned(throttle.per_ms);
        let lately = self.recent.iter().filter(|tick| **tick > since).count();
        let per = format_duration(throttle.per_ms);
        let runs = if lately == 1 { "run" } else { "runs" };
        (lately >= throttle.max as usize).then(|| format!("{lately} {runs} started within {per} (`throttle`)"))
    }

    /// Remembers a start, as long as that matters.
    pub(crate) fn remember(&mut self, tick: Millis) {
        let Some(throttle) = &self.on.pace.throttle else { return };
        self.recent.push_back(tick);
        while self.recent.len() > throttle.max as usize {
            self.recent.pop_front();
        }
    }
}

impl Service {
    /// Takes what was sent into the gathering of its trigger.
    pub(crate) async fn gather_sent(&self, mut at: At<TriggerRecord>, sent: &Sent) -> Result<Fate, Error> {
        let id = at.it.uuid.to_string();
        for _ in 0..MAX_TRIES {
            if let Some(fate) = self.seen_before(&at.it, sent).await? {
                return Ok(fate);
            }
            match self.gather(at, sent).await {
                Err(Error::Stale(_)) => at = self.kept::<TriggerRecord>(&id).await?,
                other => return other,
            }
        }
        Err(Error::Busy("too much is sent to this trigger at once; try again".into()))
    }

    async fn gather(&self, at: At<TriggerRecord>, sent: &Sent) -> Result<Fate, Error> {
        let now = self.core.clock.now();
        let At { it: mut trigger, revision } = at;
        let tick = trigger.last_tick.map_or(now, |last| now.max(last + 1));
        let (replaced, reason) = trigger.gather(tick, now);
        trigger.last_tick = Some(tick);
        let mut edits = vec![kept::put(self.user(), &trigger, Expect::Revision(revision))?];
        edits.extend(self.arrival_edits(trigger.uuid, tick, sent)?);
        for tick in replaced {
            edits.extend(self.dropped(&trigger, tick, "a later one took its place (`debounce`)".to_owned()).await?);
        }
        self.change(edits).await?;
        let (trigger, workflow) = (trigger.uuid, trigger.workflow_uuid);
        Ok(Fate { trigger, workflow, name: String::new(), starts: true, reason, run: None })
    }

    async fn dropped(&self, trigger: &TriggerRecord, tick: Millis, reason: String) -> Result<Vec<Edit>, Error> {
        let (id, at) = (ordered_id(self.core.clock.now(), 0), self.core.clock.now());
        let (trigger, tick) = (trigger.uuid, Some(tick));
        let decision = Decision { id, trigger, at, tick, starts: false, reason, run: None, times: 1 };
        let mut edits = self.decision_edits(&decision).await?;
        edits.extend(tick.map(|tick| kept::remove::<Arrival>(self.user(), &arrival_id(trigger, tick), Expect::Any)));
        Ok(edits)
    }

    /// What was gathered becomes one tick, as the trigger's `overlap` says, if its time has come.
    pub(crate) async fn close_gathering(
        &self,
        at: At<TriggerRecord>,
        now: Millis,
    ) -> Result<Option<At<TriggerRecord>>, Error> {
        let At { it: mut trigger, revision } = at;
        let Some(Gathering { ticks, .. }) = trigger.gathering.take_if(|gathering| gathering.until <= now) else {
            return Ok(Some(At { it: trigger, revision }));
        };
        let Some(tick) = ticks.last().copied() else { return Ok(Some(At { it: trigger, revision })) };
        let mut edits = self.joined(&trigger, &ticks).await?;
        let going = self.going(&trigger).await?;
        let refused = match (trigger.throttled(now), trigger.on.overlap, going) {
            (Some(reason), _, _) => Some(reason),
            (None, Overlap::Skip, Some(run)) => Some(format!("run {run} is still going, and `overlap` is `skip`")),
            (None, _, _) => None,
        };
        match (refused, trigger.on.overlap, going) {
            (Some(reason), _, _) => edits.extend(self.dropped(&trigger, tick, reason).await?),
            (None, Overlap::Queue, Some(_)) => trigger.queued.push_back(tick),
            (None, _, _) => {
                let reason = format!("{} came", count(ticks.len()));
                trigger.owed.push(Owed { tick, reason, tries: 0 });
                trigger.remember(tick);
            }
        }
        edits.insert(0, kept::put(self.user(), &trigger, Expect::Revision(revision))?);
        match self.change(edits).await {
            Ok(revisions) => Ok(Some(At { it: trigger, revision: revisions.first().copied().unwrap_or(revision + 1) })),
            // Another server was quicker, or one more has come.
            Err(Error::Stale(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What makes one arrival of all that were gathered in a batch; a debounced one is alone.
    async fn joined(&self, trigger: &TriggerRecord, ticks: &[Millis]) -> Result<Vec<Edit>, Error> {
        if trigger.on.pace.batch.is_none() {
            return Ok(Vec::new());
        }
        let (mut items, mut edits) = (Vec::new(), Vec::new());
        let mut last: Option<Arrival> = None;
        for tick in ticks {
            let id = arrival_id(trigger.uuid, *tick);
            let Some(At { it, .. }) = self.find_kept::<Arrival>(&id).await? else { continue };
            items.push(it.sent.data.clone());
            edits.push(kept::remove::<Arrival>(self.user(), &id, Expect::Any));
            last = Some(it);
        }
        if let Some(mut arrival) = last {
            edits.pop();
            let count = items.len();
            arrival.sent =
                Sent { key: None, data: json!({ "items": Value::Array(items), "count": count }), ..arrival.sent };
            edits.push(kept::put(self.user(), &arrival, Expect::Any)?);
        }
        Ok(edits)
    }
}

fn count(number: usize) -> String {
    if number == 1 { "one".to_owned() } else { number.to_string() }
}

/// When runs were started lately, where that matters.
pub(crate) type Recent = VecDeque<Millis>;
