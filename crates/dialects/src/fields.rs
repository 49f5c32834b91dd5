//! Maps with known keys: unknown ones are reported at the key, with the nearest right one.

use relais_plan::problem::nearest;
use relais_plan::{Problem, Span};
use serde_json::Value;

use crate::native::keys;
use crate::reader::Reader;
use crate::yaml::{Data, Entry, Node};

/// A key and its value.
#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    pub key: &'n str,
    pub key_span: Span,
    pub node: &'n Node,
}

pub(crate) struct Fields<'n> {
    pub span: Span,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    pub fn new(span: Span, entries: &'n [Entry]) -> Fields<'n> {
        Fields { span, entries }
    }

    pub fn get(&self, key: &str) -> Option<Field<'n>> {
        self.all().find(|field| field.key == key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn all(&self) -> impl Iterator<Item = Field<'n>> + use<'n> {
        self.entries.iter().map(|entry| Field { key: &entry.key, key_span: entry.key_span, node: &entry.value })
    }
}

/// A field that was given something: in formats that come out of programs, null counts as left out.
pub(crate) fn given<'n>(fields: &Fields<'n>, key: &str) -> Option<Field<'n>> {
    fields.get(key).filter(|field| !matches!(field.node.data, Data::Scalar(Value::Null)))
}

impl Reader<'_> {
    /// The value as a map of known keys; none, and a problem, if it is something else.
    pub(crate) fn map<'n>(&mut self, node: &'n Node, what: &str, known: &[&str], example: &str) -> Option<Fields<'n>> {
        let fields = self.open_map(node, what, example)?;
        for field in fields.all().filter(|field| !known.contains(&field.key)) {
            self.problems.push(unknown_key(field, what, known));
        }
        Some(fields)
    }

    /// The value as a map whose keys are names that the author chose.
    pub(crate) fn open_map<'n>(&mut self, node: &'n Node, what: &str, example: &str) -> Option<Fields<'n>> {
        let Data::Map(entries) = &node.data else {
            let message = format!("{what} is a map, not {}", node.describe());
            self.problems.push(Problem::error(node.span, message).help(format!("for example {example}")));
            return None;
        };
        Some(Fields::new(node.span, entries))
    }

    /// Reports a value of the wrong type or out of its range.
    pub(crate) fn wrong(&mut self, field: Field<'_>, expected: &str, example: &str) {
        let message = format!("`{}` takes {expected}, not {}", field.key, field.node.describe());
        self.problems.push(Problem::error(field.node.span, message).help(format!("for example {example}")));
    }

    pub(crate) fn no_effect(&mut self, field: Field<'_>, on: &str, help: &str) {
        self.problems.push(no_effect(field, on).help(help));
    }
}

pub(crate) fn no_effect(field: Field<'_>, on: &str) -> Problem {
    Problem::error(field.key_span, format!("`{}` has no effect {on}", field.key))
}

pub(crate) fn unknown_key(field: Field<'_>, what: &str, known: &[&str]) -> Problem {
    if keys::means_secret(field.key) {
        return Problem::error(field.key_span, format!("`{}`: a workflow file holds no credentials", field.key))
            .help("keys come from the environment (such as OPENAI_API_KEY) or from the configuration");
    }
    let problem = Problem::error(field.key_span, format!("unknown key `{}` in {what}", field.key));
    match near_key(field.key, known) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help(format!("its keys are {}", known.join(", "))),
    }
}

/// What other formats and other tools call a key, and what it is called here.
const MEANT: &[(&str, &[&str])] = &[
    ("foreach", &["for_each"]),
    ("depends_on", &["needs"]),
    ("dependson", &["needs"]),
    ("after", &["needs"]),
    ("models", &["model", "agents"]),
    ("condition", &["when", "if"]),
    ("system_prompt", &["instructions", "instruction"]),
    ("arguments", &["with"]),
    ("args", &["with"]),
    ("params", &["with"]),
    ("do", &["steps"]),
    ("loop", &["repeat"]),
];

/// The known key that was meant by another: by its letters, or because it goes by that name elsewhere.
pub(crate) fn near_key<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let elsewhere = MEANT.iter().find(|(word, _)| *word == written.to_lowercase());
    let meant = elsewhere.and_then(|(_, words)| words.iter().find_map(|word| known.iter().find(|key| *key == word)));
    meant.copied().or_else(|| nearest(written, known.iter().copied()))
}
