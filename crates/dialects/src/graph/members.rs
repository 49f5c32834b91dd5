//! The nodes and edges of one graph as they are written: each node becomes a step, each edge a pair of nodes.

use std::collections::{HashMap, HashSet};

use relais_plan::problem::nearest;
use relais_plan::step::{Kind, Step};
use relais_plan::{Call, Problem, Span, Task};
use serde_json::Value;

use super::given;
use crate::fields::{Field, Fields};
use crate::native::keys::KINDS;
use crate::reader::Reader;
use crate::yaml::{Data, Entry, Node};

const NODE_EXAMPLE: &str = "`{ \"id\": \"a1\", \"type\": \"agent\", \"config\": { \"agentId\": \"writer\" } }`";
const EDGE_EXAMPLE: &str = "`{ \"id\": \"e1\", \"from\": \"a1\", \"to\": \"a2\" }`";
const NODE: &[&str] = &["id", "type", "config", "parameters"];
const EDGE: &[&str] = &["id", "from", "to", "source", "target"];
const CONFIG: &[&str] = &["agentId"];
/// Names that a message lists.
const MAX_SHOWN: usize = 20;

/// Where each node stands by its id; nowhere if it could not be read.
type Positions<'n> = HashMap<&'n str, Option<usize>>;

/// A node: its id and what it does.
pub(super) struct Member {
    pub id: String,
    pub span: Span,
    pub step: Step,
}

/// An edge between two nodes, by their positions.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub from: usize,
    pub to: usize,
    pub span: Span,
}

impl Reader<'_> {
    pub(super) fn graph_nodes(&mut self, nodes: &[Node]) -> Vec<Member> {
        let mut ids: HashSet<String> = HashSet::new();
        let mut members = Vec::with_capacity(nodes.len());
        for (position, node) in nodes.iter().enumerate() {
            let Some(member) = self.graph_node(node, position) else { continue };
            if !ids.insert(member.id.clone()) {
                let problem = Problem::error(member.span, format!("two nodes have the id `{}`", member.id));
                self.problems.push(problem.help("every node has an id of its own"));
                continue;
            }
            members.push(member);
        }
        members
    }

    fn graph_node(&mut self, node: &Node, position: usize) -> Option<Member> {
        let fields = self.map(node, "a node", NODE, NODE_EXAMPLE)?;
        let Some(id_field) = given(&fields, "id") else {
            self.problems.push(Problem::error(node.span, "a node needs an `id`").help(NODE_EXAMPLE));
            return None;
        };
        let id = self.name(id_field)?;
        let span = id_field.node.span;
        let word = given(&fields, "type").map_or(Some("agent".to_owned()), |field| self.graph_node_type(field))?;
        let config = self.graph_either(&fields, "config", "parameters")?;
        let step = match (word.as_str(), config) {
            ("agent", Some(config)) => self.graph_agent_node(config)?,
            (word, Some(config)) => self.graph_native_node(word, config, id_field, position)?,
            (word, None) => {
                let example = if word == "agent" { "\"agentId\": \"writer\"" } else { "\"tool\": \"list_files\"" };
                let problem = Problem::error(span, format!("the node `{id}` has no `config`"));
                self.problems.push(problem.help(format!("say what it does: `\"config\": {{ {example} }}`")));
                return None;
            }
        };
        Some(Member { step: Step { id: Some(id.clone()), ..step }, id, span })
    }

    fn graph_node_type(&mut self, field: Field<'_>) -> Option<String> {
        let words: Vec<(&str, &str)> = KINDS.iter().map(|kind| (kind.word, kind.word)).collect();
        let near = field.node.as_text().and_then(|written| nearest(written, words.iter().map(|(word, _)| *word)));
        match near.filter(|near| Some(*near) != field.node.as_text()) {
            Some(near) => {
                let message = format!("there is no node type `{}`", field.node.as_text().unwrap_or_default());
                self.problems.push(Problem::error(field.node.span, message).help(format!("did you mean `{near}`?")));
                None
            }
            None => self.choice(field, &words).map(str::to_owned),
        }
    }

    /// At most one of two words for the same thing. None: both are there, which was reported.
    fn graph_either<'n>(&mut self, fields: &Fields<'n>, word: &str, also: &str) -> Option<Option<Field<'n>>> {
        match (given(fields, word), given(fields, also)) {
            (Some(_), Some(second)) => {
                let message = format!("`{word}` and `{also}` are two words for the same thing");
                self.problems.push(Problem::error(second.key_span, message).help("write one of them"));
                None
            }
            (first, second) => Some(first.or(second)),
        }
    }

    /// The agent with the previous output as its message; which output that is comes from the edges.
    fn graph_agent_node(&mut self, config: Field<'_>) -> Option<Step> {
        let fields = self.map(config.node, "the `config` of an agent node", CONFIG, "`{ \"agentId\": \"writer\" }`")?;
        let Some(field) = given(&fields, "agentId") else {
            let problem = Problem::error(config.node.span, "an agent node needs an `agentId`");
            self.problems.push(problem.help("for example `\"config\": { \"agentId\": \"writer\" }`"));
            return None;
        };
        let agent = self.name(field)?;
        let task = Task::Agent { agent, prompt: None };
        let call = Call::new(task);
        // What is wrong with the agent is shown where it is named.
        Some(Step::new("agent", Kind::Call(Box::new(call)), field.node.span))
    }

    /// A step of the native format: the config holds its keys.
    fn graph_native_node(&mut self, word: &str, config: Field<'_>, id: Field<'_>, position: usize) -> Option<Step> {
        let fields = self.open_map(config.node, "`config`", &format!("`{{ \"{word}\": … }}`"))?;
        if !fields.has(word) {
            let message = format!("the config of a `{word}` node has the key `{word}`");
            let help = format!("it holds the keys of a `{word}` step of the native format: `{{ \"{word}\": … }}`");
            self.problems.push(Problem::error(config.node.span, message).help(help));
            return None;
        }
        for (key, help) in [("id", "the id stands at the node"), ("needs", "edges say what comes before")] {
            if let Some(field) = fields.get(key) {
                self.no_effect(field, "in the config of a node", help);
            }
        }
        let mut entries = vec![Entry {
            key: "id".to_owned(),
            key_span: id.key_span,
            key_value: Value::from("id"),
            value: id.node.clone(),
        }];
        if let Data::Map(keys) = &config.node.data {
            entries.extend(keys.iter().filter(|entry| entry.key != "id" && entry.key != "needs").cloned());
        }
        let node = Node { span: config.node.span, data: Data::Map(entries) };
        Some(self.step(&node, &format!("step_{}", position + 1)))
    }

    /// `written`: all nodes, also those that could not be read; an edge to one of them is not a second mistake.
    pub(super) fn graph_edges(&mut self, nodes: &[Node], members: &[Member], written: &[Node]) -> Vec<Edge> {
        let ids = written.iter().filter_map(|node| Some((node.child("id")?.as_text()?, None)));
        let mut positions: Positions<'_> = ids.collect();
        positions.extend(members.iter().enumerate().map(|(place, member)| (member.id.as_str(), Some(place))));
        let mut known: HashSet<(usize, usize)> = HashSet::new();
        let mut ids: HashSet<String> = HashSet::new();
        let mut edges = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(edge) = self.graph_edge(node, &positions, &mut ids) else { continue };
            if !known.insert((edge.from, edge.to)) {
                let (from, to) = (&members[edge.from].id, &members[edge.to].id);
                let problem = Problem::error(edge.span, format!("there are two edges from `{from}` to `{to}`"));
                self.problems.push(problem.help("one is enough: an edge is followed once for each time its node ran"));
                continue;
            }
            edges.push(edge);
        }
        edges
    }

    fn graph_edge(&mut self, node: &Node, positions: &Positions<'_>, ids: &mut HashSet<String>) -> Option<Edge> {
        let fields = self.map(node, "an edge", EDGE, EDGE_EXAMPLE)?;
        if let Some(field) = given(&fields, "id") {
            let id = self.name(field)?;
            if !ids.insert(id.clone()) {
                let problem = Problem::error(field.node.span, format!("two edges have the id `{id}`"));
                self.problems.push(problem.help("every edge has an id of its own, or none"));
            }
        }
        let from = self.graph_edge_end(&fields, "from", "source", positions);
        let to = self.graph_edge_end(&fields, "to", "target", positions);
        Some(Edge { from: from?, to: to?, span: node.span })
    }

    fn graph_edge_end(
        &mut self,
        fields: &Fields<'_>,
        word: &str,
        also: &str,
        positions: &Positions<'_>,
    ) -> Option<usize> {
        let Some(field) = self.graph_either(fields, word, also)? else {
            let problem = Problem::error(fields.span, format!("an edge needs `{word}` (or `{also}`)"));
            self.problems.push(problem.help(EDGE_EXAMPLE));
            return None;
        };
        let id = self.name(field)?;
        let found = positions.get(id.as_str()).copied();
        if found.is_none() {
            let near = self.near(&id, positions.keys().copied());
            let help = near.map_or_else(|| some_of(positions), |near| format!("did you mean `{near}`?"));
            self.problems.push(Problem::error(field.node.span, format!("no node has the id `{id}`")).help(help));
        }
        found.flatten()
    }
}

/// The nodes there are, for people.
fn some_of(positions: &Positions<'_>) -> String {
    let mut names: Vec<&str> = positions.keys().copied().take(MAX_SHOWN).collect();
    names.sort_unstable();
    format!("nodes are: {}", names.join(", "))
}
