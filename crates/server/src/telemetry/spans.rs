//! A run's trace as spans: the run, its steps, their calls. Pure: journal in, OTLP JSON out.
//!
//! The trace has the id of the run that was started by hand, or is the one that whoever started it was in; a child run's
//! span hangs below the call that started it.
//! All ids are derived, so sending twice makes nothing twice.

use std::collections::HashMap;

use relais_engine::{Corrupt, Event, Failure, Millis, Parent, RunId, Usage};
use relais_service::Trace;
use relais_service::trace::{CallTrace, StepTrace};
use serde_json::{Value, json};

use super::Ended;
use crate::traced;

/// Of a prompt, an answer or arguments, where content is captured at all.
const CONTENT_CHARS_MAX: usize = 16_000;
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const FAILED: u8 = 2;

pub fn spans(ended: &Ended, capture_content: bool) -> Result<Vec<Value>, Corrupt> {
    let trace = Trace::of(&ended.program, &ended.entries)?;
    let above = ended.traceparent.as_deref().and_then(traced::read);
    let writer = Writer {
        trace_id: above.map_or_else(|| ended.root.simple().to_string(), |(trace, _)| trace.to_owned()),
        run: trace.run,
        run_span: span_id(trace.run, "run", ended.reported),
        from: ended.from,
        until: ended.entries.last().map_or(ended.from, |entry| entry.at),
        capture_content,
        steps: places(&trace),
    };
    let below = |parent: Parent| span_id(parent.run, "call", u64::from(parent.command));
    let caller = above.filter(|_| trace.run == ended.root).map(|(_, span)| span.to_owned());
    let mut spans = vec![writer.run(&trace, parent(ended).map(below).or(caller))];
    for (number, step) in trace.steps.iter().enumerate() {
        spans.extend(writer.step(&trace, number, step));
    }
    Ok(spans)
}

struct Writer {
    trace_id: String,
    run: RunId,
    run_span: String,
    /// What ended before this was sent before.
    from: Millis,
    until: Millis,
    capture_content: bool,
    /// The span of the latest step with a path.
    steps: HashMap<String, usize>,
}

fn places(trace: &Trace) -> HashMap<String, usize> {
    trace.steps.iter().enumerate().map(|(number, step)| (step.path.clone(), number)).collect()
}

fn parent(ended: &Ended) -> Option<Parent> {
    match ended.entries.first()?.events.first()? {
        Event::Opened(opened) => opened.parent.clone(),
        Event::Entered { .. } | Event::Asked { .. } | Event::Answered { .. } | Event::Branched { .. } => None,
        Event::Left(_) | Event::Received { .. } | Event::Signalled { .. } => None,
        Event::Settled { .. } | Event::Closed { .. } => None,
    }
}

struct Span<'a> {
    id: String,
    parent: Option<String>,
    name: String,
    kind: u8,
    from: Millis,
    until: Millis,
    attributes: Vec<Value>,
    error: Option<&'a Failure>,
}

impl Writer {
    fn run(&self, trace: &Trace, parent: Option<String>) -> Value {
        let mut attributes = vec![
            text("gen_ai.operation.name", "invoke_workflow"),
            text("gen_ai.workflow.name", &trace.workflow),
            text("relais.run.id", &trace.run.to_string()),
            text("relais.run.status", &trace.status),
        ];
        if !trace.thread.is_empty() {
            attributes.push(text("gen_ai.conversation.id", &trace.thread));
        }
        attributes.extend(used(&trace.usage));
        self.write(Span {
            id: self.run_span.clone(),
            parent,
            name: format!("invoke_workflow {}", trace.workflow),
            kind: INTERNAL,
            from: self.from,
            until: self.until,
            attributes,
            error: trace.error.as_ref(),
        })
    }

    fn step(&self, trace: &Trace, number: usize, step: &StepTrace) -> Vec<Value> {
        let until = step.ended_at.unwrap_or(self.until);
        if step.attempts == 0 || until < self.from {
            return Vec::new();
        }
        let agent = step.kind == "agent";
        let mut attributes = vec![
            text("relais.step.path", &step.path),
            text("relais.step.kind", &step.kind),
            text("relais.step.status", step.status.word()),
            number_of("relais.step.attempts", u64::from(step.attempts)),
        ];
        if agent {
            attributes.push(text("gen_ai.operation.name", "invoke_agent"));
            attributes.push(text("gen_ai.agent.name", step.name.as_deref().unwrap_or(&step.key)));
            attributes.extend(used(&step.usage));
        }
        let id = self.step_span(number);
        let span = Span {
            id: id.clone(),
            parent: Some(self.above(trace, step)),
            name: format!("{} {}", if agent { "invoke_agent" } else { "step" }, step.key),
            kind: INTERNAL,
            from: step.started_at,
            until,
            attributes,
            error: step.error.as_ref(),
        };
        let fresh = step.calls.iter().filter(|call| call.answered_at.unwrap_or(until) >= self.from);
        let calls = fresh.map(|call| self.call(call, &id, until));
        std::iter::once(self.write(span)).chain(calls).collect()
    }

    /// The block that a step is in: `loop` for `loop[7]/fetch`.
    fn above(&self, trace: &Trace, step: &StepTrace) -> String {
        let block = step.path.rsplit_once('/').map(|(block, _)| block);
        let names = block.into_iter().flat_map(|block| [Some(block), block.rsplit_once('[').map(|(name, _)| name)]);
        let found = names.flatten().find_map(|name| self.steps.get(name)).filter(|n| trace.steps[**n].attempts > 0);
        found.map_or_else(|| self.run_span.clone(), |number| self.step_span(*number))
    }

    fn step_span(&self, number: usize) -> String {
        span_id(self.run, "step", number as u64)
    }

    fn call(&self, call: &CallTrace, step: &str, until: Millis) -> Value {
        let (name, kind, mut attributes) = match &*call.what {
            "model" => (format!("chat {}", call.name), CLIENT, chat(call)),
            "tool" => (format!("execute_tool {}", call.name), INTERNAL, tool(call)),
            other => (format!("wait for {other}"), INTERNAL, vec![text("relais.call.name", &call.name)]),
        };
        attributes.push(text("relais.call.status", &call.status));
        if call.usage.retries > 0 {
            attributes.push(number_of("relais.call.retries", call.usage.retries));
        }
        if self.capture_content {
            attributes.extend(content(call));
        }
        self.write(Span {
            id: span_id(self.run, "call", u64::from(call.id)),
            parent: Some(step.to_owned()),
            name,
            kind,
            from: call.asked_at,
            until: call.answered_at.unwrap_or(until),
            attributes,
            error: call.error.as_ref(),
        })
    }

    fn write(&self, span: Span<'_>) -> Value {
        let Span { id, parent, name, kind, from, until, mut attributes, error } = span;
        let mut status = json!({});
        if let Some(error) = error {
            attributes.push(text("error.type", error.kind.word()));
            status = json!({ "code": FAILED, "message": error.kind.word() });
            if self.capture_content {
                status["message"] = json!(cut(&error.message));
            }
        }
        let nanos = |at: Millis| at.max(0).saturating_mul(1_000_000).to_string();
        let mut span = json!({
            "traceId": self.trace_id,
            "spanId": id,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": nanos(from),
            "endTimeUnixNano": nanos(until.max(from)),
            "attributes": attributes,
            "status": status,
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

fn chat(call: &CallTrace) -> Vec<Value> {
    let (provider, model) = call.name.split_once('/').unwrap_or(("", &call.name));
    let mut attributes = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", provider),
        text("gen_ai.request.model", model),
    ];
    if let Some(model) = call.output["model"].as_str().filter(|model| !model.is_empty()) {
        attributes.push(text("gen_ai.response.model", model));
    }
    attributes.extend(used(&call.usage));
    attributes
}

fn tool(call: &CallTrace) -> Vec<Value> {
    let mut attributes = vec![text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", &call.name)];
    attributes.extend(call.use_id.as_deref().map(|id| text("gen_ai.tool.call.id", id)));
    attributes
}

fn used(usage: &Usage) -> Vec<Value> {
    let numbers = [
        ("gen_ai.usage.input_tokens", usage.prompt),
        ("gen_ai.usage.output_tokens", usage.completion),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    ];
    let mut attributes: Vec<Value> = numbers.iter().map(|(name, count)| number_of(name, *count)).collect();
    attributes.push(json!({ "key": "relais.cost_usd", "value": { "doubleValue": usage.usd_nanos as f64 / 1e9 } }));
    attributes
}

/// What was said, and what came back.
fn content(call: &CallTrace) -> Vec<Value> {
    let (asked, answered) = match &*call.what {
        "model" => ("gen_ai.input.messages", "gen_ai.output.messages"),
        "tool" => ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        _ => ("relais.call.input", "relais.call.output"),
    };
    vec![text(asked, &cut(&call.input.to_string())), text(answered, &cut(&call.output.to_string()))]
}

fn cut(text: &str) -> String {
    text.chars().take(CONTENT_CHARS_MAX).collect()
}

pub(super) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// OTLP has 64-bit numbers in JSON as texts.
fn number_of(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// Eight bytes that are the same whenever the same thing is told (FNV-1a).
fn span_id(run: RunId, what: &str, number: u64) -> String {
    let bytes = run.as_bytes().iter().chain(what.as_bytes()).copied().chain(number.to_be_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:016x}", hash.max(1))
}
