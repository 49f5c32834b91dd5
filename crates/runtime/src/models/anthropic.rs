//! Anthropic's messages API.

use relais_engine::{Finish, Message, ToolUse};
use serde_json::{Map, Value, json};

use super::draft::{Draft, DraftCall, arguments_object, broken};
use super::format::{Ask, Format, LiveFn, count, error_inside, event_json};
use super::schema_mode::{self, PLAIN_KEYWORDS, Rules};
use super::sse;
use crate::model::{Live, ModelError};
use crate::tool::ToolSpec;

const VERSION: &str = "2023-06-01";
/// The API wants a limit in every request; this is what every model since 2024 can give.
const MAX_TOKENS: u32 = 8192;
/// Empty text blocks are refused; an empty message still has to be said to keep the turns in order.
const EMPTY: &str = "(empty)";
/// Models from before structured outputs.
const WITHOUT_SCHEMA_MODE: &[&str] = &[
    "claude-2",
    "claude-instant",
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

pub struct Anthropic;

impl Format for Anthropic {
    fn path(&self, _model: &str) -> String {
        "/messages".to_owned()
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("x-api-key", key.to_owned()));
        key.into_iter().chain([("anthropic-version", VERSION.to_owned())]).collect()
    }

    fn body(&self, ask: &Ask<'_>) -> Value {
        let schema = ask.request.output_schema.as_ref();
        let native = schema.filter(|schema| self.has_schema_mode(ask.model) && compiles(schema));
        let in_prompt = schema.filter(|_| native.is_none()).map(schema_mode::prompt_text);
        let mut body = Map::new();
        body.insert("model".into(), json!(ask.model));
        body.insert("max_tokens".into(), json!(ask.request.max_tokens.unwrap_or(MAX_TOKENS)));
        body.insert("stream".into(), json!(true));
        let system = ask.system_text(in_prompt);
        if !system.is_empty() {
            body.insert("system".into(), json!(system));
        }
        body.insert("messages".into(), json!(messages(ask)));
        if !ask.tools.is_empty() {
            body.insert("tools".into(), ask.tools.iter().map(|tool| tool_json(tool, ask)).collect());
        }
        if let Some(schema) = native {
            body.insert("output_config".into(), json!({ "format": { "type": "json_schema", "schema": schema } }));
        }
        if let Some(temperature) = ask.request.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        Value::Object(body)
    }

    fn read_event(&self, draft: &mut Draft, event: &sse::Event, live: LiveFn<'_>) -> Result<(), ModelError> {
        let json = event_json(event)?;
        match json["type"].as_str().unwrap_or(&event.name) {
            "message_start" => take_envelope(draft, &json["message"]),
            "content_block_start" => open_block(draft, count(&json["index"]), &json["content_block"])?,
            "content_block_delta" => grow_block(draft, count(&json["index"]), &json["delta"], live),
            "message_delta" => {
                take_usage(draft, &json["usage"]);
                take_stop(draft, &json["delta"]["stop_reason"]);
            }
            "message_stop" => draft.ended = true,
            "error" => return Err(error_inside(&json["error"])),
            // Pings and block ends say nothing that matters here; new kinds of events are to be ignored.
            _ => {}
        }
        Ok(())
    }

    fn read_whole(&self, draft: &mut Draft, body: &Value) -> Result<(), ModelError> {
        if body["type"] == "error" {
            return Err(error_inside(&body["error"]));
        }
        let Some(blocks) = body["content"].as_array() else {
            return Err(broken("the answer is JSON but holds no `content`; is the base URL right?"));
        };
        take_envelope(draft, body);
        for (index, block) in blocks.iter().enumerate() {
            open_block(draft, index as u64, block)?;
        }
        take_stop(draft, &body["stop_reason"]);
        draft.ended = true;
        Ok(())
    }

    fn has_schema_mode(&self, model: &str) -> bool {
        !WITHOUT_SCHEMA_MODE.iter().any(|old| model.starts_with(old))
    }
}

fn compiles(schema: &Value) -> bool {
    schema_mode::fits(schema, &Rules { keywords: PLAIN_KEYWORDS, all_required: false })
}

/// Turns alternate: what follows in the same role goes into one message, so all results of a turn come together.
fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let mut list: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &ask.request.messages {
        let Some((role, blocks)) = blocks_of(message, ask) else { continue };
        match list.last_mut().filter(|last| last.0 == role) {
            Some(last) => last.1.extend(blocks),
            None => list.push((role, blocks)),
        }
    }
    if list.is_empty() {
        // Instructions alone are no conversation to this provider.
        list.push(("user", vec![text_block("")]));
    }
    list.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn blocks_of(message: &Message, ask: &Ask<'_>) -> Option<(&'static str, Vec<Value>)> {
    match message {
        Message::System { .. } => None,
        Message::User { text } => Some(("user", vec![text_block(text)])),
        Message::Assistant { text, calls } => Some(("assistant", assistant_blocks(text, calls, ask))),
        Message::Tool { use_id, text, failed, .. } => {
            let mut block = json!({ "type": "tool_result", "tool_use_id": use_id, "content": text });
            if *failed {
                block["is_error"] = json!(true);
            }
            Some(("user", vec![block]))
        }
    }
}

fn assistant_blocks(text: &str, calls: &[ToolUse], ask: &Ask<'_>) -> Vec<Value> {
    let mut blocks = calls.first().map(thinking_of).unwrap_or_default();
    if !text.trim().is_empty() || calls.is_empty() {
        blocks.push(text_block(text));
    }
    for (index, call) in calls.iter().enumerate() {
        if index > 0 {
            blocks.extend(thinking_of(call));
        }
        let (name, input) = (ask.names.wire(&call.tool), arguments_object(call));
        blocks.push(json!({ "type": "tool_use", "id": call.id, "name": name, "input": input }));
    }
    blocks
}

/// Thinking that led to a call, exactly as it came: the signature in it is checked.
fn thinking_of(call: &ToolUse) -> Vec<Value> {
    let kept = call.opaque.as_ref().and_then(|opaque| opaque["anthropic"].as_array());
    kept.cloned().unwrap_or_default()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": if text.trim().is_empty() { EMPTY } else { text } })
}

fn tool_json(tool: &ToolSpec, ask: &Ask<'_>) -> Value {
    let name = ask.names.wire(&tool.name);
    json!({ "name": name, "description": tool.description, "input_schema": tool.parameters })
}

fn take_envelope(draft: &mut Draft, message: &Value) {
    draft.model = message["model"].as_str().unwrap_or_default().to_owned();
    take_usage(draft, &message["usage"]);
}

/// Later events repeat some counters; a counter that is there is the newest.
fn take_usage(draft: &mut Draft, usage: &Value) {
    let cached = usage["cache_read_input_tokens"].as_u64();
    if let Some(fresh) = usage["input_tokens"].as_u64() {
        draft.usage.cached = cached.unwrap_or(0);
        let written = count(&usage["cache_creation_input_tokens"]);
        draft.usage.prompt = fresh.saturating_add(written).saturating_add(draft.usage.cached);
    }
    if let Some(completion) = usage["output_tokens"].as_u64() {
        draft.usage.completion = completion;
    }
    if let Some(thought) = usage["output_tokens_details"]["thinking_tokens"].as_u64() {
        draft.usage.reasoning = thought;
    }
}

fn open_block(draft: &mut Draft, slot: u64, block: &Value) -> Result<(), ModelError> {
    match block["type"].as_str().unwrap_or_default() {
        "text" => draft.text.push_str(block["text"].as_str().unwrap_or_default()),
        "thinking" | "redacted_thinking" => draft.pending_opaque.push(block.clone()),
        "tool_use" => {
            let thinking = std::mem::take(&mut draft.pending_opaque);
            let opaque = (!thinking.is_empty()).then(|| json!({ "anthropic": thinking }));
            let word = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            let whole = block["input"].as_object().filter(|input| !input.is_empty());
            let arguments = whole.map(|_| block["input"].to_string()).unwrap_or_default();
            draft.open_call(DraftCall { slot, id: word("id"), name: word("name"), arguments, opaque })?;
        }
        _ => {}
    }
    Ok(())
}

fn grow_block(draft: &mut Draft, slot: u64, delta: &Value, live: LiveFn<'_>) {
    let word = |key: &str| delta[key].as_str().unwrap_or_default();
    match delta["type"].as_str().unwrap_or_default() {
        "text_delta" => {
            draft.text.push_str(word("text"));
            live(Live::Text(word("text")));
        }
        "input_json_delta" => {
            if let Some(call) = draft.slot(slot) {
                call.arguments.push_str(word("partial_json"));
            }
        }
        "thinking_delta" => {
            grow_thinking(draft, "thinking", word("thinking"));
            live(Live::Thought(word("thinking")));
        }
        "signature_delta" => grow_thinking(draft, "signature", word("signature")),
        _ => {}
    }
}

fn grow_thinking(draft: &mut Draft, field: &str, more: &str) {
    if let Some(block) = draft.pending_opaque.last_mut() {
        let grown = format!("{}{more}", block[field].as_str().unwrap_or_default());
        block[field] = json!(grown);
    }
}

fn take_stop(draft: &mut Draft, reason: &Value) {
    let finish = |reason: &str| match reason {
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Filtered,
        _ => Finish::Stop,
    };
    if let Some(reason) = reason.as_str() {
        draft.finish = Some(finish(reason));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::format::samples::{body, closed_schema, conversation, read, tools};
    use super::*;

    #[test]
    fn a_conversation_is_written_as_documented() {
        let thinking = json!({"type": "thinking", "thinking": "tea…", "signature": "sig"});
        let request = conversation(Some(json!({ "anthropic": [thinking] })));
        let want = json!({
            "model": "m",
            "max_tokens": 8192,
            "stream": true,
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Find tea"}]},
                {"role": "assistant", "content": [
                    thinking,
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "a", "name": "mcp_shop_find", "input": {"q": "tea"}},
                    {"type": "tool_use", "id": "b", "name": "mcp_shop_find", "input": {"not_json": "{oops"}}
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "3 teas"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "arguments are not JSON", "is_error": true}
                ]}
            ],
            "tools": [{
                "name": "mcp_shop_find", "description": "Finds things",
                "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}
            }]
        });
        assert_eq!(body(&Anthropic, "m", &request, &tools()), want);
    }

    #[test]
    fn another_providers_opaque_data_is_not_sent() {
        let sent = body(&Anthropic, "m", &conversation(Some(json!({"google": "sig"}))), &[]).to_string();
        assert!(!sent.contains("sig"), "{sent}");
    }

    #[test]
    fn a_schema_goes_where_the_model_takes_it() {
        let check = |model: &str, schema: Value, native: bool| {
            let mut request = conversation(None);
            request.output_schema = Some(schema.clone());
            let body = body(&Anthropic, model, &request, &[]);
            let format = json!({"format": {"type": "json_schema", "schema": schema}});
            assert_eq!(body.get("output_config"), native.then_some(&format), "{model}");
            assert_eq!(body["system"].as_str().unwrap().contains("JSON Schema"), !native);
        };
        check("claude-sonnet-4-5", closed_schema(), true);
        check("claude-sonnet-4-5", json!({"type": "object"}), false);
        check("claude-3-5-haiku-latest", closed_schema(), false);
        check("claude-sonnet-4-20250514", closed_schema(), false);
    }

    #[test]
    fn empty_texts_and_instructions_alone_are_still_accepted() {
        let mut request = conversation(None);
        request.messages = vec![Message::System { text: "Go.".into() }];
        assert_eq!(body(&Anthropic, "m", &request, &[])["messages"][0]["role"], "user");
        request.messages = vec![Message::User { text: "  ".into() }];
        assert_eq!(body(&Anthropic, "m", &request, &[])["messages"][0]["content"][0]["text"], EMPTY);
    }

    fn start(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    #[test]
    fn thinking_is_kept_with_the_call_it_led_to() {
        let usage = json!({
            "input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7, "output_tokens": 1
        });
        let events = [
            json!({"type": "message_start", "message": {"model": "m-1", "usage": usage}}),
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "I should "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "look"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            start(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "Looking."})),
            start(2, json!({"type": "tool_use", "id": "a", "name": "mcp_shop_find", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q\":"})),
            json!({"type": "ping"}),
            delta(2, json!({"type": "input_json_delta", "partial_json": "1}"})),
            start(3, json!({"type": "tool_use", "id": "b", "name": "mcp_shop_find", "input": {}})),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 42}}),
            json!({"type": "message_stop"}),
        ];
        let spoken = read(&Anthropic, &events).unwrap();
        let calls = &spoken.reply.calls;
        let thinking = json!({"anthropic": [{"type": "thinking", "thinking": "I should look", "signature": "sig"}]});
        assert_eq!((calls[0].opaque.as_ref(), calls[1].opaque.as_ref()), (Some(&thinking), None));
        assert_eq!((calls[0].arguments.clone(), calls[1].arguments.clone()), (json!({"q": 1}), json!({})));
        assert_eq!((spoken.usage.prompt, spoken.usage.cached, spoken.usage.completion), (15, 5, 42));
        assert_eq!((spoken.reply.text.as_str(), spoken.reply.finish), ("Looking.", Finish::ToolCalls));
    }

    #[test]
    fn mad_counters_do_no_harm() {
        let usage = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX, "output_tokens": -1});
        let start = json!({"type": "message_start", "message": {"usage": usage}});
        let spoken = read(&Anthropic, &[start, json!({"type": "message_stop"})]).unwrap();
        assert_eq!((spoken.usage.prompt, spoken.usage.completion), (u64::MAX, 0));
    }

    #[test]
    fn endings() {
        let check = |reason: &str, want: Finish| {
            let stop = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
            assert_eq!(read(&Anthropic, &[stop]).unwrap().reply.finish, want, "{reason}");
        };
        check("end_turn", Finish::Stop);
        check("stop_sequence", Finish::Stop);
        check("max_tokens", Finish::Length);
        check("refusal", Finish::Filtered);
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert!(read(&Anthropic, &[error]).unwrap_err().transient);
    }
}
