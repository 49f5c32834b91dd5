//! Who can be reached from whom. Knows vertices and edges, nothing of plans.

/// A directed graph with its strongly connected components in topological order.
pub(super) struct Graph {
    edges: Vec<Vec<u32>>,
    /// Component of each vertex; an edge never leads to a lower one.
    component: Vec<u32>,
    cyclic: Vec<bool>,
    /// The vertices by component.
    order: Vec<u32>,
}

/// Sources that one pass over the graph carries, one bit each.
const BATCH: usize = u64::BITS as usize;
const UNSEEN: u32 = u32::MAX;

impl Graph {
    pub fn new(edges: Vec<Vec<u32>>) -> Graph {
        let component = components(&edges);
        let mut order: Vec<u32> = (0..edges.len() as u32).collect();
        order.sort_by_key(|&v| component[v as usize]);
        let mut cyclic = vec![false; edges.len()];
        let mut members = vec![0u32; edges.len()];
        for (vertex, targets) in edges.iter().enumerate() {
            let own = component[vertex] as usize;
            members[own] += 1;
            cyclic[own] |= members[own] > 1 || targets.contains(&(vertex as u32));
        }
        Graph { edges, component, cyclic, order }
    }

    /// Lies on a cycle.
    pub fn on_cycle(&self, vertex: u32) -> bool {
        self.cyclic[self.component[vertex as usize] as usize]
    }

    pub fn same_cycle(&self, a: u32, b: u32) -> bool {
        self.component[a as usize] == self.component[b as usize] && self.on_cycle(a)
    }

    /// The place of a vertex in topological order.
    pub fn rank(&self, vertex: u32) -> u32 {
        self.component[vertex as usize]
    }

    /// For each pair: is there a path of at least one edge? Costs one pass over the graph per 64 different sources,
    /// so memory stays linear however many pairs there are.
    pub fn reaches(&self, pairs: &[(u32, u32)]) -> Vec<bool> {
        let mut by_source: Vec<usize> = (0..pairs.len()).collect();
        by_source.sort_by_key(|&i| pairs[i].0);
        let mut found = vec![false; pairs.len()];
        let mut rest = by_source.as_slice();
        while !rest.is_empty() {
            let (batch, bits) = take_batch(rest, pairs);
            self.answer(&rest[..batch], &bits, pairs, &mut found);
            rest = &rest[batch..];
        }
        found
    }

    fn answer(&self, batch: &[usize], bits: &[u8], pairs: &[(u32, u32)], found: &mut [bool]) {
        let mut seen = vec![0u64; self.edges.len()];
        for (&pair, &bit) in batch.iter().zip(bits) {
            seen[self.rank(pairs[pair].0) as usize] |= 1 << bit;
        }
        for &vertex in &self.order {
            let mask = seen[self.rank(vertex) as usize];
            for &target in self.edges[vertex as usize].iter().filter(|_| mask != 0) {
                seen[self.rank(target) as usize] |= mask;
            }
        }
        for (&pair, &bit) in batch.iter().zip(bits) {
            let (source, target) = pairs[pair];
            let same = self.rank(source) == self.rank(target);
            found[pair] = if same { self.on_cycle(source) } else { seen[self.rank(target) as usize] >> bit & 1 == 1 };
        }
    }
}

/// How many of the pairs (sorted by source) fit one pass, and the bit of each one's source.
fn take_batch(sorted: &[usize], pairs: &[(u32, u32)]) -> (usize, Vec<u8>) {
    let mut bits: Vec<u8> = Vec::new();
    let mut last = None;
    let mut sources = 0usize;
    for &pair in sorted {
        let source = pairs[pair].0;
        if last != Some(source) {
            if sources == BATCH {
                break;
            }
            sources += 1;
            last = Some(source);
        }
        bits.push((sources - 1) as u8);
    }
    (bits.len(), bits)
}

/// Kosaraju's algorithm without recursion: the vertices by falling finishing time, then components over the reversed
/// edges, numbered in topological order.
fn components(edges: &[Vec<u32>]) -> Vec<u32> {
    let finished = finishing_order(edges);
    let mut reversed = vec![Vec::new(); edges.len()];
    for (vertex, targets) in edges.iter().enumerate() {
        targets.iter().for_each(|&t| reversed[t as usize].push(vertex as u32));
    }
    let mut component = vec![UNSEEN; edges.len()];
    let mut number = 0;
    for &root in finished.iter().rev() {
        if component[root as usize] == UNSEEN {
            mark(&reversed, root, number, &mut component);
            number += 1;
        }
    }
    component
}

fn mark(edges: &[Vec<u32>], root: u32, number: u32, component: &mut [u32]) {
    let mut open = vec![root];
    component[root as usize] = number;
    while let Some(vertex) = open.pop() {
        for &target in &edges[vertex as usize] {
            if component[target as usize] == UNSEEN {
                component[target as usize] = number;
                open.push(target);
            }
        }
    }
}

fn finishing_order(edges: &[Vec<u32>]) -> Vec<u32> {
    let mut seen = vec![false; edges.len()];
    let mut finished = Vec::with_capacity(edges.len());
    for root in 0..edges.len() as u32 {
        let mut open = Vec::new();
        if !std::mem::replace(&mut seen[root as usize], true) {
            open.push((root, 0));
        }
        while let Some((vertex, position)) = open.last_mut() {
            let Some(&target) = edges[*vertex as usize].get(*position) else {
                finished.push(*vertex);
                open.pop();
                continue;
            };
            *position += 1;
            if !std::mem::replace(&mut seen[target as usize], true) {
                open.push((target, 0));
            }
        }
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[&[u32]], source: u32, expected: &[u32]) {
        let graph = Graph::new(edges.iter().map(|e| e.to_vec()).collect());
        let pairs: Vec<(u32, u32)> = (0..edges.len() as u32).map(|t| (source, t)).collect();
        let found = graph.reaches(&pairs);
        let reached: Vec<u32> = (0..edges.len() as u32).filter(|&t| found[t as usize]).collect();
        assert_eq!(reached, expected, "from {source} in {edges:?}");
    }

    #[test]
    fn paths() {
        check(&[&[1], &[2], &[]], 0, &[1, 2]);
        check(&[&[1], &[2], &[]], 2, &[]);
        check(&[&[1], &[2], &[1]], 0, &[1, 2]);
        check(&[&[1], &[2], &[1]], 1, &[1, 2]);
        check(&[&[0], &[0]], 0, &[0]);
        check(&[&[2, 1], &[3], &[3], &[4, 0], &[]], 2, &[0, 1, 2, 3, 4]);
        check(&[&[2, 1], &[3], &[3], &[4], &[]], 1, &[3, 4]);
    }

    #[test]
    fn more_sources_than_one_pass_carries() {
        let length = 3 * BATCH as u32;
        let graph = Graph::new((0..length).map(|v| if v + 1 < length { vec![v + 1] } else { vec![] }).collect());
        let pairs: Vec<(u32, u32)> = (0..length).flat_map(|a| [(a, length - 1), (length - 1, a), (a, a)]).collect();
        let found = graph.reaches(&pairs);
        for (&(source, target), &found) in pairs.iter().zip(&found) {
            assert_eq!(found, source < target, "{source} -> {target}");
        }
    }
}
