//! Events of runs as streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use relais_engine::{Millis, RunId};
use relais_runtime::clock::{Clock, SystemClock};
use relais_runtime::settings::Settings;
use relais_service::access::{Scope, TokenId};
use relais_service::{NewToken, Whose};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::flows::ASKS;
use crate::setup::Setup;

/// One event as it came over the wire.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    id: String,
    what: String,
    data: Value,
}

/// Reads events from a stream until enough came, or it ends or breaks.
async fn read(response: Response, enough: usize) -> Vec<Told> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut stream, mut text, mut told) = (response.bytes_stream(), String::new(), Vec::new());
    while told.len() < enough {
        let Some(Ok(bytes)) = stream.next().await else { break };
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        while let Some((block, rest)) = text.split_once("\n\n") {
            told.extend(parsed(block));
            text = rest.to_owned();
        }
    }
    told.truncate(enough);
    told
}

fn parsed(block: &str) -> Option<Told> {
    let fields: BTreeMap<&str, &str> = block.lines().filter_map(|line| line.split_once(": ")).collect();
    let data = serde_json::from_str(fields.get("data")?).unwrap();
    Some(Told { id: fields["id"].to_owned(), what: fields["event"].to_owned(), data })
}

async fn open(setup: &Setup, run: RunId, after: Option<&str>) -> Response {
    stream(setup, run, after).send().await.unwrap()
}

fn stream(setup: &Setup, run: RunId, after: Option<&str>) -> RequestBuilder {
    let request = setup.client.get(format!("http://{}/api/v1/runs/{run}/events", setup.server.address));
    if let Some(id) = after { request.header("Last-Event-ID", id) } else { request }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_gets_each_event_once() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    let first = read(open(&setup, run, None).await, 3).await;
    setup.post(&format!("/api/v1/runs/{run}/answer"), json!({ "value": true })).await;
    let all = read(open(&setup, run, None).await, usize::MAX).await;
    assert_eq!(all[..3], first[..]);
    let whats: Vec<&str> = all.iter().map(|told| told.what.as_str()).collect();
    assert_eq!((whats[0], *whats.last().unwrap()), ("run_started", "run_ended"), "{whats:?}");
    assert!(whats.contains(&"asked") && whats.contains(&"tool_called"), "{whats:?}");
    // From every place on, what is left is exactly what came behind it.
    for (place, told) in all.iter().enumerate() {
        let answer = open(&setup, run, Some(&told.id)).await;
        if place + 1 == all.len() {
            assert_eq!(answer.status(), 204);
        } else {
            assert_eq!(read(answer, usize::MAX).await, all[place + 1..], "after {}", told.id);
        }
    }
    // What comes over the wire is what the command line shows.
    let notice: relais_service::narrate::Notice = serde_json::from_value(all[1].data.clone()).unwrap();
    assert_eq!(format!("{}.{}", notice.seq, notice.nth), all[1].id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_tells_what_happens_and_goes_on_after_an_end_that_was_taken_back() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    let stream = open(&setup, run, None).await;
    let reading = tokio::spawn(read(stream, usize::MAX));
    setup.post(&format!("/api/v1/runs/{run}/cancel"), json!({})).await;
    let cancelled = reading.await.unwrap();
    let last = cancelled.last().unwrap();
    assert_eq!((last.what.as_str(), &last.data["status"]), ("run_ended", &json!("cancelled")));
    setup.post(&format!("/api/v1/runs/{run}/resume"), json!({})).await;
    setup.rested(run).await;
    setup.post(&format!("/api/v1/runs/{run}/answer"), json!({ "value": true })).await;
    let rest = read(open(&setup, run, Some(&last.id)).await, usize::MAX).await;
    assert_eq!(rest.last().unwrap().data["status"], "completed");
    assert!(rest.iter().all(|told| told.what != "run_started"));
}

/// How one of many clients reads.
#[derive(Clone, Copy)]
enum Reader {
    /// As it comes.
    Steady,
    /// So many events at a time, each time on a new connection.
    ComesBack(usize),
    /// Nothing before the run has ended.
    Late,
}

impl Reader {
    async fn read(self, setup: Arc<Setup>, run: RunId, mut over: watch::Receiver<bool>) -> Vec<Told> {
        let first = come_back(&setup, run, None).await;
        let at_a_time = match self {
            Reader::Steady => usize::MAX,
            Reader::ComesBack(at_a_time) => at_a_time,
            Reader::Late => {
                over.wait_for(|over| *over).await.unwrap();
                usize::MAX
            }
        };
        let mut told = read(first, at_a_time).await;
        // Whoever takes nothing for long is cut off, and on a busy machine anybody may be: a client of event streams
        // then asks for the rest.
        while told.last().is_none_or(|last| last.what != "run_ended") {
            let last = told.last().map(|last| last.id.clone());
            told.extend(read(come_back(&setup, run, last.as_deref()).await, at_a_time).await);
        }
        told
    }
}

/// A stream for a client that tries again where a connection was not to be had.
async fn come_back(setup: &Setup, run: RunId, after: Option<&str>) -> Response {
    loop {
        if let Ok(response) = stream(setup, run, after).send().await {
            return response;
        }
    }
}

/// Clients of one run. One in four comes back again and again, one in four reads late.
const CLIENTS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn many_watchers_of_a_busy_run_see_the_same() {
    let setup = Arc::new(Setup::new().await);
    let items = serde_json::to_string(&(0..400).collect::<Vec<u32>>()).unwrap();
    let busy = format!(
        "name: busy\nagents: {{ a: {{ model: script/word.json, instructions: hi }} }}\nsteps:\n\
         - {{ id: go, wait: {{ signal: go }} }}\n- id: all\n  for_each: {items}\n  max: 400\n  do:\n\
         \x20 - {{ id: say, agent: a, prompt: \"{{{{ item }}}}\" }}\n"
    );
    let run = setup.begin(&busy).await;
    setup.rested(run).await;
    let over = watch::Sender::new(false);
    let reader = |n: usize| [Reader::Steady, Reader::ComesBack(n + 300), Reader::Steady, Reader::Late][n % 4];
    let read_by = |n| tokio::spawn(reader(n).read(setup.clone(), run, over.subscribe()));
    let readers: Vec<_> = (0..CLIENTS).map(read_by).collect();
    setup.post(&format!("/api/v1/runs/{run}/signal"), json!({ "name": "go" })).await;
    while setup.rested(run).await["status"] != "completed" {}
    over.send_replace(true);
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    // More than is shared among watchers, so those who come now read the journal.
    let late = read(open(&setup, run, None).await, usize::MAX).await;
    assert!(late.len() > 1_200, "{}", late.len());
    for (n, told) in seen.iter().enumerate() {
        assert!(*told == late, "client {n} saw {} of {} events", told.len(), late.len());
    }
}

async fn open_as(setup: &Setup, run: RunId, token: &str) -> Response {
    let request = setup.request(Method::GET, &format!("/api/v1/runs/{run}/events"));
    request.bearer_auth(token).send().await.unwrap()
}

/// A token for reading, and its id.
async fn token(setup: &Setup, expires_at: Option<Millis>) -> (String, TokenId) {
    let (user, name, scopes) = ("somebody".into(), "test".into(), BTreeSet::from([Scope::Read]));
    let (secret, record) = setup.service.create_token(NewToken { user, name, scopes, expires_at }).await.unwrap();
    (secret, record.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_is_revoked_or_runs_out() {
    let setup = Setup::guarded(Settings::default()).await;
    let run = setup.begin(ASKS).await;
    setup.service.settle(run).await.unwrap();
    let soon = SystemClock.now() + 1_000;
    let (kept, revoked, ending) =
        (token(&setup, None).await, token(&setup, None).await, token(&setup, Some(soon)).await);
    let mut streams = Vec::new();
    for (secret, _) in [&kept, &revoked, &ending] {
        streams.push(tokio::spawn(read(open_as(&setup, run, secret).await, usize::MAX)));
    }
    setup.service.revoke_token(revoked.1, &Whose::Everybodys).await.unwrap();
    for (stream, (secret, _)) in streams.drain(1..).zip([revoked, ending]) {
        let told = stream.await.unwrap();
        assert!(!told.is_empty() && told.iter().all(|told| told.what != "run_ended"), "{told:?}");
        assert_eq!(open_as(&setup, run, &secret).await.status(), 401);
    }
    // Nobody else is cut off.
    setup.service.answer(run, None, json!(true)).await.unwrap();
    let told = streams.remove(0).await.unwrap();
    assert_eq!(told.last().unwrap().what, "run_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_place_in_the_run_is_refused() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    for (id, status) in [("x", 400), ("1", 400), ("9999.0", 422), ("-1.0", 400), ("é", 400)] {
        assert_eq!(open(&setup, run, Some(id)).await.status(), status, "{id}");
    }
    // What the header says counts, and yet the query must be right.
    let both = setup.request(reqwest::Method::GET, &format!("/api/v1/runs/{run}/events?last_event_id=x"));
    assert_eq!(both.header("Last-Event-ID", "1.0").send().await.unwrap().status(), 400);
    let unknown = open(&setup, RunId::from_u128(7), None).await;
    assert_eq!(
        (unknown.status().as_u16(), &unknown.headers()["content-type"]),
        (404, &"application/problem+json".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_streams() {
    let setup = Setup::new().await;
    let run = setup.begin(ASKS).await;
    setup.rested(run).await;
    let reading = tokio::spawn(read(open(&setup, run, None).await, usize::MAX));
    setup.server.stop().await.unwrap();
    // It may have been told nothing yet, but it is not left waiting.
    reading.await.unwrap();
}
