//! Where things are and what `relais.toml` says. Flags stand over the environment, that over the project's file, that
//! over the one in the home folder.

use std::path::{Path, PathBuf};

use relais_runtime::settings::{Named, Settings};
use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::feed::notify::{self, Mistake};

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

    /// What is wrong in what the files say and no reader of them can know, each with its place: who could never be told.
    pub fn mistakes(&self) -> Vec<String> {
        notify::mistakes(&self.settings).iter().map(|mistake| self.placed(mistake)).collect()
    }

    /// Refuses settings that cannot be used.
    pub fn must_be_usable(&self) -> Result<(), Error> {
        let mistakes = self.mistakes();
        if mistakes.is_empty() { Ok(()) } else { Err(Error::Invalid(mistakes.join("\n"))) }
    }

    /// With the file that says it, the weightier one if both do, and the line.
    fn placed(&self, mistake: &Mistake) -> String {
        let found = self.read.iter().rev().filter_map(|file| {
            let text = std::fs::read_to_string(file).ok()?;
            let (depth, line) = place_of(&text, &mistake.at)?;
            Some((depth, format!("{}, line {line}: {}", file.display(), mistake.message)))
        });
        // Of two that say as much of it, the first one found stands over the other.
        let best = found.fold(None::<(usize, String)>, |best, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            Some(_) | None => Some(next),
        });
        best.map_or_else(|| format!("{FILE}: {}", mistake.message), |(_, text)| text)
    }

    /// The models that files mean by a name, in fallback order; none if it is not configured.
    pub fn models_named(&self, name: &str) -> Vec<String> {
        self.settings.model_names.get(name).map(Named::models).unwrap_or_default()
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

/// How many of these keys the text has, one within the other, and the line of the last of them.
fn place_of(text: &str, keys: &[String]) -> Option<(usize, usize)> {
    let root = DeTable::parse(text).ok()?;
    let (mut table, mut found) = (root.get_ref(), None);
    for (depth, wanted) in (1..).zip(keys) {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == wanted) else { break };
        let before = text.get(..key.span().start).unwrap_or_default();
        found = Some((depth, before.matches('\n').count() + 1));
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
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
        load_in(tempfile::tempdir().unwrap().path(), home, project)
    }

    fn load_in(folder: &Path, home: &str, project: &str) -> Result<Config, Error> {
        let (at_home, at_project) = (folder.join("home"), folder.join("project/sub"));
        std::fs::create_dir_all(&at_home).unwrap();
        std::fs::create_dir_all(&at_project).unwrap();
        std::fs::write(at_home.join(FILE), home).unwrap();
        std::fs::write(folder.join("project").join(FILE), project).unwrap();
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
    fn who_could_never_be_told_is_shown_with_its_line() {
        let check = |home: &str, project: &str, wanted: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let config = load_in(folder.path(), home, project).unwrap();
            let found = config.mistakes();
            assert_eq!(found.len(), wanted.len(), "{found:#?}");
            for (mistake, part) in found.iter().zip(wanted) {
                assert!(mistake.contains(part), "{mistake} should say {part}");
            }
            assert_eq!(config.must_be_usable().is_ok(), wanted.is_empty());
        };
        check("[notify.ops]\nwebhook = \"https://example.org/x\"\n", "", &[]);
        let places = "\n[notify.ops]\ndefault = true\nwebhook = \"ops.example.org\"\n";
        check("", places, &["project/relais.toml, line 4: [notify.ops] `webhook`: relative URL without a base"]);
        check(places, "[notify.ops]\ndefault = false\n", &["home/relais.toml, line 4: [notify.ops] `webhook`"]);
        check(
            "[notify.ops]\nwebhook = \"ftp://example.org\"\n",
            "",
            &["line 2: [notify.ops] `webhook`: it is called by"],
        );
        check("[notify]\nops = { default = true }\n", "", &["line 2: [notify.ops] needs exactly one of"]);
        check("[notify.ops]\nemail = [\"a@b.org\"]\n", "", &["line 2: [notify.ops] `email` needs a mail server"]);
        check(
            "[notify.ops]\nwebhook = \"${NOT_SET_ANYWHERE}\"\n",
            "",
            &["line 2: [notify.ops] `webhook`: `NOT_SET_ANY"],
        );
        let unset = "[notify.ops]\nwebhook = \"https://x.org\"\nsecret = \"${NOT_SET_ANYWHERE}\"\n";
        check(unset, "", &["line 3: [notify.ops] `secret`: `NOT_SET_ANYWHERE` is not defined; set the variable"]);
        let command = "[notify.ops]\ncommand = [\"page\", \"${NOT_SET_ANYWHERE}\"]\n";
        check(command, "", &["line 2: [notify.ops] `command`: `NOT_SET_ANYWHERE` is not defined"]);
        check("[smtp]\nport = 25\n", "", &["line 1: [smtp] needs a `host`"]);
        let smtp = "[smtp]\nhost = \"h\"\nfrom = \"a@b.org\"\nuser = \"u\"\npassword = \"${NOT_SET_ANYWHERE}\"\n";
        check(smtp, "", &["line 5: [smtp] `password`: `NOT_SET_ANYWHERE` is not defined"]);
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let error = load("", "[providers.openai]\nmax_curent = 3\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("max_curent"), "{error}");
    }
}
