//! The three types of step: `custom_llm` (a model without tools), `custom_agent` (a model with tools) and
//! `stop_checker` (ends the run if a condition holds).

use relais_plan::problem::nearest;
use relais_plan::step::{Kind, Step};
use relais_plan::{Agent, Call, Problem, Span, Task, Template};

use super::{Listing, given};
use crate::fields::{Field, Fields, no_effect, unknown_key};
use crate::reader::Reader;
use crate::yaml::Node;

/// What the model hears beside its system prompt: nothing is passed on that the prompt does not name.
const USER_MESSAGE: &str = "Execute your task.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Llm,
    Agent,
    Checker,
}

const TYPES: &[(&str, Type)] =
    &[("custom_llm", Type::Llm), ("custom_agent", Type::Agent), ("stop_checker", Type::Checker)];
const COMMON: &[&str] = &["uuid", "user_id", "name", "description", "type", "created_at", "updated_at"];
const FACTS: &[&str] = &["user_id", "created_at", "updated_at"];
const TOOL: &[&str] = &["enabled"];

impl Type {
    fn word(self) -> &'static str {
        TYPES.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    /// The keys that the type has beside the common ones.
    fn own(self) -> &'static [&'static str] {
        match self {
            Type::Llm => &["model", "system_prompt", "generated_summary"],
            Type::Agent => &["model", "system_prompt", "tools", "result_limit", "generated_summary"],
            Type::Checker => &["stop_conditions"],
        }
    }
}

impl Reader<'_> {
    /// A step; a checker comes as two, the first of which keeps what its conditions found.
    pub(super) fn listed_step(&mut self, node: &Node, position: usize, listing: &Listing<'_>) -> Vec<Step> {
        let example = "`{ \"uuid\": \"…\", \"name\": \"Summarizer\", \"type\": \"custom_llm\", … }`";
        let Some(fields) = self.open_map(node, "a step of an exported workflow", example) else { return Vec::new() };
        let Some(kind) = self.step_type(&fields) else { return Vec::new() };
        self.check_step_keys(&fields, kind);
        self.steps_facts(&fields, FACTS);
        let id = given(&fields, "uuid").and_then(|field| self.name(field));
        let Some(name) = self.step_name(&fields, kind) else { return Vec::new() };
        let span = given(&fields, "name").map_or(node.span, |field| field.node.span);
        let at = At { fields: &fields, position, listing, name: &name, span };
        let mut steps = match kind {
            Type::Llm | Type::Agent => vec![Step { id, ..self.model_step(&at, kind) }],
            Type::Checker => self.checker_step(&at, id),
        };
        let description = self.step_description(&fields);
        if let Some(last) = steps.last_mut() {
            (last.name, last.description) = (Some(name), description);
        }
        steps
    }

    /// What its author says of the step, else what was made up for him.
    fn step_description(&mut self, fields: &Fields<'_>) -> Option<String> {
        let mut said =
            |key: &str| given(fields, key).and_then(|field| self.text(field)).filter(|text| !text.is_empty());
        let (written, generated) = (said("description"), said("generated_summary"));
        written.or(generated)
    }

    fn step_type(&mut self, fields: &Fields<'_>) -> Option<Type> {
        let Some(field) = given(fields, "type") else {
            let words: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
            let problem = Problem::error(fields.span, "a step needs a `type`");
            self.problems.push(problem.help(format!("one of {}", words.join(", "))));
            return None;
        };
        let written = field.node.as_text().unwrap_or_default();
        let near = nearest(written, TYPES.iter().map(|(word, _)| *word)).filter(|near| *near != written);
        match near {
            Some(near) => {
                let problem = Problem::error(field.node.span, format!("there is no type of step `{written}`"));
                self.problems.push(problem.help(format!("did you mean `{near}`?")));
                None
            }
            None => self.choice(field, TYPES),
        }
    }

    fn check_step_keys(&mut self, fields: &Fields<'_>, kind: Type) {
        let known: Vec<&str> = COMMON.iter().chain(kind.own()).copied().collect();
        let unknown = fields.all().filter(|field| !known.contains(&field.key));
        for field in unknown.filter_map(|field| given(fields, field.key)) {
            let owners = TYPES.iter().filter(|(_, other)| other.own().contains(&field.key));
            let owners: Vec<&str> = owners.map(|(word, _)| *word).collect();
            let problem = match owners.is_empty() {
                true => unknown_key(field, &format!("a {} step", kind.word()), &known),
                false => no_effect(field, &format!("on a {} step", kind.word()))
                    .help(format!("it belongs to {}", owners.join(" and "))),
            };
            self.steps_stray(problem, field);
        }
    }

    fn step_name(&mut self, fields: &Fields<'_>, kind: Type) -> Option<String> {
        let field = given(fields, "name");
        if field.is_none() {
            let problem = Problem::error(fields.span, format!("a {} step needs a `name`", kind.word()));
            self.problems.push(problem.help("for example `\"name\": \"Summarizer\"`"));
        }
        self.name(field?)
    }

    fn model_step(&mut self, at: &At<'_, '_>, kind: Type) -> Step {
        let models = self.filled_in(at, "model").and_then(|field| self.name(field)).into_iter().collect();
        let instructions = match self.filled_in(at, "system_prompt") {
            Some(field) => self.steps_prompt(field, at),
            None => Template::plain("", at.span),
        };
        let tools = match given(at.fields, "tools").filter(|_| kind == Type::Agent) {
            Some(field) => self.enabled_tools(field),
            None => Vec::new(),
        };
        let result_limit = given(at.fields, "result_limit").filter(|_| kind == Type::Agent);
        let result_limit = result_limit.and_then(|field| self.result_limit(field));
        let agent = Agent { models, instructions, tools, result_limit, span: at.span, ..Agent::default() };
        self.agents.insert(at.name.to_owned(), agent);
        let prompt = Some(Template::plain(USER_MESSAGE, at.span));
        let task = Task::Agent { agent: at.name.to_owned(), prompt };
        let call = Call::new(task);
        Step::new("agent", Kind::Call(Box::new(call)), at.span)
    }

    /// A field without which the step cannot run: a new step has only its type and its name.
    pub(super) fn filled_in<'n>(&mut self, at: &At<'_, 'n>, key: &str) -> Option<Field<'n>> {
        let is_blank = |field: &Field<'_>| field.node.as_text().is_some_and(|text| text.trim().is_empty());
        let field = given(at.fields, key).filter(|field| !is_blank(field));
        if field.is_none() {
            let message = format!("the step `{}` has no `{key}` yet", at.name);
            let help = format!("a step made of type and name alone cannot run: fill in `{key}`");
            self.unfinished.push(Problem::error(at.span, message).help(help));
        }
        field
    }

    /// The tools that are switched on.
    fn enabled_tools(&mut self, field: Field<'_>) -> Vec<String> {
        let example = "`\"tools\": { \"search_web\": { \"enabled\": true } }`";
        let Some(tools) = self.open_map(field.node, "`tools`", example) else { return Vec::new() };
        let mut enabled = Vec::new();
        for tool in tools.all() {
            let Some(settings) = self.steps_map(tool.node, "a tool's entry", TOOL, example) else { continue };
            match given(&settings, "enabled") {
                Some(field) => enabled.extend(self.flag(field).filter(|on| *on).map(|_| tool.key.to_owned())),
                None => {
                    let message = format!("the tool `{}` is neither on nor off", tool.key);
                    self.problems.push(Problem::error(tool.key_span, message).help(format!("for example {example}")));
                }
            }
        }
        enabled
    }
}

/// A step that is being read.
pub(super) struct At<'a, 'n> {
    pub fields: &'a Fields<'n>,
    pub position: usize,
    pub listing: &'a Listing<'a>,
    pub name: &'a str,
    pub span: Span,
}
