//! Conversion to the native format: every definition under `tests/cases` and `examples` that can be read is written in
//! the native format, read again, and must be the same plan.
//!
//! An example of another format has its native twin beside it, `NAME.native.yaml`; `UPDATE_EXPECT=1` rewrites the twins.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use relais_dialects::{Format, Loader, Options, convert, read};
use relais_plan::problem::has_errors;
use relais_plan::{Plan, Source};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// How the names of definitions end.
const DEFINITIONS: &[&str] = &["yaml", "yml", "json", "py"];

/// Workflows beside the file; where there is none, a small one, for cases stand alone.
struct Beside;

impl Loader for Beside {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        let path = Path::new(from).with_file_name(reference.trim_start_matches("./"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "steps: [{ set: { x: 1 } }]\n".to_owned());
        Ok(Source { name: path.display().to_string(), text })
    }
}

/// The files of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn is_definition(path: &Path) -> bool {
    path.extension().is_some_and(|end| DEFINITIONS.iter().any(|word| end == *word))
}

fn is_twin(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".native.yaml")
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for path in [files(&Path::new(ROOT).join("tests/cases")), files(&Path::new(ROOT).join("examples"))].concat() {
        let name = path.display().to_string();
        if is_definition(&path) {
            sources.push(Source { name, text: std::fs::read_to_string(&path).unwrap() });
        } else if name.ends_with(".case") {
            sources.extend(cases(&name, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    sources
}

/// The workflows of a file of cases.
fn cases(file: &str, text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for case in text.split("=== ").skip(1) {
        let title = case.lines().next().unwrap_or_default();
        let sections = case.split("--- ").filter_map(|section| section.strip_prefix("workflow\n"));
        sources.extend(sections.map(|text| Source { name: format!("{file}: {title}"), text: text.to_owned() }));
    }
    sources
}

fn plan(source: &Source, options: &Options) -> Option<Plan> {
    let loaded = read(source, &Beside, options);
    loaded.plan.filter(|_| !has_errors(&loaded.problems))
}

/// The first line in which two plans differ.
fn difference(before: &Plan, after: &Plan) -> String {
    let (before, after) = (serde_json::to_string_pretty(before).unwrap(), serde_json::to_string_pretty(after).unwrap());
    let mut lines = before.lines().zip(after.lines()).enumerate();
    match lines.find(|(_, (before, after))| before != after) {
        Some((line, (before, after))) => format!("line {line}: {before}\n became {after}"),
        None => "one plan is longer than the other".to_owned(),
    }
}

/// What is wrong with the conversion of a definition that can be read; none also if it cannot be.
fn check(source: &Source, options: &Options) -> Option<String> {
    let before = plan(source, options)?;
    let text = convert(source, &Beside, options).unwrap();
    let native = Source { name: source.name.clone(), text: text.clone() };
    let loaded = read(&native, &Beside, &Options::default());
    if has_errors(&loaded.problems) {
        return Some(format!("{}: {}\n{text}", source.name, native.render(&loaded.problems, false)));
    }
    let after = loaded.plan.unwrap();
    assert_eq!(loaded.format, Format::Native, "{}\n{text}", source.name);
    if after.hash() != before.hash() {
        return Some(format!("{}: {}\n{text}", source.name, difference(&before, &after)));
    }
    let again = convert(&native, &Beside, &Options::default()).unwrap();
    (again != text).then(|| format!("{}: converted again it is\n{again}\nand was\n{text}", source.name))
}

#[test]
fn every_definition_keeps_its_plan() {
    let mut failures = Vec::new();
    let sources = sources();
    for source in &sources {
        failures.extend(check(source, &Options::default()));
        for branch in read(source, &Beside, &Options::default()).branches {
            failures.extend(check(source, &Options { branch: Some(branch), ..Options::default() }));
        }
    }
    assert!(sources.len() > 100);
    assert!(failures.is_empty(), "{} of {} differ\n{}", failures.len(), sources.len(), failures.join("\n\n"));
}

#[test]
fn examples_of_other_formats_have_their_native_twins() {
    let mut failures = Vec::new();
    for path in files(&Path::new(ROOT).join("examples")) {
        if !is_definition(&path) || is_twin(&path) || path.starts_with(Path::new(ROOT).join("examples/data")) {
            continue;
        }
        let source = Source { name: path.display().to_string(), text: std::fs::read_to_string(&path).unwrap() };
        let loaded = read(&source, &Beside, &Options::default());
        if loaded.format != Format::Native && !has_errors(&loaded.problems) {
            failures.extend(check_twin(&path, &source));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check_twin(path: &Path, source: &Source) -> Option<String> {
    let text = convert(source, &Beside, &Options::default()).unwrap();
    let twin = path.with_extension("native.yaml");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&twin, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&twin).unwrap_or_default();
    (kept != text).then(|| format!("{} should be\n{text}", twin.display()))
}

/// A thousand lanes that meet in one node, before a cycle and in it.
#[test]
fn a_wide_join_keeps_its_plan() {
    let node = |id: &str| format!(r#"{{ "id": "{id}", "config": {{ "agentId": "w" }} }}"#);
    let lanes: Vec<String> = (0..1_000).map(|lane| format!("lane-{lane}")).collect();
    let mut nodes: Vec<String> = lanes.iter().map(|lane| node(lane)).collect();
    nodes.extend(["start", "join", "back"].map(node));
    let edge = |from: &str, to: &str| format!(r#"{{ "from": "{from}", "to": "{to}" }}"#);
    let mut edges: Vec<String> = lanes.iter().flat_map(|lane| [edge("start", lane), edge(lane, "join")]).collect();
    edges.push(edge("join", "back"));
    for cycle in [false, true] {
        edges.extend(cycle.then(|| edge("back", "start")));
        let text = format!(
            r#"{{ "agents": {{ "w": {{ "model": "sim/x" }} }}, "nodes": [{}], "edges": [{}] }}"#,
            nodes.join(", "),
            edges.join(", ")
        );
        let source = Source { name: "wide.json".into(), text };
        let loaded = read(&source, &Beside, &Options::default());
        assert!(!has_errors(&loaded.problems), "{:?}", loaded.problems.first());
        let native = Source { name: "wide.yaml".into(), text: convert(&source, &Beside, &Options::default()).unwrap() };
        let again = read(&native, &Beside, &Options { format: Some(Format::Native), branch: None });
        assert_eq!(again.plan.unwrap().nodes.len(), loaded.plan.unwrap().nodes.len());
        assert!(!has_errors(&again.problems), "{:?}", again.problems.first());
    }
}
