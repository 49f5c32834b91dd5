//! The server as clients meet it: real requests over a real socket.
#![allow(clippy::unwrap_used)]

mod events;
mod flows;
mod notifications;
mod runs;
mod setup;
mod telemetry;
mod steps;
mod tokens;
mod usage;
mod walk;
mod workflows;
