//! Events: somebody says that something happened. It starts runs of the triggers for its type and wakes the runs that
//! wait for it, each once.

use relais_engine::{Awaiting, Command, CommandId, Entry, Event, Millis, Run, RunId};
use relais_plan::text::is_name;
use relais_store::{Awaited, Expect};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::kept::{self, At, Kept};
use crate::runs::Words;
use crate::triggers::sent::{Fate, REMEMBERED_MS, Sent};
use crate::{Error, Service, TriggerRecord, Workflow};

/// Types are names, ids are ids.
const MAX_NAME_BYTES: usize = 255;
/// Runs found at once.
const PAGE: usize = 1_000;
/// Runs that one event may wake: each is read and written while its publisher waits.
const MAX_WOKEN: usize = 100_000;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    pub kind: String,
    pub data: Value,
    /// The same id again is the same event again.
    pub id: Option<String>,
}

/// What an event did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    pub fates: Vec<Fate>,
    /// Runs that waited for it.
    pub woken: Vec<RunId>,
    /// Whether an event of this id was published before; these are its effects.
    #[serde(default)]
    pub is_repeated: bool,
}

/// An event with an id, remembered so that it has its effects once.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Published {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    data: String,
    at: Millis,
    effects: Option<Effects>,
}

impl Kept for Published {
    const KIND: &'static str = "event";
    const WORD: &'static str = "event";

    fn id(&self) -> String {
        self.id.clone()
    }

    fn due_at(&self) -> Option<Millis> {
        Some(self.at.saturating_add(REMEMBERED_MS))
    }
}

/// The trigger that hears of events of a type: what an event finds it by. It comes and goes with the trigger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub trigger: Uuid,
    pub event: String,
}

impl Kept for Listener {
    const KIND: &'static str = "listener";
    const WORD: &'static str = "listener";

    fn id(&self) -> String {
        self.trigger.to_string()
    }

    fn label(&self) -> String {
        self.event.clone()
    }
}

impl Service {
    /// Publishes an event to all of the user's triggers and waiting runs.
    pub async fn publish_event(&self, happened: Happened) -> Result<Effects, Error> {
        check_name("type", &happened.kind)?;
        let Some(id) = &happened.id else {
            return self.take_effect(&happened, &Uuid::now_v7().to_string()).await;
        };
        check_name("id", id)?;
        let published = self.remember(&happened, id).await?;
        if let Some(effects) = published.effects {
            return Ok(Effects { is_repeated: true, ..effects });
        }
        let effects = self.take_effect(&happened, id).await?;
        let done = Published { effects: Some(effects.clone()), ..published };
        let mut edits = vec![kept::put(self.user(), &done, Expect::Any)?];
        edits.extend(self.forgotten(Published::KIND).await?);
        self.change(edits).await?;
        Ok(effects)
    }

    /// The record of an event with this id, the new one or the one that was there.
    async fn remember(&self, happened: &Happened, id: &str) -> Result<Published, Error> {
        let (kind, at) = (happened.kind.clone(), self.core.clock.now());
        let data = Uuid::new_v5(&Uuid::NAMESPACE_OID, happened.data.to_string().as_bytes()).to_string();
        let new = Published { id: id.to_owned(), kind, data, at, effects: None };
        match self.change(vec![kept::put(self.user(), &new, Expect::Absent)?]).await {
            Ok(_) => return Ok(new),
            Err(Error::Stale(_)) => {}
            Err(error) => return Err(error),
        }
        let before = self.kept::<Published>(id).await?.it;
        if (&before.kind, &before.data) == (&new.kind, &new.data) {
            return Ok(before);
        }
        let text = "was published before with another type or other data; give each event an id of its own";
        Err(Error::Conflict(format!("the event {id} {text}")))
    }

    /// Some of it may have been done by an earlier try that was cut off, or is done by another at this moment.
    async fn take_effect(&self, happened: &Happened, id: &str) -> Result<Effects, Error> {
        let sent = Sent { key: Some(id.to_owned()), data: happened.data.clone(), traceparent: None };
        let mut effects = Effects::default();
        // First those that wait, so that a run that this event starts is not among them.
        for run in self.waiting_for(&happened.kind).await? {
            if self.wake(run, happened, id).await? {
                effects.woken.push(run);
            }
        }
        for at in self.listeners(&happened.kind).await? {
            let owner = self.find_kept::<Workflow>(&at.it.workflow_uuid.to_string()).await?;
            let name = owner.map(|owner| owner.it.name).unwrap_or_default();
            effects.fates.push(Fate { name, ..self.fire_sent(at, &sent).await? });
        }
        Ok(effects)
    }

    /// The user's triggers for events of a type.
    async fn listeners(&self, kind: &str) -> Result<Vec<At<TriggerRecord>>, Error> {
        let mut found = Vec::new();
        for At { it: listener, .. } in self.list_kept::<Listener>(Some(kind)).await? {
            // One that was removed meanwhile hears nothing any more.
            found.extend(self.find_kept::<TriggerRecord>(&listener.id()).await?);
        }
        Ok(found)
    }

    /// The user's runs that wait for events of a type, or did a moment ago.
    async fn waiting_for(&self, kind: &str) -> Result<Vec<RunId>, Error> {
        let mut found: Vec<RunId> = Vec::new();
        while found.len() < MAX_WOKEN {
            let (user, event) = (self.user().to_owned(), kind.to_owned());
            let awaited = Awaited { user, event, after: found.last().copied(), limit: PAGE };
            let page = self.core.store.awaiting(awaited).await?;
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
        Err(Error::Busy(format!("more than {MAX_WOKEN} runs wait for the event {kind}; it cannot wake them all")))
    }

    /// Gives the event to each step of a run that waits for it, to none twice; says whether any got it.
    async fn wake(&self, run: RunId, happened: &Happened, id: &str) -> Result<bool, Error> {
        let by = format!("event:{id}");
        let fits = |entries: &[Entry], state: &Run| {
            if has_received(entries, &by) {
                return Ok(Words::WereSaid);
            }
            let events: Vec<Event> = waits(state, &happened.kind)
                .map(|id| Event::Received { id, value: happened.data.clone(), by: by.clone() })
                .collect();
            Ok(if events.is_empty() || state.closed.is_some() { Words::None } else { Words::These(events) })
        };
        self.say_all(run, fits).await
    }
}

fn waits<'a>(state: &'a Run, kind: &'a str) -> impl Iterator<Item = CommandId> + 'a {
    let is_meant = move |command: &Command| matches!(command, Command::Await(Awaiting::Event(of)) if of == kind);
    state.owed.iter().filter(move |(_, owed)| is_meant(&owed.command)).map(|(id, _)| *id)
}

fn has_received(entries: &[Entry], by: &str) -> bool {
    let received = |event: &Event| matches!(event, Event::Received { by: of, .. } if of == by);
    entries.iter().flat_map(|entry| &entry.events).any(received)
}

fn check_name(what: &str, text: &str) -> Result<(), Error> {
    if !text.is_empty() && text.len() <= MAX_NAME_BYTES && is_name(text) {
        return Ok(());
    }
    Err(Error::Invalid(format!("the `{what}` of an event is a text of 1 to {MAX_NAME_BYTES} bytes in one line")))
}
