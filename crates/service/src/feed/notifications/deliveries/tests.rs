//! Deliveries in virtual time, to a receiver on this machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use relais_engine::{RunStatus, Target};
use relais_plan::Notify;
use relais_runtime::clock::Clock;
use relais_runtime::settings::Settings;
use relais_store::{Edit, Fault, MemoryStore, Store};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::Config;

const NOW: Millis = 1_700_000_000_000;
const DAY: Millis = 24 * 60 * 60 * 1_000;

fn delivery(attempts: u32) -> Delivery {
    let (id, kind, title, text) = ("m".into(), "run.failed".into(), "t".into(), String::new());
    let message = Message { id, kind, title, text, data: Value::Null, at: 0 };
    let new = Delivery::new(Uuid::nil(), Uuid::nil(), Recipient::Channel("ops".into()), message, 0);
    Delivery { attempts, ..new }
}

#[test]
fn pauses_grow_and_attempts_are_bounded() {
    let check = |attempts, outcome: Result<(), bool>, state: &str, next_at: Option<Millis>| {
        let outcome = outcome.map_err(|again| Failed { message: "no".into(), again });
        let after = delivery(attempts).after(outcome, 1_000);
        assert_eq!((after.state(), after.next_at), (state, next_at), "{attempts}");
    };
    check(1, Ok(()), "delivered", None);
    check(1, Err(true), "waiting", Some(6_000));
    check(2, Err(true), "waiting", Some(31_000));
    check(9, Err(true), "waiting", Some(8 * 3_600_000 + 1_000));
    check(10, Err(true), "given_up", None);
    check(1, Err(false), "given_up", None);
}

struct VirtualClock(AtomicI64);

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a receiver answers, and the ids that it was sent.
#[derive(Default)]
struct Receiver {
    status: AtomicU16,
    ids: Mutex<Vec<String>>,
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap) -> StatusCode {
    let id = headers["webhook-id"].to_str().unwrap().to_owned();
    receiver.ids.lock().unwrap().push(id);
    StatusCode::from_u16(receiver.status.load(Ordering::SeqCst)).unwrap()
}

struct World {
    service: Service,
    store: Arc<MemoryStore>,
    clock: Arc<VirtualClock>,
    receiver: Arc<Receiver>,
    settings: Settings,
    folder: TempDir,
    /// At zero: this change of the store and no other finds it busy.
    busy_at: Arc<AtomicI64>,
}

impl World {
    async fn new() -> World {
        let receiver = Arc::new(Receiver::default());
        receiver.status.store(200, Ordering::SeqCst);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let text = format!("[notify.ops]\nwebhook = \"http://{}/\"\ndefault = true", listener.local_addr().unwrap());
        let routes = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        relais_runtime::models::install_crypto();
        let settings: Settings = toml::from_str(&text).unwrap();
        let busy_at = Arc::new(AtomicI64::new(0));
        let counted = busy_at.clone();
        let store = MemoryStore::with_faults(move |method, _| {
            let is_busy = method == "change" && counted.fetch_sub(1, Ordering::SeqCst) == 1;
            is_busy.then(|| Fault::Before(relais_store::Error::Busy("locked".into())))
        });
        let (folder, store) = (tempfile::tempdir().unwrap(), Arc::new(store));
        let clock = Arc::new(VirtualClock(AtomicI64::new(NOW)));
        let service = open(&folder, &store, &clock, &settings);
        World { service, store, clock, receiver, settings, folder, busy_at }
    }

    /// Another process, or this one after it was killed.
    fn another(&self) -> Service {
        open(&self.folder, &self.store, &self.clock, &self.settings)
    }

    /// A run that failed at this time is told.
    async fn fail(&self, ended_at: Millis) {
        self.fail_often(ended_at, 1).await;
    }

    async fn fail_often(&self, ended_at: Millis, times: usize) {
        let summary = relais_engine::Summary {
            run: Uuid::now_v7(),
            workflow: "report".into(),
            plan: String::new(),
            user: "somebody".into(),
            thread: String::new(),
            parent: None,
            target: Target::default(),
            status: RunStatus::Failed,
            started_at: ended_at - 1_000,
            ended_at: Some(ended_at),
            wake_at: None,
            awaits: Vec::new(),
            usage: Default::default(),
            error: None,
        };
        let told = |_| self.service.notification_edits(&summary, &Notify::default()).unwrap();
        self.service.change((0..times).flat_map(told).collect()).await.unwrap();
    }

    async fn one(&self) -> Delivery {
        let mut found = self.service.deliveries(None, None, 10).await.unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0).it
    }

    fn ids(&self) -> Vec<String> {
        self.receiver.ids.lock().unwrap().clone()
    }
}

fn open(folder: &TempDir, store: &Arc<MemoryStore>, clock: &Arc<VirtualClock>, settings: &Settings) -> Service {
    let (home, project) = (folder.path().join("home"), folder.path().to_owned());
    let config =
        Config { home, folder: project, settings: settings.clone(), read: Vec::new(), user: "somebody".into() };
    Service::open_on(config, store.clone(), clock.clone(), true).unwrap()
}

#[tokio::test]
async fn what_was_not_taken_is_sent_again_under_the_same_id() {
    let world = World::new().await;
    world.fail(NOW).await;
    world.receiver.status.store(503, Ordering::SeqCst);
    assert_eq!(world.service.deliver_once().await.unwrap(), 1);
    let waiting = world.one().await;
    assert_eq!((waiting.state(), waiting.attempts), ("waiting", 1));
    assert!(waiting.last_error.unwrap().contains("503"));
    assert_eq!(world.service.deliver_once().await.unwrap(), 0, "not before its time");
    world.clock.0.fetch_add(5_000, Ordering::SeqCst);
    world.receiver.status.store(200, Ordering::SeqCst);
    assert_eq!(world.another().deliver_once().await.unwrap(), 1, "whoever comes next sends it");
    let done = world.one().await;
    assert_eq!((done.state(), done.attempts, done.delivered_at), ("delivered", 2, Some(NOW + 5_000)));
    assert_eq!(world.ids(), [done.id.to_string(), done.id.to_string()]);
}

#[tokio::test]
async fn a_process_that_dies_while_it_sends_loses_nothing() {
    let world = World::new().await;
    world.fail(NOW).await;
    assert_eq!(world.service.take_due(10).await.unwrap().len(), 1, "it dies now");
    assert_eq!(world.another().deliver_once().await.unwrap(), 0, "it may still be at it");
    world.clock.0.fetch_add(TAKEN_MS, Ordering::SeqCst);
    assert_eq!(world.another().deliver_once().await.unwrap(), 1);
    let done = world.one().await;
    assert_eq!((done.state(), done.attempts, world.ids().len()), ("delivered", 2, 1));
}

/// One delivery cannot be read, and what is written for another meets a busy database.
#[tokio::test]
async fn a_delivery_that_cannot_be_taken_does_not_keep_the_others() {
    let world = World::new().await;
    let key = kept::key::<Delivery>("another", "spoilt");
    let (label, due_at, body) = (String::new(), Some(0), Value::Null);
    let spoilt = Edit::Put { key, label, due_at, body, expect: Expect::Any };
    world.service.change(vec![spoilt]).await.unwrap();
    world.fail(NOW).await;
    assert_eq!(world.service.deliver_once().await.unwrap(), 1);
    assert_eq!(world.one().await.state(), "delivered");
    assert_eq!(world.store.next_due(Delivery::KIND.into()).await.unwrap(), None, "it is not looked at for ever");
    world.fail(NOW).await;
    world.fail(NOW).await;
    world.busy_at.store(2, Ordering::SeqCst);
    assert_eq!(world.service.take_due(10).await.unwrap().len(), 1, "what was taken is sent");
    assert!(world.service.take_due(10).await.is_ok(), "the other is still due");
}

#[tokio::test]
async fn several_servers_send_once() {
    let world = World::new().await;
    world.fail(NOW).await;
    let servers = [world.another(), world.another(), world.another()];
    let mut sent = 0;
    for taken in [servers[0].deliver_once(), servers[1].deliver_once(), servers[2].deliver_once()] {
        sent += taken.await.unwrap();
    }
    assert_eq!((sent, world.ids().len()), (1, 1));
}

#[tokio::test]
async fn old_news_is_listed_and_not_sent() {
    let world = World::new().await;
    world.fail(NOW - DAY - 1).await;
    assert_eq!(world.service.notifications(true, None, 10).await.unwrap().len(), 1);
    assert_eq!(world.service.deliveries(None, None, 10).await.unwrap().len(), 0);
    world.fail(NOW - DAY).await;
    assert_eq!(world.service.deliveries(None, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_is_kept_for_ever() {
    let world = World::new().await;
    world.fail_often(NOW, 900).await;
    for (days, left) in [(89, 900), (2, 0)] {
        world.clock.0.fetch_add(days * DAY, Ordering::SeqCst);
        world.service.forget_old().await.unwrap();
        let found = world.service.notifications(false, None, 1_000).await.unwrap().len();
        assert_eq!((found, world.service.deliveries(None, None, 1_000).await.unwrap().len()), (left, left));
    }
}
