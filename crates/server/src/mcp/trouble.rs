//! Errors of the service in the words that let a model repair its call: what is wrong, where, and what there is instead.

use relais_mcp::serving::Trouble;
use relais_plan::Severity;
use relais_plan::path::{self, Segment};
use relais_plan::problem::nearest;
use relais_service::{Error, Filter, Finding, WorkflowList};

use super::Guest;

/// Names that an error lists; whoever has more asks for the list.
const SHOWN: usize = 20;
/// Mistakes of a definition that are told at once; mending these shows the others.
const FINDINGS: usize = 50;

/// How places in a definition are told to who gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// It was given as text: by line and column.
    Text,
    /// It was given as JSON, at this JSON pointer of the arguments: by JSON pointers into them.
    Below(&'static str),
}

impl Place {
    /// Where it is, in the words of who gave it.
    pub fn of(self, finding: &Finding) -> Option<String> {
        match self {
            Place::Text => {
                finding.line.zip(finding.column).map(|(line, column)| format!("line {line}, column {column}"))
            }
            Place::Below(prefix) => self.pointer(finding).filter(|pointer| !pointer.is_empty() || !prefix.is_empty()),
        }
    }

    /// The JSON pointer into the arguments; none where they hold a text.
    pub fn pointer(self, finding: &Finding) -> Option<String> {
        let Place::Below(prefix) = self else { return None };
        let mut segments = finding.path.as_deref().map(path::parse).and_then(Result::ok).unwrap_or_default();
        // In a text a whole step is shown at its id; what is wrong with it is seldom that.
        segments.pop_if(|last| *last == Segment::Key("id".into()));
        Some(format!("{prefix}{}", pointer(&segments)))
    }
}

/// A path as a JSON pointer.
pub fn pointer(segments: &[Segment]) -> String {
    let part = |segment: &Segment| match segment {
        Segment::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Index(index) => format!("/{index}"),
    };
    segments.iter().map(part).collect()
}

pub fn trouble(error: Error) -> Trouble {
    trouble_in(Place::Text)(error)
}

/// Of what was given there.
pub fn trouble_in(place: Place) -> impl Fn(Error) -> Trouble {
    move |error| match error {
        Error::NotFound(text) => Trouble::NotFound(text),
        Error::Findings(found) => Trouble::Invalid(findings(&found, |finding| place.of(finding))),
        Error::Busy(text) => Trouble::Internal(format!("{text}; nothing was done, call again")),
        Error::Unusable(text) => Trouble::Internal(text),
        Error::Stale(text) => Trouble::Invalid(format!("{text}; nothing was done")),
        Error::Invalid(text) | Error::Conflict(text) | Error::Unauthorized(text) | Error::Forbidden(text) => {
            Trouble::Invalid(text)
        }
        error @ Error::TooMany { .. } => Trouble::Invalid(error.to_string()),
    }
}

/// A line for each mistake; `place` says where it is.
pub fn findings(found: &[Finding], place: impl Fn(&Finding) -> Option<String>) -> String {
    let told = found.iter().take(FINDINGS).map(|finding| format!("- {}", line(finding, place(finding))));
    let lines: Vec<String> = told.collect();
    let rest = found.len().saturating_sub(FINDINGS);
    let more = if rest > 0 { format!("\n- and {rest} more") } else { String::new() };
    format!("It cannot be used as it is:\n{}{more}", lines.join("\n"))
}

fn line(finding: &Finding, place: Option<String>) -> String {
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    let ended = |text: &str| if text.ends_with(['?', '.']) { text.to_owned() } else { format!("{text}.") };
    let help = finding.help.as_ref().map(|help| format!(" Help: {}", ended(help))).unwrap_or_default();
    format!("{}{place}{}{help}", word(finding.severity), ended(&finding.message))
}

pub fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
    }
}

impl Guest {
    /// What was not found, and what there is.
    pub async fn missing_workflow(&self, wanted: &str, error: Error) -> Trouble {
        let Error::NotFound(text) = error else { return trouble(error) };
        let list = WorkflowList { limit: SHOWN, ..WorkflowList::default() };
        let Ok((found, next)) = self.service.workflows(list).await else { return Trouble::NotFound(text) };
        let names: Vec<String> = found.iter().map(|at| format!("`{}` ({})", at.it.name, at.it.id)).collect();
        let near = nearest(wanted, found.iter().map(|at| at.it.name.as_str()));
        Trouble::NotFound(instead(&text, near, &names, next.is_some(), "create_workflow makes one", "list_workflows"))
    }

    pub async fn missing_run(&self, error: Error) -> Trouble {
        let Error::NotFound(text) = error else { return trouble(error) };
        let Ok(page) = self.service.runs(Filter { limit: SHOWN, ..Filter::default() }).await else {
            return Trouble::NotFound(text);
        };
        let said = |row: &relais_service::Row| {
            let summary = &row.summary;
            format!("{} ({}, {})", summary.run, summary.workflow, summary.status.word())
        };
        let names: Vec<String> = page.rows.iter().map(said).collect();
        let text = text.replace("`relais runs` lists them", "list_runs lists them");
        Trouble::NotFound(instead(&text, None, &names, page.cursor.is_some(), "run_workflow starts one", "list_runs"))
    }
}

/// `list` is the tool that lists them all.
pub fn instead(text: &str, near: Option<&str>, names: &[String], has_more: bool, none: &str, list: &str) -> String {
    let near = near.map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
    let more = if has_more { format!(", and more that {list} lists") } else { String::new() };
    match names {
        [] => format!("{text}. There is none yet; {none}."),
        names => format!("{text}.{near} There are: {}{more}.", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use relais_plan::Span;

    use super::*;

    #[test]
    fn places_are_those_of_who_gave_it() {
        let found = |path: Option<&str>, help: &str| Finding {
            severity: Severity::Error,
            line: Some(7),
            column: Some(3),
            span: Span::default(),
            path: path.map(str::to_owned),
            message: "there is no `x`".into(),
            help: Some(help.into()),
        };
        let check = |place: Place, path: Option<&str>, expected: &str| {
            assert_eq!(line(&found(path, "try y"), place.of(&found(path, ""))), expected);
        };
        check(Place::Text, None, "line 7, column 3: there is no `x`. Help: try y.");
        check(
            Place::Below(""),
            Some("nodes[0].config.agentId"),
            "/nodes/0/config/agentId: there is no `x`. Help: try y.",
        );
        check(Place::Below("/definition"), Some("steps[1].id"), "/definition/steps/1: there is no `x`. Help: try y.");
        check(
            Place::Below("/definition"),
            Some("a['b/c~'].d"),
            "/definition/a/b~1c~0/d: there is no `x`. Help: try y.",
        );
        check(Place::Below("/definition"), None, "/definition: there is no `x`. Help: try y.");
        check(Place::Below(""), None, "there is no `x`. Help: try y.");
        assert!(line(&found(None, "did you mean `y`?"), None).ends_with("`y`?"));
    }
}
