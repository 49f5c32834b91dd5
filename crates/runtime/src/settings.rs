//! What `relais.toml` may say. Secrets are named here, and masked wherever they turn up.

use std::collections::BTreeMap;

use relais_plan::{MIN_RESULT_LIMIT, McpServer};
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Used where an agent names no model.
    pub default_model: Option<String>,
    /// Says in a sentence what a step of a workflow does, whenever its prompt or tools change; none: nothing is said.
    pub summary_model: Option<String>,
    /// How much of a tool's result an agent is told at once that does not say it itself; absent means `64k`.
    pub result_limit: Option<ResultLimit>,
    pub providers: BTreeMap<String, Provider>,
    /// Prices and context sizes that add to or replace the built-in table, by `provider/model`.
    pub models: BTreeMap<String, ModelSettings>,
    /// What files may call models (`model_provider: [planning]`), and which they are.
    pub model_names: BTreeMap<String, Named>,
    pub mcp: BTreeMap<String, McpServer>,
    pub tools: ToolSettings,
    /// Name to value or `${VARIABLE}`; given to tools by name, shown nowhere.
    pub secrets: BTreeMap<String, String>,
    pub auth: AuthSettings,
    pub server: ServerSettings,
    /// Where mail is handed over.
    pub smtp: Smtp,
    /// Who can be told how runs ended, by name.
    pub notify: BTreeMap<String, NotifyChannel>,
    /// The time zone of triggers that name none, by its IANA name; UTC if there is none.
    pub timezone: Option<String>,
    /// Where the database is: a path, or `sqlite:PATH`. Absent means a file in the home folder.
    pub database: Option<String>,
    pub retention: Retention,
    pub telemetry: Telemetry,
}

/// A model, or several in fallback order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a model as `provider/model`, or a list of them")]
pub enum Named {
    One(String),
    Several(Vec<String>),
}

impl Named {
    pub fn models(&self) -> Vec<String> {
        match self {
            Named::One(model) => vec![model.clone()],
            Named::Several(models) => models.clone(),
        }
    }
}

/// How long a server keeps runs that have ended. What is not said stays for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// For every status without a time of its own.
    pub keep: Option<Age>,
    pub completed: Option<Age>,
    pub stopped: Option<Age>,
    pub partial_success: Option<Age>,
    pub failed: Option<Age>,
    pub cancelled: Option<Age>,
}

/// Bytes, as a number or written as `64k` or `1M`; at least a KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct ResultLimit {
    pub bytes: u64,
}

/// A size as it may be written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for ResultLimit {
    type Error = String;

    fn try_from(written: Written) -> Result<ResultLimit, String> {
        let text = match written {
            Written::Number(bytes) => bytes.to_string(),
            Written::Text(text) => text,
        };
        let (digits, unit) = match text.trim().to_ascii_lowercase() {
            text if text.ends_with('k') => (text[..text.len() - 1].to_owned(), 1024),
            text if text.ends_with('m') => (text[..text.len() - 1].to_owned(), 1024 * 1024),
            text => (text, 1),
        };
        let bytes = digits.trim().parse().ok().and_then(|number: u64| number.checked_mul(unit));
        let bytes = bytes.filter(|bytes| *bytes >= MIN_RESULT_LIMIT);
        let wrong = || format!("`{text}` is no size of at least 1k; write 64k or 1M");
        bytes.map(|bytes| ResultLimit { bytes }).ok_or_else(wrong)
    }
}

/// A time that has passed, written as `12h` or `30d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Age {
    pub ms: u64,
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Age, String> {
        let ms = relais_plan::time::parse_duration(&text);
        ms.map(|ms| Age { ms }).ok_or_else(|| format!("`{text}` is no time; write 12h or 30d"))
    }
}

/// Where traces go, and who may read metrics.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The base address of a collector (`http://localhost:4318`); absent means `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub otlp_endpoint: Option<String>,
    /// Sent with each trace; values may name secrets as `${NAME}`.
    pub headers: BTreeMap<String, String>,
    /// Absent means `OTEL_SERVICE_NAME`, else `relais`.
    pub service_name: Option<String>,
    /// Prompts, answers, arguments and error texts go into traces, too.
    pub capture_content: bool,
    /// Whoever calls from this machine, and not through a proxy, may read `/metrics` without a token.
    pub open_metrics: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// `openai`, `anthropic`, `google`, `ollama`; absent means the provider's own name, else `openai`.
    pub format: Option<String>,
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    pub max_concurrent: Option<usize>,
    pub requests_per_minute: Option<u32>,
    /// Prompt and answer together, as they are reckoned before each call.
    pub tokens_per_minute: Option<u32>,
    /// How long a call may be silent before it is given up; absent means 60.
    pub stall_s: Option<u64>,
    /// Tries of one call in all on errors of transport, stalls and 5xx; absent means 4. Where another model stands by,
    /// there are two at most.
    pub tries: Option<u32>,
    /// After so many failures in a row, over all calls, the provider is left out for a while; absent means 5.
    pub break_after: Option<u32>,
    /// For so long; absent means 30.
    pub cooldown_s: Option<u64>,
    /// Variables whose values are not sent to this address, because somebody else than the user named it.
    #[serde(skip)]
    pub withheld: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    pub context_tokens: Option<u64>,
    /// Dollars per million tokens.
    pub prompt_usd: Option<f64>,
    pub cached_usd: Option<f64>,
    pub completion_usd: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSettings {
    pub http_request: HttpSettings,
    pub run_python: PythonSettings,
    pub search_web: SearchSettings,
    /// `query_db`: name to the path of an SQLite file.
    pub databases: BTreeMap<String, String>,
    /// `send_message`: channels by name.
    pub channels: BTreeMap<String, Channel>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Hosts that may be called, `*.example.org` patterns included; empty means every public one.
    pub allow: Vec<String>,
    /// Private and loopback addresses that may be called all the same, as `host` or `host:port`.
    pub allow_private: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PythonSettings {
    pub enabled: bool,
    pub python: Option<String>,
    pub timeout_s: Option<u64>,
    pub memory_mb: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Called as `GET URL?q=…`; must answer JSON.
    pub url: Option<String>,
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Channel {
    pub webhook: Option<String>,
    pub command: Option<Vec<String>>,
    /// Variables of the command; values may name secrets as `${NAME}`.
    pub env: BTreeMap<String, String>,
}

/// What those may do who reach the server over the network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Definitions may name programs to be started on this machine as MCP servers.
    pub allow_commands: bool,
    /// The address that people reach this server by; the links in notifications begin with it.
    pub public_url: Option<String>,
}

/// Who is let in from outside. `issuer`, `audience` and `jwks_url` (of JWTs) belong together: all of them, or none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSettings {
    pub issuer: Option<String>,
    pub audience: Option<String>,
    /// Where the issuer's keys are; `https:`, or `http:` on this machine.
    pub jwks_url: Option<String>,
    /// The claim that holds the user's id; absent means `sub`.
    pub user_claim: Option<String>,
    /// Stands before that claim in the user's id; absent means the issuer without its scheme, and `|`.
    pub user_prefix: Option<String>,
    /// The claim that holds the scopes; absent means `scope`.
    pub scope_claim: Option<String>,
    /// How far the issuer's clock may be off; absent means a minute.
    pub leeway_s: Option<u64>,
    /// Nobody is let in without a token, on this machine neither.
    pub require_token: bool,
    /// Proxies whose `X-Forwarded-For` is believed: addresses, or networks such as `10.0.0.0/8`.
    pub trusted_proxies: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Smtp {
    pub host: Option<String>,
    /// Absent means the usual one: 587, 465 with `tls`, 25 with `none`.
    pub port: Option<u16>,
    pub user: Option<String>,
    /// `${NAME}` of a secret or variable, never the password itself.
    pub password: Option<String>,
    /// The sender, as `relais@example.org` or `Relais <relais@example.org>`.
    pub from: Option<String>,
    pub tls: SmtpTls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmtpTls {
    /// Begins in the clear and goes on encrypted, or not at all.
    #[default]
    Starttls,
    Tls,
    None,
}

/// Exactly one of `webhook`, `email` and `command`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifyChannel {
    pub webhook: Option<String>,
    /// `${NAME}` of the secret that signs what is sent to the webhook.
    pub secret: Option<String>,
    pub email: Vec<String>,
    pub command: Vec<String>,
    /// Variables of the command; values may name secrets as `${NAME}`.
    pub env: BTreeMap<String, String>,
    /// Told of all workflows whose files name nobody.
    pub default: bool,
}
