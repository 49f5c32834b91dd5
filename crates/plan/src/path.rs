//! Paths into JSON values: `a.b[0].c`, `['odd key']`, negative indexes from the end.
//!
//! It owns how a path is read, followed and shown. It knows nothing of expressions or of where a value comes from.

use serde_json::Value;

/// A deeper path is a mistake; the bound keeps a hostile one cheap.
pub const MAX_SEGMENTS: usize = 64;

/// More keys than this in a message hide the one that was meant.
const MAX_KEYS_SHOWN: usize = 20;

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

/// Reads a path; the empty text is the value itself.
pub fn parse(text: &str) -> Result<Vec<Segment>, String> {
    let text = text.trim();
    let mut segments = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if segments.len() == MAX_SEGMENTS {
            return Err(format!("the path has more than {MAX_SEGMENTS} parts"));
        }
        let (segment, after) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside, text)?,
            None => key(rest, segments.is_empty(), text)?,
        };
        segments.push(segment);
        rest = after;
    }
    Ok(segments)
}

/// Follows the path, or says how far it got.
pub fn get<'v>(value: &'v Value, path: &[Segment]) -> Result<&'v Value, Missing> {
    let mut at = value;
    for (depth, segment) in path.iter().enumerate() {
        at = step(at, segment).ok_or_else(|| Missing {
            upto: show(&path[..depth]),
            segment: show(std::slice::from_ref(segment)),
            there: describe(at),
        })?;
    }
    Ok(at)
}

/// One step down, if there is something.
pub fn step<'v>(value: &'v Value, segment: &Segment) -> Option<&'v Value> {
    match (value, segment) {
        (Value::Object(map), Segment::Key(key)) => map.get(key),
        (Value::Array(list), Segment::Index(index)) => list.get(position(*index, list.len())?),
        _ => None,
    }
}

/// The place an index means in a list of `length`; negative ones count from the end.
pub fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let place = if index < 0 { length.checked_add(index)? } else { index };
    usize::try_from(place).ok().filter(|_| place < length)
}

/// The path as a person would write it.
pub fn show(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
            // Digits after a dot would be read as an index.
            Segment::Key(key) if is_plain(key) && (text.is_empty() || !is_digits(key)) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Segment::Key(key) => text.push_str(&format!("['{}']", key.replace('\\', "\\\\").replace('\'', "\\'"))),
        }
    }
    text
}

/// What a value is, for a message about what is not in it.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "an object without fields".to_owned(),
        Value::Object(map) => {
            let shown: Vec<&str> = map.keys().take(MAX_KEYS_SHOWN).map(String::as_str).collect();
            let more = map.len().saturating_sub(MAX_KEYS_SHOWN);
            let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("keys: {}{tail}", shown.join(", "))
        }
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::String(_) => "a string".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(is_key_char)
}

fn is_digits(key: &str) -> bool {
    key.bytes().all(|b| b.is_ascii_digit())
}

fn is_key_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// A key after a dot, or at the start without one. Only digits mean an index: `items.0.name`.
fn key<'t>(rest: &'t str, first: bool, whole: &str) -> Result<(Segment, &'t str), String> {
    let body = match rest.strip_prefix('.') {
        Some(_) if first => return Err(format!("`{whole}` must not begin with a dot")),
        Some(body) => body,
        None if first => rest,
        None => return Err(format!("`{whole}` needs `.` or `[` before `{rest}`")),
    };
    let end = body.find(|c| !is_key_char(c)).unwrap_or(body.len());
    if end == 0 {
        return Err(format!("`{whole}` has an empty part; write other keys as ['key']"));
    }
    let (name, after) = body.split_at(end);
    match name.parse::<i64>() {
        Ok(index) if !first && is_digits(name) => Ok((Segment::Index(index), after)),
        _ => Ok((Segment::Key(name.to_owned()), after)),
    }
}

/// What stands after `[`: a quoted key or a whole number.
fn bracket<'t>(inside: &'t str, whole: &str) -> Result<(Segment, &'t str), String> {
    if let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, after) = quoted(&inside[1..], quote).ok_or_else(|| format!("`{whole}` has an open quote"))?;
        let after = after.strip_prefix(']').ok_or_else(|| format!("`{whole}` needs `]` after the quoted key"))?;
        return Ok((Segment::Key(name), after));
    }
    let (number, after) = inside.split_once(']').ok_or_else(|| format!("`{whole}` has an open `[`"))?;
    let index = number.trim().parse().map_err(|_| format!("`[{number}]` is not a whole number or a quoted key"))?;
    Ok((Segment::Index(index), after))
}

/// The text up to the closing quote, with `\` taking the next character as it is.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => return Some((name, &text[at + c.len_utf8()..])),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_round_trip(text: &str, shown: &str) {
        assert_eq!(show(&parse(text).unwrap()), shown, "{text}");
    }

    #[test]
    fn paths_are_read_and_shown() {
        for (text, shown) in [
            ("", ""),
            ("a", "a"),
            ("a.b[0].c", "a.b[0].c"),
            ("a-b.c_d", "a-b.c_d"),
            ("['odd key'].x", "['odd key'].x"),
            (r#"["x"]"#, "x"),
            (r"['it\'s']", r"['it\'s']"),
            ("a[-1]", "a[-1]"),
            ("a[ 2 ]", "a[2]"),
            ("items.0.name", "items[0].name"),
            ("items['0']", "items['0']"),
            ("0.1", "0[1]"),
            ("größe", "größe"),
            ("[0][1]", "[0][1]"),
        ] {
            check_round_trip(text, shown);
        }
    }

    #[test]
    fn bad_paths_say_why() {
        for (text, why) in [
            (".a", "begin with a dot"),
            ("a..b", "empty part"),
            ("a.", "empty part"),
            ("a[", "open `[`"),
            ("a[x]", "whole number"),
            ("a['x", "open quote"),
            ("a['x'", "needs `]`"),
            ("a[0]b", "needs `.`"),
            ("a b", "needs `.`"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
        assert!(parse(&"a.".repeat(100)).unwrap_err().contains("more than 64"));
    }

    #[test]
    fn a_missing_part_says_what_is_there() {
        let value = json!({"a": {"b": [1, 2, 3], "s": "x", "n": null}, "e": {}});
        for (path, expected) in [
            ("a.c", ("a", "c", "keys: b, s, n")),
            ("a.b[3]", ("a.b", "[3]", "a list of 3")),
            ("a.b[-4]", ("a.b", "[-4]", "a list of 3")),
            ("a.b.x", ("a.b", "x", "a list of 3")),
            ("a.s.x", ("a.s", "x", "a string")),
            ("a.n.x", ("a.n", "x", "null")),
            ("e.x", ("e", "x", "an object without fields")),
            ("z", ("", "z", "keys: a, e")),
        ] {
            let missing = get(&value, &parse(path).unwrap()).unwrap_err();
            assert_eq!((&*missing.upto, &*missing.segment, &*missing.there), expected, "{path}");
        }
        assert_eq!(get(&value, &parse("a.b[-1]").unwrap()).unwrap(), &json!(3));
        let many = Value::Object((0..25).map(|n| (format!("k{n}"), json!(n))).collect());
        assert!(describe(&many).ends_with("k19 and 5 more"));
    }
}
