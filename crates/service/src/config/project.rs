//! The `relais.toml` of a project: found in the current folder or one above it, and so perhaps written by somebody else.
//! What of it could redirect, start or read anything is told here, and left out until the user trusts the file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{FILE, parse, read_text};
use crate::Error;

/// What may be taken from anybody: it names a model that the user can call anyway, and the zone of clock times.
pub const HARMLESS: [&str; 2] = ["default_model", "timezone"];

/// A project's file as it was read: what is trusted, judged and used is the same text.
#[derive(Debug, Clone)]
pub struct Project {
    /// With all links of its folder followed.
    pub file: PathBuf,
    text: String,
    pub(super) table: Table,
}

/// One thing that a file would do beyond what is harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    pub verb: &'static str,
    pub what: String,
    /// The key that says so.
    pub key: String,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.verb, self.what, self.key)
    }
}

impl Project {
    /// The nearest file above a folder, unless it is the one in the home folder, which is the user's own.
    pub fn find(current: &Path, home: &Path) -> Result<Option<Project>, Error> {
        let Some(file) = current.ancestors().map(|folder| folder.join(FILE)).find(|file| file.is_file()) else {
            return Ok(None);
        };
        let file = resolved(&file);
        if file == resolved(&home.join(FILE)) { Ok(None) } else { Project::read(&file).map(Some) }
    }

    pub fn read(file: &Path) -> Result<Project, Error> {
        let text = read_text(file)?;
        Ok(Project { file: resolved(file), table: parse(file, &text)?, text })
    }

    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn hash(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex().to_string()
    }

    /// What is used of it although nobody trusts it.
    pub(super) fn harmless(&self) -> Table {
        let harmless = |(key, _): &(&String, &Value)| HARMLESS.contains(&key.as_str());
        self.table.iter().filter(harmless).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What it would start, redirect, read and set, what matters most first.
    pub fn deeds(&self) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for (key, value) in self.table.iter().filter(|(key, _)| !HARMLESS.contains(&key.as_str())) {
            collect(&mut vec![key], value, &mut deeds);
        }
        deeds.sort_by_key(|deed| VERBS.iter().position(|verb| *verb == deed.verb));
        deeds
    }
}

const VERBS: [&str; 5] = ["starts", "sends to", "keeps runs in", "reads", "sets"];

/// A path with the links of its folder followed; as it stands where there is no such folder.
pub fn resolved(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    file.file_name().map_or_else(|| folder.clone(), |name| folder.join(name))
}

/// Tables within tables are as deep as the settings are: the file was read as such.
fn collect<'t>(path: &mut Vec<&'t str>, value: &'t Value, deeds: &mut Vec<Deed>) {
    if let Value::Table(table) = value {
        let is_server = matches!(path[..], ["mcp", _]);
        for (key, inner) in table.iter().filter(|(key, _)| !is_server || *key != "args") {
            path.push(key);
            collect(path, inner, deeds);
            path.pop();
        }
        if is_server {
            args(path, table, deeds);
        }
        return;
    }
    let key = path.join(".");
    let (verb, what) = judged(path, value);
    deeds.push(Deed { verb, what, key: key.clone() });
    for name in variables(value) {
        deeds.push(Deed { verb: "reads", what: format!("${name}"), key: key.clone() });
    }
}

/// The arguments of a program stand with it, as they would be typed.
fn args(path: &[&str], table: &Table, deeds: &mut [Deed]) {
    let key = format!("{}.command", path.join("."));
    let started = deeds.iter_mut().find(|deed| deed.verb == "starts" && deed.key == key);
    if let (Some(deed), Some(args)) = (started, table.get("args")) {
        deed.what = format!("{} {}", deed.what, shown(args));
    }
}

fn judged(path: &[&str], value: &Value) -> (&'static str, String) {
    match (path.last().copied().unwrap_or_default(), path) {
        ("command" | "python", _) => ("starts", shown(value)),
        ("base_url" | "url" | "webhook" | "email" | "otlp_endpoint" | "jwks_url", _) => ("sends to", shown(value)),
        ("host", ["smtp", ..]) => ("sends to", shown(value)),
        ("api_key_env", _) => ("reads", format!("${}", shown(value))),
        (_, ["tools", "databases", _]) => ("reads", shown(value)),
        ("database", _) => ("keeps runs in", shown(value)),
        // What may be a secret is not shown.
        (name, ["secrets", ..] | [.., "env" | "headers", _] | [.., "password" | "secret"]) => ("sets", name.to_owned()),
        (name, _) => ("sets", format!("{name} = {}", shown(value))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(word) => word.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Table(table) => table.keys().cloned().collect::<Vec<_>>().join(" "),
    }
}

/// The variables that a text names as `${NAME}`.
fn variables(value: &Value) -> BTreeSet<String> {
    let text = shown(value);
    let named = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    named.map(|(name, _)| name.trim_start_matches("secret:").to_owned()).collect()
}
