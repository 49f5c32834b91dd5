//! References of the format as native expressions: `{{extract.output.x}}` reads `steps.extract.output.x`.
//!
//! A small lexer goes over the text, so that strings, quotes and everything else an expression holds survive. It knows
//! which nodes there are and notes which of them were named; it knows nothing of where they run.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use relais_plan::problem::nearest;
use relais_plan::template::escaped;
use relais_plan::{Expr, Problem, Problems, Span, Template};
use serde_json::Value;

use crate::normal::{list, map};
use crate::values::{content_span, step_of};
use crate::yaml::{Data, Node};

/// Words of the expression language, and literals.
const WORDS: &[&str] =
    &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "null", "True", "False", "None"];
/// What can be read of a node.
const PARTS: &[&str] = &["output", "outputs", "status", "error"];
/// How many passes a loop has made, as the released form reads it.
const PASSES: &str = ".output.iterations_completed";
/// Looks for near names in one file; a file in which nothing fits must not cost the square of its size.
const MAX_SEARCHES: usize = 50;
/// Operands of one `coalesce` or `concat`.
const MAX_OPERANDS: usize = 30;

pub(super) struct Names {
    /// Nodes by id.
    pub ids: HashMap<String, usize>,
    /// Those among them whose passes are counted.
    pub loops: HashSet<usize>,
    /// By the only node of a loop, the loop with its id: from outside, its last pass is read.
    pub passes: HashMap<usize, (usize, String)>,
    /// The node that is read now, and those around it.
    pub here: Vec<usize>,
    /// The nodes named since this was last taken.
    pub used: Vec<usize>,
    pub problems: Problems,
    searches: usize,
}

/// One text on its way, for places in messages.
#[derive(Clone, Copy)]
struct Source<'t> {
    text: &'t str,
    span: Span,
}

impl Source<'_> {
    fn place(&self, range: Range<usize>) -> Span {
        match (self.span.end - self.span.start) as usize == self.text.len() {
            true => Span::new(self.span.start as usize + range.start, self.span.start as usize + range.end),
            false => self.span,
        }
    }
}

impl Names {
    pub fn new(ids: HashMap<String, usize>) -> Names {
        Names {
            ids,
            loops: HashSet::new(),
            passes: HashMap::new(),
            here: Vec::new(),
            used: Vec::new(),
            problems: Vec::new(),
            searches: MAX_SEARCHES,
        }
    }

    /// A condition or another expression, with or without braces around what it refers to.
    pub fn expression(&mut self, node: &Node) -> Expr {
        let text = match &node.data {
            Data::Scalar(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            Data::Scalar(Value::Bool(flag)) => flag.to_string(),
            _ => {
                let message = format!("an expression is needed here, not {}", node.describe());
                let help = "for example `\"{{validate.output.is_valid}} == true\"`";
                self.problems.push(Problem::error(node.span, message).help(help));
                return Expr::new("false", node.span);
            }
        };
        let source = Source { text: &text, span: content_span(node, &text) };
        let mut out = String::new();
        self.code(source, 0..text.len(), true, &mut out);
        let (inner, _) = crate::values::bare(&out, Span::default());
        self.parsed(inner, source.span)
    }

    pub fn parsed(&mut self, text: &str, span: Span) -> Expr {
        Expr::parse(text, span).unwrap_or_else(|problem| {
            self.problems.push(problem);
            Expr::new("false", span)
        })
    }

    /// A value with references in it.
    pub fn value(&mut self, node: &Node) -> Template {
        match &node.data {
            Data::Scalar(Value::String(text)) => self.text(node, text),
            Data::Scalar(value) => Template::Literal(value.clone()),
            Data::List(items) => list(items.iter().map(|item| self.value(item)).collect()),
            Data::Map(entries) => match entries.as_slice() {
                [only] if matches!(only.key.as_str(), "coalesce" | "concat") => self.operator(&only.key, &only.value),
                _ => map(entries.iter().map(|entry| (entry.key.clone(), self.value(&entry.value))).collect()),
            },
        }
    }

    fn text(&mut self, node: &Node, text: &str) -> Template {
        let source = Source { text, span: content_span(node, text) };
        let pieces = self.pieces(source);
        if let [Piece::Code(code)] = pieces.as_slice() {
            return Template::Ref(self.parsed(code, source.span));
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
            return Template::plain(text, source.span);
        }
        let written: String = pieces.iter().map(Piece::in_template).collect();
        Template::text(&written, source.span).unwrap_or_else(|problem| {
            self.problems.push(problem);
            Template::Literal(Value::Null)
        })
    }

    /// Text and references in turn; nothing but space around one reference does not count.
    fn pieces(&mut self, source: Source<'_>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(open) = source.text[at..].find("{{").map(|found| at + found) {
            let Some(close) = closing(source.text, open + 2) else {
                let help = "write `{{node.output.field}}`";
                let problem = Problem::error(source.place(open..source.text.len()), "`{{` is not closed");
                self.problems.push(problem.help(help));
                break;
            };
            pieces.push(Piece::Text(source.text[at..open].to_owned()));
            let mut code = String::new();
            self.code(source, open + 2..close, false, &mut code);
            pieces.push(Piece::Code(code.trim().to_owned()));
            at = close + 2;
        }
        pieces.push(Piece::Text(source.text[at..].to_owned()));
        let alone = pieces.iter().filter(|piece| matches!(piece, Piece::Code(_))).count() == 1;
        let blank = |piece: &Piece| matches!(piece, Piece::Text(text) if text.trim().is_empty());
        let rest = pieces.iter().filter(|piece| matches!(piece, Piece::Text(_))).all(blank);
        pieces.retain(|piece| if alone && rest { matches!(piece, Piece::Code(_)) } else { !piece.is_empty() });
        pieces
    }

    /// `coalesce`: the first operand that is not null. `concat`: all of them as one text.
    fn operator(&mut self, word: &str, node: &Node) -> Template {
        let operands = match &node.data {
            Data::List(items) if !items.is_empty() && items.len() <= MAX_OPERANDS => items,
            _ => {
                let message = format!("`{word}` takes a list of up to {MAX_OPERANDS} values");
                let help = format!("for example `{word}: [\"{{{{a.output.x}}}}\", \"{{{{b.output.x}}}}\"]`");
                self.problems.push(Problem::error(node.span, message).help(help));
                return Template::Literal(Value::Null);
            }
        };
        let operands: Vec<String> = operands.iter().map(|operand| self.in_expression(operand)).collect();
        let text = match word {
            "concat" => format!("'' ~ {}", operands.join(" ~ ")),
            _ => coalesced(&operands),
        };
        Template::Ref(self.parsed(&text, node.span))
    }

    /// A value as part of an expression.
    pub fn in_expression(&mut self, node: &Node) -> String {
        if let Some(text) = node.as_text() {
            let pieces = self.pieces(Source { text, span: content_span(node, text) });
            let words: Vec<String> = pieces.iter().map(Piece::in_expression).collect();
            return if words.is_empty() { "''".to_owned() } else { format!("({})", words.join(" ~ ")) };
        }
        match self.value(node) {
            Template::Literal(value) => crate::values::literal(&value).unwrap_or_else(|_| "none".to_owned()),
            Template::Ref(expr) => format!("({})", expr.source()),
            Template::Text(_) | Template::List(_) | Template::Map(_) => {
                let message = "a list or map with references cannot stand in a list of values";
                self.problems.push(Problem::error(node.span, message).help("refer to the values one by one"));
                "none".to_owned()
            }
        }
    }

    /// Expression text from one range of the source; `outer` where braces and texts with braces may stand in it.
    fn code(&mut self, source: Source<'_>, range: Range<usize>, outer: bool, out: &mut String) {
        let text = source.text;
        let mut at = range.start;
        let mut before = Before::Other;
        while let Some(letter) = text[at..range.end].chars().next() {
            let rest = &text[at..range.end];
            if outer && rest.starts_with("{{") {
                at = self.braces(source, at, range.end, out);
                before = Before::Other;
            } else if letter == '\'' || letter == '"' {
                at = self.quoted(source, at..range.end, outer, out);
                before = Before::Other;
            } else if letter.is_alphabetic() || letter == '_' {
                let end = self.word(source, at, range.end, before, out);
                before = Before::after(&text[at..end], before);
                at = end;
            } else if letter.is_ascii_digit() {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).unwrap_or(rest.len());
                out.push_str(&rest[..length]);
                at += length;
                before = Before::Other;
            } else {
                out.push(letter);
                at += letter.len_utf8();
                before = before.past(letter);
            }
        }
    }

    fn braces(&mut self, source: Source<'_>, at: usize, end: usize, out: &mut String) -> usize {
        let Some(close) = closing(&source.text[..end], at + 2) else {
            let problem = Problem::error(source.place(at..end), "`{{` is not closed");
            self.problems.push(problem.help("write `{{node.output.field}}`"));
            return end;
        };
        out.push_str("{{");
        self.code(source, at + 2..close, false, out);
        out.push_str("}}");
        close + 2
    }

    /// A text in quotes; in a condition it may hold references of its own.
    fn quoted(&mut self, source: Source<'_>, range: Range<usize>, outer: bool, out: &mut String) -> usize {
        let text = &source.text[..range.end];
        let quote = text[range.start..].chars().next().unwrap_or('"');
        out.push(quote);
        let mut at = range.start + 1;
        while let Some(letter) = text[at..].chars().next() {
            if outer && text[at..].starts_with("{{") {
                at = self.braces(source, at, range.end, out);
                continue;
            }
            out.push(letter);
            at += letter.len_utf8();
            if letter == '\\'
                && let Some(escaped) = text[at..].chars().next()
            {
                out.push(escaped);
                at += escaped.len_utf8();
            } else if letter == quote {
                break;
            }
        }
        at
    }

    /// A name with what follows it as far as it matters; gives where it ends.
    fn word(&mut self, source: Source<'_>, at: usize, end: usize, before: Before, out: &mut String) -> usize {
        let rest = &source.text[at..end];
        let (word, follows) = self.split_word(rest);
        let raw = before == Before::Name || WORDS.contains(&word) || follows.trim_start().starts_with('(');
        if raw {
            out.push_str(word);
            return at + word.len();
        }
        let part = follows.strip_prefix('.').map(|part| part.split(not_in_word).next().unwrap_or_default());
        let both = at + word.len() + part.map_or(0, |part| part.len() + 1);
        if let Some(&node) = self.ids.get(word)
            && part.is_some_and(|part| PARTS.contains(&part))
        {
            self.used.push(node);
            if let Some((around, id)) = self.passes.get(&node)
                && part == Some("output")
                && !self.here.contains(around)
            {
                out.push_str(&format!("{}.output.results[-1]", step_of(id)));
                return both;
            }
            out.push_str(&step_of(word));
            if self.loops.contains(&node) && follows.strip_prefix(PASSES).is_some_and(|rest| !goes_on(rest)) {
                out.push_str(".output.count");
                return at + word.len() + PASSES.len();
            }
            return at + word.len();
        }
        match (word, part) {
            ("workflow", Some("input")) => out.push_str("input"),
            ("workflow", Some("name")) => out.push_str("workflow.name"),
            ("loop", Some("current_item")) => out.push_str("item"),
            ("loop", Some(part @ ("current_index" | "iteration_count"))) => out.push_str(&format!("loop.{part}")),
            ("input", _) => return copied(out, "input", at + word.len()),
            ("_map_item" | "item", _) => return copied(out, "item", at + word.len()),
            ("_map_index", _) => return copied(out, "index", at + word.len()),
            ("_loop_iteration", _) => return copied(out, "loop.iteration_count", at + word.len()),
            _ => {
                self.unknown(word, part, source.place(at..both));
                out.push_str("none");
                let path = &source.text[at + word.len()..end];
                let length = path.find(|c: char| not_in_word(c) && !matches!(c, '.' | '[' | ']')).unwrap_or(path.len());
                return at + word.len() + length;
            }
        }
        both
    }

    /// The word at the start; an id may have hyphens.
    fn split_word<'t>(&self, rest: &'t str) -> (&'t str, &'t str) {
        let hyphened = rest.find(|c: char| not_in_word(c) && c != '-').unwrap_or(rest.len());
        let length = match self.ids.contains_key(&rest[..hyphened]) {
            true => hyphened,
            false => rest.find(not_in_word).unwrap_or(rest.len()),
        };
        rest.split_at(length)
    }

    fn unknown(&mut self, word: &str, part: Option<&str>, span: Span) {
        let (message, help) = if self.ids.contains_key(word) {
            let part = part.map(|part| format!(".{part}")).unwrap_or_default();
            let help = format!("what it gave is `{{{{{word}.output{part}}}}}`");
            (format!("`{word}` is a node, and `{word}{part}` is nothing of it"), help)
        } else if matches!(word, "workflow" | "loop") {
            let known = "`workflow.input`, `workflow.name`, `loop.current_item`, `loop.current_index` and \
                         `loop.iteration_count`";
            (format!("`{word}.{}` is not known", part.unwrap_or_default()), format!("there are {known}"))
        } else {
            (format!("no node is called `{word}`"), self.near(word))
        };
        self.problems.push(Problem::error(span, message).help(help));
    }

    pub fn near(&mut self, word: &str) -> String {
        self.searches = self.searches.saturating_sub(1);
        let ids = self.ids.keys().map(String::as_str).filter(|_| self.searches > 0);
        match nearest(word, ids) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "nodes are named by their ids, such as `{{extract.output.name}}`; text stands in quotes".to_owned(),
        }
    }
}

fn goes_on(rest: &str) -> bool {
    rest.chars().next().is_some_and(|letter| !not_in_word(letter))
}

enum Piece {
    Text(String),
    Code(String),
}

impl Piece {
    fn is_empty(&self) -> bool {
        matches!(self, Piece::Text(text) if text.is_empty())
    }

    fn in_template(&self) -> String {
        match self {
            Piece::Text(text) => escaped(text),
            Piece::Code(code) => format!("{{{{ {code} }}}}"),
        }
    }

    fn in_expression(&self) -> String {
        match self {
            Piece::Text(text) => crate::values::quote(text),
            Piece::Code(code) => format!("({code})"),
        }
    }
}

/// What stands before a word: after a dot, a `|` or an `is` it is no name of a value.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Name,
    Other,
}

impl Before {
    fn past(self, letter: char) -> Before {
        match letter {
            '.' | '|' => Before::Name,
            letter if letter.is_whitespace() => self,
            _ => Before::Other,
        }
    }

    fn after(word: &str, before: Before) -> Before {
        match word {
            "is" => Before::Name,
            "not" => before,
            _ => Before::Other,
        }
    }
}

fn copied(out: &mut String, word: &str, end: usize) -> usize {
    out.push_str(word);
    end
}

fn not_in_word(letter: char) -> bool {
    !(letter.is_alphanumeric() || letter == '_')
}

/// Where the braces that were opened before are closed, texts in quotes passed over.
fn closing(text: &str, from: usize) -> Option<usize> {
    let mut quote = None;
    let mut letters = text[from..].char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (None, '}') if text[from + at..].starts_with("}}") => return Some(from + at),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

/// `a if a is defined and a is not none else (b if …)`: what an input does not have counts as null.
fn coalesced(operands: &[String]) -> String {
    let Some((last, first)) = operands.split_last() else { return "none".to_owned() };
    let chosen = |rest: String, operand: &String| {
        format!("({operand} if {operand} is defined and {operand} is not none else {rest})")
    };
    first.iter().rev().fold(last.clone(), chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let ids = ["extract", "validate-it", "loop", "input"];
        Names::new(ids.iter().enumerate().map(|(at, id)| ((*id).to_owned(), at)).collect())
    }

    fn node(text: &str) -> Node {
        Node { span: Span::new(10, 10 + text.len()), data: Data::Scalar(Value::from(text)) }
    }

    #[test]
    fn conditions_keep_everything_but_the_names() {
        let check = |text: &str, expected: &str| {
            let mut names = names();
            assert_eq!(names.expression(&node(text)).source(), expected, "{text}");
            assert_eq!(names.problems, [], "{text}");
        };
        check("{{extract.output.is_valid}} == true", "{{steps.extract.output.is_valid}} == true");
        check("{{ extract.output.n }} > 100", "{{ steps.extract.output.n }} > 100");
        check("{{extract.output.ok}}", "steps.extract.output.ok");
        check("'{{workflow.input.p}}' == 'express'", "'{{input.p}}' == 'express'");
        check(
            "{{extract.output.s}} == \"it's extract.output.x\"",
            "{{steps.extract.output.s}} == \"it's extract.output.x\"",
        );
        check("{{validate-it.output.x}} - 1 > 0", "{{steps[\"validate-it\"].output.x}} - 1 > 0");
        check(
            "not {{extract.output.a}} and {{extract.output.b}} is not none",
            "not {{steps.extract.output.a}} and {{steps.extract.output.b}} is not none",
        );
        check("{{extract.output.items | length}} >= 2", "{{steps.extract.output.items | length}} >= 2");
        check("{{extract.output.items[0].extract}} == 'x'", "{{steps.extract.output.items[0].extract}} == 'x'");
        check("{{loop.output.x}} == {{loop.current_index}}", "{{steps.loop.output.x}} == {{loop.current_index}}");
        check("{{input.a}} == {{input.output.a}}", "{{input.a}} == {{steps.input.output.a}}");
        check("{{_map_item.a}} != {{_map_index}}", "{{item.a}} != {{index}}");
    }

    #[test]
    fn values_keep_their_type_and_text_its_braces() {
        let check = |text: &str, expected: Template| {
            let mut names = names();
            let got = names.value(&node(text));
            assert_eq!((format!("{got:?}"), names.problems), (format!("{expected:?}"), Vec::new()), "{text}");
        };
        let span = |text: &str| Span::new(10, 10 + text.len());
        let reference = |text: &str, source: &str| Template::Ref(Expr::new(source, span(text)));
        check("{{extract.output.x}}", reference("{{extract.output.x}}", "steps.extract.output.x"));
        check(" {{loop.current_item}} ", reference(" {{loop.current_item}} ", "item"));
        check("{% raw %} {# x #}", Template::plain("{% raw %} {# x #}", Span::default()));
        let mixed = names().value(&node("{% a: {{extract.output.x}}!"));
        assert_eq!(
            serde_json::to_value(&mixed).unwrap_or_default()["text"],
            "{{ '{' }}% a: {{ steps.extract.output.x }}!"
        );
    }

    #[test]
    fn what_is_not_there_is_named_with_its_place() {
        let check = |text: &str, marked: &str, message: &str, help: &str| {
            let mut names = names();
            names.value(&node(text));
            let problem = &names.problems[0];
            let place = &text[problem.span.start as usize - 10..problem.span.end as usize - 10];
            assert_eq!((place, problem.message.as_str()), (marked, message));
            assert!(problem.help.as_deref().unwrap_or_default().contains(help), "{problem:?}");
        };
        check("a {{extrat.output.x}}", "extrat.output", "no node is called `extrat`", "`extract`");
        check(
            "{{extract.name}}",
            "extract.name",
            "`extract` is a node, and `extract.name` is nothing of it",
            "{{extract.output.name}}",
        );
        check("{{workflow.inputs.x}}", "workflow.inputs", "`workflow.inputs` is not known", "workflow.input");
        check("{{extract.output.x", "{{extract.output.x", "`{{` is not closed", "{{node");
    }

    #[test]
    fn operators_become_expressions() {
        let check = |operands: &[&str], word: &str, expected: &str| {
            let items = operands.iter().map(|text| node(text)).collect();
            let operator = Node { span: Span::default(), data: Data::List(items) };
            let Template::Ref(expr) = names().operator(word, &operator) else { return assert_eq!(word, expected) };
            assert_eq!(expr.source(), expected);
        };
        let (a, b) = ("{{extract.output.a}}", "{{input.b}}");
        check(
            &[a, b],
            "coalesce",
            "(((steps.extract.output.a)) if ((steps.extract.output.a)) is defined and ((steps.extract.output.a)) is not none \
             else ((input.b)))",
        );
        check(&["ID-", a], "concat", "'' ~ (\"ID-\") ~ ((steps.extract.output.a))");
        check(&["x {{input.b}}"], "concat", "'' ~ (\"x \" ~ (input.b))");
    }
}
