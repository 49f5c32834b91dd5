//! `relais serve` killed again and again while hundreds of runs go, wait and fail, schedules fire and clients watch.
//! Nobody helps it: who asks, asks again when the server is back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use relais_testkit::{Behaviour, ModelServer, Received};
use serde_json::{Value, json};

use crate::home::{Home, PATIENCE, wait_until};
use crate::serving::{Events, Server, Told};

/// Model calls that are seen after each start of the server before it is killed again. Zero kills it as soon as it
/// listens, in the middle of taking up what its predecessor left.
const CALLS_UNTIL_KILLED: [usize; 7] = [20, 0, 40, 60, 0, 12, 6];
/// Long enough that every kill meets calls under way.
const THINKING: std::time::Duration = std::time::Duration::from_millis(40);
/// Clients that start runs and do what a person does with them.
const CLIENTS: usize = 4;
const SCHEDULES: [&str; 3] = ["a", "b", "c"];
const SECOND: i64 = 1_000;
/// Far longer than any run here goes on, over every kill.
const LONG_POLLS: usize = 4 + CALLS_UNTIL_KILLED.len();
/// One run in so many of those that end is watched.
const WATCHED: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Talking,
    Timed,
    Answered,
    Asking,
    Signalled,
    Listening,
    Failing,
    Cancelled,
    Parent,
}

const LOAD: [(Kind, usize); 9] = [
    (Kind::Talking, 60),
    (Kind::Timed, 40),
    (Kind::Answered, 30),
    (Kind::Asking, 30),
    (Kind::Signalled, 15),
    (Kind::Listening, 15),
    (Kind::Failing, 30),
    (Kind::Cancelled, 20),
    (Kind::Parent, 20),
];

const AGENT: &str = "agents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\n";

impl Kind {
    fn workflow(self) -> &'static str {
        match self {
            Kind::Talking => "talking",
            Kind::Timed => "timed",
            Kind::Answered | Kind::Asking | Kind::Cancelled => "asking",
            Kind::Signalled | Kind::Listening => "listening",
            Kind::Failing => "failing",
            Kind::Parent => "parent",
        }
    }

    /// How such a run must stand at the end, and what it waits for if it does.
    fn end(self) -> (&'static str, &'static str) {
        match self {
            Kind::Talking | Kind::Timed | Kind::Answered | Kind::Signalled | Kind::Parent => ("completed", ""),
            Kind::Asking => ("waiting", "person:"),
            Kind::Listening => ("waiting", "signal:go"),
            Kind::Failing => ("failed", ""),
            Kind::Cancelled => ("cancelled", ""),
        }
    }
}

fn workflows() -> Vec<String> {
    let schedule = |name: &&str| {
        format!(
            "name: tick-{name}\n{AGENT}steps: [{{ id: say, agent: a, prompt: \"tick {name} {{{{ trigger.at }}}}\" }}]\n\
             output: \"{{{{ trigger.at }}}}\"\ntriggers: [{{ every: 1s, overlap: allow, catch_up: all }}]\n"
        )
    };
    let fixed = [
        format!(
            "name: talking\n{AGENT}steps:\n- {{ id: one, agent: a, prompt: \"n{{{{ input.n }}}} one\" }}\n\
             - {{ id: two, agent: a, prompt: \"n{{{{ input.n }}}} two\" }}\n"
        ),
        format!("name: failing\n{AGENT}steps: [{{ id: bad, agent: a, prompt: \"n{{{{ input.n }}}} bad\" }}]\n"),
        format!(
            "name: child\n{AGENT}steps: [{{ id: say, agent: a, prompt: \"n{{{{ input.n }}}} child {{{{ input.of }}}}\" }}]\n"
        ),
        "name: parent\nsteps:\n- id: all\n  for_each: [1, 2]\n  do:\n  - id: kid\n    workflow: child\n    \
         input: { n: \"{{ input.n }}\", of: \"{{ item }}\" }\n"
            .to_owned(),
        "name: timed\nsteps: [{ id: rest, wait: 2s }, { id: done, set: { n: 1 } }]\n".to_owned(),
        "name: asking\nsteps: [{ id: sure, ask: { question: Sure?, approve: true } }]\n".to_owned(),
        "name: listening\nsteps: [{ id: go, wait: { signal: go } }]\n".to_owned(),
    ];
    fixed.into_iter().chain(SCHEDULES.iter().map(schedule)).collect()
}

/// Says a word after a while; what is bad is refused for good.
fn model(received: &Received) -> Behaviour {
    let answer = if prompt(received).ends_with("bad") { Behaviour::status(400) } else { Behaviour::say("fine") };
    answer.after(THINKING)
}

fn prompt(received: &Received) -> String {
    let said = received.body["messages"].as_array().and_then(|messages| messages.last());
    said.and_then(|said| said["content"].as_str()).unwrap_or_default().to_owned()
}

/// What a call is counted under: the run's number, or the tick of its schedule.
fn counted_under(prompt: &str) -> String {
    match prompt.strip_prefix("tick ") {
        Some(tick) => tick.to_owned(),
        None => prompt.split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Where the server of the moment is. The number counts the starts.
#[derive(Default)]
struct Door {
    open: Mutex<(u64, Option<SocketAddr>)>,
    changed: Condvar,
}

impl Door {
    fn opens(&self, address: SocketAddr) {
        let mut open = self.open.lock().unwrap();
        *open = (open.0 + 1, Some(address));
        self.changed.notify_all();
    }

    /// A server that was started after one that is known to be gone.
    fn after(&self, gone: u64) -> (u64, SocketAddr) {
        let open = self.open.lock().unwrap();
        let (open, waited) = self.changed.wait_timeout_while(open, PATIENCE, |open| open.0 <= gone).unwrap();
        assert!(!waited.timed_out(), "the server never came back");
        (open.0, open.1.unwrap())
    }

    /// One request, again on the next server where one dies over it. Status, body, and whether it was asked again.
    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> (u16, Value, bool) {
        let mut gone = 0;
        for again in 0..=CALLS_UNTIL_KILLED.len() {
            let (number, address) = self.after(gone);
            if let Some((status, answer)) = asked(address, method, path, key, body) {
                return (status, answer, again > 0);
            }
            gone = number;
        }
        panic!("{method} {path}: more servers were gone than were killed");
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer, _) = self.ask("GET", path, None, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Waits until a run has ended or waits for somebody.
    fn rested(&self, run: &str) -> Value {
        for _ in 0..LONG_POLLS {
            let details = self.get(&format!("/api/v1/runs/{run}?wait=10s"));
            if details["rests"] == true {
                return details;
            }
        }
        panic!("a run neither ends nor waits: {:#}", self.get(&format!("/api/v1/runs/{run}")));
    }

    /// All events of a run, each when it came, over every end of the server.
    fn watch(&self, run: &str) -> Vec<Told> {
        let (mut seen, mut gone) = (Vec::<Told>::new(), 0);
        for _ in 0..=CALLS_UNTIL_KILLED.len() {
            let (number, address) = self.after(gone);
            seen.extend(events(address, run, seen.last()).into_iter().flatten());
            if seen.last().is_some_and(|told| told.what == "run_ended") {
                return seen;
            }
            gone = number;
        }
        panic!("the stream of {run} ended before the run: {:?}", seen.last());
    }
}

/// None where the server is gone, or goes before it has answered in full.
fn asked(address: SocketAddr, method: &str, path: &str, key: Option<&str>, body: &Value) -> Option<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}");
    let kind = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut answer = String::new();
    let mut stream = connected(address)?;
    stream.write_all(format!("{head}{kind}{body}").as_bytes()).ok()?;
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    serde_json::from_str(body).ok().map(|body| (status, body))
}

fn connected(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

fn events(address: SocketAddr, run: &str, last: Option<&Told>) -> Option<Events> {
    let seen = last.map(|told| format!("last-event-id: {}\r\n", told.id)).unwrap_or_default();
    let mut stream = connected(address)?;
    let head = format!("GET /api/v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n{seen}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    Some(Events::new(stream))
}

/// Runs by their number, and what the watched ones told.
#[derive(Default)]
struct Load {
    runs: Mutex<BTreeMap<usize, (Kind, String)>>,
    seen: Mutex<BTreeMap<String, Vec<Told>>>,
}

impl Load {
    /// Starts all runs with several clients, while the server is killed, and watches some of them.
    fn put_on(&self, door: &Door) {
        let each = |(kind, count): (Kind, usize)| (0..count).map(move |n| (n, kind));
        let mut kinds: Vec<(usize, Kind)> = LOAD.into_iter().flat_map(each).collect();
        // One of each after the other, so that all kinds are there at every kill.
        kinds.sort();
        let (kinds, next) = (&kinds, &AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let client = move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(_, kind)) = kinds.get(number) else { return };
                    let run = started(door, number, kind);
                    self.runs.lock().unwrap().insert(number, (kind, run.clone()));
                    if kind.end().0 != "waiting" && number.is_multiple_of(WATCHED) {
                        let run = run.clone();
                        scope.spawn(move || {
                            let told = door.watch(&run);
                            self.seen.lock().unwrap().insert(run, told);
                        });
                    }
                    lead(door, kind, &run);
                }
            };
            (0..CLIENTS).for_each(|_| drop(scope.spawn(client)));
        });
    }
}

/// However often it is asked for, it is one run.
fn started(door: &Door, number: usize, kind: Kind) -> String {
    let path = format!("/api/v1/workflows/{}/run", kind.workflow());
    let input = json!({ "input": { "n": number } });
    let (status, row, _) = door.ask("POST", &path, Some(&format!("start-{number}")), &input);
    assert_eq!(status, 202, "{row}");
    row["id"].as_str().unwrap().to_owned()
}

/// Does with a run what somebody would.
fn lead(door: &Door, kind: Kind, run: &str) {
    let act = |what: &str, body: Value| {
        door.rested(run);
        let (status, answer, again) = door.ask("POST", &format!("/api/v1/runs/{run}/{what}"), None, &body);
        // The first server may have died after it had kept this and before it said so.
        assert!(status == 202 || again && (400..500).contains(&status), "{what}: {status} {answer}");
    };
    match kind {
        Kind::Answered => act("answer", json!({ "value": true })),
        Kind::Signalled => act("signal", json!({ "name": "go" })),
        Kind::Cancelled => act("cancel", json!({})),
        Kind::Talking | Kind::Timed | Kind::Asking | Kind::Listening | Kind::Failing | Kind::Parent => {}
    }
}

// Whenever a server is killed, the next one goes on with everything: nothing is lost, nothing is done twice.
#[test]
fn killed_under_load_nothing_is_lost_and_nothing_is_done_twice() {
    let models = ModelServer::start();
    models.answer_by(model);
    let (home, door, load) = (Home::with_model(&models), Door::default(), Load::default());
    let server = Server::start(&home);
    door.opens(server.address);
    for definition in workflows() {
        let (status, answer, _) = door.ask("POST", "/api/v1/workflows", None, &json!({ "definition": definition }));
        assert_eq!(status, 201, "{answer}");
    }
    let server = std::thread::scope(|scope| {
        let mut server = server;
        let loading = scope.spawn(|| load.put_on(&door));
        for calls in CALLS_UNTIL_KILLED {
            assert!(models.wait_for(models.received().len() + calls, PATIENCE), "the server stands still");
            drop(server);
            server = Server::start(&home);
            door.opens(server.address);
        }
        loading.join().unwrap();
        server
    });
    stop_schedules(&door);
    let mut calls = Calls::default();
    all_stand_as_they_should(&door, &load, &mut calls);
    watchers_saw_each_event_once(&server, &load);
    for name in SCHEDULES {
        each_tick_came_once(&door, name, &mut calls);
    }
    calls.check(&models.received());
}

fn stop_schedules(door: &Door) {
    for name in SCHEDULES {
        let path = format!("/api/v1/workflows/tick-{name}");
        let (status, answer, _) = door.ask("PATCH", &path, None, &json!({ "status": "paused" }));
        assert_eq!(status, 200, "{answer}");
    }
}

fn all_stand_as_they_should(door: &Door, load: &Load, calls: &mut Calls) {
    let runs = load.runs.lock().unwrap();
    for (number, (kind, run)) in runs.iter() {
        let details = door.rested(run);
        let (status, awaited) = kind.end();
        assert_eq!(details["status"], status, "{kind:?} {number}: {details:#}");
        let waits_for = details["waits_for"].to_string();
        assert!(waits_for.contains(awaited), "{kind:?} {number}: {waits_for}");
        calls.add(door, &format!("n{number}"), run);
        let children = list(door, &format!("parent={run}"));
        assert_eq!(children.len(), if *kind == Kind::Parent { 2 } else { 0 }, "{kind:?} {number}");
        for child in children {
            assert_eq!(child["status"], "completed", "{child:#}");
            calls.add(door, &format!("n{number}"), child["id"].as_str().unwrap());
        }
    }
    // No start was kept twice.
    let kept: BTreeSet<&String> = runs.values().map(|(_, run)| run).collect();
    let names: BTreeSet<&str> = LOAD.iter().map(|(kind, _)| kind.workflow()).collect();
    let found: usize = names.iter().map(|name| list(door, &format!("workflow={name}")).len()).sum();
    assert_eq!((kept.len(), found), (LOAD.iter().map(|(_, count)| count).sum(), runs.len()));
}

fn list(door: &Door, which: &str) -> Vec<Value> {
    let page = door.get(&format!("/api/v1/runs?limit=1000&{which}"));
    assert!(page["next"].is_null(), "more runs than were started: {which}");
    page["items"].as_array().unwrap().clone()
}

fn watchers_saw_each_event_once(server: &Server, load: &Load) {
    let seen = load.seen.lock().unwrap();
    assert!(seen.len() >= 20, "only {} runs were watched", seen.len());
    for (run, seen) in seen.iter() {
        let all: Vec<Told> = events(server.address, run, None).unwrap().collect();
        assert_eq!(*seen, all, "{run}");
    }
}

/// The ticks that started runs follow each other without a gap, and the first that was declined follows the last.
fn each_tick_came_once(door: &Door, name: &str, calls: &mut Calls) {
    let runs = list(door, &format!("workflow=tick-{name}"));
    let trigger = runs[0]["trigger"].as_str().unwrap();
    let declined = wait_until("a tick is declined", || {
        decisions(door, trigger).into_iter().find(|decision| decision["starts"] == false)
    });
    assert_eq!(declined["reason"], "the workflow is paused", "{declined:#}");
    let runs = list(door, &format!("workflow=tick-{name}"));
    let mut ticks = Vec::new();
    for run in &runs {
        let run = run["id"].as_str().unwrap();
        assert_eq!(door.rested(run)["status"], "completed", "{run}");
        let at = door.get(&format!("/api/v1/runs/{run}/output"));
        calls.add(door, &format!("{name} {}", at.as_str().unwrap()), run);
        ticks.push(millis(at.as_str().unwrap()));
    }
    ticks.sort_unstable();
    let (first, count) = (ticks[0], i64::try_from(ticks.len()).unwrap());
    let gapless: Vec<i64> = (0..count).map(|n| first + n * SECOND).collect();
    assert_eq!(ticks, gapless, "tick-{name}");
    assert_eq!(tick_of(&declined), first + count * SECOND, "tick-{name}");
    let decided: Vec<i64> = decisions(door, trigger).iter().map(tick_of).collect();
    assert!(decided.starts_with(&ticks), "tick-{name}: {decided:?}, {ticks:?}");
}

/// What was decided about a trigger, the oldest first.
fn decisions(door: &Door, trigger: &str) -> Vec<Value> {
    let page = door.get(&format!("/api/v1/triggers/{trigger}/decisions"));
    page["items"].as_array().unwrap().iter().rev().cloned().collect()
}

fn tick_of(decision: &Value) -> i64 {
    millis(decision["time"].as_str().unwrap())
}

fn millis(text: &str) -> i64 {
    relais_plan::time::parse_instant(text).unwrap()
}

/// What the journals say about model calls: how many were answered, and how many a kill cut off.
#[derive(Default)]
struct Calls {
    known: BTreeMap<String, (u64, u64)>,
}

impl Calls {
    fn add(&mut self, door: &Door, under: &str, run: &str) {
        let trace = door.get(&format!("/api/v1/runs/{run}/trace"));
        let steps = trace["steps"].as_array().unwrap().iter();
        for call in steps.flat_map(|step| step["calls"].as_array().unwrap()).filter(|call| call["what"] == "model") {
            let known = self.known.entry(under.to_owned()).or_default();
            *known = (known.0 + 1, known.1 + call["interrupted"].as_u64().unwrap_or(0));
        }
    }

    /// Each was asked once, and once more for each time that it was cut off before its answer was kept.
    fn check(&self, received: &[Received]) {
        let mut asked = BTreeMap::<String, u64>::new();
        received.iter().for_each(|received| *asked.entry(counted_under(&prompt(received))).or_default() += 1);
        assert_eq!(asked.keys().collect::<Vec<_>>(), self.known.keys().collect::<Vec<_>>());
        for (under, (calls, interrupted)) in &self.known {
            let asked = asked[under];
            assert!(*calls <= asked && asked <= calls + interrupted, "{under}: {asked}, {calls} + {interrupted}");
        }
        let interrupted: u64 = self.known.values().map(|(_, interrupted)| interrupted).sum();
        assert!(interrupted > 0, "no kill has met a call under way");
    }
}
