//! Schedules in virtual time: a year with its changes of the clock, downtime, crashes at every call, several servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use relais_engine::{Entry, Event, FORMAT, Millis, RunId, RunStatus, Signal, Summary};
use relais_plan::time::{format_instant, parse_instant};
use relais_plan::{BatchOf, CatchUp, Overlap, Pace, Throttle, Trigger, TriggerOn, schedule};
use relais_runtime::clock::Clock;
use relais_runtime::settings::Settings;
use relais_store::{Batch, Expect, Fault, Filter, MemoryStore, Options, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::decide::{Facts, LATE_MS, MAX_CAUGHT_UP, MAX_QUEUED, decide};
use crate::kept::{self, At};
use crate::triggers::sent::Sent;
use crate::{
    Config, Error, Fate, NewWorkflow, OnClash, Origin, Service, SetSchedule, TriggerChange, TriggerRecord, Workflow,
    WorkflowStatus, Written,
};

const NEW_YEAR: &str = "2026-01-01T00:00:00Z";
const MINUTE: Millis = 60_000;
const DAY: Millis = 24 * 60 * MINUTE;
const TEXT: &str = "name: tick\ninput: { name?: string }\nsteps:\n  - { id: say, set: { word: hello } }\n";

struct VirtualClock(AtomicI64);

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

impl VirtualClock {
    fn set(&self, now: Millis) {
        self.0.store(now, Ordering::SeqCst);
    }

    fn add(&self, ms: Millis) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

/// A service whose runs are left alone, with one workflow.
struct World {
    service: Service,
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    workflow: Workflow,
    folder: TempDir,
}

impl World {
    async fn new() -> World {
        World::on(Arc::new(MemoryStore::new())).await
    }

    async fn on(store: Arc<dyn Store>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock(AtomicI64::new(parse_instant(NEW_YEAR).unwrap())));
        let service = open(&folder, &store, &clock);
        let workflow = keep_workflow(&service).await;
        World { service, store, clock, workflow, folder }
    }

    /// Another process, or this one after it was killed.
    fn another(&self) -> Service {
        open(&self.folder, &self.store, &self.clock)
    }

    async fn add(&self, on: TriggerOn, set: impl FnOnce(&mut Trigger)) -> Uuid {
        let mut trigger = Trigger::new(on);
        set(&mut trigger);
        let now = (self.clock.now(), "UTC");
        let record = TriggerRecord::set(self.workflow.id, None, trigger, Origin::Call, now).unwrap();
        self.service.change(self.service.new_trigger_edits(&record).unwrap()).await.unwrap();
        record.uuid
    }

    async fn trigger(&self, id: Uuid) -> TriggerRecord {
        self.service.kept::<TriggerRecord>(&id.to_string()).await.unwrap().it
    }

    async fn set_status(&self, status: WorkflowStatus) {
        let workflow = Workflow { status, ..self.workflow.clone() };
        self.service.change(vec![kept::put("somebody", &workflow, Expect::Any).unwrap()]).await.unwrap();
    }

    /// Ends every run that is going, and tells the scheduler as the feed does.
    async fn end_runs(&self, status: RunStatus) {
        let going = vec![RunStatus::Pending, RunStatus::Running];
        let filter = Filter { status: going, limit: 1_000, ..Filter::default() };
        for row in self.store.list(filter).await.unwrap().rows {
            let now = self.clock.now();
            let entry = Entry { seq: row.seq + 1, at: now, version: FORMAT, events: Vec::new() };
            let summary = Summary { status, ended_at: Some(now), ..row.summary.clone() };
            let batch = Batch { summary: Some(summary), ..Batch::said(row.clone(), entry) };
            self.store.append(batch).await.unwrap();
            let edits = self.service.after_end_edits(&row).await.unwrap();
            self.service.change(edits).await.unwrap();
        }
    }

    /// The ticks that runs were started for, by trigger, in order; one that was started twice is there twice.
    async fn fired(&self) -> BTreeMap<Uuid, Vec<Millis>> {
        let mut fired: BTreeMap<Uuid, Vec<Millis>> = BTreeMap::new();
        let mut filter = Filter { limit: 1_000, ..Filter::default() };
        loop {
            let page = self.store.list(filter.clone()).await.unwrap();
            for row in &page.rows {
                let (trigger, tick) = self.tick_of(row.summary.run).await;
                fired.entry(trigger).or_default().push(tick);
            }
            filter.cursor = page.cursor;
            if filter.cursor.is_none() {
                fired.values_mut().for_each(|ticks| ticks.sort_unstable());
                return fired;
            }
        }
    }

    async fn tick_of(&self, run: RunId) -> (Uuid, Millis) {
        let entries = self.store.load(run, 0).await.unwrap();
        let Event::Opened(opened) = &entries[0].events[0] else { panic!("{entries:?}") };
        let at = opened.trigger["at"].as_str().unwrap();
        (opened.target.trigger.as_ref().unwrap().parse().unwrap(), parse_instant(at).unwrap())
    }

    async fn reasons(&self, id: Uuid) -> Vec<String> {
        self.service.decisions(id).await.unwrap().into_iter().map(|decision| decision.reason).collect()
    }
}

fn open(folder: &TempDir, store: &Arc<dyn Store>, clock: &Arc<VirtualClock>) -> Service {
    let (home, user) = (folder.path().join("home"), "somebody".to_owned());
    let config = Config { home, folder: folder.path().to_owned(), settings: Settings::default(), read: vec![], user };
    Service::open_on(config, store.clone(), clock.clone(), true).unwrap()
}

async fn keep_workflow(service: &Service) -> Workflow {
    let written = Written { text: TEXT.into(), ..Written::default() };
    let new = NewWorkflow { definition: Some(written), ..NewWorkflow::default() };
    service.create_workflow(new).await.unwrap().it
}

fn record(on: TriggerOn, zone: &str, set_at: Millis) -> TriggerRecord {
    let trigger = Trigger { timezone: Some(zone.to_owned()), ..Trigger::new(on) };
    TriggerRecord::set(Uuid::nil(), None, trigger, Origin::Call, (set_at, "UTC")).unwrap()
}

fn cron(text: &str) -> TriggerOn {
    TriggerOn::Cron(text.to_owned())
}

// keeps D-08
#[test]
fn a_year_of_every_zone_fires_each_time_once() {
    let start = parse_instant(NEW_YEAR).unwrap();
    let end = start + 366 * DAY;
    for zone in ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"] {
        for on in [
            cron("30 2 * * *"),
            cron("15 1,2,3 * * *"),
            TriggerOn::Calendar("weekly@0@02:15".into()),
            TriggerOn::Calendar("daily@00:00".into()),
            TriggerOn::Every { ms: 7 * 3_600_000 },
        ] {
            let mut trigger = record(on, zone, start);
            let schedule = schedule::parse(&trigger.on, "UTC", start).unwrap().unwrap();
            let mut fired = Vec::new();
            while let Some(now) = trigger.next_at.filter(|at| *at <= end) {
                let decided = decide(&trigger, &schedule, now, &Facts::default());
                assert!(decided.declined.is_empty(), "{decided:?}");
                fired.extend(decided.start.iter().map(|owed| owed.tick));
                trigger.next_at = decided.next_at;
            }
            assert_eq!(fired, schedule.between(start, end, 10_000).times, "{} {zone}", schedule.describe());
        }
    }
}

/// A trigger of every minute that nobody looked at for so many of them: how many start, are declined, are queued.
fn check(
    (catch_up, overlap): (CatchUp, Overlap),
    missed: Millis,
    late_ms: Millis,
    going: bool,
    expected: (usize, usize, usize),
) {
    let start = parse_instant(NEW_YEAR).unwrap();
    let mut trigger = record(TriggerOn::Every { ms: MINUTE as u64 }, "UTC", start);
    (trigger.on.catch_up, trigger.on.overlap) = (catch_up, overlap);
    let schedule = schedule::parse(&trigger.on, "UTC", start).unwrap().unwrap();
    let now = start + missed * MINUTE + late_ms;
    let facts = Facts { going: going.then(Uuid::now_v7), ..Facts::default() };
    let decided = decide(&trigger, &schedule, now, &facts);
    let found = (decided.start.len(), decided.declined.len(), decided.queued.len());
    assert_eq!(found, expected, "{catch_up:?} {overlap:?} {missed} {late_ms} {going}: {decided:?}");
    assert_eq!(decided.next_at, schedule.next(now));
    let last = decided.start.last().map(|owed| owed.tick);
    if last.is_some() && catch_up != CatchUp::All {
        assert_eq!(last, Some(start + missed * MINUTE), "the last time is the one that counts");
    }
}

#[test]
fn what_was_missed_is_caught_up_as_the_trigger_says() {
    use CatchUp::{All, None, One};
    use Overlap::{Allow, CancelRunning, Queue, Skip};
    let hour = 60 * MINUTE;
    for (how, missed, late_ms, going, expected) in [
        // On time.
        ((One, Skip), 1, 0, false, (1, 0, 0)),
        ((None, Skip), 1, 0, false, (1, 0, 0)),
        ((All, Skip), 1, 5, false, (1, 0, 0)),
        // While another run is going.
        ((One, Skip), 1, 0, true, (0, 1, 0)),
        ((One, Queue), 1, 0, true, (0, 0, 1)),
        ((One, Allow), 1, 0, true, (1, 0, 0)),
        ((One, CancelRunning), 1, 0, true, (1, 0, 0)),
        // After an hour of downtime.
        ((One, Skip), 60, 0, false, (1, 1, 0)),
        ((None, Skip), 60, 0, false, (1, 1, 0)),
        ((All, Allow), 60, 0, false, (60, 0, 0)),
        ((All, Skip), 60, 0, false, (1, 59, 0)),
        ((All, Queue), 60, 0, false, (1, 0, 59)),
        ((All, CancelRunning), 60, 0, true, (1, 59, 0)),
        // After a year: bounded, and told.
        ((One, Skip), 366 * 24 * 60, 0, false, (1, 1, 0)),
        ((All, Allow), 366 * 24 * 60, 0, false, (MAX_CAUGHT_UP, 1, 0)),
        ((All, Queue), 366 * 24 * 60, 0, true, (0, 1, MAX_QUEUED)),
    ] {
        check(how, missed, late_ms, going, expected);
    }
    // One that comes seldom, found late.
    let start = parse_instant(NEW_YEAR).unwrap();
    for (catch_up, late_ms, starts) in [(One, hour, 1), (None, LATE_MS, 1), (None, LATE_MS + 1, 0), (None, hour, 0)] {
        let mut trigger = record(cron("0 9 * * *"), "UTC", start);
        trigger.on.catch_up = catch_up;
        let schedule = schedule::parse(&trigger.on, "UTC", start).unwrap().unwrap();
        let decided = decide(&trigger, &schedule, start + 9 * hour + late_ms, &Facts::default());
        assert_eq!((decided.start.len(), decided.declined.len()), (starts, 1 - starts), "{catch_up:?} {late_ms}");
    }
}

// keeps A-20
#[tokio::test]
async fn a_year_in_the_store_fires_each_time_once_and_says_so() {
    let world = World::new().await;
    let start = world.clock.now();
    let end = start + 366 * DAY;
    let mut expected = BTreeMap::new();
    for zone in ["Europe/Paris", "America/New_York"] {
        let on = TriggerOn::Calendar("weekly@0,3@02:30".into());
        let id = world.add(on, |trigger| trigger.timezone = Some(zone.into())).await;
        let schedule = schedule::parse(&world.trigger(id).await.on, "UTC", start).unwrap().unwrap();
        expected.insert(id, schedule.between(start, end, 1_000).times);
    }
    while let Some(next) = world.service.fire_due().await.unwrap().filter(|next| *next <= end) {
        world.clock.set(next);
        world.service.fire_due().await.unwrap();
        // A recurrence goes on whatever becomes of its runs.
        world.end_runs(RunStatus::Failed).await;
    }
    assert_eq!(world.fired().await, expected);
    for (id, ticks) in expected {
        let decisions = world.service.decisions(id).await.unwrap();
        let told: Vec<_> = decisions.iter().rev().map(|d| (d.tick, d.starts, d.run.is_some())).collect();
        let last: Vec<_> = ticks[ticks.len() - told.len()..].iter().map(|tick| (Some(*tick), true, true)).collect();
        assert_eq!(told, last);
    }
}

/// Fails every call from one on, as if the process had been killed there.
struct Power {
    calls: AtomicU64,
    cut_at: AtomicU64,
}

impl Power {
    fn fault(&self, is_after: bool) -> Option<Fault> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let gone = || relais_store::Error::Busy("the power is gone".into());
        match call.cmp(&self.cut_at.load(Ordering::SeqCst)) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal if is_after => Some(Fault::After(gone())),
            std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => Some(Fault::Before(gone())),
        }
    }

    fn was_cut(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > self.cut_at.load(Ordering::SeqCst)
    }
}

/// Where a process is killed, and whether another takes its place at once or a minute later.
#[derive(Debug, Clone, Copy)]
struct Cut {
    nth: u64,
    is_after: bool,
    at_once: bool,
}

impl Cut {
    async fn world(self) -> (World, Arc<Power>) {
        let power = Arc::new(Power { calls: AtomicU64::new(0), cut_at: AtomicU64::new(u64::MAX) });
        let faults = power.clone();
        let store = MemoryStore::with_faults(move |_, _| faults.fault(self.is_after));
        (World::on(Arc::new(store)).await, power)
    }

    /// Four minutes of a world. Says whether there were so many calls.
    async fn four_minutes(self, world: &mut World, power: &Power) -> bool {
        power.cut_at.store(power.calls.load(Ordering::SeqCst) + self.nth, Ordering::SeqCst);
        let mut was_cut = false;
        for _ in 0..4 {
            world.clock.add(MINUTE);
            if world.service.fire_due().await.is_err() {
                was_cut = true;
                power.cut_at.store(u64::MAX, Ordering::SeqCst);
                world.service = world.another();
                if self.at_once {
                    world.service.fire_due().await.unwrap();
                }
            }
        }
        power.cut_at.store(u64::MAX, Ordering::SeqCst);
        world.service.fire_due().await.unwrap();
        was_cut
    }
}

/// Each run ends at last, and what waited for it is started.
async fn end_all(world: &World) {
    for _ in 0..5 {
        world.service.fire_due().await.unwrap();
        world.end_runs(RunStatus::Completed).await;
        // As long as the shortest pause between two runs.
        world.clock.add(1_000);
    }
}

async fn check_cut(cut: Cut) -> bool {
    let (mut world, power) = cut.world().await;
    let start = world.clock.now();
    let mut expected = BTreeMap::new();
    for (ms, overlap) in [(60_000, Overlap::Allow), (60_000, Overlap::Queue), (120_000, Overlap::Allow)] {
        let id = world.add(TriggerOn::Every { ms }, |t| (t.overlap, t.catch_up) = (overlap, CatchUp::All)).await;
        let schedule = schedule::parse(&world.trigger(id).await.on, "UTC", start).unwrap().unwrap();
        expected.insert(id, schedule.between(start, start + 4 * MINUTE, 100).times);
    }
    let was_cut = cut.four_minutes(&mut world, &power).await;
    end_all(&world).await;
    assert_eq!(world.fired().await, expected, "{cut:?}");
    was_cut
}

/// Of one trigger each run takes the place of the one before, of the other each waits for it.
async fn check_one_at_a_time(cut: Cut) -> bool {
    let (mut world, power) = cut.world().await;
    let end = world.clock.now() + 4 * MINUTE;
    let replacing = world.add(TriggerOn::Every { ms: 60_000 }, |t| t.overlap = Overlap::CancelRunning).await;
    let endless = world.add(TriggerOn::Continuous { delay_ms: 1_000 }, |_| {}).await;
    let was_cut = cut.four_minutes(&mut world, &power).await;
    check_one_stays(&world, replacing, &format!("{cut:?}")).await;
    assert_eq!(world.fired().await[&endless].len(), 1, "{cut:?}");
    end_all(&world).await;
    let fired = world.fired().await;
    assert_eq!((fired[&replacing].last(), fired[&endless].len()), (Some(&end), 5), "{cut:?}");
    let is_once = |ticks: &Vec<Millis>| ticks.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(fired.values().all(is_once), "{cut:?}: {fired:?}");
    was_cut
}

#[tokio::test]
async fn no_tick_is_lost_or_doubled_wherever_the_process_is_killed() {
    for (is_after, at_once) in [(false, true), (true, false)] {
        let mut nth = 0;
        while check_cut(Cut { nth, is_after, at_once }).await {
            nth += 1;
        }
        assert!(nth > 40, "there were {nth} calls only");
    }
}

#[tokio::test]
async fn one_run_at_a_time_is_left_wherever_the_process_is_killed() {
    for (is_after, at_once) in [(false, true), (true, false)] {
        let mut nth = 0;
        while check_one_at_a_time(Cut { nth, is_after, at_once }).await {
            nth += 1;
        }
        assert!(nth > 40, "there were {nth} calls only");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_servers_start_each_tick_once() {
    let world = World::new().await;
    let (start, others) = (world.clock.now(), [world.another(), world.another()]);
    for _ in 0..10 {
        world.add(TriggerOn::Every { ms: MINUTE as u64 }, |t| t.overlap = Overlap::Allow).await;
    }
    for _ in 0..10 {
        world.clock.add(MINUTE);
        let (a, b, c) = tokio::join!(
            tokio::spawn(fire_until_done(world.service.clone())),
            tokio::spawn(fire_until_done(others[0].clone())),
            tokio::spawn(fire_until_done(others[1].clone())),
        );
        assert!([a, b, c].into_iter().all(|fired| fired.is_ok()));
    }
    let ticks: Vec<Millis> = (1..=10).map(|n| start + n * MINUTE).collect();
    let fired = world.fired().await;
    assert_eq!(fired.len(), 10);
    assert!(fired.values().all(|found| *found == ticks), "{fired:?}");
}

async fn fire_until_done(service: Service) {
    let now = service.core.clock.now();
    while service.fire_due().await.unwrap().is_some_and(|next| next <= now) {}
}

// keeps D-09, D-10
#[tokio::test]
async fn a_continuous_trigger_goes_on_after_each_run_and_never_beside_one() {
    let world = World::new().await;
    let start = world.clock.now();
    let id = world.add(TriggerOn::Continuous { delay_ms: 5_000 }, |_| {}).await;
    let mut expected = vec![start];
    for status in [RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled] {
        world.service.fire_due().await.unwrap();
        // While it is going, nothing starts, however long that takes.
        for _ in 0..3 {
            world.clock.add(10 * MINUTE);
            world.service.fire_due().await.unwrap();
            assert_eq!(world.fired().await[&id], expected);
        }
        world.end_runs(status).await;
        let ready = world.clock.now() + 5_000;
        assert_eq!(world.service.fire_due().await.unwrap(), Some(ready));
        assert_eq!(world.fired().await[&id], expected, "not before the delay is over");
        world.clock.set(ready);
        world.service.fire_due().await.unwrap();
        expected.push(ready);
        assert_eq!(world.fired().await[&id], expected);
    }
}

#[tokio::test]
async fn a_continuous_trigger_finds_out_by_itself_that_its_run_has_ended() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Continuous { delay_ms: 1_000 }, |_| {}).await;
    world.service.fire_due().await.unwrap();
    let trigger = world.trigger(id).await;
    world.end_runs(RunStatus::Completed).await;
    // As if nobody had told.
    world.service.change(vec![kept::put("somebody", &trigger, Expect::Any).unwrap()]).await.unwrap();
    let start = world.clock.now();
    while world.fired().await[&id].len() < 2 {
        world.clock.set(world.service.fire_due().await.unwrap().unwrap());
        assert!(world.clock.now() < start + 10_000, "it is found within seconds");
    }
}

#[tokio::test]
async fn queued_ticks_start_one_after_the_other() {
    let world = World::new().await;
    let start = world.clock.now();
    let id = world.add(TriggerOn::Every { ms: MINUTE as u64 }, |t| t.overlap = Overlap::Queue).await;
    for _ in 0..3 {
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
    }
    for started in 1..=3 {
        let ticks: Vec<Millis> = (1..=started).map(|n| start + n * MINUTE).collect();
        assert_eq!(world.fired().await[&id], ticks);
        world.end_runs(RunStatus::Failed).await;
        world.service.fire_due().await.unwrap();
    }
    assert!(world.trigger(id).await.queued.is_empty());
}

#[tokio::test]
async fn cancel_running_takes_the_place_of_the_run_before() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Every { ms: MINUTE as u64 }, |t| t.overlap = Overlap::CancelRunning).await;
    world.clock.add(MINUTE);
    world.service.fire_due().await.unwrap();
    let first = world.trigger(id).await.last_run.unwrap();
    world.clock.add(MINUTE);
    world.service.fire_due().await.unwrap();
    let last = world.store.load(first, 1).await.unwrap();
    assert!(format!("{last:?}").contains("Cancel"), "{last:?}");
    assert_ne!(world.trigger(id).await.last_run, Some(first));
}

/// A trigger of every minute in a world that was changed; what its one decision says.
async fn check_reason(world: World, change: impl FnOnce(&mut Trigger), expected: &str) {
    let id = world.add(TriggerOn::Every { ms: MINUTE as u64 }, change).await;
    world.clock.add(MINUTE);
    let next = world.service.fire_due().await.unwrap();
    assert_eq!(next, Some(world.clock.now() + MINUTE), "it goes on");
    assert!(world.fired().await.is_empty());
    let reasons = world.reasons(id).await;
    assert!(reasons.len() == 1 && reasons[0].contains(expected), "{reasons:?}");
}

#[tokio::test]
async fn what_does_not_start_says_why_and_goes_on() {
    for (status, expected) in
        [(WorkflowStatus::Paused, "the workflow is paused"), (WorkflowStatus::Archived, "the workflow is archived")]
    {
        let world = World::new().await;
        world.set_status(status).await;
        check_reason(world, |_| {}, expected).await;
    }
    check_reason(World::new().await, |t| t.input = json!({ "nmae": "x" }), "did you mean `name`?").await;
    let mut world = World::new().await;
    world.workflow.version = 7;
    world.set_status(WorkflowStatus::Active).await;
    check_reason(world, |_| {}, "has no version 7").await;
}

#[tokio::test]
async fn a_trigger_without_its_workflow_is_put_aside() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Every { ms: MINUTE as u64 }, |_| {}).await;
    let gone = kept::remove::<Workflow>("somebody", &world.workflow.id.to_string(), Expect::Any);
    world.service.change(vec![gone]).await.unwrap();
    world.clock.add(MINUTE);
    assert_eq!(world.service.fire_due().await.unwrap(), None);
    assert_eq!(world.trigger(id).await.off.as_deref(), Some("its workflow is gone"));
}

#[tokio::test]
async fn a_time_fires_once_and_a_past_one_never() {
    let world = World::new().await;
    let past = world.add(TriggerOn::At("2025-01-01T00:00:00Z".into()), |_| {}).await;
    let once = world.add(TriggerOn::At("in 20 minutes".into()), |_| {}).await;
    let at = world.clock.now() + 20 * MINUTE;
    assert_eq!(world.service.fire_due().await.unwrap(), Some(at));
    world.clock.set(at + 3 * DAY);
    assert_eq!(world.service.fire_due().await.unwrap(), None);
    assert_eq!(world.fired().await, BTreeMap::from([(once, vec![at])]));
    assert_eq!(world.trigger(past).await.off.as_deref(), Some("its time was past when it was set"));
}

#[tokio::test]
async fn decisions_are_bounded() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Every { ms: 1_000 }, |t| t.overlap = Overlap::Skip).await;
    for _ in 0..600 {
        world.clock.add(1_000);
        world.service.fire_due().await.unwrap();
    }
    assert_eq!(world.reasons(id).await.len(), crate::triggers::decisions::KEPT);
    let find = relais_store::Find { kind: "decision".into(), limit: 1_000, ..Default::default() };
    let kept = world.store.records(find).await.unwrap().len();
    assert!(kept < 400, "{kept} are kept");
}

// keeps A-27
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_that_are_due_at_once_are_started_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("a.db"), Options::default()).unwrap());
    let world = World::on(store).await;
    let now = (world.clock.now(), "UTC");
    let record = |ms: u64| {
        let trigger = Trigger::new(TriggerOn::Every { ms });
        TriggerRecord::set(world.workflow.id, None, trigger, Origin::Call, now).unwrap()
    };
    // Those that are not due cost nothing.
    for ms in [MINUTE as u64, DAY as u64] {
        let edits = (0..1_000).flat_map(|_| world.service.new_trigger_edits(&record(ms)).unwrap());
        world.service.change(edits.collect()).await.unwrap();
    }
    world.clock.add(MINUTE);
    assert_eq!(world.service.fire_due().await.unwrap(), Some(world.clock.now() + MINUTE));
    let fired = world.fired().await;
    assert!(fired.len() == 1_000 && fired.values().all(|ticks| ticks.len() == 1));
}

/// The triggers of a version become those of the next: how many edits that takes, and which ids stay.
#[tokio::test]
async fn unchanged_triggers_keep_their_state() {
    let world = World::new().await;
    let service = &world.service;
    let hook = |secret: Option<&str>| TriggerOn::Webhook {
        id: "orders".into(),
        secret: secret.map(str::to_owned),
        dedupe: None,
    };
    let named = |on: Vec<(Option<&str>, TriggerOn)>| -> Vec<(Option<String>, Trigger)> {
        on.into_iter().map(|(branch, on)| (branch.map(str::to_owned), Trigger::new(on))).collect()
    };
    let every = TriggerOn::Every { ms: 60_000 };
    let first = named(vec![(None, every.clone()), (Some("side"), every.clone()), (None, hook(None))]);
    let mut ids: Vec<Vec<Uuid>> = Vec::new();
    for (named, edits) in [
        (first.clone(), 4),
        (first, 0),
        // A secret is changed: the same trigger.
        (named(vec![(None, every.clone()), (Some("side"), every.clone()), (None, hook(Some("${RELAIS_HOOK_S}")))]), 1),
        // The hook moves to the branch, and the branch's own trigger goes; of each it is kept that it went.
        (named(vec![(None, every), (Some("side"), hook(Some("${RELAIS_HOOK_S}")))]), 8),
    ] {
        let present = service.list_kept::<TriggerRecord>(Some(&world.workflow.id.to_string())).await.unwrap();
        let found = service.trigger_edits(&world.workflow, &named, &present).unwrap();
        assert_eq!(found.len(), edits, "{found:?}");
        service.change(found).await.unwrap();
        let now = service.list_kept::<TriggerRecord>(None).await.unwrap();
        ids.push(now.iter().map(|At { it, .. }| it.uuid).collect());
    }
    assert_eq!((&ids[0], &ids[0]), (&ids[1], &ids[2]));
    assert_eq!((ids[3].len(), ids[3][0]), (2, ids[0][0]));
    let twice = named(vec![(None, hook(None)), (Some("side"), hook(None))]);
    let refused = service.trigger_edits(&world.workflow, &twice, &[]).unwrap_err();
    assert!(matches!(&refused, Error::Invalid(text) if text.contains("two triggers have the webhook `orders`")));
}

const MODES: &str = r#"{
  "name": "modes", "executionMode": "one_time",
  "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [],
  "branches": [
    { "id": "hourly", "executionMode": "interval", "schedule": "3600",
      "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] },
    { "id": "endless", "executionMode": "continuous", "schedule": "5",
      "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] },
    { "id": "by_hand", "executionMode": "one_time",
      "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] }
  ]
}"#;

/// How many runs of each branch there are; the main graph is "".
async fn by_branch(world: &World) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let filter = Filter { limit: 1_000, ..Filter::default() };
    for row in world.store.list(filter).await.unwrap().rows {
        *found.entry(row.summary.target.branch.unwrap_or_default()).or_default() += 1;
    }
    found
}

// keeps D-06, D-07, D-11
#[tokio::test]
async fn each_branch_goes_by_its_own_mode_whatever_becomes_of_the_others() {
    let world = World::new().await;
    let written = Written { text: MODES.into(), ..Written::default() };
    let new = NewWorkflow { definition: Some(written), ..NewWorkflow::default() };
    world.service.create_workflow(new).await.unwrap();
    let counts = |hourly: usize, endless: usize| -> BTreeMap<String, usize> {
        let all = [("hourly", hourly), ("endless", endless)];
        all.into_iter().filter(|(_, count)| *count > 0).map(|(id, count)| (id.to_owned(), count)).collect()
    };
    world.service.fire_due().await.unwrap();
    assert_eq!(by_branch(&world).await, counts(0, 1));
    // The endless one hangs; the hourly one does not mind, and fails, and goes on.
    world.clock.add(60 * MINUTE);
    world.service.fire_due().await.unwrap();
    assert_eq!(by_branch(&world).await, counts(1, 1));
    world.end_runs(RunStatus::Failed).await;
    world.clock.add(60 * MINUTE);
    world.service.fire_due().await.unwrap();
    assert_eq!(by_branch(&world).await, counts(2, 2));
}

/// The times at which a schedule in words fires in the first days of a year.
async fn fires_at(set: SetSchedule, expected: &[&str]) {
    let world = World::new().await;
    let said = format!("{set:?}");
    let id = world.service.schedule("tick", set).await.unwrap().trigger.uuid;
    for _ in 0..2 * 24 * 5 {
        world.clock.add(30 * MINUTE);
        world.service.fire_due().await.unwrap();
        world.end_runs(RunStatus::Completed).await;
    }
    let fired = world.fired().await.remove(&id).unwrap_or_default();
    let times: Vec<String> = fired.into_iter().map(|at| format_instant(at)[..16].to_owned()).collect();
    assert_eq!(times, expected, "{said}");
}

// keeps A-21
#[tokio::test]
async fn schedules_in_words_fire_at_their_times() {
    let cron = |text: &str| SetSchedule { cron: Some(text.into()), ..SetSchedule::default() };
    let nine = ["2026-01-01T09:00", "2026-01-02T09:00", "2026-01-03T09:00", "2026-01-04T09:00", "2026-01-05T09:00"];
    fires_at(cron("daily at 9am"), &nine).await;
    // The third and the fourth are a weekend.
    fires_at(cron("0 9 * * MON-FRI"), &[nine[0], nine[1], nine[4]]).await;
    fires_at(cron("every weekday at 9am"), &[nine[0], nine[1], nine[4]]).await;
    fires_at(SetSchedule { at: Some("tomorrow 9am".into()), ..SetSchedule::default() }, &[nine[1]]).await;
}

// keeps A-32
#[tokio::test]
async fn a_paused_schedule_starts_nothing_until_it_is_resumed() {
    let world = World::new().await;
    for set in [
        SetSchedule { every: Some("1m".into()), ..SetSchedule::default() },
        SetSchedule { continuous: Some("1s".into()), ..SetSchedule::default() },
    ] {
        let timed = world.service.schedule("tick", set).await.unwrap();
        let id = timed.trigger.uuid;
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
        assert_eq!(world.fired().await[&id].len(), 1);
        world.service.pause_schedule(id).await.unwrap();
        world.end_runs(RunStatus::Completed).await;
        world.clock.add(10 * MINUTE);
        assert_eq!(world.service.fire_due().await.unwrap(), None, "nothing is due");
        assert_eq!(world.fired().await[&id].len(), 1);
        world.service.resume_schedule(id).await.unwrap();
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
        assert_eq!(world.fired().await[&id].len(), 2, "what has passed is not made up for");
        world.service.cancel_schedule(id).await.unwrap();
        world.end_runs(RunStatus::Completed).await;
        world.clock.add(10 * MINUTE);
        assert_eq!(world.service.fire_due().await.unwrap(), None);
    }
}

#[tokio::test]
async fn ticks_that_wait_when_a_schedule_is_paused_are_told() {
    let world = World::new().await;
    let queue = SetSchedule { every: Some("1m".into()), overlap: Some(Overlap::Queue), ..SetSchedule::default() };
    let id = world.service.schedule("tick", queue).await.unwrap().trigger.uuid;
    for _ in 0..3 {
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
    }
    assert_eq!(world.trigger(id).await.queued.len(), 2);
    world.service.pause_schedule(id).await.unwrap();
    world.service.fire_due().await.unwrap();
    assert_eq!(world.reasons(id).await, ["it is paused", "it is paused", "it was due"]);
    world.service.resume_schedule(id).await.unwrap();
    assert!(world.trigger(id).await.queued.is_empty());
}

#[tokio::test]
async fn ticks_that_wait_when_times_are_changed_are_told_and_what_was_sent_stays() {
    let world = World::new().await;
    let settings = |settings: serde_json::Value| TriggerChange {
        settings: settings.as_object().cloned(),
        ..TriggerChange::default()
    };
    let every = |every: &str| settings(json!({ "every": every, "overlap": "queue" }));
    let set = world.service.set_trigger("tick", "schedule", every("1m"), None).await.unwrap();
    let timed = set.it.trigger_uuid.unwrap();
    for _ in 0..2 {
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
    }
    world.service.save_trigger(timed, every("1h"), None).await.unwrap();
    assert_eq!(world.reasons(timed).await, ["its times were changed", "it was due"]);
    assert!(world.trigger(timed).await.queued.is_empty());
    let event = |event: &str| settings(json!({ "event": event, "overlap": "queue" }));
    let set = world.service.set_trigger("tick", "event", event("paid"), None).await.unwrap();
    let sent = set.it.trigger_uuid.unwrap();
    send(&world, sent, "one").await;
    send(&world, sent, "two").await;
    world.service.save_trigger(sent, event("sent"), None).await.unwrap();
    assert_eq!((world.trigger(sent).await.queued.len(), world.reasons(sent).await.len()), (1, 1));
}

/// A schedule with these settings is paused and saved with those: it stays paused, and goes on when it is resumed.
async fn check_saved_while_paused(before: &str, after: &str) {
    let world = World::new().await;
    let settings = |every: &str| TriggerChange {
        settings: json!({ "every": every, "input": { "name": "x" } }).as_object().cloned(),
        ..TriggerChange::default()
    };
    let set = world.service.set_trigger("tick", "schedule", settings(before), None).await.unwrap();
    let id = set.it.trigger_uuid.unwrap();
    world.service.pause_schedule(id).await.unwrap();
    world.service.save_trigger(id, settings(after), None).await.unwrap();
    let saved = world.trigger(id).await;
    assert_eq!((saved.off.as_deref(), saved.next_at), (Some("it is paused"), None));
    world.clock.add(10 * MINUTE);
    assert_eq!(world.service.fire_due().await.unwrap(), None);
    world.service.resume_schedule(id).await.unwrap();
    world.clock.add(2 * MINUTE);
    world.service.fire_due().await.unwrap();
    assert_eq!(world.fired().await[&id].len(), 1);
}

#[tokio::test]
async fn a_paused_schedule_that_is_saved_stays_paused_and_can_be_resumed() {
    check_saved_while_paused("1m", "1m").await;
    check_saved_while_paused("1h", "2m").await;
}

/// How often each run of a trigger was told to end.
async fn cancels(world: &World, trigger: Uuid) -> BTreeMap<RunId, usize> {
    let mut found = BTreeMap::new();
    let rows = world.store.list(Filter { limit: 1_000, ..Filter::default() }).await.unwrap().rows;
    for row in rows.into_iter().filter(|row| row.summary.target.trigger == Some(trigger.to_string())) {
        let entries = world.store.load(row.summary.run, 0).await.unwrap();
        let is_cancel = |event: &&Event| matches!(event, Event::Signalled { signal: Signal::Cancel, .. });
        let count = entries.iter().flat_map(|entry| &entry.events).filter(is_cancel).count();
        found.insert(row.summary.run, count);
    }
    found
}

/// All runs but the last have made room, and were told so once: a second cancel would cut off their exit steps.
async fn check_one_stays(world: &World, trigger: Uuid, at: &str) {
    let cancels = cancels(world, trigger).await;
    let last = world.trigger(trigger).await.last_run.unwrap();
    let is_right = |(run, times): (&RunId, &usize)| *times == usize::from(*run != last);
    assert!(cancels.iter().all(is_right), "{at}, the last is {last}: {cancels:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_are_sent_at_once_each_takes_the_place_of_the_one_before() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = Overlap::CancelRunning).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let service = if number % 2 == 0 { world.service.clone() } else { world.another() };
        tasks.spawn(async move {
            let at = service.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
            let key = (number % 3 > 0).then(|| number.to_string());
            service.fire_sent(at, &Sent { key, data: json!({}), traceparent: None }).await.unwrap()
        });
    }
    let fates = tasks.join_all().await;
    assert!(fates.iter().all(|fate| fate.starts && fate.run.is_some()), "{fates:?}");
    let runs: BTreeSet<_> = fates.iter().filter_map(|fate| fate.run).collect();
    assert_eq!((runs.len(), cancels(&world, id).await.len()), (20, 20));
    check_one_stays(&world, id, "when all are through").await;
}

/// How much is kept of what comes and goes with triggers.
async fn left(world: &World) -> Vec<(&'static str, usize)> {
    let mut left = Vec::new();
    for kind in ["arrival", "decision", "refused", "gone_trigger"] {
        let find = relais_store::Find { kind: kind.into(), limit: 1_000, ..Default::default() };
        left.push((kind, world.store.records(find).await.unwrap().len()));
    }
    left
}

#[tokio::test]
async fn all_that_is_kept_about_a_trigger_goes_with_it() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = Overlap::Queue).await;
    let other = world.add(TriggerOn::Event("sent".into()), |_| {}).await;
    for key in ["one", "two", "three"] {
        send(&world, id, key).await;
        send(&world, other, key).await;
    }
    world.service.note_refused(id, "it was not signed".into()).await.unwrap();
    assert_eq!(left(&world).await, [("arrival", 2), ("decision", 4), ("refused", 1), ("gone_trigger", 0)]);
    let at = world.service.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
    let late = at.it.clone();
    world.service.change(world.service.remove_trigger_edits(&at).unwrap()).await.unwrap();
    // Somebody had read the trigger before it went.
    world.service.declined(&late, "too late".into()).await.unwrap();
    world.clock.add(MINUTE);
    world.another().as_user("whoever").forget_old().await.unwrap();
    assert_eq!(left(&world).await, [("arrival", 0), ("decision", 3), ("refused", 0), ("gone_trigger", 0)]);
}

#[tokio::test]
async fn what_waits_for_a_workflow_that_is_gone_is_told() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = Overlap::Queue).await;
    for key in ["one", "two", "three"] {
        send(&world, id, key).await;
    }
    let gone = kept::remove::<Workflow>("somebody", &world.workflow.id.to_string(), Expect::Any);
    world.service.change(vec![gone]).await.unwrap();
    world.clock.add(MINUTE);
    world.end_runs(RunStatus::Completed).await;
    world.service.fire_due().await.unwrap();
    assert_eq!(world.reasons(id).await[..2], ["its workflow is gone", "its workflow is gone"]);
    assert_eq!(left(&world).await[0], ("arrival", 0));
}

/// Sends something to a trigger for events, as somebody with this key.
async fn send(world: &World, id: Uuid, key: &str) -> Fate {
    let at = world.service.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
    let sent = Sent { key: Some(key.to_owned()), data: json!({ "name": key }), traceparent: None };
    world.service.fire_sent(at, &sent).await.unwrap()
}

// keeps B-09
#[tokio::test]
async fn what_is_sent_while_a_run_goes_on_is_skipped_queued_let_in_or_takes_its_place() {
    for (overlap, starts, has_run) in [
        (Overlap::Skip, false, false),
        (Overlap::Queue, true, false),
        (Overlap::Allow, true, true),
        (Overlap::CancelRunning, true, true),
    ] {
        let world = World::new().await;
        let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = overlap).await;
        let first = send(&world, id, "one").await;
        assert!(first.starts && first.run.is_some(), "{overlap:?} {first:?}");
        let second = send(&world, id, "two").await;
        assert_eq!((second.starts, second.run.is_some()), (starts, has_run), "{overlap:?} {second:?}");
        let made_room = cancels(&world, id).await[&first.run.unwrap()];
        assert_eq!(made_room, usize::from(overlap == Overlap::CancelRunning), "{overlap:?}");
        // The same again is the same again.
        assert_eq!(send(&world, id, "one").await.run, first.run, "{overlap:?}");
        world.end_runs(RunStatus::Completed).await;
        world.service.fire_due().await.unwrap();
        world.clock.add(MINUTE);
        world.service.fire_due().await.unwrap();
        let runs = world.store.list(Filter { limit: 10, ..Filter::default() }).await.unwrap().rows.len();
        assert_eq!(runs, if starts { 2 } else { 1 }, "{overlap:?}");
        let find = relais_store::Find { kind: "arrival".into(), limit: 10, ..Default::default() };
        assert!(world.store.records(find).await.unwrap().is_empty(), "{overlap:?}");
        assert_eq!(world.service.decisions(id).await.unwrap().len(), 2, "{overlap:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_are_sent_at_once_one_is_let_through() {
    let world = World::new().await;
    let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = Overlap::Skip).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let service = if number % 2 == 0 { world.service.clone() } else { world.another() };
        tasks.spawn(async move {
            let at = service.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
            let sent = Sent { key: Some(number.to_string()), data: json!({}), traceparent: None };
            service.fire_sent(at, &sent).await.unwrap()
        });
    }
    let fates = tasks.join_all().await;
    assert_eq!(fates.iter().filter(|fate| fate.starts).count(), 1, "{fates:?}");
    assert_eq!(world.store.list(Filter { limit: 100, ..Filter::default() }).await.unwrap().rows.len(), 1);
}

/// Sends once, while a run of the trigger goes on or not, and the store fails at its nth call; then tries again as senders
/// do: with a key in any case, without one if it was not told that all went well. Says whether there were so many calls.
async fn check_sent_cut((overlap, key, before): (Overlap, Option<&str>, usize), nth: u64, is_after: bool) -> bool {
    let power = Arc::new(Power { calls: AtomicU64::new(0), cut_at: AtomicU64::new(u64::MAX) });
    let faults = power.clone();
    let world = World::on(Arc::new(MemoryStore::with_faults(move |_, _| faults.fault(is_after)))).await;
    let id = world.add(TriggerOn::Event("paid".into()), |t| t.overlap = overlap).await;
    for number in 0..before {
        send(&world, id, &number.to_string()).await;
    }
    let at = world.service.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
    let sent = Sent { key: key.map(str::to_owned), data: json!({ "name": "x" }), traceparent: None };
    power.cut_at.store(power.calls.load(Ordering::SeqCst) + nth, Ordering::SeqCst);
    let told = world.service.fire_sent(at, &sent).await;
    let was_cut = power.was_cut();
    power.cut_at.store(u64::MAX, Ordering::SeqCst);
    world.clock.add(MINUTE);
    let next = world.another();
    if key.is_some() || told.is_err() {
        let at = next.kept::<TriggerRecord>(&id.to_string()).await.unwrap();
        next.fire_sent(at, &sent).await.unwrap();
    }
    next.fire_due().await.unwrap();
    let at = format!("{overlap:?} {key:?} cut at call {nth}, after it: {is_after}, told {told:?}");
    let runs = world.store.list(Filter { limit: 10, ..Filter::default() }).await.unwrap().rows.len();
    assert_eq!(runs, before + 1, "{at}");
    if key.is_some() {
        assert_eq!(world.service.decisions(id).await.unwrap().len(), before + 1, "{at}");
    }
    if overlap == Overlap::CancelRunning {
        check_one_stays(&world, id, &at).await;
    }
    was_cut
}

#[tokio::test]
async fn what_was_sent_starts_one_run_wherever_the_process_is_killed() {
    // Without a key nobody can tell a first try from a second one if the answer to a write was lost.
    for (key, is_after) in [(Some("one"), false), (Some("one"), true), (None, false)] {
        for (overlap, before) in [(Overlap::Queue, 0), (Overlap::Allow, 0), (Overlap::CancelRunning, 1)] {
            let mut nth = 0;
            while check_sent_cut((overlap, key, before), nth, is_after).await {
                nth += 1;
            }
            assert!(nth >= 5, "there were {nth} calls only");
        }
    }
}

/// What the workflow of the world becomes on another server, by the words of each schedule: why it is off.
async fn carried(world: &World, edit: impl FnOnce(&mut Value)) -> (Workflow, BTreeMap<String, Option<String>>) {
    let package = world.service.export_workflows(&["tick".to_owned()], false).await.unwrap();
    let mut package = serde_json::to_value(package).unwrap();
    edit(&mut package);
    let there = world.service.as_user("another");
    let first = there.import_workflows(package, OnClash::Refuse).await.unwrap().first.it;
    let found = there.schedules_of(&first.id.to_string()).await.unwrap();
    (first, found.into_iter().map(|timed| (timed.understood.words, timed.trigger.off)).collect())
}

#[tokio::test]
async fn what_is_off_or_over_is_so_after_an_import() {
    let world = World::new().await;
    let set = |at: &str| SetSchedule { at: Some(at.into()), ..SetSchedule::default() };
    world.service.schedule("tick", set("in 2 seconds")).await.unwrap();
    world.service.schedule("tick", set("in 10 minutes")).await.unwrap();
    let every = SetSchedule { every: Some("1h".into()), ..SetSchedule::default() };
    let every = world.service.schedule("tick", every).await.unwrap().trigger.uuid;
    world.service.pause_schedule(every).await.unwrap();
    world.clock.add(MINUTE);
    world.service.fire_due().await.unwrap();
    assert_eq!(world.fired().await.len(), 1);
    world.set_status(WorkflowStatus::Paused).await;

    let (workflow, schedules) = carried(&world, |_| {}).await;
    assert_eq!(workflow.status, WorkflowStatus::Paused);
    let past = Some("its time was past when it was set".to_owned());
    let expected = [
        ("at \"2026-01-01T00:00:02.000Z\"".to_owned(), past),
        ("at \"2026-01-01T00:10:00.000Z\"".to_owned(), None),
        ("every 1h".to_owned(), Some("it is paused".to_owned())),
    ];
    assert_eq!(schedules, BTreeMap::from(expected));
    world.clock.add(DAY);
    world.service.fire_due().await.unwrap();
    assert_eq!(world.fired().await.len(), 1, "nothing starts by itself");
}

#[tokio::test]
async fn an_export_that_says_nothing_of_being_off_comes_in() {
    let world = World::new().await;
    let every = SetSchedule { every: Some("1h".into()), ..SetSchedule::default() };
    let id = world.service.schedule("tick", every).await.unwrap().trigger.uuid;
    world.service.pause_schedule(id).await.unwrap();
    world.set_status(WorkflowStatus::Archived).await;
    let (workflow, schedules) = carried(&world, |package| {
        let workflow = package["workflows"][0].as_object_mut().unwrap();
        workflow.remove("status");
        workflow["triggers"][0].as_object_mut().unwrap().remove("off");
    })
    .await;
    assert_eq!(workflow.status, WorkflowStatus::Active);
    assert_eq!(schedules, BTreeMap::from([("every 1h".to_owned(), None)]));
}

#[tokio::test]
async fn a_time_that_has_come_is_shown_as_over() {
    let world = World::new().await;
    let once = SetSchedule { at: Some("in 2 seconds".into()), ..SetSchedule::default() };
    let id = world.service.schedule("tick", once).await.unwrap().trigger.uuid;
    assert_eq!(world.service.schedule_at(id).await.unwrap().trigger.off, None);
    world.clock.add(MINUTE);
    world.service.fire_due().await.unwrap();
    let over = Some("it is over: its one time has come".to_owned());
    assert_eq!(world.service.schedule_at(id).await.unwrap().trigger.off, over);
    assert_eq!(world.service.pause_schedule(id).await.unwrap().trigger.off, over);
    let refused = world.service.resume_schedule(id).await.unwrap_err();
    assert!(refused.to_string().contains("is past; set a new schedule"), "{refused}");
}

// keeps A-32
#[tokio::test]
async fn a_tool_replaces_only_what_it_set() {
    let world = World::new().await;
    let every = |every: &str, by_tool| {
        let every = Some(every.to_owned());
        SetSchedule { every, replaces: by_tool, by_tool, ..SetSchedule::default() }
    };
    for set in [every("1h", false), every("2h", true), every("3h", false), every("4h", true)] {
        world.service.schedule("tick", set).await.unwrap();
    }
    let words = async |service: &Service| -> BTreeSet<String> {
        service.schedules_of("tick").await.unwrap().into_iter().map(|timed| timed.understood.words).collect()
    };
    let expected = |all: &[&str]| all.iter().map(|every| format!("every {every}")).collect::<BTreeSet<_>>();
    assert_eq!(words(&world.service).await, expected(&["1h", "3h", "4h"]));
    // Elsewhere it is still known who set it.
    carried(&world, |_| {}).await;
    let there = world.service.as_user("another");
    there.schedule("tick", every("5h", true)).await.unwrap();
    assert_eq!(words(&there).await, expected(&["1h", "3h", "5h"]));
    // A call that replaces means the tool's, too.
    world.service.schedule("tick", SetSchedule { by_tool: false, ..every("6h", true) }).await.unwrap();
    assert_eq!(words(&world.service).await, expected(&["6h"]));
}

/// Backfills the first days of the year at noon of the sixth, twice; how many runs there are when each was ended, and
/// how many were at once at most.
async fn check_backfill(overlap: Overlap, days: (&str, &str), expected: Result<(usize, usize), &str>) {
    let world = World::new().await;
    let id = world.add(cron("0 9 * * *"), |trigger| trigger.overlap = overlap).await;
    let workflow = world.workflow.id.to_string();
    world.clock.add(5 * DAY + DAY / 2);
    let [from, to] = [days.0, days.1].map(|day| crate::backfill_time("from", day).unwrap());
    let wanted = crate::Backfill { workflow, schedule: None, from, to };
    let told = match world.service.backfill(&wanted).await {
        Ok(done) => done.times.len(),
        Err(error) => {
            assert!(expected.is_err_and(|part| error.to_string().contains(part)), "{error}");
            return;
        }
    };
    let mut most = 0;
    for _ in 0..20 {
        // Killed anywhere, the next one goes on.
        world.another().fire_due().await.unwrap();
        let going = Filter { status: vec![RunStatus::Pending, RunStatus::Running], ..Filter::default() };
        most = most.max(world.store.list(going).await.unwrap().rows.len());
        world.end_runs(RunStatus::Completed).await;
        if most > 0 {
            // Twice is once.
            world.service.backfill(&wanted).await.unwrap();
        }
        world.clock.add(1_000);
    }
    let fired = world.fired().await.remove(&id).unwrap_or_default();
    let wanted: Vec<Millis> = fired.iter().copied().filter(|tick| (from..=to).contains(tick)).collect();
    assert_eq!(Ok((wanted.len(), most)), expected, "{overlap:?} {days:?}");
    assert_eq!(wanted.len(), told);
    let once: BTreeSet<Millis> = wanted.iter().copied().collect();
    assert_eq!(once.len(), wanted.len(), "a time was run twice");
}

#[tokio::test]
async fn the_runs_of_a_past_range_are_started_once_each() {
    check_backfill(Overlap::Allow, ("2026-01-01", "2026-01-04"), Ok((3, 4))).await;
    check_backfill(Overlap::Skip, ("2026-01-01", "2026-01-04"), Ok((3, 1))).await;
    check_backfill(Overlap::Queue, ("2026-01-02", "2026-01-03T09:00:00Z"), Ok((2, 1))).await;
    check_backfill(Overlap::Skip, ("2026-01-03", "2026-01-02"), Err("from one time to a later one")).await;
    check_backfill(Overlap::Skip, ("2026-01-03", "2026-02-02"), Err("that has passed")).await;
    check_backfill(Overlap::Skip, ("2026-01-03T10:00:00Z", "2026-01-03T11:00:00Z"), Err("has no time")).await;
    check_backfill(Overlap::Skip, ("2020-01-01", "2026-01-03"), Err("more than 500 times")).await;
}

/// Sends `a`, `b`, … at these seconds, each time and each second to a process that begins anew; then what the runs were
/// given, with the second at which each was started, and why others were not.
async fn check_pace(pace: Pace, sent_at_s: &[Millis], runs: &[(Millis, Value)], reasons: &[&str]) {
    let world = World::new().await;
    let event = TriggerOn::Event("order.paid".into());
    let id = world.add(event, |trigger| (trigger.overlap, trigger.pace) = (Overlap::Allow, pace.clone())).await;
    let (start, mut found, mut known) = (world.clock.now(), Vec::new(), BTreeSet::new());
    for second in 0..200 {
        world.clock.set(start + second * 1_000);
        for (number, _) in sent_at_s.iter().enumerate().filter(|(_, at)| **at == second) {
            let name = char::from(b'a' + u8::try_from(number).unwrap()).to_string();
            assert!(send(&world, id, &name).await.run.is_none() || pace.throttle.is_some());
            // The same once more is the same.
            send(&world, id, &name).await;
        }
        world.another().fire_due().await.unwrap();
        for row in world.store.list(Filter { limit: 100, ..Filter::default() }).await.unwrap().rows {
            if known.insert(row.summary.run) {
                let entries = world.store.load(row.summary.run, 0).await.unwrap();
                let Event::Opened(opened) = &entries[0].events[0] else { panic!("{entries:?}") };
                found.push((second, opened.trigger["data"].clone()));
            }
        }
        world.end_runs(RunStatus::Completed).await;
    }
    assert_eq!(found, runs, "{pace:?} {sent_at_s:?}");
    let mut told: Vec<String> =
        world.service.decisions(id).await.unwrap().into_iter().filter(|it| !it.starts).map(|it| it.reason).collect();
    told.dedup();
    assert_eq!(told.len(), reasons.len(), "{told:?}");
    assert!(told.iter().zip(reasons).all(|(told, reason)| told.contains(reason)), "{told:?}");
    assert!(world.trigger(id).await.gathering.is_none());
    let arrivals = relais_store::Find { kind: "arrival".into(), ..Default::default() };
    assert!(world.store.records(arrivals).await.unwrap().is_empty(), "something that was sent is left over");
}

#[tokio::test]
async fn what_is_sent_is_debounced_batched_and_throttled() {
    let named = |name: &str| json!({ "name": name });
    let items =
        |names: &[&str]| json!({ "items": names.iter().map(|it| named(it)).collect::<Vec<_>>(), "count": names.len() });
    let debounce = Pace { debounce_ms: Some(10_000), ..Pace::default() };
    let later = "a later one took its place";
    check_pace(debounce.clone(), &[0], &[(10, named("a"))], &[]).await;
    check_pace(debounce.clone(), &[0, 5, 14], &[(24, named("c"))], &[later]).await;
    check_pace(debounce, &[0, 30], &[(10, named("a")), (40, named("b"))], &[]).await;
    let batch = Pace { batch: Some(BatchOf { size: 3, within_ms: 60_000 }), ..Pace::default() };
    check_pace(batch.clone(), &[0, 20], &[(60, items(&["a", "b"]))], &[]).await;
    let full = [(2, items(&["a", "b", "c"])), (70, items(&["d"]))];
    check_pace(batch, &[0, 1, 2, 10], &full, &[]).await;
    let throttle = Pace { throttle: Some(Throttle { max: 2, per_ms: 60_000 }), ..Pace::default() };
    let runs = [(0, named("a")), (1, named("b")), (61, named("e"))];
    check_pace(throttle, &[0, 1, 2, 59, 61], &runs, &["2 runs started within"]).await;
}
