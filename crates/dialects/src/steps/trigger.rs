//! What starts the workflow: an event, if it passes the filter rules.
//!
//! The event's type is `trigger_type_id` if there is one, else the workflow's uuid, else its name; its data is the run's
//! input. `initial_data_description` tells people and assistants what that data is. Each filter rule is about a field of
//! the data, by its dotted path: a value (equal to it), a list (one of them) or a map of operators.

use relais_plan::path::Segment;
use relais_plan::step::Workflow;
use relais_plan::{Overlap, Problem, Trigger, TriggerOn, filter};
use serde_json::{Map, Value, json};

use super::given;
use crate::fields::{Field, Fields, unknown_key};
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
    pub(super) fn steps_trigger(&mut self, field: Field<'_>, workflow: &mut Workflow) {
        let Some(fields) = self.steps_map(field.node, "a trigger", TRIGGER, EXAMPLE) else { return };
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
        let rules = given(&fields, "filter_rules");
        let filter = rules.map(|field| self.filter_rules(field)).unwrap_or_default();
        // Each event that passes starts an instance, whatever others are doing.
        let overlap = Overlap::Allow;
        workflow.triggers.push(Trigger { filter, overlap, ..Trigger::new(TriggerOn::Event(event)) });
    }

    /// The same rules in the words of the native format.
    fn filter_rules(&mut self, field: Field<'_>) -> Value {
        let Some(fields) = self.open_map(field.node, "`filter_rules`", RULE_EXAMPLE) else { return Value::Null };
        let mut rules = Map::new();
        for rule in fields.all() {
            let path: Vec<Segment> = rule.key.split('.').map(|part| Segment::Key(part.to_owned())).collect();
            if let Some(tests) = self.filter_rule(rule) {
                rules.insert(filter::key_of(&path), tests);
            }
        }
        if rules.is_empty() {
            return Value::Null;
        }
        self.checked_filter(Value::Object(rules), |pointer| field.node.span_at(pointer))
    }

    /// What the field must be; nothing if the rule cannot be read.
    fn filter_rule(&mut self, rule: Field<'_>) -> Option<Value> {
        match &rule.node.data {
            Data::Scalar(value) => Some(value.clone()),
            Data::List(_) => Some(json!({ "in": rule.node.to_value() })),
            Data::Map(_) => {
                let operators = self.open_map(rule.node, "a filter rule", RULE_EXAMPLE)?;
                let tests = self.filter_tests(&operators);
                (!tests.is_empty()).then_some(Value::Object(tests))
            }
        }
    }

    fn filter_tests(&mut self, operators: &Fields<'_>) -> Map<String, Value> {
        let (mut tests, mut refused) = (Map::new(), Vec::new());
        for operator in operators.all() {
            let target = operator.node.to_value();
            let word = match operator.key {
                "not_equals" => {
                    refused.push(target);
                    continue;
                }
                "not_in" => {
                    match target {
                        Value::Array(list) => refused.extend(list),
                        _ => self.wrong(operator, "a list", "`\"not_in\": [\"spam\", \"trash\"]`"),
                    }
                    continue;
                }
                "greater_than" => "greater",
                "less_than" => "less",
                "equals" | "contains" | "in" => operator.key,
                _ => {
                    self.problems.push(unknown_key(operator, "a filter rule", RULES));
                    continue;
                }
            };
            tests.insert(word.to_owned(), target);
        }
        if !refused.is_empty() {
            tests.insert("not".to_owned(), json!({ "in": refused }));
        }
        tests
    }
}
