//! The trace of a run: what each step did, call by call, with times, tokens and cost. A fold of the journal like
//! everything shown of a run.

pub(crate) mod unreached;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use relais_engine::rewind::step_path;
use relais_engine::*;
use relais_plan::time::format_duration;
use relais_plan::{NodeId, Op, Plan};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One of a few words: borrowed where the trace is made, owned where it was read back from a server.
pub type Word = Cow<'static, str>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trace {
    pub run: RunId,
    pub workflow: String,
    pub plan: String,
    pub status: Word,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    pub input: Stored,
    pub output: Option<Stored>,
    /// The output where it is too large for the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_output: Option<Value>,
    pub error: Option<Failure>,
    pub usage: Usage,
    /// Estimates of calls that were under way when a process died or a step was given up.
    pub lost: Reserve,
    pub user: String,
    pub thread: String,
    pub simulated: bool,
    /// What of the input nobody gave and a simulation made up: `input.topic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_up: Vec<String>,
    /// How the tools of the workflow had changed since its version was made, when the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<String>,
    pub forked_from: Option<RunId>,
    pub parent: Option<RunId>,
    /// Signals and takings-over, in order.
    pub signals: Vec<SignalTrace>,
    /// In the order in which they began, each followed by what is inside it. In a run that has ended, also those that
    /// it never came to, where they are written.
    pub steps: Vec<StepTrace>,
    /// Failures that a policy let pass.
    pub tolerated: Vec<String>,
    pub artifacts: Vec<ArtifactTrace>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepTrace {
    /// Where in the run it stood.
    #[serde(skip)]
    pub place: (ScopeId, NodeId),
    /// `loop[7]/fetch`.
    pub path: String,
    pub key: String,
    /// What people call it, where that is not its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub kind: String,
    /// How many blocks it is in, for indenting.
    pub depth: usize,
    pub status: StepStatus,
    /// 0 for a step that the run never came to.
    pub attempts: u32,
    /// How often the model was told what is wrong with its answer, in all attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// Where in the journal it was left last; 0 while it has not been.
    #[serde(skip)]
    pub left_at: u64,
    /// A model was asked in this attempt.
    #[serde(skip)]
    pub asked: bool,
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// For so long of the time between, nobody was at work on it: the run had failed, was paused, or its process was
    /// gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_ms: u64,
    /// The arm that was taken, the reason a loop ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Stored>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub tolerated: bool,
    /// Variables that it wrote.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    pub usage: Usage,
    pub calls: Vec<CallTrace>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallTrace {
    pub id: CommandId,
    /// Where in the journal it was asked for.
    #[serde(skip)]
    pub position: u64,
    /// `model`, `tool`, `run`, `sleep`, `person`, `signal`, `event`.
    pub what: Word,
    pub name: String,
    /// The model's own number of a tool call that it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_id: Option<String>,
    /// `running`, `success`, `failed`, `timeout`, `cancelled`.
    pub status: Word,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub usage: Usage,
    pub asked_at: Millis,
    pub answered_at: Option<Millis>,
    pub ms: u64,
    /// The answer came after the run had given the call up.
    pub late: bool,
    /// Asked again so often after a crash.
    pub interrupted: u32,
    /// Who answered a question, when and with what; several where several must say yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnswerTrace>,
    /// What else there is to know of it: that a model was told only a part, that tools were lent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a person said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnswerTrace {
    pub by: String,
    pub at: Millis,
    pub value: Value,
    /// The arguments that they put in place of those that were shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignalTrace {
    pub at: Millis,
    pub what: String,
    pub by: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArtifactTrace {
    pub name: String,
    pub version: u32,
    pub media_type: String,
    pub bytes: u64,
    pub hash: String,
}

/// Events of one entry are numbered below this; the views of the database count in the same way.
const EVENTS_PER_ENTRY: u64 = 1_000_000;

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl StepTrace {
    /// Further tries and corrections together.
    pub fn retry_count(&self) -> u32 {
        self.attempts.saturating_sub(1) + self.corrections
    }

    /// What is said to a model that was asked before in this attempt, and is no result of a tool, corrects it.
    fn note_asked(&mut self, command: &Command) {
        let Command::CallModel { say, .. } = command else { return };
        let corrects = say.iter().any(|message| matches!(message, Message::User { .. } | Message::Tool { .. }));
        self.corrections += u32::from(self.asked && corrects);
        self.asked = true;
    }

    /// How long it was worked on, once it has ended.
    pub fn worked_ms(&self) -> Option<u64> {
        let took = self.ended_at?.saturating_sub(self.started_at).max(0) as u64;
        Some(took.saturating_sub(self.idle_ms))
    }

    /// A step of which nothing is known yet but that it has begun.
    fn begun(plan: &Plan, place: (ScopeId, NodeId), path: String, at: Millis) -> StepTrace {
        let node = plan.node(place.1);
        StepTrace {
            place,
            depth: path.matches('/').count() + inside(plan, place.1),
            path,
            key: node.key.clone(),
            name: node.other_name().map(str::to_owned),
            kind: node.kind.clone(),
            status: StepStatus::Running,
            attempts: 1,
            corrections: 0,
            left_at: 0,
            asked: false,
            started_at: at,
            ended_at: None,
            idle_ms: 0,
            note: None,
            output: None,
            text: None,
            error: None,
            tolerated: false,
            vars: Map::new(),
            usage: Usage::default(),
            calls: Vec::new(),
        }
    }
}

impl Trace {
    pub fn of(program: &Program, entries: &[Entry]) -> Result<Trace, Corrupt> {
        let mut writer = Writer::new(program, entries)?;
        for (last, entry) in entries.iter().zip(entries.iter().skip(1)) {
            writer.idle(last.at, entry);
            writer.run.begin(entry.at, entry.events.first());
            for (nth, event) in (0..).zip(&entry.events) {
                writer.position = entry.seq * EVENTS_PER_ENTRY + nth;
                writer.write(event, entry.at);
                writer.run.apply(event)?;
                writer.forked(event);
            }
        }
        Ok(writer.finish())
    }
}

struct Writer<'a> {
    program: &'a Program,
    run: Run,
    /// Of the event that is being told.
    position: u64,
    steps: Vec<StepTrace>,
    /// The trace of the latest instance of a node in a scope.
    open: HashMap<(ScopeId, NodeId), usize>,
    /// Which step and which of its calls a command is.
    calls: HashMap<CommandId, (usize, usize)>,
    signals: Vec<SignalTrace>,
    forked_from: Option<RunId>,
}

impl<'a> Writer<'a> {
    fn new(program: &'a Program, entries: &[Entry]) -> Result<Writer<'a>, Corrupt> {
        let first = entries.first().ok_or_else(|| Corrupt { seq: 0, what: "it is empty".into() })?;
        let run = Run::open(first)?;
        let (open, calls) = (HashMap::new(), HashMap::new());
        Ok(Writer { program, run, position: 0, steps: Vec::new(), open, calls, signals: Vec::new(), forked_from: None })
    }

    fn write(&mut self, event: &Event, at: Millis) {
        match event {
            Event::Entered { scope, node, attempt, .. } => self.entered(*scope, *node, *attempt, at),
            Event::Asked { id, scope, node, command } => self.asked(*id, (*scope, *node), command, at),
            Event::Answered { id, answer } => self.answered(*id, answer, at),
            Event::Received { id, value, by } => self.received(*id, value, by, at),
            Event::Branched { scope, node, took } => self.branched((*scope, *node), took),
            Event::Left(left) => self.left(left, at),
            Event::Signalled { signal, by } => self.signalled(signal, by, at),
            Event::Opened(_) | Event::Settled { .. } | Event::Closed { .. } => {}
        }
    }

    /// A fork begins with the journal of another run, which has paid for it: what it keeps cost it nothing, and what it
    /// does again is not what the other did.
    fn forked(&mut self, event: &Event) {
        let Event::Signalled { signal: Signal::Rewound(Rewind { forked_from: Some(_), .. }), .. } = event else {
            return;
        };
        let is_kept = |step: &StepTrace| self.run.instance(step.place.0, step.place.1).is_some();
        let mut moved = HashMap::new();
        for (index, mut step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            if is_kept(&step) {
                step.usage = Usage::default();
                step.calls.iter_mut().for_each(|call| call.usage = Usage::default());
                moved.insert(index, self.steps.len());
                self.steps.push(step);
            }
        }
        self.open.retain(|_, index| moved.get(index).map(|to| *index = *to).is_some());
        self.calls.retain(|_, (index, _)| moved.get(index).map(|to| *index = *to).is_some());
    }

    /// A run that is taken up again has lain idle since its last entry, and with it what it was in the middle of.
    fn idle(&mut self, last: Millis, entry: &Entry) {
        let taken_up = matches!(
            entry.events.first(),
            Some(Event::Signalled { signal: Signal::Adopted | Signal::Resume(_) | Signal::Rewound(_), .. })
        );
        if taken_up {
            let gap = entry.at.saturating_sub(last).max(0) as u64;
            let open = self.steps.iter_mut().filter(|step| step.ended_at.is_none());
            open.for_each(|step| step.idle_ms += gap);
        }
    }

    fn hidden(&self, node: NodeId) -> bool {
        self.program.plan.node(node).hidden
    }

    fn entered(&mut self, scope: ScopeId, node: NodeId, attempt: u32, at: Millis) {
        if self.hidden(node) {
            return;
        }
        if let (true, Some(index)) = (attempt > 0, self.open.get(&(scope, node))) {
            let step = &mut self.steps[*index];
            (step.attempts, step.asked) = (attempt + 1, false);
            step.idle_ms += step.ended_at.map_or(0, |ended| at.saturating_sub(ended).max(0) as u64);
            (step.status, step.ended_at, step.error) = (StepStatus::Running, None, None);
            return;
        }
        self.begin(scope, node, at);
    }

    fn begin(&mut self, scope: ScopeId, node: NodeId, at: Millis) -> usize {
        let path = step_path(self.program, &self.run, scope, node);
        self.steps.push(StepTrace::begun(&self.program.plan, (scope, node), path, at));
        self.open.insert((scope, node), self.steps.len() - 1);
        self.steps.len() - 1
    }

    fn asked(&mut self, id: CommandId, place: (ScopeId, NodeId), command: &Command, at: Millis) {
        let Some(index) = self.open.get(&place).copied() else { return };
        let (what, name, input) = described(command);
        let position = self.position;
        let step = &mut self.steps[index];
        step.note_asked(command);
        self.calls.insert(id, (index, step.calls.len()));
        step.calls.push(CallTrace {
            id,
            what: what.into(),
            name,
            use_id: use_id(command),
            position,
            status: "running".into(),
            input,
            output: Value::Null,
            error: None,
            usage: Usage::default(),
            asked_at: at,
            answered_at: None,
            ms: 0,
            late: false,
            interrupted: 0,
            answers: Vec::new(),
            notes: notes_on_asking(command),
        });
        if !matches!(command, Command::CallModel { .. } | Command::CallTool { .. } | Command::StartRun(_)) {
            step.status = StepStatus::Waiting;
        }
    }

    fn call(&mut self, id: CommandId) -> Option<(usize, &mut CallTrace)> {
        let (step, call) = *self.calls.get(&id)?;
        Some((step, self.steps[step].calls.get_mut(call)?))
    }

    fn answered(&mut self, id: CommandId, answer: &Answer, at: Millis) {
        let late = !self.run.owed.contains_key(&id);
        let Some((index, call)) = self.call(id) else { return };
        call.answered_at = Some(at);
        call.usage = answer.usage;
        call.ms = if answer.ms > 0 { answer.ms } else { at.saturating_sub(call.asked_at).max(0) as u64 };
        call.late = late;
        let (status, output, error) = outcome(&answer.body);
        (call.status, call.output, call.error) = (status.into(), output, error);
        call.notes.extend(notes_on_answer(answer));
        let step = &mut self.steps[index];
        step.usage.add(&answer.usage);
        if step.status == StepStatus::Waiting {
            step.status = StepStatus::Running;
        }
    }

    fn received(&mut self, id: CommandId, value: &Value, by: &str, at: Millis) {
        let Some(mut owed) = self.run.owed.get(&id).cloned() else { return };
        let is_answered = owed.settles(value, by);
        let asks = owed.command.question().is_some();
        let changed = owed.command.question().and_then(|question| changes(question, value));
        let Some((index, call)) = self.call(id) else { return };
        if asks {
            call.answers.push(AnswerTrace { by: by.to_owned(), at, value: value.clone(), changed });
        }
        if is_answered {
            (call.answered_at, call.status, call.output) = (Some(at), "success".into(), value.clone());
            call.ms = at.saturating_sub(call.asked_at).max(0) as u64;
            self.steps[index].status = StepStatus::Running;
        }
    }

    fn branched(&mut self, place: (ScopeId, NodeId), took: &Took) {
        let Some(index) = self.open.get(&place).copied() else { return };
        let note = match (took, &self.program.plan.node(place.1).op) {
            (Took::Arm { arm: Some(arm), .. }, Op::Choose { arms, .. }) => {
                arms.get(*arm as usize).map(|a| format!("took {}", a.label))
            }
            (Took::Arm { arm: None, to: Some(_) }, _) => Some("took the other arm".to_owned()),
            (Took::Arm { arm: None, to: None }, _) => Some("no arm was true".to_owned()),
            (Took::Items { count, truncated: 0, .. }, _) => Some(format!("{count} items")),
            (Took::Items { count, truncated, .. }, _) => Some(format!("the first {count} items, {truncated} left out")),
            (Took::Ended(by), _) => Some(format!("ended by {}", json!(by).as_str().unwrap_or_default())),
            (Took::Arm { .. } | Took::Lanes(_) | Took::Skipped(_) | Took::Bodies(_), _) => None,
            (Took::Exit(_) | Took::Undo { .. }, _) => None,
        };
        if note.is_some() {
            self.steps[index].note = note;
        }
    }

    fn left(&mut self, left: &Left, at: Millis) {
        if self.hidden(left.node) {
            return;
        }
        let never_began = self.run.instance(left.scope, left.node).is_none_or(|i| i.left_at.is_some());
        let index = match self.open.get(&(left.scope, left.node)).filter(|_| !never_began) {
            Some(index) => *index,
            None => self.begin(left.scope, left.node, at),
        };
        let step = &mut self.steps[index];
        step.status = left.status;
        step.left_at = self.position;
        step.ended_at = Some(at);
        step.output = left.output.clone();
        step.text = left.text.clone();
        step.error = left.error.clone();
        step.tolerated = left.tolerated;
        step.vars = left.vars.clone();
        for call in step.calls.iter_mut().filter(|c| c.status == "running") {
            call.status = "cancelled".into();
        }
    }

    fn signalled(&mut self, signal: &Signal, by: &str, at: Millis) {
        let what = match signal {
            Signal::Cancel => "cancel".to_owned(),
            Signal::Pause => "pause".to_owned(),
            Signal::Resume(_) => "resume".to_owned(),
            Signal::Adopted => "taken over after an interruption".to_owned(),
            Signal::Rewound(rewind) => {
                self.forked_from = rewind.forked_from.or(self.forked_from);
                format!("run again from {}", rewind.path)
            }
            Signal::Sent { name, .. } => format!("signal {name}"),
        };
        if *signal == Signal::Adopted {
            let owed: Vec<CommandId> = self.run.in_flight().map(|(id, _)| id).collect();
            for id in owed {
                if let Some((_, call)) = self.call(id) {
                    call.interrupted += 1;
                }
            }
        }
        self.signals.push(SignalTrace { at, what, by: by.to_owned() });
    }

    fn finish(self) -> Trace {
        let (run, mut steps) = (self.run, self.steps);
        let let_pass: HashSet<(ScopeId, NodeId)> = run.tolerated.iter().copied().collect();
        for step in steps.iter_mut().filter(|step| let_pass.contains(&step.place)) {
            step.tolerated |= step.status == StepStatus::Failed;
        }
        let row = summary(self.program, &run);
        let closed = run.closed.as_ref();
        let steps = match run.ended_at.filter(|_| closed.is_some()) {
            Some(at) => unreached::filled_in(&self.program.plan, nested(steps), at),
            None => nested(steps),
        };
        let has_failed =
            |place: &&(ScopeId, NodeId)| run.instance(place.0, place.1).is_some_and(|i| i.status == StepStatus::Failed);
        let tolerated = run.tolerated.iter().filter(has_failed);
        let tolerated = tolerated.map(|(s, n)| step_path(self.program, &run, *s, *n)).collect();
        Trace {
            run: run.id(),
            workflow: run.opened.workflow.clone(),
            plan: run.opened.plan.clone(),
            status: row.status.word().into(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            input: run.opened.input.clone(),
            output: closed.and_then(|c| c.output.clone()),
            large_output: None,
            error: closed.and_then(|c| c.error.clone()),
            usage: run.usage,
            lost: run.lost,
            user: run.opened.user.clone(),
            thread: run.opened.thread.clone(),
            simulated: run.opened.mode.simulate,
            made_up: run.opened.mode.made_up.clone(),
            drift: run.opened.target.drift.clone(),
            forked_from: self.forked_from,
            parent: run.opened.parent.as_ref().map(|p| p.run),
            signals: self.signals,
            steps,
            tolerated,
            artifacts: artifacts(&run),
        }
    }
}

/// How many ifs and switches a step is in that have no scope of their own.
fn inside(plan: &Plan, node: NodeId) -> usize {
    std::iter::successors(plan.node(node).inside, |n| plan.node(*n).inside).count()
}

/// Which steps are inside which, by their positions.
pub(crate) struct Tree {
    pub outermost: Vec<usize>,
    pub inside: Vec<Vec<usize>>,
}

impl Tree {
    pub fn of(steps: &[StepTrace]) -> Tree {
        let mut latest: HashMap<&str, usize> = HashMap::new();
        let mut tree = Tree { outermost: Vec::new(), inside: vec![Vec::new(); steps.len()] };
        for (index, step) in steps.iter().enumerate() {
            match around(&step.path).find_map(|path| latest.get(path)) {
                Some(parent) => tree.inside[*parent].push(index),
                None => tree.outermost.push(index),
            }
            latest.insert(&step.path, index);
        }
        tree
    }
}

/// What ran side by side is told lane by lane instead of mixed.
fn nested(steps: Vec<StepTrace>) -> Vec<StepTrace> {
    let Tree { outermost, inside } = Tree::of(&steps);
    let mut order = Vec::with_capacity(steps.len());
    let mut todo: Vec<usize> = outermost.into_iter().rev().collect();
    while let Some(index) = todo.pop() {
        order.push(index);
        todo.extend(inside[index].iter().rev());
    }
    let mut steps: Vec<Option<StepTrace>> = steps.into_iter().map(Some).collect();
    order.into_iter().filter_map(|index| steps[index].take()).collect()
}

/// The paths of the blocks around a step, innermost first; `loop[7]/fetch` is inside `loop`.
fn around(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(path), |path| above(path)).map(|path| match path.rsplit_once('[') {
        Some((block, _)) if path.ends_with(']') => block,
        _ => path,
    })
}

fn above(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(up, _)| up)
}

pub(crate) fn artifacts(run: &Run) -> Vec<ArtifactTrace> {
    let versions = |(name, versions): (&String, &Vec<Artifact>)| {
        let name = name.clone();
        let one = move |(n, a): (usize, &Artifact)| ArtifactTrace {
            name: name.clone(),
            version: n as u32 + 1,
            media_type: a.media_type.clone(),
            bytes: a.blob.bytes,
            hash: a.blob.hash.clone(),
        };
        versions.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    run.artifacts.iter().flat_map(versions).collect()
}

/// The arguments of a tool call where a person has changed them.
fn changes(question: &Question, value: &Value) -> Option<Value> {
    let shown = &question.approves.as_ref()?.arguments;
    agreed(question, value).filter(|arguments| arguments != shown)
}

fn use_id(command: &Command) -> Option<String> {
    match command {
        Command::CallTool { use_id, .. } => use_id.clone(),
        Command::CallModel { .. } | Command::Sleep { .. } | Command::AskPerson(_) => None,
        Command::Await(_) | Command::StartRun(_) => None,
    }
}

fn described(command: &Command) -> (&'static str, String, Value) {
    match command {
        Command::CallModel { model, say, .. } => ("model", model.clone(), json!(say)),
        Command::CallTool { tool, arguments, .. } => ("tool", tool.clone(), arguments.clone()),
        Command::Sleep { until, retry } => {
            let name = if *retry { "before the next try" } else { "" };
            ("sleep", name.to_owned(), json!(relais_plan::time::format_instant(*until)))
        }
        Command::AskPerson(question) => ("person", question.question.clone(), question.show.clone()),
        Command::Await(Awaiting::Signal(name)) => ("signal", name.clone(), Value::Null),
        Command::Await(Awaiting::Event(name)) => ("event", name.clone(), Value::Null),
        Command::StartRun(start) => ("run", start.run.to_string(), json!(start.input)),
    }
}

fn notes_on_asking(command: &Command) -> Vec<String> {
    let lent: &[String] = match command {
        Command::CallModel { lend, .. } => lend,
        Command::CallTool { .. } | Command::Sleep { .. } | Command::AskPerson(_) => &[],
        Command::Await(_) | Command::StartRun(_) => &[],
    };
    lent.iter().map(|tool| format!("{tool} is offered from here on")).collect()
}

fn notes_on_answer(answer: &Answer) -> Vec<String> {
    let mut notes = notes_on_usage(&answer.usage);
    match &answer.body {
        Body::Returned { value: value @ Stored::Blob(blob), .. } if value.is_cut() => {
            notes.push(format!("the model was told the beginning of {} bytes and how to read on", blob.bytes));
        }
        Body::Replied(reply) if reply.finish == Finish::Length => {
            notes.push("the answer was cut off at the output limit".to_owned());
        }
        Body::Returned { .. } | Body::Replied(_) | Body::Slept => {}
        Body::Ended { .. } | Body::Failed(_) | Body::Cancelled => {}
    }
    notes
}

fn notes_on_usage(usage: &Usage) -> Vec<String> {
    let times = if usage.waits == 1 { "once".to_owned() } else { format!("{} times", usage.waits) };
    let waited = format_duration(usage.wait_ms);
    let waits = (usage.waits > 0).then(|| format!("waited for the provider {times}, {waited} in all"));
    let estimated = (usage.estimated > 0).then(|| "tokens are an estimate: the provider reported none".to_owned());
    waits.into_iter().chain(estimated).collect()
}

fn outcome(body: &Body) -> (&'static str, Value, Option<Failure>) {
    match body {
        Body::Replied(reply) => (
            "success",
            json!({ "text": reply.text, "calls": reply.calls, "model": reply.model, "finish": reply.finish }),
            None,
        ),
        Body::Returned { value, .. } => ("success", shown(value), None),
        Body::Slept => ("success", Value::Null, None),
        Body::Ended { status, output, error } if status.is_success() => ("success", shown(output), error.clone()),
        Body::Ended { output, error, .. } => ("failed", shown(output), error.clone()),
        Body::Failed(failure) if failure.kind == ErrorKind::Timeout => ("timeout", Value::Null, Some(failure.clone())),
        Body::Failed(failure) => ("failed", Value::Null, Some(failure.clone())),
        Body::Cancelled => ("cancelled", Value::Null, None),
    }
}

fn shown(stored: &Stored) -> Value {
    match stored {
        Stored::Value(value) => value.clone(),
        Stored::Blob(blob) => blob.reference(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_around_a_step_are_found_by_its_path() {
        let check = |path: &str, expected: &[&str]| assert_eq!(around(path).collect::<Vec<_>>(), expected, "{path}");
        check("fetch", &[]);
        check("tell/mail/write", &["tell/mail", "tell"]);
        check("all/loop[7]/fetch", &["all/loop", "all"]);
    }
}
