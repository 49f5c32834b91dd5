//! Times and schedules in words: "tomorrow 9am", "every weekday at 8:30". What was understood, or which forms can be.
//!
//! Only the words are read here. There is no clock and no time zone: a scheduler that has both makes instants of it.
//! Nothing is guessed: "at 9" could be morning or evening, so it is refused.

use crate::schedule::Pattern;
use crate::{TriggerOn, time};

/// One time to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since 1970.
    Instant(i64),
    /// So many milliseconds from now.
    In { ms: u64 },
    /// A time of day, on a day that is told from today.
    Clock { day: Day, clock: Clock },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Day {
    Today,
    Tomorrow,
    /// 0 is Sunday. `after_today`: "next friday" on a Friday is a week away; "friday" may be today, if it is still to
    /// come.
    Weekday {
        weekday: u8,
        after_today: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    pub hour: u8,
    pub minute: u8,
}

/// What a time may look like.
pub const AT_FORMS: &str = "times that are understood: `2027-01-01T09:00:00+01:00` (RFC 3339), `in 20 minutes`, \
                            `in 1h30m`, `today at 18:00`, `tomorrow 9am`, `friday at noon`, `next friday at 17:30`";

/// What a recurring time may look like.
pub const CRON_FORMS: &str = "schedules that are understood: five or six cron fields (`0 9 * * MON-FRI`), `@daily`, \
                              `daily at 9am`, `every weekday at 8:30`, `every monday and thursday at 10:00`, \
                              `every 15 minutes`, `every 7 hours`, `hourly`, `monthly on the 1st at 9am`";

const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/// Longer texts are no schedules.
const MAX_BYTES: usize = 200;
/// The first of a month is in every month; the 31st is not, and cron would leave months out without a word.
const LAST_COMMON_DAY: u32 = 28;

/// A time as a person says it.
pub fn at(text: &str) -> Result<At, String> {
    let refused = || Err(format!("`{}` is no time that can be understood", shown(text)));
    if text.len() > MAX_BYTES {
        return refused();
    }
    if let Some(instant) = time::parse_instant(text) {
        return Ok(At::Instant(instant));
    }
    if let Some(wrong) = time::too_far(text) {
        return Err(wrong);
    }
    let text_in_words = text.trim().to_lowercase();
    if let Some(duration) = text_in_words.strip_prefix("in ") {
        let duration = duration.replace(" and ", " ").replace(", ", " ");
        let is_bare = duration.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let ms = time::parse_duration(&duration).filter(|ms| *ms > 0 && !is_bare);
        return ms.map_or_else(refused, |ms| Ok(At::In { ms }));
    }
    let words: Vec<&str> = text_in_words.split_whitespace().collect();
    day_first(&words).or_else(|| clock_first(&words)).map_or_else(refused, Ok)
}

/// "tomorrow at 9am"
fn day_first(words: &[&str]) -> Option<At> {
    let (day, rest) = day(words)?;
    let rest = rest.strip_prefix(&["at"]).unwrap_or(rest);
    Some(At::Clock { day, clock: clock(rest)? })
}

/// "9am tomorrow", "at 9am on friday"
fn clock_first(words: &[&str]) -> Option<At> {
    let words = words.strip_prefix(&["at"]).unwrap_or(words);
    (1..words.len()).find_map(|split| {
        let (head, tail) = words.split_at(split);
        let clock = clock(head)?;
        let (day, rest) = day(tail)?;
        rest.is_empty().then_some(At::Clock { day, clock })
    })
}

fn day<'w, 't>(words: &'w [&'t str]) -> Option<(Day, &'w [&'t str])> {
    let words = words.strip_prefix(&["on"]).unwrap_or(words);
    match words {
        ["today", rest @ ..] => Some((Day::Today, rest)),
        ["tomorrow", rest @ ..] => Some((Day::Tomorrow, rest)),
        ["next", name, rest @ ..] => Some((Day::Weekday { weekday: weekday(name)?, after_today: true }, rest)),
        [name, rest @ ..] => Some((Day::Weekday { weekday: weekday(name)?, after_today: false }, rest)),
        [] => None,
    }
}

/// A weekday by its name or the first three letters of it.
fn weekday(word: &str) -> Option<u8> {
    let word = word.trim_end_matches(',');
    let found = WEEKDAYS.iter().position(|name| *name == word || (word.len() == 3 && name.starts_with(word)));
    found.map(|number| number as u8)
}

/// `9am`, `9:30 pm`, `17:30`, `noon`, `midnight`; a bare `9` is not enough.
fn clock(words: &[&str]) -> Option<Clock> {
    let word = words.concat();
    match word.as_str() {
        "noon" => return Some(Clock { hour: 12, minute: 0 }),
        "midnight" => return Some(Clock { hour: 0, minute: 0 }),
        _ => {}
    }
    let half = [("am", 0), ("pm", 12)].iter().find_map(|(end, add)| Some((word.strip_suffix(end)?, *add)));
    let (digits, half) = half.map_or((word.as_str(), None), |(digits, add)| (digits, Some(add)));
    let (hour, minute) = match (digits.split_once(':'), half) {
        (Some((hour, minute)), _) => (number(hour, 2)?, number(minute, 2).filter(|_| minute.len() == 2)?),
        (None, Some(_)) => (number(digits, 2)?, 0),
        (None, None) => return None,
    };
    let hour = match half {
        Some(add) if (1..=12).contains(&hour) => hour % 12 + add,
        Some(_) => return None,
        None => hour,
    };
    (hour < 24 && minute < 60).then_some(Clock { hour: hour as u8, minute: minute as u8 })
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = !text.is_empty() && text.len() <= digits && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// A recurring time: cron fields, or an interval that no cron fields can say (`every 45 minutes`), told from when it is
/// set.
pub fn recurring(text: &str) -> Result<TriggerOn, String> {
    let interval = |wrong| interval(text).map(|ms| TriggerOn::Every { ms }).ok_or(wrong);
    cron(text).map(TriggerOn::Cron).or_else(interval)
}

fn interval(text: &str) -> Option<u64> {
    let words = Some(text).filter(|text| text.len() <= MAX_BYTES)?.trim().to_lowercase();
    let duration = words.strip_prefix("every ")?.replace(" and ", " ");
    let is_bare = duration.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
    time::parse_duration(&duration).filter(|ms| *ms > 0 && !is_bare)
}

/// A recurring time as cron fields: five, or six where the first are seconds.
pub fn cron(text: &str) -> Result<String, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("`{}` is no schedule that can be understood", shown(text)));
    }
    let words = text.trim().to_lowercase();
    if let Some(nickname) = words.strip_prefix('@') {
        return by_nickname(nickname).ok_or_else(|| {
            format!("there is no schedule `{}`; there are @hourly, @daily, @weekly, @monthly and @yearly", text.trim())
        });
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    if let Some(fields) = in_words(&words) {
        return Ok(fields);
    }
    match words.len() {
        5 | 6 if looks_like_fields(&words) => fields(&words.join(" ").to_uppercase()),
        _ => Err(format!("`{}` is no schedule that can be understood", shown(text))),
    }
}

fn by_nickname(word: &str) -> Option<String> {
    Some(
        match word {
            "hourly" => "0 * * * *",
            "daily" | "midnight" => "0 0 * * *",
            "weekly" => "0 0 * * 0",
            "monthly" => "0 0 1 * *",
            "yearly" | "annually" => "0 0 1 1 *",
            _ => return None,
        }
        .to_owned(),
    )
}

fn in_words(words: &[&str]) -> Option<String> {
    match words {
        [nickname] if by_nickname(nickname).is_some() && *nickname != "midnight" => by_nickname(nickname),
        ["every", "minute"] => Some("* * * * *".into()),
        ["every", "hour"] => by_nickname("hourly"),
        ["every", count, unit] if number(count, 3).is_some() => stepped(number(count, 3)?, unit),
        ["monthly", rest @ ..] | ["every", "month", rest @ ..] => monthly(rest),
        _ => by_days(words),
    }
}

/// `every 15 minutes`, where the hour can be cut into such pieces; cron cannot say `every 45 minutes`.
fn stepped(count: u32, unit: &str) -> Option<String> {
    let whole = |of: u32| (count > 0 && of.is_multiple_of(count)).then_some(count);
    match unit {
        "second" | "seconds" => whole(60).map(|count| format!("*/{count} * * * * *")),
        "minute" | "minutes" => whole(60).map(|count| format!("*/{count} * * * *")),
        "hour" | "hours" => whole(24).map(|count| format!("0 */{count} * * *")),
        _ => None,
    }
}

/// `on the 1st at 9am`
fn monthly(words: &[&str]) -> Option<String> {
    let ["on", "the", day, rest @ ..] = words else { return None };
    let digits = day.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let day = number(digits, 2).filter(|day| (1..=LAST_COMMON_DAY).contains(day))?;
    let Clock { hour, minute } = clock_or_midnight(rest)?;
    Some(format!("{minute} {hour} {day} * *"))
}

/// `daily at 9am`, `every monday and thursday at 10:00`, `weekdays at 8:30`, `weekly on friday at noon`
fn by_days(words: &[&str]) -> Option<String> {
    let words = words.strip_prefix(&["every"]).unwrap_or(words);
    let words = words.strip_prefix(&["weekly", "on"]).unwrap_or(words);
    let until = words.iter().position(|word| *word == "at").unwrap_or(words.len());
    let (days, time) = words.split_at(until);
    let days = match days {
        ["day" | "daily"] => "*".to_owned(),
        ["weekday" | "weekdays"] => "MON-FRI".to_owned(),
        ["weekend" | "weekends"] => "SAT,SUN".to_owned(),
        names => weekdays(names)?,
    };
    let Clock { hour, minute } = clock_or_midnight(time)?;
    Some(format!("{minute} {hour} * * {days}"))
}

fn weekdays(words: &[&str]) -> Option<String> {
    let names = words.iter().filter(|word| **word != "and").flat_map(|word| word.split(','));
    let names = names.filter(|name| !name.is_empty());
    let days: Option<Vec<String>> = names
        .map(|name| {
            let number = weekday(name).or_else(|| weekday(name.strip_suffix('s')?))?;
            Some(WEEKDAYS[number as usize][..3].to_uppercase())
        })
        .collect();
    days.filter(|days| !days.is_empty()).map(|days| days.join(","))
}

/// Without a time it is the beginning of the day.
fn clock_or_midnight(words: &[&str]) -> Option<Clock> {
    match words {
        [] => Some(Clock { hour: 0, minute: 0 }),
        ["at", rest @ ..] => clock(rest),
        _ => None,
    }
}

fn looks_like_fields(words: &[&str]) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '?' | '/' | ',' | '-' | '#');
    words.iter().all(|word| word.chars().all(letter) && !word.starts_with(['/', ',']))
        && words.iter().any(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '*'))
}

fn fields(fields: &str) -> Result<String, String> {
    Pattern::parse(fields).map(|_| fields.to_owned())
}

fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.trim().to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn clock(day: Day, hour: u8, minute: u8) -> Option<At> {
        Some(At::Clock { day, clock: Clock { hour, minute } })
    }

    fn on(weekday: u8, after_today: bool) -> Day {
        Day::Weekday { weekday, after_today }
    }

    #[test]
    fn times_are_understood() {
        for (text, expected) in [
            ("2027-01-01T09:00:00+01:00", Some(At::Instant(1_798_790_400_000))),
            ("in 20 minutes", Some(At::In { ms: 1_200_000 })),
            ("In 1 hour and 30 minutes", Some(At::In { ms: 5_400_000 })),
            ("in 1h30m", Some(At::In { ms: 5_400_000 })),
            ("in 2 days", Some(At::In { ms: 172_800_000 })),
            ("tomorrow 9am", clock(Day::Tomorrow, 9, 0)),
            ("Tomorrow at 9 AM", clock(Day::Tomorrow, 9, 0)),
            ("tomorrow at 12am", clock(Day::Tomorrow, 0, 0)),
            ("tomorrow at 12:05pm", clock(Day::Tomorrow, 12, 5)),
            ("9:15pm tomorrow", clock(Day::Tomorrow, 21, 15)),
            ("today at 18:00", clock(Day::Today, 18, 0)),
            ("next friday at 17:30", clock(on(5, true), 17, 30)),
            ("friday at noon", clock(on(5, false), 12, 0)),
            ("at 9am on mon", clock(on(1, false), 9, 0)),
        ] {
            assert_eq!(at(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn nothing_is_guessed_about_times() {
        for text in [
            "",
            "soon",
            "tomorrow",
            "9am",
            "tomorrow at 9",
            "tomorrow at 13pm",
            "tomorrow at 0am",
            "today at 24:00",
            "today at 9:5",
            "next week",
            "in a while",
            "in 20",
            "in 0 minutes",
            "2027-01-01 09:00",
            "fridayish at noon",
            "tomorrow at 9am or so",
            "é",
            &"tomorrow ".repeat(100),
        ] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn schedules_are_understood() {
        for (text, expected) in [
            ("0 9 * * MON-FRI", "0 9 * * MON-FRI"),
            ("0  9 * * mon-fri", "0 9 * * MON-FRI"),
            ("*/15 0-6,22 1 jan,jul ?", "*/15 0-6,22 1 JAN,JUL ?"),
            ("30 0 9 * * 1-5", "30 0 9 * * 1-5"),
            ("0 0 L * *", "0 0 L * *"),
            ("0 0 * * FRI#2", "0 0 * * FRI#2"),
            ("0 9 * * FRI-SUN", "0 9 * * FRI-SUN"),
            ("@daily", "0 0 * * *"),
            ("@Yearly", "0 0 1 1 *"),
            ("daily", "0 0 * * *"),
            ("daily at 9am", "0 9 * * *"),
            ("every day at 17:30", "30 17 * * *"),
            ("every weekday at 8:30", "30 8 * * MON-FRI"),
            ("weekdays at 8:30", "30 8 * * MON-FRI"),
            ("weekends at noon", "0 12 * * SAT,SUN"),
            ("every monday at 10:00", "0 10 * * MON"),
            ("Mondays at 9 am", "0 9 * * MON"),
            ("every monday, wednesday and fri at midnight", "0 0 * * MON,WED,FRI"),
            ("weekly on friday at noon", "0 12 * * FRI"),
            ("every tuesday", "0 0 * * TUE"),
            ("every 15 minutes", "*/15 * * * *"),
            ("every 30 seconds", "*/30 * * * * *"),
            ("every 2 hours", "0 */2 * * *"),
            ("every minute", "* * * * *"),
            ("hourly", "0 * * * *"),
            ("every hour", "0 * * * *"),
            ("monthly", "0 0 1 * *"),
            ("monthly on the 1st at 9am", "0 9 1 * *"),
            ("every month on the 15th", "0 0 15 * *"),
        ] {
            assert_eq!(cron(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_cron_cannot_say_is_an_interval() {
        let cron = |fields: &str| Some(TriggerOn::Cron(fields.to_owned()));
        let every = |ms: u64| Some(TriggerOn::Every { ms });
        for (text, expected) in [
            ("every 15 minutes", cron("*/15 * * * *")),
            ("Every 7 minutes", every(420_000)),
            ("every 45m", every(2_700_000)),
            ("every 5 hours", every(18_000_000)),
            ("every 1 hour and 30 minutes", every(5_400_000)),
            ("every 2 days", every(172_800_000)),
            ("every 45", None),
            ("every 0 minutes", None),
            ("every minutes", None),
            ("every 2 months", None),
            ("every now and then", None),
            ("7 minutes", None),
        ] {
            assert_eq!(recurring(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn nothing_is_guessed_about_schedules() {
        for text in [
            "",
            "often",
            "every now and then",
            "every 45 minutes",
            "every 0 minutes",
            "every 5 hours",
            "every 2 days",
            "daily at 9",
            "monthly on the 31st",
            "@fortnightly",
            "0 9 * *",
            "0 9 * * * * *",
            "60 9 * * *",
            "0 24 * * *",
            "0 9 0 * *",
            "0 9 * 13 *",
            "0 9 * * 8",
            "0 9 * * FOO",
            "0 9 * * FRI-MON",
            "*/0 * * * *",
            "*/99 * * * *",
            "0 9 5-1 * *",
            "a b c d e",
            &"1,".repeat(200),
        ] {
            assert!(cron(text).is_err(), "{text}: {:?}", cron(text));
        }
    }
}
