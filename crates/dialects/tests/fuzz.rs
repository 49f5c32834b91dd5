//! Whatever is read, reading ends: no panic, no hang, and every place that is named lies in the text. What loads can be
//! written in the native format, and means the same there. Each format is tried for itself.
//!
//! Seeds are all definitions and cases under `tests/cases/FORMAT` and those in `corpus`. `PROPTEST_CASES=100000` looks
//! longer.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use relais_dialects::{Format, Loader, Options, convert, read};
use relais_plan::check::World;
use relais_plan::problem::has_errors;
use relais_plan::{Plan, Problem, Source};

/// Answers every reference with the same text under another name, so that only the bounds end the reading.
struct Endless(String);

impl Loader for Endless {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        Ok(Source { name: format!("{from}/{reference}"), text: self.0.clone() })
    }

    fn variable(&self, name: &str) -> Result<Option<String>, String> {
        Ok((name.len() < 4).then(|| format!("{name}: [\"\n")))
    }
}

/// Nothing is known outside of the file.
struct Nowhere;

impl World for Nowhere {
    fn tools(&self) -> Option<Vec<(String, serde_json::Value)>> {
        None
    }

    fn servers(&self) -> Vec<String> {
        Vec::new()
    }

    fn price_known(&self, _model: &str) -> bool {
        false
    }
}

/// As it is read when nobody says what it is, and as the format that it is meant to be.
fn check(text: String, format: Format) {
    for format in [None, Some(format)] {
        check_as(&text, &Options { format, branch: None });
    }
}

fn check_as(text: &str, options: &Options) {
    let source = Source { name: "fuzz.yaml".into(), text: text.to_owned() };
    let loader = Endless(source.text.clone());
    let loaded = read(&source, &loader, options);
    loaded.problems.iter().for_each(|problem| lies_within(problem, &source));
    for branch in loaded.branches.iter().take(1) {
        read(&source, &loader, &Options { branch: Some(branch.clone()), ..options.clone() });
    }
    let Some(plan) = loaded.plan else { return };
    relais_plan::check::check(&plan, &Nowhere);
    if !has_errors(&loaded.problems) {
        converts(&source, &loader, options, &plan);
    }
}

fn lies_within(problem: &Problem, source: &Source) {
    let (start, end) = (problem.span.start as usize, problem.span.end as usize);
    assert!(start <= end && end <= source.text.len(), "{problem:?}");
    assert!(source.text.is_char_boundary(start) && source.text.is_char_boundary(end), "{problem:?}");
    assert!(!problem.message.is_empty());
}

fn converts(source: &Source, loader: &Endless, options: &Options, plan: &Plan) {
    let text = convert(source, loader, options).unwrap();
    let native = Source { name: source.name.clone(), text };
    let loaded = read(&native, loader, &Options { format: Some(Format::Native), branch: None });
    assert!(!has_errors(&loaded.problems), "{}\n{:?}", native.text, loaded.problems);
    let again = loaded.plan.unwrap();
    assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(plan).unwrap(), "{}", native.text);
}

/// All texts of a format, those of the files in subfolders included.
fn seeds(format: Format) -> Vec<String> {
    let word = format.word();
    let folders = [format!("../../tests/cases/{word}"), format!("corpus/good/{word}"), format!("corpus/bad/{word}")];
    let mut texts: Vec<String> = folders.iter().flat_map(|folder| texts(&in_crate(folder))).collect();
    if format == Format::Native {
        let own = ["corpus/good", "corpus/bad", "../../tests/cases/engine", "../../examples"];
        texts.extend(own.iter().flat_map(|folder| self::texts(&in_crate(folder))));
    }
    texts.sort();
    texts.dedup();
    assert!(!texts.is_empty(), "there is no file of the format {word}");
    texts
}

fn in_crate(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

fn texts(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|end| end.to_str()) {
            Some("yaml" | "yml" | "json" | "py") => found.push(std::fs::read_to_string(&path).unwrap()),
            Some("case") => found.extend(workflows(&std::fs::read_to_string(&path).unwrap())),
            _ => {}
        }
    }
    found
}

/// The workflows of a file of cases.
fn workflows(cases: &str) -> Vec<String> {
    let sections = cases.split("=== ").flat_map(|case| case.split("--- "));
    sections.filter_map(|section| section.strip_prefix("workflow\n")).map(str::to_owned).collect()
}

/// What a format has of its own, for a change to hit something.
fn words(format: Format) -> &'static [&'static str] {
    match format {
        Format::Native => &["steps: ", "goto: ", "needs: ", "run_if: ", "repeat: ", "for_each: ", "earlier"],
        Format::Chain => &[
            "$previous_output",
            ".a[0]",
            "{previous_output}",
            "loop: ",
            "for_each",
            "repeat_until",
            "executors: ",
            "None",
            "True",
            "'''",
            "\"\"\"",
            "r'",
            "\\x41",
            "\\N{DASH}",
            "('a' 'b')",
            "(1,)",
            "1_000",
            "0o7",
        ],
        Format::Steps => &[
            "<<trigger_output>>",
            "<<step_output.",
            ">>",
            "custom_llm",
            "stop_checker",
            "$.x[?(@.a>1)]",
            "order: ",
            "conditions: ",
            "greater_than",
        ],
        Format::Pipeline => &[
            "{{ $steps.",
            ".outputs.a.output",
            "type: conditional",
            "type: parallel",
            "goto: ",
            "retry: ",
            "max_loop_iterations: ",
            "true: ",
            "false: ",
            "overrides: ",
        ],
        Format::Graph => &[
            "from: ",
            "to: ",
            "source: ",
            "target: ",
            "maxRounds: ",
            "branches: ",
            "nodes: ",
            "edges: ",
            "schedule: ",
            "executionMode: continuous",
        ],
        Format::Dag => &[
            "${X, y}",
            "${PORT",
            "$${",
            "!include a\n",
            "depends_on: ",
            "«value:",
            "type: fork",
            "type: loop",
            "loop_body: ",
            "then: ",
            "{{input.x}}",
            "{{a.output.b}}",
            "prompt_injection: ",
            "workflow.input",
        ],
    }
}

const COMMON: &[&str] =
    &["{{ ", " }}", "{% ", "- ", "\n  - ", ": ", "&a ", "*a", "<<: ", "null", "[]", "{}", "''", "1e999", "-1"];

#[derive(Debug, Clone)]
enum Change {
    /// So many letters from here become something else.
    Splice(usize, String),
    /// A line is left out or written twice, or changes places with the next; what is left is often still valid.
    Drop,
    Repeat,
    Swap,
}

fn change(format: Format) -> impl Strategy<Value = (prop::sample::Index, Change)> {
    let words: Vec<&str> = words(format).iter().chain(COMMON).copied().collect();
    let insert = prop_oneof![
        Just(String::new()),
        "[-:\\[\\]{},&*#|>'\"%@`!?~$()\\\\ \\n\\t0-9a-zé«\u{1f600}\u{f8f0}]{1,8}",
        prop::sample::select(words).prop_map(str::to_owned),
    ];
    let change = prop_oneof![
        3 => (0usize..40, insert).prop_map(|(length, insert)| Change::Splice(length, insert)),
        1 => Just(Change::Drop),
        1 => Just(Change::Repeat),
        1 => Just(Change::Swap),
    ];
    (any::<prop::sample::Index>(), change)
}

fn mutated(format: Format) -> impl Strategy<Value = String> {
    let changes = prop::collection::vec(change(format), 1..4);
    (prop::sample::select(seeds(format)), changes)
        .prop_map(|(text, changes)| changes.into_iter().fold(text, |text, (at, change)| changed(&text, at, change)))
}

fn changed(text: &str, at: prop::sample::Index, change: Change) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line = at.index(lines.len().max(1));
    match change {
        Change::Splice(length, insert) => {
            let mut letters: Vec<char> = text.chars().collect();
            let start = at.index(letters.len() + 1);
            let end = (start + length).min(letters.len());
            letters.splice(start..end, insert.chars());
            return letters.into_iter().collect();
        }
        Change::Drop if line < lines.len() => drop(lines.remove(line)),
        Change::Repeat if line < lines.len() => lines.insert(line, lines[line]),
        Change::Swap if line + 1 < lines.len() => lines.swap(line, line + 1),
        Change::Drop | Change::Repeat | Change::Swap => {}
    }
    lines.concat()
}

macro_rules! formats {
    ($($name:ident: $format:expr,)*) => { $(mod $name {
        use super::*;

        #[test]
        fn seeds_are_read_or_refused() {
            seeds($format).into_iter().for_each(|text| check(text, $format));
        }

        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn mutated_files_are_read_or_refused(text in mutated($format)) {
                check(text, $format);
            }

            #[test]
            fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
                check(String::from_utf8_lossy(&bytes).into_owned(), $format);
            }

            #[test]
            fn any_punctuation_is_read_or_refused(text in "[-:\\[\\]{}(),&*#|>'\"%@!?$\\\\ \\n\\ta-c]{0,80}") {
                check(text, $format);
            }
        }
    })* };
}

formats! {
    native: Format::Native,
    chain: Format::Chain,
    steps: Format::Steps,
    pipeline: Format::Pipeline,
    graph: Format::Graph,
    dag: Format::Dag,
}

/// A bound that were missing would make one of these run for minutes.
#[test]
fn long_chains_are_read_in_time() {
    let step = "  - { id: sID, needs: [sBEFORE], set: { v: 1 } }\n";
    let mut text = String::from("steps:\n  - { id: s0, set: { v: 0 } }\n");
    for position in 1..5_000 {
        text += &step.replace("ID", &position.to_string()).replace("BEFORE", &(position - 1).to_string());
    }
    check_as(&text, &Options::default());
}

#[test]
fn many_mistakes_are_found_in_time() {
    check(format!("steps: [{}]", "{ goto: nowhere }, ".repeat(2_000)), Format::Native);
    check(format!("steps: [{}]", "{ wait: 1s, needs: [nowhere] }, ".repeat(2_000)), Format::Native);
    check(format!("personas: [{}]", "\"${MISSING} ${SOME_KEY}\", ".repeat(2_000)), Format::Dag);
    check("!include x\n".repeat(2_000), Format::Dag);
}

#[test]
fn deep_files_are_refused_in_time() {
    for format in Format::ALL {
        check("[".repeat(100_000), format);
        check("{a: ".repeat(100_000), format);
        check("(".repeat(100_000), format);
        check(format!("steps: {}", "- ".repeat(100_000)), format);
    }
}

#[test]
fn files_that_are_too_large_are_refused_in_time() {
    check(" ".repeat(5 * 1024 * 1024), Format::Native);
    check(" ".repeat(5 * 1024 * 1024) + "${X}", Format::Dag);
}
