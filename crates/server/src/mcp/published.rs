//! Each published workflow as a tool of its own: its input is the tool's arguments, its output the tool's answer.

use relais_engine::Mode;
use relais_mcp::serving::{Given, Offered, Trouble};
use relais_service::access::Scope;
use relais_service::{Format, Start, Workflow};
use serde_json::{Map, Value, json};

use super::attend::{Attended, attend};
use super::trouble::trouble;
use super::{Guest, runs};

/// More tools than these help no model to choose; the newest are left out.
const OFFERED_MAX: usize = 50;
/// Keeps the tool apart from our own, whatever the workflow is called.
const PREFIX: &str = "workflow_";
/// Some clients take names of 64 characters, a few put the server's name before them.
const NAME_CHARS_MAX: usize = 40;
/// Characters of the id that tell two workflows of one name apart.
const ID_CHARS: usize = 6;
/// Under which name an input that is no object is given.
const INPUT: &str = "input";

/// A workflow that is offered, with its tool.
struct Published {
    workflow: Workflow,
    tool: Offered,
    /// The input is no object: it is under a name of its own.
    is_wrapped: bool,
}

pub async fn offered(guest: &Guest) -> Result<Vec<Offered>, Trouble> {
    Ok(published(guest).await?.into_iter().map(|published| published.tool).collect())
}

pub async fn call(
    guest: &Guest,
    name: &str,
    arguments: Map<String, Value>,
    client: &Attended,
) -> Result<Given, Trouble> {
    guest.access.may(Scope::Run).map_err(trouble)?;
    let all = published(guest).await?;
    let Some(found) = all.into_iter().find(|one| one.tool.name == name) else {
        return Err(Trouble::NotFound(format!("There is no tool `{name}`; the workflow is not published any more.")));
    };
    let start = Start { input: input_of(arguments, found.is_wrapped), mode: Mode::default(), ..Start::default() };
    let id = found.workflow.id.to_string();
    let run = guest.service.start_workflow(&id, None, None, start).await.map_err(trouble)?;
    let row = attend(&guest.service, run, None, client).await?;
    runs::ended(guest, row, Format::Graph).await
}

/// The name of the tool that a workflow is offered as, if it is.
pub async fn name(guest: &Guest, workflow: &Workflow) -> Result<Option<String>, Trouble> {
    if !workflow.published {
        return Ok(None);
    }
    let all = published(guest).await?;
    Ok(all.into_iter().find(|one| one.workflow.id == workflow.id).map(|one| one.tool.name))
}

/// What the run gets: the arguments, or the one that stands for them all.
fn input_of(mut arguments: Map<String, Value>, is_wrapped: bool) -> Value {
    let wrapped = if is_wrapped { arguments.remove(INPUT) } else { None };
    wrapped.unwrap_or(Value::Object(arguments))
}

/// Oldest first, so that a name once given stays.
async fn published(guest: &Guest) -> Result<Vec<Published>, Trouble> {
    let found = guest.service.published(OFFERED_MAX).await.map_err(trouble)?;
    let mut all: Vec<Published> = Vec::with_capacity(found.len());
    for (workflow, plan) in found {
        let name = unique(&workflow, &all);
        let (input_schema, is_wrapped) = arguments(plan.input_schema.as_ref().map(|schema| schema.json()));
        let tool = Offered {
            name,
            title: Some(workflow.name.clone()),
            description: describe(&workflow),
            input_schema,
            output_schema: None,
            read_only: false,
            destructive: true,
            idempotent: false,
        };
        all.push(Published { workflow, tool, is_wrapped });
    }
    Ok(all)
}

fn describe(workflow: &Workflow) -> String {
    let about = match workflow.description.trim() {
        "" => String::new(),
        about => format!("{} ", about.trim_end_matches('.').to_owned() + "."),
    };
    format!(
        "{about}Runs the workflow `{}` with the arguments as its input, waits for its end like run_workflow, and \
         answers run_id, status and output; `next` says what to do if it is not done.",
        workflow.name
    )
}

/// The schema of the arguments, and whether the input had to be put under a name.
fn arguments(input: Option<&Value>) -> (Value, bool) {
    match input {
        None => (json!({ "type": "object", "properties": {}, "additionalProperties": true }), false),
        Some(schema) if schema.get("properties").is_some() || schema["type"] == "object" => (schema.clone(), false),
        Some(schema) => (json!({ "type": "object", "properties": { INPUT: schema }, "required": [INPUT] }), true),
    }
}

fn unique(workflow: &Workflow, others: &[Published]) -> String {
    let id = workflow.id.simple().to_string();
    let tail = &id[id.len() - ID_CHARS..];
    let name = match safe(workflow.alias.as_deref().unwrap_or(&workflow.name)) {
        safe if safe.is_empty() => return format!("{PREFIX}{tail}"),
        safe => format!("{PREFIX}{safe}"),
    };
    let is_taken = others.iter().any(|other| other.tool.name == name);
    if is_taken { format!("{name}_{tail}") } else { name }
}

/// Letters, digits and single underscores.
fn safe(name: &str) -> String {
    let letters = name.to_lowercase();
    let words = letters.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe() {
        for (name, expected) in [
            ("Price Monitor", "price_monitor"),
            ("  a--b__c!", "a_b_c"),
            ("日本", ""),
            ("Überblick 2", "berblick_2"),
            (&"x".repeat(90), &"x".repeat(NAME_CHARS_MAX)),
        ] {
            assert_eq!(safe(name), expected);
        }
    }

    #[test]
    fn an_input_that_is_no_object_gets_a_name() {
        let (schema, is_wrapped) = arguments(Some(&json!({ "type": "string" })));
        assert!(is_wrapped && schema["properties"]["input"]["type"] == "string");
        let object = json!({ "type": "object", "properties": { "a": {} } });
        assert_eq!(arguments(Some(&object)), (object, false));
    }

    #[test]
    fn only_an_input_that_was_put_under_a_name_is_taken_out_of_it() {
        let given = json!({ "input": "a", "other": 1 });
        let check = |is_wrapped: bool, expected: &Value| {
            assert_eq!(&input_of(given.as_object().cloned().unwrap_or_default(), is_wrapped), expected);
        };
        check(true, &json!("a"));
        check(false, &given);
    }
}
