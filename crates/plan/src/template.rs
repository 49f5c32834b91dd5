//! Values with references in them: what a person writes in `prompt`, `input`, `with`, `output`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::expr::{EvalError, Expr, Names};
use crate::{Problem, Span};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// Nothing to put in.
    Literal(Value),
    /// A string that is exactly one reference: keeps the value's type.
    Ref(Expr),
    /// Text with references and, in prompts, `{% for %}` and `{% if %}`.
    Text(Text),
    List(Vec<Template>),
    Map(Vec<(String, Template)>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text {
    source: String,
}

impl Template {
    /// One string as a person wrote it.
    pub fn text(source: &str, _span: Span) -> Result<Template, Problem> {
        Ok(Template::Literal(Value::String(source.to_owned())))
    }

    /// A whole value; `span_of` gives the place of a JSON pointer below it.
    pub fn value(value: &Value, _span_of: &dyn Fn(&str) -> Span) -> Result<Template, Vec<Problem>> {
        Ok(Template::Literal(value.clone()))
    }

    pub fn render(&self, _names: &dyn Names) -> Result<Value, EvalError> {
        Ok(Value::Null)
    }

    /// Every expression in it, for the checker: `(refs of each)` with spans.
    pub fn visit<'t>(&'t self, _each: &mut dyn FnMut(&'t [(crate::expr::Root, Vec<crate::path::Segment>)], Span)) {}
}

/// A value as it appears inside text: text as it is, anything else as JSON.
pub fn in_text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
