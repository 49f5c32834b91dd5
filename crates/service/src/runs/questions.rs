//! What people are asked, over all runs: listed by whoever may answer, and answered by them. The records come and go
//! with the entries of the runs, so that no list reads a journal.

use relais_engine::{
    CommandId, Entry, Event, Millis, OpenQuestion, Question, Run, RunId, Yes, agreed, asked_now, check_answer,
};
use relais_engine::{Program, question_id};
use relais_runtime::asked::{QUESTION, asked_of_people};
use relais_runtime::prepare::load_plan;
use relais_store::Listed;
use serde_json::Value;

use crate::kept::{At, Kept, Order};
use crate::{Error, Service};

/// An open question, with what people have said about it by now.
#[derive(Debug, Clone)]
pub struct Asked {
    pub open: OpenQuestion,
    /// Who has said yes, where several must.
    pub yes: Vec<Yes>,
}

impl Kept for OpenQuestion {
    const KIND: &'static str = QUESTION;
    const WORD: &'static str = "open question";

    fn id(&self) -> String {
        OpenQuestion::id(self)
    }

    fn label(&self) -> String {
        self.run.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        self.next_at
    }
}

impl Service {
    /// Everything that this user may answer, in all runs, those of the oldest runs first; those after an id.
    pub async fn all_questions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Asked>, Option<String>), Error> {
        let (page, next) = self.paged::<OpenQuestion>(Order::ById, after, limit).await?;
        let mut all = Vec::with_capacity(page.len());
        for At { it, .. } in page {
            all.push(self.with_answers(it).await?);
        }
        Ok((all, next))
    }

    /// One of them.
    pub async fn question(&self, id: &str) -> Result<Asked, Error> {
        let At { it, .. } = self.kept::<OpenQuestion>(id).await?;
        self.with_answers(it).await
    }

    async fn with_answers(&self, open: OpenQuestion) -> Result<Asked, Error> {
        if open.question.people.needed() < 2 {
            return Ok(Asked { open, yes: Vec::new() });
        }
        let (_, _, state) = self.as_user(&open.user).load(open.run).await?;
        let yes = state.owed.get(&open.command).map(|owed| owed.yes.clone()).unwrap_or_default();
        Ok(Asked { open, yes })
    }

    /// Answers a question that this user may answer, in whosever run it is.
    pub async fn answer_question(&self, id: &str, value: Value) -> Result<RunId, Error> {
        let At { it, .. } = self.kept::<OpenQuestion>(id).await?;
        self.as_user(&it.user).answer_as(it.run, it.command, value, self.user()).await?;
        Ok(it.run)
    }

    /// The question that was read, and no other: the next one may want another answer.
    pub(crate) async fn answer_as(&self, run: RunId, id: CommandId, value: Value, by: &str) -> Result<(), Error> {
        let still_asked = |state: &Run| {
            let asked = state.owed.get(&id).filter(|_| state.closed.is_none());
            let Some((owed, question)) = asked.and_then(|owed| Some((owed, owed.command.question()?))) else {
                return Err(no_longer_asked(run, id));
            };
            check_answer(question, &value).map_err(Error::Invalid)?;
            must_be_new(question, &owed.yes, &value, by)?;
            Ok(Some(Event::Received { id, value: value.clone(), by: by.to_owned() }))
        };
        self.say(run, still_asked).await.map(drop)
    }

    /// What the run asks people once this is said, where that is something else than before.
    pub(crate) async fn asked_after(&self, state: &Run, entry: &Entry) -> Result<Option<Listed>, Error> {
        if asked_now(state).next().is_none() {
            return Ok(None);
        }
        let mut after = state.clone();
        after.append(entry).map_err(|e| Error::Unusable(e.to_string()))?;
        if asked_now(state).eq(asked_now(&after)) {
            return Ok(None);
        }
        let plan = load_plan(self.core.store.as_ref(), &state.opened.plan).await?;
        Ok(Some(asked_of_people(&Program::new(plan), &after)))
    }
}

/// A second yes of the same person counts for nothing, and they should know.
fn must_be_new(question: &Question, yes: &[Yes], value: &Value, by: &str) -> Result<(), Error> {
    let Some(arguments) = agreed(question, value) else { return Ok(()) };
    let same = yes.iter().filter(|yes| yes.arguments == arguments);
    if !same.clone().any(|yes| yes.by == by) {
        return Ok(());
    }
    let missing = question.people.needed().saturating_sub(same.count());
    let people = if missing == 1 { "one more person".to_owned() } else { format!("{missing} more people") };
    Err(Error::Conflict(format!("you have said yes already; {people} must say yes before it goes on")))
}

fn no_longer_asked(run: RunId, id: CommandId) -> Error {
    let text = "has been answered by somebody else, or is not asked any more";
    Error::Conflict(format!("the question {} {text}", question_id(run, id)))
}
