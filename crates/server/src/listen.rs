//! The socket: accepts within bounds, serves, and ends in order.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{App, router};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}; name another address with --listen")]
    Address { address: SocketAddr, error: std::io::Error },
}

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
}

/// A server that takes requests until it is told to stop.
pub struct Listening {
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    served: JoinHandle<std::io::Result<()>>,
}

pub async fn listen(app: App, options: &Options) -> Result<Listening, Error> {
    let refused = |error| Error::Address { address: options.listen, error };
    let listener = TcpListener::bind(options.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let (stop, mut stopped) = watch::channel(false);
    let until = async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let served = tokio::spawn(axum::serve(listener, router(app)).with_graceful_shutdown(until).into_future());
    Ok(Listening { address, stop, served })
}

impl Listening {
    /// Takes no new requests; returns when those under way are answered.
    pub async fn stop(self) -> std::io::Result<()> {
        let _ = self.stop.send(true);
        self.served.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }
}
