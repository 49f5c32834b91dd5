//! The order of a graph: where it begins, what is reached, what goes in circles, which edges close the circles.
//!
//! Nodes are numbers here, in the order in which they are listed. Everything is linear in nodes and edges, and nothing
//! recurses, so that a long chain of nodes costs no stack.

/// Edges by node: where they lead, and where they come from.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub next: Vec<Vec<usize>>,
    pub before: Vec<Vec<usize>>,
}

impl Links {
    pub fn new(count: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Links {
        let mut links = Links { next: vec![Vec::new(); count], before: vec![Vec::new(); count] };
        for (from, to) in edges {
            links.next[from].push(to);
            links.before[to].push(from);
        }
        links.next.iter_mut().chain(&mut links.before).for_each(|ends| ends.sort_unstable());
        links
    }

    pub fn is_looped(&self, node: usize) -> bool {
        self.next[node].contains(&node)
    }
}

/// Nodes that no other node leads to; where there is none, the first.
pub(super) fn entries(links: &Links) -> Vec<usize> {
    let begins = |node: &usize| links.before[*node].iter().all(|from| from == node);
    let found: Vec<usize> = (0..links.next.len()).filter(begins).collect();
    if found.is_empty() && !links.next.is_empty() { vec![0] } else { found }
}

/// Nodes that no way from the entries leads to.
pub(super) fn unreachable(links: &Links, entries: &[usize]) -> Vec<usize> {
    let mut seen = vec![false; links.next.len()];
    let mut open = entries.to_vec();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut seen[node], true) {
            open.extend(links.next[node].iter().filter(|to| !seen[**to]));
        }
    }
    (0..seen.len()).filter(|node| !seen[*node]).collect()
}

/// Nodes that can reach one another, each group in listed order; a group comes after all that lead to it (Tarjan).
pub(super) fn components(links: &Links) -> Vec<Vec<usize>> {
    let mut search = Search::new(links);
    for root in (0..links.next.len()).rev() {
        search.from(root);
    }
    search.found.reverse();
    search.found
}

const UNSEEN: usize = usize::MAX;

struct Search<'l> {
    links: &'l Links,
    /// When each node was met.
    met: Vec<usize>,
    /// The earliest open node that each is known to reach.
    low: Vec<usize>,
    open: Vec<usize>,
    is_open: Vec<bool>,
    clock: usize,
    found: Vec<Vec<usize>>,
}

impl<'l> Search<'l> {
    fn new(links: &'l Links) -> Search<'l> {
        let count = links.next.len();
        let (met, low) = (vec![UNSEEN; count], vec![UNSEEN; count]);
        Search { links, met, low, open: Vec::new(), is_open: vec![false; count], clock: 0, found: Vec::new() }
    }

    fn from(&mut self, root: usize) {
        if self.met[root] != UNSEEN {
            return;
        }
        self.meet(root);
        // Each node on the way, with how many of its edges were followed.
        let mut way = vec![(root, 0)];
        while let Some((node, followed)) = way.last_mut() {
            let (node, position) = (*node, *followed);
            *followed += 1;
            match self.links.next[node].get(position) {
                Some(&to) if self.met[to] == UNSEEN => {
                    self.meet(to);
                    way.push((to, 0));
                }
                Some(&to) if self.is_open[to] => self.low[node] = self.low[node].min(self.met[to]),
                Some(_) => {}
                None => {
                    way.pop();
                    self.leave(node, way.last().map(|(parent, _)| *parent));
                }
            }
        }
    }

    fn meet(&mut self, node: usize) {
        (self.met[node], self.low[node]) = (self.clock, self.clock);
        self.clock += 1;
        self.open.push(node);
        self.is_open[node] = true;
    }

    fn leave(&mut self, node: usize, parent: Option<usize>) {
        if let Some(parent) = parent {
            self.low[parent] = self.low[parent].min(self.low[node]);
        }
        if self.low[node] != self.met[node] {
            return;
        }
        let first = self.open.iter().rposition(|open| *open == node).unwrap_or_default();
        let mut members = self.open.split_off(first);
        members.iter().for_each(|member| self.is_open[*member] = false);
        members.sort_unstable();
        self.found.push(members);
    }
}

/// The edges inside a component that lead back to a node on the way from its head: without them it has no cycle.
pub(super) fn back_edges(links: &Links, members: &[usize], head: usize) -> Vec<(usize, usize)> {
    let mut states: std::collections::HashMap<usize, State> =
        members.iter().map(|member| (*member, State::Unseen)).collect();
    let mut back = Vec::new();
    let mut way = vec![(head, 0)];
    states.insert(head, State::OnTheWay);
    while let Some((node, followed)) = way.last_mut() {
        let (node, position) = (*node, *followed);
        *followed += 1;
        let Some(&to) = links.next[node].get(position) else {
            states.insert(node, State::Done);
            way.pop();
            continue;
        };
        match states.get(&to) {
            Some(State::OnTheWay) => back.push((node, to)),
            Some(State::Unseen) => {
                states.insert(to, State::OnTheWay);
                way.push((to, 0));
            }
            Some(State::Done) | None => {}
        }
    }
    back
}

#[derive(Clone, Copy)]
enum State {
    Unseen,
    OnTheWay,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_nothing_else_leads_to() {
        let check = |count, edges: &[(usize, usize)], expected: &[usize]| {
            assert_eq!(entries(&Links::new(count, edges.iter().copied())), expected);
        };
        check(0, &[], &[]);
        check(3, &[(0, 2), (1, 2)], &[0, 1]);
        check(2, &[(0, 1), (1, 0)], &[0]);
        check(2, &[(1, 1), (1, 0)], &[1]);
    }

    #[test]
    fn components_come_in_the_order_of_their_edges() {
        let check = |count, edges: &[(usize, usize)], expected: &[&[usize]]| {
            assert_eq!(components(&Links::new(count, edges.iter().copied())), expected);
        };
        check(3, &[(0, 1), (1, 2)], &[&[0], &[1], &[2]]);
        check(3, &[(2, 1), (1, 0)], &[&[2], &[1], &[0]]);
        check(4, &[(0, 1), (1, 2), (2, 1), (2, 3)], &[&[0], &[1, 2], &[3]]);
        check(4, &[(0, 1), (1, 0), (2, 3), (3, 2)], &[&[0, 1], &[2, 3]]);
        check(5, &[(0, 1), (1, 2), (2, 3), (3, 1), (2, 0), (3, 4)], &[&[0, 1, 2, 3], &[4]]);
    }

    #[test]
    fn a_long_chain_costs_no_stack() {
        let count = 200_000;
        let links = Links::new(count, (0..count).map(|node| (node, (node + 1) % count)));
        let members = components(&links).remove(0);
        assert_eq!(members.len(), count);
        assert_eq!(back_edges(&links, &members, 0), [(count - 1, 0)]);
        assert!(unreachable(&links, &[0]).is_empty());
    }

    #[test]
    fn back_edges_close_the_circles() {
        let check = |edges: &[(usize, usize)], head, expected: &[(usize, usize)]| {
            let links = Links::new(4, edges.iter().copied());
            assert_eq!(back_edges(&links, &[0, 1, 2, 3], head), expected);
        };
        check(&[(0, 1), (1, 2), (2, 3), (3, 0)], 0, &[(3, 0)]);
        check(&[(0, 1), (1, 2), (2, 3), (3, 0)], 2, &[(1, 2)]);
        check(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 0), (3, 3)], 0, &[(2, 1), (3, 0), (3, 3)]);
        check(&[(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)], 0, &[(3, 0)]);
    }
}
