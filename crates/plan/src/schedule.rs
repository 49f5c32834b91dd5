//! When a trigger fires: what its text means, and its times.
//!
//! Times are milliseconds since 1970 and come from the caller; there is no clock here. Time zones are looked up by
//! their names once, when a schedule is made. Who starts runs, and what happens when one is still going, is the
//! server's business.

mod pattern;
mod zone;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

pub(crate) use self::pattern::Pattern;
use crate::time::format_duration;
use crate::words::{self, At, Clock, Day};
use crate::{Trigger, TriggerOn};

/// As often as a cron with seconds. More often than that is a loop, and `continuous` is there for it.
const LEAST_EVERY_MS: u64 = 1_000;

/// The time zone where neither a trigger nor a server names one.
pub const DEFAULT_TIMEZONE: &str = "UTC";

/// What calendars may look like.
pub const CALENDAR_FORMS: &str = "`daily@09:00`, `weekly@1,3,5` or `weekly@1,3,5@09:00` (days are 0 to 6, 0 is Sunday)";

/// The times of one trigger.
#[derive(Debug, Clone)]
pub struct Schedule {
    said: String,
    /// Whether clock times and days were said, so that the zone matters.
    is_local: bool,
    zone: TimeZone,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Once {
        at_ms: i64,
    },
    Every {
        anchor_ms: i64,
        ms: u64,
    },
    Clock(Box<Pattern>),
    /// By the end of the last run, not by a clock.
    AfterRun,
}

/// Times that fell due, at most as many as were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub times: Vec<i64>,
    pub has_more: bool,
}

/// What starts runs by time; `None` for triggers that wait for somebody or something.
///
/// `set_ms` is when the trigger was set: "tomorrow" is told from it, and `every` counts from it. The same `set_ms`
/// gives the same times, so that a server that keeps it can be restarted.
pub fn parse(trigger: &Trigger, default_timezone: &str, set_ms: i64) -> Result<Option<Schedule>, String> {
    let zone = zone_named(trigger.timezone.as_deref().unwrap_or(default_timezone))?;
    let (said, is_local, rule) = match &trigger.on {
        TriggerOn::Manual | TriggerOn::Webhook { .. } | TriggerOn::Event(_) => return Ok(None),
        TriggerOn::At(text) => {
            let at = words::at(text)?;
            let rule = Rule::Once { at_ms: instant(at, text, &zone, set_ms)? };
            (format!("at {text:?}"), matches!(at, At::Clock { .. }), rule)
        }
        TriggerOn::Cron(text) => {
            let fields = words::cron(text)?;
            let meant = if fields.eq_ignore_ascii_case(text) { String::new() } else { format!(" ({fields})") };
            (format!("cron {text:?}{meant}"), true, Rule::Clock(Box::new(Pattern::parse(&fields)?)))
        }
        TriggerOn::Every { ms } if (1..LEAST_EVERY_MS).contains(ms) => return Err(too_often("every", *ms)),
        TriggerOn::Every { ms } => {
            (format!("every {}", format_duration(*ms)), false, Rule::Every { anchor_ms: set_ms, ms: *ms })
        }
        TriggerOn::Calendar(text) => (text.clone(), true, Rule::Clock(Box::new(calendar(text)?))),
        TriggerOn::Continuous { delay_ms } if *delay_ms < LEAST_EVERY_MS => {
            return Err(too_often("continuous", *delay_ms));
        }
        TriggerOn::Continuous { delay_ms } => {
            (format!("continuous, {} after each run", format_duration(*delay_ms)), false, Rule::AfterRun)
        }
    };
    let schedule = Schedule { said, is_local, zone, rule };
    schedule.checked(set_ms).map(Some)
}

fn too_often(word: &str, ms: u64) -> String {
    let (said, least) = (format_duration(ms), format_duration(LEAST_EVERY_MS));
    format!("`{word} {said}` is too often; the least is {least}")
}

/// Whether a text is `daily@HH:mm`, `weekly@1,3,5` or `weekly@1,3,5@HH:mm`.
pub fn is_calendar(text: &str) -> bool {
    calendar(text).is_ok()
}

impl Schedule {
    /// A clock that has no time to come, ever, is a mistake; a time that is past was one once.
    fn checked(self, set_ms: i64) -> Result<Self, String> {
        match self.rule {
            Rule::Every { .. } | Rule::Clock(_) if self.next(set_ms).is_none() => {
                Err(format!("`{}` can never fire", self.said))
            }
            Rule::Every { .. } | Rule::Clock(_) | Rule::Once { .. } | Rule::AfterRun => Ok(self),
        }
    }

    /// The first time after this one.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        match &self.rule {
            Rule::Once { at_ms } => Some(*at_ms).filter(|at_ms| *at_ms > after_ms),
            Rule::Every { anchor_ms, ms } => every(*anchor_ms, *ms, after_ms),
            Rule::Clock(pattern) => {
                let after = Timestamp::from_millisecond(after_ms.max(Timestamp::MIN.as_millisecond() + 1)).ok()?;
                let reading = pattern.next(zone::reading_after(&self.zone, after)?)?;
                let turn = zone::turn(&self.zone, reading)?;
                let again = || zone::again(&self.zone, after, turn, |from| pattern.next(from));
                let repeated = if pattern.is_hourly() { again() } else { None };
                Some(repeated.map_or(turn, |repeated| repeated.min(turn)).as_millisecond())
            }
            Rule::AfterRun => None,
        }
    }

    /// The first `count` times after this one; fewer where there are no more.
    pub fn next_times(&self, after_ms: i64, count: usize) -> Vec<i64> {
        std::iter::successors(self.next(after_ms), |time| self.next(*time)).take(count).collect()
    }

    /// The times after `from_ms` up to and with `to_ms`: windows side by side have every time once.
    pub fn between(&self, from_ms: i64, to_ms: i64, at_most: usize) -> Due {
        let due = std::iter::successors(self.next(from_ms), |time| self.next(*time)).take_while(|time| *time <= to_ms);
        let mut times: Vec<i64> = due.take(at_most.saturating_add(1)).collect();
        let has_more = times.len() > at_most;
        times.truncate(at_most);
        Due { times, has_more }
    }

    /// The last time after `from_ms` up to and with `to_ms`. Halves the span, so that many times cost no more than few.
    pub fn latest(&self, from_ms: i64, to_ms: i64) -> Option<i64> {
        let is_within = |after_ms: i64| self.next(after_ms).is_some_and(|time| time <= to_ms);
        if !is_within(from_ms) {
            return None;
        }
        let (mut within, mut beyond) = (from_ms, to_ms);
        while beyond.saturating_sub(within) > 1 {
            let middle = within.midpoint(beyond);
            if is_within(middle) { within = middle } else { beyond = middle }
        }
        self.next(within)
    }

    /// Whether its times can be told; those of `continuous` depend on when runs end.
    pub fn has_clock(&self) -> bool {
        !matches!(self.rule, Rule::AfterRun)
    }

    /// What was understood: `cron "0 9 * * MON-FRI" Europe/Paris`.
    pub fn describe(&self) -> String {
        match self.zone.iana_name().filter(|_| self.is_local) {
            Some(zone) => format!("{} {zone}", self.said),
            None => self.said.clone(),
        }
    }

    /// A time as clocks of this schedule show it: `Mon 2026-11-16 09:00 +01:00`.
    pub fn show(&self, at_ms: i64) -> String {
        let Ok(at) = Timestamp::from_millisecond(at_ms) else { return crate::time::format_instant(at_ms) };
        let at = at.to_zoned(self.zone.clone());
        let format = if at.second() == 0 { "%a %Y-%m-%d %H:%M %:z" } else { "%a %Y-%m-%d %H:%M:%S %:z" };
        at.strftime(format).to_string()
    }
}

fn zone_named(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("there is no time zone `{name}`; IANA names such as `Europe/Paris`"))
}

/// `anchor + n × ms`, n from 1.
fn every(anchor_ms: i64, ms: u64, after_ms: i64) -> Option<i64> {
    let (anchor, ms, after) = (i128::from(anchor_ms), i128::from(ms), i128::from(after_ms));
    let passed = (after - anchor).max(0).checked_div(ms)?;
    let next = i64::try_from(anchor + (passed + 1) * ms).ok()?;
    (next <= Timestamp::MAX.as_millisecond()).then_some(next)
}

fn instant(at: At, text: &str, zone: &TimeZone, now_ms: i64) -> Result<i64, String> {
    let too_far = || format!("`{text}` is further away than the calendar goes");
    match at {
        At::Instant(at_ms) => Ok(at_ms),
        At::In { ms } => every(now_ms, ms, now_ms).ok_or_else(too_far),
        At::Clock { day, clock } => {
            let now = Timestamp::from_millisecond(now_ms).map_err(|_| too_far())?;
            let today = zone.to_datetime(now).date();
            let days = days_ahead(day, today);
            let at_ms = clock_time(today, days, clock, zone).ok_or_else(too_far)?;
            match day {
                _ if at_ms > now_ms => Ok(at_ms),
                Day::Weekday { .. } => clock_time(today, days + 7, clock, zone).ok_or_else(too_far),
                Day::Today | Day::Tomorrow => Err(format!("`{text}` is already past")),
            }
        }
    }
}

fn days_ahead(day: Day, today: Date) -> i64 {
    match day {
        Day::Today => 0,
        Day::Tomorrow => 1,
        Day::Weekday { weekday, after_today } => {
            let since = today.weekday().since(Weekday::Sunday);
            let days = (i64::from(weekday) - i64::from(since)).rem_euclid(7);
            if days == 0 && after_today { 7 } else { days }
        }
    }
}

fn clock_time(today: Date, days: i64, clock: Clock, zone: &TimeZone) -> Option<i64> {
    let date = today.checked_add(SignedDuration::from_hours(days * 24)).ok()?;
    let reading = date.at(clock.hour as i8, clock.minute as i8, 0, 0);
    zone::turn(zone, reading).map(Timestamp::as_millisecond)
}

fn calendar(text: &str) -> Result<Pattern, String> {
    let parsed = match text.trim().split('@').collect::<Vec<_>>().as_slice() {
        ["daily", clock] => clock_of(clock).map(|clock| ((0..7).collect(), clock)),
        ["weekly", days] => weekdays(days).map(|days| (days, Clock { hour: 0, minute: 0 })),
        ["weekly", days, clock] => weekdays(days).zip(clock_of(clock)),
        _ => None,
    };
    let (days, clock) = parsed.ok_or_else(|| format!("`{text}` is no schedule: write {CALENDAR_FORMS}"))?;
    Ok(Pattern::weekly(days, clock.hour, clock.minute))
}

fn clock_of(text: &str) -> Option<Clock> {
    let part = |text: &str, below: u8| {
        let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number < below)
    };
    let (hour, minute) = text.split_once(':')?;
    Some(Clock { hour: part(hour, 24)?, minute: part(minute, 60)? })
}

fn weekdays(text: &str) -> Option<Vec<u8>> {
    text.split(',').map(|day| day.trim().parse().ok().filter(|day| *day < 7)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::time::{format_instant, parse_instant};

    /// A Monday, 09:30 in Paris.
    const NOW: &str = "2026-11-16T08:30:00Z";

    fn parsed(on: TriggerOn, timezone: Option<&str>) -> Result<Option<Schedule>, String> {
        let trigger = Trigger { timezone: timezone.map(str::to_owned), ..Trigger::new(on) };
        parse(&trigger, "Europe/Paris", parse_instant(NOW).unwrap())
    }

    #[test]
    fn times_in_words_are_told_from_when_they_are_said() {
        for (text, expected) in [
            ("2027-01-01T09:00:00+01:00", Ok("2027-01-01T08:00:00.000Z")),
            ("in 20 minutes", Ok("2026-11-16T08:50:00.000Z")),
            ("today at 18:00", Ok("2026-11-16T17:00:00.000Z")),
            ("tomorrow 9am", Ok("2026-11-17T08:00:00.000Z")),
            ("monday at 10:00", Ok("2026-11-16T09:00:00.000Z")),
            ("monday at 9am", Ok("2026-11-23T08:00:00.000Z")),
            ("next monday at 10:00", Ok("2026-11-23T09:00:00.000Z")),
            ("next friday at 17:30", Ok("2026-11-20T16:30:00.000Z")),
            ("sunday at noon", Ok("2026-11-22T11:00:00.000Z")),
            ("today at 9am", Err("`today at 9am` is already past")),
            ("in 99999999999 days", Err("`in 99999999999 days` is further away than the calendar goes")),
            ("soon", Err("`soon` is no time that can be understood")),
        ] {
            let found =
                parsed(TriggerOn::At(text.into()), None).map(|schedule| schedule.unwrap().next(i64::MIN).unwrap());
            assert_eq!(found.map(format_instant), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn what_was_understood_is_shown() {
        let cases = [
            (
                TriggerOn::Cron("0 9 * * MON-FRI".into()),
                r#"cron "0 9 * * MON-FRI" Europe/Paris: Tue 2026-11-17 09:00 +01:00"#,
            ),
            (
                TriggerOn::Cron("every weekday at 8:30".into()),
                r#"cron "every weekday at 8:30" (30 8 * * MON-FRI) Europe/Paris: Tue 2026-11-17 08:30 +01:00"#,
            ),
            (
                TriggerOn::Cron("5 0 0 * * *".into()),
                r#"cron "5 0 0 * * *" Europe/Paris: Tue 2026-11-17 00:00:05 +01:00"#,
            ),
            (TriggerOn::Calendar("daily@02:30".into()), "daily@02:30 Europe/Paris: Tue 2026-11-17 02:30 +01:00"),
            (TriggerOn::Calendar("weekly@0,6".into()), "weekly@0,6 Europe/Paris: Sat 2026-11-21 00:00 +01:00"),
            (TriggerOn::Every { ms: 900_000 }, "every 15m: Mon 2026-11-16 09:45 +01:00"),
            (TriggerOn::At("tomorrow 9am".into()), r#"at "tomorrow 9am" Europe/Paris: Tue 2026-11-17 09:00 +01:00"#),
            (TriggerOn::Continuous { delay_ms: 1_000 }, "continuous, 1s after each run: "),
        ];
        for (on, expected) in cases {
            let schedule = parsed(on, None).unwrap().unwrap();
            let next = schedule.next(parse_instant(NOW).unwrap()).map(|at| schedule.show(at)).unwrap_or_default();
            assert_eq!(format!("{}: {next}", schedule.describe()), expected);
        }
    }

    #[test]
    fn some_triggers_have_no_times() {
        for on in [
            TriggerOn::Manual,
            TriggerOn::Event("x".into()),
            TriggerOn::Webhook { id: "x".into(), secret: None, dedupe: None },
        ] {
            assert!(parsed(on, None).unwrap().is_none());
        }
    }

    #[test]
    fn what_cannot_fire_is_refused() {
        for (on, timezone, expected) in [
            (TriggerOn::Every { ms: 0 }, None, "`every 0ms` can never fire"),
            (TriggerOn::Every { ms: u64::MAX }, None, "can never fire"),
            (TriggerOn::Every { ms: 999 }, None, "`every 999ms` is too often; the least is 1s"),
            (TriggerOn::Continuous { delay_ms: 0 }, None, "`continuous 0ms` is too often; the least is 1s"),
            (TriggerOn::Continuous { delay_ms: 999 }, None, "`continuous 999ms` is too often; the least is 1s"),
            (
                TriggerOn::Cron("0 0 30 2 *".into()),
                None,
                "`0 0 30 2 *` can never fire: there is no day 30 in the months 2",
            ),
            (TriggerOn::Calendar("daily@24:00".into()), None, "`daily@24:00` is no schedule: write `daily@09:00`"),
            (TriggerOn::Calendar("weekly@7".into()), None, "is no schedule"),
            (TriggerOn::Calendar("monthly@1".into()), None, "is no schedule"),
            (TriggerOn::Cron("@daily".into()), Some("Europe/Pariss"), "there is no time zone `Europe/Pariss`"),
        ] {
            let refusal = parsed(on, timezone).unwrap_err();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn intervals_count_from_when_they_were_set() {
        for (after, expected) in [(0, 1_250), (1_249, 1_250), (1_250, 1_500), (1_251, 1_500), (10_000, 10_250)] {
            assert_eq!(every(1_000, 250, after), Some(expected));
        }
        assert_eq!(every(0, 1, i64::MAX), None);
        assert_eq!(every(i64::MAX, u64::MAX, i64::MIN), None);
    }

    #[test]
    fn the_latest_time_is_found_however_many_there_are() {
        let now = parse_instant(NOW).unwrap();
        for on in [
            TriggerOn::Every { ms: 7_001 },
            TriggerOn::Cron("* * * * *".into()),
            TriggerOn::Cron("30 2 * * *".into()),
            TriggerOn::Calendar("weekly@0".into()),
        ] {
            let schedule = parsed(on, None).unwrap().unwrap();
            for span in [0, 1, 7_000, 7_001, 59_999, 60_000, 86_400_000, 7 * 86_400_000 + 5] {
                let all = schedule.between(now, now + span, usize::MAX - 1).times;
                assert_eq!(schedule.latest(now, now + span), all.last().copied(), "{} {span}", schedule.describe());
            }
        }
    }

    #[test]
    fn what_is_due_is_bounded() {
        let schedule = parsed(TriggerOn::Every { ms: 1_000 }, None).unwrap().unwrap();
        let now = parse_instant(NOW).unwrap();
        let times = |seconds: &[i64]| seconds.iter().map(|s| now + s * 1_000).collect();
        assert_eq!(schedule.between(now, now + 3_000, 5), Due { times: times(&[1, 2, 3]), has_more: false });
        assert_eq!(schedule.between(now, i64::MAX, 2), Due { times: times(&[1, 2]), has_more: true });
        assert_eq!(schedule.between(now, now - 1, 2), Due { times: vec![], has_more: false });
    }
}
