//! Drives one run through the seeded world in virtual time, as a worker would: turn, append, perform, answer.

use std::collections::{BTreeMap, HashMap};

use relais_engine::*;
use relais_plan::Effect;
use serde_json::{Value, json};

use crate::laws;
use crate::world::{Coming, World};

/// 2026-01-01.
pub const START: Millis = 1_767_225_600_000;
/// Law 6: no generated run needs more moves than this.
const MAX_MOVES: usize = 4_000;
/// Loading a value leads to the next; plans are bounded, so this is, too.
const MAX_LOADS: usize = 1_000;

/// What breaks a law, in words.
pub type Broken = String;

pub struct Drive<'p> {
    pub program: &'p Program,
    pub world: World,
    pub journal: Vec<Entry>,
    pub run: Run,
    /// The same run, known only from the entries as they read back from their JSON.
    shadow: Run,
    pub now: Millis,
    /// Check laws 1 and 2 after every entry; otherwise only the fold's own checks.
    pub strict: bool,
    values: Values,
    pub blobs: HashMap<String, Vec<u8>>,
    /// The key of each command: its step and how often that step has asked.
    keys: BTreeMap<CommandId, String>,
    asked: HashMap<String, u32>,
    /// How often each command was performed.
    pub performed: BTreeMap<CommandId, u32>,
}

/// Something that can happen next.
pub enum Next {
    Input(Event),
    TimeOut,
}

impl<'p> Drive<'p> {
    pub fn open(program: &'p Program, world: World) -> Result<Drive<'p>, Broken> {
        let opened = Opened {
            run: RunId::from_u128(u128::from(world.seed) + 1),
            workflow: program.plan.name.clone(),
            plan: program.hash.clone(),
            input: Stored::Value(json!({ "n": world.seed % 4 })),
            trigger: Value::Null,
            user: String::new(),
            thread: String::new(),
            parent: None,
            budget: program.plan.limits.budget,
            mode: Mode::default(),
            manifest: String::new(),
            target: Default::default(),
        };
        let entry = Entry { seq: 1, at: START, version: FORMAT, events: vec![Event::Opened(Box::new(opened))] };
        let mut drive = Drive::resume(program, world, vec![entry], HashMap::new())?;
        drive.strict = true;
        drive.step(Vec::new())?;
        Ok(drive)
    }

    /// Takes a journal up; what it knows comes from there alone.
    pub fn resume(
        program: &'p Program,
        world: World,
        journal: Vec<Entry>,
        blobs: HashMap<String, Vec<u8>>,
    ) -> Result<Drive<'p>, Broken> {
        let run = Run::fold(&journal).map_err(|e| e.to_string())?;
        let now = run.at;
        let mut drive = Drive {
            program,
            world,
            journal: Vec::new(),
            shadow: run.clone(),
            run,
            now,
            strict: false,
            values: Values::new(),
            blobs,
            keys: BTreeMap::new(),
            asked: HashMap::new(),
            performed: BTreeMap::new(),
        };
        for entry in &journal {
            drive.note(&entry.events);
        }
        drive.journal = journal;
        Ok(drive)
    }

    fn note(&mut self, events: &[Event]) {
        for event in events {
            let Event::Asked { id, scope, node, command } = event else { continue };
            let path = rewind::step_path(self.program, &self.run, *scope, *node);
            let what = match &**command {
                Command::CallTool { tool, arguments, .. } => format!("{path} {tool} {arguments}"),
                Command::CallModel { .. } => format!("{path} model"),
                Command::Sleep { .. } => format!("{path} sleep"),
                Command::AskPerson(_) | Command::Await(_) | Command::StartRun(_) => format!("{path} outside"),
            };
            let count = self.asked.entry(what.clone()).or_insert(0);
            *count += 1;
            self.keys.insert(*id, format!("{what}#{count}"));
            if command.is_active() {
                self.performed.insert(*id, 1);
            }
        }
    }

    /// One entry: inputs taken, everything decided that follows, values loaded where they are needed.
    pub fn step(&mut self, inputs: Vec<Event>) -> Result<(), Broken> {
        let mut inputs = inputs;
        for _ in 0..MAX_LOADS {
            let context = Context { program: self.program, values: &self.values, catalog: &self.world };
            let turn = turn(&context, &mut self.run, self.now, inputs).map_err(|e| e.to_string())?;
            self.blobs.extend(turn.blobs);
            if !turn.events.is_empty() {
                self.note(&turn.events);
                let entry = Entry { seq: self.run.seq, at: self.now, version: FORMAT, events: turn.events };
                if self.strict {
                    laws::survives(&mut self.shadow, &entry, &self.run)?;
                }
                self.journal.push(entry);
            }
            if self.strict {
                let context = Context { program: self.program, values: &self.values, catalog: &self.world };
                laws::nothing_left(&context, &mut self.run, self.now)?;
            }
            if turn.loads.is_empty() {
                return Ok(());
            }
            for hash in turn.loads {
                let bytes = self.blobs.get(&hash).ok_or_else(|| format!("blob {hash} was never stored"))?;
                let value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
                self.values.insert(hash, value);
            }
            inputs = Vec::new();
        }
        Err("values are loaded without end".to_owned())
    }

    /// The process is gone; another folds the journal and takes the run up.
    pub fn crash(&mut self) -> Result<(), Broken> {
        laws::fold_is_live(&self.journal, &self.run)?;
        self.refold()?;
        self.values.clear();
        if self.run.closed.is_some() {
            return Ok(());
        }
        let before = self.run.next_command;
        self.step(adopt(&self.run))?;
        for (id, owed) in self.run.in_flight().filter(|(id, _)| *id < before) {
            let times = self.performed.entry(id).or_insert(0);
            *times += 1;
            if *times > 1 && matches!(&*owed.command, Command::CallTool { effect: Effect::Once, .. }) {
                return Err(format!("law 5: command {id} must not be performed twice"));
            }
        }
        Ok(())
    }

    /// Forgets everything but the journal.
    pub fn refold(&mut self) -> Result<(), Broken> {
        self.run = Run::fold(&self.journal).map_err(|e| e.to_string())?;
        self.shadow = self.run.clone();
        Ok(())
    }

    /// Everything that may come in, with the time at which it would by itself.
    pub fn coming(&mut self) -> Vec<(Millis, Next)> {
        let mut coming = Vec::new();
        let ids: Vec<CommandId> = self.run.owed.keys().chain(self.run.dropped.keys()).copied().collect();
        for id in ids {
            coming.extend(self.answer(id));
        }
        if let Some(at) = next_deadline(self.program, &self.run) {
            coming.push((at, Next::TimeOut));
        }
        coming
    }

    fn answer(&mut self, id: CommandId) -> Option<(Millis, Next)> {
        let owed = self.run.owed.get(&id).or_else(|| self.run.dropped.get(&id))?.clone();
        let key = self.keys.get(&id)?.clone();
        if let Command::Sleep { until, .. } = &*owed.command {
            return (!self.run.paused).then(|| (*until, slept(id)));
        }
        let deadline = if let Command::AskPerson(question) = &*owed.command { question.deadline } else { None };
        let at = owed.asked_at + self.world.latency_ms(&key) as Millis;
        let late = deadline.is_some_and(|d| d <= at);
        match self.world.answer(self.program, &self.run, id, &owed, &key) {
            Coming::Never => deadline.map(|d| (d, slept(id))),
            Coming::Word(_) if late => deadline.map(|d| (d, slept(id))),
            Coming::Word(value) => Some((at, Next::Input(Event::Received { id, value, by: String::new() }))),
            Coming::Answer(body, usage) => {
                let body = self.keep(owed.node, body);
                let answer = Box::new(Answer { body, usage, ms: 0 });
                Some((at, Next::Input(Event::Answered { id, answer })))
            }
        }
    }

    /// Large results go where values are kept before the journal knows of them.
    fn keep(&mut self, node: relais_plan::NodeId, body: Body) -> Body {
        match body {
            Body::Returned { value: Stored::Value(value), artifacts } => {
                let (value, blob) = self.program.result(node, value, relais_plan::DEFAULT_RESULT_LIMIT);
                self.blobs.extend(blob);
                Body::Returned { value, artifacts }
            }
            Body::Returned { .. } | Body::Replied(_) | Body::Slept => body,
            Body::Ended { .. } | Body::Failed(_) | Body::Cancelled => body,
        }
    }

    /// Lets happen what is due next until nothing is.
    pub fn go_on(&mut self) -> Result<(), Broken> {
        for _ in 0..MAX_MOVES {
            let now = self.now;
            let Some((at, next)) = self.coming().into_iter().min_by_key(|(at, _)| *at.max(&now)) else {
                laws::fold_is_live(&self.journal, &self.run)?;
                return laws::ended_or_named(self.program, &self.run);
            };
            self.take(at, next)?;
        }
        Err(format!("law 6: no end after {MAX_MOVES} moves"))
    }

    pub fn take(&mut self, at: Millis, next: Next) -> Result<(), Broken> {
        self.now = self.now.max(at);
        match next {
            Next::Input(event) => {
                if !self.takes(&event) {
                    return Ok(());
                }
                self.step(vec![event.clone()])?;
                // Law 4: the same answer again is not taken.
                match self.takes(&event) {
                    true => Err(format!("law 4: a second answer would be taken: {event:?}")),
                    false => Ok(()),
                }
            }
            Next::TimeOut => self.step(Vec::new()),
        }
    }

    /// As a worker does before it appends.
    fn takes(&self, event: &Event) -> bool {
        match event {
            Event::Answered { id, .. } => self.run.takes(*id),
            Event::Received { id, .. } => self.run.owed.contains_key(id),
            Event::Opened(_) | Event::Entered { .. } | Event::Asked { .. } | Event::Branched { .. } => true,
            Event::Left(_) | Event::Signalled { .. } | Event::Settled { .. } | Event::Closed { .. } => true,
        }
    }

    pub fn signal(&mut self, signal: Signal) -> Result<(), Broken> {
        self.step(vec![Event::Signalled { signal, by: String::new() }])
    }
}

fn slept(id: CommandId) -> Next {
    Next::Input(Event::Answered { id, answer: Box::new(Answer { body: Body::Slept, usage: Usage::default(), ms: 0 }) })
}
