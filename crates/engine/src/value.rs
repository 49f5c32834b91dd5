//! Values in and out of the journal: kept inline, or by content hash when they are large.

use serde_json::{Value, json};

use crate::command::{Body, Command};
use crate::event::{Blob, Event, Stored, Took};

/// So many characters of a large value are kept as its summary.
pub const SUMMARY_CHARS: usize = 200;

impl Stored {
    /// Keeps the value inline, or gives the bytes to be stored under the hash that now stands in its place.
    pub fn new(value: Value, inline_bytes: u64) -> (Stored, Option<(String, Vec<u8>)>) {
        let mut stored = Stored::Value(value);
        let blob = stored.externalise(inline_bytes);
        (stored, blob)
    }

    /// Replaces a large value by its reference.
    pub fn externalise(&mut self, inline_bytes: u64) -> Option<(String, Vec<u8>)> {
        let Stored::Value(value) = self else { return None };
        if surely_small(value, inline_bytes) {
            return None;
        }
        let bytes = serde_json::to_vec(value).ok().filter(|b| b.len() as u64 > inline_bytes)?;
        let blob = Blob::of(&bytes, summary(value));
        let hash = blob.hash.clone();
        *self = Stored::Blob(blob);
        Some((hash, bytes))
    }

    /// As it appears in a message: text as it is, JSON otherwise, a reference where the value is large.
    pub fn in_text(&self) -> String {
        match self {
            Stored::Value(value) => relais_plan::template::in_text(value),
            Stored::Blob(blob) => blob.reference().to_string(),
        }
    }

    /// First words, for lists and traces.
    pub fn summary(&self) -> String {
        match self {
            Stored::Value(value) => summary(value),
            Stored::Blob(blob) => blob.summary.clone(),
        }
    }
}

impl Event {
    /// The blobs that this event refers to, for whoever must keep them.
    pub fn blobs(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |stored: Option<&Stored>| match stored {
            Some(Stored::Blob(blob)) => found.push(blob.hash.clone()),
            Some(Stored::Value(_)) | None => {}
        };
        match self {
            Event::Opened(opened) => note(Some(&opened.input)),
            Event::Left(left) => note(left.output.as_ref()),
            Event::Settled { output, .. } | Event::Closed { output, .. } => note(output.as_ref()),
            Event::Branched { took: Took::Items { items, .. }, .. } => note(Some(items)),
            Event::Asked { command, .. } => match &**command {
                Command::StartRun(start) => note(Some(&start.input)),
                Command::CallModel { .. } | Command::CallTool { .. } | Command::Sleep { .. } => {}
                Command::AskPerson(_) | Command::Await(_) => {}
            },
            Event::Answered { answer, .. } => match &answer.body {
                Body::Returned { value, artifacts } => {
                    note(Some(value));
                    found.extend(artifacts.iter().map(|a| a.blob.hash.clone()));
                }
                Body::Ended { output, .. } => note(Some(output)),
                Body::Replied(_) | Body::Slept | Body::Failed(_) | Body::Cancelled => {}
            },
            Event::Entered { .. } | Event::Received { .. } | Event::Signalled { .. } | Event::Branched { .. } => {}
        }
        found
    }
}

impl Blob {
    pub fn of(bytes: &[u8], summary: String) -> Blob {
        Blob { hash: blake3::hash(bytes).to_hex().to_string(), bytes: bytes.len() as u64, summary }
    }

    /// How a large value travels.
    pub fn reference(&self) -> Value {
        json!({
            "summary": self.summary,
            "output_ref": { "type": "blob", "hash": self.hash },
            "meta": { "bytes": self.bytes },
        })
    }
}

/// Most values are short strings and small maps; they need not be serialised to know that they fit.
fn surely_small(value: &Value, limit: u64) -> bool {
    fn cost(value: &Value, left: &mut i64) {
        *left -= match value {
            Value::String(s) => 6 * s.len() as i64 + 2,
            Value::Array(list) => {
                list.iter().for_each(|v| {
                    if *left > 0 {
                        cost(v, left)
                    }
                });
                2
            }
            Value::Object(map) => {
                for (key, v) in map {
                    if *left <= 0 {
                        break;
                    }
                    *left -= 6 * key.len() as i64 + 4;
                    cost(v, left);
                }
                2
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 26,
        };
    }
    let mut left = limit as i64;
    cost(value, &mut left);
    left > 0
}

pub fn summary(value: &Value) -> String {
    let text = relais_plan::template::in_text(value);
    let mut short: String = text.chars().take(SUMMARY_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
