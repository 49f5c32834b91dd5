//! What starts the workflow: an event, if it passes the filter rules.
//!
//! The event's type is `trigger_type_id` if there is one, else the workflow's uuid, else its name; its data is the run's
//! input. `initial_data_description` tells people and assistants what that data is. Each filter rule is about a field of
//! the data, by its dotted path: a value (equal to it), a list (one of them) or a map of operators.

use relais_plan::step::Workflow;
use relais_plan::{Problem, Trigger, TriggerOn};
use serde_json::Value;

use super::conditions::{plain_literal, text_literal};
use super::given;
use crate::fields::{Field, unknown_key};
use crate::reader::Reader;
use crate::yaml::Data;

const TRIGGER: &[&str] = &[
    "uuid",
    "user_id",
    "workflow_uuid",
    "trigger_type_id",
    "filter_rules",
    "initial_data_description",
    "created_at",
    "updated_at",
];
const FACTS: &[&str] = &["uuid", "user_id", "workflow_uuid", "created_at", "updated_at"];
const EXAMPLE: &str = "`{ \"initial_data_description\": \"An e-mail\", \"filter_rules\": { \"folder\": \"inbox\" } }`";
const RULES: &[&str] = &["equals", "not_equals", "contains", "in", "not_in", "greater_than", "less_than"];
const RULE_EXAMPLE: &str = "`\"filter_rules\": { \"folder\": \"inbox\", \"size\": { \"less_than\": 1000 } }`";

impl Reader<'_> {
    pub(super) fn steps_trigger(&mut self, field: Field<'_>, is_active: bool, workflow: &mut Workflow) {
        let Some(fields) = self.map(field.node, "a trigger", TRIGGER, EXAMPLE) else { return };
        self.steps_facts(&fields, FACTS);
        let event = given(&fields, "trigger_type_id").and_then(|field| self.name(field));
        let event = event.or_else(|| workflow.alias.clone()).unwrap_or_else(|| workflow.name.clone());
        match given(&fields, "initial_data_description").and_then(|field| self.text(field)) {
            Some(text) if workflow.description.is_empty() => workflow.description = format!("Initial data: {text}"),
            Some(text) => workflow.description.push_str(&format!("\n\nInitial data: {text}")),
            None => {
                let problem = Problem::error(fields.span, "a trigger needs an `initial_data_description`");
                self.problems.push(problem.help(format!("for example {EXAMPLE}")));
            }
        }
        let filter = given(&fields, "filter_rules").and_then(|field| self.filter_rules(field));
        if is_active {
            let filter = filter.map_or(Value::Null, Value::String);
            workflow.triggers.push(Trigger { filter, ..Trigger::new(TriggerOn::Event(event)) });
        }
    }

    /// All rules as one expression over the event.
    fn filter_rules(&mut self, field: Field<'_>) -> Option<String> {
        let fields = self.open_map(field.node, "`filter_rules`", RULE_EXAMPLE)?;
        let mut tests = Vec::new();
        for rule in fields.all() {
            let path: String = rule.key.split('.').map(|part| format!("[{}]", text_literal(part))).collect();
            let data = format!("event.data{path}");
            tests.push(format!("{data} is defined"));
            self.filter_rule(rule, &data, &mut tests);
        }
        if tests.is_empty() {
            return None;
        }
        Some(self.parsed(&tests.join(" and "), field.node.span).source().to_owned())
    }

    fn filter_rule(&mut self, rule: Field<'_>, data: &str, tests: &mut Vec<String>) {
        match &rule.node.data {
            Data::Scalar(value) => tests.push(format!("{data} == {}", plain_literal(value))),
            Data::List(_) => tests.push(format!("{data} in {}", plain_literal(&rule.node.to_value()))),
            Data::Map(_) => {
                let Some(operators) = self.open_map(rule.node, "a filter rule", RULE_EXAMPLE) else { return };
                for operator in operators.all() {
                    let target = plain_literal(&operator.node.to_value());
                    tests.push(match operator.key {
                        "equals" => format!("{data} == {target}"),
                        "not_equals" => format!("{data} != {target}"),
                        "contains" => format!("{target} in {data}"),
                        "in" => format!("{data} in {target}"),
                        "not_in" => format!("{data} not in {target}"),
                        "greater_than" => format!("{data} > {target}"),
                        "less_than" => format!("{data} < {target}"),
                        _ => {
                            self.problems.push(unknown_key(operator, "a filter rule", RULES));
                            continue;
                        }
                    });
                }
            }
        }
    }
}
