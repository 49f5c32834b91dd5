//! How far a call is, told to the client without the call ever waiting for it, and whether the client still wants it.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What a client has not yet taken; beyond it the newest is left out, since more will come.
const NOTES_MAX: usize = 64;
/// How long the answer of a call waits for the client to take what was told before it.
const LAST_NOTES_TIME: Duration = Duration::from_secs(1);
/// A line on a screen, not a document.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Where a tool says how far it is. Free of cost if the client did not ask for it.
#[derive(Clone)]
pub struct Progress {
    notes: Option<mpsc::Sender<Note>>,
    /// The protocol wants numbers that grow.
    furthest: Arc<Mutex<f64>>,
}

struct Note {
    done: f64,
    total: Option<f64>,
    message: String,
}

impl Progress {
    /// `done` must grow: what does not exceed the number before is not passed on. Never waits.
    pub fn tell(&self, done: f64, total: Option<f64>, message: &str) {
        let Some(notes) = &self.notes else { return };
        let mut furthest = self.furthest.lock().unwrap_or_else(PoisonError::into_inner);
        // What is no number does not grow either.
        if done.partial_cmp(&furthest) != Some(Ordering::Greater) {
            return;
        }
        let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
        if notes.try_send(Note { done, total, message }).is_ok() {
            *furthest = done;
        }
    }

    /// Does the client want to know?
    pub fn is_wanted(&self) -> bool {
        self.notes.is_some()
    }
}

/// Set when the client no longer wants the answer, went away, or this server is about to end.
#[derive(Clone)]
pub struct Cancelled(pub(super) CancellationToken);

impl Cancelled {
    pub fn is_set(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is set.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// The other end of a [`Progress`].
pub struct Notes {
    told: mpsc::Receiver<Note>,
    to: Option<(Peer<RoleServer>, ProgressToken)>,
}

pub fn channel(peer: &Peer<RoleServer>, token: Option<ProgressToken>) -> (Progress, Notes) {
    let (sender, told) = mpsc::channel(NOTES_MAX);
    let notes = token.is_some().then_some(sender);
    let furthest = Arc::new(Mutex::new(f64::NEG_INFINITY));
    (Progress { notes, furthest }, Notes { told, to: token.map(|token| (peer.clone(), token)) })
}

impl Notes {
    /// Does `work`, and meanwhile passes on what it tells. What it told last is passed on before its answer.
    pub async fn pass_on<T>(self, work: impl Future<Output = T>) -> T {
        let ended = CancellationToken::new();
        let passing = self.pass_until(&ended);
        tokio::pin!(work, passing);
        let answer = tokio::select! {
            answer = &mut work => answer,
            // The client takes no more.
            () = &mut passing => return work.await,
        };
        ended.cancel();
        // A client too slow for this gets its answer without the last notes.
        let _ = tokio::time::timeout(LAST_NOTES_TIME, passing).await;
        answer
    }

    async fn pass_until(mut self, ended: &CancellationToken) {
        let Some((peer, token)) = self.to.take() else { return };
        loop {
            let note = tokio::select! {
                biased;
                note = self.told.recv() => note,
                () = ended.cancelled() => None,
            };
            let Some(note) = note else { return };
            if peer.notify_progress(note.render(&token)).await.is_err() {
                return;
            }
        }
    }
}

impl Note {
    fn render(self, token: &ProgressToken) -> ProgressNotificationParam {
        let mut param = ProgressNotificationParam::new(token.clone(), self.done);
        param.total = self.total;
        param.message = (!self.message.is_empty()).then_some(self.message);
        param
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_grows_is_told_and_nothing_waits() {
        let (sender, mut told) = mpsc::channel(NOTES_MAX);
        let progress = Progress { notes: Some(sender), furthest: Arc::new(Mutex::new(f64::NEG_INFINITY)) };
        for done in [1.0, 1.0, 0.5, f64::NAN, 2.0] {
            progress.tell(done, None, "");
        }
        assert_eq!((told.try_recv().unwrap().done, told.try_recv().unwrap().done), (1.0, 2.0));
        assert!(told.try_recv().is_err());
        for done in 0..1_000 {
            progress.tell(f64::from(done + 3), None, &"x".repeat(5_000));
        }
        assert_eq!(told.len(), NOTES_MAX);
        assert_eq!(told.try_recv().unwrap().message.len(), MESSAGE_CHARS_MAX);
    }
}
