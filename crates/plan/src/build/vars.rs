//! Two lanes that can run at once may not set the same variable: which of them would win is chance.

use std::collections::{BTreeMap, HashSet};

use super::blocks::topological;
use crate::{Fan, Node, NodeId, Op, Problem, Problems, Region, Span};

/// The lanes of one opener that set a variable, each with the place of its first `set`.
type Setters = BTreeMap<u32, Span>;

pub(super) fn check(nodes: &[Node], regions: &[Region], problems: &mut Problems) {
    let mut fan_order: Option<(NodeId, LaneOrder)> = None;
    for ((opener, name), setters) in setters(nodes, regions) {
        match &nodes[opener as usize].op {
            Op::Fan(fan) if setters.len() > 1 => {
                // Openers come one after the other, so the order of the last one is the only one worth keeping.
                let kept = fan_order.take().filter(|(kept, _)| *kept == opener);
                let (_, order) = fan_order.insert(kept.unwrap_or_else(|| (opener, LaneOrder::of(fan))));
                problems.extend(fan_conflict(fan, order, name, &setters));
            }
            Op::Each(each) if each.width > 1 => {
                problems.extend(setters.values().next().map(|&span| each_conflict(span, name, each.width)));
            }
            Op::Fan(_) | Op::Each(_) | Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => {}
        }
    }
}

/// Which lane comes after which.
struct LaneOrder {
    after: Vec<Vec<u32>>,
    /// Position of each lane in a topological order; lanes on a cycle come last.
    rank: Vec<usize>,
}

impl LaneOrder {
    fn of(fan: &Fan) -> LaneOrder {
        let after: Vec<Vec<u32>> = fan.lanes.iter().map(|lane| lane.after.clone()).collect();
        let mut rank = vec![after.len(); after.len()];
        for (position, lane) in topological(&after).into_iter().enumerate() {
            rank[lane as usize] = position;
        }
        LaneOrder { after, rank }
    }

    fn comes_after(&self, lane: u32, earlier: u32) -> bool {
        let floor = self.rank[earlier as usize];
        let mut seen = HashSet::new();
        let mut open = vec![lane];
        while let Some(lane) = open.pop() {
            if lane == earlier {
                return true;
            }
            let needs = self.after[lane as usize].iter().copied();
            open.extend(needs.filter(|&need| self.rank[need as usize] >= floor && seen.insert(need)));
        }
        false
    }
}

fn setters<'n>(nodes: &'n [Node], regions: &[Region]) -> BTreeMap<(NodeId, &'n str), Setters> {
    let mut all: BTreeMap<(NodeId, &str), Setters> = BTreeMap::new();
    for node in nodes {
        for (name, _) in &node.assign {
            let mut region = &regions[node.region as usize];
            while let (Some(opener), Some(parent)) = (region.opener, region.parent) {
                all.entry((opener, name)).or_default().entry(region.lane).or_insert(node.span);
                region = &regions[parent as usize];
            }
        }
    }
    all
}

/// The setters are free of conflict if each is before the next in some order, so neighbours in a topological order
/// are all that need to be looked at.
fn fan_conflict(fan: &Fan, order: &LaneOrder, name: &str, setters: &Setters) -> Option<Problem> {
    let mut setting: Vec<u32> = setters.keys().copied().collect();
    setting.sort_by_key(|&lane| order.rank[lane as usize]);
    let clash = setting.windows(2).find(|pair| !order.comes_after(pair[1], pair[0]))?;
    let (first, second) = (clash[0].min(clash[1]), clash[0].max(clash[1]));
    let key = |lane: u32| &fan.lanes[lane as usize].key;
    let lanes = format!("`{}` and `{}`", key(first), key(second));
    let message = format!("{lanes} can run at once and both set `{name}`: the result would be chance");
    Some(Problem::error(setters[&second], message).help("set two different names and combine them afterwards"))
}

fn each_conflict(span: Span, name: &str, width: u32) -> Problem {
    Problem::error(span, format!("{width} items run at once and each sets `{name}`: the result would be chance"))
        .help("take `at_once` out, or read the results from `.output.results`")
}
