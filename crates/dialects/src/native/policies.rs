//! What surrounds a step or a run: budgets, retries, what an error leads to.

use relais_plan::step::{Name, StepError};
use relais_plan::{Backoff, Budget, LaneFailure, OnLimit, Problem, Retry};
use serde_json::Value;

use super::keys;
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::yaml::Data;

const NANOS_PER_DOLLAR: f64 = 1e9;
/// A million dollars; more is a slip, and it still counts exactly in billionths.
const MAX_DOLLARS: f64 = 1e6;
/// Kinds of error that a retry cannot mend.
const NEVER_RETRIED: &[&str] = &["refused", "config", "budget", "loop", "uncertain", "cancelled"];

impl Reader<'_> {
    pub(crate) fn budget(&mut self, field: Field<'_>) -> Budget {
        let example = "`budget: { usd: 0.50, tokens: 200k, time: 10m }`";
        let Some(fields) = self.map(field.node, "`budget`", keys::BUDGET, example) else {
            return Budget::default();
        };
        Budget {
            usd_nanos: fields.get("usd").and_then(|field| self.dollars(field)),
            tokens: fields.get("tokens").and_then(|field| self.count(field)),
            model_calls: fields.get("model_calls").and_then(|field| self.count(field)),
            tool_calls: fields.get("tool_calls").and_then(|field| self.count(field)),
            time_ms: fields.get("time").and_then(|field| self.duration(field)),
        }
    }

    fn dollars(&mut self, field: Field<'_>) -> Option<u64> {
        let dollars = match &field.node.data {
            Data::Scalar(Value::Number(number)) => number.as_f64(),
            _ => None,
        };
        let dollars = dollars.filter(|dollars| (0.0..=MAX_DOLLARS).contains(dollars));
        if dollars.is_none() {
            self.wrong(field, "a number of US dollars", "`usd: 0.50`");
        }
        dollars.map(|dollars| (dollars * NANOS_PER_DOLLAR).round() as u64)
    }

    /// `retry: 2` is short for `retry: { max_attempts: 2 }`.
    pub(crate) fn retry(&mut self, field: Field<'_>) -> Retry {
        if let Data::Scalar(Value::Number(_)) = &field.node.data {
            return Retry { max_attempts: self.whole(field, 0).unwrap_or_default(), ..Retry::default() };
        }
        let example = "`retry: { max_attempts: 2, backoff: exponential, on: [timeout] }`, or `retry: 2`";
        let Some(fields) = self.map(field.node, "`retry`", keys::RETRY, example) else {
            return Retry::default();
        };
        if !fields.has("max_attempts") {
            let problem = Problem::error(field.key_span, "`retry` without `max_attempts` retries nothing");
            self.problems.push(problem.help("`max_attempts` is the number of attempts after the first"));
        }
        self.retry_fields(&fields)
    }

    fn retry_fields(&mut self, fields: &Fields<'_>) -> Retry {
        let default = Retry::default();
        let backoffs = [("fixed", Backoff::Fixed), ("exponential", Backoff::Exponential)];
        Retry {
            max_attempts: fields.get("max_attempts").and_then(|field| self.whole(field, 0)).unwrap_or_default(),
            backoff: fields.get("backoff").and_then(|field| self.choice(field, &backoffs)).unwrap_or_default(),
            delay_ms: fields.get("delay").and_then(|field| self.pause(field)).unwrap_or(default.delay_ms),
            factor: fields.get("factor").and_then(|field| self.whole(field, 1)).unwrap_or(default.factor),
            max_delay_ms: fields.get("max_delay").and_then(|field| self.duration(field)),
            on: fields.get("on").map(|field| self.retry_on(field)).unwrap_or_default(),
            never: fields.get("never").map(|field| self.texts(field)).unwrap_or_default(),
        }
    }

    pub(crate) fn retry_on(&mut self, field: Field<'_>) -> Vec<String> {
        let names = self.names(field);
        for name in names.iter().filter(|name| NEVER_RETRIED.contains(&name.text.as_str())) {
            let problem = Problem::error(name.span, format!("an error of kind `{}` is never retried", name.text));
            self.problems.push(problem.help("kinds that are: schema, timeout, rate_limit, transport, provider, tool"));
        }
        names.into_iter().map(|name| name.text).collect()
    }

    /// `fail`, `continue`, `{ value: X }` or `{ goto: ID }`.
    pub(crate) fn on_error(&mut self, field: Field<'_>) -> StepError {
        if let Data::Scalar(_) = &field.node.data {
            let words = [("fail", false), ("continue", true)];
            return match self.choice(field, &words) {
                Some(true) => StepError::Continue,
                Some(false) | None => StepError::Fail,
            };
        }
        let example = "`on_error: continue`, `on_error: { value: [] }` or `on_error: { goto: repair }`";
        let Some(fields) = self.map(field.node, "`on_error`", keys::ON_ERROR, example) else {
            return StepError::Fail;
        };
        match (fields.get("value"), fields.get("goto")) {
            (Some(value), None) => StepError::Value(self.template(value)),
            (None, Some(goto)) => self.target(goto).map_or(StepError::Fail, StepError::Goto),
            _ => {
                let problem = Problem::error(field.node.span, "`on_error` takes one of `value` and `goto`");
                self.problems.push(problem.help(format!("for example {example}")));
                StepError::Fail
            }
        }
    }

    /// The id of a step to jump to.
    pub(crate) fn target(&mut self, field: Field<'_>) -> Option<Name> {
        self.name(field).map(|text| Name { text, span: field.node.span })
    }

    pub(crate) fn lane_failure(&mut self, fields: &Fields<'_>) -> LaneFailure {
        fields.get("on_failure").and_then(|field| self.lane_failure_word(field)).unwrap_or_default()
    }

    pub(crate) fn lane_failure_word(&mut self, field: Field<'_>) -> Option<LaneFailure> {
        let words = [("cancel", LaneFailure::Cancel), ("drain", LaneFailure::Drain), ("collect", LaneFailure::Collect)];
        self.choice(field, &words)
    }

    /// What a list that is too long, or too many passes, lead to.
    pub(crate) fn on_limit(&mut self, fields: &Fields<'_>, other: (&str, OnLimit)) -> OnLimit {
        let words = [("fail", OnLimit::Fail), other];
        fields.get("on_limit").and_then(|field| self.choice(field, &words)).unwrap_or_default()
    }
}
