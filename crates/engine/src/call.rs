//! Call: a tool called directly, a child run; agents have a file of their own.

use relais_plan::{Call, Effect, Schema, Task};
use serde_json::Value;

use crate::book::{Allotment, Room, Want};
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
        Work::Fresh => asked(step, ask(step, call)),
        Work::Answered(answer) => answered(step, call, answer),
        Work::Received(_) if step.run.paused => Ok(Vec::new()),
        Work::Received(verdict) => approved(step, call, verdict),
        Work::Asked(_) | Work::Resting(_) | Work::Rested => Ok(Vec::new()),
        Work::Chose(_) | Work::Agent(_) | Work::Fan(_) | Work::Each(_) => Ok(Vec::new()),
    }
}

/// Nothing is asked while the budget is short and something may come back.
type Asked = Result<Option<Event>, Unready>;

fn asked(step: Step<'_>, asked: Asked) -> Events {
    match asked {
        Ok(event) => Ok(event.into_iter().collect()),
        Err(unready) => step.unready(unready),
    }
}

fn ask(step: Step<'_>, call: &Call) -> Asked {
    match &call.task {
        Task::Tool { tool, with } => ask_tool(step, tool, step.render(with)?),
        Task::Workflow { workflow, plan, takes } => ask_run(step, call, (workflow, plan), takes.as_ref()),
        Task::Agent { .. } => Err(Unready::Fail(Failure::new(ErrorKind::Internal, "an agent is not asked here"))),
    }
}

fn ask_tool(step: Step<'_>, tool: &str, arguments: Value) -> Asked {
    if !arguments.is_object() {
        let message = format!("`with` of `{}` must give a map, not {}", step.plan().key, kind_of(&arguments));
        return Err(Unready::Fail(Failure::new(ErrorKind::Schema, message)));
    }
    if step.ctx.program.rule(tool).and_then(|r| r.approve).unwrap_or(false) {
        let (id, tool) = (String::new(), tool.to_owned());
        let call = ToolUse { id, tool, arguments, garbled: None, opaque: None };
        return Ok(Some(step.ask(crate::agent::approval(step, call))));
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
    asked(step, call_tool(step, tool, verdict["arguments"].clone()))
}

fn call_tool(step: Step<'_>, tool: &str, arguments: Value) -> Asked {
    let want = Want { tool_calls: 1, ..Want::default() };
    match step.run.room(step.ctx.program, (step.scope, step.node), want) {
        Room::Enough => {}
        Room::Later => return Ok(None),
        Room::Short(failure) => return Err(Unready::Fail(failure)),
    }
    let effect = effect_of(step, tool, &arguments);
    Ok(Some(step.ask(Command::CallTool { tool: tool.to_owned(), arguments, effect, use_id: None })))
}

pub(crate) fn effect_of(step: Step<'_>, tool: &str, arguments: &Value) -> Effect {
    step.ctx.program.effect(tool, step.ctx.catalog.effect(tool, arguments))
}

fn ask_run(step: Step<'_>, call: &Call, (workflow, plan): (&str, &str), takes: Option<&Schema>) -> Asked {
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
    check_input(step, takes, &input)?;
    if step.run.is_used_up() && step.run.may_get_back() {
        return Ok(None);
    }
    let budget = step.run.share();
    let id = step.run.next_command;
    let run = uuid::Uuid::new_v5(&step.run.id(), format!("run/{id}").as_bytes());
    let start = StartRun {
        run,
        workflow: workflow.into(),
        plan: plan.into(),
        input: Stored::Value(input),
        budget,
        depth,
        paid: Usage::default(),
    };
    Ok(Some(step.ask(Command::StartRun(Box::new(start)))))
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
        Body::Ended { error: Some(failure), .. } if failure.kind == ErrorKind::Budget => {
            short_child(step, failure, &answer.usage)
        }
        Body::Ended { status, output, error } => ended(step, *status, output, error.as_ref()),
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

/// A child that came back short of budget goes on with more, as long as there is some or some may come back.
fn short_child(step: Step<'_>, failure: &Failure, used: &Usage) -> Events {
    let Some(child) = step.instance().and_then(|instance| instance.child.as_ref()) else {
        return ended(step, RunStatus::Failed, &Stored::null(), Some(failure));
    };
    let budget = child.budget.plus(&step.run.more(used));
    if budget != child.budget {
        let mut paid = child.paid;
        paid.add(used);
        return Ok(vec![step.ask(Command::StartRun(Box::new(StartRun { budget, paid, ..(**child).clone() })))]);
    }
    if step.run.may_get_back() {
        return Ok(Vec::new());
    }
    let spent = step.run.spent(step.ctx.program);
    let message = format!("{}; of the run that called it {spent}", failure.message);
    ended(step, RunStatus::Failed, &Stored::null(), Some(&Failure::new(ErrorKind::Budget, message)))
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
