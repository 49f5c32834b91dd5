//! Personas: who does the work of a node. They stand under `personas`, or are apps of their own in the same file.
//!
//! A persona without an instruction goes by its description. A node may name it by its `agent_name` or its
//! `display_name`. Its model is the one that the configuration has for its `model_provider`, else its `model`; the MCP
//! servers among its tools are servers of the workflow.

use indexmap::IndexMap;
use relais_plan::step::Name;
use relais_plan::{Agent, McpServer, Problem, Schema};
use serde_json::Value;

use super::keys::{self, Keys};
use crate::fields::Field;
use crate::native::server_name;
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
    pub max_turns: Option<u32>,
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
    servers: IndexMap<String, McpServer>,
}

/// Names models as the configuration knows them; it goes before `model`.
pub(super) const MODEL_PROVIDER: &str = "model_provider";

impl Personas {
    pub fn get(&self, name: &str) -> Option<&Persona> {
        let own = self.by_name.get(name);
        own.or_else(|| self.shown_as.get(name).and_then(|own| self.by_name.get(own)))
    }

    /// The servers whose tools some agent has.
    pub fn servers_of(&self, agents: &IndexMap<String, Agent>) -> IndexMap<String, McpServer> {
        let tools: Vec<&String> = agents.values().flat_map(|agent| &agent.tools).collect();
        let is_used = |name: &str| tools.iter().any(|tool| tool.starts_with(&format!("mcp:{name}/")));
        let used = self.servers.iter().filter(|(name, _)| is_used(name));
        used.map(|(name, server)| (name.clone(), server.clone())).collect()
    }

    /// The same server is declared once, however many personas use it; others of that name get `_2`, `_3`.
    fn declare(&mut self, server: McpServer) -> String {
        if let Some((known, _)) = self.servers.iter().find(|(_, known)| **known == server) {
            return known.clone();
        }
        let name = server_name(&server);
        let numbered = (2..).map(|number: usize| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let unique = names.find(|name| !self.servers.contains_key(name)).unwrap_or(name);
        self.servers.insert(unique.clone(), server);
        unique
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
        let persona = self.described(keys, personas);
        if let Some(shown) = keys.get("display_name").and_then(|field| self.name(field)) {
            personas.shown_as.entry(shown).or_insert_with(|| text.clone());
        }
        if personas.by_name.insert(text.clone(), persona).is_some() {
            let problem = Problem::error(name.node.span, format!("there are two personas `{text}`"));
            self.problems.push(problem.help("give one of them another name"));
        }
    }

    fn described(&mut self, keys: &Keys<'_>, personas: &mut Personas) -> Persona {
        let card = keys.get("agent_card").and_then(|field| self.dag_keys(field.node, &keys::CARD));
        let on_card = card.as_ref().and_then(|card| card.get("description"));
        let description = keys.get("description").or(on_card).and_then(|field| self.text(field));
        let instruction = match keys.get("instruction") {
            Some(field) => self.text(field),
            None => description.clone(),
        };
        let global = keys.get("global_instruction").and_then(|field| self.text(field));
        let instructions: Vec<String> = global.into_iter().chain(instruction).filter(|text| !text.is_empty()).collect();
        let mut persona = Persona {
            description,
            instruction: instructions.join("\n\n"),
            max_turns: keys.get("max_llm_calls_per_task").and_then(|field| self.whole(field, 1)),
            tools: keys.get("tools").map(|field| self.persona_tools(field, personas)).unwrap_or_default(),
            input: keys.get("input_schema").and_then(|field| self.schema(field)),
            output: keys.get("output_schema").and_then(|field| self.schema(field)),
            result_limit: keys.get("result_limit").and_then(|field| self.result_limit(field)),
            ..Persona::default()
        };
        persona.models = keys.get(MODEL_PROVIDER).map(|field| self.provided(field, keys)).unwrap_or_default();
        if let Some(field) = keys.get("model").filter(|_| persona.models.is_empty()) {
            self.persona_model(field, &mut persona);
        }
        persona
    }

    /// The models that the configuration has for the names of a `model_provider`.
    fn provided(&mut self, field: Field<'_>, keys: &Keys<'_>) -> Vec<String> {
        let instead = if keys.has("model") { "`model` is used" } else { "the default model is used" };
        let mut models = Vec::new();
        for name in self.names(field) {
            let found = match name.text.contains('/') {
                true => vec![name.text.clone()],
                false => self.workflows.models(&name.text),
            };
            let message = format!("the configuration has no model for `{}`: {instead}", name.text);
            if found.is_empty() && !self.problems.iter().any(|problem| problem.message == message) {
                let help = format!("add it to relais.toml: `[model_names]` with `{} = \"provider/model\"`", name.text);
                self.problems.push(Problem::warning(name.span, message).help(help));
            }
            models.extend(found);
        }
        models
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

    fn persona_tools(&mut self, field: Field<'_>, personas: &mut Personas) -> Vec<String> {
        let Data::List(items) = &field.node.data else { return self.texts(field) };
        let mut tools = Vec::new();
        for node in items {
            match node.as_text() {
                Some(tool) => tools.push(tool.to_owned()),
                None => tools.extend(self.persona_tool(node, personas)),
            }
        }
        tools
    }

    fn persona_tool(&mut self, node: &Node, personas: &mut Personas) -> Vec<String> {
        let kind = node.child("tool_type").or_else(|| node.child("toolType")).and_then(Node::as_text);
        match kind {
            Some("mcp") => self.mcp_tools(node, personas),
            Some(kind @ ("python" | "openapi")) => {
                let message = format!("a tool of the type `{kind}` cannot be taken over");
                let help = "name a tool of Relais (`relais tools` lists them), or offer it by an MCP server: \
                            `{ tool_type: mcp, connection_params: { … } }`";
                self.problems.push(Problem::error(node.span, message).help(help));
                Vec::new()
            }
            _ => self.built_in_tools(node),
        }
    }

    fn built_in_tools(&mut self, node: &Node) -> Vec<String> {
        let Some(keys) = self.dag_keys(node, &keys::TOOL) else { return Vec::new() };
        let words =
            [("builtin", false), ("builtin-group", true), ("mcp", false), ("python", false), ("openapi", false)];
        let is_group = keys.get("tool_type").and_then(|field| self.choice(field, &words));
        let (key, found) = match is_group {
            Some(true) => ("group_name", keys.get("group_name").map(|group| self.tool_group(group))),
            Some(false) => ("tool_name", keys.get("tool_name").map(|name| self.name(name).into_iter().collect())),
            None if keys.has("tool_type") => return Vec::new(),
            None => ("tool_type", None),
        };
        if found.is_none() {
            let problem = Problem::error(node.span, format!("the tool has no `{key}`"));
            self.problems.push(problem.help(format!("for example {}", keys::TOOL.example)));
        }
        found.unwrap_or_default()
    }

    /// The tools of an MCP server: those that are listed, or all.
    fn mcp_tools(&mut self, node: &Node, personas: &mut Personas) -> Vec<String> {
        let Some(keys) = self.dag_keys(node, &keys::MCP_TOOL) else { return Vec::new() };
        let Some(mut server) = self.mcp_connection(&keys) else { return Vec::new() };
        if let Some(field) = keys.get("environment_variables") {
            server.env.extend(self.settings(field));
        }
        if let Some(field) = keys.get("deny_list") {
            let problem = Problem::error(field.key_span, "`deny_list` cannot be taken over");
            self.problems.push(problem.help("list the tools that the persona may use: `allow_list: [find_order]`"));
        }
        let server = personas.declare(server);
        match keys.get("allow_list").or(keys.get("tool_name")) {
            Some(field) => self.texts(field).iter().map(|tool| format!("mcp:{server}/{tool}")).collect(),
            None => vec![format!("mcp:{server}/*")],
        }
    }

    fn mcp_connection(&mut self, keys: &Keys<'_>) -> Option<McpServer> {
        let Some(field) = keys.get("connection_params") else {
            let problem = Problem::error(keys.span, "a tool of the type `mcp` needs `connection_params`");
            self.problems.push(problem.help(format!("for example {}", keys::MCP_TOOL.example)));
            return None;
        };
        let connection = self.dag_keys(field.node, &keys::CONNECTION)?;
        if let Some(field) = connection.get("type") {
            self.choice(field, &[("stdio", ()), ("sse", ()), ("streamable-http", ())])?;
        }
        let fields = self.open_map(field.node, "`connection_params`", keys::CONNECTION.example)?;
        match (connection.get("command"), connection.get("url")) {
            (Some(command), None) => Some(self.program(command, &fields)),
            (None, Some(url)) => Some(self.http_server(url, &fields)),
            _ => {
                let problem = Problem::error(field.node.span, "`connection_params` has one of `command` and `url`");
                self.problems.push(problem.help(format!("for example {}", keys::CONNECTION.example)));
                None
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

    /// A factor is a whole number here; a part of one counts as the next.
    pub(super) fn dag_factor(&mut self, field: Field<'_>) -> Option<u32> {
        let number = match &field.node.data {
            Data::Scalar(Value::Number(number)) => number.as_f64(),
            _ => None,
        };
        let Some(number) = number.filter(|n| (1.0..=1000.0).contains(n)) else {
            self.wrong(field, "a number from 1 to 1000", "`factor: 2`");
            return None;
        };
        if number.fract() != 0.0 {
            let message = format!("a factor is a whole number here: {number} counts as {}", number.ceil());
            self.problems.push(Problem::warning(field.node.span, message).help("write it as a whole number"));
        }
        Some(number.ceil() as u32)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use relais_plan::Source;

    use crate::{Loader, Options};

    /// A configuration with models for two names.
    struct Configured;

    impl Loader for Configured {
        fn load(&self, _reference: &str, _from: &str) -> Result<Source, String> {
            Err("there is no such file".into())
        }

        fn models(&self, name: &str) -> Vec<String> {
            match name {
                "planning" => vec!["m/plan".to_owned(), "m/spare".to_owned()],
                "general" => vec!["m/any".to_owned()],
                _ => Vec::new(),
            }
        }
    }

    fn check(persona: &str, models: &[&str], told: &[&str]) {
        let text = format!(
            "personas: [{{ agent_name: P, {persona} }}]\nworkflow: {{ nodes: [{{ id: a, agent_persona: P }}] }}\n"
        );
        let source = Source { name: "flow.yaml".into(), text };
        let loaded = crate::read(&source, &Configured, &Options::default());
        let problems: Vec<&str> = loaded.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(problems, told, "{persona}");
        assert_eq!(loaded.plan.unwrap().agents["a"].models, models, "{persona}");
    }

    #[test]
    fn a_model_provider_is_a_name_of_the_configuration() {
        check("model_provider: [planning]", &["m/plan", "m/spare"], &[]);
        check("modelProvider: general", &["m/any"], &[]);
        check("model_provider: [general, openai/gpt-4o]", &["m/any", "openai/gpt-4o"], &[]);
        // What it stands for goes before `model`, whose variables need not be set then.
        check("model_provider: [planning], model: \"${NOT_SET}\"", &["m/plan", "m/spare"], &[]);
        let model = "model: { model: m/own }";
        let unknown = "the configuration has no model for `other`: `model` is used";
        check(&format!("model_provider: [other], {model}"), &["m/own"], &[unknown]);
        let default = "the configuration has no model for `other`: the default model is used";
        check("model_provider: [other]", &[], &[default]);
    }
}
