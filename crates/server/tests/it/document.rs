//! The OpenAPI document: kept in a file, so that a change of the API is seen, and whole.

use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

fn document() -> Value {
    serde_json::to_value(relais_server::document()).unwrap()
}

#[test]
fn the_document_is_the_one_in_the_file() {
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap();
    assert!(kept == text, "crates/server/openapi.json is behind: `UPDATE_EXPECT=1` rewrites it");
}

#[test]
fn every_operation_says_what_it_is_and_how_it_fails() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |o| (path, o)));
    let mut ids = std::collections::BTreeSet::new();
    for (path, (method, operation)) in operations {
        let place = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{place}: the operation id is not its own");
        assert!(operation["summary"].is_string() && operation["tags"].is_array(), "{place}: no summary or tag");
        let responses = operation["responses"].as_object().unwrap();
        let problem = |(status, response): (&String, &Value)| {
            status.starts_with('4') && response["content"].get("application/problem+json").is_some()
        };
        assert!(responses.iter().any(problem), "{place}: no problem is documented");
    }
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let (document, mut found) = (document(), Vec::new());
    references(&document, &mut found);
    assert!(found.len() > 100, "{} references only", found.len());
    for reference in found {
        let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out of the document"));
        assert!(document.pointer(place).is_some(), "there is no {reference}");
    }
}

/// Two types with one name would be one schema in the document, and one of them would be described wrongly.
#[test]
fn no_two_types_share_a_name_in_the_document() {
    let mut named = std::collections::BTreeMap::new();
    for file in sources(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        for part in text.split("#[derive(").skip(1).filter(|part| part.split(')').next().unwrap().contains("ToSchema"))
        {
            let name = schema_name(part);
            let other = named.insert(name.clone(), file.clone());
            assert!(other.is_none(), "{name}: {other:?} and {file:?}; say `#[schema(as = …)]`");
        }
    }
    assert!(named.contains_key("RunStatus") && named.contains_key("Problem"), "{named:?}");
}

fn schema_name(part: &str) -> String {
    let until = |text: &str| text.chars().take_while(|c| c.is_alphanumeric()).collect();
    let head = part.split('{').next().unwrap();
    match head.split_once("schema(as = ") {
        Some((_, name)) => until(name),
        None => until(head.split_once("struct ").or_else(|| head.split_once("enum ")).unwrap().1),
    }
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}
