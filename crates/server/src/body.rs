//! What a stranger sends, read within bounds: bodies, queries and paths whose mistakes are problems that say what and
//! where.

use std::time::Duration;

use axum::body::{BodyDataStream, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use relais_service::access::Access;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::problem::Problem;

/// A body larger than this is refused before it is read to its end: the largest definition, and room for an input.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// A client has so long to send its body, however little at a time.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Of a body that is too large, so much is read and thrown away.
const DISCARD_BYTES: usize = 32 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);
/// Values in one body: each takes some hundred bytes when it is read, whatever it takes in the text.
const MAX_VALUES: usize = 1_100_000;
/// An object takes as much memory as so many other values.
const OBJECT_WEIGHT: usize = 6;

/// JSON, both ways. Unknown fields are refused by the types (`deny_unknown_fields`), nesting by the parser.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Json<T>, Problem> {
        let is_json = says_json(request.headers());
        let access = request.extensions().get::<Access>().cloned();
        let bytes = read(request).await?;
        // An empty body is an empty object: most requests have only optional fields.
        if bytes.is_empty() {
            return parsed(b"{}").map(Json);
        }
        // Asked for, since a browser sends anything else across sites without asking the server first.
        if !is_json {
            let text = "the body must be JSON and say so: `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", text));
        }
        if values_at_most(&bytes) > MAX_VALUES {
            let text = format!("the body has more than {MAX_VALUES} values, an object counted as {OBJECT_WEIGHT}");
            return Err(Problem::invalid(text));
        }
        must_be_an_object(&bytes)?;
        let is_named = names_user(&bytes, access.as_ref())?;
        parsed(&bytes).or_else(|problem| if is_named { without_user(&bytes) } else { Err(problem) }).map(Json)
    }
}

/// The whole body, within bounds of size and time.
pub async fn read(request: Request) -> Result<Bytes, Problem> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let too_long = length.is_some_and(|length: usize| length > MAX_BODY_BYTES);
    let mut parts = request.into_body().into_data_stream();
    let whole = async { if too_long { Ok(None) } else { gathered(&mut parts).await } };
    match timeout(BODY_TIME, whole).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            let _ = timeout(DISCARD_TIME, discarded(&mut parts)).await;
            let text = format!("the body is larger than {MAX_BODY_BYTES} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text))
        }
        Ok(Err(error)) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
        Err(_) => {
            let text = format!("the body did not come within {} s", BODY_TIME.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", text))
        }
    }
}

/// A list would be read as the fields of an object in their order, which nobody means.
fn must_be_an_object(text: &[u8]) -> Result<(), Problem> {
    match text.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        _ => Err(Problem::invalid("the body must be a JSON object: `{ … }`")),
    }
}

/// Every body may name the user that it is for, which must be whoever sends it: then whether it does.
fn names_user(text: &[u8], access: Option<&Access>) -> Result<bool, Problem> {
    #[derive(Deserialize)]
    struct Named {
        user_id: Option<Value>,
    }
    // What is no object, or no JSON, is for the route to judge.
    let named = serde_json::from_slice::<Named>(text).ok().and_then(|named| named.user_id);
    let Some((user, access)) = named.zip(access) else { return Ok(false) };
    access.check_user_id(user.as_str().unwrap_or_default())?;
    Ok(true)
}

/// For routes that do not ask for it.
fn without_user<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let mut fields: Map<String, Value> = parsed(text)?;
    fields.remove("user_id");
    parsed(Value::Object(fields).to_string().as_bytes())
}

/// None where there is more than is read.
async fn gathered(parts: &mut BodyDataStream) -> Result<Option<Bytes>, axum::Error> {
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part?;
        if bytes.len() + part.len() > MAX_BODY_BYTES {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes.into()))
}

/// Most clients look for an answer only when they have sent everything: what is too large is taken off their hands, as
/// far as it is not far too large.
async fn discarded(parts: &mut BodyDataStream) {
    let mut count = 0;
    while let Some(Ok(part)) = parts.next().await {
        count += part.len();
        if count > DISCARD_BYTES {
            return;
        }
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    value.map_err(|error| Problem::invalid(format!("the body is not what this route takes: {error}")))
}

/// How many values a JSON text has at most, without reading them into memory: behind each bracket and comma outside of
/// strings there may be one.
fn values_at_most(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' if !quoted => count += OBJECT_WEIGHT,
            b'[' | b',' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// What stands behind the question mark.
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Problem> {
        let told = |rejection: QueryRejection| Problem::invalid(rejection.body_text());
        axum::extract::Query::from_request_parts(parts, state).await.map(|found| Query(found.0)).map_err(told)
    }
}

/// The ids in the path.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        // What is not even an id names nothing that is there.
        let told =
            |rejection: PathRejection| Problem::not_found(format!("nothing is there: {}", rejection.body_text()));
        axum::extract::Path::from_request_parts(parts, state).await.map(|found| Path(found.0)).map_err(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_from_above() {
        let check = |text: &str, expected: usize| assert_eq!(values_at_most(text.as_bytes()), expected, "{text}");
        check("1", 1);
        check("[1,2,3]", 4);
        check(r#"{"a": [true, "x,y,[{"], "b\",c": null}"#, 10);
        check(r#""\\", 1"#, 2);
    }
}
