//! When a graph runs: its mode and its schedule as a trigger.

use relais_plan::schedule::is_calendar;
use relais_plan::{Problem, Trigger, TriggerOn};
use serde_json::Value;

use super::given;
use crate::fields::{Field, Fields};
use crate::native::DEFAULT_CONTINUOUS_DELAY_MS;
use crate::reader::Reader;
use crate::yaml::Data;

const FORMS: &str = "a number of seconds (\"60\"), \"daily@HH:mm\", \"weekly@1,3,5\" or \"weekly@1,3,5@HH:mm\" \
                     (0 is Sunday)";

#[derive(Clone, Copy)]
enum Mode {
    OneTime,
    Interval,
    Continuous,
}

impl Reader<'_> {
    /// What starts runs by itself; nothing for a graph that runs only when somebody starts it.
    pub(super) fn graph_triggers(&mut self, fields: &Fields<'_>) -> Vec<Trigger> {
        let words = [("one_time", Mode::OneTime), ("interval", Mode::Interval), ("continuous", Mode::Continuous)];
        let mode = match given(fields, "executionMode") {
            Some(field) => self.choice(field, &words),
            None => Some(Mode::OneTime),
        };
        let schedule = given(fields, "schedule");
        let on = match (mode, schedule) {
            (None, _) | (Some(Mode::OneTime), None) => None,
            (Some(Mode::OneTime), Some(schedule)) => {
                let help = "say `executionMode: interval` or `executionMode: continuous`, or take it out";
                self.no_effect(schedule, "on a graph that runs one_time", help);
                None
            }
            (Some(Mode::Interval), schedule) => self.graph_interval(fields, schedule),
            (Some(Mode::Continuous), None) => Some(TriggerOn::Continuous { delay_ms: DEFAULT_CONTINUOUS_DELAY_MS }),
            (Some(Mode::Continuous), Some(schedule)) => self.graph_delay(schedule),
        };
        on.map(Trigger::new).into_iter().collect()
    }

    fn graph_interval(&mut self, fields: &Fields<'_>, schedule: Option<Field<'_>>) -> Option<TriggerOn> {
        let Some(schedule) = schedule else {
            let span = given(fields, "executionMode").map_or(fields.span, |field| field.node.span);
            self.problems.push(Problem::error(span, "an interval needs a `schedule`").help(FORMS));
            return None;
        };
        if let Some(ms) = milliseconds(schedule) {
            return Some(TriggerOn::Every { ms });
        }
        let text = schedule.node.as_text().map(str::trim).filter(|text| is_calendar(text));
        if text.is_none() {
            self.graph_schedule_wrong(schedule, FORMS);
        }
        text.map(|text| TriggerOn::Calendar(text.to_owned()))
    }

    fn graph_delay(&mut self, schedule: Field<'_>) -> Option<TriggerOn> {
        let delay_ms = milliseconds(schedule);
        if delay_ms.is_none() {
            let help = "for a continuous graph it is the pause between two runs, a number of seconds such as \"5\"";
            self.graph_schedule_wrong(schedule, help);
        }
        delay_ms.map(|delay_ms| TriggerOn::Continuous { delay_ms })
    }

    fn graph_schedule_wrong(&mut self, schedule: Field<'_>, help: &str) {
        let message = format!("`schedule` cannot be understood: {}", schedule.node.describe());
        self.problems.push(Problem::error(schedule.node.span, message).help(help));
    }
}

/// Whole seconds from 1, as a number or as text.
fn milliseconds(field: Field<'_>) -> Option<u64> {
    let seconds = match &field.node.data {
        Data::Scalar(Value::Number(number)) => number.as_u64(),
        Data::Scalar(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    seconds.filter(|seconds| *seconds > 0)?.checked_mul(1_000)
}
