//! Google's Gemini API.

use relais_engine::{ErrorKind, Finish, Message, ToolUse, Usage};
use serde_json::{Map, Value, json};

use super::draft::{Draft, DraftCall, MADE_ID, arguments_object, broken};
use super::format::{Ask, Format, LiveFn, count, error_inside, event_json};
use super::schema_mode;
use super::sse;
use crate::model::{Live, ModelError};
use crate::tool::ToolSpec;

/// Documented stand-in for a signature where the history was made by another model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub struct Google;

impl Format for Google {
    fn path(&self, model: &str) -> String {
        format!("/models/{model}:streamGenerateContent?alt=sse")
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn body(&self, ask: &Ask<'_>) -> Value {
        let schema = ask.request.output_schema.as_ref();
        let native = schema.filter(|_| ask.tools.is_empty() || mixes_tools_and_schema(ask.model));
        let in_prompt = schema.filter(|_| native.is_none()).map(schema_mode::prompt_text);
        let mut body = Map::new();
        let system = ask.system_text(in_prompt);
        if !system.is_empty() {
            body.insert("systemInstruction".into(), json!({ "parts": [{ "text": system }] }));
        }
        body.insert("contents".into(), json!(contents(ask)));
        if !ask.tools.is_empty() {
            let declarations: Vec<Value> = ask.tools.iter().map(|tool| tool_json(tool, ask)).collect();
            body.insert("tools".into(), json!([{ "functionDeclarations": declarations }]));
        }
        let generation = generation_config(ask, native);
        if !generation.is_empty() {
            body.insert("generationConfig".into(), Value::Object(generation));
        }
        Value::Object(body)
    }

    fn read_event(&self, draft: &mut Draft, event: &sse::Event, live: LiveFn<'_>) -> Result<(), ModelError> {
        take_chunk(draft, &event_json(event)?, live)
    }

    fn read_whole(&self, draft: &mut Draft, body: &Value) -> Result<(), ModelError> {
        // Without `alt=sse` the API answers a list of the same chunks.
        let chunks = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
        if !chunks
            .iter()
            .any(|chunk| ["candidates", "promptFeedback", "error"].iter().any(|key| chunk.get(*key).is_some()))
        {
            return Err(broken("the answer is JSON but holds no `candidates`; is the base URL right?"));
        }
        chunks.iter().try_for_each(|chunk| take_chunk(draft, chunk, &|_| {}))
    }

    fn has_schema_mode(&self, _model: &str) -> bool {
        true
    }
}

/// Before Gemini 3, JSON output together with functions is refused.
fn mixes_tools_and_schema(model: &str) -> bool {
    let old = ["gemini-1", "gemini-2", "gemini-pro", "gemini-flash-1", "gemma"];
    !old.iter().any(|start| model.starts_with(start))
}

fn generation_config(ask: &Ask<'_>, schema: Option<&Value>) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(schema) = schema {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseJsonSchema".into(), schema.clone());
    }
    if let Some(limit) = ask.request.max_tokens {
        config.insert("maxOutputTokens".into(), json!(limit));
    }
    if let Some(temperature) = ask.request.temperature {
        config.insert("temperature".into(), json!(temperature));
    }
    config
}

/// All results of a turn come together in one message, as the calls did.
fn contents(ask: &Ask<'_>) -> Vec<Value> {
    let mut list: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &ask.request.messages {
        let Some((role, parts)) = parts_of(message, ask) else { continue };
        match list.last_mut().filter(|last| last.0 == role) {
            Some(last) => last.1.extend(parts),
            None => list.push((role, parts)),
        }
    }
    list.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts })).collect()
}

fn parts_of(message: &Message, ask: &Ask<'_>) -> Option<(&'static str, Vec<Value>)> {
    match message {
        Message::System { .. } => None,
        Message::User { text } => Some(("user", vec![json!({ "text": text })])),
        Message::Assistant { text, calls } => Some(("model", model_parts(text, calls, ask))),
        Message::Tool { use_id, tool, text, failed } => {
            let response = if *failed { json!({ "error": text }) } else { json!({ "result": text }) };
            let mut part = json!({ "name": ask.names.wire(tool), "response": response });
            put_id(&mut part, use_id);
            Some(("user", vec![json!({ "functionResponse": part })]))
        }
    }
}

fn model_parts(text: &str, calls: &[ToolUse], ask: &Ask<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    if !text.is_empty() || calls.is_empty() {
        parts.push(json!({ "text": text }));
    }
    parts.extend(calls.iter().enumerate().map(|(index, call)| call_part(call, index == 0, ask)));
    parts
}

fn call_part(call: &ToolUse, first: bool, ask: &Ask<'_>) -> Value {
    let mut function = json!({ "name": ask.names.wire(&call.tool), "args": arguments_object(call) });
    put_id(&mut function, &call.id);
    let mut part = json!({ "functionCall": function });
    let kept = call.opaque.as_ref().and_then(|opaque| opaque["google"].as_str());
    // The newer models refuse a turn whose first call is unsigned; the older ones know no stand-in.
    let stand_in = (first && mixes_tools_and_schema(ask.model)).then_some(NO_SIGNATURE);
    if let Some(signature) = kept.or(stand_in) {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn put_id(part: &mut Value, id: &str) {
    if !id.starts_with(MADE_ID) {
        part["id"] = json!(id);
    }
}

fn tool_json(tool: &ToolSpec, ask: &Ask<'_>) -> Value {
    let name = ask.names.wire(&tool.name);
    json!({ "name": name, "description": tool.description, "parametersJsonSchema": tool.parameters })
}

fn take_chunk(draft: &mut Draft, chunk: &Value, live: LiveFn<'_>) -> Result<(), ModelError> {
    if let Some(error) = chunk.get("error") {
        return Err(error_inside(error));
    }
    if let Some(model) = chunk["modelVersion"].as_str() {
        draft.model = model.to_owned();
    }
    if chunk["usageMetadata"].is_object() {
        draft.usage = usage(&chunk["usageMetadata"]);
    }
    if chunk["promptFeedback"]["blockReason"].is_string() {
        draft.finish = Some(Finish::Filtered);
    }
    let candidate = &chunk["candidates"][0];
    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
        take_part(draft, part, live)?;
    }
    candidate["finishReason"].as_str().map_or(Ok(()), |reason| take_finish(draft, reason, &candidate["finishMessage"]))
}

fn take_part(draft: &mut Draft, part: &Value, live: LiveFn<'_>) -> Result<(), ModelError> {
    if let Some(function) = part.get("functionCall") {
        let word = |key: &str| function[key].as_str().unwrap_or_default().to_owned();
        let arguments = function.get("args").map(Value::to_string).unwrap_or_default();
        let opaque = part.get("thoughtSignature").map(|signature| json!({ "google": signature }));
        let slot = draft.calls.len() as u64;
        draft.open_call(DraftCall { slot, id: word("id"), name: word("name"), arguments, opaque })?;
    }
    match (part["text"].as_str(), part["thought"] == true) {
        (Some(thought), true) => live(Live::Thought(thought)),
        (Some(text), false) => {
            draft.text.push_str(text);
            live(Live::Text(text));
        }
        (None, _) => {}
    }
    Ok(())
}

fn take_finish(draft: &mut Draft, reason: &str, message: &Value) -> Result<(), ModelError> {
    draft.finish = Some(match reason {
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => Finish::Filtered,
        // The model's call was thrown away by the provider: there is nothing to correct, only to ask again.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => return Err(discarded(reason, message)),
        _ => Finish::Stop,
    });
    Ok(())
}

fn discarded(reason: &str, message: &Value) -> ModelError {
    let message = format!("the answer was withdrawn ({reason}): {}", message.as_str().unwrap_or("no message"));
    ModelError { kind: ErrorKind::Provider, message, retry_after: None, transient: true }
}

fn usage(json: &Value) -> Usage {
    let thought = count(&json["thoughtsTokenCount"]);
    Usage {
        prompt: count(&json["promptTokenCount"]) + count(&json["toolUsePromptTokenCount"]),
        completion: count(&json["candidatesTokenCount"]) + thought,
        cached: count(&json["cachedContentTokenCount"]),
        reasoning: thought,
        ..Usage::default()
    }
}
