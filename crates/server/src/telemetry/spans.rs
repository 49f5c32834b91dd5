//! Spans as a collector wants them: OTLP in JSON, with the names of the GenAI conventions. Pure. What took how long, and
//! what it was inside, is the service's to know.
//!
//! The trace has the id of the run that was started by hand, or is the one that whoever started it was in.

use relais_engine::{Millis, Usage};
use relais_service::Trace;
use relais_service::feed::{Recorded, Span, SpanId, Spanned};
use relais_service::trace::{CallTrace, StepTrace};
use serde_json::{Value, json};

use super::Ended;
use crate::traced;

/// Of a prompt, an answer or arguments, where content is captured at all.
const CONTENT_CHARS_MAX: usize = 16_000;
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const FAILED: u8 = 2;

pub fn written(ended: &Ended, recorded: &Recorded, capture_content: bool) -> Vec<Value> {
    let above = ended.traceparent.as_deref().and_then(traced::read);
    let writer = Writer {
        trace_id: above.map_or_else(|| ended.root.simple().to_string(), |(trace, _)| trace.to_owned()),
        caller: above.filter(|_| recorded.run() == ended.root).map(|(_, span)| span.to_owned()),
        capture_content,
    };
    recorded.spans().iter().map(|span| writer.write(span)).collect()
}

struct Writer {
    trace_id: String,
    /// The span that whoever started the run was in.
    caller: Option<String>,
    capture_content: bool,
}

/// What a span says of what it is about.
struct Told {
    name: String,
    kind: u8,
    attributes: Vec<Value>,
}

impl Writer {
    fn write(&self, span: &Span<'_>) -> Value {
        let Told { name, kind, mut attributes } = self.told(&span.what);
        let mut status = json!({});
        if let Some(error) = span.what.error() {
            attributes.push(text("error.type", error.kind.word()));
            status = json!({ "code": FAILED, "message": error.kind.word() });
            if self.capture_content {
                status["message"] = json!(cut(&error.message));
            }
        }
        let nanos = |at: Millis| at.max(0).saturating_mul(1_000_000).to_string();
        let mut written = json!({
            "traceId": self.trace_id,
            "spanId": hex(span.id),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": nanos(span.from),
            "endTimeUnixNano": nanos(span.until.max(span.from)),
            "attributes": attributes,
            "status": status,
        });
        if let Some(parent) = span.parent.map(hex).or_else(|| self.caller.clone()) {
            written["parentSpanId"] = json!(parent);
        }
        written
    }

    fn told(&self, what: &Spanned<'_>) -> Told {
        match what {
            Spanned::Run(trace) => run(trace),
            Spanned::Step(step) => self::step(step),
            Spanned::Call(call) => self.call(call),
        }
    }

    fn call(&self, call: &CallTrace) -> Told {
        let (name, kind, mut attributes) = match &*call.what {
            "model" => (format!("chat {}", model_of(call).1), CLIENT, chat(call)),
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
        Told { name, kind, attributes }
    }
}

fn run(trace: &Trace) -> Told {
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
    Told { name: format!("invoke_workflow {}", trace.workflow), kind: INTERNAL, attributes }
}

fn step(step: &StepTrace) -> Told {
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
    let name = format!("{} {}", if agent { "invoke_agent" } else { "step" }, step.key);
    Told { name, kind: INTERNAL, attributes }
}

fn hex(id: SpanId) -> String {
    format!("{:016x}", id.0)
}

/// The provider, and the model by its own name.
fn model_of(call: &CallTrace) -> (&str, &str) {
    call.name.split_once('/').unwrap_or(("", &call.name))
}

/// Why the model ended, in the words of the conventions.
fn finish_reason(call: &CallTrace) -> Option<&'static str> {
    match call.output["finish"].as_str()? {
        "stop" => Some("stop"),
        "tool_calls" => Some("tool_call"),
        "length" => Some("length"),
        "filtered" => Some("content_filter"),
        _ => None,
    }
}

fn chat(call: &CallTrace) -> Vec<Value> {
    let (provider, model) = model_of(call);
    let mut attributes = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", provider),
        text("gen_ai.request.model", model),
    ];
    if let Some(model) = call.output["model"].as_str().filter(|model| !model.is_empty()) {
        attributes.push(text("gen_ai.response.model", model));
    }
    if let Some(reason) = finish_reason(call) {
        let values = json!([{ "stringValue": reason }]);
        attributes
            .push(json!({ "key": "gen_ai.response.finish_reasons", "value": { "arrayValue": { "values": values } } }));
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
