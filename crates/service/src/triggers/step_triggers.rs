//! The one trigger of a workflow that is edited step by step: chosen by its type, then filled in.
//!
//! What a trigger does, and when, is in `triggers.rs`. A trigger that the text of a workflow names comes and goes with
//! the text; here it is only shown.

use std::sync::LazyLock;

use relais_plan::filter::Filter;
use relais_plan::problem::nearest;
use relais_plan::time::format_duration;
use relais_plan::{CatchUp, Overlap, Problem, Source, Trigger, TriggerOn};
use relais_store::{Edit, Expect};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::definitions::steps::MAX_PAGE;
use crate::definitions::workflows::must_be_unchanged;
use crate::kept::{self, At, Order, Read};
use crate::triggers::schedules::PAUSED;
use crate::{Error, Origin, Service, TriggerRecord, Workflow};

/// A type that a trigger can have, for those who choose one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerType {
    pub id: &'static str,
    pub name: &'static str,
    pub description: &'static str,
    /// What the initial data is, until somebody says it better.
    pub initial_data_description: &'static str,
    /// Each setting that it takes, with what it means.
    pub settings: &'static [(&'static str, &'static str)],
}

pub const TRIGGER_TYPES: &[TriggerType] = &[
    TriggerType {
        id: "manual",
        name: "By hand",
        description: "Runs start when somebody starts them.",
        initial_data_description: "What whoever starts the run gives.",
        settings: &[],
    },
    TriggerType {
        id: "schedule",
        name: "Schedule",
        description: "Runs start at times: once, again and again, or one after the other.",
        initial_data_description: "The `input` of the trigger's settings.",
        settings: &[
            ("at", "A time, RFC 3339 or in words: `tomorrow 9am`. Exactly one of this and the next five."),
            ("cron", "Cron fields, or words: `every weekday at 8:30`."),
            ("every", "A duration: `15m`."),
            ("daily", "A time of day: `09:00`."),
            ("weekly", "Days and a time: `1,3,5@09:00`; 0 is Sunday."),
            ("continuous", "The delay after a run before the next one starts: `5s`."),
            ("timezone", "An IANA name: `Europe/Paris`."),
            ("overlap", "While a run goes on: `skip`, `queue`, `allow` or `cancel_running`."),
            ("catch_up", "After the server was down: `one`, `none` or `all`."),
            ("input", "What the runs are given."),
        ],
    },
    TriggerType {
        id: "webhook",
        name: "Webhook",
        description: "Runs start when data is sent to an address of the trigger's own, if it passes the filter rules.",
        initial_data_description: "The JSON that was sent to the webhook.",
        settings: &[
            ("webhook", "The end of its address, /hooks/ID; made when the trigger is set, and kept."),
            ("secret", "The name of a secret, `${NAME}`; only what is signed with it is taken."),
            (
                "dedupe",
                "An expression over `event.data`: of two deliveries with the same value the second starts nothing.",
            ),
            (
                "overlap",
                "While a run goes on: `allow` (each delivery starts one), `queue`, `skip` or `cancel_running`.",
            ),
        ],
    },
    TriggerType {
        id: "event",
        name: "Event",
        description: "Runs start when an event of a type is published, if its data passes the filter rules.",
        initial_data_description: "The data of the event.",
        settings: &[
            ("event", "The type of the event; the workflow's id if none is given."),
            ("overlap", "While a run goes on: `allow` (each event starts one), `queue`, `skip` or `cancel_running`."),
        ],
    },
];

/// What is to be kept of a trigger; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TriggerChange {
    /// Its workflow and its type, where they are told again; they never change.
    pub workflow: Option<Uuid>,
    pub kind: Option<String>,
    pub settings: Option<Map<String, Value>>,
    pub filter_rules: Option<Value>,
    pub initial_data_description: Option<String>,
}

/// A type is chosen first and filled in later: until then a schedule has no time.
const NO_TIME: &str = "it has no time yet; save one of at, cron, every, daily, weekly and continuous in its settings";
/// A description is a paragraph or two.
const MAX_DESCRIPTION_CHARS: usize = 10_000;

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl TriggerType {
    /// The names of its settings, for people.
    fn names(&self) -> String {
        let names: Vec<&str> = self.settings.iter().map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

fn trigger_type(id: &str) -> Result<&'static TriggerType, Error> {
    let ids = || TRIGGER_TYPES.iter().map(|known| known.id);
    let wrong = || {
        let near = nearest(id, ids()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let ids: Vec<&str> = ids().collect();
        Error::Invalid(format!("there is no type of trigger `{id}`{near}; there are: {}", ids.join(", ")))
    };
    TRIGGER_TYPES.iter().find(|known| known.id == id).ok_or_else(wrong)
}

impl Service {
    /// Gives a workflow a trigger of a type, in the place of the one it had. Answers the whole workflow.
    pub async fn set_trigger(
        &self,
        workflow: &str,
        type_id: &str,
        change: TriggerChange,
        revision: Read,
    ) -> Result<At<Workflow>, Error> {
        let kind = trigger_type(type_id)?;
        self.change_trigger(workflow, revision, |workflow| self.new_trigger(workflow, kind, &change).map(Some)).await
    }

    /// Takes a workflow's trigger away and deletes it.
    pub async fn remove_trigger(&self, workflow: &str, revision: Read) -> Result<At<Workflow>, Error> {
        let found = self.find_workflow(workflow).await?;
        if found.it.trigger_uuid.is_none() {
            return Err(no_trigger(&found.it));
        }
        self.change_trigger(workflow, revision, |_| Ok(None)).await
    }

    /// The former trigger goes and the new one comes in one transaction, together with the workflow.
    async fn change_trigger(
        &self,
        workflow: &str,
        revision: Read,
        make: impl Fn(&Workflow) -> Result<Option<TriggerRecord>, Error>,
    ) -> Result<At<Workflow>, Error> {
        self.amend(&revision, || self.find_workflow(workflow), |at| self.put_trigger(at, &make)).await
    }

    async fn put_trigger(
        &self,
        at: At<Workflow>,
        make: impl Fn(&Workflow) -> Result<Option<TriggerRecord>, Error>,
    ) -> Result<At<Workflow>, Error> {
        let At { it: mut workflow, revision: read_at } = at;
        let new = make(&workflow)?;
        let mut edits = self.former_trigger(&workflow).await?;
        workflow.trigger_uuid = new.as_ref().map(|trigger| trigger.uuid);
        workflow.updated_at = self.core.clock.now();
        if let Some(trigger) = &new {
            edits.extend(self.new_trigger_edits(trigger)?);
        }
        edits.push(kept::put(self.user(), &workflow, Expect::Revision(read_at))?);
        self.change(edits).await?;
        self.kept(&workflow.id.to_string()).await
    }

    async fn former_trigger(&self, workflow: &Workflow) -> Result<Vec<Edit>, Error> {
        let Some(id) = workflow.trigger_uuid else { return Ok(Vec::new()) };
        let former = self.find_kept::<TriggerRecord>(&id.to_string()).await?;
        former.map_or_else(|| Ok(Vec::new()), |at| self.remove_trigger_edits(&at))
    }

    fn new_trigger(
        &self,
        workflow: &Workflow,
        kind: &TriggerType,
        change: &TriggerChange,
    ) -> Result<TriggerRecord, Error> {
        let settings = change.settings.as_ref().unwrap_or(&NOTHING);
        let name = if kind.id == "webhook" { new_hook() } else { workflow.id.to_string() };
        let trigger = trigger_of(kind, settings, &name)?;
        let mut record = self.fresh_trigger(workflow.id, kind, trigger)?;
        record.filter_rules = json!({});
        record.initial_data_description = kind.initial_data_description.to_owned();
        fill(&mut record, change)?;
        Ok(record)
    }

    fn fresh_trigger(
        &self,
        workflow: Uuid,
        kind: &TriggerType,
        trigger: Option<Trigger>,
    ) -> Result<TriggerRecord, Error> {
        let off = trigger.is_none().then(|| NO_TIME.to_owned());
        let on = trigger.unwrap_or_else(|| Trigger::new(TriggerOn::Manual));
        let now = (self.core.clock.now(), self.timezone());
        let record = TriggerRecord::set(workflow, None, on, Origin::Call, now)?;
        if off.is_none() && record.kind != kind.id {
            let text = format!("these are the settings of a {} trigger", record.kind);
            return Err(Error::Invalid(format!("{text}; one of the type `{}` has: {}", kind.id, kind.names())));
        }
        Ok(TriggerRecord { kind: kind.id.to_owned(), off: off.or(record.off.clone()), ..record })
    }

    /// The trigger that comes with the text of a workflow whose steps become objects: kept as one of its own.
    pub(crate) fn adopted_trigger(&self, workflow: &mut Workflow, written: &Value) -> Result<Vec<Edit>, Error> {
        if written.is_null() || workflow.trigger_uuid.is_some() {
            return Ok(Vec::new());
        }
        let kind = trigger_type("event")?;
        let own = || workflow.alias.clone().unwrap_or_else(|| workflow.id.to_string());
        let event = written["trigger_type_id"].as_str().map_or_else(own, str::to_owned);
        let record = self.fresh_trigger(workflow.id, kind, trigger_of(kind, &NOTHING, &event)?)?;
        let mut record = TriggerRecord { filter_rules: json!({}), ..record };
        let description = written["initial_data_description"].as_str().map(str::to_owned);
        let filter_rules = Some(one_of(&written["filter_rules"])).filter(|rules| !rules.is_null());
        fill(
            &mut record,
            &TriggerChange { filter_rules, initial_data_description: description, ..TriggerChange::default() },
        )?;
        workflow.trigger_uuid = Some(record.uuid);
        self.new_trigger_edits(&record)
    }

    pub async fn trigger(&self, id: Uuid) -> Result<At<TriggerRecord>, Error> {
        self.kept(&id.to_string()).await
    }

    /// The trigger that was set for a workflow.
    pub async fn trigger_of_workflow(&self, workflow: &str) -> Result<At<TriggerRecord>, Error> {
        let At { it: workflow, .. } = self.find_workflow(workflow).await?;
        let id = workflow.trigger_uuid.ok_or_else(|| no_trigger(&workflow))?;
        self.trigger(id).await
    }

    /// A page of all triggers by id, those of definitions too.
    pub async fn triggers(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<At<TriggerRecord>>, Option<String>), Error> {
        self.paged(Order::ById, after, limit.min(MAX_PAGE)).await
    }

    /// Changes what a trigger does. One that goes on as before keeps its next time.
    pub async fn save_trigger(
        &self,
        id: Uuid,
        change: TriggerChange,
        revision: Read,
    ) -> Result<At<TriggerRecord>, Error> {
        let At { it: before, revision: is } = self.trigger(id).await?;
        must_be_unchanged("trigger", id, is, &revision)?;
        must_be_own(&before)?;
        must_stay(&before, &change)?;
        let mut record = match &change.settings {
            Some(settings) => self.with_settings(&before, settings)?,
            None => before.clone(),
        };
        fill(&mut record, &change)?;
        record.updated_at = self.core.clock.now();
        let mut edits = vec![kept::put(self.user(), &record, Expect::Revision(is))?];
        edits.extend(self.listener_edit(&record)?);
        if record.queued.is_empty() {
            edits.extend(self.dropped_edits(&before, "its times were changed")?);
        }
        self.change(edits).await?;
        self.trigger(id).await
    }

    fn with_settings(&self, before: &TriggerRecord, settings: &Map<String, Value>) -> Result<TriggerRecord, Error> {
        let kind = trigger_type(&before.kind)?;
        let name = match before.settings().get("webhook").and_then(Value::as_str) {
            Some(hook) => hook.to_owned(),
            None => before.workflow_uuid.to_string(),
        };
        let trigger = trigger_of(kind, settings, &name)?;
        let fresh = self.fresh_trigger(before.workflow_uuid, kind, trigger)?;
        let is_paused = before.off.as_deref() == Some(PAUSED);
        let is_same = fresh.on.on == before.on.on && fresh.on.timezone == before.on.timezone;
        // One that was put aside has no next time that it could keep.
        let goes_on = is_same && (before.off.is_none() || is_paused);
        let times = if goes_on { before.clone() } else { fresh.clone() };
        // What others have sent was let in; it does not go by times.
        let waiting = if before.is_sent() { before.clone() } else { times.clone() };
        Ok(TriggerRecord {
            said: before.said.clone().filter(|_| is_same),
            on: fresh.on,
            off: fresh.off.or_else(|| before.off.clone().filter(|_| is_paused)),
            next_at: times.next_at.filter(|_| !is_paused),
            set_at: times.set_at,
            last_tick: waiting.last_tick,
            queued: waiting.queued,
            ..before.clone()
        })
    }

    /// Deletes a trigger; its workflow has none then.
    pub async fn delete_trigger(&self, id: Uuid, revision: Read) -> Result<(), Error> {
        let at = self.trigger(id).await?;
        must_be_unchanged("trigger", id, at.revision, &revision)?;
        must_be_own(&at.it)?;
        let workflow = self.find_kept::<Workflow>(&at.it.workflow_uuid.to_string()).await?;
        let mut edits = self.remove_trigger_edits(&at)?;
        if let Some(At { it: workflow, revision }) = workflow.filter(|found| found.it.trigger_uuid == Some(id)) {
            let updated_at = self.core.clock.now();
            let workflow = Workflow { trigger_uuid: None, updated_at, ..workflow };
            edits.push(kept::put(self.user(), &workflow, Expect::Revision(revision))?);
        }
        self.change(edits).await.map(|_| ())
    }
}

impl TriggerRecord {
    /// What it fires on and how, in the words in which it is set.
    pub fn settings(&self) -> Map<String, Value> {
        let Trigger { on, timezone, overlap, catch_up, input, filter: _, pace: _ } = &self.on;
        let on = match on {
            TriggerOn::Manual => None,
            TriggerOn::At(text) => Some(("at", json!(text))),
            TriggerOn::Cron(text) => Some(("cron", json!(text))),
            TriggerOn::Every { ms } => Some(("every", json!(format_duration(*ms)))),
            TriggerOn::Calendar(text) => Some(("every", json!(text))),
            TriggerOn::Continuous { delay_ms } => Some(("continuous", json!(format_duration(*delay_ms)))),
            TriggerOn::Webhook { id, .. } => Some(("webhook", json!(id))),
            TriggerOn::Event(event) => Some(("event", json!(event))),
        };
        let timezone = timezone.as_ref().map(|zone| ("timezone", json!(zone)));
        let is_told = self.is_sent() || *overlap != Overlap::or_default(None, *catch_up);
        let overlap = is_told.then(|| ("overlap", json!(overlap)));
        let catch_up = (*catch_up != CatchUp::default()).then(|| ("catch_up", json!(catch_up)));
        let input = (!input.is_null()).then(|| ("input", input.clone()));
        let (secret, dedupe) = self.told_of_hook();
        let all = [on, secret, dedupe, timezone, overlap, catch_up, input].into_iter().flatten();
        all.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The name of its secret, and what tells deliveries apart.
    fn told_of_hook(&self) -> (Option<Setting>, Option<Setting>) {
        let TriggerOn::Webhook { secret, dedupe, .. } = &self.on.on else { return (None, None) };
        (secret.as_ref().map(|secret| ("secret", json!(secret))), dedupe.as_ref().map(|key| ("dedupe", json!(key))))
    }
}

type Setting = (&'static str, Value);

/// Settings as a trigger; none for a schedule that has no time yet. `name`: the event if the settings name none, or the
/// end of the hook's address, which is not the client's to choose.
fn trigger_of(kind: &TriggerType, settings: &Map<String, Value>, name: &str) -> Result<Option<Trigger>, Error> {
    if let Some(unknown) = settings.keys().find(|key| !kind.settings.iter().any(|(known, _)| known == key)) {
        let text = format!("a {} trigger has no setting `{unknown}`", kind.id);
        return Err(Error::Invalid(format!("{text}; it has: {}", kind.names())));
    }
    let mut written = settings.clone();
    match kind.id {
        "schedule" if settings.is_empty() => return Ok(None),
        "manual" => drop(written.insert("manual".into(), json!(true))),
        "webhook" if settings.get("webhook").is_some_and(|id| id != name) => {
            let text = "the address of a webhook is made when its trigger is set, and stays";
            return Err(Error::Invalid(format!("{text}; leave `webhook` out")));
        }
        "webhook" => written = hook_settings(written, name),
        "event" => drop(written.entry("event").or_insert_with(|| json!(name))),
        _ => {}
    }
    if matches!(kind.id, "webhook" | "event") {
        // Who sets a trigger here is promised a run for each match of its filter.
        written.entry("overlap").or_insert_with(|| json!(Overlap::Allow));
    }
    let source = Source { name: "settings".into(), text: Value::Object(written).to_string() };
    relais_dialects::read_trigger(&source).map(Some).map_err(|problems| wrong_settings(&problems))
}

/// What belongs to the address stands with it in a definition.
fn hook_settings(mut settings: Map<String, Value>, name: &str) -> Map<String, Value> {
    let mut hook = Map::from_iter([("id".to_owned(), json!(name))]);
    for key in ["secret", "dedupe"] {
        hook.extend(settings.remove_entry(key));
    }
    settings.insert("webhook".to_owned(), Value::Object(hook));
    settings
}

fn wrong_settings(problems: &[Problem]) -> Error {
    let tell = |problem: &Problem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}{help}", problem.message)
    };
    let told: Vec<String> = problems.iter().map(tell).collect();
    Error::Invalid(format!("the settings of the trigger: {}", told.join("; ")))
}

/// Nobody can guess it.
fn new_hook() -> String {
    Uuid::new_v4().simple().to_string()
}

/// In an export a list means one of them.
fn one_of(rules: &Value) -> Value {
    let Value::Object(fields) = rules else { return rules.clone() };
    let rule = |value: &Value| if value.is_array() { json!({ "in": value }) } else { value.clone() };
    fields.iter().map(|(field, value)| (field.clone(), rule(value))).collect::<Map<_, _>>().into()
}

/// Filter rules and description, checked.
fn fill(record: &mut TriggerRecord, change: &TriggerChange) -> Result<(), Error> {
    if let Some(rules) = &change.filter_rules {
        let wrong = |mistakes: Vec<String>| Error::Invalid(format!("filter_rules: {}", mistakes.join("; ")));
        Filter::parse(rules).map_err(wrong)?;
        let is_open = rules.as_object().is_some_and(Map::is_empty) || rules.is_null();
        if !is_open && !matches!(record.kind.as_str(), "webhook" | "event") {
            let text = format!("a {} trigger is sent no data that rules could look at", record.kind);
            return Err(Error::Invalid(format!("filter_rules: {text}")));
        }
        record.filter_rules = relais_plan::filter::normal(rules);
    }
    // What fires it reads the rules where those of a definition stand.
    let is_open = record.filter_rules.as_object().is_some_and(Map::is_empty);
    record.on.filter = if is_open { Value::Null } else { record.filter_rules.clone() };
    if let Some(description) = &change.initial_data_description {
        if description.trim().is_empty() || description.chars().count() > MAX_DESCRIPTION_CHARS {
            let text =
                format!("a trigger needs an `initial_data_description` of 1 to {MAX_DESCRIPTION_CHARS} characters");
            return Err(Error::Invalid(text));
        }
        record.initial_data_description = description.clone();
    }
    Ok(())
}

fn must_be_own(trigger: &TriggerRecord) -> Result<(), Error> {
    match trigger.origin {
        Origin::Call => Ok(()),
        Origin::Definition => {
            let text = format!("the trigger {} comes from the definition of its workflow", trigger.uuid);
            Err(Error::Conflict(format!("{text}; change it there")))
        }
    }
}

fn must_stay(trigger: &TriggerRecord, change: &TriggerChange) -> Result<(), Error> {
    let moved = change.workflow.is_some_and(|workflow| workflow != trigger.workflow_uuid);
    let turned = change.kind.as_ref().is_some_and(|kind| *kind != trigger.kind);
    match moved || turned {
        true => Err(Error::Invalid("a trigger stays with its workflow and of its type; set another instead".into())),
        false => Ok(()),
    }
}

fn no_trigger(workflow: &Workflow) -> Error {
    Error::NotFound(format!("no trigger was set for the workflow `{}`", workflow.name))
}
