//! The events of a run as they happen, for people and programs that watch: metadata only, the data is in the trace.

use std::sync::Arc;

use relais_engine::rewind::step_path;
use relais_engine::*;
use relais_plan::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Service};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub run: RunId,
    /// Number of the entry, and of the event in it: together the place to read on from.
    pub seq: u64,
    pub nth: usize,
    pub at: Millis,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    RunStarted {
        workflow: String,
        /// What of the input a simulation made up: `input.topic`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        made_up: Vec<String>,
    },
    StepStarted {
        step: String,
        kind: String,
        attempt: u32,
    },
    StepCompleted {
        step: String,
        kind: String,
        ms: u64,
    },
    StepFailed {
        step: String,
        kind: String,
        ms: u64,
        error: Failure,
        tolerated: bool,
    },
    StepSkipped {
        step: String,
    },
    StepCancelled {
        step: String,
    },
    ModelCalled {
        step: String,
        model: String,
    },
    ModelAnswered {
        step: String,
        ms: u64,
        usage: Usage,
        error: Option<Failure>,
    },
    ToolCalled {
        step: String,
        tool: String,
    },
    ToolAnswered {
        step: String,
        tool: String,
        ms: u64,
        error: Option<Failure>,
    },
    ChildStarted {
        step: String,
        child: RunId,
        workflow: String,
    },
    Retried {
        step: String,
        attempt: u32,
    },
    Corrected {
        step: String,
    },
    Asked {
        step: String,
        question: String,
        command: CommandId,
    },
    Waiting {
        step: String,
        until: Option<Millis>,
        what: String,
    },
    Signalled {
        signal: String,
        by: String,
    },
    RunEnded {
        status: RunStatus,
        error: Option<Failure>,
        usage: Usage,
        ms: u64,
        /// The beginning of what the run gave, or what is known of it where it is large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_summary: Option<String>,
    },
}

/// Turns entries into notices; keeps the fold to know where each step stands.
pub struct Narrator {
    program: Arc<Program>,
    run: Option<Run>,
}

impl Narrator {
    pub fn new(program: Arc<Program>) -> Narrator {
        Narrator { program, run: None }
    }

    /// Number of the last entry told.
    pub fn seq(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.seq)
    }

    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    pub fn tell(&mut self, entry: &Entry) -> Result<Vec<Notice>, Corrupt> {
        let mut notices = Vec::new();
        let Some(run) = &mut self.run else {
            let run = Run::open(entry)?;
            let (workflow, made_up) = (run.opened.workflow.clone(), run.opened.mode.made_up.clone());
            let what = What::RunStarted { workflow, made_up };
            notices.push(Notice { run: run.id(), seq: entry.seq, nth: 0, at: entry.at, what });
            self.run = Some(run);
            return Ok(notices);
        };
        run.begin(entry.at, entry.events.first());
        for (nth, event) in entry.events.iter().enumerate() {
            let what = narrate(&self.program, run, event, entry.at);
            run.apply(event)?;
            notices.extend(what.map(|what| Notice { run: run.id(), seq: entry.seq, nth, at: entry.at, what }));
        }
        Ok(notices)
    }
}

fn narrate(program: &Program, run: &Run, event: &Event, at: Millis) -> Option<What> {
    let step = |scope: ScopeId, node: NodeId| step_path(program, run, scope, node);
    let visible = |node: NodeId| !program.plan.node(node).hidden;
    match event {
        Event::Entered { scope, node, attempt: 0, .. } if visible(*node) => {
            let kind = program.plan.node(*node).kind.clone();
            Some(What::StepStarted { step: step(*scope, *node), kind, attempt: 0 })
        }
        Event::Entered { scope, node, attempt, .. } if visible(*node) => {
            Some(What::Retried { step: step(*scope, *node), attempt: *attempt })
        }
        Event::Asked { id, scope, node, command } => asked(run, step(*scope, *node), (*scope, *node), *id, command),
        Event::Answered { id, answer } => {
            let owed = run.owed.get(id).or_else(|| run.dropped.get(id))?;
            answered(step(owed.scope, owed.node), owed, answer)
        }
        Event::Left(left) if visible(left.node) => Some(left_step(program, run, left, step(left.scope, left.node), at)),
        Event::Signalled { signal, by } => Some(What::Signalled { signal: word(signal), by: by.clone() }),
        Event::Closed { status, error, output, .. } => {
            let ms = at.saturating_sub(run.started_at).max(0) as u64;
            let given = output.as_ref().filter(|output| status.is_success() && **output != Stored::Value(Value::Null));
            let (error, output_summary) = (error.clone(), given.map(Stored::summary));
            Some(What::RunEnded { status: *status, error, usage: run.usage, ms, output_summary })
        }
        Event::Opened(_) | Event::Entered { .. } | Event::Branched { .. } | Event::Left(_) => None,
        Event::Received { .. } | Event::Settled { .. } => None,
    }
}

fn asked(run: &Run, step: String, place: (ScopeId, NodeId), id: CommandId, command: &Command) -> Option<What> {
    match command {
        Command::CallModel { model, say, .. } => {
            let begun = matches!(run.instance(place.0, place.1).map(|i| &i.work), Some(Work::Agent(_)));
            let corrects = begun && say.iter().any(|m| matches!(m, Message::User { .. }));
            Some(if corrects { What::Corrected { step } } else { What::ModelCalled { step, model: model.clone() } })
        }
        Command::CallTool { tool, .. } => Some(What::ToolCalled { step, tool: tool.clone() }),
        Command::Sleep { until, retry } => {
            let what = if *retry { "the next try" } else { "time" };
            Some(What::Waiting { step, until: Some(*until), what: what.to_owned() })
        }
        Command::AskPerson(question) => Some(What::Asked { step, question: question.question.clone(), command: id }),
        Command::Await(Awaiting::Signal(name)) => {
            Some(What::Waiting { step, until: None, what: format!("signal {name}") })
        }
        Command::Await(Awaiting::Event(name)) => {
            Some(What::Waiting { step, until: None, what: format!("event {name}") })
        }
        Command::StartRun(start) => {
            Some(What::ChildStarted { step, child: start.run, workflow: start.workflow.clone() })
        }
    }
}

fn answered(step: String, owed: &Owed, answer: &Answer) -> Option<What> {
    let error = match &answer.body {
        Body::Failed(failure) => Some(failure.clone()),
        Body::Replied(_) | Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled => None,
    };
    match &*owed.command {
        Command::CallModel { .. } => Some(What::ModelAnswered { step, ms: answer.ms, usage: answer.usage, error }),
        Command::CallTool { tool, .. } => Some(What::ToolAnswered { step, tool: tool.clone(), ms: answer.ms, error }),
        Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) | Command::StartRun(_) => None,
    }
}

fn left_step(program: &Program, run: &Run, left: &Left, step: String, at: Millis) -> What {
    let kind = program.plan.node(left.node).kind.clone();
    let entered = run.instance(left.scope, left.node).map_or(at, |i| i.entered_at);
    let ms = at.saturating_sub(entered).max(0) as u64;
    match left.status {
        StepStatus::Skipped => What::StepSkipped { step },
        StepStatus::Cancelled => What::StepCancelled { step },
        StepStatus::Failed => {
            let error = left.error.clone().unwrap_or_else(|| Failure::new(ErrorKind::Internal, "no reason was given"));
            What::StepFailed { step, kind, ms, error, tolerated: left.tolerated }
        }
        StepStatus::Completed | StepStatus::Pending | StepStatus::Running | StepStatus::Waiting => {
            What::StepCompleted { step, kind, ms }
        }
    }
}

fn word(signal: &Signal) -> String {
    match signal {
        Signal::Cancel => "cancel".into(),
        Signal::Pause => "pause".into(),
        Signal::Resume(_) => "resume".into(),
        Signal::Adopted => "adopted".into(),
        Signal::Rewound(rewind) => format!("run again from {}", rewind.path),
        Signal::Sent { name, .. } => format!("signal {name}"),
    }
}

impl Service {
    /// What a model said, from the entry that a notice tells of; empty for a notice of anything else.
    pub async fn said(&self, notice: &Notice) -> Result<String, Error> {
        self.row(notice.run).await?;
        let entries = self.core.store.load(notice.run, notice.seq.saturating_sub(1)).await?;
        let Some(Event::Answered { answer, .. }) = entries.first().and_then(|entry| entry.events.get(notice.nth))
        else {
            return Ok(String::new());
        };
        match &answer.body {
            Body::Replied(reply) => Ok(reply.text.clone()),
            Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled | Body::Failed(_) => {
                Ok(String::new())
            }
        }
    }
}
