//! The cases as they are written: sections of text, and the lines that describe the world.

use relais_engine::{ErrorKind, Failure};
use serde_json::Value;

#[derive(Debug, Default)]
pub struct Case {
    pub title: String,
    pub workflow: String,
    pub world: String,
    /// How the run must end; written by hand, never rewritten.
    pub ends: String,
    pub transcript: String,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Input(Value),
    /// `tool NAME@STEP = …`, `model@STEP = …`, `person = …`, `run = …`; the key is everything before ` = `.
    Answer {
        key: String,
        after_ms: u64,
        reply: Reply,
    },
    Effect(String, relais_plan::Effect),
    /// Context size, and the price of a token in nanodollars.
    Facts(u64, u64),
    /// From outside, at a time.
    At(u64, Outside),
    /// Done when the run has closed, one after the other.
    End(Outside),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outside {
    Cancel,
    Pause,
    Resume(Value),
    Crash,
    Signal(String, Value),
    Event(String, Value),
    Retry(String),
    Fork(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Value(Value),
    Say(String),
    /// Cut off at the output limit.
    Cut(String),
    Calls(Vec<(String, Result<Value, String>)>),
    Fail(Failure),
    Artifact(String, Value),
    File(String),
    Hang,
}

pub fn read(text: &str) -> Vec<Case> {
    parts(text, "=== ").into_iter().map(read_case).collect()
}

/// What stands behind each mark at the beginning of a line.
fn parts<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let inner = format!("\n{mark}");
    let first = text.strip_prefix(mark).or_else(|| text.split_once(&inner).map(|(_, rest)| rest));
    first.into_iter().flat_map(|rest| rest.split(inner.as_str())).collect()
}

fn read_case(text: &str) -> Case {
    let (title, rest) = text.split_once('\n').unwrap();
    let mut case = Case { title: title.trim().to_owned(), ..Case::default() };
    for section in parts(rest, "--- ") {
        let (name, body) = section.split_once('\n').unwrap();
        let body = format!("{}\n", body.trim_end_matches('\n'));
        match name.trim() {
            "workflow" => case.workflow = body,
            "world" => case.world = body,
            "ends" => case.ends = body,
            "transcript" => case.transcript = body.trim_end().to_owned() + "\n",
            other => panic!("`{other}` is no section of {title}"),
        }
    }
    case.lines = case.world.lines().filter(|l| !l.trim().is_empty()).map(read_line).collect();
    case
}

pub fn write(case: &Case) -> String {
    let Case { title, workflow, world, ends, transcript, .. } = case;
    let world = if world.is_empty() { String::new() } else { format!("--- world\n{world}") };
    format!("=== {title}\n--- workflow\n{workflow}{world}--- ends\n{ends}--- transcript\n{transcript}\n")
}

fn read_line(line: &str) -> Line {
    if let Some((key, answer)) = line.split_once(" = ") {
        return read_answer(key.trim(), answer.trim());
    }
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match word {
        "input" => Line::Input(json(rest)),
        "effect" => {
            let (tool, effect) = rest.split_once(' ').unwrap();
            Line::Effect(tool.to_owned(), serde_json::from_value(Value::String(effect.to_owned())).unwrap())
        }
        "facts" => {
            let (context, price) = rest.split_once(' ').unwrap();
            Line::Facts(context.parse().unwrap(), price.parse().unwrap())
        }
        "at" => {
            let (time, what) = rest.split_once(' ').unwrap();
            Line::At(relais_plan::time::parse_duration(time).unwrap(), read_outside(what))
        }
        "end" => Line::End(read_outside(rest)),
        _ => panic!("`{line}` is not understood"),
    }
}

fn read_outside(text: &str) -> Outside {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let named = || {
        let (name, value) = rest.split_once(' ').unwrap_or((rest, "null"));
        (name.to_owned(), json(value))
    };
    match word {
        "cancel" => Outside::Cancel,
        "pause" => Outside::Pause,
        "crash" => Outside::Crash,
        "resume" => Outside::Resume(if rest.is_empty() { serde_json::json!({}) } else { json(rest) }),
        "signal" => Outside::Signal(named().0, named().1),
        "event" => Outside::Event(named().0, named().1),
        "retry" => Outside::Retry(rest.to_owned()),
        "fork" => Outside::Fork(rest.to_owned()),
        _ => panic!("`{text}` is not understood"),
    }
}

fn read_answer(key: &str, answer: &str) -> Line {
    let mut after_ms = 0;
    let mut answer = answer;
    if let Some(rest) = answer.strip_prefix("after ") {
        let (time, rest) = rest.split_once(' ').unwrap();
        after_ms = relais_plan::time::parse_duration(time).unwrap();
        answer = rest;
    }
    Line::Answer { key: key.to_owned(), after_ms, reply: read_reply(answer) }
}

fn read_reply(text: &str) -> Reply {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "hang" => Reply::Hang,
        "say" => Reply::Say(rest.replace("\\n", "\n")),
        "cut" => Reply::Cut(rest.to_owned()),
        "call" | "garbled" => Reply::Calls(text.split(" & ").map(read_call).collect()),
        "fail" => {
            let (kind, message) = rest.split_once(' ').unwrap_or((rest, "it failed"));
            let kind: ErrorKind = serde_json::from_value(Value::String(kind.to_owned())).unwrap();
            Reply::Fail(Failure::new(kind, message))
        }
        "artifact" => {
            let (name, value) = rest.split_once(' ').unwrap();
            Reply::Artifact(name.to_owned(), json(value))
        }
        "file" => Reply::File(rest.to_owned()),
        // A value of about so many bytes.
        "big" => Reply::Value(serde_json::json!({ "n": 7, "text": "x".repeat(rest.parse().unwrap()) })),
        _ => Reply::Value(json(text)),
    }
}

fn read_call(text: &str) -> (String, Result<Value, String>) {
    let mut words = text.trim().splitn(3, ' ');
    let (word, tool, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or("{}"));
    let arguments = if word == "garbled" { Err(rest.to_owned()) } else { Ok(json(rest)) };
    (tool.to_owned(), arguments)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("`{text}` is not JSON: {error}"))
}
