//! Definitions and their plans: in `tests/cases`, a folder for each format, each definition with what is wrong with it
//! and its plan as text beside it.
//! `UPDATE_EXPECT=1` rewrites the plans.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use relais_dialects::{Loader, read};
use relais_plan::{Node, Plan, Source};
use serde_json::Value;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");
/// How the names of definitions end.
const DEFINITIONS: &[&str] = &["yaml", "json", "py"];

struct Folder;

impl Loader for Folder {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        let path = Path::new(from).with_file_name(reference.trim_start_matches("./"));
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok(Source { name: path.display().to_string(), text })
    }
}

#[test]
fn every_case_has_its_plan() {
    let mut failures = Vec::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["native", "chain", "steps", "pipeline", "graph", "dag"] {
        let folder = Path::new(CASES).join(folder);
        files.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|end| DEFINITIONS.iter().any(|word| end == *word)));
    files.sort();
    assert!(!files.is_empty());
    for file in &files {
        failures.extend(check(file));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The difference, if there is one.
fn check(file: &Path) -> Option<String> {
    let source = Source { name: file.display().to_string(), text: std::fs::read_to_string(file).unwrap() };
    let loaded = read(&source, &Folder, &Default::default());
    let mut text = String::new();
    for problem in &loaded.problems {
        let (line, column) = source.position(problem.span.start);
        writeln!(text, "{line}:{column} {}", problem.message).unwrap();
        writeln!(text, "    {}", problem.help.as_deref().unwrap_or("-")).unwrap();
    }
    text += &loaded.plan.as_ref().map(plan_text).unwrap_or_default();
    let expected = PathBuf::from(format!("{}.plan", file.with_extension("").display()));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&expected, &text).unwrap();
        return None;
    }
    let kept = std::fs::read_to_string(&expected).unwrap_or_default();
    (kept != text).then(|| format!("{} differs:\n{text}", expected.display()))
}

fn plan_text(plan: &Plan) -> String {
    let mut text = format!("plan {} entry {}\n", plan.name, shown(plan.entry));
    for (id, region) in plan.regions.iter().enumerate() {
        match region.opener {
            Some(opener) => writeln!(text, "region {id}: lane {} of {}", region.lane, plan.node(opener).key).unwrap(),
            None => writeln!(text, "region {id}").unwrap(),
        }
    }
    for (id, node) in plan.nodes.iter().enumerate() {
        text += &node_text(id, node);
    }
    let mut rest = serde_json::to_value(plan).unwrap();
    for (key, value) in rest.as_object_mut().unwrap() {
        if !["name", "nodes", "regions", "entry"].contains(&key.as_str()) {
            writeln!(text, "{key}: {value}").unwrap();
        }
    }
    text
}

fn node_text(id: usize, node: &Node) -> String {
    let hidden = if node.hidden { " hidden" } else { "" };
    let inside = node.inside.map(|choose| format!(" inside {choose}")).unwrap_or_default();
    let head = format!("{id} {} ({}){hidden} region {}{inside}", node.key, node.kind, node.region);
    let mut fields = serde_json::to_value(node).unwrap();
    let fields = fields.as_object_mut().unwrap();
    let op = fields.shift_remove("op").unwrap();
    fields.retain(|key, _| !["key", "kind", "hidden", "region", "inside", "next"].contains(&key.as_str()));
    let policies = if fields.is_empty() { String::new() } else { format!(" {}", Value::Object(fields.clone())) };
    format!("{head} -> {}{policies}\n    {op}\n", shown(node.next))
}

fn shown(node: Option<u32>) -> String {
    node.map_or_else(|| "end".to_owned(), |id| id.to_string())
}
