//! Replies in each provider's shape, whole and as the events of a stream.

use serde_json::{Value, json};

/// The formats that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Anthropic,
    Google,
}

/// What a model says.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub text: String,
    pub calls: Vec<AskedCall>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    /// Cut off at the output limit.
    pub cut: bool,
}

#[derive(Debug, Clone)]
pub struct AskedCall {
    pub id: String,
    pub name: String,
    /// Sent as it stands, also where it is not JSON.
    pub arguments: String,
}

impl Said {
    pub fn text(text: &str) -> Said {
        Said { text: text.to_owned(), prompt_tokens: 10, completion_tokens: 5, ..Said::default() }
    }

    pub fn call(mut self, name: &str, arguments: &str) -> Said {
        let id = format!("call_{}", self.calls.len());
        self.calls.push(AskedCall { id, name: name.to_owned(), arguments: arguments.to_owned() });
        self
    }

    /// The text in two parts, as a stream would bring it; the cut is at a character.
    fn halves(&self) -> [String; 2] {
        let middle = self.text.chars().count() / 2;
        [self.text.chars().take(middle).collect(), self.text.chars().skip(middle).collect()]
    }
}

impl Wire {
    pub fn of_path(path: &str) -> Wire {
        let path = path.split('?').next().unwrap_or_default();
        match path {
            _ if path.ends_with("/messages") => Wire::Anthropic,
            _ if path.ends_with("enerateContent") => Wire::Google,
            _ => Wire::OpenAi,
        }
    }

    pub(crate) fn is_stream_asked(self, path: &str, body: &Value) -> bool {
        match self {
            Wire::OpenAi | Wire::Anthropic => body["stream"] == true,
            Wire::Google => path.contains(":stream"),
        }
    }

    pub fn whole(self, said: &Said) -> Value {
        match self {
            Wire::OpenAi => openai_whole(said),
            Wire::Anthropic => anthropic_whole(said),
            Wire::Google => google_chunk(google_parts(said), Some(said)),
        }
    }

    /// Each event as it goes over the wire, blank line included.
    pub fn events(self, said: &Said) -> Vec<String> {
        let json = match self {
            Wire::OpenAi => openai_events(said),
            Wire::Anthropic => anthropic_events(said),
            Wire::Google => google_events(said),
        };
        let named = |event: &Value| match (self, event["type"].as_str()) {
            (Wire::Anthropic, Some(name)) => format!("event: {name}\ndata: {event}\n\n"),
            (Wire::OpenAi | Wire::Anthropic | Wire::Google, _) => format!("data: {event}\n\n"),
        };
        let end = (self == Wire::OpenAi).then(|| "data: [DONE]\n\n".to_owned());
        json.iter().map(named).chain(end).collect()
    }
}

fn openai_finish(said: &Said) -> &'static str {
    match said {
        Said { cut: true, .. } => "length",
        Said { calls, .. } if calls.is_empty() => "stop",
        Said { .. } => "tool_calls",
    }
}

fn openai_usage(said: &Said) -> Value {
    json!({
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
        "prompt_tokens_details": { "cached_tokens": said.cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": said.reasoning_tokens }
    })
}

fn openai_whole(said: &Said) -> Value {
    let call = |call: &AskedCall| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    let calls: Vec<Value> = said.calls.iter().map(call).collect();
    let mut message = json!({ "role": "assistant", "content": said.text, "refusal": null });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "testkit",
        "choices": [{ "index": 0, "message": message, "finish_reason": openai_finish(said) }],
        "usage": openai_usage(said)
    })
}

fn openai_chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "testkit",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }], "usage": null
    })
}

fn openai_events(said: &Said) -> Vec<Value> {
    let mut events = vec![openai_chunk(&json!({ "role": "assistant", "content": "" }), None)];
    events.extend(said.halves().iter().map(|part| openai_chunk(&json!({ "content": part }), None)));
    for (index, call) in said.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let opened = json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(openai_chunk(&json!({ "tool_calls": [opened] }), None));
        for part in pieces(&call.arguments) {
            let grown = json!({ "index": index, "function": { "arguments": part } });
            events.push(openai_chunk(&json!({ "tool_calls": [grown] }), None));
        }
    }
    events.push(openai_chunk(&json!({}), Some(openai_finish(said))));
    events.push(
        json!({ "object": "chat.completion.chunk", "model": "testkit", "choices": [], "usage": openai_usage(said) }),
    );
    events
}

fn anthropic_stop(said: &Said) -> &'static str {
    match openai_finish(said) {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        _ => "end_turn",
    }
}

fn anthropic_usage(said: &Said) -> Value {
    let fresh = said.prompt_tokens.saturating_sub(said.cached_tokens);
    json!({ "input_tokens": fresh, "cache_read_input_tokens": said.cached_tokens, "cache_creation_input_tokens": 0 })
}

fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| json!({}))
}

fn anthropic_whole(said: &Said) -> Value {
    let call = |call: &AskedCall| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": parsed(&call.arguments) });
    let text = json!({ "type": "text", "text": said.text });
    let content: Vec<Value> = std::iter::once(text).chain(said.calls.iter().map(call)).collect();
    let mut usage = anthropic_usage(said);
    usage["output_tokens"] = json!(said.completion_tokens);
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "testkit", "content": content,
        "stop_reason": anthropic_stop(said), "usage": usage
    })
}

fn anthropic_block(index: usize, block: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({ "type": "content_block_start", "index": index, "content_block": block })];
    let delta = |delta: &Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    events.extend(deltas.iter().map(delta));
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}

fn anthropic_events(said: &Said) -> Vec<Value> {
    let message =
        json!({ "id": "msg_1", "type": "message", "model": "testkit", "content": [], "usage": anthropic_usage(said) });
    let mut events = vec![json!({ "type": "message_start", "message": message }), json!({ "type": "ping" })];
    let texts = said.halves().map(|part| json!({ "type": "text_delta", "text": part }));
    events.extend(anthropic_block(0, &json!({ "type": "text", "text": "" }), &texts));
    for (index, call) in said.calls.iter().enumerate() {
        let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let parts: Vec<Value> = pieces(&call.arguments)
            .iter()
            .map(|part| json!({ "type": "input_json_delta", "partial_json": part }))
            .collect();
        events.extend(anthropic_block(index + 1, &block, &parts));
    }
    let usage = json!({ "output_tokens": said.completion_tokens });
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": anthropic_stop(said) }, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn google_parts(said: &Said) -> Vec<Value> {
    let call = |call: &AskedCall| json!({ "functionCall": { "name": call.name, "args": parsed(&call.arguments) } });
    std::iter::once(json!({ "text": said.text })).chain(said.calls.iter().map(call)).collect()
}

fn google_chunk(parts: Vec<Value>, last: Option<&Said>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(said) = last {
        candidate["finishReason"] = json!(if said.cut { "MAX_TOKENS" } else { "STOP" });
    }
    let mut chunk = json!({ "candidates": [candidate], "modelVersion": "testkit" });
    if let Some(said) = last {
        chunk["usageMetadata"] = json!({
            "promptTokenCount": said.prompt_tokens,
            "candidatesTokenCount": said.completion_tokens.saturating_sub(said.reasoning_tokens),
            "thoughtsTokenCount": said.reasoning_tokens,
            "cachedContentTokenCount": said.cached_tokens
        });
    }
    chunk
}

fn google_events(said: &Said) -> Vec<Value> {
    let mut events: Vec<Value> =
        said.halves().iter().map(|part| google_chunk(vec![json!({ "text": part })], None)).collect();
    let calls = google_parts(said).split_off(1);
    events.push(google_chunk(calls, Some(said)));
    events
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(7).map(|piece| piece.iter().collect()).collect()
}
