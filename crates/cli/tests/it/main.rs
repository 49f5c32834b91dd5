//! The real binary, each test with a home folder of its own.
#![allow(clippy::unwrap_used)]

mod assistants;
mod control;
mod detached;
mod files;
mod outcomes;
mod remote;
mod schedules;
mod serving;
mod support;
mod terminal;
mod timetable;
mod tokens;
mod trust;
mod words;
