//! `relais trust`: which `relais.toml` of a project the user believes.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use relais_service::config::{self, project, trust};
use serde::Serialize;

use crate::exit::Exit;
use crate::lists::List;
use crate::session::Global;
use crate::{screen, words};

use project::Project;
use trust::{Standing, Trust};

/// Trust the relais.toml of a project, after a look at what it redirects, starts and reads
///
/// A relais.toml in the current folder or one above it may be anybody's. Until you trust it only its `default_model`
/// and `timezone` are used. What is trusted is what the file says now: when it changes, you are asked again. The file in
/// your home folder is always trusted. RELAIS_TRUST=1 trusts the file that a command finds, for scripts.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais trust                     the file that commands find here
  relais trust ~/projects/shop --yes
  relais trust --list
  relais trust --revoke")]
pub struct Args {
    /// The file, or the folder that it is in [default: the one that commands find here]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Do not ask
    #[arg(long, short, conflicts_with_all = ["list", "revoke"])]
    yes: bool,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// One JSON object per file, with --list
    #[arg(long, requires = "list")]
    json: bool,
    /// Trust it no more
    #[arg(long)]
    revoke: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let home = config::home(global.home.clone())?;
    let trust = Trust::read(&home)?;
    match (args.list, args.revoke) {
        (true, _) => list(&trust, args.json),
        (false, true) => revoke(trust, args.path, &home),
        (false, false) => add(trust, args.path, &home, args.yes),
    }
}

fn add(mut trust: Trust, path: Option<PathBuf>, home: &Path, yes: bool) -> anyhow::Result<Exit> {
    let project = match path {
        Some(path) => Project::read(&named(path))?,
        None => found(home)?,
    };
    let (file, deeds) = (project.file.display(), project.deeds());
    if trust.standing(&project) == Standing::Trusted {
        screen::note(&format!("{file} is trusted already"));
        return Ok(Exit::Done);
    }
    if deeds.is_empty() {
        screen::note(&format!("{file} redirects, starts and reads nothing; it needs no trust"));
        return Ok(Exit::Done);
    }
    let lines = deeds.iter().map(|deed| format!("  {deed}\n"));
    screen::note(&format!("{file}\n{}", lines.collect::<String>()));
    if !yes && !agreed()? {
        screen::note("not trusted");
        return Ok(Exit::Failed);
    }
    trust.add(&project, jiff::Timestamp::now().as_millisecond())?;
    screen::note(&format!(
        "trusted, as it is now; `relais trust --revoke {}` takes it back",
        words::quoted(&file.to_string())
    ));
    Ok(Exit::Done)
}

fn found(home: &Path) -> anyhow::Result<Project> {
    let current = std::env::current_dir().context("the current folder cannot be read")?;
    let none = || format!("there is no {} of a project here; name one: relais trust PATH", config::FILE);
    Project::find(&current, home)?.with_context(none)
}

/// A folder means the file in it.
fn named(path: PathBuf) -> PathBuf {
    if path.is_dir() { path.join(config::FILE) } else { path }
}

fn agreed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nobody can be asked here; `relais trust --yes` trusts it without a question");
    }
    screen::piece("Trust it? [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn revoke(mut trust: Trust, path: Option<PathBuf>, home: &Path) -> anyhow::Result<Exit> {
    let file = match path {
        // A folder that is gone cannot be told from a file; what is in the list is what was meant.
        Some(path) => {
            let (as_file, in_folder) = (project::resolved(&path), project::resolved(&path.join(config::FILE)));
            if trust.all().any(|(file, _)| file == as_file) { as_file } else { in_folder }
        }
        None => found(home)?.file,
    };
    if !trust.revoke(&file)? {
        bail!("{} was not trusted; `relais trust --list` shows what is", file.display());
    }
    screen::note(&format!("{} is not trusted any more", file.display()));
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Row {
    file: String,
    trusted_at: i64,
    status: &'static str,
}

fn list(trust: &Trust, json: bool) -> anyhow::Result<Exit> {
    let status = |file: &Path| match Project::read(file).map(|project| trust.standing(&project)) {
        Ok(Standing::Trusted) => "trusted",
        Ok(Standing::Changed | Standing::Unknown) => "changed since",
        Err(_) => "cannot be read",
    };
    let row = |(file, trusted): (&Path, &trust::Trusted)| Row {
        file: file.display().to_string(),
        trusted_at: trusted.at,
        status: status(file),
    };
    let rows: Vec<Row> = trust.all().map(row).collect();
    let list = List { items: &rows, more: false, json, none: "no project's file is trusted" };
    list.show(["FILE", "TRUSTED", "STATUS"], |row| {
        [row.file.clone(), words::instant(row.trusted_at), row.status.to_owned()]
    })
}
