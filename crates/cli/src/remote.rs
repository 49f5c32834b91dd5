//! A server as commands see it: the same questions and answers as the local service, over REST.
//!
//! Knows the routes and their words ([`wire`]); what is shown of the answers is the commands' business.

mod kept;
mod stream;
mod wire;

use std::time::Duration;

use relais_engine::RunId;
use relais_runtime::Rest;
use relais_service::narrate::{Notice, What};
use relais_service::{
    Begun, Error, Filter, Fork, Format, Page, ResumeWith, Row, SetSchedule, Start, Text, Trace, Waits,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::library::{Shelved, Shelving};
use crate::timetable::{Decided, Foreseen, Planned};
pub use stream::Stream;
use wire::{Created, Details, Questions, Rows, RunRow};

/// How long a server may take to be reached.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take; the server answers sooner, long polls included.
const ANSWER_TIME: Duration = Duration::from_secs(150);
/// How long one long poll waits; the next one follows at once.
const POLL: &str = "30s";
/// How soon a server is asked again that is out of reach while a run is attended, and how often.
const COME_BACK: Duration = Duration::from_secs(1);
const MAX_TRIES: u32 = 60;
/// An answer larger than this is none of ours.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// A server, and who asks it.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Client {
    pub fn new(url: &str, token: Option<String>) -> Result<Client, Error> {
        let base = url.trim().trim_end_matches('/');
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            let text = "is no address of a server; write http://HOST:PORT";
            return Err(Error::Invalid(format!("`{base}` {text}")));
        }
        relais_runtime::models::install_crypto();
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIME).build();
        let http = http.map_err(|e| Error::Unusable(format!("no client for HTTP: {e}")))?;
        Ok(Client { http, base: base.to_owned(), token })
    }

    pub fn address(&self) -> &str {
        &self.base
    }

    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Response, Error> {
        let answer = request.send().await.map_err(|e| self.unreachable(&e))?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.problem(answer).await) }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        // The innermost cause says what a person can do something about.
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let why = if error.is_timeout() { "it does not answer".to_owned() } else { cause.to_string() };
        let help = "is `relais serve` running there? RELAIS_URL or --server says where to look";
        Error::Unusable(format!("the server {} cannot be reached: {why}; {help}", self.base))
    }

    async fn problem(&self, answer: Response) -> Error {
        let (status, wait) = (answer.status(), retry_after_ms(&answer));
        let body = self.bytes(answer).await.unwrap_or_default();
        wire::problem(&body, wait).unwrap_or_else(|| {
            Error::Unusable(format!("{} answered {status}, and not as a relais server does", self.base))
        })
    }

    async fn bytes(&self, mut answer: Response) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| self.unreachable(&e))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER_BYTES {
                return Err(Error::Unusable(format!("the answer is larger than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        Ok(bytes)
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let answer = self.exchange(request.timeout(ANSWER_TIME)).await?;
        let bytes = self.bytes(answer).await?;
        let unclear = |e| Error::Unusable(format!("the answer of {} is not understood: {e}", self.base));
        serde_json::from_slice(&bytes).map_err(unclear)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.read(self.request(Method::GET, path)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Error> {
        self.read(self.request(Method::POST, path).json(body)).await
    }

    async fn delete(&self, path: &str) -> Result<(), Error> {
        let request = self.request(Method::DELETE, path);
        self.exchange(request.timeout(ANSWER_TIME)).await.map(drop)
    }

    /// Says something to a run.
    async fn tell(&self, run: RunId, what: &str, body: &Value) -> Result<(), Error> {
        self.post::<RunRow>(&format!("/runs/{run}/{what}"), body).await.map(drop)
    }
}

fn keyed(request: RequestBuilder, start: &Start) -> RequestBuilder {
    match &start.key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

/// Waits a little for a server that is out of reach or on its way out: it, or the next one, may be back soon. Any
/// other error, and one too many, is given back.
async fn come_back(error: Error, tries: &mut u32) -> Result<(), Error> {
    let is_passing = matches!(error, Error::Unusable(_) | Error::Busy(_));
    if !is_passing || *tries >= MAX_TRIES {
        return Err(error);
    }
    *tries += 1;
    tokio::time::sleep(COME_BACK).await;
    Ok(())
}

fn retry_after_ms(answer: &Response) -> u64 {
    let header = answer.headers().get(reqwest::header::RETRY_AFTER);
    let seconds = header.and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    seconds.unwrap_or(1).saturating_mul(1_000)
}

/// What the local service does, by the same names.
impl Client {
    pub async fn runs(&self, filter: Filter) -> Result<Page, Error> {
        let page: Rows = self.get(&wire::with_query("/runs", &wire::query(&filter))).await?;
        Ok(page.into())
    }

    pub async fn row(&self, run: RunId) -> Result<Row, Error> {
        Ok(self.get::<Details>(&format!("/runs/{run}")).await?.row.into())
    }

    pub async fn find_run(&self, text: Option<&str>) -> Result<RunId, Error> {
        if let Some(id) = text.and_then(|t| t.parse::<RunId>().ok()) {
            return Ok(self.row(id).await?.summary.run);
        }
        let page = self.runs(relais_service::among(text)).await?;
        relais_service::meant(&page, text)
    }

    /// The run that was started by hand and that this one is part of.
    pub async fn root_of(&self, run: RunId) -> Result<RunId, Error> {
        relais_service::root_of(run, |run| self.row(run)).await
    }

    pub async fn trace(&self, run: RunId) -> Result<Trace, Error> {
        self.get(&format!("/runs/{run}/trace")).await
    }

    pub async fn view(&self, run: RunId, format: Format) -> Result<Value, Error> {
        match format {
            Format::Native => self.get(&format!("/runs/{run}/trace")).await,
            other => self.get(&format!("/runs/{run}/view?format={}", other.word())).await,
        }
    }

    pub async fn output(&self, run: RunId) -> Result<Value, Error> {
        self.get(&format!("/runs/{run}/output")).await
    }

    pub async fn open_questions(&self, run: RunId) -> Result<Vec<(RunId, Waits)>, Error> {
        let questions: Questions = self.get(&format!("/runs/{run}/questions")).await?;
        Ok(questions.items.into_iter().map(wire::Question::waits).collect())
    }

    /// Waits until the run has ended or waits for something other than time.
    pub async fn settle(&self, run: RunId) -> Result<Rest, Error> {
        let mut tries = 0;
        loop {
            let details: Details = match self.get(&format!("/runs/{run}?wait={POLL}")).await {
                Ok(details) => details,
                Err(error) => {
                    come_back(error, &mut tries).await?;
                    continue;
                }
            };
            tries = 0;
            let (rests, summary) = (details.rests, Row::from(details.row).summary);
            match summary.status {
                _ if !rests => {}
                status if status.is_final() => return Ok(Rest::Ended(status)),
                _ => return Ok(Rest::Waiting(summary.awaits)),
            }
        }
    }

    pub async fn follow(&self, run: RunId) -> Result<Stream, Error> {
        self.row(run).await?;
        Ok(Stream::new(self.clone(), run))
    }

    /// What a model said; empty for a notice of anything else.
    pub async fn said(&self, notice: &Notice) -> Result<String, Error> {
        let What::ModelAnswered { step, .. } = &notice.what else { return Ok(String::new()) };
        let trace = self.trace(notice.run).await?;
        let calls = trace.steps.iter().filter(|s| s.path == *step).flat_map(|step| &step.calls);
        let answer = { calls }.find(|call| call.what == "model" && call.answered_at == Some(notice.at));
        Ok(answer.and_then(|call| call.output["text"].as_str()).unwrap_or_default().to_owned())
    }

    pub async fn cancel(&self, run: RunId) -> Result<(), Error> {
        self.tell(run, "cancel", &json!({})).await
    }

    pub async fn pause(&self, run: RunId) -> Result<(), Error> {
        self.tell(run, "pause", &json!({})).await
    }

    pub async fn resume(&self, run: RunId, with: ResumeWith) -> Result<(), Error> {
        self.tell(run, "resume", &wire::resume(&with)).await
    }

    pub async fn retry(&self, run: RunId, from: &str, redo: bool) -> Result<(), Error> {
        self.tell(run, "retry", &json!({ "from": from, "redo": redo })).await
    }

    pub async fn fork(&self, run: RunId, fork: Fork) -> Result<RunId, Error> {
        let Fork { from, input, model, redo, definition: _ } = fork;
        let body = json!({ "from": from, "input": input, "model": model, "redo": redo });
        Ok(self.post::<Created>(&format!("/runs/{run}/fork"), &body).await?.id)
    }

    pub async fn answer(&self, run: RunId, step: Option<&str>, value: Value) -> Result<(), Error> {
        self.tell(run, "answer", &json!({ "step": step, "value": value })).await
    }

    pub async fn send(&self, run: RunId, name: &str, value: Value) -> Result<(), Error> {
        self.tell(run, "signal", &json!({ "name": name, "value": value })).await
    }

    pub async fn start_text(&self, text: &Text, start: Start) -> Result<Begun, Error> {
        let request = self.request(Method::POST, "/runs").json(&wire::start_text(text, &start));
        Ok(self.read::<wire::Started>(keyed(request, &start)).await?.into())
    }

    pub async fn workflows(&self, archived: bool, limit: usize) -> Result<(Vec<Shelved>, bool), Error> {
        let query = [("archived", archived.to_string()), ("limit", limit.to_string())];
        let page: wire::Items<Shelved> = self.get(&wire::with_query("/workflows", &query)).await?;
        Ok((page.items, page.next.is_some()))
    }

    pub async fn workflow(&self, name: &str) -> Result<Shelved, Error> {
        self.get(&format!("/workflows/{}", wire::escaped(name))).await
    }

    /// Makes a workflow, or changes one.
    pub async fn shelve(&self, to: Option<&str>, shelving: &Shelving) -> Result<Shelved, Error> {
        let request = match to {
            Some(name) => self.request(Method::PATCH, &format!("/workflows/{}", wire::escaped(name))),
            None => self.request(Method::POST, "/workflows"),
        };
        self.read(request.json(shelving)).await
    }

    pub async fn start_workflow(&self, name: &str, branch: Option<&str>, start: Start) -> Result<RunId, Error> {
        let path = format!("/workflows/{}/run", wire::escaped(name));
        let request = self.request(Method::POST, &path).json(&wire::start_workflow(branch, &start));
        Ok(self.read::<Created>(keyed(request, &start)).await?.id)
    }

    pub async fn schedules(&self, workflow: Option<&str>, limit: usize) -> Result<(Vec<Planned>, bool), Error> {
        let path = match workflow {
            Some(workflow) => format!("/workflows/{}/schedules", wire::escaped(workflow)),
            None => wire::with_query("/schedules", &[("limit", limit.to_string())]),
        };
        let page: wire::Items<Planned> = self.get(&path).await?;
        let more = page.next.is_some() || page.items.len() > limit;
        Ok((page.items.into_iter().take(limit).collect(), more))
    }

    pub async fn schedule(&self, workflow: &str, set: &SetSchedule) -> Result<Planned, Error> {
        self.post(&format!("/workflows/{}/schedules", wire::escaped(workflow)), &json!(set)).await
    }

    pub async fn preview_schedule(&self, set: &SetSchedule) -> Result<Foreseen, Error> {
        self.post("/schedules/preview", &json!(set)).await
    }

    pub async fn cancel_schedule(&self, id: Uuid) -> Result<(), Error> {
        self.delete(&format!("/schedules/{id}")).await
    }

    /// Pauses or resumes a schedule.
    pub async fn tell_schedule(&self, id: Uuid, what: &str) -> Result<Planned, Error> {
        self.post(&format!("/schedules/{id}/{what}"), &json!({})).await
    }

    pub async fn schedule_decisions(&self, id: Uuid) -> Result<Vec<Decided>, Error> {
        Ok(self.get::<wire::Items<Decided>>(&format!("/schedules/{id}/decisions")).await?.items)
    }

    /// The events after a place, as far as there are any.
    pub async fn events_after(&self, run: RunId, after: Option<(u64, usize)>) -> Result<Vec<Notice>, Error> {
        let request = self.request(Method::GET, &format!("/runs/{run}/events"));
        let request = stream::behind(request, after).header(reqwest::header::ACCEPT, "application/json");
        let answer = self.exchange(request.timeout(ANSWER_TIME)).await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(Vec::new());
        }
        let unclear = |e| Error::Unusable(format!("the events of {} are not understood: {e}", self.base));
        serde_json::from_slice(&self.bytes(answer).await?).map_err(unclear)
    }
}
