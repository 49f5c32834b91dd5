//! Bytes that a client sent, as a message; if they are none, what to answer.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// None if there is nothing to do and nothing to answer: a notification that nobody knows.
pub fn read(bytes: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
    let wrong = match serde_json::from_slice(bytes) {
        Ok(message) => return Ok(Some(message)),
        Err(wrong) => wrong,
    };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return Err(refusal(ErrorData::parse_error(format!("The message is not JSON: {wrong}."), None), None));
    };
    if value.is_array() {
        let message = "Several messages at once are not understood; send each by itself.";
        return Err(refusal(ErrorData::invalid_request(message, None), None));
    }
    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    if id.is_none() && value.get("method").is_some_and(Value::is_string) {
        return Ok(None);
    }
    let message = "The message is not JSON-RPC 2.0: it needs `jsonrpc`, `method` and, to be answered, `id`.";
    Err(refusal(ErrorData::invalid_request(message, None), id))
}

/// The answer to a method that the stateless era does not have; none if it has it.
pub fn of_the_other_era(message: &ClientJsonRpcMessage) -> Option<Box<ServerJsonRpcMessage>> {
    let ClientJsonRpcMessage::Request(asked) = message else { return None };
    // By its name, whatever its params are.
    let method = asked.request.method();
    let instead = match method {
        "initialize" => "`server/discover` says what this server has",
        "resources/subscribe" => "`subscriptions/listen` tells of changes",
        "resources/unsubscribe" => "end the request that listens",
        _ => return None,
    };
    let message = format!("There is no method `{method}` in protocol version 2026-07-28; {instead}.");
    Some(refusal(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None), Some(asked.id.clone())))
}

pub fn too_large(limit: usize) -> Box<ServerJsonRpcMessage> {
    let message = format!("The message is larger than {limit} bytes and was not read.");
    refusal(ErrorData::invalid_request(message, None), None)
}

fn refusal(error: ErrorData, id: Option<RequestId>) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(error, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_messages_or_answered() {
        let check = |bytes: &str, wanted: &str| {
            let got = match read(bytes.as_bytes()) {
                Ok(Some(_)) => "message".to_owned(),
                Ok(None) => "nothing".to_owned(),
                Err(answer) => serde_json::to_string(&answer).unwrap_or_default(),
            };
            assert!(got.contains(wanted), "{bytes}: {got}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "message");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, "message");
        check(r#"{"jsonrpc":"2.0","id":7,"method":5}"#, r#""id":7,"error":{"code":-32600"#);
        check(r#"{"jsonrpc":"1.0","id":"x","method":"tools/list"}"#, r#""id":"x""#);
        check(r#"{"jsonrpc":"1.0","method":"window/logMessage"}"#, "nothing");
        check("[]", "send each by itself");
        check("garbage", "-32700");
        check(&"[".repeat(100_000), "-32700");
        check("12", "not JSON-RPC");
    }
}
