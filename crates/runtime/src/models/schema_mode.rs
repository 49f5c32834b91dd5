//! Which JSON Schemas a provider can be held to by itself, and what the prompt says where it cannot.

use serde_json::Value;

/// Keywords of OpenAI's strict mode.
pub const STRICT_KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "title",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];
/// Keywords that Anthropic compiles. References are left out: recursive ones are refused.
pub const PLAIN_KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "description",
    "title",
];
/// Deeper than any provider accepts.
const DEPTH_MAX: usize = 32;

pub struct Rules {
    pub keywords: &'static [&'static str],
    /// Every property of every object must be required.
    pub all_required: bool,
}

/// All objects are closed, only the given keywords occur, and the root is an object.
pub fn fits(schema: &Value, rules: &Rules) -> bool {
    schema["type"] == "object" && part_fits(schema, rules, 0)
}

/// For providers and schemas without a schema mode.
pub fn prompt_text(schema: &Value) -> String {
    format!("Your final answer must be JSON only, without any text around it, and fit this JSON Schema:\n{schema}")
}

fn part_fits(schema: &Value, rules: &Rules, depth: usize) -> bool {
    let Some(map) = schema.as_object() else { return false };
    depth < DEPTH_MAX
        && map.keys().all(|key| rules.keywords.contains(&key.as_str()))
        && (!is_object(schema) || is_closed(schema, rules))
        && children(schema).into_iter().all(|child| part_fits(child, rules, depth + 1))
}

fn is_object(schema: &Value) -> bool {
    let kind = &schema["type"];
    kind == "object"
        || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
        || schema.get("properties").is_some()
}

fn is_closed(schema: &Value, rules: &Rules) -> bool {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut names = schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
    schema["additionalProperties"] == false
        && (!rules.all_required || names.all(|name| required.contains(&name.as_str())))
}

fn children(schema: &Value) -> Vec<&Value> {
    let maps = ["properties", "$defs"].into_iter().filter_map(|key| schema[key].as_object());
    let lists = schema["anyOf"].as_array().into_iter().flatten();
    maps.flat_map(|map| map.values()).chain(lists).chain(schema.get("items")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strict_only_where_every_object_is_closed_and_complete() {
        let strict = Rules { keywords: STRICT_KEYWORDS, all_required: true };
        let check = |schema: Value, want: bool| assert_eq!(fits(&schema, &strict), want, "{schema}");
        let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        check(closed(json!({"a": {"type": "string"}}), json!(["a"])), true);
        check(closed(json!({"a": {"type": "string"}}), json!([])), false);
        check(json!({"type": "object", "properties": {}}), false);
        check(closed(json!({"a": {"type": "object"}}), json!(["a"])), false);
        check(closed(json!({"a": {"type": "array", "items": {"type": "object"}}}), json!(["a"])), false);
        check(closed(json!({"a": {"anyOf": [closed(json!({}), json!([])), {"type": "null"}]}}), json!(["a"])), true);
        check(closed(json!({"a": {"type": "string", "minLength": 1}}), json!(["a"])), false);
        check(json!({"type": "array", "items": {"type": "string"}}), false);
        check(json!(true), false);
    }
}
