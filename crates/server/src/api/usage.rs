//! What runs used: tokens, cost, time, by day, workflow, user or model.

use std::collections::BTreeMap;

use relais_engine::Usage;
use relais_service::access::Scope;
use relais_service::{Part, Sum, UsageAnswer, UsageBy, UsageQuestion};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::body::{Json, Query};
use crate::caller::{Known, may};
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(usage))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// The first day, in UTC: `2026-02-01`. Without it, the first of all.
    from: Option<String>,
    /// The last day, which is included. Without it, the last of all.
    to: Option<String>,
    /// What is told apart.
    #[param(inline)]
    #[serde(default)]
    by: By,
    /// Of all users; for administrators.
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    #[default]
    Day,
    Workflow,
    User,
    Model,
}

/// What was used, in parts and in all. Runs under way are in it with what they have used so far, under today.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    pub items: Vec<UsagePart>,
    pub total: UsageSum,
    /// Runs under way that are in it.
    pub unfinished: u64,
    /// There was more than one answer adds up; ask for fewer days.
    pub incomplete: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePart {
    /// A day, the id of a workflow (its name where it is not kept), a user or a model.
    pub key: String,
    /// What people call it, where that is not its key.
    pub name: Option<String>,
    #[serde(flatten)]
    pub sum: UsageSum,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageSum {
    /// Runs that have ended; what child runs used is part of the run that they belong to. 0 by model.
    pub runs: u64,
    /// How runs ended; one that was resumed may have ended several times.
    pub by_status: BTreeMap<String, u64>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Part of the prompt tokens.
    pub cached_tokens: u64,
    /// Part of the completion tokens.
    pub reasoning_tokens: u64,
    /// Part of both: tokens that no provider counted.
    #[serde(default)]
    pub estimated_tokens: u64,
    pub cost_usd: f64,
    pub model_calls: u64,
    pub tool_calls: u64,
    /// Tries beyond the first of a call.
    pub retries: u64,
    /// From start to end, waiting included.
    pub duration_ms: u64,
}

impl From<Sum> for UsageSum {
    fn from(sum: Sum) -> UsageSum {
        let Sum { runs, ends, usage, duration_ms } = sum;
        let Usage { prompt, completion, cached, reasoning, estimated, usd_nanos, .. } = usage;
        let Usage { model_calls, tool_calls, retries, waits: _, wait_ms: _, .. } = usage;
        UsageSum {
            runs,
            by_status: ends,
            prompt_tokens: prompt,
            completion_tokens: completion,
            cached_tokens: cached,
            reasoning_tokens: reasoning,
            estimated_tokens: estimated,
            cost_usd: usd_nanos as f64 / 1e9,
            model_calls,
            tool_calls,
            retries,
            duration_ms,
        }
    }
}

impl From<(String, Part)> for UsagePart {
    fn from((key, part): (String, Part)) -> UsagePart {
        UsagePart { key, name: Some(part.name).filter(|name| !name.is_empty()), sum: part.sum.into() }
    }
}

impl From<UsageAnswer> for UsageReport {
    fn from(answer: UsageAnswer) -> UsageReport {
        let UsageAnswer { parts, total, unfinished, incomplete } = answer;
        UsageReport {
            items: parts.into_iter().map(UsagePart::from).collect(),
            total: total.into(),
            unfinished,
            incomplete,
        }
    }
}

impl Asked {
    fn question(self) -> UsageQuestion {
        let by = match self.by {
            By::Day => UsageBy::Day,
            By::Workflow => UsageBy::Workflow,
            By::User => UsageBy::User,
            By::Model => UsageBy::Model,
        };
        let (from, to) =
            (self.from.unwrap_or_else(|| "1970-01-01".into()), self.to.unwrap_or_else(|| "9999-12-01".into()));
        UsageQuestion { from, to, by, all_users: self.all }
    }
}

/// What the caller's runs used, or those of all users.
#[utoipa::path(get, path = "/usage", operation_id = "get_usage", tag = "usage", params(Asked),
    responses((status = OK, body = UsageReport), Problems))]
async fn usage(Known(access, service): Known, Query(asked): Query<Asked>) -> Result<Json<UsageReport>, Problem> {
    may(&access, if asked.all { Scope::Admin } else { Scope::Read })?;
    Ok(Json(service.usage(&asked.question()).await?.into()))
}
