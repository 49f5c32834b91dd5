//! What runs used, as commands see it, wherever it is counted.

use std::collections::BTreeMap;

use relais_engine::Usage;
use relais_service::{Part, UsageAnswer};
use serde::{Deserialize, Serialize};

/// What was used, in parts and in all; the same fields by the same names from the local database and from a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub items: Vec<Item>,
    pub total: Sum,
    /// Runs under way that are in it.
    pub unfinished: u64,
    /// There was more than one answer adds up.
    pub incomplete: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub key: String,
    /// What people call it, where that is not its key.
    pub name: Option<String>,
    #[serde(flatten)]
    pub sum: Sum,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    pub runs: u64,
    pub by_status: BTreeMap<String, u64>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_usd: f64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub retries: u64,
    pub duration_ms: u64,
}

impl From<relais_service::Sum> for Sum {
    fn from(sum: relais_service::Sum) -> Sum {
        let relais_service::Sum { runs, ends, usage, duration_ms } = sum;
        let Usage { prompt, completion, cached, reasoning, usd_nanos, model_calls, tool_calls, retries } = usage;
        Sum {
            runs,
            by_status: ends,
            prompt_tokens: prompt,
            completion_tokens: completion,
            cached_tokens: cached,
            reasoning_tokens: reasoning,
            cost_usd: usd_nanos as f64 / 1e9,
            model_calls,
            tool_calls,
            retries,
            duration_ms,
        }
    }
}

impl From<(String, Part)> for Item {
    fn from((key, part): (String, Part)) -> Item {
        Item { key, name: Some(part.name).filter(|name| !name.is_empty()), sum: part.sum.into() }
    }
}

impl From<UsageAnswer> for Report {
    fn from(answer: UsageAnswer) -> Report {
        let UsageAnswer { parts, total, unfinished, incomplete } = answer;
        Report { items: parts.into_iter().map(Item::from).collect(), total: total.into(), unfinished, incomplete }
    }
}
