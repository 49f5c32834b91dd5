//! `relais agents`: those that are kept, for workflows to name.

use std::path::PathBuf;

use relais_service::source_of;

use crate::exit::Exit;
use crate::library::{Agent, Employment};
use crate::lists::{List, json_lines};
use crate::screen::{self, Paint};
use crate::session::{Global, Session};
use crate::words;

/// List, show, keep and delete agents that kept workflows name
///
/// A change of an agent is a new version of each workflow that uses it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais agents
  relais agents save writer.yaml
  relais agents save writer.yaml --to writer
  relais agents show writer
  relais agents delete writer

A file says what an agent of a workflow file says:
  model: openai/gpt-4o-mini
  instructions: Write short sentences.
  tools: [read_file]")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// One JSON object per agent
    #[arg(long)]
    json: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show one agent: what is known of it, and its definition
    Show {
        /// Id or name
        agent: String,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Keep the agent in a file as a new one, or as a change of one
    Save(Save),
    /// Delete an agent that no workflow uses
    Delete {
        /// Id or name
        agent: String,
    },
}

#[derive(clap::Args)]
struct Save {
    /// YAML or JSON with what the agent is: model, instructions, tools, …
    file: PathBuf,
    /// The agent that is changed: its id or name; without it a new one is made
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// What workflows call it [default: of a new one, the name of the file]
    #[arg(long)]
    name: Option<String>,
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| match args.what {
        None => list(session, usize::from(args.limit), args.json).await,
        Some(What::Show { agent, json }) => show(session, &agent, json).await,
        Some(What::Save(save)) => keep(session, save).await,
        Some(What::Delete { agent }) => {
            session.delete_agent(&agent).await?;
            screen::note(&format!("deleted {}", words::line(&agent)));
            Ok(Exit::Done)
        }
    })
}

async fn list(session: &Session, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.agents(limit).await?;
    let none = "no agents are kept; `relais agents save FILE` keeps one";
    List { items: &found, more, json, none }.show(["AGENT", "NAME", "MODEL", "DESCRIPTION", "CHANGED"], cells)
}

fn cells(one: &Agent) -> [String; 5] {
    let model = one.definition["model"].as_str().unwrap_or_default();
    [
        one.id.to_string(),
        words::shorten(&one.name, 40),
        words::shorten(model, 40),
        words::shorten(&one.description, 60),
        one.updated_at.clone(),
    ]
}

async fn show(session: &Session, agent: &str, json: bool) -> anyhow::Result<Exit> {
    let one = session.agent(agent).await?;
    if json {
        return json_lines(&[one]);
    }
    screen::note(&format!("{}  {}", Paint::stderr().bold(&words::line(&one.name)), one.id));
    if !one.description.is_empty() {
        screen::note(&one.description);
    }
    // The definition alone on standard output: it can be saved as a file again.
    screen::data(&format!("{:#}", one.definition))?;
    Ok(Exit::Done)
}

async fn keep(session: &Session, save: Save) -> anyhow::Result<Exit> {
    let source = source_of(&save.file)?;
    let definition = match relais_dialects::read_agent(&source) {
        Ok(definition) => definition,
        Err(problems) => {
            screen::note(&screen::colored(&source.render(&problems, Paint::stderr().0)));
            return Ok(Exit::Usage);
        }
    };
    let Save { file, to, name, description } = save;
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = if to.is_some() { name } else { name.or_else(stem) };
    let kept = session.employ(to.as_deref(), Employment { name, description, definition }).await?;
    screen::note(&format!("{} is kept", words::line(&kept.name)));
    screen::out(&kept.id.to_string())?;
    Ok(Exit::Done)
}
