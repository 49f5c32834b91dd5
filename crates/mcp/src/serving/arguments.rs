//! Do the arguments of a call fit the tool? If not, the words that let a model repair its call.

use relais_plan::Schema;
use relais_plan::problem::nearest;
use serde_json::{Map, Value};

use super::Offered;

/// More names than this are not read by anybody.
const NAMES_MAX: usize = 40;
/// Schemas that say in other words which arguments there are.
const OPEN_WORDS: [&str; 8] =
    ["additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"];

/// What models write for what they mean: null for an argument that is left out, and a text with the JSON in it for a
/// list or an object. Nothing else is understood in another way than it is written.
pub fn mend(tool: &Offered, mut arguments: Map<String, Value>) -> Map<String, Value> {
    let Some(known) = tool.input_schema.get("properties").and_then(Value::as_object) else { return arguments };
    arguments.retain(|name, value| !value.is_null() || known.get(name).is_none_or(|schema| may_be(schema, "null")));
    for (name, value) in &mut arguments {
        let Some(schema) = known.get(name).filter(|schema| !may_be(schema, "string")) else { continue };
        let read = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let fits = |read: &Value| {
            (read.is_array() && may_be(schema, "array")) || (read.is_object() && may_be(schema, "object"))
        };
        if let Some(read) = read.filter(fits) {
            *value = read;
        }
    }
    arguments
}

/// A schema that names no type takes any.
fn may_be(schema: &Value, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == wanted,
        Some(Value::Array(names)) => names.iter().any(|name| name == wanted),
        _ => schema.get("enum").is_none(),
    }
}

/// The error names each argument that is wrong, and what would be right.
pub fn check(tool: &Offered, arguments: &Map<String, Value>) -> Result<(), String> {
    let mut wrong: Vec<String> = unknown(tool, arguments);
    let value = Value::Object(arguments.clone());
    if let Err(violations) = Schema::new(tool.input_schema.clone()).check(&value) {
        wrong.extend(violations.iter().map(|found| line(tool, &found.path, &found.message)));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let signature = signature(tool);
    Err(format!("The arguments of `{}` are not right:\n{}\n{signature}", tool.name, wrong.join("\n")))
}

/// There is no tool of this name; `names` are those there are.
pub fn unknown_tool(name: &str, names: &[String]) -> String {
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("There is no tool `{name}`; did you mean `{near}`?"),
        None if names.is_empty() => format!("There is no tool `{name}`, and none at all for you."),
        None => format!("There is no tool `{name}`; the tools are {}.", listed(names.iter().map(String::as_str))),
    }
}

fn unknown(tool: &Offered, arguments: &Map<String, Value>) -> Vec<String> {
    let Some(known) = closed_names(&tool.input_schema) else { return Vec::new() };
    let strange = arguments.keys().filter(|name| !known.contains_key(*name));
    strange.take(NAMES_MAX).map(|name| unknown_argument(name, known)).collect()
}

fn unknown_argument(name: &str, known: &Map<String, Value>) -> String {
    match nearest(name, known.keys().map(String::as_str)) {
        Some(near) => format!("- there is no argument `{name}`; did you mean `{near}`?"),
        None => format!("- there is no argument `{name}`."),
    }
}

/// The arguments by name, if the schema names them all.
fn closed_names(schema: &Value) -> Option<&Map<String, Value>> {
    let schema = schema.as_object()?;
    // `additionalProperties: false` closes it in so many words.
    let is_open = OPEN_WORDS.iter().any(|word| schema.get(*word).is_some_and(|said| *said != Value::Bool(false)));
    if is_open {
        return None;
    }
    schema.get("properties")?.as_object()
}

fn line(tool: &Offered, path: &str, message: &str) -> String {
    if path.is_empty() {
        return format!("- {message}.");
    }
    let about = tool.input_schema.pointer(&format!("/properties/{path}/description")).and_then(Value::as_str);
    match about {
        Some(about) => format!("- `{path}`: {message}. It is: {about}"),
        None => format!("- `{path}`: {message}."),
    }
}

/// All arguments with their types, the ones that must be there first.
fn signature(tool: &Offered) -> String {
    let Some(properties) = tool.input_schema.get("properties").and_then(Value::as_object) else {
        return format!("The schema of the arguments: {}", tool.input_schema);
    };
    if properties.is_empty() {
        return "It takes no arguments.".to_owned();
    }
    let required = |name: &str| {
        let names = tool.input_schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|found| found == name))
    };
    let described = |(name, schema): (&String, &Value)| {
        let optional = if required(name) { "" } else { ", optional" };
        format!("{name} ({}{optional})", type_words(schema))
    };
    let (must, may): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, _)| required(name));
    let words: Vec<String> = must.into_iter().chain(may).map(described).collect();
    format!("It takes: {}.", listed(words.iter().map(String::as_str)))
}

fn type_words(schema: &Value) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = choices.iter().take(NAMES_MAX).map(Value::to_string).collect();
        return format!("one of {}", words.join(", "));
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let rest = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<&str> = names.take(NAMES_MAX).collect();
    match rest {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(input_schema: Value) -> Offered {
        Offered {
            name: "pay".into(),
            title: None,
            description: String::new(),
            input_schema,
            output_schema: None,
            read_only: false,
            destructive: false,
            idempotent: false,
        }
    }

    fn closed() -> Value {
        json!({"type": "object", "required": ["amount"], "properties": {
            "amount": {"type": "integer", "description": "In cents."}, "to": {"type": ["string", "null"]},
            "how": {"enum": ["cash", "card"]}}})
    }

    #[test]
    fn nulls_and_texts_with_json_are_understood() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array"}, "text": {"type": "string"}, "both": {"type": ["string", "object"]},
            "map": {"type": ["object", "null"]}, "how": {"enum": ["cash"]}, "any": {}, "count": {"type": "integer"}}});
        let check = |given: Value, expected: Value| {
            assert_eq!(Value::Object(mend(&tool(schema.clone()), given.as_object().unwrap().clone())), expected);
        };
        check(
            json!({"list": "[1]", "map": "{}", "text": "[1]", "both": "{}"}),
            json!({"list": [1], "map": {}, "text": "[1]", "both": "{}"}),
        );
        check(json!({"list": "{}", "count": "1", "any": "[1]"}), json!({"list": "{}", "count": "1", "any": "[1]"}));
        check(
            json!({"list": null, "text": null, "how": null, "map": null, "any": null}),
            json!({"map": null, "any": null}),
        );
        check(json!({"other": null}), json!({"other": null}));
    }

    #[test]
    fn wrong_arguments_are_named_with_what_is_right() {
        let check = |schema: Value, arguments: Value, parts: &[&str]| {
            let said = check(&tool(schema), arguments.as_object().unwrap());
            let said = said.err().unwrap_or_default();
            assert_eq!(said.is_empty(), parts.is_empty(), "{arguments}: {said}");
            for part in parts {
                assert!(said.contains(part), "{arguments}: {said}");
            }
        };
        check(closed(), json!({"amount": 3, "to": null, "how": "card"}), &[]);
        let signature = "It takes: amount (integer), to (string or null, optional), \
                         how (one of \"cash\", \"card\", optional).";
        check(closed(), json!({}), &["`pay`", "- `amount`: Field is required", "It is: In cents.", signature]);
        check(closed(), json!({"amount": "3"}), &["`amount`: Expected type 'integer', got 'string'"]);
        check(closed(), json!({"amount": 3, "ammount": 3}), &["no argument `ammount`; did you mean `amount`?"]);
        check(closed(), json!({"amount": 3, "colour": 3}), &["no argument `colour`.", signature]);
        check(closed(), json!({"amount": 3, "how": "bank"}), &["`how`"]);
        check(json!({"type": "object", "properties": {}}), json!({"a": 1}), &["no argument `a`", "no arguments"]);
        check(json!({"type": "object"}), json!({"a": 1}), &[]);
        let mut open = closed();
        open["additionalProperties"] = json!(true);
        check(open, json!({"amount": 3, "colour": 3}), &[]);
        let mut shut = closed();
        shut["additionalProperties"] = json!(false);
        check(shut, json!({"amount": 3, "colour": 3}), &["no argument `colour`"]);
        check(json!({"type": 5}), json!({}), &["The schema itself is not valid"]);
    }

    #[test]
    fn unknown_tools_name_a_near_one() {
        let names: Vec<String> = ["run_workflow", "list_runs"].map(String::from).into();
        assert!(unknown_tool("run_workflw", &names).ends_with("did you mean `run_workflow`?"));
        assert!(unknown_tool("x", &names).ends_with("the tools are run_workflow, list_runs."));
        assert!(unknown_tool("x", &[]).contains("none at all"));
        let many: Vec<String> = (0..100).map(|n| format!("tool_number_{n}")).collect();
        assert!(unknown_tool("x", &many).ends_with("tool_number_39 and 60 more."));
    }
}
