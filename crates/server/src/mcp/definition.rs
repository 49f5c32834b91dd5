//! A definition as an assistant gives it: whole, as a chain of executors, or as the parts of a graph, which may also
//! change one that is there. And the same shown again.

use relais_mcp::serving::Trouble;
use relais_service::{Format, Written};
use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::trouble::Place;

/// The parts of a graph.
const GRAPH: &[&str] = &["nodes", "edges", "maxRounds", "branches", "executionMode", "schedule"];
/// The parts of a chain.
const CHAIN: &[&str] =
    &["executors", "schedule_type", "schedule_time", "cron_expression", "notify_on_complete", "notify_on_failure"];

/// What the arguments say, and how places in it are told.
pub struct Said {
    pub written: Written,
    pub place: Place,
}

/// A definition that is there already.
pub struct Before {
    pub format: String,
    pub text: String,
}

impl From<Before> for Said {
    fn from(before: Before) -> Said {
        let format = Format::named(&before.format);
        // Where it is shown in parts, its places are those parts.
        let is_in_parts = format.is_some_and(|format| [Format::Graph, Format::Chain].contains(&format));
        let place = if is_in_parts { Place::Below("") } else { Place::Text };
        Said { written: Written { format, text: before.text, lenient: false }, place }
    }
}

/// JSON Schemas of the arguments that say what a workflow does.
pub fn takes() -> Map<String, Value> {
    let takes = json!({
        "executors": {
            "type": "array",
            "items": { "type": "object" },
            "description": "A chain: each executor has executor_id, name, model, tools (names, see list_tools), system_prompt, output_schema such as {\"prices\": [{\"product\": \"str\", \"price\": \"float\"}]}, and perhaps iteration_hint. Each gets the output of the one before, also as {previous_output} in its system_prompt.",
        },
        "notify_on_complete": { "type": "boolean", "description": "For executors; default false." },
        "notify_on_failure": { "type": "boolean", "description": "For executors; default true." },
        "nodes": {
            "type": "array",
            "items": { "type": "object" },
            "description": "A graph: [{\"id\": \"a1\", \"type\": \"agent\", \"config\": {\"agentId\": \"<id or name of an agent>\"}}].",
        },
        "edges": {
            "type": "array",
            "items": { "type": "object" },
            "description": "[{\"id\": \"e1\", \"from\": \"a1\", \"to\": \"a2\"}]: the output of one node is the input of the next. Edges may form a cycle.",
        },
        "maxRounds": { "type": ["integer", "null"], "minimum": 1, "description": "How often a cycle of edges is gone through; null takes it away." },
        "branches": {
            "type": ["array", "null"],
            "items": { "type": "object" },
            "description": "Further graphs that run apart from the main one: [{\"id\": \"nightly\", \"nodes\": […], \"edges\": […], \"executionMode\": \"interval\", \"schedule\": \"daily@09:00\"}]. execute_workflow takes their ids as branchId.",
        },
        "executionMode": { "type": ["string", "null"], "enum": ["one_time", "interval", "continuous", null], "description": "one_time (default): only when it is executed. interval: by `schedule`. continuous: again after each run, `schedule` seconds later." },
        "schedule": { "type": ["string", "integer", "null"], "description": "Seconds (`60`), `daily@HH:mm`, or `weekly@1,3,5` (0 is Sunday); null takes it away." },
        "definition": { "type": ["string", "object"], "description": "A whole workflow instead of the parts above: YAML or JSON text, or the JSON itself. Use it for what a chain or a graph cannot say: branches, loops, questions to people, tools without a model. The description of validate_workflow has the native format in short, the resource relais://format in full." },
        "format": { "enum": Format::ALL.map(Format::word), "description": "The format of `definition`, if its shape does not tell." },
    });
    match takes {
        Value::Object(takes) => takes,
        _ => Map::new(),
    }
}

/// JSON Schemas of the arguments that say when a new workflow starts by itself.
pub fn timing() -> Map<String, Value> {
    let takes = json!({
        "schedule_type": { "enum": ["immediate", "scheduled", "recurring"], "description": "immediate (default): started by run_workflow only. scheduled: once, at schedule_time. recurring: by cron_expression." },
        "schedule_time": { "type": "string", "description": "For scheduled: `tomorrow 9am`, `in 20 minutes`, or RFC 3339." },
        "cron_expression": { "type": "string", "description": "For recurring: `0 9 * * MON-FRI`, or words such as `daily at 9am`." },
    });
    match takes {
        Value::Object(takes) => takes,
        _ => Map::new(),
    }
}

/// What the arguments say, put upon what is there; none if they say nothing of it.
pub fn said(arguments: &mut Arguments, before: Option<&Before>) -> Result<Option<Said>, Trouble> {
    let (graph, mut chain) = (arguments.fields(GRAPH), arguments.fields(CHAIN));
    let (whole, format) = (arguments.0.remove("definition"), arguments.text(&["format"])?);
    // What it is anyway may be said of anything.
    if !chain.contains_key("executors") && chain.get("schedule_type") == Some(&json!("immediate")) {
        chain.remove("schedule_type");
    }
    let parts = [whole.is_some(), !graph.is_empty(), !chain.is_empty()];
    if parts.iter().filter(|given| **given).count() > 1 {
        return Err(one_way(&graph, &chain));
    }
    if let Some(whole) = whole {
        let (text, place) = match whole {
            Value::String(text) => (text, Place::Text),
            whole => (format!("{whole:#}"), Place::Below("/definition")),
        };
        let written = Written { text, format: format.as_deref().and_then(Format::named), lenient: false };
        return Ok(Some(Said { written, place }));
    }
    if !graph.is_empty() {
        return changed(before, graph, Format::Graph).map(Some);
    }
    if !chain.is_empty() {
        if before.is_none() && !chain.contains_key("executors") {
            let names = listed(&chain);
            return Err(Trouble::Invalid(format!("{names} belong to `executors`, which are missing.")));
        }
        return changed(before, chain, Format::Chain).map(Some);
    }
    Ok(None)
}

fn listed(fields: &Map<String, Value>) -> String {
    fields.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn one_way(graph: &Map<String, Value>, chain: &Map<String, Value>) -> Trouble {
    let given = [listed(graph), listed(chain)].into_iter().filter(|names| !names.is_empty());
    let given: Vec<String> = given.collect();
    Trouble::Invalid(format!(
        "Say what the workflow does in one way: as `executors` (a chain), as `nodes` and `edges` (a graph), or as a \
         whole `definition`. Given together: {}.",
        given.join("; ")
    ))
}

/// The parts that are given replace those that were there; the rest stays.
fn changed(before: Option<&Before>, parts: Map<String, Value>, format: Format) -> Result<Said, Trouble> {
    let mut fields = match before {
        None => Map::new(),
        Some(before) if before.format == format.word() => parsed(before, &parts)?,
        Some(before) => return Err(other_format(before, &parts)),
    };
    fields.extend(parts);
    let text = format!("{:#}", Value::Object(fields));
    Ok(Said { written: Written { text, format: Some(format), lenient: false }, place: Place::Below("") })
}

fn parsed(before: &Before, parts: &Map<String, Value>) -> Result<Map<String, Value>, Trouble> {
    serde_json::from_str(&before.text).map_err(|_| other_format(before, parts))
}

fn other_format(before: &Before, parts: &Map<String, Value>) -> Trouble {
    Trouble::Invalid(format!(
        "This workflow is kept as text in the format `{}`, which {} cannot be put into. Read it with get_workflow, \
         change its `definition`, and give that whole.",
        before.format,
        listed(parts)
    ))
}

/// The parts of a definition by their names, where it was given in parts; else its text.
pub fn shown(before: Option<Before>) -> Map<String, Value> {
    let Some(before) = before else { return with_empty(Map::new()) };
    let parts = |format: Format| before.format == format.word();
    let fields = serde_json::from_str::<Map<String, Value>>(&before.text);
    match fields {
        Ok(fields) if parts(Format::Graph) => with_empty(fields),
        Ok(fields) if parts(Format::Chain) => fields.into_iter().filter(|(name, _)| name != "workflow_id").collect(),
        Ok(_) | Err(_) => Map::from_iter([("definition".to_owned(), json!(before.text))]),
    }
}

/// A graph has nodes and edges, be it none.
fn with_empty(fields: Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::from_iter([("nodes".to_owned(), json!([])), ("edges".to_owned(), json!([]))]);
    shown.extend(fields);
    shown
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn arguments(given: Value) -> Arguments {
        match given {
            Value::Object(given) => Arguments(given),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn parts_replace_parts_and_the_rest_stays() {
        let before =
            Before { format: "graph".into(), text: json!({ "nodes": [1], "edges": [2], "maxRounds": 3 }).to_string() };
        let given = json!({ "edges": [4], "maxRounds": null, "name": "n" });
        let written = said(&mut arguments(given), Some(&before)).unwrap().unwrap().written;
        let fields: Value = serde_json::from_str(&written.text).unwrap();
        assert_eq!(fields, json!({ "nodes": [1], "edges": [4], "maxRounds": null }));
        assert_eq!(written.format, Some(Format::Graph));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let native = Before { format: "native".into(), text: "name: x".into() };
        for (given, before, part) in [
            (json!({ "nodes": [], "executors": [] }), None, "in one way"),
            (json!({ "nodes": [], "definition": "x" }), None, "Given together: `nodes`"),
            (json!({ "schedule_type": "recurring" }), None, "belong to `executors`"),
            (json!({ "nodes": [] }), Some(&native), "in the format `native`, which `nodes` cannot be put into"),
        ] {
            let error = said(&mut arguments(given), before).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
        for given in [json!({}), json!({ "schedule_type": "immediate", "name": "x" })] {
            assert!(said(&mut arguments(given), None).unwrap().is_none());
        }
    }

    #[test]
    fn an_empty_workflow_is_a_graph_without_nodes() {
        assert_eq!(Value::Object(shown(None)), json!({ "nodes": [], "edges": [] }));
        let text = "name: x\nsteps: []\n".to_owned();
        assert_eq!(
            Value::Object(shown(Some(Before { format: "native".into(), text: text.clone() })))["definition"],
            text
        );
    }
}
