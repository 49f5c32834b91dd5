//! Traces to a collector on this machine.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use relais_runtime::settings::Settings;
use relais_server::Telemetry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::setup::{Setup, answered};

const FLOW: &str = r#"
name: flow
agents:
  talker: { model: script/word.json, instructions: Be secretive., tools: [read_file] }
steps:
  - { id: first, agent: talker, prompt: "the hidden prompt" }
  - id: loop
    for_each: [1, 2]
    do:
      - { id: note, set: { seen: "{{ item }}" } }
"#;

const WORDS: &str = r#"[
  { "when": { "turn": 0 }, "calls": [{ "tool": "read_file", "arguments": { "path": "absent.txt" } }],
    "usage": { "prompt": 5, "completion": 1, "model_calls": 1 } },
  { "text": "word", "usage": { "prompt": 10, "completion": 2, "cached": 4, "model_calls": 1 } }
]"#;

struct Sent {
    path: String,
    key: String,
    body: Value,
}

/// A collector that answers with this status and hands over what it is sent.
async fn collector(status: u16) -> (String, mpsc::UnboundedReceiver<Sent>) {
    type Shared = (u16, mpsc::UnboundedSender<Sent>);
    async fn take(State((status, sent)): State<Shared>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
        let key = headers.get("x-key").map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap();
        sent.send(Sent { path: uri.path().to_owned(), key, body }).unwrap();
        StatusCode::from_u16(status).unwrap()
    }
    let (sender, sent) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().fallback(take).with_state((status, sender));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (format!("http://{address}"), sent)
}

async fn setup(endpoint: &str, capture_content: bool) -> Setup {
    let mut settings = Settings::default();
    settings.secrets.insert("collector".into(), "sesame".into());
    settings.telemetry.otlp_endpoint = Some(endpoint.to_owned());
    settings.telemetry.headers.insert("x-key".into(), "${secret:collector}".into());
    settings.telemetry.capture_content = capture_content;
    let setup = Setup::with(settings).await;
    setup.write("flow.yaml", FLOW);
    setup.write("word.json", WORDS);
    setup
}

/// The spans of what was sent, by name.
fn spans(sent: &Sent) -> BTreeMap<String, Value> {
    let spans = sent.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    spans.iter().map(|span| (span["name"].as_str().unwrap().to_owned(), span.clone())).collect()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| attribute["value"].as_object().unwrap().values().next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_spans_with_the_genai_conventions() {
    let (endpoint, mut sent) = collector(200).await;
    let setup = setup(&endpoint, false).await;
    Telemetry::start(&setup.service).unwrap().unwrap();
    let run = setup.run("flow.yaml").await;
    setup.service.feed_once().await.unwrap();
    let sent = sent.recv().await.unwrap();
    assert_eq!((sent.path.as_str(), sent.key.as_str()), ("/v1/traces", "sesame"));
    let resource = &sent.body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), "relais");
    let spans = spans(&sent);
    let (whole, agent) = (&spans["invoke_workflow flow"], &spans["invoke_agent first"]);
    let (chat, tool) = (&spans["chat word.json"], &spans["execute_tool read_file"]);
    assert!(spans.values().all(|span| span["traceId"] == json!(run.simple().to_string())));
    assert_eq!(whole["parentSpanId"], Value::Null);
    for (inner, outer) in [(agent, whole), (chat, agent), (tool, agent), (&spans["step note"], &spans["step loop"])] {
        assert_eq!(inner["parentSpanId"], outer["spanId"], "{inner}");
        let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        let inside = nanos(inner, "startTimeUnixNano") >= nanos(outer, "startTimeUnixNano")
            && nanos(inner, "endTimeUnixNano") <= nanos(outer, "endTimeUnixNano");
        assert!(inside, "{inner} {outer}");
    }
    let check = |span: &Value, expected: &[(&str, Value)]| {
        for (key, value) in expected {
            assert_eq!(attribute(span, key), value, "{key} of {span}");
        }
    };
    check(whole, &[("gen_ai.operation.name", json!("invoke_workflow")), ("relais.run.status", json!("completed"))]);
    check(agent, &[("gen_ai.operation.name", json!("invoke_agent")), ("gen_ai.usage.input_tokens", json!("15"))]);
    let provider = ("gen_ai.provider.name", json!("script"));
    let model = ("gen_ai.request.model", json!("word.json"));
    check(chat, &[("gen_ai.operation.name", json!("chat")), provider, model]);
    check(chat, &[("gen_ai.usage.input_tokens", json!("10")), ("gen_ai.usage.cache_read.input_tokens", json!("4"))]);
    check(chat, &[("gen_ai.response.finish_reasons", json!({ "values": [{ "stringValue": "stop" }] }))]);
    check(tool, &[("gen_ai.operation.name", json!("execute_tool")), ("gen_ai.tool.name", json!("read_file"))]);
    assert_eq!(tool["status"]["code"], 2, "the file is absent");
    let text = sent.body.to_string();
    assert!(!text.contains("hidden prompt") && !text.contains("secretive") && !text.contains("absent.txt"), "{text}");
}

/// Whoever starts a run over REST may be in a trace already; its child runs are in it, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_joins_the_trace_that_it_was_started_in() {
    let (endpoint, mut sent) = collector(200).await;
    let setup = setup(&endpoint, false).await;
    Telemetry::start(&setup.service).unwrap().unwrap();
    setup.write("inner.yaml", "name: inner\nsteps:\n  - { id: note, set: { seen: 1 } }\n");
    let definition = "name: outer\nsteps:\n  - { id: part, workflow: ./inner.yaml }\n";
    setup.write("outer.yaml", definition);
    let flow = "name: flow\nsteps:\n  - { id: note, set: { seen: 1 } }\n";
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    for (header, expected) in [(format!("00-{trace}-{span}-01"), Some(span)), ("not one".to_owned(), None)] {
        let request = setup.request(Method::POST, "/api/v1/runs").header("traceparent", header);
        let (status, started) = answered(request, Some(json!({ "definition": flow }))).await;
        assert_eq!(status, 201, "{started}");
        let run = started["id"].as_str().unwrap().parse().unwrap();
        setup.service.settle(run).await.unwrap();
        setup.service.feed_once().await.unwrap();
        let spans = spans(&sent.recv().await.unwrap());
        let wanted = expected.map_or_else(|| run.simple().to_string(), |_| trace.to_owned());
        assert!(spans.values().all(|span| span["traceId"] == json!(wanted)), "{spans:?}");
        assert_eq!(spans["invoke_workflow flow"]["parentSpanId"].as_str(), expected);
    }
    // As a child run is told of: below the call that started it, in the trace of its root.
    let definition = setup.service.read(&setup.path().join("outer.yaml"), &Default::default()).unwrap();
    let checked = setup.service.publish(definition, false, None).await.unwrap();
    let traceparent = Some(format!("00-{trace}-{span}-01"));
    let start = relais_service::Start { traceparent, ..Default::default() };
    let run = setup.service.start(&checked, start).await.unwrap();
    setup.service.settle(run).await.unwrap();
    setup.service.feed_once().await.unwrap();
    let mut told = spans(&sent.recv().await.unwrap());
    told.extend(spans(&sent.recv().await.unwrap()));
    assert!(told.values().all(|span| span["traceId"] == json!(trace)), "{told:?}");
    assert_eq!(told["invoke_workflow outer"]["parentSpanId"], json!(span));
    let is_child = |name: &str| name.starts_with("invoke_workflow") && !name.ends_with("outer");
    let (_, child) = told.iter().find(|(name, _)| is_child(name)).unwrap();
    let call = told.values().find(|call| call["spanId"] == child["parentSpanId"]);
    assert!(call.is_some_and(|call| call["name"].as_str().unwrap().starts_with("wait for")), "{told:?}");
}

/// Where runs may overlap one is started at once; else by way of the trigger.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_webhook_joins_the_trace_of_its_sender() {
    let (endpoint, mut sent) = collector(200).await;
    let setup = setup(&endpoint, false).await;
    Telemetry::start(&setup.service).unwrap().unwrap();
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    for overlap in ["allow", "skip"] {
        let flow = format!(
            "triggers: [{{ webhook: {{ id: {overlap} }}, overlap: {overlap} }}]\nsteps: [{{ set: {{ a: 1 }} }}]"
        );
        let body = json!({ "name": overlap, "definition": flow });
        let (status, made) = setup.ask(Method::POST, "/api/v1/workflows", Some(body)).await;
        assert_eq!(status, 201, "{made}");
        let request = setup.request(Method::POST, &format!("/hooks/{overlap}"));
        let request = request.header("traceparent", format!("00-{trace}-{span}-01"));
        let (status, taken) = answered(request, Some(json!({}))).await;
        assert_eq!(status, 202, "{taken}");
        setup.service.settle(taken["run"].as_str().unwrap().parse().unwrap()).await.unwrap();
        setup.service.feed_once().await.unwrap();
        let spans = spans(&sent.recv().await.unwrap());
        assert!(spans.values().all(|span| span["traceId"] == json!(trace)), "{spans:?}");
        assert_eq!(spans[&format!("invoke_workflow {overlap}")]["parentSpanId"], json!(span));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_sent_only_if_that_is_asked_for() {
    let (endpoint, mut sent) = collector(200).await;
    let setup = setup(&endpoint, true).await;
    Telemetry::start(&setup.service).unwrap().unwrap();
    setup.run("flow.yaml").await;
    setup.service.feed_once().await.unwrap();
    let text = sent.recv().await.unwrap().body.to_string();
    assert!(text.contains("hidden prompt") && text.contains("absent.txt"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_costs_a_trace_and_nothing_else() {
    let (endpoint, mut sent) = collector(400).await;
    let setup = setup(&endpoint, false).await;
    let telemetry = Telemetry::start(&setup.service).unwrap().unwrap();
    setup.run("flow.yaml").await;
    assert_eq!(setup.service.feed_once().await.unwrap(), 1);
    sent.recv().await.unwrap();
    while telemetry.dropped() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(setup.service.usage(&crate::usage::all()).await.unwrap().total.runs, 1);
}
