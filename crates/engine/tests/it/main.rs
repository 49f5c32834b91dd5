//! Workflows run by the engine alone, in virtual time: the `*.case` files under `tests/cases`, a folder for each format
//! and one for the engine. Each case has a definition, the world that answers it, how the run must end, and its
//! transcript. `UPDATE_EXPECT=1` rewrites the transcripts, `CASE=words` runs only cases with these words in the title.
//!
//! Every case also proves the laws of the fold (see `laws.rs`), and that its definition converted to the native format
//! runs in just the same way.

#![allow(clippy::unwrap_used)]

mod driver;
mod laws;
mod script;
mod transcript;
mod world;

use std::path::{Path, PathBuf};

use script::Case;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");

#[test]
fn engine() {
    check_folder("engine");
}

#[test]
fn chain() {
    check_folder("chain");
}

#[test]
fn steps() {
    check_folder("steps");
}

#[test]
fn pipeline() {
    check_folder("pipeline");
}

#[test]
fn graph() {
    check_folder("graph");
}

#[test]
fn dag() {
    check_folder("dag");
}

fn check_folder(folder: &str) {
    let mut failures = Vec::new();
    let folder = Path::new(CASES).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "case"));
    files.sort();
    assert!(!files.is_empty());
    for file in &files {
        check_file(file, &mut failures);
    }
    assert!(failures.is_empty(), "{} cases differ\n\n{}", failures.len(), failures.join("\n\n"));
}

fn check_file(file: &Path, failures: &mut Vec<String>) {
    let mut cases = script::read(&std::fs::read_to_string(file).unwrap());
    for case in &mut cases {
        let wanted = std::env::var("CASE").ok();
        if wanted.is_some_and(|wanted| !case.title.contains(&wanted)) {
            continue;
        }
        if let Err(failure) = check(case) {
            let name = file.file_stem().unwrap().to_string_lossy();
            failures.push(format!("=== {name}: {}\n{failure}", case.title));
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let text: String = cases.iter().map(script::write).collect();
        std::fs::write(file, text).unwrap();
    }
}

/// Runs a case, proves the laws on it, and compares its end and its transcript.
fn check(case: &mut Case) -> Result<(), String> {
    let story = driver::tell(case)?;
    let text = transcript::of(&story);
    let end = transcript::end(&story);
    let matches = end.starts_with(case.ends.trim());
    if !matches {
        return Err(format!("it should end as\n  {}\nand ends as\n  {end}\n{text}", case.ends.trim()));
    }
    laws::crash_everywhere(case, &story).map_err(|broken| format!("{broken}\n{text}"))?;
    converted(case, &text)?;
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        case.transcript = text;
        return Ok(());
    }
    if case.transcript != text { Err(format!("the transcript is now\n{text}")) } else { Ok(()) }
}

/// The same definition in the native format behaves the same, call by call.
fn converted(case: &Case, expected: &str) -> Result<(), String> {
    let Some(workflow) = driver::native(&case.workflow)? else { return Ok(()) };
    let native = Case { workflow, lines: case.lines.clone(), ..Case::default() };
    let told = driver::tell(&native).map(|story| transcript::of(&story));
    let told = told.map_err(|error| format!("converted, it does not run: {error}\n{}", native.workflow))?;
    if told == expected { Ok(()) } else { Err(format!("converted, it runs as\n{told}\n{}", native.workflow)) }
}
