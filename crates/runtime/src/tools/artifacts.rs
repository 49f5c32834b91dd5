//! Artifacts by name: what the three artifact tools share.

use relais_engine::{Artifact, ErrorKind, Failure};
use serde_json::Value;

use super::web::readable;
use super::wrong;
use crate::tool::RunFiles;

const NAME_CHARS_MAX: usize = 200;
const MEDIA_TYPE_BYTES_MAX: usize = 255;
/// By RFC 6838.
const RESTRICTED_NAME_MAX: usize = 127;
/// Of what is refused.
const SHOWN_CHARS: usize = 60;
/// More is not handed out in one piece; `path` picks a part.
const LOADED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Names shown in an error.
const NAMES_SHOWN: usize = 50;
/// Length of a blake3 hash in hex.
const HASH_CHARS: usize = 64;

/// A name is a relative path: whoever saves artifacts as files puts them where they belong and nowhere else.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if name.len() <= NAME_CHARS_MAX && name.chars().all(is_fine) && name.split('/').all(is_part) {
        return Ok(());
    }
    Err(wrong(format!(
        "`{}` cannot be the name of an artifact: use letters, digits and ._- only, at most {NAME_CHARS_MAX}, in parts \
         between `/` that are neither empty nor `.` nor `..`, such as reports/today.md",
        shown(name)
    )))
}

/// `type/subtype`, each a restricted name of RFC 6838, and perhaps parameters whose values are tokens or quoted.
pub fn check_media_type(text: &str) -> Result<(), Failure> {
    let mut parts = text.split(';');
    let is_typed = parts.next().and_then(|essence| essence.trim_end().split_once('/'));
    let is_typed = is_typed.is_some_and(|(kind, subtype)| is_restricted(kind) && is_restricted(subtype));
    if text.len() <= MEDIA_TYPE_BYTES_MAX && is_typed && parts.all(is_parameter) {
        return Ok(());
    }
    let text = shown(text);
    Err(wrong(format!("`{text}` is no media type; write one as text/markdown or text/csv; charset=utf-8")))
}

fn is_restricted(name: &str) -> bool {
    let is_first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
    is_first && name.len() <= RESTRICTED_NAME_MAX && name.chars().all(is_fine)
}

fn is_parameter(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
    };
    let is_quoted = |text: &str| {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.is_some_and(|inner| inner.chars().all(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')))
    };
    text.trim().split_once('=').is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted(value)))
}

/// What is wrong may be long, and anything.
fn shown(text: &str) -> String {
    relais_plan::text::one_line(&relais_plan::text::cut(text, SHOWN_CHARS)).into_owned()
}

/// The content hash of a stored value, from `output:HASH` or a bare hash.
pub fn stored_hash(name: &str) -> Option<&str> {
    let hash = name.strip_prefix("output:").unwrap_or(name);
    let is_hash = hash.len() == HASH_CHARS && hash.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// The asked version, or the latest.
pub fn find<'a>(run: &'a RunFiles, name: &str, version: Option<u32>) -> Result<&'a Artifact, Failure> {
    let matching =
        run.artifacts.iter().filter(|(known, number, _)| known == name && version.is_none_or(|v| v == *number));
    match matching.max_by_key(|(_, number, _)| *number) {
        Some((_, _, artifact)) => Ok(artifact),
        None => Err(wrong(missing(run, name, version))),
    }
}

fn missing(run: &RunFiles, name: &str, version: Option<u32>) -> String {
    let wanted = version.map_or_else(|| format!("`{name}`"), |version| format!("`{name}` in version {version}"));
    let names: Vec<String> = run
        .artifacts
        .iter()
        .take(NAMES_SHOWN)
        .map(|(name, version, _)| format!("{name} (version {version})"))
        .collect();
    if names.is_empty() {
        return format!("there is no artifact {wanted}: this run has none yet; save_artifact makes one");
    }
    format!("there is no artifact {wanted}; there are: {}", names.join(", "))
}

pub async fn bytes(run: &RunFiles, hash: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::new(ErrorKind::Internal, format!("the stored value cannot be read: {error}"));
    match run.patience.outlast(|| run.store.get_blob(hash.to_owned())).await.map_err(failed)? {
        Some(bytes) => Ok(bytes),
        None => Err(wrong(format!("nothing is stored under {hash}"))),
    }
}

/// JSON as a value, text as text, other bytes as base64; the part at `path`, if given.
pub fn value(bytes: &[u8], media_type: &str, path: Option<&str>) -> Result<Value, Failure> {
    let parsed = if media_type.contains("json") || path.is_some() { serde_json::from_slice(bytes).ok() } else { None };
    let picked = match (parsed, path) {
        (Some(value), Some(path)) => part(&value, path)?,
        (Some(value), None) => value,
        (None, Some(_)) => return Err(wrong("`path` works on JSON only, and this is not JSON; leave it out")),
        (None, None) => readable(bytes, media_type.starts_with("text/")),
    };
    bounded(picked)
}

pub fn part(value: &Value, path: &str) -> Result<Value, Failure> {
    let segments = relais_plan::path::parse(path).map_err(|error| wrong(format!("`path` is not a path: {error}")))?;
    relais_plan::path::get(value, &segments).cloned().map_err(|missing| {
        let upto = if missing.upto.is_empty() { "the top".to_owned() } else { format!("`{}`", missing.upto) };
        wrong(format!("there is no `{}` at {upto}; there: {}", missing.segment, missing.there))
    })
}

fn bounded(value: Value) -> Result<Value, Failure> {
    let size = match &value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    if size <= LOADED_BYTES_MAX {
        return Ok(value);
    }
    let keys: Vec<&str> =
        value.as_object().into_iter().flatten().take(NAMES_SHOWN).map(|(key, _)| key.as_str()).collect();
    let hint = if keys.is_empty() { String::new() } else { format!("; keys: {}", keys.join(", ")) };
    Err(wrong(format!("this has {size} bytes, more than {LOADED_BYTES_MAX}; pick a part with `path`{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_paths() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["a", "report.md", "a/b-c_d/e.json", "..a", "a..", ".hidden", &long[1..]] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let wrong = [
            "",
            ".",
            "..",
            "../a",
            "a/../b",
            "/etc/passwd",
            "a//b",
            "a/",
            "a b",
            "a\\b",
            "a\nb",
            "\u{1b}[2K",
            "é",
            &long,
        ];
        for name in wrong {
            let failure = check_name(name).err().map(|failure| failure.message).unwrap_or_default();
            assert!(failure.contains("cannot be the name") && !failure.contains('\u{1b}'), "{name:?}: {failure}");
        }
    }

    #[test]
    fn media_types_are_read_by_their_grammar() {
        for text in [
            "text/plain",
            "application/vnd.api+json",
            "text/csv; charset=utf-8",
            "text/x;a=\"b c\";d=e",
            "image/svg+xml",
        ] {
            assert!(check_media_type(text).is_ok(), "{text}");
        }
        let long = format!("text/{}", "x".repeat(128));
        let wrong = [
            "",
            "text",
            "/plain",
            "text/",
            "text/plain\r\nSet-Cookie: a=b",
            "text/pl ain",
            "text/plain;",
            "text/plain;a",
            "text/\u{1b}",
            "text/html\nx",
            &long,
        ];
        for text in wrong {
            assert!(check_media_type(text).is_err(), "{text:?}");
        }
    }
}
