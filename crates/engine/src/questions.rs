//! What a run asks people: its open questions as a store may list them, and the counting of yeses where several are
//! needed.

use relais_plan::{Op, Plan, Until};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apply::Verdict;
use crate::command::{Command, Question};
use crate::event::{CommandId, Millis, RunId};
use crate::program::Program;
use crate::rewind::step_path;
use crate::run::{Owed, Run};

/// A question that nobody has answered yet, with all that is needed to answer it and to tell people of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub run: RunId,
    pub command: CommandId,
    /// Whose run it is.
    pub user: String,
    pub workflow: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workflow_id: String,
    /// Hash of the plan: who is told is written there.
    pub plan: String,
    pub step: String,
    pub asked_at: Millis,
    pub question: Question,
    /// When people are to be told of it, or told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Millis>,
    /// How often they were told.
    #[serde(default)]
    pub told: u32,
    /// It has gone to those whom `then` names, too.
    #[serde(default)]
    pub escalated: bool,
}

impl OpenQuestion {
    /// How people name it.
    pub fn id(&self) -> String {
        question_id(self.run, self.command)
    }

    /// Who may answer it before it is escalated: the one whose run it is, and those whom the file names.
    pub fn users(&self) -> Vec<&str> {
        let mut users = vec![self.user.as_str()];
        users.extend(self.question.people.users.iter().map(String::as_str).filter(|user| *user != self.user));
        users
    }

    /// When people are to be told again, after this moment.
    pub fn next_after(&self, now: Millis) -> Option<Millis> {
        let people = &self.question.people;
        let waited = now.saturating_sub(self.asked_at).max(0);
        let remind = people.remind_ms.map(|every| {
            let every = Millis::try_from(every).unwrap_or(Millis::MAX).max(1);
            self.asked_at.saturating_add(every.saturating_mul(waited / every + 1))
        });
        let then = people.then.as_ref().filter(|_| !self.escalated);
        let escalate = then.map(|then| self.asked_at.saturating_add_unsigned(then.after_ms));
        remind.into_iter().chain(escalate).min()
    }
}

pub fn question_id(run: RunId, command: CommandId) -> String {
    format!("{run}.{command}")
}

/// Everything that the run asks people now.
pub fn open_questions(program: &Program, run: &Run) -> Vec<OpenQuestion> {
    let open = run.owed.iter().filter_map(|(id, owed)| Some((*id, owed, owed.command.question()?)));
    open.map(|(command, owed, question)| open_question(program, run, owed, command, question)).collect()
}

fn open_question(program: &Program, run: &Run, owed: &Owed, command: CommandId, question: &Question) -> OpenQuestion {
    let mut open = OpenQuestion {
        run: run.id(),
        command,
        user: run.opened.user.clone(),
        workflow: run.opened.workflow.clone(),
        workflow_id: run.opened.target.workflow.clone(),
        plan: run.opened.plan.clone(),
        step: step_path(program, run, owed.scope, owed.node),
        asked_at: owed.asked_at,
        question: question.clone(),
        next_at: Some(owed.asked_at),
        told: 0,
        escalated: false,
    };
    if !program.plan.notify.on_waiting {
        open.next_at = open.next_after(owed.asked_at);
    }
    open
}

/// The numbers of what the run asks people now.
pub fn asked_now(run: &Run) -> impl Iterator<Item = CommandId> {
    run.owed.iter().filter(|(_, owed)| owed.command.question().is_some()).map(|(id, _)| *id)
}

impl Command {
    /// What it asks a person, if it does.
    pub fn question(&self) -> Option<&Question> {
        match self {
            Command::AskPerson(question) => Some(question),
            Command::CallModel { .. } | Command::CallTool { .. } | Command::Sleep { .. } => None,
            Command::Await(_) | Command::StartRun(_) => None,
        }
    }
}

/// Whether a run of this plan may ever ask anybody.
pub(crate) fn asks_people(plan: &Plan) -> bool {
    let asks = plan.nodes.iter().any(|node| matches!(&node.op, Op::Wait(Until::Person(_))));
    asks || plan.tools.values().any(|rule| rule.approve == Some(true))
}

/// Somebody's yes to a question that several must say yes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Yes {
    pub by: String,
    /// The arguments that the call is to have; null where no call is approved.
    pub arguments: Value,
}

impl Owed {
    /// Takes a person's answer; says whether the question is answered with it. Of two yeses with different arguments
    /// each stands for its own: all must have said yes to the same call.
    pub fn settles(&mut self, value: &Value, by: &str) -> bool {
        let Some(question) = self.command.question() else { return true };
        let needed = question.people.needed();
        let Some(arguments) = agreed(question, value).filter(|_| needed > 1) else { return true };
        self.yes.retain(|yes| yes.by != by);
        self.yes.push(Yes { by: by.to_owned(), arguments: arguments.clone() });
        self.yes.iter().filter(|yes| yes.arguments == arguments).count() >= needed
    }
}

/// What a yes says yes to; nothing where the answer is no yes.
pub fn agreed(question: &Question, value: &Value) -> Option<Value> {
    match (&question.approves, Verdict::read(value)) {
        (Some(call), Verdict::Yes { arguments }) => Some(arguments.unwrap_or_else(|| call.arguments.clone())),
        (None, _) => (*value == Value::Bool(true)).then_some(Value::Null),
        (Some(_), Verdict::No { .. }) => None,
    }
}
