//! A message as a POST, in the form of Standard Webhooks. Knows which addresses may be called only through [`Web`].

use relais_engine::{ErrorKind, Failure};
use relais_runtime::tools::web::{self, Web};
use reqwest::{Client, StatusCode, Url};

use super::{Failed, Message, Senders};
use crate::triggers::signature;

pub async fn send(
    url: &str,
    secret: Option<&str>,
    trusted: bool,
    message: &Message,
    senders: &Senders,
) -> Result<(), Failed> {
    let url = address(url, trusted, senders)?;
    let client = client(&senders.web, &url, trusted)?;
    let body = message.body();
    let timestamp = senders.clock.now() / 1_000;
    let mut request = client
        .post(url.clone())
        .header("content-type", "application/json")
        .header("webhook-id", header(&message.id))
        .header("webhook-timestamp", timestamp);
    // An address from a file is never given anything that was made with a secret.
    if let Some(secret) = secret.filter(|_| trusted) {
        let secret = senders.expand(secret, "the webhook's secret")?;
        let signed = signature::sign(&secret, &header(&message.id), timestamp, &body).map_err(Failed::for_good)?;
        request = request.header("webhook-signature", signed);
    }
    let sent = request.body(body).timeout(senders.attempt_time).send().await;
    // The answer's body is not read: the status says whether the message was taken.
    let response = sent.map_err(|error| failed(web::failure(&url, &error)))?;
    judge(response.status(), &url)
}

fn address(url: &str, trusted: bool, senders: &Senders) -> Result<Url, Failed> {
    let url = if trusted { senders.expand(url, "the webhook's address")? } else { url.to_owned() };
    // The parser's complaint does not repeat the address, which may hold a secret.
    Url::parse(&url).map_err(|error| Failed::for_good(format!("the webhook's address cannot be read: {error}")))
}

fn client(web: &Web, url: &Url, trusted: bool) -> Result<Client, Failed> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failed::for_good(format!("a webhook is called by http: or https:, not `{}:`", url.scheme())));
    }
    if trusted { web.open().map_err(failed) } else { web.client_for(url).map_err(failed) }
}

/// A second attempt has the same `webhook-id`, so one whose answer was lost may be repeated.
fn failed(failure: Failure) -> Failed {
    let again = matches!(failure.kind, ErrorKind::Transport | ErrorKind::Uncertain);
    Failed { message: failure.message, again }
}

fn judge(status: StatusCode, url: &Url) -> Result<(), Failed> {
    if status.is_success() {
        return Ok(());
    }
    let for_now = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
    );
    let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
    let message = format!("{} answered {status}: the message was not taken{hint}", web::place(url));
    Err(Failed { message, again: for_now || status.is_server_error() })
}

/// Ids are ours; should one hold what a header cannot, it is told without that.
fn header(id: &str) -> String {
    id.chars().filter(char::is_ascii_graphic).collect()
}
