//! Outputs by their ids alone: what each step gave, and what a trigger handed to a run.
//!
//! An id is derived, so that it is the same whenever it is shown, and nothing has to be kept for it: it holds when its
//! run began, which the store can look for, a few bits of the run, and the place in the run.

use std::collections::HashMap;

use relais_engine::{Millis, RunId, StepStatus, Stored};
use relais_store::Filter;
use serde_json::Value;
use uuid::Uuid;

use crate::runs::trace::{StepTrace, Trace};
use crate::runs::views::{hashes, outputs, plain};
use crate::{Error, Row, Service};

/// Runs of one user that began in the same millisecond and are looked through for an output.
const MAX_RUNS: usize = 10_000;
const PAGE: usize = 1_000;
/// The position of what a run was given.
const TRIGGER: u64 = 0;
/// The bits of an id beside its variant.
const MAX_POSITION: u64 = (1 << 60) - 1;

/// What a step gave, as it is shown to those who know its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub id: Uuid,
    pub value: Value,
    pub summary: String,
    pub markdown: Option<String>,
}

impl Output {
    pub(crate) fn new(id: Uuid, value: Value, summary: String) -> Output {
        let markdown = match &value {
            Value::String(text) => Some(text.clone()),
            other => other["markdown"].as_str().map(str::to_owned),
        };
        Output { id, value, summary, markdown }
    }
}

/// Milliseconds in 48 bits, 12 bits of the run, 60 bits for the position in its journal: a UUID of version 8. The views of
/// the database put it together in the same way.
fn id(run: RunId, began_at: Millis, position: u64) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&began_at.to_be_bytes()[2..]);
    bytes[6..8].copy_from_slice(&run.as_bytes()[14..]);
    bytes[8..].copy_from_slice(&(position & MAX_POSITION).to_be_bytes());
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// As ids were put together once: from where in the plan the output was made. Who has kept one finds it still.
fn former_id(run: RunId, began_at: Millis, place: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&began_at.to_be_bytes()[2..]);
    bytes[6..8].copy_from_slice(&Uuid::new_v5(&run, b"outputs").as_bytes()[..2]);
    bytes[8..].copy_from_slice(&Uuid::new_v5(&run, place.as_bytes()).as_bytes()[8..]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// When the run of an output began; none for what is no id of an output.
fn began_at(id: Uuid) -> Option<Millis> {
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(&id.as_bytes()[..6]);
    (id.get_version_num() == 8).then(|| Millis::from_be_bytes(bytes))
}

/// Whether an output may be of a run, by the bits of the run that its id holds.
fn may_be_of(output: Uuid, run: RunId) -> bool {
    let bits = |id: Uuid| [id.as_bytes()[6], id.as_bytes()[7]];
    [id(run, 0, 0), former_id(run, 0, "")].into_iter().any(|one| bits(one) == bits(output))
}

pub(crate) fn trigger_id(trace: &Trace) -> Uuid {
    id(trace.run, trace.started_at, TRIGGER)
}

/// The ids of what the steps of a trace gave, by their positions there. A step that was gone back to has given
/// something else each time.
pub(crate) fn ids(trace: &Trace) -> Vec<Uuid> {
    trace.steps.iter().map(|step| id(trace.run, trace.started_at, step.left_at)).collect()
}

fn former_ids(trace: &Trace) -> Vec<Uuid> {
    let mut visits: HashMap<&str, u32> = HashMap::new();
    let mut ids = Vec::with_capacity(trace.steps.len());
    for StepTrace { path, attempts, .. } in &trace.steps {
        let visit = visits.entry(path).or_default();
        let place = format!("output/{path}/{visit}/{}", attempts.saturating_sub(1));
        ids.push(former_id(trace.run, trace.started_at, &place));
        *visit += 1;
    }
    ids
}

impl Service {
    /// An output by its id; that of another user's run is not there.
    pub async fn output_by_id(&self, output: Uuid) -> Result<Output, Error> {
        let missing = || Error::NotFound(format!("there is no output {output}"));
        let began = began_at(output).ok_or_else(missing)?;
        for row in self.began(began).await? {
            if !may_be_of(output, row.summary.run) {
                continue;
            }
            if let Some(found) = self.output_of(row.summary.run, output).await? {
                return Ok(found);
            }
        }
        Err(missing())
    }

    /// The user's runs that began at a moment.
    async fn began(&self, at: Millis) -> Result<Vec<Row>, Error> {
        let (after, before) = (Some(at.saturating_sub(1)), Some(at.saturating_add(1)));
        let mut filter = Filter { started_after: after, started_before: before, limit: PAGE, ..Filter::default() };
        let mut rows = Vec::new();
        while rows.len() < MAX_RUNS {
            let page = self.runs(filter.clone()).await?;
            rows.extend(page.rows);
            if page.cursor.is_none() {
                break;
            }
            filter.cursor = page.cursor;
        }
        Ok(rows)
    }

    async fn output_of(&self, run: RunId, output: Uuid) -> Result<Option<Output>, Error> {
        let (program, entries, state) = self.load(run).await?;
        let mut trace = self.traced(&program, &entries, run).await?;
        trace.steps.retain(|step| step.attempts > 0);
        if [trigger_id(&trace), former_id(trace.run, trace.started_at, "trigger")].contains(&output) {
            let values = self.values_of(hashes([&trace.input])).await?;
            return Ok(Some(Output::new(output, plain(&trace.input, &values), trace.input.summary())));
        }
        let found = |ids: Vec<Uuid>| ids.iter().position(|id| *id == output);
        let Some(index) = found(ids(&trace)).or_else(|| found(former_ids(&trace))) else { return Ok(None) };
        if trace.steps[index].status != StepStatus::Completed {
            return Ok(None);
        }
        let stored = hashes(trace.steps.iter().filter_map(|step| step.output.as_ref()));
        let values = self.values_of(stored).await?;
        let summary = trace.steps[index].output.as_ref().map(Stored::summary).unwrap_or_default();
        let value = outputs(&program, &state, &trace, &values).swap_remove(index);
        Ok(Some(Output::new(output, value, summary)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_when_its_run_began_and_differs_by_run_and_place() {
        let (run, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        for at in [0, 1, 1_790_000_000_000] {
            let one = id(run, at, 3_000_001);
            assert_eq!(began_at(one), Some(at));
            assert!(may_be_of(one, run) && may_be_of(former_id(run, at, "output/a/0/0"), run));
            assert_eq!(one, id(run, at, 3_000_001));
            assert_ne!(one, id(run, at, 3_000_002));
            assert_ne!(one, id(other, at, 3_000_001));
        }
        // As the views put it together.
        let run = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        assert_eq!(id(run, 0x0102_0304_0506, 7_000_002).to_string(), "01020304-0506-8ef0-8000-0000006acfc2");
        assert_eq!(began_at(Uuid::from_u128(7)), None);
    }
}
