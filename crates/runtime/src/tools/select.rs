//! Finding tools: by name, by pattern, all of them; and what the list is worth as a fingerprint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::Effect;
use relais_plan::problem::nearest;
use ring::digest;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Tools, drift, listed, mcp, wrong};
use crate::tool::{Tool, ToolSpec};

/// What there is, and which servers could not be asked.
#[derive(Debug, Default)]
pub struct Listed {
    pub tools: Vec<ToolSpec>,
    pub failed: Vec<Failure>,
}

/// The tool list as it was at one time; the hash changes when a name or its parameters do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// The date, given by the caller.
    pub version: String,
    pub hash: String,
    /// What is enough to say later which tools have changed, and how.
    pub known: Value,
    pub tools: Vec<Value>,
}

impl Tools {
    /// Every tool, by name. Servers that do not answer are in `failed`.
    pub async fn list(&self) -> Listed {
        let mut all =
            Listed { tools: self.own.values().map(|tool| tool.spec().clone()).collect(), ..Listed::default() };
        let asked = futures::future::join_all(self.servers.names().map(|name| self.servers.tools(name))).await;
        for outcome in asked {
            match outcome {
                Ok(tools) => all.tools.extend(tools.iter().map(|tool| tool.spec().clone())),
                Err(failure) => all.failed.push(self.masked_failure(failure)),
            }
        }
        all.tools.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The tools that names and `*` patterns choose, each once. Only servers that a pattern may mean are asked.
    pub async fn select(&self, patterns: &[String]) -> Result<Vec<ToolSpec>, Failure> {
        let mut servers = BTreeMap::new();
        let mut chosen = BTreeMap::new();
        for pattern in patterns {
            self.ask_servers(pattern, &mut servers).await?;
            let known = self.own.values().chain(servers.values().flatten()).map(|tool| tool.spec());
            let found: Vec<&ToolSpec> = known.filter(|spec| matches(pattern, &spec.name)).collect();
            if found.is_empty() {
                return Err(self.unknown(pattern, servers.values().flatten()));
            }
            chosen.extend(found.into_iter().map(|spec| (spec.name.clone(), spec.clone())));
        }
        Ok(chosen.into_values().collect())
    }

    /// The tools of the servers that patterns may mean, as far as these answer within the time; and who answered.
    pub async fn ask(&self, patterns: &[String], time: Duration) -> (Vec<String>, Listed) {
        let is_meant = |name: &&str| patterns.iter().any(|pattern| may_mean(pattern, name));
        let names: Vec<&str> = self.servers.names().filter(is_meant).collect();
        let ask = async |name: &str| match tokio::time::timeout(time, self.servers.tools(name)).await {
            Ok(outcome) => outcome.map_err(|failure| self.masked_failure(failure)),
            Err(_) => {
                let message = format!("MCP server `{name}`: it did not answer within {} s", time.as_secs());
                Err(Failure::new(ErrorKind::Timeout, message))
            }
        };
        let answers = futures::future::join_all(names.iter().map(|name| ask(name))).await;
        let (mut asked, mut all) = (Vec::new(), Listed::default());
        for (name, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok(tools) => {
                    asked.push(name.to_owned());
                    all.tools.extend(tools.iter().map(|tool| tool.spec().clone()));
                }
                Err(failure) => all.failed.push(failure),
            }
        }
        (asked, all)
    }

    pub async fn manifest(&self, version: impl Into<String>) -> Manifest {
        Manifest::new(version.into(), &self.list().await.tools)
    }

    /// What a call may do; none for an unknown tool or a server that does not answer.
    pub async fn effect(&self, name: &str, arguments: &Value) -> Option<Effect> {
        Some(self.find(name).await.ok()?.effect(arguments))
    }

    pub(super) async fn find(&self, name: &str) -> Result<Arc<dyn Tool>, Failure> {
        if let Some(tool) = self.own.get(name) {
            return Ok(tool.clone());
        }
        let mut servers = BTreeMap::new();
        self.ask_servers(name, &mut servers).await?;
        let found = servers.values().flatten().find(|tool| tool.spec().name == name);
        found.cloned().ok_or_else(|| self.unknown(name, servers.values().flatten()))
    }

    async fn ask_servers(&self, pattern: &str, into: &mut BTreeMap<String, Vec<Arc<dyn Tool>>>) -> Result<(), Failure> {
        for name in self.servers.names() {
            if may_mean(pattern, name) && !into.contains_key(name) {
                let tools = self.servers.tools(name).await.map_err(|failure| self.masked_failure(failure))?;
                into.insert(name.to_owned(), tools);
            }
        }
        Ok(())
    }

    fn unknown<'a>(&self, written: &str, remote: impl Iterator<Item = &'a Arc<dyn Tool>>) -> Failure {
        let server = written.strip_prefix(mcp::PREFIX).and_then(|rest| Some(rest.split_once('/')?.0));
        let is_unknown = |server: &&str| !server.contains('*') && !self.servers.names().any(|name| name == *server);
        if let Some(server) = server.filter(is_unknown) {
            return self.unknown_server(server);
        }
        let mut names: Vec<&str> = self.own.keys().map(String::as_str).collect();
        names.extend(remote.map(|tool| tool.spec().name.as_str()));
        let near =
            nearest(written, names.iter().copied()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known = listed(names.into_iter());
        wrong(format!("there is no tool `{written}`; {near}There are: {known}"))
    }

    fn unknown_server(&self, server: &str) -> Failure {
        let near =
            nearest(server, self.servers.names()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let known = listed(self.servers.names());
        let text = format!("there is no MCP server `{server}`; {near}Configured: {known}");
        Failure::new(ErrorKind::Config, text)
    }
}

impl Manifest {
    pub fn new(version: String, tools: &[ToolSpec]) -> Manifest {
        let mut tools: Vec<&ToolSpec> = tools.iter().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hash = digest::Context::new(&digest::SHA256);
        for tool in &tools {
            hash.update(json!([tool.name, sorted(&tool.parameters)]).to_string().as_bytes());
        }
        let hex: String = hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let known = drift::prints(tools.iter().copied());
        Manifest { version, hash: format!("sha256:{hex}"), known, tools: tools.into_iter().map(shown).collect() }
    }

    /// What is kept of it with a workflow; the tools themselves only where that is asked for.
    pub fn kept(&self) -> Value {
        let mut kept = json!({ "version": self.version, "hash": self.hash, "known": self.known });
        if std::env::var("DEBUG_WORKFLOWS").is_ok_and(|value| value == "true") {
            kept["tools"] = json!(self.tools);
        }
        kept
    }
}

/// The name, and of each argument its schema.
fn shown(tool: &ToolSpec) -> Value {
    let args = tool.parameters.get("properties").cloned().unwrap_or_else(|| json!({}));
    json!({"name": tool.name, "args": args, "required": tool.parameters.get("required"), "effect": tool.effect})
}

/// The order of keys is no change.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let ordered: BTreeMap<&String, Value> = fields.iter().map(|(key, value)| (key, sorted(value))).collect();
            ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Could this pattern choose a tool of that server?
fn may_mean(pattern: &str, server: &str) -> bool {
    let before_star = pattern.split('*').next().unwrap_or_default();
    let place = format!("{}{server}/", mcp::PREFIX);
    if pattern.contains('*') {
        place.starts_with(before_star) || before_star.starts_with(&place)
    } else {
        pattern.starts_with(&place)
    }
}

/// `*` stands for any characters. Linear in both: the last star is the only one that ever takes more.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            p += 1;
            n += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            n = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn stars_match_anything() {
        let check =
            |pattern: &str, name: &str, wanted: bool| assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        check("*", "anything", true);
        check("mcp:shop/*", "mcp:shop/buy", true);
        check("mcp:shop/*", "mcp:shopping/buy", false);
        check("*_file", "read_file", true);
        check("*_file", "list_files", false);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("read_file", "read_file", true);
        check("", "x", false);
        check("mcp:*/x", "mcp:a/x", true);
    }

    #[test]
    fn only_meant_servers_are_asked() {
        let check = |pattern: &str, wanted: bool| assert_eq!(may_mean(pattern, "shop"), wanted, "{pattern}");
        for pattern in ["*", "mcp:*", "mcp:sh*", "mcp:shop/*", "mcp:shop/buy", "mcp:shop/b*"] {
            check(pattern, true);
        }
        for pattern in ["read_*", "mcp:other/*", "mcp:shopping/x", "read_file", "mcp:shop"] {
            check(pattern, false);
        }
    }

    #[tokio::test]
    async fn selects_and_names_the_nearest() {
        let tools = Tools::new(&Settings::default());
        let select = async |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
            let chosen = tools.select(&patterns).await;
            chosen
                .map(|specs| specs.into_iter().map(|spec| spec.name).collect::<Vec<_>>())
                .map_err(|failure| failure.message)
        };
        assert_eq!(select(&["*_file", "read_file"]).await.unwrap(), ["read_file", "write_file"]);
        assert_eq!(select(&[]).await.unwrap(), Vec::<String>::new());
        assert!(select(&["read_fil"]).await.unwrap_err().contains("did you mean `read_file`?"));
        assert!(select(&["mcp:shop/buy"]).await.unwrap_err().contains("no MCP server `shop`"));
        assert!(select(&["no_such*"]).await.unwrap_err().contains("There are: http_request"));
    }

    #[tokio::test]
    async fn the_hash_follows_names_and_parameters_only() {
        let tools = Tools::new(&Settings::default()).list().await.tools;
        let hash = |tools: &[ToolSpec]| Manifest::new("2026-01-01".into(), tools).hash;
        let mut other: Vec<ToolSpec> = tools.iter().rev().cloned().collect();
        other[0].description = "other words".into();
        assert_eq!(hash(&tools), hash(&other));
        other[0].parameters["properties"]["extra"] = json!({"type": "string"});
        assert_ne!(hash(&tools), hash(&other));
    }
}
