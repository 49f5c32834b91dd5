//! The steps as they are written, each with its id: a table of steps and a table of the lists that they stand in.
//!
//! Ids are given here, once and for the written order: an agent's step without one is called by its agent (`writer`,
//! `writer_2`), any other by its position. Knows nothing of expressions.

use std::collections::{HashMap, HashSet};

use relais_plan::build::positional;
use relais_plan::problem::nearest;
use relais_plan::step::Name;
use relais_plan::{Backoff, LaneFailure, Problem, Retry, Span};
use serde_json::Value;

use super::agents::{Staff, filled};
use super::keys;
use crate::fields::{Field, Fields, unknown_key};
use crate::reader::Reader;
use crate::values::duration_of;
use crate::yaml::{Data, Node};

const EXAMPLE: &str = "`{ type: agent, name: writer }`";
const TYPES: &[&str] = &["agent", "condition", "parallel"];

pub(super) struct Tree<'n> {
    pub items: Vec<Item<'n>>,
    /// The first is the workflow itself.
    pub lists: Vec<List>,
    /// The step that an id means: of several the one that stands furthest out, then the first.
    pub ids: HashMap<String, usize>,
}

pub(super) struct Item<'n> {
    pub id: String,
    /// What people call it beside its id.
    pub name: Option<String>,
    /// The id that the step would have by its position.
    pub position: String,
    pub span: Span,
    /// The list that it stands in.
    pub list: usize,
    pub retry: Option<(Retry, Field<'n>)>,
    pub timeout: Option<Field<'n>>,
    pub what: What<'n>,
    is_named: bool,
    depth: usize,
}

pub(super) enum What<'n> {
    Agent(Name),
    Condition {
        test: Option<Field<'n>>,
        yes: Option<usize>,
        no: Option<usize>,
    },
    Parallel {
        children: usize,
        on_failure: LaneFailure,
    },
    Goto(Field<'n>),
    /// Could not be read; what is wrong is reported.
    Nothing,
}

pub(super) struct List {
    /// The step whose list it is; none for the workflow.
    pub owner: Option<usize>,
    pub place: Place,
    pub items: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Top,
    Arm,
    Lanes,
}

impl<'n> Tree<'n> {
    pub(super) fn read(field: Option<Field<'n>>, reader: &mut Reader<'_>, staff: &Staff<'_>) -> Tree<'n> {
        let tree = Tree { items: Vec::new(), lists: Vec::new(), ids: HashMap::new() };
        let mut reading = Reading { tree, reader, staff };
        if let Some(field) = field {
            reading.list(field, None, Place::Top, "step", 1);
        }
        let mut tree = reading.tree;
        tree.name_agents();
        tree.index();
        tree
    }

    /// Steps of agents that have no id are called by their agent: first those that always run, then those in arms, which
    /// may mean one of the first. What an author wrote is not taken from him.
    fn name_agents(&mut self) {
        let named = self.items.iter().filter(|item| item.is_named && !self.is_named_as_agent(item));
        let mut taken: HashSet<String> = named.map(|item| item.id.clone()).collect();
        let mut counts: HashMap<String, u32> = HashMap::new();
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..self.items.len()).partition(|step| self.in_arm(*step));
        for step in outside.into_iter().chain(inside) {
            let item = &mut self.items[step];
            let What::Agent(agent) = &item.what else { continue };
            if item.is_named {
                continue;
            }
            let count = counts.entry(agent.text.clone()).or_insert(0);
            item.id = loop {
                *count += 1;
                let id = if *count == 1 { agent.text.clone() } else { format!("{}_{count}", agent.text) };
                if taken.insert(id.clone()) {
                    break id;
                }
            };
        }
    }

    fn in_arm(&self, step: usize) -> bool {
        self.around(step).any(|around| self.lists[self.items[around].list].place == Place::Arm)
    }

    /// A step in an arm that has its agent's name as id: it may mean the step that is called so.
    fn is_named_as_agent(&self, item: &Item<'_>) -> bool {
        let in_arm = self.lists[item.list].place == Place::Arm;
        in_arm && matches!(&item.what, What::Agent(agent) if agent.text == item.id)
    }

    fn index(&mut self) {
        for (step, item) in self.items.iter().enumerate() {
            let known = self.ids.get(&item.id).is_some_and(|other| self.items[*other].depth <= item.depth);
            if !known {
                self.ids.insert(item.id.clone(), step);
            }
        }
    }

    /// The steps around a step, itself first.
    pub(super) fn around(&self, step: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(step), |step| self.lists[self.items[*step].list].owner)
    }

    pub(super) fn children(&self, list: usize) -> &[usize] {
        self.lists.get(list).map_or(&[], |list| &list.items)
    }
}

struct Reading<'a, 'w, 'n> {
    tree: Tree<'n>,
    reader: &'a mut Reader<'w>,
    staff: &'a Staff<'a>,
}

impl<'n> Reading<'_, '_, 'n> {
    /// A list of steps, which must not be empty. Positions begin with `first`.
    fn list(&mut self, field: Field<'n>, owner: Option<usize>, place: Place, prefix: &str, first: usize) -> usize {
        let list = self.tree.lists.len();
        self.tree.lists.push(List { owner, place, items: Vec::new() });
        // An arm without steps does nothing.
        if let (Place::Arm, Data::List(items)) = (place, &field.node.data)
            && items.is_empty()
        {
            return list;
        }
        let Some(nodes) = filled(field) else {
            let message = format!("`{}` takes a list of at least one step, not {}", field.key, field.node.describe());
            self.reader.problems.push(Problem::error(field.node.span, message).help(EXAMPLE));
            return list;
        };
        let depth = owner.map_or(0, |owner| self.tree.items[owner].depth + 1);
        for (offset, node) in nodes.iter().enumerate() {
            let step = self.step(node, list, positional(prefix, first + offset), depth);
            self.tree.lists[list].items.push(step);
        }
        list
    }

    fn step(&mut self, node: &'n Node, list: usize, position: String, depth: usize) -> usize {
        let step = self.tree.items.len();
        let id = position.clone();
        let what = What::Nothing;
        let (retry, timeout) = (None, None);
        let item =
            Item { id, name: None, position, span: node.span, list, retry, timeout, what, is_named: false, depth };
        self.tree.items.push(item);
        if let Some(fields) = self.reader.open_map(node, "a step", EXAMPLE) {
            self.fill(step, &fields);
        }
        step
    }

    fn fill(&mut self, step: usize, fields: &Fields<'n>) {
        if let Some(field) = fields.get("id")
            && let Some(id) = self.reader.name(field)
        {
            let item = &mut self.tree.items[step];
            (item.id, item.span, item.is_named) = (id, field.node.span, true);
        }
        let what = match fields.get("goto") {
            Some(goto) if !fields.has("type") => {
                self.keys(fields, "a step that goes back", keys::GOTO_STEP);
                What::Goto(goto)
            }
            _ => self.typed(step, fields),
        };
        if let (Some(field), What::Agent(_) | What::Parallel { .. }) = (fields.get("retry"), &what) {
            self.tree.items[step].retry = Some((self.reader.pipeline_retry(field), field));
        }
        if let What::Agent(_) | What::Parallel { .. } = &what {
            self.tree.items[step].timeout = fields.get("timeout");
        }
        self.tree.items[step].what = what;
    }

    fn typed(&mut self, step: usize, fields: &Fields<'n>) -> What<'n> {
        let Some(word) = fields.get("type") else {
            let problem = Problem::error(fields.span, "the step has no `type`");
            self.reader
                .problems
                .push(problem.help("`type: agent`, `condition` or `parallel`; or `goto: ID` to go back"));
            return What::Nothing;
        };
        match word.node.as_text() {
            Some("agent") => self.agent(step, fields, word),
            Some("condition") => self.condition(step, fields, word),
            Some("parallel") => self.parallel(step, fields, word),
            other => {
                let near = other.and_then(|other| nearest(other, TYPES.iter().copied()));
                let message = format!("a step has no type such as {}", word.node.describe());
                let problem = Problem::error(word.node.span, message);
                self.reader.problems.push(match near {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help(format!("types are {}", TYPES.join(", "))),
                });
                What::Nothing
            }
        }
    }

    fn keys(&mut self, fields: &Fields<'n>, what: &str, known: &[&str]) {
        for field in fields.all().filter(|field| !known.contains(&field.key)) {
            let problem = match (field.key, what) {
                ("retry", "a condition") => Problem::error(field.key_span, "`retry` has no effect on a condition")
                    .help("a condition that cannot be decided is never tried again; let the step that it reads be"),
                ("goto", _) => Problem::error(field.key_span, "a step that goes back has no `type`")
                    .help("make it a step of its own, such as `- goto: writer`, in an arm of a condition"),
                _ => unknown_key(field, what, known),
            };
            self.reader.problems.push(problem);
        }
    }

    fn agent(&mut self, step: usize, fields: &Fields<'n>, word: Field<'n>) -> What<'n> {
        self.keys(fields, "a step of an agent", keys::AGENT_STEP);
        let Some(field) = fields.get("name") else {
            let problem = Problem::error(word.key_span, "the step does not say which agent it runs");
            self.reader.problems.push(problem.help(format!("add `name`, for example {EXAMPLE}")));
            return What::Nothing;
        };
        let Some(text) = self.reader.name(field) else { return What::Nothing };
        if !self.staff.has(&text) && self.reader.workflows.agent(&text).is_none() {
            let problem = Problem::error(field.node.span, format!("no agent is called `{text}`"));
            let near = self.reader.near(&text, self.staff.names());
            self.reader.problems.push(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("declare it under `agents`"),
            });
            return What::Nothing;
        }
        let item = &mut self.tree.items[step];
        item.span = if item.is_named { item.span } else { field.node.span };
        What::Agent(Name { text, span: field.node.span })
    }

    fn condition(&mut self, step: usize, fields: &Fields<'n>, word: Field<'n>) -> What<'n> {
        self.keys(fields, "a condition", keys::CONDITION_STEP);
        self.label(step, fields, word);
        let test = fields.get("condition");
        if test.is_none() {
            let problem = Problem::error(word.node.span, "the condition step has no `condition`");
            self.reader.problems.push(problem.help("for example `condition: \"{{ $steps.check.output.ok }}\"`"));
        }
        if !fields.has("true") && !fields.has("false") {
            let problem = Problem::error(word.node.span, "the condition leads nowhere");
            self.reader.problems.push(problem.help("add `true` or `false` with a list of steps, or both"));
        }
        let position = self.tree.items[step].position.clone();
        let yes = fields.get("true").map(|field| self.list(field, Some(step), Place::Arm, &position, 1));
        let before = yes.map_or(0, |list| self.tree.lists[list].items.len());
        let no = fields.get("false").map(|field| self.list(field, Some(step), Place::Arm, &position, before + 1));
        What::Condition { test, yes, no }
    }

    fn parallel(&mut self, step: usize, fields: &Fields<'n>, word: Field<'n>) -> What<'n> {
        self.keys(fields, "a parallel step", keys::PARALLEL_STEP);
        self.label(step, fields, word);
        let on_failure = self.reader.lane_failure(fields);
        let Some(field) = fields.get("steps") else {
            let problem = Problem::error(word.node.span, "the parallel step has no `steps`");
            self.reader.problems.push(problem.help(format!("for example `steps: [{}]`", EXAMPLE.trim_matches('`'))));
            return What::Nothing;
        };
        let position = self.tree.items[step].position.clone();
        let children = self.list(field, Some(step), Place::Lanes, &position, 1);
        What::Parallel { children, on_failure }
    }

    /// A condition or a block is called by its `name` where it has no id; beside an id it is for people.
    fn label(&mut self, step: usize, fields: &Fields<'n>, word: Field<'n>) {
        let name = fields.get("name").and_then(|field| self.reader.name(field).map(|name| (name, field.node.span)));
        let item = &mut self.tree.items[step];
        match name {
            Some((name, span)) if !item.is_named => (item.id, item.span, item.is_named) = (name, span, true),
            Some((name, _)) => item.name = Some(name),
            None if item.is_named => {}
            None => item.span = word.node.span,
        }
    }
}

impl Reader<'_> {
    /// Keys: `max_attempts` (after the first), `backoff`, `on`, `initial_delay_seconds`.
    fn pipeline_retry(&mut self, field: Field<'_>) -> Retry {
        let example = "`retry: { max_attempts: 2, backoff: exponential, on: [timeout] }`";
        let Some(fields) = self.map(field.node, "`retry`", keys::RETRY, example) else {
            return Retry::default();
        };
        if !fields.has("max_attempts") {
            let problem = Problem::error(field.key_span, "`retry` without `max_attempts` retries nothing");
            self.problems.push(problem.help("`max_attempts` is the number of attempts after the first"));
        }
        let default = Retry::default();
        let backoffs = [("fixed", Backoff::Fixed), ("exponential", Backoff::Exponential)];
        Retry {
            max_attempts: fields.get("max_attempts").and_then(|field| self.whole(field, 0)).unwrap_or_default(),
            backoff: (fields.get("backoff").and_then(|field| self.choice(field, &backoffs))).unwrap_or(Backoff::Fixed),
            delay_ms: (fields.get("initial_delay_seconds").and_then(|field| self.seconds(field)))
                .unwrap_or(default.delay_ms),
            on: fields.get("on").map(|field| self.retry_on(field)).unwrap_or_default(),
            ..default
        }
    }

    /// A number of seconds, in milliseconds.
    fn seconds(&mut self, field: Field<'_>) -> Option<u64> {
        let is_number = matches!(&field.node.data, Data::Scalar(Value::Number(_)));
        let seconds = duration_of(field.node).filter(|ms| is_number && *ms > 0);
        if seconds.is_none() {
            self.wrong(field, "a number of seconds above 0", &format!("`{}: 2`", field.key));
        }
        seconds
    }

    /// Where a step goes back to: an id, or the position in the workflow, counted from 0 as in `outputs[0]`.
    pub(super) fn goto_target(&mut self, field: Field<'_>, tree: &Tree<'_>) -> Option<Name> {
        let span = field.node.span;
        if let Data::Scalar(Value::Number(_)) = &field.node.data {
            let index = self.whole(field, 0)?;
            let top = tree.children(0);
            let Some(step) = top.get(index as usize) else {
                let last = top.len().saturating_sub(1);
                let problem = Problem::error(span, format!("the workflow has no step {index}"));
                self.problems.push(problem.help(format!("its steps are numbered from 0 to {last}")));
                return None;
            };
            return Some(Name { text: tree.items[*step].id.clone(), span });
        }
        self.target(field)
    }
}
