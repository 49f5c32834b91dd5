//! One run at work: fold, turn, append, perform, and again. That triangle is the only loop; engine, store and
//! performer never call one another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relais_engine::*;
use relais_plan::{LargeValues, NodeId};
use relais_store::{Batch, Error, Listed, Row};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::asked::asked_of_people;
use crate::perform::{Job, JobWork};
use crate::prepare::Prepared;
use crate::tools::write_file;
use crate::worker::{Origin, Rest, Standing, Worker};

/// A run that goes on within this time is kept in memory instead of being let go and loaded again.
const KEEP_MS: i64 = 3_000;
/// A parent whose child waits looks after it so often, should nobody tell it.
const CHILD_CHECK_MS: i64 = 60_000;
/// A run that has ended waits so long for the child runs that it has given up: they end within that time, unless they have
/// exit steps.
const CHILDREN_END: Duration = Duration::from_secs(5);
/// Inputs taken into one turn.
const MAX_INPUTS: usize = 4_096;
/// Values kept for one run from turn to turn; beyond this the cache starts anew.
const MAX_VALUES: usize = 256;
/// The same in bytes of JSON, up to ten times as much in memory.
const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// All that can come to a run at work.
pub(crate) enum Input {
    Answered(CommandId, Box<Answer>),
    /// Somebody appended to the journal.
    Changed,
    ChildEnded(RunId),
    ChildWaits(RunId),
}

/// Why a task has ended.
pub(crate) enum Ended {
    Closed {
        status: RunStatus,
        parent: Option<Parent>,
    },
    Waiting {
        wake_at: Option<Millis>,
        parent: Option<Parent>,
    },
    /// Another owner has the run, or had it in between.
    LetGo,
    /// It cannot go on here; the journal is as it was.
    Broken(String),
}

impl Ended {
    /// What there is to tell to whoever waits for the run, if that is certain without a look at its row.
    pub fn rest(&self) -> Option<Result<Rest, Error>> {
        match self {
            Ended::Closed { status, .. } => Some(Ok(Rest::Ended(*status))),
            Ended::Broken(message) => Some(Err(Error::Unusable(message.clone()))),
            Ended::Waiting { .. } | Ended::LetGo => None,
        }
    }
}

pub(crate) struct Runner {
    worker: Arc<Worker>,
    id: RunId,
    run: Option<Run>,
    /// Somebody else may believe that the run is theirs: nothing is performed before an entry says that it is ours.
    taking_over: bool,
    /// The parent has ended without it.
    abandoned: bool,
    prepared: Option<Arc<Prepared>>,
    values: Values,
    value_bytes: usize,
    outbox: mpsc::Sender<Input>,
    inbox: mpsc::Receiver<Input>,
    standing: Arc<Standing>,
    flying: HashMap<CommandId, AbortHandle>,
    /// Closed when the start of a child run has come to its end, well or not.
    starting: HashMap<CommandId, watch::Receiver<()>>,
    /// Child runs that wait for something.
    parked: BTreeSet<CommandId>,
    /// Child runs that were given up and have been told so.
    cancelled: BTreeMap<CommandId, RunId>,
    pulse: Option<Pulse>,
    /// The types of events that the store was last told this run waits for; none if that is not known.
    awaited: Option<BTreeSet<String>>,
    /// The questions that the store was last told this run asks; none if that is not known.
    asking: Option<BTreeSet<CommandId>>,
}

/// How often the row of a run at work shows what it has used by now.
const USAGE_EVERY_MS: i64 = 1_000;

/// The row as it was last written: what it said of the run's standing and use, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pulse {
    status: RunStatus,
    wake_at: Option<Millis>,
    usage: Usage,
    at: Millis,
}

enum Trouble {
    LetGo,
    Broken(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Broken(error.to_string())
    }
}

impl From<Corrupt> for Trouble {
    fn from(corrupt: Corrupt) -> Trouble {
        Trouble::Broken(corrupt.to_string())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Broken(failure.message)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop_flights();
    }
}

impl Runner {
    pub fn new(
        worker: Arc<Worker>,
        id: RunId,
        origin: Origin,
        outbox: mpsc::Sender<Input>,
        inbox: mpsc::Receiver<Input>,
        standing: Arc<Standing>,
    ) -> Runner {
        let (run, taking_over) = match origin {
            Origin::New(run) => (Some(*run), false),
            Origin::Free => (None, false),
            Origin::Taken => (None, true),
        };
        let (awaited, asking) = (run.is_some().then(BTreeSet::new), run.is_some().then(BTreeSet::new));
        Runner {
            worker,
            id,
            run,
            taking_over,
            abandoned: false,
            prepared: None,
            values: Values::new(),
            value_bytes: 0,
            outbox,
            inbox,
            standing,
            flying: HashMap::new(),
            starting: HashMap::new(),
            parked: BTreeSet::new(),
            cancelled: BTreeMap::new(),
            pulse: None,
            awaited,
            asking,
        }
    }

    pub async fn work(&mut self) -> Ended {
        match self.go().await {
            Ok(ended) => ended,
            Err(Trouble::LetGo) => Ended::LetGo,
            Err(Trouble::Broken(message)) => {
                // Given up by all means: nobody takes up what somebody alive holds.
                self.stop_flights();
                let _ = self.release().await;
                Ended::Broken(message)
            }
        }
    }

    fn stop_flights(&mut self) {
        for (_, handle) in self.flying.drain() {
            handle.abort();
        }
    }

    async fn release(&self) -> Result<(), Error> {
        let worker = &self.worker;
        worker.outlast(|| worker.store.release(self.id, worker.owner.clone())).await
    }

    async fn row(&self, run: RunId) -> Result<Row, Error> {
        self.worker.outlast(|| self.worker.row(run)).await
    }

    async fn entries(&self, run: RunId, after: u64) -> Result<Vec<Entry>, Error> {
        self.worker.outlast(|| self.worker.store.load(run, after)).await
    }

    /// What came in and was not looked at; the mailbox bounds it.
    pub fn mail(&mut self) -> Vec<Input> {
        std::iter::from_fn(|| self.inbox.try_recv().ok()).collect()
    }

    async fn go(&mut self) -> Result<Ended, Trouble> {
        let fresh = self.run.is_some();
        if !fresh {
            self.load().await?;
        }
        self.prepare().await?;
        if !fresh {
            if let Some(pause) = pause_after(self.run()?.recoveries) {
                tokio::time::sleep(pause).await;
            }
            self.file_all().await?;
        }
        let mut resting = self.advance(Vec::new()).await?;
        if !fresh {
            // Whoever had it before may have died between giving something up and stopping it.
            self.abort_dropped().await?;
            self.perform_all().await?;
        }
        loop {
            if let Some(ended) = self.at_rest(resting).await? {
                return Ok(ended);
            }
            let inputs = self.next_inputs().await?;
            resting = self.advance(inputs).await?;
        }
    }

    fn run(&self) -> Result<&Run, Trouble> {
        self.run.as_ref().ok_or_else(|| Trouble::Broken("the run is not loaded".into()))
    }

    /// From the journal. A run that was left in the middle is taken over, too, whoever left it.
    async fn load(&mut self) -> Result<(), Trouble> {
        let worker = self.worker.clone();
        let _turn = worker.loading().await;
        let entries = self.entries(self.id, 0).await?;
        let run = Run::fold(&entries)?;
        let row = self.row(self.id).await?;
        let was_left = row.summary.status == RunStatus::Running && !run.owed.is_empty();
        self.taking_over |= was_left || calls_in_flight(&run).next().is_some();
        self.abandoned = self.parent_is_gone(&run).await?;
        self.standing.seq.store(run.seq, Ordering::Release);
        self.run = Some(run);
        Ok(())
    }

    /// What is said before anything else, worked out anew whenever the journal has grown meanwhile: what its former
    /// owner left in flight is settled, and what nobody waits for is cancelled.
    fn first_words(&self) -> Result<Vec<Event>, Trouble> {
        let run = self.run()?;
        if run.closed.is_some() {
            return Ok(Vec::new());
        }
        let mut words = if self.taking_over { adopt(run) } else { Vec::new() };
        if self.abandoned && run.cancels == 0 {
            words.push(Event::Signalled { signal: Signal::Cancel, by: "its parent".into() });
        }
        Ok(words)
    }

    /// A child whose parent has ended without it is cancelled with it.
    async fn parent_is_gone(&self, run: &Run) -> Result<bool, Trouble> {
        let Some(parent) = run.opened.parent.as_ref().filter(|_| run.closed.is_none() && run.cancels == 0) else {
            return Ok(false);
        };
        match self.row(parent.run).await {
            Ok(row) => Ok(row.summary.status.is_final()),
            Err(Error::NotFound(_)) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    async fn prepare(&mut self) -> Result<(), Trouble> {
        let opened = &self.run()?.opened;
        let (plan, simulate) = (opened.plan.clone(), opened.mode.simulate);
        let prepared = self.worker.prepared(&plan, simulate).await?;
        // Set once: a plan does not change under its run.
        let _ = self.standing.shutdown_timeout_ms.set(prepared.program.plan.limits.shutdown_timeout_ms);
        self.prepared = Some(prepared);
        Ok(())
    }

    fn prepared(&self) -> Result<Arc<Prepared>, Trouble> {
        self.prepared.clone().ok_or_else(|| Trouble::Broken("the plan is not loaded".into()))
    }

    /// Decides, makes it durable, then acts. Says whether the run was let go with it.
    async fn advance(&mut self, answers: Vec<Event>) -> Result<bool, Trouble> {
        let mut answers = answers;
        loop {
            let inputs = [self.first_words()?, std::mem::take(&mut answers)].concat();
            let turn = self.turn(inputs).await?;
            if turn.events.is_empty() {
                return Ok(false);
            }
            for (_, bytes) in &turn.blobs {
                self.worker.outlast(|| self.worker.store.put_blob(bytes.clone())).await?;
            }
            let (asked, resting) = (asked_in(&turn.events), self.would_rest()?);
            let entry = self.entry(turn.events)?;
            match self.append(&entry, resting).await {
                Ok(()) => {
                    if self.keeps_files()? {
                        self.file_outputs(large::completed_in(&entry.events)).await?;
                    }
                    self.perform_next(&asked).await?;
                    self.abort_dropped().await?;
                    if resting || !self.run()?.has_decisions() {
                        return Ok(resting);
                    }
                    // A store in memory never waits, and other runs are to go on beside a long loop.
                    tokio::task::yield_now().await;
                }
                // Somebody appended first: read on, and decide again what came in.
                Err(Error::Conflict { .. }) => answers = self.reload(&entry).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn turn(&mut self, mut inputs: Vec<Event>) -> Result<Turn, Trouble> {
        drop_unwanted(self.run()?, &mut inputs);
        // Never within a turn: a decision that needs more values than that would load them for ever.
        if self.values.len() > MAX_VALUES || self.value_bytes > MAX_VALUE_BYTES {
            self.values.clear();
            self.value_bytes = 0;
        }
        let at = self.worker.clock.now();
        let mut turn = self.decide(at, Some(inputs), Turn::default())?;
        let mut known = 0;
        loop {
            // Values made in this turn may be read in it, long before they are stored.
            for (hash, bytes) in &turn.blobs[known..] {
                self.value_bytes += bytes.len();
                self.values.insert(hash.clone(), value_of(bytes));
            }
            known = turn.blobs.len();
            if turn.loads.is_empty() {
                return Ok(turn);
            }
            let hashes = std::mem::take(&mut turn.loads);
            self.load_values(hashes).await?;
            turn = self.decide(at, None, turn)?;
        }
    }

    fn decide(&mut self, at: Millis, inputs: Option<Vec<Event>>, former: Turn) -> Result<Turn, Trouble> {
        let prepared = self.prepared()?;
        let Some(run) = &mut self.run else { return Err(Trouble::Broken("the run is not loaded".into())) };
        let ctx = Context { program: &prepared.program, values: &self.values, catalog: &*prepared };
        Ok(match inputs {
            Some(inputs) => relais_engine::turn(&ctx, run, at, inputs)?,
            None => turn_on(&ctx, run, at, former)?,
        })
    }

    async fn load_values(&mut self, hashes: Vec<String>) -> Result<(), Trouble> {
        for hash in hashes {
            if self.values.contains_key(&hash) {
                continue;
            }
            let bytes = self.worker.outlast(|| self.worker.store.get_blob(hash.clone())).await?;
            let bytes = bytes.ok_or_else(|| Trouble::Broken(format!("the value {hash} is not in the database")))?;
            self.value_bytes += bytes.len();
            self.values.insert(hash, value_of(&bytes));
        }
        Ok(())
    }

    /// After a load: the workspace may have been left without some of its files.
    async fn file_all(&mut self) -> Result<(), Trouble> {
        let run = self.run()?;
        if run.closed.is_some() || !self.keeps_files()? {
            return Ok(());
        }
        self.file_outputs(large::completed(run)).await
    }

    fn keeps_files(&self) -> Result<bool, Trouble> {
        Ok(self.prepared()?.program.plan.limits.large_values == LargeValues::File)
    }

    /// Where the plan asks for it, large outputs lie as files before anything that may refer to them is performed.
    async fn file_outputs(&mut self, steps: Vec<(ScopeId, NodeId)>) -> Result<(), Trouble> {
        for (scope, node) in steps {
            let Some(text) = self.large_output(scope, node).await? else { continue };
            let (prepared, run) = (self.prepared()?, self.run()?);
            let key = &prepared.program.plan.node(node).key;
            let path = format!("{}/{}", files_folder(&run.opened), LargeValues::file_name(key));
            let workspace = self.worker.performer.workspace(self.id, &run.opened.mode);
            write_file::put(workspace, path, text.into_bytes(), self.id.to_string()).await?;
        }
        Ok(())
    }

    async fn large_output(&mut self, scope: ScopeId, node: NodeId) -> Result<Option<String>, Trouble> {
        loop {
            match self.loaded_output(scope, node)? {
                Ok(output) => return Ok(output),
                Err(hash) => self.load_values(vec![hash]).await?,
            }
        }
    }

    /// The output, or what must be loaded for it.
    fn loaded_output(&self, scope: ScopeId, node: NodeId) -> Result<Result<Option<String>, String>, Trouble> {
        let prepared = self.prepared()?;
        let ctx = Context { program: &prepared.program, values: &self.values, catalog: &*prepared };
        Ok(large::large_output(&ctx, self.run()?, scope, node))
    }

    fn entry(&self, events: Vec<Event>) -> Result<Arc<Entry>, Trouble> {
        let run = self.run()?;
        Ok(Arc::new(Entry { seq: run.seq, at: run.at, version: FORMAT, events }))
    }

    async fn append(&mut self, entry: &Arc<Entry>, resting: bool) -> Result<(), Error> {
        let Some(run) = &self.run else { return Err(Error::Internal("the run is not loaded".into())) };
        let Some(prepared) = &self.prepared else { return Err(Error::Internal("the plan is not loaded".into())) };
        let pulse = Pulse::of(&prepared.program, run, resting);
        let summary = self.changed_summary(run, &pulse);
        let written = summary.is_some();
        let blobs = entry.events.iter().flat_map(Event::blobs).collect();
        // Our own number is known before others can hear of it.
        self.standing.seq.store(run.seq, Ordering::Release);
        let awaited = self.changed_awaited(run, &prepared.program);
        let listed = self.changed_questions(run, &prepared.program);
        let asking = listed.is_some().then(|| asked_now(run).collect());
        let (run, writer, entry) = (self.id, self.worker.writer, entry.clone());
        let release = resting.then(|| self.worker.owner.clone());
        let batch = Batch { run, writer, entry, summary, release, blobs, awaited, listed };
        self.worker.outlast(|| self.worker.store.append(batch.clone())).await?;
        if written {
            self.pulse = Some(pulse);
        }
        if let Some(types) = batch.awaited {
            self.awaited = Some(types.into_iter().collect());
        }
        self.asking = asking.or(self.asking.take());
        Ok(())
    }

    /// What the run asks people, if that is something else than the store knows of.
    fn changed_questions(&self, run: &Run, program: &Program) -> Option<Listed> {
        if !program.asks_people {
            return None;
        }
        let is_known = self.asking.as_ref().is_some_and(|known| known.iter().copied().eq(asked_now(run)));
        (!is_known).then(|| asked_of_people(program, run))
    }

    /// The types of events that the run waits for, if they are others than the store knows of. What somebody outside
    /// says can only make them fewer, so that the store never knows of too few.
    fn changed_awaited(&self, run: &Run, program: &Program) -> Option<Vec<String>> {
        if !program.awaits_events {
            return None;
        }
        let now = awaited_events(run);
        let is_known =
            self.awaited.as_ref().is_some_and(|known| known.iter().map(String::as_str).eq(now.iter().copied()));
        (!is_known).then(|| now.into_iter().map(str::to_owned).collect())
    }

    /// The row is written only when something changed that somebody looks for.
    fn changed_summary(&self, run: &Run, pulse: &Pulse) -> Option<Summary> {
        let prepared = self.prepared.as_ref()?;
        if self.pulse.as_ref().is_some_and(|former| former.still_does_for(pulse)) {
            return None;
        }
        let mut summary = summary(&prepared.program, run);
        (summary.status, summary.wake_at) = (pulse.status, pulse.wake_at);
        if !pulse.status.is_final() {
            (summary.ended_at, summary.error) = (None, None);
        }
        Some(summary)
    }

    /// Starts again from the journal, since others have appended first; the answers in what was refused are given back.
    async fn reload(&mut self, refused: &Entry) -> Result<Vec<Event>, Trouble> {
        self.must_be_ours().await?;
        let entries = self.entries(self.id, 0).await?;
        must_not_be_taken(entries.iter().filter(|entry| entry.seq >= refused.seq))?;
        let run = Run::fold(&entries)?;
        self.standing.seq.store(run.seq, Ordering::Release);
        self.run = Some(run);
        (self.awaited, self.asking) = (None, None);
        if self.taking_over {
            // Nothing was performed here yet: its answers were those of `first_words`.
            return Ok(Vec::new());
        }
        let answers: Vec<Event> =
            refused.events.iter().filter(|e| matches!(e, Event::Answered { .. })).cloned().collect();
        self.must_be_flying(&answered_in(&answers))?;
        Ok(answers)
    }

    async fn must_be_ours(&self) -> Result<(), Trouble> {
        let row = self.row(self.id).await?;
        if row.owner.as_ref() == Some(&self.worker.owner) { Ok(()) } else { Err(Trouble::LetGo) }
    }

    /// All that is in flight was asked for here: it is under way, or one of these. Anything else is at work with a former
    /// owner who was late, and the run is to be taken over from it.
    fn must_be_flying(&self, known: &[CommandId]) -> Result<(), Trouble> {
        let ours = calls_in_flight(self.run()?).all(|id| self.flying.contains_key(&id) || known.contains(&id));
        if ours { Ok(()) } else { Err(Trouble::LetGo) }
    }

    /// Entries that others appended while nothing of ours was under way.
    async fn catch_up(&mut self) -> Result<bool, Trouble> {
        let known = self.run()?.seq;
        let entries = self.entries(self.id, known).await?;
        must_not_be_taken(&entries)?;
        let Some(run) = &mut self.run else { return Ok(false) };
        for entry in &entries {
            run.append(entry)?;
        }
        self.standing.seq.store(run.seq, Ordering::Release);
        Ok(!entries.is_empty())
    }

    /// Nothing is in flight and nothing will happen soon by itself.
    fn would_rest(&self) -> Result<bool, Trouble> {
        let run = self.run()?;
        if run.closed.is_some() {
            // Its row shows the end when every child run that it leaves has been told: should we die before that, the run
            // is taken up again.
            return Ok(self.given_up(run).next().is_none());
        }
        if status(run) != RunStatus::Waiting {
            return Ok(false);
        }
        let soon = self.worker.clock.now() + KEEP_MS;
        Ok(wake_at(&self.prepared()?.program, run).is_none_or(|at| at > soon))
    }

    async fn at_rest(&mut self, resting: bool) -> Result<Option<Ended>, Trouble> {
        let run = self.run()?;
        let parent = run.opened.parent.clone();
        if let Some(status) = run.closed.as_ref().map(|c| c.status) {
            let gone = resting || self.show_end().await?;
            return Ok(gone.then_some(Ended::Closed { status, parent }));
        }
        if resting {
            let wake_at = wake_at(&self.prepared()?.program, run);
            return Ok(Some(Ended::Waiting { wake_at, parent }));
        }
        let flying = run.in_flight().map(|(id, _)| id).collect::<BTreeSet<_>>();
        if !flying.is_empty() && flying.is_subset(&self.parked) {
            return self.park(parent).await;
        }
        if flying.is_empty() && self.would_rest()? {
            return self.let_go(parent).await;
        }
        Ok(None)
    }

    /// The run has ended and its row may not show it yet. Says whether it was let go.
    async fn show_end(&mut self) -> Result<bool, Trouble> {
        let ends = self.cancelled.values().map(|child| self.worker.let_go(*child));
        // Those that take longer have been told, and end on their own.
        let _ = tokio::time::timeout(CHILDREN_END, futures::future::join_all(ends)).await;
        if self.row(self.id).await?.summary.status.is_final() {
            // It had ended before we took it up, and nothing came: others may have it.
            self.release().await?;
            return Ok(true);
        }
        let (prepared, run) = (self.prepared()?, self.run()?);
        let summary = summary(&prepared.program, run);
        self.append_nothing(summary).await
    }

    /// Everything waits for child runs that wait themselves.
    async fn park(&mut self, parent: Option<Parent>) -> Result<Option<Ended>, Trouble> {
        let prepared = self.prepared()?;
        let now = self.worker.clock.now();
        let run = self.run()?;
        let mut summary = summary(&prepared.program, run);
        summary.status = RunStatus::Waiting;
        let own = wake_at(&prepared.program, run);
        let check = now + CHILD_CHECK_MS;
        summary.wake_at = Some(own.map_or(check, |at| at.min(check)));
        let children = self.parked.iter().filter_map(|id| child_of(run.owed.get(id)?));
        summary.awaits = children.map(|child| format!("run:{child}")).collect();
        let wake_at = summary.wake_at;
        let gone = self.append_nothing(summary).await?;
        Ok(gone.then_some(Ended::Waiting { wake_at, parent }))
    }

    async fn let_go(&mut self, parent: Option<Parent>) -> Result<Option<Ended>, Trouble> {
        let prepared = self.prepared()?;
        let run = self.run()?;
        let (summary, wake_at) = (summary(&prepared.program, run), wake_at(&prepared.program, run));
        let gone = self.append_nothing(summary).await?;
        Ok(gone.then_some(Ended::Waiting { wake_at, parent }))
    }

    /// An entry without events: the row changes and the lease goes. Not if somebody spoke at the last moment: then
    /// the run goes on with what was said.
    async fn append_nothing(&mut self, summary: Summary) -> Result<bool, Trouble> {
        let at = self.worker.clock.now();
        let listed = self.changed_questions(self.run()?, &self.prepared()?.program);
        let Some(run) = &mut self.run else { return Ok(false) };
        run.begin(at, None);
        self.standing.seq.store(run.seq, Ordering::Release);
        let entry = Arc::new(Entry { seq: run.seq, at: run.at, version: FORMAT, events: Vec::new() });
        let (run, writer, release) = (self.id, self.worker.writer, Some(self.worker.owner.clone()));
        let (summary, blobs) = (Some(summary), Vec::new());
        let batch = Batch { run, writer, entry: entry.clone(), summary, release, blobs, awaited: None, listed };
        match self.worker.outlast(|| self.worker.store.append(batch.clone())).await {
            Ok(()) => Ok(true),
            Err(Error::Conflict { .. }) => {
                self.reload(&entry).await?;
                // A full mailbox wakes the run anyway.
                let _ = self.outbox.try_send(Input::Changed);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the next thing to happen, and takes all that has happened by then.
    async fn next_inputs(&mut self) -> Result<Vec<Event>, Trouble> {
        let prepared = self.prepared()?;
        let due = self.next_due(&prepared)?;
        let first = match due {
            Some(at) => {
                let rest = Duration::from_millis((at - self.worker.clock.now()).max(0) as u64);
                tokio::time::timeout(rest, self.inbox.recv()).await.ok().flatten()
            }
            None => self.inbox.recv().await,
        };
        let mut inputs = Vec::new();
        let mut changed = false;
        let mut next = first;
        for _ in 0..MAX_INPUTS {
            let Some(input) = next else { break };
            changed |= matches!(input, Input::Changed);
            inputs.extend(self.take(input).await?);
            next = self.inbox.try_recv().ok();
        }
        if changed && self.catch_up().await? {
            self.must_be_flying(&answered_in(&inputs))?;
            self.abort_dropped().await?;
        }
        inputs.extend(self.slept()?);
        Ok(inputs)
    }

    async fn take(&mut self, input: Input) -> Result<Option<Event>, Trouble> {
        match input {
            Input::Answered(id, answer) => {
                self.flying.remove(&id);
                Ok(Some(Event::Answered { id, answer }))
            }
            Input::Changed => Ok(None),
            Input::ChildWaits(child) => {
                self.parked.extend(self.command_of(child));
                Ok(None)
            }
            Input::ChildEnded(child) => {
                let Some(id) = self.command_of(child) else { return Ok(None) };
                self.parked.remove(&id);
                self.child_answer(id).await
            }
        }
    }

    /// The command that a child run answers; it may have been asked more than once. To one that was given up it is a
    /// receipt.
    fn command_of(&self, child: RunId) -> Option<CommandId> {
        let asked = |owed: &Owed| child_of(owed) == Some(child);
        let run = self.run.as_ref()?;
        run.owed.iter().chain(&run.dropped).find(|(_, owed)| asked(owed)).map(|(id, _)| *id)
    }

    fn next_due(&self, prepared: &Prepared) -> Result<Option<Millis>, Trouble> {
        let run = self.run()?;
        let sleeps = wake_at(&prepared.program, run);
        let deadline = next_deadline(&prepared.program, run);
        Ok(sleeps.into_iter().chain(deadline).min())
    }

    /// Sleeps that are over and questions whose deadline has passed.
    fn slept(&self) -> Result<Vec<Event>, Trouble> {
        let now = self.worker.clock.now();
        let run = self.run()?;
        let over = |owed: &Owed| match &*owed.command {
            Command::Sleep { until, .. } => *until <= now,
            Command::AskPerson(question) => question.deadline.is_some_and(|at| at <= now),
            Command::CallModel { .. } | Command::CallTool { .. } | Command::Await(_) | Command::StartRun(_) => false,
        };
        let slept = || Box::new(Answer { body: Body::Slept, usage: Usage::default(), ms: 0 });
        let due = run.owed.iter().filter(|(_, owed)| !run.paused && over(owed));
        Ok(due.map(|(id, _)| Event::Answered { id: *id, answer: slept() }).collect())
    }

    /// What the last entry asks for. If that says that the run is ours now, all that is still owed, again.
    async fn perform_next(&mut self, asked: &[CommandId]) -> Result<(), Trouble> {
        self.abandoned = false;
        if !std::mem::take(&mut self.taking_over) {
            return self.perform(asked).await;
        }
        self.perform_all().await
    }

    /// Everything that is owed, as far as it is not under way. Child runs are found again.
    async fn perform_all(&mut self) -> Result<(), Trouble> {
        let ids: Vec<CommandId> = self.run()?.in_flight().map(|(id, _)| id).collect();
        let ids: Vec<CommandId> = ids.into_iter().filter(|id| !self.flying.contains_key(id)).collect();
        self.perform(&ids).await
    }

    async fn perform(&mut self, ids: &[CommandId]) -> Result<(), Trouble> {
        if !ids.is_empty() && !self.worker.lease.is_fresh() {
            self.keep_lease(ids).await?;
        }
        for id in ids {
            if !self.flying.contains_key(id) {
                self.perform_one(*id).await?;
            }
        }
        Ok(())
    }

    /// This process was slow or stood still, and its lease may have run out: whoever has the run by now would perform
    /// the same.
    async fn keep_lease(&mut self, asked: &[CommandId]) -> Result<(), Trouble> {
        self.worker.outlast(|| self.worker.renew()).await?;
        self.must_be_ours().await?;
        if self.catch_up().await? {
            self.must_be_flying(asked)?;
            // Something is to be decided; a full mailbox wakes the run anyway.
            let _ = self.outbox.try_send(Input::Changed);
        }
        Ok(())
    }

    async fn perform_one(&mut self, id: CommandId) -> Result<(), Trouble> {
        let prepared = self.prepared()?;
        let run = self.run()?;
        let Some(owed) = run.owed.get(&id) else { return Ok(()) };
        let work = match &*owed.command {
            Command::CallModel { .. } => match request(&prepared.program, run, id) {
                Some(request) => JobWork::Model(request),
                None => return Err(Trouble::Broken(format!("command {id} has no request"))),
            },
            Command::CallTool { tool, arguments, effect, use_id: _ } => JobWork::Tool {
                tool: tool.clone(),
                arguments: arguments.clone(),
                effect: *effect,
                artifacts: artifacts(run, prepared.program.first_version(owed.node), arguments),
            },
            Command::StartRun(start) => {
                let (opened, again) = (child(run, id, start), !start.paid.is_zero());
                return self.start_child(id, opened, again).await;
            }
            Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) => return Ok(()),
        };
        let job = Job { run: self.id, node: owed.node, key: run.key(id), mode: run.opened.mode.clone(), work };
        let (worker, outbox) = (self.worker.clone(), self.outbox.clone());
        let task = tokio::spawn(async move {
            let answer = worker.performer.perform(&prepared, job).await;
            let _ = outbox.send(Input::Answered(id, Box::new(answer))).await;
        });
        self.flying.insert(id, task.abort_handle());
        Ok(())
    }

    async fn start_child(&mut self, id: CommandId, opened: Opened, again: bool) -> Result<(), Trouble> {
        let child = opened.run;
        let (worker, outbox) = (self.worker.clone(), self.outbox.clone());
        let (started, starting) = watch::channel(());
        let task = tokio::spawn(async move {
            let input = match worker.outlast(|| worker.start_child(opened.clone(), again)).await {
                // Already ended, or its end will be told.
                Ok(()) => Input::ChildEnded(child),
                Err(error) => {
                    let body = Body::Failed(Failure::new(ErrorKind::Internal, error.to_string()));
                    Input::Answered(id, Box::new(Answer { body, usage: Usage::default(), ms: 0 }))
                }
            };
            drop(started);
            let _ = outbox.send(input).await;
        });
        self.flying.insert(id, task.abort_handle());
        self.starting.insert(id, starting);
        Ok(())
    }

    /// The answer that a child run is, if it has ended.
    async fn child_answer(&mut self, id: CommandId) -> Result<Option<Event>, Trouble> {
        let run = self.run()?;
        let asked = run.owed.get(&id).or_else(|| run.dropped.get(&id));
        let Some(Command::StartRun(start)) = asked.map(|o| &*o.command) else { return Ok(None) };
        let paid = start.paid;
        let row = self.row(start.run).await?;
        if !row.summary.status.is_final() {
            if row.summary.status == RunStatus::Waiting && row.owner.is_none() {
                self.parked.insert(id);
            }
            return Ok(None);
        }
        let entries = self.entries(start.run, 0).await?;
        let child = Run::fold(&entries)?;
        let Some(closed) = child.closed else { return Ok(None) };
        let output = closed.output.unwrap_or_else(Stored::null);
        let body = Body::Ended { status: closed.status, output, error: closed.error };
        let ms = child.ended_at.unwrap_or(child.at).saturating_sub(child.started_at).max(0) as u64;
        self.flying.remove(&id);
        Ok(Some(Event::Answered { id, answer: Box::new(Answer { body, usage: child.usage.since(&paid), ms }) }))
    }

    /// What the run has given up is stopped; a child run is cancelled, wherever it is and whatever it waits for.
    async fn abort_dropped(&mut self) -> Result<(), Trouble> {
        let run = self.run()?;
        let children: Vec<(CommandId, RunId)> = self.given_up(run).collect();
        let is_child = |id: &CommandId| run.dropped.get(id).is_some_and(|owed| child_of(owed).is_some());
        let calls: Vec<CommandId> =
            run.dropped.keys().filter(|id| self.flying.contains_key(id) && !is_child(id)).copied().collect();
        for handle in calls.iter().filter_map(|id| self.flying.remove(id)) {
            handle.abort();
        }
        for (id, child) in children {
            // Half a start would leave a run that is ours and that nobody works on.
            if let Some(mut starting) = self.starting.remove(&id) {
                let _ = starting.changed().await;
            }
            self.flying.remove(&id);
            self.worker.outlast(|| self.worker.cancel_child(self.id, child)).await?;
            self.cancelled.insert(id, child);
        }
        Ok(())
    }

    /// The child runs that the run has given up and that have not been told so by this task.
    fn given_up<'r>(&'r self, run: &'r Run) -> impl Iterator<Item = (CommandId, RunId)> + 'r {
        let untold = run.dropped.iter().filter(|(id, _)| !self.cancelled.contains_key(id));
        untold.filter_map(|(id, owed)| Some((*id, child_of(owed)?)))
    }
}

/// The child run that a command started.
fn child_of(owed: &Owed) -> Option<RunId> {
    match &*owed.command {
        Command::StartRun(start) => Some(start.run),
        Command::CallModel { .. } | Command::CallTool { .. } | Command::Sleep { .. } => None,
        Command::AskPerson(_) | Command::Await(_) => None,
    }
}

/// Before a run goes on that was taken over so often without getting further: should it be what brings the process down,
/// other runs get further meanwhile.
fn pause_after(recoveries: u32) -> Option<Duration> {
    const LONGEST_S: u64 = 60;
    let again = recoveries.checked_sub(1)?;
    Some(Duration::from_secs(1u64.checked_shl(again).unwrap_or(LONGEST_S).min(LONGEST_S)))
}

/// What stands in a blob: JSON, or else text.
fn value_of(bytes: &[u8]) -> serde_json::Value {
    let text = || serde_json::Value::String(String::from_utf8_lossy(bytes).into_owned());
    serde_json::from_slice(bytes).unwrap_or_else(|_| text())
}

/// An answer to something nobody waits for, or a second one to the same command, is dropped before it is appended.
fn drop_unwanted(run: &Run, inputs: &mut Vec<Event>) {
    let mut seen = BTreeSet::new();
    inputs.retain(|event| match event {
        Event::Answered { id, .. } | Event::Received { id, .. } => run.takes(*id) && seen.insert(*id),
        Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Branched { .. } => true,
        Event::Left(_) | Event::Signalled { .. } | Event::Settled { .. } | Event::Closed { .. } => true,
    });
}

fn asked_in(events: &[Event]) -> Vec<CommandId> {
    let asked = |event: &Event| {
        let Event::Asked { id, command, .. } = event else { return None };
        command.is_active().then_some(*id)
    };
    events.iter().filter_map(asked).collect()
}

fn answered_in(events: &[Event]) -> Vec<CommandId> {
    let answered = |event: &Event| if let Event::Answered { id, .. } = event { Some(*id) } else { None };
    events.iter().filter_map(answered).collect()
}

/// Models and tools that were asked and have not answered. A child run goes on by itself, whoever has its parent.
fn calls_in_flight(run: &Run) -> impl Iterator<Item = CommandId> {
    let is_call = |owed: &Owed| !matches!(&*owed.command, Command::StartRun(_));
    run.in_flight().filter(move |(_, owed)| is_call(owed)).map(|(id, _)| id)
}

/// Our own words are never met here: what we append we know, and what we appended without hearing of it we append again.
fn must_not_be_taken<'a>(others: impl IntoIterator<Item = &'a Entry>) -> Result<(), Trouble> {
    let is_adopted = |event: &Event| matches!(event, Event::Signalled { signal: Signal::Adopted, .. });
    let taken = others.into_iter().flat_map(|entry| &entry.events).any(is_adopted);
    if taken { Err(Trouble::LetGo) } else { Ok(()) }
}

impl Pulse {
    /// A run that is kept in memory shows as running while it waits for a moment, or has an end to bring to others.
    fn of(program: &Program, run: &Run, resting: bool) -> Pulse {
        let status = if resting { status(run) } else { RunStatus::Running };
        let wake_at = (status == RunStatus::Waiting).then(|| wake_at(program, run)).flatten();
        Pulse { status, wake_at, usage: run.usage, at: run.at }
    }

    fn still_does_for(&self, now: &Pulse) -> bool {
        let same = (self.status, self.wake_at) == (now.status, now.wake_at) && now.status == RunStatus::Running;
        same && (self.usage == now.usage || now.at - self.at < USAGE_EVERY_MS)
    }
}

/// What a tool may read: the newest version of every artifact, and the one that the call names.
fn artifacts(run: &Run, first: usize, arguments: &Value) -> Vec<(String, u32, Artifact)> {
    let asked = (arguments["name"].as_str(), arguments["version"].as_u64());
    let mut shown = Vec::with_capacity(run.artifacts.len());
    for (name, versions) in &run.artifacts {
        let numbered = versions.iter().enumerate().map(|(place, artifact)| (place + first, artifact));
        let is_shown =
            |number: usize| number + 1 == versions.len() + first || asked == (Some(name.as_str()), Some(number as u64));
        shown.extend(
            numbered
                .filter(|(number, _)| is_shown(*number))
                .map(|(number, artifact)| (name.clone(), number as u32, artifact.clone())),
        );
    }
    shown
}

fn child(run: &Run, command: CommandId, start: &StartRun) -> Opened {
    Opened {
        run: start.run,
        workflow: start.workflow.clone(),
        plan: start.plan.clone(),
        input: start.input.clone(),
        trigger: serde_json::Value::Null,
        user: run.opened.user.clone(),
        thread: run.opened.thread.clone(),
        parent: Some(Parent { run: run.id(), command, depth: start.depth }),
        budget: start.budget,
        mode: run.opened.mode.clone(),
        manifest: String::new(),
        target: Default::default(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use std::path::PathBuf;

    use relais_plan::{Plan, Source};
    use relais_store::{Document, Fault, MemoryStore, Which};
    use serde_json::json;

    use super::*;
    use crate::clock::SystemClock;
    use crate::models::{self, Models};
    use crate::perform::Performer;
    use crate::prepare::plan_key;
    use crate::settings::Settings;
    use crate::tools::Tools;

    struct Alone;

    impl relais_dialects::Loader for Alone {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            Err(format!("there is no {reference}"))
        }
    }

    fn plan(text: &str) -> Plan {
        let source = Source { name: "test.yaml".into(), text: text.into() };
        let loaded = relais_dialects::read(&source, &Alone, &Default::default());
        assert!(!relais_plan::problem::has_errors(&loaded.problems), "{:#?}", loaded.problems);
        loaded.plan.unwrap()
    }

    fn worker(store: MemoryStore) -> Arc<Worker> {
        let settings = Settings::default();
        let models = Models::new(&settings, &|_| None, &PathBuf::new()).unwrap();
        let governors = models::governors(&settings);
        let performer = Performer::new(Arc::new(store), Arc::new(models), governors, PathBuf::new());
        Worker::start(performer, Tools::new(&settings), Arc::new(SystemClock))
    }

    async fn start(worker: &Arc<Worker>, plan: &Plan, input: serde_json::Value) -> RunId {
        let body = serde_json::to_value(plan).unwrap();
        let document = Document { key: plan_key(&plan.hash()), version: 1, at: 0, body };
        worker.store.put_document(document).await.unwrap();
        let opened = Opened {
            run: uuid::Uuid::now_v7(),
            workflow: plan.name.clone(),
            plan: plan.hash(),
            input: Stored::Value(input),
            trigger: serde_json::Value::Null,
            user: String::new(),
            thread: String::new(),
            parent: None,
            budget: plan.limits.budget,
            mode: Mode::default(),
            manifest: String::new(),
            target: Default::default(),
        };
        worker.create(opened, None).await.unwrap()
    }

    async fn output(worker: &Arc<Worker>, run: RunId) -> serde_json::Value {
        let entries = worker.store.load(run, 0).await.unwrap();
        match Run::fold(&entries).unwrap().closed.unwrap().output.unwrap() {
            Stored::Value(value) => value,
            Stored::Blob(blob) => {
                serde_json::from_slice(&worker.store.get_blob(blob.hash).await.unwrap().unwrap()).unwrap()
            }
        }
    }

    #[tokio::test]
    async fn a_large_value_can_be_read_in_the_turn_that_made_it() {
        let mut plan =
            plan("name: large\nsteps:\n  - { id: a, set: { x: '{{ input.x }}' } }\noutput: '{{ steps.a.output.x }}'\n");
        plan.limits.inline_bytes = 20;
        let worker = worker(MemoryStore::new());
        let text = "longer than twenty bytes";
        let run = start(&worker, &plan, json!({ "x": text })).await;
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Completed)));
        assert_eq!(output(&worker, run).await, text);
    }

    #[tokio::test]
    async fn a_decision_may_need_more_values_than_are_kept() {
        let mut plan = plan(
            "name: many\nsteps:\n  - { id: each, for_each: input.list, max: 1000, do: [{ id: a, set: { x: '{{ item }}' } }] }\n  - { id: nap, wait: 0.1s }\noutput: '{{ steps.each.output.results }}'\n",
        );
        plan.limits.inline_bytes = 20;
        let worker = worker(MemoryStore::new());
        let list: Vec<String> = (0..2 * MAX_VALUES).map(|n| format!("longer than twenty bytes {n}")).collect();
        let run = start(&worker, &plan, json!({ "list": list })).await;
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Completed)));
        assert_eq!(output(&worker, run).await.as_array().map(Vec::len), Some(list.len()));
    }

    #[tokio::test]
    async fn more_decisions_than_fit_into_one_turn_are_taken_in_the_next() {
        let text = "name: long\nsteps:\n  - { id: each, for_each: input.list, max: 50000, do: [{ set: { x: 1 } }] }\noutput: done\n";
        let worker = worker(MemoryStore::new());
        let list = vec![0; 30_000];
        let run = start(&worker, &plan(text), json!({ "list": list })).await;
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Completed)));
        assert_eq!(worker.row(run).await.unwrap().seq, 17, "opened, and sixteen turns");
    }

    // Each of these would be beyond any memory before its steps are through.
    #[tokio::test]
    async fn what_grows_without_end_is_stopped() {
        let doubled = |value: &str| format!("{{ id: more, set: {{ v: {value} }} }}");
        let loop_of = |step: &str, max: u32| {
            format!(
                "name: grows\nsteps:\n  - {{ id: first, set: {{ v: xxxxxxxxxx }} }}\n  - id: again\n    max: {max}\n    until: 'false'\n    on_limit: complete\n    repeat: [{step}]\n"
            )
        };
        for (text, expected) in [
            (loop_of(&doubled("['{{ vars.v }}', '{{ vars.v }}']"), 60), "more than 16 MiB of memory"),
            (loop_of(&doubled("'{{ [vars.v, vars.v] }}'"), 60), "more than 16 MiB of memory"),
            (loop_of(&doubled("'{{ vars.v ~ vars.v }}'"), 60), "more than 16 MiB of memory"),
            (loop_of(&doubled("['{{ vars.v }}']"), 300), "more than 100 levels deep"),
            (loop_of(&doubled("'{{ range(50000) }}'"), 2_000), "come to more than 256 MiB"),
        ] {
            let worker = worker(MemoryStore::new());
            let run = start(&worker, &plan(&text), json!({})).await;
            assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Failed)), "{text}");
            let error = worker.row(run).await.unwrap().summary.error.unwrap();
            assert!(error.message.contains(expected), "{text}\n{}", error.message);
        }
    }

    #[tokio::test]
    async fn loops_within_loops_end_and_a_resume_does_not_begin_them_again() {
        let text = "name: many\nsteps:\n  - id: outer\n    for_each: range(300)\n    max: 300\n    on_error: continue\n    do: [{ id: inner, repeat: [{ set: { x: 1 } }], until: 'false', max: 300, on_limit: complete }]\non_exit: [{ id: last, set: { y: 1 } }]\n";
        let worker = worker(MemoryStore::new());
        let run = start(&worker, &plan(text), json!({})).await;
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Failed)));
        let folded = Run::fold(&worker.store.load(run, 0).await.unwrap()).unwrap();
        let error = folded.closed.unwrap().error.unwrap();
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(error.message.starts_with("the run came to more than 50004 steps, passes"), "{}", error.message);
        let last = folded.scopes.last().unwrap();
        assert_eq!((last.kind, last.steps.len()), (ScopeKind::Exit, 1), "its exit step ran");
        let resume = Signal::Resume(Default::default());
        worker.signal(run, vec![Event::Signalled { signal: resume, by: String::new() }]).await.unwrap();
        assert_eq!(worker.adopt(Which::Any).await, Ok(vec![run]));
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Failed)));
        let again = Run::fold(&worker.store.load(run, 0).await.unwrap()).unwrap();
        assert!(again.scopes.len() < folded.scopes.len() + 10, "it did not go on");
    }

    #[tokio::test]
    async fn a_cancel_is_heard_between_the_turns_of_a_long_loop() {
        let text = "name: long\nsteps:\n  - { id: r, repeat: [{ set: { x: 1 } }], until: 'false', max: 50000 }\n";
        let worker = worker(MemoryStore::new());
        let run = start(&worker, &plan(text), json!({})).await;
        let mut tail = worker.store.tail();
        while worker.row(run).await.unwrap().seq < 2 {
            tail.recv().await.unwrap();
        }
        worker.signal(run, vec![Event::Signalled { signal: Signal::Cancel, by: String::new() }]).await.unwrap();
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Cancelled)));
        assert!(worker.row(run).await.unwrap().seq < 10, "long before the last of its turns");
    }

    #[tokio::test]
    async fn a_word_at_the_last_moment_is_heard() {
        // Appends: the first turn, the pause, and then the entry with which the run is let go.
        let appends = Arc::new(AtomicU64::new(0));
        let counted = appends.clone();
        let store = MemoryStore::with_faults(move |method, _| {
            let third = method == "append" && counted.fetch_add(1, Ordering::Relaxed) == 2;
            third.then(|| Fault::Before(Error::Conflict { run: RunId::nil(), seq: 0 }))
        });
        let worker = worker(store);
        let mut live = worker.performer().live();
        let run = start(&worker, &plan("name: nap\nsteps:\n  - { id: nap, wait: 2s }\n"), json!({})).await;
        let mut tail = worker.store.tail();
        while worker.row(run).await.unwrap().seq < 2 {
            tail.recv().await.unwrap();
        }
        let pause = Event::Signalled { signal: Signal::Pause, by: String::new() };
        worker.signal(run, vec![pause]).await.unwrap();
        worker.let_go(run).await;
        let row = worker.row(run).await.unwrap();
        assert_eq!((row.summary.status, row.owner), (RunStatus::Waiting, None));
        assert_eq!(appends.load(Ordering::Relaxed), 4, "it was let go at the second try");
        assert!(live.try_recv().is_err(), "nothing stands still");
    }

    #[test]
    fn a_run_that_gets_nowhere_pauses_longer_every_time() {
        let seconds = |recoveries| pause_after(recoveries).map(|pause| pause.as_secs());
        assert_eq!((0..6).map(seconds).collect::<Vec<_>>(), [None, Some(1), Some(2), Some(4), Some(8), Some(16)]);
        assert_eq!(seconds(u32::MAX), Some(60));
    }

    #[tokio::test]
    async fn what_was_said_to_a_waiting_run_makes_it_due() {
        let worker = worker(MemoryStore::new());
        let run = start(&worker, &plan("name: go\nsteps:\n  - { id: go, wait: { signal: go } }\n"), json!({})).await;
        worker.settle(run).await.unwrap();
        assert_eq!(worker.adopt(Which::Any).await, Ok(Vec::new()), "it waits");
        // Whoever sends it dies before it can take the run up.
        let signal = Signal::Sent { name: "go".into(), value: json!(null) };
        worker.signal(run, vec![Event::Signalled { signal, by: String::new() }]).await.unwrap();
        assert_eq!(worker.adopt(Which::Any).await, Ok(vec![run]));
        assert_eq!(worker.settle(run).await, Ok(Rest::Ended(RunStatus::Completed)));
        assert_eq!(worker.row(run).await.unwrap().summary.wake_at, None);
    }
}
