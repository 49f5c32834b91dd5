//! The socket: accepts within bounds, serves, and ends in order. What a request may be is the business of [`guard`].
//!
//! [`guard`]: crate::guard

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use relais_service::END_TIME;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::account::Connection;
use crate::caller::Gate;
use crate::mcp::Mcp;
use crate::patient::Patient;
use crate::{App, router};

/// Connections at once: ten thousand streams and room for everybody else. Whoever comes then waits until one ends.
const MAX_CONNECTIONS: usize = 16_384;
/// A client has so long to send the head of its first or next request; then its place is free for others.
const HEAD_TIME: Duration = Duration::from_secs(20);
/// The longest head that is read at all; [`crate::guard`] refuses shorter ones with a problem that says why.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// What one connection may have read ahead.
const READ_AHEAD_BYTES: usize = 64 * 1024;
/// Out of file handles, most likely: others will be closed soon.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}; name another address with --listen")]
    Address { address: SocketAddr, error: std::io::Error },
    #[error(
        "{0} can be reached from other machines, and nobody could show who they are: there is no token yet. Make one \
         with `relais token create`, or set `issuer`, `audience` and `jwks_url` under [auth] in relais.toml, or listen \
         on 127.0.0.1"
    )]
    NoToken(SocketAddr),
    #[error("{0}")]
    Settings(String),
    #[error("the listener ended with an error: {0}")]
    Ended(tokio::task::JoinError),
    #[error("some requests were cut off")]
    CutOff,
    #[error(transparent)]
    Service(#[from] relais_service::Error),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    /// Nobody is let in without a token, on this machine neither; the settings may say the same.
    pub require_token: bool,
}

/// A server that takes requests until it is told to stop.
pub struct Listening {
    pub address: SocketAddr,
    stop: Arc<watch::Sender<bool>>,
    mcp: Mcp,
    served: JoinHandle<()>,
}

pub async fn listen(mut app: App, options: &Options) -> Result<Listening, Error> {
    app.gate = gate(&app, options).await?;
    let refused = |error| Error::Address { address: options.listen, error };
    let listener = TcpListener::bind(options.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
    let (stop, mcp) = (app.stop.clone(), app.mcp.clone());
    let door = Door {
        listener,
        slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        router: router(app),
        http: http(),
        open: GracefulShutdown::new(),
    };
    let served = tokio::spawn(door.serve(stop.subscribe()));
    Ok(Listening { address, stop, mcp, served })
}

/// Who is to be let in, settled before anybody can knock.
async fn gate(app: &App, options: &Options) -> Result<Arc<Gate>, Error> {
    let settings = &app.service.config().settings.auth;
    let gate = Gate::new(options.listen, options.require_token, settings).map_err(Error::Settings)?;
    let is_here = options.listen.ip().to_canonical().is_loopback();
    if !is_here && !app.service.lets_anybody_in().await? {
        return Err(Error::NoToken(options.listen));
    }
    Ok(Arc::new(gate))
}

impl Listening {
    /// Takes no new requests and ends streams; returns when the requests under way are answered, or were cut off because
    /// [`END_TIME`] was over.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.send_replace(true);
        let ended = async {
            self.mcp.close().await;
            (&mut self.served).await
        };
        match tokio::time::timeout(END_TIME, ended).await {
            Ok(ended) => ended.map_err(Error::Ended),
            Err(_) => {
                self.served.abort();
                Err(Error::CutOff)
            }
        }
    }
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    http.max_header_size(MAX_HEAD_BYTES).max_buf_size(READ_AHEAD_BYTES);
    http
}

struct Door {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    router: Router,
    http: http1::Builder,
    open: GracefulShutdown,
}

impl Door {
    async fn serve(self, mut stop: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                () = told(&mut stop) => break,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer, slot)) => self.attend(stream, peer, slot),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(self.listener);
        // Whoever told it to stop waits for this no longer than `END_TIME`.
        self.open.shutdown().await;
    }

    /// The next client, when there is room for one.
    async fn accept(&self) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let slot = self.slots.clone().acquire_owned().await.map_err(std::io::Error::other)?;
        let (stream, peer) = self.listener.accept().await?;
        Ok((stream, peer, slot))
    }

    fn attend(&self, stream: TcpStream, peer: SocketAddr, slot: OwnedSemaphorePermit) {
        // Small answers are not held back to be joined with later ones.
        let _ = stream.set_nodelay(true);
        let ends = stream.local_addr().map(|own| Arc::new(Connection::new(peer, own))).ok();
        let from = move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            ends.iter().for_each(|ends| drop(request.extensions_mut().insert(ends.clone())));
            request
        };
        let service = TowerToHyperService::new(self.router.clone().map_request(from));
        let connection = self.http.serve_connection(TokioIo::new(Patient::new(stream)), service);
        let connection = self.open.watch(connection);
        tokio::spawn(async move {
            // A client that went away or sent no HTTP is nobody's trouble but its own.
            let _ = connection.await;
            drop(slot);
        });
    }
}

/// Returns when the server is told to stop.
pub(crate) async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
