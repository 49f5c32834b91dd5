//! The nodes as they are written: which there are, of which type, and which of them stand inside which.
//!
//! A body (`then`, `node`, `loop_body`, …) holds nodes, or names nodes of the top level by their ids; those move there
//! and do not run by themselves. Nothing is known here of references or steps.

use std::collections::{HashMap, HashSet};

use relais_plan::build::MAX_DEPTH;
use relais_plan::{Problem, Span};

use super::keys::{self, BODIES, Keys, TYPES, canonical};
use crate::fields::Field;
use crate::reader::Reader;
use crate::yaml::{Data, Node};

/// Ids are part of the names of artifacts, which have a bound.
const MAX_ID_CHARS: usize = 150;

/// One node of the file.
pub(super) struct Part<'n> {
    pub id: String,
    pub span: Span,
    pub keys: Keys<'n>,
    pub shape: Shape<'n>,
    /// The node whose body it stands in.
    pub parent: Option<usize>,
    /// The list that it stands in.
    pub list: usize,
}

/// What it does, with the nodes inside by their numbers.
pub(super) enum Shape<'n> {
    Agent,
    Workflow,
    If {
        then: Vec<usize>,
        other: Option<Vec<usize>>,
    },
    /// A case by its value, or by its condition.
    Cases {
        arms: Vec<(Field<'n>, Vec<usize>)>,
        other: Option<Vec<usize>>,
        by_value: bool,
    },
    Fork {
        branches: Vec<usize>,
    },
    Loop {
        body: Vec<usize>,
    },
    Map {
        body: Vec<usize>,
    },
}

#[derive(Default)]
pub(super) struct Nodes<'n> {
    pub parts: Vec<Part<'n>>,
    pub top: Vec<usize>,
    pub ids: HashMap<String, usize>,
    lists: usize,
    /// Nodes of the top level by id, and those that a body names.
    written: HashMap<&'n str, &'n Node>,
    moved: HashSet<&'n str>,
    placed: HashSet<&'n str>,
}

/// Where a list of nodes stands.
#[derive(Clone, Copy)]
struct At {
    parent: Option<usize>,
    depth: usize,
    branch: bool,
}

impl Reader<'_> {
    pub(super) fn dag_nodes<'n>(&mut self, items: &'n [Node], exits: Option<&'n Node>) -> Nodes<'n> {
        let mut nodes = Nodes::default();
        for node in items {
            if let Some(id) = id_of(node) {
                nodes.written.insert(id, node);
            }
            named_in(node, &mut nodes.moved);
        }
        if let Some(exits) = exits {
            body_names(exits, &mut nodes.moved);
        }
        let stays = |node: &&Node| id_of(node).is_none_or(|id| !nodes.moved.contains(id));
        let top: Vec<&Node> = items.iter().filter(stays).collect();
        let at = At { parent: None, depth: 1, branch: false };
        nodes.top = self.dag_parts(top, at, &mut nodes);
        nodes
    }

    /// Nodes that were named by others, and by nothing that runs.
    pub(super) fn lost_nodes(&mut self, nodes: &Nodes<'_>) {
        let mut lost: Vec<(&str, &Node)> = nodes.written.iter().map(|(id, node)| (*id, *node)).collect();
        lost.retain(|(id, _)| nodes.moved.contains(id) && !nodes.placed.contains(id));
        lost.sort_by_key(|(_, node)| node.span);
        for (id, node) in lost {
            let problem = Problem::error(node.span, format!("`{id}` can never run: it stands only inside itself"));
            self.problems.push(problem.help("name it in the body of a node that runs, or nowhere"));
        }
    }

    /// The nodes of `on_exit` and the like: ids, nodes, or a list of both.
    pub(super) fn outer_body<'n>(&mut self, node: &'n Node, nodes: &mut Nodes<'n>) -> Vec<usize> {
        self.dag_body(node, At { parent: None, depth: 1, branch: false }, nodes)
    }

    fn dag_body<'n>(&mut self, node: &'n Node, at: At, nodes: &mut Nodes<'n>) -> Vec<usize> {
        let items = match &node.data {
            Data::List(items) => items.as_slice(),
            Data::Scalar(_) | Data::Map(_) => std::slice::from_ref(node),
        };
        let found: Vec<&Node> = items.iter().filter_map(|item| self.dag_resolved(item, nodes)).collect();
        self.dag_parts(found, at, nodes)
    }

    /// A node as it stands, or the one of the top level that is named.
    fn dag_resolved<'n>(&mut self, item: &'n Node, nodes: &mut Nodes<'n>) -> Option<&'n Node> {
        let Some(id) = item.as_text() else { return Some(item) };
        let Some(node) = nodes.written.get(id) else {
            let problem = Problem::error(item.span, format!("no node is called `{id}`"));
            let near = self.near(id, nodes.written.keys().copied());
            self.problems.push(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("name a node of `nodes` by its id, or write the node here"),
            });
            return None;
        };
        if !nodes.placed.insert(id) {
            let problem = Problem::error(item.span, format!("`{id}` already stands in the body of another node"));
            self.problems.push(problem.help("a node runs in one place; write a second one with an id of its own"));
            return None;
        }
        Some(node)
    }

    fn dag_parts<'n>(&mut self, items: Vec<&'n Node>, at: At, nodes: &mut Nodes<'n>) -> Vec<usize> {
        let list = nodes.lists;
        nodes.lists += 1;
        items.into_iter().filter_map(|node| self.dag_part(node, at, list, nodes)).collect()
    }

    fn dag_part<'n>(&mut self, node: &'n Node, at: At, list: usize, nodes: &mut Nodes<'n>) -> Option<usize> {
        if at.depth > MAX_DEPTH {
            let problem = Problem::error(node.span, format!("nodes stand inside nodes more than {MAX_DEPTH} deep"));
            self.problems.push(problem.help("move a part of it into a workflow of its own"));
            return None;
        }
        let keys = self.dag_node_keys(node)?;
        let word = self.dag_type(&keys)?;
        self.known_in_node(&keys, word, at.branch);
        let Some(id) = keys.get("id") else {
            let problem = Problem::error(node.span, "a node needs an `id`");
            self.problems.push(problem.help("for example `id: extract`"));
            return None;
        };
        let name = self.dag_id(id, nodes)?;
        let number = nodes.parts.len();
        nodes.ids.insert(name.clone(), number);
        let span = id.node.span;
        let part = Part { id: name, span, keys, shape: Shape::Agent, parent: at.parent, list };
        nodes.parts.push(part);
        let shape = self.dag_shape(word, number, at.depth, nodes);
        nodes.parts[number].shape = shape;
        Some(number)
    }

    /// An id that is not taken, and that can be part of an artifact's name.
    fn dag_id(&mut self, field: Field<'_>, nodes: &Nodes<'_>) -> Option<String> {
        let name = self.name(field)?;
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let (message, help) = if nodes.ids.contains_key(&name) {
            (format!("there are two nodes `{name}`"), "an id is unique in the whole workflow")
        } else if name.len() > MAX_ID_CHARS || !name.chars().all(is_fine) {
            (format!("`{name}` cannot be the id of a node"), "letters, digits, `_` and `-`, at most 150 of them")
        } else {
            return Some(name);
        };
        self.problems.push(Problem::error(field.node.span, message).help(help));
        None
    }

    /// The type; a node with a persona is an agent without saying so.
    fn dag_type(&mut self, keys: &Keys<'_>) -> Option<&'static str> {
        let Some(field) = keys.get("type") else {
            if keys.has("agent_persona") {
                return Some("agent");
            }
            let words: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
            let problem = Problem::error(keys.span, "the node has neither a `type` nor an `agent_persona`");
            self.problems.push(problem.help(format!("types are {}", words.join(", "))));
            return None;
        };
        let words: Vec<(&str, &'static str)> = TYPES.iter().map(|(word, _)| (*word, *word)).collect();
        self.choice(field, &words)
    }

    fn dag_shape<'n>(&mut self, word: &str, number: usize, depth: usize, nodes: &mut Nodes<'n>) -> Shape<'n> {
        let at = At { parent: Some(number), depth: depth + 1, branch: word == "fork" };
        let body = |reader: &mut Self, key: &str, nodes: &mut Nodes<'n>| -> Option<Vec<usize>> {
            let field = nodes.parts[number].keys.get(key)?;
            Some(reader.dag_body(field.node, at, nodes))
        };
        match word {
            "if" | "conditional" => {
                let then = body(self, "then", nodes);
                let other = body(self, "else", nodes);
                Shape::If { then: self.dag_needed(then, "then", number, nodes), other }
            }
            "case" | "switch" => self.dag_cases(word == "case", number, at, nodes),
            "fork" => {
                let branches = body(self, "branches", nodes);
                Shape::Fork { branches: self.dag_needed(branches, "branches", number, nodes) }
            }
            "loop" => {
                let key = if nodes.parts[number].keys.has("node") { "node" } else { "loop_body" };
                let found = body(self, key, nodes);
                Shape::Loop { body: self.dag_needed(found, "loop_body", number, nodes) }
            }
            "map" => {
                let found = body(self, "node", nodes);
                Shape::Map { body: self.dag_needed(found, "node", number, nodes) }
            }
            "workflow" => Shape::Workflow,
            _ => Shape::Agent,
        }
    }

    fn dag_needed(&mut self, body: Option<Vec<usize>>, key: &str, number: usize, nodes: &Nodes<'_>) -> Vec<usize> {
        if body.is_none() {
            let part = &nodes.parts[number];
            let problem = Problem::error(part.span, format!("`{}` needs `{key}`", part.id));
            self.problems.push(problem.help(format!("for example `{key}: [{{ id: other, agent_persona: … }}]`")));
        }
        body.unwrap_or_default()
    }

    fn dag_cases<'n>(&mut self, by_value: bool, number: usize, at: At, nodes: &mut Nodes<'n>) -> Shape<'n> {
        let (table, on) = if by_value { (&keys::CASE, "value") } else { (&keys::SWITCH_CASE, "condition") };
        let mut arms = Vec::new();
        match nodes.parts[number].keys.get("cases").map(|field| (field, &field.node.data)) {
            Some((_, Data::List(items))) => {
                for item in items {
                    arms.extend(self.dag_case(item, table, on, at, nodes));
                }
            }
            Some((field, _)) => self.wrong(field, "a list of cases", table.example),
            None => drop(self.dag_needed(None, "cases", number, nodes)),
        }
        let default = nodes.parts[number].keys.get("default");
        let other = default.map(|field| self.dag_body(field.node, at, nodes));
        Shape::Cases { arms, other, by_value }
    }

    fn dag_case<'n>(
        &mut self,
        item: &'n Node,
        table: &keys::Table,
        on: &str,
        at: At,
        nodes: &mut Nodes<'n>,
    ) -> Option<(Field<'n>, Vec<usize>)> {
        let keys = self.dag_keys(item, table)?;
        let (Some(on), Some(body)) = (keys.get(on), keys.get("nodes")) else {
            let problem = Problem::error(item.span, format!("a case needs `{on}` and the nodes that it leads to"));
            self.problems.push(problem.help(format!("for example {}", table.example)));
            return None;
        };
        Some((on, self.dag_body(body.node, at, nodes)))
    }
}

impl Nodes<'_> {
    /// The nodes that are all of a loop at the top, each with the loop.
    pub fn passes(&self) -> HashMap<usize, (usize, String)> {
        let mut passes = HashMap::new();
        for (number, part) in self.parts.iter().enumerate() {
            if let (Shape::Loop { body }, None) = (&part.shape, part.parent)
                && let [only] = body.as_slice()
            {
                passes.insert(*only, (number, part.id.clone()));
            }
        }
        passes
    }
}

fn id_of(node: &Node) -> Option<&str> {
    let Data::Map(entries) = &node.data else { return None };
    entries.iter().find(|entry| entry.key == "id").and_then(|entry| entry.value.as_text())
}

/// The ids that the bodies of a node name, at any depth.
fn named_in<'n>(node: &'n Node, names: &mut HashSet<&'n str>) {
    let Data::Map(entries) = &node.data else { return };
    let is_body = |key: &str| BODIES.contains(&canonical(key, keys::NODE_ALIASES).as_str());
    for entry in entries.iter().filter(|entry| is_body(&entry.key)) {
        body_names(&entry.value, names);
    }
}

fn body_names<'n>(body: &'n Node, names: &mut HashSet<&'n str>) {
    match &body.data {
        Data::Scalar(_) => names.extend(body.as_text()),
        Data::List(items) => items.iter().for_each(|item| body_names(item, names)),
        // A node, a case, or the map of `on_exit`, which has bodies under words of its own.
        Data::Map(entries) if entries.iter().any(|entry| is_ending(&entry.key)) => {
            let endings = entries.iter().filter(|entry| is_ending(&entry.key));
            endings.for_each(|entry| body_names(&entry.value, names));
        }
        Data::Map(_) => named_in(body, names),
    }
}

fn is_ending(key: &str) -> bool {
    keys::ON_EXIT.known.contains(&canonical(key, keys::ON_EXIT.aliases).as_str())
}
