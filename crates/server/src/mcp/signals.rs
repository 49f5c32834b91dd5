//! Tools that say something to a run besides cancel, resume and answer: pause, retry, fork, signal.

use relais_mcp::serving::{Given, Trouble};
use relais_plan::Budget;
use relais_service::access::Scope;
use relais_service::{Fork, Format};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Guest;
use super::arguments::Arguments;
use super::attend::{Attended, DEFAULT_WAIT_S, attend};
use super::render::{self, given};
use super::runs::{run_names, wait_seconds, wanted, with, without_dashes};
use super::tools::{Effect, Spec, text};
use super::trouble::trouble;
use crate::api::budget::Budget as Written;

/// A run that was paused comes to rest when what is under way has ended.
const PAUSE_WAIT_S: u64 = 5;

pub fn budget_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "usd": { "type": "number", "minimum": 0 },
            "tokens": { "type": "integer", "minimum": 0 },
            "model_calls": { "type": "integer", "minimum": 0 },
            "tool_calls": { "type": "integer", "minimum": 0 },
            "time": { "type": "string", "description": "Such as 10m." },
        },
        "description": "What the whole run may use from now on, in place of its own budget: usd, tokens, model_calls, tool_calls, time.",
    })
}

pub fn budget(arguments: &mut Arguments) -> Result<Budget, Trouble> {
    let Some(written) = arguments.0.remove("budget").filter(|given| !given.is_null()) else {
        return Ok(Budget::default());
    };
    let written = Written::deserialize(written).map_err(|error| Trouble::Invalid(format!("budget: {error}")))?;
    written.checked().map_err(Trouble::Invalid)
}

pub fn pause_spec() -> Spec {
    Spec {
        name: "pause_run",
        title: "Pause a run",
        about: "Pauses a run: nothing new begins, what is under way ends and is kept. Use it when somebody wants to look \
                at a run before it goes on. Answers the run as it then stands; resume_run goes on where it was.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\"}",
        takes: run_names(),
        required: &[],
        scope: Scope::Run,
        effect: Effect::Sets,
    }
}

pub async fn pause(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    guest.service.pause(run).await.map_err(trouble)?;
    let row = attend(&guest.service, run, Some(PAUSE_WAIT_S), client).await?;
    Ok(given(with(render::row_of_graph(&row), json!({ "run_id": run }))))
}

fn redo() -> Value {
    json!({ "type": "boolean", "default": false,
        "description": "Make calls again that were made after that step and may be made once only." })
}

pub fn retry_spec() -> Spec {
    Spec {
        name: "retry_run",
        title: "Run again from a step",
        about: "Runs an ended run again from one of its steps on: what came before is kept, the step and what depends on \
                it run again, with the definition that the run began with. Use it when a step gave a bad result and \
                trying again may help; resume_run goes on at the first unfinished step instead, fork_run leaves the \
                run as it is. get_run shows the steps. Waits like run_workflow and answers the run.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\", \"from\": \"compare\"}",
        takes: with(
            run_names(),
            json!({
                "from": text("The step to begin with; inside a loop its path, loop[2]/fetch."),
                "redo": redo(),
                "wait_seconds": wait_seconds(DEFAULT_WAIT_S),
            }),
        ),
        required: &["from"],
        scope: Scope::Run,
        effect: Effect::Sets,
    }
}

pub async fn retry(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let from = arguments.must(&["from"], "the step to begin with; get_run shows the steps")?;
    let redo = arguments.flag("redo").unwrap_or(false);
    guest.service.retry(run, &from, redo).await.map_err(without_dashes)?;
    let row = attend(&guest.service, run, arguments.number("wait_seconds"), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}

pub fn fork_spec() -> Spec {
    Spec {
        name: "fork_run",
        title: "Fork a run",
        about: "Starts a new run that shares what an ended run did before a step, and goes its own way from there: with \
                other input fields, another model, or the present version of a workflow. Use it to try a change \
                without paying again for what came before; the old run stays as it is. Waits like run_workflow and \
                answers the new run.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\", \"from\": \"write\", \"input\": {\"tone\": \"dry\"}}",
        takes: with(
            run_names(),
            json!({
                "from": text("The step from which on the new run goes its own way."),
                "input": { "type": "object", "description": "Input fields that are different." },
                "model": text("The model of all agents from there on, provider/model."),
                "workflow_id": text("Go on with the present version of this workflow: id, alias or name."),
                "redo": redo(),
                "wait_seconds": wait_seconds(DEFAULT_WAIT_S),
            }),
        ),
        required: &["from"],
        scope: Scope::Run,
        effect: Effect::Adds,
    }
}

pub async fn fork(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let from = arguments.must(&["from"], "the step to begin with; get_run shows the steps")?;
    let input: Option<Map<String, Value>> = arguments.0.remove("input").and_then(|input| input.as_object().cloned());
    let model = arguments.text(&["model"])?;
    let definition = match arguments.text(&["workflow_id"])? {
        Some(workflow) => {
            let workflow = guest.workflow(&workflow).await?;
            Some(guest.service.startable(&workflow.it, None, None).await.map_err(trouble)?)
        }
        None => None,
    };
    let fork = Fork { from, input, model, definition, redo: arguments.flag("redo").unwrap_or(false) };
    let forked = guest.service.fork(run, fork).await.map_err(without_dashes)?;
    let row = attend(&guest.service, forked, arguments.number("wait_seconds"), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}

pub fn signal_spec() -> Spec {
    Spec {
        name: "signal_run",
        title: "Send a signal to a run",
        about: "Gives a named signal, with a value if you like, to a run whose `wait` names it, now or later. Use it when \
                get_run shows that the run waits for `signal:NAME` and what it waits for has happened. Waits like \
                run_workflow and answers the run.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\", \"name\": \"go\", \"value\": {\"by\": \"ops\"}}",
        takes: with(
            run_names(),
            json!({
                "name": text("The name of the signal."),
                "value": { "description": "What the step that waits for it gives as its output." },
                "wait_seconds": wait_seconds(DEFAULT_WAIT_S),
            }),
        ),
        required: &["name"],
        scope: Scope::Run,
        effect: Effect::Adds,
    }
}

pub async fn signal(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let name = arguments.must(&["name"], "the name of the signal that the run waits for")?;
    let value = arguments.0.remove("value").unwrap_or_default();
    guest.service.send(run, &name, value).await.map_err(trouble)?;
    let row = attend(&guest.service, run, arguments.number("wait_seconds"), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}
