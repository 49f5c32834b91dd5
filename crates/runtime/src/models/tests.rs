//! Whole calls against a real server that misbehaves to order.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use relais_engine::{Answer, Body, ErrorKind, Failure, Finish, Message, Reply, Request, Usage};
use relais_plan::Effect;
use relais_testkit::{Behaviour, ModelServer, Said};
use serde_json::json;

use super::{CallLimits, Models, call, governors};
use crate::governor::{Governors, Limits};
use crate::model::Live;
use crate::settings::{Provider, Settings};
use crate::tool::ToolSpec;

/// Looks like no word that a server or we would say.
const CANARY: &str = "sk-canary-31415926";

fn limits() -> CallLimits {
    CallLimits {
        stall: Duration::from_secs(20),
        whole: Duration::from_secs(60),
        tries: 4,
        backoff: Duration::from_millis(2),
        backoff_max: Duration::from_millis(10),
    }
}

fn models_at(url: &str) -> Models {
    let url = url.to_owned();
    let environment = move |name: &str| match name {
        "OPENAI_BASE_URL" | "ANTHROPIC_BASE_URL" | "GEMINI_BASE_URL" | "OLLAMA_HOST" => Some(url.clone()),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" | "GEMINI_API_KEY" => Some(CANARY.to_owned()),
        _ => None,
    };
    Models::new(&Settings::default(), &environment, Path::new(".")).unwrap().with_limits(limits())
}

fn ask(model: &str) -> Request {
    Request {
        model: model.to_owned(),
        messages: vec![Message::System { text: "Be brief.".into() }, Message::User { text: "Hello".into() }],
        tools: Vec::new(),
        output_schema: None,
        max_tokens: None,
        temperature: None,
        ..Request::default()
    }
}

async fn call_with(models: &Models, request: &Request, tools: &[ToolSpec]) -> Answer {
    let answer = call(models, &Governors::default(), request, tools, "key-1", &|_| {}).await;
    assert!(!format!("{answer:?}").contains(CANARY), "the key is in {answer:?}");
    answer
}

async fn call_once(server: &ModelServer, model: &str) -> Answer {
    call_with(&models_at(&server.url()), &ask(model), &[]).await
}

fn reply(answer: &Answer) -> &Reply {
    let Body::Replied(reply) = &answer.body else { panic!("no reply but {answer:?}") };
    reply
}

fn failure(answer: &Answer) -> &Failure {
    let Body::Failed(failure) = &answer.body else { panic!("no failure but {answer:?}") };
    failure
}

const EVERY_FORMAT: [&str; 4] =
    ["openai/gpt-4o", "anthropic/claude-haiku-4-5", "google/gemini-2.5-flash", "ollama/llama3"];

#[tokio::test]
async fn every_format_is_understood_streamed_and_whole() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        let said = Said { prompt_tokens: 100, completion_tokens: 20, cached_tokens: 40, ..Said::text("Grüße 👋") };
        server.push(Behaviour::Say(said.clone()));
        server.push(Behaviour::Whole(said));
        for way in ["streamed", "whole"] {
            let answer = call_once(&server, model).await;
            let reply = reply(&answer);
            assert_eq!((reply.text.as_str(), reply.finish), ("Grüße 👋", Finish::Stop), "{model} {way}");
            assert_eq!(reply.model, "testkit");
            let usage = answer.usage;
            assert_eq!((usage.prompt, usage.completion, usage.cached), (100, 20, 40), "{model} {way}");
            assert_eq!((usage.model_calls, usage.retries), (1, 0));
        }
    }
}

#[tokio::test]
async fn cost_comes_from_the_price_table() {
    let server = ModelServer::start();
    server.push(Behaviour::Say(Said { prompt_tokens: 1000, completion_tokens: 100, ..Said::default() }));
    assert_eq!(call_once(&server, "openai/gpt-4o").await.usage.usd_nanos, 3_500_000);
    assert_eq!(call_once(&server, "openai/unknown").await.usage.usd_nanos, 0);
}

#[tokio::test]
async fn text_is_shown_as_it_comes() {
    let server = ModelServer::start();
    server.always(Behaviour::say("as it comes"));
    for model in EVERY_FORMAT {
        let seen = Mutex::new(String::new());
        let live = |part: Live<'_>| match part {
            Live::Text(text) => seen.lock().unwrap().push_str(text),
            Live::Thought(_) | Live::Waiting(_) => {}
        };
        call(&models_at(&server.url()), &Governors::default(), &ask(model), &[], "k", &live).await;
        assert_eq!(*seen.lock().unwrap(), "as it comes", "{model}");
    }
}

fn tool(name: &str) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    ToolSpec { name: name.to_owned(), description: "Finds".to_owned(), parameters, effect: Effect::Read }
}

#[tokio::test]
async fn fifty_tool_calls_come_back_in_order_under_our_names() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        let many = |said: Said, number: i32| said.call("mcp_shop_find", &json!({ "q": number }).to_string());
        server.push(Behaviour::Say((0..50).fold(Said::text(""), many)));
        server.push(Behaviour::Whole((0..50).fold(Said::text(""), many)));
        for _ in 0..2 {
            let answer = call_with(&models_at(&server.url()), &ask(model), &[tool("mcp:shop/find")]).await;
            let reply = reply(&answer);
            assert_eq!((reply.calls.len(), reply.finish), (50, Finish::ToolCalls), "{model}");
            for (number, call) in reply.calls.iter().enumerate() {
                assert_eq!((call.tool.as_str(), &call.arguments), ("mcp:shop/find", &json!({ "q": number })));
            }
            let ids: std::collections::BTreeSet<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids.len(), 50, "{model}: every call has its own id");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_not_json_are_garbled_and_names_nobody_offered_stay() {
    for model in ["openai/gpt-4o", "anthropic/claude-haiku-4-5"] {
        let server = ModelServer::start();
        server.push(Behaviour::Say(Said::text("").call("no_such", "{\"q\": oops")));
        let answer = call_once(&server, model).await;
        let call = &reply(&answer).calls[0];
        assert_eq!((call.tool.as_str(), call.garbled.as_deref()), ("no_such", Some("{\"q\": oops")), "{model}");
        assert!(call.arguments.is_null());
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        server.push(Behaviour::say(""));
        server.push(Behaviour::Whole(Said::text("")));
        for _ in 0..2 {
            let answer = call_once(&server, model).await;
            assert_eq!((reply(&answer).text.as_str(), reply(&answer).finish), ("", Finish::Stop), "{model}");
        }
    }
}

#[tokio::test]
async fn a_cut_off_answer_says_so() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        server.push(Behaviour::Say(Said { cut: true, ..Said::text("and then") }));
        assert_eq!(reply(&call_once(&server, model).await).finish, Finish::Length, "{model}");
    }
}

/// What the server does once, what the call then counts, however it goes on well.
async fn check_recovers(behaviours: &[Behaviour], retries: u64) {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        behaviours.iter().cloned().for_each(|one| server.push(one));
        server.always(Behaviour::say("at last"));
        let answer = call_once(&server, model).await;
        assert_eq!(reply(&answer).text, "at last", "{model} after {behaviours:?}");
        assert_eq!(answer.usage.retries, retries, "{model} after {behaviours:?}");
        assert_eq!(server.received().len() as u64, retries + 1);
    }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    check_recovers(&[Behaviour::status(500), Behaviour::status(503), Behaviour::status(529)], 3).await;
    check_recovers(&[Behaviour::status(408), Behaviour::status(409)], 2).await;
    check_recovers(&[Behaviour::Half(Said::text("only half of this"))], 1).await;
    check_recovers(&[Behaviour::Break(Said::text("only half of this"))], 1).await;
    check_recovers(&[Behaviour::html(502)], 1).await;
    check_recovers(&[Behaviour::body(200, "application/json", "{\"choices\": [")], 1).await;
    check_recovers(&[Behaviour::body(200, "application/json", "")], 1).await;
    check_recovers(&[Behaviour::body(200, "text/event-stream", "")], 1).await;
    check_recovers(&[Behaviour::body(200, "text/event-stream", "data: {\"choi\n\n")], 1).await;
    check_recovers(&[Behaviour::body(200, "application/json", "{\"hello\": \"world\"}")], 1).await;
}

/// What the server always does, and how the call then ends.
async fn check_fails(behaviour: Behaviour, kind: ErrorKind, words: &str, tries: usize) {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        server.always(behaviour.clone());
        let answer = call_once(&server, model).await;
        let failure = failure(&answer);
        assert_eq!(failure.kind, kind, "{model}: {failure}");
        assert!(failure.message.contains(words), "{words:?} is not in {failure}");
        assert!(failure.message.chars().count() < 700, "{failure}");
        assert_eq!(server.received().len(), tries, "{model}: {failure}");
    }
}

#[tokio::test]
async fn what_does_not_pass_fails_in_clear_words() {
    check_fails(Behaviour::status(500), ErrorKind::Provider, "500: status 500 to order (after 4 tries)", 4).await;
    check_fails(Behaviour::html(200), ErrorKind::Provider, "HTML, not JSON; is the base URL right? http://127", 1)
        .await;
    check_fails(Behaviour::html(404), ErrorKind::Provider, "HTML, not JSON", 1).await;
    check_fails(Behaviour::status(400), ErrorKind::Provider, "status 400 to order", 1).await;
    check_fails(Behaviour::status(404), ErrorKind::Provider, "no such model", 1).await;
    let long = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(5000));
    check_fails(Behaviour::body(400, "application/json", long), ErrorKind::Provider, "xxx…", 1).await;
    let huge = format!("{{\"choices\": \"{}\"}}", "x".repeat(super::http::BODY_MAX_BYTES));
    check_fails(Behaviour::body(200, "application/json", huge), ErrorKind::Provider, "more than 8388608 bytes", 1)
        .await;
    check_fails(Behaviour::Half(Said::text("half")), ErrorKind::Transport, "before its end marker", 4).await;
    check_fails(Behaviour::body(200, "application/json", "nope"), ErrorKind::Transport, "invalid JSON", 4).await;
}

#[tokio::test]
async fn a_refused_key_is_named_by_its_variable_only() {
    for (model, variable) in
        [("openai/x", "OPENAI_API_KEY"), ("anthropic/x", "ANTHROPIC_API_KEY"), ("google/x", "GEMINI_API_KEY")]
    {
        for status in [401, 403] {
            let server = ModelServer::start();
            let body = json!({"error": {"message": format!("bad key {CANARY}")}}).to_string();
            server.always(Behaviour::body(status, "application/json", body));
            let answer = call_once(&server, model).await;
            assert_eq!(failure(&answer).kind, ErrorKind::Config);
            assert!(failure(&answer).message.contains(variable), "{:?}", failure(&answer));
        }
    }
}

#[tokio::test]
async fn no_error_ever_repeats_the_key() {
    // The second is cut off in the middle of the key.
    for padding in [0, 490] {
        let echo = json!({"error": {"message": format!("{}{CANARY}", "x".repeat(padding))}}).to_string();
        check_echo(&echo).await;
    }
}

async fn check_echo(echo: &str) {
    for status in [200, 400, 404, 422, 500] {
        for media_type in ["application/json", "text/plain", "text/event-stream"] {
            let server = ModelServer::start();
            server.always(Behaviour::body(status, media_type, echo));
            for model in ["openai/gpt-4o", "anthropic/claude-haiku-4-5", "google/gemini-2.5-flash"] {
                let answer = call_once(&server, model).await;
                assert!(!failure(&answer).message.contains("sk-can"), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_key_elsewhere() {
    let (server, elsewhere) = (ModelServer::start(), ModelServer::start());
    server.always(Behaviour::redirect(&format!("{}/v1/chat/completions", elsewhere.url())));
    let answer = call_once(&server, "openai/gpt-4o").await;
    assert!(failure(&answer).message.contains("redirects are not followed"), "{:?}", failure(&answer));
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    // Bound and dropped: nobody listens there now.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https"] {
        let answer = call_with(&models_at(&format!("{scheme}://{address}")), &ask("openai/gpt-4o"), &[]).await;
        let failure = failure(&answer);
        assert_eq!((failure.kind, answer.usage.retries), (ErrorKind::Transport, 3));
        assert!(failure.message.contains(&format!("{scheme}://{address}/v1")), "{failure}");
    }
}

#[tokio::test]
async fn a_silent_provider_is_given_up() {
    for behaviour in [Behaviour::Stall(Said::text("and then")), Behaviour::Silence] {
        let server = ModelServer::start();
        server.push(behaviour);
        let models = models_at(&server.url()).with_limits(CallLimits { stall: Duration::from_millis(300), ..limits() });
        let answer = call_with(&models, &ask("openai/gpt-4o"), &[]).await;
        assert_eq!(reply(&answer).text, "ok");
        assert!(answer.usage.retries >= 1);
    }
    let server = ModelServer::start();
    server.always(Behaviour::Silence);
    let models = models_at(&server.url()).with_limits(CallLimits { stall: Duration::from_millis(30), ..limits() });
    let answer = call_with(&models, &ask("openai/gpt-4o"), &[]).await;
    assert_eq!(failure(&answer).kind, ErrorKind::Transport);
    assert!(failure(&answer).message.contains("sent nothing for 30 ms"), "{:?}", failure(&answer));
}

#[tokio::test]
async fn a_complete_answer_counts_although_its_connection_lingers() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        server.push(Behaviour::Linger(Said::text("all of it")));
        let models = models_at(&server.url()).with_limits(CallLimits { stall: Duration::from_secs(1), ..limits() });
        let answer = call_with(&models, &ask(model), &[]).await;
        assert_eq!((reply(&answer).text.as_str(), answer.usage.completion), ("all of it", 5), "{model}");
        assert_eq!(server.received().len(), 1, "{model}: what was said is not paid for twice");
    }
}

#[tokio::test]
async fn calls_that_follow_one_another_share_a_connection() {
    for model in EVERY_FORMAT {
        let server = ModelServer::start();
        for _ in 0..3 {
            call_once(&server, model).await;
        }
        let peers: std::collections::BTreeSet<_> = server.received().iter().map(|one| one.peer).collect();
        assert_eq!(peers.len(), 1, "{model}");
    }
}

#[tokio::test]
async fn a_call_has_a_longest_time() {
    let server = ModelServer::start();
    server.always(Behaviour::Silence);
    let models = models_at(&server.url()).with_limits(CallLimits { whole: Duration::from_millis(40), ..limits() });
    let answer = call_with(&models, &ask("openai/gpt-4o"), &[]).await;
    assert_eq!(failure(&answer).kind, ErrorKind::Timeout);
    assert!(failure(&answer).message.contains("longer than 40 ms"), "{:?}", failure(&answer));
}

#[tokio::test]
async fn a_429_waits_its_time_and_never_fails() {
    let server = ModelServer::start();
    for _ in 0..6 {
        server.push(Behaviour::status(429).header("retry-after-ms", "15"));
    }
    let started = Instant::now();
    let answer = call_once(&server, "openai/gpt-4o").await;
    assert_eq!((reply(&answer).text.as_str(), answer.usage.retries), ("ok", 6), "more than the tries of transport");
    assert!(started.elapsed() >= Duration::from_millis(90));
    assert!(answer.ms >= 90);
}

#[tokio::test]
async fn a_429_storm_slows_fifty_callers_down_and_fails_none() {
    let server = ModelServer::start();
    let refused = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = refused.clone();
    server.answer_by(move |received| {
        // The first hundred requests and every third one after are too many.
        if received.number < 100 || received.number % 3 == 0 {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return Behaviour::status(429).header("retry-after-ms", "3");
        }
        Behaviour::say("served")
    });
    let (models, governors) = (models_at(&server.url()), Governors::default());
    let request = ask("openai/gpt-4o");
    let calls = (0..50).map(|number| {
        let (models, governors, request) = (&models, &governors, &request);
        async move { call(models, governors, request, &[], &format!("key-{number}"), &|_| {}).await }
    });
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| reply(answer).text == "served"));
    let retries: u64 = answers.iter().map(|answer| answer.usage.retries).sum();
    assert_eq!(retries as usize, refused.load(std::sync::atomic::Ordering::Relaxed));
}

#[tokio::test]
async fn every_try_carries_the_same_key_and_says_who_it_is() {
    let server = ModelServer::start();
    server.push(Behaviour::status(500));
    call_once(&server, "openai/gpt-4o").await;
    call_once(&server, "anthropic/claude-haiku-4-5").await;
    call_once(&server, "google/gemini-2.5-flash").await;
    call_once(&server, "ollama/llama3").await;
    let received = server.received();
    let seen: Vec<(&str, Option<&str>)> =
        received.iter().map(|one| (one.path.as_str(), one.header("idempotency-key"))).collect();
    assert_eq!(
        seen,
        [
            ("/v1/chat/completions", Some("key-1")),
            ("/v1/chat/completions", Some("key-1")),
            ("/v1/messages", Some("key-1")),
            ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", Some("key-1")),
            ("/v1/chat/completions", Some("key-1")),
        ]
    );
    assert_eq!(received[1].header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    assert_eq!(received[2].header("x-api-key"), Some(CANARY));
    assert_eq!(received[2].header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(received[3].header("x-goog-api-key"), Some(CANARY));
    assert_eq!(received[4].header("authorization"), None);
}

#[tokio::test]
async fn the_settings_bound_how_many_calls_are_under_way() {
    let server = ModelServer::start();
    let (under_way, most) = (Arc::new(Mutex::new((0_usize, 0_usize))), 3);
    server.always(Behaviour::say("ok").after(Duration::from_millis(5)));
    let own = Provider { max_concurrent: Some(most), ..Provider::default() };
    let settings = Settings { providers: BTreeMap::from([("openai".to_owned(), own)]), ..Settings::default() };
    let (models, governors, request) = (models_at(&server.url()), governors(&settings), ask("openai/gpt-4o"));
    let gauge = || governors.gauges().first().map_or(0, |(_, gauge)| gauge.active);
    let calls = (0..12).map(|_| async {
        let live = |_: Live<'_>| {
            let mut seen = under_way.lock().unwrap();
            seen.1 = seen.1.max(gauge());
            seen.0 += 1;
        };
        call(&models, &governors, &request, &[], "k", &live).await
    });
    futures::future::join_all(calls).await;
    let (seen, highest) = *under_way.lock().unwrap();
    assert!(seen >= 12 && highest <= most, "{highest} at once");
}

#[tokio::test]
async fn dropping_a_call_frees_its_place() {
    let server = ModelServer::start();
    server.push(Behaviour::Silence);
    let governors =
        Governors::new(BTreeMap::from([("openai".into(), Limits { max_concurrent: 1, ..Limits::default() })]));
    let (models, request) = (models_at(&server.url()), ask("openai/gpt-4o"));
    let silent = call(&models, &governors, &request, &[], "k", &|_| {});
    let watcher = server.clone();
    let arrived = tokio::task::spawn_blocking(move || watcher.wait_for(1, Duration::from_secs(20)));
    tokio::select! {
        answer = silent => panic!("silence answered {answer:?}"),
        arrived = arrived => assert!(arrived.unwrap()),
    }
    let answer = call(&models, &governors, &request, &[], "k", &|_| {}).await;
    assert_eq!((reply(&answer).text.as_str(), server.received().len()), ("ok", 2));
}

#[tokio::test]
async fn a_name_that_means_nothing_costs_nothing() {
    let server = ModelServer::start();
    let answer = call_once(&server, "nowhere/x").await;
    assert_eq!((failure(&answer).kind, answer.usage), (ErrorKind::Config, Usage::default()));
    assert!(server.received().is_empty());
}
