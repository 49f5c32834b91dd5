//! The format `dag`.
