//! Single values as the native format writes them.

use relais_plan::step::Name;
use relais_plan::template::escaped;
use relais_plan::{Budget, Schema, Template};
use serde_json::{Map, Value, json};

use super::Fields;
use super::yaml::Doc;

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// Exact to the millisecond: `1h30m`, `1s500ms`.
pub(super) fn duration(ms: u64) -> Value {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let mut rest = ms;
    let mut text = String::new();
    for (unit, size) in units {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    Value::from(if text.is_empty() { "0s".to_owned() } else { text })
}

pub(super) fn budget(budget: &Budget) -> Option<Doc> {
    let mut fields = Fields::default();
    fields.some("usd", budget.usd_nanos.map(dollars));
    fields.some("tokens", budget.tokens.map(Value::from));
    fields.some("model_calls", budget.model_calls.map(Value::from));
    fields.some("tool_calls", budget.tool_calls.map(Value::from));
    fields.some("time", budget.time_ms.map(duration));
    (!fields.is_empty()).then(|| fields.short())
}

fn dollars(nanos: u64) -> Value {
    match nanos % NANOS_PER_DOLLAR {
        0 => Value::from(nanos / NANOS_PER_DOLLAR),
        _ => Value::from(nanos as f64 / NANOS_PER_DOLLAR as f64),
    }
}

/// A bare expression. The words `true` and `false` need no quotes.
pub(super) fn expression(source: &str) -> Value {
    match source {
        "true" => Value::from(true),
        "false" => Value::from(false),
        other => Value::from(other),
    }
}

/// One text, or a list of them; none if there are none.
pub(super) fn names(names: &[String]) -> Option<Value> {
    match names {
        [] => None,
        [only] => Some(json!(only)),
        several => Some(json!(several)),
    }
}

pub(super) fn name_list(names: &[Name]) -> Value {
    names.iter().map(|name| name.text.as_str()).collect()
}

pub(super) fn template(template: &Template) -> Value {
    match template {
        Template::Literal(value) => literal(value),
        Template::Ref(expr) => Value::from(format!("{{{{ {} }}}}", expr.source().trim())),
        Template::Text(text) => Value::from(text.source()),
        Template::List(items) => items.iter().map(self::template).collect(),
        Template::Map(fields) => {
            Value::Object(fields.iter().map(|(key, field)| (key.clone(), self::template(field))).collect())
        }
    }
}

/// Braces in it mean nothing, and must not come to mean something.
fn literal(value: &Value) -> Value {
    match value {
        Value::String(text) if ["{{", "{%", "{#"].iter().any(|open| text.contains(open)) => Value::from(escaped(text)),
        Value::Array(items) => items.iter().map(literal).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(key, value)| (key.clone(), literal(value))).collect()),
        other => other.clone(),
    }
}

/// The shorthand where it means the same, to the letter; else JSON Schema, marked as such where it could be taken for
/// the shorthand.
pub(super) fn schema(schema: &Schema) -> Value {
    let json = schema.json();
    let means = |written: &Value| Schema::written(written).is_ok_and(|read| same(read.json(), json));
    if let Some(short) = shorthand(json).filter(&means) {
        return short;
    }
    match json {
        Value::Object(map) if !means(json) => {
            let mark = ("$schema".to_owned(), Value::from(true));
            Value::Object([mark].into_iter().chain(map.clone()).collect())
        }
        other => other.clone(),
    }
}

/// To the letter: the order of keys is part of a plan's hash, and equality does not look at it.
fn same(one: &Value, other: &Value) -> bool {
    let (one, other) = (one.to_string(), other.to_string());
    one == other
}

/// What the shorthand could be; whether it means the same is checked as a whole.
fn shorthand(json: &Value) -> Option<Value> {
    let map = json.as_object()?;
    if map.is_empty() {
        return Some(json!("any"));
    }
    match (map.get("type")?.as_str()?, map.len()) {
        ("array", 2) => Some(json!([inner(map.get("items")?)])),
        ("object", 2..=3) => fields(map),
        (word @ ("string" | "integer" | "number" | "boolean" | "object"), 1) => Some(json!(word)),
        _ => None,
    }
}

fn fields(map: &Map<String, Value>) -> Option<Value> {
    let required: Vec<&str> = match map.get("required") {
        Some(names) => names.as_array()?.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let named = |(name, field): (&String, &Value)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        (format!("{name}{mark}"), inner(field))
    };
    Some(Value::Object(map.get("properties")?.as_object()?.iter().map(named).collect()))
}

/// Shorthand and JSON Schema may be mixed at any level.
fn inner(json: &Value) -> Value {
    shorthand(json).unwrap_or_else(|| json.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let check = |ms: u64, expected: &str| {
            assert_eq!(duration(ms), expected);
            assert_eq!(relais_plan::time::parse_duration(expected), Some(ms));
        };
        check(0, "0s");
        check(1, "1ms");
        check(1_500, "1s500ms");
        check(5_400_000, "1h30m");
        check(90_061_001, "1d1h1m1s1ms");
    }

    #[test]
    fn schemas_are_short_where_that_means_the_same() {
        let check = |json: Value, expected: Value| {
            let written = schema(&Schema::new(json.clone()));
            assert_eq!(written, expected);
            assert_eq!(Schema::written(&written).map(|schema| schema.json().to_string()), Ok(json.to_string()));
        };
        check(json!({}), json!("any"));
        check(json!({ "type": "string" }), json!("string"));
        check(json!({ "type": "array", "items": { "type": "integer" } }), json!(["integer"]));
        check(
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a"] }),
            json!({ "a": "string", "b?": "any" }),
        );
        check(json!({ "type": "string", "enum": ["a"] }), json!({ "type": "string", "enum": ["a"] }));
        check(json!({ "enum": ["a"] }), json!({ "$schema": true, "enum": ["a"] }));
        check(json!({ "items": { "type": "string" } }), json!({ "$schema": true, "items": { "type": "string" } }));
        let unordered = json!({ "properties": { "a": {} }, "type": "object" });
        check(unordered.clone(), unordered);
        check(json!(true), json!(true));
    }
}
