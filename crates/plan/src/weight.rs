//! About how much room a value takes, so that what grows from step to step is stopped in time. A value that is made of
//! two copies of the last one is beyond any memory after some forty steps.

use serde_json::Value;

use crate::expr::EvalError;

/// The most that one value may weigh that a template or expression makes: room for the longest text and for most of what
/// `http_request` answers with. While it is made, stored and shown there are some ten copies of it.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// Deeper values could not be read back from the journal: the reader of JSON stops at 128 levels, and an entry has some
/// of its own.
pub const MAX_VALUE_DEPTH: usize = 100;

/// A value by itself, without its text or what is in it.
const BARE_BYTES: usize = 32;
/// A field by itself, without its name and value.
const FIELD_BYTES: usize = 64;

/// What may still be put into a value that is being made.
pub(crate) struct Room {
    left: usize,
}

impl Room {
    pub fn new() -> Room {
        Room { left: MAX_VALUE_BYTES }
    }

    /// Takes the room that a value needs at this depth.
    pub fn take(&mut self, value: &Value, depth: usize) -> Result<(), EvalError> {
        self.open(depth)?;
        match value {
            Value::String(text) => self.take_bytes(text.len()),
            Value::Array(items) => items.iter().try_for_each(|item| self.take(item, depth + 1)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, field)| {
                self.take_key(key)?;
                self.take(field, depth + 1)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// The same for a list or an object whose parts come one by one.
    pub fn open(&mut self, depth: usize) -> Result<(), EvalError> {
        if depth > MAX_VALUE_DEPTH {
            let text = format!("the value would be nested more than {MAX_VALUE_DEPTH} levels deep");
            return Err(EvalError::Limit(text));
        }
        self.take_bytes(BARE_BYTES)
    }

    pub fn take_key(&mut self, key: &str) -> Result<(), EvalError> {
        self.take_bytes(FIELD_BYTES + key.len())
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            EvalError::Limit(format!(
                "the value would take more than {} MiB of memory",
                MAX_VALUE_BYTES / (1024 * 1024)
            ))
        })?;
        Ok(())
    }
}

/// What a value weighs, counted up to [`MAX_VALUE_BYTES`].
pub fn weight(value: &Value) -> usize {
    let mut room = Room::new();
    match room.take(value, 0) {
        Ok(()) => MAX_VALUE_BYTES - room.left,
        Err(_) => MAX_VALUE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_weigh_what_is_in_them() {
        for (value, expected) in [
            (json!(null), 32),
            (json!("ten chars."), 42),
            (json!([1, "a"]), 97),
            (json!({ "key": [] }), 131),
            (json!("x".repeat(MAX_VALUE_BYTES)), MAX_VALUE_BYTES),
        ] {
            assert_eq!(weight(&value), expected);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(Room::new().take(&nested(MAX_VALUE_DEPTH), 0).is_ok());
        let refused = Room::new().take(&nested(MAX_VALUE_DEPTH + 1), 0);
        assert!(matches!(refused, Err(EvalError::Limit(text)) if text.contains("100 levels")));
    }
}
