//! A reply while it comes in. Every wire format writes into one of these; what is odd about providers ends here.

use std::collections::BTreeSet;

use relais_engine::{ErrorKind, Finish, Reply, ToolUse, Usage};
use serde_json::{Map, Value, json};

use super::names::Names;
use crate::model::{ModelError, Spoken};

/// More calls in one reply than any provider allows; a stream that goes on opening calls is broken.
const CALLS_MAX: usize = 1_000;
/// Marks ids that we made because the provider gave none; they are not sent back to it.
pub const MADE_ID: &str = "relais_";

#[derive(Debug, Default)]
pub struct Draft {
    pub text: String,
    pub calls: Vec<DraftCall>,
    /// Set by the provider's stop reason; without one (and without `ended`) the reply is only a part.
    pub finish: Option<Finish>,
    /// The provider's end marker was seen.
    pub ended: bool,
    pub model: String,
    pub usage: Usage,
    /// Opaque data that belongs to the next call to open (thinking that led to it).
    pub pending_opaque: Vec<Value>,
}

#[derive(Debug, Default)]
pub struct DraftCall {
    /// The provider's number of the call within this reply.
    pub slot: u64,
    pub id: String,
    /// As on the wire.
    pub name: String,
    /// JSON text, complete once the reply is.
    pub arguments: String,
    pub opaque: Option<Value>,
}

impl Draft {
    /// The reply, once complete. `turn` makes ids unique in the conversation where the provider gives none.
    pub fn into_spoken(self, names: &Names, turn: usize) -> Result<Spoken, ModelError> {
        if self.finish.is_none() && !self.ended {
            return Err(broken("the answer ended before its end marker (half a stream)"));
        }
        let calls = into_uses(self.calls, names, turn);
        let finish = final_finish(self.finish, &calls);
        Ok(Spoken { reply: Reply { text: self.text, calls, finish, model: self.model }, usage: self.usage })
    }

    pub fn open_call(&mut self, call: DraftCall) -> Result<&mut DraftCall, ModelError> {
        if self.calls.len() >= CALLS_MAX {
            return Err(broken(&format!("the answer asks for more than {CALLS_MAX} tool calls")));
        }
        let at = self.calls.len();
        self.calls.push(call);
        Ok(&mut self.calls[at])
    }

    pub fn slot(&mut self, slot: u64) -> Option<&mut DraftCall> {
        // The newest call of a slot is the one that still grows.
        self.calls.iter_mut().rev().find(|call| call.slot == slot)
    }
}

/// Results find their call by its id: one that is missing, or that was given twice, is made here.
fn into_uses(calls: Vec<DraftCall>, names: &Names, turn: usize) -> Vec<ToolUse> {
    let mut seen = BTreeSet::new();
    let mut uses = Vec::with_capacity(calls.len());
    for (index, call) in calls.into_iter().enumerate() {
        let is_usable = !call.id.is_empty() && seen.insert(call.id.clone());
        let id = if is_usable { call.id } else { format!("{MADE_ID}{turn}_{index}") };
        let (arguments, garbled) = parse_arguments(call.arguments);
        uses.push(ToolUse { id, tool: names.ours(&call.name), arguments, garbled, opaque: call.opaque });
    }
    uses
}

fn parse_arguments(text: String) -> (Value, Option<String>) {
    // A tool without parameters is called with nothing at all by some models.
    if text.trim().is_empty() {
        return (Value::Object(Map::new()), None);
    }
    match serde_json::from_str(&text) {
        Ok(value) => (value, None),
        Err(_) => (Value::Null, Some(text)),
    }
}

/// Some providers say `stop` although they ask for tools; what they ask for counts. A cut-off stays a cut-off.
fn final_finish(said: Option<Finish>, calls: &[ToolUse]) -> Finish {
    match said.unwrap_or(Finish::Stop) {
        Finish::Stop | Finish::ToolCalls if calls.is_empty() => Finish::Stop,
        Finish::Stop | Finish::ToolCalls => Finish::ToolCalls,
        Finish::Length => Finish::Length,
        Finish::Filtered => Finish::Filtered,
    }
}

/// Arguments of an earlier call, as an object: providers refuse anything else in the history.
pub fn arguments_object(call: &ToolUse) -> Value {
    match (&call.garbled, &call.arguments) {
        (Some(garbled), _) => json!({ "not_json": garbled }),
        (None, Value::Null) => Value::Object(Map::new()),
        (None, object @ Value::Object(_)) => object.clone(),
        (None, other) => json!({ "value": other }),
    }
}

/// The other side did not keep to the protocol, or the connection broke: worth another try.
pub fn broken(message: &str) -> ModelError {
    ModelError { kind: ErrorKind::Transport, message: message.to_owned(), retry_after: None, transient: true }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_not_json_are_kept_as_garbled() {
        let check = |text: &str, want: (Value, Option<&str>)| {
            let (value, garbled) = parse_arguments(text.to_owned());
            assert_eq!((value, garbled.as_deref()), want, "{text}");
        };
        check("{\"a\":1}", (json!({"a": 1}), None));
        check("", (json!({}), None));
        check("{\"a\":", (Value::Null, Some("{\"a\":")));
        check("[1]", (json!([1]), None));
    }

    #[test]
    fn half_a_reply_is_no_reply() {
        let draft = Draft { text: "half".into(), ..Draft::default() };
        let error = draft.into_spoken(&Names::default(), 0).unwrap_err();
        assert!(error.transient && error.kind == ErrorKind::Transport, "{error}");
    }

    #[test]
    fn missing_and_repeated_ids_are_made_stable() {
        let mut draft = Draft { ended: true, ..Draft::default() };
        for id in ["", "", "x", "x"] {
            draft.open_call(DraftCall { id: id.into(), name: "a".into(), ..DraftCall::default() }).unwrap();
        }
        let spoken = draft.into_spoken(&Names::default(), 3).unwrap();
        let ids: Vec<&str> = spoken.reply.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["relais_3_0", "relais_3_1", "x", "relais_3_3"]);
        assert_eq!(spoken.reply.finish, Finish::ToolCalls);
    }
}
