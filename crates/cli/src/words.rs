//! Numbers, times and values as people read them.

use relais_engine::{Millis, Usage};
use relais_plan::text::{is_name, one_line};
use relais_plan::time::format_duration;
use serde_json::Value;

/// `1.2s  830 tok  $0.0004`, without what is nothing.
pub fn effort(ms: Option<u64>, usage: &Usage) -> String {
    let about = if usage.estimated > 0 { "~" } else { "" };
    let tokens = tokens(usage.tokens()).map(|tokens| format!("{about}{tokens}"));
    let cost = cost(usage.usd_nanos).map(|cost| format!("{about}{cost}"));
    let parts = [ms.map(format_duration), tokens, cost];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

pub fn tokens(count: u64) -> Option<String> {
    (count > 0).then(|| format!("{} tok", grouped(count)))
}

/// Small amounts keep two digits that say something: `$0.0004`, `$0.12`, `$3.40`.
pub fn cost(usd_nanos: u64) -> Option<String> {
    relais_service::foresight::cost(usd_nanos)
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In the local time zone, to the second.
pub fn instant(at: Millis) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(at) else { return "?".to_owned() };
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

pub fn elapsed(from: Millis, to: Millis) -> u64 {
    to.saturating_sub(from).max(0) as u64
}

/// A value on one line, cut at so many characters.
pub fn brief(value: &Value, chars: usize) -> String {
    match value {
        Value::String(text) => shorten(text, chars),
        other => shorten(&other.to_string(), chars),
    }
}

/// On one line, cut at so many characters.
pub fn shorten(text: &str, chars: usize) -> String {
    let mut line = String::new();
    for (count, letter) in text.trim().chars().enumerate() {
        if count == chars {
            line.push('…');
            break;
        }
        line.push(if is_name(letter.encode_utf8(&mut [0; 4])) { letter } else { ' ' });
    }
    line
}

/// A name or a word of others, which stays in its line.
pub fn line(text: &str) -> String {
    one_line(text).into_owned()
}

/// Text of others below a line of ours: what it says on further lines is set in, and cannot be taken for ours.
pub fn hanging(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// In full: text as it is, anything else as indented JSON.
pub fn full(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// `1 step`, `3 steps`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A shell word: quoted where a shell would see more than a word in it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_say_something() {
        for (nanos, expected) in
            [(0, None), (1_500, Some("$0.000002")), (400_000, Some("$0.0004")), (123_000_000, Some("$0.12"))]
        {
            assert_eq!(cost(nanos).as_deref(), expected, "{nanos}");
        }
        for (count, expected) in [(0, None), (830, Some("830 tok")), (1_234_567, Some("1,234,567 tok"))] {
            assert_eq!(tokens(count).as_deref(), expected, "{count}");
        }
    }

    #[test]
    fn values_stay_on_one_line() {
        for (value, expected) in [
            (json!("a\nb"), "a b"),
            (json!({"a": [1, 2]}), "{\"a\":[1,…"),
            (json!("12345678"), "12345678"),
            (json!("\u{1b}[31m"), " [31m"),
        ] {
            assert_eq!(brief(&value, 8), expected, "{value}");
        }
    }

    #[test]
    fn words_for_a_shell() {
        for (text, expected) in [("fetch", "fetch"), ("loop[7]/x", "'loop[7]/x'"), ("it's", "'it'\\''s'"), ("", "''")] {
            assert_eq!(quoted(text), expected);
        }
    }
}
