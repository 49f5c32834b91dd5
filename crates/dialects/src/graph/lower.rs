//! From nodes and edges to steps: one step for each node, a `repeat` for each cycle, and the previous output as the
//! message of each agent.
//!
//! - Components (nodes that can reach one another) follow one another as a sequence where the graph is one line, else
//!   as a block with `needs`.
//! - The body of a cycle is what is left of it without its back-edges. A last `set` hands over: what the next round
//!   reads at its back-edges, and what is read after the last round.
//! - What an agent hears: the output of the node before; of several, all of them as JSON by node id; at the beginning,
//!   what the run was started with. An edge into a cycle counts for its first round, a back-edge for all later ones.

use std::collections::{BTreeSet, HashMap, HashSet};

use relais_plan::step::{Kind, Name, Step};
use relais_plan::{OnLimit, Problem, Span, Task, Template, Until};

use super::members::{Edge, Member};
use super::order::{self, Links};
use crate::reader::Reader;
use crate::values::{output_of, quote};

/// What an agent at the beginning of a cycle hears in the first round: the same as an agent without a prompt.
const START: &str = "input.prompt if input.prompt is defined and input.prompt is string else \
                     \"Execute your task.\" if input is none or input == {} else input";

/// One graph on its way to steps.
pub(super) struct Graph {
    pub members: Vec<Member>,
    pub edges: Vec<Edge>,
    pub max_rounds: Option<u32>,
}

/// Beginnings that a message names: each node that is lost repeats them.
const MAX_SHOWN: usize = 20;
/// Nodes in a row that only hand on. A row of waits as long as this is nothing that anybody draws.
const MAX_PASSED: usize = 1_000;

/// Has the step nothing to say of its own?
fn passes_on(kind: &Kind) -> bool {
    match kind {
        Kind::StopIf(_) | Kind::Wait(Until::For(_) | Until::At(_)) => true,
        Kind::Wait(Until::Signal { .. } | Until::Event { .. } | Until::Person(_)) => false,
        Kind::Call(_) | Kind::Choose { .. } | Kind::Parallel { .. } | Kind::Group { .. } => false,
        Kind::ForEach { .. } | Kind::Repeat { .. } | Kind::Set(_) | Kind::Goto { .. } => false,
    }
}

/// Rounds of a cycle in a graph without `maxRounds`.
pub(super) const DEFAULT_ROUNDS: u32 = 100;

/// The steps of a graph and, where the last step alone does not say it, its output.
#[derive(Default)]
pub(super) struct Lowered {
    pub steps: Vec<Step>,
    pub output: Option<Template>,
    /// None: the graph could not be followed.
    pub has_cycle: Option<bool>,
}

impl Lowered {
    /// Steps in no order: all that can be said of a graph with mistakes, so that those in its nodes are found, too.
    pub fn unordered(members: Vec<Member>) -> Lowered {
        let nothing = vec![Vec::new(); members.len()];
        let steps = needing(members.into_iter().map(|member| member.step).collect(), &nothing);
        Lowered { steps, ..Lowered::default() }
    }
}

impl Reader<'_> {
    pub(super) fn graph_steps(&mut self, graph: Graph) -> Lowered {
        let links = Links::new(graph.members.len(), graph.edges.iter().map(|edge| (edge.from, edge.to)));
        let entries = order::entries(&links);
        let lost = order::unreachable(&links, &entries);
        let begins = entries.iter().take(MAX_SHOWN).map(|entry| graph.members[*entry].id.as_str());
        let help =
            format!("the graph begins at {}; add an edge that leads here", begins.collect::<Vec<_>>().join(", "));
        for node in &lost {
            let Member { id, span, .. } = &graph.members[*node];
            self.problems.push(Problem::error(*span, format!("no way leads to the node `{id}`")).help(&*help));
        }
        if !lost.is_empty() {
            return Lowered::unordered(graph.members);
        }
        let layout = Layout::new(&graph, &links, &entries);
        Lowering { layout, links: &links, graph: &graph }.lowered(self)
    }
}

/// How the graph falls into components.
struct Layout {
    parts: Vec<Part>,
    /// The part of each node.
    part_of: Vec<usize>,
    back: HashSet<(usize, usize)>,
}

/// A node by itself, or a cycle.
struct Part {
    members: Vec<usize>,
    cycle: Option<Cycle>,
}

struct Cycle {
    /// The ids of the `repeat` and of its last step.
    rounds: String,
    handover: String,
    /// Nodes whose output is handed over.
    handed: BTreeSet<usize>,
}

impl Layout {
    fn new(graph: &Graph, links: &Links, entries: &[usize]) -> Layout {
        let components = order::components(links);
        let mut part_of = vec![0; graph.members.len()];
        for (position, members) in components.iter().enumerate() {
            members.iter().for_each(|member| part_of[*member] = position);
        }
        let mut layout = Layout { parts: Vec::with_capacity(components.len()), part_of, back: HashSet::new() };
        let mut taken: HashSet<String> = graph.members.iter().map(|member| member.id.clone()).collect();
        let entries: HashSet<usize> = entries.iter().copied().collect();
        for members in components {
            let is_cycle = members.len() > 1 || links.is_looped(members[0]);
            let cycle = is_cycle.then(|| layout.cycle(graph, links, &members, &entries, &mut taken));
            layout.parts.push(Part { members, cycle });
        }
        layout
    }

    fn cycle(
        &mut self,
        graph: &Graph,
        links: &Links,
        members: &[usize],
        entries: &HashSet<usize>,
        taken: &mut HashSet<String>,
    ) -> Cycle {
        let is_entered = |node: &&usize| {
            let part = self.part_of[**node];
            entries.contains(node) || links.before[**node].iter().any(|from| self.part_of[*from] != part)
        };
        let head = members.iter().find(is_entered).copied().unwrap_or(members[0]);
        let back = order::back_edges(links, members, head);
        let leaves = |node: &usize| links.next[*node].iter().any(|to| self.part_of[*to] != self.part_of[*node]);
        let mut handed: BTreeSet<usize> = members.iter().copied().filter(leaves).collect();
        handed.extend(back.iter().map(|(from, _)| *from));
        self.back.extend(back);
        let head = &graph.members[head].id;
        Cycle { rounds: free(taken, head, "rounds"), handover: free(taken, head, "handover"), handed }
    }
}

/// An id that no node has.
fn free(taken: &mut HashSet<String>, head: &str, word: &str) -> String {
    let mut id = format!("{head}_{word}");
    while !taken.insert(id.clone()) {
        id.push('_');
    }
    id
}

struct Lowering<'g> {
    layout: Layout,
    links: &'g Links,
    graph: &'g Graph,
}

impl Lowering<'_> {
    fn lowered(&self, reader: &mut Reader<'_>) -> Lowered {
        let mut steps = Vec::with_capacity(self.layout.parts.len());
        for part in &self.layout.parts {
            steps.push(match &part.cycle {
                Some(cycle) => self.repeat(part, cycle, reader),
                None => self.step(part.members[0], reader),
            });
        }
        let before = self.parts_before();
        let steps = arranged(steps, &before);
        let has_cycle = self.layout.parts.iter().any(|part| part.cycle.is_some());
        Lowered { steps, output: self.output(reader), has_cycle: Some(has_cycle) }
    }

    /// The parts that lead to each part, with the place of an edge that does.
    fn parts_before(&self) -> Vec<Vec<(usize, Span)>> {
        let mut before = vec![Vec::new(); self.layout.parts.len()];
        let mut seen = HashSet::new();
        for edge in &self.graph.edges {
            let (from, to) = (self.layout.part_of[edge.from], self.layout.part_of[edge.to]);
            if from != to && seen.insert((from, to)) {
                before[to].push((from, edge.span));
            }
        }
        before
    }

    fn step(&self, node: usize, reader: &mut Reader<'_>) -> Step {
        let mut step = self.graph.members[node].step.clone();
        if let Kind::Call(call) = &mut step.kind
            && let Task::Agent { prompt, .. } = &mut call.task
        {
            *prompt = self.heard(node).map(|expression| filled(&expression, step.span, reader));
        }
        step
    }

    /// What an agent is told, as an expression; nothing means what the run was started with.
    fn heard(&self, node: usize) -> Option<String> {
        let part = self.layout.part_of[node];
        let before = &self.links.before[node];
        let is_back = |from: usize| self.layout.back.contains(&(from, node));
        let first = before.iter().filter(|from| !is_back(**from)).map(|from| (*from, self.read(*from, part)));
        let later = before.iter().filter(|from| self.layout.part_of[**from] == part).map(|from| {
            let text = if is_back(*from) { format!("vars.{}", self.variable(*from)) } else { self.read(*from, part) };
            (*from, text)
        });
        let (first, later) = (self.joined(first.collect()), self.joined(later.collect()));
        if self.layout.parts[part].cycle.is_none() || first == later {
            return first;
        }
        let first = first.unwrap_or_else(|| START.to_owned());
        later.map(|later| format!("{later} if loop.index > 0 else {first}"))
    }

    /// One output as it is, several by node id.
    fn joined(&self, sources: Vec<(usize, String)>) -> Option<String> {
        match sources.as_slice() {
            [] => None,
            [(_, only)] => Some(only.clone()),
            several => {
                let entry =
                    |(node, text): &(usize, String)| format!("{}: {text}", quote(&self.graph.members[*node].id));
                Some(format!("{{{}}}", several.iter().map(entry).collect::<Vec<_>>().join(", ")))
            }
        }
    }

    /// The latest output of a node, as it is read in a part.
    fn read(&self, node: usize, from: usize) -> String {
        let part = self.layout.part_of[node];
        match &self.layout.parts[part].cycle {
            Some(cycle) if part != from => {
                format!("{}.results[-1].{}", output_of(&cycle.rounds), self.variable(node))
            }
            Some(_) | None => self.said(node),
        }
    }

    /// What a node hands on, as it is read in its own part. One that only waits or stops hands on what it was given,
    /// if one node leads to it.
    fn said(&self, node: usize) -> String {
        let (mut from, mut passed) = (node, 0);
        while passes_on(&self.graph.members[from].step.kind) && passed < MAX_PASSED {
            match self.links.before[from].as_slice() {
                [only] if self.layout.part_of[*only] == self.layout.part_of[node] => {
                    if self.layout.back.contains(&(*only, from)) {
                        break;
                    }
                    from = *only;
                }
                [only] => return self.read(*only, self.layout.part_of[node]),
                [] => return format!("({START})"),
                _ => break,
            }
            passed += 1;
        }
        output_of(&self.graph.members[from].id)
    }

    /// The variable that hands over a node's output. Ids may have any letters, names of variables may not.
    fn variable(&self, node: usize) -> String {
        let id = &self.graph.members[node].id;
        match id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            true => format!("last_{id}"),
            false => format!("node_{}_last", node + 1),
        }
    }

    fn repeat(&self, part: &Part, cycle: &Cycle, reader: &mut Reader<'_>) -> Step {
        let span = self.graph.members[part.members[0]].span;
        let mut steps: Vec<Step> = part.members.iter().map(|node| self.step(*node, reader)).collect();
        steps.push(self.handover(cycle, span, reader));
        let positions: HashMap<usize, usize> =
            part.members.iter().enumerate().map(|(position, node)| (*node, position)).collect();
        let forward = |edge: &&Edge| !self.layout.back.contains(&(edge.from, edge.to));
        let mut before = vec![Vec::new(); steps.len()];
        for (position, node) in part.members.iter().enumerate() {
            let edges = self.links.before[*node].iter().map(|from| Edge { from: *from, to: *node, span });
            let inner = edges.filter(|edge| forward(&edge) && positions.contains_key(&edge.from));
            before[position] = inner.map(|edge| (positions[&edge.from], span)).collect();
        }
        // Behind a line of nodes it comes last, whichever of them it reads.
        let all = before.len() - 1;
        before[all] = match line(&before[..all]).and_then(|line| line.last().copied()) {
            Some(last) => vec![(last, span)],
            None => cycle.handed.iter().map(|node| (positions[node], span)).collect(),
        };
        let steps = arranged(steps, &before);
        let max = self.graph.max_rounds.unwrap_or(DEFAULT_ROUNDS);
        let on_limit = OnLimit::Complete;
        let kind = Kind::Repeat { while_: None, until: None, delay_ms: 0, steps, max, on_limit };
        Step { id: Some(cycle.rounds.clone()), ..Step::new("repeat", kind, span) }
    }

    fn handover(&self, cycle: &Cycle, span: Span, reader: &mut Reader<'_>) -> Step {
        let mut set = Vec::with_capacity(cycle.handed.len());
        for node in &cycle.handed {
            let value = filled(&self.said(*node), span, reader);
            set.push((self.variable(*node), value));
        }
        Step { id: Some(cycle.handover.clone()), ..Step::new("set", Kind::Set(set), span) }
    }

    /// The run's output where it ends in a cycle: what its last nodes said in the last round.
    fn output(&self, reader: &mut Reader<'_>) -> Option<Template> {
        let is_end = |part: usize| {
            let mut next = self.layout.parts[part].members.iter().flat_map(|node| &self.links.next[*node]);
            next.all(|to| self.layout.part_of[*to] == part)
        };
        let ends: Vec<usize> = (0..self.layout.parts.len()).filter(|part| is_end(*part)).collect();
        if ends.iter().all(|part| self.layout.parts[*part].cycle.is_none()) {
            return None;
        }
        let is_last = |node: &&usize| {
            let mut forward = self.links.next[**node].iter().filter(|to| !self.layout.back.contains(&(**node, **to)));
            forward.next().is_none()
        };
        let mut nodes: Vec<usize> =
            ends.iter().flat_map(|part| self.layout.parts[*part].members.iter().filter(is_last).copied()).collect();
        nodes.sort_unstable();
        let outside = self.layout.parts.len();
        let sources = nodes.into_iter().map(|node| (node, self.read(node, outside))).collect();
        self.joined(sources).map(|expression| filled(&expression, Span::default(), reader))
    }
}

/// Steps one after the other where each has just the one before it; else as a block with `needs`.
fn arranged(steps: Vec<Step>, before: &[Vec<(usize, Span)>]) -> Vec<Step> {
    let Some(line) = line(before) else { return needing(steps, before) };
    let mut slots: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    line.into_iter().filter_map(|position| slots[position].take()).collect()
}

/// The one line that all positions form, if they do.
fn line(before: &[Vec<(usize, Span)>]) -> Option<Vec<usize>> {
    let mut next = vec![None; before.len()];
    let mut first = None;
    for (position, before) in before.iter().enumerate() {
        match before.as_slice() {
            [] if first.is_none() => first = Some(position),
            [(only, _)] if next[*only].is_none() => next[*only] = Some(position),
            _ => return None,
        }
    }
    let line: Vec<usize> = std::iter::successors(first, |position| next[*position]).collect();
    (line.len() == before.len()).then_some(line)
}

fn needing(mut steps: Vec<Step>, before: &[Vec<(usize, Span)>]) -> Vec<Step> {
    let ids: Vec<String> = steps.iter().map(|step| step.id.clone().unwrap_or_default()).collect();
    for (step, before) in steps.iter_mut().zip(before) {
        let names = before.iter().map(|(position, span)| Name { text: ids[*position].clone(), span: *span });
        step.needs = Some(names.collect());
    }
    steps
}

fn filled(expression: &str, span: Span, reader: &mut Reader<'_>) -> Template {
    reader.composed(&format!("{{{{ {expression} }}}}"), span)
}
