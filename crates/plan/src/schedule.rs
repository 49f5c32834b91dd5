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

/// The time zone where neither a trigger nor a server names one.
pub const DEFAULT_TIMEZONE: &str = "UTC";

/// What calendars may look like.
pub const CALENDAR_FORMS: &str = "`daily@09:00`, `weekly@1,3,5` or `weekly@1,3,5@09:00` (0 is Sunday)";

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
        TriggerOn::Every { ms } => {
            (format!("every {}", format_duration(*ms)), false, Rule::Every { anchor_ms: set_ms, ms: *ms })
        }
        TriggerOn::Calendar(text) => (text.clone(), true, Rule::Clock(Box::new(calendar(text)?))),
        TriggerOn::Continuous { delay_ms } => {
            (format!("continuous, {} after each run", format_duration(*delay_ms)), false, Rule::AfterRun)
        }
    };
    let schedule = Schedule { said, is_local, zone, rule };
    schedule.checked(set_ms).map(Some)
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
                zone::turn(&self.zone, reading).map(Timestamp::as_millisecond)
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
        let mut times = self.next_times(from_ms, at_most.saturating_add(1));
        times.retain(|time| *time <= to_ms);
        let has_more = times.len() > at_most;
        times.truncate(at_most);
        Due { times, has_more }
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
