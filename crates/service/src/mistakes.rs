//! What is wrong with JSON that somebody sent, in the words of JSON: where it is, what is there, what would be right.
//! The names of types of this program say nothing to whoever sent it.

use relais_plan::text::cut;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What an id looks like.
pub const AN_ID: &str = "0190a0b0-c0d0-7000-8000-00000000000a";
/// So much of a wrong text is shown.
const SHOWN_CHARS: usize = 60;

/// A text that is one JSON value of this form.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| match serde_json::from_slice(text) {
        // It is JSON; what is wrong with it is found once more, now with its place.
        Ok(value) => read_value::<T>(&value).err().unwrap_or_else(|| in_words(&error.to_string())),
        Err(error) => error.to_string(),
    })
}

/// The same for what was read before.
pub(crate) fn read_value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let words = in_words(&error.inner().to_string());
        match error.path().to_string().as_str() {
            "." | "?" => words,
            path => format!("{path}: {words}"),
        }
    })
}

/// What serde says of a mistake, without the place in the text.
pub fn in_words(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let mismatch = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    if let Some((found, wanted)) = mismatch.and_then(|text| text.rsplit_once(", expected ")) {
        return format!("{} is there, and {} is expected", found_in_words(found), wanted_in_words(wanted));
    }
    if let Some((_, wanted)) = message.strip_prefix("invalid length ").and_then(|text| text.rsplit_once(", expected "))
    {
        return format!("a list is there, and {} is expected", wanted_in_words(wanted));
    }
    for (start, words) in [("missing field ", "is missing"), ("duplicate field ", "is there twice")] {
        if let Some(name) = message.strip_prefix(start) {
            return format!("{name} {words}");
        }
    }
    for (start, what) in [("unknown field ", "there is no field"), ("unknown variant ", "there is no such word as")] {
        if let Some((name, known)) = message.strip_prefix(start).and_then(|text| text.split_once(", ")) {
            return format!("{what} {name} here, {known}");
        }
    }
    of_text(message).map_or_else(|| message.to_owned(), |wanted| format!("{wanted} is expected"))
}

/// What was to be read from a text, as in a query.
fn of_text(message: &str) -> Option<String> {
    let wanted = match message {
        "provided string was not `true` or `false`" => "true or false",
        "invalid digit found in string" | "cannot parse integer from empty string" => "a whole number",
        "number too large to fit in target type" | "number too small to fit in target type" => "a smaller number",
        "invalid float literal" | "cannot parse float from empty string" => "a number",
        _ if message.starts_with("UUID parsing failed") => return Some(wanted_in_words("UUID")),
        _ if message.starts_with("data did not match any variant") => "one of the forms that are taken",
        _ => return None,
    };
    Some(wanted.to_owned())
}

fn found_in_words(found: &str) -> String {
    let (kind, shown) = found.split_once(' ').unwrap_or((found, ""));
    match (kind, shown.trim_matches('`')) {
        ("string", text) => format!("the text {}", cut(text, SHOWN_CHARS)),
        ("integer", number) => format!("the number {number}"),
        ("floating", rest) => format!("the number {}", rest.trim_start_matches("point `")),
        ("boolean", word) => word.to_owned(),
        ("sequence", _) => "a list".to_owned(),
        ("map", _) => "an object".to_owned(),
        ("unit", _) => "nothing".to_owned(),
        _ => found.to_owned(),
    }
}

fn wanted_in_words(wanted: &str) -> String {
    let words = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "str" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        _ if wanted.contains("UUID") => return format!("an id, such as {AN_ID},"),
        _ if wanted.starts_with("struct ") => "an object",
        _ if wanted.starts_with("tuple ") || wanted.contains(" tuple ") => "a list",
        "string or map" => "a word of those that are taken",
        _ if wanted.contains("enum ") || wanted.contains("variant ") => "a word of those that are taken",
        other => other,
    };
    words.to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use uuid::Uuid;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sent {
        count: u8,
        #[serde(default)]
        ids: Vec<Uuid>,
        how: Option<How>,
        share: Option<f64>,
        inside: Option<BTreeMap<String, Box<Sent>>>,
        either: Option<Either>,
        pair: Option<(u8, u8)>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum How {
        Well,
        Badly,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Either {
        One(u8),
        Other(String),
    }

    #[test]
    fn a_mistake_is_told_without_names_of_types() {
        let id = "an id, such as 0190a0b0-c0d0-7000-8000-00000000000a, is expected";
        let whole = "a whole number that is not below 0 is expected";
        for (text, expected) in [
            (r#"5"#, "the number 5 is there, and an object is expected".to_owned()),
            (r#"[]"#, "a list is there, and an object is expected".to_owned()),
            (r#"{}"#, "`count` is missing".to_owned()),
            (r#"{"count": "x"}"#, format!("count: the text \"x\" is there, and {whole}")),
            (r#"{"count": 256}"#, format!("count: the number 256 is there, and {whole}")),
            (r#"{"count": 1.5}"#, format!("count: the number 1.5 is there, and {whole}")),
            (r#"{"count": null}"#, format!("count: null is there, and {whole}")),
            (r#"{"count": {}}"#, format!("count: an object is there, and {whole}")),
            (r#"{"count": 1, "count": 1}"#, "`count` is there twice".to_owned()),
            (r#"{"count": 1, "ids": ["x"]}"#, format!("ids[0]: {id}")),
            (r#"{"count": 1, "ids": [true]}"#, format!("ids[0]: true is there, and {id}")),
            (r#"{"count": 1, "share": []}"#, "share: a list is there, and a number is expected".to_owned()),
            (
                r#"{"count": 1, "how": "x"}"#,
                "how: there is no such word as `x` here, expected `well` or `badly`".to_owned(),
            ),
            (r#"{"count": 1, "either": {}}"#, "either: one of the forms that are taken is expected".to_owned()),
            (
                r#"{"count": 1, "how": [1]}"#,
                "how: a list is there, and a word of those that are taken is expected".to_owned(),
            ),
            (r#"{"count": 1, "pair": 1}"#, "pair: the number 1 is there, and a list is expected".to_owned()),
            (
                r#"{"count": 1, "inside": {"a": {"count": -1}}}"#,
                format!("inside.a.count: the number -1 is there, and {whole}"),
            ),
            (r#"{"count": 1"#, "EOF while parsing an object at line 1 column 11".to_owned()),
        ] {
            assert_eq!(read::<Sent>(text.as_bytes()).unwrap_err(), expected, "{text}");
            if let Ok(value) = serde_json::from_str::<Value>(text)
                && !text.contains(r#""count": 1, "count""#)
            {
                assert_eq!(read_value::<Sent>(&value).unwrap_err(), expected, "{text}");
            }
        }
        let unknown = read::<Sent>(br#"{"colour": 1}"#).unwrap_err();
        assert!(unknown.contains("there is no field `colour` here, expected one of `count`, `ids`"), "{unknown}");
        let long = read::<Sent>(format!(r#"{{"count": "{}"}}"#, "é".repeat(1_000)).as_bytes()).unwrap_err();
        assert!(long.chars().count() < 200, "{long}");
    }
}
