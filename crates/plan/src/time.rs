//! Durations and instants as people write them. No clock here: the caller brings the time.

/// `90s`, `10m`, `1h30m`, `2d`, `500ms`, or a bare number of seconds. Milliseconds.
pub fn parse_duration(_text: &str) -> Option<u64> {
    None
}

/// `1h30m`, `4.2s`, `350ms`: short, for people.
pub fn format_duration(_ms: u64) -> String {
    String::new()
}

/// RFC 3339 (an offset or `Z` is required). Milliseconds since 1970.
pub fn parse_instant(_text: &str) -> Option<i64> {
    None
}

/// RFC 3339 in UTC with milliseconds.
pub fn format_instant(_at_ms: i64) -> String {
    String::new()
}
