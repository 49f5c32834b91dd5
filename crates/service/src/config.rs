//! Where things are and what `relais.toml` says. Flags stand over the environment, that over the project's file, that
//! over the one in the home folder.

use std::path::{Path, PathBuf};

use relais_runtime::settings::Settings;

use crate::Error;

/// The name of the configuration file, in the home folder and in projects.
pub const FILE: &str = "relais.toml";

#[derive(Debug, Clone)]
pub struct Config {
    /// The one folder that data lives in.
    pub home: PathBuf,
    /// Where relative paths of the project start: the folder of its `relais.toml`, else the current one.
    pub folder: PathBuf,
    pub settings: Settings,
    /// The files that were read, in the order of growing weight.
    pub read: Vec<PathBuf>,
    /// Whose runs these are.
    pub user: String,
}

/// Larger files are no configuration.
const MAX_BYTES: u64 = 1024 * 1024;

impl Config {
    pub fn load(home: Option<PathBuf>, current: &Path) -> Result<Config, Error> {
        let home = match home {
            Some(home) => home,
            None => default_home()?,
        };
        let project = current.ancestors().map(|folder| folder.join(FILE)).find(|file| file.is_file());
        let mut table = toml::Table::new();
        let mut read = Vec::new();
        for file in [Some(home.join(FILE)), project.clone()].into_iter().flatten() {
            if file.is_file() && !read.contains(&file) {
                merge(&mut table, parse(&file)?);
                read.push(file);
            }
        }
        let mut settings = settings(table, &read)?;
        settings.database = settings.database.as_deref().map(database_path).transpose()?;
        let folder = project.and_then(|file| file.parent().map(Path::to_owned)).unwrap_or_else(|| current.to_owned());
        let user = std::env::var("USER").unwrap_or_else(|_| "local".to_owned());
        Ok(Config { home, folder, settings, read, user })
    }

    pub fn database(&self) -> PathBuf {
        match &self.settings.database {
            Some(path) => self.folder.join(path),
            None => self.home.join("relais.db"),
        }
    }

    /// Another database than the configured one: a path, relative ones from the current folder, or `sqlite:PATH`.
    pub fn with_database(mut self, text: &str, current: &Path) -> Result<Config, Error> {
        let path = current.join(database_path(text)?);
        self.settings.database = Some(path.display().to_string());
        Ok(self)
    }

    pub fn workspaces(&self) -> PathBuf {
        self.home.join("workspaces")
    }
}

/// The file that is meant; other databases are not in this build.
fn database_path(text: &str) -> Result<String, Error> {
    let rest = match text.split_once(':') {
        Some(("sqlite", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((scheme @ ("postgres" | "postgresql" | "mysql" | "mariadb"), _)) => {
            let text = format!("the database {scheme}:… cannot be used: this build keeps its data in SQLite only");
            return Err(Error::Invalid(format!("{text}; give the path of a file, or sqlite:PATH")));
        }
        Some((scheme, rest)) if rest.starts_with("//") => {
            return Err(Error::Invalid(format!("there is no database `{scheme}`; give a path, or sqlite:PATH")));
        }
        _ => text,
    };
    if rest.is_empty() || rest == ":memory:" {
        return Err(Error::Invalid("a database needs a file; give its path, or sqlite:PATH".into()));
    }
    Ok(rest.to_owned())
}

fn default_home() -> Result<PathBuf, Error> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(home) = set("RELAIS_HOME") {
        return Ok(home);
    }
    if let Some(data) = set("XDG_DATA_HOME") {
        return Ok(data.join("relais"));
    }
    let home = set("HOME").ok_or_else(|| Error::Invalid("neither RELAIS_HOME nor HOME is set".into()))?;
    Ok(match cfg!(target_os = "macos") {
        true => home.join("Library/Application Support/relais"),
        false => home.join(".local/share/relais"),
    })
}

fn parse(file: &Path) -> Result<toml::Table, Error> {
    let place = |error: &dyn std::fmt::Display| Error::Invalid(format!("{}: {error}", file.display()));
    let size = std::fs::metadata(file).map_err(|e| place(&e))?.len();
    if size > MAX_BYTES {
        return Err(place(&format!("is larger than {MAX_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| place(&e))?;
    let table = text.parse::<toml::Table>().map_err(|e| place(&e))?;
    // Read on its own as well, so that a mistake is shown with its line.
    toml::from_str::<Settings>(&text).map_err(|e| place(&e))?;
    Ok(table)
}

fn settings(table: toml::Table, read: &[PathBuf]) -> Result<Settings, Error> {
    let names: Vec<String> = read.iter().map(|f| f.display().to_string()).collect();
    toml::Value::Table(table).try_into().map_err(|e| Error::Invalid(format!("{}: {e}", names.join(" and "))))
}

/// Tables are merged key by key; anything else is replaced.
fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn load(home: &str, project: &str) -> Result<Config, Error> {
        let folder = tempfile::tempdir().unwrap();
        let (at_home, at_project) = (folder.path().join("home"), folder.path().join("project/sub"));
        std::fs::create_dir_all(&at_home).unwrap();
        std::fs::create_dir_all(&at_project).unwrap();
        std::fs::write(at_home.join(FILE), home).unwrap();
        std::fs::write(folder.path().join("project").join(FILE), project).unwrap();
        Config::load(Some(at_home), &at_project)
    }

    #[test]
    fn the_project_stands_over_the_home_folder() {
        let home = "default_model = \"a/b\"\n[providers.openai]\nmax_concurrent = 3\nbase_url = \"http://x\"\n";
        let config = load(home, "[providers.openai]\nmax_concurrent = 5\n").unwrap();
        let openai = &config.settings.providers["openai"];
        assert_eq!((openai.max_concurrent, openai.base_url.as_deref()), (Some(5), Some("http://x")));
        assert_eq!(config.settings.default_model.as_deref(), Some("a/b"));
        assert!(config.folder.ends_with("project"));
    }

    #[test]
    fn a_database_is_a_file_or_a_clear_error() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let config = load("", "").unwrap().with_database(text, Path::new("/here"));
            match (config.map(|config| config.database()), expected) {
                (Ok(path), Ok(expected)) => assert_eq!(path, Path::new(expected), "{text}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        check("a.db", Ok("/here/a.db"));
        check("sqlite:a.db", Ok("/here/a.db"));
        check("sqlite:///data/a.db", Ok("/data/a.db"));
        check("/data/a:b.db", Ok("/data/a:b.db"));
        check("postgres://me:secret@host/db", Err("SQLite only"));
        check("mysql://host/db", Err("SQLite only"));
        check("http://host/db", Err("no database `http`"));
        check("sqlite::memory:", Err("needs a file"));
        check("", Err("needs a file"));
        let configured = load("", "database = \"data/mine.db\"\n").unwrap();
        assert_eq!(configured.database(), configured.folder.join("data/mine.db"));
        assert!(load("", "database = \"postgres://host/db\"\n").is_err());
    }

    #[test]
    fn times_to_keep_runs_are_read_with_their_line() {
        let config = load("[retention]\nkeep = \"30d\"\n", "[retention]\nfailed = \"90d\"\n").unwrap();
        let day_ms = 24 * 3_600_000;
        let (keep, failed) = (config.settings.retention.keep, config.settings.retention.failed);
        assert_eq!((keep.unwrap().ms, failed.unwrap().ms), (30 * day_ms, 90 * day_ms));
        let error = load("[retention]\nkeep = \"soon\"\n", "").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("soon"), "{error}");
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let error = load("", "[providers.openai]\nmax_curent = 3\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("max_curent"), "{error}");
    }
}
