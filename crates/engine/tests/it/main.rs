//! Workflows run by the engine alone, in virtual time: `tests/cases/engine/*.case`. Each case has a definition, the
//! world that answers it, how the run must end, and its transcript. `UPDATE_EXPECT=1` rewrites the transcripts.
//!
//! Every case also proves the laws of the fold: see `laws.rs`.

#![allow(clippy::unwrap_used)]

mod driver;
mod laws;
mod script;
mod transcript;
mod world;

use std::path::{Path, PathBuf};

use script::Case;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/engine");

#[test]
fn every_case_runs_as_written() {
    let mut failures = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(CASES).unwrap().map(|entry| entry.unwrap().path()).collect();
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
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        case.transcript = text;
        return Ok(());
    }
    if case.transcript != text { Err(format!("the transcript is now\n{text}")) } else { Ok(()) }
}
