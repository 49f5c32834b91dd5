//! Where the database lies, and whether the files there are still the ones that were opened. SQLite goes on with files
//! that were moved or removed, and nobody would ever find again what it writes there.

use std::path::{Path, PathBuf};

use crate::Error;

/// The database and its log.
pub(super) struct Place {
    path: PathBuf,
    files: Vec<(PathBuf, Mark)>,
}

/// What a file is known by, whatever its name: the disk and its number there.
type Mark = (u64, u64);

impl Place {
    /// The files as they are now, right after they were opened.
    pub(super) fn of(path: &Path) -> Place {
        // SQLite puts the log beside the file itself, not beside a link to it.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut log = real.into_os_string();
        log.push("-wal");
        let known = |file: PathBuf| mark(&file).ok().flatten().map(|mark| (file, mark));
        let files = [path.to_owned(), log.into()].into_iter().filter_map(known).collect();
        Place { path: path.to_owned(), files }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing may be read or written unless this holds.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (file, known) in &self.files {
            let wrong = match mark(file) {
                Ok(Some(found)) if found == *known => continue,
                Ok(Some(_)) => "was replaced while it was in use; put the former file back, or start the program again",
                Ok(None) => "is no longer there; put it back, until then nothing is read or written",
                Err(error) => return Err(Error::OutOfReach(format!("{} cannot be reached: {error}", file.display()))),
            };
            return Err(Error::OutOfReach(format!("the database file {} {wrong}", file.display())));
        }
        Ok(())
    }
}

/// None where there is no such file.
#[cfg(unix)]
fn mark(file: &Path) -> std::io::Result<Option<Mark>> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(file) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where files that are open cannot be moved there is nothing to look for.
#[cfg(not(unix))]
fn mark(_file: &Path) -> std::io::Result<Option<Mark>> {
    Ok(Some((0, 0)))
}
