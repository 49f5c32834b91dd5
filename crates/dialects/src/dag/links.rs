//! Which node comes after which: what each names, lifted to the list that both stand in.
//!
//! A node named in an input, a condition, an expression or a list is a dependency as if it stood in `depends_on`. A node
//! inside another is reached through it. Knows numbers only; what a node does is the business of others.

use std::collections::{BTreeSet, HashMap};

use super::nodes::Nodes;

/// In a larger knot it is not worth the time to find the circles.
const MAX_SHOWN: usize = 100;

/// What a node names.
#[derive(Default, Clone)]
pub(super) struct Named {
    /// In `depends_on`.
    pub asked: Vec<usize>,
    /// Everywhere else.
    pub read: Vec<usize>,
}

impl Named {
    /// What its input is made of where it maps none: what it asks for, else what it reads.
    pub fn sources(&self) -> &[usize] {
        if self.asked.is_empty() { &self.read } else { &self.asked }
    }
}

pub(super) struct Links {
    pub named: Vec<Named>,
    /// By node, the nodes of its own list that it comes after.
    pub after: Vec<BTreeSet<usize>>,
}

impl Links {
    /// Nodes around a node and nodes inside it are no dependencies: the one waits for the other anyway.
    pub fn new(nodes: &Nodes<'_>, mut named: Vec<Named>) -> Links {
        let mut after = vec![BTreeSet::new(); nodes.parts.len()];
        for (node, named) in named.iter_mut().enumerate() {
            for list in [&mut named.asked, &mut named.read] {
                list.retain(|&other| !encloses(nodes, other, node) && !encloses(nodes, node, other));
                let mut seen = BTreeSet::new();
                list.retain(|&other| seen.insert(other));
            }
            for &other in named.asked.iter().chain(&named.read) {
                if let Some((own, other)) = meet(nodes, node, other) {
                    after[own].insert(other);
                }
            }
        }
        Links { named, after }
    }

    /// The nodes of a list in an order in which each comes after those it needs, else as they are written; or those
    /// that wait for one another.
    pub fn order(&self, list: &[usize]) -> Result<Vec<usize>, Vec<usize>> {
        let mut open: HashMap<usize, usize> = list.iter().map(|&node| (node, self.after[node].len())).collect();
        let mut dependents: HashMap<usize, Vec<usize>> = HashMap::new();
        for &node in list {
            self.after[node].iter().for_each(|&other| dependents.entry(other).or_default().push(node));
        }
        let mut ready: BTreeSet<usize> = list.iter().copied().filter(|node| self.after[*node].is_empty()).collect();
        let mut order = Vec::with_capacity(list.len());
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for &dependent in dependents.get(&node).into_iter().flatten() {
                let left = open.entry(dependent).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    ready.insert(dependent);
                }
            }
        }
        if order.len() == list.len() { Ok(order) } else { Err(self.waiting(list, &order)) }
    }

    /// Those that cannot start and that another such node waits for: the circles, without what only hangs on them.
    fn waiting(&self, list: &[usize], placed: &[usize]) -> Vec<usize> {
        let placed: BTreeSet<usize> = placed.iter().copied().collect();
        let mut left: Vec<usize> = list.iter().copied().filter(|node| !placed.contains(node)).collect();
        loop {
            let awaited: BTreeSet<usize> = left.iter().flat_map(|&node| self.after[node].iter().copied()).collect();
            let before = left.len();
            left.retain(|node| awaited.contains(node));
            if left.len() == before || before > MAX_SHOWN {
                return left;
            }
        }
    }
}

/// Is `inner` a part of `outer`, at any depth, or the same?
fn encloses(nodes: &Nodes<'_>, outer: usize, inner: usize) -> bool {
    std::iter::successors(Some(inner), |&node| nodes.parts[node].parent).any(|node| node == outer)
}

/// The nodes around two nodes that stand in the same list.
fn meet(nodes: &Nodes<'_>, a: usize, b: usize) -> Option<(usize, usize)> {
    let around = |node: usize| std::iter::successors(Some(node), |&node| nodes.parts[node].parent);
    let mut own = around(a);
    own.find_map(|a| around(b).find(|&b| nodes.parts[b].list == nodes.parts[a].list).map(|b| (a, b)))
        .filter(|(a, b)| a != b)
}
