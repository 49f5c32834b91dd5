//! Values in the one form that reading them from a native file gives, so that a workflow and its conversion are the same
//! plan: what refers to nothing is a literal as a whole, and braces that mean nothing are escaped.

use relais_plan::step::{Kind, Step, StepError, Workflow};
use relais_plan::{Agent, Call, Expr, OnDeadline, Span, Task, Template, Until};
use serde_json::Value;

pub(crate) fn workflow(workflow: &mut Workflow) {
    workflow.output.iter_mut().for_each(template);
    workflow.agents.values_mut().for_each(agent);
    workflow.steps.iter_mut().for_each(step);
    workflow.exits.iter_mut().flat_map(|(_, steps)| steps).for_each(step);
}

pub(crate) fn agent(agent: &mut Agent) {
    template(&mut agent.instructions);
}

fn step(step: &mut Step) {
    kind(&mut step.kind);
    if let StepError::Value(value) = &mut step.on_error {
        template(value);
    }
    step.save.iter_mut().for_each(|(_, value)| template(value));
    if let Some(undo) = &mut step.undo {
        self::step(undo);
    }
}

fn kind(kind: &mut Kind) {
    match kind {
        Kind::Call(call) => self::call(call),
        Kind::Choose { arms, other } => {
            arms.iter_mut().flat_map(|arm| &mut arm.steps).for_each(step);
            other.iter_mut().flatten().for_each(step);
        }
        Kind::Parallel { lanes: steps, .. }
        | Kind::Group { steps, .. }
        | Kind::ForEach { steps, .. }
        | Kind::Repeat { steps, .. } => steps.iter_mut().for_each(step),
        Kind::Wait(until) => self::until(until),
        Kind::Set(values) => values.iter_mut().for_each(|(_, value)| template(value)),
        Kind::StopIf(_) | Kind::Goto { .. } => {}
    }
}

fn call(call: &mut Call) {
    call.input.iter_mut().for_each(template);
    match &mut call.task {
        Task::Agent { prompt, .. } => prompt.iter_mut().for_each(template),
        Task::Tool { with, .. } => template(with),
        Task::Workflow { .. } => {}
    }
}

fn until(until: &mut Until) {
    match until {
        Until::For(value) | Until::At(value) => template(value),
        Until::Person(ask) => {
            template(&mut ask.question);
            ask.show.iter_mut().for_each(template);
            if let OnDeadline::Value(value) = &mut ask.on_deadline {
                template(value);
            }
        }
        Until::Signal { .. } | Until::Event { .. } => {}
    }
}

fn template(template: &mut Template) {
    let written = std::mem::replace(template, Template::Literal(Value::Null));
    *template = normal(written);
}

fn normal(template: Template) -> Template {
    match template {
        Template::Literal(value) if has_braces(&value) => plain(value),
        Template::List(items) => list(items.into_iter().map(normal).collect()),
        Template::Map(fields) => map(fields.into_iter().map(|(key, field)| (key, normal(field))).collect()),
        Template::Ref(expr) => Template::Ref(Expr::new(expr.source().trim(), expr.span())),
        Template::Literal(_) | Template::Text(_) => template,
    }
}

fn has_braces(value: &Value) -> bool {
    match value {
        Value::String(text) => ["{{", "{%", "{#"].iter().any(|open| text.contains(open)),
        Value::Array(items) => items.iter().any(has_braces),
        Value::Object(map) => map.values().any(has_braces),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value whose braces mean nothing.
fn plain(value: Value) -> Template {
    match value {
        Value::String(text) => Template::plain(&text, Span::default()),
        Value::Array(items) => list(items.into_iter().map(plain).collect()),
        Value::Object(fields) => map(fields.into_iter().map(|(key, field)| (key, plain(field))).collect()),
        other => Template::Literal(other),
    }
}

/// A list of templates; where none of them refers to anything, a list that is written out.
pub(crate) fn list(items: Vec<Template>) -> Template {
    let literals: Option<Vec<Value>> = items.iter().map(literal).collect();
    literals.map_or(Template::List(items), |values| Template::Literal(Value::Array(values)))
}

pub(crate) fn map(fields: Vec<(String, Template)>) -> Template {
    let pair = |(key, field): &(String, Template)| Some((key.clone(), literal(field)?));
    let literals: Option<serde_json::Map<String, Value>> = fields.iter().map(pair).collect();
    literals.map_or(Template::Map(fields), |map| Template::Literal(Value::Object(map)))
}

fn literal(template: &Template) -> Option<Value> {
    match template {
        Template::Literal(value) => Some(value.clone()),
        Template::Ref(_) | Template::Text(_) | Template::List(_) | Template::Map(_) => None,
    }
}
