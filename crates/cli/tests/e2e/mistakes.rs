//! Files with mistakes: all are shown at once, each where it is, with the nearest right word.

use crate::home::Home;

fn check(file: &str, errors: usize, parts: &[&str]) {
    let home = Home::new();
    home.file("wrong.yaml", file);
    for words in [&["validate", "wrong.yaml"][..], &["run", "wrong.yaml", "--simulate"]] {
        let outcome = home.relais(words).expect(2);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(said.lines().filter(|line| line.starts_with("error")).count(), errors, "{said}");
        for part in parts {
            assert!(said.contains(part), "{part:?} in {said}");
        }
    }
    assert_eq!(home.entries(), 0, "a wrong file started a run");
}

#[test]
fn three_mistakes_are_three_errors() {
    check(
        "name: wrong\nagents: { a: { model: sim/x, instructions: Hi., tools: [serch_web] } }\nsteps:\n\
         \x20 - { id: one, agent: b, prompt: hello }\n\
         \x20 - { id: two, agent: a, prompt: \"{{ steps.three.output }}\" }\n",
        3,
        &["serch_web", "search_web", "three", "`b`", "wrong.yaml:2", "wrong.yaml:4", "wrong.yaml:5"],
    );
}

#[test]
fn mistyped_keys_name_the_near_key() {
    check(
        "name: wrong\nagents: { a: { model: sim/x, instrutions: Hi. } }\nsteps:\n\
         \x20 - { id: one, agent: a, promt: hello }\n\
         \x20 - { id: two, agent: a, prompt: hello, retri: 2 }\n",
        3,
        &["instructions", "prompt", "retry"],
    );
}

#[test]
fn what_is_no_workflow_is_refused() {
    for file in ["", "name: x", "- a\n- b", "name: [", "{\"a\": 1}", "\0\u{1}", "steps: []\nname: x\nname: y"] {
        let home = Home::new();
        home.file("wrong.yaml", file);
        let outcome = home.relais(&["validate", "wrong.yaml"]).expect(2);
        assert!(outcome.stderr.contains("error"), "{file:?}: {outcome:?}");
    }
    Home::new().relais(&["run", "missing.yaml"]).expect(2).says(&["missing.yaml"]);
}

#[test]
fn tools_that_nobody_vouched_for_are_marked() {
    let home = Home::new();
    let file = "name: shop\nmcp: { shop: { command: [/no/such/shop] } }\nsteps:\n\
                \x20 - { id: look, tool: \"mcp:shop/look\", with: {} }\n";
    home.file("shop.yaml", file);
    let checked = home.relais(&["validate", "shop.yaml"]).expect(0);
    assert!(checked.stdout.contains("unverified: mcp:shop/look"), "{}", checked.stdout);
    let refused = home.relais(&["run", "shop.yaml"]).expect(2);
    assert!(refused.stderr.contains("shop"), "{}", refused.stderr);
}
