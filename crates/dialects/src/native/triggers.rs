//! Triggers and notifications: checked when the file is loaded, used by the server.
//!
//! A trigger is a map with exactly one of `manual: true`, `at` (RFC 3339 or words such as "tomorrow 9am"), `cron` (5 or
//! 6 fields, names, `@daily`, or words such as "every weekday at 8:30"), `every` (a duration, or `daily@HH:mm` and `weekly@1,3@HH:mm`), `daily` (`HH:mm`), `weekly` (`1,3@HH:mm`),
//! `schedule` (any of the text forms), `continuous` (true or a delay), `webhook` (an id, or `{ id, secret, dedupe }`) and
//! `event` (a type). Beside it: `timezone` (clock times), `overlap`, `catch_up` (times), `input`, `filter` (webhook
//! and event; rules or an expression).
//!
//! `notify` names channels of the configuration, a public `webhook` and `email` addresses. What runs a command or holds
//! a secret is in the configuration alone, for a file may come from anywhere.

use relais_plan::filter::{Dedupe, Filter, Mistake};
use relais_plan::problem::has_errors;
use relais_plan::schedule::is_calendar;
use relais_plan::tags::Tags;
use relais_plan::{CatchUp, Notify, Overlap, Problem, Problems, Source, Span, Trigger, TriggerOn, time, words};
use serde_json::Value;

use super::keys;
use crate::fields::{Field, Fields, unknown_key};
use crate::reader::{NoWorkflows, Reader};
use crate::values::{content_span, duration_of};
use crate::yaml::{self, Data, Node};

const EXAMPLE: &str = "`{ cron: \"0 9 * * MON-FRI\", timezone: Europe/Paris }`";
const FORMS: &str = "forms that can be written: a duration (`15m`), `daily@09:00`, `weekly@1,3,5@09:00` (days are 0 to 6, 0 is Sunday), \
                     five or six cron fields, `@daily`, words such as `every weekday at 8:30`, or a time under `at`";
/// One message goes to all of them; more people are a mailing list.
const MAX_MAIL_ADDRESSES: usize = 20;
pub(crate) const DEFAULT_CONTINUOUS_DELAY_MS: u64 = 1_000;

/// A trigger by itself, as JSON or YAML text.
pub fn read_trigger(source: &Source) -> Result<Trigger, Problems> {
    let node = yaml::parse(source)?;
    let mut none = NoWorkflows;
    let mut reader = Reader::new(&mut none, source.name.clone(), &source.name, None);
    match reader.trigger(&node) {
        Some(trigger) if !has_errors(&reader.problems) => Ok(trigger),
        Some(_) | None => Err(reader.problems),
    }
}

impl Reader<'_> {
    pub(crate) fn triggers(&mut self, field: Field<'_>) -> Vec<Trigger> {
        let nodes = match &field.node.data {
            Data::List(items) => items.as_slice(),
            Data::Map(_) => std::slice::from_ref(field.node),
            Data::Scalar(_) => {
                self.wrong(field, "a list of triggers", &format!("`triggers: [{}]`", EXAMPLE.trim_matches('`')));
                return Vec::new();
            }
        };
        nodes.iter().filter_map(|node| self.trigger(node)).collect()
    }

    fn trigger(&mut self, node: &Node) -> Option<Trigger> {
        let fields = self.open_map(node, "a trigger", EXAMPLE)?;
        let known: Vec<&str> = keys::TRIGGER_KINDS.iter().chain(keys::TRIGGER_OPTIONS).copied().collect();
        for field in fields.all().filter(|field| !known.contains(&field.key)) {
            self.problems.push(unknown_key(field, "a trigger", &known));
        }
        let mut kinds = fields.all().filter(|field| keys::TRIGGER_KINDS.contains(&field.key));
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            let message = format!("a trigger has exactly one of {}", keys::TRIGGER_KINDS.join(", "));
            self.problems.push(Problem::error(node.span, message).help(format!("for example {EXAMPLE}")));
            return None;
        };
        let on = self.trigger_on(kind)?;
        Some(self.trigger_options(on, &fields))
    }

    fn trigger_on(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        match field.key {
            "manual" => self.flag(field).map(|_| TriggerOn::Manual),
            "at" => self.at(field),
            "cron" => self.cron(field),
            "every" | "schedule" => self.schedule(field),
            "daily" | "weekly" => self.calendar(field),
            "continuous" => self.continuous(field),
            "webhook" => self.webhook(field),
            _ => self.name(field).map(TriggerOn::Event),
        }
    }

    /// RFC 3339 or words; kept as it was said, for "tomorrow" is told from the day it is said.
    pub(crate) fn at(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        let text = self.text(field)?;
        match words::at(&text) {
            Ok(_) => Some(TriggerOn::At(text.trim().to_owned())),
            Err(message) => {
                self.problems.push(Problem::error(field.node.span, message).help(words::AT_FORMS));
                None
            }
        }
    }

    /// Cron fields or words, kept as fields; an interval where there are none that say it.
    pub(crate) fn cron(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        let text = self.text(field)?;
        match words::recurring(&text) {
            Ok(on) => Some(on),
            Err(message) => {
                self.problems.push(Problem::error(field.node.span, message).help(words::CRON_FORMS));
                None
            }
        }
    }

    /// Any of the forms that are one text.
    fn schedule(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        if let Some(ms) = duration_of(field.node).filter(|ms| *ms > 0) {
            return Some(TriggerOn::Every { ms });
        }
        let text = field.node.as_text().unwrap_or_default().trim();
        if is_calendar(text) {
            return Some(TriggerOn::Calendar(text.to_owned()));
        }
        if field.key == "schedule"
            && let Ok(on) = words::recurring(text)
        {
            return Some(on);
        }
        let message = format!("`{}` cannot be understood: {}", field.key, field.node.describe());
        self.problems.push(Problem::error(field.node.span, message).help(FORMS));
        None
    }

    fn calendar(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        let rest = match &field.node.data {
            Data::Scalar(Value::Number(day)) => day.to_string(),
            _ => field.node.as_text().unwrap_or_default().to_owned(),
        };
        let text = format!("{}@{rest}", field.key);
        if is_calendar(&text) {
            return Some(TriggerOn::Calendar(text));
        }
        let example =
            if field.key == "daily" { "`daily: \"09:00\"`" } else { "`weekly: \"1,3,5@09:00\"` (0 is Sunday)" };
        self.wrong(field, "a time of day", example);
        None
    }

    fn continuous(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        let delay = match &field.node.data {
            Data::Scalar(Value::Bool(true)) => {
                return Some(TriggerOn::Continuous { delay_ms: DEFAULT_CONTINUOUS_DELAY_MS });
            }
            Data::Map(_) => {
                self.map(field.node, "`continuous`", keys::CONTINUOUS, "`continuous: { delay: 5s }`")?.get("delay")
            }
            Data::Scalar(_) | Data::List(_) => Some(field),
        };
        match delay {
            Some(delay) => self.duration(delay).map(|delay_ms| TriggerOn::Continuous { delay_ms }),
            None => Some(TriggerOn::Continuous { delay_ms: DEFAULT_CONTINUOUS_DELAY_MS }),
        }
    }

    fn webhook(&mut self, field: Field<'_>) -> Option<TriggerOn> {
        if let Data::Scalar(_) = &field.node.data {
            return self.name(field).map(|id| TriggerOn::Webhook { id, secret: None, dedupe: None });
        }
        let example = "`webhook: { id: new-order, secret: \"${RELAIS_HOOK_ORDERS}\" }`";
        let fields = self.map(field.node, "`webhook`", keys::WEBHOOK, example)?;
        let secret = fields.get("secret").and_then(|field| self.secret_name(field));
        let dedupe = fields.get("dedupe").and_then(|field| self.dedupe(field));
        match fields.get("id") {
            Some(id) => self.name(id).map(|id| TriggerOn::Webhook { id, secret, dedupe }),
            None => {
                self.problems.push(
                    Problem::error(field.node.span, "a webhook needs an `id`").help(format!("for example {example}")),
                );
                None
            }
        }
    }

    /// An expression over `event.data`, what was sent.
    fn dedupe(&mut self, field: Field<'_>) -> Option<String> {
        let before = self.problems.len();
        let source = self.expression(field).source().to_owned();
        if self.problems.len() > before {
            return None;
        }
        if let Err(message) = Dedupe::parse(&source) {
            let problem = Problem::error(field.node.span, format!("`dedupe`: {message}"));
            self.problems.push(problem.help("for example `dedupe: event.data.order.id`"));
            return None;
        }
        Some(source)
    }

    /// `${NAME}`: where the secret is found, never the secret.
    fn secret_name(&mut self, field: Field<'_>) -> Option<String> {
        let text = self.text(field)?;
        if !(text.starts_with("${") && text.ends_with('}') && text.len() > "${}".len()) {
            let problem = Problem::error(field.node.span, "`secret`: a workflow file holds no credentials");
            self.problems.push(problem.help("name the variable that holds it, such as \"${RELAIS_HOOK_ORDERS}\""));
            return None;
        }
        Some(text)
    }

    fn trigger_options(&mut self, on: TriggerOn, fields: &Fields<'_>) -> Trigger {
        self.check_options(&on, fields);
        let overlaps = [
            ("skip", Overlap::Skip),
            ("queue", Overlap::Queue),
            ("allow", Overlap::Allow),
            ("cancel_running", Overlap::CancelRunning),
        ];
        let catch_ups = [("one", CatchUp::One), ("none", CatchUp::None), ("all", CatchUp::All)];
        let overlap = fields.get("overlap").and_then(|field| self.choice(field, &overlaps));
        let catch_up = fields.get("catch_up").and_then(|field| self.choice(field, &catch_ups)).unwrap_or_default();
        if let (Some(field), Some(Overlap::Skip), CatchUp::All) = (fields.get("overlap"), overlap, catch_up) {
            let message = "of the times that `catch_up: all` makes up for, `overlap: skip` starts only the first";
            let help = "say `overlap: queue`, or leave it out, if each of them is to run";
            self.problems.push(Problem::warning(field.node.span, message).help(help));
        }
        Trigger {
            on,
            timezone: fields.get("timezone").and_then(|field| self.timezone(field)),
            overlap: Overlap::or_default(overlap, catch_up),
            catch_up,
            input: fields.get("input").map(|field| field.node.to_value()).unwrap_or_default(),
            filter: fields.get("filter").map(|field| self.filter(field)).unwrap_or_default(),
            pace: self.pace(fields),
        }
    }

    fn check_options(&mut self, on: &TriggerOn, fields: &Fields<'_>) {
        let in_words = matches!(on, TriggerOn::At(text) if time::parse_instant(text).is_none());
        let is_clock = in_words || matches!(on, TriggerOn::Cron(_) | TriggerOn::Calendar(_));
        let is_timed = is_clock || matches!(on, TriggerOn::At(_) | TriggerOn::Every { .. });
        let is_sent = on.is_sent();
        if is_sent && fields.get("overlap").is_none() {
            let message = "what is sent while a run of this trigger is going starts nothing: `overlap` is `skip`";
            let help = "say `overlap: queue` or `overlap: allow` if each delivery counts, `overlap: skip` if not";
            self.problems.push(Problem::warning(fields.span, message).help(help));
        }
        let is_automatic = is_timed || is_sent;
        let options = [
            ("timezone", is_clock, "it belongs to `cron`, `daily`, `weekly`, and `at` in words"),
            ("catch_up", is_timed, "it belongs to triggers that fire by the clock"),
            ("filter", is_sent, "it belongs to `webhook` and `event`"),
            ("debounce", is_sent, "it belongs to `webhook` and `event`"),
            ("batch", is_sent, "it belongs to `webhook` and `event`"),
            ("throttle", is_sent, "it belongs to `webhook` and `event`"),
            ("overlap", is_automatic, "it belongs to triggers that can fire while a run goes on"),
        ];
        for (key, has_effect, help) in options {
            if let Some(field) = fields.get(key).filter(|_| !has_effect) {
                self.no_effect(field, "on this trigger", help);
            }
        }
    }

    fn timezone(&mut self, field: Field<'_>) -> Option<String> {
        let text = self.text(field)?;
        if jiff::tz::TimeZone::get(&text).is_err() {
            let problem = Problem::error(field.node.span, format!("there is no time zone `{text}`"));
            self.problems.push(problem.help("IANA names such as `Europe/Paris`, `America/New_York` or `UTC`"));
            return None;
        }
        Some(text)
    }

    /// Rules, or an expression over `event.data`.
    fn filter(&mut self, field: Field<'_>) -> Value {
        let Some(text) = field.node.as_text() else {
            return self.checked_filter(field.node.to_value(), |pointer| field.node.span_at(pointer));
        };
        let (before, span) = (self.problems.len(), content_span(field.node, text));
        let source = self.expression(field).source().to_owned();
        // A mistake in the expression is told once, by whoever has its place.
        if self.problems.len() > before { Value::Null } else { self.checked_filter(Value::String(source), |_| span) }
    }

    /// The filter if it can be used; each mistake at its place otherwise.
    pub(crate) fn checked_filter(&mut self, filter: Value, span_at: impl Fn(&str) -> Span) -> Value {
        match Filter::read(&filter) {
            Ok(_) => relais_plan::filter::normal(&filter),
            Err(mistakes) => {
                let problem = |mistake: &Mistake| Problem::error(span_at(&mistake.pointer()), mistake.to_string());
                self.problems.extend(mistakes.iter().map(problem));
                Value::Null
            }
        }
    }

    /// Tags of every run, text by name.
    pub(crate) fn tags(&mut self, field: Field<'_>) -> Tags {
        let Some(fields) = self.open_map(field.node, "`tags`", "`tags: { team: sales }`") else { return Tags::new() };
        let texts = fields.all().filter_map(|tag| Some((tag.key.to_owned(), self.text(tag)?)));
        let tags: Tags = texts.collect();
        if let Some(mistake) = relais_plan::tags::mistake(&tags) {
            let problem = Problem::error(field.node.span, mistake);
            self.problems.push(problem.help("for example `tags: { team: sales }`"));
        }
        tags
    }

    pub(crate) fn notify(&mut self, field: Field<'_>) -> Notify {
        let default = Notify::default();
        if let Some(command) = field.node.child("command") {
            let problem = Problem::error(command.span, "`command`: a workflow file cannot name a command to run");
            self.problems.push(problem.help(
                "name a channel, `to: [pager]`, and give it the command in relais.toml: \
                 [notify.pager] command = [\"program\", \"argument\"]",
            ));
            return default;
        }
        let example = "`notify: { on_failure: true, to: [ops] }`";
        let Some(fields) = self.map(field.node, "`notify`", keys::NOTIFY, example) else { return default };
        Notify {
            on_complete: fields.get("on_complete").and_then(|field| self.flag(field)).unwrap_or(default.on_complete),
            on_failure: fields.get("on_failure").and_then(|field| self.flag(field)).unwrap_or(default.on_failure),
            on_waiting: fields.get("on_waiting").and_then(|field| self.flag(field)).unwrap_or(default.on_waiting),
            to: fields.get("to").map(|field| self.texts(field)).unwrap_or_default(),
            webhook: fields.get("webhook").and_then(|field| self.public_address(field)),
            email: fields.get("email").map(|field| self.mail_addresses(field)).unwrap_or_default(),
        }
    }

    /// Without anything that would be a secret: a signed or private webhook is a channel of the configuration.
    fn public_address(&mut self, field: Field<'_>) -> Option<String> {
        let text = self.text(field)?;
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = host.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        let has_secret = text.contains("${") || host.is_some_and(|host| host.contains('@'));
        let message = match host {
            _ if has_secret => "`webhook`: a workflow file holds no credentials",
            Some(host) if !host.is_empty() && !text.contains(char::is_whitespace) => return Some(text),
            Some(_) | None => "`webhook` takes an address that begins with https:// or http://",
        };
        self.problems.push(Problem::error(field.node.span, message).help(
            "an address with a secret is a channel of relais.toml, [notify.ops] webhook = \"${OPS_HOOK}\", named by \
             `to: [ops]`",
        ));
        None
    }

    fn mail_addresses(&mut self, field: Field<'_>) -> Vec<String> {
        let names = self.names(field);
        for name in names.iter().filter(|name| !is_mail_address(&name.text)) {
            let problem = Problem::error(name.span, format!("`{}` is no mail address", name.text));
            self.problems.push(problem.help("for example `email: [ops@example.org]`"));
        }
        if names.len() > MAX_MAIL_ADDRESSES {
            let message = format!("`email` has more than {MAX_MAIL_ADDRESSES} addresses");
            self.problems.push(Problem::error(field.node.span, message).help("use a mailing list"));
        }
        names.into_iter().map(|name| name.text).collect()
    }
}

/// The sender reads it again, by the rules of mail; this finds what is plainly something else.
fn is_mail_address(text: &str) -> bool {
    let is_clean = !text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | ';' | '<' | '>'));
    is_clean && text.rsplit_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
}
