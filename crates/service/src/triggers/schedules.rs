//! When a workflow runs by itself, as somebody says it in a call of its own: set, shown, paused, taken away; and a
//! workflow that is to stop altogether. Firing is the scheduler's business.

use std::collections::HashMap;

use relais_engine::{Millis, RunId, RunStatus};
use relais_plan::schedule::{self, Schedule};
use relais_plan::time::parse_duration;
use relais_plan::{CatchUp, Overlap, Trigger, TriggerOn, words};
use relais_store::{Edit, Expect, Filter};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{self, At, Kept};
use crate::runs::check_input;
use crate::triggers::first_time;
use crate::triggers::sent::closed;
use crate::{Error, Origin, Service, TriggerRecord, Workflow};

/// As many as show a rhythm, a weekend included.
const TIMES_SHOWN: usize = 5;
/// Runs of one workflow that are cancelled in one go; whoever has more calls again.
const CANCELLED_MAX: usize = 1_000;
/// Schedules on one page.
const MAX_PAGE: usize = 1_000;
/// Pages of triggers looked through for one page of schedules: most triggers are schedules.
const MAX_PAGES: usize = 100;
/// How often a change is tried again when the scheduler moves the same trigger on.
const MAX_TRIES: usize = 20;
const TAKEN_AWAY: &str = "its schedule was cancelled";
pub(crate) const PAUSED: &str = "it is paused";
const OVER: &str = "it is over: its one time has come";

/// When a workflow is to run: exactly one of the first four says it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetSchedule {
    /// Once: RFC 3339, or words such as `tomorrow 9am`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Cron fields, words such as `every weekday at 8:30`, or a calendar (`daily@09:00`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A duration (`15m`), or a calendar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The delay after a run before the next one starts: `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default)]
    /// None: as `catch_up` has it, or else skip.
    pub overlap: Option<Overlap>,
    #[serde(default)]
    pub catch_up: CatchUp,
    /// What the runs are given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// In the place of every schedule that was set for the workflow (or this branch of it) so before.
    #[serde(default)]
    pub replaces: bool,
    /// Said by an assistant's tool: it replaces what that tool said before, and nothing else. No body can say so.
    #[serde(skip)]
    pub by_tool: bool,
}

/// What was understood of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// `cron "0 9 * * MON-FRI" Europe/Paris`.
    pub words: String,
    /// The next five times, at most.
    pub next_at: Vec<Millis>,
    /// The same as clocks of its zone show them: `Mon 2026-11-16 09:00 +01:00`.
    pub next_times: Vec<String>,
}

/// A schedule that is kept.
#[derive(Debug, Clone)]
pub struct Timed {
    pub trigger: TriggerRecord,
    pub revision: u64,
    /// The name of its workflow.
    pub workflow: String,
    /// Why it starts nothing, be it the schedule's own state or that of its workflow.
    pub off: Option<String>,
    pub understood: Understood,
}

/// Which schedules are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rhythm {
    Once,
    Recurring,
    Any,
}

impl Rhythm {
    fn has(self, on: &TriggerOn) -> bool {
        match on {
            TriggerOn::At(_) => self != Rhythm::Recurring,
            TriggerOn::Cron(_) | TriggerOn::Every { .. } => self != Rhythm::Once,
            TriggerOn::Calendar(_) | TriggerOn::Continuous { .. } => self != Rhythm::Once,
            TriggerOn::Manual | TriggerOn::Webhook { .. } | TriggerOn::Event(_) => false,
        }
    }
}

impl SetSchedule {
    /// What it says as a trigger; what cannot be understood is refused with the forms that can.
    fn trigger(&self) -> Result<Trigger, Error> {
        let on = match (&self.at, &self.cron, &self.every, &self.continuous) {
            (Some(at), None, None, None) => once(at)?,
            (None, Some(cron), None, None) => recurring(cron)?,
            (None, None, Some(every), None) => interval(every)?,
            (None, None, None, Some(delay)) => TriggerOn::Continuous { delay_ms: duration("continuous", delay)? },
            _ => return Err(Error::Invalid("give exactly one of `at`, `cron`, `every` and `continuous`".into())),
        };
        let (timezone, input) = (self.timezone.clone(), self.input.clone());
        let overlap = Overlap::or_default(self.overlap, self.catch_up);
        Ok(Trigger { timezone, overlap, catch_up: self.catch_up, input, ..Trigger::new(on) })
    }
}

fn once(text: &str) -> Result<TriggerOn, Error> {
    let forms = |wrong| Error::Invalid(format!("at: {wrong}; {}", words::AT_FORMS));
    words::at(text).map_err(forms)?;
    Ok(TriggerOn::At(text.trim().to_owned()))
}

fn recurring(text: &str) -> Result<TriggerOn, Error> {
    if schedule::is_calendar(text.trim()) {
        return Ok(TriggerOn::Calendar(text.trim().to_owned()));
    }
    let forms = |wrong| Error::Invalid(format!("cron: {wrong}; {}", words::CRON_FORMS));
    words::recurring(text).map_err(forms)
}

fn interval(text: &str) -> Result<TriggerOn, Error> {
    if schedule::is_calendar(text.trim()) {
        return Ok(TriggerOn::Calendar(text.trim().to_owned()));
    }
    if text.contains('@') {
        let forms = schedule::CALENDAR_FORMS;
        return Err(Error::Invalid(format!("every: `{text}` is no schedule; write {forms}")));
    }
    match duration("every", text)? {
        0 => Err(Error::Invalid("every: a run after no time at all is `continuous`; write 15m or 1d".into())),
        ms => Ok(TriggerOn::Every { ms }),
    }
}

fn duration(field: &str, text: &str) -> Result<u64, Error> {
    let wrong = || format!("{field}: `{text}` is no duration; write 30s, 15m, 2h or 1d");
    parse_duration(text.trim()).ok_or_else(|| Error::Invalid(wrong()))
}

/// It had one time, and that has been dealt with.
fn is_over(trigger: &TriggerRecord) -> bool {
    let is_once = matches!(trigger.on.on, TriggerOn::At(_));
    is_once && trigger.next_at.is_none() && trigger.owed.is_empty() && trigger.queued.is_empty()
}

impl Service {
    /// Sets when a workflow, named by id, alias or name, runs by itself. What its definition says stays.
    pub async fn schedule(&self, workflow: &str, set: SetSchedule) -> Result<Timed, Error> {
        let At { it: workflow, .. } = self.find_workflow(workflow).await?;
        let on = set.trigger()?;
        let checked = self.startable(&workflow, set.branch.as_deref(), None).await?;
        check_input(&checked.plan, &on.input)?;
        let now = (self.core.clock.now(), self.timezone());
        let trigger = TriggerRecord::set(workflow.id, set.branch.clone(), on, Origin::Call, now)?;
        let trigger = TriggerRecord { by_tool: set.by_tool, said: set.cron.clone(), ..trigger };
        // A time that is past is refused, also while the workflow is paused.
        self.understood(&trigger)?;
        let mut edits = Vec::new();
        if set.replaces {
            edits = self.replaced(&workflow, &set).await?;
        }
        edits.extend(self.new_trigger_edits(&trigger)?);
        self.change(edits).await?;
        self.schedule_at(trigger.uuid).await
    }

    /// What would be set; nothing is kept.
    pub fn preview_schedule(&self, set: &SetSchedule) -> Result<Understood, Error> {
        let now = (self.core.clock.now(), self.timezone());
        let trigger = TriggerRecord::set(Uuid::nil(), None, set.trigger()?, Origin::Call, now)?;
        self.understood(&trigger)
    }

    /// What a trigger that is set now means; it must have a time to come.
    fn understood(&self, trigger: &TriggerRecord) -> Result<Understood, Error> {
        let read = self.read_schedule(trigger, trigger.off.is_some())?;
        let understood = read.ok_or_else(|| Error::Invalid("this is no time".into()))?;
        match &trigger.off {
            Some(why) => Err(Error::Invalid(format!("{}: {why}; give a time that is to come", understood.words))),
            None => Ok(understood),
        }
    }

    /// The schedules that were set by calls (for a tool: by that tool) go; the one trigger of a workflow that is edited
    /// step by step stays.
    async fn replaced(&self, workflow: &Workflow, set: &SetSchedule) -> Result<Vec<Edit>, Error> {
        let found = self.schedules_at(workflow.id, Rhythm::Any).await?;
        let is_meant = |at: &&At<TriggerRecord>| {
            let is_set_so = at.it.origin == Origin::Call && (at.it.by_tool || !set.by_tool);
            is_set_so && at.it.branch == set.branch && workflow.trigger_uuid != Some(at.it.uuid)
        };
        let removals: Result<Vec<_>, _> =
            found.iter().filter(is_meant).map(|at| self.remove_trigger_edits(at)).collect();
        Ok(removals?.concat())
    }

    /// A page of the user's schedules by id, those of definitions too, and where the next one begins.
    pub async fn schedules(&self, after: Option<String>, limit: usize) -> Result<(Vec<Timed>, Option<String>), Error> {
        let (limit, mut after, mut found) = (limit.clamp(1, MAX_PAGE), after, Vec::new());
        let mut owners = HashMap::new();
        for _ in 0..MAX_PAGES {
            let page: Vec<At<TriggerRecord>> = self.page_kept(None, after.clone(), MAX_PAGE).await?;
            let is_last = page.len() < MAX_PAGE;
            for at in page {
                if found.len() == limit {
                    return Ok((found, after));
                }
                after = Some(at.it.id());
                let owner = self.owner(&at.it, &mut owners).await?;
                found.extend(self.timed(at, owner.as_ref())?);
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, after))
    }

    /// When a workflow runs by itself.
    pub async fn schedules_of(&self, workflow: &str) -> Result<Vec<Timed>, Error> {
        let At { it: workflow, .. } = self.find_workflow(workflow).await?;
        let found = self.schedules_at(workflow.id, Rhythm::Any).await?;
        found.into_iter().filter_map(|at| self.timed(at, Some(&workflow)).transpose()).collect()
    }

    pub async fn schedule_at(&self, id: Uuid) -> Result<Timed, Error> {
        let timed = match self.find_kept::<TriggerRecord>(&id.to_string()).await? {
            Some(at) => {
                let owner = self.owner(&at.it, &mut HashMap::new()).await?;
                self.timed(at, owner.as_ref())?
            }
            None => None,
        };
        timed.ok_or_else(|| Error::NotFound(format!("there is no schedule {id}")))
    }

    /// What was decided about a schedule lately, the newest first.
    pub async fn schedule_decisions(&self, id: Uuid) -> Result<Vec<crate::Decision>, Error> {
        self.schedule_at(id).await?;
        self.decisions(id).await
    }

    /// Takes a schedule away. One that the definition names would come back with it.
    pub async fn cancel_schedule(&self, id: Uuid) -> Result<Timed, Error> {
        let named = "is named by the definition of its workflow; pause it, or take it out of the definition";
        self.changed(id, |timed, workflow| match timed.trigger.origin {
            Origin::Call => self.removed(timed, workflow),
            Origin::Definition => Err(Error::Conflict(format!("the schedule {id} {named}"))),
        })
        .await
    }

    /// It fires no more until it is resumed; a run that is going goes on.
    pub async fn pause_schedule(&self, id: Uuid) -> Result<Timed, Error> {
        self.changed(id, |timed, _| match &timed.trigger.off {
            None => self.switched_off(timed, PAUSED),
            Some(_) => Ok(Vec::new()),
        })
        .await?;
        self.schedule_at(id).await
    }

    /// It fires again from its next time on; what has passed meanwhile is not made up for.
    pub async fn resume_schedule(&self, id: Uuid) -> Result<Timed, Error> {
        self.changed(id, |timed, _| match &timed.trigger.off {
            Some(_) => Ok(vec![self.switched_on(timed)?]),
            None => Ok(Vec::new()),
        })
        .await?;
        self.schedule_at(id).await
    }

    /// Takes the schedules of a workflow away; those of the definition stay, switched off. Answers what they were.
    pub async fn cancel_schedules(&self, workflow: Uuid, which: Rhythm) -> Result<Vec<Timed>, Error> {
        let mut cancelled = Vec::new();
        for at in self.schedules_at(workflow, which).await? {
            if at.it.origin == Origin::Definition && at.it.off.is_some() {
                continue;
            }
            let changed = self.changed(at.it.uuid, |timed, workflow| match timed.trigger.origin {
                Origin::Call => self.removed(timed, workflow),
                Origin::Definition => self.switched_off(timed, TAKEN_AWAY),
            });
            match changed.await {
                Ok(timed) => cancelled.push(timed),
                // Somebody else was quicker.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(cancelled)
    }

    /// Cancels every run of a workflow that is going.
    pub async fn cancel_runs_of(&self, workflow: Uuid) -> Result<Vec<RunId>, Error> {
        let status = RunStatus::UNFINISHED.to_vec();
        let workflow_id = Some(workflow.to_string());
        let filter = Filter { workflow_id, status, limit: CANCELLED_MAX, ..Filter::default() };
        let mut cancelled = Vec::new();
        for row in self.runs(filter).await?.rows {
            match self.cancel(row.summary.run).await {
                Ok(()) => cancelled.push(row.summary.run),
                // It has ended in between.
                Err(Error::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(cancelled)
    }

    /// Changes a schedule as it is now, again if it was moved on in the meantime; answers what it was before.
    async fn changed(
        &self,
        id: Uuid,
        edits: impl Fn(&Timed, Option<At<Workflow>>) -> Result<Vec<Edit>, Error>,
    ) -> Result<Timed, Error> {
        for _ in 0..MAX_TRIES {
            let timed = self.schedule_at(id).await?;
            let workflow = self.find_kept::<Workflow>(&timed.trigger.workflow_uuid.to_string()).await?;
            let edits = edits(&timed, workflow)?;
            if edits.is_empty() {
                return Ok(timed);
            }
            match self.change(edits).await {
                Ok(_) => return Ok(timed),
                Err(Error::Stale(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Busy(format!("the schedule {id} is being changed all the time; try again")))
    }

    /// The trigger goes, and its workflow no longer names it.
    fn removed(&self, timed: &Timed, workflow: Option<At<Workflow>>) -> Result<Vec<Edit>, Error> {
        let Timed { trigger, revision, .. } = timed;
        let mut edits = self.remove_trigger_edits(&At { it: trigger.clone(), revision: *revision })?;
        if let Some(At { it, revision }) = workflow.filter(|at| at.it.trigger_uuid == Some(trigger.uuid)) {
            let updated_at = self.core.clock.now();
            let without = Workflow { trigger_uuid: None, updated_at, ..it };
            edits.push(kept::put(self.user(), &without, Expect::Revision(revision))?);
        }
        Ok(edits)
    }

    fn switched_off(&self, timed: &Timed, why: &str) -> Result<Vec<Edit>, Error> {
        let now = self.core.clock.now();
        let before = timed.trigger.clone();
        // What was decided is still started.
        let look_at = (!before.owed.is_empty()).then_some(now);
        let dropped = self.dropped_edits(&before, why)?;
        let off = Some(why.to_owned());
        let off = TriggerRecord { off, next_at: None, look_at, queued: Default::default(), updated_at: now, ..before };
        let mut edits = vec![kept::put(self.user(), &off, Expect::Revision(timed.revision))?];
        edits.extend(dropped);
        Ok(edits)
    }

    fn switched_on(&self, timed: &Timed) -> Result<Edit, Error> {
        let (now, before) = (self.core.clock.now(), timed.trigger.clone());
        let schedule = schedule::parse(&before.on, self.timezone(), before.set_at).map_err(Error::Invalid)?;
        let past = || Error::Conflict(format!("{} is past; set a new schedule", timed.understood.words));
        let next_at = schedule.and_then(|schedule| first_time(&schedule, now)).ok_or_else(past)?;
        let on = TriggerRecord { off: None, next_at: Some(next_at), updated_at: now, ..before };
        kept::put(self.user(), &on, Expect::Revision(timed.revision))
    }

    async fn schedules_at(&self, workflow: Uuid, which: Rhythm) -> Result<Vec<At<TriggerRecord>>, Error> {
        let mut found: Vec<At<TriggerRecord>> = self.list_kept(Some(&workflow.to_string())).await?;
        found.retain(|at| which.has(&at.it.on.on));
        Ok(found)
    }

    /// The workflow of a trigger; those that were met before are not read again.
    async fn owner(
        &self,
        trigger: &TriggerRecord,
        met: &mut HashMap<Uuid, Option<Workflow>>,
    ) -> Result<Option<Workflow>, Error> {
        let id = trigger.workflow_uuid;
        if let Some(owner) = met.get(&id) {
            return Ok(owner.clone());
        }
        let owner = self.find_kept::<Workflow>(&id.to_string()).await?.map(|at| at.it);
        met.insert(id, owner.clone());
        Ok(owner)
    }

    /// A trigger with its times; none if it does not go by time.
    fn timed(&self, at: At<TriggerRecord>, owner: Option<&Workflow>) -> Result<Option<Timed>, Error> {
        let At { it: mut trigger, revision } = at;
        if is_over(&trigger) {
            trigger.off.get_or_insert_with(|| OVER.to_owned());
        }
        let off = trigger.off.clone().or_else(|| owner.and_then(closed).map(str::to_owned));
        let workflow = owner.map_or_else(|| trigger.workflow_uuid.to_string(), |owner| owner.name.clone());
        let understood = self.read_schedule(&trigger, off.is_some())?;
        Ok(understood.map(|understood| Timed { trigger, revision, workflow, off, understood }))
    }

    fn read_schedule(&self, trigger: &TriggerRecord, is_off: bool) -> Result<Option<Understood>, Error> {
        let read = schedule::parse(&trigger.on, self.timezone(), trigger.set_at).map_err(Error::Invalid)?;
        let next_at = |schedule: &Schedule| match is_off {
            true => Vec::new(),
            false => schedule.next_times(self.core.clock.now(), TIMES_SHOWN),
        };
        Ok(read.map(|schedule| {
            let next_at = next_at(&schedule);
            let next_times = next_at.iter().map(|at| schedule.show(*at)).collect();
            Understood { words: schedule.describe(), next_at, next_times }
        }))
    }
}
