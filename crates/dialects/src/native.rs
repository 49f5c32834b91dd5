//! The native format: every step kind and every key of it.
//!
//! A file is read to its end whatever is wrong in it, so that all problems are shown at once. What cannot be read is
//! replaced by something harmless and reported; such a plan never runs.
//!
//! The top level:
//!
//! - `name` (default: the file's name without its ending), `alias`, `branch`, `description`
//! - `input`, `output_schema`: JSON Schema or the shorthand; `output`: a value with references
//! - `budget`, `timeout`, `inline_limit` (`64k`), `large_values`, `shutdown_timeout`, `max_recoveries`: bounds of a run
//! - `agents`, `tools`, `mcp`: what the steps use
//! - `steps`: the list of steps; `on_exit`: a list, or `always`/`success`/`failure`/`cancel` with a list each
//! - `on_failure`: `fail`, `partial` or `undo`; `on_step_failure`: `cancel`, `drain` or `collect`; `on_tool_drift`: `warn` or `fail`
//! - `triggers`, `notify`: checked here, used by the server

mod agents;
pub(crate) mod keys;
mod kinds;
mod pace;
mod people;
mod policies;
mod steps;
mod triggers;

pub(crate) use agents::server_name;
pub(crate) use kinds::DEFAULT_MAX;
pub(crate) use steps::article;
pub(crate) use triggers::DEFAULT_CONTINUOUS_DELAY_MS;
pub use triggers::read_trigger;

use relais_plan::step::{Step, Workflow};
use relais_plan::{ExitWhen, LaneFailure, LargeValues, Limits, OnToolDrift, Problem, RunFailure, Span};

use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::yaml::{Data, Node};

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    match reader.map(root, "a workflow", keys::TOP, "`steps: [{ agent: writer }]`") {
        Some(fields) => reader.top(&fields),
        None => Workflow::default(),
    }
}

impl Reader<'_> {
    fn top(&mut self, fields: &Fields<'_>) -> Workflow {
        if let Some(field) = fields.get("agents") {
            self.agents(field);
        }
        let mut workflow = Workflow {
            name: fields.get("name").and_then(|field| self.name(field)).unwrap_or_else(|| self.stem.clone()),
            alias: fields.get("alias").and_then(|field| self.name(field)),
            branch: fields.get("branch").and_then(|field| self.name(field)),
            description: fields.get("description").and_then(|field| self.text(field)).unwrap_or_default(),
            steps: self.top_steps(fields),
            exits: fields.get("on_exit").map(|field| self.exits(field)).unwrap_or_default(),
            input_schema: fields.get("input").and_then(|field| self.schema(field)),
            output: fields.get("output").map(|field| self.template(field)),
            output_schema: fields.get("output_schema").and_then(|field| self.schema(field)),
            tools: fields.get("tools").map(|field| self.tool_rules(field)).unwrap_or_default(),
            servers: fields.get("mcp").map(|field| self.servers(field)).unwrap_or_default(),
            limits: self.limits(fields),
            on_failure: self.run_failure(fields),
            on_tool_drift: self.tool_drift(fields),
            notify: fields.get("notify").map(|field| self.notify(field)).unwrap_or_default(),
            tags: fields.get("tags").map(|field| self.tags(field)).unwrap_or_default(),
            ..Workflow::default()
        };
        workflow.on_step_failure = self.step_failure(fields, &workflow.steps);
        workflow.triggers = fields.get("triggers").map(|field| self.triggers(field)).unwrap_or_default();
        workflow.agents = std::mem::take(&mut self.agents);
        workflow
    }

    fn top_steps(&mut self, fields: &Fields<'_>) -> Vec<Step> {
        let Some(field) = fields.get("steps") else {
            self.problems.push(
                Problem::error(Span::default(), "the workflow has no `steps`")
                    .help("add `steps:` with a list, such as `- agent: writer`"),
            );
            return Vec::new();
        };
        let Data::List(items) = &field.node.data else {
            self.wrong(field, "a list of steps", "`steps: [{ id: write, agent: writer }]`");
            return Vec::new();
        };
        if items.is_empty() {
            self.wrong(field, "at least one step", "`steps: [{ id: write, agent: writer }]`");
        }
        self.step_list(items, "step", 1)
    }

    /// A list runs always; a map says after which ending each list runs.
    fn exits(&mut self, field: Field<'_>) -> Vec<(ExitWhen, Vec<Step>)> {
        if let Data::List(items) = &field.node.data {
            return vec![(ExitWhen::Always, self.step_list(items, "exit", 1))];
        }
        let example = "`on_exit: { failure: [{ tool: send_message, with: { text: failed } }] }`";
        let Some(fields) = self.map(field.node, "`on_exit`", keys::EXIT, example) else {
            return Vec::new();
        };
        let mut exits = Vec::new();
        let mut first = 1;
        for field in fields.all() {
            let when = match field.key {
                "always" => ExitWhen::Always,
                "success" => ExitWhen::Success,
                "failure" => ExitWhen::Failure,
                "cancel" => ExitWhen::Cancel,
                _ => continue,
            };
            let steps = self.block(field, "exit", first);
            first += steps.len();
            exits.push((when, steps));
        }
        exits
    }

    fn limits(&mut self, fields: &Fields<'_>) -> Limits {
        let mut limits = Limits::default();
        if let Some(budget) = fields.get("budget").map(|field| self.budget(field)) {
            let model_calls = budget.model_calls.or(limits.budget.model_calls);
            limits.budget = relais_plan::Budget { model_calls, ..budget };
        }
        limits.timeout_ms = fields.get("timeout").and_then(|field| self.duration(field));
        if let Some(bytes) = fields.get("inline_limit").and_then(|field| self.size(field)) {
            limits.inline_bytes = bytes;
        }
        let words = [("blob", LargeValues::Blob), ("file", LargeValues::File)];
        limits.large_values =
            fields.get("large_values").and_then(|field| self.choice(field, &words)).unwrap_or_default();
        limits.shutdown_timeout_ms = fields.get("shutdown_timeout").and_then(|field| self.duration(field));
        if let Some(count) = fields.get("max_recoveries").and_then(|field| self.whole(field, 0)) {
            limits.max_recoveries = count;
        }
        limits
    }

    fn run_failure(&mut self, fields: &Fields<'_>) -> RunFailure {
        let words = [("fail", RunFailure::Fail), ("partial", RunFailure::Partial), ("undo", RunFailure::Undo)];
        fields.get("on_failure").and_then(|field| self.choice(field, &words)).unwrap_or_default()
    }

    /// It is about steps that run at the same time, so it needs a top level that is a DAG.
    fn step_failure(&mut self, fields: &Fields<'_>, steps: &[Step]) -> LaneFailure {
        let Some(field) = fields.get("on_step_failure") else { return LaneFailure::default() };
        if steps.iter().all(|step| step.needs.is_none()) {
            self.no_effect(
                field,
                "where no step has `needs`",
                "steps that run one after the other end with the first failure",
            );
        }
        self.lane_failure_word(field).unwrap_or_default()
    }

    fn tool_drift(&mut self, fields: &Fields<'_>) -> OnToolDrift {
        let words = [("warn", OnToolDrift::Warn), ("fail", OnToolDrift::Fail)];
        fields.get("on_tool_drift").and_then(|field| self.choice(field, &words)).unwrap_or_default()
    }
}
