//! What is wrong with a file: message, place, and the fix. All problems of a file are shown at once.
//!
//! It owns how problems look. It knows nothing of what they are about.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::{Deserialize, Serialize};

use crate::text::{one_line, visible};

/// Byte range in the source text; `0..0` means the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub message: String,
    pub span: Span,
    /// What would be right: the nearest name, the allowed forms.
    pub help: Option<String>,
}

pub type Problems = Vec<Problem>;

/// The text that spans point into.
#[derive(Debug, Clone)]
pub struct Source {
    pub name: String,
    pub text: String,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }
}

impl Problem {
    pub fn error(span: Span, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Error, message: message.into(), span, help: None }
    }

    pub fn warning(span: Span, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(span, message) }
    }

    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }
}

/// The known name that is nearest to what was written, if any is near enough.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written: Vec<char> = written.chars().take(MAX_NAME_CHARS).flat_map(char::to_lowercase).collect();
    let allowed = (written.len() / 3).max(1);
    let mut best: Option<(usize, &'a str)> = None;
    for name in known {
        let letters: Vec<char> = name.chars().take(MAX_NAME_CHARS).flat_map(char::to_lowercase).collect();
        if letters.len().abs_diff(written.len()) > allowed {
            continue;
        }
        let distance = distance(&written, &letters);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Finds near names, within bounds: a file of unknown names would otherwise cost each of them a look at all others.
pub(crate) struct Suggestions {
    left: u32,
}

/// Nobody reads further than this before mending the first mistakes.
pub(crate) const MAX_SUGGESTIONS: u32 = 50;

impl Default for Suggestions {
    fn default() -> Suggestions {
        Suggestions { left: MAX_SUGGESTIONS }
    }
}

impl Suggestions {
    pub fn nearest<'a>(&mut self, written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        nearest(written, known)
    }
}

pub fn has_errors(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Error)
}

/// How many problems are drawn, and of how much text around one.
const MAX_DRAWN: usize = 50;
const MAX_DRAWN_BYTES: usize = 8 * 1024;
const BYTES_AROUND: usize = 200;

fn most_telling(problems: &[Problem]) -> Vec<&Problem> {
    let mut drawn: Vec<&Problem> = problems.iter().collect();
    if drawn.len() > MAX_DRAWN {
        drawn.sort_by_key(|problem| problem.severity == Severity::Warning);
        drawn.truncate(MAX_DRAWN);
    }
    drawn
}

/// Names are short; the bound keeps the quadratic distance cheap for text that is not a name.
const MAX_NAME_CHARS: usize = 128;

/// Damerau-Levenshtein (restricted): inserting, leaving out, changing a letter and swapping two neighbours cost one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

impl Source {
    /// 1-based line and column (in characters) of a byte offset.
    pub fn position(&self, offset: u32) -> (usize, usize) {
        self.moved((1, 1), 0..self.boundary(offset))
    }

    /// The positions of many offsets, in their order. The text is read once, not once for each of them.
    pub fn positions(&self, offsets: &[u32]) -> Vec<(usize, usize)> {
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        order.sort_unstable_by_key(|&index| offsets[index]);
        let mut found = vec![(1, 1); offsets.len()];
        let (mut place, mut read) = ((1, 1), 0);
        for index in order {
            let end = self.boundary(offsets[index]);
            place = self.moved(place, read..end);
            read = end;
            found[index] = place;
        }
        found
    }

    /// The position behind a stretch of text that begins at one.
    fn moved(&self, (line, column): (usize, usize), stretch: Range<usize>) -> (usize, usize) {
        let text = &self.text[stretch];
        match text.rfind('\n') {
            Some(end) => (line + text.matches('\n').count(), text[end + 1..].chars().count() + 1),
            None => (line, column + text.chars().count()),
        }
    }

    /// The problems as a person reads them, with the offending text marked. Of very many only the first are drawn,
    /// errors before warnings: nobody reads on, and drawing costs time. What the file says cannot steer a terminal: if
    /// there are control characters in it, they are our colours.
    pub fn render(&self, problems: &[Problem], color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let drawn = most_telling(problems);
        let left = problems.len() - drawn.len();
        let mut shown: Vec<String> = drawn.into_iter().map(|p| renderer.render(&self.report(p))).collect();
        if left > 0 {
            shown.push(format!("and {left} more"));
        }
        let mut text = shown.join("\n\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    fn report<'p>(&'p self, problem: &'p Problem) -> Vec<Group<'p>> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = if problem.span == Span::default() {
            Group::with_title(level.primary_title(visible(&format!("{}: {}", self.name, problem.message)).into_owned()))
        } else {
            self.snippet(level, problem)
        };
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(visible(help)));
        }
        vec![group]
    }

    /// The lines of the span. Where that is too much, what is around its beginning, with the place in the title.
    fn snippet<'p>(&'p self, level: Level<'p>, problem: &'p Problem) -> Group<'p> {
        let marked = self.range(problem.span);
        let (line, column) = self.position(problem.span.start);
        let lines = self.line_start(marked.start)..self.line_end(marked.end);
        let snippet = |text: &Range<usize>, marked: Range<usize>| {
            let mark = AnnotationKind::Primary.span(marked.start - text.start..marked.end - text.start);
            Snippet::source(&self.text[text.clone()]).line_start(line).annotation(mark)
        };
        if lines.len() <= MAX_DRAWN_BYTES {
            let title = level.primary_title(visible(&problem.message));
            return title.element(snippet(&lines, marked).path(one_line(&self.name)));
        }
        let from = self.text.ceil_char_boundary(marked.start.saturating_sub(BYTES_AROUND)).max(lines.start);
        let to = self.text.floor_char_boundary(marked.start + BYTES_AROUND).min(self.line_end(marked.start));
        let marked = marked.start..marked.end.min(to);
        let title = format!("{}:{line}:{column}: {}", self.name, problem.message);
        level.primary_title(visible(&title).into_owned()).element(snippet(&(from..to), marked))
    }

    fn line_start(&self, offset: usize) -> usize {
        self.text[..offset].rfind('\n').map_or(0, |end| end + 1)
    }

    fn line_end(&self, offset: usize) -> usize {
        self.text[offset..].find('\n').map_or(self.text.len(), |more| offset + more)
    }

    /// The span as a range of whole characters inside the text, without the line ends after it.
    fn range(&self, span: Span) -> Range<usize> {
        let start = self.boundary(span.start);
        let end = self.boundary(span.end.max(span.start));
        let kept = self.text[start..end].trim_end_matches(['\n', '\r', ' ']).len();
        start..if kept > 0 { start + kept } else { end }
    }

    /// The offset, moved back to the start of the character it falls into.
    fn boundary(&self, offset: u32) -> usize {
        self.text.floor_char_boundary(offset as usize)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["steps", "input", "item", "index", "previous"];
        for (written, expected) in [
            ("stpes", Some("steps")),
            ("step", Some("steps")),
            ("Input", Some("input")),
            ("inptu", Some("input")),
            ("itm", Some("item")),
            ("prevoius", Some("previous")),
            ("banana", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
        assert_eq!(nearest("ab", ["ac", "ad"]), Some("ac"), "ties go by order");
    }

    #[test]
    fn positions_count_characters() {
        let source = Source { name: "f".into(), text: "é: ü\nname: ß x\n".into() };
        for (offset, expected) in [(0, (1, 1)), (2, (1, 2)), (7, (2, 1)), (13, (2, 7)), (14, (2, 7)), (999, (3, 1))] {
            assert_eq!(source.position(offset), expected, "{offset}");
        }
        let offsets = [13, 0, 999, 7, 7, 14, 2];
        assert_eq!(source.positions(&offsets), offsets.map(|offset| source.position(offset)));
    }

    #[test]
    fn a_problem_shows_place_mark_and_help() {
        let source = Source { name: "flow.yaml".into(), text: "name: ü\nsteps:\n  - agnet: x\n".into() };
        let at = source.text.find("agnet").unwrap();
        let problem = Problem::error(Span::new(at, at + 5), "unknown field `agnet`").help("did you mean `agent`?");
        let text = source.render(&[problem], false);
        for part in ["error: unknown field `agnet`", "flow.yaml:3:5", "^^^^^", "help: did you mean `agent`?"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_problem_of_the_whole_file_has_no_snippet() {
        let source = Source { name: "flow.yaml".into(), text: "name: x\n".into() };
        let text = source.render(&[Problem::warning(Span::default(), "no steps")], false);
        assert_eq!(text, "warning: flow.yaml: no steps\n");
        assert_eq!(source.render(&[], false), "");
    }

    #[test]
    fn of_very_many_problems_the_first_errors_are_drawn() {
        let source = Source { name: "f".into(), text: "steps: x\n".into() };
        let mut problems: Vec<Problem> = (0..60).map(|n| Problem::warning(Span::new(0, 5), format!("w{n}."))).collect();
        problems.extend((0..30).map(|n| Problem::error(Span::new(0, 5), format!("e{n}."))));
        let text = source.render(&problems, false);
        for (part, expected) in [("e0.", true), ("e29.", true), ("w19.", true), ("w20.", false)] {
            assert_eq!(text.contains(part), expected, "{part} in\n{text}");
        }
        assert!(text.ends_with("and 40 more\n"), "{text}");
        assert!(!source.render(&problems[..50], false).contains("more"));
    }

    #[test]
    fn of_a_very_long_line_the_part_around_the_mark_is_drawn() {
        let text = format!("a: 1\nb: [{}, wrong, {}]\nc: 2\n", "ü, ".repeat(100_000), "ü, ".repeat(100_000));
        let at = text.find("wrong").unwrap();
        let source = Source { name: "f".into(), text };
        let drawn = source.render(&[Problem::error(Span::new(at, at + 5), "m")], false);
        for part in ["f:2:300007", "2 |", "wrong", "^^^^^"] {
            assert!(drawn.contains(part), "{part} in\n{drawn}");
        }
        assert!(drawn.len() < 1_000, "{drawn}");
        let all = Problem::error(Span::new(5, source.text.len()), "m");
        assert!(source.render(&[all], false).len() < 1_000);
    }

    #[test]
    fn what_a_file_says_cannot_steer_a_terminal() {
        let evil = "\u{1b}]52;c;x\u{7}\u{202e}";
        let source = Source { name: format!("{evil}.yaml"), text: format!("name: {evil}\r\n") };
        for span in [Span::default(), Span::new(0, 4), Span::new(6, 20)] {
            let problem = Problem::error(span, format!("bad {evil}")).help(format!("not {evil}"));
            let text = source.render(&[problem], false);
            assert!(text.chars().all(|c| c == '\n' || crate::text::is_name(&c.to_string())), "{text:?}");
        }
    }

    #[test]
    fn any_span_renders() {
        let source = Source { name: "f".into(), text: "ü\n".into() };
        for (start, end) in [(0, 1), (1, 1), (1, 3), (3, 3), (3, 9), (9, 2)] {
            assert!(source.render(&[Problem::error(Span::new(start, end), "m")], true).contains('m'));
        }
    }
}
