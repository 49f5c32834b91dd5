//! Use cases over the real engine, worker and SQLite, with scripted models.

#![allow(clippy::unwrap_used)]

mod answers;
mod budgets;
mod bulk;
mod cancels;
mod crashes;
mod events;
mod feed;
mod going_back;
mod kept;
mod questions;
mod serving;
mod setup;
mod starting;
