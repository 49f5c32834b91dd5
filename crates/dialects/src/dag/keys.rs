//! The keys of the format, in one place: what each map may hold, and the spellings that mean the same.
//!
//! Every key may be written in snake_case or in camelCase; some have a second name. Two spellings of one setting in one
//! map are an error. What the released product knows and a run here has no use for is named in a warning (`Idle`); what
//! nobody knows is an error.

use indexmap::IndexMap;
use relais_plan::problem::nearest;
use relais_plan::{Problem, Span};

use crate::fields::{Field, unknown_key};
use crate::reader::Reader;
use crate::yaml::Node;

/// A map's keys, the second names among them, and those that are known and have no effect.
pub(super) struct Table {
    pub what: &'static str,
    pub known: &'static [&'static str],
    pub aliases: &'static [(&'static str, &'static str)],
    idle: &'static [&'static Idle],
    pub example: &'static str,
}

/// Keys that files of the released product have and that change nothing about a run here: each is named in a warning.
pub(super) struct Idle {
    pub keys: &'static [&'static str],
    why: &'static str,
}

impl Idle {
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }
}

pub(super) const TOP: Table = Table {
    what: "the file",
    known: &["name", "description", "personas", "workflow", "apps"],
    aliases: &[("agent_name", "name"), ("agents", "personas")],
    idle: &[&DEPLOYMENT],
    example: "`workflow: { nodes: [{ id: extract, agent_persona: Extractor }] }`",
};

pub(super) const APP: Table = Table {
    what: "an app",
    known: &["name", "app_config", "app_module"],
    aliases: &[],
    idle: &[&DEPLOYMENT],
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
    idle: &[&DEPLOYMENT, &HOSTING, &CARDS, &OF_PERSONAS],
    example: "`app_config: { agent_name: Orders, workflow: { nodes: […] } }`",
};

pub(super) const PERSONA: Table = Table {
    what: "a persona",
    known: &[
        "agent_name",
        "display_name",
        "description",
        "instruction",
        "global_instruction",
        "model",
        "model_provider",
        "tools",
        "input_schema",
        "output_schema",
        "agent_card",
        "max_llm_calls_per_task",
        "result_limit",
    ],
    aliases: &[("name", "agent_name"), ("instructions", "instruction")],
    idle: &[&DEPLOYMENT, &HOSTING, &CARDS, &CALL_DEPTH],
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
    idle: &[&CARDS, &CALL_DEPTH],
    example: "`workflow: { nodes: [{ id: extract, agent_persona: Extractor }] }`",
};

pub(super) const PROMPT_INJECTION: Table = Table {
    what: "`prompt_injection`",
    known: &["include_position_info", "include_visual_separators", "custom_preamble"],
    aliases: &[],
    idle: &[],
    example: "`prompt_injection: { include_position_info: false }`",
};

pub(super) const RETRY: Table = Table {
    what: "`retry_strategy`",
    known: &["limit", "retry_policy", "backoff"],
    aliases: &[],
    idle: &[],
    example: "`retry_strategy: { limit: 2, retry_policy: OnFailure, backoff: { duration: 1s } }`",
};

pub(super) const BACKOFF: Table = Table {
    what: "`backoff`",
    known: &["duration", "factor", "max_duration"],
    aliases: &[],
    idle: &[],
    example: "`backoff: { duration: 1s, factor: 2, max_duration: 1m }`",
};

pub(super) const ON_EXIT: Table = Table {
    what: "`on_exit`",
    known: &["always", "success", "failure", "cancel"],
    aliases: &[("on_success", "success"), ("on_failure", "failure"), ("on_cancel", "cancel")],
    idle: &[],
    example: "`on_exit: { always: clean_up, failure: tell_someone }`",
};

pub(super) const CASE: Table = Table {
    what: "a case",
    known: &["value", "nodes"],
    aliases: &[("node", "nodes"), ("then", "nodes")],
    idle: &[],
    example: "`{ value: high, nodes: [{ id: urgent, agent_persona: Urgent }] }`",
};

pub(super) const SWITCH_CASE: Table = Table {
    what: "a case",
    known: &["condition", "nodes"],
    aliases: &[("when", "condition"), ("node", "nodes"), ("then", "nodes")],
    idle: &[],
    example: "`{ condition: \"{{price.output.total}} > 500\", node: approve }`",
};

pub(super) const MODEL: Table = Table {
    what: "`model`",
    known: &["model", "temperature", "max_tokens"],
    aliases: &[("max_completion_tokens", "max_tokens")],
    idle: &[&PROVIDER, &SAMPLING],
    example: "`model: openai/gpt-4o-mini`",
};

pub(super) const TOOL: Table = Table {
    what: "a tool",
    known: &["tool_type", "group_name", "tool_name"],
    aliases: &[],
    idle: &[&TOOL_SETTINGS],
    example: "`tools: [search_web]` or `{ tool_type: builtin, tool_name: search_web }`",
};

pub(super) const MCP_TOOL: Table = Table {
    what: "a tool of the type `mcp`",
    known: &["tool_type", "tool_name", "connection_params", "environment_variables", "allow_list", "deny_list"],
    aliases: &[],
    idle: &[&TOOL_SETTINGS],
    example: "`{ tool_type: mcp, connection_params: { type: stdio, command: npx, args: [shop-mcp] } }`",
};

pub(super) const CONNECTION: Table = Table {
    what: "`connection_params`",
    known: &["type", "command", "args", "env", "url", "headers"],
    aliases: &[],
    idle: &[&CONNECTION_SETTINGS],
    example: "`connection_params: { type: streamable-http, url: \"https://shop.example/mcp\" }`",
};

pub(super) const CARD: Table = Table {
    what: "`agent_card`",
    known: &["description"],
    aliases: &[],
    idle: &[&CARDS],
    example: "`agent_card: { description: … }`",
};

/// Second names of what a node says.
pub(super) const NODE_ALIASES: &[(&str, &str)] = &[
    ("agent_name", "agent_persona"),
    ("dependencies", "depends_on"),
    ("workflow_name", "workflow"),
    ("loop_node", "node"),
    ("loop_over", "iterate_over"),
    ("true_branch", "then"),
    ("false_branch", "else"),
];

pub(super) const AGENT_NODE: &[&str] =
    &["agent_persona", "request_template", "instruction", "input_schema_override", "output_schema_override"];
/// Keys of every node.
const COMMON: &[&str] = &["id", "type", "depends_on", "when", "timeout", "retry_strategy", "input"];

/// A type of node: its word, and the keys that it has beyond the common ones. `conditional` is the older word for `if`.
pub(super) const TYPES: &[(&str, &[&str])] = &[
    ("agent", AGENT_NODE),
    ("if", &["condition", "then", "else"]),
    ("conditional", &["condition", "then", "else"]),
    ("case", &["expression", "cases", "default"]),
    ("switch", &["cases", "default"]),
    ("fork", &["branches", "wait_for"]),
    ("loop", &["loop_body", "node", "iterate_over", "condition", "max_iterations", "delay"]),
    ("map", &["items", "with_items", "with_param", "node", "max_items", "concurrency_limit"]),
    ("workflow", &["workflow", "input_schema_override"]),
];

/// Under which keys the nodes stand that a node runs.
pub(super) const BODIES: &[&str] = &["then", "else", "cases", "default", "branches", "loop_body", "node", "nodes"];

/// What belongs to a deployment. Its variables need not be set here.
pub(super) const DEPLOYMENT: Idle = Idle {
    keys: &[
        "log",
        "trace",
        "monitoring",
        "cache",
        "flows",
        "instance_name",
        "shared_config",
        "namespace",
        "broker",
        "broker_request_response",
        "components",
        "num_instances",
        "app_package",
        "app_base_path",
        "agent_type",
        "agent_identity",
        "trust_manager",
        "deployment",
        "session_service",
        "artifact_service",
        "artifact_scope",
        "memory_service",
        "credential_service",
        "multi_session_request_response",
        "agent_card_publishing",
        "agent_discovery",
        "inter_agent_communication",
        "supports_streaming",
        "stream_batching_threshold_bytes",
        "max_message_size_bytes",
        "data_tools_config",
        "enable_embed_resolution",
        "enable_artifact_content_instruction",
        "artifact_handling_mode",
    ],
    why: "it belongs to a deployment with a broker; a run here needs none",
};

/// How the program that hosts an agent there treats it. Its variables need not be set here either.
pub(super) const HOSTING: Idle = Idle {
    keys: &[
        "auto_summarization",
        "auto_inject_artifact_tools",
        "planner",
        "code_executor",
        "inject_current_time",
        "inject_system_purpose",
        "inject_response_format",
        "inject_user_profile",
        "system_purpose",
        "response_format",
        "agent_init_function",
        "agent_cleanup_function",
        "enable_auto_continuation",
        "enable_inline_vision",
        "max_inline_vision_images",
        "max_inline_vision_bytes",
        "schema_max_keys",
        "schema_inference_depth",
        "text_artifact_content_max_length",
        "tool_output_save_threshold_bytes",
        "tool_output_llm_return_max_bytes",
        "mcp_tool_response_save_threshold_bytes",
        "mcp_tool_llm_return_max_bytes",
        "mcp_intelligent_processing",
        "extract_content_from_artifact_config",
        "node_cancellation_timeout_seconds",
    ],
    why: "it says how an agent is hosted elsewhere; agents here go by the rules of Relais",
};

/// What says how a provider is reached. Its variables are not looked up.
pub(super) const PROVIDER: Idle = Idle {
    keys: &[
        "type",
        "api_base",
        "api_key",
        "api_version",
        "base_url",
        "cache_strategy",
        "extra_headers",
        "num_retries",
        "timeout",
        "parallel_tool_calls",
        "llm_service_title_model_name",
        "max_input_tokens",
        "oauth_token_url",
        "oauth_client_id",
        "oauth_client_secret",
        "oauth_scope",
        "oauth_audience",
        "oauth_ca_cert",
        "oauth_token_refresh_buffer_seconds",
    ],
    why: "how a provider is reached stands in relais.toml; its key comes from the environment",
};

const SAMPLING: Idle = Idle {
    keys: &[
        "top_p",
        "top_k",
        "seed",
        "stop",
        "frequency_penalty",
        "presence_penalty",
        "reasoning_effort",
        "thinking",
        "extra_body",
        "drop_params",
    ],
    why: "`temperature` and `max_tokens` are what a model is told here",
};

/// What only a card or a registry would show.
const CARDS: Idle = Idle {
    keys: &["skills", "version", "default_input_modes", "default_output_modes", "documentation_url", "provider"],
    why: "it says nothing about how the workflow runs; every change of a file is a version of its own",
};

const CALL_DEPTH: Idle = Idle { keys: &["max_call_depth"], why: "workflows call one another at most 10 deep here" };

const OF_PERSONAS: Idle = Idle {
    keys: &[
        "model",
        "model_provider",
        "instruction",
        "global_instruction",
        "tools",
        "agent_card",
        "max_llm_calls_per_task",
        "max_call_depth",
    ],
    why: "a workflow calls no model of its own; it belongs to the personas that do its work",
};

/// Settings of one tool, as the program has them that hosts it there. Their variables need not be set here.
pub(super) const TOOL_SETTINGS: Idle = Idle {
    keys: &["tool_config", "required_scopes", "tool_name_prefix", "manifest", "auth"],
    why: "tools are configured in relais.toml (`relais tools` lists them)",
};

const CONNECTION_SETTINGS: Idle = Idle {
    keys: &["timeout", "sse_read_timeout", "terminate_on_close", "encoding", "cwd"],
    why: "how long servers may take stands in relais.toml",
};

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

impl Table {
    /// A key that nobody knows, with the near one among all that somebody knows.
    fn unknown(&self, field: Field<'_>) -> Problem {
        let idle = self.idle.iter().flat_map(|idle| idle.keys);
        let all: Vec<&str> = self.known.iter().chain(idle).copied().collect();
        match nearest(field.key, all.iter().copied()) {
            Some(_) => unknown_key(field, self.what, &all),
            None => unknown_key(field, self.what, self.known),
        }
    }
}

impl Reader<'_> {
    pub(super) fn dag_keys<'n>(&mut self, node: &'n Node, table: &Table) -> Option<Keys<'n>> {
        let keys = self.dag_spelled(node, table.what, table.aliases, table.example)?;
        self.dag_known(&keys, table);
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
                ("output_schema_override", _) if word == "workflow" => {
                    self.dag_passed_over(field, "the workflow that is called checks its own output");
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

    fn dag_known(&mut self, keys: &Keys<'_>, table: &Table) {
        for (key, field) in keys.all().filter(|(key, _)| !table.known.contains(key)) {
            match table.idle.iter().find(|idle| idle.has(key)) {
                Some(idle) if !is_credential(key, field) => self.dag_passed_over(field, idle.why),
                Some(_) | None => self.problems.push(table.unknown(field)),
            }
        }
    }

    /// One warning for each such key, however often it stands in the file.
    pub(super) fn dag_passed_over(&mut self, field: Field<'_>, help: &str) {
        let message = format!("`{}` has no effect here", field.key);
        if !self.problems.iter().any(|problem| problem.message == message) {
            self.problems.push(Problem::warning(field.key_span, message).help(help));
        }
    }
}

/// Is the secret itself written there, and not just the variable that has it?
fn is_credential(key: &str, field: Field<'_>) -> bool {
    let names_variable = |text: &str| text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    crate::native::keys::means_secret(key) && field.node.as_text().is_some_and(|text| !names_variable(text))
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
