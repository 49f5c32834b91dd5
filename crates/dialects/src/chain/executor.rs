//! One executor: an agent and the step that runs it.
//!
//! - `executor_id`: the id of the step, of the agent, and in the name of the file of a large output
//! - `name`, `description`: of the step, for people; `model` (default: the configured one), `tools` (names; an unknown one is an error)
//! - `system_prompt`, `iteration_hint` (appended to it as `Iteration hint: …`)
//! - `output_schema`: JSON Schema or the shorthand; with a `loop`, of one pass
//! - `loop`: see [`looping`](super::looping)
//! - `set`: shared variables, written when the executor has ended: see [`shared`](super::shared)
//! - `result_limit`: how much of a tool's result it is told at once (`64k`)
//! - `output_ref`: where a large output is kept, `{"type": "file"}` (default) or `{"type": "db"}`; the same for all

use std::collections::HashSet;

use relais_plan::step::{Kind, Step};
use relais_plan::{Agent, Call, Problem, Schema, Span, Task};

use super::looping::Loop;
use super::prompt::{Kept, Previous, Prompts};
use super::{given, place};
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::yaml::{Data, Node};

const KEYS: &[&str] = &[
    "executor_id",
    "name",
    "description",
    "model",
    "tools",
    "system_prompt",
    "output_schema",
    "iteration_hint",
    "loop",
    "output_ref",
    "set",
    "result_limit",
];
const EXAMPLE: &str = "`{\"executor_id\": \"fetch\", \"model\": \"gpt-4o-mini\", \"tools\": [\"search_web\"], \
                       \"system_prompt\": \"…\", \"output_schema\": {\"prices\": [\"float\"]}}`";
/// Tools of the same use under other names.
const OTHER_NAMES: &[(&str, &str)] = &[("execute_python", "run_python")];

/// What an executor must know of the others.
pub(super) struct Chain {
    pub kept: Kept,
    /// The id of the executor before.
    pub previous: Option<String>,
    /// Ids that are taken.
    pub ids: HashSet<String>,
}

impl Chain {
    /// An id for a step inside a loop that no executor has.
    pub fn inner_id(&mut self, id: &str, end: &str) -> String {
        let mut inner = format!("{id}_{end}");
        while !self.ids.insert(inner.clone()) {
            inner.push('_');
        }
        inner
    }
}

impl Reader<'_> {
    pub(super) fn executor(&mut self, node: &Node, chain: &mut Chain) -> Option<Step> {
        let fields = self.map(node, "an executor", KEYS, EXAMPLE)?;
        let name = self.said(&fields, "name");
        let description = self.said(&fields, "description");
        let id = self.executor_id(&fields)?;
        let looping = given(&fields, "loop").and_then(|field| self.looping(field));
        let inner = looping.as_ref().map(|looping| chain.inner_id(&id, looping.word()));
        let previous = Previous::new(chain.previous.as_deref(), looping.as_ref(), inner.as_deref());
        let Prompts { system, user } = self.executor_prompts(&fields, &previous, chain.kept);
        let agent = Agent {
            models: given(&fields, "model").map(|field| self.texts(field)).unwrap_or_default(),
            instructions: system,
            tools: given(&fields, "tools").map(|field| self.executor_tools(field)).unwrap_or_default(),
            output: self.output_schema(&fields),
            result_limit: given(&fields, "result_limit").and_then(|field| self.result_limit(field)),
            span: place(&fields, "executor_id"),
            ..Agent::default()
        };
        self.agents.insert(id.clone(), agent);
        let task = Task::Agent { agent: id.clone(), prompt: Some(user) };
        let call = Call::new(task);
        let mut step = Step::new("agent", Kind::Call(Box::new(call)), place(&fields, "executor_id"));
        step.id = Some(inner.unwrap_or_else(|| id.clone()));
        if let Some(looping) = looping {
            self.check_kept(&looping, chain.kept, step.span);
            step = self.looped(looping, step, &id, chain.previous.as_deref());
        }
        step.save = given(&fields, "set").map(|field| self.shared(field, &id)).unwrap_or_default();
        chain.previous = Some(id);
        Some(Step { name, description, ..step })
    }

    /// Text for people, unless it is empty.
    fn said(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        given(fields, key).and_then(|field| self.text(field)).filter(|text| !text.trim().is_empty())
    }

    /// What a `for_each` gives is put together when it is read; there is no one row that holds it.
    fn check_kept(&mut self, looping: &Loop, kept: Kept, span: Span) {
        if let (Loop::ForEach { .. }, Kept::Db) = (looping, kept) {
            let problem = Problem::error(span, "the results of a `for_each` cannot be kept as one row of the database");
            self.problems
                .push(problem.help("let the chain keep its outputs as files: `\"output_ref\": {\"type\": \"file\"}`"));
        }
    }

    fn executor_id(&mut self, fields: &Fields<'_>) -> Option<String> {
        let Some(field) = given(fields, "executor_id") else {
            let problem = Problem::error(fields.span, "the executor has no `executor_id`");
            self.problems.push(problem.help(format!("for example {EXAMPLE}")));
            return None;
        };
        self.name(field)
    }

    fn executor_prompts(&mut self, fields: &Fields<'_>, previous: &Previous<'_>, kept: Kept) -> Prompts {
        let system = given(fields, "system_prompt");
        if system.is_none() {
            let problem = Problem::error(fields.span, "the executor has no `system_prompt`");
            self.problems.push(problem.help("say what it does: `\"system_prompt\": \"You are a price fetcher. …\"`"));
        }
        let span = place(fields, "system_prompt");
        let mut text = system.and_then(|field| self.text(field)).unwrap_or_default();
        if let Some(hint) = given(fields, "iteration_hint").and_then(|field| self.text(field)) {
            text = format!("{text}\n\nIteration hint: {hint}");
        }
        self.prompts(&text, span, previous, kept)
    }

    fn executor_tools(&mut self, field: Field<'_>) -> Vec<String> {
        let known = |tool: String| match OTHER_NAMES.iter().find(|(name, _)| *name == tool) {
            Some((_, ours)) => (*ours).to_owned(),
            None => tool,
        };
        self.texts(field).into_iter().map(known).collect()
    }

    fn output_schema(&mut self, fields: &Fields<'_>) -> Option<Schema> {
        let Some(field) = given(fields, "output_schema") else {
            let problem = Problem::error(fields.span, "the executor has no `output_schema`");
            let help = "executors hand on checked JSON: `\"output_schema\": {\"summary\": \"str\"}`";
            self.problems.push(problem.help(help));
            return None;
        };
        self.schema(field)
    }

    /// Where large outputs are kept. One place for a whole chain, so that no prompt has to list who keeps what where.
    pub(super) fn kept(&mut self, executors: &[Node]) -> Kept {
        let mut first: Option<Kept> = None;
        for executor in executors {
            let Data::Map(entries) = &executor.data else { continue };
            let fields = Fields::new(executor.span, entries);
            let Some(field) = given(&fields, "output_ref") else { continue };
            let Some(kept) = self.output_ref(field) else { continue };
            if *first.get_or_insert(kept) != kept {
                let problem = Problem::error(field.node.span, "an executor above keeps its output in another place");
                self.problems.push(problem.help("all executors of a chain keep large outputs in the same place"));
            }
        }
        first.unwrap_or(Kept::File)
    }

    fn output_ref(&mut self, field: Field<'_>) -> Option<Kept> {
        let example = "`\"output_ref\": {\"type\": \"file\"}`";
        let fields = self.map(field.node, "`output_ref`", &["type", "path", "kb_id", "table", "row_id"], example)?;
        for made in ["path", "table", "row_id", "kb_id"].iter().filter_map(|key| given(&fields, key)) {
            self.no_effect(made, "here", "a run says by itself where it has put an output");
        }
        let Some(kind) = given(&fields, "type") else {
            let problem = Problem::error(field.node.span, "`output_ref` has no `type`");
            self.problems.push(problem.help(format!("for example {example}")));
            return None;
        };
        if kind.node.as_text() == Some("kb") {
            let problem = Problem::error(kind.node.span, "no knowledge store is configured for outputs of type `kb`");
            self.problems.push(problem.help("use `file` (readable by read_file) or `db`"));
            return None;
        }
        self.choice(kind, &[("file", Kept::File), ("db", Kept::Db)])
    }
}
