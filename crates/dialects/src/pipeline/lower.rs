//! The steps of the tree as steps of a workflow. Here it is decided which steps go back: those that say so, those in an
//! arm that have the id of an earlier step, and the one in an arm that only runs an earlier step's agent again.

use std::collections::HashMap;

use relais_plan::step::{Awaited, Branch, Kind, Name, Step};
use relais_plan::{Call, Expr, Problem, Span, Task, Template};

use super::Condition;
use super::order::Order;
use super::tree::{Place, Tree, What};
use crate::reader::Reader;

/// What an agent is told: what all steps before it gave, then what the run was started with.
const PROMPT: &str = "{% if earlier %}--- Prior Step Outputs ---\n\n\
                      {% for step in earlier %}[{{ step.path }} (agent: {{ step.agent }})]:\n{{ step.said }}\n\n\
                      {% endfor %}--- End Prior Step Outputs ---\n\n\
                      {% endif %}{{ input.prompt | default('Follow your instructions.') }}";

pub(super) struct Lowering<'a, 'w, 'n> {
    tree: &'a Tree<'n>,
    conditions: HashMap<usize, Condition>,
    order: Order,
    /// How often a step may run in one cycle.
    limit: u32,
    reader: &'a mut Reader<'w>,
    prompt: Option<Template>,
    /// The top steps of each agent, in the order in which they run.
    by_agent: HashMap<String, Vec<usize>>,
}

impl<'a, 'w, 'n> Lowering<'a, 'w, 'n> {
    pub(super) fn new(
        tree: &'a Tree<'n>,
        conditions: HashMap<usize, Condition>,
        order: Order,
        limit: u32,
        reader: &'a mut Reader<'w>,
    ) -> Lowering<'a, 'w, 'n> {
        let mut by_agent: HashMap<String, Vec<usize>> = HashMap::new();
        for step in order.lists.first().into_iter().flatten() {
            if let What::Agent(agent) = &tree.items[*step].what {
                by_agent.entry(agent.text.clone()).or_default().push(*step);
            }
        }
        let prompt = Template::text(PROMPT, Span::default()).map_err(|problem| reader.problems.push(problem)).ok();
        Lowering { tree, conditions, order, limit, reader, prompt, by_agent }
    }

    pub(super) fn steps(mut self) -> Vec<Step> {
        self.list(Some(0))
    }

    fn list(&mut self, list: Option<usize>) -> Vec<Step> {
        let steps = list.and_then(|list| self.order.lists.get(list)).cloned().unwrap_or_default();
        steps.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: usize) -> Step {
        let item = &self.tree.items[step];
        if let Some(target) = self.back_to(step) {
            return self.going_back(step, target);
        }
        let mut made = match &item.what {
            What::Agent(agent) => Step::new("agent", self.call(agent), item.span),
            What::Condition { yes, no, .. } => Step::new("if", self.choose(step, *yes, *no), item.span),
            What::Parallel { children, on_failure } => {
                let (lanes, on_failure) = (self.list(Some(*children)), *on_failure);
                let wait_for = Awaited::All;
                Step::new("parallel", Kind::Parallel { lanes, on_failure, wait_for, detach: false }, item.span)
            }
            What::Goto(field) => match self.reader.goto_target(*field, self.tree) {
                Some(to) => Step::new("goto", Kind::Goto { to, max: Some(self.limit) }, item.span),
                None => nothing(item.span),
            },
            What::Nothing => nothing(item.span),
        };
        made.id = Some(item.id.clone());
        made.name = item.name.clone().filter(|name| *name != item.id);
        made.timeout_ms = item.timeout.and_then(|field| self.reader.duration(field));
        made.retry = item.retry.as_ref().map(|(retry, _)| retry.clone()).unwrap_or_default();
        made
    }

    fn call(&self, agent: &Name) -> Kind {
        let task = Task::Agent { agent: agent.text.clone(), prompt: self.prompt.clone() };
        Kind::Call(Box::new(Call::new(task)))
    }

    fn choose(&mut self, step: usize, yes: Option<usize>, no: Option<usize>) -> Kind {
        let span = self.tree.items[step].span;
        let when = self.conditions.remove(&step).map_or_else(|| Expr::new("false", span), |condition| condition.when);
        let arms = vec![Branch { label: "then".into(), when, steps: self.list(yes) }];
        Kind::Choose { arms, other: no.map(|list| self.list(Some(list))) }
    }

    /// The earlier step that a step in an arm means.
    fn back_to(&self, step: usize) -> Option<usize> {
        let item = &self.tree.items[step];
        let list = &self.tree.lists[item.list];
        if list.place != Place::Arm || !matches!(item.what, What::Agent(_)) {
            return None;
        }
        let named = self.tree.ids.get(&item.id).copied().filter(|other| *other != step);
        match named {
            Some(other) => self.is_earlier(other, step).then_some(other),
            None => self.same_agent(step),
        }
    }

    /// Does the other step run before this one, in its list or in one around it?
    fn is_earlier(&self, other: usize, step: usize) -> bool {
        let list = self.tree.items[other].list;
        let beside = self.tree.around(step).find(|around| self.tree.items[*around].list == list);
        beside.is_some_and(|beside| self.order.rank[other] < self.order.rank[beside])
    }

    /// The only step of an arm of a condition of the workflow itself: the last step before it that runs its agent.
    fn same_agent(&self, step: usize) -> Option<usize> {
        let item = &self.tree.items[step];
        let list = &self.tree.lists[item.list];
        let What::Agent(agent) = &item.what else { return None };
        let condition = list.owner.filter(|owner| self.tree.items[*owner].list == 0 && list.items.len() == 1)?;
        let steps = self.by_agent.get(&agent.text)?;
        let before = steps.partition_point(|other| self.order.rank[*other] < self.order.rank[condition]);
        before.checked_sub(1).and_then(|last| steps.get(last)).copied()
    }

    /// A step that is written like another one and means: go on there.
    fn going_back(&mut self, step: usize, target: usize) -> Step {
        let (item, other) = (&self.tree.items[step], &self.tree.items[target]);
        let same_id = item.id == other.id;
        if let Some((_, retry)) = &item.retry {
            let help = format!("`retry` of `{}` itself is what counts", other.id);
            self.reader.no_effect(*retry, "on a step that goes back", &help);
        }
        if let Some(timeout) = item.timeout {
            let help = format!("`timeout` of `{}` itself is what counts", other.id);
            self.reader.no_effect(timeout, "on a step that goes back", &help);
        }
        match differs(&item.what, &other.what) {
            Some(there) => {
                let message = format!("`{}` is an earlier step, and that one {there}", other.id);
                let problem = Problem::error(item.span, message);
                self.reader
                    .problems
                    .push(problem.help(format!("give this step another id, or say `goto: {}`", other.id)));
            }
            None => {
                let why = if same_id { "has its id" } else { "runs its agent" };
                let message = format!("this step goes back to `{}`: it {why}", other.id);
                let help = format!("`goto: {}` says it outright", other.id);
                self.reader.problems.push(Problem::warning(item.span, message).help(help));
            }
        }
        let to = Name { text: other.id.clone(), span: item.span };
        let id = if same_id { item.position.clone() } else { item.id.clone() };
        Step { id: Some(id), ..Step::new("goto", Kind::Goto { to, max: Some(self.limit) }, item.span) }
    }
}

/// What the step that is gone back to does, if it is not what is written here.
fn differs(here: &What<'_>, there: &What<'_>) -> Option<String> {
    match (here, there) {
        (What::Agent(here), What::Agent(there)) if here.text == there.text => None,
        (_, What::Agent(there)) => Some(format!("runs `{}`", there.text)),
        (_, What::Condition { .. } | What::Parallel { .. } | What::Goto(_) | What::Nothing) => {
            Some("runs no agent".into())
        }
    }
}

/// Stands for a step that could not be read, so that the rest of the file can be.
fn nothing(span: Span) -> Step {
    Step::new("set", Kind::Set(Vec::new()), span)
}
