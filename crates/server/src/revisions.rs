//! Headers by which a client says what it has read and what it has asked before: `ETag`, `If-Match`,
//! `Idempotency-Key`.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_service::{Once, Read, Service};
use serde::Serialize;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::body::Json;
use crate::problem::Problem;

/// A key is an id or a few words.
const MAX_KEY_BYTES: usize = 255;

/// A thing with the revision that it is at.
pub struct Tagged<T>(pub T, pub u64);

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        ([(header::ETAG, etag(self.1))], Json(self.0)).into_response()
    }
}

/// A thing that was made, with the path that it is at.
pub struct Created<T>(pub String, pub Tagged<T>);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [(header::LOCATION, self.0)], self.1).into_response()
    }
}

fn etag(revision: u64) -> String {
    format!("\"{revision}\"")
}

/// The revisions that the caller has read; none if it does not mind.
pub struct IfMatch(pub Read);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<IfMatch, Problem> {
        let lines = parts.headers.get_all(header::IF_MATCH).iter().map(|line| plain(line, &header::IF_MATCH));
        let lines: Vec<&str> = lines.collect::<Result<_, Problem>>()?;
        let text = lines.join(", ");
        if lines.is_empty() || text.trim() == "*" {
            return Ok(IfMatch(None));
        }
        let wrong = || Problem::invalid(format!("If-Match: `{text}` is no list of ETags, such as \"3\", and not *"));
        revisions(&text).map(|revisions| IfMatch(Some(revisions))).ok_or_else(wrong)
    }
}

/// The revisions that a list of ETags names (RFC 9110). None if it is no such list. What is weak is equal to nothing
/// here, and so is what this server has not given out.
fn revisions(text: &str) -> Option<Vec<u64>> {
    let (mut found, mut rest, mut tags) = (Vec::new(), text, 0);
    while let Some(start) = rest.find(|c: char| !matches!(c, ' ' | '\t' | ',')) {
        let (is_weak, tag) = rest[start..].strip_prefix("W/").map_or((false, &rest[start..]), |tag| (true, tag));
        let (opaque, behind) = tag.strip_prefix('"')?.split_once('"')?;
        let revision = opaque.parse::<u64>().ok().filter(|revision| !is_weak && revision.to_string() == opaque);
        found.extend(revision);
        tags += 1;
        rest = behind.trim_start_matches([' ', '\t']);
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
    (tags > 0).then_some(found)
}

impl IntoParams for IfMatch {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![documented(
            "If-Match",
            "Only if what is to be changed is still at this ETag, or at one of several: `\"3\", \"4\"`",
        )]
    }
}

/// The same key again means the same request again.
pub struct IdempotencyKey(pub Option<String>);

impl IdempotencyKey {
    /// For a request that makes something.
    pub fn once(self, service: &Service, route: &str, body: &impl Serialize) -> Option<Once> {
        let asked = serde_json::to_string(body).unwrap_or_default();
        self.0.map(|key| Once::new(service, route, &key, &asked))
    }
}

impl IntoParams for IdempotencyKey {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![documented("Idempotency-Key", "The same key again answers what the first request made")]
    }
}

/// A header that may be left out.
fn documented(name: &str, about: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header).description(Some(about));
    parameter.schema(Some(text)).build()
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<IdempotencyKey, Problem> {
        let key = text(&parts.headers, &HeaderName::from_static("idempotency-key"))?;
        match key.map(str::trim) {
            Some(key) if key.is_empty() || key.len() > MAX_KEY_BYTES => {
                Err(Problem::invalid(format!("an Idempotency-Key has 1 to {MAX_KEY_BYTES} bytes")))
            }
            key => Ok(IdempotencyKey(key.map(str::to_owned))),
        }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    headers.get(name).map(|value| plain(value, name)).transpose()
}

fn plain<'h>(value: &'h HeaderValue, name: &HeaderName) -> Result<&'h str, Problem> {
    value.to_str().map_err(|_| Problem::invalid(format!("the header {name} is not plain text")))
}
