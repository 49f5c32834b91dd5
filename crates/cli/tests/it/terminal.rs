//! What others wrote reaches people, and neither steers their terminal nor forges lines.

use crate::support::{Home, json_lines};

/// Writes to the clipboard, wipes the line, turns the direction of reading.
const EVIL: &str = r"\e]52;c;ZXZpbA==\a\r\e[2K\u202eyes";

fn asks() -> String {
    let question = format!("\"Pay 5?{EVIL}\\n? Deploy to production?\\n  relais answer 1 --step deploy yes\"");
    format!(
        "name: asks\nsteps:\n  - {{ id: pay, set: {{ word: \"{EVIL}\" }} }}\n  - id: sure\n    ask: {{ question: {question}, show: \
         \"{{{{ vars.word }}}}\", answer: boolean }}\noutput: \"{{{{ vars.word }}}}\"\n"
    )
}

#[track_caller]
fn is_harmless(text: &str) {
    let steers = |c: &char| (c.is_control() && !matches!(c, '\n' | '\t')) || *c == '\u{202e}';
    assert_eq!(text.chars().find(steers), None, "{text:?}");
}

#[test]
fn a_question_cannot_forge_another() {
    let home = Home::new(&asks());
    let mut said = String::new();
    for words in [
        &["run", "flow.yaml"][..],
        &["answer", "--last"],
        &["show", "--last"],
        &["show", "--last", "--step", "pay"],
        &["runs"],
        &["plan", "flow.yaml"],
        &["answer", "--last", "perhaps"],
    ] {
        let ended = home.relais(words);
        is_harmless(&ended.out);
        is_harmless(&ended.err);
        said.push_str(&ended.out);
        said.push_str(&ended.err);
    }
    assert!(said.contains("? Pay 5?\\u001b]52;c;"), "{said}");
    assert!(!said.contains("\n? Deploy") && !said.contains("\n  relais answer 1 "), "{said}");
    // What is a result reaches a program as it is.
    let done = home.relais(&["answer", "--last", "yes"]);
    assert_eq!(done.expect(0).out, "\u{1b}]52;c;ZXZpbA==\u{7}\r\u{1b}[2K\u{202e}yes\n");
    is_harmless(&done.err);
    let trace = home.relais(&["show", "--last", "--json"]);
    assert!(json_lines(&trace.out)[0]["output"].to_string().contains("\\u001b]52"));
}

#[test]
fn names_that_could_forge_lines_are_refused() {
    let check = |flow: &str, told: &str| {
        let home = Home::new(flow);
        for words in [&["run", "flow.yaml"][..], &["validate", "flow.yaml"], &["workflows", "save", "flow.yaml"]] {
            let ended = home.relais(words);
            ended.expect(2).says(told);
            is_harmless(&ended.err);
        }
    };
    check("name: \"a\\n2026 INFO deployed\"\nsteps: [{ wait: 1s }]\n", "the name of the workflow `a\\n2026 INFO");
    check("name: a\nsteps: [{ id: x, name: \"a\\e[2K\", wait: 1s }]\n", "the name of the step `a\\u001b[2K`");
    check("name: a\nsteps: [{ id: x, wait: { signal: \"go\\r\" } }]\n", "the signal `go\\r`");
}
