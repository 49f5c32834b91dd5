//! YAML as a person would write it: blocks for structure, one line for what is short, quotes only where they are needed.
//!
//! Knows nothing of workflows. What it writes, `crate::yaml` reads back as the same value, whatever the text in it.

use serde_json::Value;

use crate::yaml::plain;

/// What fits into so many characters may stand on one line.
const MAX_FLOW_CHARS: usize = 90;
/// A longer key needs the form with a question mark.
const MAX_KEY_BYTES: usize = 1_000;
const INDENT: usize = 2;

/// A value to be written, its keys in order.
#[derive(Debug, Clone)]
pub(crate) enum Doc {
    Scalar(Value),
    List(Vec<Doc>, Style),
    Map(Vec<(String, Doc)>, Style),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// An entry per line.
    Block,
    /// On one line if it is short.
    Short,
}

impl From<Value> for Doc {
    fn from(value: Value) -> Doc {
        match value {
            Value::Array(items) => Doc::List(items.into_iter().map(Doc::from).collect(), Style::Short),
            Value::Object(map) => {
                Doc::Map(map.into_iter().map(|(key, value)| (key, Doc::from(value))).collect(), Style::Short)
            }
            scalar => Doc::Scalar(scalar),
        }
    }
}

/// The text of a document.
pub(crate) fn text(doc: &Doc) -> String {
    let mut writer = Writer { out: String::new() };
    writer.inline(doc, 0);
    writer.out
}

struct Writer {
    out: String,
}

impl Writer {
    /// At the place where the line has got to; what follows stands `indent` deep. Ends its line.
    fn inline(&mut self, doc: &Doc, indent: usize) {
        if self.on_line(doc, indent) {
            return;
        }
        match doc {
            Doc::Scalar(_) => {}
            Doc::List(items, _) => self.items(items, indent),
            Doc::Map(entries, _) => self.entries(entries, indent),
        }
    }

    /// Behind a key.
    fn value(&mut self, doc: &Doc, indent: usize) {
        self.out.push(' ');
        if self.on_line(doc, indent + INDENT) {
            return;
        }
        self.out.pop();
        self.line(indent + INDENT);
        self.inline(doc, indent + INDENT);
    }

    /// True if it was written where the line has got to: a scalar, or what is short.
    fn on_line(&mut self, doc: &Doc, indent: usize) -> bool {
        if let Doc::Scalar(value) = doc {
            scalar(&mut self.out, value, Place::Block(indent));
            self.out.push('\n');
            return true;
        }
        let start = self.out.len();
        if flow(&mut self.out, doc, start + MAX_FLOW_CHARS) {
            self.out.push('\n');
            return true;
        }
        self.out.truncate(start);
        false
    }

    fn items(&mut self, items: &[Doc], indent: usize) {
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                self.out.push_str(&" ".repeat(indent));
            }
            self.out.push_str("- ");
            self.inline(item, indent + INDENT);
        }
    }

    fn entries(&mut self, entries: &[(String, Doc)], indent: usize) {
        for (position, (key, value)) in entries.iter().enumerate() {
            if position > 0 {
                self.out.push_str(&" ".repeat(indent));
            }
            let key = key_text(key);
            if key.len() > MAX_KEY_BYTES {
                self.out.push_str(&format!("? {key}\n{}: ", " ".repeat(indent)));
                self.inline(value, indent + INDENT);
            } else {
                self.out.push_str(&format!("{key}:"));
                self.value(value, indent);
            }
        }
    }

    fn line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.push_str(&" ".repeat(indent));
    }
}

/// On one line, if it ends before `limit` bytes; else false, with a part of it written.
fn flow(out: &mut String, doc: &Doc, limit: usize) -> bool {
    match doc {
        Doc::Scalar(Value::String(text)) if text.contains('\n') => return false,
        Doc::Scalar(value) => scalar(out, value, Place::Flow),
        Doc::List(items, style) => {
            let fits = items.is_empty() || *style == Style::Short;
            return fits && joined(out, items.iter(), ("[", "]"), limit, |out, item| flow(out, item, limit));
        }
        Doc::Map(entries, style) => {
            let brackets = if entries.is_empty() { ("{", "}") } else { ("{ ", " }") };
            let fits = entries.is_empty() || *style == Style::Short;
            return fits
                && joined(out, entries.iter(), brackets, limit, |out, (key, value)| {
                    out.push_str(&key_text(key));
                    out.push_str(": ");
                    out.len() <= limit && flow(out, value, limit)
                });
        }
    }
    out.len() <= limit
}

fn joined<'d, T: 'd>(
    out: &mut String,
    parts: impl Iterator<Item = &'d T>,
    (open, close): (&str, &str),
    limit: usize,
    write: impl Fn(&mut String, &'d T) -> bool,
) -> bool {
    out.push_str(open);
    for (position, part) in parts.enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        if !write(out, part) {
            return false;
        }
    }
    out.push_str(close);
    out.len() <= limit
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between brackets.
    Flow,
    /// Lines that belong to it stand so deep.
    Block(usize),
}

fn scalar(out: &mut String, value: &Value, place: Place) {
    match (value, place) {
        (Value::String(text), _) if is_plain(text, place) => out.push_str(text),
        (Value::String(text), Place::Block(indent)) if is_literal(text) => literal(out, text, indent),
        (Value::String(text), _) => out.push_str(&quoted(text)),
        (other, _) => out.push_str(&other.to_string()),
    }
}

fn key_text(key: &str) -> String {
    if is_plain(key, Place::Flow) { key.to_owned() } else { quoted(key) }
}

/// Text that needs no quotes. Braces would not need them on a line of their own, but they look like a map.
fn is_plain(text: &str, place: Place) -> bool {
    let closes = |c: char| matches!(c, '{' | '}') || (place == Place::Flow && matches!(c, ',' | '[' | ']'));
    let begins_well = text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '$' | '(' | '.' | '«'));
    begins_well
        && !text.ends_with([' ', ':'])
        && ![" -", " ?"].iter().any(|end| text.ends_with(end))
        && !text.starts_with("...")
        && text.chars().all(|c| is_printable(c) && !closes(c))
        && !text.contains(": ")
        && !text.contains(" #")
        && plain(text).is_string()
        && !is_clock_like(text)
}

/// `09:00` and `2027-01-01` are text here, but a number or a date for other readers of YAML.
fn is_clock_like(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-' | '.' | '_' | '+' | ' ' | 'T' | 'Z'))
}

/// Neither a control character nor one that ends a line or is no character at all.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') && (c as u32) & 0xfffe != 0xfffe
}

/// Lines of text that can stand as they are.
fn is_literal(text: &str) -> bool {
    text.contains('\n')
        && text.chars().all(|c| is_printable(c) || matches!(c, '\n' | '\t'))
        && text.lines().all(|line| line.is_empty() || !line.trim().is_empty())
        && !text.trim().is_empty()
}

/// `|`, with what a reader must know of its first and its last lines.
fn literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\t', '\n']) {
        out.push_str(&INDENT.to_string());
    }
    let body = match text.strip_suffix('\n') {
        None => {
            out.push('-');
            text
        }
        Some(body) if body.ends_with('\n') => {
            out.push('+');
            body
        }
        Some(body) => body,
    };
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.push_str(&" ".repeat(indent));
            out.push_str(line);
        }
    }
}

fn quoted(text: &str) -> String {
    let is_simple = text.chars().all(is_printable);
    if is_simple && text.contains(['"', '\\']) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) <= 0xff => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) <= 0xffff => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use relais_plan::Source;
    use serde_json::json;

    use super::*;

    fn read_back(value: &Value) -> Value {
        let text = text(&Doc::from(json!({ "top": value, "next": [{ "inner": value, "other": [value, [value]] }] })));
        let read = crate::yaml::parse(&Source { name: "test.yaml".into(), text: text.clone() });
        let read = read.unwrap_or_else(|problems| panic!("{problems:?}\n{text}")).to_value();
        assert_eq!(read["next"][0]["inner"], read["top"], "{text}");
        assert_eq!(read["next"][0]["other"], json!([read["top"], [read["top"]]]), "{text}");
        read["top"].clone()
    }

    /// Also the order of keys, which equality does not look at.
    fn check(value: &Value) {
        assert_eq!(read_back(value).to_string(), value.to_string());
    }

    #[test]
    fn odd_text_survives() {
        let odd = [
            "",
            " ",
            "a",
            " a",
            "a ",
            "\ta",
            "a\t",
            "a: b",
            "a -",
            "a ?",
            "a - b",
            "a:",
            ":a",
            "a #b",
            "#a",
            "- a",
            "-",
            "?",
            "? a",
            "~",
            "null",
            "true",
            "True",
            "yes",
            "1",
            "1.0",
            "-1",
            "+1",
            "0x1f",
            "0o7",
            "1e3",
            ".5",
            "1_000",
            "09:00",
            "2027-01-01",
            "90s",
            "...",
            "---",
            "--- a",
            "a\nb",
            "a\nb\n",
            "a\nb\n\n",
            "\na",
            "\n",
            "\n\n",
            " a\nb",
            "\ta\nb",
            "a\n\tb",
            "a\n b\n  c",
            "a\n \nb",
            "a\n\n\nb",
            "a\r\nb",
            "a\rb",
            "\u{85}",
            "\u{2028}x",
            "\u{feff}a",
            "\u{0}",
            "\u{1b}[0m",
            "é",
            "日本",
            "😀",
            "a\u{a0}b",
            "{{ a }}",
            "{% if a %}\nb\n{% endif %}",
            "[a]",
            "{a: b}",
            "a, b",
            "it's",
            "\"quoted\"",
            "a\\b",
            "'\"\\",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a`",
            "<<",
            "=",
            "mcp:shop/*",
            "https://example.org/a?b=c#d",
            "a\n...\nb",
            "a\n---\nb",
            "a\n# b",
            "# a\nb",
            "key: |\n  text\n",
            "a\nb ",
            "a \nb",
            "a\n\n ",
            " \n a",
            "\u{fffe}",
            "\u{10ffff}",
        ];
        for text in odd {
            check(&json!(text));
            check(&json!({ text: text }));
            check(&json!({ text: [{ text: { text: text } }] }));
        }
        check(&json!("long ".repeat(2_000)));
        check(&json!({ ("key".repeat(500)): { ("k".repeat(1_000)): ["a", { ("l".repeat(2_000)): [] }] } }));
        check(&json!({ ("key ".repeat(20)): { ("key: ".repeat(300)): 1 } }));
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ab]( [-?:#]){1,2}",
            "[a-c:#\\-?,\\[\\]{}&*!|>'\"%@` \t\n\\\\0-9.~_]{0,12}",
            "[ \t\na]{0,8}",
            "\\PC{0,8}",
            any::<String>().prop_map(|text| text.chars().take(12).collect()),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_survives(value in values()) {
            check(&value);
        }
    }
}
