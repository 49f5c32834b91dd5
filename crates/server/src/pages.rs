//! Lists in pages: a limit and the cursor of the page before.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Items on a page when nobody says how many.
pub const DEFAULT_LIMIT: usize = 50;
/// More than a client can use at once; bounds the memory of one answer.
pub const MAX_LIMIT: usize = 1_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// Items on the page.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

impl Paging {
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The `cursor` of the next page; null on the last.
    pub next: Option<String>,
}
