//! The native format in words: what an assistant reads before it composes a workflow.
//!
//! Everything it says of keys, kinds and their examples it takes from the JSON Schema, so that there is one description
//! of the format.

use serde_json::{Map, Value};

use crate::native::keys::{COMMON, KINDS, TOP};
use crate::schema::{json_schema, kind_example};

/// A whole workflow, small enough to be read at a glance.
const EXAMPLE: &str = r#"name: digest
input: { topic: string, items: [string] }
agents:
  writer:
    model: openai/gpt-4o-mini
    instructions: You write short, plain texts and judge them from 0 to 10.
    output: { text: string, score: number, kind: string }
steps:
  - { id: draft, agent: writer, prompt: "Write about {{ input.topic }}." }
  - { id: approve, ask: { question: "Publish it?", show: "{{ steps.draft.output.text }}", approve: true } }
  - { id: refused, stop_if: not steps.approve.output }
  - { id: save, tool: write_file, with: { path: digest.md, content: "{{ steps.draft.output.text }}" } }
output: "{{ steps.draft.output.text }}"
"#;

/// A line for each kind of step, with an example.
pub fn kinds() -> String {
    let schema = json_schema();
    let line =
        |word: &str| format!("- {word}: {} {}", about(&schema["$defs"][format!("{word}_step")]), kind_example(word));
    KINDS.iter().map(|kind| line(kind.word)).collect::<Vec<_>>().join("\n")
}

/// The keys at the top of a file, in their order.
pub fn top_keys() -> Vec<&'static str> {
    TOP.iter().copied().filter(|key| !key.starts_with('$')).collect()
}

/// The keys that any step may have.
pub fn step_keys() -> Vec<&'static str> {
    COMMON.to_vec()
}

/// The keys of an agent with what each is for.
pub fn agent_keys() -> Map<String, Value> {
    match json_schema().pointer_mut("/$defs/agent/properties").map(Value::take) {
        Some(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// All of it, as Markdown.
pub fn guide() -> String {
    let schema = json_schema();
    let defs = &schema["$defs"];
    let mut text = format!("# The native workflow format\n\nYAML, or the same as JSON.\n\n```yaml\n{EXAMPLE}```\n");
    text.push_str(&format!("\n## At the top\n\n{}", keys(&schema["properties"])));
    text.push_str(&format!("\n## Agents\n\nUnder `agents`, by name.\n\n{}", keys(&defs["agent"]["properties"])));
    text.push_str(&format!("\n## Steps\n\n{} Kinds:\n", about(&defs["step"])));
    for kind in KINDS {
        let properties = &defs[format!("{}_step", kind.word)]["properties"];
        let own: Map<String, Value> = [kind.word].iter().chain(kind.own).map(|k| own_key(properties, k)).collect();
        let said = about(&defs[format!("{}_step", kind.word)]);
        let example = kind_example(kind.word);
        text.push_str(&format!("\n### {}\n\n{said}\n\n`{example}`\n\n{}", kind.word, keys(&Value::Object(own))));
    }
    let common: Map<String, Value> = COMMON.iter().map(|key| own_key(&defs["agent_step"]["properties"], key)).collect();
    text.push_str(&format!("\n### On any step\n\n{}", keys(&Value::Object(common))));
    text.push_str(&format!("\n## Expressions\n\n{} In texts they stand in `{{{{ }}}}`.\n", about(&defs["expression"])));
    for (title, name) in [("Schemas", "schema"), ("Durations", "duration")] {
        text.push_str(&format!("\n## {title}\n\n{}\n", about(&defs[name])));
    }
    for (title, name) in [("Budgets", "budget"), ("Triggers", "trigger")] {
        text.push_str(&format!("\n## {title}\n\n{}\n\n{}", about(&defs[name]), keys(&defs[name]["properties"])));
    }
    text
}

fn own_key(properties: &Value, key: &str) -> (String, Value) {
    (key.to_owned(), properties[key].clone())
}

fn about(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// A line for each key: what it is for, the words that it takes, and the keys below it.
fn keys(properties: &Value) -> String {
    let line = |(key, schema): (&String, &Value)| {
        let words: Vec<&str> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let words = if words.is_empty() { String::new() } else { format!(" One of {}.", words.join(", ")) };
        let below: String = maps(schema).map(below).collect();
        format!("- `{key}`: {}{words}\n{below}", about(schema))
    };
    properties.as_object().into_iter().flatten().map(line).collect()
}

/// The maps that a key takes, written out where it is: itself, by name, or as one of several ways.
fn maps(schema: &Value) -> impl Iterator<Item = &Value> {
    let ways = schema["anyOf"].as_array().into_iter().flatten();
    [schema, &schema["additionalProperties"]].into_iter().chain(ways).filter(|map| map["properties"].is_object())
}

fn below(map: &Value) -> String {
    let line = |(key, schema): (&String, &Value)| format!("    - `{key}`: {}\n", about(schema));
    let lines: String = map["properties"].as_object().into_iter().flatten().map(line).collect();
    format!("  - {}\n{lines}", about(map))
}

#[cfg(test)]
mod tests {
    use relais_plan::Source;
    use relais_plan::problem::has_errors;

    use super::*;
    use crate::{Loader, read};

    struct Kept;

    impl Loader for Kept {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            let text = "input: { text: string }\nsteps: [{ id: a, set: { b: 1 } }]\n".to_owned();
            Ok(Source { name: reference.to_owned(), text })
        }
    }

    fn must_load(text: String) {
        let source = Source { name: "example".to_owned(), text };
        let loaded = read(&source, &Kept, &Default::default());
        assert!(!has_errors(&loaded.problems), "{}", source.render(&loaded.problems, false));
    }

    #[test]
    fn the_examples_are_a_workflow() {
        let (head, _) = EXAMPLE.split_once("steps:").unwrap_or_default();
        let steps: String = KINDS.iter().map(|kind| format!("  - {}\n", kind_example(kind.word))).collect();
        must_load(format!("{head}steps:\n{steps}"));
        must_load(EXAMPLE.to_owned());
    }

    #[test]
    fn the_guide_names_every_key() {
        let guide = guide();
        let own = KINDS.iter().flat_map(|kind| std::iter::once(kind.word).chain(kind.own.iter().copied()));
        for key in own.chain(COMMON.iter().copied()).chain(top_keys()) {
            assert!(guide.contains(&format!("- `{key}`: ")), "{key}");
        }
        assert!(!guide.contains("`: \n"), "a key is not described");
        assert!(kinds().len() < 3_500, "{}: a tool's description is read with every request", kinds().len());
    }
}
