//! Which format a file has, told by its shape.

use relais_plan::problem::nearest;
use relais_plan::{Problem, Span};

use crate::yaml::{Data, Entry, Node};

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Native,
    Chain,
    Steps,
    Pipeline,
    Graph,
    Dag,
}

impl Format {
    pub const ALL: [Format; 6] =
        [Format::Native, Format::Chain, Format::Steps, Format::Pipeline, Format::Graph, Format::Dag];

    pub fn word(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Chain => "chain",
            Format::Steps => "steps",
            Format::Pipeline => "pipeline",
            Format::Graph => "graph",
            Format::Dag => "dag",
        }
    }

    pub fn named(word: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.word() == word)
    }
}

/// The types of step that only the format `steps` has.
const STEP_TYPES: &[&str] = &["custom_llm", "custom_agent", "stop_checker"];

/// The format of a file, or why it cannot be told.
pub(crate) fn of(root: &Node) -> Result<Format, Problem> {
    let Data::Map(entries) = &root.data else { return Err(nothing_known(&[])) };
    let found: Vec<(Format, &Entry)> = entries.iter().filter_map(|entry| Some((sign(entry)?, entry))).collect();
    let Some((first, sign)) = found.first() else {
        let is_native = entries.iter().any(|entry| entry.key == "steps");
        return if is_native { Ok(Format::Native) } else { Err(nothing_known(entries)) };
    };
    match found.iter().find(|(format, _)| format != first) {
        None => Ok(*first),
        Some((second, other)) => Err(ambiguous((*first, sign), (*second, other))),
    }
}

/// What a key at the top of a file says about its format.
fn sign(entry: &Entry) -> Option<Format> {
    match entry.key.as_str() {
        "executors" => Some(Format::Chain),
        "steps" => is_typed(&entry.value).then_some(Format::Steps),
        "workflow" => workflow(&entry.value),
        "nodes" | "edges" | "branches" => Some(Format::Graph),
        "personas" | "apps" => Some(Format::Dag),
        _ => None,
    }
}

fn workflow(node: &Node) -> Option<Format> {
    match &node.data {
        Data::List(_) => Some(Format::Pipeline),
        Data::Map(entries) if entries.iter().any(|entry| entry.key == "nodes") => Some(Format::Dag),
        Data::Map(entries) if entries.iter().any(|entry| entry.key == "steps") => Some(Format::Pipeline),
        Data::Map(_) | Data::Scalar(_) => None,
    }
}

fn is_typed(steps: &Node) -> bool {
    let Data::List(items) = &steps.data else { return false };
    items.iter().any(|item| match &item.data {
        Data::Map(entries) => entries
            .iter()
            .any(|entry| entry.key == "type" && entry.value.as_text().is_some_and(|word| STEP_TYPES.contains(&word))),
        Data::List(_) | Data::Scalar(_) => false,
    })
}

fn ambiguous(first: (Format, &Entry), second: (Format, &Entry)) -> Problem {
    let message = format!(
        "the file has the shape of two formats: `{}` is a key of `{}`, `{}` is a key of `{}`",
        first.1.key,
        first.0.word(),
        second.1.key,
        second.0.word()
    );
    Problem::error(second.1.key_span, message).help(format!(
        "say which it is: `--format {}` or `--format {}`",
        first.0.word(),
        second.0.word()
    ))
}

/// Keys that tell a format.
const SIGNS: &[&str] = &["steps", "executors", "workflow", "nodes", "edges", "branches", "personas", "apps"];

/// What a file is told that has neither steps nor the sign of another format.
fn nothing_known(entries: &[Entry]) -> Problem {
    let near = |entry: &Entry| Some((entry.key_span, nearest(&entry.key, SIGNS.iter().copied())?));
    match entries.iter().filter(|entry| !SIGNS.contains(&entry.key.as_str())).find_map(near) {
        Some((span, sign)) => Problem::error(span, NOTHING_KNOWN).help(format!("did you mean `{sign}`?")),
        None => Problem::error(Span::default(), NOTHING_KNOWN).help(
            "the native format has `steps`; the others are known by `executors` (chain), `steps` with a `type` such \
             as custom_llm (steps), `workflow` as a list (pipeline), `nodes` and `edges` (graph), `personas` or \
             `apps` (dag)",
        ),
    }
}

const NOTHING_KNOWN: &str = "the file has the shape of no format";
