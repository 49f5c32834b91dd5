//! The words of the REST API, read into the types that commands know.

use relais_engine::{CommandId, ErrorKind, Failure, Millis, RunId, RunStatus, Summary, Target, ToolUse, Usage};
use relais_plan::tags::Tags;
use relais_plan::time::{format_duration, format_instant, parse_instant};
use relais_plan::{Budget, Severity, Span};
use relais_service::{Act, Begun, Error, Filter, Finding, Format, Page, ResumeWith, Row, Start, Text, Waits};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

#[derive(Deserialize)]
pub struct Created {
    pub id: RunId,
}

#[derive(Deserialize)]
pub struct Rows {
    items: Vec<RunRow>,
    next: Option<String>,
}

impl From<Rows> for Page {
    fn from(rows: Rows) -> Page {
        Page { rows: rows.items.into_iter().map(Row::from).collect(), cursor: rows.next }
    }
}

#[derive(Deserialize)]
pub struct Details {
    #[serde(flatten)]
    pub row: RunRow,
    pub rests: bool,
}

#[derive(Deserialize)]
pub struct RunRow {
    id: RunId,
    seq: u64,
    workflow: String,
    plan: String,
    user: String,
    workflow_id: Option<String>,
    version: Option<u32>,
    branch: Option<String>,
    trigger: Option<String>,
    thread: Option<String>,
    #[serde(default)]
    tags: Tags,
    parent: Option<RunId>,
    status: RunStatus,
    #[serde(deserialize_with = "moment")]
    started_at: Millis,
    #[serde(deserialize_with = "maybe_moment")]
    ended_at: Option<Millis>,
    usage: Used,
    error: Option<RunError>,
    waits_for: Vec<String>,
    #[serde(default)]
    drift: Option<String>,
    #[serde(deserialize_with = "maybe_moment")]
    wakes_at: Option<Millis>,
}

#[derive(Deserialize)]
struct Used {
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    reasoning_tokens: u64,
    #[serde(default)]
    estimated_tokens: u64,
    usd: f64,
    model_calls: u64,
    tool_calls: u64,
    retries: u64,
}

#[derive(Deserialize)]
struct RunError {
    kind: ErrorKind,
    message: String,
}

fn moment<'de, D: Deserializer<'de>>(source: D) -> Result<Millis, D::Error> {
    let text = String::deserialize(source)?;
    parse_instant(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no time")))
}

fn maybe_moment<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Millis>, D::Error> {
    let text = Option::<String>::deserialize(source)?;
    let unclear = |text: &String| serde::de::Error::custom(format!("`{text}` is no time"));
    text.map(|text| parse_instant(&text).ok_or_else(|| unclear(&text))).transpose()
}

impl From<Used> for Usage {
    fn from(used: Used) -> Usage {
        Usage {
            prompt: used.prompt_tokens,
            completion: used.completion_tokens,
            cached: used.cached_tokens,
            reasoning: used.reasoning_tokens,
            estimated: used.estimated_tokens,
            usd_nanos: (used.usd * 1e9).round() as u64,
            model_calls: used.model_calls,
            tool_calls: used.tool_calls,
            retries: used.retries,
            ..Usage::default()
        }
    }
}

impl From<RunRow> for Row {
    fn from(row: RunRow) -> Row {
        let target = Target {
            workflow: row.workflow_id.unwrap_or_default(),
            version: row.version.unwrap_or_default(),
            branch: row.branch,
            trigger: row.trigger,
            traceparent: None,
            drift: row.drift,
            tags: row.tags,
        };
        let summary = Summary {
            run: row.id,
            workflow: row.workflow,
            plan: row.plan,
            user: row.user,
            thread: row.thread.unwrap_or_default(),
            parent: row.parent,
            target,
            status: row.status,
            started_at: row.started_at,
            ended_at: row.ended_at,
            wake_at: row.wakes_at,
            awaits: row.waits_for,
            usage: row.usage.into(),
            error: row.error.map(|error| Failure::new(error.kind, error.message)),
        };
        Row { summary, seq: row.seq, reported: 0, owner: None, lease_until: None }
    }
}

#[derive(Deserialize)]
pub struct Questions {
    pub items: Vec<Question>,
}

#[derive(Deserialize)]
pub struct Question {
    run: RunId,
    step: String,
    id: CommandId,
    question: String,
    show: Value,
    answer: Value,
    #[serde(deserialize_with = "maybe_moment")]
    deadline: Option<Millis>,
    tool: Option<String>,
}

impl Question {
    pub fn waits(self) -> (RunId, Waits) {
        let arguments = self.show.clone();
        let call = |tool| ToolUse { id: String::new(), tool, arguments, garbled: None, opaque: None };
        let question = relais_engine::Question {
            question: self.question,
            show: self.show,
            answer: self.answer,
            deadline: self.deadline,
            approves: self.tool.map(call),
            people: Default::default(),
        };
        (self.run, Waits { command: self.id, step: self.step, question })
    }
}

/// A path with what stands behind its question mark, escaped as it has to be.
pub fn with_query(path: &str, pairs: &[(&'static str, String)]) -> String {
    let url = reqwest::Url::parse_with_params("http://server", pairs);
    let query = url.ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default();
    format!("{path}?{query}")
}

pub fn query(filter: &Filter) -> Vec<(&'static str, String)> {
    let Filter { workflow, workflow_id, thread, parent, started_after, started_before, cursor, .. } = filter;
    let statuses: Vec<&str> = filter.status.iter().map(|status| status.word()).collect();
    let mut query = vec![("roots_only", filter.roots_only.to_string())];
    let mut add = |name, value: Option<String>| query.extend(value.map(|value| (name, value)));
    add("limit", Some(filter.limit).filter(|limit| *limit > 0).map(|limit| limit.to_string()));
    add("status", Some(statuses.join(",")).filter(|words| !words.is_empty()));
    add("workflow", workflow_id.clone().or_else(|| workflow.clone()));
    add("thread", thread.clone());
    let (errors, tags): (Vec<&str>, Vec<&str>) = marked(filter);
    add("tag", Some(tags.join(",")).filter(|tags| !tags.is_empty()));
    add("error", errors.first().map(|kind| (*kind).to_owned()));
    add("parent", parent.map(|run| run.to_string()));
    add("started_after", started_after.map(format_instant));
    add("started_before", started_before.map(format_instant));
    add("cursor", cursor.clone());
    query
}

/// The kinds of errors and the tags that a filter asks for.
fn marked(filter: &Filter) -> (Vec<&str>, Vec<&str>) {
    let errors = filter.marks.iter().filter_map(|mark| mark.strip_prefix("error:"));
    let tags = filter.marks.iter().filter(|mark| !mark.starts_with("error:"));
    (errors.collect(), tags.map(String::as_str).collect())
}

/// A word as a part of a path.
pub fn escaped(word: &str) -> String {
    let mut url = reqwest::Url::parse("http://server").ok();
    if let Some(Ok(mut parts)) = url.as_mut().map(|url| url.path_segments_mut()) {
        parts.push(word);
    }
    url.map(|url| url.path().trim_start_matches('/').to_owned()).unwrap_or_default()
}

#[derive(Deserialize)]
pub struct Started {
    id: RunId,
    findings: Vec<Found>,
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Found {
    severity: Severity,
    line: Option<usize>,
    column: Option<usize>,
    start: u32,
    end: u32,
    path: Option<String>,
    message: String,
    help: Option<String>,
}

impl From<Found> for Finding {
    fn from(found: Found) -> Finding {
        let Found { severity, line, column, start, end, path, message, help } = found;
        Finding { severity, line, column, span: Span { start, end }, path, message, help }
    }
}

impl From<Started> for Begun {
    fn from(started: Started) -> Begun {
        let findings = started.findings.into_iter().map(Finding::from).collect();
        Begun { run: started.id, findings, warnings: started.warnings }
    }
}

/// A page of any list.
#[derive(Deserialize)]
pub struct Items<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

pub fn start_text(text: &Text, start: &Start) -> Value {
    let mut body = started(text.options.branch.as_deref(), start);
    body["definition"] = json!(text.text);
    body["name"] = json!(text.name);
    body["format"] = json!(text.options.format.map(Format::word));
    body
}

pub fn start_workflow(branch: Option<&str>, start: &Start) -> Value {
    started(branch, start)
}

/// What every start says.
fn started(branch: Option<&str>, start: &Start) -> Value {
    let Start { input, mode, thread, tags, .. } = start;
    let mut body = json!({ "input": input, "thread": thread, "simulate": mode.simulate, "tags": tags });
    let optional = [("branch", json!(branch)), ("seed", json!(mode.seed)), ("model", json!(mode.model))];
    for (name, value) in optional.into_iter().filter(|(_, value)| !value.is_null()) {
        body[name] = value;
    }
    body
}

fn budget(budget: &Budget) -> Value {
    json!({
        "usd": budget.usd_nanos.map(|nanos| nanos as f64 / 1e9),
        "tokens": budget.tokens,
        "model_calls": budget.model_calls,
        "tool_calls": budget.tool_calls,
        "time": budget.time_ms.map(format_duration),
    })
}

/// What is said to many runs, and to which.
pub fn bulk(act: &Act, filter: &Filter) -> Value {
    let mut body = match act {
        Act::Cancel => json!({}),
        Act::Resume { redo, budget: more } => json!({ "redo": redo, "budget": budget(more) }),
        Act::Retry { from, redo } => json!({ "from": from, "redo": redo }),
        Act::Fork { from, model, redo } => json!({ "from": from, "model": model, "redo": redo }),
    };
    let statuses: Vec<&str> = filter.status.iter().map(|status| status.word()).collect();
    let (errors, tags) = marked(filter);
    body["action"] = json!(act.word());
    body["filter"] = json!({
        "status": Some(statuses.join(",")).filter(|words| !words.is_empty()),
        "workflow": filter.workflow_id.as_ref().or(filter.workflow.as_ref()),
        "tags": tags,
        "error": errors.first(),
        "started_after": filter.started_after.map(format_instant),
    });
    body
}

pub fn resume(with: &ResumeWith) -> Value {
    let mut body = json!({ "redo": with.redo, "budget": budget(&with.budget) });
    if let Some(assume) = &with.assume {
        body["assume"] = assume.clone();
    }
    body
}

/// What went wrong, as the local service would have said it; none if this is no problem of ours.
pub fn problem(body: &[u8], retry_after_ms: u64) -> Option<Error> {
    #[derive(Deserialize)]
    struct Problem {
        kind: String,
        detail: String,
        #[serde(default)]
        errors: Vec<Found>,
    }
    let Problem { kind, detail, errors } = serde_json::from_slice(body).ok()?;
    Some(match kind.as_str() {
        "invalid" if !errors.is_empty() => Error::Findings(errors.into_iter().map(Finding::from).collect()),
        "invalid" | "too_large" | "unsupported" => Error::Invalid(detail),
        "not_found" => Error::NotFound(detail),
        "conflict" => Error::Conflict(detail),
        "stale" => Error::Stale(detail),
        "unauthorized" => Error::Unauthorized(detail),
        "forbidden" => Error::Forbidden(detail),
        "too_many" => Error::TooMany { retry_after_ms },
        "busy" => Error::Busy(detail),
        _ => Error::Unusable(detail),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_the_errors_that_the_service_gives() {
        let check =
            |body: &str, expected: Option<Error>| assert_eq!(problem(body.as_bytes(), 2_000), expected, "{body}");
        let text = || "there is no run x".to_owned();
        let body = |kind: &str| json!({ "kind": kind, "detail": text(), "status": 400, "title": "x" }).to_string();
        check(&body("not_found"), Some(Error::NotFound(text())));
        check(&body("invalid"), Some(Error::Invalid(text())));
        check(&body("stale"), Some(Error::Stale(text())));
        check(&body("too_many"), Some(Error::TooMany { retry_after_ms: 2_000 }));
        check(&body("something new"), Some(Error::Unusable(text())));
        check("<html>bad gateway</html>", None);
    }
}
