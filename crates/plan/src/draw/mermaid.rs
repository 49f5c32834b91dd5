//! The outline as a Mermaid flowchart.

use std::collections::HashMap;

use super::outline::{Block, Form, Item, Outline};
use crate::NodeId;

pub(super) fn render(outline: &Outline) -> String {
    let mut chart = Chart::default();
    chart.sequence(&outline.body, Vec::new(), 1);
    for (position, exit) in outline.exits.iter().enumerate() {
        chart.frame(&format!("exit{position}"), &exit.label, 1, |chart| {
            chart.sequence(&exit.items, Vec::new(), 2);
        });
    }
    chart.leaps();
    format!("flowchart TD\n{}{}", chart.nodes, chart.edges)
}

/// Where an edge begins, and what stands on it.
#[derive(Clone)]
struct Loose {
    id: String,
    label: String,
}

#[derive(Default)]
struct Chart {
    nodes: String,
    edges: String,
    ids: HashMap<NodeId, String>,
    leaps: Vec<(String, String, NodeId)>,
}

impl Chart {
    /// Draws the items one after another and gives the loose ends.
    fn sequence(&mut self, items: &[Item], from: Vec<Loose>, depth: usize) -> Vec<Loose> {
        let mut loose = from;
        for item in items {
            loose = self.item(item, loose, depth);
        }
        loose
    }

    fn item(&mut self, item: &Item, from: Vec<Loose>, depth: usize) -> Vec<Loose> {
        let id = id_of(item);
        self.ids.insert(item.node, id.clone());
        from.iter().for_each(|loose| self.edge(loose, &id));
        self.leaps.extend(item.jumps.iter().map(|leap| (id.clone(), leap.label.clone(), leap.to)));
        let mut ends = self.body(item, &id, depth);
        if item.ends_here {
            ends.clear();
        }
        if let Some(undo) = &item.undo {
            self.item(undo, Vec::new(), depth);
            self.edges.push_str(&format!("    {id} -. undo .-> {}\n", id_of(undo)));
        }
        ends
    }

    fn body(&mut self, item: &Item, id: &str, depth: usize) -> Vec<Loose> {
        let end = Loose { id: id.to_owned(), label: String::new() };
        match &item.form {
            Form::Step => self.node(id, item, "[", "]", depth),
            Form::Choice(arms) => {
                self.node(id, item, "{", "}", depth);
                return arms.iter().flat_map(|arm| self.arm(id, arm, depth)).collect();
            }
            Form::Lanes(lanes) => self.frame(id, &caption(item), depth, |chart| chart.lanes(id, lanes, depth + 1)),
            Form::Frame(items) => self.frame(id, &caption(item), depth, |chart| {
                chart.placeholder(id, items.is_empty(), depth + 1);
                chart.sequence(items, Vec::new(), depth + 1);
            }),
        }
        vec![end]
    }

    fn arm(&mut self, id: &str, arm: &Block, depth: usize) -> Vec<Loose> {
        self.sequence(&arm.items, vec![Loose { id: id.to_owned(), label: arm.label.clone() }], depth)
    }

    /// Lanes are drawn first and joined afterwards: one may come after a lane that is written later.
    fn lanes(&mut self, id: &str, lanes: &[Block], depth: usize) {
        let mut ends = Vec::new();
        for lane in lanes {
            ends.push(self.sequence(&lane.items, Vec::new(), depth));
        }
        for lane in lanes {
            let Some(first) = lane.items.first().map(id_of) else { continue };
            let before = lane.after.iter().filter_map(|&lane| ends.get(lane));
            before.flatten().cloned().collect::<Vec<_>>().iter().for_each(|loose| self.edge(loose, &first));
        }
        self.placeholder(id, lanes.iter().all(|lane| lane.items.is_empty()), depth);
    }

    /// A frame without a node in it is not drawn.
    fn placeholder(&mut self, id: &str, wanted: bool, depth: usize) {
        if wanted {
            self.line(depth, &format!("{id}_empty[\"nothing\"]"));
        }
    }

    fn frame(&mut self, id: &str, title: &str, depth: usize, inside: impl FnOnce(&mut Chart)) {
        self.line(depth, &format!("subgraph {id}[\"{}\"]", escape(title)));
        inside(self);
        self.line(depth, "end");
    }

    fn node(&mut self, id: &str, item: &Item, open: &str, close: &str, depth: usize) {
        let lines: Vec<String> = std::iter::once(item.key.clone())
            .chain([item.summary()])
            .chain(item.notes.iter().cloned())
            .filter(|line| !line.is_empty())
            .map(|line| escape(&line))
            .collect();
        self.line(depth, &format!("{id}{open}\"{}\"{close}", lines.join("<br/>")));
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.nodes.extend([&"    ".repeat(depth), text, "\n"]);
    }

    fn edge(&mut self, from: &Loose, to: &str) {
        let label = if from.label.is_empty() { String::new() } else { format!("|\"{}\"|", escape(&from.label)) };
        self.edges.push_str(&format!("    {} -->{label} {to}\n", from.id));
    }

    /// Jumps, once every step has its id.
    fn leaps(&mut self) {
        for (from, label, to) in std::mem::take(&mut self.leaps) {
            if let Some(to) = self.ids.get(&to) {
                self.edges.push_str(&format!("    {from} -.->|\"{}\"| {to}\n", escape(&label)));
            }
        }
    }
}

fn id_of(item: &Item) -> String {
    let framed = matches!(item.form, Form::Lanes(_) | Form::Frame(_));
    format!("{}{}", if framed { "s" } else { "n" }, item.node)
}

fn caption(item: &Item) -> String {
    let parts = std::iter::once(item.key.clone()).chain([item.summary()]).chain(item.notes.iter().cloned());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// Mermaid's own escapes (`#35;`) for everything that could mean something to it or to HTML.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_alphanumeric() => safe.push(c),
            ' ' | '.' | ',' | '-' | '_' | '/' | '…' | '·' => safe.push(c),
            other => safe.push_str(&format!("#{};", other as u32)),
        }
    }
    safe
}
