//! What was paid, what is set aside, what was lost; for the run and for every step and block above a call.

use std::collections::BTreeMap;

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
        self.come_back();
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

    /// Is there room for one more call? If not now, something may come back; if that cannot be, which budget is short.
    pub(crate) fn room(&self, program: &Program, place: (ScopeId, NodeId), want: Want) -> Room {
        match self.short(program, place, want) {
            None => Room::Enough,
            Some(_) if self.may_get_back() => Room::Later,
            Some(short) => {
                let step = &program.plan.node(place.1).key;
                let message = short.message(self, program, step, want);
                Room::Short(Failure::new(ErrorKind::Budget, message))
            }
        }
    }

    /// Something is in flight, or others have decisions to take before: what they return may do.
    pub(crate) fn may_get_back(&self) -> bool {
        !self.agenda.is_empty() || self.in_flight().next().is_some()
    }

    /// The first budget, from the innermost, that does not allow a call.
    fn short(&self, program: &Program, place: (ScopeId, NodeId), want: Want) -> Option<Short> {
        let mut at = Some(place);
        while let Some((scope, node)) = at {
            let place = self.scope(scope);
            if let Some(instance) = place.steps.get(&node) {
                let lived = self.live_ms.saturating_sub(instance.entered_live);
                let (reserved, calls) = (instance.reserved, instance.calls);
                let used = Used { usage: &instance.usage, reserved, calls, lost: Reserve::default(), lived };
                let found = program.budgets(node).find_map(|budget| used.check(&budget, want));
                if let Some((measure, limit, used)) = found {
                    return Some(Short { of: Some((scope, node)), measure, limit, used });
                }
            }
            at = place.block();
        }
        let (measure, limit, used) = self.used().check(&self.opened.budget, want)?;
        Some(Short { of: None, measure, limit, used })
    }

    /// All that the run has used, set aside and given to child runs.
    fn used(&self) -> Used<'_> {
        let (mut reserved, mut calls) = (self.reserved, self.calls);
        for allotment in self.allotted.values() {
            let (tokens, usd_nanos) = (allotment.tokens.unwrap_or(0), allotment.usd_nanos.unwrap_or(0));
            reserved.add(Reserve { tokens, usd_nanos });
            calls.add(Calls { model: allotment.model_calls.unwrap_or(0), tool: allotment.tool_calls.unwrap_or(0) });
        }
        Used { usage: &self.usage, reserved, calls, lost: self.lost, lived: self.live_ms }
    }

    /// What is used of each bound of the run's budget, and by whom.
    pub(crate) fn spent(&self, program: &Program) -> String {
        let used = self.used();
        let measures = Measure::ALL.into_iter().filter_map(|measure| {
            let limit = measure.bound(&self.opened.budget)?;
            let by = self.spenders(program, measure, None);
            Some(format!("{}{by}", measure.of(used.measured(measure), limit)))
        });
        measures.collect::<Vec<_>>().join(" and ")
    }

    /// The steps that used the most, within a block if one is given.
    fn spenders(&self, program: &Program, measure: Measure, within: Option<(ScopeId, NodeId)>) -> String {
        const SHOWN: usize = 3;
        let mut by: BTreeMap<&str, u64> = BTreeMap::new();
        for (id, scope) in self.scopes.iter().enumerate() {
            for (node, instance) in &scope.steps {
                let calls = matches!(program.plan.node(*node).op, relais_plan::Op::Call(_));
                let amount = measure.in_usage(&instance.usage);
                if calls && amount > 0 && within.is_none_or(|block| self.is_within(id as ScopeId, *node, block)) {
                    *by.entry(&program.plan.node(*node).key).or_default() += amount;
                }
            }
        }
        let mut by: Vec<(&str, u64)> = by.into_iter().collect();
        by.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
        let shown = by.iter().take(SHOWN).map(|(key, amount)| format!("`{key}` {}", measure.amount(*amount)));
        let more = by.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("{more} more"));
        let list = shown.chain(more).collect::<Vec<_>>().join(", ");
        if list.is_empty() { list } else { format!(" ({list})") }
    }

    fn is_within(&self, scope: ScopeId, node: NodeId, block: (ScopeId, NodeId)) -> bool {
        std::iter::successors(Some((scope, node)), |(scope, _)| self.scope(*scope).parent).any(|at| at == block)
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

    /// What a child run may use at first: what is left, divided by the open lines that have no share of their own yet.
    pub(crate) fn share(&self) -> Budget {
        let lines = self.lines_without_share();
        self.unreserved(|left| left.div_ceil(lines))
    }

    /// What a child run gets that came back short: half of what is left while others may need some, else all of it. One
    /// that got nowhere with what it had gets all, too: less would not do.
    pub(crate) fn more(&self, used: &Usage) -> Budget {
        let alone = self.lines_without_share() == 1 || used.is_zero();
        self.unreserved(|left| if alone { left } else { left.div_ceil(2) })
    }

    /// Of something that the budget allows, nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        let used = self.used();
        let bounds =
            Measure::ALL.into_iter().filter_map(|m| Some((m, m.bound(&self.opened.budget).filter(|l| *l > 0)?)));
        bounds.into_iter().any(|(measure, limit)| used.measured(measure) >= limit)
    }

    fn lines_without_share(&self) -> u64 {
        self.open_lines().saturating_sub(self.allotted.len() as u64).max(1)
    }

    /// Of what nobody has used or set aside.
    fn unreserved(&self, part: impl Fn(u64) -> u64) -> Budget {
        let used = self.used();
        let left = |measure: Measure| {
            measure.bound(&self.opened.budget).map(|limit| part(limit.saturating_sub(used.measured(measure))))
        };
        Budget {
            usd_nanos: left(Measure::Usd),
            tokens: left(Measure::Tokens),
            model_calls: left(Measure::ModelCalls),
            tool_calls: left(Measure::ToolCalls),
            time_ms: self.opened.budget.time_ms.map(|l| l.saturating_sub(self.live_ms)),
        }
    }
}

/// Whether a call may be made now.
pub(crate) enum Room {
    Enough,
    /// What is in flight may leave something.
    Later,
    Short(Failure),
}

/// What a budget bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Usd,
    Tokens,
    ModelCalls,
    ToolCalls,
    Time,
}

impl Measure {
    const ALL: [Measure; 5] = [Measure::Usd, Measure::Tokens, Measure::ModelCalls, Measure::ToolCalls, Measure::Time];

    fn bound(self, budget: &Budget) -> Option<u64> {
        match self {
            Measure::Usd => budget.usd_nanos,
            Measure::Tokens => budget.tokens,
            Measure::ModelCalls => budget.model_calls,
            Measure::ToolCalls => budget.tool_calls,
            Measure::Time => budget.time_ms,
        }
    }

    fn in_usage(self, usage: &Usage) -> u64 {
        match self {
            Measure::Usd => usage.usd_nanos,
            Measure::Tokens => usage.tokens(),
            Measure::ModelCalls => usage.model_calls,
            Measure::ToolCalls => usage.tool_calls,
            Measure::Time => 0,
        }
    }

    fn asked(self, want: Want) -> u64 {
        match self {
            Measure::Usd => want.reserve.usd_nanos,
            Measure::Tokens => want.reserve.tokens,
            Measure::ModelCalls => want.model_calls,
            Measure::ToolCalls => want.tool_calls,
            Measure::Time => 0,
        }
    }

    fn amount(self, amount: u64) -> String {
        match self {
            Measure::Usd => format!("${}", dollars(amount)),
            Measure::Tokens | Measure::ModelCalls | Measure::ToolCalls => amount.to_string(),
            Measure::Time => relais_plan::time::format_duration(amount),
        }
    }

    /// `3 of 5 model calls are used`.
    fn of(self, used: u64, limit: u64) -> String {
        let (used, limit) = (self.amount(used), self.amount(limit));
        format!("{used} of {limit}{} are used", self.unit())
    }

    fn unit(self) -> &'static str {
        match self {
            Measure::Usd | Measure::Time => "",
            Measure::Tokens => " tokens",
            Measure::ModelCalls => " model calls",
            Measure::ToolCalls => " tool calls",
        }
    }
}

/// The budget that does not allow a call.
struct Short {
    /// The step or block whose budget it is; none for the run's.
    of: Option<(ScopeId, NodeId)>,
    measure: Measure,
    limit: u64,
    used: u64,
}

impl Short {
    fn message(&self, run: &Run, program: &Program, step: &str, want: Want) -> String {
        let Short { of, measure, limit, used } = *self;
        let whose = match of {
            Some((_, node)) => format!("step `{}`", program.plan.node(node).key),
            None => "the run".to_owned(),
        };
        let asked = match measure.asked(want) {
            0 => String::new(),
            1 => format!("it asks for 1{}, and ", measure.unit().trim_end_matches('s')),
            amount => format!("it asks for {}{}, and ", measure.amount(amount), measure.unit()),
        };
        let spent = measure.of(used, limit);
        let by = run.spenders(program, measure, of);
        format!(
            "the budget of {whose} does not allow the next call of `{step}`: {asked}{spent}{by}; resume with a larger one"
        )
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
    fn measured(&self, measure: Measure) -> u64 {
        let used = measure.in_usage(self.usage);
        match measure {
            Measure::Usd => used + self.reserved.usd_nanos + self.lost.usd_nanos,
            Measure::Tokens => used + self.reserved.tokens + self.lost.tokens,
            Measure::ModelCalls => used + self.calls.model,
            Measure::ToolCalls => used + self.calls.tool,
            Measure::Time => self.lived,
        }
    }

    /// What is short for a call, its bound, and how much of it is used.
    fn check(&self, budget: &Budget, want: Want) -> Option<(Measure, u64, u64)> {
        Measure::ALL.into_iter().find_map(|measure| {
            let (limit, used) = (measure.bound(budget)?, self.measured(measure));
            (used.saturating_add(measure.asked(want)) > limit).then_some((measure, limit, used))
        })
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
