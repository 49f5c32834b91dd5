//! What agents may use: toolsets as tools that there are, and as MCP servers. Knows nothing of steps.

use indexmap::IndexSet;
use relais_plan::problem::nearest;
use relais_plan::{McpServer, Problem};

use super::agents::{Staff, filled};
use super::keys;
use crate::fields::{Field, Fields};
use crate::native::server_name;
use crate::reader::Reader;
use crate::yaml::Node;

const EXAMPLE: &str = "`toolsets: [{ type: mcp, command: npx, args: [shop-mcp] }, { type: filesystem }]`";
const FILES: &[&str] = &["read_file", "write_file", "list_files"];
const FETCH: &[&str] = &["http_request"];

impl Staff<'_> {
    /// The tools of an agent; servers are declared on the way.
    pub(super) fn toolsets(&mut self, field: Field<'_>, reader: &mut Reader<'_>) -> Vec<String> {
        let Some(items) = filled(field) else {
            reader.wrong(field, "a list of toolsets", EXAMPLE);
            return Vec::new();
        };
        let tools: IndexSet<String> = items.iter().flat_map(|node| self.toolset(node, reader)).collect();
        tools.into_iter().collect()
    }

    fn toolset(&mut self, node: &Node, reader: &mut Reader<'_>) -> Vec<String> {
        let fields = reader.open_map(node, "a toolset", EXAMPLE);
        let Some(word) = fields.as_ref().and_then(|fields| fields.get("type")) else {
            if fields.is_some() {
                reader.problems.push(Problem::error(node.span, "the toolset has no `type`").help(EXAMPLE));
            }
            return Vec::new();
        };
        let kind = reader.name(word).unwrap_or_default();
        if !["mcp", "filesystem", "fetch"].contains(&kind.as_str()) {
            reader.no_toolset(&kind, word);
            return Vec::new();
        }
        let Some(fields) = reader.known_map(node, "a toolset", keys::TOOLSET, keys::NOT_OF_TOOLSET, EXAMPLE) else {
            return Vec::new();
        };
        match kind.as_str() {
            "mcp" => self.mcp(&fields, word, reader),
            "filesystem" => reader.built_in(&fields, FILES),
            _ => reader.built_in(&fields, FETCH),
        }
    }

    fn mcp(&mut self, fields: &Fields<'_>, word: Field<'_>, reader: &mut Reader<'_>) -> Vec<String> {
        let Some(server) = reader.mcp_server(fields, word) else { return Vec::new() };
        let written = fields.get("name").and_then(|field| reader.name(field));
        let server = self.declare(written.unwrap_or_else(|| server_name(&server)), server);
        match fields.get("tools") {
            Some(field) => reader.texts(field).iter().map(|tool| format!("mcp:{server}/{tool}")).collect(),
            None => vec![format!("mcp:{server}/*")],
        }
    }

    /// The same server is declared once, however many agents use it; others of that name get `_2`, `_3`.
    fn declare(&mut self, name: String, server: McpServer) -> String {
        let same = format!("{name} {server:?}");
        if let Some(known) = self.declared.get(&same) {
            return known.clone();
        }
        let mut unique = name.clone();
        while self.servers.contains_key(&unique) {
            let count = self.repeats.entry(name.clone()).or_insert(1);
            *count += 1;
            unique = format!("{name}_{count}");
        }
        self.servers.insert(unique.clone(), server);
        self.declared.insert(same, unique.clone());
        unique
    }
}

impl Reader<'_> {
    fn no_toolset(&mut self, kind: &str, word: Field<'_>) {
        let known = ["mcp", "filesystem", "fetch"];
        let problem = match keys::NO_TOOLSET.iter().find(|(name, _)| *name == kind) {
            Some((_, advice)) => {
                Problem::error(word.node.span, format!("there are no tools of type `{kind}`")).help(*advice)
            }
            None => {
                let problem = Problem::error(word.node.span, format!("`{kind}` is no type of toolset"));
                match nearest(kind, known.into_iter().chain(keys::NO_TOOLSET.iter().map(|(name, _)| *name))) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help(format!("types are {}", known.join(", "))),
                }
            }
        };
        self.problems.push(problem);
    }

    /// A server that is a program, or one at an address.
    fn mcp_server(&mut self, fields: &Fields<'_>, word: Field<'_>) -> Option<McpServer> {
        match (fields.get("command"), fields.get("remote")) {
            (Some(command), None) => Some(self.program(command, fields)),
            (None, Some(remote)) => self.remote(remote, fields),
            _ => {
                // What `ref` would have said is reported with advice already.
                if !fields.has("ref") {
                    let message = "an MCP toolset takes one of `command` and `remote`";
                    let help = format!("for example {EXAMPLE}");
                    self.problems.push(Problem::error(word.node.span, message).help(help));
                }
                None
            }
        }
    }

    fn remote(&mut self, field: Field<'_>, outer: &Fields<'_>) -> Option<McpServer> {
        for field in [outer.get("args"), outer.get("env")].into_iter().flatten() {
            self.no_effect(field, "beside `remote`", "it belongs to a server with `command`");
        }
        let example =
            "`remote: { url: \"https://shop.example/mcp\", headers: { Authorization: \"Bearer ${TOKEN}\" } }`";
        let fields = self.map(field.node, "`remote`", keys::REMOTE, example)?;
        if let Some(transport) = fields.get("transport_type") {
            self.choice(transport, &[("streamable", ()), ("streamable-http", ())]);
        }
        let Some(url) = fields.get("url") else {
            let problem = Problem::error(field.key_span, "`remote` has no `url`");
            self.problems.push(problem.help(format!("for example {example}")));
            return None;
        };
        Some(self.http_server(url, &fields))
    }

    /// Tools that are always there, all of a kind or those that are listed.
    fn built_in(&mut self, fields: &Fields<'_>, tools: &[&str]) -> Vec<String> {
        for key in ["name", "command", "args", "env", "remote"] {
            if let Some(field) = fields.get(key) {
                self.no_effect(field, "on this type of toolset", "it belongs to `type: mcp`");
            }
        }
        let Some(listed) = fields.get("tools") else { return tools.iter().map(|tool| (*tool).to_owned()).collect() };
        let names = self.names(listed);
        for name in names.iter().filter(|name| !tools.contains(&name.text.as_str())) {
            let problem = Problem::error(name.span, format!("this toolset has no tool `{}`", name.text));
            self.problems.push(match nearest(&name.text, tools.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("it has {}", tools.join(", "))),
            });
        }
        names.into_iter().map(|name| name.text).filter(|name| tools.contains(&name.as_str())).collect()
    }
}
