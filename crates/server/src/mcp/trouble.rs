//! Errors of the service in the words that let a model repair its call: what is wrong, where, and what there is instead.

use relais_mcp::serving::Trouble;
use relais_plan::Severity;
use relais_plan::problem::nearest;
use relais_service::{Error, Filter, Finding, WorkflowList};

use super::Guest;

/// Names that an error lists; whoever has more asks for the list.
const SHOWN: usize = 20;
/// Mistakes of a definition that are told at once; mending these shows the others.
const FINDINGS: usize = 50;

pub fn trouble(error: Error) -> Trouble {
    match error {
        Error::NotFound(text) => Trouble::NotFound(text),
        Error::Findings(found) => Trouble::Invalid(findings(&found)),
        Error::Busy(text) => Trouble::Internal(format!("{text}; nothing was done, call again")),
        Error::Unusable(text) => Trouble::Internal(text),
        Error::Stale(text) => Trouble::Invalid(format!("{text}; nothing was done")),
        Error::Invalid(text) | Error::Conflict(text) | Error::Unauthorized(text) | Error::Forbidden(text) => {
            Trouble::Invalid(text)
        }
        error @ Error::TooMany { .. } => Trouble::Invalid(error.to_string()),
    }
}

/// A line for each mistake.
pub fn findings(found: &[Finding]) -> String {
    let lines: Vec<String> = found.iter().take(FINDINGS).map(|finding| format!("- {}", line(finding))).collect();
    let rest = found.len().saturating_sub(FINDINGS);
    let more = if rest > 0 { format!("\n- and {rest} more") } else { String::new() };
    format!("It cannot be used as it is:\n{}{more}", lines.join("\n"))
}

fn line(finding: &Finding) -> String {
    let place = finding.line.zip(finding.column);
    let place = place.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
    let help = finding.help.as_ref().map(|help| format!(" Help: {help}.")).unwrap_or_default();
    format!("{}{place}{}.{help}", word(finding.severity), finding.message.trim_end_matches('.'))
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
