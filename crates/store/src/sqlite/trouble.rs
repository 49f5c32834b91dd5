//! What SQLite says went wrong, told as the layers above must tell it apart, with what a person can do about it.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::Error;

/// Inside this store: an answer of our own, or SQLite's.
#[derive(Debug)]
pub(super) enum Trouble {
    Told(Error),
    Sql(rusqlite::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Told(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl Trouble {
    pub(super) fn tell(self, path: &Path) -> Error {
        match self {
            Trouble::Told(error) => error,
            Trouble::Sql(error) => tell(&error, path),
        }
    }
}

fn tell(error: &rusqlite::Error, path: &Path) -> Error {
    let file = path.display();
    let Some(code) = error.sqlite_error_code() else {
        return Error::Internal(format!("the database {file}: {error}"));
    };
    let text = |advice: &str| format!("the database {file} {advice} ({error})");
    let advice = match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            return Error::Busy(format!("{file} is held by another process ({error})"));
        }
        ErrorCode::DiskFull => "has no space to grow; free some disk space or prune old runs, then try again",
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            "cannot be written to; give this user the right to write the file and its folder"
        }
        ErrorCode::CannotOpen => "cannot be opened; check that its folder exists and that this user may write there",
        ErrorCode::DatabaseCorrupt => {
            return Error::Unusable(text("is damaged; restore a backup, or move the file away to start afresh"));
        }
        ErrorCode::NotADatabase => {
            return Error::Unusable(text("is not a database, or is damaged; restore a backup, or move the file away"));
        }
        ErrorCode::SystemIoFailure => "cannot be read or written; check the disk and that the file is still there",
        _ => return Error::Internal(format!("the database {file}: {error}")),
    };
    Error::OutOfReach(text(advice))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn codes_are_told_apart() {
        let told = |code: i32| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            Trouble::from(error).tell(Path::new("/data/relais.db"))
        };
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_BUSY_SNAPSHOT] {
            assert!(matches!(told(code), Error::Busy(_)), "{code}");
        }
        let mended = [
            (ffi::SQLITE_FULL, "no space", true),
            (ffi::SQLITE_READONLY, "right to write", true),
            (ffi::SQLITE_CANTOPEN, "folder", true),
            (ffi::SQLITE_IOERR_FSYNC, "check the disk", true),
            (ffi::SQLITE_CORRUPT, "damaged", false),
            (ffi::SQLITE_NOTADB, "not a database", false),
        ];
        for (code, word, goes_on) in mended {
            let text = match told(code) {
                Error::OutOfReach(text) if goes_on => text,
                Error::Unusable(text) if !goes_on => text,
                other => panic!("{code} is {other:?}"),
            };
            assert!(text.contains(word) && text.contains("/data/relais.db"), "{text}");
        }
        assert!(matches!(told(ffi::SQLITE_CONSTRAINT), Error::Internal(_)));
    }
}
