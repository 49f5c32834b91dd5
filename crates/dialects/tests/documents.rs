//! What people copy must work: every file in `examples/` and every whole file in `docs/file-format.md` loads and passes
//! the checker without a word. What must be refused is in `corpus/bad`. Blocks that are only a part of a file are marked "yaml fragment".

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use relais_dialects::{Format, Loader, json_schema, read};
use relais_plan::check::{World, check};
use relais_plan::{Severity, Source};
use serde_json::{Value, json};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The built-in tools with their arguments; those marked `!` are required.
const TOOLS: &[(&str, &[&str])] = &[
    ("http_request", &["method", "url!", "headers", "body", "json", "timeout_s"]),
    ("list_artifacts", &[]),
    ("list_files", &["path"]),
    ("load_artifact", &["name!", "version", "path"]),
    ("query_db", &["database!", "sql!", "parameters", "limit"]),
    ("read_file", &["path!", "offset", "limit", "as"]),
    ("run_python", &["code!", "input", "timeout_s"]),
    ("save_artifact", &["name!", "content!", "media_type"]),
    ("search_web", &["query!", "limit"]),
    ("send_message", &["channel!", "title", "text!", "data"]),
    ("write_file", &["path!", "content!"]),
];

#[test]
fn every_example_loads() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(format!("{ROOT}/examples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let shown = |path: &PathBuf| problems(&path.display().to_string(), &std::fs::read_to_string(path).unwrap());
    let found: Vec<String> = files.iter().flat_map(shown).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_block_of_the_reference_loads() {
    let path = format!("{ROOT}/docs/file-format.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.len() >= 20, "only {} blocks", blocks.len());
    // Workflows that a block calls are the ones in `examples/`.
    let shown = |(line, text): &(usize, String)| {
        let found = problems(&format!("{ROOT}/examples/block.yaml"), text);
        found.into_iter().map(|problem| format!("{path}:{line}: {problem}\n{text}")).collect::<Vec<_>>()
    };
    let found: Vec<String> = blocks.iter().flat_map(shown).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_key_is_in_the_reference() {
    let text = std::fs::read_to_string(format!("{ROOT}/docs/file-format.md")).unwrap();
    let mut keys = BTreeSet::new();
    collect_keys(&json_schema(), &mut keys);
    assert!(keys.len() >= 80, "only {} keys", keys.len());
    // A key stands in code marks: alone, or as the first word of what can be written.
    let is_told = |key: &&String| text.contains(&format!("`{key}`")) || text.contains(&format!("{key}:"));
    let missing: Vec<&String> = keys.iter().filter(|key| !is_told(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The keys of all maps that the format knows.
fn collect_keys(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (word, value) in map {
                match (word.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        keys.extend(properties.keys().cloned());
                        properties.values().for_each(|property| collect_keys(property, keys));
                    }
                    _ => collect_keys(value, keys),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first line of a bad file says what its error says.
#[test]
fn bad_files_of_every_format_are_refused() {
    let mut failures = Vec::new();
    for format in Format::ALL {
        let word = if format == Format::Native { "" } else { format.word() };
        let folder = format!("{}/corpus/bad/{word}", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.is_file());
        assert!(!files.is_empty(), "{word}");
        failures.extend(files.iter().filter_map(|file| accepted(file)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What was said instead.
fn accepted(file: &Path) -> Option<String> {
    let source = Source { name: file.display().to_string(), text: std::fs::read_to_string(file).unwrap() };
    let expected = source.text.lines().next()?.strip_prefix("# error: ").unwrap();
    let problems = read(&source, &Folder, &Default::default()).problems;
    let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let found = errors.any(|problem| problem.message.contains(expected));
    (!found).then(|| format!("{}: wanted {expected:?}, got {problems:#?}", file.display()))
}

#[test]
fn json_inputs_are_json() {
    for entry in std::fs::read_dir(format!("{ROOT}/examples/data")).unwrap() {
        let path = entry.unwrap().path();
        let read: Result<Value, _> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap());
        assert!(read.is_ok_and(|value| value.is_object()), "{}", path.display());
    }
}

/// All that the reader and the checker say about a file, warnings included.
fn problems(name: &str, text: &str) -> Vec<String> {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    let loaded = read(&source, &Folder, &Default::default());
    let of_check = loaded.plan.as_ref().map(|plan| check(plan, &BuiltIn)).unwrap_or_default();
    let place = |problem: relais_plan::Problem| {
        let (line, column) = source.position(problem.span.start);
        format!("{name}:{line}:{column}: {} ({})", problem.message, problem.help.as_deref().unwrap_or("-"))
    };
    loaded.problems.into_iter().chain(of_check).map(place).collect()
}

/// The text between "```yaml" and "```", with the line where it begins.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.trim_end()) {
            (None, "```yaml") => open = Some((number + 2, String::new())),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

struct Folder;

impl Loader for Folder {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        let path = Path::new(from).with_file_name(reference.trim_start_matches("./"));
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok(Source { name: path.display().to_string(), text })
    }
}

struct BuiltIn;

impl World for BuiltIn {
    fn tools(&self) -> Option<Vec<(String, Value)>> {
        Some(TOOLS.iter().map(|(name, arguments)| ((*name).to_owned(), schema(arguments))).collect())
    }

    fn servers(&self) -> Vec<String> {
        Vec::new()
    }

    fn price_known(&self, _model: &str) -> bool {
        true
    }
}

fn schema(arguments: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        arguments.iter().map(|name| (name.trim_end_matches('!').to_owned(), json!({}))).collect();
    let required: Vec<&str> = arguments.iter().filter_map(|name| name.strip_suffix('!')).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
