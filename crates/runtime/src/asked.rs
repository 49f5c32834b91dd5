//! What runs ask people, as records beside their journals: whoever may answer finds them without reading a journal.

use relais_engine::{Program, Run, open_questions};
use relais_store::{Listed, ListedRecord};

/// The kind of these records.
pub const QUESTION: &str = "question";

/// The open questions of a run: a record for each person who may answer. Only that of the one whose run it is becomes
/// due, so that people are told once.
pub fn asked_of_people(program: &Program, run: &Run) -> Listed {
    let mut records = Vec::new();
    for open in open_questions(program, run) {
        let body = serde_json::json!(open);
        for owner in open.users() {
            let due_at = open.next_at.filter(|_| owner == open.user);
            records.push(ListedRecord { owner: owner.to_owned(), id: open.id(), due_at, body: body.clone() });
        }
    }
    Listed { kind: QUESTION.to_owned(), records }
}
