//! Every key of the format, and those of its files that mean nothing here, each with what to do instead.

pub(super) const TOP: &[&str] = &["version", "metadata", "models", "agents", "workflow"];
pub(super) const WORKFLOW: &[&str] = &["steps", "max_loop_iterations", "overrides"];
pub(super) const OVERRIDES: &[&str] = &["max_loop_iterations"];
pub(super) const METADATA: &[&str] = &["author", "license", "readme", "description", "version", "tags"];
pub(super) const AGENT: &[&str] = &[
    "model",
    "fallback",
    "description",
    "instruction",
    "toolsets",
    "structured_output",
    "max_iterations",
    "add_date",
    "result_limit",
];
pub(super) const FALLBACK: &[&str] = &["models"];
pub(super) const MODEL: &[&str] = &["provider", "model", "temperature", "max_tokens"];
pub(super) const STRUCTURED: &[&str] = &["name", "description", "strict", "schema"];
pub(super) const TOOLSET: &[&str] = &["type", "name", "command", "args", "env", "remote", "tools"];
pub(super) const REMOTE: &[&str] = &["url", "headers", "transport_type"];
pub(super) const RETRY: &[&str] = &["max_attempts", "backoff", "on", "initial_delay_seconds"];
/// Keys of a step by its type.
pub(super) const AGENT_STEP: &[&str] = &["id", "type", "name", "retry", "timeout"];
pub(super) const CONDITION_STEP: &[&str] = &["id", "type", "name", "condition", "true", "false"];
pub(super) const PARALLEL_STEP: &[&str] = &["id", "type", "name", "steps", "on_failure", "retry", "timeout"];
pub(super) const GOTO_STEP: &[&str] = &["id", "goto"];

type Advice = (&'static str, &'static str);

const PROVIDER: &str = "an endpoint is set by its variables, such as OPENAI_BASE_URL and OPENAI_API_KEY";
const RAG: &str = "give the agent a tool that searches: an MCP server in its `toolsets`";
const DELEGATE: &str = "make each of them a step of the workflow; a condition chooses between them";
const FIXED: &str = "leave it out; `temperature` and `max_tokens` are what a model can be set to";
const SETTINGS: &str =
    "such rules are set in relais.toml, or in the native format (`tools: { NAME: { approve: true } }`)";

pub(super) const NOT_AT_TOP: &[Advice] = &[
    ("providers", PROVIDER),
    ("rag", RAG),
    ("permissions", SETTINGS),
    ("mcps", "declare the server where it is used: `toolsets: [{ type: mcp, command: … }]`"),
    ("commands", "a workflow is started with a prompt"),
    ("hooks", "let a step do it"),
    ("skills", "write them into the agent's `instruction`"),
];
pub(super) const NOT_OF_AGENT: &[Advice] = &[
    ("sub_agents", DELEGATE),
    ("handoffs", DELEGATE),
    ("rag", RAG),
    ("welcome_message", "there is no chat that would show it"),
    ("commands", "a workflow is started with a prompt"),
    ("num_history_items", "leave it out: each step begins with a conversation of its own"),
    ("add_environment_info", "say in the `instruction` what the agent must know"),
    ("add_prompt_files", "write the text into the `instruction`"),
    ("add_description_parameter", "leave it out: tools are called as they are declared"),
    ("code_mode_tools", "leave it out: tools are called one by one"),
    ("hooks", "let a step do it"),
    ("permissions", SETTINGS),
    ("skills", "write them into the `instruction`"),
    ("name", "an agent is called by its key under `agents`"),
    ("instructions", "this format says `instruction`"),
    ("tools", "this format says `toolsets`, such as `toolsets: [{ type: filesystem }]`"),
];
pub(super) const NOT_OF_FALLBACK: &[Advice] = &[
    ("retries", "leave it out: a model that fails is tried four times before the next one"),
    ("cooldown", "leave it out: each call begins with the first model"),
];
pub(super) const NOT_OF_MODEL: &[Advice] = &[
    ("base_url", PROVIDER),
    ("token_key", PROVIDER),
    ("top_p", FIXED),
    ("frequency_penalty", FIXED),
    ("presence_penalty", FIXED),
    ("parallel_tool_calls", FIXED),
    ("provider_opts", FIXED),
    ("thinking_budget", FIXED),
    ("track_usage", "leave it out: what is used is always counted"),
    ("routing", "let a condition choose between agents with different models"),
];
pub(super) const NOT_OF_TOOLSET: &[Advice] = &[
    ("ref", "say how the server is started: `command: docker`, `args: [mcp, gateway, run, --servers, NAME]`"),
    ("config", "give a server its settings by `args` and `env`"),
    ("instruction", "write it into the agent's `instruction`"),
    ("defer", "leave it out: the tools of a server are listed when the run starts"),
    ("toon", "leave it out: results go to the model as they come"),
];
/// Kinds of toolset that there is nothing for.
pub(super) const NO_TOOLSET: &[Advice] = &[
    ("shell", "an MCP server can run commands; files are read and written by `type: filesystem`"),
    ("script", "an MCP server can run commands"),
    ("script_shell", "an MCP server can run commands"),
    ("think", "leave it out: a model that thinks does so without a tool"),
    ("todo", "leave it out, or make the tasks steps of the workflow"),
    ("tasks", "leave it out, or make the tasks steps of the workflow"),
    ("memory", "earlier outputs are shown to every step; keep notes in a file with `type: filesystem`"),
    ("transfer_task", DELEGATE),
    ("handoff", DELEGATE),
    ("background_agents", "make each of them a step of a `parallel`"),
    ("a2a", "give the agent an MCP server that reaches it"),
    ("api", "use `type: fetch`, or an MCP server"),
    ("openapi", "use an MCP server that serves the API"),
    ("lsp", "use an MCP server for the language"),
    ("rag", RAG),
    ("sandbox", "use an MCP server that runs code"),
    ("user_prompt", "in the native format a step can `ask` a person"),
];
