//! Telling people how a run ended: by webhook, by mail, by a command.
//!
//! It owns who is told ([`recipients`]), what a message looks like, and one attempt at sending it. It keeps nothing and
//! tries nothing twice: whoever keeps the messages learns from [`Failed::again`] whether another attempt makes sense.
//! Secrets are put in when a message is sent, and masked in what is said about a failure.

mod command;
mod mail;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relais_plan::text::cut;
use relais_plan::{Notify, time};
use relais_runtime::clock::Clock;
use relais_runtime::mask::{Mask, Secrets};
use relais_runtime::process::Program;
use relais_runtime::settings::{NotifyChannel, Settings, Smtp};
use relais_runtime::tools::web::Web;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;

/// One attempt by webhook or mail; who has not answered by then is tried again later.
const ATTEMPT_TIME: Duration = Duration::from_secs(30);
/// A program may have people to reach.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// What the common receivers of webhooks take without complaint.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// A subject line.
const TITLE_CHARS_MAX: usize = 200;
/// A few pages; the run itself has the rest.
const TEXT_CHARS_MAX: usize = 10_000;
/// Of what a server or a program said about its failure.
const SAID_CHARS_MAX: usize = 500;

/// What is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The same at each attempt, so that a receiver can tell.
    pub id: String,
    /// Such as `run.failed`.
    pub kind: String,
    pub title: String,
    pub text: String,
    /// For programs.
    pub data: Value,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// Who is told, in words that can be kept: the configuration is looked at when a message is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// A channel of the configuration.
    Channel(String),
    /// An address that a workflow file names.
    Webhook(String),
    /// Mail addresses that a workflow file names.
    Mail(Vec<String>),
}

/// For people. An address may hold what is not everyone's; they know which one they wrote.
impl std::fmt::Display for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recipient::Channel(name) => write!(f, "channel {name}"),
            Recipient::Webhook(_) => f.write_str("webhook"),
            Recipient::Mail(to) => write!(f, "mail to {}", to.join(", ")),
        }
    }
}

/// Where a message goes. Texts may name secrets as `${NAME}` unless they come from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// `trusted`: the operator wrote it. It may then be private, be signed, and have secrets in it.
    Webhook {
        url: String,
        secret: Option<String>,
        trusted: bool,
    },
    Mail {
        to: Vec<String>,
    },
    Command {
        argv: Vec<String>,
        env: BTreeMap<String, String>,
    },
}

/// Why a message was not taken, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    pub message: String,
    /// It may be taken another time, with nothing changed on our side.
    pub again: bool,
}

/// What is wrong in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The keys that lead to it.
    pub at: Vec<String>,
    /// A sentence that says what would be right.
    pub message: String,
}

/// What sending needs.
pub struct Senders {
    channels: BTreeMap<String, NotifyChannel>,
    smtp: Smtp,
    secrets: Secrets,
    web: Web,
    clock: Arc<dyn Clock>,
    attempt_time: Duration,
    command_time: Duration,
}

/// Those that the file names, else those that the configuration marks as default.
pub fn recipients(notify: &Notify, settings: &Settings) -> Vec<Recipient> {
    let mut named: Vec<Recipient> = notify.to.iter().cloned().map(Recipient::Channel).collect();
    named.extend(notify.webhook.clone().map(Recipient::Webhook));
    named.extend((!notify.email.is_empty()).then(|| Recipient::Mail(notify.email.clone())));
    if named.is_empty() {
        let defaults = settings.notify.iter().filter(|(_, channel)| channel.default);
        named.extend(defaults.map(|(name, _)| Recipient::Channel(name.clone())));
    }
    named
}

/// One attempt, within its time.
pub async fn send(channel: &Channel, message: &Message, senders: &Senders) -> Result<(), Failed> {
    match channel {
        Channel::Webhook { url, secret, trusted } => {
            webhook::send(url, secret.as_deref(), *trusted, message, senders).await
        }
        Channel::Mail { to } => mail::send(to, message, senders).await,
        Channel::Command { argv, env } => command::send(argv, env, message, senders).await,
    }
}

impl Senders {
    /// Refuses settings that could never send.
    pub fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Senders, Error> {
        let mistakes: Vec<String> = mistakes(settings).into_iter().map(|mistake| mistake.message).collect();
        if !mistakes.is_empty() {
            return Err(Error::Invalid(format!("relais.toml: {}", mistakes.join("; "))));
        }
        Ok(Senders {
            channels: settings.notify.clone(),
            smtp: settings.smtp.clone(),
            secrets: Secrets::new(&settings.secrets),
            web: Web::new(&settings.tools.http_request),
            clock,
            attempt_time: ATTEMPT_TIME,
            command_time: COMMAND_TIME,
        })
    }

    /// What the recipient means in the configuration of today.
    pub fn channel(&self, recipient: &Recipient) -> Result<Channel, Failed> {
        match recipient {
            Recipient::Channel(name) => match self.channels.get(name) {
                Some(written) => Ok(channel(written)),
                None => Err(Failed::for_good(self.unknown(name))),
            },
            Recipient::Webhook(url) => Ok(Channel::Webhook { url: url.clone(), secret: None, trusted: false }),
            Recipient::Mail(to) => Ok(Channel::Mail { to: to.clone() }),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.channels.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("there is no channel `{name}` in relais.toml; there are: {known}. [notify.{name}] adds it")
    }

    /// The text with its secrets; `what` is for the message if one is not defined.
    fn expand(&self, text: &str, what: &str) -> Result<String, Failed> {
        self.secrets.expand(text).map_err(|error| Failed::for_good(format!("{what}: {error}")))
    }

    /// Hides the secrets of the settings, and those that these texts name, in what others have said.
    fn masked(&self, said: &str, texts: &[&str]) -> String {
        let named = texts.iter().filter_map(|text| self.secrets.named_in(text).ok()).flatten();
        let values: Vec<String> = named.map(|(_, value)| value).collect();
        let mask = Mask::new(&self.secrets).hiding(&values);
        cut(mask.mask_text(said).trim(), SAID_CHARS_MAX)
    }
}

impl Failed {
    fn for_now(message: impl Into<String>) -> Failed {
        Failed { message: message.into(), again: true }
    }

    fn for_good(message: impl Into<String>) -> Failed {
        Failed { message: message.into(), again: false }
    }
}

impl Message {
    /// As webhooks and commands get it. What is too large is left out rather than refused: that a run has failed is
    /// worth telling without its data.
    fn body(&self) -> Vec<u8> {
        let whole = self.json(&self.data);
        if whole.len() <= MESSAGE_BYTES_MAX {
            return whole;
        }
        self.json(&json!({ "left_out": format!("the message is larger than {MESSAGE_BYTES_MAX} bytes") }))
    }

    fn json(&self, data: &Value) -> Vec<u8> {
        let message = json!({
            "id": self.id,
            "type": self.kind,
            "timestamp": time::format_instant(self.at),
            "title": self.title(),
            "text": cut(&self.text, TEXT_CHARS_MAX),
            "data": data,
        });
        message.to_string().into_bytes()
    }

    /// One line.
    fn title(&self) -> String {
        let clean: String = self.title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        cut(clean.trim(), TITLE_CHARS_MAX)
    }
}

/// The settings were checked, so one of the three is there.
fn channel(written: &NotifyChannel) -> Channel {
    match &written.webhook {
        Some(url) => Channel::Webhook { url: url.clone(), secret: written.secret.clone(), trusted: true },
        None if written.email.is_empty() => {
            Channel::Command { argv: written.command.clone(), env: written.env.clone() }
        }
        None => Channel::Mail { to: written.email.clone() },
    }
}

/// What in the settings could never send.
pub fn mistakes(settings: &Settings) -> Vec<Mistake> {
    let secrets = Secrets::new(&settings.secrets);
    let of_channel =
        |(name, channel): (&String, &NotifyChannel)| Asking { name, secrets: &secrets }.all(channel, settings);
    let mut mistakes: Vec<Mistake> = settings.notify.iter().flat_map(of_channel).collect();
    mistakes.extend(mail::mistakes(&settings.smtp, &secrets));
    mistakes
}

/// One channel that is looked at.
struct Asking<'a> {
    name: &'a str,
    secrets: &'a Secrets,
}

impl Asking<'_> {
    fn all(&self, channel: &NotifyChannel, settings: &Settings) -> Vec<Mistake> {
        let ways = [channel.webhook.is_some(), !channel.email.is_empty(), !channel.command.is_empty()];
        let mut mistakes = Vec::new();
        if ways.iter().filter(|given| **given).count() != 1 {
            mistakes.push(self.mistake("", "needs exactly one of `webhook`, `email` and `command`"));
        }
        mistakes.extend(channel.webhook.iter().filter_map(|url| self.of_address(url)));
        mistakes.extend(channel.secret.iter().filter_map(|secret| self.of_secret(secret, channel)));
        if !channel.email.is_empty() && settings.smtp.host.is_none() {
            mistakes.push(self.mistake("email", "`email` needs a mail server: [smtp] host = \"mail.example.org\""));
        }
        let no_mailbox = channel.email.iter().filter_map(|to| mail::mailbox(to).err());
        mistakes.extend(no_mailbox.map(|error| self.mistake("email", error)));
        mistakes.extend(self.of_command(channel));
        mistakes
    }

    fn of_command(&self, channel: &NotifyChannel) -> Option<Mistake> {
        if channel.command.is_empty() {
            let text = "`env` holds variables of a `command`, and there is none";
            return (!channel.env.is_empty()).then(|| self.mistake("env", text));
        }
        let program = Program::of_channel(&channel.command, &channel.env, self.secrets, Vec::new());
        program.err().map(|why| self.mistake(if why.starts_with("`env`") { "env" } else { "command" }, why))
    }

    fn mistake(&self, key: &str, what: impl std::fmt::Display) -> Mistake {
        let path = ["notify", self.name, key].into_iter().filter(|part| !part.is_empty());
        Mistake { at: path.map(str::to_owned).collect(), message: format!("[notify.{}] {what}", self.name) }
    }

    /// The address is not repeated: it may hold what is not everyone's.
    fn of_address(&self, url: &str) -> Option<Mistake> {
        let wrong = |why: String| Some(self.mistake("webhook", format!("`webhook`: {why}")));
        let url = match self.secrets.expand(url) {
            Ok(url) => url,
            Err(error) => return wrong(error.to_string()),
        };
        match Url::parse(&url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => None,
            Ok(url) => wrong(format!("it is called by http: or https:, not `{}:`", url.scheme())),
            Err(error) => wrong(format!("{error}; give an address such as \"https://example.org/hook\"")),
        }
    }

    fn of_secret(&self, secret: &str, channel: &NotifyChannel) -> Option<Mistake> {
        if channel.webhook.is_none() {
            return Some(self.mistake("secret", "`secret` signs what is sent to a `webhook`, and there is none"));
        }
        if !is_reference(secret) {
            return Some(self.mistake("secret", named_only("secret")));
        }
        self.secrets.expand(secret).err().map(|error| self.mistake("secret", format!("`secret`: {error}")))
    }
}

fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && text.len() > "${}".len()
}

fn named_only(key: &str) -> String {
    format!("`{key}` names a secret or a variable, such as \"${{SMTP_PASSWORD}}\"; it is not written here itself")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
