//! The server: REST, events and MCP over HTTP, one file per resource. Each route parses its own words, calls one
//! method of the service, and renders the answer. Knows nothing of SQL, plans or how a run goes on.

mod account;
mod api;
mod body;
mod caller;
mod guard;
mod health;
mod hooks;
mod lasting;
mod listen;
pub mod logs;
mod mcp;
mod metrics;
mod origin;
mod pages;
mod patient;
mod problem;
mod revisions;
mod telemetry;
mod times;
mod traced;

pub use api::{document, router, views};
pub use listen::{Error, Listening, Options, listen};
pub use mcp::serve_stdio;
pub use metrics::Metrics;
pub use telemetry::Telemetry;

use std::sync::Arc;

use relais_service::Service;
use tokio::sync::watch;

/// What every route works with.
#[derive(Clone)]
pub struct App {
    /// A handle without a user of its own: [`caller`] makes it that of whoever calls.
    service: Service,
    /// Shut until [`listen`] knows where it listens.
    gate: Arc<caller::Gate>,
    room: Arc<guard::Room>,
    mcp: mcp::Mcp,
    /// True when streams are to end.
    stop: Arc<watch::Sender<bool>>,
    metrics: Arc<Metrics>,
}

impl App {
    pub fn new(service: Service) -> App {
        let (room, stop) = (Arc::new(guard::Room::new()), Arc::new(watch::Sender::new(false)));
        let metrics = Arc::new(Metrics::default());
        service.observe(metrics.clone());
        App { service, gate: Arc::default(), room, mcp: mcp::Mcp::new(), stop, metrics }
    }
}
