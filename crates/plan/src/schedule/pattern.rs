//! A cron pattern as sets of numbers, and the first reading of a wall clock that is in all of them.
//!
//! Knows no time zone and no clock. A search goes from month to month, so that its length does not depend on how far
//! apart the times are.

use jiff::civil::{Date, DateTime, Time};

/// The calendar repeats after 400 years, weekdays included: what is not found in them is never found.
const CALENDAR_MONTHS: usize = 400 * 12;
const DAYS_OF_WEEK: u64 = 7;
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAY_NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const SECOND: Part = Part { name: "second", least: 0, most: 59, names: &[] };
const MINUTE: Part = Part { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Part = Part { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Part = Part { name: "day of the month", least: 1, most: 31, names: &[] };
const MONTH: Part = Part { name: "month", least: 1, most: 12, names: &MONTHS };
/// Sunday is 0 and 7.
const WEEKDAY: Part = Part { name: "weekday", least: 0, most: 7, names: &DAY_NAMES };

/// Numbers below 64, a bit for each.
type Set = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    seconds: Set,
    minutes: Set,
    hours: Set,
    months: Set,
    days: Days,
}

/// Which days of a month: by their number, by their weekday, or by either where both are restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Days {
    any_number: bool,
    numbers: Set,
    /// `L`
    last: bool,
    /// `LW`: the last Monday to Friday.
    last_working: bool,
    /// `15W`: the Monday to Friday that is nearest to the day and in the same month.
    nearest_working: Set,
    any_weekday: bool,
    weekdays: Set,
    /// `FRI#2`: the first, second, … of a weekday.
    nth_weekdays: [Set; 5],
    /// `FRIL`, `FRI#L`
    last_weekdays: Set,
}

impl Pattern {
    /// Five fields, or six where the first are seconds. A pattern that no day ever has is refused.
    pub(crate) fn parse(fields: &str) -> Result<Self, String> {
        let upper = fields.to_uppercase();
        let words: Vec<&str> = upper.split_whitespace().collect();
        let (seconds, rest) = match words.as_slice() {
            [seconds, rest @ ..] if rest.len() == 5 => (*seconds, rest),
            rest => ("0", rest),
        };
        let &[minutes, hours, days, months, weekdays] = rest else {
            return Err(format!("`{fields}` is no cron pattern: it has five fields, or six with seconds first"));
        };
        let wrong = |why: String| format!("`{fields}` is no cron pattern: {why}");
        let pattern = Self {
            seconds: SECOND.set(seconds).map_err(wrong)?,
            minutes: MINUTE.set(minutes).map_err(wrong)?,
            hours: HOUR.set(hours).map_err(wrong)?,
            months: MONTH.set(months).map_err(wrong)?,
            days: Days::parse(days, weekdays).map_err(wrong)?,
        };
        if pattern.next(Date::constant(2000, 1, 1).to_datetime(Time::midnight())).is_none() {
            return Err(format!("`{fields}` can never fire: there is no day {days} in the months {months}"));
        }
        Ok(pattern)
    }

    /// Each of these weekdays (0 is Sunday) at this time.
    pub(crate) fn weekly(weekdays: impl IntoIterator<Item = u8>, hour: u8, minute: u8) -> Self {
        let weekdays = weekdays.into_iter().fold(0, |set, day| set | bit(day.into()));
        let days = Days { any_number: true, weekdays, ..Days::default() };
        let months = (MONTH.least..=MONTH.most).fold(0, |set, month| set | bit(month));
        Self { seconds: bit(0), minutes: bit(minute.into()), hours: bit(hour.into()), months, days }
    }

    /// Whether it means every hour, so that an hour which clocks show twice has two turns.
    pub(crate) fn is_hourly(&self) -> bool {
        let all = (HOUR.least..=HOUR.most).fold(0, |set, hour| set | bit(hour));
        self.hours == all
    }

    /// The first reading of a clock that fits and is not before `from`.
    pub(crate) fn next(&self, from: DateTime) -> Option<DateTime> {
        let (mut first, mut earliest) = (from.date(), from.time());
        for _ in 0..=CALENDAR_MONTHS {
            for day in numbers(self.days_of(first)) {
                let date = first.with().day(day as i8).build().ok()?;
                let from_time = if date == first { earliest } else { Time::midnight() };
                if let Some(time) = self.time(from_time) {
                    return Some(date.to_datetime(time));
                }
            }
            first = first.last_of_month().tomorrow().ok()?;
            earliest = Time::midnight();
        }
        None
    }

    /// The days that fit in the month of `first`, from that day on.
    fn days_of(&self, first: Date) -> Set {
        if !has(self.months, first.month() as u32) {
            return 0;
        }
        self.days.of_month(first.first_of_month()) & from(first.day() as u32)
    }

    /// The first time of a day that fits and is not before `earliest`.
    fn time(&self, earliest: Time) -> Option<Time> {
        let (hour, minute, second) = (earliest.hour() as u32, earliest.minute() as u32, earliest.second() as u32);
        let in_minute = || {
            let second = least(self.seconds & from(second)).filter(|_| has(self.minutes, minute))?;
            Some((hour, minute, second))
        };
        let in_hour = || Some((hour, least(self.minutes & from(minute + 1))?, least(self.seconds)?));
        let later = || Some((least(self.hours & from(hour + 1))?, least(self.minutes)?, least(self.seconds)?));
        let this_hour = if has(self.hours, hour) { in_minute().or_else(in_hour) } else { None };
        let (hour, minute, second) = this_hour.or_else(later)?;
        Time::new(hour as i8, minute as i8, second as i8, 0).ok()
    }
}

impl Days {
    fn parse(numbers: &str, weekdays: &str) -> Result<Self, String> {
        let is_any = |field: &str| field.split(',').any(|item| matches!(item, "*" | "?"));
        let mut days = Self { any_number: is_any(numbers), any_weekday: is_any(weekdays), ..Self::default() };
        DAY.each(numbers, |item| days.add_number(item))?;
        WEEKDAY.each(weekdays, |item| days.add_weekday(item))?;
        Ok(days)
    }

    fn add_number(&mut self, item: &str) -> Result<(), String> {
        match item {
            "L" => self.last = true,
            "LW" => self.last_working = true,
            _ => match item.strip_suffix('W') {
                Some(day) => self.nearest_working |= bit(DAY.number(day)?),
                None => self.numbers |= DAY.range(item)?,
            },
        }
        Ok(())
    }

    fn add_weekday(&mut self, item: &str) -> Result<(), String> {
        let day = |text: &str| Ok::<Set, String>(bit(WEEKDAY.number(text)? % DAYS_OF_WEEK as u32));
        if let Some(name) = item.strip_suffix("#L").or_else(|| item.strip_suffix('L')) {
            self.last_weekdays |= day(name)?;
        } else if let Some((name, nth)) = item.split_once('#') {
            let nth = number(nth, 1).and_then(|nth| self.nth_weekdays.get_mut((nth as usize).checked_sub(1)?));
            *nth.ok_or("which of the month stands after `#`: 1 to 5, or L for the last")? |= day(name)?;
        } else {
            let set = WEEKDAY.range(item)?;
            self.weekdays |= (set | set >> DAYS_OF_WEEK) & (bit(DAYS_OF_WEEK as u32) - 1);
        }
        Ok(())
    }

    /// The days that fit in the month that begins at `first`.
    fn of_month(&self, first: Date) -> Set {
        let length = first.days_in_month() as u32;
        let all = from(1) & !from(length + 1);
        let set = match (self.any_number, self.any_weekday) {
            (true, true) => all,
            (false, true) => self.by_number(first, length),
            (true, false) => self.by_weekday(first, length),
            (false, false) => self.by_number(first, length) | self.by_weekday(first, length),
        };
        set & all
    }

    fn by_number(&self, first: Date, length: u32) -> Set {
        let nearest = numbers(self.nearest_working).filter(|day| *day <= length);
        let last = if self.last { bit(length) } else { 0 };
        let last_working = self.last_working.then_some(length).map_or(0, |day| bit(working(first, day, length, false)));
        nearest.fold(self.numbers | last | last_working, |set, day| set | bit(working(first, day, length, true)))
    }

    fn by_weekday(&self, first: Date, length: u32) -> Set {
        let fits = |day: &u32| {
            let weekday = weekday(first, *day);
            let nth = self.nth_weekdays.get(((day - 1) / DAYS_OF_WEEK as u32) as usize).copied().unwrap_or_default();
            let is_last = day + DAYS_OF_WEEK as u32 > length;
            has(self.weekdays | nth | if is_last { self.last_weekdays } else { 0 }, weekday)
        };
        (1..=length).filter(fits).fold(0, |set, day| set | bit(day))
    }
}

/// The Monday to Friday for a day of a month: the nearest in the same month, or the nearest before it.
fn working(first: Date, day: u32, length: u32, may_go_on: bool) -> u32 {
    match weekday(first, day) {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length || !may_go_on => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// 0 is Sunday.
fn weekday(first: Date, day: u32) -> u32 {
    (first.weekday().to_sunday_zero_offset() as u32 + day - 1) % DAYS_OF_WEEK as u32
}

/// One field: its name, its bounds, and names for its numbers.
struct Part {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

impl Part {
    fn set(&self, field: &str) -> Result<Set, String> {
        let mut set = 0;
        self.each(field, |item| {
            set |= self.range(item)?;
            Ok(())
        })?;
        Ok(set)
    }

    fn each(&self, field: &str, mut add: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        let wrong = |item: &str, why: String| format!("`{item}` is no {}; {why}", self.name);
        field.split(',').try_for_each(|item| add(item).map_err(|why| wrong(item, why)))
    }

    /// `*`, `5`, `MON`, `1-5`, `*/15`, `10-40/10`
    fn range(&self, item: &str) -> Result<Set, String> {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (self.least, self.most),
            Some((first, last)) => self.bounds(first, last)?,
            None if step.is_some() => {
                return Err(format!(
                    "a step needs where it ends, such as `{range}-{}/{}`",
                    self.most,
                    step.unwrap_or("2")
                ));
            }
            None => (self.number(range)?, self.number(range)?),
        };
        let step = step.map_or(Some(1), |step| number(step, 3).filter(|step| (1..=self.most).contains(step)));
        let step = step.ok_or_else(|| format!("a step is a number from 1 to {}", self.most))?;
        Ok((first..=last).step_by(step as usize).fold(0, |set, number| set | bit(number)))
    }

    fn bounds(&self, first: &str, last: &str) -> Result<(u32, u32), String> {
        let (first, last) = (self.number(first)?, self.number(last)?);
        let ends_on_sunday = self.name == WEEKDAY.name && last == 0 && first > 0;
        let last = if ends_on_sunday { DAYS_OF_WEEK as u32 } else { last };
        if first > last {
            return Err("the range goes backwards".into());
        }
        Ok((first, last))
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| *name == text).map(|place| place as u32 + self.least);
        let number = named.or_else(|| number(text, 2)).filter(|n| (self.least..=self.most).contains(n));
        number.ok_or_else(|| match self.names.first() {
            Some(name) => format!("it takes numbers from {} to {} and names such as {name}", self.least, self.most),
            None => format!("it takes numbers from {} to {}", self.least, self.most),
        })
    }
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = !text.is_empty() && text.len() <= digits && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn bit(number: u32) -> Set {
    1 << number
}

/// All numbers that are not below this one.
fn from(number: u32) -> Set {
    Set::MAX << number
}

fn has(set: Set, number: u32) -> bool {
    set & bit(number) != 0
}

fn least(set: Set) -> Option<u32> {
    (set != 0).then(|| set.trailing_zeros())
}

fn numbers(set: Set) -> impl Iterator<Item = u32> {
    (0..Set::BITS).filter(move |number| has(set, *number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The days of 2026 (the 1st of January is a Thursday) from March on, as many as are expected.
    fn check(day: &str, months: &str, weekday: &str, expected: &[&str]) {
        let pattern = Pattern::parse(&format!("0 0 {day} {months} {weekday}")).unwrap();
        let mut from: DateTime = "2026-03-01T00:00:00".parse().unwrap();
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let at = pattern.next(from).unwrap();
            found.push(at.date().to_string());
            from = at.date().tomorrow().unwrap().to_datetime(Time::midnight());
        }
        assert_eq!(found, expected, "{day} {months} {weekday}");
    }

    #[test]
    fn days_are_found() {
        check("L", "*", "*", &["2026-03-31", "2026-04-30", "2026-05-31"]);
        check("L", "2", "*", &["2027-02-28", "2028-02-29"]);
        check("LW", "*", "?", &["2026-03-31", "2026-04-30", "2026-05-29"]);
        // A Sunday goes on to Monday, a Saturday back to Friday, and neither leaves its month.
        check("15W", "3,8", "*", &["2026-03-16", "2026-08-14"]);
        check("1W", "8,11", "*", &["2026-08-03", "2026-11-02"]);
        check("31W", "5,10", "*", &["2026-05-29", "2026-10-30"]);
        check("*", "*", "FRI#2", &["2026-03-13", "2026-04-10"]);
        check("*", "*", "1#5", &["2026-03-30", "2026-06-29"]);
        check("*", "*", "FRIL", &["2026-03-27", "2026-04-24"]);
        check("*", "*", "5#L", &["2026-03-27", "2026-04-24"]);
        check("*", "*", "0", &["2026-03-01", "2026-03-08"]);
        check("*", "*", "7", &["2026-03-01", "2026-03-08"]);
        check("*", "*", "FRI-SUN", &["2026-03-01", "2026-03-06", "2026-03-07", "2026-03-08"]);
        check("?", "MAR", "SAT-7", &["2026-03-01", "2026-03-07", "2026-03-08"]);
        check("29", "2", "*", &["2028-02-29", "2032-02-29"]);
    }

    #[test]
    fn either_day_is_enough_where_both_are_restricted() {
        check("13", "*", "FRI", &["2026-03-06", "2026-03-13", "2026-03-20", "2026-03-27", "2026-04-03", "2026-04-10"]);
        check("31", "6", "SUN", &["2026-06-07", "2026-06-14"]);
        check("*/15", "*", "MON", &["2026-03-01", "2026-03-02", "2026-03-09", "2026-03-16"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (fields, expected) in [
            ("* * * *", "it has five fields, or six with seconds first"),
            ("60 * * * *", "`60` is no minute; it takes numbers from 0 to 59"),
            ("5/15 * * * *", "`5/15` is no minute; a step needs where it ends, such as `5-59/15`"),
            ("*/0 * * * *", "a step is a number from 1 to 59"),
            ("0 9 * * WEDX", "`WEDX` is no weekday; it takes numbers from 0 to 7 and names such as SUN"),
            ("0 9 * * FRI#6", "`FRI#6` is no weekday; which of the month stands after `#`"),
            ("0 9 * * FRI#0", "which of the month"),
            ("0 9 * * L", "`L` is no weekday"),
            ("0 9 * * MON-FRI#2", "is no weekday"),
            ("0 9 32W * *", "`32W` is no day of the month"),
            ("0 9 L-2 * *", "`L-2` is no day of the month"),
            ("0 9 5-1 * *", "the range goes backwards"),
            ("0 9 , * *", "`` is no day of the month"),
            ("0 9 30,31 FEB *", "can never fire: there is no day 30,31 in the months FEB"),
        ] {
            let refusal = Pattern::parse(fields).unwrap_err();
            assert!(refusal.contains(expected), "{fields}: {refusal}");
        }
    }
}
