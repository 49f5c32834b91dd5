//! The other formats through the real program: every promise of theirs that needs no server, one test each or several to
//! a test, named by its id in a comment.

mod chain;
mod dag;
mod dag_settings;
mod graph;
mod large;
mod pipeline;
mod steps;
mod traps;
mod views;
