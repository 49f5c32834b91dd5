//! Headers by which a client says what it has read and what it has asked before: `ETag`, `If-Match`,
//! `Idempotency-Key`.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_service::{Once, Service};
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

/// The revision that the caller has read; none if it does not mind.
pub struct IfMatch(pub Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<IfMatch, Problem> {
        let Some(text) = text(&parts.headers, &header::IF_MATCH)? else { return Ok(IfMatch(None)) };
        if text.trim() == "*" {
            return Ok(IfMatch(None));
        }
        let revision = text.trim().trim_start_matches("W/").trim_matches('"').parse().ok();
        let wrong = || Problem::invalid(format!("If-Match: `{text}` is no ETag of this server, such as \"3\""));
        revision.map(|revision| IfMatch(Some(revision))).ok_or_else(wrong)
    }
}

impl IntoParams for IfMatch {
    fn into_params(_place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![documented("If-Match", "Only if what is to be changed is still at this ETag")]
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
    let unread = |_| Problem::invalid(format!("the header {name} is not plain text"));
    headers.get(name).map(|value| value.to_str().map_err(unread)).transpose()
}
