//! What a run waits for, and the exact command that gives it.

use relais_engine::{Question, RunId, ToolUse};
use relais_plan::People;
use relais_plan::time::parse_instant;
use relais_server::views::OpenQuestionView;
use relais_service::Waits;
use serde_json::Value;

use crate::session::Session;
use crate::words;

/// How much of what is shown with a question fits beside it.
const SHOWN_CHARS: usize = 2_000;

/// One block of text per thing that a run waits for.
pub async fn told(session: &Session, run: RunId) -> anyhow::Result<Vec<String>> {
    let mut blocks = Vec::new();
    for (owner, waits) in session.open_questions(run).await? {
        blocks.push(question(owner, &waits));
    }
    for await_ in session.row(run).await?.summary.awaits {
        blocks.extend(other(run, &await_));
    }
    Ok(blocks)
}

pub fn question(run: RunId, waits: &Waits) -> String {
    let mut lines = asked(waits);
    let step = words::quoted(&words::line(&waits.step));
    lines.push(format!("  relais answer {run} --step {step} {}", example(waits)));
    lines.join("\n")
}

/// A question of a list over all runs.
pub fn waits(listed: &OpenQuestionView) -> Waits {
    let arguments = listed.show.clone();
    let call = |tool| ToolUse { id: String::new(), tool, arguments, garbled: None, opaque: None };
    let question = Question {
        question: listed.question.clone(),
        show: listed.show.clone(),
        answer: listed.answer.clone(),
        deadline: listed.deadline.as_deref().and_then(parse_instant),
        approves: listed.tool.clone().map(call),
        people: People::default(),
    };
    let command = listed.id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    Waits { command, step: listed.step.clone(), question }
}

/// What is asked, line by line.
pub fn asked(waits: &Waits) -> Vec<String> {
    let mut lines = vec![format!("? {}", words::hanging(&waits.question.question))];
    if let Some(call) = &waits.question.approves {
        lines.push(format!("  {} {}", words::line(&call.tool), words::brief(&call.arguments, SHOWN_CHARS)));
    }
    if !waits.question.show.is_null() && waits.question.approves.is_none() {
        lines.push(format!("  {}", words::brief(&waits.question.show, SHOWN_CHARS)));
    }
    if let Some(at) = waits.question.deadline {
        lines.push(format!("  until {}", words::instant(at)));
    }
    lines
}

/// What kind of answer is wanted, as words for the command.
pub fn example(waits: &Waits) -> String {
    if waits.question.approves.is_some() || waits.question.answer["type"] == "boolean" {
        return "yes|no".to_owned();
    }
    match (&waits.question.answer["enum"], waits.question.answer["type"].as_str()) {
        (Value::Array(choices), _) => choices.iter().map(|c| words::brief(c, 40)).collect::<Vec<_>>().join("|"),
        (_, Some("string")) => "'TEXT'".to_owned(),
        (_, Some("number" | "integer")) => "NUMBER".to_owned(),
        _ => "'JSON'".to_owned(),
    }
}

fn other(run: RunId, await_: &str) -> Option<String> {
    if await_ == "paused" {
        return Some(format!("paused\n  relais resume {run}"));
    }
    if let Some(name) = await_.strip_prefix("signal:") {
        return Some(format!(
            "waits for the signal {}\n  relais signal {run} {}",
            words::line(name),
            words::quoted(name)
        ));
    }
    // Events come in with the same words as signals until a server receives them.
    await_.strip_prefix("event:").map(|name| format!("waits for the event {}", words::line(name)))
}
