//! The loop breaker: calls that come round again and again with the same results lead nowhere.

use crate::command::ToolUse;

/// The same calls with the same results so often in a row are a loop.
pub const MAX_REPEATS: usize = 5;
/// So many different calls may take turns in a loop.
pub const MAX_CYCLE: usize = 4;
/// As many calls as the longest loop takes.
const KEPT: usize = MAX_REPEATS * MAX_CYCLE;

/// A tool call that was answered, as far as that tells loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub tool: String,
    /// Hash of the arguments and the result.
    what: [u8; 32],
    /// The tool does not take such arguments.
    invalid: bool,
}

impl Heard {
    pub fn new(call: &ToolUse, result: &str, invalid: bool) -> Heard {
        let mut hash = blake3::Hasher::new();
        for part in [&call.tool, &call.arguments.to_string(), result] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Heard { tool: call.tool.clone(), what: *hash.finalize().as_bytes(), invalid }
    }
}

/// Takes note of one more call; the oldest is forgotten where no loop could reach back to it.
pub fn note(recent: &mut Vec<Heard>, heard: Heard) {
    if recent.len() == KEPT {
        recent.remove(0);
    }
    recent.push(heard);
}

/// Why the calls so far are a loop, if they are one.
pub fn looping(recent: &[Heard]) -> Option<String> {
    (1..=MAX_CYCLE).find_map(|length| cycle(recent, length)).or_else(|| refused(recent))
}

fn cycle(recent: &[Heard], length: usize) -> Option<String> {
    let tail = &recent[recent.len().checked_sub(length * MAX_REPEATS)?..];
    if !tail.iter().zip(&tail[length..]).all(|(one, next)| one.what == next.what) {
        return None;
    }
    let tools: Vec<String> = tail[..length].iter().map(|heard| format!("`{}`", heard.tool)).collect();
    Some(match length {
        1 => {
            format!("{} was called {MAX_REPEATS} times in a row with the same arguments and the same result", tools[0])
        }
        _ => format!(
            "{} were called in turn, {MAX_REPEATS} times over, with the same arguments and the same results",
            tools.join(", ")
        ),
    })
}

fn refused(recent: &[Heard]) -> Option<String> {
    let tail = &recent[recent.len().checked_sub(MAX_REPEATS)?..];
    let tool = &tail[0].tool;
    let all = tail.iter().all(|heard| heard.invalid && heard.tool == *tool);
    all.then(|| format!("`{tool}` was called {MAX_REPEATS} times in a row with arguments that it does not take"))
}
