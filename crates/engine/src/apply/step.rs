//! What an event does to one step: begun, asked, answered, left. Knows nothing of the steps around it.

use relais_plan::Effect;
use serde_json::Value;

use super::agent::Verdict;
use crate::command::*;
use crate::event::*;
use crate::run::*;

impl Instance {
    pub(super) fn fresh(order: u64, at: Millis, live: u64, before: Before) -> Instance {
        Instance {
            status: StepStatus::Running,
            attempt: 0,
            retries: 0,
            order,
            entered_at: at,
            left_at: None,
            deadline: None,
            timeout_ms: None,
            suspended_ms: None,
            entered_live: live,
            output: None,
            former: None,
            text: None,
            error: None,
            tolerated: false,
            work: Work::Fresh,
            usage: Usage::default(),
            reserved: Reserve::default(),
            calls: Calls::default(),
            yields: None,
            before,
            child: None,
        }
    }

    /// A further attempt keeps what was paid, and an agent that must not start afresh its history.
    pub(super) fn carry_over(&mut self, former: Instance, kept: bool) {
        // A resumed step has all its retries again.
        self.retries = if former.status == StepStatus::Pending { 0 } else { former.retries + 1 };
        self.usage = former.usage;
        self.order = former.order;
        self.before = former.before;
        self.entered_at = former.entered_at;
        if let (true, Work::Agent(mut agent)) = (kept, former.work) {
            (agent.turns, agent.corrections, agent.empties, agent.model) = (0, 0, 0, 0);
            agent.recent.clear();
            (agent.failed, agent.asked, agent.resting, agent.rested) = (None, None, None, false);
            self.work = Work::Agent(agent);
        }
    }

    /// The last output that it gave, this time or before.
    pub(super) fn latest(&self) -> Option<Stored> {
        match self.status {
            StepStatus::Completed => self.output.clone(),
            StepStatus::Pending | StepStatus::Running | StepStatus::Waiting => self.former.clone(),
            StepStatus::Failed | StepStatus::Skipped | StepStatus::Cancelled => self.former.clone(),
        }
    }

    pub(super) fn leave(&mut self, left: &Left, at: Millis) {
        self.status = left.status;
        self.output = left.output.clone();
        self.text = left.text.clone();
        self.error = left.error.clone();
        self.tolerated = left.tolerated;
        self.left_at = Some(at);
    }

    /// What it has asked for and may still wait for.
    pub(crate) fn commands(&self) -> Vec<CommandId> {
        match &self.work {
            Work::Asked(id) | Work::Resting(id) => vec![*id],
            Work::Agent(agent) => agent.commands(),
            Work::Each(each) => each.pause.into_iter().collect(),
            Work::Fresh | Work::Answered(_) | Work::Received(_) | Work::Rested | Work::Chose(_) | Work::Fan(_) => {
                Vec::new()
            }
        }
    }

    pub(super) fn ask(&mut self, id: CommandId, command: &Command) {
        match command {
            Command::CallModel { say, lend, .. } => self.with_agent(|agent| {
                agent.lent.extend_from_slice(lend);
                agent.ask_model(id, say);
            }),
            Command::CallTool { use_id: Some(use_id), effect, .. } => {
                self.with_agent(|agent| {
                    agent.once |= *effect == Effect::Once;
                    agent.set_use(use_id, UseState::Asked(id));
                });
            }
            Command::AskPerson(question) if question.approves.is_some() && matches!(self.work, Work::Agent(_)) => {
                let use_id = question.approves.as_ref().map(|u| u.id.clone()).unwrap_or_default();
                self.with_agent(|agent| agent.set_use(&use_id, UseState::Approving(id)));
            }
            Command::Sleep { retry: true, .. } => self.rest(id),
            Command::Sleep { .. } => self.ask_sleep(id),
            Command::StartRun(start) => {
                self.child = Some(start.clone());
                self.work = Work::Asked(id);
            }
            Command::CallTool { .. } | Command::AskPerson(_) | Command::Await(_) => self.work = Work::Asked(id),
        }
    }

    fn rest(&mut self, id: CommandId) {
        match &mut self.work {
            Work::Agent(agent) => agent.rest(id),
            _ => self.work = Work::Resting(id),
        }
    }

    fn ask_sleep(&mut self, id: CommandId) {
        match &mut self.work {
            Work::Each(each) => each.pause = Some(id),
            _ => self.work = Work::Asked(id),
        }
    }

    /// The agent at work here, a new one if there is none yet.
    fn with_agent(&mut self, act: impl FnOnce(&mut AgentWork)) {
        let mut agent = match std::mem::replace(&mut self.work, Work::Fresh) {
            Work::Agent(agent) => agent,
            _ => Box::default(),
        };
        act(&mut agent);
        self.work = Work::Agent(agent);
    }

    pub(super) fn answer(&mut self, id: CommandId, command: &Command, answer: &Answer) {
        match &mut self.work {
            Work::Agent(agent) if agent.resting == Some(id) => (agent.resting, agent.rested) = (None, true),
            Work::Agent(agent) => agent.answer(id, command, answer),
            Work::Resting(resting) if *resting == id => self.work = Work::Rested,
            Work::Each(each) if each.pause == Some(id) => {
                each.pause = None;
                each.paused_after = Some(each.bodies.len() as u32);
            }
            Work::Asked(asked) if *asked == id => self.work = Work::Answered(Box::new(answer.clone())),
            _ => {}
        }
    }

    pub(super) fn receive(&mut self, id: CommandId, command: &Command, value: &Value) {
        let shown = if let Command::AskPerson(question) = command { question.approves.as_ref() } else { None };
        match (&mut self.work, shown) {
            (Work::Agent(agent), _) => agent.approve(id, value),
            (_, Some(shown)) => self.work = Work::Received(Verdict::read(value).about(&shown.arguments)),
            (_, None) => self.work = Work::Received(value.clone()),
        }
    }

    /// Nobody waits for this command any more. Whether a `once` call happened is not known then.
    pub(super) fn give_up(&mut self, id: CommandId, command: &Command) {
        let Command::CallTool { tool, arguments, effect: Effect::Once, .. } = command else { return };
        let answer = Answer::uncertain(tool, arguments);
        match &mut self.work {
            Work::Agent(agent) => agent.answer(id, command, &answer),
            Work::Asked(asked) if *asked == id => self.work = Work::Answered(Box::new(answer)),
            _ => {}
        }
    }

    /// Only leads control on (stop_if, goto): no step that `previous` would mean.
    pub(super) fn only_steers(&self) -> bool {
        matches!(self.work, Work::Fresh | Work::Chose(_)) && self.yields.is_none()
    }
}
