//! Four kinds cross layers: the author's mistake, what is not there, another's append, and our own trouble.

use std::path::Path;

use relais_engine::{ErrorKind, Failure};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something the caller wrote; the text says what would be right.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
    /// Somebody else is at it.
    #[error("{0}")]
    Conflict(String),
    /// The database or the machine; the text says what to do.
    #[error("{0}")]
    Unusable(String),
}

impl Error {
    pub fn folder(path: &Path, error: &std::io::Error) -> Error {
        let text = "choose another folder with RELAIS_HOME, or mend its permissions";
        Error::Unusable(format!("the folder {} cannot be used: {error}; {text}", path.display()))
    }
}

impl From<relais_store::Error> for Error {
    fn from(error: relais_store::Error) -> Error {
        match error {
            relais_store::Error::NotFound(what) => Error::NotFound(format!("there is no {what}")),
            relais_store::Error::Conflict { .. } | relais_store::Error::Changed(_) => {
                Error::Conflict(error.to_string())
            }
            relais_store::Error::Busy(_) | relais_store::Error::Unusable(_) | relais_store::Error::Internal(_) => {
                Error::Unusable(error.to_string())
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure.kind {
            ErrorKind::Internal => Error::Unusable(failure.message),
            _ => Error::Invalid(failure.message),
        }
    }
}
