//! Whom a question goes to: `people`, `approvals`, `remind` and `then` of an `ask`, and of the approval of a tool.

use relais_plan::{Escalation, People, Problem};

use super::keys;
use crate::fields::{Field, Fields};
use crate::reader::Reader;

/// Nobody wants to be reminded more often.
const SHORTEST_REMIND_MS: u64 = 60_000;
const REMIND: &str = "`remind: 1d`";
const THEN: &str = "`then: { after: 2d, people: [ann], notify: [ops] }`";

impl Reader<'_> {
    /// `is_approval`: the answer is yes or no, so that several can be counted.
    pub(crate) fn people(&mut self, fields: &Fields<'_>, is_approval: bool) -> People {
        let people = People {
            users: fields.get("people").map(|field| self.texts(field)).unwrap_or_default(),
            approvals: fields.get("approvals").and_then(|field| self.whole(field, 1)),
            remind_ms: fields.get("remind").and_then(|field| self.remind(field)),
            then: fields.get("then").and_then(|field| self.escalation(field)),
        };
        if let Some(field) = fields.get("approvals") {
            self.check_approvals(field, &people, is_approval);
        }
        people
    }

    fn check_approvals(&mut self, field: Field<'_>, people: &People, is_approval: bool) {
        if !is_approval {
            self.no_effect(field, "without `approve: true`", "only a yes can be counted; add `approve: true`");
        }
        let escalated = people.then.as_ref().map_or(0, |then| then.users.len());
        let asked = 1 + people.users.len() + escalated;
        if people.needed() > asked {
            let message = format!("`approvals: {}` needs more people than the {asked} who are asked", people.needed());
            let help = "the one whose run it is counts as one; name the others: `people: [ann, bob]`";
            self.problems.push(Problem::error(field.node.span, message).help(help));
        }
    }

    fn remind(&mut self, field: Field<'_>) -> Option<u64> {
        let every = self.duration(field)?;
        if every < SHORTEST_REMIND_MS {
            self.wrong(field, "a minute or more", REMIND);
        }
        Some(every)
    }

    fn escalation(&mut self, field: Field<'_>) -> Option<Escalation> {
        let fields = self.map(field.node, "`then`", keys::ESCALATION, THEN)?;
        let then = Escalation {
            after_ms: fields.get("after").and_then(|field| self.duration(field)).unwrap_or_default(),
            users: fields.get("people").map(|field| self.texts(field)).unwrap_or_default(),
            notify: fields.get("notify").map(|field| self.texts(field)).unwrap_or_default(),
        };
        let lacks_time = !fields.has("after");
        if lacks_time || (!fields.has("people") && !fields.has("notify")) {
            let what = if lacks_time { "how long nobody may have answered, `after`" } else { "`people` or `notify`" };
            let problem = Problem::error(fields.span, format!("`then` needs {what}"));
            self.problems.push(problem.help(format!("for example {THEN}")));
        }
        Some(then)
    }
}
