//! JSON from what a model said: the whole text, a fenced block, the first object in it; small syntax faults mended.

use serde_json::Value;

/// Longer texts are not searched for JSON; nobody answers with that much.
const MAX_TEXT: usize = 8 * 1024 * 1024;

pub fn json(text: &str) -> Result<Value, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("the answer is longer than {MAX_TEXT} bytes"));
    }
    let text = text.trim().trim_start_matches('\u{feff}');
    let first = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error.to_string(),
    };
    for candidate in fenced(text).into_iter().chain(bracketed(text)) {
        if let Ok(value) = serde_json::from_str(candidate) {
            return Ok(value);
        }
        if let Ok(value) = serde_json::from_str(&mend(candidate)) {
            return Ok(value);
        }
    }
    Err(first)
}

/// What stands between code fences, the last first: models often think aloud before.
fn fenced(text: &str) -> Vec<&str> {
    let mut blocks: Vec<&str> = text.split("```").skip(1).step_by(2).map(without_language).collect();
    blocks.reverse();
    blocks
}

fn without_language(block: &str) -> &str {
    match block.split_once('\n') {
        Some((word, rest)) if word.trim().chars().all(|c| c.is_ascii_alphanumeric()) => rest.trim(),
        _ => block.trim(),
    }
}

/// From the first bracket to its partner, or to the end of the text.
fn bracketed(text: &str) -> Option<&str> {
    let start = text.find(['{', '['])?;
    let rest = &text[start..];
    Some(&rest[..balanced(rest).unwrap_or(rest.len())])
}

fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    let mut scan = Scan::default();
    for (at, c) in text.char_indices() {
        if scan.step(c) {
            continue;
        }
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// Whether a character belongs to a string.
#[derive(Default)]
struct Scan {
    in_string: bool,
    escaped: bool,
}

impl Scan {
    fn step(&mut self, c: char) -> bool {
        if self.escaped {
            self.escaped = false;
        } else if self.in_string && c == '\\' {
            self.escaped = true;
        } else if c == '"' {
            self.in_string = !self.in_string;
        } else {
            return self.in_string;
        }
        true
    }
}

/// Mends what models get wrong most: comments, commas before a closing bracket, Python's words, raw line breaks in
/// strings, brackets never closed.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut open = Vec::new();
    let mut scan = Scan::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let was_in = scan.in_string;
        if scan.step(c) {
            match (c, was_in) {
                ('\n', true) => out.push_str("\\n"),
                ('\r', true) => out.push_str("\\r"),
                ('\t', true) => out.push_str("\\t"),
                _ => out.push(c),
            }
            continue;
        }
        match c {
            '/' if chars.peek() == Some(&'/') => {
                chars.by_ref().take_while(|c| *c != '\n').for_each(drop);
            }
            '{' => {
                open.push('}');
                out.push(c);
            }
            '[' => {
                open.push(']');
                out.push(c);
            }
            '}' | ']' => {
                drop_comma(&mut out);
                open.pop();
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    if scan.in_string {
        out.push('"');
    }
    drop_comma(&mut out);
    out.extend(open.into_iter().rev());
    words(&out)
}

fn drop_comma(out: &mut String) {
    let kept = out.trim_end();
    if kept.ends_with(',') {
        out.truncate(kept.len() - 1);
    }
}

/// `True`, `False` and `None` outside strings.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut scan = Scan::default();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !scan.step(c) {
            let known = [("True", "true"), ("False", "false"), ("None", "null")];
            if let Some((word, json)) = known.iter().find(|(word, _)| rest.starts_with(word)) {
                out.push_str(json);
                rest = &rest[word.len()..];
                continue;
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Option<Value>) {
        assert_eq!(json(text).ok(), expected, "{text}");
    }

    #[test]
    fn json_is_found_in_what_models_say() {
        check(r#"{"a": 1}"#, Some(json!({ "a": 1 })));
        check("Here it is:\n```json\n{\"a\": [1, 2]}\n```\nDone.", Some(json!({ "a": [1, 2] })));
        check("The answer is {\"a\": \"}\"} as asked.", Some(json!({ "a": "}" })));
        check("[1, 2, 3,]", Some(json!([1, 2, 3])));
        check("{'a': 1}", None);
        check(
            "{\"a\": True, \"b\": None, // why\n \"c\": \"True\"}",
            Some(json!({ "a": true, "b": null, "c": "True" })),
        );
        check("{\"a\": \"two\nlines\"}", Some(json!({ "a": "two\nlines" })));
        check("{\"a\": [1, 2", Some(json!({ "a": [1, 2] })));
        check("```\n{\"a\": 1}\n```\nor better\n```\n{\"a\": 2}\n```", Some(json!({ "a": 2 })));
        check("no json at all", None);
        check("", None);
    }
}
