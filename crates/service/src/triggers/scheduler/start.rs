//! The runs that a trigger owes: each is started once, however often it is tried.

use relais_engine::{Millis, RunId};
use relais_plan::time::format_instant;
use relais_plan::{Overlap, TriggerOn};
use serde_json::json;

use super::{Moved, decide};
use crate::kept::At;
use crate::runs::OWN_KEYS;
use crate::triggers::Owed;
use crate::triggers::decisions::Decision;
use crate::triggers::sent::{self, Arrival, arrival_id};
use crate::{Error, Fired, Mode, Start, TriggerRecord, Workflow};

/// How often a run is tried whose start the store refused; then the reason is kept and the schedule goes on.
const MAX_TRIES: u32 = 10;
const TRY_AGAIN_MS: Millis = 1_000;

impl Moved {
    /// Starts what is owed, in order, and says how the trigger stands then.
    pub(super) async fn start_owed(mut self, now: Millis) -> Result<Moved, Error> {
        let mut left: Vec<Owed> = Vec::new();
        let mut failed = false;
        for mut owed in std::mem::take(&mut self.at.it.owed) {
            if !left.is_empty() {
                left.push(owed);
                continue;
            }
            match self.start_one(&owed).await {
                Ok(run) => {
                    self.at.it.last_run = Some(run);
                    let drift = self.service.row(run).await?.summary.target.drift;
                    let reason = drift.map_or(owed.reason.clone(), |drift| format!("{}; {drift}", owed.reason));
                    self.decide(now, owed.tick, reason, Some(run));
                }
                Err(error) if is_passing(&error) && owed.tries < MAX_TRIES => {
                    owed.tries += 1;
                    left.push(owed);
                }
                Err(error) => {
                    failed = true;
                    self.decide(now, owed.tick, error.to_string(), None);
                }
            }
        }
        self.at.it.look_at = look_again(&self.at.it, &left, now);
        self.at.it.owed = left;
        if failed {
            wait_a_while(&mut self.at.it, now);
        }
        Ok(Moved { is_kept: false, ..self })
    }

    async fn start_one(&self, owed: &Owed) -> Result<RunId, Error> {
        let (service, trigger) = (&self.service, &self.at.it);
        let At { it: workflow, .. } = service.kept::<Workflow>(&trigger.workflow_uuid.to_string()).await?;
        let tick_key = format!("{OWN_KEYS}tick:{}:{}", trigger.uuid, owed.tick);
        if trigger.is_sent() {
            let arrival = service.find_kept::<Arrival>(&arrival_id(trigger.uuid, owed.tick)).await?;
            let Some(At { it: Arrival { sent, .. }, .. }) = arrival else {
                return self.started_by_another(owed.tick).await;
            };
            let key = sent::run_key(trigger, &sent).unwrap_or(tick_key);
            self.make_room().await?;
            return Ok(service.start_with(trigger, &workflow, &sent, (owed.tick, Some(key))).await?.0);
        }
        let checked = service.ready(&workflow, trigger.branch.as_deref(), None, &Mode::default()).await?;
        self.make_room().await?;
        let what = json!({ "type": trigger.kind, "id": trigger.uuid, "at": format_instant(owed.tick) });
        let start = Start {
            input: trigger.on.input.clone(),
            thread: workflow.thread_id,
            key: Some(tick_key),
            trigger: Some(Fired { id: trigger.uuid.to_string(), what }),
            ..Start::default()
        };
        Ok(service.start_once(&checked, start).await?.0)
    }

    /// Ends the run before, where the trigger says so. Which one that is shows only now: of two that were let through at
    /// the same time the second takes the place of the first.
    async fn make_room(&self) -> Result<(), Error> {
        let (service, trigger) = (&self.service, &self.at.it);
        if trigger.on.overlap != Overlap::CancelRunning {
            return Ok(());
        }
        match service.going(trigger).await? {
            Some(run) => service.cancel_once(run).await,
            None => Ok(()),
        }
    }

    /// What was sent goes in the change that keeps the decision about it: whoever does not find the one finds the other.
    async fn started_by_another(&self, tick: Millis) -> Result<RunId, Error> {
        let decisions = self.service.decisions(self.at.it.uuid).await?;
        match decisions.into_iter().find(|decision| decision.tick == Some(tick)) {
            Some(Decision { run: Some(run), .. }) => Ok(run),
            Some(Decision { reason, .. }) => Err(Error::Conflict(reason)),
            None => Err(Error::NotFound("what was sent is no longer kept; was its trigger removed?".into())),
        }
    }
}

/// Nobody's mistake: it may go well in a moment.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Busy(_) | Error::Unusable(_) => true,
        Error::Invalid(_) | Error::Findings(_) | Error::NotFound(_) | Error::Conflict(_) | Error::Stale(_) => false,
        Error::Forbidden(_) | Error::Unauthorized(_) | Error::TooMany { .. } => false,
    }
}

fn look_again(trigger: &TriggerRecord, left: &[Owed], now: Millis) -> Option<Millis> {
    match left.first() {
        Some(owed) => Some(now + TRY_AGAIN_MS * Millis::from(owed.tries)),
        None => decide::waits_for_run(trigger).then(|| decide::look_at(trigger, now)),
    }
}

/// A continuous trigger has no clock that would slow it down.
fn wait_a_while(trigger: &mut TriggerRecord, now: Millis) {
    if let TriggerOn::Continuous { delay_ms } = trigger.on.on {
        let delay = Millis::try_from(delay_ms).unwrap_or(Millis::MAX);
        trigger.next_at = Some(now.saturating_add(delay.max(decide::CANNOT_START_MS)));
        trigger.look_at = None;
    }
}
