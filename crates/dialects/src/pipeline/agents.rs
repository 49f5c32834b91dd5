//! Who works: agents, the models they use, and the form of what they answer. Knows nothing of steps; instructions are
//! read when the steps that they may name are known.

use std::collections::HashMap;

use indexmap::IndexMap;
use relais_plan::template::escaped;
use relais_plan::{Agent, McpServer, Problem, Schema, Span, Template};
use serde_json::Value;

use super::keys;
use super::terms::Terms;
use super::tree::{Tree, What};
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::values::content_span;
use crate::yaml::Data;

const EXAMPLE: &str = "`writer: { model: openai/gpt-4o-mini, instruction: Write short sentences. }`";
const MODEL_EXAMPLE: &str = "`fast: { provider: openai, model: gpt-4o-mini, temperature: 0 }`";
/// What an agent with `add_date` is told behind its instruction.
const DATE: &str = "\n\nToday's date: {{ now[:10] }}";

#[derive(Default)]
pub(super) struct Staff<'n> {
    members: IndexMap<String, Member<'n>>,
    /// Agents that are kept elsewhere and that a step names; whether each answers with fields that can be read.
    kept: HashMap<String, bool>,
    is_declared: bool,
    pub(super) servers: IndexMap<String, McpServer>,
    /// The name that a server has, by what it was first called and what it is.
    pub(super) declared: HashMap<String, String>,
    /// How often a name was wanted by different servers.
    pub(super) repeats: HashMap<String, u32>,
}

struct Member<'n> {
    agent: Agent,
    instruction: Option<Field<'n>>,
    dated: bool,
}

/// A model of the section `models`.
struct Model {
    name: String,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
}

type Models = IndexMap<String, Model>;

impl<'n> Staff<'n> {
    pub(super) fn read(fields: &Fields<'n>, reader: &mut Reader<'_>) -> Staff<'n> {
        let models = fields.get("models").map(|field| reader.pipeline_models(field)).unwrap_or_default();
        let mut staff = Staff::default();
        let Some(field) = fields.get("agents") else { return staff };
        staff.is_declared = true;
        let Some(agents) = reader.open_map(field.node, "`agents`", EXAMPLE) else { return staff };
        for agent in agents.all() {
            let member = staff.member(agent, &models, reader);
            staff.members.insert(agent.key.to_owned(), member);
        }
        staff
    }

    fn member(&mut self, field: Field<'n>, models: &Models, reader: &mut Reader<'_>) -> Member<'n> {
        let mut agent = Agent { span: field.key_span, ..Agent::default() };
        let Some(fields) = reader.known_map(field.node, "an agent", keys::AGENT, keys::NOT_OF_AGENT, EXAMPLE) else {
            return Member { agent, instruction: None, dated: false };
        };
        reader.set_models(&mut agent, &fields, models);
        agent.output = fields.get("structured_output").and_then(|field| reader.structured_output(field));
        if let Some(turns) = fields.get("max_iterations").and_then(|field| reader.whole(field, 1)) {
            agent.max_turns = turns;
        }
        agent.result_limit = fields.get("result_limit").and_then(|field| reader.result_limit(field));
        if let Some(field) = fields.get("toolsets") {
            agent.tools = self.toolsets(field, reader);
        }
        agent.description = fields.get("description").and_then(|field| reader.text(field));
        let described = fields.get("description").filter(|_| agent.description.is_some());
        let instruction = fields.get("instruction").filter(|field| reader.text(*field).is_some());
        let dated = fields.get("add_date").and_then(|field| reader.flag(field)).unwrap_or_default();
        // An agent that is only described is told its description.
        Member { agent, instruction: instruction.or(described), dated }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Takes note of the agents that steps name and that are kept elsewhere. Without those a file must declare some.
    pub(super) fn lend(&mut self, tree: &Tree<'_>, reader: &mut Reader<'_>) {
        for item in &tree.items {
            if let What::Agent(agent) = &item.what
                && !self.has(&agent.text)
                && let Some(definition) = reader.workflows.agent(&agent.text)
            {
                self.kept.insert(agent.text.clone(), !definition["output"].is_null());
            }
        }
        if !self.is_declared && self.kept.is_empty() {
            let problem = Problem::error(Span::default(), "the file has no `agents`");
            reader.problems.push(problem.help(format!("declare those that its steps name, such as {EXAMPLE}")));
        }
    }

    /// Does the agent answer with fields that can be read?
    pub(super) fn is_structured(&self, name: &str) -> bool {
        let declared = self.members.get(name).map(|member| member.agent.output.is_some());
        declared.or_else(|| self.kept.get(name).copied()).unwrap_or_default()
    }

    /// Reads the instructions, in which steps may be named.
    pub(super) fn instruct(&mut self, tree: &Tree<'_>, reader: &mut Reader<'_>) {
        let read: Vec<Template> = {
            let mut terms = Terms::new(tree, self);
            self.members.values().map(|member| instructions(member, &mut terms, reader)).collect()
        };
        for (member, instructions) in self.members.values_mut().zip(read) {
            member.agent.instructions = instructions;
        }
    }

    pub(super) fn finish(self) -> (IndexMap<String, Agent>, IndexMap<String, McpServer>) {
        let agents = self.members.into_iter().map(|(name, member)| (name, member.agent));
        (agents.collect(), self.servers)
    }
}

fn instructions(member: &Member<'_>, terms: &mut Terms<'_, '_>, reader: &mut Reader<'_>) -> Template {
    let field = member.instruction;
    let text = field.and_then(|field| field.node.as_text()).unwrap_or_default();
    let span = field.map_or(member.agent.span, |field| content_span(field.node, text));
    let source = terms.text(text, span, reader);
    let source = match (source, member.dated) {
        (None, false) => return Template::plain(text, span),
        (None, true) => escaped(text) + DATE,
        (Some(source), false) => source,
        (Some(source), true) => source + DATE,
    };
    reader.composed(source.trim_start_matches('\n'), span)
}

impl Reader<'_> {
    fn pipeline_models(&mut self, field: Field<'_>) -> Models {
        let Some(fields) = self.open_map(field.node, "`models`", MODEL_EXAMPLE) else { return Models::new() };
        let mut models = Models::new();
        for model in fields.all() {
            if let Some(read) = self.pipeline_model(model) {
                models.insert(model.key.to_owned(), read);
            }
        }
        models
    }

    fn pipeline_model(&mut self, field: Field<'_>) -> Option<Model> {
        let fields = self.known_map(field.node, "a model", keys::MODEL, keys::NOT_OF_MODEL, MODEL_EXAMPLE)?;
        let provider = fields.get("provider").and_then(|field| self.name(field));
        let model = fields.get("model").and_then(|field| self.name(field));
        let named = provider.zip(model).map(|(provider, model)| format!("{provider}/{model}"));
        if named.is_none() && !(fields.has("provider") && fields.has("model")) {
            let message = format!("the model `{}` needs `provider` and `model`", field.key);
            self.problems.push(Problem::error(field.key_span, message).help(format!("for example {MODEL_EXAMPLE}")));
        }
        Some(Model {
            name: named?,
            temperature: fields.get("temperature").and_then(|field| self.temperature(field)),
            max_tokens: fields.get("max_tokens").and_then(|field| self.whole(field, 1)),
        })
    }

    /// The agent's model and those that stand in for it, each by its name in `models` or as it is.
    fn set_models(&mut self, agent: &mut Agent, fields: &Fields<'_>, models: &Models) {
        let Some(field) = fields.get("model") else {
            let problem = Problem::error(agent.span, "the agent has no `model`");
            self.problems.push(problem.help("`model: provider/model`, a name under `models`, or `auto`"));
            return;
        };
        let Some(first) = self.name(field).filter(|name| self.is_one_model(name, field)) else { return };
        if let Some(model) = models.get(&first) {
            (agent.temperature, agent.max_tokens) = (model.temperature, model.max_tokens);
        }
        self.near_model(&first, field.node.span, models);
        agent.models = real(&first, models).into_iter().collect();
        for name in fields.get("fallback").map(|field| self.fallback(field)).unwrap_or_default() {
            self.near_model(&name.text, name.span, models);
            agent.models.extend(real(&name.text, models));
        }
    }

    fn fallback(&mut self, field: Field<'_>) -> Vec<relais_plan::step::Name> {
        let example = "`fallback: { models: [openai/gpt-4o-mini] }`";
        let fields = self.known_map(field.node, "`fallback`", keys::FALLBACK, keys::NOT_OF_FALLBACK, example);
        let models = fields.and_then(|fields| fields.get("models"));
        models.map(|field| self.names(field)).unwrap_or_default()
    }

    fn is_one_model(&mut self, name: &str, field: Field<'_>) -> bool {
        if name.contains(',') {
            let problem = Problem::error(field.node.span, "an agent has one model at a time");
            self.problems.push(problem.help("name one, and the others under `fallback: { models: […] }`"));
        }
        !name.contains(',')
    }

    /// A name without provider that is almost one of `models` is a slip.
    fn near_model(&mut self, name: &str, span: Span, models: &Models) {
        if name.contains('/') || models.contains_key(name) {
            return;
        }
        if let Some(near) = self.near(name, models.keys().map(String::as_str)) {
            let problem = Problem::error(span, format!("no model is called `{name}`"));
            self.problems.push(problem.help(format!("did you mean `{near}`?")));
        }
    }

    fn structured_output(&mut self, field: Field<'_>) -> Option<Schema> {
        let example =
            "`structured_output: { name: review, schema: { type: object, properties: { ok: { type: boolean } } } }`";
        let fields = self.map(field.node, "`structured_output`", keys::STRUCTURED, example)?;
        let title = fields.get("name").and_then(|field| self.text(field));
        let description = fields.get("description").and_then(|field| self.text(field));
        if let Some(strict) = fields.get("strict").filter(|field| self.flag(*field) == Some(false)) {
            self.no_effect(strict, "as false", "leave it out: an answer is always held to its schema");
        }
        let Some(schema) = fields.get("schema") else {
            let problem = Problem::error(field.key_span, "`structured_output` has no `schema`");
            self.problems.push(problem.help(format!("for example {example}")));
            return None;
        };
        let read = self.schema(schema)?;
        let mut json = read.json().clone();
        annotate(&mut json, "title", title);
        annotate(&mut json, "description", description);
        Schema::written(&json).ok().or(Some(read))
    }
}

/// What the answer is called and what it is for goes to the model with the schema.
fn annotate(schema: &mut Value, key: &str, text: Option<String>) {
    if let (Value::Object(fields), Some(text)) = (schema, text) {
        fields.entry(key).or_insert(Value::String(text));
    }
}

/// `auto` is the configured default.
fn real(name: &str, models: &Models) -> Option<String> {
    match models.get(name) {
        Some(model) => Some(model.name.clone()),
        None if name == "auto" => None,
        None => Some(name.to_owned()),
    }
}

/// Is this a list with at least one entry?
pub(super) fn filled<'n>(field: Field<'n>) -> Option<&'n [crate::yaml::Node]> {
    match &field.node.data {
        Data::List(items) if !items.is_empty() => Some(items),
        Data::List(_) | Data::Scalar(_) | Data::Map(_) => None,
    }
}
