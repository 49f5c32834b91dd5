//! What follows from the end of a run, exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_engine::{RunId, RunStatus};
use relais_runtime::clock::SystemClock;
use relais_service::{Checked, Error, Fired, Fork, ResumeWith, Service, Start, UsageBy, UsageQuestion};
use relais_store::{Edit, Error as StoreError, Expect, Fault, Find, MemoryStore, Record, RecordKey, Store};
use uuid::Uuid;

use crate::setup::{FLOW, ONE_WORD, Setup};

const CHAIN: &str = r#"
name: chain
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: first, agent: talker, prompt: "one" }
  - { id: file, tool: read_file, with: { path: wanted.txt } }
  - { id: last, agent: talker, prompt: "{{ steps.file.output }}" }
"#;

const CHILD: &str = r#"
name: child
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: one, agent: talker, prompt: one }
  - { id: two, agent: talker, prompt: two }
"#;

const PARENT: &str = r#"
name: parent
agents:
  talker: { model: script/other.json, instructions: Say a word. }
steps:
  - { id: child, workflow: ./child.yaml }
  - { id: own, agent: talker, prompt: one word }
"#;

const OTHER_WORD: (&str, &str) =
    ("other.json", r#"[{ "text": "word", "usage": { "prompt": 7, "completion": 2, "model_calls": 1 } }]"#);

/// As if it were a kept workflow.
fn kept(mut checked: Checked) -> (Checked, Uuid) {
    let workflow = Uuid::now_v7();
    checked.target.workflow = workflow.to_string();
    (checked, workflow)
}

async fn start(service: &Service, checked: &Checked) -> RunId {
    service.start(checked, Start::default()).await.unwrap()
}

fn asked(by: UsageBy) -> UsageQuestion {
    UsageQuestion { from: "2000-01-01".into(), to: "2999-12-31".into(), by, all_users: false }
}

/// Total, successful and failed runs of a workflow; and what they used: runs, model calls, prompt tokens.
async fn check(service: &Service, workflow: Uuid, tally: (u64, u64, u64), used: (u64, u64, u64)) {
    let found = service.tally(workflow).await.unwrap();
    assert_eq!((found.total, found.successful, found.failed), tally);
    let answer = service.usage(&asked(UsageBy::Workflow)).await.unwrap();
    let usage = answer.total.usage;
    assert_eq!((answer.total.runs, usage.model_calls, usage.prompt), used);
}

async fn told(service: &Service) -> Vec<String> {
    let found = service.notifications(true, None, 100).await.unwrap();
    found.into_iter().map(|at| at.it.title).collect()
}

// keeps A-26, A-03
#[tokio::test]
async fn an_end_is_counted_and_told_once() {
    let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
    let (checked, workflow) = kept(setup.publish("flow.yaml").await);
    let run = start(&setup.service, &checked).await;
    assert_eq!(setup.end_of(run).await, RunStatus::Completed);
    assert_eq!(setup.service.feed_once().await.unwrap(), 1);
    assert_eq!(setup.service.feed_once().await.unwrap(), 0);
    check(&setup.service, workflow, (1, 1, 0), (1, 1, 10)).await;
    assert_eq!(setup.service.tally(workflow).await.unwrap().last.unwrap().run, run);
    assert_eq!(told(&setup.service).await, ["flow has completed"]);
    let other = setup.service.as_user("another");
    check(&other, workflow, (0, 0, 0), (0, 0, 0)).await;
    assert!(told(&other).await.is_empty());
}

#[tokio::test]
async fn a_run_that_goes_on_is_not_counted_or_paid_twice() {
    let setup = Setup::with(&[("chain.yaml", CHAIN), ONE_WORD]);
    let (checked, workflow) = kept(setup.publish("chain.yaml").await);
    let run = start(&setup.service, &checked).await;
    assert_eq!(setup.end_of(run).await, RunStatus::Failed);
    setup.service.feed_once().await.unwrap();
    check(&setup.service, workflow, (1, 0, 1), (1, 1, 10)).await;
    let folder = setup.path().join("home/workspaces").join(run.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("wanted.txt"), "here").unwrap();
    setup.service.resume(run, ResumeWith::default()).await.unwrap();
    assert_eq!(setup.end_of(run).await, RunStatus::Completed);
    setup.service.feed_once().await.unwrap();
    check(&setup.service, workflow, (1, 1, 0), (1, 2, 20)).await;
    assert_eq!(told(&setup.service).await, ["chain has failed"]);
    let fork = Fork { from: "last".into(), ..Fork::default() };
    let fork = setup.service.fork(run, fork).await.unwrap();
    assert_eq!(setup.end_of(fork).await, RunStatus::Completed);
    setup.service.feed_once().await.unwrap();
    // What the fork shares with the other run was paid by that one.
    check(&setup.service, workflow, (2, 2, 0), (2, 3, 30)).await;
}

#[tokio::test]
async fn children_are_part_of_their_root() {
    let setup = Setup::with(&[("child.yaml", CHILD), ("parent.yaml", PARENT), ONE_WORD, OTHER_WORD]);
    let (run, status) = setup.run("parent.yaml").await;
    assert_eq!(status, RunStatus::Completed);
    setup.service.feed_once().await.unwrap();
    let by_workflow = setup.service.usage(&asked(UsageBy::Workflow)).await.unwrap();
    let parts: Vec<_> = by_workflow.parts.values().map(|part| (part.name.as_str(), part.sum.runs)).collect();
    assert_eq!(parts, [("parent", 1)]);
    assert_eq!(by_workflow.total.usage, setup.service.row(run).await.unwrap().summary.usage);
    let by_model = setup.service.usage(&asked(UsageBy::Model)).await.unwrap();
    let parts: Vec<_> = by_model.parts.iter().map(|(key, part)| (key.as_str(), part.sum.usage.prompt)).collect();
    assert_eq!(parts, [("script/other.json", 7), ("script/word.json", 20)]);
}

#[tokio::test]
async fn what_runs_under_way_have_used_is_told() {
    let flow = format!("{FLOW}  - {{ id: ask, ask: {{ question: \"Go on?\", approve: true }} }}\n");
    let setup = Setup::with(&[("flow.yaml", &flow), ONE_WORD]);
    let checked = setup.publish("flow.yaml").await;
    let run = setup.service.start(&checked, Start::default()).await.unwrap();
    setup.service.settle(run).await.unwrap();
    let answer = setup.service.usage(&asked(UsageBy::Model)).await.unwrap();
    assert_eq!((answer.unfinished, answer.total.runs, answer.total.usage.prompt), (1, 0, 10));
    assert_eq!(answer.parts["script/word.json"].sum.usage.prompt, 10);
    let past = UsageQuestion { to: "2001-01-01".into(), ..asked(UsageBy::Day) };
    assert_eq!(setup.service.usage(&past).await.unwrap(), Default::default());
    let wrong = UsageQuestion { from: "yesterday".into(), ..asked(UsageBy::Day) };
    assert!(setup.service.usage(&wrong).await.unwrap_err().to_string().contains("2026-02-28"));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_count_each_end_once() {
    const RUNS: u64 = 30;
    let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
    let (checked, workflow) = kept(setup.publish("flow.yaml").await);
    for _ in 0..RUNS {
        let run = start(&setup.service, &checked).await;
        setup.end_of(run).await;
    }
    let other = Service::open_hands_off(setup.service.config().clone()).unwrap();
    let feed = |service: Service| tokio::spawn(async move { service.feed_once().await.unwrap() });
    let feeds = [feed(setup.service.clone()), feed(other.clone()), feed(setup.service.clone()), feed(other)];
    let mut noted = 0;
    for feed in feeds {
        noted += feed.await.unwrap() as u64;
    }
    assert_eq!(noted, RUNS);
    check(&setup.service, workflow, (RUNS, RUNS, 0), (RUNS, RUNS, 10 * RUNS)).await;
    assert_eq!(told(&setup.service).await.len() as u64, RUNS);
}

/// Somebody's service on a store of which the test can spoil something, with a workflow.
async fn on(store: Arc<MemoryStore>, setup: &Setup) -> (Service, Checked, Uuid) {
    let config = setup.service.config().clone();
    let service = Service::open_on(config, store, Arc::new(SystemClock), false).unwrap();
    let definition = service.read(&setup.path().join("flow.yaml"), &Default::default()).unwrap();
    let (checked, workflow) = kept(service.publish(definition, false, None).await.unwrap());
    (service, checked, workflow)
}

/// What is kept of this kind can no longer be read.
async fn spoil(store: &MemoryStore, kind: &str) {
    let find = Find { kind: kind.into(), limit: 100, ..Find::default() };
    let found = store.records(find).await.unwrap();
    assert!(!found.is_empty(), "{kind}");
    let put = |Record { key, label, due_at, .. }| Edit::Put {
        key,
        label,
        due_at,
        body: "spoilt".into(),
        expect: Expect::Any,
    };
    store.change(found.into_iter().map(put).collect(), 0).await.unwrap();
}

/// A record that cannot be read keeps nobody's ends from being taken note of, and the rest of its own run's neither.
#[tokio::test]
async fn an_end_is_told_whatever_else_cannot_be_read() {
    for (kind, tally, used) in [
        ("tally", None, Some(2)),
        ("usage", Some(2), None),
        ("trigger", Some(2), Some(2)),
        ("notification", Some(2), Some(2)),
    ] {
        let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
        let store = Arc::new(MemoryStore::new());
        let (service, checked, workflow) = on(store.clone(), &setup).await;
        let trigger = RecordKey { kind: "trigger".into(), owner: "somebody".into(), id: Uuid::nil().to_string() };
        let (id, expect) = (trigger.id.clone(), Expect::Any);
        let put = Edit::Put { key: trigger, label: String::new(), due_at: None, body: "none".into(), expect };
        store.change(vec![put], 0).await.unwrap();
        for is_first in [true, false] {
            let trigger = (!is_first).then(|| Fired { id: id.clone(), what: "it".into() });
            let run = service.start(&checked, Start { trigger, ..Start::default() }).await.unwrap();
            service.settle(run).await.unwrap();
            assert_eq!(service.feed_once().await.unwrap(), 1, "{kind}");
            if is_first {
                spoil(&store, kind).await;
            }
        }
        let found = service.tally(workflow).await.ok().map(|tally| tally.total);
        let usage = service.usage(&asked(UsageBy::Workflow)).await.ok().map(|usage| usage.total.runs);
        assert_eq!((found, usage), (tally, used), "{kind}");
        let find = Find { kind: "notification".into(), limit: 100, ..Find::default() };
        assert_eq!(store.records(find).await.unwrap().len(), 2, "{kind}");
    }
}

/// What is out of reach for a moment is not damaged: whoever asks may ask again.
#[tokio::test]
async fn a_plan_that_is_out_of_reach_is_no_fault_of_the_run() {
    for error in [StoreError::Busy("locked".into()), StoreError::OutOfReach("no space".into())] {
        let left = Arc::new(AtomicI64::new(0));
        let counted = left.clone();
        let store = Arc::new(MemoryStore::with_faults(move |method, _| {
            let is_meant = method == "get_document" && counted.fetch_sub(1, Ordering::SeqCst) > 0;
            is_meant.then(|| Fault::Before(error.clone()))
        }));
        let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
        let (service, checked, _) = on(store, &setup).await;
        let run = start(&service, &checked).await;
        service.settle(run).await.unwrap();
        left.store(1, Ordering::SeqCst);
        assert!(matches!(service.trace(run).await, Err(Error::Busy(_))));
        left.store(1, Ordering::SeqCst);
        assert!(matches!(service.feed_once().await, Err(Error::Busy(_))));
    }
}

/// Each of the store's calls that the feed makes is cut off once, before it has happened and after.
#[tokio::test]
async fn a_crash_at_any_call_loses_and_doubles_nothing() {
    for after in [false, true] {
        // So many calls go well, then one is cut off; below zero all go well.
        let left = Arc::new(AtomicI64::new(-1));
        let counted = left.clone();
        let store = Arc::new(MemoryStore::with_faults(move |_, _| {
            let busy = StoreError::Busy("cut off".into());
            let cut_off = counted.load(Ordering::SeqCst) >= 0 && counted.fetch_sub(1, Ordering::SeqCst) == 0;
            cut_off.then_some(if after { Fault::After(busy) } else { Fault::Before(busy) })
        }));
        let setup = Setup::with(&[("flow.yaml", FLOW), ONE_WORD]);
        let config = setup.service.config().clone();
        let service = Service::open_on(config, store, Arc::new(SystemClock), false).unwrap();
        let definition = service.read(&setup.path().join("flow.yaml"), &Default::default()).unwrap();
        let (checked, workflow) = kept(service.publish(definition, false, None).await.unwrap());
        let mut runs = 0;
        loop {
            let run = start(&service, &checked).await;
            service.settle(run).await.unwrap();
            left.store(runs, Ordering::SeqCst);
            let whole = service.feed_once().await.is_ok();
            left.store(-1, Ordering::SeqCst);
            service.feed_once().await.unwrap();
            runs += 1;
            if whole {
                break;
            }
        }
        assert!(runs > 5, "the feed makes more calls than {runs}");
        let ended = runs.cast_unsigned();
        check(&service, workflow, (ended, ended, 0), (ended, ended, 10 * ended)).await;
        assert_eq!(told(&service).await.len() as u64, ended);
    }
}

#[tokio::test]
async fn what_a_run_posts_to_the_list_of_notifications_is_there_once() {
    let flow = "name: talks\nsteps:\n- id: tell\n  tool: send_message\n  with: { channel: notifications, title: Look, text: here }\n";
    let setup = Setup::with(&[("flow.yaml", flow)]);
    let (run, status) = setup.run("flow.yaml").await;
    assert_eq!(status, RunStatus::Completed);
    let service = &setup.service;
    let listed = service.notifications(true, None, 10).await.unwrap();
    let told: Vec<_> =
        listed.iter().map(|at| (at.it.kind.as_str(), at.it.title.as_str(), at.it.text.as_str())).collect();
    assert_eq!(told, [("run.message", "Look", "here")]);
    assert_eq!(listed[0].it.run, run);
    assert_eq!(service.as_user("another").notifications(false, None, 10).await.unwrap(), []);
}
