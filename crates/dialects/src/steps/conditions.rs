//! The conditions of a checker: a JSONPath on an earlier output, an operator, and a value to compare with.
//!
//! A `set` before the checker keeps what each path found, so that the trace shows a condition that found nothing; the
//! checker then compares. Several finds: any is enough. Several conditions: any stops.

use relais_plan::Problem;
use relais_plan::step::{Kind, Step};
use serde_json::Value;

use super::given;
use super::kinds::At;
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::values::quote;
use crate::yaml::{Data, Node};

const CONDITION: &[&str] = &["step_definition_uuid", "extraction_json_path", "operator", "target_value"];
const EXAMPLE: &str = "`{ \"step_definition_uuid\": \"…\", \"extraction_json_path\": \"$.score\", \
                       \"operator\": \"greater_than\", \"target_value\": 3 }`";
/// Each operator with the test that it is.
const OPERATORS: &[(&str, &str)] =
    &[("equals", "eq"), ("not_equals", "ne"), ("contains", "containing"), ("greater_than", "gt"), ("less_than", "lt")];

/// A condition as expressions: what its path finds, and the test that a find must pass.
struct Condition {
    found: String,
    test: String,
}

impl Reader<'_> {
    pub(super) fn checker_step(&mut self, at: &At<'_, '_>, id: Option<String>) -> Vec<Step> {
        let conditions = self.stop_conditions(at);
        let (mut set, mut tests) = (Vec::new(), Vec::new());
        for (position, condition) in conditions.iter().enumerate() {
            let variable = format!("found_{}", position + 1);
            set.push((variable.clone(), self.composed(&format!("{{{{ {} }}}}", condition.found), at.span)));
            tests.push(format!("vars.{variable} | any({})", condition.test));
        }
        let stop = if tests.is_empty() { "false".to_owned() } else { tests.join(" or ") };
        let stop = Kind::StopIf(self.parsed(&stop, at.span));
        let found =
            Step { id: id.as_ref().map(|id| format!("{id}_found")), ..Step::new("set", Kind::Set(set), at.span) };
        vec![found, Step { id, ..Step::new("stop_if", stop, at.span) }]
    }

    fn stop_conditions(&mut self, at: &At<'_, '_>) -> Vec<Condition> {
        let Some(field) = self.filled_in(at, "stop_conditions") else { return Vec::new() };
        match &field.node.data {
            Data::List(items) if items.is_empty() => {
                let problem = Problem::error(field.node.span, format!("the step `{}` has no condition yet", at.name));
                self.unfinished.push(problem.help(format!("for example {EXAMPLE}")));
                Vec::new()
            }
            Data::List(items) => items.iter().filter_map(|node| self.stop_condition(node, at)).collect(),
            Data::Map(_) | Data::Scalar(_) => {
                self.wrong(
                    field,
                    "a list of conditions",
                    &format!("`\"stop_conditions\": [{}]`", EXAMPLE.trim_matches('`')),
                );
                Vec::new()
            }
        }
    }

    fn stop_condition(&mut self, node: &Node, at: &At<'_, '_>) -> Option<Condition> {
        let fields = self.steps_map(node, "a condition", CONDITION, EXAMPLE)?;
        let step = self.condition_field(&fields, "step_definition_uuid");
        let path = self.condition_field(&fields, "extraction_json_path");
        let operator = self.condition_field(&fields, "operator");
        let target = fields.get("target_value");
        if target.is_none() {
            let problem = Problem::error(node.span, "the condition has no `target_value`");
            self.problems.push(problem.help(format!("for example {EXAMPLE}")));
        }
        let step = step.and_then(|field| self.checked_step(field, at));
        let path = path.and_then(|field| self.condition_path(field, at));
        let test = operator.and_then(|field| self.choice(field, OPERATORS));
        let target = target.and_then(|field| self.target_value(field, test, at));
        let found = format!("{} | jsonpath({})", step?, path?);
        Some(Condition { found, test: format!("{}, {}", quote(test?), target?) })
    }

    fn condition_field<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Option<Field<'n>> {
        let field = given(fields, key);
        if field.is_none() {
            let problem = Problem::error(fields.span, format!("the condition has no `{key}`"));
            self.problems.push(problem.help(format!("for example {EXAMPLE}")));
        }
        field
    }

    /// The output that is looked at.
    fn checked_step(&mut self, field: Field<'_>, at: &At<'_, '_>) -> Option<String> {
        let uuid = self.name(field)?;
        self.readable_output(&uuid, at.position, field.node.span, at.listing)
    }

    /// A path that is put together when the condition is looked at is checked then.
    fn condition_path(&mut self, field: Field<'_>, at: &At<'_, '_>) -> Option<String> {
        if let Some(path) = self.steps_setting(field, at) {
            return Some(path);
        }
        let path = self.name(field)?;
        match serde_json_path::JsonPath::parse(&path) {
            Ok(_) => Some(text_literal(&path)),
            Err(error) => {
                let problem = Problem::error(field.node.span, format!("`{path}` is no JSONPath: {error}"));
                self.problems.push(problem.help("for example `$.score`, `$.items[0].name` or `$..price` (RFC 9535)"));
                None
            }
        }
    }

    fn target_value(&mut self, field: Field<'_>, test: Option<&str>, at: &At<'_, '_>) -> Option<String> {
        if let Some(target) = self.steps_setting(field, at) {
            return Some(target);
        }
        let value = field.node.to_value();
        if matches!(test, Some("gt" | "lt")) && !value.is_number() {
            self.wrong(field, "a number with greater_than and less_than", "`\"target_value\": 3`");
            return None;
        }
        Some(plain_literal(&value))
    }
}

/// A value as an expression that gives just this value.
fn plain_literal(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text_literal(text),
        Value::Array(items) => format!("[{}]", items.iter().map(plain_literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{}: {}", text_literal(key), plain_literal(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Braces are written as escapes: in quotes, two of them would begin a reference.
pub(super) fn text_literal(text: &str) -> String {
    quote(text).replace('{', "\\u007b").replace('}', "\\u007d")
}
