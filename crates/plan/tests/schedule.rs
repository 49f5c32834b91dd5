//! When triggers fire, from outside: against the table that croniter made, over years with clocks that change, and by
//! laws that hold for every schedule.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use relais_plan::schedule::{self, Schedule};
use relais_plan::{Trigger, TriggerOn};

const TABLE: &str = include_str!("../../../tests/cases/schedule/croniter.txt");

fn try_schedule(on: TriggerOn, zone: &str, set_ms: i64) -> Result<Schedule, String> {
    let trigger = Trigger { timezone: Some(zone.into()), ..Trigger::new(on) };
    schedule::parse(&trigger, "UTC", set_ms).map(Option::unwrap)
}

fn cron(pattern: &str, zone: &str) -> Schedule {
    try_schedule(TriggerOn::Cron(pattern.into()), zone, 0).unwrap()
}

fn calendar(text: &str, zone: &str) -> Schedule {
    try_schedule(TriggerOn::Calendar(text.into()), zone, 0).unwrap()
}

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn seconds(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

/// `2026-03-29T01:00:00Z +2580 +3600`, or `never`
fn times(text: &str) -> Vec<i64> {
    if text == "never" {
        return Vec::new();
    }
    let mut words = text.split_whitespace();
    let first = ms(words.next().unwrap());
    let steps = words.map(|step| step.trim_start_matches('+').parse::<i64>().unwrap() * 1_000);
    let later = steps.scan(first, |at, step| {
        *at += step;
        Some(*at)
    });
    std::iter::once(first).chain(later).collect()
}

#[test]
fn croniter_has_the_same_times() {
    let (mut rows, mut apart, mut never) = (0, 0, 0);
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[zone, pattern, after, expected, ..] = cells.as_slice() else { panic!("{line}") };
        if expected == "never" {
            let refusal = try_schedule(TriggerOn::Cron(pattern.into()), zone, 0).unwrap_err();
            assert!(refusal.contains("can never fire"), "{line}: {refusal}");
            never += 1;
            continue;
        }
        let found = cron(pattern, zone).next_times(ms(after), 5);
        let shown: Vec<Timestamp> = found.iter().copied().map(seconds).collect();
        assert_eq!(found, times(expected), "{line}\n{shown:?}");
        if let Some(croniter) = cells.get(4) {
            assert_ne!(found, times(croniter.trim_start_matches("croniter: ")), "this row is not apart: {line}");
            apart += 1;
        }
        rows += 1;
    }
    assert!(rows > 1_000 && (1..rows / 20).contains(&apart) && never > 0, "{rows} {apart} {never}");
}

/// Each quarter of an hour of a year on a wall clock, with its turns, the slow way: what is left out moves on to the next
/// reading that there is, what comes twice counts the first time, or both.
fn quarters(zone: &TimeZone, year: i16) -> Vec<(DateTime, i64, i64)> {
    let there_is = |reading: &DateTime| zone.to_ambiguous_zoned(*reading).compatible().unwrap().datetime() == *reading;
    let turn = |reading: DateTime| {
        let there = zone.to_ambiguous_zoned(reading.series(1.minute()).find(there_is).unwrap());
        let (first, second) = (there.clone().earlier().unwrap(), there.later().unwrap());
        (first.timestamp().as_millisecond(), second.timestamp().as_millisecond())
    };
    let readings = date(year, 1, 1).at(0, 0, 0, 0).series(15.minutes());
    readings
        .take_while(|reading| reading.year() == year)
        .map(|reading| {
            let (first, second) = turn(reading);
            (reading, first, second)
        })
        .collect()
}

#[test]
fn a_year_in_every_zone() {
    type Fits = fn(DateTime) -> bool;
    let kinds: [(&str, Fits); 5] = [
        ("daily@02:30", |at| (at.hour(), at.minute()) == (2, 30)),
        ("0 * * * *", |at| at.minute() == 0),
        ("30 * * * *", |at| at.minute() == 30),
        ("*/15 * * * *", |_| true),
        ("weekly@0,6", |at| {
            (at.hour(), at.minute()) == (0, 0) && matches!(at.weekday().to_sunday_zero_offset(), 0 | 6)
        }),
    ];
    let zones = [
        "UTC",
        "Europe/Paris",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Africa/Cairo",
        "Asia/Tokyo",
        "Asia/Kathmandu",
    ];
    for zone in zones {
        let year = quarters(&TimeZone::get(zone).unwrap(), 2026);
        let (begin, end) = (year[0].1, year[year.len() - 1].1);
        for (text, fits) in kinds {
            let schedule = if text.contains('@') { calendar(text, zone) } else { cron(text, zone) };
            let found = schedule.between(begin - 1, end, year.len());
            let turns = |(_, first, second): &(DateTime, i64, i64)| match text.contains("* * *") {
                true => vec![*first, *second],
                false => vec![*first],
            };
            let mut expected: Vec<i64> = year.iter().filter(|(at, ..)| fits(*at)).flat_map(turns).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(found.times, expected, "{text} {zone}");
            assert!(!found.has_more);
        }
    }
}

#[test]
fn a_day_that_a_country_left_out() {
    // Samoa went from the 29th to the 31st of December 2011.
    let found = calendar("daily@09:00", "Pacific/Apia").next_times(ms("2011-12-29T19:30:00Z"), 3);
    let expected = ["2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"];
    assert_eq!(found, expected.map(ms));
}

#[test]
fn the_days_on_which_clocks_change() {
    for (schedule, after, expected) in [
        // Left out: at the change, and once for all that was left out.
        (calendar("daily@02:30", "Europe/Paris"), "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z +84600 +86400"),
        (cron("*/15 2 * * *", "Europe/Paris"), "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z +82800 +900"),
        (calendar("daily@02:30", "America/New_York"), "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z +84600"),
        (calendar("daily@02:15", "Australia/Lord_Howe"), "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z +85500"),
        (calendar("daily@00:00", "Africa/Cairo"), "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z +82800"),
        // Twice: the first time only.
        (calendar("daily@02:30", "Europe/Paris"), "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z +90000 +86400"),
        (calendar("daily@02:30", "Europe/Paris"), "2026-10-25T01:15:00Z", "2026-10-26T01:30:00Z"),
        (cron("*/20 2 * * *", "Europe/Paris"), "2026-10-25T00:30:00Z", "2026-10-25T00:40:00Z +87600"),
        (cron("30 1 * * *", "America/New_York"), "2026-11-01T00:00:00Z", "2026-11-01T05:30:00Z +90000"),
        (calendar("daily@01:45", "Australia/Lord_Howe"), "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z +88200"),
        // Every hour means both.
        (cron("0 * * * *", "Europe/Paris"), "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z +3600 +3600 +3600"),
        (cron("* * * * *", "Europe/Paris"), "2026-10-25T00:59:00Z", "2026-10-25T01:00:00Z +60"),
        (cron("*/15 * * * *", "Europe/Paris"), "2026-10-25T01:40:00Z", "2026-10-25T01:45:00Z +900 +900"),
        (cron("*/5 * * * * *", "Europe/Paris"), "2026-10-25T01:00:00Z", "2026-10-25T01:00:05Z +5"),
        (cron("30 * * * SUN", "America/New_York"), "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z +3600"),
        (cron("*/15 * * * *", "Australia/Lord_Howe"), "2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z +900 +900"),
        // A steady rhythm does not look at clocks on walls.
        (
            try_schedule(TriggerOn::Every { ms: 3_600_000 }, "Europe/Paris", ms("2026-10-24T22:30:00Z")).unwrap(),
            "2026-10-24T22:30:00Z",
            "2026-10-24T23:30:00Z +3600 +3600 +3600",
        ),
    ] {
        let expected = times(expected);
        let found = schedule.next_times(ms(after), expected.len());
        assert_eq!(
            found,
            expected,
            "{} after {after}: {:?}",
            schedule.describe(),
            found.iter().map(|t| schedule.show(*t)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn rare_and_impossible_times_take_no_time() {
    let begin = Instant::now();
    for pattern in ["0 0 29 2 *", "0 12 * 2 SAT#5", "59 59 23 31 12 *", "0 0 29 2 MON#5", "* * * * * *", "0 0 LW 2 *"] {
        let schedule = cron(pattern, "America/New_York");
        assert!(schedule.next(ms("2096-03-01T00:00:00Z")).is_some());
        assert_eq!(schedule.next(i64::MAX), None);
        assert!(schedule.next(i64::MIN).is_some());
        let last_of_calendar = Timestamp::MAX.as_millisecond();
        assert_eq!(schedule.next(last_of_calendar), None, "{pattern}");
    }
    for pattern in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "* * * 31 JUN *"] {
        let refusal = try_schedule(TriggerOn::Cron(pattern.into()), "UTC", 0).unwrap_err();
        assert!(refusal.contains("can never fire"), "{refusal}");
    }
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

fn field(least: u32, most: u32) -> impl Strategy<Value = String> {
    let number = least..=most;
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => number.clone().prop_map(|n| n.to_string()),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (1..=most).prop_map(|n| format!("*/{n}")),
        1 => (number.clone(), number).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn day_of_month() -> impl Strategy<Value = String> {
    prop_oneof![4 => field(1, 31), 1 => Just("L".to_owned()), 1 => Just("LW".to_owned()), 1 => (1..=31).prop_map(|n| format!("{n}W"))]
}

fn weekday() -> impl Strategy<Value = String> {
    prop_oneof![4 => field(0, 7), 1 => (0..=7, 1..=5).prop_map(|(d, n)| format!("{d}#{n}")), 1 => (0..=7).prop_map(|d| format!("{d}L"))]
}

fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Paris",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Africa/Cairo",
        "Pacific/Apia",
        "Asia/Kolkata",
    ])
}

fn trigger() -> impl Strategy<Value = TriggerOn> {
    let pattern = (prop::option::of(field(0, 59)), field(0, 59), field(0, 23), day_of_month(), field(1, 12), weekday());
    prop_oneof![
        6 => pattern.prop_map(|(second, minute, hour, day, month, weekday)| {
            let seconds = second.map(|second| format!("{second} ")).unwrap_or_default();
            TriggerOn::Cron(format!("{seconds}{minute} {hour} {day} {month} {weekday}"))
        }),
        1 => (0..24, 0..60).prop_map(|(hour, minute)| TriggerOn::Calendar(format!("daily@{hour:02}:{minute:02}"))),
        1 => (1_u64..100_000_000).prop_map(|ms| TriggerOn::Every { ms }),
    ]
}

/// Anywhere in some years, and often close to a change of clocks.
fn moment() -> impl Strategy<Value = i64> {
    let changes = [
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-11-01T06:00:00Z",
        "2026-04-04T15:00:00Z",
        "2011-12-30T10:00:00Z",
    ];
    let near = (prop::sample::select(changes.map(ms).to_vec()), -9_000_000..9_000_000_i64).prop_map(|(at, by)| at + by);
    prop_oneof![near, ms("2010-01-01T00:00:00Z")..ms("2040-01-01T00:00:00Z")]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_comes_later_and_is_the_same_from_everywhere_before(
        on in trigger(), zone in zone(), after in moment(), part in 0.0..1.0_f64,
    ) {
        let Ok(schedule) = try_schedule(on, zone, ms("2010-01-01T00:00:00Z")) else { return Ok(()) };
        let next = schedule.next(after).unwrap();
        prop_assert!(next > after);
        let between = after + ((next - after) as f64 * part) as i64;
        prop_assert_eq!(schedule.next(between.min(next - 1)), Some(next));
        prop_assert_eq!(schedule.next(next - 1), Some(next));
        prop_assert!(schedule.next(next).unwrap() > next);
    }

    #[test]
    fn windows_side_by_side_have_every_time_once(
        on in trigger(), zone in zone(), from in moment(), cuts in prop::collection::vec(0..200_000_000_i64, 1..6),
    ) {
        let Ok(schedule) = try_schedule(on, zone, ms("2010-01-01T00:00:00Z")) else { return Ok(()) };
        const MANY: usize = 200;
        let whole = schedule.next_times(from, MANY);
        let (mut found, mut begin) = (Vec::new(), from);
        for cut in cuts {
            let due = schedule.between(begin, begin + cut, MANY);
            if due.has_more {
                return Ok(());
            }
            found.extend(due.times);
            begin += cut;
        }
        let known = found.len().min(MANY);
        prop_assert_eq!(&found[..known], &whole[..known]);
        prop_assert!(found.len() >= MANY || whole[found.len()..].first().is_none_or(|next| *next > begin));
    }

    #[test]
    fn any_text_is_a_schedule_or_refused(text in "[-0-9*/,#LWA-Z@: ]{0,40}", zone in zone(), after in any::<i64>()) {
        for on in [TriggerOn::Cron(text.clone()), TriggerOn::Calendar(text.clone()), TriggerOn::At(text.clone())] {
            match try_schedule(on, zone, 0) {
                Ok(schedule) => prop_assert!(schedule.next(after).is_none_or(|next| next > after)),
                Err(refusal) => prop_assert!(!refusal.is_empty()),
            }
        }
    }
}
