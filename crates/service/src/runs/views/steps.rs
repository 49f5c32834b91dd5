//! A run in the words of linear steps: a workflow instance with its step instances, each with its messages and output.
//!
//! An output has an id of its own, derived from where it was made, so that it is the same whenever it is shown. Its
//! markdown is the text, where it is text, or its field `markdown`.

use std::collections::HashMap;

use relais_engine::{Millis, RunStatus, StepStatus, Stored, agent_of};
use relais_plan::{Node, Op, Until};
use serde_json::{Map, Value, json};

use super::{Seen, Shown, derived, instant, said_to, step_word};
use crate::runs::outputs::{self, Output};
use crate::runs::trace::CallTrace;

pub(super) fn view(shown: &Shown<'_>) -> Value {
    let trace = shown.trace;
    let ended = trace.ended_at.is_some();
    let mut visits: HashMap<&str, u32> = HashMap::new();
    let mut instances = Vec::new();
    for (seen, output) in shown.steps().zip(outputs::ids(trace)).filter(|(seen, _)| kind(shown, seen.node).is_some()) {
        let visit = visits.entry(&seen.step.path).or_default();
        instances.push(instance(shown, &seen, *visit, output));
        *visit += 1;
    }
    let waiting = shown.untouched().filter_map(|(_, node)| Some((node, kind(shown, node)?)));
    instances.extend(waiting.map(|(node, kind)| untouched(shown, node, kind, ended)));
    let updated: Option<Millis> = trace.steps.iter().filter_map(|step| step.ended_at).max();
    json!({
        "uuid": trace.run,
        "user_id": trace.user,
        "workflow_definition_uuid": shown.workflow_id(),
        "status": status(&trace.status),
        "error_message": shown.error_message().or_else(|| reason(&trace.status)),
        "trigger_output": record(outputs::trigger_id(trace), &shown.input, trace.input.summary()),
        "step_instances": instances,
        "created_at": instant(trace.started_at),
        "updated_at": instant(trace.ended_at.or(updated).unwrap_or(trace.started_at)),
    })
}

/// The word that the format has for a kind of step; none for blocks, whose steps are shown by themselves.
fn kind(shown: &Shown<'_>, node: &Node) -> Option<&'static str> {
    match &node.op {
        Op::Call(_) => Some(match agent_of(node).and_then(|agent| shown.plan.agents.get(agent)) {
            Some(agent) if agent.tools.is_empty() => "custom_llm",
            Some(_) => "custom_agent",
            None => "tool",
        }),
        Op::Choose { .. } | Op::End { .. } if node.kind == "stop_if" => Some("stop_checker"),
        Op::Wait(Until::Person(_)) => Some("ask"),
        Op::Choose { .. } | Op::End { .. } | Op::Wait(_) | Op::Fan(_) | Op::Each(_) => None,
    }
}

fn name(node: &Node) -> &str {
    node.name.as_deref().or_else(|| agent_of(node)).unwrap_or(&node.key)
}

/// The name of the link to the definition.
fn link(kind: &str) -> &'static str {
    match kind {
        "custom_llm" => "llm_definition_uuid",
        "custom_agent" => "agent_definition_uuid",
        "stop_checker" => "checker_definition_uuid",
        _ => "step_definition_uuid",
    }
}

fn instance(shown: &Shown<'_>, seen: &Seen<'_, '_>, visit: u32, output: uuid::Uuid) -> Value {
    let step = seen.step;
    let kind = kind(shown, seen.node).unwrap_or_default();
    let mut told = json!({
        "uuid": derived(shown.trace.run, &format!("step/{}/{visit}", step.path)),
        "type": kind,
        "user_id": shown.trace.user,
        "workflow_instance_uuid": shown.trace.run,
        link(kind): step.key,
        "name": name(seen.node),
        "status": step_word(step.status),
        "started_at": instant(step.started_at),
        "finished_at": step.ended_at.map(instant),
        "error_message": step.error.as_ref().map(|error| &error.message),
        "created_at": instant(step.started_at),
        "input_data": input(seen),
    });
    if kind != "stop_checker" {
        told["messages"] = Value::Array(step.calls.iter().flat_map(messages).collect());
        let summary = step.output.as_ref().map(Stored::summary).unwrap_or_default();
        let gave = step.status == StepStatus::Completed;
        told["output"] = if gave { record(output, seen.output, summary) } else { Value::Null };
    }
    told
}

fn untouched(shown: &Shown<'_>, node: &Node, kind: &str, ended: bool) -> Value {
    let status = if ended { StepStatus::Skipped } else { StepStatus::Pending };
    json!({
        "uuid": derived(shown.trace.run, &format!("step/{}/0", node.key)),
        "type": kind,
        "user_id": shown.trace.user,
        "workflow_instance_uuid": shown.trace.run,
        link(kind): node.key,
        "name": name(node),
        "status": status.word(),
        "started_at": null,
        "finished_at": null,
        "created_at": instant(shown.trace.started_at),
    })
}

fn record(id: uuid::Uuid, value: &Value, summary: String) -> Value {
    let Output { id, value, summary, markdown } = Output::new(id, value.clone(), summary);
    json!({ "uuid": id, "raw_data": value, "summary": summary, "markdown_representation": markdown })
}

/// The configuration that the step ran with, every placeholder put in.
fn input(seen: &Seen<'_, '_>) -> Value {
    let Some(first) = seen.step.calls.iter().find(|call| call.what == "model") else { return seen.input() };
    let parts = [("system_prompt", said_to(first, "system")), ("prompt", said_to(first, "user"))];
    let given = parts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
    Value::Object(given.collect::<Map<String, Value>>())
}

fn messages(call: &CallTrace) -> Vec<Value> {
    if call.what != "model" {
        return call.use_id.as_ref().map(|id| tool_result(call, id)).into_iter().collect();
    }
    let said = call.input.as_array().map_or(&[][..], Vec::as_slice).iter().map(message);
    let answer = (!call.output.is_null()).then(|| {
        let mut answer = call.output.clone();
        answer["role"] = json!("assistant");
        message(&answer)
    });
    said.chain(answer).collect()
}

/// What the model was told of a call that it asked for.
fn tool_result(call: &CallTrace, id: &str) -> Value {
    let content = match (&call.error, &call.output) {
        (Some(error), _) => error.message.clone(),
        (None, Value::String(text)) => text.clone(),
        (None, other) => other.to_string(),
    };
    json!({ "role": "tool", "content": content, "tool_call_id": id, "name": call.name, "status": call.status })
}

fn message(said: &Value) -> Value {
    let mut told = json!({ "role": said["role"], "content": said["text"].as_str().unwrap_or_default() });
    if let Some(calls) = said["calls"].as_array().filter(|calls| !calls.is_empty()) {
        let call = |call: &Value| json!({ "id": call["id"], "name": call["tool"], "arguments": call["arguments"] });
        told["tool_calls"] = calls.iter().map(call).collect();
    }
    if let Some(model) = said.get("model") {
        told["model"] = model.clone();
    }
    told
}

fn status(word: &str) -> &str {
    let any = |statuses: &[RunStatus]| statuses.iter().any(|status| status.word() == word);
    if any(&[RunStatus::Pending, RunStatus::Waiting, RunStatus::Interrupted]) {
        return RunStatus::Running.word();
    }
    if any(&[RunStatus::Cancelled, RunStatus::PartialSuccess]) { RunStatus::Failed.word() } else { word }
}

/// Why a run shows as failed that has no error of its own.
fn reason(word: &str) -> Option<String> {
    (word == RunStatus::Cancelled.word()).then(|| "the run was cancelled".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::*;
    use super::*;
    use crate::runs::trace::StepTrace;

    const FLOW: &str = "name: flow\nagents: { a: { model: sim/x, instructions: hi }, \
                        b: { model: sim/x, instructions: hi, tools: [search_web] } }\nsteps:\n\
                        - { id: write, agent: a }\n- { id: look, agent: b }\n\
                        - { id: enough, stop_if: \"steps.write.output == 'x'\" }\n- { id: last, agent: a }\n";

    #[test]
    fn instances_have_messages_and_an_output_record() {
        let plan = plan(FLOW);
        let mut write = step(&plan, "write", StepStatus::Completed, json!("# Tea"));
        write.calls = vec![model("be brief", "go", "# Tea")];
        let look = step(&plan, "look", StepStatus::Completed, json!({ "markdown": "*x*", "n": 1 }));
        let enough = step(&plan, "enough", StepStatus::Completed, Value::Null);
        let trace = trace(RunStatus::Stopped, vec![write, look, enough]);
        let view = view(&shown(&plan, &trace));
        for (path, expected) in [
            ("/status", json!("stopped")),
            ("/trigger_output/raw_data", json!({ "topic": "tea" })),
            ("/step_instances/0/llm_definition_uuid", json!("write")),
            ("/step_instances/0/status", json!("completed")),
            ("/step_instances/0/started_at", json!("1970-01-01T00:00:01.000Z")),
            ("/step_instances/0/input_data", json!({ "system_prompt": "be brief", "prompt": "go" })),
            ("/step_instances/0/messages/0", json!({ "role": "system", "content": "be brief" })),
            ("/step_instances/0/messages/2", json!({ "role": "assistant", "content": "# Tea", "model": "one-2026" })),
            ("/step_instances/0/output/raw_data", json!("# Tea")),
            ("/step_instances/0/output/summary", json!("# Tea")),
            ("/step_instances/0/output/markdown_representation", json!("# Tea")),
            ("/step_instances/1/agent_definition_uuid", json!("look")),
            ("/step_instances/1/output/markdown_representation", json!("*x*")),
            ("/step_instances/2/checker_definition_uuid", json!("enough")),
            ("/step_instances/3/status", json!("skipped")),
        ] {
            assert_eq!(view.pointer(path), Some(&expected), "{path} in {view:#}");
        }
        let checker = &view["step_instances"][2];
        assert!(checker.get("messages").is_none() && checker.get("output").is_none());
    }

    #[test]
    fn ids_of_outputs_are_derived_and_differ() {
        let plan = plan(FLOW);
        let write = |left_at| StepTrace { left_at, ..step(&plan, "write", StepStatus::Completed, json!("x")) };
        let trace = trace(RunStatus::Completed, vec![write(3_000_001), write(5_000_000)]);
        let ids = |view: &Value| -> Vec<Value> {
            view["step_instances"].as_array().unwrap().iter().map(|i| i["output"]["uuid"].clone()).take(2).collect()
        };
        let (one, two) = (ids(&view(&shown(&plan, &trace))), ids(&view(&shown(&plan, &trace))));
        assert_eq!(one, two);
        assert_ne!(one[0], one[1]);
    }

    #[test]
    fn other_statuses_are_said_in_the_words_of_the_format() {
        for (given, expected) in [
            ("pending", "running"),
            ("waiting", "running"),
            ("cancelled", "failed"),
            ("partial_success", "failed"),
            ("stopped", "stopped"),
        ] {
            assert_eq!(status(given), expected);
        }
    }
}
