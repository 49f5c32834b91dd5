//! Which events start a run: rules about the data that was sent, or one expression over it.
//!
//! It owns what a filter may say, how it decides, and the sentence that says why. It knows nothing of who sends the
//! data, who asks, or where the decision is kept. [`read`] has the mistakes.
//!
//! A filter is a map of fields, each a path with a value that it must equal or a map of operators, all of which must
//! hold; beside the fields `allow` and `deny`, each an entry or a list of entries of such fields. One entry of `allow`
//! must hold if there are any, and none of `deny`. Or it is a text: an expression that reads `event.data`.

mod normal;
mod read;

use std::borrow::Cow;

use regex::Regex;
use serde_json::{Value, json};

use crate::Expr;
use crate::expr::{Comparison, EvalError, Names, Root, holds, kind};
use crate::path::{self, Missing, Segment};
use crate::text::cut;

pub use normal::normal;
pub use read::Mistake;

/// A value in a reason is a hint, not a copy of what was sent.
const MAX_SHOWN_CHARS: usize = 80;
/// A reason is one line of a list; keys and paths of the sender can be long.
const MAX_REASON_CHARS: usize = 500;

/// Keys are ids; longer ones are something else.
pub const MAX_KEY_BYTES: usize = 255;

/// The words that stand beside the fields of a filter; a field of this name is written `['allow']`.
const ALLOW: &str = "allow";
const DENY: &str = "deny";

#[derive(Debug, Clone)]
pub struct Filter {
    form: Form,
}

/// Whether data starts a run, and the rule that decided, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub starts: bool,
    pub reason: String,
}

#[derive(Debug, Clone)]
enum Form {
    Open,
    Expression(Expr),
    Rules(Rules),
}

#[derive(Debug, Clone, Default)]
struct Rules {
    /// All of them must hold.
    fields: Vec<Rule>,
    /// One entry must hold, if there are any.
    allow: Vec<Vec<Rule>>,
    /// No entry may hold.
    deny: Vec<Vec<Rule>>,
}

#[derive(Debug, Clone)]
struct Rule {
    path: Vec<Segment>,
    /// The test must not hold.
    not: bool,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Equals(Value),
    Contains(Value),
    In(Value),
    Regex(Regex),
    Greater(Value),
    Less(Value),
}

impl Filter {
    /// All mistakes, each with its path in the filter; nothing (null) lets everything through.
    pub fn parse(value: &Value) -> Result<Filter, Vec<String>> {
        Filter::read(value).map_err(|mistakes| mistakes.iter().map(Mistake::to_string).collect())
    }

    pub fn decide(&self, data: &Value) -> Decision {
        let (starts, reason) = match &self.form {
            Form::Open => (true, "there is no filter".to_owned()),
            Form::Expression(expression) => evaluate(expression, data),
            Form::Rules(rules) => rules.decide(data),
        };
        Decision { starts, reason: cut(&reason, MAX_REASON_CHARS) }
    }
}

/// What tells deliveries apart: an expression over what was sent. Two with the same key are the same one again.
#[derive(Debug, Clone)]
pub struct Dedupe(Expr);

impl Dedupe {
    /// The key of what was sent; none where it has none, so that each such delivery counts.
    pub fn key(&self, data: &Value) -> Result<Option<String>, String> {
        let source = self.0.source();
        match self.0.eval(&Event(json!({ "data": data }))) {
            Ok(Value::Null) | Err(EvalError::Reference(_)) => Ok(None),
            Ok(Value::String(text)) if text.is_empty() => Ok(None),
            Ok(Value::String(text)) if text.len() <= MAX_KEY_BYTES => Ok(Some(text)),
            Ok(Value::String(_)) => Err(format!("`dedupe`: `{source}` has more than {MAX_KEY_BYTES} bytes")),
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Ok(value) => Err(format!("`dedupe`: `{source}` is {}, and a key is a text or a number", kind(&value))),
            Err(error @ (EvalError::Type(_) | EvalError::Load(_) | EvalError::Limit(_))) => {
                Err(cut(&format!("`dedupe`: {error}"), MAX_REASON_CHARS))
            }
        }
    }
}

/// How a field is written as a key of a filter, so that it is read as just these segments.
pub fn key_of(path: &[Segment]) -> String {
    match path::show(path) {
        text if text == ALLOW || text == DENY => format!("['{text}']"),
        text => text,
    }
}

impl Rules {
    fn decide(&self, data: &Value) -> (bool, String) {
        for entry in &self.deny {
            if let (true, reason) = judge_all(entry, data) {
                return (false, format!("`deny` refuses it: {reason}"));
            }
        }
        let (holds, reason) = judge_all(&self.fields, data);
        if !holds || self.allow.is_empty() {
            return (holds, reason);
        }
        let mut first = None;
        for entry in &self.allow {
            match judge_all(entry, data) {
                (true, reason) => return (true, format!("`allow` lets it through: {reason}")),
                (false, reason) => first = first.or(Some(reason)),
            }
        }
        (false, format!("no entry of `allow` holds: {}", first.unwrap_or_default()))
    }
}

/// The first rule that does not hold decides; if all hold, they all do.
fn judge_all(rules: &[Rule], data: &Value) -> (bool, String) {
    let mut told = None;
    for rule in rules {
        match rule.judge(data) {
            (true, reason) => told = told.or(Some(reason)),
            (false, reason) => return (false, reason),
        }
    }
    match (told, rules.len()) {
        (Some(reason), 1) => (true, reason),
        (Some(reason), count) => (true, format!("all {count} rules hold; {reason}")),
        (None, _) => (true, "no rule of `deny` holds".to_owned()),
    }
}

impl Rule {
    /// A field that is missing, or of a type that cannot be compared, holds neither the test nor its opposite.
    fn judge(&self, data: &Value) -> (bool, String) {
        let field = path::show(&self.path);
        let value = match path::get(data, &self.path) {
            Ok(value) => value,
            Err(missing) => return (false, missing_reason(&field, &missing)),
        };
        match self.test.holds(value) {
            Ok(holds) => (holds != self.not, format!("`{field}` is {}, which {}", shown(value), self.test.says(holds))),
            Err(_) => (false, format!("`{field}` is {} {}, which {}", kind(value), shown(value), self.test.cannot())),
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> Result<bool, EvalError> {
        match self {
            Test::Equals(wanted) => holds(Comparison::Equal, value, wanted),
            Test::Contains(part) => holds(Comparison::In, part, value),
            Test::In(list) => holds(Comparison::In, value, list),
            Test::Regex(regex) => match value {
                Value::String(text) => Ok(regex.is_match(text)),
                other => Err(EvalError::Type(format!("{} has no text to search", kind(other)))),
            },
            Test::Greater(limit) => holds(Comparison::Greater, value, limit),
            Test::Less(limit) => holds(Comparison::Less, value, limit),
        }
    }

    fn says(&self, holds: bool) -> String {
        let (yes, no, with) = match self {
            Test::Equals(wanted) => ("equals", "does not equal", shown(wanted)),
            Test::Contains(part) => ("contains", "does not contain", shown(part)),
            Test::In(list) => ("is one of", "is not one of", shown(list)),
            Test::Regex(regex) => ("matches", "does not match", pattern(regex)),
            Test::Greater(limit) => ("is greater than", "is not greater than", shown(limit)),
            Test::Less(limit) => ("is less than", "is not less than", shown(limit)),
        };
        format!("{} {with}", if holds { yes } else { no })
    }

    fn cannot(&self) -> String {
        match self {
            Test::Equals(value) | Test::In(value) | Test::Greater(value) | Test::Less(value) => {
                format!("cannot be compared with {} {}", kind(value), shown(value))
            }
            Test::Contains(part) => format!("cannot be searched for {} {}", kind(part), shown(part)),
            Test::Regex(regex) => format!("cannot be matched with {}: that takes a text", pattern(regex)),
        }
    }
}

/// What an expression of a filter sees: `event.data`, and nothing else.
struct Event(Value);

impl Names for Event {
    fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError> {
        match root {
            Root::Event => Ok(Cow::Borrowed(&self.0)),
            other => Err(EvalError::Reference(format!("`{other}` is not known to a filter; it reads `event.data`"))),
        }
    }
}

fn evaluate(expression: &Expr, data: &Value) -> (bool, String) {
    let source = expression.source();
    match expression.test(&Event(json!({ "data": data }))) {
        Ok(holds) => (holds, format!("`{source}` is {holds}")),
        Err(error) => (false, error.to_string()),
    }
}

fn missing_reason(field: &str, missing: &Missing) -> String {
    let place = if missing.upto.is_empty() { "what was sent".to_owned() } else { format!("`{}`", missing.upto) };
    match missing.there.strip_prefix("keys: ") {
        Some(keys) => format!("`{field}` is missing: {place} has {keys}"),
        None => format!("`{field}` is missing: {place} is {}", missing.there),
    }
}

fn pattern(regex: &Regex) -> String {
    format!("`{}`", cut(regex.as_str(), MAX_SHOWN_CHARS))
}

fn shown(value: &Value) -> String {
    match value {
        // Not made into JSON as a whole: it may be as large as a body is allowed to be.
        Value::String(text) => Value::String(cut(text, MAX_SHOWN_CHARS)).to_string(),
        Value::Array(list) => format!("[{}]", listed(list.iter().map(Value::to_string))),
        Value::Object(map) => format!("{{{}}}", listed(map.iter().map(|(key, value)| format!("{key:?}: {value}")))),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// As many parts as a line has room for.
fn listed(parts: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&part);
        if text.len() > MAX_SHOWN_CHARS {
            return cut(&text, MAX_SHOWN_CHARS);
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
