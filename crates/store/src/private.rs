//! Files and folders that are their owner's alone: prompts, answers, files of runs, hashes of tokens. Knows nothing of
//! what they hold.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::path::Path;

/// What only the owner may do.
const OTHERS: u32 = 0o077;
/// Deeper folders are no workspace of a run.
const MAX_DEPTH: usize = 64;

/// Makes a folder and those above it; those that are there stay as they are.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

/// Makes one folder that is not there yet.
pub fn make_one(path: &Path) -> io::Result<()> {
    let mut folder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

/// Makes a file that is not there yet.
pub fn create_new(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Makes a file that is to be written, or cuts it off.
pub fn create_file(path: &Path) -> io::Result<File> {
    options().write(true).truncate(true).open(path)
}

/// Opens a file to write at its end.
pub fn append_file(path: &Path) -> io::Result<File> {
    let file = options().append(true).open(path)?;
    close(path);
    Ok(file)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A database that is to be opened, and its log: made here where it is not there, because SQLite gives its log the rights
/// of the file. What cannot be made is told by whoever opens it.
pub(crate) fn claim(database: &Path) {
    drop(options().append(true).open(database));
    close(database);
    for end in ["-wal", "-shm"] {
        let mut beside = database.as_os_str().to_owned();
        beside.push(end);
        close(Path::new(&beside));
    }
}

/// Takes from others what they may do with a file or folder; links are left alone. What belongs to somebody else cannot
/// be changed, and then it is not ours to say who reads it.
pub fn close(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let Ok(found) = std::fs::symlink_metadata(path) else { return };
        let mode = found.permissions().mode();
        if !found.is_symlink() && mode & OTHERS != 0 {
            let _ = std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7700));
        }
    }
}

/// Is it something that others may look into?
#[cfg(unix)]
pub fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OTHERS != 0)
}

#[cfg(not(unix))]
pub fn is_open(_: &Path) -> bool {
    false
}

/// Closes a folder with all that is in it, the inside first. One that is closed already is: nobody could reach further.
pub fn close_folder(path: &Path) {
    if is_open(path) {
        close_inside(path, 0);
        close(path);
    }
}

fn close_inside(folder: &Path, depth: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth < MAX_DEPTH {
            close_inside(&entry.path(), depth + 1);
        }
        close(&entry.path());
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_database_and_its_log_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("relais.db");
        let open = || crate::SqliteStore::open(&database, crate::Options::default()).unwrap();
        let beside = |end: &str| folder.path().join(format!("relais.db{end}"));
        let all = |store: crate::SqliteStore| {
            let modes = ["", "-wal", "-shm"].map(|end| mode(&beside(end)));
            drop(store);
            modes
        };
        assert_eq!(all(open()), [0o600; 3]);
        std::fs::set_permissions(&database, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(all(open()), [0o600; 3], "one of before is closed when it is opened");
    }

    #[test]
    fn a_folder_is_closed_with_all_that_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (root.path().join("f"), root.path().join("outside"));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        for file in [&outside, &folder.join("x"), &folder.join("a/b/run.sh")] {
            std::fs::write(file, "x").unwrap();
            std::fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
        close_folder(&folder);
        let found = ["", "x", "a", "a/b", "a/b/run.sh"].map(|name| mode(&folder.join(name)));
        assert_eq!(found, [0o700; 5]);
        assert_eq!(mode(&outside), 0o755, "nothing is changed through a link");
        make_folder(&folder.join("new/deep")).unwrap();
        drop(create_file(&folder.join("new/file")).unwrap());
        drop(append_file(&folder.join("x")).unwrap());
        assert_eq!(["new", "new/deep", "new/file"].map(|name| mode(&folder.join(name))), [0o700, 0o700, 0o600]);
    }
}
