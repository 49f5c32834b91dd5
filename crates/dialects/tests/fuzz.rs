//! Whatever is read, reading ends: no panic, no hang, and every place that is named lies in the text.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use relais_dialects::{Loader, read};
use relais_plan::Source;

/// Answers every reference with the same text under another name, so that only the bounds end the reading.
struct Endless(String);

impl Loader for Endless {
    fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
        Ok(Source { name: format!("{from}/{reference}"), text: self.0.clone() })
    }
}

fn check(text: String) {
    let source = Source { name: "fuzz.yaml".into(), text };
    let loaded = read(&source, &Endless(source.text.clone()), &Default::default());
    for problem in &loaded.problems {
        let (start, end) = (problem.span.start as usize, problem.span.end as usize);
        assert!(start <= end && end <= source.text.len(), "{problem:?}");
        assert!(source.text.is_char_boundary(start) && source.text.is_char_boundary(end), "{problem:?}");
        assert!(!problem.message.is_empty());
    }
    if let Some(plan) = loaded.plan {
        plan.hash();
    }
}

fn corpus() -> Vec<String> {
    let mut texts = Vec::new();
    let formats = ["native", "chain", "steps", "pipeline", "graph", "dag"];
    let cases = formats.iter().map(|format| format!("../../tests/cases/{format}"));
    for folder in ["corpus/good".to_owned(), "corpus/bad".to_owned()].into_iter().chain(cases) {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            texts.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
    }
    texts.sort();
    texts
}

/// One change to a text: a stretch of it is replaced by something else.
fn mutated() -> impl Strategy<Value = String> {
    let insert = prop_oneof![
        Just(String::new()),
        "[-:\\[\\]{},&*#|>'\"%@`!?~ \\n\\t0-9a-zé«\u{1f600}]{1,8}",
        prop::sample::select(vec![
            "{{ ", " }}", "- ", "\n  - ", ": ", "&a ", "*a", "<<: ", "steps: ", "goto: ", "needs: ", "null"
        ])
        .prop_map(str::to_owned),
    ];
    let change = (any::<prop::sample::Index>(), 0usize..40, insert);
    (prop::sample::select(corpus()), prop::collection::vec(change, 1..4)).prop_map(|(text, changes)| {
        let mut letters: Vec<char> = text.chars().collect();
        for (at, length, insert) in changes {
            let start = at.index(letters.len() + 1);
            let end = (start + length).min(letters.len());
            letters.splice(start..end, insert.chars());
        }
        letters.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_are_read_or_refused(text in mutated()) {
        check(text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(String::from_utf8_lossy(&bytes).into_owned());
    }

    #[test]
    fn any_punctuation_is_read_or_refused(text in "[-:\\[\\]{},&*#|>'\"%@!? \\n\\ta-c]{0,80}") {
        check(text);
    }
}

/// A bound that were missing would make one of these run for minutes.
#[test]
fn long_chains_are_read_in_time() {
    let step = "  - { id: sID, needs: [sBEFORE], set: { v: 1 } }\n";
    let mut text = String::from("steps:\n  - { id: s0, set: { v: 0 } }\n");
    for position in 1..5_000 {
        text += &step.replace("ID", &position.to_string()).replace("BEFORE", &(position - 1).to_string());
    }
    check(text);
}

#[test]
fn many_mistakes_are_found_in_time() {
    check(format!("steps: [{}]", "{ goto: nowhere }, ".repeat(2_000)));
    check(format!("steps: [{}]", "{ wait: 1s, needs: [nowhere] }, ".repeat(2_000)));
}

#[test]
fn deep_files_are_refused_in_time() {
    check("[".repeat(100_000));
    check("{a: ".repeat(100_000));
    check(format!("steps: {}", "- ".repeat(100_000)));
}

#[test]
fn files_that_are_too_large_are_refused_in_time() {
    check(" ".repeat(5 * 1024 * 1024));
}
