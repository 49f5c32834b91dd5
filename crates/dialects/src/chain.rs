//! The format `chain`: executors one after the other, each handing its structured output to the next.
//!
//! A file is a workflow spec or the arguments of the tool `create_workflow`, as JSON, YAML or the Python text they are
//! usually written in ([`python`]):
//!
//! - `workflow_id` (kept as the workflow's second name), `name` (default: the `workflow_id`, else the file's name),
//!   `description`
//! - `executors`: see [`executor`]; how `$previous_output` is filled in: see [`prompt`]
//! - `schedule_type`: `immediate` (default: no trigger), `scheduled` with `schedule_time`, `recurring` with
//!   `cron_expression`; both take words ("tomorrow 9am", "daily at 9am")
//! - `notify_on_complete` (default false), `notify_on_failure` (default true)
//!
//! `user_id` and `thread_id` belong to whoever starts a run, so a file that fixes them is refused. A value that is null
//! counts as left out. A run that fails after an executor has succeeded is a partial success and keeps the last output;
//! large outputs lie as files in the run's workspace.

mod executor;
mod looping;
mod prompt;
mod python;
mod shared;

use std::collections::HashSet;

use relais_plan::step::{Step, Workflow};
use relais_plan::{LargeValues, Limits, Notify, Problem, Problems, RunFailure, Schema, Source, Span, Trigger};
use serde_json::json;

use crate::fields::{Field, Fields, given};
use crate::reader::Reader;
use crate::yaml::{Data, Node};
use prompt::Kept;

const KEYS: &[&str] = &[
    "workflow_id",
    "name",
    "description",
    "executors",
    "schedule_type",
    "schedule_time",
    "cron_expression",
    "notify_on_complete",
    "notify_on_failure",
    "user_id",
    "thread_id",
];
const EXAMPLE: &str = "`{\"name\": \"Prices\", \"executors\": [{\"executor_id\": \"fetch\", …}]}`";
const EXECUTOR_EXAMPLE: &str = "`\"executors\": [{\"executor_id\": \"fetch\", \"model\": \"gpt-4o-mini\", \"tools\": \
                                [\"search_web\"], \"system_prompt\": \"…\", \"output_schema\": {\"prices\": [\"float\"]}}]`";

/// The text is Python, not YAML or JSON.
pub(crate) fn is_python(text: &str) -> bool {
    python::begins(text)
}

pub(crate) fn python(source: &Source) -> Result<Node, Problems> {
    python::parse(source)
}

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    match reader.map(root, "a workflow", KEYS, EXAMPLE) {
        Some(fields) => reader.chain(&fields),
        None => Workflow::default(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Schedule {
    Immediate,
    Scheduled,
    Recurring,
}

impl Reader<'_> {
    fn chain(&mut self, fields: &Fields<'_>) -> Workflow {
        self.refuse_caller(fields);
        let alias = given(fields, "workflow_id").and_then(|field| self.name(field));
        let name = given(fields, "name").and_then(|field| self.name(field));
        let (steps, kept) = self.executors(fields);
        let large_values = if kept == Kept::File { LargeValues::File } else { LargeValues::Blob };
        Workflow {
            name: name.or_else(|| alias.clone()).unwrap_or_else(|| self.stem.clone()),
            alias,
            description: given(fields, "description").and_then(|field| self.text(field)).unwrap_or_default(),
            steps,
            input_schema: no_input(),
            agents: std::mem::take(&mut self.agents),
            limits: Limits { large_values, ..Limits::default() },
            on_failure: RunFailure::Partial,
            triggers: self.chain_trigger(fields).into_iter().collect(),
            notify: self.chain_notify(fields),
            ..Workflow::default()
        }
    }

    /// Who runs a workflow, and in which conversation, is not for the file to say.
    fn refuse_caller(&mut self, fields: &Fields<'_>) {
        for (key, help) in [
            ("user_id", "a run belongs to the user who starts it; take it out"),
            ("thread_id", "give it when the run starts: `relais run --thread THREAD`"),
        ] {
            if let Some(field) = given(fields, key) {
                self.no_effect(field, "in a file", help);
            }
        }
    }

    fn executors(&mut self, fields: &Fields<'_>) -> (Vec<Step>, Kept) {
        let Some(field) = given(fields, "executors") else {
            let problem = Problem::error(fields.span, "the chain has no `executors`");
            self.problems.push(problem.help(format!("for example {EXECUTOR_EXAMPLE}")));
            return (Vec::new(), Kept::File);
        };
        let Data::List(items) = &field.node.data else {
            self.wrong(field, "a list of executors", EXECUTOR_EXAMPLE);
            return (Vec::new(), Kept::File);
        };
        if items.is_empty() {
            self.wrong(field, "at least one executor", EXECUTOR_EXAMPLE);
        }
        let kept = self.kept(items);
        let mut chain = executor::Chain { kept, previous: None, ids: ids(items) };
        let steps = items.iter().filter_map(|item| self.executor(item, &mut chain)).collect();
        (steps, kept)
    }

    fn chain_trigger(&mut self, fields: &Fields<'_>) -> Option<Trigger> {
        let words = [
            ("immediate", Schedule::Immediate),
            ("scheduled", Schedule::Scheduled),
            ("recurring", Schedule::Recurring),
        ];
        let kind = given(fields, "schedule_type");
        let schedule = kind.map_or(Some(Schedule::Immediate), |field| self.choice(field, &words))?;
        let time = self.schedule_part(fields, "schedule_time", "scheduled", schedule == Schedule::Scheduled);
        let cron = self.schedule_part(fields, "cron_expression", "recurring", schedule == Schedule::Recurring);
        let on = match schedule {
            Schedule::Immediate => None,
            Schedule::Scheduled => self.needed(time, kind, "schedule_time", "tomorrow 9am").and_then(|f| self.at(f)),
            Schedule::Recurring => {
                self.needed(cron, kind, "cron_expression", "0 9 * * MON-FRI").and_then(|field| self.cron(field))
            }
        };
        on.map(Trigger::new)
    }

    /// A time that the schedule type does not use contradicts it.
    fn schedule_part<'n>(&mut self, fields: &Fields<'n>, key: &str, word: &str, is_used: bool) -> Option<Field<'n>> {
        let field = given(fields, key)?;
        if !is_used {
            let help = format!("it belongs to `\"schedule_type\": \"{word}\"`");
            self.no_effect(field, "with this schedule type", &help);
        }
        Some(field)
    }

    fn needed<'n>(
        &mut self,
        field: Option<Field<'n>>,
        kind: Option<Field<'_>>,
        key: &str,
        example: &str,
    ) -> Option<Field<'n>> {
        if let (None, Some(kind)) = (field, kind) {
            let message = format!("this schedule type needs `{key}`");
            let help = format!("for example `\"{key}\": \"{example}\"`");
            self.problems.push(Problem::error(kind.node.span, message).help(help));
        }
        field
    }

    fn chain_notify(&mut self, fields: &Fields<'_>) -> Notify {
        let default = Notify::default();
        let on_complete = given(fields, "notify_on_complete").and_then(|field| self.flag(field));
        let on_failure = given(fields, "notify_on_failure").and_then(|field| self.flag(field));
        Notify {
            on_complete: on_complete.unwrap_or(default.on_complete),
            on_failure: on_failure.unwrap_or(default.on_failure),
            ..default
        }
    }
}

/// A chain reads no input, so one that is given is a mistake.
fn no_input() -> Option<Schema> {
    Schema::written(&json!({ "type": "object", "properties": {}, "additionalProperties": false })).ok()
}

/// All ids of executors, so that ids made for steps inside loops are none of them.
fn ids(items: &[Node]) -> HashSet<String> {
    let id = |item: &Node| match &item.data {
        Data::Map(entries) => {
            entries.iter().find(|entry| entry.key == "executor_id")?.value.as_text().map(str::to_owned)
        }
        Data::List(_) | Data::Scalar(_) => None,
    };
    items.iter().filter_map(id).collect()
}

/// The place of a key's value, or of the map that lacks it.
fn place(fields: &Fields<'_>, key: &str) -> Span {
    fields.get(key).map_or(fields.span, |field| field.node.span)
}
