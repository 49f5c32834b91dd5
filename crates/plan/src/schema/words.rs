//! What a schema wants, as one would tell a person: `yes or no`, `one of a, b`, `a text`.

use serde_json::{Map, Value};

use crate::text::cut;

/// Words that say nothing about which values fit.
const SILENT: [&str; 7] = ["$schema", "title", "description", "default", "examples", "format", "$comment"];
/// Objects within objects are easier to read as a schema.
const MAX_DEPTH: usize = 2;
/// More choices or fields than these are easier to read as a schema.
const MAX_SHOWN: usize = 20;
const MAX_CHOICE_CHARS: usize = 60;

/// None where the words would not be the whole truth.
pub(super) fn wanted(schema: &Value) -> Option<String> {
    below(schema, 0)
}

fn below(schema: &Value, depth: usize) -> Option<String> {
    let Value::Object(said) = schema else { return None };
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(Value::Array(choices)) = said.get("enum") {
        return says_only(said, &["type", "enum"]).then(|| one_of(choices)).flatten();
    }
    if let Some(only) = said.get("const") {
        return says_only(said, &["type", "const"]).then(|| shown(only));
    }
    match said.get("type")?.as_str()? {
        "boolean" => says_only(said, &["type"]).then(|| "yes or no (`true` or `false` in JSON)".to_owned()),
        "string" => bounded(said, "a text", ["minLength", "maxLength"], " characters"),
        "integer" => bounded(said, "a whole number", ["minimum", "maximum"], ""),
        "number" => bounded(said, "a number", ["minimum", "maximum"], ""),
        "array" => list(said, depth),
        "object" => object(said, depth),
        _ => None,
    }
}

fn says_only(said: &Map<String, Value>, words: &[&str]) -> bool {
    said.keys().all(|word| words.contains(&word.as_str()) || SILENT.contains(&word.as_str()))
}

fn one_of(choices: &[Value]) -> Option<String> {
    let names: Vec<String> = choices.iter().take(MAX_SHOWN).map(shown).collect();
    (choices.len() <= MAX_SHOWN).then(|| format!("one of {}", names.join(", ")))
}

/// Texts as they are typed.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("`{}`", cut(&text, MAX_CHOICE_CHARS))
}

fn bounded(said: &Map<String, Value>, what: &str, [least, most]: [&str; 2], unit: &str) -> Option<String> {
    if !says_only(said, &["type", least, most]) {
        return None;
    }
    Some(match (said.get(least), said.get(most)) {
        (None, None) => what.to_owned(),
        (Some(least), None) => format!("{what} of at least {least}{unit}"),
        (None, Some(most)) => format!("{what} of at most {most}{unit}"),
        (Some(least), Some(most)) => format!("{what} from {least} to {most}{unit}"),
    })
}

fn list(said: &Map<String, Value>, depth: usize) -> Option<String> {
    if !says_only(said, &["type", "items"]) {
        return None;
    }
    match said.get("items") {
        None => Some("a list".to_owned()),
        Some(items) => below(items, depth + 1).map(|item| format!("a list, each item {item}")),
    }
}

fn object(said: &Map<String, Value>, depth: usize) -> Option<String> {
    let open = said.get("additionalProperties").is_none_or(Value::is_boolean);
    if !open || !says_only(said, &["type", "properties", "required", "additionalProperties"]) {
        return None;
    }
    let Some(Value::Object(fields)) = said.get("properties").filter(|fields| **fields != Value::Object(Map::new()))
    else {
        return says_only(said, &["type"]).then(|| "an object".to_owned());
    };
    let required = said.get("required").and_then(Value::as_array);
    let required = |name: &String| required.is_some_and(|names| names.iter().any(|n| n == name));
    let field = |(name, schema): (&String, &Value)| {
        let about = below(schema, depth + 1)?;
        let optional = if required(name) { "" } else { "; may be left out" };
        Some(format!("`{name}` ({about}{optional})"))
    };
    let fields: Option<Vec<String>> = fields.iter().map(field).collect();
    fields.filter(|fields| fields.len() <= MAX_SHOWN).map(|fields| format!("an object with {}", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn common_schemas_have_words() {
        for (schema, expected) in [
            (json!({"type": "boolean"}), "yes or no (`true` or `false` in JSON)"),
            (json!({"type": "boolean", "description": "Ship it?"}), "yes or no (`true` or `false` in JSON)"),
            (json!({"type": "string", "enum": ["small", "large"]}), "one of `small`, `large`"),
            (json!({"enum": ["a", 2, null]}), "one of `a`, `2`, `null`"),
            (json!({"const": "stop"}), "`stop`"),
            (json!({"type": "string"}), "a text"),
            (json!({"type": "string", "minLength": 3}), "a text of at least 3 characters"),
            (json!({"type": "integer", "minimum": 1, "maximum": 5}), "a whole number from 1 to 5"),
            (json!({"type": "number", "maximum": 9.5}), "a number of at most 9.5"),
            (json!({"type": "array", "items": {"type": "string"}}), "a list, each item a text"),
            (json!({"type": "object"}), "an object"),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                "an object with `a` (a text; may be left out)",
            ),
            (
                json!({"type": "object", "properties": {"ok": {"type": "string"}, "n": {"type": "integer"}}, "required": ["ok"]}),
                "an object with `ok` (a text), `n` (a whole number; may be left out)",
            ),
        ] {
            assert_eq!(wanted(&schema).as_deref(), Some(expected), "{schema}");
        }
    }

    #[test]
    fn what_words_would_not_say_in_full_has_none() {
        let many: Vec<usize> = (0..=MAX_SHOWN).collect();
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": ["string", "null"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "integer", "multipleOf": 5}),
            json!({"type": "array", "items": {"type": "string"}, "minItems": 2}),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"type": "object", "required": ["a"]}),
            json!({ "enum": many }),
        ] {
            assert_eq!(wanted(&schema), None, "{schema}");
        }
    }
}
