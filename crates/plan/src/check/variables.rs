//! Where variables are set: on every way to a place, on some of them, or on none.
//!
//! A variable is never taken back, so each region is looked at once: what its steps set by the way, whatever came before.
//! Then, from the outside in, what was there before each region began.

use std::collections::BTreeMap;

use super::flow::{Flow, Place, View};
use crate::build::topological;
use crate::{Each, ExitWhen, Fan, Lane, LaneFailure, Node, NodeId, OnError, Op, Over, Plan, ROOT, RegionId, WaitFor};

pub(super) struct Variables<'p> {
    flow: &'p Flow<'p>,
    /// The number of each variable, and the steps that set it.
    names: BTreeMap<&'p str, (usize, Vec<NodeId>)>,
    /// What is set in a node's own region before it; then, before it at all.
    starts: Vec<Facts>,
    /// What a node sets when it completes.
    sets: Vec<Facts>,
    /// What is set in a region when it has come to its end.
    ends: Vec<Facts>,
    /// What was set before a region began.
    bases: Vec<Facts>,
}

/// What is known of all variables at one place.
#[derive(Clone, PartialEq)]
struct Facts {
    /// Set on every way here.
    must: Bits,
    /// Set on one of them.
    may: Bits,
}

/// One bit for each variable.
#[derive(Clone, PartialEq)]
struct Bits(Vec<u64>);

/// How sure it is that a variable is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Always,
    Sometimes,
    Never,
}

impl<'p> Variables<'p> {
    pub fn new(flow: &'p Flow<'p>) -> Variables<'p> {
        let plan = flow.plan;
        let mut names = BTreeMap::new();
        for (id, node) in plan.nodes.iter().enumerate() {
            for (name, _) in &node.assign {
                let next = names.len();
                let (_, setters) = names.entry(name.as_str()).or_insert_with(|| (next, Vec::new()));
                setters.push(id as NodeId);
            }
        }
        let nowhere = Facts::nowhere(names.len());
        let mut this = Variables {
            flow,
            starts: vec![nowhere.clone(); plan.nodes.len()],
            sets: vec![nowhere.clone(); plan.nodes.len()],
            ends: vec![nowhere.clone(); plan.regions.len()],
            bases: vec![nowhere; plan.regions.len()],
            names,
        };
        if !this.names.is_empty() {
            this.look();
        }
        this
    }

    pub fn names(&self) -> impl Iterator<Item = &'p str> + Clone {
        self.names.keys().copied()
    }

    pub fn is_set(&self, name: &str, view: View) -> Set {
        let Some((bit, _)) = self.names.get(name) else { return Set::Never };
        let facts = self.facts(view);
        match (facts.must.has(*bit), facts.may.has(*bit)) {
            (true, _) => Set::Always,
            (false, true) => Set::Sometimes,
            (false, false) => Set::Never,
        }
    }

    /// The steps that set a variable, in the order of the text.
    pub fn setters(&self, name: &str) -> &[NodeId] {
        self.names.get(name).map_or(&[], |(_, setters)| setters)
    }

    /// On which way a variable is not set, for people.
    pub fn way_around(&self, setter: NodeId, view: View) -> String {
        let plan = self.flow.plan;
        let readers: Vec<RegionId> = self.flow.scopes(view).map(|(region, _)| region).collect();
        let key = |id: NodeId| &plan.node(id).key;
        let mut at = setter;
        for _ in 0..plan.nodes.len() {
            let node = plan.node(at);
            if node.when.is_some() {
                return format!("if `{}` is skipped", key(at));
            }
            if node.on_error != OnError::Fail {
                return format!("if `{}` fails", key(at));
            }
            if let Some(choose) = node.inside {
                return format!("if `{}` does not lead to `{}`", key(choose), key(setter));
            }
            match self.flow.place(node.region) {
                Place::Loop(each) if readers.contains(&node.region) => {
                    return format!("in the first turn of `{}`", key(each));
                }
                Place::Loop(each) => return format!("if `{}` makes no turn", key(each)),
                Place::Lane(fan) if !readers.contains(&node.region) => at = fan,
                Place::Exit(_) | Place::Body if matches!(readers.last(), Some(r) if *r != node.region) => {
                    return format!("if the run ends before `{}`", key(setter));
                }
                Place::Lane(_) | Place::Exit(_) | Place::Body | Place::Undo(_) => break,
            }
        }
        format!("on a way that does not come through `{}`", key(setter))
    }

    fn facts(&self, view: View) -> Facts {
        let body = |node| self.flow.each(node).map_or(ROOT, |each| each.region) as usize;
        match view {
            View::Start(node) | View::End(node) => self.starts[node as usize].clone(),
            View::PassStart(node) => self.bases[body(node)].clone(),
            View::PassEnd(node) => self.bases[body(node)].and_then(&self.ends[body(node)]),
            View::PlanEnd => self.ends[ROOT as usize].clone(),
        }
    }

    fn look(&mut self) {
        let plan = self.flow.plan;
        let mut members: Vec<Vec<NodeId>> = vec![Vec::new(); plan.regions.len()];
        for (id, node) in plan.nodes.iter().enumerate() {
            members[node.region as usize].push(id as NodeId);
        }
        // A region is made after the one it stands in.
        for (region, nodes) in members.iter().enumerate().rev() {
            for id in nodes {
                self.sets[*id as usize] = self.set_by(*id);
            }
            self.region(region as RegionId);
        }
        for (region, nodes) in members.iter().enumerate() {
            let base = self.base(region as RegionId);
            for id in nodes {
                self.starts[*id as usize] = base.and_then(&self.starts[*id as usize]);
            }
            self.bases[region] = base;
        }
    }

    fn none(&self) -> Facts {
        Facts { must: Bits::none(self.names.len()), may: Bits::none(self.names.len()) }
    }

    /// What a node sets when it completes, its lanes and bodies included.
    fn set_by(&self, id: NodeId) -> Facts {
        let node = self.flow.plan.node(id);
        let mut sets = match &node.op {
            Op::Fan(fan) => self.set_by_lanes(fan),
            Op::Each(each) => self.set_by_bodies(each),
            Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => self.none(),
        };
        for (bit, _) in node.assign.iter().filter_map(|(name, _)| self.names.get(name.as_str())) {
            sets.must.put(*bit);
            sets.may.put(*bit);
        }
        sets
    }

    fn set_by_lanes(&self, fan: &Fan) -> Facts {
        let skipped = skippable(self.flow.plan, fan);
        let mut sets = self.none();
        for (number, lane) in fan.lanes.iter().enumerate() {
            let end = &self.ends[lane.region as usize];
            sets.may.join(&end.may);
            let waited_for = match &fan.wait_for {
                WaitFor::All => true,
                WaitFor::Lanes(lanes) => lanes.contains(&(number as u32)),
                WaitFor::Count(_) => false,
            };
            if waited_for && fan.on_failure != LaneFailure::Collect && !skipped[number] {
                sets.must.join(&end.must);
            }
        }
        sets
    }

    fn set_by_bodies(&self, each: &Each) -> Facts {
        let end = &self.ends[each.region as usize];
        let turns = matches!(&each.over, Over::Passes { while_: None, .. });
        if turns { end.clone() } else { Facts { must: self.none().must, may: end.may.clone() } }
    }

    /// Follows control through a region from its first node on.
    fn region(&mut self, region: RegionId) {
        let plan = self.flow.plan;
        let Some(entry) = entry_of(self.flow, region) else {
            self.ends[region as usize] = self.none();
            return;
        };
        self.starts[entry as usize] = self.none();
        let mut open = vec![entry];
        while let Some(id) = open.pop() {
            let before = self.starts[id as usize].clone();
            let after = before.and_then(&self.sets[id as usize]);
            for out in outs(plan.node(id)) {
                let facts = if out.completes { &after } else { &before };
                match out.to {
                    Some(to) if self.starts[to as usize].meet(facts) => open.push(to),
                    Some(_) => {}
                    None => drop(self.ends[region as usize].meet(facts)),
                }
            }
        }
    }

    /// What was set before a region began, from any place.
    fn base(&self, region: RegionId) -> Facts {
        let plan = self.flow.plan;
        match self.flow.place(region) {
            Place::Body => self.none(),
            Place::Exit(position) => {
                let mut may = self.none().may;
                self.sets.iter().for_each(|sets| may.join(&sets.may));
                let success = plan.exits[position].when == ExitWhen::Success;
                let must = if success { self.ends[ROOT as usize].must.clone() } else { self.none().must };
                Facts { must, may }
            }
            Place::Undo(node) => self.starts[node as usize].and_then(&self.sets[node as usize]),
            Place::Loop(node) => {
                let mut base = self.starts[node as usize].clone();
                base.may.join(&self.ends[region as usize].may);
                base
            }
            Place::Lane(node) => {
                let start = &self.starts[node as usize];
                let lane = plan.regions[region as usize].lane as usize;
                self.flow.fan(node).map_or_else(|| start.clone(), |fan| start.and_then(&self.needed(fan, lane)))
            }
        }
    }

    /// What the lanes set that a lane needs, directly or through others.
    fn needed(&self, fan: &Fan, lane: usize) -> Facts {
        let skipped = skippable(self.flow.plan, fan);
        let mut facts = self.none();
        let mut seen = vec![false; fan.lanes.len()];
        let mut open: Vec<(usize, bool)> = vec![(lane, true)];
        while let Some((lane, sure)) = open.pop() {
            for &need in &fan.lanes[lane].after {
                let need = need as usize;
                let sure = sure && !fan.lanes[lane].always && !skipped[need];
                let end = &self.ends[fan.lanes[need].region as usize];
                facts.may.join(&end.may);
                if sure {
                    facts.must.join(&end.must);
                }
                if !std::mem::replace(&mut seen[need], true) {
                    open.push((need, sure));
                }
            }
        }
        facts
    }
}

/// Lanes that are skipped where all that they need was.
fn skippable(plan: &Plan, fan: &Fan) -> Vec<bool> {
    let after: Vec<Vec<u32>> = fan.lanes.iter().map(|lane| lane.after.clone()).collect();
    let alone = |lane: &Lane| {
        let entry = lane.entry.map(|entry| plan.node(entry));
        entry.is_none_or(|entry| entry.when.is_some() && entry.next.is_none())
    };
    let mut skippable = vec![false; fan.lanes.len()];
    for lane in topological(&after) {
        let lane = lane as usize;
        let may_skip = |need: &u32| skippable[*need as usize] || alone(&fan.lanes[*need as usize]);
        skippable[lane] = !after[lane].is_empty() && !fan.lanes[lane].always && after[lane].iter().all(may_skip);
    }
    skippable
}

/// One way on from a node.
struct Out {
    /// None: the region is at its end.
    to: Option<NodeId>,
    /// What the node sets is set on this way.
    completes: bool,
}

fn outs(node: &Node) -> Vec<Out> {
    let completed = |to: Option<NodeId>| Out { to, completes: true };
    let mut outs: Vec<Out> = match &node.op {
        Op::Choose { arms, other } => {
            let jumps = arms.iter().map(|arm| Some(&arm.jump)).chain([other.as_ref()]);
            jumps.map(|jump| completed(jump.and_then(|jump| jump.to).or(node.next))).collect()
        }
        Op::End { .. } => Vec::new(),
        Op::Call(_) | Op::Fan(_) | Op::Each(_) | Op::Wait(_) => vec![completed(node.next)],
    };
    let around = |to| Out { to, completes: false };
    outs.extend(node.when.as_ref().map(|_| around(node.next)));
    match node.on_error {
        OnError::Fail => {}
        OnError::Continue | OnError::Value(_) => outs.push(around(node.next)),
        OnError::Goto(to) => outs.push(around(Some(to))),
    }
    outs
}

fn entry_of(flow: &Flow<'_>, region: RegionId) -> Option<NodeId> {
    let plan: &Plan = flow.plan;
    match flow.place(region) {
        Place::Body => plan.entry,
        Place::Exit(position) => plan.exits[position].entry,
        Place::Undo(node) => plan.node(node).undo,
        Place::Loop(node) => flow.each(node)?.body,
        Place::Lane(node) => flow.fan(node)?.lanes.get(plan.regions[region as usize].lane as usize)?.entry,
    }
}

impl Facts {
    /// Of a place that nothing leads to.
    fn nowhere(names: usize) -> Facts {
        Facts { must: Bits::all(names), may: Bits::none(names) }
    }

    fn and_then(&self, more: &Facts) -> Facts {
        let mut facts = self.clone();
        facts.must.join(&more.must);
        facts.may.join(&more.may);
        facts
    }

    /// One more way leads here; says whether that changes anything.
    fn meet(&mut self, way: &Facts) -> bool {
        let before = self.clone();
        self.must.0.iter_mut().zip(&way.must.0).for_each(|(here, there)| *here &= there);
        self.may.join(&way.may);
        *self != before
    }
}

impl Bits {
    fn none(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    fn all(count: usize) -> Bits {
        Bits(vec![u64::MAX; count.div_ceil(64)])
    }

    fn has(&self, bit: usize) -> bool {
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn put(&mut self, bit: usize) {
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    fn join(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(here, there)| *here |= there);
    }
}
