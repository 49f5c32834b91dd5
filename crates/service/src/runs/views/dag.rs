//! A run in the words of the dag: the execution state, under the name that it has in a session.

use std::collections::HashMap;

use relais_engine::{Failure, RunStatus, StepStatus};
use serde_json::{Map, Value, json};

use super::{Seen, Shown, instant, ms, run_word, step_word};

pub(super) fn view(shown: &Shown<'_>) -> Value {
    let trace = shown.trace;
    let states = node_states(shown);
    json!({ "workflow_execution": {
        "execution_id": trace.run,
        "workflow_id": shown.workflow_id(),
        "workflow_name": trace.workflow,
        "status": run_word(&trace.status),
        "start_time": instant(trace.started_at),
        "end_time": trace.ended_at.map(instant),
        "current_node_id": current(shown),
        "completed_nodes": named(&states, "completed"),
        "pending_nodes": named(&states, "pending"),
        "node_states": states,
        "input": shown.input,
        "output": if trace.status == RunStatus::Failed.word() { &Value::Null } else { &shown.output },
        "error": trace.error.as_ref().map(Failure::in_full),
        "errors": errors(shown),
        "user_id": trace.user,
        "session_id": trace.thread,
    } })
}

/// Every node of the workflow by its id; one that ran several times, in loops, as it was last, with how often.
fn node_states(shown: &Shown<'_>) -> Map<String, Value> {
    let mut visits: HashMap<&str, (Seen<'_, '_>, u64)> = HashMap::new();
    for seen in shown.steps() {
        let before = visits.get(seen.step.key.as_str()).map_or(0, |(_, count)| *count);
        visits.insert(&seen.step.key, (seen, before + 1));
    }
    let nodes = shown.plan.nodes.iter().filter(|node| !node.hidden);
    let state = |key: &str| match visits.get(key) {
        Some((seen, count)) => visited(seen, *count),
        None if shown.trace.ended_at.is_some() => json!({ "status": "skipped", "retry_count": 0 }),
        None => json!({ "status": "pending", "retry_count": 0 }),
    };
    nodes.map(|node| (node.key.clone(), state(&node.key))).collect()
}

fn visited(seen: &Seen<'_, '_>, count: u64) -> Value {
    let step = seen.step;
    let mut state = json!({
        "status": step_word(step.status),
        "start_time": instant(step.started_at),
        "end_time": step.ended_at.map(instant),
        "duration_ms": ms(step.started_at, step.ended_at),
        "input": seen.input(),
        "output": seen.output,
        "error": step.error.as_ref().map(Failure::in_full),
        "error_kind": step.error.as_ref().map(|error| error.kind),
        "retry_count": step.retry_count(),
    });
    if count > 1 {
        state["executions"] = json!(count);
    }
    state
}

fn named(states: &Map<String, Value>, word: &str) -> Vec<String> {
    states.iter().filter(|(_, state)| state["status"] == word).map(|(id, _)| id.clone()).collect()
}

/// The node that is at work, or the one that the run failed in.
fn current(shown: &Shown<'_>) -> Option<String> {
    let is = |step: &&crate::runs::trace::StepTrace| match step.status {
        StepStatus::Running | StepStatus::Waiting | StepStatus::Pending => true,
        StepStatus::Failed => !step.tolerated,
        StepStatus::Completed | StepStatus::Skipped | StepStatus::Cancelled => false,
    };
    // The innermost of those that are: a block is at work or has failed because of what is in it.
    shown.trace.steps.iter().filter(is).max_by_key(|step| step.depth).map(|step| step.key.clone())
}

fn errors(shown: &Shown<'_>) -> Vec<Value> {
    let failed = shown.trace.steps.iter().filter_map(|step| Some((step, step.error.as_ref()?)));
    failed.map(|(step, error)| json!({ "node_id": step.key, "kind": error.kind, "message": error.in_full() })).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::*;
    use super::*;
    use relais_engine::ErrorKind;

    #[test]
    fn every_node_has_a_state() {
        let plan = plan(
            "name: flow\nagents: { a: { model: sim/x, instructions: hi } }\n\
             steps: [{ id: first, agent: a }, { id: second, agent: a }, { id: third, agent: a }]\n",
        );
        let mut first = step(&plan, "first", StepStatus::Completed, json!({ "n": 1 }));
        first.attempts = 3;
        first.calls = vec![model("", "work", "done")];
        let second = failed(step(&plan, "second", StepStatus::Failed, Value::Null), "broken");
        let mut trace = trace(RunStatus::Failed, vec![first, second]);
        trace.error = Some(Failure::new(ErrorKind::Tool, "broken"));
        let view = view(&shown(&plan, &trace));
        let state = &view["workflow_execution"];
        for (path, expected) in [
            ("/status", json!("failed")),
            ("/workflow_name", json!("flow")),
            ("/current_node_id", json!("second")),
            ("/input", json!({ "topic": "tea" })),
            ("/user_id", json!("ann")),
            ("/session_id", json!("t1")),
            ("/errors", json!([{ "node_id": "second", "kind": "tool", "message": "broken" }])),
            ("/completed_nodes", json!(["first"])),
            ("/node_states/first/status", json!("completed")),
            ("/node_states/first/start_time", json!("1970-01-01T00:00:01.000Z")),
            ("/node_states/first/end_time", json!("1970-01-01T00:00:03.000Z")),
            ("/node_states/first/input", json!("work")),
            ("/node_states/first/output", json!({ "n": 1 })),
            ("/node_states/first/retry_count", json!(2)),
            ("/node_states/second/error", json!("broken")),
            ("/node_states/third/status", json!("skipped")),
        ] {
            assert_eq!(state.pointer(path), Some(&expected), "{path} in {state:#}");
        }
    }

    #[test]
    fn a_run_under_way_has_a_current_and_pending_nodes() {
        let plan = plan(
            "name: flow\nagents: { a: { model: sim/x, instructions: hi } }\n\
             steps: [{ id: first, agent: a }, { id: second, agent: a }]\n",
        );
        let trace = trace(RunStatus::Waiting, vec![step(&plan, "first", StepStatus::Running, Value::Null)]);
        let view = view(&shown(&plan, &trace));
        let state = &view["workflow_execution"];
        assert_eq!((&state["status"], &state["current_node_id"]), (&json!("running"), &json!("first")));
        assert_eq!((&state["pending_nodes"], &state["end_time"]), (&json!(["second"]), &Value::Null));
    }
}
