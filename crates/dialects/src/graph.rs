//! The format `graph`: agents as nodes, edges between them, rounds, and branches that run apart from one another.
//!
//! - The file: `id` (a second name), `name`, `description`, `agents` (agent id to agent, as in the native format), the
//!   main graph, and `branches`
//! - A graph: `nodes`, `edges`, `maxRounds`, `executionMode` and `schedule`; a branch also has `id` and `name`
//! - A node: `id`, `type` (default `agent`) and `config` (or `parameters`): `agentId`, or the keys of a native step
//! - An edge: `from` and `to` (or `source` and `target`), and perhaps `id`
//!
//! One graph of a file is read at a time, the main one unless a branch is named. A field that is null counts as left out.

mod lower;
mod members;
mod order;
mod schedule;

use std::collections::HashSet;

use indexmap::IndexMap;
use relais_plan::problem::nearest;
use relais_plan::step::Workflow;
use relais_plan::{Agent, Problem, Span};

use crate::fields::{Fields, given};
use crate::reader::Reader;
use crate::yaml::{Data, Node};
use lower::{DEFAULT_ROUNDS, Graph, Lowered};

const TOP: &[&str] =
    &["id", "name", "description", "agents", "nodes", "edges", "maxRounds", "executionMode", "schedule", "branches"];
const BRANCH: &[&str] = &["id", "name", "nodes", "edges", "maxRounds", "executionMode", "schedule"];
const EXAMPLE: &str = "`{ \"nodes\": [{ \"id\": \"a1\", \"config\": { \"agentId\": \"writer\" } }], \"edges\": [] }`";

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    match reader.map(root, "a graph", TOP, EXAMPLE) {
        Some(fields) => reader.graph_file(&fields),
        None => Workflow::default(),
    }
}

/// The branches of a file, by id.
pub(crate) fn branches(root: &Node) -> Vec<String> {
    let Data::Map(entries) = &root.data else { return Vec::new() };
    let fields = Fields::new(root.span, entries);
    listed(&fields).iter().enumerate().map(|(position, node)| branch_id(node, position)).collect()
}

fn listed<'n>(fields: &Fields<'n>) -> &'n [Node] {
    match given(fields, "branches").map(|field| &field.node.data) {
        Some(Data::List(items)) => items,
        Some(Data::Map(_) | Data::Scalar(_)) | None => &[],
    }
}

fn branch_id(node: &Node, position: usize) -> String {
    let Data::Map(entries) = &node.data else { return format!("branch_{}", position + 1) };
    let id = Fields::new(node.span, entries).get("id").and_then(|field| field.node.as_text());
    id.filter(|id| !id.trim().is_empty()).map_or_else(|| format!("branch_{}", position + 1), str::to_owned)
}

impl Reader<'_> {
    fn graph_file(&mut self, fields: &Fields<'_>) -> Workflow {
        if let Some(field) = given(fields, "agents") {
            self.agents(field);
        }
        let name = given(fields, "name").and_then(|field| self.name(field)).unwrap_or_else(|| self.stem.clone());
        let mut workflow = Workflow {
            name,
            alias: given(fields, "id").and_then(|field| self.name(field)),
            description: given(fields, "description").and_then(|field| self.text(field)).unwrap_or_default(),
            ..Workflow::default()
        };
        self.check_branches(fields);
        match self.branch.clone() {
            Some(branch) => self.branch_graph(fields, &branch, &mut workflow),
            None => self.main_graph(fields, &mut workflow),
        }
        workflow.agents = std::mem::take(&mut self.agents);
        if given(fields, "branches").is_some() {
            keep_agents(&mut workflow.agents, fields, self.graph_place(fields));
        }
        workflow
    }

    /// Where the nodes of the graph that is read stand.
    fn graph_place<'n>(&self, fields: &Fields<'n>) -> Option<&'n Node> {
        let Some(wanted) = &self.branch else { return given(fields, "nodes").map(|field| field.node) };
        let mut branches = listed(fields).iter().enumerate();
        branches.find(|(position, node)| branch_id(node, *position) == *wanted).map(|(_, node)| node)
    }

    /// That the list of branches is one; what they hold is read with them.
    fn check_branches(&mut self, fields: &Fields<'_>) {
        let Some(field) = given(fields, "branches") else { return };
        if !matches!(field.node.data, Data::List(_)) {
            self.wrong(field, "a list of graphs", &format!("`\"branches\": [{}]`", EXAMPLE.trim_matches('`')));
        }
        if is_empty(fields) {
            for key in ["edges", "maxRounds", "executionMode", "schedule"] {
                self.refuse_without_nodes(fields, key);
            }
        }
        let mut seen = HashSet::new();
        for (position, node) in listed(fields).iter().enumerate() {
            let id = branch_id(node, position);
            if !seen.insert(id.clone()) {
                let problem = Problem::error(node.span_at("/id"), format!("two branches have the id `{id}`"));
                self.problems.push(problem.help("every branch has an id of its own"));
            }
        }
    }

    fn main_graph(&mut self, fields: &Fields<'_>, workflow: &mut Workflow) {
        let branches = listed(fields);
        if !branches.is_empty() && is_empty(fields) {
            let ids: Vec<String> = branches.iter().enumerate().map(|(at, node)| branch_id(node, at)).collect();
            let help = format!("name the branch that is meant (`--branch {}`); there are: {}", ids[0], ids.join(", "));
            self.problems.push(Problem::error(Span::default(), "the file has no main graph, only branches").help(help));
            return;
        }
        self.one_graph(fields, workflow);
    }

    /// The defaults may stand there: programs write them out.
    fn refuse_without_nodes(&mut self, fields: &Fields<'_>, key: &str) {
        let Some(field) = given(fields, key) else { return };
        let is_default = field.node.as_text() == Some("one_time")
            || matches!(&field.node.data, Data::List(items) if items.is_empty());
        if !is_default {
            self.no_effect(field, "without `nodes` beside it", "it belongs to a graph; each branch has its own");
        }
    }

    fn branch_graph(&mut self, fields: &Fields<'_>, wanted: &str, workflow: &mut Workflow) {
        let ids: Vec<String> =
            listed(fields).iter().enumerate().map(|(position, node)| branch_id(node, position)).collect();
        let Some(position) = ids.iter().position(|id| id == wanted) else {
            let help = match nearest(wanted, ids.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if ids.is_empty() => "the file has no branches".to_owned(),
                None => format!("its branches are {}", ids.join(", ")),
            };
            self.problems.push(Problem::error(Span::default(), format!("no branch is called `{wanted}`")).help(help));
            return;
        };
        let Some(branch) = self.map(&listed(fields)[position], "a branch", BRANCH, EXAMPLE) else { return };
        if let Some(field) = given(&branch, "id") {
            self.name(field);
        }
        workflow.name = format!("{}/{wanted}", workflow.name);
        workflow.alias = workflow.alias.take().map(|alias| format!("{alias}/{wanted}"));
        workflow.branch = Some(wanted.to_owned());
        if let Some(name) = given(&branch, "name").and_then(|field| self.name(field)) {
            workflow.description = name;
        }
        self.one_graph(&branch, workflow);
    }

    fn one_graph(&mut self, fields: &Fields<'_>, workflow: &mut Workflow) {
        workflow.triggers = self.graph_triggers(fields);
        let nodes = self.graph_list(fields, "nodes");
        if nodes.is_empty() {
            let span = fields.get("nodes").map_or(fields.span, |field| field.node.span);
            self.problems.push(Problem::error(span, "the graph has no nodes").help(format!("for example {EXAMPLE}")));
        }
        let max_rounds = given(fields, "maxRounds").and_then(|field| self.passes(field));
        let before = self.problems.len();
        let members = self.graph_nodes(nodes);
        let edges = self.graph_list(fields, "edges");
        let edges = self.graph_edges(edges, &members, nodes);
        // Where nodes or edges could not be read, what follows from them would be wrong, too.
        let lowered = match self.problems.len() == before {
            true => self.graph_steps(Graph { members, edges, max_rounds }),
            false => Lowered::unordered(members),
        };
        self.check_graph_rounds(fields, lowered.has_cycle);
        (workflow.steps, workflow.output) = (lowered.steps, lowered.output);
    }

    fn graph_list<'n>(&mut self, fields: &Fields<'n>, key: &str) -> &'n [Node] {
        let Some(field) = given(fields, key) else { return &[] };
        match &field.node.data {
            Data::List(items) => items,
            Data::Map(_) | Data::Scalar(_) => {
                self.wrong(field, "a list", &format!("`\"{key}\": []`"));
                &[]
            }
        }
    }

    fn check_graph_rounds(&mut self, fields: &Fields<'_>, has_cycle: Option<bool>) {
        let problem = match (given(fields, "maxRounds"), has_cycle) {
            (_, None) => return,
            (None, Some(true)) => {
                let span = fields.get("edges").map_or(fields.span, |field| field.key_span);
                let message =
                    format!("the graph goes in circles without `maxRounds`: it ends after {DEFAULT_ROUNDS} rounds");
                Problem::warning(span, message).help("say how often, such as `\"maxRounds\": 10`")
            }
            (Some(field), Some(false)) => {
                Problem::warning(field.key_span, "`maxRounds` has no effect: no edge leads back")
                    .help("take it out, or add the edge that closes the circle")
            }
            (None, Some(false)) | (Some(_), Some(true)) => return,
        };
        self.problems.push(problem);
    }
}

fn is_empty(fields: &Fields<'_>) -> bool {
    match given(fields, "nodes").map(|field| &field.node.data) {
        Some(Data::List(items)) => items.is_empty(),
        Some(Data::Map(_) | Data::Scalar(_)) => false,
        None => true,
    }
}

/// Each graph has the agents that its nodes name. One that no graph names stays, so that it is found.
fn keep_agents(agents: &mut IndexMap<String, Agent>, fields: &Fields<'_>, graph: Option<&Node>) {
    let (mut here, mut everywhere) = (HashSet::new(), HashSet::new());
    graph.into_iter().for_each(|node| named(node, &mut here));
    fields.all().filter(|field| field.key != "agents").for_each(|field| named(field.node, &mut everywhere));
    agents.retain(|name, _| here.contains(name.as_str()) || !everywhere.contains(name.as_str()));
}

/// The agents that are named anywhere below. A file is never deeper than the reader of YAML allows.
fn named<'n>(node: &'n Node, names: &mut HashSet<&'n str>) {
    match &node.data {
        Data::Scalar(_) => {}
        Data::List(items) => items.iter().for_each(|item| named(item, names)),
        Data::Map(entries) => {
            for entry in entries {
                if ["agentId", "agent"].contains(&entry.key.as_str()) {
                    names.extend(entry.value.as_text());
                }
                named(&entry.value, names);
            }
        }
    }
}
