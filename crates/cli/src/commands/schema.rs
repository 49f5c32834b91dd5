//! `relais schema`: the JSON Schema of the file format.

use crate::exit::Exit;
use crate::screen;

/// Print the JSON Schema of the workflow file format, for editors and assistants
#[derive(clap::Args)]
#[command(after_help = "Example:\n  relais schema > relais.schema.json")]
pub struct Args {}

pub fn run(_: Args) -> anyhow::Result<Exit> {
    screen::data(&serde_json::to_string_pretty(&relais_dialects::json_schema())?)?;
    Ok(Exit::Done)
}
