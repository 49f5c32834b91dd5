//! What is wrong with a file: message, place, and the fix. All problems of a file are shown at once.

use serde::{Deserialize, Serialize};

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
pub fn nearest<'a>(_written: &str, _known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    None
}

pub fn has_errors(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Error)
}

impl Source {
    /// 1-based line and column (in characters) of a byte offset.
    pub fn position(&self, offset: u32) -> (usize, usize) {
        let before = &self.text[..(offset as usize).min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }

    /// The problems as a person reads them, with the offending text marked.
    pub fn render(&self, _problems: &[Problem], _color: bool) -> String {
        String::new()
    }
}
