//! Leads `goto` and `on_error: {goto: …}` to their targets, and proves that no jump leaves its scope.

use std::collections::BTreeMap;

use super::{DEFAULT_GOTO_LIMIT, ListId, Lowering, opener_word};
use crate::problem::Suggestions;
use crate::step::Name;
use crate::{Node, NodeId, OnError, Op, Problem, Region, RegionId};

/// A jump that was written; its target may come later in the text.
pub(super) struct Pending {
    pub node: NodeId,
    pub to: Name,
    pub max: Option<u32>,
    pub way: Way,
}

#[derive(Clone, Copy)]
pub(super) enum Way {
    Goto,
    OnError,
}

pub(super) fn resolve(lowering: &mut Lowering) {
    let ids = ids(&lowering.nodes);
    for jump in std::mem::take(&mut lowering.jumps) {
        let Some(&to) = ids.get(&jump.to.text) else {
            let problem = unknown(&ids, &jump.to, &mut lowering.suggestions);
            lowering.problems.push(problem);
            continue;
        };
        match allowed(lowering, to, &jump) {
            Ok(()) => lead(&mut lowering.nodes, &jump, to),
            Err(problem) => lowering.problems.push(problem),
        }
    }
}

fn ids(nodes: &[Node]) -> BTreeMap<String, NodeId> {
    let written = nodes.iter().enumerate().filter(|(_, node)| !node.hidden);
    // Backwards, so that of a doubled id the first step stays.
    written.rev().map(|(id, node)| (node.key.clone(), id as NodeId)).collect()
}

fn allowed(lowering: &Lowering, to: NodeId, jump: &Pending) -> Result<(), Problem> {
    let (from, target) = (lowering.node(jump.node), lowering.node(to));
    if from.region != target.region {
        let border = border(&lowering.nodes, &lowering.regions, from.region, target.region);
        return Err(Problem::error(jump.to.span, format!("a jump to `{}` would {border}", jump.to.text)).help(RULE));
    }
    if !encloses(lowering, lowering.list_of[to as usize], lowering.list_of[jump.node as usize]) {
        let message = format!("a jump to `{}` would enter an arm from outside", jump.to.text);
        return Err(
            Problem::error(jump.to.span, message).help("jump to the if or switch itself, or to a step beside it")
        );
    }
    Ok(())
}

const RULE: &str = "a jump stays in its own or an enclosing list of steps; it never crosses parallel, for_each, \
                    repeat, a `needs` block or a group (an if or switch with `retry`, `timeout`, `budget`, `undo` or \
                    `on_error` is one)";

fn unknown(ids: &BTreeMap<String, NodeId>, name: &Name, suggestions: &mut Suggestions) -> Problem {
    let problem = Problem::error(name.span, format!("there is no step `{}` to jump to", name.text));
    match suggestions.nearest(&name.text, ids.keys().map(String::as_str)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("a jump names the id of a step"),
    }
}

/// Says which border a jump between regions would cross.
fn border(nodes: &[Node], regions: &[Region], from: RegionId, to: RegionId) -> String {
    if is_ancestor(regions, to, from) {
        return format!("leave {}", opener_word(nodes, regions, from));
    }
    format!("enter {}", opener_word(nodes, regions, to))
}

fn is_ancestor(regions: &[Region], ancestor: RegionId, of: RegionId) -> bool {
    std::iter::successors(Some(of), |&region| regions[region as usize].parent).any(|region| region == ancestor)
}

/// Is it the same list, or one around it?
fn encloses(lowering: &Lowering, outer: ListId, inner: ListId) -> bool {
    std::iter::successors(Some(inner), |&list| lowering.around[list as usize]).any(|list| list == outer)
}

fn lead(nodes: &mut [Node], jump: &Pending, to: NodeId) {
    let max = jump.max.unwrap_or(DEFAULT_GOTO_LIMIT);
    let target = &mut nodes[to as usize];
    target.limit = Some(target.limit.map_or(max, |limit| limit.min(max)));
    let node = &mut nodes[jump.node as usize];
    match (jump.way, &mut node.op) {
        (Way::OnError, _) => node.on_error = OnError::Goto(to),
        (Way::Goto, Op::Choose { arms, other }) => {
            for counted in arms.iter_mut().map(|arm| &mut arm.jump).chain(other) {
                counted.to = Some(to);
            }
        }
        (Way::Goto, Op::Call(_) | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. }) => {}
    }
}
