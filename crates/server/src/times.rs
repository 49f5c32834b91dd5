//! Times on the wire: RFC 3339 in UTC, to the millisecond.

use relais_engine::Millis;

pub fn instant(at: Millis) -> String {
    relais_plan::time::format_instant(at)
}
