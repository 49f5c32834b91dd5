//! The keys of the format, in one place: what each map may hold, and the spellings that mean the same.
//!
//! Every key may be written in snake_case or in camelCase; some have a second name. Two spellings of one setting in one
//! map are an error. What belongs to a deployment with a broker is named in a warning: it says nothing about a workflow.

use indexmap::IndexMap;
use relais_plan::{Problem, Span};

use crate::fields::{Field, unknown_key};
use crate::reader::Reader;
use crate::yaml::Node;

/// A map's keys, and the second names among them.
pub(super) struct Table {
    pub what: &'static str,
    pub known: &'static [&'static str],
    pub aliases: &'static [(&'static str, &'static str)],
    pub example: &'static str,
}

pub(super) const TOP: Table = Table {
    what: "the file",
    known: &["name", "description", "personas", "workflow", "apps"],
    aliases: &[("agent_name", "name"), ("agents", "personas")],
    example: "`workflow: { nodes: [{ id: extract, agent_persona: Extractor }] }`",
};

pub(super) const APP: Table = Table {
    what: "an app",
    known: &["name", "app_config"],
    aliases: &[],
    example: "`{ name: orders, app_config: { agent_name: Orders, workflow: { nodes: […] } } }`",
};

pub(super) const WORKFLOW_APP: Table = Table {
    what: "the `app_config` of a workflow",
    known: &[
        "agent_name",
        "display_name",
        "description",
        "workflow",
        "input_schema",
        "output_schema",
        "shutdown_timeout",
        "max_workflow_execution_time_seconds",
        "default_node_timeout_seconds",
        "default_max_loop_iterations",
        "default_max_map_items",
    ],
    aliases: &[("name", "agent_name")],
    example: "`app_config: { agent_name: Orders, workflow: { nodes: […] } }`",
};

pub(super) const PERSONA: Table = Table {
    what: "a persona",
    known: &[
        "agent_name",
        "display_name",
        "description",
        "instruction",
        "model",
        "tools",
        "input_schema",
        "output_schema",
        "agent_card",
        "result_limit",
    ],
    aliases: &[("name", "agent_name"), ("instructions", "instruction")],
    example: "`{ agent_name: Extractor, instruction: Extract the customer., output_schema: { … } }`",
};

pub(super) const WORKFLOW: Table = Table {
    what: "`workflow`",
    known: &[
        "name",
        "description",
        "input_schema",
        "output_schema",
        "nodes",
        "output_mapping",
        "on_exit",
        "fail_fast",
        "retry_strategy",
        "timeout",
        "shutdown_timeout",
        "prompt_injection",
    ],
    aliases: &[("agent_name", "name")],
    example: "`workflow: { nodes: [{ id: extract, agent_persona: Extractor }] }`",
};

pub(super) const PROMPT_INJECTION: Table = Table {
    what: "`prompt_injection`",
    known: &["include_position_info", "include_visual_separators", "custom_preamble"],
    aliases: &[],
    example: "`prompt_injection: { include_position_info: false }`",
};

pub(super) const RETRY: Table = Table {
    what: "`retry_strategy`",
    known: &["limit", "retry_policy", "backoff"],
    aliases: &[],
    example: "`retry_strategy: { limit: 2, retry_policy: OnFailure, backoff: { duration: 1s } }`",
};

pub(super) const BACKOFF: Table = Table {
    what: "`backoff`",
    known: &["duration", "factor", "max_duration"],
    aliases: &[],
    example: "`backoff: { duration: 1s, factor: 2, max_duration: 1m }`",
};

pub(super) const ON_EXIT: Table = Table {
    what: "`on_exit`",
    known: &["always", "success", "failure", "cancel"],
    aliases: &[("on_success", "success"), ("on_failure", "failure"), ("on_cancel", "cancel")],
    example: "`on_exit: { always: clean_up, failure: tell_someone }`",
};

pub(super) const CASE: Table = Table {
    what: "a case",
    known: &["value", "nodes"],
    aliases: &[("node", "nodes"), ("then", "nodes")],
    example: "`{ value: high, nodes: [{ id: urgent, agent_persona: Urgent }] }`",
};

pub(super) const SWITCH_CASE: Table = Table {
    what: "a case",
    known: &["condition", "nodes"],
    aliases: &[("when", "condition"), ("node", "nodes"), ("then", "nodes")],
    example: "`{ condition: \"{{price.output.total}} > 500\", node: approve }`",
};

pub(super) const MODEL: Table = Table {
    what: "`model`",
    known: &["model", "temperature", "max_tokens"],
    aliases: &[],
    example: "`model: openai/gpt-4o-mini`",
};

pub(super) const TOOL: Table = Table {
    what: "a tool",
    known: &["tool_type", "group_name", "tool_name"],
    aliases: &[],
    example: "`tools: [search_web]` or `{ tool_type: builtin, tool_name: search_web }`",
};

pub(super) const CARD: Table =
    Table {
        what: "`agent_card`", known: &["description"], aliases: &[], example: "`agent_card: { description: … }`"
    };

/// Second names of what a node says.
const NODE_ALIASES: &[(&str, &str)] = &[
    ("agent_name", "agent_persona"),
    ("dependencies", "depends_on"),
    ("workflow_name", "workflow"),
    ("loop_node", "node"),
];

pub(super) const AGENT_NODE: &[&str] =
    &["agent_persona", "request_template", "instruction", "input_schema_override", "output_schema_override"];
/// Keys of every node.
const COMMON: &[&str] = &["id", "type", "depends_on", "when", "timeout", "retry_strategy", "input"];

/// A type of node: its word, and the keys that it has beyond the common ones.
pub(super) const TYPES: &[(&str, &[&str])] = &[
    ("agent", AGENT_NODE),
    ("if", &["condition", "then", "else"]),
    ("case", &["expression", "cases", "default"]),
    ("switch", &["cases", "default"]),
    ("fork", &["branches", "wait_for"]),
    ("loop", &["loop_body", "node", "iterate_over", "condition", "max_iterations", "delay"]),
    ("map", &["items", "with_items", "with_param", "node", "max_items", "concurrency_limit"]),
    ("workflow", &["workflow"]),
];

/// Under which keys the nodes stand that a node runs.
pub(super) const BODIES: &[&str] = &["then", "else", "cases", "default", "branches", "loop_body", "node", "nodes"];

/// What belongs to a deployment and says nothing about a workflow: named once in a warning, and then passed over. Its
/// variables need not be set here.
pub(super) const DEPLOYMENT: &[&str] = &[
    "log",
    "shared_config",
    "namespace",
    "broker",
    "app_module",
    "app_base_path",
    "session_service",
    "artifact_service",
    "artifact_scope",
    "agent_card_publishing",
    "agent_discovery",
    "inter_agent_communication",
    "supports_streaming",
    "data_tools_config",
    "enable_embed_resolution",
    "enable_artifact_content_instruction",
    "artifact_handling_mode",
];
/// What says how a provider is reached: `relais.toml` and the environment do. Its variables are not looked up.
pub(super) const PROVIDER: &[&str] = &[
    "api_base",
    "api_key",
    "cache_strategy",
    "parallel_tool_calls",
    "oauth_token_url",
    "oauth_client_id",
    "oauth_client_secret",
    "oauth_scope",
    "oauth_ca_cert",
    "oauth_token_refresh_buffer_seconds",
];
/// What only a card or a registry would show.
const CARDS: &[&str] = &["skills", "version", "default_input_modes", "default_output_modes"];

/// The fields of a map by their names in snake_case.
pub(super) struct Keys<'n> {
    pub span: Span,
    fields: IndexMap<String, Field<'n>>,
}

impl<'n> Keys<'n> {
    pub fn get(&self, key: &str) -> Option<Field<'n>> {
        self.fields.get(key).copied()
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, Field<'n>)> {
        self.fields.iter().map(|(key, field)| (key.as_str(), *field))
    }
}

impl Reader<'_> {
    pub(super) fn dag_keys<'n>(&mut self, node: &'n Node, table: &Table) -> Option<Keys<'n>> {
        let keys = self.dag_spelled(node, table.what, table.aliases, table.example)?;
        self.dag_known(&keys, table.what, table.known);
        Some(keys)
    }

    /// A node of the type that it names.
    pub(super) fn dag_node_keys<'n>(&mut self, node: &'n Node) -> Option<Keys<'n>> {
        self.dag_spelled(node, "a node", NODE_ALIASES, "`{ id: extract, agent_persona: Extractor }`")
    }

    pub(super) fn known_in_node(&mut self, keys: &Keys<'_>, word: &str, branch: bool) {
        let own = TYPES.iter().find(|(known, _)| *known == word).map_or(AGENT_NODE, |(_, own)| *own);
        let also: &[&str] = if branch { &["output_key"] } else { &[] };
        let known: Vec<&str> = COMMON.iter().chain(own).chain(also).copied().collect();
        let what = format!("{} node", crate::native::article(word));
        for (key, field) in keys.all().filter(|(key, _)| !known.contains(key)) {
            let elsewhere: Vec<&str> =
                TYPES.iter().filter(|(_, own)| own.contains(&key)).map(|(word, _)| *word).collect();
            match (key, elsewhere.as_slice()) {
                ("output_key", _) => self.no_effect(field, "here", "it belongs to the branches of a fork"),
                ("instruction", _) if word == "workflow" => {
                    self.dag_passed_over(field, "a workflow is given its `input`, and nothing else");
                }
                (_, []) => self.problems.push(unknown_key(field, &what, &known)),
                (_, words) => {
                    self.no_effect(field, &format!("on {what}"), &format!("it belongs to {}", words.join(", ")));
                }
            }
        }
    }

    fn dag_spelled<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        aliases: &[(&str, &str)],
        example: &str,
    ) -> Option<Keys<'n>> {
        let mut keys = Keys { span: node.span, fields: IndexMap::new() };
        for field in self.open_map(node, what, example)?.all() {
            let name = canonical(field.key, aliases);
            if let Some(first) = keys.get(&name) {
                let message = format!("`{}` and `{}` are the same setting", first.key, field.key);
                self.problems.push(Problem::error(field.key_span, message).help("keep one of them"));
            } else {
                keys.fields.insert(name, field);
            }
        }
        Some(keys)
    }

    fn dag_known(&mut self, keys: &Keys<'_>, what: &str, known: &[&str]) {
        for (key, field) in keys.all().filter(|(key, _)| !known.contains(key)) {
            let help = if what == MODEL.what && PROVIDER.contains(&key) && !is_credential(key, field) {
                "how a provider is reached stands in relais.toml; its key comes from the environment"
            } else if key == "max_call_depth" {
                "workflows call one another at most 10 deep here"
            } else if DEPLOYMENT.contains(&key) {
                "it belongs to a deployment with a broker; a run here needs none"
            } else if CARDS.contains(&key) {
                "it says nothing about how the workflow runs; every change of a file is a version of its own"
            } else {
                self.problems.push(unknown_key(field, what, known));
                continue;
            };
            self.dag_passed_over(field, help);
        }
    }

    /// One warning for each such key, however often it stands in the file.
    fn dag_passed_over(&mut self, field: Field<'_>, help: &str) {
        let message = format!("`{}` has no effect here", field.key);
        if !self.problems.iter().any(|problem| problem.message == message) {
            self.problems.push(Problem::warning(field.key_span, message).help(help));
        }
    }
}

/// Is the secret itself written there, and not just the variable that has it?
fn is_credential(key: &str, field: Field<'_>) -> bool {
    let names_variable = |text: &str| text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    crate::native::keys::means_secret(key) && !field.node.as_text().is_some_and(names_variable)
}

/// `maxItems` is `max_items`, and a second name is the first.
pub(super) fn canonical(key: &str, aliases: &[(&str, &str)]) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    let name = aliases.iter().find(|(alias, _)| *alias == snake).map(|(_, name)| (*name).to_owned());
    name.unwrap_or(snake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_and_second_names_are_the_same_setting() {
        let check = |key: &str, expected: &str| assert_eq!(canonical(key, NODE_ALIASES), expected);
        check("agentPersona", "agent_persona");
        check("agentName", "agent_persona");
        check("agent_name", "agent_persona");
        check("withParam", "with_param");
        check("dependencies", "depends_on");
        check("dependsOn", "depends_on");
        check("inputSchemaOverride", "input_schema_override");
        check("id", "id");
    }
}
