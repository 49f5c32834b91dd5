//! The sessions of the handshake era over HTTP: so many, each of one caller, none kept for a client that went away.
//!
//! The library keeps sessions without a limit, and ends one in which nothing was said for a while even if a call is
//! at work in it. So the limit and the clock are kept here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;

pub struct Sessions {
    local: LocalSessionManager,
    uses: Mutex<HashMap<SessionId, Use>>,
    limit: usize,
    idle: Duration,
}

struct Use {
    /// Shared with every stream of the session that is open.
    clock: Arc<Clock>,
    /// The name of the caller who opened it, once it is known.
    owner: Option<String>,
}

/// When the session was last used.
struct Clock(Mutex<Instant>);

/// A stream of the session is open; it has been used until this is dropped.
struct Open(Arc<Clock>);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("all {0} sessions are in use")]
    Full(usize),
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Clock {
    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.touch();
    }
}

impl Use {
    fn new() -> Use {
        Use { clock: Arc::new(Clock(Mutex::new(Instant::now()))), owner: None }
    }

    fn is_open(&self) -> bool {
        Arc::strong_count(&self.clock) > 1
    }
}

impl Sessions {
    pub fn new(limit: usize, idle: Duration) -> Sessions {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = None;
        Sessions { local, uses: Mutex::default(), limit, idle }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<SessionId, Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn count(&self) -> usize {
        self.uses().len()
    }

    pub fn own(&self, id: &str, owner: &str) {
        if let Some(found) = self.uses().get_mut(id) {
            found.owner = Some(owner.to_owned());
        }
    }

    /// Unknown sessions belong to nobody: the library answers that there is none.
    pub fn is_of_another(&self, id: &str, caller: &str) -> bool {
        self.uses().get(id).is_some_and(|found| found.owner.as_deref().is_some_and(|owner| owner != caller))
    }

    /// Ends the sessions that nobody used for long, and if that is not enough the one that was not used for longest.
    /// Its client opens another when it comes back. False if all are being used.
    pub async fn make_room(&self) -> bool {
        for id in self.expired() {
            let _ = self.close_session(&id).await;
        }
        if self.count() < self.limit {
            return true;
        }
        let Some(id) = self.least_used() else { return false };
        let _ = self.close_session(&id).await;
        true
    }

    pub async fn close_all(&self) {
        let ids: Vec<SessionId> = self.uses().keys().cloned().collect();
        for id in ids {
            let _ = self.close_session(&id).await;
        }
    }

    fn expired(&self) -> Vec<SessionId> {
        let is_over = |found: &Use| !found.is_open() && found.clock.last().elapsed() >= self.idle;
        self.uses().iter().filter(|(_, found)| is_over(found)).map(|(id, _)| id.clone()).collect()
    }

    fn least_used(&self) -> Option<SessionId> {
        let uses = self.uses();
        let closed = uses.iter().filter(|(_, found)| !found.is_open());
        closed.min_by_key(|(_, found)| found.clock.last()).map(|(id, _)| id.clone())
    }

    fn open(&self, id: &SessionId) -> Option<Open> {
        let uses = self.uses();
        let found = uses.get(id)?;
        found.clock.touch();
        Some(Open(found.clock.clone()))
    }
}

fn held<S: Stream>(stream: S, open: Option<Open>) -> impl Stream<Item = S::Item> {
    stream.inspect(move |_| {
        let _held = &open;
    })
}

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Error> {
        if !self.make_room().await {
            return Err(Error::Full(self.limit));
        }
        let (id, transport) = self.local.create_session().await?;
        self.uses().insert(id.clone(), Use::new());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        for id in self.expired() {
            self.close_session(&id).await?;
        }
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        self.uses().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let open = self.open(id);
        Ok(held(self.local.create_stream(id, message).await?, open))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Error> {
        let _open = self.open(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let open = self.open(id);
        Ok(held(self.local.create_standalone_stream(id).await?, open))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let open = self.open(id);
        Ok(held(self.local.resume(id, last_event_id).await?, open))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_make_room_and_used_ones_stay() {
        let sessions = Sessions::new(3, Duration::from_secs(60));
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(sessions.create_session().await.unwrap().0);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let first = sessions.open(&ids[0]);
        sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&ids[0]).await.unwrap());
        assert!(!sessions.has_session(&ids[1]).await.unwrap());
        let rest: Vec<_> = sessions.uses().keys().cloned().collect();
        let open: Vec<_> = rest.iter().map(|id| sessions.open(id)).collect();
        assert!(matches!(sessions.create_session().await, Err(Error::Full(3))));
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(sessions.expired(), Vec::<SessionId>::new());
        drop((first, open));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(sessions.has_session(&ids[0]).await.unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!sessions.has_session(&ids[0]).await.unwrap());
        assert_eq!(sessions.count(), 0);
    }

    #[tokio::test]
    async fn a_session_belongs_to_who_opened_it() {
        let sessions = Sessions::new(3, Duration::from_secs(60));
        let (id, _transport) = sessions.create_session().await.unwrap();
        sessions.own(&id, "anna");
        assert!(sessions.is_of_another(&id, "ben") && !sessions.is_of_another(&id, "anna"));
        assert!(!sessions.is_of_another("no such", "ben"));
    }
}
