//! Tools for workflows: made, changed, read, listed, checked.

use std::sync::LazyLock;

use relais_mcp::serving::{Given, Trouble};
use relais_service::access::Scope;
use relais_service::{
    At, Finding, NewWorkflow, Report, Tally, Workflow, WorkflowChange, WorkflowList, WorkflowStatus, guide,
};
use serde_json::{Map, Value, json};

use super::arguments::{Arguments, WORKFLOW};
use super::attend::Attended;
use super::definition::{self, Before, Said};
use super::render::given;
use super::tools::{Effect, Spec, limit, same_as, text, user_id};
use super::trouble::{self, Place, trouble, trouble_in};
use super::{Guest, published, schedules};
use crate::times::instant;

const WHERE: &str = "the id, alias or name of a workflow; list_workflows lists them";
const DEFAULT_LISTED: u64 = 50;

fn with_parts(own: Value) -> Value {
    let mut takes = match own {
        Value::Object(own) => own,
        _ => Map::new(),
    };
    takes.extend(definition::takes());
    Value::Object(takes)
}

/// With when it starts by itself.
fn timed(own: Value) -> Value {
    let mut takes = with_parts(own);
    if let Value::Object(takes) = &mut takes {
        takes.extend(definition::timing());
    }
    takes
}

pub fn create_spec() -> Spec {
    Spec {
        name: "create_workflow",
        title: "Create a workflow",
        about: "Creates a workflow and answers its id; starts nothing (run_workflow does). With `executors` it is a \
                chain: agents one after the other, each with model, tools, system_prompt and output_schema. With \
                `nodes` and `edges` it is a graph of agents that create_agent made. With `definition` it is a whole \
                file. With a name alone it is empty, to be filled by update_workflow. A schedule that is given starts \
                runs by itself.\n\
                Example: {\"name\": \"Price Monitor\", \"description\": \"Check prices\", \"executors\": [{\"executor_id\": \
                \"fetch\", \"name\": \"Fetcher\", \"model\": \"gpt-4o-mini\", \"tools\": [\"http_request\"], \
                \"system_prompt\": \"Find the price of a lamp.\", \"output_schema\": {\"price\": \"float\"}}]}",
        takes: timed(json!({
            "name": text("What people call it."),
            "description": text("What it does."),
            "workflow_id": text("An alias of your own, unique, accepted wherever the id is; may be left out."),
            "thread_id": text("The conversation that it was made in; may be left out."),
            "published": { "type": "boolean", "default": false, "description": "Offer it as a tool of its own, whose arguments are the workflow's input. The answer says under which name, as `tool`." },
            "user_id": user_id(),
        })),
        required: &["name"],
        scope: Scope::Write,
        effect: Effect::Adds,
    }
}

pub async fn create(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let kind = arguments.text(&["schedule_type"])?;
    let set = schedules::when(kind.as_deref().unwrap_or("immediate"), &mut arguments)?;
    if let Some(set) = &set {
        // Before anything is made.
        guest.service.preview_schedule(set).map_err(trouble)?;
    }
    let said = definition::said(&mut arguments, None)?;
    if set.is_some() && said.is_none() {
        let text = "There is nothing to schedule yet: give `executors`, `nodes` or a `definition`, too";
        return Err(Trouble::Invalid(format!("{text}, or call schedule_workflow later.")));
    }
    let (definition, place) = said.map_or((None, Place::Text), |said| (Some(said.written), said.place));
    let new = NewWorkflow {
        name: arguments.text(&["name"])?,
        description: arguments.text(&["description"])?,
        alias: arguments.text(&["workflow_id"])?,
        definition,
        published: arguments.flag("published").unwrap_or(false),
        thread_id: arguments.text(&["thread_id"])?.unwrap_or_default(),
        ..NewWorkflow::default()
    };
    let At { it: made, .. } = guest.service.create_workflow(new).await.map_err(trouble_in(place))?;
    if made.published {
        guest.tools_changed();
    }
    let mut content = json!({ "workflow_id": made.id, "id": made.id, "name": made.name, "version": made.version });
    let tool = published::name(guest, &made).await?;
    if let Some(tool) = &tool {
        content["tool"] = json!(tool);
    }
    if let Some(set) = set {
        let half = |error| format!("The workflow was made, its id is {}, but not scheduled: {error}", made.id);
        let timed = guest.service.schedule(&made.id.to_string(), set).await;
        content["schedule"] = schedules::shown(&timed.map_err(|error| Trouble::Internal(half(error)))?);
    }
    // The bare id, which goes into the next call as it is.
    let text = match tool {
        Some(tool) => format!("{}\nIt is offered as the tool `{tool}`.", made.id),
        None => made.id.to_string(),
    };
    Ok(Given { text, ..given(content) })
}

pub fn update_spec() -> Spec {
    Spec {
        name: "update_workflow",
        title: "Change a workflow",
        about: "Changes a workflow; what is left out stays as it is. `nodes` and `edges` replace all nodes and all \
                edges, so read them with get_workflow first when one is to be added. A changed definition is a new \
                version; runs that are going keep theirs. Answers the workflow as get_workflow does.\n\
                Example: {\"id\": \"Two friends\", \"nodes\": [{\"id\": \"a1\", \"type\": \"agent\", \"config\": \
                {\"agentId\": \"Anna\"}}, {\"id\": \"a2\", \"type\": \"agent\", \"config\": {\"agentId\": \"Ben\"}}], \
                \"edges\": [{\"id\": \"e1\", \"from\": \"a1\", \"to\": \"a2\"}, {\"id\": \"e2\", \"from\": \"a2\", \
                \"to\": \"a1\"}], \"maxRounds\": 10}",
        takes: with_parts(json!({
            "id": text("Id, alias or name of the workflow."),
            "workflowId": same_as("id"),
            "workflow_id": same_as("id"),
            "name": text("A new name."),
            "description": text("A new description."),
            "status": { "enum": ["active", "paused", "archived"], "description": "paused: schedules do not fire. archived: hidden and not runnable." },
            "published": { "type": "boolean", "description": "Offer it as a tool of its own, whose arguments are the workflow's input. The answer says under which name, as `tool`." },
            "user_id": user_id(),
        })),
        required: &[],
        scope: Scope::Write,
        effect: Effect::Sets,
    }
}

pub async fn update(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let At { it: workflow, revision } = guest.wanted_workflow(&mut arguments).await?;
    let before = guest.before(&workflow).await?;
    let said = definition::said(&mut arguments, before.as_ref())?;
    let (definition, place) = said.map_or((None, Place::Text), |said| (Some(said.written), said.place));
    let change = WorkflowChange {
        definition,
        name: arguments.text(&["name"])?,
        description: arguments.text(&["description"])?,
        status: arguments.text(&["status"])?.as_deref().and_then(status),
        published: arguments.flag("published"),
        alias: None,
    };
    let id = workflow.id.to_string();
    let changed = guest.service.update_workflow(&id, change, Some(vec![revision])).await.map_err(trouble_in(place))?;
    if changed.it.published || workflow.published {
        guest.tools_changed();
    }
    whole(guest, changed).await
}

const STATUSES: [(&str, WorkflowStatus); 3] =
    [("active", WorkflowStatus::Active), ("paused", WorkflowStatus::Paused), ("archived", WorkflowStatus::Archived)];

fn status(word: &str) -> Option<WorkflowStatus> {
    STATUSES.into_iter().find(|(known, _)| *known == word).map(|(_, status)| status)
}

fn status_word(status: WorkflowStatus) -> &'static str {
    match status {
        WorkflowStatus::Active => "active",
        WorkflowStatus::Paused => "paused",
        WorkflowStatus::Archived => "archived",
    }
}

impl Guest {
    /// A workflow by id, alias or name; if there is none, what there is.
    pub async fn workflow(&self, text: &str) -> Result<At<Workflow>, Trouble> {
        match self.service.find_workflow(text).await {
            Ok(found) => Ok(found),
            Err(error) => Err(self.missing_workflow(text, error).await),
        }
    }

    pub async fn wanted_workflow(&self, arguments: &mut Arguments) -> Result<At<Workflow>, Trouble> {
        let text = arguments.must(WORKFLOW, WHERE)?;
        self.workflow(&text).await
    }

    async fn before(&self, workflow: &Workflow) -> Result<Option<Before>, Trouble> {
        let text = self.service.definition_of(workflow).await.map_err(trouble)?;
        Ok(text.map(|text| Before { text, format: workflow.format.clone().unwrap_or_default() }))
    }
}

pub fn get_spec() -> Spec {
    Spec {
        name: "get_workflow",
        title: "Read a workflow",
        about: "Shows one workflow with what it does: `nodes`, `edges`, `maxRounds`, `branches` of a graph, `executors` \
                of a chain, else the text as `definition`; also its status, version, input_schema for run_workflow, \
                its schedules, and how many of its runs succeeded and failed. Use it before you change a workflow, and \
                to find out why a run failed.\n\
                Example: {\"id\": \"Price Monitor\"}",
        takes: json!({
            "id": text("Id, alias or name of the workflow."),
            "workflowId": same_as("id"),
            "workflow_id": same_as("id"),
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn get(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let found = guest.wanted_workflow(&mut arguments).await?;
    whole(guest, found).await
}

async fn whole(guest: &Guest, at: At<Workflow>) -> Result<Given, Trouble> {
    let mut shown = line(&at.it);
    shown.extend(definition::shown(guest.before(&at.it).await?));
    let takes = match guest.service.startable(&at.it, None, None).await {
        Ok(checked) => checked.plan.input_schema.as_ref().map(|schema| schema.json().clone()),
        // Empty, archived, or branches only: nothing that a run could be given.
        Err(_) => None,
    };
    shown.insert("input_schema".into(), json!(takes));
    let Tally { total, successful, failed, .. } = guest.service.tally(at.it.id).await.map_err(trouble)?;
    let counters = [("total_runs", total), ("successful_runs", successful), ("failed_runs", failed)];
    shown.extend(counters.map(|(name, count)| (name.to_owned(), json!(count))));
    shown.insert("schedules".into(), json!(guest.schedules(at.it.id).await?));
    if let Some(tool) = published::name(guest, &at.it).await? {
        shown.insert("tool".into(), json!(tool));
    }
    Ok(given(Value::Object(shown)))
}

/// A workflow as lists show it.
fn line(workflow: &Workflow) -> Map<String, Value> {
    let shown = json!({
        "id": workflow.id,
        "workflow_id": workflow.id,
        "name": workflow.name,
        "alias": workflow.alias,
        "description": workflow.description,
        "status": status_word(workflow.status),
        "version": workflow.version,
        "format": workflow.format,
        "published": workflow.published,
        "created_at": instant(workflow.created_at),
        "updated_at": instant(workflow.updated_at),
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}

pub fn list_spec() -> Spec {
    Spec {
        name: "list_workflows",
        title: "List workflows",
        about: "Lists your workflows, newest first: id, name, description, status, version and format of each; \
                get_workflow shows one. Archived ones are left out unless status says archived. `next`, if there is \
                one, is the cursor of the next page.\n\
                Example: {\"status\": \"active\"}",
        takes: json!({
            "user_id": user_id(),
            "status": { "enum": ["active", "paused", "archived"], "description": "Only those of this status." },
            "limit": limit(DEFAULT_LISTED),
            "cursor": text("`next` of the page before."),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn list(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let list = WorkflowList {
        status: arguments.text(&["status"])?.as_deref().and_then(status),
        archived_too: false,
        after: arguments.text(&["cursor"])?,
        limit: usize::try_from(arguments.number("limit").unwrap_or(DEFAULT_LISTED)).unwrap_or(1),
    };
    let (found, next) = guest.service.workflows(list).await.map_err(trouble)?;
    let workflows: Vec<Value> = found.iter().map(|at| Value::Object(line(&at.it))).collect();
    Ok(given(json!({ "workflows": workflows, "next": next })))
}

/// The native format in short: who composes a workflow looks here first, and not every client shows resources.
static VALIDATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Checks a workflow without keeping or starting it: a `definition` (any format), `executors`, or `nodes` and \
         `edges`; or, with `id` alone, a workflow that is kept. Answers valid, the format that was recognised, branches, \
         and each problem with its place, message and help: line and column of a text, a JSON pointer into the \
         arguments of JSON. Use it before create_workflow when a definition is long, and repair what it names.\n\
         Example: {{\"definition\": \"name: greet\\ninput: {{guest: string}}\\nagents: {{host: {{model: sim/any, \
         instructions: Greet.}}}}\\nsteps: [{{id: hello, agent: host, prompt: 'Greet {{{{ input.guest }}}}'}}]\"}}\n\
         The native format is YAML or JSON with `steps`, and perhaps {keys}. Steps run in the order written; where one \
         has `needs`, each starts when what it needs has ended. Values are read as {{{{ input.NAME }}}} and \
         {{{{ steps.ID.output }}}}, conditions are the same without braces. Any step may have {common}. A schema is \
         JSON Schema or short: {{name: string, tags: [string], note?: string}}. The resource relais://format says more, \
         relais://schema is its JSON Schema. The kinds of step, each with an example:\n{kinds}",
        keys = listed(&guide::top_keys(), "steps"),
        common = listed(&guide::step_keys(), ""),
        kinds = guide::kinds(),
    )
});

fn listed(keys: &[&str], but: &str) -> String {
    keys.iter().filter(|key| **key != but).copied().collect::<Vec<_>>().join(", ")
}

pub fn validate_spec() -> Spec {
    Spec {
        name: "validate_workflow",
        title: "Check a workflow",
        about: &VALIDATE,
        takes: timed(json!({
            "id": text("A kept workflow: id, alias or name."),
            "workflowId": same_as("id"),
            "workflow_id": same_as("id"),
            "user_id": user_id(),
        })),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn validate(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let kept = match arguments.text(WORKFLOW)? {
        Some(text) => Some(guest.workflow(&text).await?.it),
        None => None,
    };
    let before = match &kept {
        Some(workflow) => guest.before(workflow).await?,
        None => None,
    };
    let given_now = definition::said(&mut arguments, before.as_ref())?;
    let Some(Said { written, place }) = given_now.or(before.map(Said::from)) else {
        let text = "Give what is to be checked: `definition`, `executors`, `nodes` and `edges`, or `id`";
        return Err(Trouble::Invalid(format!("{text} of a workflow that is not empty.")));
    };
    let report = guest.service.check_definition(written).await.map_err(trouble)?;
    let told = || trouble::findings(&report.findings, |finding| place.of(finding));
    let text = if report.runs { String::new() } else { told() };
    Ok(Given { text, ..given(reported(report, place)) })
}

fn reported(report: Report, place: Place) -> Value {
    let branches: Vec<&String> = report.parts.iter().filter_map(|part| part.branch.as_ref()).collect();
    let steps: Vec<&String> = report.parts.iter().flat_map(|part| &part.steps).map(|step| &step.id).collect();
    let mut content = json!({
        "valid": report.runs,
        "format": report.format.word(),
        "branches": branches,
        "steps": steps,
        "unverified_tools": report.unverified,
    });
    content["problems"] = report.findings.into_iter().map(|finding| problem(finding, place)).collect();
    content
}

/// Lines and columns of a text that we made say nothing to who gave JSON.
fn problem(finding: Finding, place: Place) -> Value {
    let pointer = place.pointer(&finding);
    let mut shown = json!(crate::problem::Finding::from(finding));
    if let (Some(pointer), Some(fields)) = (pointer, shown.as_object_mut()) {
        fields.retain(|name, _| ["severity", "message", "help"].contains(&name.as_str()));
        fields.insert("pointer".into(), json!(pointer));
    }
    shown
}

pub fn plan_spec() -> Spec {
    Spec {
        name: "plan_workflow",
        title: "Show what a run would do",
        about: "Shows what a run of a kept workflow would do, step by step, and what it may cost; calls nothing and costs \
                nothing. Use it before a run that may be dear, or to explain a workflow. Answers for each step id, \
                kind, calls (the agent, tool or workflow), models, tools, given (the prompt or arguments, filled in as \
                far as the input is known), then, cost; and the cost of the whole run.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"input\": {\"products\": [\"lamp\"]}}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "branchId": text("The branch of a graph."),
            "input": { "type": "object", "description": "The input that is planned with; left out, prompts stay as they are written." },
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn plan(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let workflow = guest.wanted_workflow(&mut arguments).await?.it.id.to_string();
    let branch = arguments.text(&["branchId"])?;
    let input = arguments.0.remove("input").and_then(|input| input.as_object().cloned());
    let foreseen = guest.service.foresee(&workflow, branch.as_deref(), input).await.map_err(trouble)?;
    Ok(given(json!(foreseen)))
}
