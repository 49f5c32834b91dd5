//! Webhooks: other services send data to `/hooks/{user}/{id}`, and it starts a run of the trigger behind that address.
//! `/hooks/{id}` is that of an id that the server made, and of the user whose server it is.
//!
//! No token is asked for: whoever knows the address may send, or, where the trigger names a secret, whoever signs.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use relais_service::signature::Given;
use relais_service::{Error, Fate, HookAddress, Posted};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, read_within};
use crate::caller;
use crate::problem::{Problem, Problems};
use crate::traced::TraceParent;

/// What is sent is kept with the run; files belong elsewhere.
const MAX_HOOK_BYTES: usize = 1024 * 1024;
/// Fields of a form.
const MAX_FIELDS: usize = 1_000;
/// Headers by which senders name a delivery, so that the same one again is known.
const KEYS: [&str; 4] = ["idempotency-key", "webhook-id", "svix-id", "x-github-delivery"];
const FORM: &str = "application/x-www-form-urlencoded";

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(post)).routes(routes!(post_to_user))
}

/// What became of something that was sent.
#[derive(Debug, Serialize, ToSchema)]
struct Taken {
    /// Whether it starts a run, now or when the run before it has ended.
    started: bool,
    reason: String,
    /// Null while it waits for the run before it.
    run: Option<Uuid>,
}

/// Send data to a webhook: JSON, or a form.
#[utoipa::path(post, path = "/hooks/{id}", operation_id = "post_hook", tag = "hooks", security(()),
    request_body(content = Value, description = "What happened, as the sender tells it"),
    params(("id" = String, Path, description = "The id that the trigger names"),
        ("Idempotency-Key" = Option<String>, Header, description = "The sender's id of this delivery; also as `webhook-id`, `svix-id` or `X-GitHub-Delivery`"),
        ("traceparent" = Option<String>, Header, description = "The trace that the run joins (W3C Trace Context)"),
        ("X-Signature-256" = Option<String>, Header, description = "`sha256=` and the HMAC-SHA256 of the body in hex, where the trigger has a secret; also in the forms of GitHub and Standard Webhooks")),
    responses((status = ACCEPTED, body = Taken, description = "A run starts"),
        (status = OK, body = Taken, description = "It starts nothing, and why"),
        Problems))]
async fn post(
    State(app): State<App>,
    Path(id): Path<String>,
    TraceParent(traceparent): TraceParent,
    request: Request,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    take(&app, HookAddress { user: None, id: &id }, traceparent, request).await
}

/// Send data to a webhook of a user: JSON, or a form.
#[utoipa::path(post, path = "/hooks/{user}/{id}", operation_id = "post_user_hook", tag = "hooks", security(()),
    request_body(content = Value, description = "What happened, as the sender tells it"),
    params(("user" = String, Path, description = "Whose webhook it is, as `whoami` says"),
        ("id" = String, Path, description = "The id that the trigger names"),
        ("Idempotency-Key" = Option<String>, Header, description = "The sender's id of this delivery; also as `webhook-id`, `svix-id` or `X-GitHub-Delivery`"),
        ("traceparent" = Option<String>, Header, description = "The trace that the run joins (W3C Trace Context)"),
        ("X-Signature-256" = Option<String>, Header, description = "`sha256=` and the HMAC-SHA256 of the body in hex, where the trigger has a secret; also in the forms of GitHub and Standard Webhooks")),
    responses((status = ACCEPTED, body = Taken, description = "A run starts"),
        (status = OK, body = Taken, description = "It starts nothing, and why"),
        Problems))]
async fn post_to_user(
    State(app): State<App>,
    Path((user, id)): Path<(String, String)>,
    TraceParent(traceparent): TraceParent,
    request: Request,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    take(&app, HookAddress { user: Some(&user), id: &id }, traceparent, request).await
}

async fn take(
    app: &App,
    to: HookAddress<'_>,
    traceparent: Option<String>,
    request: Request,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    let (parts, body) = request.into_parts();
    let from = caller::from(&parts, app);
    let headers = parts.headers.clone();
    if is_from_a_page(&headers) {
        let text = "webhooks are for services: what a page in a browser sends is refused";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", text));
    }
    // Before the body is read, which strangers could keep the server at.
    app.service.must_be_hook(to, from).await?;
    let bytes = read_within(Request::from_parts(parts, body), MAX_HOOK_BYTES).await?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let posted = Posted {
        body: &bytes,
        signature: Given::from_headers(text),
        key: KEYS.iter().find_map(|name| text(name)).map(str::trim),
        traceparent: traceparent.as_deref(),
        from,
    };
    let fate =
        app.service.fire_hook(to, posted, || if is_form(&headers) { form(&bytes) } else { json(&bytes) }).await?;
    Ok(taken(fate))
}

fn taken(fate: Fate) -> (StatusCode, Json<Taken>) {
    let Fate { starts, reason, run, .. } = fate;
    let status = if starts { StatusCode::ACCEPTED } else { StatusCode::OK };
    (status, Json(Taken { started: starts, reason, run }))
}

/// A browser says so. No service that sends webhooks does, and a page that somebody is made to open must start nothing.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.get("sec-fetch-site").is_some_and(|site| site != "none")
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM)
}

/// Nothing is an empty object.
fn json(bytes: &[u8]) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let wrong = |error| Error::Invalid(format!("the body is neither JSON nor a form ({FORM}): {error}"));
    serde_json::from_slice(bytes).map_err(wrong)
}

/// Each field with its text; one that is there several times has them all.
fn form(bytes: &[u8]) -> Result<Value, Error> {
    let pairs: Vec<&[u8]> = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).collect();
    if pairs.len() > MAX_FIELDS {
        return Err(Error::Invalid(format!("the form has more than {MAX_FIELDS} fields")));
    }
    let mut fields = Map::new();
    for pair in pairs {
        let (name, text) = match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (decoded(&pair[..at])?, decoded(&pair[at + 1..])?),
            None => (decoded(pair)?, String::new()),
        };
        add(&mut fields, name, Value::String(text));
    }
    Ok(Value::Object(fields))
}

fn add(fields: &mut Map<String, Value>, name: String, text: Value) {
    match fields.get_mut(&name) {
        None => {
            fields.insert(name, text);
        }
        Some(Value::Array(texts)) => texts.push(text),
        Some(first) => *first = Value::Array(vec![first.take(), text]),
    }
}

/// `+` is a space, `%C3` a byte.
fn decoded(part: &[u8]) -> Result<String, Error> {
    let wrong = || Error::Invalid("the form has a field that is not encoded rightly: write %XX, in UTF-8".to_owned());
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(wrong);
    let (mut bytes, mut text) = (part.iter().copied(), Vec::with_capacity(part.len()));
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'+' => b' ',
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).map_err(|_| wrong())?,
            other => other,
        });
    }
    String::from_utf8(text).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_is_an_object() {
        for (text, expected) in [
            ("", Some(json!({}))),
            ("a=1&b=two+words", Some(json!({ "a": "1", "b": "two words" }))),
            ("a=1&a=2&a=%C3%A9", Some(json!({ "a": ["1", "2", "é"] }))),
            ("a&b==%3d&&", Some(json!({ "a": "", "b": "==" }))),
            ("a=%C3", None),
            ("a=%4", None),
            ("a=%zz", None),
        ] {
            assert_eq!(form(text.as_bytes()).ok(), expected, "{text}");
        }
        assert!(form(vec!["a=1"; MAX_FIELDS + 1].join("&").as_bytes()).is_err());
    }
}
