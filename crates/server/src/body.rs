//! What a stranger sends, read within bounds: bodies, queries and paths whose mistakes are problems that say what and
//! where.

use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// A body larger than this is refused before it is read to its end: the largest definition, and room for an input.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// JSON, both ways. Unknown fields are refused by the types (`deny_unknown_fields`), nesting by the parser.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, Problem> {
        let bytes = axum::body::Bytes::from_request(request, state).await.map_err(unread)?;
        // An empty body is an empty object: most requests have only optional fields.
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let mut parser = serde_json::Deserializer::from_slice(text);
        let value = T::deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
        value.map(Json).map_err(|error| Problem::invalid(format!("the body is not what this route takes: {error}")))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

fn unread(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let text = format!("the body is larger than {MAX_BODY_BYTES} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
        }
        _ => Problem::invalid(format!("the body could not be read: {}", rejection.body_text())),
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
