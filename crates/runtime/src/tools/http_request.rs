//! `http_request`: one HTTP call to a public address, or to one that the settings allow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relais_engine::Failure;
use relais_plan::Effect;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::web::{self, Web};
use super::{arguments, wrong};
use crate::mask::Secrets;
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

/// More hops than an honest site needs.
const REDIRECTS_MAX: usize = 5;
const TIMEOUT_S: u64 = 60;
const TIMEOUT_S_MAX: u64 = 600;
/// Headers of an answer that are worth a model's reading.
const SHOWN_HEADERS: [&str; 9] = [
    "content-type",
    "content-length",
    "date",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
];

/// What the connection itself says, from `url` and the body. A header beside it could make a server or a proxy between
/// take one request for another, or for two.
const CONNECTION_HEADERS: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
];

pub struct HttpRequest {
    spec: ToolSpec,
    web: Arc<Web>,
    secrets: Arc<Secrets>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    json: Option<Value>,
    timeout_s: Option<u64>,
}

/// What is sent on each hop.
struct Request {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    timeout: Duration,
}

impl HttpRequest {
    pub fn new(web: Arc<Web>, secrets: Arc<Secrets>) -> HttpRequest {
        HttpRequest { spec: spec(), web, secrets }
    }

    async fn send(&self, call: ToolCall<'_>) -> Result<Returned, Failure> {
        let mut request = self.request(&call)?;
        for _ in 0..=REDIRECTS_MAX {
            let response = self.hop(&request).await?;
            match redirect(&request.url, &response)? {
                Some(to) => request.follow(response.status(), to),
                None => return returned(&request.url, response).await,
            }
        }
        Err(wrong(format!("{} redirected more than {REDIRECTS_MAX} times", web::place(&request.url))))
    }

    fn request(&self, call: &ToolCall<'_>) -> Result<Request, Failure> {
        let given: Arguments = arguments(call)?;
        if given.url.contains("${secret:") {
            return Err(wrong("secrets go into header values, not into the address, where logs would show them"));
        }
        let url = Url::parse(&given.url).map_err(|error| wrong(format!("`url` is not an address: {error}")))?;
        let method = method(given.method.as_deref())?;
        let mut headers = self.headers(&given.headers, &url)?;
        if effect(&method) != Effect::Read && !headers.contains_key("idempotency-key") {
            headers.insert("idempotency-key", header("Idempotency-Key", call.key)?);
        }
        let timeout = Duration::from_secs(given.timeout_s.unwrap_or(TIMEOUT_S).min(TIMEOUT_S_MAX));
        let body = body(given.body, given.json, &mut headers)?;
        Ok(Request { method, url, headers, body, timeout })
    }

    fn headers(&self, written: &BTreeMap<String, String>, url: &Url) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (name, text) in written {
            let key = HeaderName::try_from(name).map_err(|_| wrong(format!("`{name}` is no header name")))?;
            if CONNECTION_HEADERS.contains(&key.as_str()) {
                return Err(wrong(format!(
                    "header `{name}` belongs to the connection, which follows from `url` and the body; leave it out"
                )));
            }
            headers.append(key, self.header_value(name, text, url)?);
        }
        Ok(headers)
    }

    /// A secret goes only to hosts that the settings name: whoever talks the model into a call must not get it.
    fn header_value(&self, name: &str, text: &str, url: &Url) -> Result<HeaderValue, Failure> {
        if !text.contains("${secret:") {
            return header(name, text);
        }
        if !self.web.is_trusted(url) {
            let host = url.host_str().unwrap_or_default();
            return Err(wrong(format!(
                "header `{name}` has a secret, and secrets are sent only to hosts that relais.toml names: \
                 [tools.http_request] allow = [\"{host}\"]"
            )));
        }
        let put_in = self.secrets.put_into(text).map_err(|error| wrong(format!("header `{name}`: {error}")))?;
        let mut value = header(name, &put_in)?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn hop(&self, request: &Request) -> Result<Response, Failure> {
        let client = self.web.client_for(&request.url)?;
        let mut sent = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .timeout(request.timeout);
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        sent.send().await.map_err(|error| web::failure(&request.url, &error))
    }
}

impl Request {
    /// As browsers do: 303 (and 301, 302 after a POST) become a GET; another origin gets no credentials.
    fn follow(&mut self, status: StatusCode, to: Url) {
        let becomes_get = status == StatusCode::SEE_OTHER
            || (matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND) && self.method == Method::POST);
        if becomes_get && self.method != Method::HEAD {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove("content-type");
        }
        if to.origin() != self.url.origin() {
            let secret: Vec<HeaderName> =
                self.headers.iter().filter(|(_, value)| value.is_sensitive()).map(|(name, _)| name.clone()).collect();
            let usual = ["authorization", "cookie", "proxy-authorization"].map(HeaderName::from_static);
            for name in secret.into_iter().chain(usual) {
                self.headers.remove(name);
            }
        }
        self.url = to;
    }
}

impl Tool for HttpRequest {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self, arguments: &Value) -> Effect {
        method(arguments["method"].as_str()).map_or(Effect::Once, |method| effect(&method))
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(self.send(call))
    }
}

fn method(written: Option<&str>) -> Result<Method, Failure> {
    let word = written.unwrap_or("GET").to_ascii_uppercase();
    match word.as_str() {
        "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "POST" | "PATCH" => {
            Method::try_from(word.as_str()).map_err(|error| wrong(error.to_string()))
        }
        _ => Err(wrong(format!("`method` must be GET, HEAD, OPTIONS, PUT, DELETE, POST or PATCH, not `{word}`"))),
    }
}

fn effect(method: &Method) -> Effect {
    match method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => Effect::Read,
        "PUT" | "DELETE" => Effect::Idempotent,
        _ => Effect::Once,
    }
}

/// The error leaves the value out: it may be a secret.
fn header(name: &str, text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::try_from(text).map_err(|_| wrong(format!("header `{name}` has characters that no header may have")))
}

fn body(text: Option<String>, json: Option<Value>, headers: &mut HeaderMap) -> Result<Option<Vec<u8>>, Failure> {
    match (text, json) {
        (Some(_), Some(_)) => Err(wrong("give either `body` (text) or `json` (a value), not both")),
        (None, Some(value)) => {
            headers.entry("content-type").or_insert(HeaderValue::from_static("application/json"));
            Ok(Some(value.to_string().into_bytes()))
        }
        (text, None) => Ok(text.map(String::into_bytes)),
    }
}

fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, Failure> {
    let moved = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = response.headers().get("location").filter(|_| moved) else { return Ok(None) };
    let bad = || wrong(format!("{} redirects to something that is not an address", web::place(from)));
    let to = location.to_str().map_err(|_| bad())?;
    from.join(to).map(Some).map_err(|_| bad())
}

async fn returned(url: &Url, response: Response) -> Result<Returned, Failure> {
    let status = response.status().as_u16();
    let headers: Map<String, Value> = SHOWN_HEADERS
        .iter()
        .filter_map(|name| Some((name.to_string(), response.headers().get(*name)?.to_str().ok()?.into())))
        .collect();
    let answer = web::read(response).await.map_err(|error| web::failure(url, &error))?;
    let mut value =
        json!({"status": status, "headers": headers, "body": answer.value(), "truncated": answer.truncated});
    if answer.truncated {
        value["note"] = format!("the body is longer; only its first {} bytes are here", web::ANSWER_BYTES_MAX).into();
    }
    Ok(Returned { value, ..Returned::default() })
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "http_request".into(),
        description: "Calls an HTTP address and returns {status, headers, body, truncated}. A JSON body comes back \
                      parsed, text as text, other bytes as {base64}. A status of 400 or more is a result, not an \
                      error: look at `status`. Redirects are followed. Private and local addresses are refused. Write \
                      ${secret:NAME} in a header value to send a configured secret without seeing it, to hosts that the settings name."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "method": {
                    "type": "string",
                    "enum": ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"],
                    "description": "GET if left out"
                },
                "url": {"type": "string", "description": "http: or https: address, with its query"},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"type": "string", "description": "text to send; not together with json"},
                "json": {"description": "a value to send as JSON; not together with body"},
                "timeout_s": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_S_MAX}
            },
            "required": ["url"],
            "additionalProperties": false
        }),
        effect: Effect::Once,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::HttpSettings;
    use crate::tools::testing::{Bench, KEY, Peer};
    use relais_engine::ErrorKind;

    fn tool(allow: &[&str], allow_private: &[&str]) -> HttpRequest {
        let list = |hosts: &[&str]| hosts.iter().map(|host| host.to_string()).collect();
        let web = Web::new(&HttpSettings { allow: list(allow), allow_private: list(allow_private) });
        let secrets = BTreeMap::from([("TOKEN".to_owned(), "s3cr3t-value".to_owned())]);
        HttpRequest::new(Arc::new(web), Arc::new(Secrets::new(&secrets)))
    }

    #[tokio::test]
    async fn calls_and_reads_answers() {
        let (peer, bench) = (Peer::start().await, Bench::new());
        let tool = tool(&[], &[&peer.host()]);
        let get = |path: &str| json!({"url": peer.url(path)});
        let value = bench.call(&tool, get("/json")).await.unwrap().value;
        assert_eq!(
            (&value["status"], &value["body"], &value["headers"]["content-type"]),
            (&json!(200), &json!({"a": 1}), &json!("application/json"))
        );
        assert_eq!(bench.call(&tool, get("/status/404")).await.unwrap().value["status"], 404);
        let big = bench.call(&tool, get("/big")).await.unwrap().value;
        assert_eq!(
            (big["truncated"].as_bool(), big["body"].as_str().map(str::len)),
            (Some(true), Some(web::ANSWER_BYTES_MAX))
        );
        let headers = json!({"X-A": "b", "Authorization": "Bearer ${secret:TOKEN}"});
        let post = json!({"method": "POST", "url": peer.url("/echo"), "json": {"k": 1}, "headers": headers});
        let echo = bench.call(&tool, post).await.unwrap().value["body"].as_str().unwrap().to_owned();
        for part in [
            "POST /echo",
            &format!("idempotency-key: {KEY}"),
            "x-a: b",
            "authorization: Bearer s3cr3t-value",
            "content-type: application/json",
            "{\"k\":1}",
        ] {
            assert!(echo.contains(part), "{part} in {echo}");
        }
        assert!(
            !bench.call(&tool, get("/echo")).await.unwrap().value["body"].as_str().unwrap().contains("idempotency")
        );
    }

    #[tokio::test]
    async fn refuses_private_addresses_on_every_hop() {
        let (peer, other, bench) = (Peer::start().await, Peer::start().await, Bench::new());
        let closed = tool(&[], &[]);
        bench.check_fails(&closed, json!({"url": peer.url("/json")}), "refused unless").await;
        let by_name = peer.url("/json").replace("127.0.0.1", "localhost");
        bench.check_fails(&closed, json!({"url": by_name}), "`localhost` is at").await;
        bench.check_fails(&closed, json!({"url": "http://169.254.169.254/latest/meta-data"}), "refused unless").await;
        bench.check_fails(&closed, json!({"url": "ftp://x/"}), "`ftp:` addresses").await;
        let open = tool(&[], &[&peer.host()]);
        let away = json!({"url": peer.url(&format!("/redirect?{}", other.url("/json")))});
        bench.check_fails(&open, away, "refused unless").await;
        bench.check_fails(&open, json!({"url": peer.url("/redirect?file:///etc/passwd")}), "`file:` addresses").await;
        assert!(other.requests().is_empty());
        let round = json!({"url": peer.url(&format!("/redirect?{}", peer.url("/redirect?/redirect")))});
        bench.check_fails(&open, round, "redirected more than 5").await;
    }

    #[tokio::test]
    async fn the_connection_speaks_for_itself() {
        let (peer, bench) = (Peer::start().await, Bench::new());
        let tool = tool(&[], &[&peer.host()]);
        for name in
            ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Upgrade", "TE", "Proxy-Authorization"]
        {
            let smuggled = json!({"url": peer.url("/json"), "headers": {name: "x"}});
            bench.check_fails(&tool, smuggled, &format!("header `{name}` belongs to the connection")).await;
        }
        assert!(peer.requests().is_empty(), "nothing was sent");
    }

    #[tokio::test]
    async fn redirects_leave_credentials_behind() {
        let (peer, other, bench) = (Peer::start().await, Peer::start().await, Bench::new());
        let tool = tool(&[], &[&peer.host(), &other.host()]);
        let headers = json!({"X-Key": "${secret:TOKEN}", "Authorization": "a", "X-Plain": "p"});
        let away = peer.url(&format!("/redirect?{}", other.url("/echo")));
        let moved = json!({"method": "POST", "body": "b", "url": away, "headers": headers});
        let echo = bench.call(&tool, moved).await.unwrap().value["body"].as_str().unwrap().to_owned();
        assert!(echo.starts_with("GET /echo") && echo.contains("x-plain: p"), "{echo}");
        assert!(!echo.contains("s3cr3t") && !echo.contains("authorization"), "{echo}");
        let kept = json!({"method": "POST", "body": "b", "url": peer.url("/redirect307?/echo"), "headers": headers});
        let echo = bench.call(&tool, kept).await.unwrap().value["body"].as_str().unwrap().to_owned();
        assert!(echo.starts_with("POST /echo") && echo.contains("s3cr3t") && echo.ends_with('b'), "{echo}");
    }

    #[tokio::test]
    async fn says_what_is_wrong_without_telling_secrets() {
        let bench = Bench::new();
        let tool = tool(&[], &["127.0.0.1"]);
        let fails = async |arguments: Value, kind: ErrorKind, part: &str| {
            let failure = bench.call(&tool, arguments).await.unwrap_err();
            assert!(failure.kind == kind && failure.message.contains(part), "{failure}");
            assert!(!failure.message.contains("s3cr3t"), "{failure}");
        };
        fails(json!({"url": "nonsense"}), ErrorKind::Tool, "not an address").await;
        fails(
            json!({"url": "http://example.org/", "headers": {"A": "${secret:TOKEN}"}}),
            ErrorKind::Tool,
            "allow = [\"example.org\"]",
        )
        .await;
        fails(
            json!({"url": "http://127.0.0.1/", "headers": {"A": "${secret:NO}"}}),
            ErrorKind::Tool,
            "`NO` is not defined",
        )
        .await;
        fails(
            json!({"url": "http://127.0.0.1/", "headers": {"A": "${secret:TOKEN}\n"}}),
            ErrorKind::Tool,
            "characters",
        )
        .await;
        fails(json!({"url": "http://127.0.0.1/", "body": "a", "json": 1}), ErrorKind::Tool, "not both").await;
        fails(json!({"url": "http://127.0.0.1:1/"}), ErrorKind::Transport, "cannot be reached").await;
        let peer = Peer::start().await;
        fails(
            json!({"url": peer.url("/hang"), "method": "POST", "timeout_s": 1}),
            ErrorKind::Uncertain,
            "no answer in time",
        )
        .await;
    }

    #[test]
    fn effects_follow_the_method() {
        let tool = tool(&[], &[]);
        let check = |method: Value, effect: Effect| assert_eq!(tool.effect(&json!({"method": method})), effect);
        check(Value::Null, Effect::Read);
        check(json!("head"), Effect::Read);
        check(json!("PUT"), Effect::Idempotent);
        check(json!("POST"), Effect::Once);
        check(json!("BREW"), Effect::Once);
    }
}
