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
    if list.is_empty() {
        // Instructions alone are no conversation to this provider.
        list.push(("user", vec![json!({ "text": " " })]));
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
        prompt: count(&json["promptTokenCount"]).saturating_add(count(&json["toolUsePromptTokenCount"])),
        completion: count(&json["candidatesTokenCount"]).saturating_add(thought),
        cached: count(&json["cachedContentTokenCount"]),
        reasoning: thought,
        ..Usage::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::format::samples::{body, closed_schema, conversation, read, tools};
    use super::*;

    #[test]
    fn a_conversation_is_written_as_documented() {
        let mut request = conversation(Some(json!({ "google": "sig" })));
        request.max_tokens = Some(100);
        let want = json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Find tea"}]},
                {"role": "model", "parts": [
                    {"text": "Looking."},
                    {
                        "functionCall": {"name": "mcp_shop_find", "args": {"q": "tea"}, "id": "a"},
                        "thoughtSignature": "sig"
                    },
                    {"functionCall": {"name": "mcp_shop_find", "args": {"not_json": "{oops"}, "id": "b"}}
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "mcp_shop_find", "response": {"result": "3 teas"}, "id": "a"}},
                    {"functionResponse": {
                        "name": "mcp_shop_find", "response": {"error": "arguments are not JSON"}, "id": "b"
                    }}
                ]}
            ],
            "tools": [{"functionDeclarations": [{
                "name": "mcp_shop_find", "description": "Finds things",
                "parametersJsonSchema": {"type": "object", "properties": {"q": {"type": "string"}}}
            }]}],
            "generationConfig": {"maxOutputTokens": 100}
        });
        assert_eq!(body(&Google, "gemini-3-pro", &request, &tools()), want);
    }

    #[test]
    fn an_unsigned_history_gets_the_stand_in_only_from_gemini_3_on() {
        let signature = |model: &str| {
            let body = body(&Google, model, &conversation(None), &tools());
            body["contents"][1]["parts"][1].get("thoughtSignature").cloned()
        };
        assert_eq!(signature("gemini-3-pro"), Some(json!(NO_SIGNATURE)));
        assert_eq!(signature("gemini-2.5-pro"), None);
    }

    #[test]
    fn a_schema_goes_where_the_model_takes_it() {
        let check = |model: &str, tools: &[ToolSpec], native: bool| {
            let mut request = conversation(None);
            request.output_schema = Some(closed_schema());
            let body = body(&Google, model, &request, tools);
            assert_eq!(body["generationConfig"]["responseJsonSchema"] == closed_schema(), native, "{model}");
            assert_eq!(body["systemInstruction"].to_string().contains("JSON Schema"), !native);
        };
        check("gemini-2.5-flash", &[], true);
        check("gemini-2.5-flash", &tools(), false);
        check("gemini-3-flash", &tools(), true);
    }

    fn chunk(parts: Value, finish: Option<&str>) -> Value {
        json!({"candidates": [{"content": {"parts": parts}, "finishReason": finish}]})
    }

    #[test]
    fn calls_without_ids_get_stable_ones_that_are_not_sent_back() {
        let parts = json!([
            {"text": "hm", "thought": true},
            {"functionCall": {"name": "mcp_shop_find", "args": {"q": 1}}, "thoughtSignature": "sig"},
            {"functionCall": {"name": "mcp_shop_find", "args": {"q": 2}}}
        ]);
        let calls = read(&Google, &[chunk(parts, None), chunk(json!([]), Some("STOP"))]).unwrap().reply.calls;
        assert_eq!((calls[0].id.as_str(), calls[1].id.as_str()), ("relais_1_0", "relais_1_1"));
        assert_eq!((calls[0].opaque.clone(), calls[1].opaque.clone()), (Some(json!({"google": "sig"})), None));
        let mut request = conversation(None);
        request.messages = vec![Message::Assistant { text: String::new(), calls }];
        let sent = body(&Google, "gemini-3-pro", &request, &[]).to_string();
        assert!(!sent.contains("relais_") && sent.contains("sig"), "{sent}");
    }

    #[test]
    fn usage_counts_thoughts_as_completion() {
        let mut last = chunk(json!([{"text": "hi"}]), Some("STOP"));
        last["usageMetadata"] = json!({
            "promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "cachedContentTokenCount": 2
        });
        let usage = read(&Google, &[last]).unwrap().usage;
        assert_eq!((usage.prompt, usage.completion, usage.cached, usage.reasoning), (10, 7, 2, 4));
    }

    #[test]
    fn endings() {
        let check = |reason: &str, want: Finish| {
            let reply = read(&Google, &[chunk(json!([{"text": "hi"}]), Some(reason))]).unwrap().reply;
            assert_eq!((reply.finish, reply.text.as_str()), (want, "hi"), "{reason}");
        };
        check("STOP", Finish::Stop);
        check("MAX_TOKENS", Finish::Length);
        check("SAFETY", Finish::Filtered);
        let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
        assert_eq!(read(&Google, &[blocked]).unwrap().reply.finish, Finish::Filtered);
        let withdrawn = read(&Google, &[chunk(json!([]), Some("MALFORMED_FUNCTION_CALL"))]).unwrap_err();
        assert!(withdrawn.transient && withdrawn.kind == ErrorKind::Provider);
        assert!(read(&Google, &[chunk(json!([{"text": "half"}]), None)]).is_err());
    }

    #[test]
    fn a_list_of_chunks_in_one_piece_is_read_too() {
        let mut draft = Draft::default();
        let list = json!([chunk(json!([{"text": "a"}]), None), chunk(json!([{"text": "b"}]), Some("STOP"))]);
        Google.read_whole(&mut draft, &list).unwrap();
        assert_eq!(draft.text, "ab");
    }
}
