//! What people are asked, over all runs: who finds it, who may answer, who is told, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_engine::{Millis, RunId, RunStatus};
use relais_runtime::settings::{NotifyChannel, Settings};
use relais_service::{Config, Error, Service, Start};
use relais_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::setup::VirtualClock;

const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;

struct World {
    service: Service,
    clock: Arc<VirtualClock>,
    folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Arc::new(VirtualClock(AtomicI64::new(1_000_000)));
        let (home, place) = (folder.path().join("home"), folder.path().to_owned());
        let mut settings = Settings::default();
        settings.server.public_url = Some("https://relais.example/".into());
        for name in ["desk", "boss"] {
            let command = vec!["true".to_owned()];
            settings.notify.insert(name.into(), NotifyChannel { command, ..NotifyChannel::default() });
        }
        let config = Config { home, folder: place, settings, read: Vec::new(), user: "owner".into() };
        let service = Service::open_on(config, store, clock.clone(), false).unwrap();
        World { service, clock, folder }
    }

    async fn begin(&self, text: &str) -> RunId {
        let file = self.folder.path().join("flow.yaml");
        std::fs::write(&file, text).unwrap();
        let definition = self.service.read(&file, &Default::default()).unwrap();
        assert!(!definition.has_errors(), "{}", definition.render(false));
        let checked = self.service.publish(definition, false, None).await.unwrap();
        let run = self.service.start(&checked, Start::default()).await.unwrap();
        self.service.settle(run).await.unwrap();
        run
    }

    /// Step and id of what a user may answer.
    async fn asked(&self, user: &str) -> Vec<(String, String)> {
        let (found, _) = self.service.as_user(user).all_questions(None, 100).await.unwrap();
        found.into_iter().map(|asked| (asked.open.step.clone(), asked.open.id())).collect()
    }

    async fn answer(&self, user: &str, id: &str, value: Value) -> Result<RunId, Error> {
        let answered = self.service.as_user(user).answer_question(id, value).await;
        if let Ok(run) = &answered {
            self.service.settle(*run).await.unwrap();
        }
        answered
    }

    async fn status(&self, run: RunId) -> RunStatus {
        self.service.row(run).await.unwrap().summary.status
    }

    /// Everything that a user was told, oldest first.
    async fn told(&self, user: &str) -> Vec<String> {
        let found = self.service.as_user(user).notifications(false, None, 100).await.unwrap();
        found.into_iter().rev().map(|at| at.it.title).collect()
    }

    /// Where messages go to, in order.
    async fn sent(&self) -> Vec<String> {
        let found = self.service.deliveries(None, None, 100).await.unwrap();
        let mut all: Vec<_> = found.into_iter().map(|at| (at.it.id, at.it.recipient.to_string())).collect();
        all.sort();
        all.into_iter().map(|(_, to)| to).collect()
    }

    /// Time goes on, and everybody who looks at the time looks twice.
    async fn pass(&self, ms: Millis) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
        self.service.tell_questions_once().await.unwrap();
        assert_eq!(self.service.tell_questions_once().await.unwrap(), 0, "told twice");
    }
}

const SIGNED: &str = "
name: signed
steps:
  - id: sign
    ask: { question: Send it?, approve: true, people: [ann, bob] }
output: '{{ steps.sign.output }}'
";

#[tokio::test]
async fn everybody_who_may_answer_finds_the_question_and_one_answer_closes_it() {
    let world = World::new();
    let (first, second) = (world.begin(SIGNED).await, world.begin(SIGNED).await);
    let of = |run: RunId| ("sign".to_owned(), format!("{run}.1"));
    for user in ["owner", "ann", "bob"] {
        assert_eq!(world.asked(user).await, [of(first), of(second)], "{user}");
    }
    assert!(world.asked("eve").await.is_empty());
    let refused = world.answer("eve", &of(first).1, json!(true)).await;
    assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
    assert!(matches!(world.answer("ann", &of(first).1, json!("maybe")).await, Err(Error::Invalid(_))));
    world.answer("ann", &of(first).1, json!(true)).await.unwrap();
    assert_eq!(world.status(first).await, RunStatus::Completed);
    for user in ["owner", "ann", "bob"] {
        assert_eq!(world.asked(user).await, [of(second)], "{user}");
    }
    let trace = world.service.trace(first).await.unwrap();
    let answers = &trace.steps[0].calls[0].answers;
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].by.as_str(), &answers[0].value), ("ann", &json!(true)));
    // A run that is cancelled asks nobody any more.
    world.service.cancel(second).await.unwrap();
    world.service.settle(second).await.unwrap();
    for user in ["owner", "ann", "bob"] {
        assert!(world.asked(user).await.is_empty(), "{user}");
    }
}

#[tokio::test]
async fn pages_of_questions_follow_each_other() {
    let world = World::new();
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(world.begin(SIGNED).await);
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = world.service.all_questions(after, 2).await.unwrap();
        found.extend(page.into_iter().map(|asked| asked.open.run));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    runs.sort();
    assert_eq!(found, runs);
}

const TWO: &str = "
name: two
steps:
  - id: sign
    ask: { question: Send it?, approve: true, people: [ann, bob], approvals: 2 }
output: '{{ steps.sign.output }}'
";

#[tokio::test]
async fn two_different_people_must_say_yes_and_one_no_is_a_no() {
    let check = async |said: &[(&str, bool)], expected: Option<bool>| {
        let world = World::new();
        let run = world.begin(TWO).await;
        let id = format!("{run}.1");
        for (who, yes) in said {
            let _ = world.answer(who, &id, json!(yes)).await;
        }
        let output = match world.status(run).await {
            RunStatus::Completed => world.service.output(run).await.unwrap().as_bool(),
            _ => None,
        };
        assert_eq!(output, expected, "{said:?}");
        assert_eq!(world.asked("owner").await.len(), usize::from(expected.is_none()), "{said:?}");
    };
    check(&[("ann", true)], None).await;
    check(&[("ann", true), ("ann", true)], None).await;
    check(&[("ann", true), ("bob", true)], Some(true)).await;
    check(&[("owner", true), ("bob", true)], Some(true)).await;
    check(&[("ann", true), ("bob", false)], Some(false)).await;
    check(&[("bob", false)], Some(false)).await;
}

#[tokio::test]
async fn who_says_yes_twice_hears_how_many_are_missing() {
    let world = World::new();
    let run = world.begin(TWO).await;
    let id = format!("{run}.1");
    world.answer("ann", &id, json!(true)).await.unwrap();
    let again = world.answer("ann", &id, json!(true)).await;
    let Err(Error::Conflict(text)) = again else { panic!("{again:?}") };
    assert!(text.contains("one more person must say yes"), "{text}");
    let asked = world.service.question(&id).await.unwrap();
    assert_eq!(asked.yes.iter().map(|yes| yes.by.as_str()).collect::<Vec<_>>(), ["ann"]);
}

const PAYS: &str = "
name: pays
tools: { write_file: { approve: { people: [ann, bob], approvals: 2 } } }
steps:
  - { id: pay, tool: write_file, with: { path: paid.txt, content: ten } }
";

#[tokio::test]
async fn all_must_say_yes_to_the_same_call() {
    let world = World::new();
    let run = world.begin(PAYS).await;
    let id = format!("{run}.1");
    let changed = json!({ "approve": true, "arguments": { "path": "paid.txt", "content": "five" } });
    world.answer("ann", &id, changed.clone()).await.unwrap();
    world.answer("bob", &id, json!(true)).await.unwrap();
    assert_eq!(world.status(run).await, RunStatus::Waiting);
    world.answer("bob", &id, changed).await.unwrap();
    assert_eq!(world.status(run).await, RunStatus::Completed);
    let trace = world.service.trace(run).await.unwrap();
    let answers: Vec<_> =
        trace.steps[0].calls[0].answers.iter().map(|a| (a.by.as_str(), a.changed.is_some())).collect();
    assert_eq!(answers, [("ann", true), ("bob", false), ("bob", true)]);
    assert_eq!(trace.steps[0].calls[1].input["content"], "five");
}

const INSISTS: &str = "
name: insists
notify: { to: [desk] }
steps:
  - id: sign
    ask:
      question: Send it?
      approve: true
      people: [ann]
      remind: 1d
      then: { after: 36h, people: [carol], notify: [boss] }
";

#[tokio::test]
async fn people_are_told_once_reminded_and_others_are_asked_when_nobody_answers() {
    let world = World::new();
    let run = world.begin(INSISTS).await;
    world.pass(0).await;
    assert_eq!(world.told("owner").await, ["insists asks: Send it?"]);
    assert_eq!(world.told("ann").await, ["insists asks: Send it?"]);
    assert_eq!(world.sent().await, ["channel desk"]);
    let text = &world.service.notifications(false, None, 1).await.unwrap()[0].it.text;
    assert!(text.contains(&format!("https://relais.example/api/v1/questions/{run}.1")), "{text}");
    world.pass(DAY - 1).await;
    assert_eq!(world.told("owner").await.len(), 1);
    world.pass(1).await;
    assert_eq!(world.told("ann").await.last().unwrap(), "insists still asks: Send it?");
    assert!(world.asked("carol").await.is_empty());
    world.pass(12 * HOUR).await;
    assert_eq!(world.told("carol").await, ["Nobody has answered insists: Send it?"]);
    assert_eq!(world.sent().await, ["channel desk", "channel desk", "channel desk", "channel boss"]);
    let id = world.asked("carol").await[0].1.clone();
    world.answer("carol", &id, json!(true)).await.unwrap();
    assert_eq!(world.status(run).await, RunStatus::Completed);
    assert!(world.asked("carol").await.is_empty() && world.asked("owner").await.is_empty());
    world.pass(10 * DAY).await;
    assert_eq!(world.told("owner").await.len(), 3);
}

#[tokio::test]
async fn a_file_that_is_quiet_tells_nobody_until_they_are_to_be_reminded() {
    let world = World::new();
    world.begin(&INSISTS.replace("to: [desk]", "on_waiting: false")).await;
    world.pass(0).await;
    assert!(world.told("owner").await.is_empty());
    world.pass(DAY).await;
    assert_eq!(world.told("owner").await.len(), 1);
}
