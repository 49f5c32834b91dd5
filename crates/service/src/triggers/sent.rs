//! What others send, and the runs that it starts: the part that webhooks and events share.
//!
//! Where runs may overlap, a run is started at once, under the sender's key. Otherwise the decision comes first: it is
//! written into the trigger together with what was sent, so that of two senders only one is let through, and the
//! scheduler starts what a process that died had promised.

use relais_engine::{Millis, RunId};
use relais_plan::time::format_instant;
use relais_plan::{Overlap, Plan};
use relais_store::{Edit, Expect, Find};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::kept::{self, At, Kept, MAX_TRIES};
use crate::runs::OWN_KEYS;
use crate::triggers::Owed;
use crate::triggers::decisions::{Decision, KEPT, ordered_id};
use crate::{Error, Fired, Mode, Service, Start, TriggerRecord, Workflow, WorkflowStatus};

/// What waits for the run before it, of one trigger; a sender that is so far ahead is told.
const MAX_QUEUED: usize = 100;
/// How long the scheduler leaves what is started here to us.
const OURS_MS: Millis = 5_000;
/// How long a sender's key is remembered: longer than senders try again.
pub(crate) const REMEMBERED_MS: Millis = 7 * 24 * 3_600_000;

/// Old keys removed in one go.
const FORGOTTEN_AT_ONCE: usize = 100;

/// Data that came in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// The same key again is the same data again.
    pub key: Option<String>,
    pub data: Value,
    /// The trace that its sender is in, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// What became of something that was sent, for one trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fate {
    pub trigger: Uuid,
    pub workflow: Uuid,
    /// What the workflow was called then; where several triggers are told of together, it tells them apart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whether it starts a run, now or when the run before it has ended.
    pub starts: bool,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

/// What was sent, kept until its run has started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Arrival {
    trigger: Uuid,
    tick: Millis,
    pub sent: Sent,
}

impl Kept for Arrival {
    const KIND: &'static str = "arrival";
    const WORD: &'static str = "arrival";

    fn id(&self) -> String {
        arrival_id(self.trigger, self.tick)
    }
}

pub(crate) fn arrival_id(trigger: Uuid, tick: Millis) -> String {
    format!("{trigger}:{tick}")
}

/// A sender's key that was let through before.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Seen {
    trigger: Uuid,
    key: String,
    tick: Millis,
}

impl Kept for Seen {
    const KIND: &'static str = "seen";
    const WORD: &'static str = "key";

    fn id(&self) -> String {
        seen_id(self.trigger, &self.key)
    }

    fn due_at(&self) -> Option<Millis> {
        Some(self.tick.saturating_add(REMEMBERED_MS))
    }
}

fn seen_id(trigger: Uuid, key: &str) -> String {
    Uuid::new_v5(&trigger, key.as_bytes()).to_string()
}

/// What is to be done with something that passed the filter.
enum Way {
    Start { reason: String },
    Queue { reason: String },
    Decline { reason: String },
}

impl Service {
    /// Decides whether what was sent starts a run of this trigger, keeps why, and starts it.
    pub(crate) async fn fire_sent(&self, mut at: At<TriggerRecord>, sent: &Sent) -> Result<Fate, Error> {
        let workflow = match self.lets_in(&at.it, sent).await? {
            Ok(workflow) => workflow,
            Err(reason) => return self.declined(&at.it, reason).await,
        };
        if at.it.on.pace.gathers() {
            return self.gather_sent(at, sent).await;
        }
        if at.it.on.overlap == Overlap::Allow && at.it.on.pace.throttle.is_none() {
            return self.start_sent(&at.it, &workflow, sent).await;
        }
        let id = at.it.id();
        for _ in 0..MAX_TRIES {
            if let Some(fate) = self.seen_before(&at.it, sent).await? {
                return Ok(fate);
            }
            match self.let_through(at, sent).await {
                Err(Error::Stale(_)) => {}
                other => return other,
            }
            at = self.kept::<TriggerRecord>(&id).await?;
        }
        Err(Error::Busy("too much is sent to this trigger at once; try again".into()))
    }

    /// The workflow if nothing stands against it; else why it starts nothing.
    async fn lets_in(&self, trigger: &TriggerRecord, sent: &Sent) -> Result<Result<Workflow, String>, Error> {
        if let Some(off) = &trigger.off {
            return Ok(Err(off.clone()));
        }
        let Some(At { it: workflow, .. }) = self.find_kept::<Workflow>(&trigger.workflow_uuid.to_string()).await?
        else {
            return Ok(Err("its workflow is gone".to_owned()));
        };
        if let Some(reason) = closed(&workflow) {
            return Ok(Err(reason.to_owned()));
        }
        let decision = match relais_plan::Filter::parse(&trigger.filter_rules) {
            Ok(filter) => filter.decide(&sent.data),
            Err(mistakes) => return Ok(Err(format!("its filter cannot be used: {}", mistakes.join("; ")))),
        };
        Ok(if decision.starts { Ok(workflow) } else { Err(decision.reason) })
    }

    /// Started at once; the key makes the second one of the same data the first.
    async fn start_sent(&self, trigger: &TriggerRecord, workflow: &Workflow, sent: &Sent) -> Result<Fate, Error> {
        let now = self.core.clock.now();
        match self.start_with(trigger, workflow, sent, (now, run_key(trigger, sent))).await {
            Ok((run, true)) => {
                self.tell_if_unkept(run, self.keep_started(trigger, run).await);
                Ok(fate(trigger, passed(trigger), Some(run)))
            }
            Ok((run, false)) => {
                self.tell_if_unkept(run, self.keep_if_missing(trigger, run).await);
                Ok(fate(trigger, "it was sent before".to_owned(), Some(run)))
            }
            Err(error @ (Error::Busy(_) | Error::Unusable(_))) => Err(error),
            Err(error) => self.declined(trigger, error.to_string()).await,
        }
    }

    async fn keep_started(&self, trigger: &TriggerRecord, run: RunId) -> Result<(), Error> {
        let decision = self.decided(trigger, passed(trigger), Some(run));
        self.change(self.decision_edits(&decision).await?).await?;
        Ok(())
    }

    /// Whoever started the run died before it could say why. One that was started just now is still at it, and where the
    /// list is full the decision may have been there and gone.
    async fn keep_if_missing(&self, trigger: &TriggerRecord, run: RunId) -> Result<(), Error> {
        let age = self.core.clock.now().saturating_sub(self.row(run).await?.summary.started_at);
        let decisions = self.decisions(trigger.uuid).await?;
        let is_there = decisions.len() >= KEPT || decisions.iter().any(|decision| decision.run == Some(run));
        if age < OURS_MS || is_there { Ok(()) } else { self.keep_started(trigger, run).await }
    }

    /// The run is there. A sender that heard of trouble would send again, and without a key that would be a second run.
    fn tell_if_unkept(&self, run: RunId, kept: Result<(), Error>) {
        if let Err(error) = kept {
            tracing::warn!(%run, %error, "a run was started, and why could not be written down");
        }
    }

    /// The run, and whether it is a new one.
    pub(crate) async fn start_with(
        &self,
        trigger: &TriggerRecord,
        workflow: &Workflow,
        sent: &Sent,
        (at, key): (Millis, Option<String>),
    ) -> Result<(RunId, bool), Error> {
        let checked = self.ready(workflow, trigger.branch.as_deref(), None, &Mode::default()).await?;
        let what = json!({
            "type": trigger.kind, "id": trigger.uuid, "at": format_instant(at), "key": sent.key, "data": sent.data,
        });
        let start = Start {
            input: input_of(trigger, &checked.plan, &sent.data),
            thread: workflow.thread_id.clone(),
            key,
            trigger: Some(Fired { id: trigger.uuid.to_string(), what }),
            traceparent: sent.traceparent.clone(),
            ..Start::default()
        };
        let (run, asked) = self.start_once(&checked, start).await?;
        Ok((run, run == asked.run))
    }

    pub(crate) async fn declined(&self, trigger: &TriggerRecord, reason: String) -> Result<Fate, Error> {
        let decision = self.decided(trigger, reason.clone(), None);
        self.change(self.decision_edits(&decision).await?).await?;
        Ok(Fate { starts: false, ..fate(trigger, reason, None) })
    }

    fn decided(&self, trigger: &TriggerRecord, reason: String, run: Option<RunId>) -> Decision {
        let (at, starts) = (self.core.clock.now(), run.is_some());
        Decision { id: ordered_id(at, 0), trigger: trigger.uuid, at, tick: None, starts, reason, run, times: 1 }
    }

    /// What became of the same key before. What was declined may be sent again.
    pub(crate) async fn seen_before(&self, trigger: &TriggerRecord, sent: &Sent) -> Result<Option<Fate>, Error> {
        let Some(key) = &sent.key else { return Ok(None) };
        let Some(At { it: seen, .. }) = self.find_kept::<Seen>(&seen_id(trigger.uuid, key)).await? else {
            return Ok(None);
        };
        let decisions = self.decisions(trigger.uuid).await?;
        let run = decisions.iter().find(|decision| decision.tick == Some(seen.tick)).and_then(|found| found.run);
        Ok(Some(fate(trigger, "it was sent before".to_owned(), run)))
    }

    /// Writes down what is to be done, if the trigger is still as it was read, and does it.
    async fn let_through(&self, at: At<TriggerRecord>, sent: &Sent) -> Result<Fate, Error> {
        let now = self.core.clock.now();
        let At { it: mut trigger, revision } = at;
        let tick = trigger.last_tick.map_or(now, |last| now.max(last + 1));
        let way = self.way(&trigger).await?;
        let (reason, is_queued) = match way {
            Way::Decline { reason } => return self.declined(&trigger, reason).await,
            Way::Queue { reason } => {
                trigger.queued.push_back(tick);
                (reason, true)
            }
            Way::Start { reason } => {
                trigger.remember(tick);
                trigger.owed.push(Owed { tick, reason: reason.clone(), tries: 0 });
                (reason, false)
            }
        };
        trigger.last_tick = Some(tick);
        trigger.look_at = Some(now + OURS_MS);
        let mut edits = vec![kept::put(self.user(), &trigger, Expect::Revision(revision))?];
        edits.extend(self.arrival_edits(trigger.uuid, tick, sent)?);
        edits.extend(self.forgotten(Seen::KIND).await?);
        let revisions = self.change(edits).await?;
        if is_queued {
            return Ok(fate(&trigger, reason, None));
        }
        let at = At { it: trigger.clone(), revision: revisions.first().copied().unwrap_or_default() };
        // From here on it is written down that it starts. Whoever heard of trouble would send it again.
        let told = self.start_now(at, now).await.unwrap_or_else(|error| {
            tracing::warn!(trigger = %trigger.uuid, %error, "what was sent is started in a moment");
            Vec::new()
        });
        let (starts, reason, run) = told
            .into_iter()
            .find(|(of, ..)| *of == tick)
            .map_or((true, "it starts in a moment".to_owned(), None), |(_, reason, run)| (run.is_some(), reason, run));
        Ok(Fate { starts, ..fate(&trigger, reason, run) })
    }

    /// What is remembered for a while only goes, some of it with each that is new.
    pub(crate) async fn forgotten(&self, kind: &str) -> Result<Vec<Edit>, Error> {
        let due_by = Some(self.core.clock.now());
        let find = Find { kind: kind.to_owned(), due_by, limit: FORGOTTEN_AT_ONCE, ..Find::default() };
        let old = self.core.store.records(find).await?;
        Ok(old.into_iter().map(|record| Edit::Remove { key: record.key, expect: Expect::Any }).collect())
    }

    pub(crate) fn arrival_edits(&self, trigger: Uuid, tick: Millis, sent: &Sent) -> Result<Vec<Edit>, Error> {
        let arrival = Arrival { trigger, tick, sent: sent.clone() };
        let mut edits = vec![kept::put(self.user(), &arrival, Expect::Absent)?];
        if let Some(key) = sent.key.clone() {
            edits.push(kept::put(self.user(), &Seen { trigger, key, tick }, Expect::Absent)?);
        }
        Ok(edits)
    }

    async fn way(&self, trigger: &TriggerRecord) -> Result<Way, Error> {
        if let Some(reason) = trigger.throttled(self.core.clock.now()) {
            return Ok(Way::Decline { reason });
        }
        let going = self.going(trigger).await?;
        let before = match (going, trigger.owed.is_empty()) {
            (None, true) => return Ok(Way::Start { reason: passed(trigger) }),
            (Some(run), _) => format!("run {run} is still going"),
            (None, false) => "a run is started just now".to_owned(),
        };
        Ok(match trigger.on.overlap {
            Overlap::Allow => Way::Start { reason: passed(trigger) },
            Overlap::Skip => Way::Decline { reason: format!("{before}, and `overlap` is `skip`") },
            Overlap::Queue if trigger.queued.len() < MAX_QUEUED => {
                Way::Queue { reason: format!("{before}; it starts when that has ended") }
            }
            Overlap::Queue => Way::Decline { reason: format!("{before}, and {MAX_QUEUED} wait for it already") },
            Overlap::CancelRunning => {
                Way::Start { reason: format!("{}; it takes the place of the run before", passed(trigger)) }
            }
        })
    }
}

/// The key under which the run of something that was sent is started, if its sender gave it one.
pub(crate) fn run_key(trigger: &TriggerRecord, sent: &Sent) -> Option<String> {
    sent.key.as_ref().map(|key| format!("{OWN_KEYS}sent:{}:{key}", trigger.uuid))
}

fn passed(trigger: &TriggerRecord) -> String {
    if trigger.filter_rules.is_null() { "it was sent".to_owned() } else { "it passed the filter".to_owned() }
}

fn fate(trigger: &TriggerRecord, reason: String, run: Option<RunId>) -> Fate {
    Fate { trigger: trigger.uuid, workflow: trigger.workflow_uuid, name: String::new(), starts: true, reason, run }
}

pub(crate) fn closed(workflow: &Workflow) -> Option<&'static str> {
    match workflow.status {
        WorkflowStatus::Active => None,
        WorkflowStatus::Paused => Some("the workflow is paused"),
        WorkflowStatus::Archived => Some("the workflow is archived"),
    }
}

/// What the trigger says, else what was sent: all of it, or the fields that the workflow declares.
fn input_of(trigger: &TriggerRecord, plan: &Plan, data: &Value) -> Value {
    if !trigger.on.input.is_null() {
        return trigger.on.input.clone();
    }
    let Value::Object(fields) = data else { return Value::Object(Map::new()) };
    let declared = plan.input_schema.as_ref().and_then(|schema| schema.json()["properties"].as_object());
    match declared {
        Some(known) => fields.clone().into_iter().filter(|(name, _)| known.contains_key(name)).collect(),
        None => data.clone(),
    }
}
