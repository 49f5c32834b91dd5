//! Everything that can go wrong around a run, at random: answers out of order, late, twice or never; crashes between
//! any two entries; a store that loses what it was given or its own reply; people who cancel, pause and resume.

use relais_engine::*;
use relais_store::{Batch, Error, Fault, MemoryStore, NewRun, Store, Writer};

use crate::chance::Chance;
use crate::drive::{Broken, Drive, Next};
use crate::world::World;

/// So many moves are left to chance; then the run is led to its end in peace.
const WILD_MOVES: u64 = 60;
/// A run that ended is led back to some step so often.
const REWINDS: u32 = 2;
/// A run that failed is resumed so often; it must come to an end each time.
const RESUMES: u32 = 2;

/// Law 6 under any faults, with laws 1, 2 and 4 after every entry.
pub fn endure(program: &Program, world: &World) -> Result<(), Broken> {
    let mut drive = Drive::open(program, world.clone())?;
    let mut chance = Chance::named(world.seed, "faults");
    let outcome = storm(&mut drive, &mut chance)
        .and_then(|()| calm(&mut drive))
        .and_then(|()| go_back(&mut drive, &mut chance))
        .and_then(|()| fork(&mut drive, &mut chance));
    outcome.map_err(|broken| format!("among faults: {broken}\n{}", crate::laws::journal(&drive)))?;
    keep_in_store(&drive, &mut chance)
}

fn storm(drive: &mut Drive<'_>, chance: &mut Chance) -> Result<(), Broken> {
    for _ in 0..WILD_MOVES {
        if drive.run.closed.is_some() {
            break;
        }
        match chance.below(30) {
            0 => drive.crash()?,
            1 => drive.signal(Signal::Pause)?,
            2 | 3 if drive.run.paused => drive.signal(Signal::Resume(Resume::default()))?,
            4 if chance.percent(20) => drive.signal(Signal::Cancel)?,
            5 => drive.signal(Signal::Sent { name: "go".to_owned(), value: serde_json::json!(1) })?,
            6 => drive.now += chance.below(30_000) as Millis,
            _ => any_move(drive, chance)?,
        }
    }
    Ok(())
}

/// Whatever may come in comes in, in any order.
fn any_move(drive: &mut Drive<'_>, chance: &mut Chance) -> Result<(), Broken> {
    let mut coming = drive.coming();
    if coming.is_empty() {
        return Ok(());
    }
    let (at, next) = coming.swap_remove(chance.below(coming.len() as u64) as usize);
    // Time-outs and sleeps keep their time; answers may come before it.
    let early = match &next {
        Next::Input(Event::Answered { answer, .. }) => !matches!(answer.body, Body::Slept),
        Next::Input(_) => true,
        Next::TimeOut => false,
    };
    drive.take(if early { drive.now } else { at }, next)
}

/// Led to its end, and resumed from there.
fn calm(drive: &mut Drive<'_>) -> Result<(), Broken> {
    if drive.run.paused {
        drive.signal(Signal::Resume(Resume::default()))?;
    }
    drive.go_on()?;
    for _ in 0..RESUMES {
        let Some(closed) = drive.run.closed.clone() else { return Ok(()) };
        if closed.status.is_success() {
            return Ok(());
        }
        drive.signal(Signal::Resume(Resume { redo: true, ..Resume::default() }))?;
        drive.go_on()?;
    }
    Ok(())
}

/// Retried from any step that has run, a run comes to an end again.
fn go_back(drive: &mut Drive<'_>, chance: &mut Chance) -> Result<(), Broken> {
    for _ in 0..REWINDS {
        let Some(rewind) = any_step(drive, chance) else { return Ok(()) };
        drive.signal(Signal::Rewound(rewind))?;
        drive.go_on()?;
    }
    Ok(())
}

fn any_step(drive: &Drive<'_>, chance: &mut Chance) -> Option<Rewind> {
    drive.run.closed.as_ref()?;
    let steps = drive.run.scopes.iter().enumerate().flat_map(|(scope, place)| {
        let body = !matches!(place.kind, ScopeKind::Exit | ScopeKind::Undo);
        place.steps.keys().filter(move |_| body).map(move |node| (scope as ScopeId, *node))
    });
    let visible = steps.filter(|(_, node)| !drive.program.plan.node(*node).hidden);
    let paths: Vec<String> = visible.map(|(s, n)| rewind::step_path(drive.program, &drive.run, s, n)).collect();
    // A path that leads to something cancelled and forgotten is refused, and that is right.
    rewind::rewind(drive.program, &drive.run, chance.pick(&paths)?).ok()
}

/// The same journal as a new run.
fn fork(drive: &mut Drive<'_>, chance: &mut Chance) -> Result<(), Broken> {
    let Some(mut rewind) = any_step(drive, chance) else { return Ok(()) };
    let opened = Opened { run: RunId::from_u128(u128::MAX - u128::from(drive.world.seed)), ..drive.run.opened.clone() };
    (rewind.forked_from, rewind.opened) = (Some(drive.run.id()), Some(Box::new(opened)));
    drive.journal = rewind::translate(&drive.journal, drive.program, drive.program).entries;
    drive.refold()?;
    drive.signal(Signal::Rewound(rewind))?;
    drive.go_on()
}

/// The journal survives a store that fails before or after it has written: what it holds in the end is what was meant.
fn keep_in_store(drive: &Drive<'_>, chance: &mut Chance) -> Result<(), Broken> {
    let seed = chance.number();
    let store = MemoryStore::with_faults(move |method, call| {
        let mut chance = Chance::named(seed, &format!("{method}/{call}"));
        let busy = || Error::Busy("simulated".to_owned());
        match chance.below(6) {
            0 if method == "append" => Some(Fault::Before(busy())),
            1 if method == "append" => Some(Fault::After(busy())),
            _ => None,
        }
    });
    let first = drive.journal.first().cloned().ok_or("an empty journal")?;
    let opened = Run::open(&first).map_err(|e| e.to_string())?;
    let id = opened.id();
    let new = NewRun {
        entry: first,
        more: Vec::new(),
        summary: summary(drive.program, &opened),
        key: None,
        lease: None,
        blobs: Vec::new(),
    };
    wait(store.create(new)).map_err(|e| e.to_string())?;
    for entry in drive.journal.iter().skip(1) {
        append(&store, id, entry)?;
    }
    let kept = wait(store.load(id, 0)).map_err(|e| e.to_string())?;
    if kept == drive.journal { Ok(()) } else { Err("the store holds another journal than it was given".to_owned()) }
}

/// As a worker does: after trouble the same again.
fn append(store: &MemoryStore, run: RunId, entry: &Entry) -> Result<(), Broken> {
    let (writer, entry, blobs) = (Writer::of("a worker"), entry.clone().into(), Vec::new());
    let batch = Batch { run, writer, entry, summary: None, release: None, blobs, awaited: None, listed: None };
    // One in three appends fails; so many in a row are beyond any seed.
    for _ in 0..100 {
        match wait(store.append(batch.clone())) {
            Ok(()) => return Ok(()),
            Err(Error::Busy(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("the store never takes the entry".to_owned())
}

/// The memory store answers at once, so nothing has to be waited for.
fn wait<T>(reply: relais_store::Reply<'_, T>) -> Result<T, Error> {
    let mut reply = reply;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match reply.as_mut().poll(&mut context) {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => Err(Error::Internal("the memory store did not answer at once".to_owned())),
    }
}
