//! Durations and instants as people write them. No clock here: the caller brings the time.

use jiff::Timestamp;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const WEEK_MS: u64 = 7 * DAY_MS;

/// `90s`, `10m`, `1h30m`, `2d`, `500ms`, or a bare number of seconds. Milliseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return scaled(text, SECOND_MS);
    }
    let mut total: u64 = 0;
    let mut rest = text;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let (part_ms, unit_ms, after) = part(rest)?;
        // Units go down and none comes twice, so `5m 1h` or `1s1s` is a slip and not a sum.
        if unit_ms >= last_unit {
            return None;
        }
        last_unit = unit_ms;
        total = total.checked_add(part_ms)?;
        rest = after;
    }
    (last_unit != u64::MAX).then_some(total)
}

/// `1h30m`, `4.2s`, `350ms`: short, for people.
pub fn format_duration(ms: u64) -> String {
    if ms < SECOND_MS {
        return format!("{ms}ms");
    }
    if ms < MINUTE_MS {
        let tenths = ms / 100;
        return if tenths.is_multiple_of(10) {
            format!("{}s", tenths / 10)
        } else {
            format!("{}.{}s", tenths / 10, tenths % 10)
        };
    }
    // Below the second unit nobody looks: `2d3h`, not `2d3h4m5s`.
    let units = [("d", ms / DAY_MS), ("h", ms / HOUR_MS % 24), ("m", ms / MINUTE_MS % 60), ("s", ms / SECOND_MS % 60)];
    let first = units.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    units
        .iter()
        .skip(first)
        .take(2)
        .filter(|(_, count)| *count > 0)
        .map(|(unit, count)| format!("{count}{unit}"))
        .collect()
}

/// RFC 3339 (an offset or `Z` is required). Milliseconds since 1970.
pub fn parse_instant(text: &str) -> Option<i64> {
    text.trim().parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// Why a text is no instant although it is written like one: it is outside the times that are taken. None where it is
/// something else.
pub fn too_far(text: &str) -> Option<String> {
    let pieces = jiff::fmt::temporal::Pieces::parse(text.trim()).ok()?;
    let is_whole = pieces.time().is_some() && pieces.offset().is_some() && parse_instant(text).is_none();
    let (first, last) = (format_instant(i64::MIN), format_instant(i64::MAX));
    is_whole.then(|| format!("`{}` is too far away; times from {first} to {last} are taken", text.trim()))
}

/// RFC 3339 in UTC with milliseconds.
pub fn format_instant(at_ms: i64) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(if at_ms < 0 { Timestamp::MIN } else { Timestamp::MAX });
    format!("{at:.3}")
}

/// One `NUMBER UNIT` at the start: its length, its unit, and what follows.
fn part(text: &str) -> Option<(u64, u64, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_end);
    let rest = rest.trim_start();
    let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let unit_ms = unit(&rest[..unit_end])?;
    Some((scaled(number, unit_ms)?, unit_ms, rest[unit_end..].trim_start()))
}

fn unit(word: &str) -> Option<u64> {
    Some(match word.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND_MS,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE_MS,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR_MS,
        "d" | "day" | "days" => DAY_MS,
        "w" | "week" | "weeks" => WEEK_MS,
        _ => return None,
    })
}

/// `number × unit` in whole milliseconds, exact for decimal fractions (`1.5h`), rounded down below a millisecond.
fn scaled(number: &str, unit_ms: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole_ms = whole.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    if fraction.is_empty() {
        return Some(whole_ms);
    }
    let digits = u128::from(fraction.parse::<u64>().ok()?);
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction_ms = u64::try_from(digits * u128::from(unit_ms) / scale).ok()?;
    whole_ms.checked_add(fraction_ms)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [
            ("90s", Some(90_000)),
            ("10m", Some(600_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("1w", Some(604_800_000)),
            ("500ms", Some(500)),
            ("45", Some(45_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1.5h", Some(5_400_000)),
            ("0.25", Some(250)),
            ("20 minutes", Some(1_200_000)),
            (" 5s ", Some(5_000)),
            ("", None),
            ("-5s", None),
            ("5x", None),
            ("s", None),
            ("1.s", None),
            (".5s", None),
            ("1.2.3", None),
            ("30m1h", None),
            ("1s1s", None),
            ("1h30", None),
            ("99999999999999999999s", None),
            ("99999999999999999w", None),
            ("1e3s", None),
        ] {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_shown() {
        for (ms, expected) in [
            (0, "0ms"),
            (350, "350ms"),
            (4_200, "4.2s"),
            (4_000, "4s"),
            (59_999, "59.9s"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (3_601_000, "1h"),
            (176_400_000, "2d1h"),
        ] {
            assert_eq!(format_duration(ms), expected);
        }
    }

    #[test]
    fn instants_go_both_ways() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2025-03-01T12:00:00.250Z", Some(1_740_830_400_250)),
            ("2025-03-01T13:00:00+01:00", Some(1_740_830_400_000)),
            ("2025-03-01T13:00:00", None),
            ("2025-03-01", None),
            ("soon", None),
        ] {
            assert_eq!(parse_instant(text), expected, "{text}");
        }
        assert_eq!(format_instant(1_740_830_400_250), "2025-03-01T12:00:00.250Z");
        assert_eq!(format_instant(0), "1970-01-01T00:00:00.000Z");
        assert!(format_instant(i64::MAX).starts_with("9999-"));
        assert_eq!(parse_instant(&format_instant(-1)), Some(-1));
    }

    #[test]
    fn instants_have_a_last_one() {
        let far = |text: &str| {
            format!(
                "`{text}` is too far away; times from -009999-01-02T01:59:59.000Z to 9999-12-30T22:00:00.999Z are taken"
            )
        };
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"] {
            assert_eq!(too_far(text), Some(far(text)));
            assert_eq!(crate::words::at(text), Err(far(text)));
        }
        for text in ["9999-12-30T22:00:00Z", "9999-12-31T23:59:59", "9999-12-31", "9999-13-31T23:59:59Z", "soon", ""] {
            assert_eq!(too_far(text), None, "{text}");
        }
    }
}
