//! Agents, rules about tools, and MCP servers.

use indexmap::IndexMap;
use relais_plan::{Agent, Effect, MIN_RESULT_LIMIT, McpServer, OnCut, People, Problem, ToolRule};
use serde_json::Value;

use super::keys;
use crate::fields::{Field, Fields};
use crate::reader::Reader;
use crate::yaml::{Data, Node};

const AGENT_EXAMPLE: &str = "`writer: { model: openai/gpt-4o-mini, instructions: Write short sentences. }`";
const ON_CUT: [(&str, OnCut); 2] = [("continue", OnCut::Continue), ("fail", OnCut::Fail)];
const SERVER_EXAMPLE: &str = "`shop: { command: [npx, shop-mcp] }` or `shop: { url: \"https://shop.example/mcp\" }`";

impl Reader<'_> {
    pub(crate) fn agents(&mut self, field: Field<'_>) {
        let Some(fields) =
            self.open_map(field.node, "`agents`", &format!("`agents: {{ {} }}`", AGENT_EXAMPLE.trim_matches('`')))
        else {
            return;
        };
        for field in fields.all() {
            let mut agent = self.agent(field.node);
            agent.span = field.key_span;
            self.agents.insert(field.key.to_owned(), agent);
        }
    }

    /// Keys: `description` (for people), `model` (one or a fallback order), `instructions`, `tools`, `input`, `output`, `max_turns`,
    /// `output_retries`, `budget`, `max_tokens`, `temperature`, `result_mark`, `result_limit`, `on_cut`.
    pub(crate) fn agent(&mut self, node: &Node) -> Agent {
        let default = Agent { span: node.span, ..Agent::default() };
        let Some(fields) = self.map(node, "an agent", keys::AGENT, AGENT_EXAMPLE) else {
            return default;
        };
        Agent {
            description: fields.get("description").and_then(|field| self.text(field)),
            models: fields.get("model").map(|field| self.texts(field)).unwrap_or_default(),
            instructions: fields.get("instructions").map_or(default.instructions, |field| self.prompt(field)),
            tools: fields.get("tools").map(|field| self.texts(field)).unwrap_or_default(),
            input: fields.get("input").and_then(|field| self.schema(field)),
            output: fields.get("output").and_then(|field| self.schema(field)),
            max_turns: fields.get("max_turns").and_then(|field| self.whole(field, 1)).unwrap_or(default.max_turns),
            output_retries: (fields.get("output_retries").and_then(|field| self.whole(field, 0)))
                .unwrap_or(default.output_retries),
            budget: fields.get("budget").map(|field| self.budget(field)).unwrap_or_default(),
            max_tokens: fields.get("max_tokens").and_then(|field| self.whole(field, 1)),
            temperature: fields.get("temperature").and_then(|field| self.temperature(field)),
            result_mark: fields.get("result_mark").and_then(|field| self.flag(field)).unwrap_or_default(),
            result_limit: fields.get("result_limit").and_then(|field| self.result_limit(field)),
            on_cut: fields.get("on_cut").and_then(|field| self.choice(field, &ON_CUT)).unwrap_or_default(),
            span: node.span,
        }
    }

    /// How much of a tool's result the agent is told at once.
    pub(crate) fn result_limit(&mut self, field: Field<'_>) -> Option<u64> {
        let bytes = self.size(field)?;
        if bytes < MIN_RESULT_LIMIT {
            self.wrong(field, "at least `1k`", &format!("`{}: 64k`", field.key));
            return None;
        }
        Some(bytes)
    }

    pub(crate) fn temperature(&mut self, field: Field<'_>) -> Option<f64> {
        let number = match &field.node.data {
            Data::Scalar(Value::Number(number)) => number.as_f64(),
            _ => None,
        };
        let number = number.filter(|number| (0.0..=2.0).contains(number));
        if number.is_none() {
            self.wrong(field, "a number from 0 to 2", "`temperature: 0.2`");
        }
        number
    }

    /// By tool name or pattern: `effect`, `approve`, `timeout`.
    pub(crate) fn tool_rules(&mut self, field: Field<'_>) -> IndexMap<String, ToolRule> {
        let example = "`tools: { send_message: { effect: once, approve: true } }`";
        let Some(fields) = self.open_map(field.node, "`tools`", example) else {
            return IndexMap::new();
        };
        let effects = [("read", Effect::Read), ("idempotent", Effect::Idempotent), ("once", Effect::Once)];
        let mut rules = IndexMap::new();
        for tool in fields.all() {
            let Some(fields) = self.map(tool.node, "a rule about a tool", keys::TOOL_RULE, example) else {
                continue;
            };
            let effect = fields.get("effect").and_then(|field| self.choice(field, &effects));
            let (approve, people) = fields.get("approve").map(|field| self.approve(field)).unwrap_or_default();
            let timeout_ms = fields.get("timeout").and_then(|field| self.duration(field));
            rules.insert(tool.key.to_owned(), ToolRule { effect, approve, people, timeout_ms, span: tool.key_span });
        }
        rules
    }

    /// Whether a person must say yes, and who that may be.
    fn approve(&mut self, field: Field<'_>) -> (Option<bool>, People) {
        if let Data::Scalar(_) = &field.node.data {
            return (self.flag(field), People::default());
        }
        let example = "`approve: true` or `approve: { people: [ann], remind: 1d }`";
        let fields = self.map(field.node, "`approve`", keys::APPROVE, example);
        let people = fields.map(|fields| self.people(&fields, true)).unwrap_or_default();
        (Some(true), people)
    }

    /// By name: `command` (text or a list), `args`, `env` for a program; `url`, `headers` for an HTTP server.
    pub(crate) fn servers(&mut self, field: Field<'_>) -> IndexMap<String, McpServer> {
        let Some(fields) = self.open_map(field.node, "`mcp`", SERVER_EXAMPLE) else {
            return IndexMap::new();
        };
        let mut servers = IndexMap::new();
        for server in fields.all() {
            if let Some(fields) = self.map(server.node, "an MCP server", keys::SERVER, SERVER_EXAMPLE) {
                servers.insert(server.key.to_owned(), self.server(server, &fields));
            }
        }
        servers
    }

    fn server(&mut self, field: Field<'_>, fields: &Fields<'_>) -> McpServer {
        match (fields.get("command"), fields.get("url")) {
            (Some(command), None) => self.program(command, fields),
            (None, Some(url)) => self.http_server(url, fields),
            _ => {
                let message = format!("the MCP server `{}` takes one of `command` and `url`", field.key);
                self.problems
                    .push(Problem::error(field.key_span, message).help(format!("for example {SERVER_EXAMPLE}")));
                McpServer::default()
            }
        }
    }

    pub(crate) fn program(&mut self, command: Field<'_>, fields: &Fields<'_>) -> McpServer {
        if let Some(headers) = fields.get("headers") {
            self.no_effect(headers, "on a server with `command`", "give a program its secrets by `env`");
        }
        let mut words = self.texts(command).into_iter();
        let program = words.next().filter(|program| !program.trim().is_empty());
        if program.is_none() && matches!(command.node.data, Data::List(_) | Data::Scalar(Value::String(_))) {
            self.wrong(command, "a program", "`command: [npx, shop-mcp]`");
        }
        let args = fields.get("args").map(|field| self.texts(field)).unwrap_or_default();
        McpServer {
            command: program,
            args: words.chain(args).collect(),
            env: fields.get("env").map(|field| self.settings(field)).unwrap_or_default(),
            ..McpServer::default()
        }
    }

    pub(crate) fn http_server(&mut self, url: Field<'_>, fields: &Fields<'_>) -> McpServer {
        for field in [fields.get("args"), fields.get("env")].into_iter().flatten() {
            self.no_effect(field, "on a server with `url`", "it belongs to a server with `command`");
        }
        let address = url.node.as_text().filter(|url| url.starts_with("http://") || url.starts_with("https://"));
        if address.is_none() {
            self.wrong(url, "an address", "`url: \"https://shop.example/mcp\"`");
        }
        McpServer {
            url: address.map(str::to_owned),
            headers: fields.get("headers").map(|field| self.settings(field)).unwrap_or_default(),
            ..McpServer::default()
        }
    }

    /// Names with text values; a secret is named, never written.
    pub(crate) fn settings(&mut self, field: Field<'_>) -> IndexMap<String, String> {
        let example = "`env: { TOKEN: \"${SHOP_TOKEN}\" }`";
        let Some(fields) = self.open_map(field.node, &format!("`{}`", field.key), example) else {
            return IndexMap::new();
        };
        let mut settings = IndexMap::new();
        for field in fields.all() {
            let Some(text) = self.text(field) else { continue };
            if keys::means_secret(field.key) && !text.contains("${") {
                let message = format!("`{}`: a workflow file holds no credentials", field.key);
                let help = "name the variable that holds it, such as \"${SHOP_TOKEN}\"";
                self.problems.push(Problem::error(field.node.span, message).help(help));
            }
            settings.insert(field.key.to_owned(), text);
        }
        settings
    }
}

/// A server without a name takes that of its program or host.
pub(crate) fn server_name(server: &McpServer) -> String {
    let whole = server.command.as_deref().or(server.url.as_deref()).unwrap_or("server");
    let place = whole.split_once("://").map_or(whole, |(_, place)| place.split('/').next().unwrap_or(place));
    let last = place.rsplit(['/', '\\']).next().unwrap_or(place);
    last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}
