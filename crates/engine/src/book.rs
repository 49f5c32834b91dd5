//! What was paid, what is set aside, what was lost; for the run and for every step and block above a call.

use relais_plan::{Budget, NodeId};

use crate::command::*;
use crate::event::*;
use crate::program::Program;
use crate::run::*;

impl Run {
    /// Sets aside what a call in flight may take.
    pub(crate) fn hold(&mut self, scope: ScopeId, node: NodeId, command: &Command) {
        let (reserve, calls) = held(command);
        self.reserved.add(reserve);
        self.calls.add(calls);
        self.each_above(scope, node, |instance| {
            instance.reserved.add(reserve);
            instance.calls.add(calls);
        });
    }

    fn release(&mut self, owed: &Owed) {
        let (reserve, calls) = held(&owed.command);
        self.reserved.sub(reserve);
        self.calls.sub(calls);
        self.each_above(owed.scope, owed.node, |instance| {
            instance.reserved.sub(reserve);
            instance.calls.sub(calls);
        });
    }

    /// An answer came: its estimate gives way to what it really took.
    pub(crate) fn book(&mut self, id: CommandId, owed: &Owed, answer: &Answer) {
        self.release(owed);
        self.allotted.remove(&id);
        self.charge(owed.scope, owed.node, &answer.usage);
    }

    fn charge(&mut self, scope: ScopeId, node: NodeId, usage: &Usage) {
        self.usage.add(usage);
        self.each_above(scope, node, |instance| instance.usage.add(usage));
    }

    /// The run gave the call up: the estimate stays booked as lost until a receipt says better.
    pub(crate) fn book_loss(&mut self, id: CommandId, owed: &Owed) {
        self.release(owed);
        if let Command::CallModel { reserve, .. } = &*owed.command {
            self.lost.add(*reserve);
        }
        self.allotted.remove(&id);
    }

    pub(crate) fn book_receipt(&mut self, owed: &Owed, answer: &Answer) {
        if matches!(answer.body, Body::Cancelled) && answer.usage.is_zero() {
            return;
        }
        if let Command::CallModel { reserve, .. } = &*owed.command {
            self.lost.sub(*reserve);
        }
        self.charge(owed.scope, owed.node, &answer.usage);
    }

    /// A crash: model calls in flight must be asked again, and what they may have cost is gone.
    pub(crate) fn book_interrupted(&mut self) {
        let mut lost = Reserve::default();
        for owed in self.owed.values() {
            if let Command::CallModel { reserve, .. } = &*owed.command {
                lost.add(*reserve);
            }
        }
        self.lost.add(lost);
    }

    /// The instance itself and every block that it is in.
    fn each_above(&mut self, scope: ScopeId, node: NodeId, mut change: impl FnMut(&mut Instance)) {
        let mut at = Some((scope, node));
        while let Some((scope, node)) = at {
            let Some(place) = self.scopes.get_mut(scope as usize) else { return };
            if let Some(instance) = place.steps.get_mut(&node) {
                change(instance);
            }
            at = place.block();
        }
    }

    /// Is there room for one more call? Otherwise, which budget of whom is short.
    pub(crate) fn room(&self, program: &Program, place: (ScopeId, NodeId), want: Want) -> Result<(), Failure> {
        let mut at = Some(place);
        while let Some((scope, node)) = at {
            let scope = self.scope(scope);
            if let Some(instance) = scope.steps.get(&node) {
                let lived = self.live_ms.saturating_sub(instance.entered_live);
                let (reserved, calls) = (instance.reserved, instance.calls);
                let used = Used { usage: &instance.usage, reserved, calls, lost: Reserve::default(), lived };
                for budget in program.budgets(node) {
                    used.check(&budget, want, &format!("step `{}`", program.plan.node(node).key))?;
                }
            }
            at = scope.block();
        }
        let (mut reserved, mut calls) = (self.reserved, self.calls);
        for allotment in self.allotted.values() {
            let (tokens, usd_nanos) = (allotment.tokens.unwrap_or(0), allotment.usd_nanos.unwrap_or(0));
            reserved.add(Reserve { tokens, usd_nanos });
            calls.add(Calls { model: allotment.model_calls.unwrap_or(0), tool: allotment.tool_calls.unwrap_or(0) });
        }
        let used = Used { usage: &self.usage, reserved, calls, lost: self.lost, lived: self.live_ms };
        used.check(&self.opened.budget, want, "the run")
    }

    /// Open lines of control that are not merely around others.
    fn open_lines(&self) -> u64 {
        let around = |scope: &Scope| match scope.at {
            At::In(node) => match scope.steps.get(&node).map(|i| &i.work) {
                Some(Work::Fan(fan)) => fan.open > 0,
                Some(Work::Each(each)) => each.open > 0,
                _ => false,
            },
            At::Start | At::Before { .. } | At::Broken(_) | At::End => false,
        };
        self.open_scopes.iter().filter(|id| !around(self.scope(**id))).count() as u64
    }

    /// What a child run may use: its own declared budget, else what is left divided by the open lines of control.
    pub(crate) fn allotment(&self) -> Budget {
        let lanes = self.open_lines().max(1);
        let held = |of: fn(&Budget) -> Option<u64>| self.allotted.values().filter_map(of).sum::<u64>();
        let left = |limit: Option<u64>, used: u64| limit.map(|l| l.saturating_sub(used) / lanes);
        let budget = &self.opened.budget;
        Budget {
            usd_nanos: left(
                budget.usd_nanos,
                self.usage.usd_nanos + self.reserved.usd_nanos + self.lost.usd_nanos + held(|b| b.usd_nanos),
            ),
            tokens: left(
                budget.tokens,
                self.usage.tokens() + self.reserved.tokens + self.lost.tokens + held(|b| b.tokens),
            ),
            model_calls: left(budget.model_calls, self.usage.model_calls + self.calls.model + held(|b| b.model_calls)),
            tool_calls: left(budget.tool_calls, self.usage.tool_calls + self.calls.tool + held(|b| b.tool_calls)),
            time_ms: budget.time_ms.map(|l| l.saturating_sub(self.live_ms)),
        }
    }
}

/// Arithmetic of allotments; an absent bound stays absent.
pub(crate) trait Allotment {
    fn less(&self, paid: &Usage) -> Budget;
    fn plus(&self, more: &Budget) -> Budget;
}

impl Allotment for Budget {
    fn less(&self, paid: &Usage) -> Budget {
        let less = |limit: Option<u64>, used: u64| limit.map(|l| l.saturating_sub(used));
        Budget {
            usd_nanos: less(self.usd_nanos, paid.usd_nanos),
            tokens: less(self.tokens, paid.tokens()),
            model_calls: less(self.model_calls, paid.model_calls),
            tool_calls: less(self.tool_calls, paid.tool_calls),
            time_ms: self.time_ms,
        }
    }

    fn plus(&self, more: &Budget) -> Budget {
        let plus = |limit: Option<u64>, more: Option<u64>| limit.map(|l| l.saturating_add(more.unwrap_or(0)));
        Budget {
            usd_nanos: plus(self.usd_nanos, more.usd_nanos),
            tokens: plus(self.tokens, more.tokens),
            model_calls: plus(self.model_calls, more.model_calls),
            tool_calls: plus(self.tool_calls, more.tool_calls),
            time_ms: self.time_ms,
        }
    }
}

/// What the next call would take.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    pub reserve: Reserve,
    pub model_calls: u64,
    pub tool_calls: u64,
}

struct Used<'a> {
    usage: &'a Usage,
    reserved: Reserve,
    calls: Calls,
    lost: Reserve,
    lived: u64,
}

impl Used<'_> {
    fn check(&self, budget: &Budget, want: Want, whose: &str) -> Result<(), Failure> {
        let usage = self.usage;
        let nanos = usage.usd_nanos + self.reserved.usd_nanos + self.lost.usd_nanos + want.reserve.usd_nanos;
        let tokens = usage.tokens() + self.reserved.tokens + self.lost.tokens + want.reserve.tokens;
        let over = |limit: Option<u64>, would_be: u64| limit.is_some_and(|limit| would_be > limit);
        let short = if over(budget.usd_nanos, nanos) {
            let limit = budget.usd_nanos.unwrap_or(0);
            format!("${} of ${} would be used", dollars(nanos), dollars(limit))
        } else if over(budget.tokens, tokens) {
            format!("{tokens} of {} tokens would be used", budget.tokens.unwrap_or(0))
        } else if over(budget.model_calls, usage.model_calls + self.calls.model + want.model_calls) {
            format!("{} model calls are used up", budget.model_calls.unwrap_or(0))
        } else if over(budget.tool_calls, usage.tool_calls + self.calls.tool + want.tool_calls) {
            format!("{} tool calls are used up", budget.tool_calls.unwrap_or(0))
        } else if over(budget.time_ms, self.lived) {
            format!("{} are used up", relais_plan::time::format_duration(budget.time_ms.unwrap_or(0)))
        } else {
            return Ok(());
        };
        let message = format!("the budget of {whose} does not allow the next call: {short}; resume with a larger one");
        Err(Failure::new(ErrorKind::Budget, message))
    }
}

/// Nanodollars as dollars, without trailing zeros.
pub fn dollars(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    let text = text.trim_end_matches('0');
    let whole = text.trim_end_matches('.');
    if whole.len() < text.len() { format!("{whole}.00") } else { text.to_owned() }
}

/// What a command in flight holds back.
fn held(command: &Command) -> (Reserve, Calls) {
    match command {
        Command::CallModel { reserve, .. } => (*reserve, Calls { model: 1, tool: 0 }),
        Command::CallTool { .. } => (Reserve::default(), Calls { model: 0, tool: 1 }),
        Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) | Command::StartRun(_) => Default::default(),
    }
}

impl Scope {
    /// The block that what happens here is booked to; exit and undo steps stand on their own.
    fn block(&self) -> Option<(ScopeId, NodeId)> {
        match self.kind {
            ScopeKind::Lane | ScopeKind::Item => self.parent,
            ScopeKind::Body | ScopeKind::Exit | ScopeKind::Undo => None,
        }
    }
}

impl Calls {
    fn add(&mut self, other: Calls) {
        self.model = self.model.saturating_add(other.model);
        self.tool = self.tool.saturating_add(other.tool);
    }

    fn sub(&mut self, other: Calls) {
        self.model = self.model.saturating_sub(other.model);
        self.tool = self.tool.saturating_sub(other.tool);
    }
}

impl Reserve {
    pub fn add(&mut self, other: Reserve) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.usd_nanos = self.usd_nanos.saturating_add(other.usd_nanos);
    }

    pub fn sub(&mut self, other: Reserve) {
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self.usd_nanos = self.usd_nanos.saturating_sub(other.usd_nanos);
    }
}
