//! How tools have changed since a workflow knew them. What is kept of each is a short print per argument, enough to say
//! which changed and how, and not the schemas themselves.

use std::collections::BTreeMap;

use ring::digest;
use serde_json::{Map, Value, json};

use super::select::{matches, sorted};
use crate::tool::ToolSpec;

/// Behind the print of an argument that must be given.
const REQUIRED: char = '!';
/// Tools that a message names; beyond them only their number says something.
const MAX_NAMED: usize = 10;
/// Bytes of a hash that are kept of each argument: a change goes unseen once in four billion times.
const PRINT_BYTES: usize = 4;

/// Of each tool its arguments with their prints; under the empty name what else its schema says.
pub(super) fn prints<'a>(tools: impl Iterator<Item = &'a ToolSpec>) -> Value {
    tools.map(|tool| (tool.name.clone(), json!(print_of(&tool.parameters)))).collect::<Map<_, _>>().into()
}

/// What is different now, in words; nothing where all is as it was known. Only tools that these names and patterns mean
/// are looked at, and none of those that could not be asked then.
pub fn changes(known: &Value, unverified: &[&str], now: &[ToolSpec], patterns: &[String]) -> Option<String> {
    let Value::Object(known) = known else { return None };
    let is_there = |name: &str| now.iter().any(|tool| tool.name == name);
    let is_meant = |name: &str| patterns.iter().any(|pattern| matches(pattern, name));
    let gone = known.keys().filter(|name| is_meant(name) && !is_there(name));
    let mut told: Vec<String> = gone.map(|name| format!("`{name}` is no longer there")).collect();
    for tool in now.iter().filter(|tool| !unverified.iter().any(|pattern| matches(pattern, &tool.name))) {
        told.extend(match known.get(&tool.name) {
            Some(before) => changed(&tool.name, before, &print_of(&tool.parameters)),
            None => Some(format!("`{}` is new", tool.name)),
        });
    }
    let more = told.len().saturating_sub(MAX_NAMED);
    told.truncate(MAX_NAMED);
    if more > 0 {
        told.push(format!("{more} more"));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

fn changed(tool: &str, before: &Value, now: &BTreeMap<String, String>) -> Option<String> {
    let before: BTreeMap<String, String> = serde_json::from_value(before.clone()).unwrap_or_default();
    let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| format!("`{name}` is gone"));
    let mut told: Vec<String> = gone.collect();
    told.extend(now.iter().filter_map(|(name, print)| argument(name, before.get(name), print)));
    (!told.is_empty()).then(|| format!("`{tool}`: {}", told.join(", ")))
}

fn argument(name: &str, before: Option<&String>, now: &str) -> Option<String> {
    let parts = |print: &str| (print.trim_end_matches(REQUIRED).to_owned(), print.ends_with(REQUIRED));
    let (print, must) = parts(now);
    let Some(before) = before else {
        return Some(format!("`{name}` is new{}", if must { " and must be given" } else { "" }));
    };
    let (print_before, must_before) = parts(before);
    let told = match (print == print_before, must_before, must) {
        (true, same, now) if same == now => return None,
        (false, ..) if name.is_empty() => return Some("its schema has changed".to_owned()),
        (false, ..) => "takes something else",
        (true, _, true) => "must be given now",
        (true, _, false) => "may be left out now",
    };
    Some(format!("`{name}` {told}"))
}

fn print_of(parameters: &Value) -> BTreeMap<String, String> {
    let required: Vec<&str> =
        parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rest = parameters.clone();
    let arguments = match &mut rest {
        Value::Object(fields) => {
            fields.remove("required");
            fields.remove("properties")
        }
        _ => None,
    };
    let mut prints = BTreeMap::from([(String::new(), hashed(&rest))]);
    for (name, schema) in arguments.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let mut print = hashed(schema);
        if required.contains(&name.as_str()) {
            print.push(REQUIRED);
        }
        prints.insert(name.clone(), print);
    }
    prints
}

fn hashed(value: &Value) -> String {
    let hash = digest::digest(&digest::SHA256, sorted(value).to_string().as_bytes());
    hash.as_ref().iter().take(PRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use relais_plan::Effect;

    use super::*;

    fn tool(name: &str, properties: Value, required: &[&str]) -> ToolSpec {
        let parameters = json!({ "type": "object", "properties": properties, "required": required });
        ToolSpec { name: name.to_owned(), description: String::new(), parameters, effect: Effect::Read }
    }

    fn check(before: &[ToolSpec], unverified: &[&str], now: &[ToolSpec], expected: Option<&str>) {
        let told = changes(&prints(before.iter()), unverified, now, &["*".to_owned()]);
        assert_eq!(told.as_deref(), expected);
    }

    #[test]
    fn changes_are_told_by_tool_and_argument() {
        let text = || json!({ "type": "string" });
        let look = tool("look", json!({ "n": { "type": "integer" }, "q": text() }), &["q"]);
        check(std::slice::from_ref(&look), &[], std::slice::from_ref(&look), None);
        let other_order = tool("look", json!({ "q": text(), "n": { "type": "integer" } }), &["q"]);
        check(std::slice::from_ref(&look), &[], &[other_order], None);
        let grown = tool("look", json!({ "n": text(), "unit": text() }), &["n", "unit"]);
        let told = "`look`: `q` is gone, `n` takes something else, `unit` is new and must be given";
        check(std::slice::from_ref(&look), &[], &[grown], Some(told));
        let strict = tool("look", json!({ "n": { "type": "integer" }, "q": text() }), &["n"]);
        let told = "`look`: `n` must be given now, `q` may be left out now";
        check(std::slice::from_ref(&look), &[], std::slice::from_ref(&strict), Some(told));
        check(std::slice::from_ref(&look), &["l*"], &[strict], None);
        let mut closed = look.clone();
        closed.parameters["additionalProperties"] = json!(false);
        check(std::slice::from_ref(&look), &[], &[closed], Some("`look`: its schema has changed"));
        let buy = tool("buy", json!({}), &[]);
        check(&[look], &[], &[buy], Some("`look` is no longer there; `buy` is new"));
    }

    #[test]
    fn many_changes_are_counted() {
        let many: Vec<ToolSpec> = (0..14).map(|n| tool(&format!("t{n:02}"), json!({}), &[])).collect();
        let told = changes(&json!({}), &[], &many, &[]).unwrap_or_default();
        assert!(told.contains("`t09` is new; 4 more") && !told.contains("t10"), "{told}");
        assert_eq!(
            changes(&Value::Null, &[], &many, &[]),
            None,
            "nothing is known of a version made before this was kept"
        );
    }
}
