//! The real program against a bad world: killed, interrupted, cut off, lied to. Every test has a home folder, model
//! server and MCP servers of its own.
#![allow(clippy::unwrap_used)]

mod examples;
mod home;
mod interrupts;
mod kills;
mod mistakes;
mod models;
mod outages;
mod peers;
mod processes;
mod readers;
mod secrets;
mod serve;
mod servers;
mod serving;
mod storage;
mod under_load;
