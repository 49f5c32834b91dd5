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

#[test]
fn servers_that_can_be_reached_are_asked() {
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/it/misbehaving.py");
    let home = Home::new();
    home.settings(&format!("[mcp.shop]\ncommand = \"python3\"\nargs = [\"{server}\", \"good\"]\n[mcp.gone]\nurl = \"http://127.0.0.1:1/mcp\"\n"));
    let file = |tool: &str| format!("steps:\n  - {{ id: look, tool: \"{tool}\", with: {{}} }}\n");
    home.file("echo.yaml", &file("mcp:shop/echo"));
    let asked = home.relais(&["validate", "echo.yaml"]).expect(0);
    assert!(!asked.stdout.contains("unverified"), "{}", asked.stdout);
    let offline = home.relais(&["validate", "--offline", "echo.yaml"]).expect(0);
    assert!(offline.stdout.contains("unverified: mcp:shop/echo"), "{}", offline.stdout);
    home.file("ecco.yaml", &file("mcp:shop/ecco"));
    home.relais(&["validate", "ecco.yaml"]).expect(2).says(&["mcp:shop/ecco", "did you mean `mcp:shop/echo`?"]);
    // Whoever does not answer is named in plain words.
    home.file("gone.yaml", &file("mcp:gone/any"));
    let gone = home.relais(&["validate", "gone.yaml"]).expect(0);
    assert!(gone.stdout.contains("unverified: mcp:gone/any"), "{}", gone.stdout);
    assert!(gone.stderr.contains("MCP server `gone`: it does not begin to talk"), "{}", gone.stderr);
    assert!(!gone.stderr.contains("rmcp") && !gone.stderr.contains("::"), "{}", gone.stderr);
}

#[test]
fn a_workflow_that_calls_itself_is_told_once() {
    let home = Home::new();
    home.file("self.yaml", "steps:\n  - { id: again, workflow: ./self.yaml }\n");
    let told = home.relais(&["validate", "self.yaml"]).expect(2);
    assert_eq!(told.stderr.matches("calls itself").count(), 1, "{}", told.stderr);
    assert_eq!(told.stderr.matches("cannot be called").count(), 1, "{}", told.stderr);
}

#[test]
fn a_file_with_several_workflows_is_checked_by_their_own_names() {
    let home = Home::new();
    let app = |name: &str| {
        format!(
            "  - name: {name}_app\n    app_module: m.workflow.app\n    app_config:\n      name: {name}\n      workflow: {{ nodes: [{{ id: a, agent_name: P }}] }}\n"
        )
    };
    let persona =
        "  - { name: p_app, app_module: m.agent.sac.app, app_config: { agent_name: P, instruction: Work. } }\n";
    home.file("apps.yaml", &format!("apps:\n{persona}{}{}", app("First"), app("Second")));
    let checked = home.relais(&["validate", "apps.yaml"]).expect(0);
    assert!(checked.stdout.contains("branch First") && checked.stdout.contains("branch Second"), "{}", checked.stdout);
}
