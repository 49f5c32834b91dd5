//! Names that people read in lists, questions and logs: one that holds control characters could write lines of its own
//! there.

use crate::text::{is_name, one_line};
use crate::{Node, Op, Plan, Problem, Problems, Span, Until};

pub(super) fn check(plan: &Plan) -> Problems {
    let mut problems = Vec::new();
    let mut name = |what: &str, text: &str, span: Span| {
        if !is_name(text) {
            let message = format!("the {what} `{}` holds control characters", one_line(text));
            problems.push(Problem::error(span, message).help("write it with visible characters, on one line"));
        }
    };
    name("name of the workflow", &plan.name, Span::default());
    plan.alias.iter().for_each(|alias| name("alias", alias, Span::default()));
    plan.branch.iter().for_each(|branch| name("branch", branch, Span::default()));
    plan.agents.iter().for_each(|(agent, it)| name("name of the agent", agent, it.span));
    plan.servers.keys().for_each(|server| name("name of the MCP server", server, Span::default()));
    for node in plan.nodes.iter().filter(|node| !node.hidden) {
        name("id of the step", &node.key, node.span);
        node.name.iter().for_each(|text| name("name of the step", text, node.span));
        node.assign.iter().for_each(|(variable, _)| name("variable", variable, node.span));
        if let Some((what, text)) = awaited(node) {
            name(what, text, node.span);
        }
    }
    problems
}

fn awaited(node: &Node) -> Option<(&'static str, &str)> {
    match &node.op {
        Op::Wait(Until::Signal { name }) => Some(("signal", name)),
        Op::Wait(Until::Event { event, .. }) => Some(("event", event)),
        Op::Wait(Until::For(_) | Until::At(_) | Until::Person(_)) => None,
        Op::Call(_) | Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::End { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::check::fixture::built;
    use serde_json::{Value, json};

    #[test]
    fn a_name_cannot_write_lines_of_its_own() {
        let check = |file: Value, wanted: &[&str]| {
            let found: Vec<String> = super::check(&built(&file).0).into_iter().map(|problem| problem.message).collect();
            assert_eq!(found, wanted, "{file}");
        };
        let steps = |id: &str| json!([{"id": id, "agent": "a"}]);
        check(json!({"name": "ünï ✓", "agents": {"a": {}}, "steps": steps("x-1")}), &[]);
        let forged = "the name of the workflow `a\\n2026 INFO deployed` holds control characters";
        check(json!({"name": "a\n2026 INFO deployed", "agents": {"a": {}}, "steps": steps("x")}), &[forged]);
        let step = "the id of the step `\\u001b[2K` holds control characters";
        check(json!({"agents": {"a": {}}, "steps": steps("\u{1b}[2K")}), &[step]);
        let agent = "the name of the agent `a\\u0007` holds control characters";
        check(json!({"agents": {"a\u{7}": {}}, "steps": []}), &[agent]);
        let event = "the event `go\\u202e` holds control characters";
        check(json!({"steps": [{"id": "w", "event": "go\u{202e}"}]}), &[event]);
    }
}
