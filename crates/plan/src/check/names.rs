//! Every expression of a plan, seen from where it stands: do the names exist, can the steps have run, do the fields
//! below them exist, is a condition a condition.

use std::collections::HashMap;

use super::flow::{Blind, Flow, Place, Sight, View};
use super::shape::{self, Miss, Shape};
use super::variables::{Set, Variables};
use crate::expr::{Part, Root};
use crate::path::{self, Segment};
use crate::problem::Suggestions;
use crate::{
    Call, Each, Expr, FanOutput, NodeId, OnDeadline, OnError, Op, Over, Plan, Problem, Problems, Span, Task, Template,
    Until,
};

type Reference = (Root, Vec<Segment>);

/// The steps that can be named.
pub(super) type Keys<'p> = HashMap<&'p str, NodeId>;

pub(super) struct Names<'p> {
    plan: &'p Plan,
    flow: &'p Flow<'p>,
    keys: &'p Keys<'p>,
    variables: Variables<'p>,
    problems: Problems,
    suggestions: Suggestions,
    /// Asked all at once at the end.
    pending: Vec<Pending<'p>>,
}

/// A step that cannot be read unless the graph has a path.
struct Pending<'p> {
    path: (u32, u32),
    key: &'p str,
    why: Blind,
    span: Span,
    view: View,
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Site {
    view: View,
    /// A missing field reads as null there.
    lenient: bool,
    /// It is the filter of a wait for an event.
    filter: bool,
    /// The author has said what to take where it is missing.
    excused: bool,
}

/// What an expression must give.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Truth,
    List,
}

/// More names than this in one message help nobody.
const SHOWN_NAMES: usize = 8;

impl<'p> Names<'p> {
    pub fn new(plan: &'p Plan, flow: &'p Flow<'p>, keys: &'p Keys<'p>) -> Names<'p> {
        let variables = Variables::new(flow);
        let suggestions = Suggestions::default();
        Names { plan, flow, keys, variables, problems: Vec::new(), suggestions, pending: Vec::new() }
    }

    pub fn check(mut self) -> Problems {
        for id in 0..self.plan.nodes.len() as NodeId {
            if self.flow.is_reached(id) {
                self.node(id);
            }
        }
        if let Some(output) = &self.plan.output {
            self.template(output, Site { view: View::PlanEnd, lenient: false, filter: false, excused: false });
        }
        self.settle()
    }

    fn settle(mut self) -> Problems {
        let pairs: Vec<(u32, u32)> = self.pending.iter().map(|pending| pending.path).collect();
        let found = self.flow.graph.reaches(&pairs);
        let pending = std::mem::take(&mut self.pending);
        for (pending, _) in pending.into_iter().zip(found).filter(|(_, found)| !found) {
            self.problems.push(self.blind(pending.key, pending.why, pending.span, pending.view));
        }
        self.problems
    }

    fn node(&mut self, id: NodeId) {
        let node = self.plan.node(id);
        let start = Site { view: View::Start(id), lenient: node.on_missing_null, filter: false, excused: false };
        let end = Site { view: View::End(id), ..start };
        if let Some(when) = &node.when {
            self.expression(when, start, Want::Truth);
        }
        match &node.op {
            Op::Call(call) => self.call(call, start),
            Op::Choose { arms, other: _ } => arms.iter().for_each(|a| self.expression(&a.when, start, Want::Truth)),
            Op::Fan(_) => {}
            Op::Each(each) => self.each(id, each, start),
            Op::Wait(until) => self.wait(until, start),
            Op::End { outcome: _, value } => value.iter().for_each(|value| self.template(value, start)),
        }
        for (_, value) in &node.assign {
            self.template(value, end);
        }
        if let OnError::Value(value) = &node.on_error {
            self.template(value, end);
        }
    }

    fn call(&mut self, call: &'p Call, site: Site) {
        call.input.iter().for_each(|input| self.template(input, site));
        match &call.task {
            Task::Agent { agent, prompt } => {
                prompt.iter().for_each(|prompt| self.template(prompt, site));
                let instructions = self.plan.agents.get(agent).map(|agent| &agent.instructions);
                instructions.into_iter().for_each(|text| self.template(text, site));
            }
            Task::Tool { tool: _, with } => self.template(with, site),
            Task::Workflow { .. } => {}
        }
    }

    fn each(&mut self, id: NodeId, each: &'p Each, site: Site) {
        match &each.over {
            Over::Items(items) => self.expression(items, site, Want::List),
            Over::Passes { while_, until, delay_ms: _ } => {
                let before = Site { view: View::PassStart(id), ..site };
                let after = Site { view: View::PassEnd(id), ..site };
                while_.iter().for_each(|test| self.expression(test, before, Want::Truth));
                until.iter().for_each(|test| self.expression(test, after, Want::Truth));
            }
        }
    }

    fn wait(&mut self, until: &'p Until, site: Site) {
        match until {
            Until::For(value) | Until::At(value) => self.template(value, site),
            Until::Signal { name: _ } => {}
            Until::Event { event: _, filter } => {
                let site = Site { filter: true, ..site };
                filter.iter().for_each(|test| self.expression(test, site, Want::Truth));
            }
            Until::Person(ask) => {
                self.template(&ask.question, site);
                ask.show.iter().for_each(|show| self.template(show, site));
                if let OnDeadline::Value(value) = &ask.on_deadline {
                    self.template(value, site);
                }
            }
        }
    }

    fn template(&mut self, template: &'p Template, site: Site) {
        template.visit_all(&mut |reference, span, excused| {
            self.reference(reference, span, Site { excused, ..site });
        });
    }

    fn expression(&mut self, expr: &'p Expr, site: Site, want: Want) {
        for (position, reference) in expr.refs().iter().enumerate() {
            let site = Site { excused: expr.is_excused(position), ..site };
            self.reference(reference, expr.ref_span(position), site);
        }
        let Some(types) = known_shape(self.flow, self.keys, expr, site.view).and_then(Shape::types) else {
            return;
        };
        let source = expr.source().trim();
        let found = shape::in_words(&types);
        if want == Want::List && !types.contains(&"array") {
            let problem = Problem::error(expr.span(), format!("`{source}` is {found}, not a list"));
            self.problems.push(problem.help("for_each goes over a list"));
        }
        if want == Want::Truth && !types.iter().any(|t| matches!(*t, "boolean" | "string")) {
            let problem =
                Problem::error(expr.span(), format!("a condition is true or false, and `{source}` is {found}"));
            self.problems.push(problem.help(comparison(source, &types)));
        }
    }

    fn reference(&mut self, (root, path): &'p Reference, span: Span, site: Site) {
        let target = self.root(root, path, span, site);
        if !site.lenient {
            let shape = root_shape(self.flow, self.keys, root, target, site.view);
            self.path(shape, (root, path), span);
        }
    }

    /// Is the name there at this site? Gives the step it names.
    fn root(&mut self, root: &'p Root, path: &[Segment], span: Span, site: Site) -> Option<NodeId> {
        let in_loop = |any| self.flow.in_loop(site.view, any);
        match root {
            Root::Item if !in_loop(false) => self.refuse(span, "`item` is known only inside for_each", LOOP_HELP),
            Root::Index if !in_loop(false) => self.refuse(span, "`index` is known only inside for_each", LOOP_HELP),
            Root::Loop if !in_loop(true) => {
                self.refuse(span, "`loop` is known only inside for_each and repeat", LOOP_HELP);
            }
            Root::Event if !site.filter => {
                let help = "elsewhere, read the output of the wait step, or `trigger`";
                self.refuse(span, "`event` is known only in the filter of a wait for an event", help);
            }
            Root::Previous => self.previous(span, site.view),
            Root::Vars => self.variable(path.first(), span, site),
            Root::Step { key, part } => return self.step(key, *part, span, site.view),
            Root::Item | Root::Index | Root::Loop | Root::Event => {}
            Root::Earlier | Root::Input | Root::Trigger | Root::Run | Root::Workflow | Root::Now => {}
        }
        None
    }

    fn refuse(&mut self, span: Span, message: &str, help: &str) {
        self.problems.push(Problem::error(span, message).help(help));
    }

    fn variable(&mut self, name: Option<&Segment>, span: Span, site: Site) {
        let Some(Segment::Key(name)) = name else { return };
        if !self.variables.setters(name).is_empty() {
            if !site.lenient && !site.excused {
                self.problems.extend(self.may_be_unset(name, span, site.view));
            }
            return;
        }
        let names = self.variables.names();
        let near = self.suggestions.nearest(name, names.clone());
        let help = match near {
            Some(near) => format!("did you mean `vars.{near}`?"),
            None if names.clone().next().is_none() => format!("write it first: `set: {{ {name}: … }}`"),
            None => format!("variables that are set: {}", listed(names)),
        };
        self.problems.push(Problem::error(span, format!("no step sets the variable `{name}`")).help(help));
    }

    /// A variable that is not set on every way to where it is read.
    fn may_be_unset(&self, name: &str, span: Span, view: View) -> Option<Problem> {
        let setters = self.variables.setters(name);
        let keys = || listed(setters.iter().map(|setter| self.plan.node(*setter).key.as_str()));
        match self.variables.is_set(name, view) {
            Set::Always => None,
            Set::Never => {
                let message = format!("the variable `{name}` cannot be set here: only {} sets it", keys());
                Some(Problem::error(span, message).help("set it in a step that comes before on every way"))
            }
            Set::Sometimes => {
                let way = match setters {
                    [setter] => self.variables.way_around(*setter, view),
                    _ => format!("if none of {} runs before", keys()),
                };
                let help = format!("set it before, or say what to take then: `vars.{name} | default(…)`");
                Some(Problem::warning(span, format!("the variable `{name}` is not set {way}")).help(help))
            }
        }
    }

    fn step(&mut self, key: &'p str, part: Part, span: Span, view: View) -> Option<NodeId> {
        let Some(&target) = self.keys.get(key) else {
            self.unknown_step(key, span);
            return None;
        };
        match self.flow.sight(view, target) {
            Sight::Seen => {}
            Sight::Never(why) => self.problems.push(self.blind(key, why, span, view)),
            Sight::IfPath(from, to, why) => {
                self.pending.push(Pending { path: (from, to), key, why, span, view });
            }
        }
        let keyed = self.flow.fan(target).is_some_and(|fan| fan.output == FanOutput::Keyed);
        if part == Part::Outputs && !keyed {
            let message = format!("`{key}` has no `outputs`: it is not a parallel step");
            self.problems.push(Problem::error(span, message).help(format!("use `steps.{key}.output`")));
        }
        Some(target)
    }

    fn unknown_step(&mut self, key: &str, span: Span) {
        let names = || self.plan.nodes.iter().filter(|node| !node.hidden).map(|node| node.key.as_str());
        let help = match self.suggestions.nearest(key, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("steps are: {}", listed(names())),
        };
        self.problems.push(Problem::error(span, format!("no step is called `{key}`")).help(help));
    }

    fn blind(&self, key: &str, why: Blind, span: Span, view: View) -> Problem {
        let name = |node| &self.plan.node(node).key;
        let block = |node| self.block(node);
        let (message, help) = match why {
            Blind::Later => (
                match self.reader(view) {
                    Some(node) => format!("step `{key}` cannot have run before `{}`", name(node)),
                    None => format!("step `{key}` cannot have run here"),
                },
                "only steps that come earlier on a way to this one can be read".to_owned(),
            ),
            Blind::Itself => {
                (format!("step `{key}` reads its own output"), "read an earlier step, or `previous`".into())
            }
            Blind::Enclosing => (
                format!("`{key}` has not ended: this step is inside it"),
                "read the steps inside it that come earlier".into(),
            ),
            Blind::InLoop(each) => (
                format!("step `{key}` is inside the loop `{}` and cannot be read from outside", name(each)),
                format!("use `steps.{}.output.results`", name(each)),
            ),
            Blind::Detached(fan) => (
                format!("step `{key}` is in a detached lane of {}, which nothing waits for", block(fan)),
                "add the lane to `wait_for`, or drop `detach`".into(),
            ),
            Blind::Sibling(fan) => (
                format!("step `{key}` runs at the same time: both are in lanes of {}", block(fan)),
                self.sibling_help(key, fan),
            ),
            Blind::InUndo => (format!("step `{key}` runs only to undo another"), "read the step that it undoes".into()),
            Blind::InExit => {
                (format!("step `{key}` runs in on_exit, after the body"), "read a step of the body".into())
            }
        };
        Problem::error(span, message).help(help)
    }

    /// The step that reads, as a person knows it.
    fn reader(&self, view: View) -> Option<NodeId> {
        let node = match view {
            View::Start(node) | View::End(node) | View::PassStart(node) | View::PassEnd(node) => node,
            View::PlanEnd => return None,
        };
        if self.plan.node(node).hidden { self.flow.block_of(node) } else { Some(node) }
    }

    fn block(&self, node: NodeId) -> String {
        let node = self.plan.node(node);
        if node.hidden { "this block".to_owned() } else { format!("`{}`", node.key) }
    }

    fn sibling_help(&self, key: &str, fan: NodeId) -> String {
        let lanes = self.flow.fan(fan).filter(|fan| matches!(fan.output, FanOutput::Sinks(_)));
        let lane = lanes.and_then(|fan| fan.lanes.iter().find(|lane| lane.key == key));
        match lane {
            Some(lane) => format!("add `needs: [{}]`", lane.key),
            None => format!("read it in a step after {}", self.block(fan)),
        }
    }

    /// In a DAG `previous` is the single need.
    fn previous(&mut self, span: Span, view: View) {
        let (View::Start(mut node) | View::End(mut node)) = view else { return };
        while self.flow.begins_region(node) {
            let region = self.plan.node(node).region;
            let Place::Lane(fan_node) = self.flow.place(region) else { return };
            let Some(fan) = self.flow.fan(fan_node) else { return };
            let lane = self.plan.regions[region as usize].lane as usize;
            if let (FanOutput::Sinks(_), Some(lane)) = (&fan.output, fan.lanes.get(lane)) {
                let needs: Vec<&str> =
                    lane.after.iter().filter_map(|&n| fan.lanes.get(n as usize)).map(|l| l.key.as_str()).collect();
                if needs.len() > 1 {
                    let message = format!("`previous` is not one step here: `{}` needs {}", lane.key, listed(needs));
                    self.refuse(span, &message, "name the step: `steps.ID.output`");
                }
                return;
            }
            node = fan_node;
        }
    }

    /// Do the fields exist below a value whose form is known?
    fn path(&mut self, shape: Shape<'p>, (root, path): (&Root, &'p [Segment]), span: Span) {
        let mut shape = shape;
        for (position, segment) in path.iter().enumerate() {
            match shape.down(self.plan, segment) {
                Ok(below) => shape = below,
                Err(miss) => {
                    let place = written(root, &path[..position]);
                    self.problems.push(missing(&place, segment, &miss, span, &mut self.suggestions));
                    return;
                }
            }
        }
    }
}

const LOOP_HELP: &str = "read it in a step of the loop's own body";

pub(super) fn keys(plan: &Plan) -> Keys<'_> {
    let visible = plan.nodes.iter().enumerate().filter(|(_, node)| !node.hidden);
    visible.map(|(id, node)| (node.key.as_str(), id as NodeId)).collect()
}

/// The form of what an expression gives, where it is one plain reference.
pub(super) fn known_shape<'p>(flow: &Flow<'p>, keys: &Keys<'p>, expr: &'p Expr, view: View) -> Option<Shape<'p>> {
    let [(root, path)] = expr.refs() else { return None };
    let mut whole = root_segments(root);
    whole.extend(path.iter().cloned());
    if path::parse(expr.source().trim()).ok()? != whole {
        return None;
    }
    let target = match root {
        Root::Step { key, .. } => keys.get(key.as_str()).copied(),
        _ => None,
    };
    // A step that may be skipped can also give null.
    if target.is_some_and(|id| may_be_null(flow.plan, id)) {
        return None;
    }
    let start = root_shape(flow, keys, root, target, view);
    path.iter().try_fold(start, |shape, segment| shape.down(flow.plan, segment).ok())
}

fn root_shape<'p>(flow: &Flow<'p>, keys: &Keys<'p>, root: &Root, target: Option<NodeId>, view: View) -> Shape<'p> {
    match root {
        Root::Item => item_shape(flow, keys, view),
        Root::Previous => match view {
            View::Start(node) => previous_shape(flow, node),
            View::End(_) | View::PassStart(_) | View::PassEnd(_) | View::PlanEnd => Shape::Any,
        },
        _ => shape::of_root(flow, root, target),
    }
}

/// An element of what the nearest for_each goes over.
fn item_shape<'p>(flow: &Flow<'p>, keys: &Keys<'p>, view: View) -> Shape<'p> {
    let items = flow.scopes(view).find_map(|(_, place)| match place {
        Place::Loop(node) => flow.items(node).map(|items| (node, items)),
        Place::Body | Place::Exit(_) | Place::Undo(_) | Place::Lane(_) => None,
    });
    // The list may itself be an item of the loop around: each look goes one loop further out.
    let list = items.and_then(|(node, items)| known_shape(flow, keys, items, View::Start(node)));
    list.and_then(|list| list.down(flow.plan, &Segment::Index(0)).ok()).unwrap_or(Shape::Any)
}

/// Known where exactly one step comes before, and always completes.
fn previous_shape<'p>(flow: &Flow<'p>, node: NodeId) -> Shape<'p> {
    let before = flow.sole_predecessor(node).filter(|&before| !may_be_null(flow.plan, before));
    before.map_or(Shape::Any, |before| shape::of_output(flow.plan, flow.plan.node(before)))
}

fn may_be_null(plan: &Plan, id: NodeId) -> bool {
    let node = plan.node(id);
    node.when.is_some() || node.inside.is_some() || node.on_error != OnError::Fail
}

fn comparison(source: &str, types: &[&str]) -> String {
    match types.first() {
        Some(&"number" | &"integer") => format!("compare it: `{source} > 0`"),
        Some(&"array") => format!("compare it: `{source} != []`"),
        _ => format!("compare one of its fields, or the whole: `{source} != null`"),
    }
}

fn missing(place: &str, segment: &Segment, miss: &Miss<'_>, span: Span, suggestions: &mut Suggestions) -> Problem {
    let name = match segment {
        Segment::Key(key) => key.clone(),
        Segment::Index(index) => format!("[{index}]"),
    };
    if let Some(instead) = &miss.instead {
        return Problem::error(span, format!("`{place}` is {instead} and has no `{name}`"));
    }
    let message = format!("`{place}` has no field `{name}`");
    let near = suggestions.nearest(&name, miss.known.iter().copied());
    Problem::error(span, message).help(match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its fields are: {}", listed(miss.known.iter().copied())),
    })
}

/// A reference as a person writes it.
fn written(root: &Root, path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in root_segments(root).iter().chain(path) {
        match segment {
            Segment::Key(key) if text.is_empty() => text.push_str(key),
            Segment::Key(key) => text.extend([".", key]),
            Segment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn root_segments(root: &Root) -> Vec<Segment> {
    let words: &[&str] = match root {
        Root::Input => &["input"],
        Root::Trigger => &["trigger"],
        Root::Previous => &["previous"],
        Root::Earlier => &["earlier"],
        Root::Item => &["item"],
        Root::Index => &["index"],
        Root::Loop => &["loop"],
        Root::Vars => &["vars"],
        Root::Run => &["run"],
        Root::Workflow => &["workflow"],
        Root::Now => &["now"],
        Root::Event => &["event"],
        Root::Step { key, part } => &["steps", key, part_word(*part)],
    };
    words.iter().map(|word| Segment::Key((*word).to_owned())).collect()
}

fn part_word(part: Part) -> &'static str {
    match part {
        Part::Output => "output",
        Part::Outputs => "outputs",
        Part::Status => "status",
        Part::Error => "error",
    }
}

pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(SHOWN_NAMES).map(|name| format!("`{name}`")).collect();
    if names.next().is_some() {
        shown.push("…".to_owned());
    }
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}
