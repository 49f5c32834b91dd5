//! Values in and out of the journal: kept inline, or by content hash when they are large. And what a model hears of
//! those that tools return to it.

use std::borrow::Cow;

use relais_plan::outline::outline;
use serde_json::{Value, json};

use crate::command::{Body, Command};
use crate::event::{Blob, Event, Stored, Told, Took};

/// So many characters of a value stand for it in lists and traces.
pub const SUMMARY_CHARS: usize = 200;
/// The tool that reads a stored value in parts; an agent whose tool results were cut is offered it.
pub const READ_VALUE: &str = "read_value";

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
        let blob = Blob::of(&bytes, outline(value));
        let hash = blob.hash.clone();
        *self = Stored::Blob(blob);
        Some((hash, bytes))
    }

    /// What a tool returned to an agent. Above `limit` bytes the model hears its beginning and how to read on, so
    /// the value must be stored, however small.
    pub fn result(value: Value, inline_bytes: u64, limit: u64) -> (Stored, Option<(String, Vec<u8>)>) {
        // Of a long text only the beginning is copied: it may have many megabytes.
        let text = value.as_str().map(|text| Beginning::of(text, limit));
        let (mut stored, blob) = Stored::new(value, inline_bytes.min(limit));
        if let (Stored::Blob(kept), Some((_, bytes))) = (&mut stored, &blob) {
            let text = text.unwrap_or_else(|| Beginning::of(&String::from_utf8_lossy(bytes), limit));
            kept.told = Some(kept.told(text));
        }
        (stored, blob)
    }

    /// Whether a model was told only the beginning of it.
    pub fn is_cut(&self) -> bool {
        match self {
            Stored::Value(_) => false,
            Stored::Blob(blob) => blob.told.as_ref().is_some_and(|told| told.cut),
        }
    }

    /// As it appears in a message: text as it is, JSON otherwise, or what is told of it where it is stored by its
    /// content. (Journals of old have nothing told; there it is the reference that the model was given.)
    pub fn in_text(&self) -> Cow<'_, str> {
        match self {
            Stored::Value(Value::String(text)) => Cow::Borrowed(text),
            Stored::Value(value) => Cow::Owned(relais_plan::template::in_text(value)),
            Stored::Blob(Blob { told: Some(told), .. }) => Cow::Borrowed(&told.text),
            Stored::Blob(blob) => Cow::Owned(blob.reference().to_string()),
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
        Blob { hash: blake3::hash(bytes).to_hex().to_string(), bytes: bytes.len() as u64, summary, told: None }
    }

    fn told(&self, beginning: Beginning) -> Told {
        let Beginning { text, whole } = beginning;
        let shown = text.len();
        if shown == whole {
            return Told { text, cut: false };
        }
        let (hash, what) = (&self.hash, &self.summary);
        let how = format!(
            "[This is only the beginning: the first {shown} of {whole} bytes. The whole is {what}. Read on with \
             {READ_VALUE} {{\"value\": \"{hash}\", \"offset\": {shown}}}; with \"path\" (such as items[0].name) it \
             reads a part of JSON.]"
        );
        Told { text: format!("{text}\n\n{how}"), cut: true }
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

/// The beginning of a text, and how many bytes the whole has.
struct Beginning {
    text: String,
    whole: usize,
}

impl Beginning {
    fn of(text: &str, limit: u64) -> Beginning {
        let end = text.floor_char_boundary(usize::try_from(limit).unwrap_or(usize::MAX));
        Beginning { text: text[..end].to_owned(), whole: text.len() }
    }
}

/// The text of a value that is stored as JSON: a text as it is, anything else as JSON.
pub fn text_in(json: &[u8]) -> Cow<'_, str> {
    match serde_json::from_slice::<String>(json) {
        Ok(text) => Cow::Owned(text),
        Err(_) => String::from_utf8_lossy(json),
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
    relais_plan::text::cut(&relais_plan::template::in_text(value), SUMMARY_CHARS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_model_hears_a_result_whole_or_its_beginning_and_how_to_read_on() {
        let check = |value: Value, inline: u64, limit: u64, shown: &str, cut: bool| {
            let (stored, blob) = Stored::result(value.clone(), inline, limit);
            assert_eq!((stored.is_cut(), stored.in_text().starts_with(shown)), (cut, true), "{}", stored.in_text());
            if !cut {
                assert_eq!(stored.in_text(), relais_plan::template::in_text(&value));
                return;
            }
            let (hash, bytes) = blob.unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value, "the whole is kept");
            let offset = format!("{{\"value\": \"{hash}\", \"offset\": {}}}", shown.len());
            assert!(stored.in_text().contains(&offset), "{}", stored.in_text());
            let text = stored.in_text();
            let said = &text[shown.len()..];
            assert!(said.starts_with("\n\n["), "nothing beyond the limit is told: {said}");
        };
        check(json!("short"), 100, 100, "short", false);
        check(json!("x".repeat(200)), 100, 1_000, "xxx", false);
        check(json!({ "n": "x".repeat(200) }), 100, 1_000, "{\"n\":\"xxx", false);
        check(json!("x".repeat(50)), 100, 20, &"x".repeat(20), true);
        check(json!("é".repeat(90)), 100, 21, &"é".repeat(10), true);
        let both = format!("[{}", "1,".repeat(50));
        check(json!(vec![1; 400]), 1_000_000, 101, &both, true);
    }

    #[test]
    fn journals_of_old_tell_what_they_told() {
        let old = json!({ "blob": { "hash": "h", "bytes": 9, "summary": "first words" } });
        let stored: Stored = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(
            stored.in_text(),
            r#"{"summary":"first words","output_ref":{"type":"blob","hash":"h"},"meta":{"bytes":9}}"#
        );
        assert_eq!(serde_json::to_value(&stored).unwrap(), old);
    }
}
