//! A message as mail, handed over by SMTP. Knows nothing of who asked for it.

use std::net::IpAddr;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message as Mail};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use relais_runtime::mask::Secrets;
use relais_runtime::settings::{Smtp, SmtpTls};
use serde_json::Value;

use super::{Failed, Message, Mistake, Senders, TEXT_CHARS_MAX, cut, is_reference, named_only};

/// `data` below the text; people do not read more of it.
const DATA_CHARS_MAX: usize = 5_000;

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// To all of them in one message, or to none: a second attempt then reaches nobody twice.
pub async fn send(to: &[String], message: &Message, senders: &Senders) -> Result<(), Failed> {
    let mail = written(to, message, &senders.smtp)?;
    let transport = transport(senders)?;
    let host = senders.smtp.host.as_deref().unwrap_or_default();
    match tokio::time::timeout(senders.attempt_time, transport.send(mail)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(&error, host, senders)),
        Err(_) => {
            let limit = senders.attempt_time.as_secs_f64();
            Err(Failed::for_now(format!("the mail server {host} did not take the message within {limit} s")))
        }
    }
}

/// What could never send, if there is a mail server at all.
pub fn mistakes(smtp: &Smtp, secrets: &Secrets) -> Vec<Mistake> {
    let Some(host) = &smtp.host else {
        let is_begun = smtp.user.is_some() || smtp.password.is_some() || smtp.from.is_some() || smtp.port.is_some();
        return Vec::from_iter(is_begun.then(|| mistake("", "needs a `host`, such as \"mail.example.org\"")));
    };
    let mut mistakes = Vec::new();
    match &smtp.from {
        Some(from) => mistakes.extend(mailbox(from).err().map(|error| mistake("from", format!("`from`: {error}")))),
        None => mistakes.push(mistake("", "needs `from`, such as \"relais@example.org\"")),
    }
    if smtp.user.is_some() != smtp.password.is_some() {
        mistakes.push(mistake("", "needs both `user` and `password`, or neither"));
    }
    if smtp.password.as_ref().is_some_and(|password| !is_reference(password)) {
        mistakes.push(mistake("password", named_only("password")));
    }
    if smtp.password.is_some() && smtp.tls == SmtpTls::None && !is_this_machine(host) {
        let text = "`tls = \"none\"` would send the password for all to read; use starttls or tls";
        mistakes.push(mistake("tls", text));
    }
    for (key, text) in [("user", &smtp.user), ("password", &smtp.password)] {
        let undefined = text.as_ref().and_then(|text| secrets.expand(text).err());
        mistakes.extend(undefined.map(|error| mistake(key, format!("`{key}`: {error}"))));
    }
    mistakes
}

fn mistake(key: &str, what: impl std::fmt::Display) -> Mistake {
    let path = ["smtp", key].into_iter().filter(|part| !part.is_empty());
    Mistake { at: path.map(str::to_owned).collect(), message: format!("[smtp] {what}") }
}

pub fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|error| format!("`{text}` is no mail address: {error}"))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn written(to: &[String], message: &Message, smtp: &Smtp) -> Result<Mail, Failed> {
    let from = smtp
        .from
        .as_deref()
        .ok_or_else(|| Failed::for_good("no mail can be sent: relais.toml has no [smtp] with `host` and `from`"))?;
    let from = mailbox(from).map_err(Failed::for_good)?;
    // Made of our id, so that mail programs show a message that came twice once.
    let id: String = message.id.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')).collect();
    let mut mail = Mail::builder().message_id(Some(format!("<{id}@{}>", from.email.domain()))).from(from);
    for address in to {
        mail = mail.to(mailbox(address).map_err(Failed::for_good)?);
    }
    let mail = mail.subject(message.title()).header(ContentType::TEXT_PLAIN).raw_header(automatic());
    mail.body(text(message)).map_err(|error| Failed::for_good(format!("the mail cannot be written: {error}")))
}

/// Keeps answering machines from answering (RFC 3834).
fn automatic() -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned())
}

fn text(message: &Message) -> String {
    let text = cut(&message.text, TEXT_CHARS_MAX);
    if message.data.is_null() {
        return text;
    }
    let data = serde_json::to_string_pretty(&message.data).unwrap_or_else(|_| Value::Null.to_string());
    format!("{text}\n\n{}\n", cut(&data, DATA_CHARS_MAX))
}

fn transport(senders: &Senders) -> Result<Transport, Failed> {
    let smtp = &senders.smtp;
    let host =
        smtp.host.clone().ok_or_else(|| Failed::for_good("no mail can be sent: relais.toml has no [smtp] host"))?;
    let parameters = || {
        TlsParameters::new_rustls(host.clone())
            .map_err(|error| Failed::for_good(format!("no encrypted connection to {host} can be made: {error}")))
    };
    let (tls, usual_port) = match smtp.tls {
        SmtpTls::Starttls => (Tls::Required(parameters()?), 587),
        SmtpTls::Tls => (Tls::Wrapper(parameters()?), 465),
        SmtpTls::None => (Tls::None, 25),
    };
    let mut builder = Transport::builder_dangerous(host)
        .port(smtp.port.unwrap_or(usual_port))
        .tls(tls)
        .timeout(Some(senders.attempt_time));
    if let (Some(user), Some(password)) = (&smtp.user, &smtp.password) {
        let password = senders.expand(password, "the password of the mail server")?;
        builder = builder.credentials(Credentials::new(senders.expand(user, "the user of the mail server")?, password));
    }
    Ok(builder.build())
}

/// A server says by its code whether another attempt makes sense; a connection that fails may work later.
fn failed(error: &lettre::transport::smtp::Error, host: &str, senders: &Senders) -> Failed {
    let texts: Vec<&str> =
        [&senders.smtp.user, &senders.smtp.password].into_iter().flatten().map(String::as_str).collect();
    let said = senders.masked(&error.to_string(), &texts);
    let message = format!("the mail server {host} did not take the message: {said}");
    Failed { message, again: !(error.is_permanent() || error.is_client() || error.is_tls()) }
}
