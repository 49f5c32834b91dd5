//! A run in the words of the graph: an execution of a workflow, with the trail of its agents.

use relais_engine::{RunStatus, agent_of};
use serde_json::{Value, json};

use super::{Seen, Shown, instant};

pub(super) fn view(shown: &Shown<'_>) -> Value {
    let trace = shown.trace;
    let mut turns: Vec<Seen<'_, '_>> = shown.steps().filter(|seen| seen.call().is_some()).collect();
    turns.sort_by_key(|seen| seen.step.started_at);
    let trail: Vec<Value> = turns.iter().map(turn).collect();
    let mut execution = json!({
        "id": trace.run,
        "targetType": "workflow",
        "targetId": shown.workflow_id(),
        "status": status(&trace.status),
        "input": shown.input,
        "output": shown.output,
        "trail": trail,
        "error": shown.error_message(),
        "startedAt": instant(trace.started_at),
        "finishedAt": trace.ended_at.map(instant),
    });
    if let Some(branch) = &shown.plan.branch {
        execution["targetBranchId"] = json!(branch);
    }
    execution
}

fn turn(seen: &Seen<'_, '_>) -> Value {
    json!({
        "nodeId": seen.step.key,
        "agentId": agent_of(seen.node),
        "round": round(&seen.step.path),
        "status": seen.step.status.word(),
        "input": seen.input(),
        "output": seen.output,
        "error": seen.step.error.as_ref().map(|error| &error.message),
    })
}

/// Which round of the innermost cycle around it, from 1; a step that is in none is in the first.
fn round(path: &str) -> u64 {
    let around = path.rsplit('/').skip(1);
    let number = |part: &str| part.strip_suffix(']')?.rsplit_once('[')?.1.parse::<u64>().ok();
    around.filter_map(number).next().map_or(1, |number| number + 1)
}

/// A run that was stopped on purpose has done what it was to do.
fn status(word: &str) -> &str {
    if word == RunStatus::Stopped.word() { RunStatus::Completed.word() } else { word }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::*;
    use super::*;
    use relais_engine::StepStatus;

    #[test]
    fn rounds_are_those_of_the_innermost_cycle() {
        for (path, expected) in [("a", 1), ("cycle[0]/a", 1), ("cycle[4]/a", 5), ("outer[2]/inner[0]/a", 1), ("p/a", 1)]
        {
            assert_eq!(round(path), expected, "{path}");
        }
    }

    #[test]
    fn the_trail_has_every_turn_in_order() {
        let plan = plan(
            "name: flow\nbranch: nightly\nagents: { a: { model: sim/x, instructions: hi } }\n\
             steps: [{ id: cycle, repeat: [{ id: x, agent: a }, { id: y, agent: a }], max: 2, on_limit: complete }]\n",
        );
        let turn = |path: &str, at: i64, input: &str, output: &str| {
            let mut step = step(&plan, path, StepStatus::Completed, json!(output));
            step.started_at = at;
            step.calls = vec![model("", input, output)];
            step
        };
        let block = step(&plan, "cycle", StepStatus::Completed, json!({}));
        let steps = vec![
            block,
            turn("cycle[0]/x", 1, "in", "1"),
            turn("cycle[1]/x", 3, "2", "3"),
            turn("cycle[0]/y", 2, "1", "2"),
        ];
        let trace = trace(RunStatus::Completed, steps);
        let view = view(&shown(&plan, &trace));
        let trail: Vec<[&Value; 4]> = view["trail"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| ["nodeId", "round", "input", "output"].map(|f| &t[f]))
            .collect();
        let expected = [("x", 1, "in", "1"), ("y", 1, "1", "2"), ("x", 2, "2", "3")];
        let expected = expected.map(|(node, round, input, output)| json!([node, round, input, output]));
        assert_eq!(json!(trail), json!(expected));
        assert_eq!((&view["targetType"], &view["targetId"]), (&json!("workflow"), &json!("flow")));
        assert_eq!((&view["targetBranchId"], &view["trail"][0]["agentId"]), (&json!("nightly"), &json!("a")));
    }
}
