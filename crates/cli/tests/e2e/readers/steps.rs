//! The format `steps`.
