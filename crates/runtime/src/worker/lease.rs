//! What this process knows about its own lease: how long it holds, whether something may be ours that we do not know of,
//! and whether we may judge the leases of others. Asks nobody.

use std::sync::Mutex;
use std::time::Duration;

use relais_engine::Millis;
use relais_store::Error;
use tokio::time::Instant;

use super::{LEASE_MS, locked};

const LEASE: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());
/// Nothing is begun under a lease that ends within this time: clocks differ, and what is begun takes its time.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Lease {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When that was asked for which last prolonged the lease; the lease holds from then on at least.
    prolonged: Option<Instant>,
    /// When the database was last out of reach, or this process found that it had stood still.
    cut_off: Option<Instant>,
    /// When all that is ours was last looked at.
    looked: Option<Instant>,
    /// The last beat on the wall clock, which goes on while a machine sleeps.
    beat: Option<Millis>,
}

impl Lease {
    pub fn prolonged(&self, at: Instant) {
        let mut known = locked(&self.known);
        known.prolonged = known.prolonged.max(Some(at));
    }

    /// Whether nobody can have taken what is ours.
    pub fn is_fresh(&self) -> bool {
        locked(&self.known).prolonged.is_some_and(|at| at.elapsed() + MARGIN < LEASE)
    }

    /// What the store answered, on its way to whoever asked.
    pub fn noted<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if matches!(answer, Err(Error::Busy(_) | Error::OutOfReach(_))) {
            locked(&self.known).cut_off = Some(Instant::now());
        }
        answer
    }

    /// Time goes on. A lease without a beat means that this process stood still, and perhaps all others with it.
    pub fn beat(&self, now: Millis) {
        let mut known = locked(&self.known);
        if known.beat.replace(now).is_some_and(|last| now - last >= LEASE_MS) {
            known.cut_off = Some(Instant::now());
        }
    }

    /// While that is so, leases that have run out say nothing about their owners: they could not prolong them either.
    pub fn was_cut_off(&self) -> bool {
        locked(&self.known).cut_off.is_some_and(|at| at.elapsed() < LEASE)
    }

    pub fn looked(&self, at: Instant) {
        locked(&self.known).looked = Some(at);
    }

    /// An answer may have been lost since all that is ours was last looked at.
    pub fn may_have_missed_something(&self) -> bool {
        let known = locked(&self.known);
        known.cut_off.is_some() && known.cut_off >= known.looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_fresh_until_shortly_before_its_end() {
        let lease = Lease::default();
        assert!(!lease.is_fresh(), "there is none yet");
        let asked = Instant::now();
        tokio::time::advance(Duration::from_secs(4)).await;
        lease.prolonged(asked);
        tokio::time::advance(Duration::from_millis(4_999)).await;
        assert!(lease.is_fresh(), "it counts from the question");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!lease.is_fresh());
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_makes_patient_and_watchful() {
        let busy: Result<(), Error> = Err(Error::Busy("held".into()));
        let (lease, other) = (Lease::default(), Err::<(), _>(Error::NotFound("it".into())));
        let _ = lease.noted(other);
        assert!(!lease.was_cut_off() && !lease.may_have_missed_something());
        let _ = lease.noted(busy);
        assert!(lease.was_cut_off() && lease.may_have_missed_something());
        tokio::time::advance(Duration::from_secs(1)).await;
        lease.looked(Instant::now());
        assert!(lease.was_cut_off() && !lease.may_have_missed_something());
        tokio::time::advance(LEASE).await;
        assert!(!lease.was_cut_off());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_is_noticed_by_the_wall_clock() {
        let lease = Lease::default();
        for (now, cut_off) in [(1_000, false), (1_000 + LEASE_MS - 1, false), (1_000 + 2 * LEASE_MS, true)] {
            lease.beat(now);
            assert_eq!(lease.was_cut_off(), cut_off, "{now}");
        }
    }
}
