//! `relais workflows`: those that are kept, with a version for each change.

use std::path::PathBuf;

use clap::Subcommand;
use comfy_table::{Table, presets};
use relais_plan::{Problem, Source};
use relais_service::{Error, Finding, WorkflowStatus};

use crate::definition::Reading;
use crate::exit::Exit;
use crate::library::{Shelved, Shelving};
use crate::screen::{self, Paint};
use crate::session::{Global, Session};
use crate::{begin, words};

/// List, show and keep workflows
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
        Some(What::Show { workflow, json }) => show(session, &workflow, json).await,
        Some(What::Save(save)) => keep(session, save).await,
        Some(What::Publish { workflow, off }) => publish(session, &workflow, !off).await,
    })
}

async fn list(session: &Session, archived: bool, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.workflows(archived, limit).await?;
    if json {
        found.iter().try_for_each(|one| anyhow::Ok(screen::out(&serde_json::to_string(one)?)?))?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        screen::note("no workflows are kept; `relais workflows save FILE` keeps one");
        return Ok(Exit::Done);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["WORKFLOW", "NAME", "ALIAS", "VERSION", "STATUS", "FORMAT", "CHANGED"]);
    for one in &found {
        table.add_row(cells(one));
    }
    screen::out(&screen::table(&table))?;
    if more {
        screen::note("there are more; --limit shows them");
    }
    Ok(Exit::Done)
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
        screen::out(&serde_json::to_string(&one)?)?;
        return Ok(Exit::Done);
    }
    let alias = one.alias.as_ref().map(|alias| format!("  alias {alias}")).unwrap_or_default();
    let published = if one.published { "  published" } else { "" };
    let name = Paint::stderr().bold(&screen::for_terminal(&one.name));
    screen::note(&format!("{name}  {}  version {}{published}\n{}{alias}", status(&one), one.version, one.id));
    if !one.description.is_empty() {
        screen::note(&screen::for_terminal(&one.description));
    }
    // The text alone on standard output: it can be saved as a file again.
    one.definition.iter().try_for_each(|text| screen::out(text.trim_end()))?;
    Ok(Exit::Done)
}

async fn keep(session: &Session, save: Save) -> anyhow::Result<Exit> {
    let source = relais_service::source_of(&save.file)?;
    let Save { to, name, alias, description, .. } = save;
    let format = save.reading.options().format.map(relais_service::Format::word);
    let (definition, published) = (Some(source.text.clone()), None);
    let shelving = Shelving { name, alias, description, definition, format, published };
    match session.shelve(to.as_deref(), shelving).await {
        Ok(kept) => {
            screen::note(&format!("{} is kept as version {}", screen::for_terminal(&kept.name), kept.version));
            screen::out(&kept.id.to_string())?;
            Ok(Exit::Done)
        }
        Err(Error::Findings(findings)) => {
            told(&source, findings);
            Ok(Exit::Usage)
        }
        Err(error) => Err(error.into()),
    }
}

fn told(source: &Source, findings: Vec<Finding>) {
    let problems: Vec<Problem> = findings.into_iter().map(begin::problem).collect();
    screen::note(&source.render(&problems, Paint::stderr().0));
}

async fn publish(session: &Session, workflow: &str, published: bool) -> anyhow::Result<Exit> {
    let shelving = Shelving { published: Some(published), ..Shelving::default() };
    let kept = session.shelve(Some(workflow), shelving).await?;
    let how = if published { "is offered as a tool and an agent" } else { "is no longer offered" };
    screen::note(&format!("{} {how}", screen::for_terminal(&kept.name)));
    Ok(Exit::Done)
}
