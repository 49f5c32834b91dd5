//! What is done about a database that is in trouble: told to whoever waits for the run, or waited out. Knows nothing of
//! runs.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relais_store::Error;

/// The first pause between tries; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Twenty thousand runs that wait for the same disk ask for it some thousand times a second then, not more.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Patience {
    stays: AtomicBool,
}

impl Patience {
    /// From now on this process waits until the database is mended: it has nobody who could start it again.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::Release);
    }

    /// Tries again as long as the trouble passes. What a run has got by then is kept in memory, so nothing is lost.
    pub async fn outlast<T, F>(&self, act: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match act().await {
                Err(error) if self.passes(&error) => tokio::time::sleep(pause).await,
                other => return other,
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    fn passes(&self, error: &Error) -> bool {
        match error {
            Error::Busy(_) => true,
            Error::OutOfReach(_) => self.stays.load(Ordering::Acquire),
            Error::Conflict { .. } | Error::Changed(_) | Error::NotFound(_) => false,
            Error::Unusable(_) | Error::Internal(_) => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// How often it is tried where the first tries fail so.
    async fn tries(patience: &Patience, error: &Error) -> (u32, bool) {
        let count = AtomicU32::new(0);
        let act = || async {
            let nth = count.fetch_add(1, Ordering::Relaxed);
            if nth < 10 { Err(error.clone()) } else { Ok(()) }
        };
        let outcome = patience.outlast(act).await;
        (count.load(Ordering::Relaxed), outcome.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_waited_for_and_what_needs_a_person_only_by_those_who_stay() {
        let text = || "trouble".to_owned();
        let table = [
            (Error::Busy(text()), (11, true), (11, true)),
            (Error::OutOfReach(text()), (1, false), (11, true)),
            (Error::Unusable(text()), (1, false), (1, false)),
            (Error::NotFound(text()), (1, false), (1, false)),
        ];
        for (error, leaves, stays) in table {
            let patience = Patience::default();
            assert_eq!(tries(&patience, &error).await, leaves, "{error:?}");
            patience.stay();
            assert_eq!(tries(&patience, &error).await, stays, "{error:?}");
        }
    }
}
