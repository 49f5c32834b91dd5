//! Every key of the native format and where it has an effect. The reader and the JSON Schema are both held to it.

/// A kind of step: the key that names it, the keys it has of its own, and the common ones without effect on it.
pub(crate) struct KindKeys {
    pub word: &'static str,
    pub own: &'static [&'static str],
    pub without: &'static [&'static str],
}

const fn kind(word: &'static str, own: &'static [&'static str], without: &'static [&'static str]) -> KindKeys {
    KindKeys { word, own, without }
}

/// What evaluates and never waits can neither time out nor cost anything, and its errors are never retried.
const INSTANT: &[&str] = &["retry", "timeout", "budget", "save"];

pub(crate) const KINDS: &[KindKeys] = &[
    kind("agent", &["prompt", "input", "input_schema", "input_as", "output"], &[]),
    kind("tool", &["with", "output"], &[]),
    kind("workflow", &["input", "input_schema"], &[]),
    kind("if", &["then", "else"], &["save"]),
    kind("switch", &["cases", "default"], &["save"]),
    kind("parallel", &["on_failure", "wait_for", "detach"], &[]),
    kind("steps", &["on_failure"], &[]),
    kind("for_each", &["do", "at_once", "max", "on_limit", "on_failure"], &[]),
    kind("repeat", &["until", "while", "max", "delay", "on_limit", "keep"], &[]),
    kind("wait", &[], &["budget"]),
    kind("ask", &[], &["budget"]),
    kind("stop_if", &[], &["retry", "timeout", "budget", "undo", "save"]),
    kind("set", &[], INSTANT),
    kind("goto", &["max"], &["retry", "timeout", "budget", "undo", "on_error", "save"]),
];

/// Keys that any step may have, except where its kind is `without`.
pub(crate) const COMMON: &[&str] = &[
    "id",
    "name",
    "description",
    "needs",
    "run_if",
    "when",
    "retry",
    "timeout",
    "on_error",
    "budget",
    "undo",
    "save",
    "on_missing",
    "output_key",
];

pub(crate) const TOP: &[&str] = &[
    "$schema",
    "name",
    "alias",
    "branch",
    "description",
    "input",
    "output",
    "output_schema",
    "budget",
    "timeout",
    "inline_limit",
    "large_values",
    "shutdown_timeout",
    "max_recoveries",
    "agents",
    "tools",
    "mcp",
    "steps",
    "on_exit",
    "on_failure",
    "on_step_failure",
    "on_tool_drift",
    "triggers",
    "notify",
    "tags",
];

pub(crate) const AGENT: &[&str] = &[
    "description",
    "model",
    "instructions",
    "tools",
    "input",
    "output",
    "max_turns",
    "output_retries",
    "budget",
    "max_tokens",
    "temperature",
    "result_mark",
    "result_limit",
    "on_cut",
];
pub(crate) const BUDGET: &[&str] = &["usd", "tokens", "model_calls", "tool_calls", "time"];
pub(crate) const RETRY: &[&str] = &["max_attempts", "backoff", "delay", "factor", "max_delay", "on", "never"];
pub(crate) const ON_ERROR: &[&str] = &["value", "goto"];
pub(crate) const TOOL_RULE: &[&str] = &["effect", "approve", "timeout"];
pub(crate) const SERVER: &[&str] = &["command", "args", "env", "url", "headers"];
pub(crate) const EXIT: &[&str] = &["always", "success", "failure", "cancel"];
pub(crate) const WAIT: &[&str] = &["for", "until", "at", "signal", "event", "filter"];
pub(crate) const ASK: &[&str] =
    &["question", "show", "answer", "approve", "people", "approvals", "remind", "then", "deadline", "on_deadline"];
/// Who is asked for a yes before a tool is called.
pub(crate) const APPROVE: &[&str] = &["people", "approvals", "remind", "then"];
pub(crate) const ESCALATION: &[&str] = &["after", "people", "notify"];
pub(crate) const ON_DEADLINE: &[&str] = &["value"];
pub(crate) const CASE: &[&str] = &["case", "value", "steps", "then"];
pub(crate) const ARM: &[&str] = &["when", "label", "steps", "then"];
pub(crate) const STOP_IF: &[&str] = &["any", "all"];
pub(crate) const NOTIFY: &[&str] = &["on_complete", "on_failure", "on_waiting", "to", "webhook", "email"];
/// What starts runs; a trigger has exactly one of them.
pub(crate) const TRIGGER_KINDS: &[&str] =
    &["manual", "at", "cron", "every", "daily", "weekly", "schedule", "continuous", "webhook", "event"];
pub(crate) const TRIGGER_OPTIONS: &[&str] =
    &["timezone", "overlap", "catch_up", "input", "filter", "debounce", "batch", "throttle"];
pub(crate) const WEBHOOK: &[&str] = &["id", "secret", "dedupe"];
pub(crate) const BATCH: &[&str] = &["size", "within"];
pub(crate) const THROTTLE: &[&str] = &["max", "per"];
pub(crate) const CONTINUOUS: &[&str] = &["delay"];

/// Words that mean a secret. None of them is a key of the format, and in `env` and `headers` they may only refer to
/// one (`${NAME}`).
const SECRETS: &[&str] =
    &["api_key", "apikey", "token", "secret", "password", "passwd", "credential", "authorization", "access_key"];

pub(crate) fn means_secret(key: &str) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    SECRETS.iter().any(|word| key.contains(word))
}

/// The kinds on which a step key has an effect; empty if there is no such key.
pub(crate) fn kinds_with(key: &str) -> Vec<&'static str> {
    let has = |kind: &&KindKeys| kind.own.contains(&key) || (COMMON.contains(&key) && !kind.without.contains(&key));
    KINDS.iter().filter(has).map(|kind| kind.word).collect()
}
