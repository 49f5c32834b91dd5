//! Drives a run in virtual time: what is due next happens next. After every entry the laws of the fold are checked.

use std::collections::HashMap;

use relais_dialects::{Loader, read};
use relais_engine::*;
use relais_plan::Source;
use serde_json::{Value, json};

use crate::laws;
use crate::script::{Case, Line, Outside};
use crate::world::{Comes, World};

/// 2026-01-01.
const START: Millis = 1_767_225_600_000;
/// More than any case needs; a run that never ends is a failure, not a hang.
const MAX_STEPS: usize = 2_000;

/// A run as it went.
pub struct Story {
    pub program: Program,
    pub journal: Vec<Entry>,
    pub run: Run,
    /// How many outside lines had happened by each entry.
    pub outside: Vec<(usize, usize)>,
    pub blobs: HashMap<String, Vec<u8>>,
}

pub struct Driver<'c> {
    pub world: World<'c>,
    pub journal: Vec<Entry>,
    pub run: Run,
    values: Values,
    blobs: HashMap<String, Vec<u8>>,
    now: Millis,
    /// Outside lines that have happened: timed ones, and those after the end.
    done: (usize, usize),
    pub outside: Vec<(usize, usize)>,
}

pub fn tell(case: &Case) -> Result<Story, String> {
    let program = compile(&case.workflow)?;
    let opened = opened(case, &program);
    let entry = Entry { seq: 1, at: START, version: FORMAT, events: vec![Event::Opened(Box::new(opened))] };
    let mut driver = Driver::new(World { case, program: &program }, vec![entry], vec![(0, 0)])?;
    driver.step(Vec::new())?;
    driver.go_on()?;
    let Driver { journal, run, outside, blobs, .. } = driver;
    Ok(Story { program, journal, run, outside, blobs })
}

fn opened(case: &Case, program: &Program) -> Opened {
    let input = case.lines.iter().find_map(|l| if let Line::Input(value) = l { Some(value.clone()) } else { None });
    Opened {
        run: RunId::from_u128(7),
        workflow: program.plan.name.clone(),
        plan: program.hash.clone(),
        input: Stored::Value(input.unwrap_or(json!({}))),
        trigger: Value::Null,
        user: "ann".to_owned(),
        thread: String::new(),
        parent: None,
        budget: program.plan.limits.budget,
        mode: Mode::default(),
        manifest: String::new(),
        target: Default::default(),
    }
}

/// Every other workflow is an empty one.
struct Anything;

impl Loader for Anything {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Ok(Source { name: reference.to_owned(), text: "steps: [{ set: { x: 1 } }]\n".to_owned() })
    }
}

fn compile(text: &str) -> Result<Program, String> {
    let source = source(text);
    let loaded = read(&source, &Anything, &Default::default());
    let mut problems = loaded.problems;
    if let Some(plan) = &loaded.plan {
        problems.extend(relais_plan::check::check(plan, &Anything));
    }
    if relais_plan::problem::has_errors(&problems) {
        return Err(source.render(&problems, false));
    }
    loaded.plan.map(Program::new).ok_or_else(|| "there is no plan".to_owned())
}

/// A definition of another format in the native one.
pub fn native(text: &str) -> Result<Option<String>, String> {
    let source = source(text);
    if read(&source, &Anything, &Default::default()).format == relais_dialects::Format::Native {
        return Ok(None);
    }
    let converted = relais_dialects::convert(&source, &Anything, &Default::default());
    converted.map(Some).map_err(|problems| source.render(&problems, false))
}

fn source(text: &str) -> Source {
    Source { name: "case.yaml".to_owned(), text: text.to_owned() }
}

/// Every tool is there, every price is known.
impl relais_plan::check::World for Anything {
    fn tools(&self) -> Option<Vec<(String, Value)>> {
        None
    }

    fn servers(&self) -> Vec<String> {
        Vec::new()
    }

    fn price_known(&self, _model: &str) -> bool {
        true
    }
}

impl<'c> Driver<'c> {
    pub fn new(world: World<'c>, journal: Vec<Entry>, outside: Vec<(usize, usize)>) -> Result<Driver<'c>, String> {
        let run = Run::fold(&journal).map_err(|e| e.to_string())?;
        let now = run.at;
        let done = outside[outside.len() - 1];
        let (values, blobs) = Default::default();
        Ok(Driver { world, journal, run, values, blobs, now, done, outside })
    }

    /// One turn and what it makes necessary: blobs kept, the entry appended, values loaded, the turn gone on with.
    pub fn step(&mut self, inputs: Vec<Event>) -> Result<(), String> {
        let mut inputs = inputs;
        loop {
            let context = Context { program: self.world.program, values: &self.values, catalog: &self.world };
            let turn = turn(&context, &mut self.run, self.now, inputs).map_err(|e| e.to_string())?;
            self.blobs.extend(turn.blobs);
            if !turn.events.is_empty() {
                let entry = Entry { seq: self.run.seq, at: self.now, version: FORMAT, events: turn.events };
                self.journal.push(entry);
                self.outside.push(self.done);
            }
            let context = Context { program: self.world.program, values: &self.values, catalog: &self.world };
            laws::hold(&context, &self.journal, &self.run, self.now)?;
            if turn.loads.is_empty() {
                return Ok(());
            }
            for hash in turn.loads {
                let bytes = self.blobs.get(&hash).ok_or_else(|| format!("blob {hash} was never stored"))?;
                self.values.insert(hash, serde_json::from_slice(bytes).unwrap());
            }
            inputs = Vec::new();
        }
    }

    /// Blobs that the world made before a crash are still in the store.
    pub fn with_blobs_of(mut self, other: &HashMap<String, Vec<u8>>) -> Driver<'c> {
        self.blobs.extend(other.iter().map(|(hash, bytes)| (hash.clone(), bytes.clone())));
        self
    }

    /// Until nothing is due any more.
    pub fn go_on(&mut self) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            let Some((at, next)) = self.due() else {
                if self.run.closed.is_some() && self.after_the_end()? {
                    continue;
                }
                return Ok(());
            };
            self.now = self.now.max(at);
            match next {
                Due::Inputs(events, blobs) => {
                    for bytes in blobs {
                        self.blobs.insert(Blob::of(&bytes, String::new()).hash, bytes);
                    }
                    self.step(events)?;
                }
                Due::TimeOut => self.step(Vec::new())?,
                Due::Outside(what) => {
                    self.done.0 += 1;
                    self.happen(&what)?;
                }
            }
        }
        Err("the run does not come to an end".to_owned())
    }

    fn due(&self) -> Option<(Millis, Due)> {
        let mut due: Vec<(Millis, u8, Due)> = Vec::new();
        let timed: Vec<_> = self.world.case.lines.iter().filter_map(timed).collect();
        if let Some((ms, outside)) = timed.get(self.done.0)
            && self.run.closed.is_none()
        {
            due.push((START + **ms as Millis, 0, Due::Outside((*outside).clone())));
        }
        for id in self.run.owed.keys() {
            due.extend(self.answer(*id));
        }
        // What the run gave up answers all the same, late.
        for id in self.run.dropped.keys() {
            due.extend(self.answer(*id));
        }
        if let Some(at) = next_deadline(self.world.program, &self.run) {
            due.push((at, 2, Due::TimeOut));
        }
        due.into_iter().min_by_key(|(at, rank, _)| (*at.max(&self.now), *rank)).map(|(at, _, due)| (at, due))
    }

    fn answer(&self, id: CommandId) -> Option<(Millis, u8, Due)> {
        let owed = self.run.owed.get(&id).unwrap_or_else(|| &self.run.dropped[&id]);
        let slept = |at| {
            let answer = Answer { body: Body::Slept, usage: Usage::default(), ms: 0 };
            Some((at, 1, Due::Inputs(vec![Event::Answered { id, answer: Box::new(answer) }], Vec::new())))
        };
        if let Command::Sleep { until, .. } = &*owed.command {
            return if self.run.paused { None } else { slept(*until) };
        }
        let deadline = match &*owed.command {
            Command::AskPerson(question) => question.deadline,
            _ => None,
        };
        match self.world.answer(&self.journal, &self.run, id) {
            Comes::Never => deadline.and_then(slept),
            Comes::Word(ms, _) if deadline.is_some_and(|d| d < owed.asked_at + ms as Millis) => {
                deadline.and_then(slept)
            }
            Comes::Word(ms, value) => {
                let event = Event::Received { id, value, by: "bob".to_owned() };
                Some((owed.asked_at + ms as Millis, 1, Due::Inputs(vec![event], Vec::new())))
            }
            Comes::Answer(ms, answer, blobs) => {
                let event = Event::Answered { id, answer: Box::new(answer) };
                Some((owed.asked_at + ms as Millis, 1, Due::Inputs(vec![event], blobs)))
            }
        }
    }

    fn after_the_end(&mut self) -> Result<bool, String> {
        let mut ends = self.world.case.lines.iter().filter_map(|l| match l {
            Line::End(what) => Some(what),
            _ => None,
        });
        let Some(what) = ends.nth(self.done.1).cloned() else { return Ok(false) };
        self.done.1 += 1;
        self.happen(&what)?;
        Ok(true)
    }

    fn happen(&mut self, what: &Outside) -> Result<(), String> {
        let signal = match what {
            Outside::Cancel => Signal::Cancel,
            Outside::Pause => Signal::Pause,
            Outside::Resume(resume) => Signal::Resume(serde_json::from_value(resume.clone()).unwrap()),
            Outside::Crash => return self.crash(),
            Outside::Signal(name, value) => {
                return match self.waiting_for(&Awaiting::Signal(name.clone())) {
                    Some(id) => self.receive(id, value),
                    None => self.signal(Signal::Sent { name: name.clone(), value: value.clone() }),
                };
            }
            Outside::Event(name, value) => {
                return match self.waiting_for(&Awaiting::Event(name.clone())) {
                    Some(id) => self.receive(id, value),
                    None => Ok(()),
                };
            }
            Outside::Retry(path) => Signal::Rewound(rewind::rewind(self.world.program, &self.run, path)?),
            Outside::Fork(path) => return self.fork(path),
        };
        self.signal(signal)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), String> {
        self.step(vec![Event::Signalled { signal, by: String::new() }])
    }

    fn receive(&mut self, id: CommandId, value: &Value) -> Result<(), String> {
        self.step(vec![Event::Received { id, value: value.clone(), by: String::new() }])
    }

    fn waiting_for(&self, wanted: &Awaiting) -> Option<CommandId> {
        let waits = |o: &&Owed| matches!(&*o.command, Command::Await(awaiting) if awaiting == wanted);
        self.run.owed.iter().find(|(_, o)| waits(o)).map(|(id, _)| *id)
    }

    /// The process dies and another takes the run up.
    fn crash(&mut self) -> Result<(), String> {
        self.run = Run::fold(&self.journal).map_err(|e| e.to_string())?;
        self.values.clear();
        self.step(adopt(&self.run))
    }

    /// A new run with the same definition that shares what came before a step.
    fn fork(&mut self, path: &str) -> Result<(), String> {
        let program = self.world.program;
        let mut rewind = rewind::rewind(program, &self.run, path)?;
        let opened = Opened { run: RunId::from_u128(8), ..self.run.opened.clone() };
        (rewind.forked_from, rewind.opened) = (Some(self.run.id()), Some(Box::new(opened)));
        self.journal = rewind::translate(&self.journal, program, program).entries;
        self.run = Run::fold(&self.journal).map_err(|e| e.to_string())?;
        self.signal(Signal::Rewound(rewind))
    }
}

enum Due {
    Inputs(Vec<Event>, Vec<Vec<u8>>),
    TimeOut,
    Outside(Outside),
}

fn timed(line: &Line) -> Option<(&u64, &Outside)> {
    match line {
        Line::At(ms, outside) => Some((ms, outside)),
        _ => None,
    }
}
