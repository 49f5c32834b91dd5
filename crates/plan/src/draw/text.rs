//! The outline as a tree that people read in a terminal.

use super::outline::{Block, Form, Item, Outline};

pub(super) fn render(outline: &Outline) -> String {
    let mut tree = Tree { text: format!("{}\n", outline.name) };
    let mut branches: Vec<Branch<'_>> = outline.body.iter().map(Branch::Item).collect();
    branches.extend(outline.exits.iter().map(|exit| Branch::Block(exit, String::new())));
    tree.branches(&branches, "");
    tree.text
}

/// One line of the tree with what hangs below it.
enum Branch<'o> {
    Item(&'o Item),
    Lane(&'o Item, String),
    Block(&'o Block, String),
    Undo(&'o Item),
}

struct Tree {
    text: String,
}

impl Tree {
    fn branches(&mut self, branches: &[Branch<'_>], indent: &str) {
        for (position, branch) in branches.iter().enumerate() {
            let (mark, deeper) = if position + 1 == branches.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.text.extend([indent, mark, &branch.line(), "\n"]);
            self.branches(&branch.below(), &format!("{indent}{deeper}"));
        }
    }
}

impl<'o> Branch<'o> {
    fn line(&self) -> String {
        match self {
            Branch::Item(item) => line(item, ""),
            Branch::Lane(item, after) => line(item, after),
            Branch::Undo(item) => format!("undo: {}", line(item, "")),
            Branch::Block(block, after) if block.items.is_empty() => format!("{}{after}: nothing", block.label),
            Branch::Block(block, after) => format!("{}{after}:", block.label),
        }
    }

    fn below(&self) -> Vec<Branch<'o>> {
        match self {
            Branch::Item(item) | Branch::Lane(item, _) | Branch::Undo(item) => below(item),
            Branch::Block(block, _) => block.items.iter().map(Branch::Item).collect(),
        }
    }
}

fn line(item: &Item, after: &str) -> String {
    let head = if item.key.is_empty() { item.summary() } else { format!("{}  {}", item.key, item.summary()) };
    let remarks: Vec<String> = item.notes.iter().cloned().chain(item.leaps()).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join("; ")) };
    format!("{}{after}{remarks}", head.trim_end())
}

fn below(item: &Item) -> Vec<Branch<'_>> {
    let mut branches: Vec<Branch<'_>> = match &item.form {
        Form::Step => Vec::new(),
        Form::Choice(arms) => {
            let is_written = |arm: &&Block| !arm.items.is_empty() || arm.label != "else";
            arms.iter().filter(is_written).map(|arm| Branch::Block(arm, String::new())).collect()
        }
        Form::Lanes(lanes) => lanes.iter().map(|lane| lane_branch(lane, lanes)).collect(),
        Form::Frame(items) => items.iter().map(Branch::Item).collect(),
    };
    branches.extend(item.undo.iter().map(|undo| Branch::Undo(undo)));
    branches
}

fn lane_branch<'o>(lane: &'o Block, lanes: &'o [Block]) -> Branch<'o> {
    let first: Vec<&str> = lane.after.iter().filter_map(|&l| lanes.get(l)).map(|l| l.label.as_str()).collect();
    let after = if first.is_empty() { String::new() } else { format!("  after {}", first.join(", ")) };
    match lane.items.first() {
        Some(only) if lane.is_one_step() => Branch::Lane(only, after),
        Some(_) | None => Branch::Block(lane, after),
    }
}
