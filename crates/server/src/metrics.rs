//! What Prometheus reads at `/metrics`: runs and steps as they ended, requests, and how much there is to do.
//!
//! Ends are told by the feed, each once, whichever server worked on the run. No run, user or workflow is named: labels
//! are words of ours, routes, and models.

mod registry;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use relais_engine::Usage;
use relais_service::feed::{Course, End, Observer, duration_ms};
use relais_service::{Error, Service};

use crate::App;
use crate::caller::Administers;
use crate::origin::is_from_this_machine;
use crate::problem::Problem;
use registry::{Counter, Histogram, gauge};

/// From a quick tool to a run that waited for a day.
const RUN_BOUNDS: &[f64] = &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];
const STEP_BOUNDS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];
const REQUEST_BOUNDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

pub struct Metrics {
    runs: Counter,
    run_seconds: Histogram,
    step_seconds: Histogram,
    call_seconds: Histogram,
    validations: Counter,
    corrections: Counter,
    retries: Counter,
    errors: Counter,
    tokens: Counter,
    cost: Counter,
    late_seconds: Histogram,
    requests: Counter,
    request_seconds: Histogram,
    streams: Arc<AtomicI64>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            runs: Counter::new("relais_runs_total", "Runs that ended.", &["status"]),
            run_seconds: Histogram::new(
                "relais_run_duration_seconds",
                "From the start of a run to its end.",
                &["status"],
                RUN_BOUNDS,
            ),
            step_seconds: Histogram::new(
                "relais_step_duration_seconds",
                "From the start of a step to its end, its retries included.",
                &["kind", "status"],
                STEP_BOUNDS,
            ),
            call_seconds: Histogram::new(
                "relais_call_duration_seconds",
                "Calls of models and tools.",
                &["what", "outcome"],
                STEP_BOUNDS,
            ),
            validations: Counter::new("relais_validations_total", "Outputs checked by a schema.", &["result"]),
            corrections: Counter::new("relais_corrections_total", "Answers that had to be corrected.", &[]),
            retries: Counter::new("relais_retries_total", "Steps and calls tried again.", &["what"]),
            errors: Counter::new("relais_errors_total", "Steps and calls that failed.", &["what", "kind"]),
            tokens: Counter::new("relais_tokens_total", "Tokens used.", &["model", "type"]),
            cost: Counter::new("relais_cost_usd_total", "Cost of model calls.", &["model"]),
            late_seconds: Histogram::new(
                "relais_schedule_lateness_seconds",
                "From the time a trigger was due to the decision.",
                &[],
                STEP_BOUNDS,
            ),
            requests: Counter::new("relais_http_requests_total", "Requests answered.", &["method", "route", "status"]),
            request_seconds: Histogram::new(
                "relais_http_request_duration_seconds",
                "From a request's head to the head of its answer.",
                &["method", "route"],
                REQUEST_BOUNDS,
            ),
            streams: Arc::default(),
        }
    }
}

impl Observer for Metrics {
    fn ended(&self, end: &End) {
        if let Some(status) = end.bill.closed.filter(|_| end.row.summary.parent.is_none()) {
            self.runs.add(&[status.word()], 1.0);
            self.run_seconds.observe_ms(&[status.word()], duration_ms(end));
        }
        for (model, usage) in &end.bill.models {
            self.used(model, usage);
        }
        self.retries.add(&["call"], end.bill.usage.retries as f64);
        self.went(&end.course);
    }

    fn decided(&self, late_ms: u64) {
        self.late_seconds.observe_ms(&[], late_ms);
    }
}

impl Metrics {
    fn used(&self, model: &str, usage: &Usage) {
        let Usage { prompt, completion, cached, reasoning, .. } = *usage;
        for (kind, count) in
            [("prompt", prompt), ("completion", completion), ("cached", cached), ("reasoning", reasoning)]
        {
            self.tokens.add(&[model, kind], count as f64);
        }
        self.cost.add(&[model], usage.usd_nanos as f64 / 1e9);
    }

    fn went(&self, course: &Course) {
        for step in &course.steps {
            self.step_seconds.observe_ms(&[&step.kind, step.status.word()], step.ms);
            if let Some(kind) = step.error {
                self.errors.add(&["step", kind.word()], 1.0);
            }
        }
        for call in &course.calls {
            let outcome = if call.error.is_some() { "failed" } else { "ok" };
            self.call_seconds.observe_ms(&[call.what, outcome], call.ms);
            if let Some(kind) = call.error {
                self.errors.add(&[call.what, kind.word()], 1.0);
            }
        }
        self.validations.add(&["ok"], course.valid as f64);
        self.validations.add(&["failed"], (course.invalid + course.corrections) as f64);
        self.corrections.add(&[], course.corrections as f64);
        self.retries.add(&["step"], course.retries as f64);
    }

    async fn render(&self, service: &Service) -> Result<String, Error> {
        let mut text = String::new();
        for counter in [
            &self.runs,
            &self.validations,
            &self.corrections,
            &self.retries,
            &self.errors,
            &self.tokens,
            &self.cost,
            &self.requests,
        ] {
            counter.render(&mut text);
        }
        for histogram in
            [&self.run_seconds, &self.step_seconds, &self.call_seconds, &self.late_seconds, &self.request_seconds]
        {
            histogram.render(&mut text);
        }
        self.gauges(service, &mut text).await?;
        Ok(text)
    }

    async fn gauges(&self, service: &Service, text: &mut String) -> Result<(), Error> {
        let queue = service.queue().await?;
        let of = |status: &str, count: u64| (vec![("status", status.to_owned())], count as f64);
        let series = [of("pending", queue.pending), of("running", queue.running), of("waiting", queue.waiting)];
        gauge(text, "relais_queue_runs", "Runs that have not ended, of all servers.", &series);
        governors(service, text);
        let streams = self.streams.load(Ordering::Relaxed) as f64;
        gauge(text, "relais_event_streams", "Clients that follow events.", &[(vec![], streams)]);
        if let Some(bytes) = resident_bytes() {
            gauge(text, "process_resident_memory_bytes", "Resident memory size in bytes.", &[(vec![], bytes)]);
        }
        Ok(())
    }
}

fn governors(service: &Service, text: &mut String) {
    let gauges = service.governors();
    let series = |of: fn(&relais_service::Gauge) -> f64| -> Vec<_> {
        gauges.iter().map(|(provider, gauge)| (vec![("provider", provider.clone())], of(gauge))).collect()
    };
    gauge(text, "relais_governor_active", "Model calls under way.", &series(|g| g.active as f64));
    gauge(text, "relais_governor_waiting", "Model calls that wait for their turn.", &series(|g| g.waiting as f64));
    gauge(text, "relais_governor_width", "Model calls that may be under way.", &series(|g| g.width as f64));
    gauge(text, "relais_governor_paused", "1 while the provider asked for a pause.", &series(|g| f64::from(g.paused)));
    let help = "Seconds until a provider is asked again that failed several times in a row.";
    gauge(text, "relais_governor_left_out_seconds", help, &series(|g| g.left_out_ms as f64 / 1e3));
    let help = "Model calls that failed since the last one that was answered.";
    gauge(text, "relais_governor_failures", help, &series(|g| f64::from(g.failures_in_a_row)));
}

/// Where the system tells it.
fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024.0)
}

/// Who may see what concerns all users; where the settings open it, whoever calls from this machine.
pub struct MayScrape;

impl FromRequestParts<App> for MayScrape {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<MayScrape, Problem> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let near = is_from_this_machine(peer.map(|ConnectInfo(address)| address.ip()), parts).is_ok();
        if !(near && app.service.config().settings.telemetry.open_metrics) {
            Administers::from_request_parts(parts, app).await?;
        }
        Ok(MayScrape)
    }
}

/// Answers `/metrics`.
pub async fn show(State(app): State<App>, _: MayScrape) -> Result<Response, Problem> {
    let text = app.metrics.render(&app.service).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// Around every route: counts, times and logs. Neither query nor body is looked at: they may hold anything.
pub async fn watch(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = word(request.method().as_str());
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let status = response.status().as_u16();
    tracing::info!(method, route, status, ms, "request");
    app.metrics.requests.add(&[method, &route, &status.to_string()], 1.0);
    app.metrics.request_seconds.observe_ms(&[method, &route], ms);
    if is_stream(response.headers()) { app.metrics.following(response) } else { response }
}

/// A client may write any method; only known words become labels.
fn word(method: &str) -> &'static str {
    let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    known.into_iter().find(|word| *word == method).unwrap_or("other")
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

impl Metrics {
    /// Counts a client until its stream is gone.
    fn following(&self, response: Response) -> Response {
        self.streams.fetch_add(1, Ordering::Relaxed);
        let streams = self.streams.clone();
        response.map(|body| Body::new(Followed { body, streams }))
    }
}

struct Followed {
    body: Body,
    streams: Arc<AtomicI64>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
