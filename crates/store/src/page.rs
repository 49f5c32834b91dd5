//! Cursors and bounds that all stores share, so that a page means the same in each.

use relais_engine::{Millis, RunId};

use crate::Error;

/// Rows on a page when nobody says how many.
pub(crate) const DEFAULT_ROWS: usize = 100;
/// More than a screen or a client can use at once; bounds the memory of one call.
pub(crate) const MAX_ROWS: usize = 1_000;
/// Runs removed by one prune when nobody says how many: short enough to keep appends waiting for milliseconds only.
pub(crate) const DEFAULT_PRUNED_RUNS: usize = 1_000;
/// A blob is put before the entry that refers to it; whoever has not referred to it for a day never will.
pub(crate) const UNUSED_BLOB_MS: Millis = 24 * 60 * 60 * 1_000;

pub(crate) fn rows(limit: usize) -> usize {
    if limit == 0 { DEFAULT_ROWS } else { limit.min(MAX_ROWS) }
}

/// The same as SQLite wants it.
pub(crate) fn sql_rows(limit: usize) -> i64 {
    i64::try_from(rows(limit)).unwrap_or(i64::MAX)
}

pub(crate) fn pruned_runs(limit: usize) -> usize {
    if limit == 0 { DEFAULT_PRUNED_RUNS } else { limit }
}

/// The last row of a page. Rows that start later do not move it.
pub(crate) fn cursor(started_at: Millis, run: RunId) -> String {
    format!("{started_at}.{}", run.simple())
}

pub(crate) fn position(cursor: &str) -> Result<(Millis, RunId), Error> {
    let parsed = cursor.split_once('.').and_then(|(at, run)| Some((at.parse().ok()?, run.parse().ok()?)));
    parsed.ok_or_else(|| Error::NotFound(format!("page at `{cursor}`; a cursor comes from the page before")))
}

/// When something was stored, by the clock of this machine.
pub(crate) fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_that_no_page_gave_is_refused() {
        for bad in ["", "1", "1.", ".", "x.y", "1.zz", "99999999999999999999.0190a0b0c0d07000800000000000000a"] {
            assert!(matches!(position(bad), Err(Error::NotFound(_))), "{bad}");
        }
        let (at, run) = position("-5.0190a0b0c0d07000800000000000000a").unwrap();
        assert_eq!((at, run.simple().to_string().as_str()), (-5, "0190a0b0c0d07000800000000000000a"));
    }
}
