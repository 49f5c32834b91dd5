//! A journal as people read it, one line per event.

use std::fmt::Write;

use relais_engine::*;
use serde_json::Value;

use crate::driver::Story;

/// Longer texts are cut in transcripts.
const MAX_SHOWN: usize = 300;

pub fn of(story: &Story) -> String {
    let teller = Teller { story };
    let mut text = String::new();
    let start = story.journal[0].at;
    let mut last = None;
    for entry in &story.journal {
        if last.replace(entry.at) != Some(entry.at) {
            let since = (entry.at - start) as u64;
            writeln!(text, "{}", relais_plan::time::format_duration(since)).unwrap();
        }
        for event in &entry.events {
            let line = teller.line(event);
            writeln!(text, "  {line}").unwrap();
        }
    }
    writeln!(text, "=> {}", end(story)).unwrap();
    text
}

/// How the run ended, or what it waits for.
pub fn end(story: &Story) -> String {
    let summary = summary(&story.program, &story.run);
    match &story.run.closed {
        None => format!("{} {}", summary.status.word(), summary.awaits.join(", ")),
        Some(Closing { status, output, error }) => {
            let output = output.as_ref().map(|o| format!(" {}", stored(o))).unwrap_or_default();
            match error {
                Some(error) => format!("{} {error}", status.word()),
                None => format!("{}{output}", status.word()),
            }
        }
    }
}

struct Teller<'s> {
    story: &'s Story,
}

impl Teller<'_> {
    fn path(&self, scope: ScopeId, node: relais_plan::NodeId) -> String {
        rewind::step_path(&self.story.program, &self.story.run, scope, node)
    }

    fn scope(&self, scope: ScopeId) -> String {
        let place = self.story.run.scope(scope);
        match (place.kind, place.parent) {
            (ScopeKind::Item, Some((up, node))) => format!("{}[{}]", self.path(up, node), place.number),
            (ScopeKind::Lane, Some((up, node))) => format!("{}:{}", self.path(up, node), place.number),
            (ScopeKind::Undo, Some((up, node))) => format!("undo of {}", self.path(up, node)),
            (ScopeKind::Exit, _) => format!("exit {}", place.number),
            (ScopeKind::Body | ScopeKind::Item | ScopeKind::Lane | ScopeKind::Undo, _) => "body".to_owned(),
        }
    }

    fn line(&self, event: &Event) -> String {
        match event {
            Event::Opened(opened) => format!("opened {}", stored(&opened.input)),
            Event::Entered { scope, node, attempt, kept, .. } => {
                let again = if *attempt > 0 { format!(" attempt {attempt}") } else { String::new() };
                format!("enter {}{again}{}", self.path(*scope, *node), if *kept { " kept" } else { "" })
            }
            Event::Asked { id, scope, node, command } => {
                format!("ask {id} {}: {}", self.path(*scope, *node), self.command(command))
            }
            Event::Answered { id, answer } => format!("answer {id}: {}", body(&answer.body)),
            Event::Branched { scope, node, took } => self.took(*scope, *node, took),
            Event::Left(left) => self.left(left),
            Event::Received { id, value, .. } => format!("receive {id}: {value}"),
            Event::Signalled { signal, .. } => format!("signal {}", signalled(signal)),
            Event::Settled { scope, status, stopped, output, error } => {
                let stopped = if *stopped { " stopped" } else { "" };
                format!("settle {} {}{stopped}{}{}", self.scope(*scope), status.word(), out(output), err(error))
            }
            Event::Closed { status, output, error } => format!("closed {}{}{}", status.word(), out(output), err(error)),
        }
    }

    fn command(&self, command: &Command) -> String {
        let since = |at: &Millis| relais_plan::time::format_duration((at - self.story.run.started_at) as u64);
        match command {
            Command::CallModel { model, say, lend, .. } => {
                let said: Vec<String> = say.iter().map(message).collect();
                let lent = if lend.is_empty() { String::new() } else { format!(" (lends {})", lend.join(", ")) };
                format!("{}{lent}", cut(format!("model {model} {}", said.join(" | "))))
            }
            Command::CallTool { tool, arguments, effect, .. } => {
                let once = if *effect == relais_plan::Effect::Once { " once" } else { "" };
                cut(format!("tool {tool} {arguments}{once}"))
            }
            Command::Sleep { until, retry } => {
                let word = if *retry { "rest" } else { "sleep" };
                if *retry { word.to_owned() } else { format!("{word} until {}", since(until)) }
            }
            Command::AskPerson(question) => format!("person {:?} {}", question.question, question.show),
            Command::Await(awaiting) => format!("await {awaiting:?}"),
            Command::StartRun(start) => {
                let calls = start.budget.model_calls.unwrap_or(0);
                format!("run {} {} ({calls} calls)", start.workflow, stored(&start.input))
            }
        }
    }

    fn took(&self, scope: ScopeId, node: relais_plan::NodeId, took: &Took) -> String {
        let path = self.path(scope, node);
        match took {
            Took::Arm { arm: Some(arm), .. } => format!("{path} takes arm {arm}"),
            Took::Arm { arm: None, .. } => format!("{path} takes no arm"),
            Took::Lanes(lanes) => format!("{path} starts lanes {lanes:?}"),
            Took::Skipped(lanes) => format!("{path} skips lanes {lanes:?}"),
            Took::Items { items, truncated, .. } => format!("{path} has items {} (-{truncated})", stored(items)),
            Took::Bodies(numbers) => format!("{path} begins {numbers:?}"),
            Took::Ended(by) => format!("{path} ended by {by:?}"),
            Took::Exit(number) => format!("exit {number} begins"),
            Took::Undo { scope, node } => format!("undo of {} begins", self.path(*scope, *node)),
        }
    }

    fn left(&self, left: &Left) -> String {
        let mut line = format!("leave {} {}", self.path(left.scope, left.node), left.status.word());
        line += &out(&left.output);
        line += &err(&left.error);
        line += if left.tolerated { " tolerated" } else { "" };
        if let (Some(to), true) = (left.to, left.jump) {
            line += &format!(" jumps to {}", self.path(left.scope, to));
        }
        line
    }
}

fn message(message: &Message) -> String {
    match message {
        Message::System { text } => format!("system: {text}"),
        Message::User { text } => format!("user: {text}"),
        Message::Assistant { text, .. } => format!("assistant: {text}"),
        Message::Tool { tool, text, .. } => format!("{tool}: {text}"),
    }
    .replace('\n', "\\n")
}

fn body(body: &Body) -> String {
    match body {
        Body::Replied(reply) => {
            let calls: Vec<String> = reply.calls.iter().map(|c| format!("{} {}", c.tool, c.arguments)).collect();
            cut(format!("{:?} {}", reply.text, calls.join(" & ")).trim_end().to_owned())
        }
        Body::Returned { value, artifacts } => {
            let names: Vec<&str> = artifacts.iter().map(|a| a.name.as_str()).collect();
            format!("{} {}", stored(value), names.join(" ")).trim_end().to_owned()
        }
        Body::Slept => "the time has come".to_owned(),
        Body::Ended { status, output, .. } => format!("{} {}", status.word(), stored(output)),
        Body::Failed(failure) => failure.to_string(),
        Body::Cancelled => "cancelled".to_owned(),
    }
}

fn signalled(signal: &Signal) -> String {
    match signal {
        Signal::Cancel => "cancel".to_owned(),
        Signal::Pause => "pause".to_owned(),
        Signal::Resume(resume) => format!("resume {}", serde_json::to_string(resume).unwrap()),
        Signal::Adopted => "adopted".to_owned(),
        Signal::Rewound(rewind) => format!("back to {}", rewind.path),
        Signal::Sent { name, value } => format!("sent {name} {value}"),
    }
}

fn stored(stored: &Stored) -> String {
    match stored {
        Stored::Value(value) => cut(value.to_string()),
        Stored::Blob(blob) if stored.is_cut() => format!("<{} bytes, told in part>", blob.bytes),
        Stored::Blob(blob) => format!("<{} bytes>", blob.bytes),
    }
}

fn out(output: &Option<Stored>) -> String {
    output.as_ref().filter(|o| **o != Stored::Value(Value::Null)).map(|o| format!(" {}", stored(o))).unwrap_or_default()
}

fn err(error: &Option<Failure>) -> String {
    error.as_ref().map(|e| cut(format!(" ({e})").replace('\n', "\\n"))).unwrap_or_default()
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
