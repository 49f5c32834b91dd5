//! What runs were started with lately, so that the next start of it reads and parses nothing again.
//!
//! A version never changes, so nothing here grows old; whether its workflow is still there is asked at each start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use relais_plan::Plan;
use uuid::Uuid;

use crate::Version;

/// Of the texts behind what is held; a plan takes a few times as much. Beyond this it starts anew.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// However short they are.
const MAX_HELD: usize = 4_096;

/// The user, the workflow, the number of the version, the branch. Numbers are not used again: the versions of a deleted
/// workflow stay, and one that comes again under its id goes on counting.
pub(crate) type Place = (Arc<str>, Uuid, u64, Option<String>);

/// A version and its plan: of one branch, or the main one.
pub(crate) struct Shelved {
    pub version: Version,
    pub hash: String,
    pub plan: Arc<Plan>,
}

#[derive(Default)]
pub(crate) struct Shelf(Mutex<Held>);

#[derive(Default)]
struct Held {
    by_place: HashMap<Place, Arc<Shelved>>,
    text_bytes: usize,
}

impl Shelf {
    pub fn get(&self, place: &Place) -> Option<Arc<Shelved>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_place.get(place).cloned()
    }

    pub fn put(&self, place: Place, shelved: Shelved) -> Arc<Shelved> {
        let shelved = Arc::new(shelved);
        let text_bytes = shelved.version.definition.len();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.text_bytes + text_bytes > MAX_TEXT_BYTES || held.by_place.len() >= MAX_HELD {
            *held = Held::default();
        }
        if held.by_place.insert(place, shelved.clone()).is_none() {
            held.text_bytes += text_bytes;
        }
        shelved
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shelved(bytes: usize) -> Shelved {
        let version = Version {
            definition: "x".repeat(bytes),
            format: String::new(),
            plan: None,
            branches: indexmap::IndexMap::new(),
            manifest: serde_json::Value::Null,
            agents: Vec::new(),
            reason: String::new(),
        };
        let plan = crate::runs::views::fixture::plan("steps: [{ id: a, set: { n: 1 } }]");
        Shelved { version, hash: String::new(), plan: Arc::new(plan) }
    }

    #[test]
    fn what_is_held_stays_below_its_bound() {
        let (shelf, place) = (Shelf::default(), |number| ("u".into(), Uuid::nil(), number, None));
        for number in 0..10 {
            shelf.put(place(number), shelved(MAX_TEXT_BYTES / 4));
            shelf.put(place(number), shelved(MAX_TEXT_BYTES / 4));
            assert!(shelf.get(&place(number)).is_some());
            assert!(shelf.0.lock().unwrap().by_place.len() <= 4);
        }
    }
}
