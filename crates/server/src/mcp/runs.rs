//! Tools for runs: started and waited for, looked at, listed, cancelled, resumed, answered.

use relais_engine::{Mode, RunId, RunStatus};
use relais_mcp::serving::{Given, Trouble};
use relais_service::access::Scope;
use relais_service::{Filter, Format, ResumeWith, Row, Start, Waits};
use serde_json::{Value, json};

use super::Guest;
use super::arguments::{Arguments, RUN, WORKFLOW};
use super::attend::{Attended, MAX_WAIT_S, attend};
use super::render::{self, given};
use super::tools::{Effect, Spec, limit, same_as, text, user_id};
use super::trouble::trouble;

const WHERE_WORKFLOWS: &str = "the id, alias or name of a workflow; list_workflows lists them";
const WHERE_RUNS: &str = "the id of a run; list_runs lists the newest";
const DEFAULT_LISTED: u64 = 20;
/// As the tool has been described from the beginning.
const DEFAULT_FAILED: u64 = 10;

pub fn wait_seconds() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT_S,
        "description": "How long to wait for the end, at most; left out, until it has ended. 0 answers at once." })
}

/// Of a tool that looks: it waits only if it is asked to.
fn look_seconds() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "default": 0,
        "description": "How long to wait for the end; left out or 0, it answers at once." })
}

fn simulate() -> Value {
    json!({ "type": "boolean", "default": false,
        "description": "Made-up answers in place of every model and tool: costs nothing, changes nothing. Required input that is not given is made up, too; `made_up` names it." })
}

fn tags() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" },
        "description": "Words of your own that the run is found by, such as {\"team\": \"sales\"}; list_runs filters by them." })
}

/// The texts of an object.
pub fn tags_of(arguments: &mut Arguments) -> relais_plan::tags::Tags {
    let given = arguments.0.remove("tags").and_then(|tags| tags.as_object().cloned()).unwrap_or_default();
    given.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
}

pub fn run_spec() -> Spec {
    Spec {
        name: "run_workflow",
        title: "Run a workflow now",
        about: "Runs a workflow now and answers when it has ended, with progress meanwhile where you ask for it. Use it \
                when the result is wanted in this conversation. Answers run_id, status (completed, failed, partial_success, running, waiting, …), final_output, the \
                result of each executor, and error_message. If it asks a person, or you gave wait_seconds and it takes longer, the \
                answer says so in `next`: the run goes on, and get_run or answer_run take its run_id. Cancelling this \
                call does not cancel the run; cancel_run does.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"input\": {\"products\": [\"lamp\"]}}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "input": { "type": "object", "description": "The workflow's input, as its input schema says; get_workflow shows it." },
            "thread_id": text("The conversation that the run belongs to; may be left out."),
            "tags": tags(),
            "user_id": user_id(),
            "simulate": simulate(),
            "wait_seconds": wait_seconds(),
        }),
        required: &[],
        scope: Scope::Run,
        effect: Effect::Adds,
    }
}

pub async fn run(guest: &Guest, arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    started(guest, arguments, None, client, Format::Chain).await
}

pub fn execute_spec() -> Spec {
    Spec {
        name: "execute_workflow",
        title: "Execute a workflow or one of its branches",
        about: "Executes a workflow's main graph, or with branchId one of its branches, and waits for the end. Use it \
                for workflows made of nodes and edges. Answers the run: id, targetId, targetBranchId, status, output, \
                trail (each agent's input and output, in order) and error; `next` says what can be done. With \
                wait_seconds 0 it answers at once and get_run shows the rest.\n\
                Example: {\"id\": \"Support desk\", \"branchId\": \"nightly\", \"input\": {\"topic\": \"refunds\"}}",
        takes: json!({
            "id": text("Id, alias or name of the workflow."),
            "workflowId": same_as("id"),
            "workflow_id": same_as("id"),
            "branchId": text("The branch to run; left out, the main nodes and edges run."),
            "branch_id": same_as("branchId"),
            "input": { "type": ["object", "string"], "description": "What the first agents get; text becomes {\"prompt\": text}." },
            "threadId": text("The conversation that the run belongs to; may be left out."),
            "thread_id": same_as("threadId"),
            "tags": tags(),
            "user_id": user_id(),
            "simulate": simulate(),
            "wait_seconds": wait_seconds(),
        }),
        required: &[],
        scope: Scope::Run,
        effect: Effect::Adds,
    }
}

pub async fn execute(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let branch = arguments.text(&["branchId", "branch_id"])?;
    started(guest, arguments, branch, client, Format::Graph).await
}

async fn started(
    guest: &Guest,
    mut arguments: Arguments,
    branch: Option<String>,
    client: &Attended,
    words: Format,
) -> Result<Given, Trouble> {
    let workflow = arguments.must(WORKFLOW, WHERE_WORKFLOWS)?;
    let input = match arguments.0.remove("input") {
        Some(Value::String(prompt)) => json!({ "prompt": prompt }),
        other => other.unwrap_or_default(),
    };
    let thread = arguments.text(&["thread_id", "threadId"])?.unwrap_or_default();
    let simulate = arguments.flag("simulate").unwrap_or(false);
    let tags = tags_of(&mut arguments);
    let wait = arguments.number("wait_seconds");
    let start = Start { input, mode: Mode { simulate, ..Mode::default() }, thread, tags, ..Start::default() };
    let run = match guest.service.start_workflow(&workflow, branch.as_deref(), None, start).await {
        Ok(run) => run,
        Err(error) => return Err(guest.missing_workflow(&workflow, error).await),
    };
    let row = attend(&guest.service, run, wait, client).await?;
    ended(guest, row, words).await
}

/// A run that was started by this call, as far as it has come.
pub async fn ended(guest: &Guest, row: Row, words: Format) -> Result<Given, Trouble> {
    let others = render::also_going(&guest.service, &row).await?;
    let (target, is_waiting) = (render::target(&row).to_owned(), row.summary.status == RunStatus::Waiting);
    let drift = row.summary.target.drift.clone();
    let mut shown = render::run(&guest.service, row, words).await?;
    // The calls of each executor are for who looks closer: get_workflow_run has them.
    shown.remove("executor_runs");
    shown.insert("workflow_id".into(), json!(target));
    if let Some(drift) = drift {
        shown.insert("warning".into(), json!(drift));
    }
    if is_waiting {
        // Formats without a word for it show it as running, and whoever reads that would wait for nothing.
        shown.insert("status".into(), json!(RunStatus::Waiting.word()));
    }
    if !others.is_empty() {
        shown.insert("also_going".into(), json!(others));
    }
    Ok(given(shown.into()))
}

pub fn run_names() -> Value {
    json!({
        "id": text("Id of the run; the first or last eight characters will do."),
        "run_id": same_as("id"),
        "runId": same_as("id"),
        "user_id": user_id(),
    })
}

pub fn with(mut takes: Value, more: Value) -> Value {
    if let (Value::Object(takes), Value::Object(more)) = (&mut takes, more) {
        takes.extend(more);
    }
    takes
}

pub fn get_spec() -> Spec {
    Spec {
        name: "get_run",
        title: "Look at a run",
        about: "Shows one run: status, input, output, trail (each agent's input, output and error, in order), error, \
                open questions, and in `next` what can be done about it. Use it to see how a run ended or what went \
                wrong; with wait_seconds it waits until the run has ended or asks something. targetId is the workflow \
                for get_workflow, agentId in the trail the agent for get_agent.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\", \"wait_seconds\": 30}",
        takes: with(run_names(), json!({ "wait_seconds": look_seconds() })),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn get(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let row = attend(&guest.service, run, Some(arguments.number("wait_seconds").unwrap_or(0)), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}

pub fn get_workflow_run_spec() -> Spec {
    Spec {
        name: "get_workflow_run",
        title: "Trace a run",
        about: "Shows the execution history of one run for troubleshooting: each executor (or step) with its status, \
                duration, tokens, output and error, and every tool call with input, output and error. get_run shows the \
                same run shorter.\n\
                Example: {\"run_id\": \"0190a0b0-c0d0-7000-8000-00000000000a\"}",
        takes: run_names(),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn get_workflow_run(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let row = guest.service.row(run).await.map_err(trouble)?;
    Ok(given(render::run(&guest.service, row, Format::Chain).await?.into()))
}

/// The run that is meant.
pub async fn wanted(guest: &Guest, arguments: &mut Arguments) -> Result<RunId, Trouble> {
    let text = arguments.must(RUN, WHERE_RUNS)?;
    match guest.service.find_run(Some(&text)).await {
        Ok(run) => Ok(run),
        Err(error) => Err(guest.missing_run(error).await),
    }
}

pub fn list_spec() -> Spec {
    Spec {
        name: "list_runs",
        title: "List runs",
        about: "Lists the newest runs first: id, workflow, targetId, status, times and error of each. Use it to find \
                the run that somebody talks about; then get_run shows it. `next`, if there is one, is the cursor of \
                the next page.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"status\": \"failed\", \"limit\": 5}",
        takes: json!({
            "workflow_id": text("Only runs of this workflow: id, alias or name."),
            "workflowId": same_as("workflow_id"),
            "status": { "enum": RunStatus::shown().map(RunStatus::word).collect::<Vec<_>>(), "description": "Only runs of this status." },
            "tags": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Only runs with all of these tags." },
            "error": text("Only runs that ended with an error of this kind, such as timeout."),
            "limit": limit(DEFAULT_LISTED),
            "cursor": text("`next` of the page before."),
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn list(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let word = arguments.text(&["status"])?;
    let status = word.as_deref().and_then(RunStatus::named).into_iter().collect();
    let (rows, next) = page(guest, &mut arguments, status, DEFAULT_LISTED).await?;
    let runs: Vec<Value> = rows.iter().map(render::row_of_graph).collect();
    Ok(given(json!({ "runs": runs, "next": next })))
}

pub fn list_failed_spec() -> Spec {
    Spec {
        name: "list_failed_runs",
        title: "List failed runs",
        about: "Lists runs that failed or succeeded only in part, newest first: run_id, workflow_id, workflow_name, \
                status, times and error_message. Use it to begin troubleshooting; get_workflow_run then shows what each \
                executor did, get_run what each agent said.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"limit\": 10}",
        takes: json!({
            "user_id": user_id(),
            "workflow_id": text("Only runs of this workflow: id, alias or name."),
            "workflowId": same_as("workflow_id"),
            "limit": limit(DEFAULT_FAILED),
            "cursor": text("`next` of the page before."),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn list_failed(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let status = vec![RunStatus::Failed, RunStatus::PartialSuccess];
    let (rows, next) = page(guest, &mut arguments, status, DEFAULT_FAILED).await?;
    let runs: Vec<Value> = rows.iter().map(render::row_of_chain).collect();
    Ok(given(json!({ "runs": runs, "next": next })))
}

async fn page(
    guest: &Guest,
    arguments: &mut Arguments,
    status: Vec<RunStatus>,
    default: u64,
) -> Result<(Vec<Row>, Option<String>), Trouble> {
    let limit = usize::try_from(arguments.number("limit").unwrap_or(default)).unwrap_or(1);
    let cursor = arguments.text(&["cursor"])?;
    let workflow_id = match arguments.text(&["workflow_id", "workflowId"])? {
        Some(text) => Some(guest.workflow(&text).await?.it.id.to_string()),
        None => None,
    };
    let tags: Vec<String> = tags_of(arguments).iter().map(|(key, value)| format!("{key}={value}")).collect();
    let marks = relais_service::marks(&tags, arguments.text(&["error"])?.as_deref()).map_err(trouble)?;
    let filter = Filter { workflow_id, status, marks, cursor, limit, ..Filter::default() };
    let found = guest.service.runs(filter).await.map_err(trouble)?;
    Ok((found.rows, found.cursor))
}

pub fn cancel_spec() -> Spec {
    Spec {
        name: "cancel_run",
        title: "Cancel a run",
        about: "Cancels a run that is going or waiting: nothing new begins, its exit steps still run. Use it when \
                somebody wants a run to stop. Answers the run as it then stands; resume_run can take it up again.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\"}",
        takes: run_names(),
        required: &[],
        scope: Scope::Run,
        effect: Effect::Ends,
    }
}

/// The body of a cancelled run ends within some seconds.
const CANCEL_WAIT_S: u64 = 5;

pub async fn cancel(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    guest.service.cancel(run).await.map_err(trouble)?;
    let row = attend(&guest.service, run, Some(CANCEL_WAIT_S), client).await?;
    Ok(given(with(render::row_of_graph(&row), json!({ "run_id": run }))))
}

pub fn resume_spec() -> Spec {
    Spec {
        name: "resume_run",
        title: "Resume a run",
        about: "Goes on with a run that failed, was cancelled or paused: finished steps keep their outputs, the first \
                unfinished one is tried again, with the definition that the run began with. Use it after a fault \
                outside the workflow was mended (a key, a service), or with a larger `budget` after the run failed \
                because its budget was used up; after the definition was changed, start a new run instead. Waits like run_workflow and answers the run.\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\"}",
        takes: with(
            run_names(),
            json!({
                "budget": super::signals::budget_schema(),
                "redo": { "type": "boolean", "default": false, "description": "Make calls again of which it is not known whether they were made." },
                "assume": { "description": "Go on as if such a call had answered this." },
                "wait_seconds": wait_seconds(),
            }),
        ),
        required: &[],
        scope: Scope::Run,
        effect: Effect::Sets,
    }
}

pub async fn resume(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let run = wanted(guest, &mut arguments).await?;
    let redo = arguments.flag("redo").unwrap_or(false);
    let budget = super::signals::budget(&mut arguments)?;
    let how = ResumeWith { redo, assume: arguments.0.remove("assume"), budget };
    guest.service.resume(run, how).await.map_err(without_dashes)?;
    let row = attend(&guest.service, run, arguments.number("wait_seconds"), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}

/// The words of the command line are arguments here.
pub fn without_dashes(error: relais_service::Error) -> Trouble {
    let said = |text: &str| text.replace("--redo", "`redo: true`").replace("--assume RESULT", "`assume: RESULT`");
    match trouble(error) {
        Trouble::Invalid(text) => Trouble::Invalid(said(&text)),
        Trouble::NotFound(text) => Trouble::NotFound(text),
        Trouble::Internal(text) => Trouble::Internal(text),
    }
}

pub fn answer_spec() -> Spec {
    Spec {
        name: "answer_run",
        title: "Answer a question of a run",
        about: "Answers what a waiting run asks a person: a question, or whether a tool may be called. Use it after \
                get_run or run_workflow showed `questions`, with what the person said, never with a guess of your own. \
                The answer must fit answer_schema of the question: true or false where it is a boolean, the bare text \
                where it is a string. Whether a tool may be called is answered with true or false, or with \
                {\"approve\": true, \"arguments\": {…}} to change the call, {\"approve\": false, \"reason\": \"…\"} to \
                say why not. Waits like run_workflow and answers the run.\n\
                Example: {\"run_id\": \"0190a0b0-c0d0-7000-8000-00000000000a\", \"step\": \"approve\", \"answer\": true}",
        takes: with(
            run_names(),
            json!({
                "question_id": text("`id` of a question of list_questions, in place of run and step."),
                "step": text("`step` of the question; may be left out if only one is open."),
                "answer": { "description": "What the person said, as answer_schema wants it: text, number, true or false, or an object." },
                "wait_seconds": wait_seconds(),
            }),
        ),
        required: &["answer"],
        scope: Scope::Run,
        effect: Effect::Sets,
    }
}

pub async fn answer(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    if let Some(id) = arguments.text(&["question_id"])? {
        return super::questions::answer(guest, &id, arguments, client).await;
    }
    let run = wanted(guest, &mut arguments).await?;
    let (step, answer) = (arguments.text(&["step"])?, arguments.0.remove("answer").unwrap_or_default());
    let (asks, waits) = asking(guest, run, step.as_deref()).await?;
    let answer = match (answer, waits) {
        (Value::String(words), Some(waits)) => waits.read(&words),
        (answer, _) => answer,
    };
    guest.service.answer(asks, step.as_deref(), answer).await.map_err(trouble)?;
    let row = attend(&guest.service, run, arguments.number("wait_seconds"), client).await?;
    Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
}

/// The run itself, or the child run of it that asks, and what.
async fn asking(guest: &Guest, run: RunId, step: Option<&str>) -> Result<(RunId, Option<Waits>), Trouble> {
    let open = guest.service.open_questions(run).await.map_err(trouble)?;
    let mut fits = open.into_iter().filter(|(_, waits)| step.is_none_or(|step| waits.step == step));
    Ok(fits.next().map_or((run, None), |(asks, waits)| (asks, Some(waits))))
}
