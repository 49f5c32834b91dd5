//! `loop`: an executor that runs once for each item, or again and again.
//!
//! - `none`: as if it were left out
//! - `for_each`: once for each item of the list at `input_path` of the previous output (the output itself without
//!   one), at most `max_items` (default 100; the rest is left out, and the trace says how many). Its output is
//!   `{results, count, ended_by}`.
//! - `repeat_until`: until the value at `predicate_path` of its own output, as text, is `predicate_value`, at most
//!   `max_iters` times (default 100; it then completes all the same, ended by its limit). Its output is that of the
//!   last pass.
//!
//! A field without effect on the type of loop is an error.

use relais_plan::step::{Kind, Step};
use relais_plan::{Expr, OnLimit, Problem, Span};
use serde_json::Value;

use super::given;
use super::prompt::path_of;
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::values::{output_of, quote};
use crate::yaml::Data;

const KEYS: &[&str] = &["type", "input_path", "max_items", "max_iters", "predicate_path", "predicate_value"];
const EXAMPLE: &str = "`\"loop\": {\"type\": \"for_each\", \"input_path\": \"prices\", \"max_items\": 20}`";
const DEFAULT_MAX: u32 = 100;

pub(super) enum Loop {
    ForEach {
        /// Below the previous output, as an expression goes on: `["prices"]`.
        path: String,
        max: u32,
        span: Span,
    },
    RepeatUntil {
        path: String,
        value: String,
        max: u32,
        span: Span,
    },
}

impl Loop {
    /// What one pass is called.
    pub fn word(&self) -> &'static str {
        match self {
            Loop::ForEach { .. } => "item",
            Loop::RepeatUntil { .. } => "pass",
        }
    }
}

#[derive(Clone, Copy)]
enum Type {
    None,
    ForEach,
    RepeatUntil,
}

impl Reader<'_> {
    pub(super) fn looping(&mut self, field: Field<'_>) -> Option<Loop> {
        let fields = self.map(field.node, "`loop`", KEYS, EXAMPLE)?;
        let Some(word) = given(&fields, "type") else {
            let problem = Problem::error(field.node.span, "`loop` has no `type`");
            self.problems.push(problem.help(format!("for example {EXAMPLE}")));
            return None;
        };
        let types = [("none", Type::None), ("for_each", Type::ForEach), ("repeat_until", Type::RepeatUntil)];
        match self.choice(word, &types)? {
            Type::None => {
                self.only(&fields, &[], "none");
                None
            }
            Type::ForEach => Some(self.for_each(&fields)),
            Type::RepeatUntil => self.repeat_until(&fields),
        }
    }

    fn only(&mut self, fields: &Fields<'_>, used: &[&str], word: &str) {
        for field in fields.all().filter(|field| KEYS.contains(&field.key) && field.key != "type") {
            if used.contains(&field.key) || given(fields, field.key).is_none() {
                continue;
            }
            let help = match field.key {
                "input_path" | "max_items" => "it belongs to `for_each`",
                _ => "it belongs to `repeat_until`",
            };
            self.no_effect(field, &format!("on a loop of type `{word}`"), help);
        }
    }

    fn for_each(&mut self, fields: &Fields<'_>) -> Loop {
        self.only(fields, &["input_path", "max_items"], "for_each");
        let field = given(fields, "input_path");
        let path = field.map(|field| self.loop_path(field)).unwrap_or_default();
        let max = given(fields, "max_items").and_then(|field| self.passes(field)).unwrap_or(DEFAULT_MAX);
        Loop::ForEach { path, max, span: field.map_or(fields.span, |field| field.node.span) }
    }

    fn repeat_until(&mut self, fields: &Fields<'_>) -> Option<Loop> {
        self.only(fields, &["max_iters", "predicate_path", "predicate_value"], "repeat_until");
        let max = given(fields, "max_iters").and_then(|field| self.passes(field)).unwrap_or(DEFAULT_MAX);
        let (Some(path), Some(value)) = (given(fields, "predicate_path"), given(fields, "predicate_value")) else {
            let message = "a loop of type `repeat_until` needs `predicate_path` and `predicate_value`";
            let help = "for example `\"predicate_path\": \"status\", \"predicate_value\": \"complete\"`";
            self.problems.push(Problem::error(fields.span, message).help(help));
            return None;
        };
        let span = path.node.span;
        Some(Loop::RepeatUntil { path: self.loop_path(path), value: self.predicate_value(value)?, max, span })
    }

    /// A text; a number or a boolean stands for the text it is written as.
    fn predicate_value(&mut self, field: Field<'_>) -> Option<String> {
        match &field.node.data {
            Data::Scalar(Value::String(text)) => Some(text.clone()),
            Data::Scalar(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
            Data::Scalar(_) | Data::List(_) | Data::Map(_) => {
                self.wrong(field, "a text", "`\"predicate_value\": \"complete\"`");
                None
            }
        }
    }

    /// `prices`, `data.items[0].parts`, also with `$previous_output.` before it.
    fn loop_path(&mut self, field: Field<'_>) -> String {
        let Some(text) = self.text(field) else { return String::new() };
        let bare = text.trim();
        let bare = bare.strip_prefix("$previous_output").unwrap_or(bare);
        let dotted = if bare.is_empty() || bare.starts_with(['.', '[']) { bare.to_owned() } else { format!(".{bare}") };
        let (path, length) = path_of(&dotted);
        if length != dotted.len() {
            self.wrong(field, "a dotted path", &format!("`\"{}\": \"data.items[0].parts\"`", field.key));
        }
        path
    }

    /// The step of an executor in its loop.
    pub(super) fn looped(&mut self, looping: Loop, step: Step, id: &str, previous: Option<&str>) -> Step {
        let span = step.span;
        let inner = step.id.clone().unwrap_or_default();
        let (word, kind) = match looping {
            Loop::ForEach { path, max, span } => {
                let items = self.items(&path, previous, span);
                let steps = vec![step];
                let (on_limit, on_failure) = (OnLimit::Truncate, relais_plan::LaneFailure::Cancel);
                ("for_each", Kind::ForEach { items, steps, at_once: 1, max, on_limit, on_failure })
            }
            Loop::RepeatUntil { path, value, max, span } => {
                let test = format!("({}{path} | string) == {}", output_of(&inner), quote(&value));
                let until = Some(self.parsed(&test, span));
                let steps = vec![step];
                let on_limit = OnLimit::Complete;
                ("repeat", Kind::Repeat { while_: None, until, delay_ms: 0, steps, max, on_limit })
            }
        };
        let mut block = Step::new(word, kind, span);
        block.id = Some(id.to_owned());
        block.keep_last = word == "repeat";
        block
    }

    fn items(&mut self, path: &str, previous: Option<&str>, span: Span) -> Expr {
        match previous {
            Some(previous) => self.parsed(&format!("{}{path}", output_of(previous)), span),
            None => {
                let problem = Problem::error(span, "the first executor has no previous output to go over");
                self.problems.push(problem.help("put an executor before it that gives the list"));
                Expr::new("[]", span)
            }
        }
    }
}
