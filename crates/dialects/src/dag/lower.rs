//! Nodes as steps: what each is given, after which others it runs, and what it says to its agent.
//!
//! - An agent node is an agent of its own under the node's id. Its input is saved as `node_ID_input.json`, its prompt
//!   never holds data, and it must end with a result mark.
//! - Input left out: no dependency, the workflow's input; one, its output; several are an error. Inside another node it
//!   is that of the node around; the node of a map is given the item.
//! - A list inside a node runs in order; the top level runs all at once that can. A node whose dependencies were all
//!   skipped is skipped, also where they stand inside other nodes.

use std::collections::{HashMap, HashSet};

use relais_plan::step::{Awaited, Branch, Kind, Name, Step};
use relais_plan::{Agent, Backoff, Call, Expr, LaneFailure, OnLimit, Problem, Retry, Schema, Span, Task, Template};
use serde_json::Value;

use super::keys::{self, Keys};
use super::links::{Links, Named};
use super::names::Names;
use super::nodes::{Nodes, Shape};
use super::personas::{Persona, Personas};
use super::prompt::{Injection, Prompt, artifact};
use crate::fields::Field;
use crate::reader::{Pin, Reader};
use crate::values::{output_of, step_of};
use crate::yaml::{Data, Node};

/// Passes and items where no limit is given.
const DEFAULT_LIMIT: u32 = 100;
/// Items at once; more would only wait for one another at the provider.
const MAX_AT_ONCE: u32 = 1_000;
/// Tries after the first where a strategy gives no limit.
const DEFAULT_TRIES: u32 = 3;
/// A node is corrected so often, for its schema and its references together.
const CORRECTIONS: u32 = 3;
/// What every agent of a node needs to read its input and to give a result.
const ARTIFACT_TOOLS: [&str; 3] = ["load_artifact", "save_artifact", "list_artifacts"];

/// What the workflow says about all of its nodes.
#[derive(Default)]
pub(super) struct Settings {
    pub workflow: String,
    /// The workflows of the same file.
    pub siblings: Vec<String>,
    pub injection: Injection,
    pub retry: Option<Retry>,
    pub timeout_ms: Option<u64>,
    pub max_iterations: Option<u32>,
    pub max_items: Option<u32>,
}

/// The expressions of one node, translated.
#[derive(Default)]
struct Read {
    when: Option<Expr>,
    input: Option<Template>,
    /// Its condition, its expression, or what it goes over.
    on: Option<Expr>,
    arms: Vec<Expr>,
}

pub(super) struct Lowering<'a, 'n, 'w> {
    pub reader: &'a mut Reader<'w>,
    pub names: Names,
    nodes: Nodes<'n>,
    personas: &'a Personas,
    settings: Settings,
    read: Vec<Read>,
    links: Links,
    /// By node, its place in the order of execution.
    places: Vec<usize>,
}

impl<'a, 'n, 'w> Lowering<'a, 'n, 'w> {
    pub fn new(
        reader: &'a mut Reader<'w>,
        nodes: Nodes<'n>,
        personas: &'a Personas,
        settings: Settings,
    ) -> Lowering<'a, 'n, 'w> {
        let mut names = Names::new(nodes.ids.clone());
        let loops = nodes.parts.iter().enumerate().filter(|(_, part)| matches!(part.shape, Shape::Loop { .. }));
        names.loops = loops.map(|(number, _)| number).collect();
        names.passes = nodes.passes();
        let links = Links { named: Vec::new(), after: Vec::new() };
        let (read, places) = (Vec::new(), Vec::new());
        let mut lowering = Lowering { reader, names, nodes, personas, settings, read, links, places };
        lowering.translate();
        lowering.number();
        lowering
    }

    /// Problems found on the way go to the reader.
    pub fn finish(self) {
        self.reader.problems.extend(self.names.problems);
    }

    fn translate(&mut self) {
        let mut named = Vec::with_capacity(self.nodes.parts.len());
        for number in 0..self.nodes.parts.len() {
            self.names.used.clear();
            let around = |&node: &usize| self.nodes.parts[node].parent;
            self.names.here = std::iter::successors(Some(number), around).collect();
            let read = self.translated(number);
            self.read.push(read);
            let read = std::mem::take(&mut self.names.used);
            named.push(Named { asked: self.depends_on(number), read });
        }
        self.links = Links::new(&self.nodes, named);
    }

    fn translated(&mut self, number: usize) -> Read {
        let part = &self.nodes.parts[number];
        let names = &mut self.names;
        let expression = |names: &mut Names, key: &str| part.keys.get(key).map(|field| names.expression(field.node));
        let when = expression(names, "when");
        let input = part.keys.get("input").map(|field| names.value(field.node));
        let mut read = Read { when, input, ..Read::default() };
        match &part.shape {
            Shape::Agent | Shape::Workflow | Shape::Fork { .. } => {}
            Shape::If { .. } => read.on = expression(names, "condition"),
            Shape::Cases { arms, by_value: true, .. } => {
                read.on = expression(names, "expression");
                let on = read.on.as_ref().map_or("none", |on| on.source()).to_owned();
                read.arms = arms.iter().map(|(value, _)| equals(names, &on, value.node)).collect();
            }
            Shape::Cases { arms, .. } => {
                read.arms = arms.iter().map(|(condition, _)| names.expression(condition.node)).collect();
            }
            Shape::Loop { .. } => {
                read.on = expression(names, "condition").or_else(|| expression(names, "iterate_over"));
            }
            Shape::Map { .. } => read.on = self.items(number),
        }
        read
    }

    /// What a map goes over: exactly one of its three forms.
    fn items(&mut self, number: usize) -> Option<Expr> {
        let part = &self.nodes.parts[number];
        let found: Vec<Field<'_>> =
            ["items", "with_items", "with_param"].into_iter().filter_map(|key| part.keys.get(key)).collect();
        let [field] = found.as_slice() else {
            let problem = Problem::error(part.span, "a map has exactly one of `items`, `withItems` and `withParam`");
            self.names.problems.push(problem.help("for example `items: \"{{extract.output.items}}\"`"));
            return None;
        };
        let Data::List(items) = &field.node.data else { return Some(self.names.expression(field.node)) };
        let items: Vec<String> = items.iter().map(|item| self.names.in_expression(item)).collect();
        Some(self.names.parsed(&format!("[{}]", items.join(", ")), field.node.span))
    }

    fn depends_on(&mut self, number: usize) -> Vec<usize> {
        let Some(field) = self.nodes.parts[number].keys.get("depends_on") else { return Vec::new() };
        let mut found = Vec::new();
        for name in self.reader.names(field) {
            match self.nodes.ids.get(&name.text) {
                Some(&other) if other == number => self
                    .reader
                    .problems
                    .push(Problem::error(name.span, format!("`{}` depends on itself", name.text)).help("take it out")),
                Some(&other) => found.push(other),
                None => {
                    let help = self.names.near(&name.text);
                    let message = format!("no node is called `{}`", name.text);
                    self.reader.problems.push(Problem::error(name.span, message).help(help));
                }
            }
        }
        found
    }

    /// Places in the order of execution: the top level sorted, the nodes inside a node behind it.
    fn number(&mut self) {
        self.places = vec![0; self.nodes.parts.len()];
        let top = self.nodes.top.clone();
        let order = self.links.order(&top).unwrap_or(top);
        let rank: HashMap<usize, usize> = order.iter().enumerate().map(|(rank, node)| (*node, rank)).collect();
        let outermost = |node: usize| {
            std::iter::successors(Some(node), |&node| self.nodes.parts[node].parent).last().unwrap_or(node)
        };
        let mut all: Vec<usize> = (0..self.nodes.parts.len()).collect();
        all.sort_by_key(|&node| (rank.get(&outermost(node)).copied().unwrap_or(usize::MAX), node));
        for (place, node) in (1..).zip(all) {
            self.places[node] = place;
        }
    }

    /// The nodes of the top level; each names what it comes after.
    pub fn top(&mut self) -> Vec<Step> {
        let top = self.nodes.top.clone();
        if let Err(circle) = self.links.order(&top) {
            self.circle(&circle);
            return Vec::new();
        }
        let alone = top.len() == 1;
        top.iter()
            .map(|&number| {
                let mut step = self.step(number);
                let inside =
                    self.links.named[number].asked.iter().any(|&other| self.nodes.parts[other].parent.is_some());
                self.guard(&mut step, number, inside);
                let needs = self.links.after[number].iter().map(|&other| self.name_of(other)).collect();
                step.needs = (!alone).then_some(needs);
                step
            })
            .collect()
    }

    /// A list inside a node, or one of `on_exit`.
    pub fn sequence(&mut self, list: &[usize]) -> Vec<Step> {
        let order = match self.links.order(list) {
            Ok(order) => order,
            Err(circle) => {
                self.circle(&circle);
                return Vec::new();
            }
        };
        let mut may_skip: HashSet<usize> = HashSet::new();
        let mut steps: Vec<Step> = Vec::with_capacity(order.len());
        for number in order {
            let mut step = self.step(number);
            let guarded = self.links.named[number].asked.iter().any(|other| may_skip.contains(other));
            self.guard(&mut step, number, guarded);
            if step.when.is_some() {
                may_skip.insert(number);
            }
            steps.push(step);
        }
        steps
    }

    fn circle(&mut self, circle: &[usize]) {
        let names: Vec<String> =
            circle.iter().take(20).map(|&node| format!("`{}`", self.nodes.parts[node].id)).collect();
        let span = circle.first().map_or_else(Span::default, |&node| self.nodes.parts[node].span);
        let message = format!("nodes depend on one another in a circle: {}", names.join(", "));
        self.reader.problems.push(Problem::error(span, message).help("take one of these dependencies out"));
    }

    fn name_of(&self, number: usize) -> Name {
        let part = &self.nodes.parts[number];
        Name { text: part.id.clone(), span: part.span }
    }

    /// A node whose dependencies were all skipped is skipped, too.
    fn guard(&self, step: &mut Step, number: usize, guarded: bool) {
        if !guarded {
            return;
        }
        let done = |&other: &usize| format!("{}.status == 'completed'", step_of(&self.nodes.parts[other].id));
        let any: Vec<String> = self.links.named[number].asked.iter().map(done).collect();
        let any = any.join(" or ");
        let text = match &step.when {
            Some(when) => format!("({any}) and ({})", when.source()),
            None => any,
        };
        step.when = Some(Expr::new(text, step.when.as_ref().map_or(step.span, |when| when.span())));
    }

    fn step(&mut self, number: usize) -> Step {
        let (word, kind) = self.kind(number);
        let part = &self.nodes.parts[number];
        let mut step = Step { id: Some(part.id.clone()), ..Step::new(word, kind, part.span) };
        step.when = self.read[number].when.clone();
        let worker = matches!(part.shape, Shape::Agent | Shape::Workflow);
        let (timeout, retry) = (part.keys.get("timeout"), part.keys.get("retry_strategy"));
        let around = part.parent.map(|parent| &self.nodes.parts[parent].shape);
        let output_key = part.keys.get("output_key").filter(|_| matches!(around, Some(Shape::Fork { .. })));
        step.timeout_ms = timeout.and_then(|field| self.reader.duration(field));
        step.timeout_ms = step.timeout_ms.or(self.settings.timeout_ms.filter(|_| worker));
        step.retry = match retry {
            Some(field) => self.reader.dag_strategy(field),
            None => self.settings.retry.clone().filter(|_| worker).unwrap_or_default(),
        };
        step.output_key = output_key.and_then(|field| self.reader.name(field));
        step
    }

    fn kind(&mut self, number: usize) -> (&'static str, Kind) {
        match &self.nodes.parts[number].shape {
            Shape::Agent => ("agent", self.agent(number)),
            Shape::Workflow => ("workflow", self.workflow(number)),
            Shape::If { then, other } => {
                let (then, other) = (then.clone(), other.clone());
                let when = self.asked(number, "condition");
                let arm = Branch { label: "then".into(), when, steps: self.sequence(&then) };
                let other = other.map(|list| self.sequence(&list));
                ("if", Kind::Choose { arms: vec![arm], other })
            }
            Shape::Cases { .. } => ("switch", self.cases(number)),
            Shape::Fork { branches } => {
                let branches = branches.clone();
                ("parallel", self.fork(number, &branches))
            }
            Shape::Loop { body } => {
                let body = body.clone();
                self.repeat(number, &body)
            }
            Shape::Map { body } => {
                let body = body.clone();
                ("for_each", self.map(number, &body))
            }
        }
    }

    /// The expression that a node cannot do without.
    fn asked(&mut self, number: usize, key: &str) -> Expr {
        let part = &self.nodes.parts[number];
        self.read[number].on.clone().unwrap_or_else(|| {
            let problem = Problem::error(part.span, format!("`{}` needs `{key}`", part.id));
            let help = format!("for example `{key}: \"{{{{classify.output.urgent}}}} == true\"`");
            self.reader.problems.push(problem.help(help));
            Expr::new("false", part.span)
        })
    }

    fn cases(&mut self, number: usize) -> Kind {
        let Shape::Cases { arms, other, by_value } = &self.nodes.parts[number].shape else {
            return Kind::Set(Vec::new());
        };
        let arms: Vec<(String, Vec<usize>)> = arms.iter().map(|(on, list)| (label(on.node), list.clone())).collect();
        let (other, by_value) = (other.clone(), *by_value);
        if by_value {
            self.asked(number, "expression");
        }
        let conditions = std::mem::take(&mut self.read[number].arms);
        let arms = arms
            .into_iter()
            .zip(conditions)
            .map(|((label, list), when)| Branch { label, when, steps: self.sequence(&list) })
            .collect();
        Kind::Choose { arms, other: other.map(|list| self.sequence(&list)) }
    }

    /// What is not waited for may finish by itself.
    fn fork(&mut self, number: usize, branches: &[usize]) -> Kind {
        for &branch in branches {
            if let Some(&other) = self.links.after[branch].iter().next() {
                let (own, other) = (&self.nodes.parts[branch], &self.nodes.parts[other].id);
                let message = format!("`{}` cannot come after `{other}`: branches of a fork run at once", own.id);
                self.reader.problems.push(Problem::error(own.span, message).help("make it a node behind the fork"));
            }
        }
        let lanes: Vec<Step> = branches.iter().map(|&branch| self.step(branch)).collect();
        let wait_for = match self.nodes.parts[number].keys.get("wait_for") {
            Some(field) => Awaited::Lanes(self.reader.names(field)),
            None => Awaited::All,
        };
        let detach = matches!(&wait_for, Awaited::Lanes(names) if names.len() < lanes.len());
        Kind::Parallel { lanes, on_failure: LaneFailure::Drain, wait_for, detach }
    }

    fn repeat(&mut self, number: usize, body: &[usize]) -> (&'static str, Kind) {
        let part = &self.nodes.parts[number];
        let has = |key: &str| part.keys.has(key);
        let (over, by_node) = (has("iterate_over"), has("node"));
        if over == has("condition") || (has("node") && has("loop_body")) {
            let problem = Problem::error(part.span, "a loop has a body, and either `iterate_over` or a `condition`");
            let help = "`loop_body` with `iterate_over` or with a `condition` that ends it; `node` with a `condition` \
                        that keeps it going";
            self.reader.problems.push(problem.help(help));
        }
        let delay = part.keys.get("delay").filter(|_| !over);
        if let Some(field) = part.keys.get("delay").filter(|_| over) {
            self.reader.no_effect(field, "on a loop over a list", "it belongs to a loop with a `condition`");
        }
        let (max, on) = (part.keys.get("max_iterations"), self.read[number].on.clone());
        let max = max.and_then(|field| self.reader.passes(field)).or(self.settings.max_iterations);
        let max = max.unwrap_or(DEFAULT_LIMIT);
        let delay_ms = delay.and_then(|field| self.reader.duration(field)).unwrap_or_default();
        let steps = self.sequence(body);
        let on = on.unwrap_or_else(|| Expr::new("true", Span::default()));
        if over {
            let (on_limit, on_failure) = (OnLimit::Fail, LaneFailure::Cancel);
            return ("for_each", Kind::ForEach { items: on, steps, at_once: 1, max, on_limit, on_failure });
        }
        let until = if by_node { Expr::new(format!("not ({})", on.source()), on.span()) } else { on };
        let on_limit = OnLimit::Complete;
        ("repeat", Kind::Repeat { while_: None, until: Some(until), delay_ms, steps, max, on_limit })
    }

    fn map(&mut self, number: usize, body: &[usize]) -> Kind {
        let keys = &self.nodes.parts[number].keys;
        let (max, width) = (keys.get("max_items"), keys.get("concurrency_limit"));
        let max = max.and_then(|field| self.reader.passes(field)).or(self.settings.max_items);
        let max = max.unwrap_or(DEFAULT_LIMIT);
        let width = width.and_then(|field| self.reader.whole(field, 1)).unwrap_or(max);
        let span = self.nodes.parts[number].span;
        let items = self.read[number].on.clone().unwrap_or_else(|| Expr::new("[]", span));
        let steps = self.sequence(body);
        let (at_once, on_limit) = (width.min(MAX_AT_ONCE), OnLimit::Fail);
        Kind::ForEach { items, steps, at_once, max, on_limit, on_failure: LaneFailure::Cancel }
    }

    fn workflow(&mut self, number: usize) -> Kind {
        let field = self.nodes.parts[number].keys.get("workflow");
        let mut workflow = field.and_then(|field| self.reader.name(field)).unwrap_or_default();
        // Another workflow of this file goes by its name alone.
        if self.settings.siblings.contains(&workflow) {
            workflow = format!("{}#{workflow}", self.reader.file);
        }
        let mut pin = Pin::default();
        match field {
            Some(field) if !workflow.is_empty() => match self.reader.workflows.pin(&workflow, field.node.span) {
                Ok(pinned) => pin = pinned,
                Err(problem) => {
                    self.reader.problems.push(problem.help("name the file, such as `workflow: ./other.yaml`"))
                }
            },
            Some(_) => {}
            None => {
                let problem = Problem::error(self.nodes.parts[number].span, "a workflow node needs `workflow`");
                self.reader.problems.push(problem.help("name the file, such as `workflow: ./other.yaml`"));
            }
        }
        let input = Some(self.input(number));
        let input_schema = self.overridden(number, "input_schema_override");
        let task = Task::Workflow { workflow, plan: pin.hash, takes: pin.takes };
        Kind::Call(Box::new(Call { input, input_schema, ..Call::new(task) }))
    }

    fn agent(&mut self, number: usize) -> Kind {
        let input = Some(self.input(number));
        let id = self.nodes.parts[number].id.clone();
        let agent = self.agent_of(number, input.as_ref());
        self.reader.agents.insert(id.clone(), agent);
        let prompt = Some(Template::plain(&format!("Execute your task as node '{id}'."), Span::default()));
        let input_as = Some(artifact(&id));
        let task = Task::Agent { agent: id, prompt };
        Kind::Call(Box::new(Call { input, input_as, ..Call::new(task) }))
    }

    /// The persona at this node: the same model and tools, the node's own prompt and schemas.
    fn agent_of(&mut self, number: usize, given: Option<&Template>) -> Agent {
        let persona = self.persona(number);
        let Persona { description, instruction, models, temperature, max_tokens, max_turns, result_limit, .. } = persona;
        let Persona { mut tools, input, output, .. } = persona;
        for tool in ARTIFACT_TOOLS {
            if !tools.iter().any(|known| known == tool) {
                tools.push(tool.to_owned());
            }
        }
        let input = self.overridden(number, "input_schema_override").or(input);
        let output = self.overridden(number, "output_schema_override").or(output);
        let request = self.request(number);
        let part = &self.nodes.parts[number];
        let prompt = Prompt {
            workflow: &self.settings.workflow,
            node: &part.id,
            position: (self.places[number], self.nodes.parts.len()),
            instruction: &instruction,
            request: request.as_ref().map(|(text, span)| (text.as_str(), *span)),
            fields: input_fields(given, input.as_ref()),
            input_schema: input.as_ref(),
            output_schema: output.as_ref(),
            injection: &self.settings.injection,
        };
        let instructions = prompt.template(&mut self.reader.problems);
        Agent {
            description,
            models,
            instructions,
            tools,
            input,
            output,
            temperature,
            max_tokens,
            max_turns: max_turns.unwrap_or(Agent::default().max_turns),
            result_limit,
            output_retries: CORRECTIONS,
            result_mark: true,
            span: part.span,
            ..Agent::default()
        }
    }

    fn persona(&mut self, number: usize) -> Persona {
        let Some(name) = self.reader.persona_name(&self.nodes.parts[number].keys) else { return Persona::default() };
        match self.personas.get(&name.text) {
            Some(persona) => persona.clone(),
            None => {
                let problem = self.personas.unknown(&name, self.reader);
                self.reader.problems.push(problem);
                Persona::default()
            }
        }
    }

    fn overridden(&mut self, number: usize, key: &str) -> Option<Schema> {
        let field = self.nodes.parts[number].keys.get(key)?;
        self.reader.schema(field)
    }

    fn request(&mut self, number: usize) -> Option<(String, Span)> {
        let keys = &self.nodes.parts[number].keys;
        let (template, instruction) = (keys.get("request_template"), keys.get("instruction"));
        if let (Some(_), Some(field)) = (template, instruction) {
            self.reader.no_effect(field, "beside `request_template`", "say what is asked in one of the two");
        }
        let field = template.or(instruction)?;
        Some((self.reader.text(field)?, field.node.span))
    }

    /// What a node is given: what it maps, else what can be inferred.
    fn input(&mut self, number: usize) -> Template {
        let mut at = number;
        loop {
            if let Some(input) = &self.read[at].input {
                return input.clone();
            }
            let part = &self.nodes.parts[at];
            match (self.links.named[at].sources(), part.parent) {
                ([], None) => return self.refer("input", part.span),
                ([], Some(parent)) if matches!(self.nodes.parts[parent].shape, Shape::Map { .. }) => {
                    return self.refer("item", part.span);
                }
                ([], Some(parent)) => at = parent,
                ([one], _) => return self.refer(&output_of(&self.nodes.parts[*one].id), part.span),
                (several, _) => {
                    let several: Vec<&str> = several.iter().map(|&other| self.nodes.parts[other].id.as_str()).collect();
                    let problem = several_sources(&self.nodes.parts[number].id, &part.id, &several, part.span);
                    self.reader.problems.push(problem);
                    return Template::Literal(Value::Null);
                }
            }
        }
    }

    fn refer(&self, text: &str, span: Span) -> Template {
        Template::Ref(Expr::new(text, span))
    }

    /// `on_exit`: ids or nodes that run always, or by how the run has ended.
    pub fn exits(
        &mut self,
        lists: Vec<(relais_plan::ExitWhen, Vec<usize>)>,
    ) -> Vec<(relais_plan::ExitWhen, Vec<Step>)> {
        lists.into_iter().map(|(when, list)| (when, self.sequence(&list))).collect()
    }

    /// A value of the workflow's own.
    pub fn value(&mut self, node: &Node) -> Template {
        self.names.here.clear();
        self.names.value(node)
    }
}

fn several_sources(id: &str, around: &str, several: &[&str], span: Span) -> Problem {
    let whose = if id == around { String::new() } else { format!(" (through `{around}`)") };
    let message =
        format!("`{id}` depends{whose} on several nodes ({}), and its `input` is left out", several.join(", "));
    let fields: Vec<String> = several.iter().take(3).map(|id| format!("{id}: \"{{{{{id}.output}}}}\"")).collect();
    Problem::error(span, message).help(format!("say what it is given: `input: {{ {} }}`", fields.join(", ")))
}

fn equals(names: &mut Names, on: &str, value: &Node) -> Expr {
    let literal = match &value.data {
        Data::Scalar(Value::String(text)) => crate::values::quote(text),
        Data::Scalar(value) => crate::values::literal(value).unwrap_or_else(|_| "none".to_owned()),
        Data::List(_) | Data::Map(_) => {
            let problem = Problem::error(value.span, "a case is compared with one value, not a list or a map");
            names.problems.push(problem.help("for example `value: high`"));
            "none".to_owned()
        }
    };
    names.parsed(&format!("({on}) == {literal}"), value.span)
}

/// How an arm is called in the trace.
fn label(node: &Node) -> String {
    node.as_text().map_or_else(|| node.to_value().to_string(), str::to_owned)
}

impl Reader<'_> {
    /// `retry_strategy`. `Always` and `OnFailure` retry what failed for any reason that can pass, `OnError` only what
    /// went wrong around the node, `OnTransientError` only what is known to pass. A timeout and an explicit failure are
    /// never retried.
    pub(super) fn dag_strategy(&mut self, field: Field<'_>) -> Retry {
        let mut retry = Retry { max_attempts: DEFAULT_TRIES, never: vec!["timeout".to_owned()], ..Retry::default() };
        let Some(keys) = self.dag_keys(field.node, &keys::RETRY) else { return retry };
        let words: [(&str, &[&str]); 4] = [
            ("Always", &[]),
            ("OnFailure", &[]),
            ("OnError", &["transport", "rate_limit", "provider", "internal"]),
            ("OnTransientError", &["transport", "rate_limit"]),
        ];
        if let Some(limit) = keys.get("limit").and_then(|field| self.whole(field, 0)) {
            retry.max_attempts = limit;
        }
        let on = keys.get("retry_policy").and_then(|field| self.choice(field, &words)).unwrap_or_default();
        retry.on = on.iter().map(|kind| (*kind).to_owned()).collect();
        if let Some(backoff) = keys.get("backoff").and_then(|field| self.dag_keys(field.node, &keys::BACKOFF)) {
            self.dag_backoff(&backoff, &mut retry);
        }
        // No try after the first: nothing else of it matters.
        if retry.max_attempts == 0 { Retry::default() } else { retry }
    }

    fn dag_backoff(&mut self, keys: &Keys<'_>, retry: &mut Retry) {
        retry.backoff = Backoff::Exponential;
        if let Some(ms) = keys.get("duration").and_then(|field| self.duration(field)) {
            retry.delay_ms = ms;
        }
        if let Some(factor) = keys.get("factor").and_then(|field| self.dag_factor(field)) {
            retry.factor = factor;
        }
        retry.max_delay_ms = keys.get("max_duration").and_then(|field| self.duration(field));
    }
}

/// The fields of a node's input: those it is given, else those its schema declares and no others.
fn input_fields(given: Option<&Template>, schema: Option<&Schema>) -> Option<Vec<String>> {
    match given {
        Some(Template::Map(fields)) => return Some(fields.iter().map(|(key, _)| key.clone()).collect()),
        Some(Template::Literal(Value::Object(map))) => return Some(map.keys().cloned().collect()),
        Some(Template::Literal(_) | Template::Ref(_) | Template::Text(_) | Template::List(_)) | None => {}
    }
    let json = schema?.json();
    let is_open = json.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    let properties = json.get("properties").filter(|_| !is_open)?.as_object()?;
    Some(properties.keys().cloned().collect())
}
