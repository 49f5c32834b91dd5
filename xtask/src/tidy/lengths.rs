//! The lengths of functions outside tests, held by a ratchet: the number of long ones may fall, never rise.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::tidy::source::{Function, Source};
use crate::workspace::{File, Workspace};

/// A function longer than this cannot be read at a glance.
const LONG: usize = 70;

const RATCHET: &str = "xtask/ratchet.json";

/// What the code may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ratchet {
    over_70: usize,
    median: usize,
}

pub fn check(workspace: &Workspace, files: &[File]) -> Result<Vec<String>> {
    let functions = functions(files);
    println!("functions outside tests: {}, median {} lines", functions.len(), median(&functions));
    Ok(problems(&functions, read_ratchet(workspace)?))
}

pub fn lower_ratchet(workspace: &Workspace, files: &[File]) -> Result<()> {
    let ratchet = lowered(read_ratchet(workspace)?, &functions(files));
    let text = serde_json::to_string_pretty(&json!({ "over_70": ratchet.over_70, "median": ratchet.median }))?;
    fs::write(workspace.root.join(RATCHET), text + "\n").with_context(|| format!("cannot write {RATCHET}"))
}

/// The median keeps its bound: it is the rule itself, and the middle of many lengths moves with every change.
fn lowered(ratchet: Ratchet, functions: &[(String, Function)]) -> Ratchet {
    Ratchet { over_70: ratchet.over_70.min(long(functions).count()), ..ratchet }
}

fn read_ratchet(workspace: &Workspace) -> Result<Ratchet> {
    let text = fs::read_to_string(workspace.root.join(RATCHET)).with_context(|| format!("cannot read {RATCHET}"))?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{RATCHET} is not JSON"))?;
    let number = |key: &str| {
        let found = value[key].as_u64().and_then(|found| usize::try_from(found).ok());
        found.with_context(|| format!("{RATCHET} needs a whole number under `{key}`"))
    };
    Ok(Ratchet { over_70: number("over_70")?, median: number("median")? })
}

fn functions(files: &[File]) -> Vec<(String, Function)> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let of_file = |file: &File| Source::new(&file.path, &file.text).functions();
    rust.flat_map(|file| of_file(file).into_iter().map(|function| (file.path.clone(), function))).collect()
}

fn problems(functions: &[(String, Function)], ratchet: Ratchet) -> Vec<String> {
    let mut problems = Vec::new();
    if long(functions).count() > ratchet.over_70 {
        problems.extend(long(functions).map(long_problem));
    }
    let median = median(functions);
    if median > ratchet.median {
        problems.push(format!("the median function has {median} lines, above {}: split the long ones", ratchet.median));
    }
    problems
}

fn long_problem((path, function): &(String, Function)) -> String {
    let Function { name, line, lines } = function;
    format!("{path}:{line} `{name}` has {lines} lines, above {LONG}: keep the branches, move the leaves out")
}

fn long(functions: &[(String, Function)]) -> impl Iterator<Item = &(String, Function)> {
    functions.iter().filter(|(_, function)| function.lines > LONG)
}

fn median(functions: &[(String, Function)]) -> usize {
    let mut lengths: Vec<usize> = functions.iter().map(|(_, function)| function.lines).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_lengths(lengths: &[usize]) -> Vec<(String, Function)> {
        let function = |lines: &usize| Function { name: format!("f{lines}"), line: 1, lines: *lines };
        lengths.iter().map(|lines| ("a.rs".to_string(), function(lines))).collect()
    }

    fn check(lengths: &[usize], over_70: usize, expected: &[&str]) {
        let problems = problems(&of_lengths(lengths), Ratchet { over_70, median: 10 });
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn long_functions_are_held_by_the_ratchet() {
        check(&[], 0, &[]);
        check(&[3, 5, 70], 0, &[]);
        check(&[3, 5, 71], 0, &["`f71` has 71 lines"]);
        check(&[3, 5, 71], 1, &[]);
        check(&[3, 4, 5, 71, 72], 1, &["`f71`", "`f72`"]);
        check(&[3, 11, 12], 0, &["the median function has 11 lines"]);
    }

    #[test]
    fn the_ratchet_falls_and_never_rises() {
        let after = |over_70, lengths: &[usize]| lowered(Ratchet { over_70, median: 10 }, &of_lengths(lengths)).over_70;
        assert_eq!(after(3, &[5, 80]), 1);
        assert_eq!(after(0, &[5, 80]), 0);
    }
}
