//! `relais models`: providers, their keys, and the models whose prices are known.

use comfy_table::{Table, presets};
use relais_runtime::model::ModelFacts;
use relais_runtime::models::Listed;
use serde_json::json;

use crate::exit::Exit;
use crate::screen;
use crate::session::Global;

/// List providers, whether they have a key, and the models whose prices are known
///
/// Other models of a provider work as well; without a known price a budget in dollars cannot be kept.
#[derive(clap::Args)]
pub struct Args {
    /// One JSON object per provider
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let models = global.definitions()?.models;
    let providers = models.list();
    if args.json {
        for provider in &providers {
            screen::out(&line(provider))?;
        }
        return Ok(Exit::Done);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["MODEL", "CONTEXT", "PROMPT $/M", "CACHED $/M", "COMPLETION $/M"]);
    for provider in &providers {
        table.add_row([heading(provider)]);
        for (model, facts) in &provider.models {
            table.add_row(cells(provider, model, facts));
        }
    }
    table.add_row(["sim/SEED: made-up answers, no key"]);
    table.add_row(["script/FILE: answers from a file, no key"]);
    screen::out(&screen::table(&table))?;
    screen::note(&format!("prices as of {}; [models] in relais.toml replaces them", models.prices_as_of()));
    Ok(Exit::Done)
}

fn heading(provider: &Listed) -> String {
    let key = match (provider.has_key, provider.usable) {
        (true, _) => "has a key".to_owned(),
        (false, true) => "needs no key".to_owned(),
        (false, false) => format!("no key: set {}", provider.key_variables.join(" or ")),
    };
    format!("{}/: {} ({key})", provider.provider, provider.base_url)
}

fn cells(provider: &Listed, model: &str, facts: &ModelFacts) -> [String; 5] {
    let dollars = |nanos: Option<u64>| nanos.map_or_else(String::new, |n| format!("{:.2}", n as f64 / 1e3));
    [
        format!("  {}/{}", provider.provider, model.trim_start_matches(&format!("{}/", provider.provider))),
        facts.context_tokens.map_or_else(String::new, |n| n.to_string()),
        dollars(facts.prompt_nanos),
        dollars(facts.cached_nanos),
        dollars(facts.completion_nanos),
    ]
}

fn line(provider: &Listed) -> String {
    let model = |(name, facts): &(String, ModelFacts)| {
        json!({
            "model": name,
            "context_tokens": facts.context_tokens,
            "prompt_nanos": facts.prompt_nanos,
            "cached_nanos": facts.cached_nanos,
            "completion_nanos": facts.completion_nanos,
        })
    };
    json!({
        "provider": provider.provider,
        "base_url": provider.base_url,
        "key_variables": provider.key_variables,
        "has_key": provider.has_key,
        "usable": provider.usable,
        "models": provider.models.iter().map(model).collect::<Vec<_>>(),
    })
    .to_string()
}
