//! Call: a tool called directly, a child run; agents have a file of their own.

use relais_plan::{Call, Effect, Schema, Task};
use serde_json::Value;

use crate::book::{Allotment, Want};
use crate::command::*;
use crate::decide::{Again, Events, Step, Unready};
use crate::event::*;
use crate::run::*;

/// Runs may call runs so deep.
pub const MAX_DEPTH: u32 = 10;

pub(crate) fn decide(step: Step<'_>, instance: &Instance, call: &Call) -> Events {
    if let Task::Agent { agent, prompt } = &call.task {
        return crate::agent::decide(step, instance, call, agent, prompt.as_ref());
    }
    match &instance.work {
        Work::Fresh if step.run.paused => Ok(Vec::new()),
        Work::Fresh => match ask(step, call) {
            Ok(event) => Ok(vec![event]),
            Err(unready) => step.unready(unready),
        },
        Work::Answered(answer) => answered(step, call, answer),
        Work::Received(_) if step.run.paused => Ok(Vec::new()),
        Work::Received(verdict) => approved(step, call, verdict),
        Work::Asked(_) | Work::Resting(_) | Work::Rested => Ok(Vec::new()),
        Work::Chose(_) | Work::Agent(_) | Work::Fan(_) | Work::Each(_) => Ok(Vec::new()),
    }
}

fn ask(step: Step<'_>, call: &Call) -> Result<Event, Unready> {
    match &call.task {
        Task::Tool { tool, with } => ask_tool(step, tool, step.render(with)?),
        Task::Workflow { workflow, plan } => ask_run(step, call, workflow, plan),
        Task::Agent { .. } => Err(Unready::Fail(Failure::new(ErrorKind::Internal, "an agent is not asked here"))),
    }
}

fn ask_tool(step: Step<'_>, tool: &str, arguments: Value) -> Result<Event, Unready> {
    if !arguments.is_object() {
        let message = format!("`with` of `{}` must give a map, not {}", step.plan().key, kind_of(&arguments));
        return Err(Unready::Fail(Failure::new(ErrorKind::Schema, message)));
    }
    if step.ctx.program.rule(tool).and_then(|r| r.approve).unwrap_or(false) {
        let (id, tool) = (String::new(), tool.to_owned());
        let call = ToolUse { id, tool, arguments, garbled: None, opaque: None };
        return Ok(step.ask(crate::agent::approval(step, call)));
    }
    call_tool(step, tool, arguments)
}

/// A person has spoken about the call of a tool step.
fn approved(step: Step<'_>, call: &Call, verdict: &Value) -> Events {
    let Task::Tool { tool, .. } = &call.task else { return Ok(Vec::new()) };
    if verdict["approve"] != Value::Bool(true) {
        let reason = verdict["reason"].as_str().filter(|r| !r.is_empty()).map(|r| format!(": {r}"));
        let message = format!("a person said no to the call of `{tool}`{}", reason.unwrap_or_default());
        return step.fail(Failure::new(ErrorKind::Refused, message), Again::Never);
    }
    match call_tool(step, tool, verdict["arguments"].clone()) {
        Ok(event) => Ok(vec![event]),
        Err(unready) => step.unready(unready),
    }
}

fn call_tool(step: Step<'_>, tool: &str, arguments: Value) -> Result<Event, Unready> {
    let want = Want { tool_calls: 1, ..Want::default() };
    step.run.room(step.ctx.program, (step.scope, step.node), want).map_err(Unready::Fail)?;
    let effect = effect_of(step, tool, &arguments);
    Ok(step.ask(Command::CallTool { tool: tool.to_owned(), arguments, effect, use_id: None }))
}

pub(crate) fn effect_of(step: Step<'_>, tool: &str, arguments: &Value) -> Effect {
    step.ctx.program.effect(tool, step.ctx.catalog.effect(tool, arguments))
}

fn ask_run(step: Step<'_>, call: &Call, workflow: &str, plan: &str) -> Result<Event, Unready> {
    let depth = step.run.opened.parent.as_ref().map_or(0, |p| p.depth) + 1;
    if depth > MAX_DEPTH {
        let message = format!("workflows call each other more than {MAX_DEPTH} deep at `{}`", step.plan().key);
        return Err(Unready::Fail(Failure::new(ErrorKind::Limit, message)));
    }
    let input = match &call.input {
        Some(template) => step.render(template)?,
        None => Value::Object(Default::default()),
    };
    check_input(step, call.input_schema.as_ref(), &input)?;
    let id = step.run.next_command;
    let run = uuid::Uuid::new_v5(&step.run.id(), format!("run/{id}").as_bytes());
    let budget = step.run.allotment();
    let start = StartRun {
        run,
        workflow: workflow.into(),
        plan: plan.into(),
        input: Stored::Value(input),
        budget,
        depth,
        paid: Usage::default(),
    };
    Ok(step.ask(Command::StartRun(Box::new(start))))
}

/// The input of a step against the schema of whoever takes it.
pub(crate) fn check_input(step: Step<'_>, schema: Option<&Schema>, input: &Value) -> Result<(), Unready> {
    let Some(schema) = schema else { return Ok(()) };
    schema.check(input).map_err(|violations| {
        let what = format!("Node '{}' input", step.plan().key);
        Unready::Fail(Failure::misfit(&what, schema, &violations, input))
    })
}

fn answered(step: Step<'_>, call: &Call, answer: &Answer) -> Events {
    match &answer.body {
        Body::Returned { value, .. } => returned(step, call, value),
        Body::Ended { status, output, error } => match more_budget(step, error.as_ref(), &answer.usage) {
            Some(again) => Ok(vec![again]),
            None => ended(step, *status, output, error.as_ref()),
        },
        Body::Failed(failure) => step.fail(failure.clone(), Again::Allowed),
        Body::Cancelled => {
            let failure = Failure::new(ErrorKind::Cancelled, "the call was cancelled from outside");
            step.fail(failure, Again::Never)
        }
        Body::Replied(_) | Body::Slept => {
            let failure = Failure::new(ErrorKind::Internal, "an answer of the wrong kind came to a call");
            step.fail(failure, Again::Never)
        }
    }
}

fn returned(step: Step<'_>, call: &Call, value: &Stored) -> Events {
    let Some(schema) = &call.output_schema else { return step.complete(Some(value.clone()), None) };
    let view = step.view();
    let checked = match view.stored(value) {
        Ok(value) => schema.check(&value).map_err(|violations| {
            let what = format!("Node '{}' output", step.plan().key);
            Failure::misfit(&what, schema, &violations, &value)
        }),
        Err(error) => return step.unready(error.into()),
    };
    match checked {
        Ok(()) => step.complete(Some(value.clone()), None),
        Err(failure) => step.fail(failure, Again::Allowed),
    }
}

/// A child that came back short of budget goes on with more, as long as there is some and it gets somewhere with it.
fn more_budget(step: Step<'_>, error: Option<&Failure>, used: &Usage) -> Option<Event> {
    let child = step.instance()?.child.as_ref()?;
    if error?.kind != ErrorKind::Budget || used.is_zero() {
        return None;
    }
    let budget = child.budget.plus(&step.run.allotment());
    if budget == child.budget {
        return None;
    }
    let mut paid = child.paid;
    paid.add(used);
    Some(step.ask(Command::StartRun(Box::new(StartRun { budget, paid, ..(**child).clone() }))))
}

/// A child that stopped is a child that completed, to its parent.
fn ended(step: Step<'_>, status: RunStatus, output: &Stored, error: Option<&Failure>) -> Events {
    if status.is_success() {
        return step.complete(Some(output.clone()), None);
    }
    let inner = error.cloned().unwrap_or_else(|| Failure::new(ErrorKind::Cancelled, "no reason was given"));
    let message = format!("the run of `{}` ended as {}: {}", step.plan().key, status.word(), inner.message);
    step.fail(Failure::new(inner.kind, message), Again::Allowed)
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
