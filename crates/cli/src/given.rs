//! The input that a person gives: pairs, files, a prompt.

use std::io::Read;

use anyhow::{Context, anyhow, bail};
use relais_plan::Schema;
use serde_json::{Map, Value};

/// Larger inputs belong in a file that a tool reads.
const MAX_INPUT_BYTES: u64 = 16 * 1024 * 1024;

/// `k=v` pairs and `@file.json` in the order they were written; later ones win. Where the workflow wants text, what is
/// written is text, also if it looks like a number.
pub fn pairs(written: &[String], schema: Option<&Schema>) -> anyhow::Result<Map<String, Value>> {
    let is_text = |key: &str| schema.is_some_and(|s| s.json()["properties"][key]["type"] == "string");
    let mut input = Map::new();
    for word in written {
        match word.strip_prefix('@') {
            Some(file) => input.extend(object(file)?),
            None => {
                let (key, text) = pair(word)?;
                let value = match value_of(text) {
                    Value::String(value) => Value::String(value),
                    _ if is_text(key) => Value::String(text.to_owned()),
                    value => value,
                };
                input.insert(key.to_owned(), value);
            }
        }
    }
    Ok(input)
}

fn pair(word: &str) -> anyhow::Result<(&str, &str)> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => bail!("--input {word}: write NAME=VALUE, or @FILE for a JSON file"),
    }
}

/// JSON if it is JSON, else text.
pub fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn object(file: &str) -> anyhow::Result<Map<String, Value>> {
    let text = text(file).map_err(|error| anyhow!("--input @{error}"))?;
    match serde_json::from_str(&text).with_context(|| format!("--input @{file} is not JSON"))? {
        Value::Object(map) => Ok(map),
        _ => bail!("--input @{file} must hold a JSON object with the inputs by name"),
    }
}

/// What is in a file, or on standard input for `-`.
pub fn text(file: &str) -> anyhow::Result<String> {
    let text = match file {
        "-" => bounded(std::io::stdin().lock()),
        file => std::fs::File::open(file).map_err(anyhow::Error::from).and_then(bounded),
    };
    text.map_err(|error| anyhow!("{}: {error}", if file == "-" { "standard input" } else { file }))
}

/// A value as it is written, in a file (`@FILE`), or on standard input (`-`).
pub fn data(written: &str) -> anyhow::Result<Value> {
    match written.strip_prefix('@') {
        Some(file) => Ok(value_of(&text(file)?)),
        None if written == "-" => Ok(value_of(&text(written)?)),
        None => Ok(value_of(written)),
    }
}

/// The prompt as written, or standard input for `-`.
pub fn prompt(written: Option<&str>) -> anyhow::Result<Option<String>> {
    match written {
        Some("-") => Ok(Some(text("-")?)),
        Some(text) => Ok(Some(text.to_owned())),
        None => Ok(None),
    }
}

fn bounded(from: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = from.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_INPUT_BYTES {
        bail!("is larger than {MAX_INPUT_BYTES} bytes");
    }
    Ok(text)
}

/// Puts the prompt where the workflow takes text: `prompt`, else its only text input.
pub fn place(prompt: String, schema: Option<&Schema>, input: &mut Map<String, Value>) -> anyhow::Result<()> {
    let properties = schema.and_then(|s| s.json().get("properties")).and_then(Value::as_object);
    let name = match properties {
        None => "prompt",
        Some(known) if known.contains_key("prompt") => "prompt",
        Some(known) => only_text(known)?,
    };
    input.insert(name.to_owned(), Value::String(prompt));
    Ok(())
}

fn only_text(known: &Map<String, Value>) -> anyhow::Result<&str> {
    let mut texts = known.iter().filter(|(_, schema)| schema["type"] == "string").map(|(name, _)| name.as_str());
    if let (Some(name), None) = (texts.next(), texts.next()) {
        return Ok(name);
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    bail!("the workflow has no input `prompt` and not just one that is text; give its inputs with --input: {names}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pairs_are_json_where_they_can_be() {
        let words = ["a=1", "b=x y", "c=[1,2]", "d=", "e=\"1\"", "f=a=b", "a=2"].map(str::to_owned);
        let input = Value::Object(pairs(&words, None).unwrap());
        assert_eq!(input, json!({"a": 2, "b": "x y", "c": [1, 2], "d": "", "e": "1", "f": "a=b"}));
        let schema = Schema::new(json!({"properties": {"zip": {"type": "string"}, "n": {"type": "integer"}}}));
        let typed = pairs(&["zip=01234", "zip=12", "n=5"].map(str::to_owned), Some(&schema)).unwrap();
        assert_eq!(Value::Object(typed), json!({"zip": "12", "n": 5}));
        for wrong in ["nothing", "=x", "@/no/such/file.json"] {
            assert!(pairs(&[wrong.to_owned()], None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prompt_finds_its_place() {
        let text = json!({"type": "string"});
        let check = |schema: Option<Value>, expected: Option<&str>| {
            let mut input = Map::new();
            let placed = place("hi".into(), schema.clone().map(Schema::new).as_ref(), &mut input);
            assert_eq!(placed.ok().and_then(|()| input.keys().next().cloned()).as_deref(), expected, "{schema:?}");
        };
        check(None, Some("prompt"));
        check(Some(json!({"properties": {"prompt": text, "other": text}})), Some("prompt"));
        check(Some(json!({"properties": {"topic": text, "n": {"type": "integer"}}})), Some("topic"));
        check(Some(json!({"properties": {"a": text, "b": text}})), None);
        check(Some(json!({"properties": {}})), None);
    }
}
