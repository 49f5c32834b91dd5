//! Tools for agents that are kept by themselves and used by workflows by id or name.

use std::collections::HashMap;
use std::sync::LazyLock;

use relais_mcp::serving::{Given, Trouble};
use relais_plan::path::{self, Segment};
use relais_plan::problem::nearest;
use relais_service::access::Scope;
use relais_service::{Agent, AgentChange, At, Error, NewAgent, guide};
use serde_json::{Map, Value, json};

use super::Guest;
use super::arguments::{AGENT, Arguments};
use super::attend::Attended;
use super::render::given;
use super::tools::{Effect, Spec, limit, same_as, text, user_id};
use super::trouble::{findings, instead, pointer, trouble};
use crate::times::instant;

const WHERE: &str = "the id or name of an agent; list_agents lists them";
const DEFAULT_LISTED: u64 = 50;
/// Agents that an error lists.
const SHOWN: usize = 20;
/// The parts of an agent, each with the names that it goes by; the first is the one of the definition.
const PARTS: [&[&str]; 5] = [
    &["model"],
    &["instructions", "systemPrompt", "system_prompt", "prompt"],
    &["tools"],
    &["input", "inputSchema", "input_schema"],
    &["output", "outputSchema", "output_schema"],
];

fn takes(own: Value) -> Value {
    let parts = json!({
        "description": text("What it is for."),
        "model": { "type": ["string", "array"], "items": { "type": "string" }, "description": "`gpt-4o-mini`, `anthropic/claude-…`, `ollama/…`; a list is a fallback order. `sim/any` needs no key and makes answers up." },
        "instructions": text("The system prompt: who it is and what it does."),
        "systemPrompt": same_as("instructions"),
        "system_prompt": same_as("instructions"),
        "prompt": same_as("instructions"),
        "tools": { "type": "array", "items": { "type": "string" }, "description": "Names of tools it may call, as list_tools lists them." },
        "input": { "type": "object", "description": "JSON Schema of what it is given, or the shorthand {\"topic\": \"string\"}; may be left out." },
        "inputSchema": { "type": "object", "description": "The same as `input`." },
        "input_schema": { "type": "object", "description": "The same as `input`." },
        "output": { "type": "object", "description": "JSON Schema of what it must answer, or the shorthand {\"summary\": \"string\"}; left out, it answers text." },
        "outputSchema": { "type": "object", "description": "The same as `output`." },
        "output_schema": { "type": "object", "description": "The same as `output`." },
        "config": { "type": "object", "description": CONFIG.as_str() },
        "user_id": user_id(),
    });
    let mut takes = match own {
        Value::Object(own) => own,
        _ => Map::new(),
    };
    if let Value::Object(parts) = parts {
        takes.extend(parts);
    }
    Value::Object(takes)
}

/// What `config` may say, as the format has it.
static CONFIG: LazyLock<String> = LazyLock::new(|| {
    let has_name = |key: &String| key == "description" || PARTS.iter().any(|names| names[0] == key);
    let keys = guide::agent_keys().into_iter().filter(|(key, _)| !has_name(key));
    let lines = keys.map(|(key, schema)| format!("{key} ({})", schema["description"].as_str().unwrap_or_default()));
    format!("Anything else that an agent may say: {}.", lines.collect::<Vec<_>>().join(", "))
});

/// An agent's definition, and under which argument each of its parts was given.
struct Said {
    definition: Value,
    places: HashMap<String, String>,
}

/// What the arguments say, put upon what is there.
fn said(arguments: &mut Arguments, before: Value) -> Result<Said, Trouble> {
    let mut fields = match before {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut places = HashMap::new();
    if let Some(Value::Object(more)) = arguments.0.remove("config") {
        places
            .extend(more.keys().map(|key| (key.clone(), format!("/config{}", pointer(&[Segment::Key(key.clone())])))));
        fields.extend(more);
    }
    for names in PARTS {
        if let Some((given, value)) = arguments.one_named(names)? {
            fields.insert(names[0].to_owned(), value);
            places.insert(names[0].to_owned(), format!("/{given}"));
        }
    }
    Ok(Said { definition: Value::Object(fields), places })
}

/// Mistakes by their places in the arguments.
fn agent_trouble(error: Error, places: &HashMap<String, String>) -> Trouble {
    let Error::Findings(found) = error else { return trouble(error) };
    Trouble::Invalid(findings(&found, |finding| {
        let segments = path::parse(finding.path.as_deref()?).ok()?;
        let (first, rest) = segments.split_first()?;
        let Segment::Key(key) = first else { return None };
        let given = places.get(key).cloned().unwrap_or_else(|| pointer(&segments[..1]));
        Some(format!("{given}{}", pointer(rest)))
    }))
}

pub fn create_spec() -> Spec {
    Spec {
        name: "create_agent",
        title: "Create an agent",
        about: "Creates an agent that workflows use by its id or name: model, instructions, tools, output schema. Use \
                it once for each agent of a workflow, before update_workflow names them as agentId. Answers the agent \
                with its id.\n\
                Example: {\"name\": \"Writer\", \"model\": \"gpt-4o-mini\", \"instructions\": \"Write one short paragraph \
                about what you are given.\", \"tools\": []}",
        takes: takes(json!({ "name": text("What workflows call it; unique among your agents.") })),
        required: &["name"],
        scope: Scope::Write,
        effect: Effect::Adds,
    }
}

pub async fn create(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let Said { definition, places } = said(&mut arguments, Value::Null)?;
    let new = NewAgent {
        name: arguments.text(&["name"])?.unwrap_or_default(),
        description: arguments.text(&["description"])?.unwrap_or_default(),
        definition,
        once: None,
    };
    let made = guest.service.create_agent(new).await.map_err(|error| agent_trouble(error, &places))?;
    Ok(given(shown(&made.it)))
}

pub fn update_spec() -> Spec {
    Spec {
        name: "update_agent",
        title: "Change an agent",
        about: "Changes an agent; what is left out stays as it is. Workflows that use it get a new version; runs that \
                are going keep theirs. Use it to mend an agent that made a run fail. Answers the agent.\n\
                Example: {\"id\": \"Writer\", \"model\": \"gpt-4o\", \"instructions\": \"Write two sentences.\"}",
        takes: takes(json!({
            "id": text("Id or name of the agent."),
            "agentId": same_as("id"),
            "agent_id": same_as("id"),
            "name": text("A new name."),
        })),
        required: &[],
        scope: Scope::Write,
        effect: Effect::Sets,
    }
}

pub async fn update(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let At { it: agent, revision } = wanted(guest, &mut arguments).await?;
    let Said { definition, places } = said(&mut arguments, agent.definition)?;
    let change = AgentChange {
        name: arguments.text(&["name"])?,
        description: arguments.text(&["description"])?,
        definition: Some(definition),
    };
    let id = agent.id.to_string();
    let changed = guest.service.update_agent(&id, change, Some(vec![revision])).await;
    let changed = changed.map_err(|error| agent_trouble(error, &places))?;
    Ok(given(shown(&changed.it)))
}

pub fn get_spec() -> Spec {
    Spec {
        name: "get_agent",
        title: "Read an agent",
        about: "Shows one agent: model, instructions, tools, schemas and limits. Use it to see why an agent did what it \
                did, and before you change it. agentId in a workflow's nodes and in a run's trail is its id or name.\n\
                Example: {\"id\": \"Writer\"}",
        takes: json!({
            "id": text("Id or name of the agent."),
            "agentId": same_as("id"),
            "agent_id": same_as("id"),
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn get(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    Ok(given(shown(&wanted(guest, &mut arguments).await?.it)))
}

pub fn list_spec() -> Spec {
    Spec {
        name: "list_agents",
        title: "List agents",
        about: "Lists your agents: id, name, description and model of each; get_agent shows one. Use it before you \
                create an agent, which may be there already. `next`, if there is one, is the cursor of the next page.\n\
                Example: {\"limit\": 20}",
        takes: json!({
            "limit": limit(DEFAULT_LISTED),
            "cursor": text("`next` of the page before."),
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Read,
        effect: Effect::Reads,
    }
}

pub async fn list(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let limit = usize::try_from(arguments.number("limit").unwrap_or(DEFAULT_LISTED)).unwrap_or(1);
    let (found, next) = guest.service.agents(arguments.text(&["cursor"])?, limit).await.map_err(trouble)?;
    let agents: Vec<Value> = found.iter().map(|at| line(&at.it)).collect();
    Ok(given(json!({ "agents": agents, "next": next })))
}

async fn wanted(guest: &Guest, arguments: &mut Arguments) -> Result<At<Agent>, Trouble> {
    let text = arguments.must(AGENT, WHERE)?;
    match guest.service.find_agent(&text).await {
        Ok(found) => Ok(found),
        Err(error) => Err(missing(guest, &text, error).await),
    }
}

async fn missing(guest: &Guest, wanted: &str, error: Error) -> Trouble {
    let Error::NotFound(text) = error else { return trouble(error) };
    let Ok((found, next)) = guest.service.agents(None, SHOWN).await else { return Trouble::NotFound(text) };
    let names: Vec<String> = found.iter().map(|at| format!("`{}` ({})", at.it.name, at.it.id)).collect();
    let near = nearest(wanted, found.iter().map(|at| at.it.name.as_str()));
    Trouble::NotFound(instead(&text, near, &names, next.is_some(), "create_agent makes one", "list_agents"))
}

fn line(agent: &Agent) -> Value {
    json!({ "id": agent.id, "name": agent.name, "description": agent.description, "model": agent.definition["model"] })
}

/// With everything that its definition says.
fn shown(agent: &Agent) -> Value {
    let mut shown = line(agent);
    shown["updated_at"] = json!(instant(agent.updated_at));
    if let (Value::Object(shown), Value::Object(fields)) = (&mut shown, &agent.definition) {
        for (name, value) in fields {
            shown.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    shown
}
