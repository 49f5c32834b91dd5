//! The server as clients meet it: real requests over a real socket.
#![allow(clippy::unwrap_used)]

mod document;
mod door;
mod events;
mod flows;
mod runs;
mod setup;
mod tokens;
mod walk;
mod workflows;
