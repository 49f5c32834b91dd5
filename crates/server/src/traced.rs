//! The trace that a caller is in: the header `traceparent` of W3C Trace Context. Knows nothing of what is done with it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// Version, trace, span and flags, with a dash between.
const LENGTHS: [usize; 4] = [2, 32, 16, 2];
/// What is kept of a header; later versions may have more behind it.
const KEPT_CHARS: usize = 55;
/// A version that is none.
const NO_VERSION: &str = "ff";

/// The trace that a request belongs to. A header that is not right is no error: the standard has it left out.
pub struct TraceParent(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for TraceParent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<TraceParent, Infallible> {
        let mut values = parts.headers.get_all("traceparent").iter();
        let text = match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok().map(str::trim),
            (None, _) | (Some(_), Some(_)) => None,
        };
        Ok(TraceParent(text.filter(|text| read(text).is_some()).map(|text| text.chars().take(KEPT_CHARS).collect())))
    }
}

/// The ids of the trace and of the span.
pub fn read(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let mut next = |length: usize| parts.next().filter(|part| part.len() == length && part.bytes().all(is_digit));
    let [version, trace, span, flags] = LENGTHS.map(&mut next);
    let (version, trace, span) = (version?, trace?, span?);
    let is_whole = flags.is_some() && version != NO_VERSION && (version != "00" || parts.next().is_none());
    let is_set = |id: &str| id.bytes().any(|digit| digit != b'0');
    (is_whole && is_set(trace) && is_set(span)).then_some((trace, span))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_by_the_standard_or_not_at_all() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for (text, is_right) in [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), true),
            (format!("01-{trace}-{span}-01-more"), true),
            (format!("00-{trace}-{span}-01-more"), false),
            (format!("ff-{trace}-{span}-01"), false),
            (format!("00-{}-{span}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{span}-01", trace.to_uppercase()), false),
            (format!("00-{trace}-{span}"), false),
            (format!("00-{trace}x-{span}-01"), false),
            (String::new(), false),
        ] {
            assert_eq!(read(&text), is_right.then_some((trace, span)), "{text}");
        }
    }
}
