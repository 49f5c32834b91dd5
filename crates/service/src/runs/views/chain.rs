//! A run in the words of the chain: executors, the tools they called, tokens, and the final output.
//!
//! An executor is a step that calls an agent, a tool or a workflow; one that is repeated is a single executor with all
//! that its passes did.

use relais_engine::{RunStatus, StepStatus, Stored, Usage, agent_of};
use relais_plan::{LargeValues, Node, NodeId, Op, Plan, Task};
use serde_json::{Value, json};

use super::{Seen, Shown, call_of, instant, ms, run_word, said_to};
use crate::runs::trace::{CallTrace, Tree};

pub(super) fn view(shown: &Shown<'_>) -> Value {
    let trace = shown.trace;
    let executors = Executor::all(shown);
    let mut runs: Vec<Value> = executors.iter().map(|executor| executor.told(shown)).collect();
    if trace.ended_at.is_some() {
        runs.extend(shown.untouched().filter(|(id, _)| is_executor(shown.plan, *id)).map(|(_, node)| never_ran(node)));
    }
    let mut done = executors.iter().filter(|executor| executor.first.step.status == StepStatus::Completed);
    json!({
        "run_id": trace.run,
        "workflow_id": shown.workflow_id(),
        "workflow_name": trace.workflow,
        "user_id": trace.user,
        "thread_id": trace.thread,
        "status": run_word(&trace.status),
        "started_at": instant(trace.started_at),
        "completed_at": trace.ended_at.map(instant),
        "current_executor": done.clone().count(),
        "total_executors": (0..shown.plan.nodes.len()).filter(|id| is_executor(shown.plan, *id as NodeId)).count(),
        "executor_results": executors.iter().filter_map(Executor::result).collect::<Vec<Value>>(),
        "executor_runs": runs,
        "final_output": match &shown.output {
            // What the last one that succeeded gave is kept, whatever came after it; a run that completed says itself.
            Value::Null if trace.status != RunStatus::Completed.word() => done.next_back().map(|executor| executor.first.output.clone()).unwrap_or_default(),
            output => output.clone(),
        },
        "error_message": shown.error_message(),
    })
}

/// One executor: its step, and whatever ran inside it.
struct Executor<'a, 'o> {
    first: Seen<'a, 'o>,
    calls: Vec<&'a CallTrace>,
    usage: Usage,
    /// Further tries and corrections, of itself and inside it.
    retries: u32,
}

impl<'a, 'o> Executor<'a, 'o> {
    fn all(shown: &'o Shown<'a>) -> Vec<Executor<'a, 'o>> {
        let tree = Tree::of(&shown.trace.steps);
        let mut seen: Vec<Option<Seen<'a, 'o>>> = shown.steps().map(Some).collect();
        let mut executors = Vec::new();
        for index in 0..seen.len() {
            let Some(step) = seen[index].take_if(|seen| is_executor(shown.plan, seen.step.place.1)) else { continue };
            let (usage, retries) = (step.step.usage, step.step.retry_count());
            let mut executor = Executor { calls: step.calls().collect(), usage, retries, first: step };
            let mut todo = tree.inside[index].clone();
            while let Some(inner) = todo.pop() {
                todo.extend(&tree.inside[inner]);
                executor.take_in(seen[inner].as_ref());
            }
            executor.calls.sort_by_key(|call| (call.asked_at, call.id));
            executors.push(executor);
        }
        executors
    }

    fn take_in(&mut self, inner: Option<&Seen<'a, 'o>>) {
        if let Some(seen) = inner {
            self.calls.extend(seen.calls());
            self.usage.add(&seen.step.usage);
            self.retries += seen.step.retry_count();
        }
    }

    fn told(&self, shown: &Shown<'_>) -> Value {
        let step = self.first.step;
        let mut told = json!({
            "executor_id": step.key,
            "executor_name": name(self.first.node),
            "status": word(step.status),
            "started_at": instant(step.started_at),
            "completed_at": step.ended_at.map(instant),
            "duration_ms": ms(step.started_at, step.ended_at),
            "model": self.model(),
            "tools_used": self.tools(),
            "tokens": {
                "prompt": self.usage.prompt,
                "completion": self.usage.completion,
                "total": self.usage.prompt + self.usage.completion,
            },
            "tool_calls": self.calls.iter().filter(|call| call.what == "tool").map(|call| tool_call(shown, call)).collect::<Vec<Value>>(),
            "error_message": step.error.as_ref().map(|error| &error.message),
            "retry_count": self.retries,
        });
        if let Some(first) = self.calls.first() {
            give(&mut told, shown, first, received(first));
        }
        match &step.output {
            Some(Stored::Blob(blob)) => {
                told["structured_output_ref"] = reference(shown, &step.key, &blob.hash);
                told["structured_output_summary"] = json!(blob.summary);
            }
            Some(Stored::Value(_)) | None => told["structured_output"] = self.first.output.clone(),
        }
        told
    }

    /// As the executor's own result lists it; none while it goes.
    fn result(&self) -> Option<Value> {
        let step = self.first.step;
        let outcome = match step.status {
            StepStatus::Completed => json!({ "output": self.first.output }),
            StepStatus::Failed | StepStatus::Cancelled => {
                json!({ "error": step.error.as_ref().map_or("cancelled", |error| error.message.as_str()) })
            }
            StepStatus::Skipped | StepStatus::Pending | StepStatus::Running | StepStatus::Waiting => return None,
        };
        let mut result = json!({ "executor_id": step.key, "status": word(step.status) });
        if let (Value::Object(result), Value::Object(outcome)) = (&mut result, outcome) {
            result.extend(outcome);
        }
        Some(result)
    }

    fn model(&self) -> Option<&str> {
        let last = self.calls.iter().rfind(|call| call.what == "model")?;
        let answered = last.output["model"].as_str().filter(|model| !model.is_empty());
        Some(answered.unwrap_or(&last.name))
    }

    fn tools(&self) -> Vec<&str> {
        let mut tools: Vec<&str> = Vec::new();
        for call in self.calls.iter().filter(|call| call.what == "tool") {
            if !tools.contains(&call.name.as_str()) {
                tools.push(&call.name);
            }
        }
        tools
    }
}

fn never_ran(node: &Node) -> Value {
    json!({
        "executor_id": node.key,
        "executor_name": name(node),
        "status": word(StepStatus::Skipped),
        "tool_calls": [],
        "retry_count": 0,
    })
}

/// What an executor was given: its task and what those before it gave, as they stood in what its model was told first.
fn received(call: &CallTrace) -> Value {
    if call.what != "model" {
        return call.input.clone();
    }
    json!({ "system_prompt": said_to(call, "system"), "prompt": said_to(call, "user") })
}

/// A large input is not repeated: where it lies is told, and how it begins.
fn give(told: &mut Value, shown: &Shown<'_>, call: &CallTrace, input: Value) {
    match Stored::new(input, shown.plan.limits.inline_bytes).0 {
        Stored::Value(input) => told["input"] = input,
        Stored::Blob(blob) => {
            let row = format!("{}/{}", shown.trace.run, call.position);
            told["input_ref"] = json!({ "type": "db", "table": "journal_events", "row_id": row });
            told["input_summary"] = json!(blob.summary);
        }
    }
}

fn tool_call(shown: &Shown<'_>, call: &CallTrace) -> Value {
    let mut told = json!({
        "tool": call.name,
        "output": call.output,
        "status": if call.status == "cancelled" { "failed" } else { &*call.status },
        "error_message": call.error.as_ref().map(|error| &error.message),
        "duration_ms": call.answered_at.map(|_| call.ms),
        "started_at": instant(call.asked_at),
        "completed_at": call.answered_at.map(instant),
    });
    give(&mut told, shown, call, call.input.clone());
    told
}

/// Where a value lies that is too large to stand in the journal.
fn reference(shown: &Shown<'_>, executor: &str, hash: &str) -> Value {
    match shown.plan.limits.large_values {
        LargeValues::File => {
            json!({ "type": "file", "path": format!("{}/{}", shown.files, LargeValues::file_name(executor)) })
        }
        LargeValues::Blob => json!({ "type": "db", "table": "blobs", "row_id": hash }),
    }
}

/// A call or a loop that is inside no other loop.
fn is_executor(plan: &Plan, id: NodeId) -> bool {
    let node = plan.node(id);
    let opener = |id: NodeId| plan.regions.get(plan.node(id).region as usize).and_then(|region| region.opener);
    let mut around = std::iter::successors(opener(id), |id| opener(*id));
    let in_loop = around.any(|id| matches!(plan.node(id).op, Op::Each(_)));
    !node.hidden && !in_loop && matches!(node.op, Op::Call(_) | Op::Each(_))
}

fn name(node: &Node) -> &str {
    if let Some(name) = &node.name {
        return name;
    }
    match call_of(node).map(|call| &call.task) {
        Some(Task::Agent { .. }) => agent_of(node).unwrap_or(&node.key),
        Some(Task::Tool { tool, .. }) => tool,
        Some(Task::Workflow { workflow, .. }) => workflow,
        None => &node.key,
    }
}

fn word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Completed => "success",
        StepStatus::Failed | StepStatus::Cancelled => "failed",
        StepStatus::Skipped => "skipped",
        StepStatus::Pending | StepStatus::Running | StepStatus::Waiting => "running",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fixture::*;
    use super::*;
    use relais_engine::{Blob, ErrorKind, Failure};

    const FLOW: &str = "name: flow\nalias: daily_price_monitor\nagents: { a: { model: sim/x, instructions: hi } }\n\
                        steps: [{ id: fetch, agent: a }, { id: compare, agent: a }, { id: tell, agent: a }]\n";

    #[test]
    fn executors_show_what_they_called_and_gave() {
        let plan = plan(FLOW);
        let mut fetch = step(&plan, "fetch", StepStatus::Completed, json!({ "prices": [1] }));
        fetch.usage = Usage { prompt: 12, completion: 8, ..Usage::default() };
        fetch.attempts = 2;
        let search = call("tool", "search_web", "success", json!({ "query": "x" }), json!({ "results": [] }));
        fetch.calls = vec![model("be brief", "go", "ok"), search];
        let mut compare = failed(step(&plan, "compare", StepStatus::Failed, Value::Null), "no answer after 120s");
        let mut query = call("tool", "query_db", "timeout", json!({ "sql": "SELECT" }), Value::Null);
        query.error = Some(Failure::new(ErrorKind::Timeout, "Query timed out"));
        compare.calls = vec![query];
        let mut trace = trace(RunStatus::PartialSuccess, vec![fetch, compare]);
        trace.error = Some(Failure::new(ErrorKind::Tool, "no answer after 120s"));
        let view = view(&shown(&plan, &trace));
        for (path, expected) in [
            ("/workflow_id", json!("daily_price_monitor")),
            ("/status", json!("partial_success")),
            ("/started_at", json!("1970-01-01T00:00:00.000Z")),
            ("/final_output", json!({ "prices": [1] })),
            ("/current_executor", json!(1)),
            ("/total_executors", json!(3)),
            ("/error_message", json!("no answer after 120s")),
            ("/executor_runs/0/status", json!("success")),
            ("/executor_runs/0/duration_ms", json!(2_000)),
            ("/executor_runs/0/tokens", json!({ "prompt": 12, "completion": 8, "total": 20 })),
            ("/executor_runs/0/model", json!("one-2026")),
            ("/executor_runs/0/tools_used", json!(["search_web"])),
            ("/executor_runs/0/structured_output", json!({ "prices": [1] })),
            ("/executor_runs/0/retry_count", json!(1)),
            ("/executor_runs/0/input", json!({ "system_prompt": "be brief", "prompt": "go" })),
            ("/executor_runs/0/tool_calls/0/output", json!({ "results": [] })),
            ("/executor_runs/0/tool_calls/0/duration_ms", json!(400)),
            ("/executor_runs/1/error_message", json!("no answer after 120s")),
            ("/executor_runs/1/tool_calls/0/status", json!("timeout")),
            ("/executor_runs/1/tool_calls/0/error_message", json!("Query timed out")),
            ("/executor_runs/2/status", json!("skipped")),
            (
                "/executor_results/0",
                json!({ "executor_id": "fetch", "status": "success", "output": { "prices": [1] } }),
            ),
            (
                "/executor_results/1",
                json!({ "executor_id": "compare", "status": "failed", "error": "no answer after 120s" }),
            ),
        ] {
            assert_eq!(view.pointer(path), Some(&expected), "{path} in {view:#}");
        }
        assert_eq!(view["executor_results"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn executors_go_by_their_names() {
        let plan = plan(
            "name: flow\nagents: { a: { model: sim/x, instructions: hi } }\n\
             steps: [{ id: one, name: Fetcher, agent: a }, { id: two, agent: a }, { id: three, name: Last, agent: a }]\n",
        );
        let step = |key: &str| step(&plan, key, StepStatus::Completed, json!(1));
        let trace = trace(RunStatus::Failed, vec![step("one"), step("two")]);
        let view = view(&shown(&plan, &trace));
        for (number, expected) in [(0, "Fetcher"), (1, "a"), (2, "Last")] {
            assert_eq!(view["executor_runs"][number]["executor_name"], expected);
        }
    }

    #[test]
    fn large_outputs_are_references() {
        for (setting, expected) in [
            ("", json!({ "type": "db", "table": "blobs", "row_id": "h" })),
            ("large_values: file\n", json!({ "type": "file", "path": "files/executor_fetch.json" })),
        ] {
            let plan = plan(&format!("{setting}{FLOW}"));
            let mut fetch = step(&plan, "fetch", StepStatus::Completed, json!(1));
            fetch.output =
                Some(Stored::Blob(Blob { hash: "h".into(), bytes: 9, summary: "first words".into(), told: None }));
            let trace = trace(RunStatus::Completed, vec![fetch]);
            let view = view(&shown(&plan, &trace));
            let executor = &view["executor_runs"][0];
            assert_eq!(executor["structured_output_ref"], expected);
            assert_eq!(executor["structured_output_summary"], "first words");
            assert!(executor.get("structured_output").is_none());
        }
    }

    #[test]
    fn a_completed_run_has_its_own_output_and_no_other() {
        let plan = plan(FLOW);
        for (status, expected) in [(RunStatus::Completed, json!(null)), (RunStatus::PartialSuccess, json!(1))] {
            let trace = trace(status, vec![step(&plan, "fetch", StepStatus::Completed, json!(1))]);
            assert_eq!(view(&shown(&plan, &trace))["final_output"], expected);
        }
    }

    #[test]
    fn a_repeated_executor_is_one_with_all_its_calls() {
        let plan = plan(
            "name: flow\nagents: { a: { model: sim/x, instructions: hi } }\n\
             steps: [{ id: all, for_each: input.list, do: [{ id: one, agent: a }] }]\n",
        );
        let pass = |number: u32| {
            let mut step = step(&plan, &format!("all[{number}]/one"), StepStatus::Completed, json!(number));
            step.usage = Usage { prompt: 1, completion: 1, ..Usage::default() };
            step.calls = vec![call("tool", "look", "success", json!(number), json!(number))];
            step
        };
        let block = step(&plan, "all", StepStatus::Completed, json!({ "results": [0, 1] }));
        let trace = trace(RunStatus::Stopped, vec![block, pass(0), pass(1)]);
        let view = view(&shown(&plan, &trace));
        assert_eq!(view["status"], "completed");
        assert_eq!(view["total_executors"], 1);
        assert_eq!(view["executor_runs"].as_array().unwrap().len(), 1);
        assert_eq!(view["executor_runs"][0]["tokens"]["total"], 4);
        assert_eq!(view["executor_runs"][0]["tool_calls"].as_array().unwrap().len(), 2);
    }
}
