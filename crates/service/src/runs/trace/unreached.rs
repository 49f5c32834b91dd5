//! Steps that a finished run never came to: arms not taken, what follows a stop or a failure. They stand in the trace
//! as `skipped`, where their author wrote them. A step of a loop that ran in any pass is none of them.

use std::collections::HashMap;

use relais_engine::{Millis, StepStatus};
use relais_plan::plan::ROOT;
use relais_plan::{Node, NodeId, Plan, RegionId};

use super::StepTrace;

/// Adds them to the steps that began, which are in the order of the trace.
pub(super) fn filled_in(plan: &Plan, begun: Vec<StepTrace>, at: Millis) -> Vec<StepTrace> {
    let mut places = Places::of(plan, &begun);
    let mut before: Option<NodeId> = None;
    for id in written(plan) {
        if !places.ends.contains_key(&id) {
            places.place(id, before);
        }
        before = Some(id);
    }
    places.woven(begun, at)
}

/// The steps that a person wrote, in written order. What takes a step back is none: it is there in case of need.
pub(crate) fn written(plan: &Plan) -> impl Iterator<Item = NodeId> {
    let roots = outermost(plan);
    let is_exit = |region: RegionId| plan.exits.iter().any(|exit| exit.region == region);
    let kept: Vec<bool> = roots.into_iter().map(|root| root == ROOT || is_exit(root)).collect();
    let shown = move |node: &Node| !node.hidden && kept.get(node.region as usize).copied().unwrap_or(false);
    (0..).zip(&plan.nodes).filter(move |(_, node)| shown(node)).map(|(id, _)| id)
}

/// The region around each region that nothing opens. A region comes after the one around it.
fn outermost(plan: &Plan) -> Vec<RegionId> {
    let mut roots: Vec<RegionId> = Vec::with_capacity(plan.regions.len());
    for (id, region) in plan.regions.iter().enumerate() {
        let around = region.parent.and_then(|parent| roots.get(parent as usize).copied());
        roots.push(around.unwrap_or(id as RegionId));
    }
    roots
}

/// Behind which step of the trace something stands; none is before all of them.
type Behind = Option<usize>;

struct Places<'p> {
    plan: &'p Plan,
    /// The last step of the trace that is a node, and the last that is in it.
    ends: HashMap<NodeId, (Behind, Behind)>,
    missing: HashMap<Behind, Vec<NodeId>>,
}

impl<'p> Places<'p> {
    fn of(plan: &'p Plan, begun: &[StepTrace]) -> Places<'p> {
        let last: HashMap<NodeId, usize> = begun.iter().enumerate().map(|(at, step)| (step.place.1, at)).collect();
        let ends = last.into_iter().map(|(node, at)| (node, (Some(at), Some(last_inside(begun, at))))).collect();
        Places { plan, ends, missing: HashMap::new() }
    }

    /// Behind the step written before it, or first in the block around both.
    fn place(&mut self, id: NodeId, before: Option<NodeId>) {
        let block = block_of(self.plan, id);
        let mut beside = before;
        while let Some(node) = beside.filter(|node| Some(*node) != block && block_of(self.plan, *node) != block) {
            beside = block_of(self.plan, node);
        }
        let behind = match beside.and_then(|node| Some((node, self.ends.get(&node)?))) {
            Some((node, (itself, _))) if Some(node) == block => *itself,
            Some((_, (_, all))) => *all,
            None => None,
        };
        self.ends.insert(id, (behind, behind));
        self.missing.entry(behind).or_default().push(id);
    }

    fn woven(self, begun: Vec<StepTrace>, at: Millis) -> Vec<StepTrace> {
        let skipped = |behind: Behind| {
            let missing = self.missing.get(&behind).map_or(&[][..], Vec::as_slice);
            missing.iter().map(|id| skipped(self.plan, *id, at))
        };
        let mut steps: Vec<StepTrace> = skipped(None).collect();
        for (at, step) in begun.into_iter().enumerate() {
            steps.push(step);
            steps.extend(skipped(Some(at)));
        }
        steps
    }
}

fn last_inside(begun: &[StepTrace], at: usize) -> usize {
    let path = begun[at].path.as_str();
    let is_inside = |step: &&StepTrace| step.path.strip_prefix(path).is_some_and(|rest| rest.starts_with(['/', '[']));
    at + begun[at + 1..].iter().take_while(is_inside).count()
}

/// The block around a step that a person wrote and that has a scope of its own.
fn block_of(plan: &Plan, id: NodeId) -> Option<NodeId> {
    let opener = |id: &NodeId| plan.regions.get(plan.node(*id).region as usize).and_then(|region| region.opener);
    std::iter::successors(opener(&id), opener).find(|id| !plan.node(*id).hidden)
}

fn path(plan: &Plan, id: NodeId) -> String {
    let blocks = std::iter::successors(Some(id), |id| block_of(plan, *id));
    let mut parts: Vec<&str> = blocks.map(|id| plan.node(id).key.as_str()).collect();
    let root = outermost_of(plan, id);
    parts.extend((root != ROOT).then_some("on_exit"));
    parts.reverse();
    parts.join("/")
}

fn outermost_of(plan: &Plan, id: NodeId) -> RegionId {
    let parent = |region: &RegionId| plan.regions.get(*region as usize).and_then(|region| region.parent);
    std::iter::successors(Some(plan.node(id).region), parent).last().unwrap_or(ROOT)
}

fn skipped(plan: &Plan, id: NodeId, at: Millis) -> StepTrace {
    let begun = StepTrace::begun(plan, (relais_engine::BODY, id), path(plan, id), at);
    StepTrace { status: StepStatus::Skipped, attempts: 0, ended_at: Some(at), ..begun }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::runs::views::fixture;
    use serde_json::Value;

    /// The steps, `-` before those that were never begun.
    fn told(steps: &str, begun: &[&str]) -> String {
        let plan = fixture::plan(&format!("name: flow\nsteps: {steps}\n"));
        let step = |path: &&str| fixture::step(&plan, path, StepStatus::Completed, Value::Null);
        let steps = filled_in(&plan, begun.iter().map(step).collect(), 9);
        let shown = |step: &StepTrace| format!("{}{}", if step.attempts == 0 { "-" } else { "" }, step.path);
        steps.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arms_that_are_not_taken_stand_where_they_are_written() {
        let steps = "[{ id: which, if: input.a, then: [{ id: a, wait: 1s }, { id: b, wait: 1s }], \
                     else: [{ id: c, wait: 1s }] }, { id: after, wait: 1s }]";
        assert_eq!(told(steps, &["which", "c", "after"]), "which -a -b c after");
        assert_eq!(told(steps, &["which", "a", "b", "after"]), "which a b -c after");
        assert_eq!(told(steps, &["which"]), "which -a -b -c -after");
        assert_eq!(told(steps, &[]), "-which -a -b -c -after");
    }

    #[test]
    fn blocks_come_with_what_is_in_them() {
        let steps = "[{ id: first, wait: 1s }, \
                     { id: both, parallel: [{ id: l, steps: [{ id: x, wait: 1s }] }, { id: r, wait: 1s }] }, \
                     { id: last, wait: 1s }]";
        assert_eq!(told(steps, &["first"]), "first -both -both/l -both/l/x -both/r -last");
        assert_eq!(told(steps, &["first", "both", "both/r"]), "first both -both/l -both/l/x both/r -last");
        assert_eq!(told(steps, &["first", "both", "both/l", "both/r"]), "first both both/l -both/l/x both/r -last");
    }

    #[test]
    fn a_step_that_ran_in_one_pass_is_reached() {
        let steps = "[{ id: all, for_each: input.list, do: [{ id: a, wait: 1s }, { id: b, wait: 1s }, \
                     { id: c, wait: 1s }] }, { id: last, wait: 1s }]";
        assert_eq!(
            told(steps, &["all", "all[0]/a", "all[0]/b", "all[1]/a"]),
            "all all[0]/a all[0]/b -all/c all[1]/a -last"
        );
        assert_eq!(told(steps, &["all"]), "all -all/a -all/b -all/c -last");
    }

    #[test]
    fn needs_stay_hidden_and_undo_steps_are_not_missed() {
        let steps = "[{ id: a, wait: 1s, undo: { id: u, wait: 1s } }, { id: b, wait: 1s, needs: [a] }]\n\
                     on_exit: { failure: [{ id: report, wait: 1s }] }";
        assert_eq!(told(steps, &["a"]), "a -b -on_exit/report");
    }
}
