//! Lists in pages: a limit and the cursor of the page before.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Items on a page when nobody says how many.
pub const DEFAULT_LIMIT: usize = 50;
/// More than a client can use at once; bounds the memory of one answer.
pub const MAX_LIMIT: usize = 1_000;

/// Stands beside the filters of a list, so it lets other names pass.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "bounded")]
    pub limit: Option<usize>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

impl Paging {
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }
}

/// A limit within its bounds.
pub fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let limit: usize = Deserialize::deserialize(deserializer)?;
    if (1..=MAX_LIMIT).contains(&limit) {
        return Ok(Some(limit));
    }
    Err(D::Error::custom(format!("{limit} must be between 1 and {MAX_LIMIT}")))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The `cursor` of the next page; null on the last.
    pub next: Option<String>,
}
