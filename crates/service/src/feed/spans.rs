//! The part of a run's trace that is new, as spans: the run, its steps, their calls, each with what it is inside. Pure:
//! journal in, spans out. Knows nothing of how a collector wants them.
//!
//! A child run's span hangs below the call that started it. All ids are derived, so telling twice makes nothing twice.

use std::collections::HashMap;
use std::sync::Arc;

use relais_engine::{Corrupt, Entry, Event, Failure, Millis, Parent, Program, RunId};

use super::End;
use crate::Trace;
use crate::runs::trace::{CallTrace, StepTrace};

/// The journal of a run that has ended, from which its spans are made when there is time for it.
pub struct Recording {
    /// What ended before this was told before.
    from: Millis,
    reported: u64,
    program: Arc<Program>,
    entries: Arc<Vec<Entry>>,
}

/// A run with everything that its spans are made of.
pub struct Recorded {
    trace: Trace,
    parent: Option<Parent>,
    from: Millis,
    until: Millis,
    reported: u64,
    /// The number of the latest step with a path.
    places: HashMap<String, usize>,
}

/// The same whenever the same thing is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanId(pub u64);

/// Something that took time.
pub struct Span<'a> {
    pub id: SpanId,
    /// None for a run that is not part of another.
    pub parent: Option<SpanId>,
    pub from: Millis,
    pub until: Millis,
    pub what: Spanned<'a>,
}

pub enum Spanned<'a> {
    Run(&'a Trace),
    Step(&'a StepTrace),
    Call(&'a CallTrace),
}

impl End {
    pub fn recording(&self) -> Recording {
        Recording {
            from: self.bill.from,
            reported: self.row.reported,
            program: self.program.clone(),
            entries: self.entries.clone(),
        }
    }
}

impl Recording {
    pub fn read(&self) -> Result<Recorded, Corrupt> {
        let trace = Trace::of(&self.program, &self.entries)?;
        let places = trace.steps.iter().enumerate().map(|(number, step)| (step.path.clone(), number)).collect();
        let until = self.entries.last().map_or(self.from, |entry| entry.at);
        Ok(Recorded { parent: self.parent(), from: self.from, until, reported: self.reported, places, trace })
    }

    fn parent(&self) -> Option<Parent> {
        match self.entries.first()?.events.first()? {
            Event::Opened(opened) => opened.parent.clone(),
            Event::Entered { .. } | Event::Asked { .. } | Event::Answered { .. } | Event::Branched { .. } => None,
            Event::Left(_) | Event::Received { .. } | Event::Signalled { .. } => None,
            Event::Settled { .. } | Event::Closed { .. } => None,
        }
    }
}

impl Recorded {
    pub fn run(&self) -> RunId {
        self.trace.run
    }

    /// The run's span first; each step's is followed by those of its calls.
    pub fn spans(&self) -> Vec<Span<'_>> {
        let steps = self.trace.steps.iter().enumerate().flat_map(|(number, step)| self.step(number, step));
        std::iter::once(self.whole()).chain(steps).collect()
    }

    fn whole(&self) -> Span<'_> {
        let parent = self.parent.as_ref().map(|parent| SpanId::of(parent.run, "call", u64::from(parent.command)));
        Span { id: self.run_span(), parent, from: self.from, until: self.until, what: Spanned::Run(&self.trace) }
    }

    fn step<'a>(&'a self, number: usize, step: &'a StepTrace) -> Vec<Span<'a>> {
        let until = step.ended_at.unwrap_or(self.until);
        if step.attempts == 0 || until < self.from {
            return Vec::new();
        }
        let id = self.step_span(number);
        let what = Spanned::Step(step);
        let span = Span { id, parent: Some(self.above(step)), from: step.started_at, until, what };
        let fresh = step.calls.iter().filter(|call| call.answered_at.unwrap_or(until) >= self.from);
        std::iter::once(span).chain(fresh.map(|call| self.call(call, id, until))).collect()
    }

    /// `until`: the end of the step, which is that of a call without an answer.
    fn call<'a>(&self, call: &'a CallTrace, step: SpanId, until: Millis) -> Span<'a> {
        Span {
            id: SpanId::of(self.run(), "call", u64::from(call.id)),
            parent: Some(step),
            from: call.asked_at,
            until: call.answered_at.unwrap_or(until),
            what: Spanned::Call(call),
        }
    }

    /// The block that a step is in: `loop` for `loop[7]/fetch`.
    fn above(&self, step: &StepTrace) -> SpanId {
        let block = step.path.rsplit_once('/').map(|(block, _)| block);
        let names = block.into_iter().flat_map(|block| [Some(block), block.rsplit_once('[').map(|(name, _)| name)]);
        let found = names.flatten().find_map(|name| self.places.get(name));
        let found = found.filter(|number| self.trace.steps[**number].attempts > 0);
        found.map_or_else(|| self.run_span(), |number| self.step_span(*number))
    }

    fn run_span(&self) -> SpanId {
        SpanId::of(self.run(), "run", self.reported)
    }

    fn step_span(&self, number: usize) -> SpanId {
        SpanId::of(self.run(), "step", number as u64)
    }
}

impl Spanned<'_> {
    pub fn error(&self) -> Option<&Failure> {
        match self {
            Spanned::Run(trace) => trace.error.as_ref(),
            Spanned::Step(step) => step.error.as_ref(),
            Spanned::Call(call) => call.error.as_ref(),
        }
    }
}

impl SpanId {
    /// FNV-1a; never 0, which is no id.
    fn of(run: RunId, what: &str, number: u64) -> SpanId {
        let bytes = run.as_bytes().iter().chain(what.as_bytes()).copied().chain(number.to_be_bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        SpanId(hash.max(1))
    }
}
