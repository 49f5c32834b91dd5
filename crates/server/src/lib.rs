//! The server: REST, events and MCP over HTTP, one file per resource. Each route parses its own words, calls one
//! method of the service, and renders the answer. Knows nothing of SQL, plans or how a run goes on.

mod api;
mod body;
mod caller;
mod listen;
mod pages;
mod problem;
mod revisions;
mod times;

pub use api::{document, router};
pub use listen::{Error, Listening, Options, listen};

use relais_service::Service;

/// What every route works with.
#[derive(Clone)]
pub struct App {
    /// A handle without a user of its own: [`caller`] makes it that of whoever calls.
    service: Service,
}

impl App {
    pub fn new(service: Service) -> App {
        App { service }
    }
}
