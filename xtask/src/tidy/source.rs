//! Rust source as the rules read it: which bytes are code, literal or comment, which lines belong to tests, and where the
//! functions are. A scanner of characters and braces, not a parser; it knows nothing about the rules.

/// One Rust file in two views of the same length and the same lines as the text itself.
pub struct Source {
    /// Comments and literals are blanked.
    pub code: String,
    /// Comments are blanked, literals stay.
    pub uncommented: String,
    is_test_file: bool,
    /// Byte ranges of the items that are compiled for tests only.
    test_items: Vec<(usize, usize)>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

/// In pieces, so that a plain search for the mark does not take the rest of this file for tests.
const TEST_MARK: &str = concat!("#[cfg(", "test)]");

const QUOTE: u8 = b'\x22';

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let kinds = kinds(text.as_bytes());
        let code = view(text, &kinds, |kind| kind == Kind::Code);
        let uncommented = view(text, &kinds, |kind| kind != Kind::Comment);
        let test_items = test_items(&code);
        Source { code, uncommented, is_test_file: is_test_path(path), test_items }
    }

    /// The functions outside tests, in the order of the file.
    pub fn functions(&self) -> Vec<Function> {
        let starts = self.code.match_indices("fn ").map(|(at, _)| at);
        starts.filter(|at| !self.is_test_at(*at)).filter_map(|at| function_at(&self.code, at)).collect()
    }

    /// Line numbers (from 1) where `word` stands by itself in `view`, in tests or outside of them.
    pub fn lines_with(&self, view: &str, word: &str, in_tests: bool) -> Vec<usize> {
        let found = view.match_indices(word).map(|(at, _)| at);
        let wanted = found.filter(|at| stands_alone(view, *at, word) && self.is_test_at(*at) == in_tests);
        wanted.map(|at| line_of(view, at)).collect()
    }

    fn is_test_at(&self, at: usize) -> bool {
        self.is_test_file || self.test_items.iter().any(|(start, end)| (*start..*end).contains(&at))
    }
}

fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("tests/") || path.contains("/tests/") || name == "tests.rs" || name == "conformance.rs"
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Literal,
    Comment,
}

/// A blanked letter becomes as many spaces as it has bytes, so that positions agree between the views.
fn view(text: &str, kinds: &[Kind], keep: impl Fn(Kind) -> bool) -> String {
    let mut blanked = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        if letter == '\n' || keep(kinds[at]) {
            blanked.push(letter);
        } else {
            blanked.extend(std::iter::repeat_n(' ', letter.len_utf8()));
        }
    }
    blanked
}

/// The kind of each byte.
fn kinds(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(bytes.len());
    while kinds.len() < bytes.len() {
        let rest = &bytes[kinds.len()..];
        let before = kinds.len().checked_sub(1).map(|at| bytes[at]);
        let (kind, length) = token(rest, before);
        kinds.extend(std::iter::repeat_n(kind, length.clamp(1, rest.len())));
    }
    kinds
}

/// What begins here, and how many bytes it has.
fn token(rest: &[u8], before: Option<u8>) -> (Kind, usize) {
    if rest.starts_with(b"//") {
        return (Kind::Comment, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, block_comment(rest));
    }
    match (rest[0], before.is_some_and(is_word)) {
        (QUOTE, _) => (Kind::Literal, quoted(rest)),
        (b'\'', _) => character(rest).map_or((Kind::Code, 1), |length| (Kind::Literal, length)),
        (b'r', false) => raw(rest, 1).map_or((Kind::Code, 1), |length| (Kind::Literal, length)),
        (b'b' | b'c', false) if rest.get(1) == Some(&b'r') => {
            raw(rest, 2).map_or((Kind::Code, 1), |length| (Kind::Literal, length))
        }
        _ => (Kind::Code, 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != QUOTE {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The length of a character literal, or nothing if the quote begins a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    let escaped = rest.get(1) == Some(&b'\\');
    let first = if escaped { 3 } else { 2 };
    // The longest are `'\u{10ffff}'` and a letter of four bytes.
    let last = if escaped { 12 } else { 5 };
    let close = (first..=last).find(|at| rest.get(*at) == Some(&b'\''))?;
    let inner = rest.get(1..close)?;
    let is_one = escaped || std::str::from_utf8(inner).is_ok_and(|text| text.chars().count() == 1);
    is_one.then_some(close + 1)
}

/// The length of a raw string whose hashes begin at `prefix`, or nothing if it is none.
fn raw(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&QUOTE) {
        return None;
    }
    let closes = |at: &usize| {
        rest[*at] == QUOTE && rest[*at + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes
    };
    Some((open + 1..rest.len()).find(closes).map_or(rest.len(), |at| at + 1 + hashes))
}

fn test_items(code: &str) -> Vec<(usize, usize)> {
    code.match_indices(TEST_MARK).map(|(at, mark)| (at, item_end(code, at + mark.len()))).collect()
}

/// Where the item that begins at `from` ends: after its braces, or after its semicolon.
fn item_end(code: &str, from: usize) -> usize {
    match opening(code, from) {
        Some((at, b'{')) => closing(code, at) + 1,
        Some((at, _)) => at + 1,
        None => code.len(),
    }
}

/// The first `{` or `;` outside of brackets, such as that of an array type in a signature.
fn opening(code: &str, from: usize) -> Option<(usize, u8)> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth <= 0 => return Some((at, byte)),
            _ => {}
        }
    }
    None
}

/// Where the brace that opens at `from` is closed.
fn closing(code: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len().saturating_sub(1)
}

/// The function whose `fn` stands at `at`; function types and declarations without a body are none.
fn function_at(code: &str, at: usize) -> Option<Function> {
    if !stands_alone(code, at, "fn") {
        return None;
    }
    let after = code[at + 2..].trim_start();
    let name: String = after.bytes().take_while(|byte| is_word(*byte)).map(char::from).collect();
    let (start, byte) = opening(code, at)?;
    if name.is_empty() || byte == b';' {
        return None;
    }
    let line = line_of(code, at);
    Some(Function { name, line, lines: line_of(code, closing(code, start)) - line + 1 })
}

fn stands_alone(text: &str, at: usize, word: &str) -> bool {
    let bytes = text.as_bytes();
    let joins = |inner: Option<&u8>, outer: Option<&u8>| {
        inner.copied().is_some_and(is_word) && outer.copied().is_some_and(is_word)
    };
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    let end = at + word.len();
    !joins(bytes.get(at), before) && !joins(bytes.get(end - 1), bytes.get(end))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, usize, usize)]) {
        let found = Source::new("crates/plan/src/lib.rs", text).functions();
        let found: Vec<_> =
            found.iter().map(|function| (function.name.as_str(), function.line, function.lines)).collect();
        assert_eq!(found, expected, "in {text}");
    }

    #[test]
    fn functions_are_counted_by_their_braces() {
        check("fn one() {}\n", &[("one", 1, 1)]);
        check("//! About.\n\npub fn two() {\n    if true {\n    }\n}\n", &[("two", 3, 4)]);
        check("trait T {\n    fn declared(&self);\n    fn given(&self) {\n    }\n}\n", &[("given", 3, 2)]);
        check("fn array(x: [u8; 3]) -> u8 {\n    x[0]\n}\n", &[("array", 1, 3)]);
        check("fn outer() {\n    fn inner() {\n    }\n}\n", &[("outer", 1, 4), ("inner", 2, 2)]);
        check("type F = fn (u8) -> u8;\nstruct S { f: fn(u8) }\n", &[]);
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_count() {
        check("fn f() {\n    let a = \"}\\\"}\";\n    // }\n}\n", &[("f", 1, 4)]);
        check("fn f() {\n    let a = r#\"} \" }\"#;\n    /* } /* } */ } */\n}\n", &[("f", 1, 4)]);
        check("fn f<'a>(x: &'a str) -> char {\n    '}'\n}\n", &[("f", 1, 3)]);
        check("fn f() {\n    let a = ['{', '\\'', '\\u{7b}', 'é', b'{'];\n}\n", &[("f", 1, 3)]);
        check("fn f() {\n    let a = br\"}\";\n    let r = \"über }\";\n}\n", &[("f", 1, 4)]);
        check("const A: &str = \"fn no() {}\";\n", &[]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        check(
            "#[cfg(test)]\nuse a::b;\nfn kept() {}\n#[cfg(test)]\nmod tests {\n    fn gone() {}\n}\n",
            &[("kept", 3, 1)],
        );
        assert!(Source::new("crates/plan/tests/all.rs", "fn f() {}").functions().is_empty());
        assert!(Source::new("crates/store/src/conformance.rs", "fn f() {}").functions().is_empty());
    }

    #[test]
    fn unfinished_text_is_read_to_its_end() {
        for text in ["", "fn", "fn ", "fn f(", "fn f() {", "\"", "'", "r#\"", "/*", "#[cfg(test)]", "b", "é'", "'\\"] {
            let _ = Source::new("lib.rs", text).functions();
        }
        check("fn f() {\n", &[("f", 1, 1)]);
    }

    #[test]
    fn words_are_found_whole_and_by_place() {
        let text = "fn f() { Instant; InstantX; \"Instant\" }\n// Instant\n#[cfg(test)]\nmod tests { Instant }\n";
        let source = Source::new("lib.rs", text);
        assert_eq!(source.lines_with(&source.code, "Instant", false), [1]);
        assert_eq!(source.lines_with(&source.uncommented, "Instant", false), [1, 1]);
        assert_eq!(source.lines_with(&source.code, "Instant", true), [4]);
    }
}
