//! Types along edges: what a step is given, against what an agent, tool or child workflow takes.

use std::collections::HashMap;

use serde_json::Value;

use super::flow::Flow;
use super::names::{known_shape, listed};
use super::shape::{self, Shape};
use crate::problem::nearest;
use crate::schema::Fit;
use crate::{Call, NodeId, Op, Plan, Problem, Problems, Schema, Span, Task, Template};

pub(super) struct Edges<'p> {
    plan: &'p Plan,
    flow: &'p Flow<'p>,
    keys: HashMap<&'p str, NodeId>,
    problems: Problems,
}

/// One value on its way in.
struct Place {
    span: Span,
    /// Who takes it, for people: "agent `writer`".
    taker: String,
    path: Vec<String>,
}

/// Words of a schema that constrain nothing.
const REMARKS: &[&str] = &["type", "title", "description", "default", "examples", "$comment"];

impl<'p> Edges<'p> {
    pub fn new(plan: &'p Plan, flow: &'p Flow<'p>) -> Edges<'p> {
        let visible = plan.nodes.iter().enumerate().filter(|(_, node)| !node.hidden);
        let keys = visible.map(|(id, node)| (node.key.as_str(), id as NodeId)).collect();
        Edges { plan, flow, keys, problems: Vec::new() }
    }

    pub fn check(mut self, tools: &HashMap<&str, &Value>) -> Problems {
        for node in &self.plan.nodes {
            if let Op::Call(call) = &node.op {
                self.call(call, node.span, tools);
            }
        }
        if let (Some(output), Some(schema)) = (&self.plan.output, &self.plan.output_schema) {
            let mut place = Place { span: Span::default(), taker: "the workflow's output".into(), path: Vec::new() };
            self.fits(output, schema.json(), &mut place);
        }
        self.problems
    }

    fn call(&mut self, call: &'p Call, span: Span, tools: &HashMap<&str, &Value>) {
        let (given, wanted, taker) = match &call.task {
            Task::Agent { agent, .. } => {
                let declared = self.plan.agents.get(agent).and_then(|agent| agent.input.as_ref());
                let wanted = call.input_schema.as_ref().or(declared).map(Schema::json);
                (call.input.as_ref(), wanted, format!("agent `{agent}`"))
            }
            Task::Tool { tool, with } => (Some(with), tools.get(tool.as_str()).copied(), format!("tool `{tool}`")),
            Task::Workflow { workflow, .. } => {
                let wanted = call.input_schema.as_ref().map(Schema::json);
                (call.input.as_ref(), wanted, format!("workflow `{workflow}`"))
            }
        };
        if let (Some(given), Some(wanted)) = (given, wanted) {
            self.fits(given, wanted, &mut Place { span, taker, path: Vec::new() });
        }
    }

    fn fits(&mut self, template: &'p Template, schema: &Value, place: &mut Place) {
        match template {
            Template::Literal(value) => self.literal(value, schema, place),
            Template::Ref(expr) => {
                let Some(shape) = known_shape(self.plan, self.flow, &self.keys, expr) else { return };
                let source = expr.source().trim();
                if let Some(why) = mismatch(shape, schema) {
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
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for key in required.filter(|key| !entries.iter().any(|(name, _)| name == key)) {
            let message = format!("{} needs `{key}`, which is not given", place.name());
            let given = listed(entries.iter().map(|(name, _)| name.as_str()));
            self.problems.push(Problem::error(place.span, message).help(format!("given are: {given}")));
        }
        for (key, value) in entries {
            match shape::field(schema, key) {
                Ok(Shape::Json(property)) => self.below(key, value, property, place),
                Err(miss) if miss.closed && miss.instead.is_none() => self.unknown_key(key, &miss.known, place),
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn unknown_key(&mut self, key: &str, known: &[&str], place: &Place) {
        let help = match nearest(key, known.iter().copied()) {
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

fn mismatch(shape: Shape<'_>, schema: &Value) -> Option<String> {
    if let Shape::Json(source) = shape {
        if has_reference(schema) || has_reference(source) {
            return None;
        }
        return match Schema::new(schema.clone()).covers(&Schema::new(source.clone())) {
            Fit::No(witness) => Some(witness),
            Fit::Yes | Fit::Unknown => None,
        };
    }
    let (given, wanted) = (shape.types()?, shape::types(schema)?);
    let apart = !given.iter().any(|given| wanted.contains(given));
    apart.then(|| format!("it is {}, and wanted is {}", shape::in_words(&given), shape::in_words(&wanted)))
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
