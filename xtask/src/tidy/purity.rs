//! The engine stays pure: nothing that waits, reads a clock, draws at random, does I/O or logs, neither in its
//! dependencies nor in its own words.

use anyhow::Result;

use crate::tidy::source::Source;
use crate::workspace::{File, Workspace, output_of};

const IMPURE_CRATES: [&str; 17] = [
    "axum",
    "chrono",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "libsqlite3-sys",
    "log",
    "mio",
    "rand",
    "reqwest",
    "rmcp",
    "rusqlite",
    "socket2",
    "time",
    "tokio",
    "tracing",
];

/// Who may draw at random below the engine: ahash seeds the hash maps of the schema validator, as the standard library
/// does for its own, and their order is not observed.
const MAY_DRAW: &str = "ahash";

const IMPURE_WORDS: [&str; 12] = [
    "std::time::",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "async ",
    "println!",
    "eprintln!",
    "RandomState",
];

pub fn check(workspace: &Workspace, files: &[File]) -> Result<Vec<String>> {
    let mut tree = workspace.cargo(["tree", "--locked", "--package", "relais-engine", "--edges", "normal"]);
    let mut problems = tree_problems(&output_of(tree.args(["--prefix", "depth", "--no-dedupe"]))?);
    let engine = files.iter().filter(|file| file.path.starts_with("crates/engine/src/") && file.path.ends_with(".rs"));
    problems.extend(engine.flat_map(|file| word_problems(&file.path, &file.text)));
    Ok(problems)
}

/// The problems in the output of `cargo tree --prefix depth`, `<depth><name> v<version> …` per line: each impure crate
/// once, with the first way that leads to it.
fn tree_problems(tree: &str) -> Vec<String> {
    let mut way: Vec<&str> = Vec::new();
    let mut reported: Vec<&str> = Vec::new();
    let mut problems = Vec::new();
    for line in tree.lines() {
        let (depth, name) = depth_and_name(line);
        way.truncate(depth);
        let seeds_only = name == "getrandom" && way.last() == Some(&MAY_DRAW);
        way.push(name);
        if IMPURE_CRATES.contains(&name) && !seeds_only && !reported.contains(&name) {
            reported.push(name);
            problems.push(format!("the engine must stay pure but depends on {name}: {}", way.join(" -> ")));
        }
    }
    problems
}

fn depth_and_name(line: &str) -> (usize, &str) {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (depth, rest) = line.split_at(digits);
    (depth.parse().unwrap_or(0), rest.split(' ').next().unwrap_or_default())
}

fn word_problems(path: &str, text: &str) -> Vec<String> {
    let source = Source::new(path, text);
    let mut problems = Vec::new();
    for word in IMPURE_WORDS {
        for line in source.lines_with(&source.code, word, false) {
            let word = word.trim();
            problems
                .push(format!("{path}:{line} says `{word}`: the engine is pure, hand the value in from the runtime"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impure_dependency_is_shown_with_its_way_in() {
        let tree = "0relais-engine v0.1.0 (/x)\n1uuid v1.0.0\n2getrandom v0.4.3\n1serde v1.0.0\n2getrandom v0.4.3\n";
        assert_eq!(
            tree_problems(tree),
            ["the engine must stay pure but depends on getrandom: relais-engine -> uuid -> getrandom"]
        );
    }

    #[test]
    fn seeds_of_hash_maps_are_allowed() {
        let tree = "0relais-engine v0.1.0 (/x)\n1relais-plan v0.1.0 (/y)\n2ahash v0.8.12\n3getrandom v0.3.4\n";
        assert_eq!(tree_problems(tree), Vec::<String>::new());
    }

    #[test]
    fn impure_words_count_outside_tests_and_comments_only() {
        let text = "// Instant\nfn f() { let asynchronous = 1; }\nfn g() { Instant::now() }\n#[cfg(test)]\nmod t { use std::fs; }\n";
        let problems = word_problems("crates/engine/src/run.rs", text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("crates/engine/src/run.rs:3 says `Instant`"), "{problems:?}");
    }
}
