//! Traces for a collector: each run that has ended becomes OpenTelemetry spans with the GenAI conventions, sent as
//! OTLP over HTTP in JSON.
//!
//! A collector that is slow or gone never holds up a run: what does not fit the queue, or is not taken after a few
//! tries, is dropped and counted.

mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relais_engine::RunId;
use relais_service::feed::{End, Observer, Recording};
use relais_service::{Error, Service};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Ended runs that wait for the collector.
const QUEUE: usize = 256;
/// Spans in one request; a long run is sent in several.
const SPANS_AT_ONCE: usize = 1_000;
/// A collector answers quickly or not at all.
const SEND_TIME: Duration = Duration::from_secs(10);
/// Between the tries of one request.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Where traces go below the base address.
const TRACES: &str = "v1/traces";
const SERVICE_NAME: &str = "relais";

/// Hands ended runs to the collector.
pub struct Telemetry {
    queue: mpsc::Sender<Ended>,
    dropped: Arc<AtomicU64>,
}

/// What spans are made of.
struct Ended {
    root: RunId,
    /// The trace that the root was started in.
    traceparent: Option<String>,
    recording: Recording,
}

struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
    resource: Value,
    capture_content: bool,
    dropped: Arc<AtomicU64>,
}

impl Telemetry {
    /// Begins to send if the settings or the usual variables name a collector. Must be called inside a tokio runtime.
    pub fn start(service: &Service) -> Result<Option<Arc<Telemetry>>, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(collector) = Collector::new(service, &variable)? else { return Ok(None) };
        let (queue, ended) = mpsc::channel(QUEUE);
        let telemetry = Arc::new(Telemetry { queue, dropped: collector.dropped.clone() });
        tokio::spawn(collector.send_all(ended));
        service.observe(telemetry.clone());
        Ok(Some(telemetry))
    }

    /// Runs and requests that no collector got.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Observer for Telemetry {
    fn ended(&self, end: &End) {
        let ended = Ended {
            root: end.root.summary.run,
            traceparent: end.root.summary.target.traceparent.clone(),
            recording: end.recording(),
        };
        if self.queue.try_send(ended).is_err() {
            lost(&self.dropped, "more runs end than the collector takes traces");
        }
    }
}

impl Collector {
    fn new(service: &Service, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Collector>, Error> {
        let settings = &service.config().settings.telemetry;
        let Some(url) = address(settings.otlp_endpoint.as_deref(), variable)? else { return Ok(None) };
        let name = settings.service_name.clone().or_else(|| variable("OTEL_SERVICE_NAME"));
        let name = name.unwrap_or_else(|| SERVICE_NAME.to_owned());
        let mut written = variable("OTEL_EXPORTER_OTLP_HEADERS").map_or_else(BTreeMap::new, |text| pairs(&text));
        for (name, value) in &settings.headers {
            written.insert(name.clone(), service.with_secrets(value)?);
        }
        let client = Client::builder().timeout(SEND_TIME).redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| Error::Unusable(format!("no client for the collector: {error}")))?;
        let resource = json!({ "attributes": [spans::text("service.name", &name)] });
        let (capture_content, dropped) = (settings.capture_content, Arc::default());
        Ok(Some(Collector { client, url, headers: headers(&written)?, resource, capture_content, dropped }))
    }

    async fn send_all(self, mut ended: mpsc::Receiver<Ended>) {
        while let Some(ended) = ended.recv().await {
            let spans = match ended.recording.read() {
                Ok(recorded) => spans::written(&ended, &recorded, self.capture_content),
                Err(error) => {
                    tracing::warn!(%error, "no trace could be made of a run");
                    continue;
                }
            };
            for spans in spans.chunks(SPANS_AT_ONCE) {
                self.send(spans).await;
            }
        }
    }

    async fn send(&self, spans: &[Value]) {
        let scope = json!({ "name": "relais", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        let body = body.to_string();
        for pause in PAUSES.iter().map(Some).chain([None]) {
            let Err(error) = self.post(body.clone()).await else { return };
            tracing::debug!(error = %error.message, "the collector did not take a trace");
            match pause.filter(|_| error.again) {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => return lost(&self.dropped, &error.message),
            }
        }
    }

    async fn post(&self, body: String) -> Result<(), NotTaken> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let sent = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        // The address may hold a key.
        let answer = sent.map_err(|error| NotTaken { message: error.without_url().to_string(), again: true })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(NotTaken { message: status.to_string(), again: again(status) }),
        }
    }
}

/// Counts a trace that no collector gets. The first is told, and then ever more seldom: a collector that is gone for days
/// fills no log.
fn lost(dropped: &AtomicU64, reason: &str) {
    let total = dropped.fetch_add(1, Ordering::Relaxed) + 1;
    if total.is_power_of_two() {
        tracing::warn!(total, reason, "traces were lost: the collector did not take them");
    }
}

struct NotTaken {
    message: String,
    again: bool,
}

/// Those that OTLP says are worth another try.
fn again(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// The settings stand over the variables; the variable for traces alone is the whole address.
fn address(setting: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Url>, Error> {
    let below = |base: &str| format!("{}/{TRACES}", base.trim_end_matches('/'));
    let whole = setting
        .map(below)
        .or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
        .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(&base)));
    let Some(whole) = whole else { return Ok(None) };
    let wrong = |why: &str| {
        Error::Invalid(format!("the address of the trace collector is not one: {why}; write http://localhost:4318"))
    };
    let url = Url::parse(&whole).map_err(|error| wrong(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(Some(url)),
        other => Err(wrong(&format!("`{other}:` is neither http: nor https:"))),
    }
}

/// `key=value,key=value`, as the variable has it.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn headers(written: &BTreeMap<String, String>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        // Not the value: it may be a key.
        let wrong = || Error::Invalid(format!("[telemetry] headers: `{name}` cannot be sent as a header"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        headers.insert(key, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    Ok(headers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn what_is_lost_is_told_and_fills_no_log() {
        let file = tempfile::tempfile().unwrap();
        let mut read = file.try_clone().unwrap();
        let lines = tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(file)).with_ansi(false).finish();
        let dropped = AtomicU64::new(0);
        tracing::subscriber::with_default(lines, || (0..100).for_each(|_| lost(&dropped, "503 Service Unavailable")));
        let mut text = String::new();
        read.rewind().unwrap();
        read.read_to_string(&mut text).unwrap();
        let told = |total: u64| text.contains(&format!("total={total} ")) && text.contains("503 Service");
        assert!([1, 2, 4, 64].into_iter().all(told) && text.lines().count() == 7, "{text}");
        assert_eq!(dropped.into_inner(), 100);
    }

    #[test]
    fn settings_stand_over_variables() {
        let check = |setting: Option<&str>, variables: &[(&str, &str)], expected: Result<Option<&str>, &str>| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let found = address(setting, &variable).map(|url| url.map(|url| url.to_string()));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        };
        let (base, traces) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        check(None, &[], Ok(None));
        check(Some("http://a:1/"), &[(base, "http://b:2")], Ok(Some("http://a:1/v1/traces")));
        check(None, &[(base, "http://b:2/x")], Ok(Some("http://b:2/x/v1/traces")));
        check(None, &[(base, "http://b:2"), (traces, "http://c:3/t")], Ok(Some("http://c:3/t")));
        check(Some("ftp://a"), &[], Err("neither http: nor https:"));
        check(Some("nowhere"), &[], Err("http://localhost:4318"));
    }
}
