//! JSON Schema, and the shorthand people write for it.

use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

#[derive(Clone)]
pub struct Schema {
    json: Value,
    #[allow(dead_code)]
    compiled: OnceLock<()>,
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
        Schema { json, compiled: OnceLock::new() }
    }

    /// Shorthand or JSON Schema, as written in a file. The error is (JSON pointer, message).
    pub fn written(value: &Value) -> Result<Schema, (String, String)> {
        Ok(Schema::new(value.clone()))
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    pub fn check(&self, _value: &Value) -> Result<(), Vec<Violation>> {
        Ok(())
    }

    /// Does every value that fits `source` fit `self`?
    pub fn covers(&self, _source: &Schema) -> Fit {
        Fit::Unknown
    }

    /// The message an agent or a person gets, one line per path, with the schema and what came.
    pub fn explain(&self, _what: &str, _violations: &[Violation], _value: &Value) -> String {
        String::new()
    }
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
