//! Who wants to know is told what changed: in the handshake era every client, in the stateless one those who listen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{SubscriptionContext, SubscriptionSendError, SubscriptionSink};
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::Change;

/// Resources that one client may watch at a time; nobody looks at more runs at once.
pub const WATCHED_MAX: usize = 100;

/// The uris that a client watches.
#[derive(Clone, Default)]
pub struct Watched {
    uris: Arc<Mutex<BTreeSet<String>>>,
}

impl Watched {
    /// False if it watches as many as it may.
    pub fn add(&self, uri: String) -> bool {
        let mut uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        if uris.len() >= WATCHED_MAX && !uris.contains(&uri) {
            return false;
        }
        uris.insert(uri);
        true
    }

    pub fn remove(&self, uri: &str) {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    fn has(&self, uri: &str) -> bool {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    fn all(&self) -> Vec<String> {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Until the client or the source of changes is gone.
pub async fn tell_peer(
    mut changes: Receiver<Change>,
    peer: Peer<RoleServer>,
    watched: Watched,
    ended: CancellationToken,
) {
    while let Some(news) = next(&mut changes, &watched, &ended).await {
        for change in news {
            let told = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Resources => peer.notify_resource_list_changed().await,
                Change::Resource(uri) => peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await,
            };
            if told.is_err() {
                return;
            }
        }
    }
}

/// Until the client ends its request or the source of changes is gone.
pub async fn tell_listener(mut changes: Receiver<Change>, listener: &SubscriptionContext, watched: Watched) {
    let ended = listener.request_context().ct.clone();
    while let Some(news) = next(&mut changes, &watched, &ended).await {
        for change in news {
            match tell(listener.sink(), change).await {
                // It did not ask for this one.
                Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => {}
                Err(_) => return,
            }
        }
    }
}

async fn tell(sink: &SubscriptionSink, change: Change) -> Result<(), SubscriptionSendError> {
    match change {
        Change::Tools => sink.notify_tool_list_changed().await,
        Change::Resources => sink.notify_resource_list_changed().await,
        Change::Resource(uri) => sink.notify_resource_updated(uri).await,
    }
}

/// What to tell next; everything, if so much changed meanwhile that some of it was forgotten.
async fn next(changes: &mut Receiver<Change>, watched: &Watched, ended: &CancellationToken) -> Option<Vec<Change>> {
    let change = tokio::select! {
        change = changes.recv() => change,
        () = ended.cancelled() => return None,
    };
    match change {
        Ok(Change::Resource(uri)) if !watched.has(&uri) => Some(Vec::new()),
        Ok(change) => Some(vec![change]),
        Err(RecvError::Lagged(_)) => {
            let resources = watched.all().into_iter().map(Change::Resource);
            Some([Change::Tools, Change::Resources].into_iter().chain(resources).collect())
        }
        Err(RecvError::Closed) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_lags_is_told_of_all() {
        let (source, mut changes) = tokio::sync::broadcast::channel(2);
        let (watched, ended) = (Watched::default(), CancellationToken::new());
        assert!(watched.add("run://1".into()));
        source.send(Change::Resource("run://2".into())).unwrap();
        source.send(Change::Resource("run://1".into())).unwrap();
        assert_eq!(next(&mut changes, &watched, &ended).await, Some(vec![]));
        assert_eq!(next(&mut changes, &watched, &ended).await, Some(vec![Change::Resource("run://1".into())]));
        for _ in 0..5 {
            source.send(Change::Tools).unwrap();
        }
        let all = vec![Change::Tools, Change::Resources, Change::Resource("run://1".into())];
        assert_eq!(next(&mut changes, &watched, &ended).await, Some(all));
        ended.cancel();
        drop(source);
        while next(&mut changes, &watched, &ended).await.is_some() {}
    }

    #[test]
    fn one_client_watches_so_many() {
        let watched = Watched::default();
        assert!((0..WATCHED_MAX).all(|n| watched.add(format!("run://{n}"))));
        assert!(watched.add("run://0".into()) && !watched.add("run://one more".into()));
        watched.remove("run://0");
        assert!(watched.add("run://one more".into()));
    }
}
