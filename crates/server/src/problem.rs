//! Errors as the client sees them: `application/problem+json` with a `kind` that never changes.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use relais_plan::Severity;
use relais_service::Error;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// When a client that met a busy database may ask again.
const RETRY_AFTER_S: u32 = 1;

/// What went wrong (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// A word for programs: `invalid`, `unauthorized`, `forbidden`, `not_found`, `conflict`, `stale`, `too_large`,
    /// `too_many`, `too_slow`, `unsupported`, `busy`, `unusable`.
    #[schema(example = "not_found")]
    pub kind: &'static str,
    pub title: &'static str,
    pub status: u16,
    /// What was wrong, where, and what would be right.
    #[schema(example = "there is no run 0190a0b0-c0d0-7000-8000-00000000000a")]
    pub detail: String,
    /// Each mistake in a definition, with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Finding>,
    #[serde(skip)]
    pub retry_after_s: Option<u32>,
    /// What `WWW-Authenticate` says.
    #[serde(skip)]
    pub challenge: Option<String>,
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Finding {
    /// `error` or `warning`.
    pub severity: &'static str,
    /// From 1; null where the text as a whole is meant.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The bytes of the text that are meant, for editors; both 0 where it is the text as a whole.
    pub start: u32,
    pub end: u32,
    /// Where it is in a definition that is JSON, such as `steps[0].agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl From<relais_service::Finding> for Finding {
    fn from(found: relais_service::Finding) -> Finding {
        let severity = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let relais_service::Finding { line, column, span, path, message, help, .. } = found;
        Finding { severity, line, column, start: span.start, end: span.end, path, message, help }
    }
}

impl Problem {
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error");
        let challenge = (status == StatusCode::UNAUTHORIZED).then(|| "Bearer realm=\"relais\"".to_owned());
        let (status, detail) = (status.as_u16(), detail.into());
        Problem { kind, title, status, detail, errors: Vec::new(), retry_after_s: None, challenge }
    }

    pub fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Nothing was done; the same may be asked again in a moment.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(RETRY_AFTER_S)
    }

    pub fn retry_after(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn challenge(mut self, text: impl Into<String>) -> Problem {
        self.challenge = Some(text.into());
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::Invalid(_) | Error::Findings(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Conflict(_) => StatusCode::CONFLICT,
            Error::Stale(_) => StatusCode::PRECONDITION_FAILED,
            Error::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Error::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::Forbidden(_) => StatusCode::FORBIDDEN,
            Error::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Unusable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut problem = Problem::new(status, error.kind(), error.to_string());
        if let Error::TooMany { retry_after_ms } = error {
            return problem.retry_after(u32::try_from(retry_after_ms.div_ceil(1_000)).unwrap_or(u32::MAX));
        }
        if let Error::Findings(findings) = error {
            problem.errors = findings.into_iter().map(Finding::from).collect();
        }
        if status == StatusCode::SERVICE_UNAVAILABLE { problem.retry_after(RETRY_AFTER_S) } else { problem }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The problems that every operation may answer with, for the OpenAPI document.
pub struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = |description: &str| {
            let content = Content::new(Some(Ref::from_schema_name("Problem")));
            ResponseBuilder::new().description(description).content("application/problem+json", content).build().into()
        };
        let ours = problem(
            "The server is busy (503, with `Retry-After`: nothing was done), takes too long (504: what was asked for goes \
             on, so look before you ask again) or has a problem of its own",
        );
        BTreeMap::from([("4XX".to_owned(), problem("What was asked for cannot be done")), ("5XX".to_owned(), ours)])
    }
}
