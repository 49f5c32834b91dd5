//! What the commands say of themselves and of workflows.

use std::path::Path;

use crate::support::{Home, ONE_CALL, QUESTION, json_lines};

const COMMANDS: &[&str] = &[
    "run",
    "exec",
    "validate",
    "plan",
    "graph",
    "convert",
    "workflows",
    "agents",
    "export",
    "import",
    "schedule",
    "runs",
    "show",
    "watch",
    "questions",
    "answer",
    "signal",
    "event",
    "cancel",
    "pause",
    "resume",
    "retry",
    "fork",
    "notifications",
    "usage",
    "tools",
    "models",
    "schema",
    "doctor",
    "prune",
    "backup",
    "completions",
];

#[test]
fn the_help_is_as_it_is_written_down() {
    let home = Home::new(ONE_CALL);
    let mut help = home.relais(&["--help"]).expect(0).out.clone();
    for command in COMMANDS {
        help.push_str(&format!("\n===== {command}\n{}", home.relais(&[command, "--help"]).expect(0).out));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/help.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &help).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written == help, "the help has changed; UPDATE_EXPECT=1 writes it down:\n{help}");
}

#[test]
fn completions_are_made_for_each_shell() {
    let home = Home::new(ONE_CALL);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.relais(&["completions", shell]);
        assert!(script.expect(0).out.contains("validate"), "{shell}");
    }
}

#[test]
fn a_workflow_is_drawn_and_planned_without_a_database() {
    let home = Home::new(QUESTION);
    for (words, part) in [
        (&["graph", "flow.yaml"][..], "approve"),
        (&["graph", "flow.yaml", "--format", "mermaid"], "flowchart"),
        (&["graph", "flow.yaml", "--format", "svg"], "<svg"),
        (&["plan", "flow.yaml"], "asks a person: Shall I go on?"),
        (&["plan", "flow.yaml"], "cost: no model is called"),
        (&["schema"], "$schema"),
        (&["models"], "openai"),
        (&["tools"], "write_file"),
    ] {
        let ended = home.relais(words);
        assert!(ended.expect(0).out.contains(part), "{part} in {}", ended.out);
    }
    assert!(!home.path("home").exists());
    home.relais(&["graph", "flow.yaml", "-o", "flow.txt"]).expect(0);
    assert!(home.path("flow.txt").exists());
}

#[test]
fn a_plan_shows_prompts_and_a_range_of_cost() {
    let home = Home::new(ONE_CALL);
    let blind = home.relais(&["plan", "flow.yaml"]);
    for part in ["{{ input.prompt | default('hi') }}", "openai/gpt-4o-mini", "cost: $0.0000"] {
        assert!(blind.expect(0).out.contains(part), "{part} in {}", blind.out);
    }
    let known = home.relais(&["plan", "flow.yaml", "cheese"]);
    assert!(known.expect(0).out.contains("Say cheese"), "{}", known.out);
    assert_eq!(home.server.received().len(), 0);
}

#[test]
fn lists_are_also_json() {
    let home = Home::new(ONE_CALL);
    let tools = json_lines(&home.relais(&["tools", "--json"]).expect(0).out);
    assert!(tools.iter().any(|tool| tool["tool"] == "write_file" && tool["effect"] == "idempotent"));
    let models = json_lines(&home.relais(&["models", "--json"]).expect(0).out);
    assert!(models.iter().any(|row| row["provider"] == "openai" && row["has_key"] == true));
    home.relais(&["tools", "--mcp", "none"]).expect(2).says("none");
}

#[test]
fn the_doctor_finds_a_server_that_does_not_start() {
    let home = Home::new(ONE_CALL);
    let well = home.relais(&["doctor"]);
    assert!(well.expect(0).out.contains("ok    provider openai has a key"), "{}", well.out);
    home.settings("[mcp.shop]\ncommand = \"/no/such/program\"\n");
    let ill = home.relais(&["doctor"]);
    assert!(ill.expect(1).out.contains("fail  MCP server shop"), "{}", ill.out);
    home.settings("[mcp.shop]\ncomand = \"x\"\n");
    let broken = home.relais(&["doctor"]);
    assert!(broken.expect(1).out.contains("comand"), "{}", broken.out);
}
