//! The format `graph`.
