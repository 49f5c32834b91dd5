//! Steps: what each does, then what surrounds it.

use relais_plan::step::{Awaited, Branch, Kind, Step, StepError};
use relais_plan::{
    Ask, Backoff, Call, Escalation, Expr, LaneFailure, OnDeadline, OnLimit, People, Retry, Span, Task, Template, Until,
};
use serde_json::{Value, json};

use super::Fields;
use super::values::{budget, duration, expression, name_list, names, schema, template};
use super::yaml::{Doc, Style};
use crate::native::DEFAULT_MAX;
use crate::values::{bare, literal};
use crate::yaml;

pub(super) fn list(steps: &[Step]) -> Doc {
    Doc::List(steps.iter().map(step).collect(), Style::Block)
}

fn step(step: &Step) -> Doc {
    let mut fields = Fields::default();
    fields.some("id", step.id.as_deref().map(Value::from));
    fields.some("name", step.name.as_deref().map(Value::from));
    fields.some("description", step.description.as_deref().map(Value::from));
    fields.some("needs", step.needs.as_deref().map(name_list));
    fields.some("run_if", step.run_if_always.then(|| Value::from("always")));
    fields.some("when", step.when.as_ref().map(condition));
    kind(&mut fields, step);
    fields.some("keep", step.keep_last.then(|| Value::from("last")));
    fields.some("output_key", step.output_key.as_deref().map(Value::from));
    fields.some("retry", (!step.retry.is_default()).then(|| retry(&step.retry)));
    fields.some("timeout", step.timeout_ms.map(duration));
    fields.some("on_error", on_error(&step.on_error));
    fields.some("budget", budget(&step.budget));
    fields.some("on_missing", step.on_missing_null.then_some(Value::Null));
    fields.some("save", (!step.save.is_empty()).then(|| assigned(&step.save)));
    fields.some("undo", step.undo.as_deref().map(self::step));
    fields.block()
}

fn assigned(values: &[(String, Template)]) -> Value {
    Value::Object(values.iter().map(|(name, value)| (name.clone(), template(value))).collect())
}

fn condition(expr: &Expr) -> Value {
    expression(expr.source())
}

fn kind(fields: &mut Fields, step: &Step) {
    match &step.kind {
        Kind::Call(call) => self::call(fields, call),
        Kind::Choose { arms, other } => choose(fields, step.word, arms, other.as_deref()),
        Kind::Parallel { lanes, on_failure, wait_for, detach } => {
            fields.put("parallel", list(lanes));
            lane_failure(fields, *on_failure);
            fields.some("wait_for", awaited(wait_for));
            fields.flag("detach", *detach);
        }
        Kind::Group { steps, on_failure } => {
            fields.put("steps", list(steps));
            lane_failure(fields, *on_failure);
        }
        Kind::ForEach { items, steps, at_once, max, on_limit, on_failure } => {
            fields.put("for_each", self::items(items));
            fields.some("at_once", (*at_once > 1).then(|| json!(at_once)));
            limit(fields, *max, *on_limit);
            lane_failure(fields, *on_failure);
            fields.put("do", list(steps));
        }
        Kind::Repeat { while_, until, delay_ms, steps, max, on_limit } => {
            fields.some("while", while_.as_ref().map(condition));
            fields.put("repeat", list(steps));
            fields.some("until", until.as_ref().map(condition));
            limit(fields, *max, *on_limit);
            fields.some("delay", (*delay_ms > 0).then(|| duration(*delay_ms)));
        }
        Kind::Wait(until) => wait(fields, until),
        Kind::StopIf(expr) => fields.put("stop_if", condition(expr)),
        Kind::Set(values) => {
            fields.put("set", assigned(values));
        }
        Kind::Goto { to, max } => {
            fields.put("goto", Value::from(to.text.as_str()));
            fields.some("max", max.map(Value::from));
        }
    }
}

fn call(fields: &mut Fields, call: &Call) {
    match &call.task {
        Task::Agent { agent, prompt } => {
            fields.put("agent", Value::from(agent.as_str()));
            fields.some("prompt", prompt.as_ref().map(template));
        }
        Task::Tool { tool, with } => {
            fields.put("tool", Value::from(tool.as_str()));
            fields.some("with", (*with != Template::Literal(json!({}))).then(|| template(with)));
        }
        Task::Workflow { workflow, .. } => fields.put("workflow", Value::from(workflow.as_str())),
    }
    fields.some("input", call.input.as_ref().map(template));
    fields.some("input_schema", call.input_schema.as_ref().map(schema));
    fields.some("input_as", call.input_as.as_deref().map(Value::from));
    fields.some("output", call.output_schema.as_ref().map(schema));
}

/// `if` where it can be said so, else `switch` over a value, else `switch` over conditions.
fn choose(fields: &mut Fields, word: &str, arms: &[Branch], other: Option<&[Step]>) {
    if let ([only], "if") = (arms, word)
        && only.label == "then"
    {
        fields.put("if", condition(&only.when));
        fields.put("then", list(&only.steps));
        fields.some("else", other.map(list));
        return;
    }
    match subject(arms) {
        Some((subject, values)) => {
            fields.put("switch", expression(subject));
            fields.put("cases", cases(arms, &values));
        }
        None => fields.put("switch", Doc::List(arms.iter().map(arm).collect(), Style::Block)),
    }
    fields.some("default", other.map(list));
}

/// An arm with a condition of its own.
fn arm(arm: &Branch) -> Doc {
    let mut fields = Fields::default();
    fields.put("when", condition(&arm.when));
    fields.some("label", (arm.label != arm.when.source()).then(|| Value::from(arm.label.as_str())));
    fields.put("steps", list(&arm.steps));
    fields.block()
}

/// What all arms compare, and with which values, if that is what they do.
fn subject(arms: &[Branch]) -> Option<(&str, Vec<Value>)> {
    let mut found = None;
    let mut values = Vec::with_capacity(arms.len());
    for arm in arms {
        let (subject, value) = comparison(arm)?;
        if *found.get_or_insert(subject) != subject {
            return None;
        }
        values.push(value);
    }
    found.map(|subject| (subject, values))
}

/// The two sides of `(subject) == value` where the label is that of the value.
fn comparison(arm: &Branch) -> Option<(&str, Value)> {
    let as_json = serde_json::from_str::<Value>(&arm.label).ok().filter(|value| label(value) == arm.label);
    [Some(Value::from(arm.label.as_str())), as_json].into_iter().flatten().find_map(|value| {
        let end = format!(") == {}", literal(&value).ok()?);
        let subject = arm.when.source().strip_prefix('(')?.strip_suffix(&end)?;
        let is_bare = subject.trim() == subject && !subject.is_empty() && bare(subject, Span::default()).0 == subject;
        (is_bare && Expr::parse(subject, Span::default()).is_ok()).then_some((subject, value))
    })
}

/// What a listed case is called.
fn label(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A map from text to steps; a list where a value is something else or comes twice. A key that spells a number or a
/// boolean would mean that, too.
fn cases(arms: &[Branch], values: &[Value]) -> Doc {
    let is_only_text = |text: &&str| !matches!(yaml::plain(text), Value::Bool(_) | Value::Number(_));
    let mut texts: Vec<&str> = values.iter().filter_map(Value::as_str).filter(is_only_text).collect();
    texts.sort_unstable();
    texts.dedup();
    if texts.len() == values.len() {
        return Doc::Map(arms.iter().map(|arm| (arm.label.clone(), list(&arm.steps))).collect(), Style::Block);
    }
    let case = |(arm, value): (&Branch, &Value)| {
        let mut fields = Fields::default();
        fields.put("case", value.clone());
        fields.put("steps", list(&arm.steps));
        fields.block()
    };
    Doc::List(arms.iter().zip(values).map(case).collect(), Style::Block)
}

fn lane_failure(fields: &mut Fields, on_failure: LaneFailure) {
    fields.word("on_failure", &on_failure, lane_failure_word(on_failure));
}

pub(super) fn lane_failure_word(on_failure: LaneFailure) -> &'static str {
    match on_failure {
        LaneFailure::Cancel => "cancel",
        LaneFailure::Drain => "drain",
        LaneFailure::Collect => "collect",
    }
}

fn awaited(wait_for: &Awaited) -> Option<Value> {
    match wait_for {
        Awaited::All => None,
        Awaited::Lanes(names) => Some(name_list(names)),
        Awaited::Count(count) => Some(json!(count)),
    }
}

/// A list that is written out stays one.
fn items(items: &Expr) -> Value {
    let list = serde_json::from_str::<Value>(items.source()).ok().filter(Value::is_array);
    let list = list.filter(|list| literal(list).is_ok_and(|text| text == items.source()));
    list.unwrap_or_else(|| condition(items))
}

fn limit(fields: &mut Fields, max: u32, on_limit: OnLimit) {
    fields.some("max", (max != DEFAULT_MAX).then(|| json!(max)));
    let word = match on_limit {
        OnLimit::Fail => "fail",
        OnLimit::Complete => "complete",
        OnLimit::Truncate => "truncate",
    };
    fields.word("on_limit", &on_limit, word);
}

fn wait(fields: &mut Fields, until: &Until) {
    match until {
        Until::For(time) => fields.put("wait", template(time)),
        Until::At(time) => fields.put("wait", json!({ "until": template(time) })),
        Until::Signal { name } => fields.put("wait", json!({ "signal": name })),
        Until::Event { event, filter: None } => fields.put("wait", json!({ "event": event })),
        Until::Event { event, filter: Some(filter) } => {
            fields.put("wait", json!({ "event": event, "filter": condition(filter) }));
        }
        Until::Person(ask) => fields.put("ask", self::ask(ask)),
    }
}

fn ask(ask: &Ask) -> Doc {
    let mut fields = Fields::default();
    fields.put("question", template(&ask.question));
    fields.some("show", ask.show.as_ref().map(template));
    match ask.answer.json() {
        json if *json == json!({ "type": "string" }) => {}
        json if *json == json!({ "type": "boolean" }) => fields.put("approve", json!(true)),
        _ => fields.put("answer", schema(&ask.answer)),
    }
    people(&ask.people, &mut fields);
    fields.some("deadline", ask.deadline_ms.map(duration));
    if let OnDeadline::Value(value) = &ask.on_deadline {
        fields.put("on_deadline", json!({ "value": template(value) }));
    }
    match fields.entries.as_slice() {
        [(_, question)] => question.clone(),
        _ => fields.block(),
    }
}

pub(super) fn people(people: &People, fields: &mut Fields) {
    fields.some("people", names(&people.users));
    fields.some("approvals", people.approvals.map(Value::from));
    fields.some("remind", people.remind_ms.map(duration));
    fields.some("then", people.then.as_ref().map(escalation));
}

fn escalation(then: &Escalation) -> Doc {
    let mut fields = Fields::default();
    fields.put("after", duration(then.after_ms));
    fields.some("people", names(&then.users));
    fields.some("notify", names(&then.notify));
    fields.short()
}

fn retry(retry: &Retry) -> Doc {
    let default = Retry::default();
    if *retry == (Retry { max_attempts: retry.max_attempts, ..Retry::default() }) {
        return Doc::from(json!(retry.max_attempts));
    }
    let mut fields = Fields::default();
    fields.put("max_attempts", json!(retry.max_attempts));
    let backoff = match retry.backoff {
        Backoff::Fixed => "fixed",
        Backoff::Exponential => "exponential",
    };
    fields.word("backoff", &retry.backoff, backoff);
    fields.some("delay", (retry.delay_ms != default.delay_ms).then(|| duration(retry.delay_ms)));
    fields.some("factor", (retry.factor != default.factor).then(|| json!(retry.factor)));
    fields.some("max_delay", retry.max_delay_ms.map(duration));
    fields.some("on", (!retry.on.is_empty()).then(|| json!(retry.on)));
    fields.some("never", (!retry.never.is_empty()).then(|| json!(retry.never)));
    fields.short()
}

fn on_error(on_error: &StepError) -> Option<Value> {
    match on_error {
        StepError::Fail => None,
        StepError::Continue => Some(json!("continue")),
        StepError::Value(value) => Some(json!({ "value": template(value) })),
        StepError::Goto(to) => Some(json!({ "goto": to.text })),
    }
}
