//! A workflow in the native format: what `relais convert` prints.
//!
//! Reading the text again gives the same plan, so nothing that a tree can hold may be left out here; defaults are.
//! It knows the native format and no other.

mod steps;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod values;
mod yaml;

use relais_plan::step::{Step, Workflow};
use relais_plan::{
    Agent, Effect, ExitWhen, LargeValues, Limits, McpServer, Notify, OnCut, OnToolDrift, RunFailure, ToolRule,
};
use relais_plan::{CatchUp, Overlap, Pace, Trigger, TriggerOn};
use serde_json::{Map, Value, json};

use crate::native::DEFAULT_CONTINUOUS_DELAY_MS;
use values::{budget, duration, expression, names, schema, template};
use yaml::{Doc, Style};

pub(crate) fn native(workflow: &Workflow) -> String {
    let mut fields = Fields::default();
    head(&mut fields, workflow);
    limits(&mut fields, &workflow.limits);
    policies(&mut fields, workflow);
    fields.some("notify", notify(&workflow.notify));
    fields.some("tags", (!workflow.tags.is_empty()).then(|| json!(workflow.tags)));
    // The native format cannot say that triggers are switched off: it says nothing of them.
    let triggers = workflow.triggers.iter().filter(|_| !workflow.paused);
    fields.some("triggers", filled(triggers.map(trigger).collect()));
    fields.some("mcp", by_name(workflow.servers.iter().map(|(name, it)| (name, server(it)))));
    fields.some("tools", by_name(workflow.tools.iter().map(|(name, it)| (name, tool_rule(it)))));
    fields.some("agents", by_name(workflow.agents.iter().map(|(name, it)| (name, agent(it)))));
    fields.put("steps", steps::list(&workflow.steps));
    fields.some("output", workflow.output.as_ref().map(template));
    fields.some("output_schema", workflow.output_schema.as_ref().map(schema));
    fields.some("on_exit", exits(&workflow.exits));
    yaml::text(&fields.block())
}

/// Keys and their values, in the order in which they are written.
#[derive(Default)]
struct Fields {
    entries: Vec<(String, Doc)>,
}

impl Fields {
    fn put(&mut self, key: &str, value: impl Into<Doc>) {
        self.entries.push((key.to_owned(), value.into()));
    }

    fn some(&mut self, key: &str, value: Option<impl Into<Doc>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// A word that is written only if it is not the default one.
    fn word<T: PartialEq + Default>(&mut self, key: &str, value: &T, word: &str) {
        if *value != T::default() {
            self.put(key, Value::from(word));
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.some(key, value.then(|| Value::from(true)));
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn block(self) -> Doc {
        Doc::Map(self.entries, Style::Block)
    }

    fn short(self) -> Doc {
        Doc::Map(self.entries, Style::Short)
    }
}

fn filled(items: Vec<Doc>) -> Option<Doc> {
    (!items.is_empty()).then_some(Doc::List(items, Style::Block))
}

fn by_name<'a>(entries: impl Iterator<Item = (&'a String, Doc)>) -> Option<Doc> {
    let entries: Vec<(String, Doc)> = entries.map(|(name, doc)| (name.clone(), doc)).collect();
    (!entries.is_empty()).then_some(Doc::Map(entries, Style::Block))
}

fn head(fields: &mut Fields, workflow: &Workflow) {
    fields.put("name", Value::from(workflow.name.as_str()));
    fields.some("alias", workflow.alias.as_deref().map(Value::from));
    fields.some("branch", workflow.branch.as_deref().map(Value::from));
    let description = Some(workflow.description.as_str()).filter(|text| !text.is_empty());
    fields.some("description", description.map(Value::from));
    fields.some("input", workflow.input_schema.as_ref().map(schema));
}

fn limits(fields: &mut Fields, limits: &Limits) {
    let default = Limits::default();
    let mut bounds = limits.budget;
    if bounds.model_calls == default.budget.model_calls {
        bounds.model_calls = None;
    }
    fields.some("budget", budget(&bounds));
    fields.some("timeout", limits.timeout_ms.map(duration));
    let inline_limit = Some(limits.inline_bytes).filter(|bytes| *bytes != default.inline_bytes);
    fields.some("inline_limit", inline_limit.map(Value::from));
    let word = match limits.large_values {
        LargeValues::Blob => "blob",
        LargeValues::File => "file",
    };
    fields.word("large_values", &limits.large_values, word);
    fields.some("shutdown_timeout", limits.shutdown_timeout_ms.map(duration));
    let max_recoveries = Some(limits.max_recoveries).filter(|count| *count != default.max_recoveries);
    fields.some("max_recoveries", max_recoveries.map(Value::from));
}

fn policies(fields: &mut Fields, workflow: &Workflow) {
    let on_failure = match workflow.on_failure {
        RunFailure::Fail => "fail",
        RunFailure::Partial => "partial",
        RunFailure::Undo => "undo",
    };
    fields.word("on_failure", &workflow.on_failure, on_failure);
    fields.word("on_step_failure", &workflow.on_step_failure, steps::lane_failure_word(workflow.on_step_failure));
    let on_tool_drift = match workflow.on_tool_drift {
        OnToolDrift::Warn => "warn",
        OnToolDrift::Fail => "fail",
    };
    fields.word("on_tool_drift", &workflow.on_tool_drift, on_tool_drift);
}

fn exits(exits: &[(ExitWhen, Vec<Step>)]) -> Option<Doc> {
    if let [(ExitWhen::Always, only)] = exits {
        return Some(steps::list(only));
    }
    let mut fields = Fields::default();
    for (when, list) in exits {
        let word = match when {
            ExitWhen::Always => "always",
            ExitWhen::Success => "success",
            ExitWhen::Failure => "failure",
            ExitWhen::Cancel => "cancel",
        };
        fields.put(word, steps::list(list));
    }
    (!fields.is_empty()).then(|| fields.block())
}

fn agent(agent: &Agent) -> Doc {
    let default = Agent::default();
    let mut fields = Fields::default();
    fields.some("description", agent.description.as_deref().map(Value::from));
    fields.some("model", names(&agent.models));
    fields.some("instructions", (agent.instructions != default.instructions).then(|| template(&agent.instructions)));
    fields.some("tools", (!agent.tools.is_empty()).then(|| json!(agent.tools)));
    fields.some("input", agent.input.as_ref().map(schema));
    fields.some("output", agent.output.as_ref().map(schema));
    fields.some("max_turns", (agent.max_turns != default.max_turns).then(|| json!(agent.max_turns)));
    fields
        .some("output_retries", (agent.output_retries != default.output_retries).then(|| json!(agent.output_retries)));
    fields.some("budget", budget(&agent.budget));
    fields.some("max_tokens", agent.max_tokens.map(Value::from));
    fields.some("temperature", agent.temperature.map(number));
    fields.flag("result_mark", agent.result_mark);
    fields.some("result_limit", agent.result_limit.map(Value::from));
    fields.some("on_cut", (agent.on_cut == OnCut::Fail).then(|| json!("fail")));
    fields.block()
}

/// Without a point where it is a whole number.
fn number(number: f64) -> Value {
    let whole = number as u32;
    if f64::from(whole).to_bits() == number.to_bits() { Value::from(whole) } else { Value::from(number) }
}

fn tool_rule(rule: &ToolRule) -> Doc {
    let mut fields = Fields::default();
    let word = |effect| match effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    };
    fields.some("effect", rule.effect.map(|effect| Value::from(word(effect))));
    match rule.people.is_default() {
        true => fields.some("approve", rule.approve.map(Value::from)),
        false => {
            let mut approve = Fields::default();
            steps::people(&rule.people, &mut approve);
            fields.put("approve", approve.short());
        }
    }
    fields.some("timeout", rule.timeout_ms.map(duration));
    fields.short()
}

fn server(server: &McpServer) -> Doc {
    let mut fields = Fields::default();
    let words: Vec<String> = server.command.iter().chain(&server.args).cloned().collect();
    fields.some("command", names(&words));
    fields.some("env", (!server.env.is_empty()).then(|| json!(server.env)));
    fields.some("url", server.url.as_deref().map(Value::from));
    fields.some("headers", (!server.headers.is_empty()).then(|| json!(server.headers)));
    fields.short()
}

fn notify(notify: &Notify) -> Option<Doc> {
    let default = Notify::default();
    let mut fields = Fields::default();
    let differs = |a: bool, b: bool| (a != b).then_some(Value::from(a));
    fields.some("on_complete", differs(notify.on_complete, default.on_complete));
    fields.some("on_failure", differs(notify.on_failure, default.on_failure));
    fields.some("on_waiting", differs(notify.on_waiting, default.on_waiting));
    fields.some("to", (!notify.to.is_empty()).then(|| json!(notify.to)));
    fields.some("webhook", notify.webhook.as_deref().map(Value::from));
    fields.some("email", (!notify.email.is_empty()).then(|| json!(notify.email)));
    (!fields.is_empty()).then(|| fields.short())
}

fn trigger(trigger: &Trigger) -> Doc {
    let mut fields = Fields::default();
    let (key, value) = trigger_on(&trigger.on);
    fields.put(key, value);
    fields.some("timezone", trigger.timezone.as_deref().map(Value::from));
    let overlap = match trigger.overlap {
        Overlap::Skip => "skip",
        Overlap::Queue => "queue",
        Overlap::Allow => "allow",
        Overlap::CancelRunning => "cancel_running",
    };
    // Of what is sent it is told even where it is the default: what is skipped here is lost.
    let usual = Overlap::or_default(None, trigger.catch_up);
    if trigger.on.is_sent() || trigger.overlap != usual {
        fields.put("overlap", Value::from(overlap));
    }
    let catch_up = match trigger.catch_up {
        CatchUp::One => "one",
        CatchUp::None => "none",
        CatchUp::All => "all",
    };
    fields.word("catch_up", &trigger.catch_up, catch_up);
    fields.some("input", Some(&trigger.input).filter(|input| !input.is_null()).cloned());
    match &trigger.filter {
        Value::String(source) => fields.put("filter", expression(source)),
        rules => fields.some("filter", Some(rules).filter(|rules| !rules.is_null()).cloned()),
    }
    let Pace { debounce_ms, batch, throttle } = &trigger.pace;
    fields.some("debounce", debounce_ms.map(duration));
    fields.some("batch", batch.as_ref().map(|it| json!({ "size": it.size, "within": duration(it.within_ms) })));
    fields.some("throttle", throttle.as_ref().map(|it| json!({ "max": it.max, "per": duration(it.per_ms) })));
    fields.short()
}

fn trigger_on(on: &TriggerOn) -> (&'static str, Value) {
    match on {
        TriggerOn::Manual => ("manual", json!(true)),
        TriggerOn::At(time) => ("at", json!(time)),
        TriggerOn::Cron(pattern) => ("cron", json!(pattern)),
        TriggerOn::Every { ms } => ("every", duration(*ms)),
        TriggerOn::Calendar(text) => match text.split_once('@') {
            Some(("daily", time)) => ("daily", json!(time)),
            Some(("weekly", days)) => ("weekly", json!(days)),
            Some(_) | None => ("every", json!(text)),
        },
        TriggerOn::Continuous { delay_ms: DEFAULT_CONTINUOUS_DELAY_MS } => ("continuous", json!(true)),
        TriggerOn::Continuous { delay_ms } => ("continuous", duration(*delay_ms)),
        TriggerOn::Webhook { id, secret: None, dedupe: None } => ("webhook", json!(id)),
        TriggerOn::Webhook { id, secret, dedupe } => {
            let mut fields = Map::from_iter([("id".to_owned(), json!(id))]);
            fields.extend(secret.as_ref().map(|secret| ("secret".to_owned(), json!(secret))));
            fields.extend(dedupe.as_ref().map(|dedupe| ("dedupe".to_owned(), expression(dedupe))));
            ("webhook", Value::Object(fields))
        }
        TriggerOn::Event(event) => ("event", json!(event)),
    }
}
