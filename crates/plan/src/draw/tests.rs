//! What the drawings look like, as snapshots, and what must not break them.

#![allow(clippy::unwrap_used)]

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::check::fixture::plan;

/// One of everything.
fn everything() -> Value {
    json!({
        "name": "price-monitor",
        "agents": {"fetcher": {}, "writer": {}},
        "steps": [
            {"id": "fetch", "agent": "fetcher", "retry": 2, "undo": {"id": "forget", "tool": "delete_file"}},
            {"id": "quiet", "stop_if": "input.quiet"},
            {"id": "big", "if": "input.many", "then": [
                {"id": "each", "for_each": "input.products", "at_once": 3, "max": 20, "do": [
                    {"id": "look", "agent": "fetcher"},
                ]},
            ], "else": [{"id": "note", "set": {"small": true}}, {"id": "again", "goto": "fetch", "max": 3}]},
            {"id": "kind", "switch": "input.kind", "cases": {"a": [{"id": "pause", "wait": "10m"}], "b": []}},
            {"id": "tell", "parallel": [
                {"id": "mail", "agent": "writer", "when": "input.mail"},
                {"id": "save", "steps": [{"id": "write", "tool": "write_file"}, {"id": "sure", "ask": "Is it right?"}]},
            ], "wait_for": 1},
            {"id": "polish", "repeat": [{"id": "rework", "agent": "writer"}], "until": "input.good", "max": 4},
        ],
        "on_exit": [[{"id": "clean", "tool": "delete_file"}]],
    })
}

fn dag() -> Value {
    json!({
        "name": "dag",
        "agents": {"a": {}},
        "steps": [
            {"id": "last", "agent": "a", "needs": ["left", "right"]},
            {"id": "left", "agent": "a", "needs": ["first"]},
            {"id": "right", "agent": "a", "needs": ["first"]},
            {"id": "first", "agent": "a"},
        ],
    })
}

#[test]
fn tree_of_everything() {
    assert_snapshot!(text(&plan(&everything())));
}

#[test]
fn tree_of_a_dag() {
    assert_snapshot!(text(&plan(&dag())));
}

#[test]
fn names_are_the_labels() {
    let mut plan = plan(&dag());
    for node in plan.nodes.iter_mut().filter(|node| node.key == "first") {
        node.name = Some("Look & see".into());
    }
    assert!(
        text(&plan).contains("└─ Look & see  agent") && text(&plan).contains("after Look & see"),
        "{}",
        text(&plan)
    );
    assert!(mermaid(&plan).contains("Look #38; see"), "{}", mermaid(&plan));
    assert!(svg(&plan).contains("Look &amp; see"), "{}", svg(&plan));
    assert!(!mermaid(&plan).contains("first"));
}

#[test]
fn flowchart_of_everything() {
    assert_snapshot!(mermaid(&plan(&everything())));
}

#[test]
fn flowchart_of_a_dag() {
    assert_snapshot!(mermaid(&plan(&dag())));
}

#[test]
fn picture_of_everything() {
    assert_snapshot!(svg(&plan(&everything())));
}

#[test]
fn picture_of_a_dag() {
    assert_snapshot!(svg(&plan(&dag())));
}

#[test]
fn a_plan_without_steps() {
    let empty = plan(&json!({"name": "empty"}));
    assert_eq!(text(&empty), "empty\n");
    assert_eq!(mermaid(&empty), "flowchart TD\n");
    assert!(svg(&empty).contains("no steps"));
}

/// Names and texts are data in every form, whatever they hold.
#[test]
fn nothing_escapes() {
    let nasty = "a\"]; <script>alert('x')</script> --> & | end\u{1b}[31m\n#quot;";
    let plan = plan(&json!({
        "name": nasty,
        "agents": {nasty: {}},
        "steps": [
            {"id": "one", "agent": nasty},
            {"id": "two", "switch": "input.x", "cases": {"<b>\"|": [{"id": "three", "ask": nasty}]}},
        ],
    }));
    assert!(!text(&plan).contains('\u{1b}'));
    let (chart, picture) = (mermaid(&plan), svg(&plan));
    for marker in ["<script", "]; ", "\u{1b}", "#quot;", "<b>"] {
        assert!(!chart.contains(marker), "{marker} in {chart}");
    }
    for marker in ["<script", "\u{1b}", "<b>", "alert('x')"] {
        assert!(!picture.contains(marker), "{marker} in {picture}");
    }
}

/// Wide and deep plans are drawn in reasonable size and time.
#[test]
fn a_thousand_lanes() {
    let lanes: Vec<Value> = (0..1000).map(|n| json!({"id": format!("lane{n}"), "tool": "t"})).collect();
    let plan = plan(&json!({"steps": [{"id": "wide", "parallel": lanes}]}));
    assert_eq!(text(&plan).lines().count(), 1002);
    let picture = svg(&plan);
    let width = picture.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(width.parse::<f64>().unwrap() < 2000.0, "{width}");
}
