//! A filter as it is written, and every mistake in it with its place. Knows nothing of data that is sent.

use std::fmt;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::{ALLOW, DENY, Dedupe, Filter, Form, Rule, Rules, Test};
use crate::expr::Root;
use crate::path::{self, Segment};
use crate::problem::nearest;
use crate::{Expr, Span};

/// A filter is looked at for each event; more rules than this are a program.
const MAX_RULES: usize = 200;
/// Values of one `in`; each is compared with what was sent.
const MAX_LISTED: usize = 1_000;
/// A longer expression is a program.
const MAX_EXPRESSION_CHARS: usize = 10_000;
/// A longer pattern is no pattern.
const MAX_PATTERN_CHARS: usize = 1_000;
/// Of a compiled pattern: `\w{1000}` is short text and much memory.
const MAX_PATTERN_BYTES: usize = 256 * 1024;
/// More at once help nobody.
const MAX_MISTAKES: usize = 20;

const NOT: &str = "not";
const OPERATORS: [&str; 7] = ["equals", NOT, "contains", "in", "regex", "greater", "less"];
const FORMS: &str = "such as `{ status: paid, order.total: { greater: 100 } }`, or an expression over `event.data`";

/// What is wrong in a filter, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// From the filter on.
    pub at: Vec<Segment>,
    pub message: String,
}

impl Mistake {
    /// The place as a JSON pointer below the filter.
    pub fn pointer(&self) -> String {
        let part = |segment: &Segment| match segment {
            Segment::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Index(index) => format!("/{index}"),
        };
        self.at.iter().map(part).collect()
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place: Vec<Segment> = [Segment::Key("filter".to_owned())].into_iter().chain(self.at.clone()).collect();
        write!(f, "`{}`: {}", path::show(&place), self.message)
    }
}

impl Filter {
    /// As [`Filter::parse`], with places that a reader can find in its file.
    pub fn read(value: &Value) -> Result<Filter, Vec<Mistake>> {
        let mut reading = Reading::of("a filter");
        let form = match value {
            Value::Null => Form::Open,
            Value::String(source) => reading.expression(source).map_or(Form::Open, Form::Expression),
            Value::Object(map) if map.is_empty() => Form::Open,
            Value::Object(map) => Form::Rules(reading.filter(map)),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                let message = format!("a filter is a map of rules, {FORMS}; this is {}", path::describe(value));
                reading.mistake(message);
                Form::Open
            }
        };
        if reading.mistakes.is_empty() { Ok(Filter { form }) } else { Err(reading.mistakes) }
    }
}

impl Dedupe {
    /// Why it cannot be used, if it cannot.
    pub fn parse(source: &str) -> Result<Dedupe, String> {
        let mut reading = Reading::of("`dedupe`");
        let expression = reading.expression(source);
        let told: Vec<String> = reading.mistakes.into_iter().map(|mistake| mistake.message).collect();
        expression.filter(|_| told.is_empty()).map(Dedupe).ok_or_else(|| told.join("; "))
    }
}

struct Reading {
    /// What is read, for messages.
    what: &'static str,
    at: Vec<Segment>,
    rules: usize,
    mistakes: Vec<Mistake>,
}

impl Reading {
    fn of(what: &'static str) -> Reading {
        Reading { what, at: Vec::new(), rules: 0, mistakes: Vec::new() }
    }

    fn mistake(&mut self, message: impl Into<String>) {
        if self.mistakes.len() < MAX_MISTAKES {
            self.mistakes.push(Mistake { at: self.at.clone(), message: message.into() });
        }
    }

    fn within<T>(&mut self, segment: Segment, inner: impl FnOnce(&mut Reading) -> T) -> T {
        self.at.push(segment);
        let made = inner(self);
        self.at.pop();
        made
    }

    fn expression(&mut self, source: &str) -> Option<Expr> {
        if source.len() > MAX_EXPRESSION_CHARS {
            self.mistake(format!("the expression has more than {MAX_EXPRESSION_CHARS} characters"));
            return None;
        }
        let expression = match Expr::parse(source, Span::default()) {
            Ok(expression) => expression,
            Err(problem) => {
                let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
                self.mistake(format!("{}{help}", problem.message));
                return None;
            }
        };
        for (root, below) in expression.refs() {
            let is_data = below.first().is_none_or(|segment| *segment == Segment::Key("data".to_owned()));
            if *root != Root::Event || !is_data {
                let rest = below.first().map(|segment| path::show(&[Segment::Key(String::new()), segment.clone()]));
                let rest = rest.unwrap_or_default().replacen("['']", "", 1);
                let what = self.what;
                self.mistake(format!("{what} reads `event.data`, what was sent; it does not know `{root}{rest}`"));
            }
        }
        Some(expression)
    }

    fn filter(&mut self, map: &Map<String, Value>) -> Rules {
        let mut rules = Rules::default();
        for (key, value) in map {
            self.within(Segment::Key(key.clone()), |reading| match key.as_str() {
                ALLOW => rules.allow = reading.entries(value),
                DENY => rules.deny = reading.entries(value),
                _ => rules.fields.extend(reading.field(key, value)),
            });
        }
        rules
    }

    /// One entry, or a list of them.
    fn entries(&mut self, value: &Value) -> Vec<Vec<Rule>> {
        match value {
            Value::Array(list) if list.is_empty() => {
                self.mistake("a list without entries says nothing; leave it out");
                Vec::new()
            }
            Value::Array(list) => {
                let entries = list.iter().take(MAX_RULES + 1).enumerate();
                entries
                    .map(|(n, entry)| self.within(Segment::Index(n as i64), |reading| reading.entry(entry)))
                    .collect()
            }
            entry => vec![self.entry(entry)],
        }
    }

    fn entry(&mut self, value: &Value) -> Vec<Rule> {
        let map = match value {
            Value::Object(map) if !map.is_empty() => map,
            other => {
                self.mistake(format!(
                    "an entry is a map of rules such as `{{ status: paid }}`, not {}",
                    described(other)
                ));
                return Vec::new();
            }
        };
        let mut rules = Vec::new();
        for (key, value) in map {
            self.within(Segment::Key(key.clone()), |reading| match key.as_str() {
                ALLOW | DENY => reading.mistake(format!(
                    "`{key}` stands beside the fields of the filter, not inside an entry; a field of this name is written ['{key}']"
                )),
                _ => rules.extend(reading.field(key, value)),
            });
        }
        rules
    }

    fn field(&mut self, key: &str, value: &Value) -> Vec<Rule> {
        let path = match path::parse(key) {
            Ok(path) if !path.is_empty() => path,
            Ok(_) => {
                self.mistake("a rule needs the field that it is about, such as `order.total`");
                return Vec::new();
            }
            Err(message) => {
                self.mistake(message);
                return Vec::new();
            }
        };
        let tests = match value {
            Value::Object(operators) => self.operators(operators),
            Value::Array(_) => {
                self.mistake(
                    "write `{ in: [a, b] }` for one of these values, or `{ equals: [a, b] }` for just this list",
                );
                Vec::new()
            }
            plain => vec![(false, Test::Equals(plain.clone()))],
        };
        self.count(tests.len());
        tests.into_iter().map(|(not, test)| Rule { path: path.clone(), not, test }).collect()
    }

    fn count(&mut self, more: usize) {
        let before = self.rules;
        self.rules += more;
        if before <= MAX_RULES && self.rules > MAX_RULES {
            self.mistake(format!("the filter has more than {MAX_RULES} rules"));
        }
    }

    fn operators(&mut self, map: &Map<String, Value>) -> Vec<(bool, Test)> {
        if map.is_empty() {
            self.mistake(format!("a rule needs an operator: {}", OPERATORS.join(", ")));
        }
        let mut tests = Vec::new();
        for (word, operand) in map.iter().take(MAX_RULES + 1) {
            let read = |reading: &mut Reading| match (word.as_str(), operand) {
                (NOT, Value::Object(inner)) => reading.opposite(inner),
                (NOT | "not_equals", plain) => Some((true, Test::Equals(plain.clone()))),
                ("not_in", list) => reading.list(list).map(|list| (true, Test::In(list))),
                _ => reading.test(word, operand).map(|test| (false, test)),
            };
            tests.extend(self.within(Segment::Key(word.clone()), read));
        }
        tests
    }

    /// `not` around an operator. Around two it could mean neither, or not both.
    fn opposite(&mut self, map: &Map<String, Value>) -> Option<(bool, Test)> {
        let mut operators = map.iter();
        let (Some((word, operand)), None) = (operators.next(), operators.next()) else {
            self.mistake("`not` takes a value or one operator, such as `{ not: { in: [a, b] } }`");
            return None;
        };
        self.within(Segment::Key(word.clone()), |reading| {
            if word == NOT {
                reading.mistake("`not` inside `not` says nothing; leave both out");
                return None;
            }
            reading.test(word, operand).map(|test| (true, test))
        })
    }

    fn test(&mut self, word: &str, operand: &Value) -> Option<Test> {
        match word {
            "equals" => Some(Test::Equals(operand.clone())),
            "contains" => Some(Test::Contains(operand.clone())),
            "in" => self.list(operand).map(Test::In),
            "regex" => self.regex(operand),
            "greater" | "greater_than" => self.limit(operand).map(Test::Greater),
            "less" | "less_than" => self.limit(operand).map(Test::Less),
            _ => {
                self.unknown(word);
                None
            }
        }
    }

    fn unknown(&mut self, word: &str) {
        let near = match nearest(word, OPERATORS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the operators are {}.", OPERATORS.join(", ")),
        };
        self.mistake(format!("there is no such operator; {near} To compare with a map, write `{{ equals: {{ … }} }}`"));
    }

    fn list(&mut self, operand: &Value) -> Option<Value> {
        match operand {
            Value::Array(list) if list.len() > MAX_LISTED => {
                self.mistake(format!("the list has more than {MAX_LISTED} values"));
                None
            }
            Value::Array(_) => Some(operand.clone()),
            other => {
                self.mistake(format!("`in` takes a list such as `[paid, shipped]`, not {}", described(other)));
                None
            }
        }
    }

    fn limit(&mut self, operand: &Value) -> Option<Value> {
        if operand.is_number() || operand.is_string() {
            return Some(operand.clone());
        }
        self.mistake(format!("takes a number such as `100`, or a text such as a date, not {}", described(operand)));
        None
    }

    fn regex(&mut self, operand: &Value) -> Option<Test> {
        let Some(pattern) = operand.as_str() else {
            self.mistake(format!("`regex` takes a text such as `^EU-[0-9]+$`, not {}", described(operand)));
            return None;
        };
        if pattern.len() > MAX_PATTERN_CHARS {
            self.mistake(format!("the pattern has more than {MAX_PATTERN_CHARS} characters"));
            return None;
        }
        match RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build() {
            Ok(regex) => Some(Test::Regex(regex)),
            Err(error) => {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or_default();
                self.mistake(format!("`{pattern}` is no pattern: {}", last.trim_start_matches("error: ")));
                None
            }
        }
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => "a map".to_owned(),
        other => path::describe(other),
    }
}
