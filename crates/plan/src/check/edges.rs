//! Types along edges: what a step is given, against what an agent, tool or child workflow takes.

use std::collections::HashMap;

use serde_json::Value;

use super::catalog::Tools;
use super::flow::{Flow, View};
use super::names::{Keys, known_shape, listed};
use super::shape::{self, Shape};
use crate::problem::Suggestions;
use crate::schema::Fit;
use crate::{Call, NodeId, Op, Plan, Problem, Problems, Schema, Span, Task, Template};

pub(super) struct Edges<'p> {
    plan: &'p Plan,
    flow: &'p Flow<'p>,
    keys: &'p Keys<'p>,
    /// Why a value of one schema does not go where another is wanted, by their addresses: many steps share few
    /// schemas, and comparing two is the dearest thing here.
    compared: HashMap<(usize, usize), Option<String>>,
    problems: Problems,
    suggestions: Suggestions,
}

/// One value on its way in.
struct Place {
    span: Span,
    view: View,
    /// Who takes it, for people: "agent `writer`".
    taker: String,
    path: Vec<String>,
}

/// Words of a schema that constrain nothing.
const REMARKS: &[&str] = &["type", "title", "description", "default", "examples", "$comment"];

impl<'p> Edges<'p> {
    pub fn new(plan: &'p Plan, flow: &'p Flow<'p>, keys: &'p Keys<'p>) -> Edges<'p> {
        Edges { plan, flow, keys, compared: HashMap::new(), problems: Vec::new(), suggestions: Suggestions::default() }
    }

    pub fn check(mut self, tools: &Tools<'_>) -> Problems {
        for (id, node) in self.plan.nodes.iter().enumerate() {
            if let Op::Call(call) = &node.op {
                self.call(call, (View::Start(id as NodeId), node.span), tools);
            }
        }
        if let (Some(output), Some(schema)) = (&self.plan.output, &self.plan.output_schema) {
            let taker = "the workflow's output".to_owned();
            let mut place = Place { span: Span::default(), view: View::PlanEnd, taker, path: Vec::new() };
            self.fits(output, schema.json(), &mut place);
        }
        self.problems
    }

    fn call(&mut self, call: &'p Call, (view, span): (View, Span), tools: &Tools<'_>) {
        let (given, wanted, taker) = match &call.task {
            Task::Agent { agent, .. } => {
                let declared = self.plan.agents.get(agent).and_then(|agent| agent.input.as_ref());
                let wanted = call.input_schema.as_ref().or(declared).map(Schema::json);
                (call.input.as_ref(), wanted, format!("agent `{agent}`"))
            }
            Task::Tool { tool, with } => (Some(with), tools.get(tool.as_str()).copied(), format!("tool `{tool}`")),
            Task::Workflow { workflow, takes, .. } => {
                let taker = format!("workflow `{workflow}`");
                self.child(call, takes.as_ref(), &mut Place { span, view, taker: taker.clone(), path: Vec::new() });
                (call.input.as_ref(), call.input_schema.as_ref().map(Schema::json), taker)
            }
        };
        if let (Some(given), Some(wanted)) = (given, wanted) {
            self.fits(given, wanted, &mut Place { span, view, taker, path: Vec::new() });
        }
    }

    /// A child run that is given nothing gets an empty input.
    fn child(&mut self, call: &'p Call, takes: Option<&'p Schema>, place: &mut Place) {
        let Some(takes) = takes else { return };
        match &call.input {
            Some(given) => self.fits(given, takes.json(), place),
            None => self.map(&[], takes.json(), place),
        }
    }

    fn fits(&mut self, template: &'p Template, schema: &Value, place: &mut Place) {
        match template {
            Template::Literal(value) => self.literal(value, schema, place),
            Template::Ref(expr) => {
                let known = known_shape(self.flow, self.keys, expr, place.view);
                let Some(shape) = known else { return };
                let source = expr.source().trim();
                if let Some(why) = self.mismatch(shape, schema) {
                    let message = format!("`{source}` does not fit {}: {why}", place.name());
                    self.problems.push(Problem::error(expr.span(), message));
                }
            }
            Template::Text(_) => self.kind("string", schema, place),
            Template::List(items) => {
                self.kind("array", schema, place);
                let Some(wanted) = schema.get("items").filter(|items| items.is_object()) else { return };
                items.iter().for_each(|item| self.below("[]", item, wanted, place));
            }
            Template::Map(entries) => self.map(entries, schema, place),
        }
    }

    fn below(&mut self, key: &str, template: &'p Template, schema: &Value, place: &mut Place) {
        place.path.push(key.to_owned());
        self.fits(template, schema, place);
        place.path.pop();
    }

    fn map(&mut self, entries: &'p [(String, Template)], schema: &Value, place: &mut Place) {
        self.kind("object", schema, place);
        let given = |key: &str| entries.iter().any(|(name, _)| name == key);
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let mut absent: Vec<&str> = required.filter(|key| !given(key)).collect();
        // Reading what is not declared is a slip; giving more than is asked for is one only where that is refused.
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (key, value) in entries {
            match shape::field(schema, key) {
                Ok(Shape::Json(property)) => self.below(key, value, property, place),
                Err(miss) if is_closed && miss.instead.is_none() => {
                    let near = self.suggestions.nearest(key, miss.known.iter().copied());
                    // One slip of the pen is one problem.
                    absent.retain(|absent| near != Some(absent));
                    self.unknown_key(key, near, &miss.known, place);
                }
                Ok(_) | Err(_) => {}
            }
        }
        let all = listed(entries.iter().map(|(name, _)| name.as_str()));
        for key in absent {
            let message = format!("{} needs `{key}`, which is not given", place.name());
            self.problems.push(Problem::error(place.span, message).help(format!("given are: {all}")));
        }
    }

    fn unknown_key(&mut self, key: &str, near: Option<&str>, known: &[&str], place: &Place) {
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it takes: {}", listed(known.iter().copied())),
        };
        let message = format!("{} takes no `{key}`", place.name());
        self.problems.push(Problem::error(place.span, message).help(help));
    }

    fn literal(&mut self, value: &Value, schema: &Value, place: &Place) {
        if plainly_fits(value, schema) || (!place.path.is_empty() && has_reference(schema)) {
            return;
        }
        let Err(violations) = Schema::new(schema.clone()).check(value) else { return };
        for violation in violations {
            let path = if violation.path.is_empty() { String::new() } else { format!(" at `{}`", violation.path) };
            let message = format!("{} does not take this value{path}: {}", place.name(), violation.message);
            self.problems.push(Problem::error(place.span, message));
        }
    }

    /// Why a value of this form cannot go there, in the plainest terms that can be had.
    fn mismatch(&mut self, shape: Shape<'p>, schema: &Value) -> Option<String> {
        if let Some((given, wanted)) = shape.types().zip(shape::types(schema))
            && !given.iter().any(|given| wanted.iter().any(|wanted| is_a(given, wanted)))
        {
            return Some(format!("it is {}, and wanted is {}", shape::in_words(&given), shape::in_words(&wanted)));
        }
        let Shape::Json(source) = shape else { return None };
        let addresses = (std::ptr::from_ref(schema).addr(), std::ptr::from_ref(source).addr());
        self.compared.entry(addresses).or_insert_with(|| witness(schema, source)).clone()
    }

    /// Text, lists and maps are of a type whatever is put into them.
    fn kind(&mut self, given: &str, schema: &Value, place: &Place) {
        let Some(types) = shape::types(schema).filter(|types| !types.contains(&given)) else { return };
        let (given, wanted) = (shape::in_words(&[given]), shape::in_words(&types));
        let message = format!("{} takes {wanted}, and is given {given}", place.name());
        self.problems.push(Problem::error(place.span, message));
    }
}

impl Place {
    fn name(&self) -> String {
        if self.path.is_empty() { self.taker.clone() } else { format!("`{}` of {}", self.path.join("."), self.taker) }
    }
}

/// An example of what one schema allows and the other does not.
fn witness(wanted: &Value, given: &Value) -> Option<String> {
    if has_reference(wanted) || has_reference(given) {
        return None;
    }
    match Schema::new(of_form(wanted)).covers(&Schema::new(of_form(given))) {
        Fit::No(witness) => Some(format!("it can be {witness}")),
        Fit::Yes | Fit::Unknown => None,
    }
}

/// Words that bound a value within its type. Whether a text is long enough is seen when it is there; an edge is wrong
/// when types, required fields or enums cannot fit.
const BOUNDS: &[&str] = &[
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The schema without its bounds, at every depth.
fn of_form(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = map.iter().filter(|(word, value)| value.is_object() || !BOUNDS.contains(&word.as_str()));
            kept.map(|(word, value)| (word.clone(), of_form(value))).collect()
        }
        Value::Array(items) => items.iter().map(of_form).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Can a value of one type be of the other? Some numbers are integers.
fn is_a(given: &str, wanted: &str) -> bool {
    given == wanted || matches!((given, wanted), ("integer", "number") | ("number", "integer"))
}

/// A reference inside a part of a schema points to places outside the part.
fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("$ref") || map.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The common case without compiling a schema: only a type is asked for, and it is this one.
fn plainly_fits(value: &Value, schema: &Value) -> bool {
    let Some(words) = schema.as_object() else { return false };
    let plain = words.keys().all(|word| REMARKS.contains(&word.as_str()));
    let named: &[&str] = match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(n) if n.is_i64() || n.is_u64() => &["integer", "number"],
        Value::Number(_) => &["number"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    };
    plain && shape::types(schema).is_none_or(|types| types.iter().any(|t| named.contains(t)))
}
