//! Chains as they stand in Python text: literals, names for them, and one call that makes the workflow.
//!
//! `workflow_spec = { … }`, or `executors = [ … ]` and `create_workflow("Name", "What it does", executors)`. Nothing is
//! evaluated: what is not a literal, a name given above or one of the few known calls is refused. The tree is the same
//! as that of a YAML file, with places in the text. Knows nothing of what the keys mean.

use std::collections::HashSet;

use relais_plan::{Problem, Problems, Source, Span};
use serde_json::{Number, Value};

use crate::yaml::{self, Data, Entry, MAX_BYTES, MAX_DEPTH, MAX_TEXT_BYTES, MAX_VALUES, Node};

/// Calls that make a map of their arguments, with the names of those that may stand without one.
const CALLS: &[(&str, &[&str])] = &[
    (CREATE, &["name", "description", "executors", "schedule_type", "schedule_time", "cron_expression"]),
    (SPEC, &[]),
    ("ExecutorSpec", &[]),
    ("LoopSpec", &[]),
    ("dict", &[]),
];
const CREATE: &str = "create_workflow";
const SPEC: &str = "WorkflowSpec";

/// What may stand here, for whoever wrote something else.
const HELP: &str = "only literals can be read: dicts, lists, texts, numbers, True, False, None, and names given to them \
                    above";

/// Every use of a name looks for it among all of them.
const MAX_NAMES: usize = 1_000;

type Read<T> = Result<T, Box<Problem>>;

/// The text begins with `NAME =` or `NAME(`, which no YAML or JSON workflow does.
pub(super) fn begins(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(line) = first else { return false };
    let name = line.len() - line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    let rest = line[name..].trim_start();
    name > 0
        && !line.starts_with(|c: char| c.is_ascii_digit())
        && (rest.starts_with('(') || (rest.starts_with('=') && !rest.starts_with("==")))
}

pub(super) fn parse(source: &Source) -> Result<Node, Problems> {
    if source.text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", source.text.len());
        return Err(vec![Problem::error(Span::default(), message)]);
    }
    let mut text = Text { text: &source.text, at: 0, depth: 0, weight: (0, 0), names: Vec::new(), made: None };
    if source.text.starts_with('\u{feff}') {
        text.at = '\u{feff}'.len_utf8();
    }
    text.statements().and_then(|()| text.root()).map_err(|problem| vec![*problem])
}

/// A name and what it was given.
struct Named {
    name: String,
    span: Span,
    value: Node,
    used: bool,
}

struct Text<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Values and bytes of text so far, those that names repeat included.
    weight: (usize, usize),
    names: Vec<Named>,
    /// What the call that makes the workflow was given.
    made: Option<Node>,
}

impl Text<'_> {
    fn statements(&mut self) -> Read<()> {
        loop {
            self.blank();
            while self.eat(';') {
                self.blank();
            }
            if self.at == self.text.len() {
                return Ok(());
            }
            self.statement()?;
        }
    }

    /// `NAME = VALUE`, or a call.
    fn statement(&mut self) -> Read<()> {
        let start = self.at;
        let name = self.word().to_owned();
        if name.is_empty() {
            return Err(self.refuse(start, "a line begins with a name", HELP));
        }
        let span = Span::new(start, self.at);
        self.spaces();
        if self.eat('=') {
            let value = self.value()?;
            if self.is_made(&value, start) {
                return Ok(());
            }
            if self.names.len() >= MAX_NAMES {
                return Err(self.refuse(
                    start,
                    &format!("more than {MAX_NAMES} names are given"),
                    "write values where they belong",
                ));
            }
            self.names.push(Named { name, span, value, used: false });
            return Ok(());
        }
        if name != CREATE && name != SPEC {
            let message = format!("`{name}` is neither given a value nor a call that makes a workflow");
            return Err(self.refuse(start, &message, &format!("for example `{CREATE}(\"Name\", \"…\", executors)`")));
        }
        let made = self.call(&name, start)?;
        self.make(made, start)
    }

    /// `workflow_id = create_workflow(…)` has made the workflow already.
    fn is_made(&self, value: &Node, start: usize) -> bool {
        self.made.as_ref().is_some_and(|made| made.span == value.span && made.span.start as usize >= start)
    }

    fn make(&mut self, made: Node, start: usize) -> Read<()> {
        if self.made.is_some() {
            return Err(self.refuse(start, "a second workflow is made here", "one workflow per file"));
        }
        self.made = Some(made);
        Ok(())
    }

    /// The workflow: what the call made, else the one value that was named. A value that nothing uses is a slip.
    fn root(mut self) -> Read<Node> {
        let root = match self.made.take() {
            Some(made) => made,
            None => self.named_root()?,
        };
        match self.names.iter().find(|named| !named.used) {
            Some(unused) => {
                let problem = Problem::error(unused.span, format!("`{}` is not used by the workflow", unused.name));
                Err(Box::new(problem.help(format!("use it in `{CREATE}(…)`, or take it out"))))
            }
            None => Ok(root),
        }
    }

    fn named_root(&mut self) -> Read<Node> {
        let Some(named) = self.names.pop() else {
            return Err(self.refuse(
                0,
                "the file has no workflow",
                "for example `workflow_spec = { \"executors\": […] }`",
            ));
        };
        match (&named.value.data, named.name.as_str()) {
            (Data::Map(_), _) => Ok(named.value),
            (Data::List(_), "executors") => {
                let span = named.value.span;
                let key_value = Value::from("executors");
                let entry = Entry { key: named.name, key_span: named.span, key_value, value: named.value };
                Ok(Node { span, data: Data::Map(vec![entry]) })
            }
            (Data::List(_) | Data::Scalar(_), _) => {
                let problem = Problem::error(named.span, format!("`{}` is no workflow", named.name));
                Err(Box::new(problem.help("for example `workflow_spec = { \"executors\": […] }`")))
            }
        }
    }

    fn value(&mut self) -> Read<Node> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse(self.at, &format!("nested more than {MAX_DEPTH} levels deep"), "make it flatter"));
        }
        self.depth += 1;
        self.blank();
        let start = self.at;
        let data = self.data(start);
        self.depth -= 1;
        let data = data?;
        self.weight = yaml::add(self.weight, (1, text_bytes(&data)));
        if self.weight.0 > MAX_VALUES || self.weight.1 > MAX_TEXT_BYTES {
            let message = format!("the file has more than {MAX_VALUES} values or {MAX_TEXT_BYTES} bytes of text");
            return Err(self.refuse(start, &message, "split the workflow up"));
        }
        Ok(Node { span: Span::new(start, self.at), data })
    }

    fn data(&mut self, start: usize) -> Read<Data> {
        match self.peek() {
            Some('{') => self.dict(),
            Some('[') => self.list(']'),
            Some('(') => self.list(')'),
            Some('\'' | '"') => self.texts(),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(start),
            _ => Err(self.refuse(start, "a value is missing here", HELP)),
        }
    }

    fn dict(&mut self) -> Read<Data> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        self.at += 1;
        loop {
            self.blank();
            if self.eat('}') {
                return Ok(Data::Map(entries));
            }
            let key = self.value()?;
            let Some(name) = key.as_text().map(str::to_owned) else {
                return Err(self.refuse(
                    key.span.start as usize,
                    "a key is a text",
                    "for example `{\"name\": \"Fetcher\"}`",
                ));
            };
            self.expect(':', "behind a key")?;
            let value = self.value()?;
            self.enter(&mut entries, &mut seen, name, key.span, value)?;
            self.comma('}')?;
        }
    }

    fn enter(
        &self,
        entries: &mut Vec<Entry>,
        seen: &mut HashSet<String>,
        key: String,
        key_span: Span,
        value: Node,
    ) -> Read<()> {
        if !seen.insert(key.clone()) {
            let message = format!("the key `{key}` stands twice");
            return Err(Box::new(Problem::error(key_span, message).help("take one of them out")));
        }
        entries.push(Entry { key_value: Value::String(key.clone()), key, key_span, value });
        Ok(())
    }

    /// A list or a tuple; one value in round brackets is only that value.
    fn list(&mut self, close: char) -> Read<Data> {
        let mut items = Vec::new();
        let mut commas = 0;
        self.at += 1;
        loop {
            self.blank();
            if self.eat(close) {
                break;
            }
            items.push(self.value()?);
            commas += usize::from(self.comma(close)?);
        }
        match (close, items.len(), commas, items.pop()) {
            (')', 1, 0, Some(only)) => Ok(only.data),
            (_, _, _, last) => {
                items.extend(last);
                Ok(Data::List(items))
            }
        }
    }

    /// True if there was one.
    fn comma(&mut self, close: char) -> Read<bool> {
        self.blank();
        if self.eat(',') {
            return Ok(true);
        }
        match self.peek() {
            Some(c) if c == close => Ok(false),
            _ => Err(self.refuse(self.at, &format!("`,` or `{close}` is missing here"), HELP)),
        }
    }

    fn expect(&mut self, wanted: char, place: &str) -> Read<()> {
        self.blank();
        if self.eat(wanted) {
            return Ok(());
        }
        Err(self.refuse(self.at, &format!("`{wanted}` is missing {place}"), HELP))
    }

    /// Texts that stand side by side are one.
    fn texts(&mut self) -> Read<Data> {
        let mut whole = String::new();
        let mut end = self.at;
        while matches!(self.peek(), Some('\'' | '"')) {
            self.text(&mut whole, false)?;
            end = self.at;
            self.blank();
        }
        self.at = end;
        Ok(Data::Scalar(Value::String(whole)))
    }

    fn text(&mut self, out: &mut String, raw: bool) -> Read<()> {
        let start = self.at;
        let quote = &self.text[start..=start];
        let triple = quote.repeat(3);
        let (close, is_long) = match self.text[start..].starts_with(&triple) {
            true => (triple.as_str(), true),
            false => (quote, false),
        };
        self.at += close.len();
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with(close) {
                self.at += close.len();
                return Ok(());
            }
            match rest.chars().next() {
                None => return Err(self.refuse(start, "this text is not closed", &format!("close it with {close}"))),
                Some('\n') if !is_long => {
                    let help = "a text over several lines stands in triple quotes";
                    return Err(self.refuse(start, "this text is not closed on its line", help));
                }
                Some('\\') if raw => self.copy(out, 2),
                Some('\\') => self.escape(out)?,
                // Line ends are the same wherever the file was written.
                Some('\r') if rest.starts_with("\r\n") => self.at += 1,
                Some(_) => self.copy(out, 1),
            }
        }
    }

    fn copy(&mut self, out: &mut String, letters: usize) {
        for letter in self.text[self.at..].chars().take(letters) {
            out.push(letter);
            self.at += letter.len_utf8();
        }
    }

    fn escape(&mut self, out: &mut String) -> Read<()> {
        let start = self.at;
        self.at += 1;
        // At the end of the file there is nothing to escape; that the text is not closed is told where it began.
        let Some(letter) = self.peek() else { return Ok(()) };
        let simple = match letter {
            '\n' => None,
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' => Some(letter),
            'x' => return self.code(out, start, 16, 2),
            'u' => return self.code(out, start, 16, 4),
            'U' => return self.code(out, start, 16, 8),
            '0'..='7' => return self.octal(out, start),
            'N' => return Err(self.refuse(start, "`\\N{…}` is not read", "write the letter itself")),
            // As Python has it: a backslash before anything else is just a backslash.
            _ => {
                out.push('\\');
                return Ok(());
            }
        };
        out.extend(simple);
        self.at += letter.len_utf8();
        Ok(())
    }

    fn code(&mut self, out: &mut String, start: usize, radix: u32, length: usize) -> Read<()> {
        let digits = self.text.get(self.at + 1..self.at + 1 + length);
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let letter = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok()).and_then(char::from_u32);
        let Some(letter) = letter else {
            return Err(self.refuse(start, "this escape is no letter", "write the letter itself"));
        };
        out.push(letter);
        self.at += 1 + length;
        Ok(())
    }

    fn octal(&mut self, out: &mut String, start: usize) -> Read<()> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
        let letter = u32::from_str_radix(&rest[..length], 8).ok().and_then(char::from_u32);
        let Some(letter) = letter else {
            return Err(self.refuse(start, "this escape is no letter", "write the letter itself"));
        };
        out.push(letter);
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Read<Data> {
        let start = self.at;
        let rest = &self.text[start..];
        let mut before = ' ';
        let length = rest.find(|c: char| {
            let exponent = matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
            let first = before == ' ';
            before = c;
            !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || exponent || (first && matches!(c, '+' | '-')))
        });
        let written = &rest[..length.unwrap_or(rest.len())];
        self.at += written.len();
        number(written)
            .map(|number| Data::Scalar(Value::Number(number)))
            .ok_or_else(|| self.refuse(start, &format!("`{written}` is no number"), HELP))
    }

    /// True, False, None, a text with a prefix, a name given above, or a known call.
    fn named(&mut self, start: usize) -> Read<Data> {
        let word = self.word().to_owned();
        match word.as_str() {
            "True" | "true" => return Ok(Data::Scalar(Value::Bool(true))),
            "False" | "false" => return Ok(Data::Scalar(Value::Bool(false))),
            "None" | "null" => return Ok(Data::Scalar(Value::Null)),
            "r" | "R" | "u" | "U" if matches!(self.peek(), Some('\'' | '"')) => {
                let mut text = String::new();
                self.text(&mut text, word.eq_ignore_ascii_case("r"))?;
                return Ok(Data::Scalar(Value::String(text)));
            }
            "f" | "F" if matches!(self.peek(), Some('\'' | '"')) => {
                let help = "write it without the `f`; the previous output is put in for $previous_output";
                return Err(self.refuse(start, "texts that are computed (f\"…\") are not read", help));
            }
            _ => {}
        }
        if self.peek() == Some('(') {
            let made = self.call(&word, start)?;
            if word == CREATE {
                self.make(made.clone(), start)?;
            }
            return Ok(made.data);
        }
        self.known(&word, start)
    }

    fn known(&mut self, word: &str, start: usize) -> Read<Data> {
        let Some(named) = self.names.iter_mut().rev().find(|named| named.name == word) else {
            let near = relais_plan::problem::nearest(word, self.names.iter().map(|named| named.name.as_str()));
            let help = near.map_or_else(|| HELP.to_owned(), |near| format!("did you mean `{near}`?"));
            return Err(self.refuse(start, &format!("`{word}` was given no value above"), &help));
        };
        named.used = true;
        self.weight = yaml::add(self.weight, named.value.weigh());
        // Before it is copied, so that names of names cannot grow without bound.
        if self.weight.0 > MAX_VALUES || self.weight.1 > MAX_TEXT_BYTES {
            let message = format!("the file has more than {MAX_VALUES} values or {MAX_TEXT_BYTES} bytes of text");
            return Err(Box::new(Problem::error(Span::new(start, self.at), message)));
        }
        Ok(named.value.data.clone())
    }

    /// The arguments of a known call as a map.
    fn call(&mut self, word: &str, start: usize) -> Read<Node> {
        let Some((_, positions)) = CALLS.iter().find(|(name, _)| *name == word) else {
            return Err(self.refuse(start, &format!("`{word}(…)` is not read"), HELP));
        };
        self.spaces();
        self.expect('(', &format!("behind `{word}`"))?;
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            self.blank();
            if self.eat(')') {
                return Ok(Node { span: Span::new(start, self.at), data: Data::Map(entries) });
            }
            let place = self.at;
            let (key, key_span) = self.argument(positions.get(entries.len()).copied())?;
            let value = self.value()?;
            let key_span = key_span.unwrap_or(Span::new(place, self.at));
            self.enter(&mut entries, &mut seen, key, key_span, value)?;
            self.comma(')')?;
        }
    }

    /// The name of an argument: written before it, or known by its position.
    fn argument(&mut self, position: Option<&str>) -> Read<(String, Option<Span>)> {
        let start = self.at;
        let word = self.word().to_owned();
        let span = Span::new(start, self.at);
        self.spaces();
        let rest = &self.text[self.at..];
        if !word.is_empty() && rest.starts_with('=') && !rest.starts_with("==") {
            self.at += 1;
            return Ok((word, Some(span)));
        }
        self.at = start;
        match position {
            Some(name) => Ok((name.to_owned(), None)),
            None => {
                Err(self.refuse(start, "this argument needs its name", "for example `schedule_type=\"recurring\"`"))
            }
        }
    }

    fn word(&mut self) -> &str {
        let start = self.at;
        let rest = &self.text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += if rest.starts_with(|c: char| c.is_ascii_digit()) { 0 } else { end };
        &self.text[start..self.at]
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn spaces(&mut self) {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start_matches([' ', '\t']).len();
    }

    /// White space, line ends and comments.
    fn blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let after = rest.trim_start();
            self.at += rest.len() - after.len();
            if after.starts_with("\\\n") {
                self.at += 1;
            } else if after.starts_with('#') {
                self.at += after.find('\n').unwrap_or(after.len());
            } else {
                return;
            }
        }
    }

    fn refuse(&self, at: usize, message: &str, help: &str) -> Box<Problem> {
        let end = self.text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        Box::new(Problem::error(Span::new(at, end.max(self.at.min(self.text.len()))), message).help(help))
    }
}

fn text_bytes(data: &Data) -> usize {
    match data {
        Data::Scalar(Value::String(text)) => text.len(),
        Data::Scalar(_) | Data::List(_) | Data::Map(_) => 0,
    }
}

fn number(written: &str) -> Option<Number> {
    let digits = written.replace('_', "");
    let (sign, unsigned) = digits.strip_prefix('-').map_or(("", digits.trim_start_matches('+')), |rest| ("-", rest));
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = unsigned.strip_prefix(prefix) {
            return i64::from_str_radix(&format!("{sign}{rest}"), radix).ok().map(Number::from);
        }
    }
    match yaml::plain(&format!("{sign}{unsigned}")) {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        let source = Source { name: "x.py".into(), text: text.into() };
        let told = |problems: Problems| {
            let (line, column) = source.position(problems[0].span.start);
            format!("{line}:{column} {}", problems[0].message)
        };
        parse(&source).map(|node| node.to_value()).map_err(told)
    }

    #[test]
    fn literals_are_read() {
        for (text, expected) in [
            ("1, -2.5, 0x1f, 1_000, +3, .5, 1e3", json!([1, -2.5, 31, 1000, 3, 0.5, 1000.0])),
            ("True, true, False, None, null", json!([true, true, false, null, null])),
            (r#"'a\'b', "c\n\t\x41\u00e9\101\q\\", r"\n""#, json!(["a'b", "c\n\tAéA\\q\\", "\\n"])),
            ("'a' \"b\"\n  'c', '''x\ny''', \"\"\"a \"q\" {b}\"\"\"", json!(["abc", "x\ny", "a \"q\" {b}"])),
            ("(1, 2), (3), (4,), [], {}, ()", json!([[1, 2], 3, [4], [], {}, []])),
            ("{'a': 1, # one\n 'b': [2,],\n}", json!([{"a": 1, "b": [2]}])),
            ("dict(a=1, b=dict())", json!([{"a": 1, "b": {}}])),
        ] {
            let whole = format!("spec = {{'executors': [{text}]}}\n");
            assert_eq!(read(&whole), Ok(json!({"executors": expected})), "{text}");
        }
    }

    #[test]
    fn a_call_makes_the_workflow() {
        let expected = json!({"name": "N", "description": "D", "executors": [1], "schedule_type": "immediate"});
        for text in [
            "executors = [1]\ncreate_workflow('N', 'D', executors, schedule_type='immediate')",
            "        executors = [1]\n        id = create_workflow('N', 'D', executors, 'immediate')\n",
            "create_workflow(name='N', description='D', executors=[1], schedule_type='immediate',)",
            "n = 'N'; spec = WorkflowSpec(name=n, description='D', executors=[1], schedule_type='immediate')",
        ] {
            assert_eq!(read(text), Ok(expected.clone()), "{text}");
        }
        assert_eq!(read("executors = [1]"), Ok(json!({"executors": [1]})));
    }

    #[test]
    fn what_is_no_literal_is_refused_in_its_place() {
        for (text, expected) in [
            ("spec = {'a': open('x')}", "1:13 `open(…)` is not read"),
            ("spec = {'a': f'x'}", "1:14 texts that are computed"),
            ("spec = {'a': b}", "1:14 `b` was given no value above"),
            ("spec = {'a': 1, 'a': 2}", "1:17 the key `a` stands twice"),
            ("spec = {1: 2}", "1:9 a key is a text"),
            ("spec = {'a' 1}", "1:13 `:` is missing behind a key"),
            ("spec = ['a'", "1:12 `,` or `]` is missing here"),
            ("spec = {'a': 'x\n'}", "1:14 this text is not closed on its line"),
            ("spec = '''x", "1:8 this text is not closed"),
            ("spec = {}\nother = 1\ncreate_workflow('a', 'b', spec)", "2:1 `other` is not used"),
            ("a = 5", "1:1 `a` is no workflow"),
            ("import os", "1:1 `import` is neither given a value"),
            ("create_workflow()\ncreate_workflow()", "2:1 a second workflow"),
            ("spec = {'a': 5x}", "1:14 `5x` is no number"),
            ("spec = {'a': '\\ud800'}", "1:15 this escape is no letter"),
            ("spec = ", "1:8 a value is missing here"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(expected.split_once(' ').unwrap().1), "{text}: {problem}");
        }
    }

    #[test]
    fn everything_is_bounded() {
        assert!(read(&format!("a = {}", "[".repeat(100_000))).is_err());
        let mut bomb = "a0 = ['x', 'x', 'x', 'x']\n".to_owned();
        for n in 1..40 {
            bomb += &format!("a{n} = [a{}, a{}, a{}, a{}]\n", n - 1, n - 1, n - 1, n - 1);
        }
        assert!(read(&bomb).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_text_that_ends_in_a_backslash_is_not_closed() {
        for text in ["a = '\\", "a = '''\\", "a = r'\\", "a = '\\x4", "a = '\\7"] {
            assert!(read(text).unwrap_err().contains("this"), "{text}");
        }
    }

    #[test]
    fn python_is_told_from_yaml() {
        for (text, expected) in [
            ("a = {}", true),
            ("# c\n\n  a=1", true),
            ("create_workflow(\n)", true),
            ("a: 1", false),
            ("{\"a\": 1}", false),
            ("a == b", false),
            ("- a = 1", false),
            ("1 = 2", false),
            ("", false),
        ] {
            assert_eq!(begins(text), expected, "{text}");
        }
    }
}
