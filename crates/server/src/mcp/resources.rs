//! What is to be read whole: the native format (`relais://format`, `relais://schema`), runs (`relais://runs/{id}`) and
//! definitions (`relais://workflows/{id}`).

use relais_mcp::serving::{Contents, Page, Resource, ResourceTemplate, Trouble};
use relais_service::{Filter, Format, Row, Workflow, WorkflowList, guide};
use serde_json::Value;

use super::Guest;
use super::trouble::trouble;

const RUNS: &str = "relais://runs/";
const WORKFLOWS: &str = "relais://workflows/";
const FORMAT: &str = "relais://format";
const SCHEMA: &str = "relais://schema";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
const YAML: &str = "application/yaml";
/// Workflows on a page of the list.
const PAGE: usize = 100;
/// Runs in the list: the newest. Every other is read by its id.
const RUNS_LISTED: usize = 50;

/// The format, the newest runs, then all workflows in pages.
pub async fn list(guest: &Guest, cursor: Option<String>) -> Result<Page<Resource>, Trouble> {
    let mut items = Vec::new();
    if cursor.is_none() {
        items.extend(documents());
        let page = guest.service.runs(Filter { limit: RUNS_LISTED, ..Filter::default() }).await.map_err(trouble)?;
        items.extend(page.rows.iter().map(run));
    }
    let list = WorkflowList { after: cursor, limit: PAGE, ..WorkflowList::default() };
    let (found, next) = guest.service.workflows(list).await.map_err(trouble)?;
    items.extend(found.iter().map(|at| workflow(&at.it)));
    Ok(Page { items, next })
}

/// What there is to know before a workflow is written.
fn documents() -> [Resource; 2] {
    let document = |uri: &str, name: &str, description: &str, mime_type: &str| Resource {
        uri: uri.into(),
        name: name.into(),
        description: description.into(),
        mime_type: mime_type.into(),
    };
    let about = "How a workflow is written in the native format: every key, every kind of step with an example.";
    [
        document(FORMAT, "The workflow format", about, MARKDOWN),
        document(SCHEMA, "The JSON Schema of the workflow format", "The same for programs.", JSON),
    ]
}

fn run(row: &Row) -> Resource {
    let summary = &row.summary;
    Resource {
        uri: format!("{RUNS}{}", summary.run),
        name: format!("Run of {}", summary.workflow),
        description: format!("The trace of a run that is {}.", summary.status.word()),
        mime_type: JSON.into(),
    }
}

fn workflow(workflow: &Workflow) -> Resource {
    Resource {
        uri: format!("{WORKFLOWS}{}", workflow.id),
        name: workflow.name.clone(),
        description: format!("The definition, version {}. {}", workflow.version, workflow.description),
        mime_type: YAML.into(),
    }
}

pub fn templates() -> Vec<ResourceTemplate> {
    let template = |start: &str, name: &str, description: &str, mime_type: &str| ResourceTemplate {
        uri_template: format!("{start}{{id}}"),
        name: name.into(),
        description: description.into(),
        mime_type: mime_type.into(),
    };
    vec![
        template(RUNS, "run", "The whole trace of a run: every step, prompt, tool call, output, token and cost.", JSON),
        template(WORKFLOWS, "workflow", "The text of a workflow's newest version, by id, alias or name.", YAML),
    ]
}

pub async fn read(guest: &Guest, uri: &str) -> Result<Vec<Contents>, Trouble> {
    let contents =
        |mime_type: &str, text: String| vec![Contents { uri: uri.into(), mime_type: mime_type.into(), text }];
    match uri {
        FORMAT => return Ok(contents(MARKDOWN, guide::guide())),
        SCHEMA => return Ok(contents(JSON, format!("{:#}", guest.service.definition_schema()))),
        _ => {}
    }
    if let Some(id) = uri.strip_prefix(RUNS) {
        let run = guest.service.find_run(Some(id)).await.map_err(trouble)?;
        let trace = guest.service.view(run, Format::Native).await.map_err(trouble)?;
        return Ok(contents(JSON, format!("{trace:#}")));
    }
    if let Some(id) = uri.strip_prefix(WORKFLOWS) {
        let found = guest.service.find_workflow(id).await.map_err(trouble)?.it;
        let text = guest.service.definition_of(&found).await.map_err(trouble)?;
        let empty = || format!("The workflow `{}` is empty; update_workflow fills it.", found.name);
        let text = text.ok_or_else(|| Trouble::NotFound(empty()))?;
        let is_json = serde_json::from_str::<Value>(&text).is_ok();
        return Ok(contents(if is_json { JSON } else { YAML }, text));
    }
    let known = format!("{FORMAT}, {SCHEMA}, {RUNS}ID and {WORKFLOWS}ID");
    Err(Trouble::NotFound(format!("There is no `{uri}`; what can be read is {known}.")))
}
