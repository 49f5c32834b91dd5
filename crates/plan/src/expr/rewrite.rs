//! Turns what people write into what the expression parser reads, and keeps where each character came from.
//!
//! Three things differ: `{{ e }}` inside a condition, ids with `-` after `steps.`, and keys such as `.0` or `.größe`.
//! Nothing is ever put in by value here: a reference stays a reference. It knows nothing of what names mean.

use std::ops::Range;

/// A longer expression is a mistake; it also bounds how deep the parser's tree can get. Of a map or a list that stands
/// in nothing else only the longest entry counts: its entries lie side by side.
const MAX_EXPRESSION_BYTES: usize = 8 * 1024;

/// The parser calls itself for each of these in one expression (`not`, `-x`, `**`, `else`) or text (`elif`), without
/// a bound of its own.
const MAX_CHAINED: usize = 64;

/// Words after which a value is expected, so that a following `-` or `.` does not belong to them.
const OPERATOR_WORDS: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];

/// A mistake and its place in what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    pub place: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

/// How much of an expression can lie within itself.
#[derive(Default)]
struct Extent {
    /// Up to here it is measured.
    at: usize,
    /// Brackets that are open.
    open: usize,
    outside: usize,
    entry: usize,
    longest: usize,
}

impl Extent {
    /// What was read up to here, before the token that begins with `next`.
    fn reach(&mut self, at: usize, next: char) -> usize {
        let read = at - self.at;
        self.at = at;
        match self.open {
            0 => self.outside += read,
            _ => self.entry += read,
        }
        self.longest = self.longest.max(self.entry);
        match next {
            '(' | '[' | '{' => self.open += 1,
            ')' | ']' | '}' => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        if self.open == 0 || (self.open == 1 && next == ',') {
            self.entry = 0;
        }
        self.outside + self.longest
    }
}

impl Flaw {
    pub fn new(place: Range<usize>, message: impl Into<String>) -> Flaw {
        Flaw { place, message: message.into(), help: None }
    }
}

/// The text for the parser, with the way back to the source.
#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    /// `(offset in text, offset in source)` at each place where the two part or meet again.
    joints: Vec<(usize, usize)>,
}

impl Rewritten {
    /// Where a range of the rewritten text stands in the source.
    pub fn origin(&self, range: Range<usize>) -> Range<usize> {
        let start = self.source_offset(range.start);
        start..self.source_offset(range.end).max(start)
    }

    fn source_offset(&self, offset: usize) -> usize {
        let next = self.joints.partition_point(|(at, _)| *at <= offset);
        match next.checked_sub(1).and_then(|last| self.joints.get(last)) {
            Some((at, origin)) => {
                let limit = self.joints.get(next).map_or(usize::MAX, |(_, origin)| *origin);
                (origin + (offset - at)).min(limit.max(*origin))
            }
            None => offset,
        }
    }
}

/// A condition: a bare expression in which `{{ e }}` and `'… {{ e }} …'` may stand.
pub fn condition(source: &str) -> Result<Rewritten, Flaw> {
    let mut scanner = Scanner::new(source);
    scanner.code("", true)?;
    Ok(scanner.finish())
}

/// Text with `{{ e }}`, `{% … %}`, `{# … #}` and `{% raw %}`.
pub fn text(source: &str) -> Result<Rewritten, Flaw> {
    let mut scanner = Scanner::new(source);
    scanner.text()?;
    Ok(scanner.finish())
}

/// The place of the expression, if the source is `{{ e }}` and nothing else but space around it.
pub fn sole_expression(source: &str) -> Option<Range<usize>> {
    let start = source.len() - source.trim_start().len();
    let mut scanner = Scanner::new(source);
    scanner.at = start;
    scanner.skip("{{").then_some(())?;
    scanner.skip_trim_mark();
    let from = scanner.at;
    scanner.code("}}", false).ok()?;
    let to = scanner.at;
    scanner.skip_trim_mark();
    (scanner.skip("}}") && scanner.rest().trim().is_empty()).then_some(from..to)
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    out: String,
    joints: Vec<(usize, usize)>,
    /// Chained operators of the expression at hand.
    chained: usize,
    /// `elif` branches of the whole text.
    branches: usize,
    /// The path being read began with `steps`.
    in_steps: bool,
}

impl<'s> Scanner<'s> {
    fn new(source: &'s str) -> Scanner<'s> {
        let out = String::with_capacity(source.len() + 16);
        Scanner { source, at: 0, out, joints: vec![(0, 0)], chained: 0, branches: 0, in_steps: false }
    }

    fn finish(self) -> Rewritten {
        Rewritten { text: self.out, joints: self.joints }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// `{{-` and `-}}` trim space in text; around a value they mean nothing.
    fn skip_trim_mark(&mut self) {
        if self.rest().starts_with('-') || self.rest().starts_with('+') {
            self.at += 1;
        }
    }

    fn copy(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.source.len());
        self.out.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    /// Writes something else in place of the next `bytes` of the source.
    fn put(&mut self, text: &str, bytes: usize) {
        self.joints.push((self.out.len(), self.at));
        self.out.push_str(text);
        self.at += bytes;
        self.joints.push((self.out.len(), self.at));
    }

    /// Code up to `end` (not included). `nested` allows `{{ e }}` in it. At the end of the source the parser complains.
    fn code(&mut self, end: &str, nested: bool) -> Result<(), Flaw> {
        let start = self.at;
        let mut depth = 0usize;
        let mut value_before = false;
        let mut extent = Extent::default();
        while let Some(c) = self.peek() {
            if extent.reach(self.at - start, c) > MAX_EXPRESSION_BYTES {
                return Err(Flaw::new(
                    start..self.at,
                    format!("an expression has at most {MAX_EXPRESSION_BYTES} bytes"),
                ));
            }
            if depth == 0 && self.at_end(end) {
                break;
            }
            match c {
                '{' if nested && self.rest().starts_with("{{") => {
                    self.insert()?;
                    value_before = true;
                    continue;
                }
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.chain(c, value_before)?;
            value_before = self.token(c, value_before, nested)?;
        }
        Ok(())
    }

    /// Counts what makes the parser recurse.
    fn chain(&mut self, c: char, value_before: bool) -> Result<(), Flaw> {
        // A negative number ends there: nothing can follow it in the same row.
        let is_number = || self.rest()[1..].starts_with(|next: char| next.is_ascii_digit());
        match (c, self.word()) {
            ('-', _) if !value_before && !is_number() => self.chained += 1,
            ('*', _) if self.rest().starts_with("**") => self.chained += 1,
            (_, "not" | "else") => self.chained += 1,
            (_, "elif") => self.branches += 1,
            _ => {}
        }
        if self.chained > MAX_CHAINED || self.branches > MAX_CHAINED {
            let message = format!("more than {MAX_CHAINED} of `not`, `-`, `**`, `else` or `elif` in a row");
            return Err(Flaw::new(self.at..self.at + c.len_utf8(), message));
        }
        Ok(())
    }

    fn at_end(&self, end: &str) -> bool {
        let rest = self.rest();
        !end.is_empty() && (rest.starts_with(end) || rest.strip_prefix('-').is_some_and(|r| r.starts_with(end)))
    }

    /// Copies one token; says whether it ends a value.
    fn token(&mut self, c: char, value_before: bool, nested: bool) -> Result<bool, Flaw> {
        match c {
            '\'' | '"' => self.string(c, nested).map(|()| true),
            '.' if value_before => {
                self.field(false);
                Ok(true)
            }
            c if c.is_ascii_digit() => {
                self.number();
                Ok(false)
            }
            c if c.is_alphanumeric() || c == '_' => {
                let word = self.word();
                self.copy(word.len());
                self.in_steps = word == "steps";
                if self.in_steps {
                    self.field(true);
                }
                Ok(!OPERATOR_WORDS.contains(&word))
            }
            c => {
                self.copy(c.len_utf8());
                Ok(matches!(c, ')' | ']' | '}') || (c.is_whitespace() && value_before))
            }
        }
    }

    /// The run of letters, digits and `_` here.
    fn word(&self) -> &'s str {
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    }

    fn number(&mut self) {
        let rest = self.rest().as_bytes();
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let mut length = digits(0);
        if rest.get(length) == Some(&b'.') && rest.get(length + 1).is_some_and(u8::is_ascii_digit) {
            length += 1 + digits(length + 1);
        }
        self.copy(length);
    }

    /// `.key` after a value. Step ids (after `steps.` and `outputs.`) may have `-`; nothing else may, it is a minus.
    fn field(&mut self, id: bool) {
        let Some(after) = self.rest().strip_prefix('.') else { return };
        let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_' || (id && c == '-'))).unwrap_or(after.len());
        let key = &after[..end];
        let indexed = !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
        let named = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if named || key.is_empty() {
            self.copy(1 + key.len());
        } else if indexed && !(id && self.out.ends_with("steps")) {
            self.put(&format!("[{key}]"), 1 + key.len());
        } else {
            self.put(&format!("['{key}']"), 1 + key.len());
        }
        if key == "outputs" && !id && self.in_steps {
            self.field(true);
        }
    }

    /// A quoted text. With `{{ e }}` in it, it becomes the joined text of its parts.
    fn string(&mut self, quote: char, nested: bool) -> Result<(), Flaw> {
        let length = literal_length(self.rest(), quote, nested);
        let body = &self.rest()[..length];
        if !(nested && body.ends_with("{{")) {
            self.copy(length);
            return Ok(());
        }
        self.put("(", 0);
        let mut opening = quote.len_utf8();
        loop {
            let length = literal_length_inside(self.rest(), quote, opening);
            opening = 0;
            let open = self.rest()[length..].starts_with("{{");
            self.copy(length);
            if !open {
                self.copy(1);
                self.put(")", 0);
                return Ok(());
            }
            self.put(&format!("{quote} ~ "), 0);
            self.insert()?;
            self.put(&format!(" ~ {quote}"), 0);
        }
    }

    /// `{{ e }}` becomes `(e)`.
    fn insert(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        self.put("(", 2);
        let mark = usize::from(self.rest().starts_with('-'));
        self.put("", mark);
        self.code("}}", false)?;
        let closing = 2 + usize::from(self.rest().starts_with('-'));
        if self.rest().is_empty() {
            return Err(Flaw::new(start..start + 2, "`{{` is not closed by `}}`"));
        }
        self.put(")", closing);
        Ok(())
    }

    fn text(&mut self) -> Result<(), Flaw> {
        while let Some(open) = self.rest().find('{') {
            self.copy(open);
            let rest = self.rest();
            if rest.starts_with("{{") {
                self.tag("}}")?;
            } else if rest.starts_with("{%") {
                match raw_length(rest) {
                    Some(length) => self.copy(length),
                    None => self.tag("%}")?,
                }
            } else if let Some(comment) = rest.strip_prefix("{#") {
                self.copy(comment.find("#}").map_or(rest.len(), |end| end + 4));
            } else {
                self.copy(1);
            }
        }
        self.copy(self.rest().len());
        Ok(())
    }

    fn tag(&mut self, end: &str) -> Result<(), Flaw> {
        let start = self.at;
        self.chained = 0;
        self.copy(2);
        self.code(end, false)?;
        if self.rest().is_empty() {
            let open = &self.source[start..start + 2];
            return Err(Flaw::new(start..start + 2, format!("`{open}` is not closed by `{end}`")));
        }
        let mark = usize::from(self.rest().starts_with('-'));
        self.copy(mark + 2);
        Ok(())
    }
}

/// The length of a quoted text with its quotes; where `nested`, up to and with the first `{{` in it.
fn literal_length(text: &str, quote: char, nested: bool) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if nested && text[at..].starts_with("{{") {
            return at + 2;
        }
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// How much of a quoted text comes before its `{{` or its closing quote, after an `opening` quote of that length.
fn literal_length_inside(text: &str, quote: char, opening: usize) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if text[at..].starts_with("{{") || (c == quote && !escaped && at >= opening) {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length of a whole `{% raw %} … {% endraw %}`, if one begins here.
fn raw_length(text: &str) -> Option<usize> {
    let inside = |tag: &str| tag.trim_matches(['-', '+']).trim().to_owned();
    let (tag, _) = text.get(2..)?.split_once("%}")?;
    if inside(tag) != "raw" {
        return None;
    }
    let mut at = 2 + tag.len() + 2;
    while let Some(open) = text[at..].find("{%") {
        let from = at + open + 2;
        let close = from + text[from..].find("%}")?;
        if inside(&text[from..close]) == "endraw" {
            return Some(close + 2);
        }
        at = from;
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_rewritten() {
        for (source, expected) in [
            ("input.x > 3", "input.x > 3"),
            ("{{x}} == 'a'", "(x) == 'a'"),
            ("{{ x }} == {{- y -}}", "( x ) == ( y )"),
            ("'{{x}}' == 'a'", "('' ~ (x) ~ '') == 'a'"),
            ("'a {{x}} b {{ y }}' == z", "('a ' ~ (x) ~ ' b ' ~ ( y ) ~ '') == z"),
            ("'{{ x['k'] }}' == 'a'", "('' ~ ( x['k'] ) ~ '') == 'a'"),
            (r"'it\'s' == x", r"'it\'s' == x"),
            ("{{ a }} and {{ b }}", "( a ) and ( b )"),
            ("steps.my-step.output - 1", "steps['my-step'].output - 1"),
            ("steps.a.output-1", "steps.a.output-1"),
            ("x - y", "x - y"),
            ("steps.p.outputs.my-child.output", "steps.p.outputs['my-child'].output"),
            ("steps.p.outputs.0.output", "steps.p.outputs[0].output"),
            ("steps['p'].outputs.my-child.output", "steps['p'].outputs['my-child'].output"),
            ("input.outputs.n-1", "input.outputs.n-1"),
            ("steps.1.output", "steps['1'].output"),
            ("items.0.name", "items[0].name"),
            ("input.größe", "input['größe']"),
            ("1.5 + 2.5e3", "1.5 + 2.5e3"),
            ("{'a': {'b': 1}}", "{'a': {'b': 1}}"),
        ] {
            assert_eq!(condition(source).unwrap().text, expected, "{source}");
        }
    }

    #[test]
    fn only_what_can_be_deep_is_bounded() {
        let check = |source: String, fits: bool| {
            let shown = source.get(..40).unwrap_or(&source).to_owned();
            assert_eq!(condition(&source).is_ok(), fits, "{shown}");
        };
        let entries = |of: &str| (0..2_000).map(|key| format!("'k{key}': {of}, ")).collect::<String>();
        let sum = |length: usize| "1+".repeat(length / 2) + "1";
        check(format!("{{{}}}", entries("steps.a.output")), true);
        check(format!("[{}]", "steps.a.output, ".repeat(2_000)), true);
        check(format!("{{{}}} if x else {{{}}}", entries("1"), entries("2")), true);
        check(sum(8_000), true);
        check(sum(9_000), false);
        check(format!("{{{}}}", entries("x[-1]")), true);
        check("-".repeat(65) + "1", true);
        check("-".repeat(66) + "1", false);
        check(format!("{{'a': {}, 'b': {}}}", sum(6_000), sum(6_000)), true);
        check(format!("{{'a': {}}}", sum(9_000)), false);
        check(format!("{{'a': {}}} + {}", sum(5_000), sum(5_000)), false);
        // Side by side at the top only: what lies deeper may lie in one another.
        check(format!("[[{}]]", "1, ".repeat(4_000)), false);
        check("{'a': 1}+".repeat(1_000) + "1", true);
        check("{'a': 1, 'b': 2}+".repeat(9_000) + "1", false);
    }

    #[test]
    fn text_is_rewritten_only_in_tags() {
        for (source, expected) in [
            ("steps.a-b {{ steps.a-b.output }}", "steps.a-b {{ steps['a-b'].output }}"),
            ("{% raw %}{{ steps.a-b }}{% endraw %}", "{% raw %}{{ steps.a-b }}{% endraw %}"),
            ("{# steps.a-b #}{%- if steps.a-b.output -%}", "{# steps.a-b #}{%- if steps['a-b'].output -%}"),
            ("{ {{ '}}' }} }", "{ {{ '}}' }} }"),
        ] {
            assert_eq!(text(source).unwrap().text, expected, "{source}");
        }
        assert!(text("a {{ b").unwrap_err().message.contains("not closed"));
        assert!(condition("{{ b == 1").unwrap_err().message.contains("not closed"));
        assert!(condition(&"1+".repeat(9_000)).unwrap_err().message.contains("at most"));
    }

    #[test]
    fn places_lead_back_to_the_source() {
        let source = "{{ a }} == steps.my-step.outptu";
        let rewritten = condition(source).unwrap();
        let at = rewritten.text.find("outptu").unwrap();
        let origin = rewritten.origin(at..at + 6);
        assert_eq!(&source[origin], "outptu");
    }

    #[test]
    fn one_expression_alone_is_found() {
        for (source, expected) in [
            ("{{ a }}", Some(" a ")),
            ("  {{a}}\n", Some("a")),
            ("{{- a -}}", Some(" a ")),
            ("{{ '}}' }}", Some(" '}}' ")),
            ("{{ {'a': {'b': 1}} }}", Some(" {'a': {'b': 1}} ")),
            ("{{ a }} {{ b }}", None),
            ("x {{ a }}", None),
            ("{{ a", None),
            ("a", None),
        ] {
            assert_eq!(sole_expression(source).map(|range| &source[range]), expected, "{source}");
        }
    }
}
