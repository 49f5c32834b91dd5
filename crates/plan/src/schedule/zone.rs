//! Between wall clocks and instants, each reading of a wall clock having one turn.
//!
//! Where clocks are put forward, the readings they leave out have their turn at the moment of the change. Where clocks
//! are put back, the readings that come twice have their turn the first time; whoever means every hour asks for the
//! second time, too ([`again`]).

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Changes of a zone's rules that leave its offset as it is may lie between; there are never many.
const CHANGES: usize = 8;
/// Changes on the way to a time: two a year, to the farthest time that a pattern for every hour can have.
const CHANGES_AHEAD: usize = 64;
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The first whole second on the wall that has its turn after `at`.
pub(super) fn reading_after(zone: &TimeZone, at: Timestamp) -> Option<DateTime> {
    let reading = zone.to_datetime(at).with().subsec_nanosecond(0).build().ok()?;
    let next = reading.checked_add(SECOND).ok()?;
    match zone.to_ambiguous_timestamp(reading).offset() {
        AmbiguousOffset::Fold { before, after } if zone.to_offset(at) == after => {
            // This hour is here for the second time: all of it had its turn.
            let just_after = at.checked_add(SignedDuration::from_nanos(1)).ok()?;
            let change = zone.preceding(just_after).take(CHANGES).find(|change| change.offset() == after)?;
            Some(next.max(before.to_datetime(change.timestamp())))
        }
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => Some(next),
    }
}

/// When a reading of the wall clock has its turn.
pub(super) fn turn(zone: &TimeZone, reading: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(reading).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(reading).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(reading).ok(),
        AmbiguousOffset::Gap { after, .. } => change_to(zone, after, reading),
    }
}

fn change_to(zone: &TimeZone, after: Offset, left_out: DateTime) -> Option<Timestamp> {
    // With the new offset, a reading that was left out lies before the change.
    let before_change = after.to_timestamp(left_out).ok()?;
    let mut changes = zone.following(before_change).take(CHANGES);
    changes.find(|change| change.offset() == after).map(|change| change.timestamp())
}

/// The first reading that fits among those that come for the second time, after `after` and before `until`.
pub(super) fn again(
    zone: &TimeZone,
    after: Timestamp,
    until: Timestamp,
    next: impl Fn(DateTime) -> Option<DateTime>,
) -> Option<Timestamp> {
    let just_after = after.checked_add(SignedDuration::from_nanos(1)).ok()?;
    let under_way = zone.preceding(just_after).take(CHANGES);
    let to_come = zone.following(after).take_while(|change| change.timestamp() < until).take(CHANGES_AHEAD);
    let changes = under_way.chain(to_come);
    let turns = changes.filter_map(|change| {
        let (begin, offset) = (change.timestamp(), change.offset());
        let before = zone.to_offset(begin.checked_sub(SignedDuration::from_nanos(1)).ok()?);
        let end = begin.checked_add(SignedDuration::from_secs((before.seconds() - offset.seconds()).into())).ok()?;
        let earliest = match after < begin {
            true => offset.to_datetime(begin),
            false => offset.to_datetime(after).with().subsec_nanosecond(0).build().ok()?.checked_add(SECOND).ok()?,
        };
        let turn = offset.to_timestamp(next(earliest)?).ok()?;
        (turn < end).then_some(turn)
    });
    turns.min()
}
