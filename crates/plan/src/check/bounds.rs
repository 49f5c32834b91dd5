//! Everything ends: jumps have limits, loops have bounds, numbers make sense, every step can be reached.
//!
//! How deep blocks nest and how many steps there are is bounded where the plan is built.

use std::collections::HashSet;

use super::flow::{Flow, ways};
use super::graph::Graph;
use crate::{Each, Fan, MAX_PASSES, Node, NodeId, Op, Plan, Problem, Problems, WaitFor};

/// More attempts than this is a loop in disguise.
pub(super) const MAX_ATTEMPTS: u32 = 100;

pub(super) fn check(plan: &Plan, flow: &Flow<'_>) -> Problems {
    let mut problems = Vec::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        numbers(node, &mut problems);
        jumps(plan, flow, id as NodeId, &mut problems);
    }
    for agent in plan.agents.values() {
        if agent.max_turns == 0 {
            problems.push(Problem::error(agent.span, "`max_turns` must be at least 1"));
        }
    }
    unbounded(plan, &mut problems);
    unreached(plan, flow, &mut problems);
    problems
}

fn numbers(node: &Node, problems: &mut Problems) {
    let mut refuse = |message: String| problems.push(Problem::error(node.span, message));
    if node.retry.max_attempts > MAX_ATTEMPTS {
        refuse(format!("`max_attempts` is {}, and at most {MAX_ATTEMPTS}", node.retry.max_attempts));
    }
    node.limit.and_then(too_many).into_iter().for_each(&mut refuse);
    if node.timeout_ms == Some(0) {
        refuse("`timeout` must be longer than nothing".to_owned());
    }
    match &node.op {
        Op::Each(each) => loop_numbers(each).into_iter().for_each(refuse),
        Op::Fan(fan) => lane_numbers(fan).into_iter().for_each(refuse),
        Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => {}
    }
}

fn loop_numbers(each: &Each) -> Vec<String> {
    let bounds = [(each.max, "`max` must be at least 1"), (each.width, "`at_once` must be at least 1")];
    let none = bounds.iter().filter(|(number, _)| *number == 0).map(|(_, message)| (*message).to_owned());
    none.chain(too_many(each.max)).collect()
}

fn too_many(max: u32) -> Option<String> {
    (max > MAX_PASSES).then(|| format!("`max` is {max}, and at most {MAX_PASSES}"))
}

fn lane_numbers(fan: &Fan) -> Option<String> {
    let lanes = fan.lanes.len();
    match &fan.wait_for {
        WaitFor::All => {
            fan.detach.then(|| "`detach` has no effect: every lane is waited for; add `wait_for`".to_owned())
        }
        WaitFor::Lanes(awaited) if awaited.is_empty() => Some("`wait_for` names no step".to_owned()),
        WaitFor::Lanes(awaited) => awaited
            .iter()
            .any(|&lane| lane as usize >= lanes)
            .then(|| "`wait_for` names a lane that is not there".into()),
        WaitFor::Count(0) => Some("`wait_for` must be at least 1".to_owned()),
        WaitFor::Count(count) => (*count as usize > lanes)
            .then(|| format!("`wait_for` is {count}, and there are only {lanes} steps to wait for")),
    }
}

/// A jump back needs a limit at its target.
fn jumps(plan: &Plan, flow: &Flow<'_>, id: NodeId, problems: &mut Problems) {
    let node = plan.node(id);
    // A jump whose target is unknown was left pointing at its own step, and told when the plan was built.
    for way in ways(node).into_iter().filter(|way| way.counted && way.to != id) {
        let target = plan.node(way.to);
        let back = flow.graph.same_cycle(id, way.to);
        let message = match target.limit {
            Some(0) => format!("the jump to `{}` may never be taken: its limit is 0", target.key),
            None if back => format!("the jump back to `{}` has no limit", target.key),
            Some(_) | None => continue,
        };
        problems.push(Problem::error(node.span, message).help("give the goto a `max` of at least 1"));
    }
}

/// What goes round without a counted jump would go round for ever.
fn unbounded(plan: &Plan, problems: &mut Problems) {
    let uncounted = |node| ways(node).into_iter().filter(|way| !way.counted).map(|way| way.to).collect();
    let graph = Graph::new(plan.nodes.iter().map(uncounted).collect());
    let on_cycle = |id: &usize| graph.on_cycle(*id as u32);
    let mut told = HashSet::new();
    for id in (0..plan.nodes.len()).filter(on_cycle) {
        if told.insert(graph.rank(id as u32)) {
            let node = &plan.nodes[id];
            let message = format!("the loop through `{}` has no bound", node.key);
            problems.push(Problem::error(node.span, message).help("go back with a goto that has a `max`"));
        }
    }
}

/// Steps inside a block that cannot be reached are not told again.
fn unreached(plan: &Plan, flow: &Flow<'_>, problems: &mut Problems) {
    for (id, node) in plan.nodes.iter().enumerate() {
        let told = flow.block_of(id as NodeId).is_some_and(|block| !flow.is_reached(block));
        if !node.hidden && !told && !flow.is_reached(id as NodeId) {
            let message = format!("step `{}` cannot be reached", node.key);
            let help = "what comes before it always goes elsewhere; remove the step or make the jump conditional";
            problems.push(Problem::error(node.span, message).help(help));
        }
    }
}
