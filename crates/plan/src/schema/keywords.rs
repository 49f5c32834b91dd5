//! The words of JSON Schema. The standard lets unknown words pass, so that a misspelt one would take a constraint away
//! without a word; here it is refused. Words that resemble none of its own are remarks, and stay.

use serde_json::{Map, Value};

use super::{JSON_SCHEMA_WORDS, MAX_SHORTHAND_DEPTH};
use crate::problem::nearest;

/// Words whose value is a schema.
const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Words whose value is a list of schemas.
const SEVERAL: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Words whose value has a schema under each name.
const NAMED: &[&str] = &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// All others, those of older versions and of OpenAPI included.
const PLAIN: &[&str] = &[
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "discriminator",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "maxContains",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "name",
    "note",
    "nullable",
    "pattern",
    "readOnly",
    "required",
    "strict",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
    "xml",
];

/// The first misspelt word, with its place as a JSON pointer. `JSON_SCHEMA_WORDS` are among the words.
pub(super) fn check(schema: &Value, pointer: &str) -> Result<(), (String, String)> {
    debug_assert!(JSON_SCHEMA_WORDS.iter().all(|word| words().any(|known| known == *word)));
    walk(schema, pointer, 0)
}

fn words() -> impl Iterator<Item = &'static str> {
    ONE.iter().chain(SEVERAL).chain(NAMED).chain(PLAIN).copied()
}

fn walk(schema: &Value, pointer: &str, depth: usize) -> Result<(), (String, String)> {
    // What is nested deeper is refused elsewhere.
    let (Value::Object(map), true) = (schema, depth <= MAX_SHORTHAND_DEPTH) else { return Ok(()) };
    for (word, value) in map {
        let at = below(pointer, word);
        if !words().any(|known| known == word) && !word.starts_with("x-") {
            misspelt(word, &at)?;
            continue;
        }
        inside(word, value, &at, depth)?;
    }
    Ok(())
}

fn misspelt(word: &str, at: &str) -> Result<(), (String, String)> {
    match nearest(word, words()) {
        Some(near) => Err((at.to_owned(), format!("JSON Schema has no word `{word}`; did you mean `{near}`?"))),
        None => Ok(()),
    }
}

fn inside(word: &str, value: &Value, at: &str, depth: usize) -> Result<(), (String, String)> {
    match value {
        Value::Object(fields) if NAMED.contains(&word) => named(fields, at, depth),
        Value::Array(items) if SEVERAL.contains(&word) => {
            let mut numbered = items.iter().enumerate();
            numbered.try_for_each(|(number, item)| walk(item, &below(at, &number.to_string()), depth + 1))
        }
        value if ONE.contains(&word) => walk(value, at, depth + 1),
        _ => Ok(()),
    }
}

fn named(fields: &Map<String, Value>, at: &str, depth: usize) -> Result<(), (String, String)> {
    fields.iter().try_for_each(|(name, field)| walk(field, &below(at, name), depth + 1))
}

pub(super) fn below(pointer: &str, segment: &str) -> String {
    format!("{pointer}/{}", segment.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn misspelt_words_are_found_at_any_depth() {
        let found = |schema: Value| check(&schema, "").err().map(|(at, message)| format!("{at} {message}"));
        assert_eq!(found(json!({"type": "object", "properties": {"requird": {"type": "string"}}, "x-ours": 1})), None);
        assert_eq!(found(json!({"type": "string", "remark": "for people", "default": {"requird": 1}})), None);
        let expected = "/propertys JSON Schema has no word `propertys`; did you mean `properties`?";
        assert_eq!(found(json!({"type": "object", "propertys": {}})), Some(expected.into()));
        let nested = json!({"anyOf": [{"properties": {"a/b": {"items": {"enumx": [1]}}}}]});
        let expected = "/anyOf/0/properties/a~1b/items/enumx JSON Schema has no word `enumx`; did you mean `enum`?";
        assert_eq!(found(nested), Some(expected.into()));
    }
}
