//! Which files of projects the user has said to trust: by their path and what they say, kept in the home folder. Knows
//! nothing of what such a file may say.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use relais_store::private;
use serde::{Deserialize, Serialize};

use super::project::Project;
use crate::Error;

/// The file in the home folder.
pub const FILE: &str = "trust.json";
/// Set to `1` it trusts whatever file the command finds, for scripts and containers.
pub const VARIABLE: &str = "RELAIS_TRUST";

/// How a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Trusted,
    /// It says something else than what was trusted.
    Changed,
    Unknown,
}

/// What was trusted under a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// BLAKE3 of the file's text.
    pub hash: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

#[derive(Debug)]
pub struct Trust {
    file: PathBuf,
    trusted: BTreeMap<PathBuf, Trusted>,
}

impl Trust {
    pub fn read(home: &Path) -> Result<Trust, Error> {
        let file = home.join(FILE);
        let place = |error: &dyn std::fmt::Display| Error::Unusable(format!("{}: {error}", file.display()));
        let trusted = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| place(&error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(place(&error)),
        };
        Ok(Trust { file, trusted })
    }

    pub fn standing(&self, project: &Project) -> Standing {
        match self.trusted.get(&project.file) {
            Some(trusted) if trusted.hash == project.hash() => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }

    pub fn all(&self) -> impl Iterator<Item = (&Path, &Trusted)> {
        self.trusted.iter().map(|(path, trusted)| (path.as_path(), trusted))
    }

    /// Trusts what the file says now, and nothing that it may say later.
    pub fn add(&mut self, project: &Project, at: i64) -> Result<(), Error> {
        self.trusted.insert(project.file.clone(), Trusted { hash: project.hash(), at });
        self.write()
    }

    /// False if it was not trusted.
    pub fn revoke(&mut self, file: &Path) -> Result<bool, Error> {
        if self.trusted.remove(file).is_none() {
            return Ok(false);
        }
        self.write()?;
        Ok(true)
    }

    /// There completely or as it was: it is written beside its place and put there.
    fn write(&self) -> Result<(), Error> {
        let place = |error: &dyn std::fmt::Display| Error::Unusable(format!("{}: {error}", self.file.display()));
        let text = serde_json::to_string_pretty(&self.trusted).map_err(|error| place(&error))?;
        let home = self.file.parent().unwrap_or(Path::new("."));
        let beside = home.join(format!("{FILE}.{}", std::process::id()));
        let written = super::make_home(home)
            .and_then(|()| private::create_file(&beside)?.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&beside, &self.file));
        written.map_err(|error| place(&error))
    }
}

/// Does the environment trust every file?
pub fn by_environment(value: Option<&str>) -> Result<bool, Error> {
    match value.map(str::trim) {
        Some("1" | "true") => Ok(true),
        None | Some("" | "0" | "false") => Ok(false),
        Some(other) => Err(Error::Invalid(format!(
            "{VARIABLE} is `{other}`; 1 trusts the {} of the project, 0 does not",
            super::FILE
        ))),
    }
}
