//! Connections for reading, used on threads that may block. Async code never waits inside SQLite.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::place::Place;
use super::trouble::Trouble;
use super::{Options, schema};
use crate::Error;

/// Reads at once: more than the cores of a small machine, few enough to keep their page caches small.
const MAX_READERS: usize = 4;

pub(super) struct Readers {
    place: Arc<Place>,
    options: Options,
    turns: Arc<Semaphore>,
    /// Opened when first needed.
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(place: Arc<Place>, options: Options) -> Readers {
        Readers { place, options, turns: Arc::new(Semaphore::new(MAX_READERS)), idle: Mutex::default() }
    }

    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    {
        let closed = |error: &dyn std::fmt::Display| Error::Internal(format!("a read was cut off: {error}"));
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|error| closed(&error))?;
        let readers = Arc::clone(self);
        let perform = move || {
            // Held until the work is over, even if nobody waits for it any more.
            let _turn = turn;
            readers.perform(work)
        };
        let outcome = tokio::task::spawn_blocking(perform).await;
        outcome.map_err(|error| closed(&error))?
    }

    fn perform<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Trouble>) -> Result<T, Error> {
        self.place.check()?;
        let (idle, path) = (self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop(), self.place.path());
        let outcome = idle.map_or_else(|| schema::open_reader(path, &self.options), Ok).and_then(|db| {
            let outcome = work(&db);
            // It may have been opened in the moment in which another file came to its place.
            self.place.check()?;
            // After trouble the next reader starts with a new connection.
            if outcome.is_ok() {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
            }
            outcome
        });
        outcome.map_err(|trouble| trouble.tell(path))
    }
}
