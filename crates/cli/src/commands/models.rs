//! `relais models`: providers, their keys, and the models whose prices are known.

use crate::exit::Exit;
use crate::lists::{json_lines, table};
use crate::offer::{Model, Provider};
use crate::screen;
use crate::session::{Global, block_on};

/// List providers, whether they have a key, and the models whose prices are known
///
/// Other models of a provider work as well; without a known price a budget in dollars cannot be kept.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais models
  relais models --server http://127.0.0.1:7300")]
pub struct Args {
    /// One JSON object per provider
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let (providers, prices) = match global.client()? {
        Some(client) => block_on(async { Ok((client.models().await?, "prices as the server knows them".to_owned())) })?,
        None => here(global)?,
    };
    if args.json {
        return json_lines(&providers);
    }
    screen::out(&format!("{}\n", providers_table(&providers)))?;
    let models = providers.iter().flat_map(|provider| &provider.models);
    let header = ["MODEL", "CONTEXT", "PROMPT $/M", "CACHED $/M", "COMPLETION $/M"];
    screen::out(&table(header, models.map(cells)))?;
    screen::note(&prices);
    Ok(Exit::Done)
}

fn here(global: &Global) -> anyhow::Result<(Vec<Provider>, String)> {
    let models = global.definitions()?.models;
    let prices = format!("prices as of {}; [models] in relais.toml replaces them", models.prices_as_of());
    Ok((models.list().into_iter().map(Provider::from).collect(), prices))
}

fn providers_table(providers: &[Provider]) -> String {
    let made_up = [("sim/", "made-up answers: sim/SEED"), ("script/", "answers from a file: script/FILE")];
    let made_up = made_up.map(|(name, what)| [name, "not needed", what].map(str::to_owned));
    table(["PROVIDER", "KEY", "ADDRESS"], providers.iter().map(provider_cells).chain(made_up))
}

fn provider_cells(provider: &Provider) -> [String; 3] {
    let key = match (provider.has_key, provider.usable) {
        (true, _) => "there".to_owned(),
        (false, true) => "not needed".to_owned(),
        (false, false) => format!("set {}", provider.key_variables.join(" or ")),
    };
    let key = match provider.left_out_s {
        Some(seconds) => format!("{key}; left out for {seconds} s: it failed several times in a row"),
        None => key,
    };
    [format!("{}/", provider.provider), key, provider.base_url.clone().unwrap_or_default()]
}

fn cells(model: &Model) -> [String; 5] {
    let dollars = |nanos: Option<u64>| nanos.map_or_else(String::new, |n| format!("{:.2}", n as f64 / 1e3));
    [
        model.model.clone(),
        model.context_tokens.map_or_else(String::new, |n| n.to_string()),
        dollars(model.prompt_nanos),
        dollars(model.cached_nanos),
        dollars(model.completion_nanos),
    ]
}
