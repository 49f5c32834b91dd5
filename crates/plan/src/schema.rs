//! JSON Schema, and the shorthand people write for it.
//!
//! It owns how a schema is written, checked, compared and explained. It fetches nothing: a `$ref` reaches only what is
//! in the schema itself.

mod keywords;
mod pattern;
mod sample;
mod steps;
mod words;

use std::sync::{Arc, OnceLock};

use jsonschema::canonical::{CanonicalSchema, Containment, Satisfiability};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::path::{self, Segment};
use crate::problem::nearest;
use crate::text::cut;

/// More violations than this help nobody to correct a value.
const MAX_VIOLATIONS: usize = 20;

/// A message of the library may quote the whole value; this much of it is enough.
const MAX_MESSAGE_CHARS: usize = 300;

/// How much of the received data an explanation shows.
const MAX_RECEIVED_CHARS: usize = 4_000;

/// Deeper shorthand is a mistake; the bound keeps reading it cheap.
const MAX_SHORTHAND_DEPTH: usize = 64;

/// Said of a value that would keep us busy.
const UNDECIDABLE: &str = "Checking this value against its schema takes too many steps: the value is nested too deeply \
    below a `$ref` that leads back to itself or to the same schema in several ways; send a flatter value, or give each \
    alternative of `anyOf` a field of its own that is required";

/// Said of a value that does not fit, in too many ways to list.
const INEXPLICABLE: &str = "The value does not fit its schema, and listing why takes too many steps: there are too many \
    alternatives for so large or so deeply nested a value";

/// Branches of `anyOf` and `oneOf` tried for a sample that fits.
const SAMPLE_TRIES: usize = 8;

/// The words of the shorthand and what they mean.
const TYPE_WORDS: [(&str, &str); 10] = [
    ("string", "string"),
    ("str", "string"),
    ("integer", "integer"),
    ("int", "integer"),
    ("number", "number"),
    ("float", "number"),
    ("boolean", "boolean"),
    ("bool", "boolean"),
    ("object", "object"),
    ("any", ""),
];

/// JSON Schema's own type names.
const JSON_TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// A map with one of these is JSON Schema as it stands.
const JSON_SCHEMA_WORDS: [&str; 6] = ["$schema", "$ref", "properties", "anyOf", "oneOf", "allOf"];

#[derive(Clone)]
pub struct Schema {
    json: Value,
    compiled: OnceLock<Arc<Result<Validator, String>>>,
    outline: OnceLock<Arc<steps::Outline>>,
}

/// One thing that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Dotted path from the root; empty for the value itself.
    pub path: String,
    pub message: String,
}

/// Can every value of one schema go where another is wanted?
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    Yes,
    /// With a value or schema that shows why not.
    No(String),
    Unknown,
}

impl Schema {
    /// JSON Schema as it stands.
    pub fn new(json: Value) -> Schema {
        Schema { json, compiled: OnceLock::new(), outline: OnceLock::new() }
    }

    /// Shorthand or JSON Schema, as written in a file. The error is (JSON pointer, message).
    pub fn written(value: &Value) -> Result<Schema, (String, String)> {
        let schema = Schema::new(expanded(value, "", 0)?);
        schema.compilable().map_err(|(pointer, message)| (within(value, pointer), message))?;
        Ok(schema)
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let validator = match self.validator() {
            Ok(validator) => validator,
            Err(message) => {
                let message = format!("The schema itself is not valid: {message}");
                return Err(vec![of_root(message)]);
            }
        };
        if steps::decidable(self.outline(), &self.json, value).is_err() {
            return Err(vec![of_root(UNDECIDABLE.to_owned())]);
        }
        if validator.is_valid(value) {
            return Ok(());
        }
        Err(self.reasons(validator, value))
    }

    /// Why a value does not fit. The library holds all errors at once, those of every alternative included, so it is
    /// asked for all of them only where they are few, and for the first where it needs no others to find it.
    fn reasons(&self, validator: &Validator, value: &Value) -> Vec<Violation> {
        if steps::explicable(self.outline(), &self.json, value).is_ok() {
            return validator.iter_errors(value).take(MAX_VIOLATIONS).map(|error| violation(&error)).collect();
        }
        let first = if self.outline().is_plain() { validator.validate(value).err() } else { None };
        vec![first.map_or_else(|| of_root(INEXPLICABLE.to_owned()), |error| violation(&error))]
    }

    /// Does every value that fits `source` fit `self`?
    pub fn covers(&self, source: &Schema) -> Fit {
        if self.json == source.json {
            return Fit::Yes;
        }
        let (Some(target), Some(given)) = (self.canonical(), source.canonical()) else {
            return self.refuted_by_sample(source);
        };
        match target.covers(&given) {
            Ok(Containment::Yes) => Fit::Yes,
            Ok(Containment::No) => Fit::No(self.witness(source, &target, &given)),
            Ok(_) | Err(_) => match given.subtract(&target).map(|rest| rest.satisfiability()) {
                Ok(Satisfiability::No) => Fit::Yes,
                _ => self.refuted_by_sample(source),
            },
        }
    }

    /// What a program or a model gets that sent a value which does not fit: what is wrong, the schema, what came.
    pub fn explain(&self, what: &str, violations: &[Violation], value: &Value) -> String {
        format!("{}\n\n{}", complaint(what, violations), self.compared(value))
    }

    /// What is wanted beside what came.
    pub fn compared(&self, value: &Value) -> String {
        let received = format!("{value:#}");
        let shown: String = received.chars().take(MAX_RECEIVED_CHARS).collect();
        let expected = laid_out(&self.json, 0);
        let mut text = format!("Expected schema:\n{expected}\n\nReceived data:\n{shown}");
        if shown.len() < received.len() {
            let total = received.chars().count();
            text.push_str(&format!("\n… (the first {MAX_RECEIVED_CHARS} of {total} characters)"));
        }
        text
    }

    /// What it wants as one would tell a person, `yes or no`; none where only the schema itself says it all.
    pub fn in_words(&self) -> Option<String> {
        words::wanted(&self.json)
    }

    /// A made-up value that fits, always the same for the same seed. For simulation.
    pub fn sample(&self, seed: u64) -> Value {
        let tries = (0..SAMPLE_TRIES).map(|branch| sample::Sampler::new(&self.json, branch).sample(seed));
        let given = ["default", "examples"].iter().filter_map(|word| match self.json.get(word)? {
            Value::Array(examples) if *word == "examples" => examples.first().cloned(),
            value => Some(value.clone()),
        });
        let simple = [json!({}), json!([]), json!(""), json!(0), json!(true), Value::Null];
        let mut candidates = tries.chain(given).chain(simple);
        let first = candidates.next().unwrap_or(Value::Null);
        if self.check(&first).is_ok() {
            return first;
        }
        candidates.find(|value| self.check(value).is_ok()).unwrap_or(first)
    }

    fn outline(&self) -> &steps::Outline {
        self.outline.get_or_init(|| Arc::new(steps::Outline::of(&self.json)))
    }

    fn validator(&self) -> Result<&Validator, &String> {
        let compile = || Arc::new(self.compilable().map_err(|(_, message)| message));
        self.compiled.get_or_init(compile).as_ref().as_ref()
    }

    /// The compiled schema, or where and why it is not one.
    fn compilable(&self) -> Result<Validator, (String, String)> {
        jsonschema::options().offline().with_pattern_options(patterns()).build(&self.json).map_err(|error| {
            let message = match error.kind() {
                ValidationErrorKind::Referencing(_) => format!("{error}; a $ref must stay inside its schema"),
                _ => error.to_string(),
            };
            (error.instance_path().as_str().to_owned(), cut(&message, MAX_MESSAGE_CHARS))
        })
    }

    fn canonical(&self) -> Option<CanonicalSchema> {
        steps::comparable(self.outline(), &self.json).ok()?;
        jsonschema::canonical::options().offline().canonicalize(&self.json).ok()
    }

    /// What fits the source and not this schema: a value where one can be made, else the schema of such values.
    fn witness(&self, source: &Schema, target: &CanonicalSchema, given: &CanonicalSchema) -> String {
        let Ok(rest) = given.subtract(target) else {
            return match self.refuted_by_sample(source) {
                Fit::No(value) => value,
                Fit::Yes | Fit::Unknown => "a value that fits the first schema and not the second".to_owned(),
            };
        };
        let mut rest = rest.to_json_schema();
        let value = Schema::new(rest.clone()).sample(0);
        if self.refuses_from(source, &value) {
            return cut(&value.to_string(), MAX_MESSAGE_CHARS);
        }
        if let Some(map) = rest.as_object_mut() {
            map.shift_remove("$schema");
        }
        cut(&format!("values of {rest}"), MAX_MESSAGE_CHARS)
    }

    fn refuted_by_sample(&self, source: &Schema) -> Fit {
        let mut samples =
            (0..SAMPLE_TRIES).map(|branch| sample::Sampler::new(&source.json, branch).sample(branch as u64));
        match samples.find(|value| self.refuses_from(source, value)) {
            Some(value) => Fit::No(cut(&value.to_string(), MAX_MESSAGE_CHARS)),
            None => Fit::Unknown,
        }
    }

    fn refuses_from(&self, source: &Schema, value: &Value) -> bool {
        self.validator().is_ok() && source.check(value).is_ok() && self.check(value).is_err()
    }
}

/// What does not fit, one line per path.
pub fn complaint(what: &str, violations: &[Violation]) -> String {
    let lines = violations.iter().map(|violation| {
        let path = if violation.path.is_empty() { "(root)" } else { &violation.path };
        format!("\n  - Path '{path}': {}", violation.message)
    });
    format!("Schema validation failed for {what}:{}", lines.collect::<String>())
}

/// The JSON Schema that was meant.
fn expanded(value: &Value, pointer: &str, depth: usize) -> Result<Value, (String, String)> {
    let wrong = |message: String| Err((pointer.to_owned(), message));
    if depth > MAX_SHORTHAND_DEPTH {
        return wrong(format!("a schema is nested at most {MAX_SHORTHAND_DEPTH} levels deep"));
    }
    match value {
        Value::String(word) => match TYPE_WORDS.iter().find(|(name, _)| name == word) {
            Some((_, "")) => Ok(json!({})),
            Some((_, json_type)) => Ok(json!({"type": json_type})),
            None => wrong(unknown_type(word)),
        },
        Value::Array(items) => match items.as_slice() {
            [item] => Ok(json!({"type": "array", "items": expanded(item, &format!("{pointer}/0"), depth + 1)?})),
            _ => wrong(no_list_type(items.len(), pointer.ends_with("/enum"))),
        },
        Value::Bool(_) => Ok(value.clone()),
        Value::Object(map) if map.get("$schema") == Some(&Value::Bool(true)) => {
            keywords::check(value, pointer)?;
            Ok(unmarked(map))
        }
        Value::Object(map) if is_json_schema(map) => {
            keywords::check(value, pointer)?;
            Ok(value.clone())
        }
        Value::Object(map) => object(map, pointer, depth),
        other => wrong(format!("`{other}` is not a type; write a type word, [type], or a map of fields")),
    }
}

/// What looks like the values to choose from has an advice of its own: JSON Schema is told by its `type`.
fn no_list_type(length: usize, is_enum: bool) -> String {
    let wrong = format!("a list type has one element, the type of its items; this one has {length}");
    let choice = "; values to choose from are written `{ type: string, enum: [a, b] }`";
    if is_enum { wrong + choice } else { wrong }
}

fn unknown_type(word: &str) -> String {
    let words = TYPE_WORDS.map(|(name, _)| name);
    match nearest(word, words) {
        Some(near) => format!("unknown type `{word}`; did you mean `{near}`?"),
        None => format!("unknown type `{word}`; types are {}, [type], or a map of fields", words.join(", ")),
    }
}

/// JSON Schema that says so by `$schema: true`, which is no part of it.
fn unmarked(map: &Map<String, Value>) -> Value {
    Value::Object(map.iter().filter(|(key, _)| *key != "$schema").map(|(k, v)| (k.clone(), v.clone())).collect())
}

fn is_json_schema(map: &Map<String, Value>) -> bool {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| JSON_TYPES.contains(&name));
    JSON_SCHEMA_WORDS.iter().any(|word| map.contains_key(*word))
        || map.get("type").is_some_and(|value| match value {
            Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
            other => is_type(other),
        })
}

/// A map of fields, all required but those marked with `?`.
fn object(fields: &Map<String, Value>, pointer: &str, depth: usize) -> Result<Value, (String, String)> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (written, field) in fields {
        let at = format!("{pointer}/{}", written.replace('~', "~0").replace('/', "~1"));
        let name = written.strip_suffix('?').unwrap_or(written);
        if properties.contains_key(name) {
            return Err((at, format!("the field `{name}` is given twice")));
        }
        properties.insert(name.to_owned(), expanded(field, &at, depth + 1)?);
        if name.len() == written.len() {
            required.push(Value::from(name));
        }
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    Ok(schema)
}

/// The pointer if it leads somewhere in what was written; inside expanded shorthand it does not.
fn within(value: &Value, pointer: String) -> String {
    if value.pointer(&pointer).is_some() { pointer } else { String::new() }
}

fn of_root(message: String) -> Violation {
    Violation { path: String::new(), message }
}

fn violation(error: &ValidationError<'_>) -> Violation {
    let mut segments: Vec<Segment> = error.instance_path().segments().map(segment).collect();
    let message = match error.kind() {
        ValidationErrorKind::Required { property } => {
            segments.extend(property.as_str().map(|name| Segment::Key(name.to_owned())));
            "Field is required but missing".to_owned()
        }
        ValidationErrorKind::Type { kind } => wrong_type(kind, error.instance()),
        _ => cut(&error.to_string(), MAX_MESSAGE_CHARS),
    };
    Violation { path: path::show(&segments), message }
}

fn segment(segment: LocationSegment<'_>) -> Segment {
    match segment {
        LocationSegment::Property(name) => Segment::Key(name.into_owned()),
        LocationSegment::Index(index) => Segment::Index(i64::try_from(index).unwrap_or(i64::MAX)),
    }
}

fn wrong_type(expected: &TypeKind, got: &Value) -> String {
    let expected = match expected {
        TypeKind::Single(name) => format!("'{name}'"),
        TypeKind::Multiple(names) => names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" or "),
    };
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("Expected type {expected}, got '{got}'")
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.json)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        self.json == other.json
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Schema, D::Error> {
        Ok(Schema::new(Value::deserialize(d)?))
    }
}

/// JSON for people: indented by two, but what is one plain member or a list of plain values stays on its line.
fn laid_out(value: &Value, depth: usize) -> String {
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Object(map) if depth > 0 && map.len() == 1 && map.values().all(is_plain) => {
            let member = |(key, value): (&String, &Value)| format!("{}: {value}", Value::from(key.as_str()));
            format!("{{{}}}", map.iter().map(member).collect::<String>())
        }
        Value::Object(map) if !map.is_empty() => {
            let member = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), laid_out(value, depth + 1))
            };
            format!("{{\n{}\n{outer}}}", map.iter().map(member).collect::<Vec<_>>().join(",\n"))
        }
        Value::Array(items) if items.iter().all(is_plain) => {
            format!("[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| format!("{inner}{}", laid_out(item, depth + 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        other => other.to_string(),
    }
}

/// Steps back that the match of one pattern may take: a pattern with look-around may need more than one per character,
/// and one that needs more than these is there to keep us busy.
const MAX_BACKTRACKS: usize = 20_000;

/// Patterns come from strangers: those without look-around are matched in linear time, the others within bounds.
fn patterns() -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shorthand_is_expanded() {
        for (written, expected) in [
            (json!("str"), json!({"type": "string"})),
            (json!("int"), json!({"type": "integer"})),
            (json!("float"), json!({"type": "number"})),
            (json!("bool"), json!({"type": "boolean"})),
            (json!("object"), json!({"type": "object"})),
            (json!("any"), json!({})),
            (json!(["string"]), json!({"type": "array", "items": {"type": "string"}})),
            (json!({}), json!({"type": "object"})),
            (
                json!({"a": "int", "b?": ["any"]}),
                json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {}}}, "required": ["a"]}),
            ),
            (
                json!({"type": "str", "description": "string", "items": ["int"]}),
                json!({"type": "object", "properties": {"type": {"type": "string"}, "description": {"type": "string"},
                       "items": {"type": "array", "items": {"type": "integer"}}}, "required": ["type", "description", "items"]}),
            ),
            (json!({"type": "string", "maxLength": 3}), json!({"type": "string", "maxLength": 3})),
            (json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]})),
            (json!({"anyOf": [{"type": "string"}]}), json!({"anyOf": [{"type": "string"}]})),
            (
                json!({"a": {"type": "string", "enum": ["x"]}}),
                json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}, "required": ["a"]}),
            ),
        ] {
            assert_eq!(Schema::written(&written).unwrap().json(), &expected, "{written}");
        }
    }

    #[test]
    fn bad_schemas_say_where_and_why() {
        for (written, pointer, message) in [
            (json!("strnig"), "", "did you mean `string`?"),
            (json!({"a": {"b": ["nubmer"]}}), "/a/b/0", "did you mean `number`?"),
            (json!("zebra"), "", "types are string"),
            (json!(["str", "int"]), "", "one element"),
            (json!({"enum": ["small", "large"]}), "/enum", "written `{ type: string, enum: [a, b] }`"),
            (json!({"a": 3}), "/a", "`3` is not a type"),
            (json!({"a": null}), "/a", "`null` is not a type"),
            (json!({"a": "int", "a?": "int"}), "/a?", "given twice"),
            (json!({"type": "string", "minLength": "x"}), "/minLength", ""),
            (json!({"$ref": "https://example.com/schema"}), "", "must stay inside"),
            (json!({"$ref": "file:///etc/passwd"}), "", "must stay inside"),
            (json!({"$ref": "#/$defs/none"}), "", "must stay inside"),
        ] {
            let (at, why) = Schema::written(&written).unwrap_err();
            assert_eq!(at, pointer, "{written}: {why}");
            assert!(why.contains(message), "{written}: {why}");
        }
        let deep = (0..200).fold(json!("int"), |inner, _| json!([inner]));
        assert!(Schema::written(&deep).unwrap_err().1.contains("levels deep"));
    }

    #[test]
    fn violations_are_dotted_and_plain() {
        let schema =
            Schema::written(&json!({"customer_name": "str", "email": "str", "items": [{"price": "number"}]})).unwrap();
        let value = json!({"email": 12345, "items": [{"price": 1}, {"price": "x"}, {}]});
        let violations = schema.check(&value).unwrap_err();
        let mut lines: Vec<String> = violations.iter().map(|v| format!("{}: {}", v.path, v.message)).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "customer_name: Field is required but missing",
                "email: Expected type 'string', got 'integer'",
                "items[1].price: Expected type 'number', got 'string'",
                "items[2].price: Field is required but missing",
            ]
        );
        assert_eq!(schema.check(&json!({"customer_name": "a", "email": "b", "items": []})), Ok(()));
        let many = Schema::written(&json!(["int"])).unwrap().check(&json!(vec!["x"; 100])).unwrap_err();
        assert_eq!(many.len(), MAX_VIOLATIONS);
        let either = Schema::new(json!({"type": ["string", "null"]})).check(&json!(1.5)).unwrap_err();
        assert_eq!(either[0].message, "Expected type 'null' or 'string', got 'number'");
        assert!(Schema::new(json!({"type": 3})).check(&json!(1)).unwrap_err()[0].message.contains("schema itself"));
    }

    #[test]
    fn an_explanation_has_its_form() {
        let schema = Schema::written(&json!({"customer_name": "str", "email": "str"})).unwrap();
        let value = json!({"email": 12345});
        let violations = vec![
            Violation { path: "customer_name".into(), message: "Field is required but missing".into() },
            Violation { path: "email".into(), message: "Expected type 'string', got 'integer'".into() },
        ];
        let text = schema.explain("Node 'extract_info' output", &violations, &value);
        let expected = r#"Schema validation failed for Node 'extract_info' output:
  - Path 'customer_name': Field is required but missing
  - Path 'email': Expected type 'string', got 'integer'

Expected schema:
{
  "type": "object",
  "properties": {
    "customer_name": {"type": "string"},
    "email": {"type": "string"}
  },
  "required": ["customer_name", "email"]
}

Received data:
{
  "email": 12345
}"#;
        assert_eq!(text, expected);
        let long = schema.explain("x", &[], &json!("é".repeat(9_000)));
        assert!(long.ends_with("… (the first 4000 of 9002 characters)"), "{long}");
    }

    #[test]
    fn containment_is_proven_or_refuted() {
        let open = json!({"a": "int"});
        for (target, source, expected) in [
            (json!({"a": "int"}), json!({"a": "int"}), "yes"),
            (json!({"a": "number"}), json!({"a": "int", "b": "str"}), "yes"),
            (json!({"a?": "int"}), json!({"a": "int"}), "yes"),
            (json!("any"), json!({"a": "int"}), "yes"),
            (json!({"a": "int"}), json!({"a?": "int"}), "no"),
            (json!({"a": "str"}), json!({"a": "int"}), "no"),
            (json!({"a": {"b": ["int"]}}), json!({"a": {"b": ["str"]}}), "no"),
            (json!({"type": "string", "enum": ["a", "b"]}), json!({"type": "string", "enum": ["a", "c"]}), "no"),
            (json!({"a": "int"}), json!("any"), "no"),
            (
                json!({"type": "object", "additionalProperties": false, "properties": {"a": {}}}),
                json!({"b": "int"}),
                "no",
            ),
            (json!({"type": "string", "pattern": "^a+$"}), json!({"type": "string", "pattern": "^aa+$"}), "unknown"),
            (
                open.clone(),
                json!({"$defs": {"n": {"type": "integer"}}, "type": "object", "required": ["a"],
                "properties": {"a": {"$ref": "#/$defs/n"}}}),
                "yes",
            ),
        ] {
            let fit = Schema::written(&target).unwrap().covers(&Schema::written(&source).unwrap());
            let found = match &fit {
                Fit::Yes => "yes",
                Fit::No(witness) if !witness.is_empty() => "no",
                Fit::No(_) => "no witness",
                Fit::Unknown => "unknown",
            };
            assert_eq!(found, expected, "{target} <- {source}: {fit:?}");
        }
        let target = Schema::new(json!({"enum": ["a", "b"]}));
        assert_eq!(target.covers(&Schema::new(json!({"enum": ["a", "c"]}))), Fit::No("\"c\"".to_owned()));
    }

    #[test]
    fn schemas_that_would_keep_us_busy_are_compared_by_samples() {
        let check = |target: Value, source: Value, expected: Fit| {
            assert_eq!(Schema::new(target).covers(&Schema::new(source)), expected);
        };
        let below = |next: Value| json!({"anyOf": [{"properties": {"a": next}}, {"properties": {"a": next}, "required": ["b"]}]});
        check(doubled(6, below), doubled(5, below), Fit::Yes);
        check(doubled(40, below), doubled(39, below), Fit::Unknown);
        check(doubled(400, below), doubled(399, below), Fit::Unknown);
        let deep = |levels: usize, leaf: &str, around: fn(Value) -> Value| {
            (0..levels).fold(json!({"type": leaf}), |inner, _| around(inner))
        };
        for (around, most) in [
            (|inner| json!({"items": inner}) as Value, 45),
            (|inner| json!({"type": "object", "properties": {"a": inner}, "required": ["a"]}), 22),
            (|inner| json!({"anyOf": [{"properties": {"a": inner}}, {"type": "null"}]}), 11),
        ] as [(fn(Value) -> Value, usize); 3]
        {
            check(deep(most, "number", around), deep(most, "integer", around), Fit::Yes);
            check(deep(120, "number", around), deep(120, "integer", around), Fit::Unknown);
        }
        check(ambiguous(2, true), ambiguous(8, false), Fit::Yes);
    }

    #[test]
    fn samples_fit_and_repeat() {
        for schema in [
            json!("str"),
            json!("any"),
            json!({"a": "int", "b?": "bool", "c": [{"d": "number"}]}),
            json!({"type": "integer", "minimum": 5, "maximum": 7}),
            json!({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7}),
            json!({"type": "integer", "multipleOf": 7, "minimum": 50}),
            json!({"type": "integer", "maximum": -20}),
            json!({"type": "number", "minimum": 0, "maximum": 1}),
            json!({"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.50001}),
            json!({"type": "number", "minimum": 2, "maximum": 2}),
            json!({"type": "number", "multipleOf": 0.5}),
            json!({"type": "string", "minLength": 40, "maxLength": 41}),
            json!({"type": "string", "maxLength": 2}),
            json!({"type": "array", "items": {"type": "string"}, "minItems": 5, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "string", "maxLength": 1}, "minItems": 5, "uniqueItems": true}),
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": true}),
            json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
            json!({"type": ["null", "string"]}),
            json!({"type": "object", "required": ["x", "y"], "properties": {"x": {"const": 4}}}),
            json!({"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string", "pattern": "^x{9}$"}, {"type": "null"}]}),
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                             {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}),
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["name"],
                   "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"},
                                  "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}),
            json!({"type": "string", "format": "email"}),
            json!({"type": "string", "pattern": "^[A-Z]{2}\\d{4}$"}),
            json!({"type": "integer", "minimum": -1e300, "maximum": 1e300, "multipleOf": 1}),
            json!({"type": "integer", "minimum": 9223372036854775807u64}),
            json!({"type": "string", "format": "uuid"}),
        ] {
            let schema = Schema::written(&schema).unwrap();
            for seed in 0..20 {
                let value = schema.sample(seed);
                assert_eq!(schema.check(&value), Ok(()), "{schema:?} {value}");
                assert_eq!(schema.sample(seed), value);
            }
        }
        let endless =
            Schema::new(json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}));
        assert!(endless.sample(1).is_object());
    }

    #[test]
    fn a_pattern_that_would_keep_us_busy_is_given_up() {
        let schema = Schema::new(json!({"type": "string", "pattern": "^(?:a|a)*(?=b)b$"}));
        assert!(schema.check(&json!("b")).is_ok() && schema.check(&json!("aab")).is_ok());
        assert!(schema.check(&json!("a".repeat(60))).is_err());
    }

    /// `levels` objects inside one another, each in the field `a`.
    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
    }

    /// Alternatives that all lead back to themselves through the field `a`; only the first can fit.
    fn ambiguous(alternatives: usize, ends: bool) -> Value {
        let alternative = |number: usize| {
            let required = if number == 0 { json!(["a"]) } else { json!(["a", format!("b{number}")]) };
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": required})
        };
        let mut list: Vec<Value> = (0..alternatives).map(alternative).collect();
        list.extend(ends.then(|| json!({"type": "integer"})));
        json!({"type": "object", "$defs": {"n": {"anyOf": list}}, "properties": {"r": {"$ref": "#/$defs/n"}}})
    }

    /// Schemas of which each names the next one twice, so that the last is reached in 2^`levels` ways.
    fn doubled(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
        let next = |level: usize| json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let mut defs: Map<String, Value> = (0..levels).map(|level| (format!("d{level}"), twice(next(level)))).collect();
        defs.insert(format!("d{levels}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    /// Schemas of which each names all.
    fn mutual(count: usize, all: impl Fn(Vec<Value>) -> Value) -> Value {
        let list: Vec<Value> = (0..count).map(|number| json!({"$ref": format!("#/$defs/d{number}")})).collect();
        let defs: Map<String, Value> = (0..count).map(|number| (format!("d{number}"), all(list.clone()))).collect();
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn a_schema_that_would_keep_us_busy_is_given_up() {
        let check = |schema: Value, value: Value, expected: Result<(), &str>| {
            let found = Schema::new(schema.clone()).check(&value);
            let size = found.as_ref().err().map_or(0, |violations| violations.iter().map(|v| v.message.len()).sum());
            assert!(size <= 2 * MAX_VIOLATIONS * MAX_MESSAGE_CHARS, "{schema}: {size} characters");
            let said = found.map_err(|violations| violations[0].message.clone());
            match (&said, expected) {
                (Ok(()), Ok(())) => {}
                (Err(message), Err(part)) if message.contains(part) => {}
                _ => panic!("{schema}: {said:?} instead of {expected:?}"),
            }
        };
        for alternatives in [2, 8] {
            for (levels, said) in
                [(3, "not valid under any"), (20, "listing why"), (60, "listing why"), (200, "too many steps")]
            {
                check(ambiguous(alternatives, false), json!({"r": nested(levels)}), Err(said));
            }
            check(ambiguous(alternatives, false), json!({"r": nested(10)}), Err(""));
            check(ambiguous(alternatives, true), json!({"r": nested(60)}), Ok(()));
        }
        let same = |next: Value| json!({"anyOf": [next, next]});
        check(doubled(4, same), json!("x"), Ok(()));
        check(doubled(40, same), json!(1), Err("too many steps"));
        let below = |next: Value| json!({"anyOf": [{"properties": {"a": next}}, {"properties": {"a": next}}]});
        check(doubled(40, below), nested(40), Err("too many steps"));
        let required = |next: Value| {
            let fields = json!({"properties": {"a": next}, "required": ["a", "b"]});
            json!({"anyOf": [fields, fields]})
        };
        check(doubled(40, required), nested(40), Err("too many steps"));
        check(mutual(12, |all| json!({"anyOf": all})), json!(1), Err("too many steps"));
        let through = |all: Vec<Value>| {
            let fields = all.into_iter().map(|next| json!({"properties": {"a": next}, "required": ["a", "b"]}));
            json!({"anyOf": fields.collect::<Vec<_>>()})
        };
        check(mutual(12, through), nested(30), Err("listing why"));
        let mut named = doubled(40, same);
        named["propertyNames"] = json!({"$ref": "#/$defs/d0"});
        check(named, json!({"a": 1}), Err("too many steps"));
        let mut beside = doubled(40, |next| json!({"anyOf": [{"$ref": next["$ref"], "type": "null"}, next]}));
        beside["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        check(beside, json!(1), Err("too many steps"));
        let looked = (0..40).fold(json!({}), |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}));
        check(looked, json!({"a": 1}), Err("too many steps"));
        let names: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        check(json!({"items": {"required": names}}), json!(vec![json!({}); 10_000]), Err("required but missing"));
        let either = json!({"items": {"anyOf": [{"required": names}]}});
        check(either, json!(vec![json!({}); 10_000]), Err("listing why"));
    }

    #[test]
    fn an_ordinary_schema_that_refers_to_itself_is_checked_at_any_depth() {
        let check = |schema: Value, leaf: Value, wrap: fn(Value) -> Value| {
            let value = (0..50).fold(leaf, |inner, _| wrap(inner));
            assert_eq!(Schema::new(schema.clone()).check(&value), Ok(()), "{schema}");
        };
        let tree = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"},
            "left": {"$ref": "#"}, "right": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        check(tree.clone(), json!({"n": 1}), |inner| json!({"n": 1, "left": {"n": 2}, "right": inner}));
        check(tree, json!({"n": 1}), |inner| json!({"n": 1, "left": inner, "right": null}));
        let comment = json!({"$ref": "#/$defs/c", "$defs": {"c": {"type": "object", "required": ["text"], "properties":
            {"text": {"type": "string"}, "replies": {"type": "array", "items": {"$ref": "#/$defs/c"}}}}}});
        check(comment, json!({"text": "a"}), |inner| json!({"text": "b", "replies": [{"text": "c"}, inner]}));
        let binary = |kind: &str| {
            json!({"type": "object", "required": ["kind", "l", "r"],
                "properties": {"kind": {"const": kind}, "l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}}})
        };
        let any = [json!({"type": "number"}), binary("add"), binary("sub"), binary("mul"), binary("div")];
        let expression = json!({"$ref": "#/$defs/e", "$defs": {"e": {"oneOf": any}}});
        check(expression, json!(1), |inner| json!({"kind": "mul", "l": 2, "r": inner}));
        let named = json!({"$anchor": "n", "properties": {"a": {"$ref": "#n"}}, "type": ["object", "integer"]});
        check(named, json!(1), |inner| json!({"a": inner}));
    }

    #[test]
    fn sampled_formats_are_well_formed() {
        for format in ["date", "date-time", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname", "duration"] {
            let json = json!({"type": "string", "format": format});
            let validator = jsonschema::options().should_validate_formats(true).build(&json).unwrap();
            for seed in 0..20 {
                let value = Schema::new(json.clone()).sample(seed);
                assert!(validator.is_valid(&value), "{format}: {value}");
            }
        }
        let named = Schema::written(&json!({"page_summary": "str"})).unwrap().sample(3);
        assert!(named["page_summary"].as_str().unwrap().starts_with("This is a simulated page summary: "), "{named}");
    }
}
