//! What a journal says was used and how it went, from the last time that somebody took note of it on. Pure: entries in,
//! numbers out.
//!
//! A child run has a journal and a bill of its own, so what its parent heard of its usage is left out of the parent's.

use std::collections::{BTreeMap, HashMap};

use relais_engine::*;
use relais_plan::{Node, Op, Plan, Task};

/// Models told apart in one bill; a run that calls more has them under [`OTHER`].
pub const MAX_MODELS: usize = 100;
/// The name of all further models.
pub const OTHER: &str = "other";

/// What is new since entry `after`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bill {
    /// When what is new began.
    pub from: Millis,
    /// The end that is new; none where only a late answer came in.
    pub closed: Option<RunStatus>,
    /// How the run had ended when it was taken note of before.
    pub before: Option<RunStatus>,
    /// All that the run's own calls used.
    pub usage: Usage,
    /// The part of it that models used, by `provider/model`.
    pub models: BTreeMap<String, Usage>,
}

/// `reported`: the number up to which the entries were billed before.
pub fn bill(entries: &[Entry], reported: u64, default_model: &str) -> Bill {
    let after = reported.max(copied(entries));
    let mut bill = Bill { from: first_after(entries, after), ..Bill::default() };
    let mut asked: HashMap<CommandId, &Command> = HashMap::new();
    for entry in entries {
        for event in &entry.events {
            match event {
                Event::Asked { id, command, .. } => drop(asked.insert(*id, command)),
                Event::Answered { id, answer } if entry.seq > after => {
                    bill.charge(asked.get(id).copied(), answer, default_model);
                }
                Event::Closed { status, .. } if entry.seq > after => bill.closed = Some(*status),
                Event::Closed { status, .. } if entry.seq <= reported => bill.before = Some(*status),
                Event::Opened(_) | Event::Entered { .. } | Event::Answered { .. } | Event::Branched { .. } => {}
                Event::Left(_) | Event::Received { .. } | Event::Signalled { .. } => {}
                Event::Settled { .. } | Event::Closed { .. } => {}
            }
        }
    }
    bill
}

/// A fork begins with entries of another run, which has paid for them.
fn copied(entries: &[Entry]) -> u64 {
    let forks = |event: &Event| matches!(event, Event::Signalled { signal: Signal::Rewound(back), .. } if back.forked_from.is_some());
    let fork = entries.iter().rev().find(|entry| entry.events.iter().any(forks));
    fork.map_or(0, |entry| entry.seq.saturating_sub(1))
}

fn first_after(entries: &[Entry], after: u64) -> Millis {
    entries.iter().find(|entry| entry.seq > after).or(entries.last()).map_or(0, |entry| entry.at)
}

impl Bill {
    fn charge(&mut self, command: Option<&Command>, answer: &Answer, default_model: &str) {
        match command {
            // The child has a bill of its own.
            Some(Command::StartRun(_)) => {}
            Some(Command::CallModel { model, .. }) => {
                self.usage.add(&answer.usage);
                let name = if model.is_empty() { default_model } else { model };
                add_to(&mut self.models, name, &answer.usage);
            }
            Some(Command::CallTool { .. } | Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_))
            | None => self.usage.add(&answer.usage),
        }
    }
}

/// Adds under the name, or under [`OTHER`] once there are too many names.
pub fn add_to(models: &mut BTreeMap<String, Usage>, name: &str, usage: &Usage) {
    let name = if models.contains_key(name) || models.len() < MAX_MODELS { name } else { OTHER };
    models.entry(name.to_owned()).or_default().add(usage);
}

/// How the steps and calls of a run went, for metrics; only what is new, as in the bill.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Course {
    pub steps: Vec<StepCourse>,
    pub calls: Vec<CallCourse>,
    /// Steps begun again after a failure.
    pub retries: u64,
    /// Answers that an agent was asked to correct.
    pub corrections: u64,
    /// Outputs that fit their schema, and those that never did.
    pub valid: u64,
    pub invalid: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StepCourse {
    /// `agent`, `tool`, `parallel`, …
    pub kind: String,
    pub status: StepStatus,
    pub ms: u64,
    pub error: Option<ErrorKind>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallCourse {
    /// `model` or `tool`.
    pub what: &'static str,
    pub ms: u64,
    pub error: Option<ErrorKind>,
}

pub fn course(program: &Program, entries: &[Entry], reported: u64) -> Result<Course, Corrupt> {
    let after = reported.max(copied(entries));
    let mut course = Course::default();
    let Some(first) = entries.first() else { return Ok(course) };
    let mut run = Run::open(first)?;
    for entry in &entries[1..] {
        run.begin(entry.at, entry.events.first());
        for event in &entry.events {
            if entry.seq > after {
                course.take(program, &run, event, entry.at);
            }
            run.apply(event)?;
        }
    }
    Ok(course)
}

impl Course {
    fn take(&mut self, program: &Program, run: &Run, event: &Event, at: Millis) {
        match event {
            Event::Entered { attempt, .. } if *attempt > 0 => self.retries += 1,
            Event::Asked { scope, node, command, .. } if corrects(run, (*scope, *node), command) => {
                self.corrections += 1;
            }
            Event::Answered { id, answer } => {
                let owed = run.owed.get(id).or_else(|| run.dropped.get(id));
                self.calls.extend(owed.and_then(|owed| call(&owed.command, answer)));
            }
            Event::Left(left) => self.left(program, run, left, at),
            Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Branched { .. } => {}
            Event::Received { .. } | Event::Signalled { .. } | Event::Settled { .. } | Event::Closed { .. } => {}
        }
    }

    fn left(&mut self, program: &Program, run: &Run, left: &Left, at: Millis) {
        let node = program.plan.node(left.node);
        if node.hidden {
            return;
        }
        let checked = is_checked(&program.plan, node);
        let error = left.error.as_ref().map(|error| error.kind);
        self.valid += u64::from(checked && left.status == StepStatus::Completed);
        self.invalid += u64::from(error == Some(ErrorKind::Schema));
        let entered_at = run.instance(left.scope, left.node).map_or(at, |instance| instance.entered_at);
        let ms = at.saturating_sub(entered_at).max(0).cast_unsigned();
        self.steps.push(StepCourse { kind: node.kind.clone(), status: left.status, ms, error });
    }
}

/// Whether the step's output must fit a schema, its own or that of its agent.
fn is_checked(plan: &Plan, node: &Node) -> bool {
    let Op::Call(call) = &node.op else { return false };
    let by_agent = match &call.task {
        Task::Agent { agent, .. } => plan.agents.get(agent).is_some_and(|agent| agent.output.is_some()),
        Task::Tool { .. } | Task::Workflow { .. } => false,
    };
    by_agent || call.output_schema.is_some()
}

/// An agent that has begun is spoken to again only to correct its answer.
fn corrects(run: &Run, place: (ScopeId, relais_plan::NodeId), command: &Command) -> bool {
    let Command::CallModel { say, .. } = command else { return false };
    let begun = matches!(run.instance(place.0, place.1).map(|i| &i.work), Some(Work::Agent(_)));
    begun && say.iter().any(|message| matches!(message, Message::User { .. }))
}

fn call(command: &Command, answer: &Answer) -> Option<CallCourse> {
    let what = match command {
        Command::CallModel { .. } => "model",
        Command::CallTool { .. } => "tool",
        Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) | Command::StartRun(_) => return None,
    };
    let error = match &answer.body {
        Body::Failed(failure) => Some(failure.kind),
        Body::Replied(_) | Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled => None,
    };
    Some(CallCourse { what, ms: answer.ms, error })
}
