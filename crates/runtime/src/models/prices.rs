//! What models cost and hold: the table that is built in, with what the settings put over it.

use std::collections::BTreeMap;

use relais_engine::Usage;
use serde::Deserialize;

use crate::model::ModelFacts;
use crate::settings::ModelSettings;

const BUILT_IN: &str = include_str!("../../prices.json");
/// A dollar per million tokens is a thousand billionths per token.
const NANOS_PER_USD_PER_MILLION: f64 = 1000.0;

/// Facts by `provider/model`.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    models: BTreeMap<String, ModelSettings>,
    pub as_of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// For whoever opens the file.
    #[serde(rename = "note")]
    _note: String,
    as_of: String,
    models: BTreeMap<String, ModelSettings>,
}

impl Prices {
    /// The built-in table under what the settings say; a field that they leave out keeps its built-in value.
    pub fn new(settings: &BTreeMap<String, ModelSettings>) -> Result<Prices, serde_json::Error> {
        let table: Table = serde_json::from_str(BUILT_IN)?;
        let mut prices = Prices { models: table.models, as_of: table.as_of };
        for (name, over) in settings {
            let under = prices.settings(name).cloned().unwrap_or_default();
            prices.models.insert(name.clone(), merged(under, over));
        }
        Ok(prices)
    }

    pub fn facts(&self, name: &str) -> ModelFacts {
        self.settings(name).map(facts).unwrap_or_default()
    }

    /// Known models of one provider, with their facts.
    pub fn of_provider(&self, provider: &str) -> Vec<(String, ModelFacts)> {
        let own = |name: &String| name.split_once('/').is_some_and(|(first, _)| first == provider);
        self.models.iter().filter(|(name, _)| own(name)).map(|(name, known)| (name.clone(), facts(known))).collect()
    }

    fn settings(&self, name: &str) -> Option<&ModelSettings> {
        self.models.get(name).or_else(|| self.models.get(undated(name)))
    }
}

/// What a call cost, in billionths of a dollar; none where a price is unknown.
pub fn cost_nanos(facts: &ModelFacts, usage: &Usage) -> Option<u64> {
    let (prompt, completion) = (facts.prompt_nanos?, facts.completion_nanos?);
    let cached = usage.cached.min(usage.prompt);
    let fresh_cost = (usage.prompt - cached).saturating_mul(prompt);
    let cached_cost = cached.saturating_mul(facts.cached_nanos.unwrap_or(prompt));
    Some(fresh_cost.saturating_add(cached_cost).saturating_add(usage.completion.saturating_mul(completion)))
}

/// `gpt-4o-2024-08-06`, `claude-haiku-4-5-20251001` and `…-latest` cost what the undated name does.
fn undated(name: &str) -> &str {
    let bare = name.strip_suffix("-latest").unwrap_or(name);
    let shapes: [&[usize]; 2] = [&[4, 2, 2], &[8]];
    shapes.iter().find_map(|shape| without_date(bare, shape)).unwrap_or(bare)
}

/// Takes groups of digits of the given lengths from the end, each with its dash.
fn without_date<'a>(name: &'a str, lengths: &[usize]) -> Option<&'a str> {
    lengths.iter().rev().try_fold(name, |rest, length| {
        let (front, group) = rest.rsplit_once('-')?;
        (group.len() == *length && group.bytes().all(|byte| byte.is_ascii_digit())).then_some(front)
    })
}

fn merged(under: ModelSettings, over: &ModelSettings) -> ModelSettings {
    ModelSettings {
        context_tokens: over.context_tokens.or(under.context_tokens),
        prompt_usd: over.prompt_usd.or(under.prompt_usd),
        cached_usd: over.cached_usd.or(under.cached_usd),
        completion_usd: over.completion_usd.or(under.completion_usd),
    }
}

fn facts(known: &ModelSettings) -> ModelFacts {
    ModelFacts {
        context_tokens: known.context_tokens,
        prompt_nanos: known.prompt_usd.and_then(nanos),
        cached_nanos: known.cached_usd.and_then(nanos),
        completion_nanos: known.completion_usd.and_then(nanos),
    }
}

/// A negative or endless price is no price.
fn nanos(usd_per_million: f64) -> Option<u64> {
    let nanos = (usd_per_million * NANOS_PER_USD_PER_MILLION).round();
    (nanos.is_finite() && nanos >= 0.0).then_some(nanos as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dated_names_have_the_price_of_the_plain_one() {
        let prices = Prices::new(&BTreeMap::new()).unwrap();
        let check = |name: &str, prompt: Option<u64>| assert_eq!(prices.facts(name).prompt_nanos, prompt, "{name}");
        check("openai/gpt-4o", Some(2500));
        check("openai/gpt-4o-2024-08-06", Some(2500));
        check("openai/gpt-4o-mini-2024-07-18", Some(150));
        check("anthropic/claude-haiku-4-5-20251001", Some(1000));
        check("anthropic/claude-haiku-4-5-latest", Some(1000));
        check("openai/gpt-4o-2024", None);
        check("openai/no-such-model", None);
        check("2024-08-06", None);
    }

    #[test]
    fn settings_replace_field_by_field() {
        let own = ModelSettings { prompt_usd: Some(1.0), ..ModelSettings::default() };
        let prices = Prices::new(&BTreeMap::from([("openai/gpt-4o".to_owned(), own)])).unwrap();
        let facts = prices.facts("openai/gpt-4o");
        assert_eq!((facts.prompt_nanos, facts.completion_nanos), (Some(1000), Some(10_000)));
    }

    #[test]
    fn cached_tokens_cost_less_and_nothing_overflows() {
        let facts = Prices::new(&BTreeMap::new()).unwrap().facts("openai/gpt-4o");
        let check = |prompt, cached, completion, want| {
            let usage = Usage { prompt, cached, completion, ..Usage::default() };
            assert_eq!(cost_nanos(&facts, &usage), Some(want));
        };
        check(1000, 0, 100, 2_500_000 + 1_000_000);
        check(1000, 600, 0, 1_000_000 + 750_000);
        check(10, 600, 0, 12_500);
        check(u64::MAX, 0, u64::MAX, u64::MAX);
        assert_eq!(cost_nanos(&ModelFacts::default(), &Usage::default()), None);
    }

    #[test]
    fn every_built_in_model_has_all_it_needs() {
        let prices = Prices::new(&BTreeMap::new()).unwrap();
        for provider in ["openai", "anthropic", "google"] {
            let models = prices.of_provider(provider);
            assert!(!models.is_empty());
            for (name, facts) in models {
                assert!(facts.context_tokens.is_some() && cost_nanos(&facts, &Usage::default()).is_some(), "{name}");
            }
        }
    }
}
