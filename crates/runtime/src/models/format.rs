//! What a wire format is: pure functions from our request to a provider's JSON and back. No network here.

use relais_engine::{ErrorKind, Message, Request};
use serde_json::Value;

use super::draft::Draft;
use super::names::Names;
use super::sse;
use crate::model::{Live, ModelError};
use crate::tool::ToolSpec;

pub type LiveFn<'a> = &'a (dyn Fn(Live<'_>) + Send + Sync);

/// One provider's way of saying things. Adding a format means implementing this and naming it in `models`.
pub trait Format: Send + Sync {
    /// Address of one call, below the base URL.
    fn path(&self, model: &str) -> String;
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;
    fn body(&self, ask: &Ask<'_>) -> Value;
    /// One event of a streamed reply.
    fn read_event(&self, draft: &mut Draft, event: &sse::Event, live: LiveFn<'_>) -> Result<(), ModelError>;
    /// A reply that came in one piece.
    fn read_whole(&self, draft: &mut Draft, body: &Value) -> Result<(), ModelError>;
    /// The provider can be held to a JSON Schema itself.
    fn has_schema_mode(&self, model: &str) -> bool;
}

/// A request with everything that a format needs to write it down.
pub struct Ask<'a> {
    /// Without the provider's prefix.
    pub model: &'a str,
    pub request: &'a Request,
    pub tools: &'a [ToolSpec],
    pub names: &'a Names,
}

impl<'a> Ask<'a> {
    /// All instructions as one text, with `extra` at the end.
    pub fn system_text(&self, extra: Option<String>) -> String {
        let said = self.request.messages.iter().filter_map(|message| match message {
            Message::System { text } if !text.is_empty() => Some(text.clone()),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        said.chain(extra).collect::<Vec<String>>().join("\n\n")
    }
}

/// The names that a call mentions: tools on offer first, then those of its history.
pub fn names_of(request: &Request, tools: &[ToolSpec]) -> Names {
    let earlier = request.messages.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.iter().map(|call| call.tool.as_str()).collect(),
        Message::Tool { tool, .. } => vec![tool.as_str()],
        Message::System { .. } | Message::User { .. } => Vec::new(),
    });
    Names::new(tools.iter().map(|tool| tool.name.as_str()).chain(earlier))
}

/// How many times the model has spoken so far.
pub fn turn_of(request: &Request) -> usize {
    request.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count()
}

/// JSON of a streamed event; anything else is a broken stream.
pub fn event_json(event: &sse::Event) -> Result<Value, ModelError> {
    serde_json::from_str(&event.data)
        .map_err(|error| super::draft::broken(&format!("an event of the stream is not JSON: {error}")))
}

/// An error object that a provider sent with status 200, in a stream or as its body.
pub fn error_inside(error: &Value) -> ModelError {
    let word = ["type", "code", "status"].iter().find_map(|key| error[*key].as_str()).unwrap_or_default();
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("the provider gave no message");
    let limited = word.contains("rate_limit") || word == "RESOURCE_EXHAUSTED" || error["code"] == 429;
    let refused = ["invalid_request", "authentication", "permission", "not_found", "INVALID_ARGUMENT"];
    let transient = !refused.iter().any(|start| word.starts_with(start));
    let kind = if limited { ErrorKind::RateLimit } else { ErrorKind::Provider };
    let colon = if word.is_empty() { "" } else { ": " };
    let message = format!("the provider broke off with an error: {word}{colon}{message}");
    ModelError { kind, message, retry_after: None, transient }
}

pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A conversation with everything in it, and ways to run a format on data.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod samples {
    use super::*;
    use crate::model::Spoken;
    use relais_engine::ToolUse;
    use relais_plan::Effect;
    use serde_json::json;

    pub fn conversation(opaque: Option<Value>) -> Request {
        let call = |id: &str, opaque: Option<Value>, garbled: Option<&str>| ToolUse {
            id: id.into(),
            tool: "mcp:shop/find".into(),
            arguments: garbled.map_or(json!({"q": "tea"}), |_| Value::Null),
            garbled: garbled.map(str::to_owned),
            opaque,
        };
        let result = |id: &str, text: &str, failed: bool| Message::Tool {
            use_id: id.into(),
            tool: "mcp:shop/find".into(),
            text: text.into(),
            failed,
        };
        let messages = vec![
            Message::System { text: "Be brief.".into() },
            Message::User { text: "Find tea".into() },
            Message::Assistant {
                text: "Looking.".into(),
                calls: vec![call("a", opaque, None), call("b", None, Some("{oops"))],
            },
            result("a", "3 teas", false),
            result("b", "arguments are not JSON", true),
        ];
        Request {
            model: String::new(),
            messages,
            tools: Vec::new(),
            output_schema: None,
            max_tokens: None,
            temperature: None,
            ..Request::default()
        }
    }

    pub fn tools() -> Vec<ToolSpec> {
        let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
        let description = "Finds things".to_owned();
        vec![ToolSpec { name: "mcp:shop/find".into(), description, parameters, effect: Effect::Read }]
    }

    pub fn closed_schema() -> Value {
        let properties = json!({"tea": {"type": "string"}});
        json!({"type": "object", "properties": properties, "required": ["tea"], "additionalProperties": false})
    }

    pub fn body(format: &dyn Format, model: &str, request: &Request, tools: &[ToolSpec]) -> Value {
        format.body(&Ask { model, request, tools, names: &names_of(request, tools) })
    }

    /// Runs a stream of events, given as their JSON.
    pub fn read(format: &dyn Format, events: &[Value]) -> Result<Spoken, ModelError> {
        let mut draft = Draft::default();
        for event in events {
            let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
            format.read_event(&mut draft, &sse::Event { name: String::new(), data }, &|_| {})?;
        }
        draft.into_spoken(&names_of(&conversation(None), &tools()), 1)
    }
}
