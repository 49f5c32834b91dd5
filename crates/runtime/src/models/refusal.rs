//! What went wrong, in words and kinds: statuses, error bodies and network errors become `ModelError`s.
//!
//! Pure. Never shows a key, nor the query or user part of an address.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relais_engine::ErrorKind;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::draft::broken;
use crate::model::ModelError;

/// Longest error text that is passed on, in characters.
const TEXT_MAX_CHARS: usize = 500;
/// Deepest chain of causes that is shown.
const CAUSES_MAX: usize = 8;
/// Phrases by which providers say that the prompt is too long.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "context window",
    "exceeds the maximum number of tokens",
    "input token count",
];

/// Whom a message is about.
pub struct Origin<'a> {
    pub provider: &'a str,
    pub url: String,
    pub key_variables: &'a [String],
}

pub fn from_status(origin: &Origin<'_>, status: u16, headers: &HeaderMap, body: &str) -> ModelError {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let retry_after = retry_after(headers, &json);
    if status == 429 {
        return rate_limited(origin, &json, body, retry_after);
    }
    if is_html(headers, body) && status != 401 {
        return ModelError { retry_after, ..html(origin, status) };
    }
    let said = said(&json, body);
    match status {
        300..=399 => redirected(origin, status, headers),
        401 => refused_key(origin, status, ""),
        403 => refused_key(origin, status, &said),
        408 | 409 | 500..=599 => failing(origin, status, &said, retry_after),
        _ => rejected(origin, status, &said),
    }
}

/// The prompt or the request is wrong: trying again would not help.
fn rejected(origin: &Origin<'_>, status: u16, said: &str) -> ModelError {
    let lower = said.to_lowercase();
    let hint = match status {
        404 => format!("; no such model, or no such address: {}", shown(&origin.url)),
        _ if TOO_LONG.iter().any(|phrase| lower.contains(phrase)) => {
            "; the prompt is larger than the model's context: send less, or use a model with a larger one".to_owned()
        }
        _ => String::new(),
    };
    last(ErrorKind::Provider, format!("{} answered {status}: {said}{hint}", origin.provider))
}

fn failing(origin: &Origin<'_>, status: u16, said: &str, retry_after: Option<Duration>) -> ModelError {
    let kind = if status == 408 { ErrorKind::Transport } else { ErrorKind::Provider };
    let message = format!("{} answered {status}: {said}", origin.provider);
    ModelError { kind, message, retry_after, transient: true }
}

/// An account without credit also answers 429; waiting would last for ever.
fn rate_limited(origin: &Origin<'_>, json: &Value, body: &str, retry_after: Option<Duration>) -> ModelError {
    let message = format!("{} answered 429: {}", origin.provider, said(json, body));
    if json["error"]["code"] == "insufficient_quota" || json["error"]["type"] == "insufficient_quota" {
        return last(ErrorKind::Provider, message);
    }
    ModelError { kind: ErrorKind::RateLimit, message, retry_after, transient: true }
}

fn refused_key(origin: &Origin<'_>, status: u16, said: &str) -> ModelError {
    let (name, colon) = (origin.provider, if said.is_empty() { "" } else { ": " });
    let message = if origin.key_variables.is_empty() {
        format!("{name} answered {status} and no key was sent; set `api_key_env` of provider `{name}`{colon}{said}")
    } else {
        format!("{name} refused the key in {} ({status}){colon}{said}", origin.key_variables.join(" or "))
    };
    last(ErrorKind::Config, message)
}

fn redirected(origin: &Origin<'_>, status: u16, headers: &HeaderMap) -> ModelError {
    let target = headers.get("location").and_then(|value| value.to_str().ok()).map(shown).unwrap_or_default();
    let asked = shown(&origin.url);
    let message = format!(
        "{} answered {status}, a redirect from {asked} to {target}; redirects are not followed, set the base URL to \
         where the provider is",
        origin.provider
    );
    last(ErrorKind::Provider, message)
}

pub fn html(origin: &Origin<'_>, status: u16) -> ModelError {
    let message = format!(
        "{} ({status}) answered with HTML, not JSON; is the base URL right? {}",
        origin.provider,
        shown(&origin.url)
    );
    ModelError { kind: ErrorKind::Provider, message, retry_after: None, transient: status >= 500 }
}

pub fn too_large(origin: &Origin<'_>, max_bytes: usize) -> ModelError {
    last(ErrorKind::Provider, format!("{} answered with more than {max_bytes} bytes", origin.provider))
}

pub fn unreachable(origin: &Origin<'_>, error: &reqwest::Error) -> ModelError {
    broken(&format!("{} cannot be reached at {}: {}", origin.provider, shown(&origin.url), causes(error)))
}

pub fn cut_off(origin: &Origin<'_>, error: &reqwest::Error) -> ModelError {
    broken(&format!("{} broke off its answer: {}", origin.provider, causes(error)))
}

pub fn bad_address(origin: &Origin<'_>, error: &reqwest::Error) -> ModelError {
    let message = format!("the base URL of {} is not an address: {}", origin.provider, causes(error));
    last(ErrorKind::Config, message)
}

pub fn no_client(message: &str) -> ModelError {
    last(ErrorKind::Config, format!("no HTTP client can be made on this machine: {message}"))
}

pub fn unusable_key(origin: &Origin<'_>) -> ModelError {
    let names = origin.key_variables.join(" or ");
    last(ErrorKind::Config, format!("the key in {names} holds characters that no key has (a line break?)"))
}

fn last(kind: ErrorKind, message: String) -> ModelError {
    ModelError { kind, message, retry_after: None, transient: false }
}

/// The provider's own words, wherever it put them.
fn said(json: &Value, body: &str) -> String {
    let error = &json["error"];
    let places = [&error["message"], error, &json["message"], &json["detail"], &json[0]["error"]["message"]];
    let words = places.into_iter().find_map(Value::as_str).unwrap_or(body).trim();
    let code = error["code"].as_str().filter(|code| !words.contains(code));
    let text = if words.is_empty() { "no message" } else { words };
    shortened(&code.map_or(text.to_owned(), |code| format!("{text} ({code})")))
}

fn is_html(headers: &HeaderMap, body: &str) -> bool {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.contains("html") || body.trim_start().starts_with('<')
}

/// In seconds, milliseconds, as a date, or in the body as Google's RetryInfo.
fn retry_after(headers: &HeaderMap, json: &Value) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let exact = header("retry-after-ms").and_then(|text| text.parse().ok()).and_then(|ms: f64| seconds(ms / 1000.0));
    let plain = || header("retry-after").and_then(|text| text.parse().ok()).and_then(seconds);
    let dated = || {
        let until = http_date(header("retry-after")?)?;
        let now = header("date").and_then(http_date).or_else(now_s)?;
        Some(Duration::from_secs(until.saturating_sub(now)))
    };
    exact.or_else(plain).or_else(dated).or_else(|| retry_info(json))
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn now_s() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn retry_info(json: &Value) -> Option<Duration> {
    let details = json["error"]["details"].as_array().or_else(|| json[0]["error"]["details"].as_array())?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    seconds(delay.strip_suffix('s')?.parse().ok()?)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<i64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hour, minute, second] = clock[..] else { return None };
    let in_range = (1970..=9999).contains(&year) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 62;
    let total = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    in_range.then(|| u64::try_from(total).ok()).flatten()
}

/// Years begin in March here, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_in_era = year * 365 + year / 4 - year / 100 + year / 400;
    days_in_era + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// An address without what may be secret in it.
pub fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let authority_end = rest.find('/').unwrap_or(rest.len());
            let host_start = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host_start..])
        }
        None => bare.to_owned(),
    }
}

/// reqwest says only "error sending request"; the reason is in the causes.
fn causes(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut cause = error.source();
    while let Some(next) = cause.filter(|_| words.len() < CAUSES_MAX) {
        words.push(next.to_string());
        cause = next.source();
    }
    if words.is_empty() { "the request failed".to_owned() } else { words.join(": ") }
}

pub fn shortened(text: &str) -> String {
    relais_plan::text::cut(text, TEXT_MAX_CHARS)
}

pub fn duration_text(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn refuse(status: u16, pairs: &[(&'static str, &str)], body: &str) -> ModelError {
        let variables = ["OPENAI_API_KEY".to_owned()];
        let url = "https://user:secret@api.example.org/v1/chat?key=secret".to_owned();
        let origin = Origin { provider: "openai", url, key_variables: &variables };
        from_status(&origin, status, &headers(pairs), body)
    }

    #[test]
    fn statuses_have_their_kinds() {
        let check = |status: u16, body: &str, kind: ErrorKind, transient: bool, words: &str| {
            let error = refuse(status, &[], body);
            assert_eq!((error.kind, error.transient), (kind, transient), "{status} {body}");
            assert!(error.message.contains(words), "{words:?} not in {error}");
            assert!(!error.message.contains("secret"), "{error}");
        };
        check(429, "{}", ErrorKind::RateLimit, true, "429");
        check(429, r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, ErrorKind::Provider, false, "pay");
        check(500, r#"{"error":{"message":"oops"}}"#, ErrorKind::Provider, true, "oops");
        check(503, "", ErrorKind::Provider, true, "no message");
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorKind::Provider,
            true,
            "Overloaded",
        );
        check(408, "", ErrorKind::Transport, true, "408");
        check(409, "", ErrorKind::Provider, true, "409");
        check(
            401,
            r#"{"error":{"message":"Incorrect API key: sk-part"}}"#,
            ErrorKind::Config,
            false,
            "the key in OPENAI_API_KEY (401)",
        );
        check(403, r#"{"error":{"message":"not in your country"}}"#, ErrorKind::Config, false, "not in your country");
        check(
            404,
            r#"{"error":{"message":"no gpt-9"}}"#,
            ErrorKind::Provider,
            false,
            "https://api.example.org/v1/chat",
        );
        check(
            400,
            r#"{"error":{"message":"too much","code":"context_length_exceeded"}}"#,
            ErrorKind::Provider,
            false,
            "larger than the model's context",
        );
        check(400, r#"[{"error":{"message":"in a list"}}]"#, ErrorKind::Provider, false, "in a list");
        check(
            502,
            "<html>Bad gateway</html>",
            ErrorKind::Provider,
            true,
            "answered with HTML, not JSON; is the base URL right? https://api.example.org/v1/chat",
        );
        check(404, "<!doctype html>", ErrorKind::Provider, false, "HTML");
        check(302, "", ErrorKind::Provider, false, "redirect");
        check(400, &"x".repeat(9000), ErrorKind::Provider, false, "…");
    }

    #[test]
    fn a_401_repeats_nothing_of_the_key() {
        let error = refuse(401, &[], r#"{"error":{"message":"Incorrect API key: sk-part"}}"#);
        assert!(!error.message.contains("sk-part"), "{error}");
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let check = |pairs: &[(&'static str, &str)], body: &str, want_ms: Option<u64>| {
            let found = refuse(429, pairs, body).retry_after;
            assert_eq!(found, want_ms.map(Duration::from_millis), "{pairs:?} {body}");
        };
        check(&[("retry-after", "7")], "", Some(7000));
        check(&[("retry-after", "0.5")], "", Some(500));
        check(&[("retry-after-ms", "120"), ("retry-after", "7")], "", Some(120));
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date], "", Some(30_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), date], "", Some(0));
        check(&[], r#"{"error":{"details":[{"@type":"x"},{"retryDelay":"17.5s"}]}}"#, Some(17_500));
        for nonsense in
            ["soon", "-3", "NaN", "inf", "1e300", "Sun, 99 Foo 1994 08:49:37 GMT", "a b c 9999999999999 e GMT"]
        {
            check(&[("retry-after", nonsense)], "", None);
        }
    }

    #[test]
    fn dates_count_from_1970() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
    }
}
