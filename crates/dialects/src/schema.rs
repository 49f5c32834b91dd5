//! The JSON Schema of the native format.
use serde_json::{Value, json};

/// For editors and assistants.
pub fn json_schema() -> Value {
    json!({})
}
