//! `search_web`: through the search endpoint that the settings name; its usual answers in one shape.

use std::sync::Arc;
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::Effect;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::web::{self, Web};
use super::{arguments, wrong};
use crate::mask::Secrets;
use crate::model::BoxFuture;
use crate::settings::SearchSettings;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

const RESULTS: usize = 10;
const RESULTS_MAX: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(30);
const NOT_CONFIGURED: &str = "search_web needs a search endpoint that answers JSON to GET URL?q=…, such as a SearXNG \
                              server or the Brave API; add to relais.toml:\n[tools.search_web]\nurl = \
                              \"https://searx.example.org/search?format=json\"\nheaders = { \"X-Subscription-Token\" = \
                              \"${SEARCH_KEY}\" }";

pub struct SearchWeb {
    spec: ToolSpec,
    settings: SearchSettings,
    web: Arc<Web>,
    secrets: Arc<Secrets>,
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
    limit: Option<usize>,
}

impl SearchWeb {
    pub fn new(settings: SearchSettings, web: Arc<Web>, secrets: Arc<Secrets>) -> SearchWeb {
        SearchWeb { spec: spec(), settings, web, secrets }
    }

    async fn search(&self, call: ToolCall<'_>) -> Result<Returned, Failure> {
        let given: Arguments = arguments(&call)?;
        let url = self.url(&given.query)?;
        let mut request = self.web.open()?.get(url.clone()).header("accept", "application/json").timeout(TIMEOUT);
        for (name, text) in &self.settings.headers {
            request = request.header(name, self.secrets.expand(text).map_err(|error| config(error.to_string()))?);
        }
        let response = request.send().await.map_err(|error| web::failure(&url, &error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(wrong(format!("the search endpoint {} answered {status}", web::place(&url))));
        }
        let answer = web::read(response).await.map_err(|error| web::failure(&url, &error))?;
        let found: Value = serde_json::from_slice(&answer.bytes).map_err(|_| not_json(&url))?;
        let value = normal(found, given.limit.unwrap_or(RESULTS).min(RESULTS_MAX));
        Ok(Returned { value, ..Returned::default() })
    }

    fn url(&self, query: &str) -> Result<Url, Failure> {
        let written = self.settings.url.as_deref().ok_or_else(|| config(NOT_CONFIGURED.to_owned()))?;
        let written = self.secrets.expand(written).map_err(|error| config(error.to_string()))?;
        let mut url =
            Url::parse(&written).map_err(|error| config(format!("tools.search_web.url is no address: {error}")))?;
        url.query_pairs_mut().append_pair("q", query);
        Ok(url)
    }
}

impl Tool for SearchWeb {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(self.search(call))
    }
}

fn config(text: String) -> Failure {
    Failure::new(ErrorKind::Config, text)
}

fn not_json(url: &Url) -> Failure {
    config(format!("the search endpoint {} does not answer JSON; for SearXNG add ?format=json", web::place(url)))
}

/// `[{title, url, snippet}]` where the answer has a known shape, else the answer as it is.
fn normal(found: Value, limit: usize) -> Value {
    let places = ["/results", "/web/results", "/organic_results", "/organic", "/items", "/webPages/value", "/data", ""];
    let lists = places.iter().filter_map(|place| found.pointer(place)?.as_array());
    for list in lists {
        let entries: Vec<Value> = list.iter().filter_map(entry).take(limit).collect();
        if !entries.is_empty() || list.is_empty() {
            return entries.into();
        }
    }
    found
}

fn entry(found: &Value) -> Option<Value> {
    let first = |names: &[&str]| names.iter().find_map(|name| found[*name].as_str()).map(str::to_owned);
    let url = first(&["url", "link", "href"])?;
    let title = first(&["title", "name"]).unwrap_or_default();
    let snippet = first(&["content", "description", "snippet", "text", "body"]).unwrap_or_default();
    Some(json!({"title": title, "url": url, "snippet": snippet}))
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "search_web".into(),
        description: "Searches the web and returns [{title, url, snippet}], best first. http_request reads a page."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 1000},
                "limit": {"type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "description": "10 if left out"}
            },
            "required": ["query"],
            "additionalProperties": false
        }),
        effect: Effect::Read,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::HttpSettings;
    use crate::tools::testing::{Bench, Peer};

    #[test]
    fn known_shapes_become_one() {
        let check = |given: Value, wanted: Value| assert_eq!(normal(given, 2), wanted);
        let one = json!([{"title": "T", "url": "u", "snippet": "s"}]);
        check(json!({"results": [{"title": "T", "url": "u", "content": "s"}]}), one.clone());
        check(json!({"web": {"results": [{"title": "T", "url": "u", "description": "s"}]}}), one.clone());
        check(json!([{"name": "T", "link": "u", "snippet": "s"}]), one.clone());
        check(
            json!({"results": [{"url": "1"}, {"url": "2"}, {"url": "3"}]}),
            json!([{"title": "", "url": "1", "snippet": ""}, {"title": "", "url": "2", "snippet": ""}]),
        );
        check(json!({"results": []}), json!([]));
        check(json!({"answer": 42}), json!({"answer": 42}));
    }

    #[tokio::test]
    async fn calls_the_endpoint_or_says_how_to_configure_it() {
        let peer = Peer::start().await;
        let bench = Bench::new();
        let tool = |path: Option<&str>| {
            let settings = SearchSettings { url: path.map(|path| peer.url(path)), ..SearchSettings::default() };
            SearchWeb::new(settings, Arc::new(Web::new(&HttpSettings::default())), Arc::default())
        };
        bench.check_fails(&tool(None), json!({"query": "x"}), "[tools.search_web]\nurl =").await;
        bench
            .check(
                &tool(Some("/search?format=json")),
                json!({"query": "a b"}),
                json!([{"title": "T", "url": "u", "snippet": "s"}]),
            )
            .await;
        assert!(peer.requests()[0].starts_with("GET /search?format=json&q=a+b"), "{:?}", peer.requests());
        bench.check_fails(&tool(Some("/html")), json!({"query": "x"}), "does not answer JSON").await;
        bench.check_fails(&tool(Some("/status/503")), json!({"query": "x"}), "answered 503").await;
    }
}
