//! Lanes: parallel, groups and blocks with `needs`, each a `Fan`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Lowering, Place, Stretch};
use crate::problem::Suggestions;
use crate::step::{Awaited, Kind, Name, Step};
use crate::{Fan, FanOutput, Lane, LaneFailure, NodeId, Op, Problem, Problems, RegionId, Span, WaitFor};

/// Names in one message; more are not read.
const MAX_LISTED: usize = 20;

impl Lowering {
    pub(super) fn parallel(
        &mut self,
        id: NodeId,
        children: Vec<Step>,
        on_failure: LaneFailure,
        awaited: Awaited,
        detach: bool,
    ) -> Op {
        for child in children.iter().filter(|child| child.needs.is_some()) {
            self.problems.push(
                Problem::error(child.span, "the children of a parallel start together: `needs` has no effect here")
                    .help("write the block as `steps:` instead; what can run at once does"),
            );
        }
        for child in &children {
            self.refuse_run_if(child);
        }
        self.refuse_doubled_keys(&children);
        let keys: Vec<String> = children.iter().map(|child| child.id.clone().unwrap_or_default()).collect();
        let wait_for = self.wait_for(id, &keys, awaited);
        let lanes = self.lanes(id, children, vec![Vec::new(); keys.len()]);
        Op::Fan(Fan { lanes, on_failure, wait_for, detach, output: FanOutput::Keyed })
    }

    fn wait_for(&mut self, id: NodeId, keys: &[String], awaited: Awaited) -> WaitFor {
        match awaited {
            Awaited::All => WaitFor::All,
            Awaited::Count(count) if count == 0 || count as usize > keys.len() => {
                let message = format!("`wait_for: {count}` can never be met: the block has {} children", keys.len());
                let problem = Problem::error(self.node(id).span, message);
                self.problems.push(problem.help(format!("a number from 1 to {}", keys.len())));
                WaitFor::All
            }
            Awaited::Count(count) => WaitFor::Count(count),
            Awaited::Lanes(names) => {
                let mut lanes: Vec<u32> = names.iter().filter_map(|name| self.lane_named(keys, name)).collect();
                lanes.sort_unstable();
                lanes.dedup();
                WaitFor::Lanes(lanes)
            }
        }
    }

    fn lane_named(&mut self, keys: &[String], name: &Name) -> Option<u32> {
        let position = keys.iter().position(|key| *key == name.text);
        if position.is_none() {
            let problem = Problem::error(name.span, format!("`{}` is no child of this parallel", name.text));
            self.problems.push(problem.help(near_or_all(&name.text, keys, &mut self.suggestions)));
        }
        position.map(|position| position as u32)
    }

    pub(super) fn group(&mut self, id: NodeId, steps: Vec<Step>, on_failure: LaneFailure) -> Op {
        if steps.iter().any(|step| step.needs.is_some()) {
            return self.needs_block(id, steps, on_failure);
        }
        let region = self.lane_region(id, 0);
        let place = self.top_of(region);
        let entry = self.sequence(steps, place, "").entry;
        single_lane(entry, region, on_failure, FanOutput::Only)
    }

    /// A list with `needs` that has no step of its own to be the block.
    pub(super) fn hidden_block(&mut self, steps: Vec<Step>, place: Place, key: &str) -> Stretch {
        let span = steps.first().map_or_else(Span::default, |step| step.span);
        let mut block = Step::new("steps", Kind::Set(Vec::new()), span);
        block.id = Some(key.to_owned());
        let id = self.open(block, place);
        self.node_mut(id).hidden = true;
        let op = self.needs_block(id, steps, LaneFailure::Cancel);
        self.node_mut(id).op = op;
        Stretch { entry: Some(id), ends: vec![id] }
    }

    fn needs_block(&mut self, id: NodeId, steps: Vec<Step>, on_failure: LaneFailure) -> Op {
        for step in &steps {
            self.refuse_output_key(step);
            if step.needs.as_ref().is_none_or(Vec::is_empty) {
                self.refuse_run_if(step);
            }
        }
        let after = after(&steps, &mut self.problems, &mut self.suggestions);
        if let Some(cycle) = cycle(&after) {
            self.problems.push(cycle_problem(&steps, &cycle));
        }
        let sinks = sinks(&after);
        let lanes = self.lanes(id, steps, after);
        Op::Fan(Fan { lanes, on_failure, wait_for: WaitFor::All, detach: false, output: FanOutput::Sinks(sinks) })
    }

    fn lanes(&mut self, opener: NodeId, steps: Vec<Step>, after: Vec<Vec<u32>>) -> Vec<Lane> {
        let mut lanes = Vec::with_capacity(steps.len());
        for (position, (step, after)) in steps.into_iter().zip(after).enumerate() {
            let region = self.lane_region(opener, position as u32);
            let key = step.id.clone().unwrap_or_default();
            let (output_key, always) = (step.output_key.clone(), step.run_if_always);
            let place = self.top_of(region);
            let entry = self.step(step, place).entry;
            lanes.push(Lane { key, output_key, entry, region, after, always });
        }
        lanes
    }

    pub(super) fn refuse_run_if(&mut self, step: &Step) {
        if step.run_if_always {
            self.problems.push(
                Problem::error(step.span, "`run_if: always` has an effect only on a step with `needs`")
                    .help("name the steps it comes after under `needs`, or leave `run_if` out"),
            );
        }
    }

    /// Two outputs under one key would be one of them.
    fn refuse_doubled_keys(&mut self, children: &[Step]) {
        let mut seen = BTreeSet::new();
        for child in children {
            let key = child.output_key.as_ref().or(child.id.as_ref());
            if key.is_some_and(|key| !seen.insert(key.as_str())) {
                let key = key.map(String::as_str).unwrap_or_default();
                let message = format!("two children of this block would give their output as `{key}`");
                let help = "each child has an `output_key` of its own, which is no other child's id";
                self.problems.push(Problem::error(child.span, message).help(help));
            }
        }
    }

    pub(super) fn refuse_output_key(&mut self, step: &Step) {
        if step.output_key.is_some() {
            self.problems.push(
                Problem::error(step.span, "`output_key` has an effect only on a child of `parallel`")
                    .help("read the output as `steps.ID.output`"),
            );
        }
    }
}

pub(super) fn single_lane(entry: Option<NodeId>, region: RegionId, on_failure: LaneFailure, output: FanOutput) -> Op {
    let lane = Lane { key: "body".into(), output_key: None, entry, region, after: Vec::new(), always: false };
    Op::Fan(Fan { lanes: vec![lane], on_failure, wait_for: WaitFor::All, detach: false, output })
}

fn near_or_all(written: &str, keys: &[String], suggestions: &mut Suggestions) -> String {
    match suggestions.nearest(written, keys.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if keys.len() > MAX_LISTED => "name children of this block by their ids".into(),
        None => format!("its children are {}", keys.join(", ")),
    }
}

/// Per step, the positions of the steps it needs.
fn after(steps: &[Step], problems: &mut Problems, suggestions: &mut Suggestions) -> Vec<Vec<u32>> {
    let ids = steps.iter().enumerate().rev();
    let positions: BTreeMap<&str, u32> =
        ids.filter_map(|(position, step)| step.id.as_deref().map(|id| (id, position as u32))).collect();
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        let mut after = Vec::new();
        for need in step.needs.iter().flatten() {
            match positions.get(need.text.as_str()) {
                Some(&position) => after.push(position),
                None => problems.push(unknown_need(need, &positions, suggestions)),
            }
        }
        after.sort_unstable();
        after.dedup();
        all.push(after);
    }
    all
}

fn unknown_need(need: &Name, positions: &BTreeMap<&str, u32>, suggestions: &mut Suggestions) -> Problem {
    let problem = Problem::error(need.span, format!("there is no step `{}` in this block", need.text));
    match suggestions.nearest(&need.text, positions.keys().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("`needs` names steps of the same list; a nested step is reached through its block"),
    }
}

/// Lanes that no other lane comes after: what the block yields.
fn sinks(after: &[Vec<u32>]) -> Vec<u32> {
    let mut needed = vec![false; after.len()];
    for &lane in after.iter().flatten() {
        needed[lane as usize] = true;
    }
    (0..after.len() as u32).filter(|&lane| !needed[lane as usize]).collect()
}

/// The lanes in an order in which each comes after those it needs; lanes on or behind a cycle are missing.
pub(crate) fn topological(after: &[Vec<u32>]) -> Vec<u32> {
    let mut dependents = vec![Vec::new(); after.len()];
    let mut open: Vec<usize> = after.iter().map(Vec::len).collect();
    for (lane, needs) in after.iter().enumerate() {
        for &need in needs {
            dependents[need as usize].push(lane as u32);
        }
    }
    let mut ready: VecDeque<u32> = (0..after.len() as u32).filter(|&lane| open[lane as usize] == 0).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(lane) = ready.pop_front() {
        order.push(lane);
        for &dependent in &dependents[lane as usize] {
            open[dependent as usize] -= 1;
            if open[dependent as usize] == 0 {
                ready.push_back(dependent);
            }
        }
    }
    order
}

/// One cycle, each lane followed by one it needs.
fn cycle(after: &[Vec<u32>]) -> Option<Vec<u32>> {
    let mut sorted = vec![false; after.len()];
    for lane in topological(after) {
        sorted[lane as usize] = true;
    }
    // Every lane left over needs another one left over, so walking along needs must come back to a lane seen before.
    let mut lane = (0..after.len() as u32).find(|&lane| !sorted[lane as usize])?;
    let mut seen_at: HashMap<u32, usize> = HashMap::new();
    let mut walk = Vec::new();
    while !seen_at.contains_key(&lane) {
        seen_at.insert(lane, walk.len());
        walk.push(lane);
        lane = after[lane as usize].iter().copied().find(|&need| !sorted[need as usize])?;
    }
    Some(walk.split_off(seen_at[&lane]))
}

fn cycle_problem(steps: &[Step], cycle: &[u32]) -> Problem {
    let id = |lane: u32| steps[lane as usize].id.clone().unwrap_or_default();
    let first = cycle.first().copied().unwrap_or_default();
    let names: Vec<String> = cycle.iter().copied().chain([first]).map(id).collect();
    let message = format!("these steps need one another: {}", names.join(" needs "));
    Problem::error(steps[first as usize].span, message).help("take one of these `needs` out")
}
