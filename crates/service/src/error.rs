//! The kinds that cross layers: the caller's mistake, who is not known, what is not there or not allowed, another's
//! change, and our own trouble.

use std::path::Path;

use relais_engine::{ErrorKind, Failure};
use relais_plan::{Problem, Severity, Source, Span};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something the caller wrote; the text says what would be right.
    #[error("{0}")]
    Invalid(String),
    /// A definition that cannot be used, with each mistake in it.
    #[error("{}", told(.0))]
    Findings(Vec<Finding>),
    #[error("{0}")]
    NotFound(String),
    /// Somebody else is at it.
    #[error("{0}")]
    Conflict(String),
    /// It was changed since the caller read it.
    #[error("{0}")]
    Stale(String),
    /// Nobody knows who asks.
    #[error("{0}")]
    Unauthorized(String),
    #[error("Too many wrong tries came from this address; try again in {} s.", retry_after_ms.div_ceil(1_000))]
    TooMany { retry_after_ms: u64 },
    /// The caller may not do this, whoever it belongs to.
    #[error("{0}")]
    Forbidden(String),
    /// The database, or whoever issues JWTs, is out of reach for now; nothing was done, the same may be asked again.
    #[error("{0}")]
    Busy(String),
    /// The database or the machine; the text says what to do.
    #[error("{0}")]
    Unusable(String),
}

/// One thing that is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// From 1; none where the text as a whole is meant.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The same as bytes of the text.
    pub span: Span,
    /// Where it is in a JSON text: `steps[0].agent`.
    pub path: Option<String>,
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Finding {
    pub(crate) fn all(source: &Source, problems: &[Problem]) -> Vec<Finding> {
        let paths = relais_dialects::Paths::of(source);
        let places = source.positions(&problems.iter().map(|problem| problem.span.start).collect::<Vec<u32>>());
        problems.iter().zip(places).map(|(problem, place)| Finding::new(place, &paths, problem)).collect()
    }

    fn new(place: (usize, usize), paths: &relais_dialects::Paths, problem: &Problem) -> Finding {
        let place = (problem.span != Span::default()).then_some(place);
        Finding {
            severity: problem.severity,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            span: problem.span,
            path: place.and_then(|_| paths.at(problem.span.start)),
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }

    fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Mistakes that one message tells; the list has them all.
const MAX_TOLD: usize = 5;

fn told(findings: &[Finding]) -> String {
    let errors: Vec<&Finding> = findings.iter().filter(|finding| finding.is_error()).collect();
    let mut lines: Vec<String> = errors.iter().take(MAX_TOLD).map(|finding| line(finding)).collect();
    if errors.len() > MAX_TOLD {
        lines.push(format!("and {} more", errors.len() - MAX_TOLD));
    }
    format!("the definition has errors: {}", lines.join("; "))
}

fn line(finding: &Finding) -> String {
    let place = finding.line.zip(finding.column);
    let place = place.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{place}{}{help}", finding.message)
}

impl Error {
    /// A word that stays the same, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Invalid(_) | Error::Findings(_) => "invalid",
            Error::NotFound(_) => "not_found",
            Error::Conflict(_) => "conflict",
            Error::Stale(_) => "stale",
            Error::Unauthorized(_) => "unauthorized",
            Error::TooMany { .. } => "too_many",
            Error::Forbidden(_) => "forbidden",
            Error::Busy(_) => "busy",
            Error::Unusable(_) => "unusable",
        }
    }

    pub fn folder(path: &Path, error: &std::io::Error) -> Error {
        let text = "choose another folder with RELAIS_HOME, or mend its permissions";
        Error::Unusable(format!("the folder {} cannot be used: {error}; {text}", path.display()))
    }
}

impl From<relais_store::Error> for Error {
    fn from(error: relais_store::Error) -> Error {
        match error {
            relais_store::Error::NotFound(what) => Error::NotFound(format!("there is no {what}")),
            relais_store::Error::Conflict { .. } => Error::Conflict(error.to_string()),
            relais_store::Error::Busy(_) | relais_store::Error::OutOfReach(_) => Error::Busy(error.to_string()),
            relais_store::Error::Unusable(_) | relais_store::Error::Internal(_) => Error::Unusable(error.to_string()),
            relais_store::Error::Changed(_) => Error::Stale(error.to_string()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure.kind {
            ErrorKind::Internal => Error::Unusable(failure.message),
            _ => Error::Invalid(failure.message),
        }
    }
}
