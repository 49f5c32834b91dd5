//! What an event does to an agent at work: what it said and heard, and how far its tool calls are.

use serde_json::Value;

use crate::agent::breaker::{self, Heard};
use crate::command::*;
use crate::event::*;
use crate::run::*;

impl AgentWork {
    /// The results of the last calls join the history in the order the model asked, then what is newly said.
    pub(super) fn ask_model(&mut self, id: CommandId, say: &[Message]) {
        let mut said: Vec<&Message> = say.iter().collect();
        let told_by_us = say.iter().any(|m| matches!(m, Message::Tool { .. }));
        for used in std::mem::take(&mut self.uses) {
            let told = said.iter().position(|m| matches!(m, Message::Tool { use_id, .. } if *use_id == used.call.id));
            let message = match told {
                Some(at) => said.remove(at).clone(),
                None => used.as_message(),
            };
            if let Message::Tool { text, .. } = &message {
                breaker::note(&mut self.recent, Heard::new(&used.call, text, used.is_invalid()));
            }
            self.messages.push(message);
        }
        let asked_again = !self.messages.is_empty() && said.iter().any(|m| matches!(m, Message::User { .. }));
        self.corrections += u32::from(asked_again || told_by_us);
        self.messages.extend(said.into_iter().cloned());
        self.asked = Some(id);
        self.failed = None;
    }

    /// The whole step is to be tried again; what was in flight is not waited for any more.
    pub(super) fn rest(&mut self, id: CommandId) {
        self.resting = Some(id);
        self.forget_flight();
    }

    /// Calls in flight are as if they had not been asked.
    pub(crate) fn forget_flight(&mut self) {
        self.asked = None;
        for used in &mut self.uses {
            if matches!(used.state, UseState::Asked(_) | UseState::Approving(_)) {
                used.state = UseState::New;
            }
        }
    }

    pub(super) fn commands(&self) -> Vec<CommandId> {
        let used = self.uses.iter().filter_map(|u| match u.state {
            UseState::Asked(id) | UseState::Approving(id) => Some(id),
            UseState::New | UseState::Approved(_) | UseState::Returned(_) | UseState::Failed(_) => None,
        });
        self.asked.into_iter().chain(self.resting).chain(used).collect()
    }

    pub(super) fn set_use(&mut self, use_id: &str, state: UseState) {
        if let Some(used) = self.uses.iter_mut().find(|u| u.call.id == use_id) {
            used.state = state;
        }
    }

    pub(super) fn answer(&mut self, id: CommandId, command: &Command, answer: &Answer) {
        if self.asked == Some(id) {
            self.asked = None;
            return self.hear(command, answer);
        }
        let Some(used) =
            self.uses.iter_mut().find(|u| u.state == UseState::Asked(id) || u.state == UseState::Approving(id))
        else {
            return;
        };
        used.state = match &answer.body {
            Body::Returned { value, .. } => UseState::Returned(value.clone()),
            Body::Failed(failure) => UseState::Failed(failure.clone()),
            Body::Replied(_) | Body::Slept | Body::Ended { .. } | Body::Cancelled => {
                UseState::Failed(Failure::new(ErrorKind::Cancelled, "the call was cancelled"))
            }
        };
    }

    fn hear(&mut self, command: &Command, answer: &Answer) {
        match &answer.body {
            Body::Replied(reply) => {
                self.turns += 1;
                if reply.text.trim().is_empty() && reply.calls.is_empty() {
                    self.empties += 1;
                }
                if let Command::CallModel { model, .. } = command {
                    self.spoken_by = model.clone();
                }
                self.finish = Some(reply.finish);
                self.messages.push(Message::Assistant { text: reply.text.clone(), calls: Vec::new() });
                self.take_calls(&reply.calls);
            }
            Body::Failed(failure) => {
                self.failed = Some(failure.clone());
                self.model += 1;
            }
            Body::Returned { .. } | Body::Slept | Body::Ended { .. } | Body::Cancelled => {
                self.failed = Some(Failure::new(ErrorKind::Cancelled, "the model call was cancelled"));
            }
        }
    }

    /// Calls without an id of their own get one, so that each result finds its call.
    fn take_calls(&mut self, calls: &[ToolUse]) {
        let mut named: Vec<ToolUse> = Vec::with_capacity(calls.len());
        for (number, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            if call.id.is_empty() || named.iter().any(|other| other.id == call.id) {
                call.id = format!("call_{}_{}", self.turns, number + 1);
            }
            named.push(call);
        }
        if let Some(Message::Assistant { calls, .. }) = self.messages.last_mut() {
            calls.clone_from(&named);
        }
        self.uses = named.into_iter().map(|call| Use { call, edited: false, state: UseState::New }).collect();
    }

    pub(super) fn approve(&mut self, id: CommandId, value: &Value) {
        let Some(used) = self.uses.iter_mut().find(|u| u.state == UseState::Approving(id)) else { return };
        let verdict = Verdict::read(value);
        used.state = match verdict {
            Verdict::Yes { arguments } => UseState::Approved(arguments),
            Verdict::No { reason } => {
                let text = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                UseState::Failed(Failure::new(ErrorKind::Tool, format!("a person said no to this call{text}")))
            }
        };
        // The history shows what was really called.
        if let UseState::Approved(Some(arguments)) = &used.state {
            used.call.arguments = arguments.clone();
            used.edited = true;
            let edited = used.call.clone();
            if let Some(Message::Assistant { calls, .. }) = self.messages.last_mut()
                && let Some(call) = calls.iter_mut().find(|c| c.id == edited.id)
            {
                call.arguments = edited.arguments;
            }
        }
    }
}

impl Use {
    /// The tool does not take the arguments.
    pub(crate) fn is_invalid(&self) -> bool {
        matches!(&self.state, UseState::Failed(failure) if failure.kind == ErrorKind::Schema)
    }

    fn as_message(&self) -> Message {
        let (text, failed) = match &self.state {
            UseState::Returned(value) => (value.in_text().into_owned(), false),
            UseState::Failed(failure) => (failure.to_string(), true),
            UseState::New | UseState::Approving(_) | UseState::Approved(_) | UseState::Asked(_) => {
                ("this call was not made".to_owned(), true)
            }
        };
        let text = if self.edited { format!("{EDITED}{text}") } else { text };
        Message::Tool { use_id: self.call.id.clone(), tool: self.call.tool.clone(), text, failed }
    }
}

/// Stands before the result of a call whose arguments are not the model's own.
const EDITED: &str = "(A person edited the arguments of this call.) ";

/// A person's word on a tool call: `true`, `false`, or `{approve, arguments, reason}`.
pub enum Verdict {
    Yes { arguments: Option<Value> },
    No { reason: String },
}

impl Verdict {
    /// The verdict as a direct tool step keeps it, with the arguments that count.
    pub(super) fn about(self, shown: &Value) -> Value {
        match self {
            Verdict::Yes { arguments } => {
                serde_json::json!({ "approve": true, "arguments": arguments.as_ref().unwrap_or(shown) })
            }
            Verdict::No { reason } => serde_json::json!({ "approve": false, "reason": reason }),
        }
    }

    pub fn read(value: &Value) -> Verdict {
        let yes = value.as_bool().or_else(|| value.get("approve")?.as_bool()).unwrap_or(false);
        if yes {
            return Verdict::Yes { arguments: value.get("arguments").filter(|a| a.is_object()).cloned() };
        }
        let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default();
        Verdict::No { reason: reason.to_owned() }
    }
}
