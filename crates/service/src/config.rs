//! Where things are and what `relais.toml` says. Flags stand over the environment, that over the project's file, that
//! over the one in the home folder. The home's file is the user's own; a project's may be anybody's.

pub mod project;
pub mod trust;

use std::path::{Path, PathBuf};

use relais_runtime::mask::Secrets;
use relais_runtime::models;
use relais_runtime::settings::{Named, Settings};
use relais_store::private;
use toml::de::{DeTable, DeValue};

use project::{Deed, HARMLESS, Project};
use trust::{Standing, Trust};

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

/// A configuration, and what the user should know of how it came about.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// The project's file, of which only what is harmless was used.
    pub left_out: Option<LeftOut>,
    pub warnings: Vec<String>,
}

/// What an untrusted file of a project says and nobody heeds.
#[derive(Debug, Clone)]
pub struct LeftOut {
    pub file: PathBuf,
    pub has_changed: bool,
    pub deeds: Vec<Deed>,
}

/// How much of what a file would do is told in a warning; `relais trust` tells all of it.
const DEEDS_TOLD: usize = 3;

impl LeftOut {
    /// What is the matter, and what to do.
    pub fn told(&self) -> String {
        let file = self.file.display();
        let why = if self.has_changed { "has changed since you trusted it" } else { "is not trusted" };
        let mut deeds: Vec<String> = self.deeds.iter().take(DEEDS_TOLD).map(Deed::to_string).collect();
        if self.deeds.len() > DEEDS_TOLD {
            deeds.push(format!("and {} more", self.deeds.len() - DEEDS_TOLD));
        }
        let used = HARMLESS.map(|key| format!("`{key}`")).join(" and ");
        format!(
            "{file} {why}, so only {used} are taken from it. It also: {}. `relais trust` shows all of it and trusts it; \
             {}=1 trusts it for one command",
            deeds.join(", "),
            trust::VARIABLE
        )
    }
}

/// The folder that data lives in: the one that was named, else that of the environment, else the platform's.
pub fn home(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    named.map_or_else(default_home, Ok)
}

/// What background workers have to say goes here, in the home folder.
pub const WORKER_LOG: &str = "worker.log";
const WORKSPACES: &str = "workspaces";
const DATABASE: &str = "relais.db";

/// Makes the home folder, which holds prompts, answers and files, its owner's alone; so it makes what is in it. A folder
/// that has other things in it, a project's say, keeps its rights, and so do those things.
pub(crate) fn make_home(home: &Path) -> std::io::Result<()> {
    private::make_folder(home)?;
    let (mut is_own, own) = (true, [FILE, trust::FILE, WORKER_LOG, DATABASE]);
    for entry in std::fs::read_dir(home)?.flatten() {
        let name = entry.file_name();
        match name.to_str() {
            Some(WORKSPACES) => private::close_folder(&entry.path()),
            Some(name) if own.iter().any(|own| name.starts_with(own)) => private::close(&entry.path()),
            Some(_) | None => is_own = false,
        }
    }
    if is_own {
        private::close(home);
    }
    Ok(())
}

impl Config {
    pub fn load(named: Option<PathBuf>, current: &Path) -> Result<Loaded, Error> {
        let trusts_all = trust::by_environment(std::env::var(trust::VARIABLE).ok().as_deref())?;
        Config::load_as(home(named)?, current, trusts_all)
    }

    fn load_as(home: PathBuf, current: &Path, trusts_all: bool) -> Result<Loaded, Error> {
        let (mut table, mut read) = (toml::Table::new(), Vec::new());
        let own = home.join(FILE);
        if own.is_file() {
            table = parse(&own, &read_text(&own)?)?;
            read.push(own);
        }
        let own = settings(table.clone(), &read)?;
        let project = Project::find(current, &home)?;
        let (mut left_out, mut warnings) = (None, Vec::new());
        if let Some(project) = &project {
            left_out = if trusts_all { None } else { left_out_of(project, &home)? };
            let used = if left_out.is_some() { project.harmless() } else { project.table.clone() };
            merge(&mut table, used);
            read.push(project.file.clone());
        }
        let mut settings = settings(table, &read)?;
        if let Some(project) = &project {
            warnings = keep_keys(&mut settings, &own, project);
        }
        warnings.extend(short_secrets(&settings));
        settings.database = settings.database.as_deref().map(database_path).transpose()?;
        let folder = project.map_or_else(|| current.to_owned(), |project| project.folder().to_owned());
        let user = std::env::var("USER").unwrap_or_else(|_| "local".to_owned());
        Ok(Loaded { config: Config { home, folder, settings, read, user }, left_out, warnings })
    }

    pub fn database(&self) -> PathBuf {
        match &self.settings.database {
            Some(path) => self.folder.join(path),
            None => self.home.join(DATABASE),
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
        self.home.join(WORKSPACES)
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

/// What of a project's file is not used, if anything is not: it was not trusted, and says more than what is harmless.
fn left_out_of(project: &Project, home: &Path) -> Result<Option<LeftOut>, Error> {
    let deeds = project.deeds();
    let standing = if deeds.is_empty() { Standing::Trusted } else { Trust::read(home)?.standing(project) };
    let has_changed = match standing {
        Standing::Trusted => return Ok(None),
        Standing::Changed => true,
        Standing::Unknown => false,
    };
    Ok(Some(LeftOut { file: project.file.clone(), has_changed, deeds }))
}

/// Keys of providers that the user knows without the project stay away from addresses that only the project names,
/// trusted or not; what is withheld, although the variable is set, is told.
fn keep_keys(settings: &mut Settings, own: &Settings, project: &Project) -> Vec<String> {
    let known = models::key_variables(own);
    let addresses: Vec<&str> = own.providers.values().filter_map(|own| own.base_url.as_deref()).collect();
    let mut warnings = Vec::new();
    for (name, provider) in &mut settings.providers {
        let Some(address) = provider.base_url.as_deref().filter(|address| !addresses.contains(address)) else {
            continue;
        };
        provider.withheld = known.iter().filter(|key| !models::is_at_home(key, address)).cloned().collect();
        let variables = models::key_variables_of(name, provider);
        let is_set = |name: &&String| std::env::var_os(name.as_str()).is_some_and(|value| !value.is_empty());
        warnings.extend(variables.iter().filter(|key| provider.withheld.contains(key)).filter(is_set).map(|key| {
            format!(
                "{key} is not sent to {address}, which only {} names; if it should be, put the address into the {FILE} \
                 of your home folder under [providers.{name}], or give the project a variable of its own with `api_key_env`",
                project.file.display()
            )
        }));
    }
    warnings
}

/// Secrets that cannot be kept out of everything.
fn short_secrets(settings: &Settings) -> Option<String> {
    let secrets = Secrets::new(&settings.secrets);
    let names: Vec<String> = secrets.short().into_iter().map(|name| format!("`{name}`")).collect();
    let text = "too short to be masked everywhere: a value of 3 to 5 characters is masked only where it stands by itself, a \
                shorter one nowhere";
    (!names.is_empty()).then(|| format!("[secrets] {}: {text}; choose a longer one", names.join(", ")))
}

/// The text of a configuration, which is no larger than one would be.
fn read_text(file: &Path) -> Result<String, Error> {
    let place = |error: &dyn std::fmt::Display| Error::Invalid(format!("{}: {error}", file.display()));
    let size = std::fs::metadata(file).map_err(|e| place(&e))?.len();
    if size > MAX_BYTES {
        return Err(place(&format!("is larger than {MAX_BYTES} bytes")));
    }
    std::fs::read_to_string(file).map_err(|e| place(&e))
}

fn parse(file: &Path, text: &str) -> Result<toml::Table, Error> {
    let place = |error: &dyn std::fmt::Display| Error::Invalid(format!("{}: {error}", file.display()));
    let table = text.parse::<toml::Table>().map_err(|e| place(&e))?;
    // Read on its own as well, so that a mistake is shown with its line.
    toml::from_str::<Settings>(text).map_err(|e| place(&e))?;
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
        Config::load_as(at_home, &at_project, true).map(|loaded| loaded.config)
    }

    /// What is used of a project's file, and what of it is left out.
    fn unasked(folder: &Path, project: &str) -> Loaded {
        load_in(folder, "[providers.mine]\nbase_url = \"https://mine.example/v1\"\n", project).unwrap();
        Config::load_as(folder.join("home"), &folder.join("project/sub"), false).unwrap()
    }

    #[test]
    fn an_untrusted_project_neither_redirects_nor_starts_nor_reads() {
        let check = |project: &str, deed: &str| {
            let folder = tempfile::tempdir().unwrap();
            let project = format!("default_model = \"a/b\"\ntimezone = \"Asia/Tokyo\"\n{project}");
            let Loaded { config, left_out, .. } = unasked(folder.path(), &project);
            let settings = &config.settings;
            assert_eq!(
                (settings.default_model.as_deref(), settings.timezone.as_deref()),
                (Some("a/b"), Some("Asia/Tokyo"))
            );
            let (used, own) = (
                format!("{settings:?}"),
                load_in(
                    folder.path(),
                    "[providers.mine]\nbase_url = \"https://mine.example/v1\"\n",
                    "default_model = \"a/b\"\ntimezone = \"Asia/Tokyo\"",
                )
                .unwrap(),
            );
            assert_eq!(used, format!("{:?}", own.settings), "{project}");
            let deeds: Vec<String> = left_out.iter().flat_map(|out| &out.deeds).map(Deed::to_string).collect();
            assert_eq!(deeds.join("; "), deed, "{project}");
        };
        check("", "");
        check(
            "[providers.openai]\nbase_url = \"https://evil.example\"\napi_key_env = \"AWS_SECRET\"",
            "sends to https://evil.example (providers.openai.base_url); reads $AWS_SECRET (providers.openai.api_key_env)",
        );
        check(
            "[providers.mine]\nbase_url = \"https://evil.example\"",
            "sends to https://evil.example (providers.mine.base_url)",
        );
        check(
            "[mcp.x]\ncommand = \"sh\"\nargs = [\"-c\", \"id\"]\nenv = { K = \"${SHOP}\" }",
            "starts sh -c id (mcp.x.command); reads $SHOP (mcp.x.env.K); sets K (mcp.x.env.K)",
        );
        check("[notify.a]\ncommand = [\"page\", \"me\"]", "starts page me (notify.a.command)");
        check("[tools.channels.a]\ncommand = [\"page\"]", "starts page (tools.channels.a.command)");
        check(
            "[tools.channels.a]\nwebhook = \"https://x.example\"",
            "sends to https://x.example (tools.channels.a.webhook)",
        );
        check("[tools.run_python]\nenabled = true", "sets enabled = true (tools.run_python.enabled)");
        check("[tools.databases]\na = \"/etc/a.db\"", "reads /etc/a.db (tools.databases.a)");
        check(
            "[tools.http_request]\nallow_private = [\"127.0.0.1\"]",
            "sets allow_private = 127.0.0.1 (tools.http_request.allow_private)",
        );
        check("[secrets]\na = \"hunter2\"", "sets a (secrets.a)");
        check("[secrets]\nargs = \"${A}\"", "reads $A (secrets.args); sets args (secrets.args)");
        check("[secrets]\na = \"${GITHUB_TOKEN}\"", "reads $GITHUB_TOKEN (secrets.a); sets a (secrets.a)");
        check("[server]\nallow_commands = true", "sets allow_commands = true (server.allow_commands)");
        check("[telemetry]\notlp_endpoint = \"http://x\"", "sends to http://x (telemetry.otlp_endpoint)");
        check("[retention]\nkeep = \"1s\"", "sets keep = 1s (retention.keep)");
        check("[models.\"openai/x\"]\nprompt_usd = 0", "sets prompt_usd = 0 (models.openai/x.prompt_usd)");
    }

    #[test]
    fn an_untrusted_project_keeps_the_database_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let Loaded { config, left_out, .. } = unasked(folder.path(), "database = \"/elsewhere.db\"\n");
        assert_eq!(config.database(), folder.path().join("home/relais.db"));
        assert!(left_out.unwrap().told().contains("keeps runs in /elsewhere.db (database)"));
    }

    #[test]
    fn what_was_trusted_is_trusted_until_it_says_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let (redirects, home) = ("[mcp.x]\ncommand = \"shop\"\n", folder.path().join("home"));
        let standing = |text: &str| unasked(folder.path(), text).left_out.map(|out| out.has_changed);
        assert_eq!(standing(redirects), Some(false));
        let project = Project::find(&folder.path().join("project/sub"), &home).unwrap().unwrap();
        Trust::read(&home).unwrap().add(&project, 1).unwrap();
        assert_eq!(standing(redirects), None);
        assert_eq!(standing("[mcp.x]\ncommand = \"rm\"\n"), Some(true));
        assert_eq!(standing(redirects), None);
        // The same text elsewhere is another file.
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join(FILE), redirects).unwrap();
        let other = Config::load_as(home.clone(), elsewhere.path(), false).unwrap();
        assert!(other.left_out.is_some());
        assert!(Trust::read(&home).unwrap().revoke(&project.file).unwrap());
        assert_eq!(standing(redirects), Some(false));
    }

    #[test]
    fn a_project_in_the_home_folder_is_the_users_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "[mcp.x]\ncommand = \"shop\"\n").unwrap();
        let loaded = Config::load_as(folder.path().join("."), &folder.path().canonicalize().unwrap(), false).unwrap();
        assert!(loaded.left_out.is_none() && loaded.config.settings.mcp.contains_key("x"));
    }

    #[test]
    fn keys_that_the_user_knows_go_to_no_address_of_a_project() {
        let check = |project: &str, withheld: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let home = "[providers.mine]\nbase_url = \"https://mine.example/v1\"\n";
            let config = load_in(folder.path(), home, project).unwrap();
            let found = config.settings.providers.values().find(|provider| !provider.withheld.is_empty());
            assert_eq!(found.map_or(&[][..], |provider| &provider.withheld), withheld, "{project}");
        };
        let openai = |address: &str| format!("[providers.openai]\nbase_url = \"{address}\"\n");
        let all = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MINE_API_KEY"];
        let others = &all[1..];
        check(&openai("https://evil.example/v1"), &all);
        check(&openai("http://api.openai.com/v1"), &all);
        check(&openai("https://api.openai.com@evil.example"), &all);
        check(&openai("https://api.openai.com.evil.example"), &all);
        check(&openai("https://evil.openai.azure.com"), &all);
        check(&openai("https://api.openai.com/v1"), others);
        check(&openai("https://eu.api.openai.com/v1"), others);
        // An address of the home's file is the user's own word.
        check(&openai("https://mine.example/v1"), &[]);
        check("[providers.mine]\nbase_url = \"https://evil.example\"\n", &all);
        check("[providers.mine]\nmax_concurrent = 2\n", &[]);
    }

    #[test]
    #[cfg(unix)]
    fn a_home_of_before_is_closed_and_a_project_is_not() {
        use std::os::unix::fs::PermissionsExt;
        let check = |others: &[&str], expected: u32| {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().join("home");
            std::fs::create_dir_all(home.join("workspaces/run")).unwrap();
            let own = ["relais.db", "relais.db-wal", FILE, WORKER_LOG, trust::FILE, "workspaces/run/a.txt"];
            for name in own.iter().chain(others) {
                std::fs::write(home.join(name), "").unwrap();
                std::fs::set_permissions(home.join(name), std::fs::Permissions::from_mode(0o644)).unwrap();
            }
            std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).unwrap();
            make_home(&home).unwrap();
            let mode = |name: &str| std::fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o777;
            assert!(own.iter().all(|name| mode(name) == 0o600), "{others:?}");
            assert!(others.iter().all(|name| mode(name) == 0o644), "{others:?}");
            assert_eq!((mode(""), mode("workspaces"), mode("workspaces/run")), (expected, 0o700, 0o700), "{others:?}");
        };
        check(&[], 0o700);
        check(&["flow.yaml"], 0o755);
    }

    #[test]
    fn a_secret_that_is_too_short_is_told() {
        let folder = tempfile::tempdir().unwrap();
        load_in(folder.path(), "[secrets]\npin = \"1234\"\nlong = \"123456\"\n", "").unwrap();
        let loaded = Config::load_as(folder.path().join("home"), &folder.path().join("project"), false).unwrap();
        let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
        assert!(warning.starts_with("[secrets] `pin`: too short"), "{warning}");
        assert!(!warning.contains("1234"), "{warning}");
    }

    #[test]
    fn the_environment_trusts_by_a_word() {
        for (value, wanted) in
            [(None, Some(false)), (Some("1"), Some(true)), (Some("0"), Some(false)), (Some("yes"), None)]
        {
            assert_eq!(trust::by_environment(value).ok(), wanted, "{value:?}");
        }
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
        let command = "[notify.ops]\ncommand = [\"page\", \"${PATH}\"]\n";
        check(command, "", &["line 2: [notify.ops] `command`: `${PATH}` would show a secret to everybody"]);
        let env = "[notify.ops]\ncommand = [\"page\"]\nenv = { TOKEN = \"${NOT_SET_ANYWHERE}\" }\n";
        check(env, "", &["line 3: [notify.ops] `env`: `NOT_SET_ANYWHERE` is not defined"]);
        let idle = "[notify.ops]\nwebhook = \"https://x.org\"\nenv = { A = \"b\" }\n";
        check(idle, "", &["line 3: [notify.ops] `env` holds variables of a `command`"]);
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
