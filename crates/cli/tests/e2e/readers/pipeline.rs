//! The format `pipeline`.
