//! What must and must not stand in Rust files: the opening comment, leftovers, ignored and sleeping tests, SQL outside
//! its place.

use crate::tidy::source::Source;
use crate::workspace::File;

/// Left over from work in progress, wherever it stands. In pieces, so that a search for them does not stop here.
const LEFTOVERS: [&str; 4] =
    [concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!"), concat!("#[", "ignore")];

const SQL_WORDS: [&str; 2] = ["rusqlite", "SELECT "];

/// Where SQL may stand: the store, the tool whose work is SQL, and the rules themselves.
const SQL_PLACES: [&str; 3] = ["crates/store/", "crates/runtime/src/tools/query_db.rs", "xtask/src/tidy/"];

pub fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| file.path.ends_with(".rs")).flat_map(file_problems).collect()
}

fn file_problems(file: &File) -> Vec<String> {
    let source = Source::new(&file.path, &file.text);
    let mut problems = Vec::new();
    if !file.text.starts_with("//!") {
        problems.push(format!("{}:1 begin with `//!`: what the file owns and what it must not know", file.path));
    }
    problems.extend(leftovers(&file.path, &source));
    problems.extend(sleeps(&file.path, &source));
    problems.extend(sql(&file.path, &source));
    problems
}

fn leftovers(path: &str, source: &Source) -> Vec<String> {
    let lines = |word| [false, true].into_iter().flat_map(move |tests| source.lines_with(&source.code, word, tests));
    let found = LEFTOVERS.into_iter().flat_map(|word| lines(word).map(move |line| (word, line)));
    found.map(|(word, line)| format!("{path}:{line} `{word}` is left over: finish it or take it out")).collect()
}

/// A definition such as `fn sleep(` in a test's own clock does not sleep.
fn sleeps(path: &str, source: &Source) -> Vec<String> {
    let defined = source.lines_with(&source.code, "fn sleep(", true);
    let used = source.lines_with(&source.code, "sleep(", true);
    let sleeping = used.into_iter().filter(|line| !defined.contains(line));
    sleeping
        .map(|line| format!("{path}:{line} a test sleeps: wait for the thing itself, or use virtual time"))
        .collect()
}

fn sql(path: &str, source: &Source) -> Vec<String> {
    if SQL_PLACES.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let lines = SQL_WORDS.into_iter().flat_map(|word| source.lines_with(&source.uncommented, word, false));
    lines.map(|line| format!("{path}:{line} SQL belongs in crates/store: add a method to the store instead")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str, expected: &[&str]) {
        let problems = check(&[File { path: path.to_string(), text: text.to_string() }]);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn every_file_says_what_it_owns() {
        check_one("crates/plan/src/a.rs", "//! A.\n", &[]);
        check_one("crates/plan/src/a.rs", "use std::fmt;\n", &["crates/plan/src/a.rs:1 begin with"]);
        check_one("docs/a.md", "text", &[]);
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        for word in LEFTOVERS {
            let expected = format!("a.rs:2 `{word}`");
            check_one("a.rs", &format!("//! {word}\nfn f() {{ {word}() }}\n"), &[&expected]);
            check_one("a.rs", &format!("//! A.\n#[cfg(test)] mod t {{ {word}() }}\n"), &[&expected]);
            check_one("a.rs", &format!("//! A.\nconst A: &str = \"{word}\";\n"), &[]);
        }
    }

    #[test]
    fn tests_do_not_sleep() {
        check_one("a.rs", "//! A.\nfn f() { sleep(1) }\n", &[]);
        check_one(
            "crates/cli/tests/a.rs",
            "//! A.\nfn f() { std::thread::sleep(x) }\n",
            &["crates/cli/tests/a.rs:2 a test"],
        );
        check_one("crates/cli/tests/a.rs", "//! A.\nfn sleep(x: u8) {}\nfn f() { no_sleep(x) }\n", &[]);
    }

    #[test]
    fn sql_stays_in_its_place() {
        let text = "//! A.\nfn f() { run(\"SELECT 1\") }\n";
        check_one("crates/service/src/runs.rs", text, &["crates/service/src/runs.rs:2 SQL belongs"]);
        check_one("crates/store/src/sqlite.rs", text, &[]);
        check_one("crates/runtime/src/tools/query_db.rs", text, &[]);
    }
}
