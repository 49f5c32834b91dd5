//! What tools answer: values small enough for a model to read, runs as they stand, and what can be done next.

use relais_engine::RunStatus;
use relais_mcp::serving::{Given, Trouble};
use relais_service::{Format, Row, Service};
use serde_json::{Map, Value, json};

use super::trouble::trouble;
use crate::times::instant;

/// An answer larger than this fills a model's context; long texts in it are then cut.
const ANSWER_BYTES_MAX: usize = 60_000;
/// What is left of a long text, the second if the first is still too much.
const TEXT_CHARS: [usize; 3] = [8_000, 1_500, 200];
/// Runs of the same workflow that an answer mentions.
const GOING_SHOWN: usize = 5;

/// An object for programs and the same as text for models.
pub fn given(content: Value) -> Given {
    Given { content: shortened(content), text: String::new(), is_error: false }
}

/// Cut until it is small enough, or as small as cutting texts makes it.
fn shortened(content: Value) -> Value {
    let mut cut = content;
    for chars in TEXT_CHARS {
        if cut.to_string().len() <= ANSWER_BYTES_MAX {
            break;
        }
        shorten(&mut cut, chars);
    }
    cut
}

fn shorten(value: &mut Value, chars: usize) {
    match value {
        Value::String(text) => {
            let more = text.chars().count().saturating_sub(chars);
            if more > 0 {
                let kept: String = text.chars().take(chars).collect();
                *text = format!("{kept}… ({more} more characters; the resource has all of it)");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, chars)),
        Value::Object(fields) => fields.values_mut().for_each(|field| shorten(field, chars)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A run in the words of a format, with what waits in it and what can be done next.
pub async fn run(service: &Service, row: Row, words: Format) -> Result<Map<String, Value>, Trouble> {
    let run = row.summary.run;
    let mut shown = match service.view(run, words).await.map_err(trouble)? {
        Value::Object(shown) => shown,
        other => Map::from_iter([("run".to_owned(), other)]),
    };
    for name in ["targetId", "workflow_id"] {
        // An alias names the workflow as well as its id does, and its author knows it; a name may be another's, too.
        if let Some(found) = shown.get_mut(name).filter(|found| **found == row.summary.workflow.as_str()) {
            *found = json!(target(&row));
        }
    }
    shown.insert("id".into(), json!(run));
    shown.insert("run_id".into(), json!(run));
    shown.insert("resource".into(), json!(format!("relais://runs/{run}")));
    let questions = questions(service, &row).await?;
    if let Some(next) = next(&row, !questions.is_empty()) {
        shown.insert("next".into(), json!(next));
    }
    if !questions.is_empty() {
        shown.insert("questions".into(), json!(questions));
    }
    Ok(shown)
}

async fn questions(service: &Service, row: &Row) -> Result<Vec<Value>, Trouble> {
    if row.summary.status.is_final() {
        return Ok(Vec::new());
    }
    let open = service.open_questions(row.summary.run).await.map_err(trouble)?;
    let question = |(run, waits): (relais_engine::RunId, relais_service::Waits)| {
        json!({
            "run_id": run,
            "step": waits.step,
            "question": waits.question.question,
            "show": waits.question.show,
            "answer_schema": waits.question.answer,
            "deadline": waits.question.deadline.map(instant),
        })
    };
    Ok(open.into_iter().map(question).collect())
}

/// What can be done about a run as it stands.
fn next(row: &Row, asks: bool) -> Option<String> {
    let (run, waits) = (row.summary.run, row.summary.awaits.join(", "));
    Some(match row.summary.status {
        RunStatus::Completed | RunStatus::Stopped => return None,
        _ if asks => format!(
            "The run waits for a person. Ask them what `questions` says, then call answer_run with run_id {run}, the \
             step and their answer, which must fit answer_schema."
        ),
        RunStatus::Pending | RunStatus::Running => format!(
            "The run is still going. Call get_run with id {run} and wait_seconds to see how it ends; cancel_run ends it."
        ),
        RunStatus::Interrupted => format!(
            "Nobody works on the run any more: its process has ended. Call resume_run with id {run}, and it goes on where \
             it was."
        ),
        RunStatus::Waiting => {
            format!(
                "The run waits for: {waits}. It goes on by itself when that comes; look again with get_run, id {run}."
            )
        }
        RunStatus::Failed | RunStatus::PartialSuccess => format!(
            "The error above says what failed. Look at get_workflow and get_agent, mend with update_workflow or \
             update_agent and start a new run; or call resume_run with id {run} to try the unfinished steps again as \
             they were."
        ),
        RunStatus::Cancelled => format!("It was cancelled; resume_run with id {run} goes on where it was."),
    })
}

/// A run as lists of graphs show it.
pub fn row_of_graph(row: &Row) -> Value {
    let summary = &row.summary;
    let mut shown = json!({
        "id": summary.run,
        "targetType": "workflow",
        "targetId": target(row),
        "workflow": summary.workflow,
        "status": summary.status.word(),
        "startedAt": instant(summary.started_at),
        "finishedAt": summary.ended_at.map(instant),
        "error": summary.error.as_ref().map(|error| &error.message),
    });
    if let Some(branch) = &summary.target.branch {
        shown["targetBranchId"] = json!(branch);
    }
    shown
}

/// A run as lists of chains show it.
pub fn row_of_chain(row: &Row) -> Value {
    let summary = &row.summary;
    json!({
        "run_id": summary.run,
        "workflow_id": target(row),
        "workflow_name": summary.workflow,
        "status": summary.status.word(),
        "started_at": instant(summary.started_at),
        "completed_at": summary.ended_at.map(instant),
        "error_message": summary.error.as_ref().map(|error| &error.message),
    })
}

/// The id of the workflow, or the name of one that is not kept.
pub fn target(row: &Row) -> &str {
    let summary = &row.summary;
    if summary.target.workflow.is_empty() { &summary.workflow } else { &summary.target.workflow }
}

/// Other runs of a workflow that are going, such as one whose call was cancelled.
pub async fn also_going(service: &Service, row: &Row) -> Result<Vec<Value>, Trouble> {
    let status = RunStatus::UNFINISHED.to_vec();
    let workflow_id = Some(row.summary.target.workflow.clone());
    let filter = relais_service::Filter { workflow_id, status, limit: GOING_SHOWN, ..Default::default() };
    let page = service.runs(filter).await.map_err(trouble)?;
    let others = page.rows.iter().filter(|other| other.summary.run != row.summary.run);
    Ok(others.map(|other| json!(other.summary.run)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_cut_where_texts_are_long() {
        let long = "é".repeat(50_000);
        let cut = shortened(json!({ "output": long, "list": [{ "short": "x" }] }));
        assert_eq!(cut["list"][0]["short"], "x");
        let text = cut["output"].as_str().unwrap();
        assert!(
            text.ends_with("… (42000 more characters; the resource has all of it)"),
            "{}",
            &text[text.len() - 80..]
        );
        let many = shortened(json!(vec!["y".repeat(5_000); 30]));
        assert!(many.to_string().len() <= ANSWER_BYTES_MAX);
        let small = json!({ "output": "z".repeat(20_000) });
        assert_eq!(shortened(small.clone()), small);
    }
}
