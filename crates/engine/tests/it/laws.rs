//! The laws that every case proves: the fold equals the live state, a turn leaves nothing to decide, every prefix of
//! a journal resumes to the same end, and what was answered is not asked again.

use std::collections::BTreeMap;

use relais_engine::*;
use relais_plan::Effect;

use crate::driver::{Driver, Story};
use crate::script::Case;
use crate::world::World;

/// Laws 1 and 2, after an entry.
pub fn hold(context: &Context<'_>, journal: &[Entry], run: &Run, now: Millis) -> Result<(), String> {
    let folded = Run::fold(journal).map_err(|e| e.to_string())?;
    if folded != *run {
        return Err(format!("law 1: the fold differs from the live state after entry {}", run.seq));
    }
    if let Some(entry) = journal.last() {
        let text = serde_json::to_string(entry).unwrap();
        let read: Entry = serde_json::from_str(&text).unwrap();
        if read != *entry {
            return Err(format!("entry {} does not survive its own JSON: {text}", entry.seq));
        }
    }
    let mut again = run.clone();
    let turn = turn(context, &mut again, now, Vec::new()).map_err(|e| e.to_string())?;
    if !turn.events.is_empty() {
        return Err(format!("law 2: a second turn decides {:?}", turn.events));
    }
    Ok(())
}

/// Law 5: dies after every entry, is taken up, and goes on with the same answers.
pub fn crash_everywhere(case: &Case, story: &Story) -> Result<(), String> {
    for cut in 1..story.journal.len() {
        let prefix = story.journal[..cut].to_vec();
        let world = World { case, program: &story.program };
        let mut driver = Driver::new(world, prefix, story.outside[..cut].to_vec())?.with_blobs_of(&story.blobs);
        let once = driver.run.owed.values().any(|o| is_once(&o.command));
        let again = |broken: String| format!("after a crash behind entry {cut}: {broken}");
        if driver.run.closed.is_none() {
            let events = adopt(&driver.run);
            driver.step(events).map_err(again)?;
        }
        driver.go_on().map_err(again)?;
        compare(story, &driver, once).map_err(again)?;
    }
    Ok(())
}

fn is_once(command: &Command) -> bool {
    matches!(command, Command::CallTool { effect: Effect::Once, .. })
}

fn compare(story: &Story, driver: &Driver<'_>, once: bool) -> Result<(), String> {
    let (asked, before) = (asked(&driver.journal), asked(&story.journal));
    for (command, times) in asked.iter().filter(|(command, _)| !once || command.contains("\"effect\":\"once\"")) {
        let former = before.get(command).copied().unwrap_or(0);
        if *times > former {
            return Err(format!("law 5: asked {times} times instead of {former}: {command}"));
        }
    }
    // A call that must not be made twice and was in flight ends the step as uncertain, and with it the story.
    if once {
        return Ok(());
    }
    let end = |run: &Run| run.closed.clone().map(|c| (c.status, c.output, c.error));
    if end(&driver.run) != end(&story.run) {
        return Err(format!("law 5: ends as {:?}, not as {:?}", end(&driver.run), end(&story.run)));
    }
    Ok(())
}

/// How often each command was asked, apart from its times and its number.
fn asked(journal: &[Entry]) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    for event in journal.iter().flat_map(|e| &e.events) {
        if let Event::Asked { scope, node, command, .. } = event {
            let command = match &**command {
                Command::Sleep { retry, .. } => format!("sleep {retry}"),
                Command::StartRun(start) => format!("run {} {:?}", start.workflow, start.input),
                other => serde_json::to_string(other).unwrap(),
            };
            *all.entry(format!("{scope}/{node} {command}")).or_insert(0) += 1;
        }
    }
    all
}
