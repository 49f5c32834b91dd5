//! The table in docs/compatibility.md against the tests: what it names is there, and says so itself.
//!
//! A test names the promises that it keeps in a comment, above it or as its first lines; a script in the first line of a
//! function. What is named must be a test, and must say something that may fail. The last column of the table is made
//! from these comments; `UPDATE_EXPECT=1` writes it anew.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Promises by format: letter and how many.
const PROMISES: [(char, u32); 5] = [('A', 46), ('B', 44), ('C', 32), ('D', 19), ('E', 50)];
const MARK: &str = "// keeps ";
/// In a script, the first line of a function.
const SCRIPT_MARK: &str = "\"\"\"keeps ";
/// What a test says that may fail.
const ASSERTIONS: [&str; 7] =
    ["assert", "panic!(", ".expect(", ".says(", "refused(", "expect_status(", "expect_failure("];
/// How far helpers of the same file are looked into.
const MAX_HELPERS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
}

/// The name in `fn NAME(` and `def NAME(`.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(super) ")).unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "))?.split(['(', '<']).next()
}

/// A promise that a test says it keeps.
#[derive(Debug, PartialEq)]
struct Kept {
    id: String,
    test: String,
    /// What is wrong with it as evidence.
    wrong: Option<&'static str>,
}

/// Which promises a file says that its tests keep.
fn kept(text: &str) -> Vec<Kept> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        let (ids, at) = match (line.strip_prefix(MARK), line.strip_prefix(SCRIPT_MARK)) {
            (Some(ids), _) => (ids, named_at(&lines, number)),
            (None, Some(ids)) => (ids.trim_end_matches('"'), number.checked_sub(1)),
            (None, None) => continue,
        };
        let at = at.unwrap_or_else(|| panic!("no test for {line:?}"));
        let test = function(lines[at]).unwrap_or_else(|| panic!("no test for {line:?}"));
        let wrong = match () {
            () if line.starts_with(MARK) && !is_test(&lines, at) => Some("is no test"),
            () if !asserts(&lines, at, MAX_HELPERS) => Some("asserts nothing"),
            () => None,
        };
        kept.extend(ids.split(',').map(|id| Kept { id: id.trim().to_owned(), test: test.to_owned(), wrong }));
    }
    kept
}

/// The line of the test that a comment above it or inside it speaks of.
fn named_at(lines: &[&str], comment: usize) -> Option<usize> {
    let next = lines[comment + 1..].iter().find(|line| !line.trim_start().starts_with("//"))?.trim_start();
    match next.starts_with("#[") || function(next).is_some() {
        true => (comment..lines.len()).find(|at| function(lines[*at]).is_some()),
        false => (0..comment).rev().find(|at| function(lines[*at]).is_some()),
    }
}

fn is_test(lines: &[&str], at: usize) -> bool {
    let attributes = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with(['#', '/']));
    attributes.into_iter().any(|line| line.contains("#[test]") || line.contains("#[tokio::test"))
}

/// The lines of a function: in Rust up to its closing brace, before which text may stand at the margin; in a script up to
/// the first line that is indented no deeper.
fn body<'a>(lines: &'a [&'a str], at: usize) -> &'a [&'a str] {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let is_script = lines[at].contains("def ");
    let ends = |line: &&str| match is_script {
        true => !line.trim().is_empty() && depth(line) <= depth(lines[at]),
        false => line.trim() == "}" && depth(line) == depth(lines[at]),
    };
    let rest = &lines[at + 1..];
    &rest[..rest.iter().position(ends).unwrap_or(rest.len())]
}

/// It says something that may fail, itself or in a function of this file that it calls.
fn asserts(lines: &[&str], at: usize, helpers: usize) -> bool {
    let body = body(lines, at);
    if body.iter().any(|line| ASSERTIONS.iter().any(|word| line.contains(word))) {
        return true;
    }
    let called = |at: &usize| {
        let call = function(lines[*at]).map(|name| format!("{name}("));
        call.is_some_and(|call| body.iter().any(|line| line.contains(&call)))
    };
    helpers > 0 && (0..lines.len()).filter(called).any(|at| asserts(lines, at, helpers - 1))
}

/// By promise: `file::test`, the file without what all of them share; and what is no evidence.
fn all_kept() -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    files.sort();
    let (mut found, mut wrong): (BTreeMap<String, Vec<String>>, Vec<String>) = Default::default();
    for file in files.iter().filter(|file| !file.ends_with("tests/compatibility.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        for Kept { id, test, wrong: why } in kept(&text) {
            wrong.extend(why.map(|why| format!("{name}::{test} {why}")));
            let tests = found.entry(id).or_default();
            let shown = format!("`{name}::{test}`");
            if !tests.contains(&shown) {
                tests.push(shown);
            }
        }
    }
    (found, wrong)
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
    let (kept, wrong) = all_kept();
    assert!(wrong.is_empty(), "what is named must be a test that says something: {wrong:#?}");
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
fn comments_name_tests_that_assert() {
    let check = |text: &str, expected: &[(&str, &str, Option<&'static str>)]| {
        let expected: Vec<Kept> = expected
            .iter()
            .map(|(id, test, wrong)| Kept { id: id.to_string(), test: test.to_string(), wrong: *wrong })
            .collect();
        assert_eq!(kept(text), expected, "{text}");
    };
    let above = "// keeps A-01, A-02\n#[test]\nfn above() {\n    assert!(x);\n}\n";
    check(above, &[("A-01", "above", None), ("A-02", "above", None)]);
    check("#[test]\nfn inside() {\n    // keeps B-01\n    go().expect(0);\n}\n", &[("B-01", "inside", None)]);
    check(
        "// keeps B-01\n#[test]\nfn says_nothing() {\n    go();\n}\n",
        &[("B-01", "says_nothing", Some("asserts nothing"))],
    );
    let helped = "fn go() {\n    assert!(x);\n}\n// keeps B-01\n#[test]\nfn helped() {\n    go();\n}\n";
    check(helped, &[("B-01", "helped", None)]);
    check("// keeps B-01\nfn helper() {\n    assert!(x);\n}\n", &[("B-01", "helper", Some("is no test"))]);
    check("async def play(a):\n    \"\"\"keeps D-01\"\"\"\n    assert a\n", &[("D-01", "play", None)]);
}
