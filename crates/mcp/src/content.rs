//! What a tool returned, as one JSON value.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

/// Structured content if there is some; else JSON that stands alone in one text; else the text; else a list.
pub fn value(result: CallToolResult) -> Value {
    if let Some(structured) = result.structured_content {
        return structured;
    }
    match result.content.as_slice() {
        [] => Value::Null,
        [ContentBlock::Text(only)] => parsed(&only.text).unwrap_or_else(|| only.text.clone().into()),
        blocks => match texts(blocks) {
            Some(text) => text.into(),
            None => blocks.iter().map(described).collect(),
        },
    }
}

/// The words of a failed call.
pub fn text(result: &CallToolResult) -> String {
    let words: Vec<String> = result
        .content
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => text.text.clone(),
            other => described(other).to_string(),
        })
        .collect();
    if words.is_empty() { "the tool failed and does not say why".to_owned() } else { words.join("\n") }
}

/// Numbers and words that happen to be JSON stay text.
fn parsed(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

fn texts(blocks: &[ContentBlock]) -> Option<String> {
    let words: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    Some(words?.join("\n"))
}

fn described(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text.text}),
        ContentBlock::Image(image) => {
            json!({"type": "image", "media_type": image.mime_type, "base64": image.data})
        }
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => {
            json!({"type": "resource_link", "uri": link.uri, "name": link.name, "media_type": link.mime_type})
        }
        // Kinds of content that came after this was written.
        other => serde_json::to_value(other).unwrap_or_else(|_| json!({"type": "unknown"})),
    }
}

fn resource(contents: &ResourceContents) -> Value {
    serde_json::to_value(contents).map_or(Value::Null, |contents| json!({"type": "resource", "resource": contents}))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn results_become_values() {
        let check = |given: Value, wanted: Value| {
            assert_eq!(value(serde_json::from_value(given.clone()).unwrap()), wanted, "{given}");
        };
        let text = |words: &str| json!({"type": "text", "text": words});
        check(json!({"content": [text("x")], "structuredContent": {"a": 1}}), json!({"a": 1}));
        check(json!({"content": [text("{\"a\":1}")]}), json!({"a": 1}));
        check(json!({"content": [text("[1]")]}), json!([1]));
        check(json!({"content": [text("12")]}), json!("12"));
        check(json!({"content": [text("a"), text("b")]}), json!("a\nb"));
        check(json!({"content": []}), json!(null));
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let described = json!({"type": "image", "media_type": "image/png", "base64": "AA=="});
        check(json!({"content": [image]}), json!([described]));
    }
}
