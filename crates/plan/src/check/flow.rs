//! What can have ended before what begins: the control flow of a plan as a graph, and the view from any place in it.
//!
//! Knows regions, jumps, lanes and loops; knows nothing of expressions, schemas or tools.

use super::graph::Graph;
use crate::{Each, Expr, Fan, Jump, Lane, Node, NodeId, OnError, Op, Over, Plan, ROOT, RegionId, WaitFor};

pub(super) struct Flow<'p> {
    pub plan: &'p Plan,
    /// Vertices: the nodes, then the regions (lanes that come `after` lanes).
    pub graph: Graph,
    places: Vec<Place>,
    depths: Vec<u32>,
    reached: Vec<bool>,
    predecessors: Vec<Predecessor>,
}

/// Which node control comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Predecessor {
    None,
    One(NodeId),
    Several,
}

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Place {
    Body,
    Exit(usize),
    Undo(NodeId),
    Lane(NodeId),
    Loop(NodeId),
}

/// From where something is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum View {
    Start(NodeId),
    End(NodeId),
    /// Before and after each pass of a repeat.
    PassStart(NodeId),
    PassEnd(NodeId),
    PlanEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sight {
    Seen,
    Never(Blind),
    /// Seen if the graph has a path from the first to the second vertex.
    IfPath(u32, u32, Blind),
}

/// Why a step cannot be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blind {
    Later,
    Itself,
    Enclosing,
    InLoop(NodeId),
    Detached(NodeId),
    Sibling(NodeId),
    InUndo,
    InExit,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    RegionStart,
    RegionEnd,
    Before(NodeId),
    After(NodeId),
}

/// A reader while it is lifted to the region of what it reads.
struct Reader {
    region: RegionId,
    at: At,
    /// The lane or loop body it was lifted out of last.
    from: Option<RegionId>,
}

/// One way out of a node.
pub(super) struct Way {
    pub to: NodeId,
    /// Counts against the target's limit.
    pub counted: bool,
}

impl<'p> Flow<'p> {
    pub fn new(plan: &'p Plan) -> Flow<'p> {
        let places = places(plan);
        let depths = (0..places.len()).map(|r| depth(plan, &places, r as RegionId)).collect();
        let graph = Graph::new(edges(plan));
        let reached = reached(plan);
        Flow { plan, graph, places, depths, reached, predecessors: predecessors(plan) }
    }

    pub fn is_reached(&self, node: NodeId) -> bool {
        self.reached[node as usize]
    }

    pub fn place(&self, region: RegionId) -> Place {
        self.places[region as usize]
    }

    fn depth(&self, region: RegionId) -> u32 {
        self.depths[region as usize]
    }

    /// The vertex of a lane.
    fn lane_vertex(&self, region: RegionId) -> u32 {
        self.plan.nodes.len() as u32 + region
    }

    /// The nodes whose scopes a view stands in, innermost first, with the region below each.
    pub fn scopes(&self, view: View) -> impl Iterator<Item = (RegionId, Place)> {
        let mut next = Some(self.reader(view).region);
        std::iter::from_fn(move || {
            let region = next?;
            let place = self.place(region);
            next = place.holder().map(|node| self.plan.node(node).region);
            Some((region, place))
        })
    }

    pub fn each(&self, node: NodeId) -> Option<&'p Each> {
        match &self.plan.node(node).op {
            Op::Each(each) => Some(each),
            Op::Call(_) | Op::Choose { .. } | Op::Fan(_) | Op::Wait(_) | Op::End { .. } => None,
        }
    }

    pub fn fan(&self, node: NodeId) -> Option<&'p Fan> {
        match &self.plan.node(node).op {
            Op::Fan(fan) => Some(fan),
            Op::Call(_) | Op::Choose { .. } | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
        }
    }

    /// The nearest block around a node that a person wrote.
    pub fn block_of(&self, node: NodeId) -> Option<NodeId> {
        let outer = |&node: &NodeId| {
            let node = self.plan.node(node);
            node.inside.or(self.place(node.region).holder())
        };
        let mut blocks = std::iter::successors(outer(&node), outer).take(self.plan.nodes.len());
        blocks.find(|&block| !self.plan.node(block).hidden)
    }

    /// The only node of the region that control can come from. A lane with a single need continues that lane.
    pub fn sole_predecessor(&self, node: NodeId) -> Option<NodeId> {
        match self.predecessors[node as usize] {
            Predecessor::One(before) if !self.is_entry(node) => Some(before),
            Predecessor::None => {
                let lane = self.lane_of(node).filter(|lane| lane.entry == Some(node) && !lane.always)?;
                let Place::Lane(fan) = self.place(lane.region) else { return None };
                let [need] = lane.after.as_slice() else { return None };
                let entry = self.fan(fan)?.lanes.get(*need as usize)?.entry?;
                self.plan.node(entry).next.is_none().then_some(entry)
            }
            Predecessor::One(_) | Predecessor::Several => None,
        }
    }

    /// No other step of the region comes before this one.
    pub fn begins_region(&self, node: NodeId) -> bool {
        let mut node = node;
        while let Some(choose) = self.plan.node(node).inside {
            let Op::Choose { arms, other } = &self.plan.node(choose).op else { return false };
            let leads = |jump: &Jump| jump.to == Some(node);
            if !arms.iter().any(|arm| leads(&arm.jump)) && !other.as_ref().is_some_and(leads) {
                return false;
            }
            node = choose;
        }
        self.is_entry(node)
    }

    fn is_entry(&self, node: NodeId) -> bool {
        let region = self.plan.node(node).region;
        let entry = match self.place(region) {
            Place::Body => self.plan.entry,
            Place::Exit(position) => self.plan.exits[position].entry,
            Place::Undo(holder) => self.plan.node(holder).undo,
            Place::Lane(_) => self.lane_of(node).and_then(|lane| lane.entry),
            Place::Loop(each) => self.each(each).and_then(|each| each.body),
        };
        entry == Some(node)
    }

    fn lane_of(&self, node: NodeId) -> Option<&'p Lane> {
        let region = self.plan.node(node).region;
        let Place::Lane(fan) = self.place(region) else { return None };
        self.fan(fan)?.lanes.get(self.plan.regions[region as usize].lane as usize)
    }

    /// What a for_each goes over.
    pub fn items(&self, node: NodeId) -> Option<&'p Expr> {
        self.each(node).and_then(|each| match &each.over {
            Over::Items(items) => Some(items),
            Over::Passes { .. } => None,
        })
    }

    /// Is a for_each (or, for `any`, also a repeat) around the view?
    pub fn in_loop(&self, view: View, any: bool) -> bool {
        self.scopes(view).any(|(_, place)| match place {
            Place::Loop(node) => any || self.items(node).is_some(),
            Place::Body | Place::Exit(_) | Place::Undo(_) | Place::Lane(_) => false,
        })
    }

    /// Can `target` have ended when the view looks?
    pub fn sight(&self, view: View, target: NodeId) -> Sight {
        let mut reader = self.reader(view);
        let mut top = target;
        let mut left: Vec<RegionId> = Vec::new();
        loop {
            let region = self.plan.node(top).region;
            if region == reader.region {
                return self.sight_in_region(&reader, top, &left);
            }
            let (target_depth, reader_depth) = (self.depth(region), self.depth(reader.region));
            if target_depth == 0 && reader_depth == 0 {
                return self.sight_between_roots(&reader, region, &left);
            }
            if target_depth < reader_depth {
                self.lift(&mut reader);
                continue;
            }
            match self.place(region) {
                Place::Undo(_) => return Sight::Never(Blind::InUndo),
                Place::Loop(node) => return Sight::Never(Blind::InLoop(node)),
                Place::Lane(node) => {
                    left.push(region);
                    top = node;
                }
                // Roots have depth 0 and were handled above.
                Place::Body | Place::Exit(_) => return Sight::Never(Blind::Later),
            }
        }
    }

    fn reader(&self, view: View) -> Reader {
        let body = |node| self.each(node).map_or(ROOT, |each| each.region);
        let (region, at) = match view {
            View::Start(node) => (self.plan.node(node).region, At::Before(node)),
            View::End(node) => (self.plan.node(node).region, At::After(node)),
            View::PassStart(node) => (body(node), At::RegionStart),
            View::PassEnd(node) => (body(node), At::RegionEnd),
            View::PlanEnd => (ROOT, At::RegionEnd),
        };
        Reader { region, at, from: None }
    }

    fn lift(&self, reader: &mut Reader) {
        let Some(node) = self.place(reader.region).holder() else { return };
        let undo = matches!(self.place(reader.region), Place::Undo(_));
        reader.from = (!undo).then_some(reader.region);
        reader.at = if undo { At::After(node) } else { At::Before(node) };
        reader.region = self.plan.node(node).region;
    }

    fn sight_in_region(&self, reader: &Reader, top: NodeId, left: &[RegionId]) -> Sight {
        let (node, ended) = match reader.at {
            At::RegionStart => return Sight::Never(Blind::Later),
            At::RegionEnd => return self.unless_detached(left, Sight::Seen),
            At::Before(node) => (node, false),
            At::After(node) => (node, true),
        };
        if ended && (top == node || self.encloses(node, top)) {
            return self.unless_detached(left, Sight::Seen);
        }
        if self.encloses(top, node) {
            return Sight::Never(Blind::Enclosing);
        }
        if top != node {
            return self.unless_detached(left, Sight::IfPath(top, node, Blind::Later));
        }
        match (reader.from, left.split_last()) {
            (Some(own), Some((&other, inner))) => {
                let path = Sight::IfPath(self.lane_vertex(other), self.lane_vertex(own), Blind::Sibling(node));
                self.unless_detached(inner, path)
            }
            (Some(_), None) => Sight::Never(Blind::Enclosing),
            (None, None) => Sight::IfPath(top, node, Blind::Itself),
            // A block that reads its own lanes while it starts.
            (None, Some(_)) => self.unless_detached(left, Sight::IfPath(top, node, Blind::Later)),
        }
    }

    fn sight_between_roots(&self, reader: &Reader, target: RegionId, left: &[RegionId]) -> Sight {
        match (self.place(reader.region), self.place(target)) {
            (Place::Exit(_), Place::Body) => self.unless_detached(left, Sight::Seen),
            (Place::Exit(own), Place::Exit(other)) if other < own => self.unless_detached(left, Sight::Seen),
            (Place::Exit(_), Place::Exit(_)) => Sight::Never(Blind::Later),
            (_, Place::Exit(_)) => Sight::Never(Blind::InExit),
            (_, _) => Sight::Never(Blind::Later),
        }
    }

    /// Is `inner` a part of the if or switch `outer`, at any depth?
    fn encloses(&self, outer: NodeId, inner: NodeId) -> bool {
        let chain = std::iter::successors(self.plan.node(inner).inside, |&n| self.plan.node(n).inside);
        chain.take(self.plan.nodes.len()).any(|n| n == outer)
    }

    fn unless_detached(&self, left: &[RegionId], otherwise: Sight) -> Sight {
        let detached = left.iter().find_map(|&region| {
            let Place::Lane(node) = self.place(region) else { return None };
            self.fan(node).filter(|fan| is_detached(fan, self.plan.regions[region as usize].lane)).map(|_| node)
        });
        detached.map_or(otherwise, |node| Sight::Never(Blind::Detached(node)))
    }
}

impl Place {
    /// The node that a region hangs on.
    pub fn holder(self) -> Option<NodeId> {
        match self {
            Place::Undo(node) | Place::Lane(node) | Place::Loop(node) => Some(node),
            Place::Body | Place::Exit(_) => None,
        }
    }
}

/// Where control can go when this node has ended.
pub(super) fn ways(node: &Node) -> Vec<Way> {
    let next = || node.next.map(|to| Way { to, counted: false });
    let mut ways: Vec<Way> = match &node.op {
        Op::Choose { arms, other } => {
            let jumps = arms.iter().map(|arm| Some(&arm.jump)).chain([other.as_ref()]);
            jumps
                .filter_map(|jump| jump.and_then(|j| Some(Way { to: j.to?, counted: j.counted })).or_else(next))
                .collect()
        }
        Op::End { .. } => Vec::new(),
        Op::Call(_) | Op::Fan(_) | Op::Each(_) | Op::Wait(_) => next().into_iter().collect(),
    };
    // A step that is skipped passes on.
    ways.extend(node.when.as_ref().and_then(|_| next()));
    if let OnError::Goto(to) = node.on_error {
        ways.push(Way { to, counted: true });
    }
    ways
}

/// The first nodes of the scopes that this node opens, undo included.
pub(super) fn openings(node: &Node) -> Vec<NodeId> {
    let inner = match &node.op {
        Op::Fan(fan) => fan.lanes.iter().filter_map(|lane| lane.entry).collect(),
        Op::Each(each) => each.body.into_iter().collect(),
        Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => Vec::new(),
    };
    inner.into_iter().chain(node.undo).collect()
}

fn is_detached(fan: &Fan, lane: u32) -> bool {
    fan.detach
        && match &fan.wait_for {
            WaitFor::All | WaitFor::Lanes(_) => !fan.awaits(lane),
            WaitFor::Count(_) => true,
        }
}

fn places(plan: &Plan) -> Vec<Place> {
    let opened = |region: &crate::Region| match region.opener {
        Some(node) if matches!(plan.node(node).op, Op::Each(_)) => Place::Loop(node),
        Some(node) => Place::Lane(node),
        None => Place::Body,
    };
    let mut places: Vec<Place> = plan.regions.iter().map(opened).collect();
    for (position, exit) in plan.exits.iter().enumerate() {
        places[exit.region as usize] = Place::Exit(position);
    }
    for (id, node) in plan.nodes.iter().enumerate() {
        if let Some(undo) = node.undo {
            places[plan.node(undo).region as usize] = Place::Undo(id as NodeId);
        }
    }
    places
}

fn depth(plan: &Plan, places: &[Place], region: RegionId) -> u32 {
    let outer = |&r: &RegionId| places[r as usize].holder().map(|node| plan.node(node).region);
    std::iter::successors(outer(&region), outer).take(places.len()).count() as u32
}

fn edges(plan: &Plan) -> Vec<Vec<u32>> {
    let base = plan.nodes.len() as u32;
    let mut edges: Vec<Vec<u32>> =
        plan.nodes.iter().map(|node| ways(node).into_iter().map(|way| way.to).collect()).collect();
    edges.resize(plan.nodes.len() + plan.regions.len(), Vec::new());
    for node in &plan.nodes {
        let Op::Fan(fan) = &node.op else { continue };
        for lane in &fan.lanes {
            for before in lane.after.iter().filter_map(|&position| fan.lanes.get(position as usize)) {
                edges[(base + before.region) as usize].push(base + lane.region);
            }
        }
    }
    edges
}

fn predecessors(plan: &Plan) -> Vec<Predecessor> {
    let mut predecessors = vec![Predecessor::None; plan.nodes.len()];
    for (id, node) in plan.nodes.iter().enumerate() {
        for way in ways(node) {
            let known = &mut predecessors[way.to as usize];
            *known = match *known {
                Predecessor::None => Predecessor::One(id as NodeId),
                Predecessor::One(before) if before == id as NodeId => continue,
                Predecessor::One(_) | Predecessor::Several => Predecessor::Several,
            };
        }
    }
    predecessors
}

fn reached(plan: &Plan) -> Vec<bool> {
    let mut reached = vec![false; plan.nodes.len()];
    let mut open: Vec<NodeId> = plan.entry.into_iter().chain(plan.exits.iter().filter_map(|e| e.entry)).collect();
    while let Some(id) = open.pop() {
        if !std::mem::replace(&mut reached[id as usize], true) {
            let node = plan.node(id);
            open.extend(ways(node).into_iter().map(|way| way.to).chain(openings(node)));
        }
    }
    reached
}
