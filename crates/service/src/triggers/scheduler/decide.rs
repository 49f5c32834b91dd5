//! What is to be done about a trigger whose time has come. Pure: time and facts come from the caller.

use std::collections::VecDeque;

use relais_engine::{Millis, RunId};
use relais_plan::schedule::Schedule;
use relais_plan::time::format_duration;
use relais_plan::{CatchUp, Overlap, TriggerOn};

use crate::TriggerRecord;
use crate::triggers::Owed;

/// A time that passed longer ago than this was missed; less is how long a busy machine may take to look.
pub(super) const LATE_MS: Millis = 60_000;
/// `catch_up: all` starts so many runs at most: more at once would only keep the machine from what is due now.
pub(super) const MAX_CAUGHT_UP: usize = 100;
/// Ticks that may wait for the run before them; a schedule that is so far behind never catches up.
pub(super) const MAX_QUEUED: usize = 100;
/// How soon after its start a run that is waited for is looked at, and how seldom in the end. Who hears of its end
/// looks at once; this is for the case that nobody does.
const LOOK_SOONEST_MS: Millis = 1_000;
const LOOK_LATEST_MS: Millis = 300_000;
/// A continuous trigger that cannot start a run now tries again after so long at least.
pub(super) const CANNOT_START_MS: Millis = 60_000;

/// What else a decision depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Why the workflow does not start by itself.
    pub closed: Option<String>,
    /// The run that the trigger started last, if it is still going.
    pub going: Option<RunId>,
    /// When that run ended, if it did.
    pub ended_at: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Decided {
    pub start: Vec<Owed>,
    pub declined: Vec<Declined>,
    pub next_at: Option<Millis>,
    pub look_at: Option<Millis>,
    pub queued: VecDeque<Millis>,
}

/// A time, or the first of several, that starts nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declined {
    pub tick: Millis,
    pub reason: String,
}

pub(super) fn decide(trigger: &TriggerRecord, schedule: &Schedule, now: Millis, facts: &Facts) -> Decided {
    let queued = trigger.queued.clone();
    let mut deciding = Deciding { trigger, now, facts, decided: Decided { queued, ..Decided::default() } };
    deciding.take_queued();
    match &trigger.on.on {
        TriggerOn::Continuous { delay_ms } => deciding.continuous(*delay_ms),
        TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } | TriggerOn::Calendar(_) => {
            deciding.clock(schedule);
        }
        TriggerOn::Manual | TriggerOn::Webhook { .. } | TriggerOn::Event(_) => {}
    }
    deciding.done()
}

/// The same for a trigger without times: only what waits in its queue.
pub(super) fn queued(trigger: &TriggerRecord, now: Millis, facts: &Facts) -> Decided {
    let queued = trigger.queued.clone();
    let mut deciding = Deciding { trigger, now, facts, decided: Decided { queued, ..Decided::default() } };
    deciding.take_queued();
    deciding.done()
}

/// When to look at a run that something waits for: soon after it began, then less and less often.
pub(super) fn look_at(trigger: &TriggerRecord, now: Millis) -> Millis {
    let age = trigger.last_tick.map_or(0, |tick| now.saturating_sub(tick));
    now.saturating_add(age.clamp(LOOK_SOONEST_MS, LOOK_LATEST_MS))
}

/// Whether something waits for the run that the trigger started last.
pub(super) fn waits_for_run(trigger: &TriggerRecord) -> bool {
    matches!(trigger.on.on, TriggerOn::Continuous { .. }) || !trigger.queued.is_empty()
}

struct Deciding<'a> {
    trigger: &'a TriggerRecord,
    now: Millis,
    facts: &'a Facts,
    decided: Decided,
}

impl Deciding<'_> {
    /// The run that the first of the queue waited for has ended.
    fn take_queued(&mut self) {
        if let Some(reason) = &self.facts.closed {
            for tick in std::mem::take(&mut self.decided.queued) {
                self.decided.declined.push(Declined { tick, reason: reason.clone() });
            }
        } else if self.facts.going.is_none()
            && let Some(tick) = self.decided.queued.pop_front()
        {
            self.start(tick, "the run that it waited for has ended".to_owned());
        }
    }

    fn clock(&mut self, schedule: &Schedule) {
        self.decided.next_at = self.trigger.next_at;
        let Some(first) = self.trigger.next_at.filter(|at| *at <= self.now) else { return };
        self.decided.next_at = schedule.next(self.now);
        if let Some(reason) = &self.facts.closed {
            return self.decline(first, reason.clone());
        }
        match self.trigger.on.catch_up {
            CatchUp::All => self.all(schedule, first),
            CatchUp::One => self.last(schedule, first, Millis::MAX),
            CatchUp::None => self.last(schedule, first, LATE_MS),
        }
    }

    /// Each time that has passed, the oldest first.
    fn all(&mut self, schedule: &Schedule, first: Millis) {
        let due = schedule.between(first, self.now, MAX_CAUGHT_UP - 1);
        for tick in [first].into_iter().chain(due.times) {
            self.admit(tick);
        }
        if due.has_more {
            let text = format!("later times passed as well; at most {MAX_CAUGHT_UP} are caught up");
            self.decline(self.now, text);
        }
    }

    /// The last of the times that have passed, if it is not too late for it.
    fn last(&mut self, schedule: &Schedule, first: Millis, late_ms: Millis) {
        let last = schedule.latest(first, self.now).unwrap_or(first);
        if last > first {
            let missed = schedule.between(first, last - 1, MAX_CAUGHT_UP);
            let more = if missed.has_more { "more than " } else { "" };
            let count = missed.times.len() + 1;
            self.decline(first, format!("missed, with {more}{count} in all before the one that is due now"));
        }
        let late = self.now.saturating_sub(last);
        if late > late_ms {
            let ago = format_duration(late.cast_unsigned());
            return self.decline(last, format!("missed {ago} ago, and `catch_up` is `none`"));
        }
        self.admit(last);
    }

    /// A time that would start a run, unless another is still going.
    fn admit(&mut self, tick: Millis) {
        let reason = self.why(tick);
        let before = match (self.facts.going, self.decided.start.last()) {
            (None, None) => return self.start(tick, reason),
            (Some(run), _) => format!("run {run} is still going"),
            (None, Some(_)) => "the run of an earlier time is started just now".to_owned(),
        };
        match self.trigger.on.overlap {
            Overlap::Allow => self.start(tick, reason),
            Overlap::Skip => self.decline(tick, format!("{before}, and `overlap` is `skip`")),
            Overlap::Queue if self.decided.queued.len() < MAX_QUEUED => self.decided.queued.push_back(tick),
            Overlap::Queue => self.decline(tick, format!("{before}, and {MAX_QUEUED} times wait for it already")),
            Overlap::CancelRunning => {
                for replaced in std::mem::take(&mut self.decided.start) {
                    self.decline(replaced.tick, "a later time takes its place (`overlap: cancel_running`)".to_owned());
                }
                self.start(tick, format!("{reason}; it takes the place of the run before"));
            }
        }
    }

    fn why(&self, tick: Millis) -> String {
        match self.now.saturating_sub(tick) {
            late if late > LATE_MS => format!("caught up {} late", format_duration(late.cast_unsigned())),
            _ => "it was due".to_owned(),
        }
    }

    /// Never two at a time: the next one comes after the end of the last, whatever became of it.
    fn continuous(&mut self, delay_ms: u64) {
        if self.facts.going.is_some() {
            return;
        }
        let delay = Millis::try_from(delay_ms).unwrap_or(Millis::MAX);
        let after_last = self.facts.ended_at.map(|ended| ended.saturating_add(delay));
        let ready = self.trigger.next_at.or(after_last).unwrap_or(self.now);
        if ready > self.now {
            self.decided.next_at = Some(ready);
        } else if let Some(reason) = &self.facts.closed {
            self.decline(ready, reason.clone());
            self.decided.next_at = Some(self.now.saturating_add(delay.max(CANNOT_START_MS)));
        } else {
            // A clock that was put back must not make two runs share a tick.
            let tick = self.trigger.last_tick.map_or(ready, |last| ready.max(last + 1));
            self.start(tick, "no run of it is going".to_owned());
        }
    }

    fn start(&mut self, tick: Millis, reason: String) {
        self.decided.start.push(Owed { tick, reason, tries: 0 });
    }

    fn decline(&mut self, tick: Millis, reason: String) {
        self.decided.declined.push(Declined { tick, reason });
    }

    fn done(mut self) -> Decided {
        let continuous = matches!(self.trigger.on.on, TriggerOn::Continuous { .. });
        let waits = self.facts.going.is_some() && (continuous || !self.decided.queued.is_empty());
        if !self.decided.start.is_empty() {
            self.decided.look_at = Some(self.now);
        } else if waits {
            self.decided.look_at = Some(look_at(self.trigger, self.now));
        }
        self.decided
    }
}
