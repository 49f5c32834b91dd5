//! The limit on wrong tries. Owns the count of recent failures by address; knows neither what was tried nor how a
//! refusal looks on the wire.
//!
//! A secret of 256 bits cannot be guessed, limit or not. The limit keeps a stranger from buying work (lookups, signature
//! checks, log lines) with nonsense. That is why success resets nothing: whoever holds one good token could otherwise
//! try without end.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relais_engine::Millis;
use relais_runtime::clock::Clock;

use crate::Error;

/// A person who mistypes stays below it; a program that tries does not.
const FAILURES_MAX: usize = 10;
const WINDOW_MS: Millis = 60_000;
/// As long as the window, so that an address starts afresh when it is let in again.
const REFUSED_MS: Millis = 60_000;
/// All addresses together. Above it one failure is enough to be refused, so that many addresses buy no more work than
/// one try each; who has not failed is served, or strangers could lock everybody out.
const FAILURES_MAX_OF_ALL: usize = 1_000;
/// Some 2 MB at most. Who failed longest ago is forgotten first.
const ADDRESSES_MAX: usize = 10_000;

pub struct Failures {
    clock: Arc<dyn Clock>,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    by_address: HashMap<IpAddr, Tries>,
    /// Of all addresses; at most [`FAILURES_MAX_OF_ALL`].
    of_all: VecDeque<Millis>,
}

#[derive(Default)]
struct Tries {
    /// When the latest failed; at most [`FAILURES_MAX`].
    at: VecDeque<Millis>,
    refused_until: Millis,
}

impl Failures {
    pub fn new(clock: Arc<dyn Clock>) -> Failures {
        Failures { clock, recent: Mutex::default() }
    }

    /// Asked before anything that was presented is looked at.
    pub fn check(&self, address: IpAddr) -> Result<(), Error> {
        let now = self.clock.now();
        let recent = self.recent();
        let Some(tries) = recent.by_address.get(&counted_as(address)) else { return Ok(()) };
        let until = if recent.is_flooded(now) {
            tries.refused_until.max(tries.last() + WINDOW_MS)
        } else {
            tries.refused_until
        };
        let wait = until.saturating_sub(now);
        // A longer wait than any that is ever set means that the clock was put back.
        if wait <= 0 || wait > REFUSED_MS.max(WINDOW_MS) {
            return Ok(());
        }
        Err(Error::TooMany { retry_after_ms: wait.unsigned_abs() })
    }

    /// Counts a failure.
    pub fn note(&self, address: IpAddr) {
        let now = self.clock.now();
        let mut recent = self.recent();
        push(&mut recent.of_all, now, FAILURES_MAX_OF_ALL);
        let key = counted_as(address);
        recent.make_room(key, now);
        let tries = recent.by_address.entry(key).or_default();
        push(&mut tries.at, now, FAILURES_MAX);
        if is_full(&tries.at, now, FAILURES_MAX) {
            tries.refused_until = now + REFUSED_MS;
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn is_flooded(&self, now: Millis) -> bool {
        is_full(&self.of_all, now, FAILURES_MAX_OF_ALL)
    }

    /// A scan of all addresses, but only while there are very many.
    fn make_room(&mut self, key: IpAddr, now: Millis) {
        if self.by_address.len() < ADDRESSES_MAX || self.by_address.contains_key(&key) {
            return;
        }
        self.by_address.retain(|_, tries| tries.last() + WINDOW_MS > now || tries.refused_until > now);
        if self.by_address.len() < ADDRESSES_MAX {
            return;
        }
        let oldest = self.by_address.iter().min_by_key(|(_, tries)| tries.last()).map(|(address, _)| *address);
        oldest.map(|address| self.by_address.remove(&address));
    }
}

impl Tries {
    fn last(&self) -> Millis {
        self.at.back().copied().unwrap_or_default()
    }
}

fn push(times: &mut VecDeque<Millis>, now: Millis, max: usize) {
    if times.len() == max {
        times.pop_front();
    }
    times.push_back(now);
}

/// There were as many as may be kept, all within the window.
fn is_full(times: &VecDeque<Millis>, now: Millis, max: usize) -> bool {
    times.len() == max && times.front().is_some_and(|first| now.saturating_sub(*first) < WINDOW_MS)
}

/// Whoever has one IPv6 address has the 2^64 of its network; they count as one.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::access::jwks::tests::TestClock;

    struct World {
        clock: Arc<TestClock>,
        failures: Failures,
    }

    fn world() -> World {
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        World { failures: Failures::new(clock.clone()), clock }
    }

    impl World {
        fn note(&self, address: &str, count: usize) {
            (0..count).for_each(|_| self.failures.note(address.parse().unwrap()));
        }

        /// How long this address has to wait.
        fn wait(&self, address: &str) -> u64 {
            match self.failures.check(address.parse().unwrap()) {
                Ok(()) => 0,
                Err(Error::TooMany { retry_after_ms }) => retry_after_ms,
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn ten_failures_within_a_minute_are_too_many() {
        // Steps of (failures, then time that passes), and how long the address has to wait after them.
        let table: [(&[(usize, Millis)], u64); 8] = [
            (&[], 0),
            (&[(9, 0)], 0),
            (&[(10, 0)], 60_000),
            (&[(10, 59_999)], 1),
            (&[(10, 60_000)], 0),
            (&[(1, 59_999), (9, 0)], 60_000),
            (&[(1, 60_000), (9, 0)], 0),
            // Who is let in again starts afresh.
            (&[(10, 60_000), (9, 0)], 0),
        ];
        for (steps, expected) in table {
            let world = world();
            for (count, passes) in steps {
                world.note("192.0.2.1", *count);
                world.clock.pass(*passes);
            }
            assert_eq!(world.wait("192.0.2.1"), expected, "{steps:?}");
            assert_eq!(world.wait("192.0.2.2"), 0, "{steps:?}");
        }
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let table = [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ];
        for (failed, asks, refused) in table {
            let world = world();
            world.note(failed, FAILURES_MAX);
            assert_eq!(world.wait(asks) > 0, refused, "{failed} {asks}");
        }
    }

    #[test]
    fn in_a_flood_one_failure_is_enough_but_others_are_served() {
        let world = world();
        (0..FAILURES_MAX_OF_ALL).for_each(|n| world.note(&format!("10.0.{}.{}", n / 250, n % 250), 1));
        assert_eq!((world.wait("10.0.0.0"), world.wait("192.0.2.1")), (60_000, 0));
        world.clock.pass(WINDOW_MS);
        assert_eq!(world.wait("10.0.0.0"), 0);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_are_forgotten_first() {
        let world = world();
        world.note("192.0.2.1", FAILURES_MAX);
        world.clock.pass(1);
        for n in 0..ADDRESSES_MAX as u32 {
            world.failures.note(IpAddr::V4((0x0a00_0000 + n).into()));
        }
        assert_eq!(world.failures.recent().by_address.len(), ADDRESSES_MAX);
        assert_eq!(world.failures.recent().of_all.len(), FAILURES_MAX_OF_ALL);
        assert_eq!(world.wait("192.0.2.1"), 0);
        world.clock.pass(WINDOW_MS);
        world.note("192.0.2.3", 1);
        assert_eq!(world.failures.recent().by_address.len(), 1);
    }

    #[test]
    fn a_clock_put_back_locks_nobody_out() {
        let world = world();
        world.note("192.0.2.1", FAILURES_MAX);
        world.clock.pass(-3_600_000);
        assert_eq!(world.wait("192.0.2.1"), 0);
    }
}
