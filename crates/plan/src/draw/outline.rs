//! The plan as a tree of what people see: steps, choices, lanes and loops, with what is said about each.

use crate::template::in_text;
use crate::{
    Arm, Each, Exit, ExitWhen, Fan, FanOutput, Jump, Node, NodeId, OnError, Op, Outcome, Over, Plan, Task, Template,
    Until, WaitFor,
};

pub(super) struct Outline {
    pub name: String,
    pub body: Vec<Item>,
    /// `on_exit` sequences, each under its title.
    pub exits: Vec<Block>,
}

pub(super) struct Item {
    pub node: NodeId,
    /// What people call it, else its id.
    pub key: String,
    pub kind: String,
    /// What it does, in a few words.
    pub detail: String,
    pub notes: Vec<String>,
    pub form: Form,
    pub jumps: Vec<Leap>,
    /// Control never goes on to what follows.
    pub ends_here: bool,
    pub undo: Option<Box<Item>>,
}

pub(super) enum Form {
    Step,
    Choice(Vec<Block>),
    Lanes(Vec<Block>),
    /// The body of a loop or a group.
    Frame(Vec<Item>),
}

pub(super) struct Block {
    pub label: String,
    /// Lanes by position that come first.
    pub after: Vec<usize>,
    pub items: Vec<Item>,
}

/// A jump to another place.
pub(super) struct Leap {
    pub label: String,
    pub to: NodeId,
    pub key: String,
}

/// Longer texts are cut: a picture is not the file.
const MAX_LABEL_CHARS: usize = 60;
/// Deeper blocks are left out of the picture; the builder refuses them anyway.
const MAX_DEPTH: usize = 160;

impl Outline {
    pub fn of(plan: &Plan) -> Outline {
        let mut walk = Walk { plan, seen: vec![false; plan.nodes.len()], depth: 0 };
        let body = walk.sequence(plan.entry, None);
        let exits = plan.exits.iter().map(|exit| walk.exit(exit)).collect();
        Outline { name: clean(&plan.name), body, exits }
    }
}

struct Walk<'p> {
    plan: &'p Plan,
    seen: Vec<bool>,
    depth: usize,
}

impl Walk<'_> {
    fn exit(&mut self, exit: &Exit) -> Block {
        let when = match exit.when {
            ExitWhen::Always => "always",
            ExitWhen::Success => "success",
            ExitWhen::Failure => "failure",
            ExitWhen::Cancel => "cancel",
        };
        Block { label: format!("on_exit {when}"), after: Vec::new(), items: self.sequence(exit.entry, None) }
    }

    /// Follows `next` as long as it stays in the same block and goes forward.
    fn sequence(&mut self, entry: Option<NodeId>, inside: Option<NodeId>) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut at = entry.filter(|_| self.depth < MAX_DEPTH);
        self.depth += 1;
        while let Some(id) = at.filter(|&id| self.plan.node(id).inside == inside) {
            if std::mem::replace(&mut self.seen[id as usize], true) {
                let back = self.leap("then", id);
                if let Some(last) = items.last_mut() {
                    last.jumps.push(back);
                    last.ends_here = true;
                }
                break;
            }
            items.push(self.item(id));
            at = self.plan.node(id).next;
        }
        self.depth -= 1;
        items
    }

    fn item(&mut self, id: NodeId) -> Item {
        let node = self.plan.node(id);
        let mut item = Item {
            node: id,
            key: if node.hidden { String::new() } else { called(node) },
            kind: clean(&node.kind),
            detail: clean(&detail(node)),
            notes: notes(node).iter().map(|note| clean(note)).collect(),
            form: Form::Step,
            jumps: Vec::new(),
            ends_here: false,
            undo: node.undo.map(|undo| Box::new(self.item(undo))),
        };
        match &node.op {
            Op::Choose { arms, other } => self.choose(id, arms, other.as_ref(), &mut item),
            Op::Fan(fan) => item.form = self.fan(fan, &mut item.detail),
            Op::Each(each) => item.form = Form::Frame(self.sequence(each.body, None)),
            Op::End { .. } => item.ends_here = node.when.is_none(),
            Op::Call(_) | Op::Wait(_) => {}
        }
        if let OnError::Goto(to) = node.on_error {
            item.jumps.push(self.leap("on error", to));
        }
        item
    }

    fn choose(&mut self, id: NodeId, arms: &[Arm], other: Option<&Jump>, item: &mut Item) {
        let mut blocks = Vec::new();
        let otherwise = other.map(|jump| (if arms.is_empty() { "goto" } else { "else" }, jump));
        let ways = arms.iter().map(|arm| (arm.label.as_str(), &arm.jump)).chain(otherwise);
        for (label, jump) in ways {
            match jump.to {
                Some(to) if self.plan.node(to).inside != Some(id) => item.jumps.push(self.leap(label, to)),
                Some(to) if self.is_hidden_end(to) => {}
                to => blocks.push(self.arm(label, to, id)),
            }
        }
        item.ends_here = arms.is_empty() && !item.jumps.is_empty();
        if blocks.is_empty() {
            return;
        }
        if other.is_none() {
            blocks.push(Block { label: "else".to_owned(), after: Vec::new(), items: Vec::new() });
        }
        item.form = Form::Choice(blocks);
    }

    fn arm(&mut self, label: &str, to: Option<NodeId>, choose: NodeId) -> Block {
        Block { label: clean(label), after: Vec::new(), items: self.sequence(to, Some(choose)) }
    }

    fn is_hidden_end(&self, id: NodeId) -> bool {
        let node = self.plan.node(id);
        node.hidden && matches!(node.op, Op::End { .. })
    }

    fn fan(&mut self, fan: &Fan, detail: &mut String) -> Form {
        let only = matches!(fan.output, FanOutput::Only);
        let mut lanes: Vec<Block> = fan.lanes.iter().map(|lane| self.lane(lane)).collect();
        match lanes.pop() {
            Some(lane) if only && lanes.is_empty() => group(lane.items, detail),
            Some(lane) => {
                lanes.push(lane);
                Form::Lanes(lanes)
            }
            None => Form::Step,
        }
    }

    fn lane(&mut self, lane: &crate::Lane) -> Block {
        let after = lane.after.iter().map(|&position| position as usize).collect();
        let first = lane.entry.map(|entry| self.plan.node(entry)).filter(|node| node.key == lane.key);
        let label = first.map_or_else(|| clean(&lane.key), called);
        Block { label, after, items: self.sequence(lane.entry, None) }
    }

    fn leap(&self, label: &str, to: NodeId) -> Leap {
        Leap { label: clean(label), to, key: called(self.plan.node(to)) }
    }
}

fn called(node: &Node) -> String {
    clean(node.name.as_deref().unwrap_or(&node.key))
}

/// A group made only to give an if or switch its policies is drawn as that if or switch.
fn group(mut items: Vec<Item>, detail: &mut String) -> Form {
    match items.pop() {
        Some(only) if items.is_empty() && only.key.is_empty() => {
            *detail = only.detail;
            only.form
        }
        Some(last) => {
            items.push(last);
            Form::Frame(items)
        }
        None => Form::Frame(items),
    }
}

fn detail(node: &Node) -> String {
    match &node.op {
        Op::Call(call) => match &call.task {
            Task::Agent { agent, .. } => agent.clone(),
            Task::Tool { tool, .. } => tool.clone(),
            Task::Workflow { workflow, .. } => workflow.clone(),
        },
        Op::Choose { arms, .. } => match arms.as_slice() {
            [] => node.assign.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            [only] => only.when.source().trim().to_owned(),
            _ => String::new(),
        },
        Op::Fan(fan) => awaited(fan),
        Op::Each(each) => rounds(each),
        Op::Wait(until) => waited(until),
        Op::End { outcome, .. } => match outcome {
            Outcome::Completed => "completed".to_owned(),
            Outcome::Stopped => "stopped".to_owned(),
            Outcome::Failed => "failed".to_owned(),
        },
    }
}

fn awaited(fan: &Fan) -> String {
    let rest = if fan.detach { ", the rest goes on" } else { "" };
    match &fan.wait_for {
        WaitFor::All if matches!(fan.output, FanOutput::Sinks(_)) => "as soon as what each needs has ended".to_owned(),
        WaitFor::All => String::new(),
        WaitFor::Count(count) => format!("waits for any {count}{rest}"),
        WaitFor::Lanes(lanes) => {
            let keys = lanes.iter().filter_map(|&l| fan.lanes.get(l as usize)).map(|lane| lane.key.as_str());
            format!("waits for {}{rest}", keys.collect::<Vec<_>>().join(", "))
        }
    }
}

fn rounds(each: &Each) -> String {
    let max = each.max;
    match &each.over {
        Over::Items(items) if each.width > 1 => {
            format!("{}, {} at once, at most {max}", items.source().trim(), each.width)
        }
        Over::Items(items) => format!("{}, at most {max}", items.source().trim()),
        Over::Passes { while_, until, .. } => {
            let test = |word: &str, test: &Option<crate::Expr>| {
                test.as_ref().map(|test| format!("{word} {}, ", test.source().trim())).unwrap_or_default()
            };
            format!("{}{}at most {max}", test("while", while_), test("until", until))
        }
    }
}

fn waited(until: &Until) -> String {
    match until {
        Until::For(value) => format!("for {}", template(value)),
        Until::At(value) => format!("until {}", template(value)),
        Until::Signal { name } => format!("signal {name}"),
        Until::Event { event, .. } => format!("event {event}"),
        Until::Person(ask) => template(&ask.question),
    }
}

fn notes(node: &Node) -> Vec<String> {
    let mut notes: Vec<String> = node.when.iter().map(|when| format!("when {}", when.source().trim())).collect();
    match node.retry.max_attempts {
        0 => {}
        1 => notes.push("one retry".to_owned()),
        several => notes.push(format!("up to {several} retries")),
    }
    match &node.on_error {
        OnError::Fail | OnError::Goto(_) => {}
        OnError::Continue => notes.push("on error: goes on".to_owned()),
        OnError::Value(_) => notes.push("on error: a given value".to_owned()),
    }
    if let Some(limit) = node.limit {
        notes.push(format!("at most {limit} times"));
    }
    notes
}

fn template(template: &Template) -> String {
    match template {
        Template::Literal(value) => in_text(value),
        Template::Ref(expr) => format!("{{{{ {} }}}}", expr.source().trim()),
        Template::Text(text) => serde_json::to_value(text).map(|value| in_text(&value)).unwrap_or_default(),
        Template::List(_) | Template::Map(_) => "…".to_owned(),
    }
}

/// One line without control characters, at most [`MAX_LABEL_CHARS`] long.
fn clean(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    if line.chars().count() <= MAX_LABEL_CHARS {
        return line;
    }
    line.chars().take(MAX_LABEL_CHARS - 1).chain(['…']).collect()
}

impl Item {
    /// `agent fetcher`: the kind and what it does.
    pub fn summary(&self) -> String {
        [self.kind.as_str(), self.detail.as_str()].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// The jumps as notes: `else → fetch`.
    pub fn leaps(&self) -> impl Iterator<Item = String> {
        self.jumps.iter().map(|leap| match leap.label.as_str() {
            "goto" => format!("→ {}", leap.key),
            label => format!("{label} → {}", leap.key),
        })
    }
}

impl Block {
    /// The block is one step that bears its name.
    pub fn is_one_step(&self) -> bool {
        matches!(self.items.as_slice(), [only] if only.key == self.label)
    }
}
