//! Runs: started, looked at, signalled, gone back in. The folder has what can be seen of a run (`follow`, `narrate`,
//! `trace`, `outputs`, `artifacts`, `views`), what a start is made ready with (`shelf`) and the folders runs work in.

pub(crate) mod artifacts;
pub(crate) mod bulk;
pub(crate) mod follow;
mod interrupted;
mod made_up;
pub mod narrate;
pub(crate) mod outputs;
pub(crate) mod questions;
pub(crate) mod resting;
pub(crate) mod shelf;
pub mod trace;
pub mod views;
pub(crate) mod workspaces;

use std::sync::Arc;
use std::time::Duration;

use relais_engine::rewind;
use relais_engine::*;
use relais_plan::schema::{Violation, complaint};
use relais_plan::tags::{self, Tags};
use relais_plan::text::is_name;
use relais_plan::{Budget, Schema};
use relais_runtime::Rest;
use relais_runtime::prepare::load_plan;
use relais_store::{Batch, Filter, NewRun, Page, Row, Which};
use serde_json::{Map, Value};

use crate::runs::trace::Trace;
use crate::runs::workspaces::{Unclaimed, copy_folder};
use crate::{Checked, Error, Service};

/// How a run is to be started.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub input: Value,
    pub mode: Mode,
    pub thread: String,
    /// A second start with the same key answers the first run.
    pub key: Option<String>,
    /// Words of people's own that it is found by, beside those of the file.
    pub tags: Tags,
    /// What started it; none means a person.
    pub trigger: Option<Fired>,
    /// The trace that it belongs to, as a W3C `traceparent`.
    pub traceparent: Option<String>,
}

/// A trigger that fired.
#[derive(Debug, Clone)]
pub struct Fired {
    pub id: String,
    /// What the run sees as `trigger`.
    pub what: Value,
}

#[derive(Debug, Clone, Default)]
pub struct ResumeWith {
    pub budget: Budget,
    pub redo: bool,
    pub assume: Option<Value>,
}

/// What a fork changes.
#[derive(Default)]
pub struct Fork {
    pub from: String,
    pub input: Option<Map<String, Value>>,
    pub model: Option<String>,
    pub definition: Option<Checked>,
    pub redo: bool,
}

/// Something that a run waits for and a person can give.
#[derive(Debug, Clone)]
pub struct Waits {
    pub command: CommandId,
    pub step: String,
    pub question: Question,
}

impl Waits {
    /// An answer in words as the question wants it: yes and no where one is asked for, text as it is where text is
    /// asked for, else JSON. What does not fit is refused when it is given.
    pub fn read(&self, written: &str) -> Value {
        let is_approval = self.question.approves.is_some();
        let kind = if is_approval { "boolean" } else { self.question.answer["type"].as_str().unwrap_or_default() };
        match (kind, written.trim().to_lowercase().as_str()) {
            ("boolean", "yes" | "y" | "true") => Value::Bool(true),
            ("boolean", "no" | "n" | "false") => Value::Bool(false),
            ("string", _) => Value::String(written.to_owned()),
            _ => serde_json::from_str(written).unwrap_or_else(|_| Value::String(written.to_owned())),
        }
    }
}

/// How the keys begin under which triggers start runs.
pub(crate) const OWN_KEYS: &str = "relais:";
/// Prefixes of run ids shorter than this are refused: they would soon fit several.
const SHORTEST_PREFIX: usize = 4;
/// Names of signals are names, as the types of events are.
const MAX_SIGNAL_BYTES: usize = 255;
/// How often something is offered to a run that moves on at the same time.
const SAY_TRIES: usize = 100;
/// How often a parent looks at child runs that another process works on, or that have just woken it.
const CHILD_PAUSE: Duration = Duration::from_millis(20);

/// The child runs in what a run waits for.
fn children(awaits: &[String]) -> impl Iterator<Item = RunId> + '_ {
    awaits.iter().filter_map(|a| a.strip_prefix("run:")?.parse().ok())
}

impl Service {
    /// A new run; durable when this returns, going on in the background.
    pub async fn start(&self, checked: &Checked, start: Start) -> Result<RunId, Error> {
        self.start_unless(checked, start, same_plan).await
    }

    /// The same; `is_same` says whether a run that was started with this key before is the one that is asked for.
    pub(crate) async fn start_unless(
        &self,
        checked: &Checked,
        start: Start,
        is_same: fn(&Opened, &Opened) -> bool,
    ) -> Result<RunId, Error> {
        if start.key.as_ref().is_some_and(|key| key.starts_with(OWN_KEYS)) {
            return Err(Error::Invalid(format!("keys that begin with `{OWN_KEYS}` are Relais' own; choose another")));
        }
        let (run, asked) = self.start_once(checked, start).await?;
        if run != asked.run {
            self.must_be_the_same(run, &asked, is_same).await?;
        }
        Ok(run)
    }

    /// The same with any key: whoever calls it makes sure that the key stands for one piece of work.
    pub(crate) async fn start_once(&self, checked: &Checked, start: Start) -> Result<(RunId, Opened), Error> {
        self.must_take_work()?;
        let plan = &checked.plan;
        let (mut input, mut mode) = (start.input, start.mode);
        if input.is_null() {
            input = Value::Object(Map::new());
        }
        if let (true, Some(schema)) = (mode.simulate, &plan.input_schema) {
            (input, mode.made_up) = made_up::completed(schema, input, mode.seed.unwrap_or(0));
        }
        check_input(plan, &input)?;
        let input = self.stored_input(input, plan).await?;
        let trigger = start.trigger.as_ref().map(|fired| fired.id.clone());
        let tags = all_tags(plan, start.tags)?;
        let opened = Opened {
            run: uuid::Uuid::now_v7(),
            workflow: plan.name.clone(),
            plan: checked.hash.clone(),
            input,
            trigger: start.trigger.map_or_else(|| serde_json::json!({ "type": "manual" }), |fired| fired.what),
            user: self.user().to_owned(),
            thread: start.thread,
            parent: None,
            budget: plan.limits.budget,
            mode,
            manifest: checked.manifest.clone(),
            target: Target { trigger, traceparent: start.traceparent, tags, ..checked.target.clone() },
        };
        let asked = opened.clone();
        let run = match self.core.hands_off {
            true => self.worker().enqueue(opened, start.key).await?,
            false => self.worker().create(opened, start.key).await?,
        };
        if run == asked.run {
            tracing::info!(%run, workflow = %asked.workflow, trigger = asked.target.trigger, "run started");
            asked.target.drift.iter().for_each(|drift| tracing::warn!(%run, "{drift}"));
        }
        Ok((run, asked))
    }

    /// A key names one piece of work; used for another one it is a mistake.
    async fn must_be_the_same(
        &self,
        run: RunId,
        asked: &Opened,
        is_same: fn(&Opened, &Opened) -> bool,
    ) -> Result<(), Error> {
        let (_, _, state) = self.load(run).await?;
        if is_same(&state.opened, asked) {
            return Ok(());
        }
        let text = "this key was used before for another definition or input";
        Err(Error::Conflict(format!("{text}, by run {run}; give each piece of work a key of its own")))
    }

    /// Waits until the run has ended or waits for something other than time, its child runs included.
    pub async fn settle(&self, run: RunId) -> Result<Rest, Error> {
        loop {
            let rest = self.worker().settle(run).await?;
            self.must_be_kept()?;
            let Rest::Waiting(awaits) = &rest else { return Ok(rest) };
            let Some(child) = self.moving_child(awaits).await? else { return Ok(rest) };
            if let Rest::Ended(_) = Box::pin(self.settle(child)).await? {
                // It has told its parent by now, or has died before it could.
                self.worker().take_up(run).await?;
            }
            tokio::time::sleep(CHILD_PAUSE).await;
        }
    }

    /// A file that was removed under us still takes writes, and nobody will ever find them again.
    fn must_be_kept(&self) -> Result<(), Error> {
        let database = self.config().database();
        if self.core.file.is_none() || database.exists() {
            return Ok(());
        }
        let text = "was removed while the run was going; what it did is not kept";
        Err(Error::Unusable(format!("the database {} {text}", database.display())))
    }

    /// A child run that its parent waits for and that will go on, or has ended, without anybody's doing.
    pub(crate) async fn moving_child(&self, awaits: &[String]) -> Result<Option<RunId>, Error> {
        for child in children(awaits) {
            let Row { summary, owner, .. } = self.row(child).await?;
            // Whoever has taken it up has read an answer that the row does not show yet.
            let idle = summary.status == RunStatus::Waiting && owner.is_none();
            let waits = idle && summary.awaits.iter().any(|a| a != "time");
            if !waits || Box::pin(self.moving_child(&summary.awaits)).await?.is_some() {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// Is another process, one that is alive, at work on it?
    pub async fn worked_on_elsewhere(&self, run: RunId) -> Result<bool, Error> {
        let Some(owner) = self.row(run).await?.owner else { return Ok(false) };
        Ok(owner != self.worker().hold_name() && relais_runtime::host::dead(&[owner]).is_empty())
    }

    /// Takes up every run that is due or whose process has died.
    pub async fn adopt_all(&self) -> Result<Vec<RunId>, Error> {
        let mut adopted = Vec::new();
        loop {
            let more = self.worker().adopt(Which::Any).await?;
            if more.is_empty() {
                return Ok(adopted);
            }
            adopted.extend(more);
        }
    }

    /// The run that was started by hand and that this one is part of.
    pub async fn root_of(&self, run: RunId) -> Result<RunId, Error> {
        root_of(run, |run| self.row(run)).await
    }

    pub async fn row(&self, run: RunId) -> Result<Row, Error> {
        let mut row = self.worker().row(run).await?;
        if row.summary.user != self.user() {
            return Err(no_run(run));
        }
        self.mark_interrupted(std::slice::from_mut(&mut row));
        Ok(row)
    }

    /// A run by its id, the beginning of it, or `last`.
    pub async fn find_run(&self, text: Option<&str>) -> Result<RunId, Error> {
        if let Some(id) = text.and_then(|t| t.parse::<RunId>().ok()) {
            return Ok(self.row(id).await?.summary.run);
        }
        meant(&self.runs(among(text)).await?, text)
    }

    pub async fn load(&self, run: RunId) -> Result<(Arc<Program>, Vec<Entry>, Run), Error> {
        let entries = self.core.store.load(run, 0).await?;
        if entries.is_empty() {
            return Err(no_run(run));
        }
        let state = Run::fold(&entries).map_err(|e| Error::Unusable(e.to_string()))?;
        if state.opened.user != self.user() {
            return Err(no_run(run));
        }
        let plan = load_plan(self.core.store.as_ref(), &state.opened.plan).await?;
        Ok((Arc::new(Program::new(plan)), entries, state))
    }

    pub async fn trace(&self, run: RunId) -> Result<Trace, Error> {
        let (program, entries, _) = self.load(run).await?;
        self.traced(&program, &entries, run).await
    }

    pub(crate) async fn traced(&self, program: &Program, entries: &[Entry], run: RunId) -> Result<Trace, Error> {
        let mut trace = Trace::of(program, entries).map_err(|e| Error::Unusable(e.to_string()))?;
        // A fold alone cannot tell a run that waits from one whose next turn is due; the owner's last word can.
        trace.status = self.row(run).await?.summary.status.word().into();
        if let Some(Stored::Blob(blob)) = &trace.output {
            let bytes = self.core.store.get_blob(blob.hash.clone()).await?;
            trace.large_output = bytes.and_then(|b| serde_json::from_slice(&b).ok());
        }
        Ok(trace)
    }

    /// The value that a run ended with, read from where it is kept.
    pub async fn output(&self, run: RunId) -> Result<Value, Error> {
        let (_, _, state) = self.load(run).await?;
        match state.closed.and_then(|c| c.output) {
            Some(Stored::Value(value)) => Ok(value),
            Some(Stored::Blob(blob)) => {
                let bytes = self.core.store.get_blob(blob.hash.clone()).await?.unwrap_or_default();
                serde_json::from_slice(&bytes).map_err(|e| Error::Unusable(e.to_string()))
            }
            None => Ok(Value::Null),
        }
    }

    pub async fn cancel(&self, run: RunId) -> Result<(), Error> {
        self.signal_open(run, "cancelled", Signal::Cancel).await
    }

    /// Cancels a run unless somebody has done so already: a second cancel would cut off its exit steps. Of two who try
    /// only one is heard.
    pub(crate) async fn cancel_once(&self, run: RunId) -> Result<(), Error> {
        if Run::fold(&self.core.store.load(run, 0).await?).is_err() {
            tracing::error!(%run, "a run that is to be cancelled cannot be read; it cannot go on either");
            return Ok(());
        }
        let is_wanted = |state: &Run| state.closed.is_none() && state.cancels == 0;
        self.say(run, |state| Ok(is_wanted(state).then(|| self.signalled(Signal::Cancel)))).await.map(drop)
    }

    pub async fn pause(&self, run: RunId) -> Result<(), Error> {
        self.signal_open(run, "paused", Signal::Pause).await
    }

    /// Gives a named signal to a run that waits for it, or will.
    pub async fn send(&self, run: RunId, name: &str, value: Value) -> Result<(), Error> {
        if name.is_empty() || name.len() > MAX_SIGNAL_BYTES || !is_name(name) {
            let text = format!("the `name` of a signal is a text of 1 to {MAX_SIGNAL_BYTES} bytes in one line");
            return Err(Error::Invalid(text));
        }
        self.signal_open(run, "signalled", Signal::Sent { name: name.to_owned(), value }).await
    }

    async fn signal_open(&self, run: RunId, what: &str, signal: Signal) -> Result<(), Error> {
        let open = |state: &Run| match state.closed.as_ref().map(|closed| closed.status.word()) {
            Some(status) => Err(Error::Conflict(format!("run {run} has ended as {status} and cannot be {what}"))),
            None => Ok(Some(self.signalled(signal.clone()))),
        };
        self.say(run, open).await.map(drop)
    }

    fn signalled(&self, signal: Signal) -> Event {
        Event::Signalled { signal, by: self.user().to_owned() }
    }

    /// Goes on after a pause, a failure, a cancel or a crash.
    pub async fn resume(&self, run: RunId, with: ResumeWith) -> Result<(), Error> {
        self.must_take_work()?;
        let is_said = self.say(run, |state| Ok(resumed(state, &with)?.map(|resume| self.signalled(resume)))).await?;
        // Orphaned or waiting: nothing to be said, somebody only has to take it up.
        if is_said { Ok(()) } else { self.adopt_tree(run).await }
    }

    /// Takes up everything of a run's tree that nobody works on.
    pub async fn adopt_tree(&self, run: RunId) -> Result<(), Error> {
        if self.core.hands_off {
            return Ok(());
        }
        self.worker().adopt(Which::Tree(run)).await?;
        self.worker().take_up(run).await?;
        Ok(())
    }

    /// Runs again from a step on; what came before is kept.
    pub async fn retry(&self, run: RunId, from: &str, redo: bool) -> Result<(), Error> {
        self.must_take_work()?;
        let (program, _, _) = self.load(run).await?;
        let back = |state: &Run| Ok(Some(self.signalled(Signal::Rewound(going_back(&program, state, from, redo)?))));
        self.say(run, back).await.map(drop)
    }

    /// A new run that shares what the other did before a step.
    pub async fn fork(&self, run: RunId, fork: Fork) -> Result<RunId, Error> {
        self.fork_once(run, fork, None).await
    }

    /// The same; with a key that was used before it is the run that was made then.
    pub(crate) async fn fork_once(&self, run: RunId, fork: Fork, key: Option<String>) -> Result<RunId, Error> {
        self.must_take_work()?;
        let (program, entries, state) = self.load(run).await?;
        let mut back = going_back(&program, &state, &fork.from, fork.redo)?;
        let mut opened = state.opened.clone();
        opened.run = uuid::Uuid::now_v7();
        opened.parent = None;
        opened.target.traceparent = None;
        opened.mode.model = fork.model.or(opened.mode.model);
        let mut entries = entries;
        if let Some(definition) = &fork.definition {
            let other = Program::new(definition.plan.as_ref().clone());
            let translated = rewind::translate(&entries, &program, &other);
            entries = translated.entries;
            opened.plan = other.hash.clone();
            opened.workflow = definition.plan.name.clone();
            let Target { trigger, tags, .. } = opened.target;
            opened.target = Target { trigger, tags, ..definition.target.clone() };
            let moved =
                Run::fold(&entries).map_err(|e| Error::Invalid(format!("the new definition does not fit: {e}")))?;
            let missing = |error: String| match translated.lacks {
                Some(lacks) => format!("{lacks}, and what it gave would be kept; fork from an earlier step"),
                None => error,
            };
            back = rewind::rewind(&other, &moved, &fork.from).map_err(missing).map_err(Error::Invalid)?;
        }
        let plan = fork.definition.as_ref().map_or(&program.plan, |definition| &definition.plan);
        let changes = fork.input.unwrap_or_default();
        opened.mode.made_up.retain(|name| !changes.keys().any(|given| *name == format!("input.{given}")));
        opened.input = self.changed_input(&state, changes, plan).await?;
        back.forked_from = Some(run);
        back.opened = Some(Box::new(opened.clone()));
        self.keep_fork(opened, entries, back, key).await
    }

    /// The input of a fork: that of the other run with some fields changed, as the plan of the fork takes it.
    async fn changed_input(
        &self,
        state: &Run,
        changes: Map<String, Value>,
        plan: &relais_plan::Plan,
    ) -> Result<Stored, Error> {
        let mut input = match &state.opened.input {
            Stored::Value(value) => value.clone(),
            Stored::Blob(blob) => {
                let bytes = self.core.store.get_blob(blob.hash.clone()).await?.unwrap_or_default();
                serde_json::from_slice(&bytes).map_err(|e| Error::Unusable(e.to_string()))?
            }
        };
        match &mut input {
            Value::Object(fields) => fields.extend(changes),
            _ if changes.is_empty() => {}
            _ => return Err(Error::Invalid(format!("the input of run {} has no fields to change", state.id()))),
        }
        check_input(plan, &input)?;
        self.stored_input(input, plan).await
    }

    /// A large input is kept as a blob.
    async fn stored_input(&self, input: Value, plan: &relais_plan::Plan) -> Result<Stored, Error> {
        let (input, blob) = Stored::new(input, plan.limits.inline_bytes);
        if let Some((_, bytes)) = blob {
            self.core.store.put_blob(bytes).await?;
        }
        Ok(input)
    }

    /// The other run's entries under the new id, and the step back behind them.
    async fn keep_fork(
        &self,
        opened: Opened,
        mut entries: Vec<Entry>,
        back: Rewind,
        key: Option<String>,
    ) -> Result<RunId, Error> {
        let now = self.core.clock.now();
        if let Some(Event::Opened(first)) = entries.first_mut().and_then(|e| e.events.first_mut()) {
            let (plan, input) = (opened.plan.clone(), opened.input.clone());
            **first = Opened { run: opened.run, plan, input, ..(**first).clone() };
        }
        let run = opened.run;
        let copied = match (back.forked_from, &opened.mode.workspace) {
            (Some(from), None) => self.copy_workspace(from, run).await?,
            _ => None,
        };
        let rewound = Event::Signalled { signal: Signal::Rewound(back), by: self.user().to_owned() };
        let seq = entries.len() as u64 + 1;
        entries.push(Entry { seq, at: now, version: FORMAT, events: vec![rewound] });
        let state = Run::fold(&entries).map_err(|e| Error::Unusable(e.to_string()))?;
        let plan = load_plan(self.core.store.as_ref(), &opened.plan).await?;
        let mut row = summary(&Program::new(plan), &state);
        row.status = RunStatus::Pending;
        let blobs = entries.iter().flat_map(|entry| &entry.events).flat_map(Event::blobs).collect();
        let mut entries = entries.into_iter();
        let Some(entry) = entries.next() else { return Err(Error::Unusable("an empty journal".into())) };
        // All at once: half a journal of another run would go on by itself, from where it was cut.
        let more = entries.collect();
        let run = self.core.store.create(NewRun { entry, more, summary: row, key, lease: None, blobs }).await?;
        drop(copied);
        self.take_up(run).await?;
        Ok(run)
    }

    /// The files that the other run has made by now. Those it made after the step are there, too: a folder has no past.
    async fn copy_workspace(&self, from: RunId, to: RunId) -> Result<Option<Unclaimed>, Error> {
        let workspaces = self.config().workspaces();
        let (from, to) = (workspaces.join(from.to_string()), workspaces.join(to.to_string()));
        if !from.is_dir() {
            return Ok(None);
        }
        let failed = format!("the files of {} cannot be copied", from.display());
        let copy = move || {
            let unclaimed = Unclaimed::mark(&to)?;
            copy_folder(&from, &to, 0).map(|()| Some(unclaimed))
        };
        let copied = tokio::task::spawn_blocking(copy).await.map_err(std::io::Error::other);
        copied.flatten().map_err(|e| Error::Unusable(format!("{failed}: {e}")))
    }

    /// What a run waits for that a person can give.
    pub async fn questions(&self, run: RunId) -> Result<Vec<Waits>, Error> {
        let (program, _, state) = self.load(run).await?;
        let asked = state.owed.iter().filter_map(|(id, owed)| match &*owed.command {
            Command::AskPerson(question) => Some(Waits {
                command: *id,
                step: rewind::step_path(&program, &state, owed.scope, owed.node),
                question: (**question).clone(),
            }),
            Command::CallModel { .. } | Command::CallTool { .. } | Command::Sleep { .. } => None,
            Command::Await(_) | Command::StartRun(_) => None,
        });
        Ok(asked.collect())
    }

    /// The same for a run and the child runs that it waits for.
    pub async fn open_questions(&self, run: RunId) -> Result<Vec<(RunId, Waits)>, Error> {
        let own = self.questions(run).await?;
        let mut open: Vec<(RunId, Waits)> = own.into_iter().map(|waits| (run, waits)).collect();
        for child in children(&self.row(run).await?.summary.awaits) {
            open.extend(Box::pin(self.open_questions(child)).await?);
        }
        Ok(open)
    }

    /// Answers a question of a run: the one of a step, or the only one there is.
    pub async fn answer(&self, run: RunId, step: Option<&str>, value: Value) -> Result<(), Error> {
        let open = self.questions(run).await?;
        let fits = |w: &&Waits| step.is_none_or(|s| w.step == s || w.command.to_string() == s);
        let found: Vec<&Waits> = open.iter().filter(fits).collect();
        let waits = match found.as_slice() {
            [one] => one,
            [] if open.is_empty() => {
                return Err(Error::Conflict(format!("run {run} asks nothing, or nothing any more")));
            }
            [] => {
                let steps: Vec<&str> = open.iter().map(|w| w.step.as_str()).collect();
                let text = format!("run {run} does not ask that; open questions: {}", steps.join(", "));
                return Err(Error::Invalid(text));
            }
            several => {
                let steps: Vec<String> = several.iter().map(|w| format!("{} ({})", w.step, w.command)).collect();
                return Err(Error::Invalid(format!("several questions are open; say which: {}", steps.join(", "))));
            }
        };
        self.answer_as(run, waits.command, value, self.user()).await
    }

    /// One thing said to a run, if it fits how the run stands.
    pub(crate) async fn say(
        &self,
        run: RunId,
        fits: impl Fn(&Run) -> Result<Option<Event>, Error>,
    ) -> Result<bool, Error> {
        self.say_all(run, |_, state| Ok(fits(state)?.map_or(Words::None, |event| Words::These(vec![event])))).await
    }

    /// Appends what fits how the run stands, behind exactly what was read: where it has moved on meanwhile, it is looked
    /// at again. Then somebody must be at work on it, and if nobody is, we are. Says whether it was said, now or before.
    pub(crate) async fn say_all(
        &self,
        run: RunId,
        fits: impl Fn(&[Entry], &Run) -> Result<Words, Error>,
    ) -> Result<bool, Error> {
        for _ in 0..SAY_TRIES {
            let row = self.row(run).await?;
            let entries = self.core.store.load(run, 0).await?;
            let state = Run::fold(&entries).map_err(|e| Error::Unusable(e.to_string()))?;
            if state.seq != row.seq {
                // It has moved on between the two looks.
                continue;
            }
            let events = match fits(&entries, &state)? {
                Words::These(events) => events,
                Words::WereSaid => return Ok(true),
                Words::None => return Ok(false),
            };
            let entry = Entry { seq: row.seq + 1, at: self.core.clock.now(), version: FORMAT, events };
            let listed = self.asked_after(&state, &entry).await?;
            match self.core.store.append(Batch { listed, ..Batch::said(row, entry) }).await {
                Ok(()) => return self.take_up(run).await.map(|()| true),
                Err(relais_store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Busy(format!("run {run} moves on too fast to be told anything; try again")))
    }

    pub(crate) async fn take_up(&self, run: RunId) -> Result<(), Error> {
        if !self.core.hands_off {
            self.worker().take_up(run).await?;
        }
        Ok(())
    }
}

/// What there is to say to a run as it stands.
pub(crate) enum Words {
    These(Vec<Event>),
    /// They are in its journal already.
    WereSaid,
    None,
}

/// What a resume says to a run; nothing where the run needs no word, only somebody at work on it.
fn resumed(state: &Run, with: &ResumeWith) -> Result<Option<Signal>, Error> {
    let (run, status) = (state.id(), state.closed.as_ref().map(|closed| closed.status));
    if let Some(status) = status.filter(|status| status.is_success()) {
        let text = format!("run {run} has ended as {}; there is nothing to resume", status.word());
        return Err(Error::Conflict(text));
    }
    let uncertain = rewind::uncertain(state);
    if !uncertain.is_empty() && !with.redo && with.assume.is_none() {
        let text = "say --redo to make the calls again, or --assume RESULT to go on as if the first had answered that";
        return Err(Error::Invalid(format!("{}; {text}", uncertain.join("; "))));
    }
    let resume = Resume { budget: with.budget, redo: with.redo, assume: with.assume.clone() };
    Ok((status.is_some() || state.paused).then_some(Signal::Resume(resume)))
}

fn going_back(program: &Program, state: &Run, from: &str, redo: bool) -> Result<Rewind, Error> {
    if state.closed.is_none() {
        return Err(Error::Conflict(format!("run {} is still going; cancel it first", state.id())));
    }
    let back = rewind::rewind(program, state, from).map_err(Error::Invalid)?;
    let again: Vec<&str> = rewind::repeated_effects(state, &back).iter().map(|d| d.tool.as_str()).collect();
    if !again.is_empty() && !redo {
        let text = "these calls have been made and would be made again";
        return Err(Error::Invalid(format!("{text}: {}; say --redo if that is meant", again.join(", "))));
    }
    Ok(back)
}

/// What runs with these tags (`team=sales`) and this kind of error are found by.
pub fn marks(tags: &[String], error: Option<&str>) -> Result<Vec<String>, Error> {
    let tag = |text: &String| tags::parse(text).map(|(key, value)| tag_mark(&key, &value)).map_err(Error::Invalid);
    let mut marks = tags.iter().map(tag).collect::<Result<Vec<_>, _>>()?;
    marks.extend(error.map(error_named).transpose()?.map(error_mark));
    Ok(marks)
}

fn error_named(word: &str) -> Result<ErrorKind, Error> {
    let found = ErrorKind::ALL.into_iter().find(|kind| kind.word() == word);
    found.ok_or_else(|| {
        let words = ErrorKind::ALL.map(ErrorKind::word);
        let near = relais_plan::problem::nearest(word, words);
        let help =
            near.map_or_else(|| format!("there are: {}", words.join(", ")), |near| format!("did you mean `{near}`?"));
        Error::Invalid(format!("`{word}` is no kind of error; {help}"))
    })
}

/// The runs among which the one is that somebody means by a part of its id, or by nothing: the newest.
pub fn among(text: Option<&str>) -> Filter {
    Filter { limit: 1_000, roots_only: text.is_none(), ..Filter::default() }
}

/// The run on a page of [`among`] that is meant.
pub fn meant(page: &Page, text: Option<&str>) -> Result<RunId, Error> {
    let Some(prefix) = text else {
        let newest = page.rows.first().map(|r| r.summary.run);
        return newest.ok_or_else(|| Error::NotFound("there are no runs yet".into()));
    };
    let wanted = prefix.to_lowercase();
    if wanted.len() < SHORTEST_PREFIX {
        let text = format!("`{prefix}` is too short for a run; give at least {SHORTEST_PREFIX} characters of its id");
        return Err(Error::Invalid(text));
    }
    let fits = |row: &&Row| {
        let id = row.summary.run.to_string();
        id.starts_with(&wanted) || id.ends_with(&wanted)
    };
    let found: Vec<RunId> = page.rows.iter().filter(fits).map(|r| r.summary.run).collect();
    match found.as_slice() {
        [] => Err(Error::NotFound(format!("there is no run `{prefix}`; `relais runs` lists them"))),
        [one] => Ok(*one),
        several => Err(Error::Invalid(format!("`{prefix}` fits {} runs; give more of the id", several.len()))),
    }
}

/// The run that was started by hand and that this one is part of, whoever knows the rows.
pub async fn root_of<F>(run: RunId, row: impl Fn(RunId) -> F) -> Result<RunId, Error>
where
    F: Future<Output = Result<Row, Error>>,
{
    let mut root = run;
    for _ in 0..relais_dialects::MAX_WORKFLOW_DEPTH {
        match row(root).await?.summary.parent {
            Some(parent) => root = parent,
            None => break,
        }
    }
    Ok(root)
}

/// The same definition with the same input.
pub(crate) fn same_plan(one: &Opened, other: &Opened) -> bool {
    (&one.plan, &one.input) == (&other.plan, &other.input)
}

/// The same kept workflow with the same input, whatever version it had.
pub(crate) fn same_workflow(one: &Opened, other: &Opened) -> bool {
    let (of_one, of_other) = (&one.target, &other.target);
    (&of_one.workflow, &of_one.branch, &one.input) == (&of_other.workflow, &of_other.branch, &other.input)
}

/// The tags of the file and of whoever starts it, who has the last word.
fn all_tags(plan: &relais_plan::Plan, given: Tags) -> Result<Tags, Error> {
    let mut tags = plan.tags.clone();
    tags.extend(given);
    tags::mistake(&tags).map_or(Ok(tags), |mistake| Err(Error::Invalid(mistake)))
}

/// The same words whether there is none or it is another user's.
fn no_run(run: RunId) -> Error {
    Error::NotFound(format!("there is no run {run}"))
}

/// Whether a run can be started with this input; nothing means an empty one.
pub(crate) fn check_input(plan: &relais_plan::Plan, input: &Value) -> Result<(), Error> {
    let Some(schema) = &plan.input_schema else { return Ok(()) };
    let nothing = Value::Object(Map::new());
    let input = if input.is_null() { &nothing } else { input };
    schema.check(input).map_err(|violations| Error::Invalid(unfit_input(schema, &violations, input)))?;
    only_declared(schema, input)
}

fn unfit_input(schema: &Schema, violations: &[Violation], input: &Value) -> String {
    let wanted = match schema.in_words() {
        Some(wanted) => format!("The input must be {wanted}."),
        None => schema.compared(input),
    };
    format!("{}\n\n{wanted}", complaint("the workflow input", violations))
}

/// An input that the workflow does not know would have no effect. A schema that says `additionalProperties` decides
/// for itself.
fn only_declared(schema: &Schema, input: &Value) -> Result<(), Error> {
    let (Some(known), Some(given)) = (schema.json()["properties"].as_object(), input.as_object()) else {
        return Ok(());
    };
    if schema.json().get("additionalProperties").is_some() {
        return Ok(());
    }
    let Some(name) = given.keys().find(|name| !known.contains_key(*name)) else { return Ok(()) };
    let near = relais_plan::problem::nearest(name, known.keys().map(String::as_str));
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it takes: {}", if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }),
    };
    Err(Error::Invalid(format!("the workflow has no input `{name}`; {help}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asks(answer: &Value, approves: bool) -> Waits {
        let call = || ToolUse { id: "1".into(), tool: "pay".into(), arguments: json!({}), garbled: None, opaque: None };
        let approves = approves.then(call);
        let question = Question {
            question: "Go on?".into(),
            show: Value::Null,
            answer: answer.clone(),
            deadline: None,
            approves,
            people: Default::default(),
        };
        Waits { command: 1, step: "s".into(), question }
    }

    #[test]
    fn words_are_read_as_the_question_wants_them() {
        for (schema, approval, written, expected) in [
            (json!({"type": "boolean"}), false, "YES", json!(true)),
            (json!({"type": "boolean"}), false, "n", json!(false)),
            (json!({}), true, "no", json!(false)),
            (json!({"type": "string"}), false, "yes", json!("yes")),
            (json!({"type": "string"}), false, "12", json!("12")),
            (json!({"type": "number"}), false, "12.5", json!(12.5)),
            (json!({"type": "object"}), false, "{\"a\": 1}", json!({"a": 1})),
            (json!({}), false, "maybe", json!("maybe")),
        ] {
            assert_eq!(asks(&schema, approval).read(written), expected, "{schema} {written}");
        }
    }

    #[test]
    fn a_wrong_answer_is_told_what_would_be_right() {
        for (schema, approval, wrong, expected) in [
            (
                json!({"type": "boolean"}),
                false,
                json!("maybe"),
                "must be yes or no (`true` or `false` in JSON), and not \"maybe\"",
            ),
            (
                json!({"type": "string", "enum": ["red", "green"]}),
                false,
                json!("blue"),
                "must be one of `red`, `green`",
            ),
            (json!({"type": "string"}), false, json!(5), "must be a text, and not 5"),
            (json!({"type": "integer", "minimum": 1}), false, json!(0), "must be a whole number of at least 1"),
            (json!({"type": "string", "pattern": "^a"}), false, json!("b"), "Expected schema"),
            (json!({}), true, json!("maybe"), "must be yes or no (`true` or `false` in JSON), or {\"approve\": true"),
        ] {
            let told = check_answer(&asks(&schema, approval).question, &wrong).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
    }
}
