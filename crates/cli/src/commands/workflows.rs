//! `relais workflows`: those that are kept, with a version for each change.

use std::path::PathBuf;

use clap::Subcommand;
use relais_server::views::{DeletionView, VersionView};
use relais_service::{Error, Removal, WorkflowStatus};

use crate::definition::Reading;
use crate::exit::Exit;
use crate::library::{Shelved, Shelving};
use crate::lists::{List, json_lines};
use crate::screen::{self, Paint};
use crate::session::{Global, Session};
use crate::words::counted;
use crate::{begin, consent, words};

/// List, show, keep and take away workflows
///
/// A kept workflow is started by its id, alias or name: `relais run NAME`. Kept definitions read no files and no
/// environment; they may name other kept workflows and agents.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais workflows
  relais workflows save flow.yaml --alias prices
  relais workflows save flow.yaml --to prices
  relais workflows show prices
  relais workflows versions prices
  relais workflows rollback prices --to 3
  relais workflows pause prices
  relais workflows delete prices
  relais run prices")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// One JSON object per workflow
    #[arg(long)]
    json: bool,
    /// The archived, too
    #[arg(long)]
    archived: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Subcommand)]
enum What {
    /// Show one workflow: what is known of it, and the text of its newest version
    Show {
        /// Id, alias or name
        workflow: String,
        /// An older version instead, by its number
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Keep the definition in a file as a new workflow, or as a new version of one
    Save(Save),
    /// Offer a workflow as a tool and an agent of its own
    Publish {
        /// Id, alias or name
        workflow: String,
        /// No longer
        #[arg(long)]
        off: bool,
    },
    /// List the versions of a workflow, newest first, and why each was made
    Versions {
        /// Id, alias or name
        workflow: String,
        /// One JSON object per version
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Make a new version that says what an old one said; no version is lost
    Rollback {
        /// Id, alias or name
        workflow: String,
        /// The number of the old version
        #[arg(long, value_name = "N")]
        to: u64,
    },
    /// Take the tools as they are now for the known ones, so that runs no longer warn that they have changed
    AcceptTools {
        /// Id, alias or name
        workflow: String,
    },
    /// Let its triggers start nothing until it is resumed; it may still be started by hand
    Pause {
        /// Id, alias or name
        workflow: String,
    },
    /// Let a paused or archived workflow be as before
    Resume {
        /// Id, alias or name
        workflow: String,
    },
    /// Hide a workflow: nothing starts it, and lists leave it out; `resume` brings it back
    Archive {
        /// Id, alias or name
        workflow: String,
    },
    /// Delete a workflow for good, with its versions, triggers and schedules, and its runs with outputs and artifacts
    ///
    /// Shows what goes and asks once. While runs of it are active, or other workflows call it, it is refused. What its
    /// runs have used stays booked. To keep everything and only hide it, archive it instead.
    Delete {
        /// Id, alias or name
        workflow: String,
        /// Cancel its active runs first, and do not mind workflows that call it
        #[arg(long)]
        force: bool,
        /// Keep its runs, their outputs and artifacts
        #[arg(long)]
        keep_runs: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(clap::Args)]
struct Save {
    /// Workflow file, of any format that `--format` takes
    file: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// The workflow that this is a new version of: its id, alias or name; without it a new workflow is made
    #[arg(long, value_name = "WORKFLOW")]
    to: Option<String>,
    /// What it is called, in place of what the file says
    #[arg(long)]
    name: Option<String>,
    /// Another name that is accepted wherever the id is; no two workflows have the same
    #[arg(long)]
    alias: Option<String>,
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| match args.what {
        None => list(session, args.archived, usize::from(args.limit), args.json).await,
        Some(what) => what.run(session).await,
    })
}

impl What {
    async fn run(self, session: &Session) -> anyhow::Result<Exit> {
        use WorkflowStatus::{Active, Archived, Paused};
        match self {
            What::Show { workflow, version: None, json } => show(session, &workflow, json).await,
            What::Show { workflow, version: Some(version), json } => show_old(session, &workflow, version, json).await,
            What::Save(save) => keep(session, save).await,
            What::Publish { workflow, off } => publish(session, &workflow, !off).await,
            What::Versions { workflow, json, limit } => versions(session, &workflow, limit.into(), json).await,
            What::Rollback { workflow, to } => roll_back(session, &workflow, to).await,
            What::AcceptTools { workflow } => accept_tools(session, &workflow).await,
            What::Pause { workflow } => set(session, &workflow, Paused, "is paused: its triggers start nothing").await,
            What::Resume { workflow } => set(session, &workflow, Active, "is active").await,
            What::Archive { workflow } => set(session, &workflow, Archived, "is archived: nothing starts it").await,
            What::Delete { workflow, force, keep_runs, yes } => {
                delete(session, &workflow, Removal { force, keep_runs }, yes).await
            }
        }
    }
}

async fn list(session: &Session, archived: bool, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.workflows(archived, limit).await?;
    let none = "no workflows are kept; `relais workflows save FILE` keeps one";
    let header = ["WORKFLOW", "NAME", "ALIAS", "VERSION", "STATUS", "FORMAT", "CHANGED"];
    List { items: &found, more, json, none }.show(header, cells)
}

fn cells(one: &Shelved) -> [String; 7] {
    [
        one.id.to_string(),
        words::shorten(&one.name, 40),
        one.alias.clone().unwrap_or_default(),
        one.version.to_string(),
        status(one).to_owned(),
        one.format.clone().unwrap_or_default(),
        one.updated_at.clone(),
    ]
}

fn status(one: &Shelved) -> &'static str {
    match one.status {
        WorkflowStatus::Active if one.version == 0 => "empty",
        WorkflowStatus::Active => "active",
        WorkflowStatus::Paused => "paused",
        WorkflowStatus::Archived => "archived",
    }
}

async fn show(session: &Session, workflow: &str, json: bool) -> anyhow::Result<Exit> {
    let one = session.workflow(workflow).await?;
    if json {
        return json_lines(&[one]);
    }
    let alias = one.alias.as_ref().map(|alias| format!("  alias {alias}")).unwrap_or_default();
    let published = if one.published { "  published" } else { "" };
    let name = Paint::stderr().bold(&words::line(&one.name));
    screen::note(&format!("{name}  {}  version {}{published}\n{}{alias}", status(&one), one.version, one.id));
    if !one.description.is_empty() {
        screen::note(&one.description);
    }
    // The text alone on standard output: it can be saved as a file again.
    one.definition.iter().try_for_each(|text| screen::data(text.trim_end()))?;
    Ok(Exit::Done)
}

async fn keep(session: &Session, save: Save) -> anyhow::Result<Exit> {
    let source = relais_service::source_of(&save.file)?;
    let Save { to, name, alias, description, .. } = save;
    let format = save.reading.options().format.map(relais_service::Format::word);
    let definition = Some(source.text.clone());
    let shelving = Shelving { name, alias, description, definition, format, ..Shelving::default() };
    match session.shelve(to.as_deref(), shelving).await {
        Ok(kept) => {
            screen::note(&format!("{} is kept as version {}", words::line(&kept.name), kept.version));
            screen::out(&kept.id.to_string())?;
            Ok(Exit::Done)
        }
        Err(Error::Findings(findings)) => {
            begin::show(&source, findings);
            Ok(Exit::Usage)
        }
        Err(error) => Err(error.into()),
    }
}

async fn publish(session: &Session, workflow: &str, published: bool) -> anyhow::Result<Exit> {
    let shelving = Shelving { published: Some(published), ..Shelving::default() };
    let kept = session.shelve(Some(workflow), shelving).await?;
    let how = if published { "is offered as a tool and an agent" } else { "is no longer offered" };
    screen::note(&format!("{} {how}", words::line(&kept.name)));
    Ok(Exit::Done)
}

async fn versions(session: &Session, workflow: &str, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.versions(workflow, limit).await?;
    let none = "the workflow is empty; `relais workflows save FILE --to WORKFLOW` gives it its first version";
    List { items: &found, more, json, none }.show(["VERSION", "MADE", "WHY", "FORMAT", "RUNS"], version_cells)
}

fn version_cells(one: &VersionView) -> [String; 5] {
    let runs = if one.runnable { "yes" } else { "no" };
    let reason = words::shorten(&one.reason, 60);
    [one.version.to_string(), one.created_at.clone(), reason, one.format.clone(), runs.to_owned()]
}

async fn show_old(session: &Session, workflow: &str, version: u64, json: bool) -> anyhow::Result<Exit> {
    let one = session.version(workflow, version).await?;
    if json {
        return json_lines(&[one]);
    }
    screen::note(&format!("version {}  {}  {}", one.version, words::line(&one.reason), one.created_at));
    one.definition.iter().try_for_each(|text| screen::data(text.trim_end()))?;
    Ok(Exit::Done)
}

async fn roll_back(session: &Session, workflow: &str, to: u64) -> anyhow::Result<Exit> {
    let kept = session.roll_back(workflow, to).await?;
    let name = words::line(&kept.name);
    screen::note(&format!("{name} is at version {}, which says what version {to} said", kept.version));
    Ok(Exit::Done)
}

async fn accept_tools(session: &Session, workflow: &str) -> anyhow::Result<Exit> {
    let (before, kept) = (session.workflow(workflow).await?.version, session.accept_tools(workflow).await?);
    let name = words::line(&kept.name);
    match kept.version == before {
        true => screen::note(&format!("{name} knows its tools as they are; nothing was changed")),
        false => screen::note(&format!("{name} is at version {}, which knows the tools as they are now", kept.version)),
    }
    Ok(Exit::Done)
}

async fn set(session: &Session, workflow: &str, status: WorkflowStatus, how: &str) -> anyhow::Result<Exit> {
    let kept = session.set_status(workflow, status).await?;
    screen::note(&format!("{} {how}", words::line(&kept.name)));
    Ok(Exit::Done)
}

async fn delete(session: &Session, workflow: &str, removal: Removal, yes: bool) -> anyhow::Result<Exit> {
    let goes = session.deletion(workflow, removal).await?;
    let name = words::line(&goes.name).into_owned();
    if !yes {
        screen::note(&format!("deleting {name} ({}) removes\n{}", goes.workflow_id, listed(&goes)));
        if !consent::given("delete it")? {
            screen::note("nothing was deleted");
            return Ok(Exit::Failed);
        }
    }
    session.delete_workflow(&goes.workflow_id.to_string(), removal).await?;
    let runs = match removal.keep_runs {
        true => "its runs stay".to_owned(),
        false => format!("{} went with it", runs(&goes)),
    };
    screen::note(&format!("deleted {name}; {runs}"));
    Ok(Exit::Done)
}

fn runs(goes: &DeletionView) -> String {
    let more = if goes.more_runs { "more than " } else { "" };
    format!("{more}{}", counted(goes.runs, "run"))
}

/// One line for each kind of thing that there is.
fn listed(goes: &DeletionView) -> String {
    let active =
        if goes.active_runs > 0 { format!(" ({} active, to be cancelled)", goes.active_runs) } else { String::new() };
    let versions = usize::try_from(goes.versions).unwrap_or(usize::MAX);
    let lines = [
        (versions, counted(versions, "version")),
        (goes.steps, counted(goes.steps, "step")),
        (goes.triggers, counted(goes.triggers, "trigger")),
        (goes.runs, format!("{} with outputs and artifacts{active}", runs(goes))),
    ];
    let there = lines.into_iter().filter(|(count, _)| *count > 0).map(|(_, line)| format!("  {line}"));
    there.collect::<Vec<_>>().join("\n")
}
