//! What a large value is, in a line: what stands for it where it is not shown whole.

use serde_json::{Map, Value};

use crate::text::cut;

/// An item or a field as the outline shows it.
const PART_CHARS: usize = 80;
/// The beginning of a text, and half as much of its end.
const TEXT_CHARS: usize = 120;
/// What somebody has written about a value themselves.
const SUMMARY_CHARS: usize = 200;
/// Keys that are named; of the others only the number.
const KEYS_SHOWN: usize = 12;
/// Fields that are described, not only named.
const FIELDS_SHOWN: usize = 4;

/// Counts, keys, the first and the last item; before them what the value says of itself in a field `summary`.
pub fn outline(value: &Value) -> String {
    let about = of_value(value);
    match value.get("summary").and_then(Value::as_str) {
        Some(written) => format!("{} ({about})", cut(written, SUMMARY_CHARS)),
        None => about,
    }
}

fn of_value(value: &Value) -> String {
    match value {
        Value::Array(list) => of_list(list, true),
        Value::Object(map) => of_object(map),
        Value::String(text) => of_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn of_list(list: &[Value], ends: bool) -> String {
    let keys = match list.first() {
        Some(Value::Object(first)) => format!(" with {}", keys(first)),
        _ => String::new(),
    };
    let count = format!("{}{keys}", counted(list.len(), "item"));
    match (ends, list) {
        (true, [first, .., last]) => format!("{count}; first: {}; last: {}", brief(first), brief(last)),
        (true, [only]) => format!("{count}; it is {}", brief(only)),
        _ => count,
    }
}

fn of_object(map: &Map<String, Value>) -> String {
    let mut lists = map.values().filter(|field| field.is_array());
    let only_list = lists.next().is_some() && lists.next().is_none();
    let large = map.iter().filter(|(_, field)| field.is_array() || field.is_object() || is_long(field));
    let fields = large.take(FIELDS_SHOWN).map(|(key, field)| match field {
        Value::Array(list) => format!("; {key}: {}", of_list(list, only_list)),
        Value::Object(inner) => format!("; {key}: object with {}", keys(inner)),
        other => format!("; {key}: {}", of_value(other)),
    });
    format!("object with {}{}", keys(map), fields.collect::<String>())
}

fn of_text(text: &str) -> String {
    let (chars, lines) = (text.chars().count(), text.lines().count());
    let lines = if lines > 1 { format!(" in {lines} lines") } else { String::new() };
    let about = format!("text of {}{lines}", counted(chars, "character"));
    if chars <= TEXT_CHARS {
        return format!("{about}: {text:?}");
    }
    let end = text.char_indices().nth_back(TEXT_CHARS / 2).map_or(0, |(at, _)| at);
    format!("{about}, from {:?} to {:?}", cut(text, TEXT_CHARS), format!("…{}", &text[end..]))
}

fn is_long(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() > PART_CHARS)
}

fn keys(map: &Map<String, Value>) -> String {
    let shown: Vec<&str> = map.keys().take(KEYS_SHOWN).map(String::as_str).collect();
    match (shown.as_slice(), map.len() - shown.len()) {
        ([], _) => "no keys".to_owned(),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text, PART_CHARS)),
        Value::Array(list) if list.len() > KEYS_SHOWN => of_list(list, false),
        other => cut(&other.to_string(), PART_CHARS),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outline_says_what_a_value_is() {
        let price = |n: u64| json!({ "product": format!("p{n}"), "price": n });
        let prices: Vec<Value> = (1..=3).map(price).collect();
        let many = (0..20).map(|n| (format!("k{n}"), json!(n))).collect::<Map<_, _>>();
        for (value, expected) in [
            (
                json!(prices),
                r#"3 items with product, price; first: {"product":"p1","price":1}; last: {"product":"p3","price":3}"#,
            ),
            (
                json!({ "day": "monday", "prices": prices }),
                r#"object with day, prices; prices: 3 items with product, price; first: {"product":"p1","price":1}; last: {"product":"p3","price":3}"#,
            ),
            (json!([1]), "1 item; it is 1"),
            (json!([]), "0 items"),
            (json!({ "summary": "Two moved.", "n": 1 }), "Two moved. (object with summary, n)"),
            (json!({ "a": [1, 2], "b": [3] }), "object with a, b; a: 2 items; b: 1 item"),
            (Value::Object(many), "object with k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11 and 8 more"),
            (json!("één\ntwee"), "text of 8 characters in 2 lines: \"één\\ntwee\""),
        ] {
            assert_eq!(outline(&value), expected);
        }
    }

    #[test]
    fn an_outline_stays_short_and_shows_both_ends() {
        for value in [
            json!("é".repeat(100_000) + "the end"),
            json!(vec!["😀".repeat(9_000); 300]),
            json!({ "rows": vec![json!({ "text": "x".repeat(10_000) }); 50], "more": "y".repeat(70_000) }),
        ] {
            let shown = outline(&value);
            assert!(shown.chars().count() < 700, "{} characters: {shown}", shown.chars().count());
        }
        let shown = outline(&json!("é".repeat(100_000) + "the end"));
        assert!(shown.starts_with("text of 100007 characters") && shown.contains("the end"), "{shown}");
    }
}
