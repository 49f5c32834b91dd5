//! OpenAI-compatible chat completions: OpenAI itself, Ollama, and every server that speaks the same.

use relais_engine::{Finish, Message, ToolUse, Usage};
use serde_json::{Map, Value, json};

use super::draft::{Draft, DraftCall, arguments_object, broken};
use super::format::{Ask, Format, LiveFn, count, error_inside, event_json};
use super::schema_mode::{self, Rules, STRICT_KEYWORDS};
use super::sse;
use crate::model::{Live, ModelError};
use crate::tool::ToolSpec;

pub struct OpenAi {
    /// OpenAI's own hosts want `max_completion_tokens`; others know only `max_tokens`.
    pub own_host: bool,
}

impl Format for OpenAi {
    fn path(&self, _model: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    fn body(&self, ask: &Ask<'_>) -> Value {
        let schema = ask.request.output_schema.as_ref();
        let native = schema.filter(|schema| schema["type"] == "object");
        let in_prompt = schema.filter(|_| native.is_none()).map(schema_mode::prompt_text);
        let mut body = Map::new();
        body.insert("model".into(), json!(ask.model));
        body.insert("messages".into(), json!(messages(ask, in_prompt)));
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({ "include_usage": true }));
        if !ask.tools.is_empty() {
            body.insert("tools".into(), ask.tools.iter().map(|tool| tool_json(tool, ask)).collect());
        }
        if let Some(schema) = native {
            body.insert("response_format".into(), response_format(schema));
        }
        if let Some(limit) = ask.request.max_tokens {
            let field = if self.own_host { "max_completion_tokens" } else { "max_tokens" };
            body.insert(field.into(), json!(limit));
        }
        if let Some(temperature) = ask.request.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        Value::Object(body)
    }

    fn read_event(&self, draft: &mut Draft, event: &sse::Event, live: LiveFn<'_>) -> Result<(), ModelError> {
        if event.data.trim() == "[DONE]" {
            draft.ended = true;
            return Ok(());
        }
        let chunk = event_json(event)?;
        take_envelope(draft, &chunk)?;
        take_part(draft, &chunk["choices"][0], "delta", live)
    }

    fn read_whole(&self, draft: &mut Draft, body: &Value) -> Result<(), ModelError> {
        take_envelope(draft, body)?;
        let choice = &body["choices"][0];
        if !choice["message"].is_object() {
            return Err(broken("the answer is JSON but holds no `choices[0].message`; is the base URL right?"));
        }
        take_part(draft, choice, "message", &|_| {})?;
        draft.ended = true;
        Ok(())
    }

    fn has_schema_mode(&self, _model: &str) -> bool {
        true
    }
}

fn messages(ask: &Ask<'_>, in_prompt: Option<String>) -> Vec<Value> {
    let mut list: Vec<Value> = ask.request.messages.iter().map(|message| message_json(message, ask)).collect();
    let Some(extra) = in_prompt else { return list };
    // Appended to the instructions: many servers take a system message only in first place, and only one.
    match list.first_mut().filter(|first| first["role"] == "system") {
        Some(first) => first["content"] = json!(format!("{}\n\n{extra}", first["content"].as_str().unwrap_or(""))),
        None => list.insert(0, json!({ "role": "system", "content": extra })),
    }
    list
}

fn message_json(message: &Message, ask: &Ask<'_>) -> Value {
    match message {
        Message::System { text } => json!({ "role": "system", "content": text }),
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls } if calls.is_empty() => json!({ "role": "assistant", "content": text }),
        Message::Assistant { text, calls } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = calls.iter().map(|call| call_json(call, ask)).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        Message::Tool { use_id, text, failed, .. } => {
            // This format has no field for failure.
            let content = if *failed { format!("Error: {text}") } else { text.clone() };
            json!({ "role": "tool", "tool_call_id": use_id, "content": content })
        }
    }
}

fn call_json(call: &ToolUse, ask: &Ask<'_>) -> Value {
    let arguments = arguments_object(call).to_string();
    let function = json!({ "name": ask.names.wire(&call.tool), "arguments": arguments });
    let mut json = json!({ "id": call.id, "type": "function", "function": function });
    if let Some(extra) = call.opaque.as_ref().and_then(|opaque| opaque.get("openai")) {
        json["extra_content"] = extra.clone();
    }
    json
}

fn tool_json(tool: &ToolSpec, ask: &Ask<'_>) -> Value {
    let name = ask.names.wire(&tool.name);
    json!({
        "type": "function",
        "function": { "name": name, "description": tool.description, "parameters": tool.parameters }
    })
}

fn response_format(schema: &Value) -> Value {
    let strict = schema_mode::fits(schema, &Rules { keywords: STRICT_KEYWORDS, all_required: true });
    json!({ "type": "json_schema", "json_schema": { "name": "output", "strict": strict, "schema": schema } })
}

fn take_envelope(draft: &mut Draft, json: &Value) -> Result<(), ModelError> {
    if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
        return Err(error_inside(error));
    }
    if let Some(model) = json["model"].as_str().filter(|model| !model.is_empty()) {
        draft.model = model.to_owned();
    }
    if json["usage"].is_object() {
        draft.usage = usage(&json["usage"]);
    }
    Ok(())
}

fn usage(json: &Value) -> Usage {
    Usage {
        prompt: count(&json["prompt_tokens"]),
        completion: count(&json["completion_tokens"]),
        cached: count(&json["prompt_tokens_details"]["cached_tokens"]),
        reasoning: count(&json["completion_tokens_details"]["reasoning_tokens"]),
        ..Usage::default()
    }
}

/// A streamed `delta` and a whole `message` have the same fields.
fn take_part(draft: &mut Draft, choice: &Value, field: &str, live: LiveFn<'_>) -> Result<(), ModelError> {
    let part = &choice[field];
    for thought in ["reasoning_content", "reasoning"].iter().filter_map(|key| part[*key].as_str()) {
        live(Live::Thought(thought));
    }
    for text in texts(&part["content"]).into_iter().chain(part["refusal"].as_str()).filter(|text| !text.is_empty()) {
        draft.text.push_str(text);
        live(Live::Text(text));
    }
    for (position, call) in part["tool_calls"].as_array().into_iter().flatten().enumerate() {
        take_call(draft, call, position as u64, field == "message")?;
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        draft.finish = Some(finish(reason));
    }
    if part["refusal"].as_str().is_some_and(|refusal| !refusal.is_empty()) {
        draft.finish = Some(Finish::Filtered);
    }
    Ok(())
}

/// Text, or, with some servers, a list of parts.
fn texts(content: &Value) -> Vec<&str> {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect()
}

fn take_call(draft: &mut Draft, call: &Value, position: u64, whole: bool) -> Result<(), ModelError> {
    let slot = call["index"].as_u64().unwrap_or(position);
    let id = call["id"].as_str().unwrap_or("");
    let name = call["function"]["name"].as_str().unwrap_or("");
    // Some servers number every call 0; a new id is then the only sign of a new call.
    let is_new = draft.slot(slot).is_none_or(|open| whole || (!id.is_empty() && !open.id.is_empty() && open.id != id));
    if is_new {
        let opaque = call.get("extra_content").map(|extra| json!({ "openai": extra }));
        draft.open_call(DraftCall { slot, opaque, ..DraftCall::default() })?;
    }
    let Some(open) = draft.slot(slot) else { return Ok(()) };
    if open.id.is_empty() {
        open.id = id.to_owned();
    }
    if open.name.is_empty() {
        open.name = name.to_owned();
    }
    match &call["function"]["arguments"] {
        Value::String(text) => open.arguments.push_str(text),
        Value::Null => {}
        // Against the format, but seen: the arguments as JSON instead of text.
        other => open.arguments = other.to_string(),
    }
    Ok(())
}

fn finish(reason: &str) -> Finish {
    match reason {
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "length" => Finish::Length,
        "content_filter" => Finish::Filtered,
        _ => Finish::Stop,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::format::samples::{body, closed_schema, conversation, read, tools};
    use super::*;

    const OTHER: OpenAi = OpenAi { own_host: false };

    #[test]
    fn a_conversation_is_written_as_documented() {
        let mut request = conversation(None);
        request.max_tokens = Some(100);
        request.temperature = Some(0.5);
        let want = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Find tea"},
                {"role": "assistant", "content": "Looking.", "tool_calls": [
                    {"id": "a", "type": "function", "function": {
                        "name": "mcp_shop_find", "arguments": "{\"q\":\"tea\"}"
                    }},
                    {"id": "b", "type": "function", "function": {
                        "name": "mcp_shop_find", "arguments": "{\"not_json\":\"{oops\"}"
                    }}
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "3 teas"},
                {"role": "tool", "tool_call_id": "b", "content": "Error: arguments are not JSON"}
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "mcp_shop_find", "description": "Finds things",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}
            }}],
            "max_tokens": 100,
            "temperature": 0.5
        });
        assert_eq!(body(&OTHER, "m", &request, &tools()), want);
        let own = body(&OpenAi { own_host: true }, "m", &request, &[]);
        assert_eq!((&own["max_completion_tokens"], own.get("max_tokens"), own.get("tools")), (&json!(100), None, None));
    }

    #[test]
    fn a_schema_is_strict_where_it_can_be_and_in_the_prompt_where_it_must() {
        let check = |schema: Value, strict: Option<bool>| {
            let mut request = conversation(None);
            request.output_schema = Some(schema);
            let body = body(&OTHER, "m", &request, &[]);
            assert_eq!(body["response_format"]["json_schema"]["strict"].as_bool(), strict);
            let system = body["messages"][0]["content"].as_str().unwrap();
            assert_eq!(system.contains("JSON Schema"), strict.is_none(), "{system}");
        };
        check(closed_schema(), Some(true));
        check(json!({"type": "object"}), Some(false));
        check(json!({"type": "array"}), None);
    }

    fn delta(delta: Value) -> Value {
        json!({"model": "m-1", "choices": [{"delta": delta}]})
    }

    fn end(reason: &str) -> Value {
        json!({"choices": [{"delta": {}, "finish_reason": reason}]})
    }

    fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        delta(json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}))
    }

    #[test]
    fn interleaved_calls_are_put_together_by_index() {
        let events = [
            piece(Some(0), Some("a"), Some("mcp_shop_find"), ""),
            piece(Some(1), Some("b"), Some("mcp_shop_find"), ""),
            piece(Some(0), None, None, "{\"q\":"),
            piece(Some(1), None, None, "{\"q\":2}"),
            piece(Some(0), None, None, "1}"),
            end("tool_calls"),
            json!("[DONE]"),
        ];
        let calls = read(&OTHER, &events).unwrap().reply.calls;
        let seen: Vec<_> =
            calls.iter().map(|call| (call.id.as_str(), call.tool.as_str(), call.arguments["q"].as_u64())).collect();
        assert_eq!(seen, [("a", "mcp:shop/find", Some(1)), ("b", "mcp:shop/find", Some(2))]);
    }

    #[test]
    fn calls_that_all_have_index_0_are_told_apart_by_id() {
        let events = [
            piece(Some(0), Some("a"), Some("x"), "{\"q\":1}"),
            piece(Some(0), Some("b"), Some("x"), "{\"q\":"),
            piece(Some(0), Some("b"), None, "2}"),
            end("stop"),
        ];
        let reply = read(&OTHER, &events).unwrap().reply;
        assert_eq!((reply.calls.len(), reply.calls[1].arguments["q"].as_u64()), (2, Some(2)));
        assert_eq!(reply.finish, Finish::ToolCalls, "calls count, whatever the stop reason says");
    }

    #[test]
    fn endings_and_oddities() {
        let check = |events: &[Value], text: &str, finish: Finish| {
            let reply = read(&OTHER, events).unwrap().reply;
            assert_eq!((reply.text.as_str(), reply.finish), (text, finish), "{events:?}");
        };
        let hi = delta(json!({"content": "hi"}));
        check(&[hi.clone(), end("stop")], "hi", Finish::Stop);
        check(&[hi.clone(), json!("[DONE]")], "hi", Finish::Stop);
        check(&[hi.clone(), end("length")], "hi", Finish::Length);
        check(&[hi.clone(), end("content_filter")], "hi", Finish::Filtered);
        check(&[delta(json!({"refusal": "no"})), json!("[DONE]")], "no", Finish::Filtered);
        check(&[delta(json!({"content": [{"type": "text", "text": "parts"}]})), end("stop")], "parts", Finish::Stop);
        assert!(read(&OTHER, &[hi]).is_err(), "half a stream");
        let error = read(&OTHER, &[json!({"error": {"message": "slow down", "code": 429}})]).unwrap_err();
        assert_eq!(error.kind, relais_engine::ErrorKind::RateLimit);
    }

    #[test]
    fn a_call_without_end_is_given_up() {
        let events: Vec<Value> = (0..2000).map(|index| piece(Some(index), None, Some("x"), "{}")).collect();
        assert!(read(&OTHER, &events).unwrap_err().message.contains("more than 1000 tool calls"));
    }
}
