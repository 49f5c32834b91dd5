//! The server as clients meet it: real requests over a real socket.
#![allow(clippy::unwrap_used)]

mod runs;
mod setup;
mod workflows;
