//! Tools that say the same to many runs, and look how far that has come.

use relais_engine::RunStatus;
use relais_mcp::serving::{Given, Trouble};
use relais_plan::time::parse_duration;
use relais_service::access::Scope;
use relais_service::{Act, Filter};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Guest;
use super::arguments::Arguments;
use super::attend::Attended;
use super::render::given;
use super::runs::tags_of;
use super::signals::{budget, budget_schema};
use super::tools::{Effect, Spec, text, user_id};
use super::trouble::trouble;
use crate::api::views::BulkView;

pub fn begin_spec() -> Spec {
    Spec {
        name: "bulk_runs",
        title: "Cancel, resume, retry or fork many runs",
        about: "Says the same to all runs that a filter finds: cancel, resume, retry or fork. Use it when somebody wants \
                something done with many runs at once. Without `confirm: true` it only answers how many runs that are \
                (`total`): tell the person, ask once, and call it again with `confirm: true`. Then it answers the id \
                of a job that goes on in the background; get_bulk shows how far it has come.\n\
                Example: {\"action\": \"retry\", \"from\": \"fetch\", \"status\": \"failed\", \"workflow_id\": \"Price Monitor\", \"since\": \"1d\"}",
        takes: json!({
            "action": { "enum": ["cancel", "resume", "retry", "fork"], "description": "What is said to each run." },
            "status": { "enum": RunStatus::all().map(RunStatus::word).collect::<Vec<_>>(), "description": "Only runs of this status." },
            "workflow_id": text("Only runs of this workflow: id, alias or name."),
            "since": text("Only runs that started within this time, such as 1d."),
            "tags": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Only runs with all of these tags." },
            "error": text("Only runs that ended with an error of this kind, such as timeout."),
            "from": text("retry and fork: the step to begin with."),
            "budget": budget_schema(),
            "redo": { "type": "boolean", "default": false, "description": "Make calls again that were made and may be made once only." },
            "confirm": { "type": "boolean", "default": false, "description": "Do it; else only count the runs." },
            "user_id": user_id(),
        }),
        required: &["action"],
        scope: Scope::Run,
        effect: Effect::Ends,
    }
}

pub async fn begin(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let act = act(&mut arguments)?;
    let filter = filter(guest, &mut arguments).await?;
    if !arguments.flag("confirm").unwrap_or(false) {
        let total = guest.service.count_bulk(&act, filter).await.map_err(trouble)?;
        let next = format!("Nothing was done. To {} these {total} runs, call it again with confirm: true.", act.word());
        return Ok(given(json!({ "total": total, "next": next })));
    }
    let bulk = guest.service.begin_bulk(act, filter).await.map_err(trouble)?;
    let next = format!("It goes on in the background; get_bulk with id {} shows how far it has come.", bulk.id);
    let mut shown = json!(BulkView::from(bulk));
    shown["next"] = json!(next);
    Ok(given(shown))
}

fn act(arguments: &mut Arguments) -> Result<Act, Trouble> {
    let action = arguments.must(&["action"], "cancel, resume, retry or fork")?;
    let (redo, from) = (arguments.flag("redo").unwrap_or(false), arguments.text(&["from"])?);
    let from =
        || from.ok_or_else(|| Trouble::Invalid(format!("`from` is missing: the step that the {action} begins with.")));
    Ok(match action.as_str() {
        "cancel" => Act::Cancel,
        "resume" => Act::Resume { redo, budget: budget(arguments)? },
        "retry" => Act::Retry { from: from()?, redo },
        _ => Act::Fork { from: from()?, model: None, redo },
    })
}

async fn filter(guest: &Guest, arguments: &mut Arguments) -> Result<Filter, Trouble> {
    let word = arguments.text(&["status"])?;
    let workflow_id = match arguments.text(&["workflow_id"])? {
        Some(text) => Some(guest.workflow(&text).await?.it.id.to_string()),
        None => None,
    };
    let since = arguments.text(&["since"])?;
    let tags: Vec<String> = tags_of(arguments).iter().map(|(key, value)| format!("{key}={value}")).collect();
    let error = arguments.text(&["error"])?;
    if word.is_none() && workflow_id.is_none() && since.is_none() && tags.is_empty() && error.is_none() {
        return Err(Trouble::Invalid("Say which runs: status, workflow_id, since, tags or error.".into()));
    }
    let unclear = |text: &str| Trouble::Invalid(format!("`since`: `{text}` is no duration such as 1d."));
    let age = since.map(|text| parse_duration(&text).ok_or_else(|| unclear(&text))).transpose()?;
    Ok(Filter {
        workflow_id,
        status: word.as_deref().and_then(RunStatus::named).into_iter().collect(),
        marks: relais_service::marks(&tags, error.as_deref()).map_err(trouble)?,
        started_after: age.map(|age| guest.service.now().saturating_sub_unsigned(age)),
        roots_only: true,
        ..Filter::default()
    })
}

pub fn get_spec() -> Spec {
    Spec {
        name: "get_bulk",
        title: "See how far a bulk job has come",
        about: "Shows how far something has come that bulk_runs has begun: status (running or done), total, done, \
                refused, problems (the first runs that refused it, and why) and made (runs that forks have made).\n\
                Example: {\"id\": \"0190a0b0-c0d0-7000-8000-00000000000a\"}",
        takes: json!({ "id": text("Id of the job, as bulk_runs answers it."), "user_id": user_id() }),
        required: &["id"],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn get(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let text = arguments.must(&["id"], "the id that bulk_runs answers")?;
    let missing = || Trouble::NotFound(format!("there is no bulk job {text}"));
    let id: Uuid = text.parse().map_err(|_| missing())?;
    let bulk = guest.service.bulk(id).await.map_err(trouble)?;
    let shown: Value = json!(BulkView::from(bulk));
    Ok(given(shown))
}
