//! `read_value`: a stored value in parts, such as a result or an output that was too long to be told at once.

use relais_engine::{Failure, READ_VALUE, text_in};
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{arguments, artifacts, wrong};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// Set aside in each piece for the words about what follows.
const NOTE_BYTES: usize = 256;
/// What a piece has at least, however little an agent is to hear at once.
const MIN_PIECE_BYTES: usize = 256;

pub struct ReadValue {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    value: String,
    path: Option<String>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

impl Default for ReadValue {
    fn default() -> ReadValue {
        ReadValue { spec: spec() }
    }
}

impl Tool for ReadValue {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(read(call))
    }
}

async fn read(call: ToolCall<'_>) -> Result<Returned, Failure> {
    let given: Arguments = arguments(&call)?;
    let Some(hash) = artifacts::stored_hash(&given.value) else {
        let text =
            format!("`{}` names no stored value: a name has 64 hexadecimal digits, as it was given", given.value);
        return Err(wrong(text));
    };
    let bytes = artifacts::bytes(call.run, hash).await?;
    let most = call.run.piece_bytes.saturating_sub(NOTE_BYTES).max(MIN_PIECE_BYTES);
    let limit = given.limit.unwrap_or(most).clamp(1, most);
    let text = match &given.path {
        Some(path) => text_at(&bytes, path)?,
        None => text_in(&bytes).into_owned(),
    };
    piece(&text, given.offset, limit).map(|text| Returned { value: Value::String(text), ..Returned::default() })
}

/// A part as text; what is not JSON by itself may be a text that holds some.
fn text_at(bytes: &[u8], path: &str) -> Result<String, Failure> {
    let whole: Value = serde_json::from_slice(bytes).map_err(|_| wrong("`path` works on JSON only; leave it out"))?;
    let inside = whole.as_str().and_then(|text| serde_json::from_str(text).ok());
    let found = artifacts::part(inside.as_ref().unwrap_or(&whole), path)?;
    Ok(relais_plan::template::in_text(&found))
}

/// The text from an offset on, and how to go on where there is more.
fn piece(text: &str, offset: usize, limit: usize) -> Result<String, Failure> {
    let whole = text.len();
    if offset > 0 && offset >= whole {
        return Err(wrong(format!("the offset {offset} is past the end: the text has {whole} bytes")));
    }
    let from = text.floor_char_boundary(offset);
    let mut to = text.floor_char_boundary(from.saturating_add(limit));
    if to == from {
        to = text.ceil_char_boundary(from + 1);
    }
    let part = &text[from..to];
    Ok(match (from, to == whole) {
        (0, true) => part.to_owned(),
        (_, true) => format!("{part}\n\n[bytes {from} to {to} of {whole}: this is the end]"),
        (_, false) => format!("{part}\n\n[bytes {from} to {to} of {whole}: go on with \"offset\": {to}]"),
    })
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: READ_VALUE.into(),
        description: "Reads a stored value in parts: a tool result of which only the beginning was given, or an output \
                      given as a reference of type db (its row_id is the value's name). Each piece says at which offset \
                      the next one begins. `path` picks a part of JSON, such as items[0].name."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "value": {"type": "string", "minLength": 1, "description": "the name of the value, as it was given"},
                "path": {"type": "string", "description": "a part of JSON: a.b[0].c"},
                "offset": {"type": "integer", "minimum": 0, "description": "the byte to begin with; 0 if left out"},
                "limit": {"type": "integer", "minimum": 1, "description": "bytes at most; as many as fit if left out"}
            },
            "required": ["value"],
            "additionalProperties": false
        }),
        effect: Effect::Read,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn a_value_is_read_in_parts_and_by_path() {
        let mut bench = Bench::new();
        bench.run.piece_bytes = NOTE_BYTES + MIN_PIECE_BYTES;
        let text = bench.blob(serde_json::to_string(&"é".repeat(300)).unwrap().as_bytes()).await;
        let rows = bench.blob(json!({"rows": [{"n": 7}, {"n": "x".repeat(300)}]}).to_string().as_bytes()).await;
        let nested = bench.blob(json!("{\"a\": [1, 2]}").to_string().as_bytes()).await;
        let tool = ReadValue::default();
        let next = |part: &str, note: &str| json!(format!("{part}\n\n[bytes {note}]"));
        let first = next(&"é".repeat(128), "0 to 256 of 600: go on with \"offset\": 256");
        bench.check(&tool, json!({"value": text}), first.clone()).await;
        bench.check(&tool, json!({"value": format!("output:{text}"), "limit": 9_999}), first).await;
        let last = next(&"é".repeat(44), "512 to 600 of 600: this is the end");
        bench.check(&tool, json!({"value": text, "offset": 513}), last).await;
        let one = next("é", "2 to 4 of 600: go on with \"offset\": 4");
        bench.check(&tool, json!({"value": text, "offset": 3, "limit": 1}), one).await;
        bench.check(&tool, json!({"value": rows, "path": "rows[0].n"}), json!("7")).await;
        let part = next(&"x".repeat(44), "256 to 300 of 300: this is the end");
        bench.check(&tool, json!({"value": rows, "path": "rows[1].n", "offset": 256}), part).await;
        bench.check(&tool, json!({"value": nested, "path": "a[1]"}), json!("2")).await;
        bench.check_fails(&tool, json!({"value": rows, "path": "rows[0].m"}), "there is no `m` at `rows[0]`").await;
        bench.check_fails(&tool, json!({"value": text, "offset": 600}), "past the end: the text has 600 bytes").await;
        bench.check_fails(&tool, json!({"value": "rows"}), "names no stored value").await;
        bench.check_fails(&tool, json!({"value": "0".repeat(64)}), "nothing is stored").await;
    }
}
