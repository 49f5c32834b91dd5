//! Events find what they concern, however much else is going on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relais_engine::{Entry, Event, FORMAT, RunId, RunStatus, Signal, Summary, Usage};
use relais_runtime::clock::SystemClock;
use relais_runtime::settings::{Provider, Settings};
use relais_service::{Config, Happened, NewWorkflow, Service, Start, Written};
use relais_store::{Batch, Fault, MemoryStore, NewRun, Store, Writer};
use relais_testkit::{Behaviour, ModelServer};
use serde_json::json;

use crate::setup::Setup;

const WAITS: &str =
    "name: waits\nsteps:\n  - { id: go, wait: { event: order.paid } }\noutput: '{{ steps.go.output }}'\n";
const HEARS: &str = "name: hears\nsteps:\n  - { id: say, set: { word: hello } }\n\
                     triggers: [{ event: order.paid, overlap: allow }]\n";
const WAITS_AND_WORKS: &str = r#"
name: both
agents:
  talker: { model: ollama/any, instructions: Say a word. }
steps:
  - id: both
    parallel:
      - { id: go, wait: { event: order.paid } }
      - { id: say, agent: talker, prompt: "Now." }
output: "{{ steps.go.output.total }}"
"#;

fn paid() -> Happened {
    Happened { kind: "order.paid".into(), data: json!({ "total": 5 }), id: None }
}

/// How often each method of a store was called.
type Calls = Arc<Mutex<BTreeMap<&'static str, u64>>>;

fn counting() -> (Arc<MemoryStore>, Calls) {
    let calls = Calls::default();
    let counted = calls.clone();
    let store = MemoryStore::with_faults(move |method, _| {
        *counted.lock().unwrap().entry(method).or_default() += 1;
        None
    });
    (Arc::new(store), calls)
}

/// A run that waits for an event of this type.
async fn add_waiting(store: &MemoryStore, user: &str, event: String) {
    let run = RunId::now_v7();
    let summary = Summary {
        run,
        workflow: "other".into(),
        plan: "other".into(),
        user: user.into(),
        thread: String::new(),
        parent: None,
        target: Default::default(),
        status: RunStatus::Waiting,
        started_at: 1,
        ended_at: None,
        wake_at: None,
        awaits: vec![format!("event:{event}")],
        usage: Usage::default(),
        error: None,
    };
    let events = vec![Event::Signalled { signal: Signal::Pause, by: "a test".into() }];
    let entry = |seq| Entry { seq, at: 1, version: FORMAT, events: events.clone() };
    let new = NewRun { entry: entry(1), more: Vec::new(), summary, key: None, lease: None, blobs: Vec::new() };
    store.create(new).await.unwrap();
    let (writer, entry, awaited) = (Writer::outside(), entry(2).into(), Some(vec![event]));
    let (summary, release, blobs, listed) = (None, None, Vec::new(), None);
    store.append(Batch { run, writer, entry, summary, release, blobs, awaited, listed }).await.unwrap();
}

fn open(folder: &tempfile::TempDir, store: Arc<MemoryStore>) -> Service {
    let (home, project) = (folder.path().join("home"), folder.path().to_owned());
    let user = "somebody".to_owned();
    let config = Config { home, folder: project, settings: Settings::default(), read: Vec::new(), user };
    Service::open_on(config, store, Arc::new(SystemClock), false).unwrap()
}

async fn keep(service: &Service, text: &str) {
    let written = Written { text: text.into(), ..Written::default() };
    service.create_workflow(NewWorkflow { definition: Some(written), ..NewWorkflow::default() }).await.unwrap();
}

/// A hundred thousand runs that wait for something else, some of it for another user, cost a publisher nothing.
#[tokio::test]
async fn an_event_reads_only_what_it_concerns() {
    let (folder, (store, calls)) = (tempfile::tempdir().unwrap(), counting());
    let service = open(&folder, store.clone());
    for number in 0..100_000 {
        let (user, event) = if number % 2 == 0 { ("somebody", "order.lost") } else { ("another", "order.paid") };
        add_waiting(&store, user, format!("{event}{}", if number % 4 == 0 { "" } else { ".late" })).await;
    }
    for number in 0..50 {
        keep(&service, &HEARS.replace("hears", &format!("hears-{number}")).replace("order.paid", "order.other")).await;
    }
    calls.lock().unwrap().clear();
    let effects = service.publish_event(paid()).await.unwrap();
    assert!(effects.woken.is_empty() && effects.fates.is_empty());
    let read: Vec<_> = calls.lock().unwrap().clone().into_iter().filter(|(method, _)| *method != "renew").collect();
    assert_eq!(read, [("awaiting", 1), ("records", 1)]);

    keep(&service, HEARS).await;
    calls.lock().unwrap().clear();
    let effects = service.publish_event(paid()).await.unwrap();
    assert_eq!((effects.woken.len(), effects.fates.len()), (0, 1));
    let all: u64 = calls.lock().unwrap().values().sum();
    assert!(all < 40, "one trigger, one run: {:?}", calls.lock().unwrap());
}

#[tokio::test]
async fn a_run_is_found_while_it_waits_and_not_afterwards() {
    let setup = Setup::with(&[("waits.yaml", WAITS)]);
    let waits = setup.publish("waits.yaml").await;
    let (first, second) = (
        setup.service.start(&waits, Start::default()).await.unwrap(),
        setup.service.start(&waits, Start::default()).await.unwrap(),
    );
    setup.service.settle(first).await.unwrap();
    setup.service.settle(second).await.unwrap();
    setup.service.cancel(second).await.unwrap();
    setup.end_of(second).await;
    let other = setup.service.as_user("another").publish_event(paid()).await.unwrap();
    assert!(other.woken.is_empty());
    assert_eq!(setup.service.publish_event(paid()).await.unwrap().woken, [first]);
    assert_eq!(setup.end_of(first).await, RunStatus::Completed);
    assert!(setup.service.publish_event(paid()).await.unwrap().woken.is_empty());
}

/// The row of a run at work says nothing of what its lanes wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_waits_hears_of_its_event_while_another_is_at_work() {
    let model = ModelServer::start();
    model.always(Behaviour::Silence);
    let provider = Provider { base_url: Some(model.openai_url()), ..Provider::default() };
    let providers = [("ollama".to_owned(), provider)].into();
    let setup = Setup::set(Settings { providers, ..Settings::default() }, &[("both.yaml", WAITS_AND_WORKS)]);
    let both = setup.publish("both.yaml").await;
    let run = setup.service.start(&both, Start::default()).await.unwrap();
    assert!(model.wait_for(1, Duration::from_secs(20)), "the other lane is at work");
    assert_eq!(setup.service.row(run).await.unwrap().summary.status, RunStatus::Running);
    assert_eq!(setup.service.publish_event(paid()).await.unwrap().woken, [run]);
    setup.service.cancel(run).await.unwrap();
    assert_eq!(setup.end_of(run).await, RunStatus::Cancelled);
}

/// Of two who publish the same event at once one comes second: what it appends is refused, since the other's is there.
#[tokio::test]
async fn an_event_that_another_has_given_to_a_run_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let is_late = Arc::new(AtomicBool::new(false));
    let late = is_late.clone();
    let store = Arc::new(MemoryStore::with_faults(move |method, _| {
        let conflict = relais_store::Error::Conflict { run: RunId::nil(), seq: 0 };
        (method == "append" && late.swap(false, Ordering::SeqCst)).then_some(Fault::After(conflict))
    }));
    let service = open(&folder, store.clone());
    let text = WAITS.replace("output:", "  - { id: again, wait: { event: order.paid } }\noutput:");
    keep(&service, &text).await;
    let run = service.start_workflow("waits", None, None, Start::default()).await.unwrap();
    service.settle(run).await.unwrap();
    is_late.store(true, Ordering::SeqCst);
    let happened = Happened { id: Some("one".into()), ..paid() };
    let effects = service.publish_event(happened).await.unwrap();
    assert_eq!(effects.woken, [run], "it was given to the run, by whomever");
    let entries = store.load(run, 0).await.unwrap();
    let is_given = |event: &&Event| matches!(event, Event::Received { .. });
    assert_eq!(entries.iter().flat_map(|entry| &entry.events).filter(is_given).count(), 1);
}

/// The type of a trigger that was set by a call may change, and the trigger may go. While it is there each match starts
/// a run, whatever the others are doing.
// keeps B-09
#[tokio::test]
async fn a_trigger_hears_of_the_type_that_it_names_now() {
    let setup = Setup::with(&[]);
    let text = "name: hears\nsteps:\n  - { id: rest, wait: 1h }\n";
    keep(&setup.service, text).await;
    let settings = |event: &str| {
        let settings = json!({ "event": event }).as_object().cloned();
        relais_service::TriggerChange { settings, ..Default::default() }
    };
    let service = &setup.service;
    let set = service.set_trigger("hears", "event", settings("order.sent"), None).await.unwrap();
    let trigger = set.it.trigger_uuid.unwrap();
    let heard = async || service.publish_event(paid()).await.unwrap().fates.iter().filter(|fate| fate.starts).count();
    assert_eq!(heard().await, 0);
    service.save_trigger(trigger, settings("order.paid"), None).await.unwrap();
    assert_eq!((heard().await, heard().await), (1, 1));
    service.save_trigger(trigger, settings("order.sent"), None).await.unwrap();
    assert_eq!(heard().await, 0);
    service.save_trigger(trigger, settings("order.paid"), None).await.unwrap();
    service.delete_trigger(trigger, None).await.unwrap();
    assert_eq!(heard().await, 0);
}
