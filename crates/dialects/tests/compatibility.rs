//! The table in docs/compatibility.md against the tests: what it names is there, and says so itself.
//!
//! A test names the promises that it keeps in a comment, above it or as its first lines. The last column of the table
//! is made from these comments; `UPDATE_EXPECT=1` writes it anew.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Promises by format: letter and how many.
const PROMISES: [(char, u32); 5] = [('A', 46), ('B', 44), ('C', 32), ('D', 19), ('E', 50)];
const MARK: &str = "// keeps ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The name in `fn NAME(`.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

/// Which promises a file says that its tests keep, each with the test's name.
fn kept(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(ids) = line.trim_start().strip_prefix(MARK) else { continue };
        let is_above = lines[number + 1..].iter().find(|l| !l.trim_start().starts_with("//")).is_some_and(|l| {
            let next = l.trim_start();
            next.starts_with("#[") || function(next).is_some()
        });
        let test = match is_above {
            true => lines[number..].iter().find_map(|l| function(l)),
            false => lines[..number].iter().rev().find_map(|l| function(l)),
        };
        let test = test.unwrap_or_else(|| panic!("no test for {line:?}"));
        kept.extend(ids.split(',').map(|id| (id.trim().to_owned(), test.to_owned())));
    }
    kept
}

/// By promise: `file::test`, the file without what all of them share.
fn all_kept() -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    files.sort();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.ends_with("tests/compatibility.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        for (id, test) in kept(&text) {
            let tests = found.entry(id).or_default();
            let shown = format!("`{name}::{test}`");
            if !tests.contains(&shown) {
                tests.push(shown);
            }
        }
    }
    found
}

fn cells(line: &str) -> Option<[&str; 3]> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [id, promise, shown] = cells[..] else { return None };
    let is_id = id.len() == 4 && id.as_bytes()[1] == b'-' && id[2..].parse::<u32>().is_ok();
    is_id.then_some([id, promise, shown])
}

#[test]
fn every_promise_has_its_tests_or_is_left_for_later() {
    let file = root().join("docs/compatibility.md");
    let table = std::fs::read_to_string(&file).unwrap();
    let kept = all_kept();
    let (mut made, mut missing, mut ids) = (String::new(), Vec::new(), Vec::new());
    for line in table.lines() {
        let Some([id, promise, shown]) = cells(line) else {
            made.push_str(&format!("{line}\n"));
            continue;
        };
        ids.push(id.to_owned());
        let decided = shown.starts_with("not yet") || shown.starts_with("left out");
        let tests = kept.get(id).map(|tests| tests.join("<br>"));
        if !decided && tests.is_none() {
            missing.push(id);
        }
        let shown = if decided { shown.to_owned() } else { tests.unwrap_or_default() };
        made.push_str(&format!("| {id} | {promise} | {shown} |\n"));
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    for (letter, count) in PROMISES {
        let absent = (1..=count).map(|n| format!("{letter}-{n:02}")).find(|id| !ids.contains(id));
        assert_eq!(absent, None, "a promise without a row");
    }
    let unknown: Vec<&String> = kept.keys().filter(|id| !ids.contains(id)).collect();
    assert!(unknown.is_empty(), "tests keep promises that the table does not know: {unknown:?}");
    assert!(missing.is_empty(), "neither a test nor a word about why there is none: {missing:?}");
    let now = std::fs::read_to_string(&file).unwrap();
    assert!(now == made, "docs/compatibility.md is not up to date; UPDATE_EXPECT=1 writes it");
}

#[test]
fn comments_above_and_inside_name_their_test() {
    let text =
        "// keeps A-01, A-02\n#[test]\nfn above() {\n}\n#[test]\nfn inside() {\n    // keeps B-01\n    go();\n}\n";
    let pair = |id: &str, test: &str| (id.to_owned(), test.to_owned());
    assert_eq!(kept(text), [pair("A-01", "above"), pair("A-02", "above"), pair("B-01", "inside")]);
}
