//! Paths into JSON values: `a.b[0].c`, `['odd key']`, negative indexes from the end.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Key(String),
    Index(i64),
}

/// Where a path leads nowhere, and what is there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The part of the path that exists.
    pub upto: String,
    /// The segment that does not.
    pub segment: String,
    /// What is at `upto`: `keys: a, b` or `a list of 3` or `a string`.
    pub there: String,
}

pub fn parse(_text: &str) -> Result<Vec<Segment>, String> {
    Err(String::new())
}

pub fn get<'v>(value: &'v Value, _path: &[Segment]) -> Result<&'v Value, Missing> {
    Ok(value)
}
