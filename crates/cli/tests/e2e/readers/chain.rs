//! The format `chain`.
