//! Personas: who does the work of a node. They stand under `personas`, or are apps of their own in the same file.
//!
//! A persona without an instruction goes by its description. A node may name it by its `agent_name` or its
//! `display_name`.

use indexmap::IndexMap;
use relais_plan::step::Name;
use relais_plan::{Problem, Schema};
use serde_json::Value;

use super::keys::{self, Keys};
use crate::fields::Field;
use crate::reader::Reader;
use crate::yaml::{Data, Node};

#[derive(Debug, Clone, Default)]
pub(super) struct Persona {
    /// For people.
    pub description: Option<String>,
    pub instruction: String,
    pub models: Vec<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub result_limit: Option<u64>,
    pub tools: Vec<String>,
    pub input: Option<Schema>,
    pub output: Option<Schema>,
}

#[derive(Default)]
pub(super) struct Personas {
    by_name: IndexMap<String, Persona>,
    /// Other names of them.
    shown_as: IndexMap<String, String>,
}

impl Personas {
    pub fn get(&self, name: &str) -> Option<&Persona> {
        let own = self.by_name.get(name);
        own.or_else(|| self.shown_as.get(name).and_then(|own| self.by_name.get(own)))
    }

    pub fn unknown(&self, name: &Name, reader: &mut Reader<'_>) -> Problem {
        let names = || self.by_name.keys().map(String::as_str);
        let problem = Problem::error(name.span, format!("there is no persona `{}`", name.text));
        match reader.near(&name.text, names()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None if self.by_name.is_empty() => {
                problem.help("declare it: `personas: [{ agent_name: …, instruction: … }]`")
            }
            None => problem.help(format!("personas are: {}", names().take(20).collect::<Vec<_>>().join(", "))),
        }
    }
}

/// The tools of a group that the released form names.
const GROUPS: &[(&str, &[&str])] = &[("artifact_management", &["load_artifact", "save_artifact", "list_artifacts"])];

impl Reader<'_> {
    pub(super) fn personas(&mut self, field: Field<'_>, personas: &mut Personas) {
        let Data::List(items) = &field.node.data else {
            self.wrong(field, "a list of personas", keys::PERSONA.example);
            return;
        };
        for node in items {
            if let Some(keys) = self.dag_keys(node, &keys::PERSONA) {
                self.persona(&keys, personas);
            }
        }
    }

    pub(super) fn persona(&mut self, keys: &Keys<'_>, personas: &mut Personas) {
        let Some(name) = keys.get("agent_name") else {
            let problem = Problem::error(keys.span, "a persona needs an `agent_name`");
            self.problems.push(problem.help(format!("for example {}", keys::PERSONA.example)));
            return;
        };
        let Some(text) = self.name(name) else { return };
        let persona = self.described(keys);
        if let Some(shown) = keys.get("display_name").and_then(|field| self.name(field)) {
            personas.shown_as.entry(shown).or_insert_with(|| text.clone());
        }
        if personas.by_name.insert(text.clone(), persona).is_some() {
            let problem = Problem::error(name.node.span, format!("there are two personas `{text}`"));
            self.problems.push(problem.help("give one of them another name"));
        }
    }

    fn described(&mut self, keys: &Keys<'_>) -> Persona {
        let card = keys.get("agent_card").and_then(|field| self.dag_keys(field.node, &keys::CARD));
        let on_card = card.as_ref().and_then(|card| card.get("description"));
        let description = keys.get("description").or(on_card).and_then(|field| self.text(field));
        let instruction = match keys.get("instruction") {
            Some(field) => self.text(field),
            None => description.clone(),
        };
        let mut persona = Persona {
            description,
            instruction: instruction.unwrap_or_default(),
            tools: keys.get("tools").map(|field| self.persona_tools(field)).unwrap_or_default(),
            input: keys.get("input_schema").and_then(|field| self.schema(field)),
            output: keys.get("output_schema").and_then(|field| self.schema(field)),
            result_limit: keys.get("result_limit").and_then(|field| self.result_limit(field)),
            ..Persona::default()
        };
        if let Some(field) = keys.get("model") {
            self.persona_model(field, &mut persona);
        }
        persona
    }

    /// A name, a list of names, or a map with the name and its settings.
    fn persona_model(&mut self, field: Field<'_>, persona: &mut Persona) {
        let Data::Map(_) = &field.node.data else {
            persona.models = self.texts(field);
            return;
        };
        let Some(keys) = self.dag_keys(field.node, &keys::MODEL) else { return };
        match keys.get("model") {
            Some(name) => persona.models = self.texts(name),
            None => self.wrong(field, "the name of a model", keys::MODEL.example),
        }
        persona.temperature = keys.get("temperature").and_then(|field| self.temperature(field));
        persona.max_tokens = keys.get("max_tokens").and_then(|field| self.whole(field, 1));
    }

    fn persona_tools(&mut self, field: Field<'_>) -> Vec<String> {
        let Data::List(items) = &field.node.data else { return self.texts(field) };
        let mut tools = Vec::new();
        for node in items {
            match node.as_text() {
                Some(tool) => tools.push(tool.to_owned()),
                None => tools.extend(self.persona_tool(node)),
            }
        }
        tools
    }

    fn persona_tool(&mut self, node: &Node) -> Vec<String> {
        let Some(keys) = self.dag_keys(node, &keys::TOOL) else { return Vec::new() };
        let kind = keys.get("tool_type").and_then(|field| field.node.as_text());
        match (kind, keys.get("tool_name"), keys.get("group_name")) {
            (Some("builtin"), Some(name), None) => self.name(name).into_iter().collect(),
            (Some("builtin-group"), None, Some(group)) => self.tool_group(group),
            _ => {
                let message = format!("a tool of the type `{}` cannot be taken over", kind.unwrap_or("?"));
                let help = "name a tool of Relais (`relais tools` lists them), or `mcp:SERVER/*` with the server in \
                            relais.toml";
                self.problems.push(Problem::error(node.span, message).help(help));
                Vec::new()
            }
        }
    }

    fn tool_group(&mut self, field: Field<'_>) -> Vec<String> {
        let written = field.node.as_text().unwrap_or_default();
        match GROUPS.iter().find(|(name, _)| *name == written) {
            Some((_, tools)) => tools.iter().map(|tool| (*tool).to_owned()).collect(),
            None => {
                self.wrong(field, "`artifact_management`", "`{ tool_type: builtin, tool_name: search_web }`");
                Vec::new()
            }
        }
    }

    /// The persona that a node names.
    pub(super) fn persona_name(&mut self, keys: &Keys<'_>) -> Option<Name> {
        match keys.get("agent_persona") {
            Some(field) => self.name(field).map(|text| Name { text, span: field.node.span }),
            None => {
                let problem = Problem::error(keys.span, "an agent node needs an `agent_persona`");
                self.problems.push(problem.help("for example `agent_persona: Extractor`"));
                None
            }
        }
    }

    /// A factor that is a whole number, written as one or as `2.0`.
    pub(super) fn dag_factor(&mut self, field: Field<'_>) -> Option<u32> {
        let number = match &field.node.data {
            Data::Scalar(Value::Number(number)) => number.as_f64(),
            _ => None,
        };
        let factor = number.filter(|n| n.fract() == 0.0 && (1.0..=1000.0).contains(n));
        if factor.is_none() {
            self.wrong(field, "a whole number from 1 to 1000", "`factor: 2`");
        }
        factor.map(|factor| factor as u32)
    }
}
