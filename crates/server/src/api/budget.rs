//! A budget as people write it.

use relais_plan::time::parse_duration;
use serde::Deserialize;
use utoipa::ToSchema;

/// More than this is a slip.
const MAX_USD: f64 = 1e6;
const MAX_COUNT: u64 = 1_000_000_000_000_000;

/// What a run may use; what is not given is unlimited.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[schema(minimum = 0, maximum = 1000000)]
    usd: Option<f64>,
    #[schema(maximum = 1000000000000000i64)]
    tokens: Option<u64>,
    #[schema(maximum = 1000000000000000i64)]
    model_calls: Option<u64>,
    #[schema(maximum = 1000000000000000i64)]
    tool_calls: Option<u64>,
    /// `10m`, `2h`.
    #[schema(example = "10m")]
    time: Option<String>,
}

impl Budget {
    pub fn checked(self) -> Result<relais_plan::Budget, String> {
        let too_much = |usd: f64| format!("budget.usd: {usd} must be between 0 and {MAX_USD}");
        let nanos = |usd: f64| match (0.0..=MAX_USD).contains(&usd) {
            true => Ok((usd * 1e9).round() as u64),
            false => Err(too_much(usd)),
        };
        let unclear = |text: &str| format!("budget.time: `{text}` is no duration such as 10m");
        let ms = |text: String| parse_duration(&text).ok_or_else(|| unclear(&text));
        Ok(relais_plan::Budget {
            usd_nanos: self.usd.map(nanos).transpose()?,
            tokens: count("tokens", self.tokens)?,
            model_calls: count("model_calls", self.model_calls)?,
            tool_calls: count("tool_calls", self.tool_calls)?,
            time_ms: self.time.map(ms).transpose()?,
        })
    }
}

fn count(name: &str, count: Option<u64>) -> Result<Option<u64>, String> {
    match count {
        Some(count) if count > MAX_COUNT => Err(format!("budget.{name}: {count} is more than {MAX_COUNT}")),
        other => Ok(other),
    }
}
