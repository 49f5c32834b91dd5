//! The tool that lists what people are asked over all runs, and the answer to one of those.

use relais_mcp::serving::{Given, Trouble};
use relais_service::access::Scope;
use relais_service::{Error, Format, Waits};
use serde_json::{Value, json};

use super::Guest;
use super::arguments::Arguments;
use super::attend::{Attended, attend};
use super::render::{self, given};
use super::tools::{Effect, Spec, limit, text, user_id};
use super::trouble::trouble;
use crate::api::views::OpenQuestionView;

const DEFAULT_LISTED: u64 = 20;

pub fn list_spec() -> Spec {
    Spec {
        name: "list_questions",
        title: "List what people are asked",
        about: "Lists everything that waits for this person's answer, over all runs: questions of steps, and tool calls \
                that need a yes. Use it when somebody asks what waits for them. Answers for each id, workflow, run, \
                step, question, show (for a tool call its arguments), answer (the JSON Schema of the answer), tool, \
                asked_at, deadline, approvals and approved_by. Ask the person, then call answer_run with question_id \
                and what they said. `next`, if there is one, is the cursor of the next page.\n\
                Example: {\"limit\": 10}",
        takes: json!({
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
    let limit = usize::try_from(arguments.number("limit").unwrap_or(DEFAULT_LISTED)).unwrap_or(1);
    let cursor = arguments.text(&["cursor"])?;
    let (found, next) = guest.service.all_questions(cursor, limit).await.map_err(trouble)?;
    let questions: Vec<OpenQuestionView> = found.into_iter().map(OpenQuestionView::from).collect();
    Ok(given(json!({ "questions": questions, "next": next })))
}

/// Answers a question by its id; the run may be another person's, which cannot be looked at.
pub async fn answer(guest: &Guest, id: &str, mut args: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let open = guest.service.question(id).await.map_err(trouble)?.open;
    let value = match args.0.remove("answer").unwrap_or_default() {
        Value::String(words) => Waits { command: open.command, step: open.step, question: open.question }.read(&words),
        other => other,
    };
    let run = guest.service.answer_question(id, value).await.map_err(trouble)?;
    match guest.service.row(run).await {
        Ok(_) => {
            let row = attend(&guest.service, run, args.number("wait_seconds"), client).await?;
            Ok(given(render::run(&guest.service, row, Format::Graph).await?.into()))
        }
        Err(Error::NotFound(_)) => Ok(given(json!({ "question_id": id, "answered": true }))),
        Err(error) => Err(trouble(error)),
    }
}
