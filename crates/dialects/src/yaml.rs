//! YAML 1.2 (and JSON, which is a part of it) into a tree of values with their places in the text.
//!
//! Knows nothing of workflows. Everything a stranger can send is bounded here: size, depth, number of nodes, aliases.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use relais_plan::path::Segment;
use relais_plan::{Problem, Problems, Source, Span};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as Range, Tag};
use serde_json::{Map, Number, Value};

/// A workflow of a thousand steps has some 200 KiB.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Deep enough for 30 steps within steps; keeps every recursion over the tree shallow.
pub const MAX_DEPTH: usize = 64;
/// Values in one file, those that aliases repeat included: what stops an alias bomb.
pub const MAX_VALUES: usize = 200_000;
/// Text in one file, that which aliases repeat included.
pub const MAX_TEXT_BYTES: usize = 2 * MAX_BYTES;

/// One value with its place.
#[derive(Debug, Clone)]
pub struct Node {
    pub span: Span,
    pub data: Data,
}

#[derive(Debug, Clone)]
pub enum Data {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub key_span: Span,
    /// The key as a value: `1` and `true` without quotes are a number and a boolean.
    pub key_value: Value,
    pub value: Node,
}

/// Reads one document. All duplicate keys are reported at once; a syntax error ends the reading.
pub fn parse(source: &Source) -> Result<Node, Problems> {
    if source.text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", source.text.len());
        return Err(vec![Problem::error(Span::default(), message)]);
    }
    let body = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let (parsed, offsets) = parser_text(body);
    let mut tree = Tree::new(body, offsets, source.text.len() - body.len());
    match tree.read(&parsed) {
        Err(problem) => tree.problems.push(*problem),
        Ok(Some(root)) if tree.problems.is_empty() => return Ok(root),
        Ok(Some(_)) => {}
        Ok(None) => tree.problems.push(empty()),
    }
    Err(tree.problems)
}

fn empty() -> Problem {
    Problem::error(Span::default(), "the file is empty")
        .help("a workflow has at least `steps:` with one step, such as `- agent: writer`")
}

impl Node {
    pub fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value()));
                Value::Object(pairs.collect::<Map<String, Value>>())
            }
        }
    }

    /// The place of what a JSON pointer leads to, or of the nearest thing around it.
    pub fn span_at(&self, pointer: &str) -> Span {
        let mut node = self;
        for segment in pointer.split('/').skip(1) {
            let segment = segment.replace("~1", "/").replace("~0", "~");
            match node.child(&segment) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.span
    }

    /// The path to the innermost thing that stands at an offset of the text; its key is part of it.
    pub fn path_at(&self, offset: u32) -> Vec<Segment> {
        let stands = |span: Span| span.start <= offset && offset < span.end;
        // What is inside a node stands in the order of the text, so it is found without looking at each.
        let ends = |entry: &Entry| entry.key_span.end.max(entry.value.span.end);
        let mut path = Vec::new();
        let mut node = self;
        loop {
            let (segment, inner) = match &node.data {
                Data::Scalar(_) => return path,
                Data::List(items) => {
                    let index = items.partition_point(|item| item.span.end <= offset);
                    match items.get(index).filter(|item| stands(item.span)) {
                        Some(item) => (Segment::Index(index as i64), item),
                        None => return path,
                    }
                }
                Data::Map(entries) => {
                    let found = entries.get(entries.partition_point(|entry| ends(entry) <= offset));
                    match found.filter(|entry| stands(entry.key_span) || stands(entry.value.span)) {
                        Some(entry) => (Segment::Key(entry.key.clone()), &entry.value),
                        None => return path,
                    }
                }
            };
            path.push(segment);
            node = inner;
        }
    }

    pub fn child(&self, segment: &str) -> Option<&Node> {
        match &self.data {
            Data::Scalar(_) => None,
            Data::List(items) => items.get(segment.parse::<usize>().ok()?),
            Data::Map(entries) => entries.iter().find(|entry| entry.key == segment).map(|entry| &entry.value),
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar(Value::String(text)) => Some(text),
            Data::Scalar(_) | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// What it is, as an error message says it.
    pub fn describe(&self) -> String {
        match &self.data {
            Data::Scalar(Value::Null) => "nothing".into(),
            Data::Scalar(Value::Bool(value)) => format!("the boolean {value}"),
            Data::Scalar(Value::Number(value)) => format!("the number {value}"),
            Data::Scalar(Value::String(text)) => format!("the text {:?}", shorten(text)),
            Data::Scalar(_) => "a value".into(),
            Data::List(items) => format!("a list of {}", items.len()),
            Data::Map(_) => "a map".into(),
        }
    }

    /// Levels of lists and maps.
    fn depth(&self) -> usize {
        match &self.data {
            Data::Scalar(_) => 0,
            Data::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Data::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
        }
    }

    pub(crate) fn weigh(&self) -> (usize, usize) {
        match &self.data {
            Data::Scalar(Value::String(text)) => (1, text.len()),
            Data::Scalar(_) => (1, 0),
            Data::List(items) => items.iter().map(Node::weigh).fold((1, 0), add),
            Data::Map(entries) => {
                entries.iter().map(|entry| add(entry.value.weigh(), (0, entry.key.len()))).fold((1, 0), add)
            }
        }
    }
}

pub(crate) fn add(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    (a.0 + b.0, a.1 + b.1)
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A plain scalar by YAML's core schema: null, booleans, numbers, else text. Numbers are exact where JSON's can be.
pub fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(text);
    if let Some(hex) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(Number::from);
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') || unsigned.starts_with('+') {
        return None;
    }
    if let Ok(integer) = digits.parse::<i64>() {
        return Some(integer.into());
    }
    if let Ok(integer) = digits.parse::<u64>() {
        return Some(integer.into());
    }
    let is_float = unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_float || !unsigned.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits.parse::<f64>().ok().and_then(Number::from_f64)
}

/// What the parser reads, and the byte offset of each of its characters in the text; no offsets where they are the
/// same. JSON writes what lies beyond `\uffff` as two escapes, a form that YAML does not know: it becomes one.
fn parser_text(text: &str) -> (Cow<'_, str>, Vec<u32>) {
    if text.contains("\\u") && serde_json::from_str::<Value>(text).is_ok() {
        let (joined, offsets) = join_surrogates(text);
        return (Cow::Owned(joined), offsets);
    }
    let offsets = match text.is_ascii() {
        true => Vec::new(),
        false => text.char_indices().map(|(offset, _)| offset as u32).collect(),
    };
    (Cow::Borrowed(text), offsets)
}

/// For valid JSON only: there every backslash begins an escape.
fn join_surrogates(text: &str) -> (String, Vec<u32>) {
    let (mut joined, mut offsets) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let (piece, length) = match surrogate_pair(&text[at..]) {
            Some(letter) => (format!("\\U{:08x}", letter as u32), SURROGATE_PAIR_BYTES),
            None if letter == '\\' => (text[at..].chars().take(2).collect(), 2),
            None => (letter.to_string(), letter.len_utf8()),
        };
        offsets.extend(piece.chars().enumerate().map(|(inside, _)| (at + inside.min(length)) as u32));
        joined.push_str(&piece);
        at += length;
    }
    (joined, offsets)
}

/// `\ud83d\ude00`
const SURROGATE_PAIR_BYTES: usize = 12;

fn surrogate_pair(text: &str) -> Option<char> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 6)?.strip_prefix("\\u")?, 16).ok();
    let pair = [unit(0)?, unit(6)?];
    let mut letters = char::decode_utf16(pair).flatten();
    let letter = letters.next()?;
    (letters.next().is_none() && letter.len_utf16() == 2).then_some(letter)
}

/// A list or map that is being read.
struct Frame {
    start: usize,
    anchor: usize,
    shape: Shape,
}

enum Shape {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashSet<String>, key: Option<Key>, merge: Option<Merge> },
}

/// What the next value in a map belongs to.
enum Key {
    Name(String, Span, Value),
    /// `<<`, without quotes.
    Merge(Span),
}

/// The maps behind `<<`, and before which entry their own come.
struct Merge {
    at: usize,
    maps: Vec<Node>,
}

struct Tree<'t> {
    text: &'t str,
    /// Byte offset of each character; empty for plain ASCII, where they are the same.
    offsets: Vec<u32>,
    /// Bytes before the first character that the parser sees: a byte order mark.
    skipped: usize,
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    /// Values and bytes of text so far.
    weight: (usize, usize),
    problems: Problems,
}

type Step = Result<(), Box<Problem>>;

impl<'t> Tree<'t> {
    fn new(text: &'t str, offsets: Vec<u32>, skipped: usize) -> Tree<'t> {
        Tree {
            text,
            offsets,
            skipped,
            frames: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            weight: (0, 0),
            problems: Vec::new(),
        }
    }

    fn read(&mut self, parsed: &str) -> Result<Option<Node>, Box<Problem>> {
        let mut parser = Parser::new_from_str(parsed);
        let mut documents = 0;
        while let Some(next) = parser.next_event() {
            let (event, range) = next.map_err(|error| self.syntax(error.marker(), error.info()))?;
            match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(self.refuse(
                            range,
                            "the file has several documents",
                            "one workflow per file: take the `---` out",
                        ));
                    }
                }
                Event::StreamEnd => break,
                Event::StreamStart | Event::Nothing | Event::DocumentEnd => {}
                Event::Alias(anchor) => self.alias(anchor, range)?,
                Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), range)?,
                Event::SequenceStart(anchor, tag) => {
                    self.open(anchor, tag.as_deref(), range, Shape::List(Vec::new()))?
                }
                Event::MappingStart(anchor, tag) => self.open(anchor, tag.as_deref(), range, map())?,
                Event::SequenceEnd | Event::MappingEnd => self.close(range)?,
            }
        }
        Ok(self.root.take().filter(|root| !matches!(root.data, Data::Scalar(Value::Null))))
    }

    fn alias(&mut self, anchor: usize, range: Range) -> Step {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(self.refuse(range, "this alias stands inside its own anchor", "write the value out"));
        };
        if self.frames.len() + node.depth() > MAX_DEPTH {
            return Err(self.too_deep(range));
        }
        let node = Node { span: self.span(range), ..node.clone() };
        self.weight = add(self.weight, node.weigh());
        self.check_weight(range)?;
        self.place(node, range, None)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>, range: Range) -> Step {
        self.weight = add(self.weight, (1, text.len()));
        self.check_weight(range)?;
        let value = match (tag, style) {
            (Some(tag), _) if is_string_tag(tag) => Value::String(text.to_owned()),
            (Some(tag), _) => return Err(self.refuse_tag(tag, range)),
            (None, ScalarStyle::Plain) => plain(text),
            (None, _) => Value::String(text.to_owned()),
        };
        let span = match style {
            // The parser counts the space behind a closing quote to the text.
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                let Span { start, end } = self.span(range);
                Span::new(start as usize, self.trim(start as usize, end as usize))
            }
            ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => self.span(range),
        };
        let node = Node { span, data: Data::Scalar(value) };
        if style == ScalarStyle::Plain && tag.is_none() && text == "<<" && self.merges(span) {
            return Ok(());
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node, range, Some(text))
    }

    fn open(&mut self, anchor: usize, tag: Option<&Tag>, range: Range, shape: Shape) -> Step {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            return Err(self.refuse_tag(tag, range));
        }
        if self.expects_key() {
            return Err(self.refuse(
                range,
                "a key must be text, not a list or a map",
                "if this was meant as `{{ … }}`, put quotes around it",
            ));
        }
        if self.frames.len() >= MAX_DEPTH {
            return Err(self.too_deep(range));
        }
        self.weight = add(self.weight, (1, 0));
        self.check_weight(range)?;
        self.frames.push(Frame { start: self.offset(range.start), anchor, shape });
        Ok(())
    }

    fn close(&mut self, range: Range) -> Step {
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        let end = self.offset(range.end).max(frame.start);
        let data = match frame.shape {
            Shape::List(items) => Data::List(items),
            Shape::Map { entries, seen, merge: Some(merge), .. } => Data::Map(merged(entries, seen, merge)),
            Shape::Map { entries, merge: None, .. } => Data::Map(entries),
        };
        let node = Node { span: Span::new(frame.start, self.trim(frame.start, end)), data };
        if frame.anchor > 0 {
            self.anchors.insert(frame.anchor, node.clone());
        }
        self.place(node, range, None)
    }

    /// Puts a finished value where it belongs. `text` is that of a scalar, which may become a key.
    fn place(&mut self, node: Node, range: Range, text: Option<&str>) -> Step {
        let span = node.span;
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut frame.shape {
            Shape::List(items) => items.push(node),
            Shape::Map { entries, seen, key, merge } => match (key.take(), node.data) {
                (Some(Key::Name(name, key_span, key_value)), data) => {
                    if seen.insert(name.clone()) {
                        entries.push(Entry { key: name, key_span, key_value, value: Node { span, data } });
                    } else {
                        self.problems.push(doubled(&name, key_span));
                    }
                }
                (Some(Key::Merge(key_span)), _) if merge.is_some() => self.problems.push(doubled("<<", key_span)),
                (Some(Key::Merge(_)), data) => match maps(Node { span, data }) {
                    Some(maps) => *merge = Some(Merge { at: entries.len(), maps }),
                    None => self.problems.push(no_map(span)),
                },
                (None, Data::Scalar(value)) => *key = Some(Key::Name(key_name(&value, text), span, value)),
                (None, Data::List(_) | Data::Map(_)) => {
                    return Err(self.refuse(range, "a key must be text, not a list or a map", "write the key out"));
                }
            },
        }
        Ok(())
    }

    /// Is this the key `<<` of a map? Then what follows is merged into it.
    fn merges(&mut self, span: Span) -> bool {
        match self.frames.last_mut().map(|frame| &mut frame.shape) {
            Some(Shape::Map { key: key @ None, .. }) => {
                *key = Some(Key::Merge(span));
                true
            }
            Some(Shape::Map { .. } | Shape::List(_)) | None => false,
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { shape: Shape::Map { key: None, .. }, .. }))
    }

    fn check_weight(&self, range: Range) -> Step {
        if self.weight.0 > MAX_VALUES {
            let message = format!("the file has more than {MAX_VALUES} values, those repeated by aliases included");
            return Err(self.refuse(range, &message, "split the workflow, or use fewer aliases"));
        }
        if self.weight.1 > MAX_TEXT_BYTES {
            return Err(self.refuse(range, "the text that aliases repeat is too large", "use fewer aliases"));
        }
        Ok(())
    }

    fn too_deep(&self, range: Range) -> Box<Problem> {
        let message = format!("values are nested more than {MAX_DEPTH} levels deep");
        self.refuse(range, &message, "move a part of it into a workflow of its own")
    }

    fn refuse_tag(&self, tag: &Tag, range: Range) -> Box<Problem> {
        let message = format!("tags such as `{}{}` are not supported", tag.handle, tag.suffix);
        self.refuse(range, &message, "write the value without a tag; quotes make a text of it")
    }

    fn refuse(&self, range: Range, message: &str, help: &str) -> Box<Problem> {
        Box::new(Problem::error(self.span(range), message).help(help))
    }

    fn syntax(&self, marker: &Marker, info: &str) -> Box<Problem> {
        let start = self.offset(*marker);
        let length =
            self.text.get(start - self.skipped..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let problem = Problem::error(Span::new(start, start + length), format!("this is not valid YAML: {info}"));
        Box::new(match self.indented_with_tab(start) {
            true => problem.help("indent with spaces; YAML does not allow tabs there"),
            false => problem.help("text with `:`, `#`, `{`, `[`, `*`, `&` or `%` at its start needs quotes"),
        })
    }

    fn indented_with_tab(&self, at: usize) -> bool {
        let before = self.text.get(..at - self.skipped).unwrap_or(self.text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..).unwrap_or_default();
        line.chars().take_while(|c| c.is_whitespace() && *c != '\n').any(|c| c == '\t')
    }

    fn span(&self, range: Range) -> Span {
        let start = self.offset(range.start);
        Span::new(start, self.offset(range.end).max(start))
    }

    /// The parser counts characters; everything else here counts bytes.
    fn offset(&self, marker: Marker) -> usize {
        let within = match self.offsets.is_empty() {
            true => marker.index().min(self.text.len()),
            false => self.offsets.get(marker.index()).map_or(self.text.len(), |&offset| offset as usize),
        };
        self.skipped + within
    }

    /// A block ends where its last line does, not where the next one begins.
    fn trim(&self, start: usize, end: usize) -> usize {
        let within = self.text.get(start - self.skipped..end - self.skipped).unwrap_or_default();
        start + within.trim_end().len()
    }
}

fn map() -> Shape {
    Shape::Map { entries: Vec::new(), seen: HashSet::new(), key: None, merge: None }
}

fn key_name(value: &Value, text: Option<&str>) -> String {
    match (value, text) {
        (Value::String(name), _) => name.clone(),
        (_, Some(text)) => text.to_owned(),
        (other, None) => other.to_string(),
    }
}

/// What `<<` may have: a map, or a list of maps.
fn maps(node: Node) -> Option<Vec<Node>> {
    let is_map = |node: &Node| matches!(node.data, Data::Map(_));
    match node.data {
        Data::Map(_) => Some(vec![node]),
        Data::List(items) => items.iter().all(is_map).then_some(items),
        Data::Scalar(_) => None,
    }
}

/// The entries of a map with those that it does not give itself; of several maps, the first that has a key gives it.
fn merged(mut entries: Vec<Entry>, mut seen: HashSet<String>, merge: Merge) -> Vec<Entry> {
    let mut more = Vec::new();
    for node in merge.maps {
        if let Data::Map(found) = node.data {
            more.extend(found.into_iter().filter(|entry| seen.insert(entry.key.clone())));
        }
    }
    entries.splice(merge.at..merge.at, more);
    entries
}

fn no_map(span: Span) -> Problem {
    Problem::error(span, "`<<` takes a map or a list of maps").help("for example `<<: *name` or `<<: [*one, *other]`")
}

fn is_string_tag(tag: &Tag) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == "str"
}

fn doubled(name: &str, span: Span) -> Problem {
    Problem::error(span, format!("the key `{name}` is written twice")).help("only one of the two can be meant")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "test.yaml".into(), text: text.into() }
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        let check = |text: &str, expected: Value| {
            assert_eq!(parse(&source(&format!("a: {text}"))).unwrap().to_value()["a"], expected, "{text}");
        };
        check("yes", json!("yes"));
        check("TRUE", json!(true));
        check("~", json!(null));
        check("''", json!(""));
        check("-3", json!(-3));
        check("+7", json!(7));
        check("+-7", json!("+-7"));
        check("0x1F", json!(31));
        check("0o17", json!(15));
        check("18446744073709551615", json!(u64::MAX));
        check("1.50", json!(1.5));
        check("1e3", json!(1000.0));
        check("1.2.3", json!("1.2.3"));
        check("2027-01-01", json!("2027-01-01"));
        check("!!str 5", json!("5"));
        check("|\n  two\n  lines\n", json!("two\nlines\n"));
        check("[a,\r\n b]\r\n", json!(["a", "b"]));
        check("{ 1: x, true: y }", json!({ "1": "x", "true": "y" }));
    }

    #[test]
    fn json_is_read_with_its_own_escapes() {
        let text = r#"{ "é": "\ud83d\ude00 \\ud83d\\ude00 \u00e9 \/", "b": 1 }"#;
        let root = parse(&source(text)).unwrap();
        assert_eq!(root.to_value(), serde_json::from_str::<Value>(text).unwrap());
        let span = root.span_at("/b");
        assert_eq!(&text[span.start as usize..span.end as usize], "1");
    }

    #[test]
    fn places_are_bytes() {
        let check = |text: &str, pointer: &str, expected: &str| {
            let root = parse(&source(text)).unwrap();
            let span = root.span_at(pointer);
            assert_eq!(&text[span.start as usize..span.end as usize], expected);
        };
        check("a: ä\nb: [ö, üü]\n", "/b/1", "üü");
        check("\u{feff}a: { b: x }\n", "/a/b", "x");
        check("a: { b: x }\n", "/a/missing", "{ b: x }");
        check("a:\n  - b: 1\n\n  - c: 2\n\nd: 3\n", "/a/0", "b: 1");
        check("a/b: { c~d: x }\n", "/a~1b/c~0d", "x");
    }

    #[test]
    fn what_is_refused_says_where() {
        let check = |text: &str, expected: &str, position: (usize, usize)| {
            let source = source(text);
            let problems = parse(&source).unwrap_err();
            assert!(problems[0].message.contains(expected), "{problems:?}");
            assert_eq!(source.position(problems[0].span.start), position, "{problems:?}");
        };
        check("", "empty", (1, 1));
        check("# nothing\n", "empty", (1, 1));
        check("a: 1\nb: 2\na: 3\n", "`a` is written twice", (3, 1));
        check("a: 1\n---\nb: 2\n", "several documents", (2, 1));
        check("a: *b\n", "not valid YAML", (1, 4));
        check("a: &x [*x]\n", "inside its own anchor", (1, 8));
        check("? [a]\n: b\n", "a key must be text", (1, 3));
        check("a: !secret b\n", "tags such as", (1, 4));
        check("é: 1\n<<: 1\n", "`<<` takes a map", (2, 5));
        check("a: &a { b: 1 }\n<<: [*a, 1]\n", "`<<` takes a map", (2, 5));
        check("a: &a { b: 1 }\n<<: *a\n<<: *a\n", "`<<` is written twice", (3, 1));
        check("a: &a { b: 1, <<: *a }\n", "inside its own anchor", (1, 19));
        let nested = "[".repeat(40) + &"]".repeat(40);
        check(&format!("a: &a {nested}\nb: &b {}\n", nested.replace("[]", "[*a]")), "levels deep", (2, 47));
    }

    #[test]
    fn merge_keys_give_what_a_map_does_not_give_itself() {
        let check = |text: &str, expected: &str| {
            let value = parse(&source(&format!("- &a {{ x: 1, y: 2 }}\n- &b {{ y: 3, z: 4 }}\n- {text}\n"))).unwrap();
            assert_eq!(value.to_value()[2].to_string(), expected, "{text}");
        };
        check("<<: *a", r#"{"x":1,"y":2}"#);
        check("{ y: 9, <<: *a }", r#"{"y":9,"x":1}"#);
        check("{ <<: *a, y: 9 }", r#"{"x":1,"y":9}"#);
        check("<<: [*a, *b]", r#"{"x":1,"y":2,"z":4}"#);
        check("<<: [*b, *a]", r#"{"y":3,"z":4,"x":1}"#);
        check("<<: []", "{}");
        check("{ <<: { <<: *b, y: 5 }, w: { <<: *a } }", r#"{"z":4,"y":5,"w":{"x":1,"y":2}}"#);
        check("{ '<<': *a }", r#"{"<<":{"x":1,"y":2}}"#);
        check("[<<, *a]", r#"["<<",{"x":1,"y":2}]"#);
    }

    #[test]
    fn what_is_merged_keeps_its_place() {
        let text = "a: &a { x: 1 }\nb:\n  <<: *a\n  y: 2\n";
        let span = parse(&source(text)).unwrap().span_at("/b/x");
        assert_eq!(&text[span.start as usize..span.end as usize], "1");
    }

    #[test]
    fn what_is_merged_counts() {
        let maps = |count: usize, of: &str| {
            let entry = |number: usize| format!("k{number}: {{ <<: *{of} }}");
            format!("{{ {} }}", (0..count).map(entry).collect::<Vec<_>>().join(", "))
        };
        let levels = ["a", "b", "c", "d", "e"].windows(2);
        let lines: Vec<String> =
            levels.map(|pair| format!("{}: &{} {}", pair[1], pair[1], maps(30, pair[0]))).collect();
        let bomb = format!("a: &a {{ x: 1 }}\n{}\n", lines.join("\n"));
        let problems = parse(&source(&bomb)).unwrap_err();
        assert!(problems[0].message.contains("more than 200000 values"), "{problems:?}");

        let long = format!("a: &a {{ x: {} }}\nb: {}\n", "y".repeat(100_000), maps(100, "a"));
        let problems = parse(&source(&long)).unwrap_err();
        assert!(problems[0].message.contains("text that aliases repeat"), "{problems:?}");
    }
}
