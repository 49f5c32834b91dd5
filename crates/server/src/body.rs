//! What a stranger sends, read within bounds: bodies, queries and paths whose mistakes are problems that say what and
//! where.

use std::time::Duration;

use axum::body::{BodyDataStream, Bytes};
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use relais_service::access::Access;
use relais_service::mistakes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout, timeout_at};

use crate::guard::Turn;
use crate::problem::Problem;

/// A body larger than this is refused before it is read to its end: the largest definition, and room for an input.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// A client has so long to send a small body, however little at a time.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Bodies of this size or less need no turn.
const SMALL_BODY_BYTES: usize = 64 * 1024;
/// Who has a turn and sends nothing holds it for so long.
const GRACE: Duration = Duration::from_secs(3);
/// What comes more slowly than this on average would hold its turn for minutes; the largest body takes half a minute.
const MIN_BYTES_PER_S: usize = 256 * 1024;
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
    read_within(request, MAX_BODY_BYTES).await
}

/// The same for a route that takes less.
pub async fn read_within(request: Request, most: usize) -> Result<Bytes, Problem> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_too_long = length.is_some_and(|length: usize| length > most);
    let turn = request.extensions().get::<Turn>().cloned();
    let mut parts = request.into_body().into_data_stream();
    let read = if is_too_long { Err(Unread::TooLong) } else { gathered(&mut parts, most, turn).await };
    if matches!(read, Err(Unread::TooLong)) {
        let _ = timeout(DISCARD_TIME, discarded(&mut parts)).await;
    }
    read.map_err(|unread| unread.problem(most))
}

/// Why a body was not read.
enum Unread {
    TooLong,
    TooSlow,
    Broken(axum::Error),
    NoTurn(Problem),
}

impl Unread {
    fn problem(self, most: usize) -> Problem {
        match self {
            Unread::TooLong => {
                let text = format!("the body is larger than {most} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
            }
            Unread::TooSlow => {
                let text = format!("the body came too slowly: send {MIN_BYTES_PER_S} bytes in a second");
                let small = format!("or one of {SMALL_BODY_BYTES} bytes within {} s", BODY_TIME.as_secs());
                Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", format!("{text}, {small}"))
            }
            Unread::Broken(error) => Problem::invalid(format!("the body could not be read: {error}")),
            Unread::NoTurn(problem) => problem,
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

/// A small body comes as it comes. The rest of a large one waits for its turn, and must then come fast enough not to
/// keep that turn from others.
async fn gathered(parts: &mut BodyDataStream, most: usize, turn: Option<Turn>) -> Result<Bytes, Unread> {
    let (mut bytes, began) = (Vec::new(), Instant::now());
    while bytes.len() <= SMALL_BODY_BYTES {
        match part(parts, began + BODY_TIME).await? {
            Some(part) => add(&mut bytes, &part, most)?,
            None => return Ok(bytes.into()),
        }
    }
    if let Some(turn) = turn {
        turn.take().await.map_err(Unread::NoTurn)?;
    }
    let (mut deadline, second) = (Instant::now() + GRACE, Duration::from_secs(1));
    while let Some(part) = part(parts, deadline).await? {
        add(&mut bytes, &part, most)?;
        deadline += second.mul_f64(part.len() as f64 / MIN_BYTES_PER_S as f64);
    }
    Ok(bytes.into())
}

async fn part(parts: &mut BodyDataStream, deadline: Instant) -> Result<Option<Bytes>, Unread> {
    match timeout_at(deadline, parts.next()).await {
        Ok(part) => part.transpose().map_err(Unread::Broken),
        Err(_) => Err(Unread::TooSlow),
    }
}

fn add(bytes: &mut Vec<u8>, part: &[u8], most: usize) -> Result<(), Unread> {
    if bytes.len() + part.len() > most {
        return Err(Unread::TooLong);
    }
    bytes.extend_from_slice(part);
    Ok(())
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
    let wrong = |text| Problem::invalid(format!("the body is not what this route takes: {text}"));
    mistakes::read(text).map_err(wrong)
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
        let told = |rejection: QueryRejection| Problem::invalid(unasked(&rejection.body_text()));
        axum::extract::Query::from_request_parts(parts, state).await.map(|found| Query(found.0)).map_err(told)
    }
}

/// What is wrong behind the question mark: axum says it as `Failed to …: NAME: MESSAGE`, the name only where it has one.
fn unasked(text: &str) -> String {
    let text = text.split_once(": ").map_or(text, |(_, text)| text);
    match text.split_once(": ").filter(|(name, _)| !name.contains(' ')) {
        Some((name, message)) => format!("{name}: {}", mistakes::in_words(message)),
        None => mistakes::in_words(text),
    }
}

/// The ids in the path.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        // What is not even an id names nothing that is there.
        let told = |rejection: PathRejection| Problem::not_found(format!("nothing is there: {}", misnamed(&rejection)));
        axum::extract::Path::from_request_parts(parts, state).await.map(|found| Path(found.0)).map_err(told)
    }
}

fn misnamed(rejection: &PathRejection) -> String {
    let PathRejection::FailedToDeserializePathParams(failed) = rejection else { return rejection.body_text() };
    match failed.kind() {
        ErrorKind::DeserializeError { value, .. } | ErrorKind::ParseError { value, .. } => no_id(value),
        ErrorKind::ParseErrorAtKey { value, .. } | ErrorKind::ParseErrorAtIndex { value, .. } => no_id(value),
        _ => "the path has a part that cannot be read; write it in UTF-8, with %XX".to_owned(),
    }
}

fn no_id(value: &str) -> String {
    format!("`{value}` is no id, such as {}", mistakes::AN_ID)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::body::Body;
    use futures::stream;

    use super::*;

    /// A body that comes in parts, one each so many milliseconds; says how it was read and when.
    async fn check(parts: usize, part_bytes: usize, every_ms: u64, status: Option<u16>, within_s: u64) {
        let every = Duration::from_millis(every_ms);
        let ticks = tokio::time::interval_at(Instant::now() + every, every);
        let sent = stream::unfold((ticks, parts), move |(mut ticks, left)| async move {
            let left = left.checked_sub(1)?;
            ticks.tick().await;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(vec![b' '; part_bytes])), (ticks, left)))
        });
        let began = Instant::now();
        let read = read(Request::new(Body::from_stream(sent))).await;
        let shown = format!("{parts} parts of {part_bytes} bytes, one each {every_ms} ms");
        assert_eq!(read.as_ref().err().map(|problem| problem.status), status, "{shown}");
        assert!(began.elapsed() <= Duration::from_secs(within_s), "{shown}: {:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sender_is_cut_off_soon() {
        check(10, 100, 1_000, None, 10).await;
        check(100, 100, 1_000, Some(408), 30).await;
        check(80, 100_000, 300, None, 24).await;
        check(10, 70_000, 5_000, Some(408), 5 + 3).await;
        check(90, 100_000, 1, Some(413), 1).await;
    }

    #[test]
    fn values_are_counted_from_above() {
        let check = |text: &str, expected: usize| assert_eq!(values_at_most(text.as_bytes()), expected, "{text}");
        check("1", 1);
        check("[1,2,3]", 4);
        check(r#"{"a": [true, "x,y,[{"], "b\",c": null}"#, 10);
        check(r#""\\", 1"#, 2);
    }
}
