//! The six laws of the core, and what checks them for one seed.

use std::collections::BTreeMap;

use relais_engine::*;
use relais_plan::Effect;

use crate::chance::Chance;
use crate::drive::{Broken, Drive};
use crate::faults;
use crate::plans::{self, Manner};
use crate::world::World;

/// Crash points tried per run; all of them where there are fewer.
const MAX_CUTS: usize = 6;

/// A law that a seed breaks, with all that is needed to see why.
#[derive(Debug)]
pub struct Breach {
    pub seed: u64,
    pub law: Broken,
    pub workflow: String,
}

/// Proves all laws for a seed, and says how its runs ended before anything was broken on purpose.
pub fn check(seed: u64) -> Result<Vec<RunStatus>, Box<Breach>> {
    let mut ended = Vec::new();
    for manner in [Manner::Calm, Manner::Wild] {
        let workflow = plans::workflow(seed, manner);
        let breach = |law: Broken| Box::new(Breach { seed, law, workflow: format!("{workflow:#}") });
        let program = plans::program(&workflow).map_err(breach)?;
        ended.push(check_program(seed, manner, &program).map_err(breach)?);
    }
    Ok(ended)
}

fn check_program(seed: u64, manner: Manner, program: &Program) -> Result<RunStatus, Broken> {
    let world = World { seed, salt: 0, troubled: manner == Manner::Wild };
    let mut drive = Drive::open(program, world.clone())?;
    drive.go_on().map_err(|broken| with_journal(&drive, &broken))?;
    resumes_everywhere(&drive)?;
    if manner == Manner::Calm {
        order_does_not_matter(&drive)?;
    }
    faults::endure(program, &world)?;
    Ok(summary(program, &drive.run).status)
}

fn with_journal(drive: &Drive<'_>, broken: &str) -> Broken {
    format!("{broken}\n{}", journal(drive))
}

/// The journal as lines of JSON.
pub fn journal(drive: &Drive<'_>) -> String {
    let lines = drive.journal.iter().flat_map(|entry| {
        let since = entry.at - crate::drive::START;
        let line =
            move |e: &Event| format!("{:>4} {since:>8}ms {}", entry.seq, serde_json::to_string(e).unwrap_or_default());
        entry.events.iter().map(line).collect::<Vec<_>>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Law 1: the fold of the whole journal is the live state.
pub fn fold_is_live(journal: &[Entry], run: &Run) -> Result<(), Broken> {
    let folded = Run::fold(journal).map_err(|e| format!("law 1: {e}"))?;
    match folded == *run {
        true => Ok(()),
        false => Err(format!("law 1: the fold differs from the live state after entry {}", run.seq)),
    }
}

/// Law 1, entry by entry: what was folded before and this entry, as its JSON reads back, make the live state.
pub fn survives(shadow: &mut Run, entry: &Entry, run: &Run) -> Result<(), Broken> {
    let text = serde_json::to_string(entry).map_err(|e| e.to_string())?;
    let read: Entry = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    if read != *entry {
        return Err(format!("law 1: entry {} does not survive its JSON: {text}", entry.seq));
    }
    shadow.append(&read).map_err(|e| format!("law 1: {e}"))?;
    match shadow == run {
        true => Ok(()),
        false => Err(format!("law 1: the fold differs from the live state at entry {}", entry.seq)),
    }
}

/// Law 2: after a turn nothing is left to decide.
pub fn nothing_left(context: &Context<'_>, run: &mut Run, now: Millis) -> Result<(), Broken> {
    let turn = turn(context, run, now, Vec::new()).map_err(|e| e.to_string())?;
    match turn.events.is_empty() {
        true => Ok(()),
        false => Err(format!("law 2: a second turn decides {:?}", turn.events)),
    }
}

/// Law 3: the same answers in another order lead to the same output.
fn order_does_not_matter(first: &Drive<'_>) -> Result<(), Broken> {
    let Some(end) = first.run.closed.as_ref().filter(|c| c.status.is_success()) else { return Ok(()) };
    for salt in 1..4 {
        let world = World { salt, ..first.world.clone() };
        let mut drive = Drive::open(first.program, world)?;
        drive.go_on()?;
        if drive.run.closed.as_ref() != Some(end) {
            let law = format!("law 3: with salt {salt} it ends as {:?}, not as {end:?}", drive.run.closed);
            return Err(format!("{}\n\n{}", with_journal(first, &law), journal(&drive)));
        }
    }
    Ok(())
}

/// Law 5: every prefix of the journal resumes, to the same end, and asks nothing answered again.
fn resumes_everywhere(first: &Drive<'_>) -> Result<(), Broken> {
    let mut chance = Chance::named(first.world.seed, "cuts");
    let length = first.journal.len();
    let all = length <= MAX_CUTS;
    let count = if all { length } else { MAX_CUTS };
    for number in 1..=count {
        let cut = if all { number } else { 1 + chance.below(length as u64) as usize };
        let prefix = first.journal[..cut].to_vec();
        let mut drive = Drive::resume(first.program, first.world.clone(), prefix, first.blobs.clone())?;
        let once = drive.run.owed.values().any(|owed| is_once(&owed.command));
        let outcome = drive.crash().and_then(|()| drive.go_on()).and_then(|()| same_end(first, &drive, once));
        outcome.map_err(|broken| {
            let law = format!("after a crash behind entry {cut}: {broken}");
            format!("{}\n\n{}", with_journal(first, &law), journal(&drive))
        })?;
    }
    Ok(())
}

pub fn is_once(command: &Command) -> bool {
    matches!(command, Command::CallTool { effect: Effect::Once, .. })
}

fn same_end(first: &Drive<'_>, drive: &Drive<'_>, once: bool) -> Result<(), Broken> {
    let (asked, former) = (asked(drive), asked(first));
    // A call in flight that must not be made twice ends its step as uncertain, and another story begins.
    if once {
        return Ok(());
    }
    for (command, times) in &asked {
        let before = former.get(command).copied().unwrap_or(0);
        // A lane that nobody waits for may get further than before; only what was asked before is asked again.
        if before > 0 && *times > before {
            return Err(format!("law 5: asked {times} times instead of {before}: {command}"));
        }
    }
    if drive.run.closed != first.run.closed {
        return Err(format!("law 5: ends as {:?}, not as {:?}", drive.run.closed, first.run.closed));
    }
    Ok(())
}

/// How often each command was asked, apart from times and numbers.
fn asked(drive: &Drive<'_>) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for event in drive.journal.iter().flat_map(|e| &e.events) {
        let Event::Asked { scope, node, command, .. } = event else { continue };
        let path = rewind::step_path(drive.program, &drive.run, *scope, *node);
        let what = match &**command {
            Command::Sleep { retry, .. } => format!("sleep {retry}"),
            Command::CallModel { say, .. } => format!("model {say:?}"),
            Command::CallTool { tool, arguments, .. } => format!("tool {tool} {arguments}"),
            Command::AskPerson(question) => format!("person {}", question.question),
            Command::Await(awaiting) => format!("await {awaiting:?}"),
            Command::StartRun(start) => format!("run {:?}", start.input),
        };
        *all.entry(format!("{path} {what}")).or_insert(0) += 1;
    }
    all
}

/// A run that has closed owes nothing, waits for nothing and holds nothing back.
fn nothing_held(run: &Run) -> Result<(), Broken> {
    let held = (run.reserved, run.calls, run.allotted.len(), run.owed.len());
    match held == Default::default() {
        true => Ok(()),
        false => Err(format!("law 6: a closed run still holds {held:?}")),
    }
}

/// Law 6: a run has ended, or waits for something that has a name.
pub fn ended_or_named(program: &Program, run: &Run) -> Result<(), Broken> {
    let summary = summary(program, run);
    if run.closed.is_some() {
        return nothing_held(run);
    }
    let in_flight = run.in_flight().next().is_some();
    match summary.status.is_final() || (summary.status == RunStatus::Waiting && !summary.awaits.is_empty()) {
        true => Ok(()),
        // A call that hangs for ever is the performer's to end: it has time-outs of its own.
        false if in_flight => Ok(()),
        false => Err(format!("law 6: {} and nothing to wait for", summary.status.word())),
    }
}
