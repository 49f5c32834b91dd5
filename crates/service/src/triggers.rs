//! What starts runs by itself: a trigger of a workflow, kept with what the scheduler knows of it. The folder has the
//! clock (`scheduler`, `schedules`), what comes from outside (`hooks`, `events`, `sent`, `signature`) and why a run was
//! started or not (`decisions`).

pub(crate) mod backfill;
pub(crate) mod decisions;
pub(crate) mod events;
pub(crate) mod hooks;
pub(crate) mod pace;
pub(crate) mod scheduler;
pub(crate) mod schedules;
pub(crate) mod sent;
pub mod signature;
pub(crate) mod step_triggers;

use std::collections::VecDeque;

use relais_engine::{Millis, RunId};
use relais_plan::schedule::{self, Schedule};
use relais_plan::{Trigger, TriggerOn};
use relais_store::{Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{self, At, Kept};
use crate::triggers::decisions::{Gone, Refused};
use crate::triggers::events::Listener;
use crate::triggers::hooks::Hook;
use crate::triggers::sent::{Arrival, arrival_id};
use crate::{Error, Service, Workflow};

/// One trigger of one workflow, or of one branch of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriggerRecord {
    pub uuid: Uuid,
    pub workflow_uuid: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// `schedule`, `webhook`, `event`, `manual`, or the id of a trigger type that it was made from.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it comes from: the definition (and goes with it), or a call of its own.
    pub origin: Origin,
    /// An assistant set it with its tool, whose next call takes its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_tool: bool,
    /// A recurring time as it was said, where a call set it: `every weekday at 8:30`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    pub on: Trigger,
    #[serde(default)]
    pub filter_rules: Value,
    #[serde(default)]
    pub initial_data_description: String,
    /// Why it does not fire, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// When it was set: words are told from it, and `every` counts from it.
    pub set_at: Millis,
    /// The next time at which it fires; for a continuous one, when the next run may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Millis>,
    /// The last tick that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tick: Option<Millis>,
    /// The run that it started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// Ticks that wait for the run before them.
    #[serde(default)]
    pub queued: VecDeque<Millis>,
    /// Ticks that are to be started: decided and durable, whoever starts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<Owed>,
    /// When the scheduler is to look at it, whatever the next time is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Millis>,
    /// What was sent and waits for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathering: Option<pace::Gathering>,
    /// The last starts, where they are counted.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub recent: pace::Recent,
}

/// A run that is to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Owed {
    pub tick: Millis,
    pub reason: String,
    /// How often the store refused it.
    #[serde(default)]
    pub tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Definition,
    Call,
}

impl Kept for TriggerRecord {
    const KIND: &'static str = "trigger";
    const WORD: &'static str = "trigger";

    fn id(&self) -> String {
        self.uuid.to_string()
    }

    fn label(&self) -> String {
        self.workflow_uuid.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        let gathered = self.gathering.as_ref().map(|gathering| gathering.until);
        self.next_at.into_iter().chain(self.look_at).chain(gathered).min()
    }
}

impl TriggerRecord {
    /// A trigger that is set now. What it says must make sense, and a time in words must be to come.
    pub(crate) fn set(
        workflow: Uuid,
        branch: Option<String>,
        on: Trigger,
        origin: Origin,
        (now, timezone): (Millis, &str),
    ) -> Result<TriggerRecord, Error> {
        if let Some(refused) = hooks::refused_secret(&on.on) {
            return Err(Error::Invalid(refused));
        }
        let schedule = schedule::parse(&on, timezone, now).map_err(Error::Invalid)?;
        let next_at = schedule.as_ref().and_then(|schedule| first_time(schedule, now));
        let off = (schedule.is_some() && next_at.is_none()).then(|| PAST.to_owned());
        Ok(TriggerRecord {
            uuid: Uuid::now_v7(),
            workflow_uuid: workflow,
            branch,
            kind: kind_of(&on.on).to_owned(),
            origin,
            by_tool: false,
            said: None,
            filter_rules: on.filter.clone(),
            on,
            initial_data_description: String::new(),
            off,
            created_at: now,
            updated_at: now,
            set_at: now,
            next_at,
            last_tick: None,
            last_run: None,
            queued: VecDeque::new(),
            owed: Vec::new(),
            look_at: None,
            gathering: None,
            recent: VecDeque::new(),
        })
    }

    /// Whether others send what starts it.
    pub(crate) fn is_sent(&self) -> bool {
        self.on.on.is_sent()
    }

    fn hook(&self) -> Option<&str> {
        hook_id(&self.on)
    }

    fn listener(&self) -> Option<Listener> {
        let event = event_type(&self.on)?.to_owned();
        Some(Listener { trigger: self.uuid, event })
    }
}

const PAST: &str = "its time was past when it was set";

/// A continuous one starts when it is set.
pub(crate) fn first_time(schedule: &Schedule, now: Millis) -> Option<Millis> {
    if schedule.has_clock() { schedule.next(now) } else { Some(now) }
}

fn kind_of(on: &TriggerOn) -> &'static str {
    match on {
        TriggerOn::Manual => "manual",
        TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } => "schedule",
        TriggerOn::Calendar(_) | TriggerOn::Continuous { .. } => "schedule",
        TriggerOn::Webhook { .. } => "webhook",
        TriggerOn::Event(_) => "event",
    }
}

fn hook_id(trigger: &Trigger) -> Option<&str> {
    match &trigger.on {
        TriggerOn::Webhook { id, .. } => Some(id),
        TriggerOn::Manual | TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } => None,
        TriggerOn::Calendar(_) | TriggerOn::Continuous { .. } | TriggerOn::Event(_) => None,
    }
}

fn event_type(trigger: &Trigger) -> Option<&str> {
    match &trigger.on {
        TriggerOn::Event(event) => Some(event),
        TriggerOn::Manual | TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } => None,
        TriggerOn::Calendar(_) | TriggerOn::Continuous { .. } | TriggerOn::Webhook { .. } => None,
    }
}

/// Whether both start runs on the same occasions; what they start them with may differ.
fn same_occasion(one: &Trigger, other: &Trigger) -> bool {
    match (hook_id(one), hook_id(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.on == other.on && one.timezone == other.timezone,
    }
}

impl Service {
    /// The time zone of triggers that name none.
    pub(crate) fn timezone(&self) -> &str {
        self.config().settings.timezone.as_deref().unwrap_or(schedule::DEFAULT_TIMEZONE)
    }

    /// What has to be written together with a new version so that its triggers are those that it names: `named` are the
    /// triggers of the main plan (no branch) and of each branch. A trigger that is unchanged keeps its id and its state.
    pub(crate) fn trigger_edits(
        &self,
        workflow: &Workflow,
        named: &[(Option<String>, Trigger)],
        present: &[At<TriggerRecord>],
    ) -> Result<Vec<Edit>, Error> {
        let now = (self.core.clock.now(), self.timezone());
        let mut before: Vec<&At<TriggerRecord>> =
            present.iter().filter(|at| at.it.origin == Origin::Definition).collect();
        let (mut changed, mut new) = (Vec::new(), Vec::new());
        for (branch, trigger) in named {
            let fits = |at: &&At<TriggerRecord>| at.it.branch == *branch && same_occasion(&at.it.on, trigger);
            match before.iter().position(fits).map(|index| before.remove(index)) {
                Some(at) if at.it.on == *trigger => {}
                Some(at) => changed.push(self.replace_trigger(at, trigger, now.0)?),
                None => {
                    let (id, on) = (workflow.id, trigger.clone());
                    new.push(TriggerRecord::set(id, branch.clone(), on, Origin::Definition, now)?);
                }
            }
        }
        must_differ(named)?;
        let mut edits = Vec::new();
        // What goes makes room first: a hook may move from one branch to another.
        for at in before {
            edits.extend(self.remove_trigger_edits(at)?);
        }
        edits.extend(changed);
        for trigger in new {
            edits.extend(self.new_trigger_edits(&trigger)?);
        }
        Ok(edits)
    }

    fn replace_trigger(&self, at: &At<TriggerRecord>, on: &Trigger, now: Millis) -> Result<Edit, Error> {
        let filter_rules = on.filter.clone();
        let it = TriggerRecord { on: on.clone(), filter_rules, updated_at: now, ..at.it.clone() };
        kept::put(self.user(), &it, Expect::Revision(at.revision))
    }

    /// Keeps a new trigger, and what leads to it from outside, if anything does; another hook of that name of the same user
    /// is in the way.
    pub(crate) fn new_trigger_edits(&self, trigger: &TriggerRecord) -> Result<Vec<Edit>, Error> {
        let mut edits = vec![kept::put(self.user(), trigger, Expect::Absent)?];
        if let Some(id) = trigger.hook() {
            let hook = Hook { id: id.to_owned(), owner: self.user().to_owned(), trigger: trigger.uuid };
            edits.push(kept::put(self.hook_owner(trigger), &hook, Expect::Absent)?);
        }
        edits.extend(self.listener_edit(trigger)?);
        Ok(edits)
    }

    /// An id that an author chose is that user's own; one that was made here is found without knowing whose it is.
    fn hook_owner(&self, trigger: &TriggerRecord) -> &str {
        match trigger.origin {
            Origin::Definition => self.user(),
            Origin::Call => hooks::NOBODY,
        }
    }

    /// What an event finds this trigger by, as it is now.
    pub(crate) fn listener_edit(&self, trigger: &TriggerRecord) -> Result<Option<Edit>, Error> {
        trigger.listener().map(|listener| kept::put(self.user(), &listener, Expect::Any)).transpose()
    }

    /// All that goes with a trigger; what was decided about it follows in a while (`Gone`).
    pub(crate) fn remove_trigger_edits(&self, at: &At<TriggerRecord>) -> Result<Vec<Edit>, Error> {
        let hook = at.it.hook().map(|id| kept::remove::<Hook>(self.hook_owner(&at.it), id, Expect::Any));
        let trigger = kept::remove::<TriggerRecord>(self.user(), &at.it.id(), Expect::Revision(at.revision));
        let listener = at.it.listener().map(|it| kept::remove::<Listener>(self.user(), &it.id(), Expect::Any));
        let refused = at.it.hook().map(|_| kept::remove::<Refused>(self.user(), &at.it.id(), Expect::Any));
        let gone = kept::put(self.user(), &Gone::new(at.it.uuid, self.core.clock.now()), Expect::Any)?;
        let mut edits = vec![trigger, gone];
        edits.extend(hook.into_iter().chain(refused).chain(listener));
        if at.it.is_sent() {
            let gathered = at.it.gathering.iter().flat_map(|gathering| gathering.ticks.iter().copied());
            let waiting = at.it.queued.iter().copied().chain(gathered);
            let ticks = waiting.chain(at.it.owed.iter().map(|owed| owed.tick));
            let arrival = |tick| kept::remove::<Arrival>(self.user(), &arrival_id(at.it.uuid, tick), Expect::Any);
            edits.extend(ticks.map(arrival));
        }
        Ok(edits)
    }
}

/// One address leads to one trigger.
fn must_differ(named: &[(Option<String>, Trigger)]) -> Result<(), Error> {
    let mut ids: Vec<&str> = named.iter().filter_map(|(_, trigger)| hook_id(trigger)).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::Invalid(format!("two triggers have the webhook `{}`; each needs its own", pair[0]))),
        None => Ok(()),
    }
}
