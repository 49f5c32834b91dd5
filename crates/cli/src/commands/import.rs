//! `relais import`: takes in what `relais export` wrote.

use anyhow::anyhow;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use relais_server::views::ImportedView;
use relais_service::{Error, OnClash};
use serde_json::Value;

use crate::exit::Exit;
use crate::lists::List;
use crate::session::{Global, Session};
use crate::{given, screen, words};

/// Keep the workflows and agents of an export; each gets an id of its own here
///
/// All of it comes in, or nothing. An agent that is here in just the same form is used as it is.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais import prices.json
  relais import prices.json --on-clash reuse

What --on-clash does about a name or an alias that something else has here:
  rename   takes it in as `NAME (2)`, without an alias; refuses what the export calls by its name
  reuse    uses the agent or the called workflow that is here in its place, and renames the rest
  refuse   takes in nothing")]
pub struct Args {
    /// What `relais export` wrote; - reads standard input
    file: String,
    /// What is done about a name that is taken
    #[arg(long, value_name = "HOW", default_value = "rename", value_parser = policies())]
    on_clash: OnClash,
    /// One JSON object per workflow
    #[arg(long)]
    json: bool,
}

fn policies() -> impl TypedValueParser<Value = OnClash> {
    PossibleValuesParser::new(OnClash::ALL.map(OnClash::word))
        .try_map(|word| OnClash::ALL.into_iter().find(|one| one.word() == word).ok_or("there is no such way"))
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let package = package(&args.file)?;
    let brought = global
        .serve(async |session: &Session| Ok(session.import(package, args.on_clash).await.map_err(with_our_flag)?))?;
    if !args.json {
        brought.iter().for_each(renamed);
    }
    let list = List { items: &brought, more: false, json: args.json, none: "nothing came in" };
    list.show(["WORKFLOW", "NAME", "ALIAS", "VERSION"], cells)
}

fn package(file: &str) -> anyhow::Result<Value> {
    let text = given::text(file)?;
    let help = "`relais workflows save` keeps a definition";
    serde_json::from_str(&text).map_err(|error| anyhow!("{file} is no export of Relais: no JSON, {error}; {help}"))
}

/// The service calls it as the API does.
fn with_our_flag(error: Error) -> Error {
    match error {
        Error::Conflict(text) => Error::Conflict(text.replace("`on_clash: ", "`--on-clash ")),
        other => other,
    }
}

fn renamed(one: &ImportedView) {
    let (before, name) = (words::shorten(&one.exported_name, 60), words::shorten(&one.name, 60));
    if before != name {
        screen::note(&format!("the name `{before}` is taken; it is `{name}` here"));
    }
    if let (Some(alias), None) = (&one.exported_alias, &one.alias) {
        screen::note(&format!("the alias `{}` is taken; `{name}` has none here", words::shorten(alias, 60)));
    }
}

fn cells(one: &ImportedView) -> [String; 4] {
    let alias = one.alias.clone().unwrap_or_default();
    [one.id.to_string(), words::shorten(&one.name, 60), alias, one.version.to_string()]
}
