//! Paths in a run's workspace: relative, without `..`, and never out of it through a symbolic link.

use std::fs::File;
use std::io::ErrorKind as IoKind;
use std::path::{Component, Path, PathBuf};

use relais_engine::Failure;
use relais_store::private;

use super::wrong;

/// As long as a path on the usual file systems may be.
const PATH_BYTES_MAX: usize = 1024;
/// Temporary files of writes that have not ended; not listed.
pub const TEMPORARY: &str = ".relais-tmp-";

/// One checked path.
#[derive(Debug)]
pub struct Place {
    /// The workspace without symbolic links.
    pub root: PathBuf,
    /// Under the root, as it was written, without `.` parts.
    pub relative: PathBuf,
}

impl Place {
    pub fn new(workspace: &Path, written: &str) -> Result<Place, Failure> {
        let relative = relative(written)?;
        private::make_folder(workspace).map_err(|error| failed("", "made", &error))?;
        let root = workspace.canonicalize().map_err(|error| failed("", "opened", &error))?;
        Ok(Place { root, relative })
    }

    /// The real path of something that exists.
    pub fn existing(&self) -> Result<PathBuf, Failure> {
        let real = self.root.join(&self.relative).canonicalize();
        let real = real.map_err(|error| failed(&self.shown(), "opened", &error))?;
        self.inside(real)
    }

    /// The path to write to, with its folders made.
    pub fn to_write(&self) -> Result<PathBuf, Failure> {
        let Some(name) = self.relative.file_name() else { return Err(wrong("`path` must name a file")) };
        let mut folder = self.root.clone();
        for part in self.relative.parent().into_iter().flat_map(Path::components) {
            folder = self.folder(folder.join(part))?;
        }
        Ok(folder.join(name))
    }

    /// Each folder is checked before anything is made in it.
    fn folder(&self, path: PathBuf) -> Result<PathBuf, Failure> {
        match make_inside(&path) {
            Err(error) if error.kind() != IoKind::AlreadyExists => Err(failed(&self.shown(), "written", &error)),
            _ if !path.is_dir() => Err(wrong(format!("a part of `{}` is a file, not a folder", self.shown()))),
            _ => self.inside(path.canonicalize().map_err(|error| failed(&self.shown(), "written", &error))?),
        }
    }

    fn inside(&self, real: PathBuf) -> Result<PathBuf, Failure> {
        if real.starts_with(&self.root) {
            return Ok(real);
        }
        Err(wrong(format!("`{}` leads out of the workspace through a symbolic link", self.shown())))
    }

    pub fn shown(&self) -> String {
        self.relative.to_string_lossy().into_owned()
    }
}

/// A folder that is as open as the one that it is in: that of a run in the home folder is its owner's alone, one that a
/// person named is as that person has it.
pub fn make_inside(path: &Path) -> std::io::Result<()> {
    if path.parent().is_some_and(private::is_open) { std::fs::create_dir(path) } else { private::make_one(path) }
}

/// A new file, in the same way.
pub fn create_inside(path: &Path) -> std::io::Result<File> {
    if path.parent().is_some_and(private::is_open) { File::create_new(path) } else { private::create_new(path) }
}

fn relative(written: &str) -> Result<PathBuf, Failure> {
    if written.len() > PATH_BYTES_MAX || written.contains('\0') {
        return Err(wrong(format!("`path` must have at most {PATH_BYTES_MAX} bytes and no NUL")));
    }
    let mut kept = PathBuf::new();
    for part in Path::new(written).components() {
        match part {
            Component::Normal(name) => kept.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(wrong(format!(
                    "`{written}` is outside the workspace; use a relative path without `..`, such as reports/today.md"
                )));
            }
        }
    }
    Ok(kept)
}

pub fn failed(shown: &str, verb: &str, error: &std::io::Error) -> Failure {
    let shown = if shown.is_empty() { "the workspace".to_owned() } else { format!("`{shown}`") };
    match error.kind() {
        IoKind::NotFound => wrong(format!("there is no file {shown}; list_files shows what is there")),
        IoKind::StorageFull => wrong(format!("{shown} cannot be {verb}: the disk is full")),
        _ => wrong(format!("{shown} cannot be {verb}: {error}")),
    }
}

/// File work off the async threads.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => Err(Failure::new(relais_engine::ErrorKind::Internal, format!("file work broke off: {error}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("here"), "h").unwrap();
        std::os::unix::fs::symlink(outside.path(), workspace.join("out")).unwrap();
        std::os::unix::fs::symlink("here", workspace.join("alias")).unwrap();
        let read = |path: &str| Place::new(&workspace, path).and_then(|place| place.existing());
        let write = |path: &str| Place::new(&workspace, path).and_then(|place| place.to_write());
        for path in ["../w/here", "/etc/passwd", "a/../../x", "out/secret", "out/new/x", &"x".repeat(2000), "a\0b"] {
            assert!(read(path).is_err(), "{path}");
            assert!(write(path).is_err(), "{path}");
        }
        assert!(read("./here").is_ok() && read("alias").is_ok() && write("new/deep/file").is_ok());
        assert!(write("").is_err() && write("here/x").is_err() && read("missing").is_err());
        assert!(!outside.path().join("new").exists());
    }
}
