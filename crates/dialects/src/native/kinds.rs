//! What each kind of step says beyond its policies.
//!
//! - `agent: NAME` or a map (an agent for this step alone), with `prompt`, `input`, `input_schema`, `input_as`, `output`
//!   (a schema in place of the agent's)
//! - `tool: NAME` with `with` (its arguments) and `output` (a schema of what it returns)
//! - `workflow: ./other.yaml` with `input` and `input_schema`
//! - `if: EXPRESSION` with `then` and `else`
//! - `switch: EXPRESSION` with `cases` (a map from value to steps, or a list of `{ case: X, steps: […] }`) and `default`
//! - `switch: [{ when: EXPRESSION, label: NAME, steps: […] }]` with `default`
//! - `parallel: [steps]` with `on_failure`, `wait_for` (ids or a number) and `detach`
//! - `steps: [steps]` (a group) with `on_failure`
//! - `for_each: EXPRESSION` or a list, with `do`, `at_once`, `max`, `on_limit: fail | truncate`, `on_failure`
//! - `repeat: [steps]` with `until` or `while`, `max`, `delay`, `on_limit: fail | complete`, `keep: all | last`
//! - `wait: 10m`, or `{ for: … }`, `{ until: TIME }` (also `at`), `{ signal: NAME }`, `{ event: TYPE, filter: … }`
//! - `ask: QUESTION`, or a map with `question`, `show`, `answer` (a schema) or `approve: true`, `people`,
//!   `approvals`, `remind`, `then`, `deadline`, `on_deadline`
//! - `stop_if: EXPRESSION`, a list (any of them), `{ any: […] }` or `{ all: […] }`
//! - `set: { NAME: VALUE }`
//! - `goto: ID` with `max`

use relais_plan::step::{Awaited, Branch, Kind, Step};
use relais_plan::{Ask, Call, Expr, OnDeadline, OnLimit, People, Problem, Schema, Task, Template, Until, time};
use serde_json::{Value, json};

use super::keys;
use super::steps::At;
use crate::fields::{Field, Fields};
use crate::reader::{Pin, Reader};
use crate::values::{bare, duration_of, literal};
use crate::yaml::{self, Data, Entry, Node};

/// Items or passes where `max` is not given.
pub(crate) const DEFAULT_MAX: u32 = 100;
/// Bodies at once; more would only wait for one another at the provider.
const MAX_AT_ONCE: u32 = 1_000;
const ARM_EXAMPLE: &str = "`switch: [{ when: input.amount > 100, steps: [{ agent: caller }] }]`";

impl Reader<'_> {
    pub(crate) fn kind(&mut self, at: &At<'_, '_>) -> Kind {
        match at.field.key {
            "agent" => self.agent_step(at),
            "tool" => self.tool_step(at),
            "workflow" => self.workflow_step(at),
            "if" => self.if_step(at),
            "switch" => self.switch_step(at),
            "parallel" => self.parallel_step(at),
            "steps" => Kind::Group {
                steps: self.filled_block(at.field, at.position),
                on_failure: self.lane_failure(at.fields),
            },
            "for_each" => self.for_each_step(at),
            "repeat" => self.repeat_step(at),
            "wait" => Kind::Wait(self.wait(at.field)),
            "ask" => Kind::Wait(Until::Person(Box::new(self.ask(at.field)))),
            "stop_if" => Kind::StopIf(self.stop_if(at.field)),
            "set" => Kind::Set(self.set(at.field)),
            _ => self.goto_step(at),
        }
    }

    fn agent_step(&mut self, at: &At<'_, '_>) -> Kind {
        let agent = match &at.field.node.data {
            Data::Map(_) => self.inline_agent(at),
            Data::Scalar(_) | Data::List(_) => self.name(at.field).unwrap_or_default(),
        };
        let prompt = at.fields.get("prompt").map(|field| self.prompt(field));
        let input = at.fields.get("input").map(|field| self.template(field));
        for field in ["input_schema", "input_as"].into_iter().filter_map(|key| at.fields.get(key)) {
            self.refuse_without_input(field, at);
        }
        let input_schema = at.fields.get("input_schema").and_then(|field| self.schema(field));
        let input_as = at.fields.get("input_as").and_then(|field| self.name(field));
        let output_schema = at.fields.get("output").and_then(|field| self.schema(field));
        let task = Task::Agent { agent, prompt };
        Kind::Call(Box::new(Call { task, input, input_schema, input_as, output_schema }))
    }

    fn refuse_without_input(&mut self, field: Field<'_>, at: &At<'_, '_>) {
        if !at.fields.has("input") {
            self.no_effect(field, "without `input`", "say what the input is: `input: { … }`");
        }
    }

    fn inline_agent(&mut self, at: &At<'_, '_>) -> String {
        let agent = self.agent(at.field.node);
        if self.agents.insert(at.key.to_owned(), agent).is_some() {
            let message = format!(
                "the agent of this step takes the step's id as its name, and there is an agent `{}` already",
                at.key
            );
            self.problems.push(Problem::error(at.span, message).help("give the step another id"));
        }
        at.key.to_owned()
    }

    fn tool_step(&mut self, at: &At<'_, '_>) -> Kind {
        let tool = self.name(at.field).unwrap_or_default();
        let with = match at.fields.get("with") {
            Some(field) => self.arguments(field),
            None => Template::Literal(json!({})),
        };
        let output_schema = at.fields.get("output").and_then(|field| self.schema(field));
        let task = Task::Tool { tool, with };
        Kind::Call(Box::new(Call { output_schema, ..Call::new(task) }))
    }

    /// A map, or one reference to a map.
    fn arguments(&mut self, field: Field<'_>) -> Template {
        let is_reference = field.node.as_text().is_some_and(|text| bare(text, field.node.span).0.len() < text.len());
        if !is_reference && !matches!(field.node.data, Data::Map(_)) {
            self.wrong(field, "a map of arguments", "`with: { path: report.md, content: \"{{ previous }}\" }`");
        }
        self.template(field)
    }

    fn workflow_step(&mut self, at: &At<'_, '_>) -> Kind {
        let workflow = self.name(at.field).unwrap_or_default();
        let mut pin = Pin::default();
        if !workflow.is_empty() {
            match self.workflows.pin(&workflow, at.field.node.span) {
                Ok(pinned) => pin = pinned,
                Err(problem) => self.problems.push(problem),
            }
        }
        let input = at.fields.get("input").map(|field| self.template(field));
        let input_schema = at.fields.get("input_schema").and_then(|field| self.schema(field));
        let task = Task::Workflow { workflow, plan: pin.hash, takes: pin.takes };
        Kind::Call(Box::new(Call { input, input_schema, ..Call::new(task) }))
    }

    fn if_step(&mut self, at: &At<'_, '_>) -> Kind {
        let when = self.expression(at.field);
        let steps = match at.fields.get("then") {
            Some(field) => self.block(field, at.position, 1),
            None => {
                self.lacks(at, "then", "`then: [{ agent: writer }]`");
                Vec::new()
            }
        };
        let other = at.fields.get("else").map(|field| self.block(field, at.position, steps.len() + 1));
        Kind::Choose { arms: vec![Branch { label: "then".into(), when, steps }], other }
    }

    fn switch_step(&mut self, at: &At<'_, '_>) -> Kind {
        let arms = match &at.field.node.data {
            Data::List(items) => self.conditions(items, at),
            Data::Scalar(_) | Data::Map(_) => self.compared(at),
        };
        let before: usize = arms.iter().map(|arm| arm.steps.len()).sum();
        let other = at.fields.get("default").map(|field| self.block(field, at.position, before + 1));
        Kind::Choose { arms, other }
    }

    /// The first arm whose condition is true.
    fn conditions(&mut self, items: &[Node], at: &At<'_, '_>) -> Vec<Branch> {
        if let Some(field) = at.fields.get("cases") {
            self.no_effect(
                field,
                "beside a list of conditions",
                "compare a value (`switch: input.kind`), or leave it out",
            );
        }
        if items.is_empty() {
            self.wrong(at.field, "at least one condition", ARM_EXAMPLE);
        }
        let mut arms: Vec<Branch> = Vec::with_capacity(items.len());
        let mut first = 1;
        for node in items {
            let arm = self.condition_arm(node, at.position, first);
            first += arm.as_ref().map_or(0, |arm| arm.steps.len());
            arms.extend(arm);
        }
        arms
    }

    fn condition_arm(&mut self, node: &Node, prefix: &str, first: usize) -> Option<Branch> {
        let fields = self.map(node, "a condition of `switch`", keys::ARM, ARM_EXAMPLE)?;
        let steps = self.one_of(&fields, "steps", "then", ARM_EXAMPLE)?;
        let Some(when) = fields.get("when").map(|field| self.expression(field)) else {
            let problem = Problem::error(node.span, "a condition of `switch` needs `when`");
            self.problems.push(problem.help(format!("for example {ARM_EXAMPLE}")));
            return None;
        };
        let label = fields.get("label").and_then(|field| self.name(field));
        let label = label.unwrap_or_else(|| when.source().to_owned());
        Some(Branch { label, when, steps: self.block(steps, prefix, first) })
    }

    /// The arms of a value.
    fn compared(&mut self, at: &At<'_, '_>) -> Vec<Branch> {
        let on = self.expression(at.field);
        match at.fields.get("cases") {
            Some(field) => self.cases(&on, field, at.position),
            None => {
                self.lacks(at, "cases", "`cases: { urgent: [{ agent: caller }] }`");
                Vec::new()
            }
        }
    }

    fn cases(&mut self, on: &Expr, field: Field<'_>, prefix: &str) -> Vec<Branch> {
        let mut arms: Vec<Branch> = Vec::new();
        let mut first = 1;
        let count = match &field.node.data {
            Data::Map(entries) => entries.len(),
            Data::List(items) => items.len(),
            Data::Scalar(_) => 0,
        };
        if count == 0 {
            self.wrong(field, "a map from value to steps, or a list", "`cases: { urgent: [{ agent: caller }] }`");
        }
        for position in 0..count {
            let arm = match &field.node.data {
                Data::Map(entries) => entries.get(position).map(|entry| self.keyed_case(on, entry, prefix, first)),
                Data::List(items) => items.get(position).and_then(|node| self.listed_case(on, node, prefix, first)),
                Data::Scalar(_) => None,
            };
            first += arm.as_ref().map_or(0, |arm| arm.steps.len());
            arms.extend(arm);
        }
        arms
    }

    fn keyed_case(&mut self, on: &Expr, entry: &Entry, prefix: &str, first: usize) -> Branch {
        let when = match yaml::plain(&entry.key) {
            // JSON has no keys but texts: one that spells a number or a boolean means that, too.
            spelt @ (Value::Bool(_) | Value::Number(_)) if entry.key_value.is_string() => {
                let on = on.source().trim();
                self.parsed(&format!("({on}) == {} or ({on}) == {spelt}", entry.key_value), entry.key_span)
            }
            _ => self.equals(on, &entry.key_value, entry.key_span),
        };
        let field = Field { key: &entry.key, key_span: entry.key_span, node: &entry.value };
        Branch { label: entry.key.clone(), when, steps: self.block(field, prefix, first) }
    }

    fn listed_case(&mut self, on: &Expr, node: &Node, prefix: &str, first: usize) -> Option<Branch> {
        let example = "`{ case: urgent, steps: [{ agent: caller }] }`";
        let fields = self.map(node, "a case", keys::CASE, example)?;
        let value = self.one_of(&fields, "case", "value", example)?;
        let steps = self.one_of(&fields, "steps", "then", example)?;
        let when = self.equals(on, &value.node.to_value(), value.node.span);
        let label = match value.node.as_text() {
            Some(text) => text.to_owned(),
            None => value.node.to_value().to_string(),
        };
        Some(Branch { label, when, steps: self.block(steps, prefix, first) })
    }

    /// Two words for one thing, of which a map has exactly one.
    fn one_of<'n>(&mut self, fields: &Fields<'n>, word: &str, also: &str, example: &str) -> Option<Field<'n>> {
        let found = (fields.get(word), fields.get(also));
        if let (Some(field), None) | (None, Some(field)) = found {
            return Some(field);
        }
        let problem = Problem::error(fields.span, format!("one of `{word}` and `{also}` is needed here"));
        self.problems.push(problem.help(format!("for example {example}")));
        None
    }

    fn equals(&mut self, on: &Expr, value: &Value, span: relais_plan::Span) -> Expr {
        match literal(value) {
            Ok(text) => self.parsed(&format!("({}) == {text}", on.source().trim()), span),
            Err(message) => {
                self.problems.push(Problem::error(span, message));
                Expr::new("false", span)
            }
        }
    }

    fn parallel_step(&mut self, at: &At<'_, '_>) -> Kind {
        let lanes = self.filled_block(at.field, at.position);
        let wait_for = at.fields.get("wait_for").map(|field| self.awaited(field)).unwrap_or_default();
        let detach = at.fields.get("detach").and_then(|field| self.flag(field)).unwrap_or_default();
        if let Some(field) = at.fields.get("detach").filter(|_| detach && matches!(wait_for, Awaited::All)) {
            self.no_effect(field, "without `wait_for`", "say which children the block waits for");
        }
        Kind::Parallel { lanes, on_failure: self.lane_failure(at.fields), wait_for, detach }
    }

    fn awaited(&mut self, field: Field<'_>) -> Awaited {
        match &field.node.data {
            Data::Scalar(Value::Number(_)) => self.whole(field, 1).map_or(Awaited::All, Awaited::Count),
            _ => Awaited::Lanes(self.names(field)),
        }
    }

    /// A list of at least one step.
    fn filled_block(&mut self, field: Field<'_>, prefix: &str) -> Vec<Step> {
        match &field.node.data {
            Data::List(items) if !items.is_empty() => self.step_list(items, prefix, 1),
            _ => {
                self.wrong(field, "a list of steps", &format!("`{}: [{{ agent: one }}, {{ agent: two }}]`", field.key));
                Vec::new()
            }
        }
    }

    fn for_each_step(&mut self, at: &At<'_, '_>) -> Kind {
        let items = match &at.field.node.data {
            Data::List(_) => self.literal_items(at.field),
            Data::Scalar(_) | Data::Map(_) => self.expression(at.field),
        };
        let steps = match at.fields.get("do") {
            Some(field) => self.block(field, at.position, 1),
            None => {
                self.lacks(at, "do", "`do: [{ agent: writer, prompt: \"{{ item }}\" }]`");
                Vec::new()
            }
        };
        let at_once = at.fields.get("at_once").and_then(|field| self.at_once(field)).unwrap_or(1);
        let max = at.fields.get("max").and_then(|field| self.passes(field)).unwrap_or(DEFAULT_MAX);
        let on_limit = self.on_limit(at.fields, ("truncate", OnLimit::Truncate));
        let on_failure = self.lane_failure(at.fields);
        Kind::ForEach { items, steps, at_once, max, on_limit, on_failure }
    }

    fn at_once(&mut self, field: Field<'_>) -> Option<u32> {
        let width = self.whole(field, 1)?;
        if width > MAX_AT_ONCE {
            self.wrong(field, &format!("at most {MAX_AT_ONCE}"), "`at_once: 8`");
        }
        Some(width.min(MAX_AT_ONCE))
    }

    fn literal_items(&mut self, field: Field<'_>) -> Expr {
        match literal(&field.node.to_value()) {
            Ok(text) => self.parsed(&text, field.node.span),
            Err(message) => {
                let help = "an item is a value or one reference, such as `[first, \"{{ input.second }}\"]`";
                self.problems.push(Problem::error(field.node.span, message).help(help));
                Expr::new("[]", field.node.span)
            }
        }
    }

    fn repeat_step(&mut self, at: &At<'_, '_>) -> Kind {
        let steps = self.block(at.field, at.position, 1);
        let until = at.fields.get("until").map(|field| self.expression(field));
        let while_ = at.fields.get("while").map(|field| self.expression(field));
        let on_limit = self.on_limit(at.fields, ("complete", OnLimit::Complete));
        if until.is_some() && while_.is_some() {
            let problem = Problem::error(at.span, "a repeat has `until` or `while`, not both");
            self.problems.push(problem.help("`until` is asked after each pass, `while` before"));
        }
        if until.is_none() && while_.is_none() && on_limit != OnLimit::Complete {
            let problem = Problem::error(at.span, "nothing ends this repeat but its limit, and that fails");
            self.problems.push(problem.help("add `until:` with a condition, or `max: N` and `on_limit: complete`"));
        }
        let delay_ms = at.fields.get("delay").and_then(|field| self.duration(field)).unwrap_or_default();
        let max = at.fields.get("max").and_then(|field| self.passes(field)).unwrap_or(DEFAULT_MAX);
        Kind::Repeat { while_, until, delay_ms, steps, max, on_limit }
    }

    fn wait(&mut self, field: Field<'_>) -> Until {
        if let Data::Scalar(_) = &field.node.data {
            return self.wait_for(field);
        }
        let example = "`wait: 10m`, `wait: { until: \"2027-01-01T09:00:00Z\" }` or `wait: { event: order.paid }`";
        let Some(fields) = self.map(field.node, "`wait`", keys::WAIT, example) else {
            return Until::For(Template::Literal(Value::Null));
        };
        let mut ways = fields.all().filter(|field| field.key != "filter" && keys::WAIT.contains(&field.key));
        let (Some(way), None) = (ways.next(), ways.next()) else {
            let problem = Problem::error(field.node.span, "`wait` takes one of `for`, `until`, `signal` and `event`");
            self.problems.push(problem.help(format!("for example {example}")));
            return Until::For(Template::Literal(Value::Null));
        };
        if let Some(filter) = fields.get("filter").filter(|_| way.key != "event") {
            self.no_effect(filter, "without `event`", "a signal is known by its name alone");
        }
        self.wait_way(way, &fields)
    }

    fn wait_way(&mut self, way: Field<'_>, fields: &Fields<'_>) -> Until {
        match way.key {
            "for" => self.wait_for(way),
            "signal" => Until::Signal { name: self.name(way).unwrap_or_default() },
            "event" => Until::Event {
                event: self.name(way).unwrap_or_default(),
                filter: fields.get("filter").map(|field| self.expression(field)),
            },
            _ => self.wait_until(way),
        }
    }

    /// A duration that is written out is checked now; one that is referred to, when it is known.
    fn wait_for(&mut self, field: Field<'_>) -> Until {
        let is_reference = field.node.as_text().is_some_and(|text| text.contains("{{"));
        if !is_reference && duration_of(field.node).is_none() {
            self.wrong(field, "a duration", "`wait: 10m` or `wait: \"{{ input.delay }}\"`");
        }
        Until::For(self.template(field))
    }

    fn wait_until(&mut self, field: Field<'_>) -> Until {
        let text = field.node.as_text();
        if !text.is_some_and(|text| text.contains("{{") || time::parse_instant(text).is_some()) {
            match text.and_then(time::too_far) {
                Some(message) => self.problems.push(Problem::error(field.node.span, message)),
                None => {
                    self.wrong(field, "a time with its offset (RFC 3339)", "`until: \"2027-01-01T09:00:00+01:00\"`")
                }
            }
        }
        Until::At(self.template(field))
    }

    fn ask(&mut self, field: Field<'_>) -> Ask {
        let mut ask = Ask {
            question: Template::Literal(Value::Null),
            show: None,
            answer: Schema::new(json!({ "type": "string" })),
            deadline_ms: None,
            on_deadline: OnDeadline::Fail,
            people: People::default(),
        };
        if let Data::Scalar(_) = &field.node.data {
            ask.question = self.prompt(field);
            return ask;
        }
        let example = "`ask: { question: Send it?, approve: true, deadline: 2d }`";
        if let Some(fields) = self.map(field.node, "`ask`", keys::ASK, example) {
            self.ask_fields(&fields, &mut ask);
        }
        ask
    }

    fn ask_fields(&mut self, fields: &Fields<'_>, ask: &mut Ask) {
        match fields.get("question") {
            Some(field) => ask.question = self.prompt(field),
            None => self.problems.push(Problem::error(fields.span, "`ask` has no `question`")),
        }
        ask.show = fields.get("show").map(|field| self.template(field));
        let approve = fields.get("approve").and_then(|field| self.flag(field)).unwrap_or_default();
        if approve {
            ask.answer = Schema::new(json!({ "type": "boolean" }));
        }
        if let Some(field) = fields.get("answer") {
            if approve {
                self.no_effect(field, "beside `approve: true`", "an approval is answered with yes or no");
            }
            ask.answer = self.schema(field).unwrap_or_else(|| ask.answer.clone());
        }
        let is_approval = *ask.answer.json() == json!({ "type": "boolean" });
        ask.people = self.people(fields, is_approval);
        ask.deadline_ms = fields.get("deadline").and_then(|field| self.duration(field));
        if let Some(field) = fields.get("on_deadline") {
            if ask.deadline_ms.is_none() && !fields.has("deadline") {
                self.no_effect(field, "without `deadline`", "add `deadline: 2d`");
            }
            ask.on_deadline = self.on_deadline(field);
        }
    }

    fn on_deadline(&mut self, field: Field<'_>) -> OnDeadline {
        if let Data::Scalar(_) = &field.node.data {
            self.choice(field, &[("fail", ())]);
            return OnDeadline::Fail;
        }
        let example = "`on_deadline: fail` or `on_deadline: { value: false }`";
        let fields = self.map(field.node, "`on_deadline`", keys::ON_DEADLINE, example);
        match fields.as_ref().and_then(|fields| fields.get("value")) {
            Some(value) => OnDeadline::Value(self.template(value)),
            None => OnDeadline::Fail,
        }
    }

    /// Several conditions are any of them unless `all` says otherwise.
    fn stop_if(&mut self, field: Field<'_>) -> Expr {
        match &field.node.data {
            Data::Scalar(_) => self.expression(field),
            Data::List(items) => self.combined(field, items, " or "),
            Data::Map(_) => {
                let example = "`stop_if: { all: [\"input.dry_run\", \"steps.check.output.ok\"] }`";
                let Some(fields) = self.map(field.node, "`stop_if`", keys::STOP_IF, example) else {
                    return Expr::new("false", field.node.span);
                };
                let Some(conditions) = self.one_of(&fields, "any", "all", example) else {
                    return Expr::new("false", field.node.span);
                };
                let Data::List(items) = &conditions.node.data else {
                    return self.expression(conditions);
                };
                self.combined(conditions, items, if conditions.key == "all" { " and " } else { " or " })
            }
        }
    }

    fn combined(&mut self, field: Field<'_>, items: &[Node], word: &str) -> Expr {
        if items.is_empty() {
            self.wrong(field, "at least one condition", "`stop_if: [\"input.count == 0\"]`");
            return Expr::new("false", field.node.span);
        }
        let conditions: Vec<Expr> = items.iter().map(|node| self.expression(Field { node, ..field })).collect();
        let parts: Vec<String> =
            conditions.iter().map(|condition| format!("({})", condition.source().trim())).collect();
        Expr::new(parts.join(word), field.node.span)
    }

    pub(super) fn set(&mut self, field: Field<'_>) -> Vec<(String, Template)> {
        let example = &format!("`{}: {{ total: \"{{{{ steps.sum.output }}}}\" }}`", field.key);
        let Some(fields) = self.open_map(field.node, &format!("`{}`", field.key), example) else {
            return Vec::new();
        };
        if fields.all().next().is_none() {
            self.wrong(field, "at least one variable", example);
        }
        for field in fields.all().filter(|field| !is_variable(field.key)) {
            let problem = Problem::error(field.key_span, format!("`{}` cannot be the name of a variable", field.key));
            self.problems.push(problem.help("letters, digits and `_`, a letter first; it is read as `vars.NAME`"));
        }
        fields.all().map(|field| (field.key.to_owned(), self.template(field))).collect()
    }

    fn goto_step(&mut self, at: &At<'_, '_>) -> Kind {
        let max = at.fields.get("max").and_then(|field| self.passes(field));
        match self.target(at.field) {
            Some(to) => Kind::Goto { to, max },
            None => Kind::Set(Vec::new()),
        }
    }

    fn lacks(&mut self, at: &At<'_, '_>, key: &str, example: &str) {
        let problem = Problem::error(at.span, format!("`{}` needs `{key}`", at.field.key));
        self.problems.push(problem.help(format!("for example {example}")));
    }
}

fn is_variable(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_alphabetic() || c == '_') && letters.all(|c| c.is_alphanumeric() || c == '_')
}
