//! MCP on both sides, behind concrete types: servers as a supervised source of tools, and what we offer ourselves.
//!
//! A [`Server`] is started when it is first needed, watched, and started again after it died. Whatever it does (die,
//! hang, send garbage, flood), a call ends within its time and says which server failed and what it said last.
//! [`serving`] is the other side: whoever implements [`serving::Offers`] is served over pipes and HTTP. Both
//! eras of the protocol are spoken: the handshake one and the stateless one of 2026-07-28. No type of the protocol
//! library is visible outside this crate, and this crate knows nothing of runs, plans or stores.

mod child;
mod connection;
mod content;
mod error;
mod lent;
mod server;
pub mod serving;
mod sse;

pub use error::{Error, Kind};
pub use server::{Guard, Limits, RemoteTool, Server, ServerConfig};
