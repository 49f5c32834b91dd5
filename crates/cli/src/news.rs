//! What happened, as commands see it: notifications of ended runs, and what an event did.

use relais_engine::RunId;
use relais_plan::time::format_instant;
use relais_service::{At, Fate, Notification};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A notification; the same fields by the same names from the local database and from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct News {
    pub id: Uuid,
    pub at: String,
    pub kind: String,
    pub title: String,
    pub text: String,
    pub run: RunId,
    pub workflow: String,
    pub read: bool,
}

impl From<At<Notification>> for News {
    fn from(at: At<Notification>) -> News {
        let Notification { id, at, kind, title, text, run, workflow, read } = at.it;
        News { id, at: format_instant(at), kind, title, text, run, workflow, read }
    }
}

/// What an event did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    pub started: Vec<Reaction>,
    pub declined: Vec<Reaction>,
    /// Runs that waited for it.
    pub woken: Vec<RunId>,
    /// It was published before; this is what it did then.
    pub repeated: bool,
}

/// What a trigger made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaction {
    pub workflow_id: Uuid,
    pub trigger: Uuid,
    pub reason: String,
    /// None where nothing starts, or while it waits for the run before it.
    pub run: Option<RunId>,
}

impl From<Fate> for Reaction {
    fn from(fate: Fate) -> Reaction {
        let Fate { trigger, workflow, reason, run, starts: _ } = fate;
        Reaction { workflow_id: workflow, trigger, reason, run }
    }
}

impl From<relais_service::Effects> for Effects {
    fn from(effects: relais_service::Effects) -> Effects {
        let relais_service::Effects { fates, woken, is_repeated } = effects;
        let (started, declined): (Vec<Fate>, Vec<Fate>) = fates.into_iter().partition(|fate| fate.starts);
        let reactions = |fates: Vec<Fate>| fates.into_iter().map(Reaction::from).collect();
        Effects { started: reactions(started), declined: reactions(declined), woken, repeated: is_repeated }
    }
}

impl Effects {
    /// The runs that go on because of it.
    pub fn runs(&self) -> Vec<RunId> {
        self.started.iter().filter_map(|reaction| reaction.run).chain(self.woken.iter().copied()).collect()
    }
}
