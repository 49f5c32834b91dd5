//! The folders of runs: copied for a fork, removed when their run is gone. What runs do in them is not known here.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relais_store::private;

use crate::{Error, Service};

/// Deeper folders are no workspace of a run.
const MAX_FOLDER_DEPTH: usize = 64;

/// Files and folders; links are left out, so that nothing outside is reached.
pub(crate) fn copy_folder(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > MAX_FOLDER_DEPTH {
        return Err(io::Error::other(format!("folders are nested deeper than {MAX_FOLDER_DEPTH}")));
    }
    private::make_folder(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target, depth + 1)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A copy takes less than this; a mark that is older was left behind by a process that died over it.
const MARK_LASTS: Duration = Duration::from_secs(60 * 60);

/// A folder whose run is about to be there: a mark beside it keeps it from being taken for one whose run is gone, also
/// by other processes. The mark goes with this value.
pub(crate) struct Unclaimed(PathBuf);

impl Unclaimed {
    pub fn mark(folder: &Path) -> io::Result<Unclaimed> {
        let mark = mark_of(folder);
        folder.parent().map_or(Ok(()), private::make_folder)?;
        private::create_file(&mark)?;
        Ok(Unclaimed(mark))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        // One that stays runs out by itself.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// No run has a folder of this name.
fn mark_of(folder: &Path) -> PathBuf {
    folder.with_extension("copying")
}

fn is_unclaimed(folder: &Path) -> bool {
    let made = std::fs::metadata(mark_of(folder)).and_then(|mark| mark.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < MARK_LASTS))
}

/// A mark that a process left behind when it died.
fn is_old_mark(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "copying") && !is_unclaimed(path)
}

impl Service {
    /// Removes the workspaces of runs that are gone.
    pub(crate) async fn remove_workspaces(&self) -> Result<(), Error> {
        let Ok(found) = std::fs::read_dir(self.config().workspaces()) else { return Ok(()) };
        for path in found.flatten().map(|entry| entry.path()) {
            if is_old_mark(&path) {
                std::fs::remove_file(&path).map_err(|e| Error::folder(&path, &e))?;
            }
            let Some(run) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
            // The mark first: it goes only when the run is there.
            if is_unclaimed(&path) {
                continue;
            }
            // Whose run it is does not matter here: another user's must not look as if it were gone.
            match self.worker().row(run).await {
                Err(relais_store::Error::NotFound(_)) => remove(path).await?,
                other => drop(other?),
            }
        }
        Ok(())
    }
}

async fn remove(folder: PathBuf) -> Result<(), Error> {
    let gone = folder.clone();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(gone)).await.map_err(io::Error::other);
    removed.flatten().map_err(|e| Error::folder(&folder, &e))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Whether a folder is spared, by the age of its mark.
    fn check(mark_age_s: Option<u64>, is_spared: bool) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(uuid::Uuid::now_v7().to_string());
        let mark = Unclaimed::mark(&folder).unwrap();
        if let Some(age) = mark_age_s {
            let made = std::time::SystemTime::now() - Duration::from_secs(age);
            std::fs::File::options().write(true).open(&mark.0).unwrap().set_modified(made).unwrap();
        } else {
            drop(mark);
        }
        assert_eq!(is_unclaimed(&folder), is_spared, "{mark_age_s:?}");
    }

    #[test]
    fn a_folder_is_spared_while_its_run_is_being_made() {
        for (mark_age_s, is_spared) in [(Some(0), true), (Some(3_000), true), (Some(3_601), false), (None, false)] {
            check(mark_age_s, is_spared);
        }
    }
}
