//! Kept schedules as commands see them, wherever they are kept.

use relais_engine::{Millis, RunId};
use relais_plan::time::format_instant;
use relais_service::{Decision, Origin, Timed, Understood};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A kept schedule; the same fields by the same names from the local database and from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    pub id: Uuid,
    pub workflow_id: Uuid,
    /// The name of the workflow.
    pub workflow: String,
    pub branch: Option<String>,
    /// What was understood.
    pub schedule: String,
    /// `definition` or `call`.
    pub set_by: String,
    pub active: bool,
    /// Why it does not fire.
    pub off: Option<String>,
    pub next_times: Vec<String>,
    pub next_times_local: Vec<String>,
    pub last_time: Option<String>,
    pub last_run: Option<RunId>,
}

impl From<Timed> for Planned {
    fn from(timed: Timed) -> Planned {
        let Timed { trigger, understood, workflow, off, .. } = timed;
        let set_by = match trigger.origin {
            Origin::Definition => "definition",
            Origin::Call => "call",
        };
        Planned {
            id: trigger.uuid,
            workflow_id: trigger.workflow_uuid,
            workflow,
            branch: trigger.branch,
            schedule: understood.words,
            set_by: set_by.to_owned(),
            active: off.is_none(),
            off,
            next_times: instants(&understood.next_at),
            next_times_local: understood.next_times,
            last_time: trigger.last_tick.map(format_instant),
            last_run: trigger.last_run,
        }
    }
}

fn instants(times: &[Millis]) -> Vec<String> {
    times.iter().map(|at| format_instant(*at)).collect()
}

/// What a schedule would mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foreseen {
    pub schedule: String,
    pub next_times: Vec<String>,
    pub next_times_local: Vec<String>,
}

impl From<Understood> for Foreseen {
    fn from(understood: Understood) -> Foreseen {
        let next_times = instants(&understood.next_at);
        Foreseen { schedule: understood.words, next_times, next_times_local: understood.next_times }
    }
}

/// Why a run was started, or was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    pub at: String,
    pub time: Option<String>,
    pub starts: bool,
    pub reason: String,
    pub run: Option<RunId>,
}

impl From<Decision> for Decided {
    fn from(decision: Decision) -> Decided {
        let Decision { at, tick, starts, reason, run, .. } = decision;
        Decided { at: format_instant(at), time: tick.map(format_instant), starts, reason, run }
    }
}
