//! The server as clients meet it: real requests over a real socket.
#![allow(clippy::unwrap_used)]

mod agents;
mod definitions;
mod document;
mod door;
mod events;
mod flows;
mod notifications;
mod questions;
mod reach;
mod runs;
mod setup;
mod starting;
mod steps;
mod telemetry;
mod tokens;
mod usage;
mod versions;
mod walk;
mod walk_mcp;
mod workflows;
