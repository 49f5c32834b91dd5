//! The server as clients meet it: real requests over a real socket.
#![allow(clippy::unwrap_used)]

mod events;
mod flows;
mod runs;
mod setup;
mod steps;
mod tokens;
mod walk;
mod workflows;
