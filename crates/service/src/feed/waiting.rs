//! Telling people that they are asked something: once when it is asked, again when they are to be reminded, and others
//! when nobody has answered for too long. Each telling is one change together with the question's record, so that it
//! happens once whoever dies; what is sent goes through the deliveries, as the ends of runs do.

use std::time::Duration;

use relais_engine::{Millis, OpenQuestion};
use relais_plan::text::cut;
use relais_plan::{Notify, time};
use relais_runtime::prepare::load_plan;
use relais_store::{Edit, Expect, Find, Record};
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use crate::feed::notifications::Notification;
use crate::feed::notifications::deliveries::Delivery;
use crate::feed::notify::{Message, Recipient, recipients};
use crate::kept::{self, At, Kept};
use crate::{Error, Service};

/// How often questions are looked for that somebody is to be told of.
const LOOK: Duration = Duration::from_secs(1);
/// Told in one go.
const BATCH: usize = 100;
/// What of a question goes into a text.
const QUESTION_CHARS_MAX: usize = 1_000;
const TITLE_CHARS_MAX: usize = 150;

/// Why people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    Reminded,
    Escalated,
}

impl Why {
    fn of(open: &OpenQuestion, now: Millis) -> Why {
        let then = open.question.people.then.as_ref().filter(|_| !open.escalated);
        match then.map(|then| open.asked_at.saturating_add_unsigned(then.after_ms)) {
            Some(at) if at <= now => Why::Escalated,
            Some(_) | None if open.told == 0 => Why::Asked,
            Some(_) | None => Why::Reminded,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Why::Asked => "asked",
            Why::Reminded => "reminded",
            Why::Escalated => "escalated",
        }
    }
}

impl Service {
    /// Tells people what they are asked, until it is told to stop.
    pub(crate) async fn tell_questions(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            if let Err(error) = self.tell_questions_once().await {
                tracing::warn!(%error, "people could not be told what they are asked; trying again");
            }
            let _ = tokio::time::timeout(LOOK, stop.wait_for(|stop| *stop)).await;
        }
    }

    /// Tells of everything that is due now, and answers how much that was.
    pub async fn tell_questions_once(&self) -> Result<usize, Error> {
        let now = self.core.clock.now();
        let find = Find { kind: OpenQuestion::KIND.into(), due_by: Some(now), limit: BATCH, ..Find::default() };
        let mut told = 0;
        for record in self.core.store.records(find).await? {
            told += usize::from(self.tell_question(record, now).await?);
        }
        Ok(told)
    }

    async fn tell_question(&self, record: Record, now: Millis) -> Result<bool, Error> {
        let owner = record.key.owner.clone();
        let Some(At { it: open, revision }) = self.read_due::<OpenQuestion>(record).await? else { return Ok(false) };
        let plan = load_plan(self.core.store.as_ref(), &open.plan).await?;
        let why = Why::of(&open, now);
        let mut edits = self.question_edits(&open, &plan.notify, why, now)?;
        let mut after =
            OpenQuestion { told: open.told + 1, escalated: open.escalated || why == Why::Escalated, ..open };
        after.next_at = after.next_after(now);
        edits.push(kept::put(&owner, &after, Expect::Revision(revision))?);
        match self.change(edits).await {
            Ok(_) => Ok(true),
            // Answered meanwhile, or told by another server.
            Err(Error::Stale(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn question_edits(&self, open: &OpenQuestion, notify: &Notify, why: Why, now: Millis) -> Result<Vec<Edit>, Error> {
        let mut edits = Vec::new();
        let then = open.question.people.then.as_ref().filter(|_| open.escalated || why == Why::Escalated);
        let mut users = open.users();
        for user in then.iter().flat_map(|then| &then.users).filter(|user| **user != open.user) {
            // From now on they may answer, too.
            let theirs = OpenQuestion { next_at: None, ..open.clone() };
            edits.push(kept::put(user, &theirs, Expect::Any)?);
            users.push(user);
        }
        users.sort_unstable();
        users.dedup();
        let told = self.told_of(open, why, now);
        for user in users {
            let notification = Notification { id: Uuid::now_v7(), ..told.clone() };
            edits.push(kept::put(user, &notification, Expect::Absent)?);
        }
        let mut to = recipients(notify, &self.config().settings);
        to.extend(then.iter().flat_map(|then| &then.notify).cloned().map(Recipient::Channel));
        let mut seen = std::collections::HashSet::new();
        for recipient in to.into_iter().filter(|recipient| seen.insert(recipient.clone())) {
            edits.push(self.sent_of(open, &told, recipient, why, now)?);
        }
        Ok(edits)
    }

    fn told_of(&self, open: &OpenQuestion, why: Why, now: Millis) -> Notification {
        let asked = cut(&open.question.question, TITLE_CHARS_MAX);
        let title = match why {
            Why::Asked => format!("{} asks: {asked}", open.workflow),
            Why::Reminded => format!("{} still asks: {asked}", open.workflow),
            Why::Escalated => format!("Nobody has answered {}: {asked}", open.workflow),
        };
        let mut text = format!("{}\n\n", cut(&open.question.question, QUESTION_CHARS_MAX));
        if let Some(call) = &open.question.approves {
            text.push_str(&format!("It is about a call of the tool `{}`.\n", call.tool));
        }
        let since = time::format_instant(open.asked_at);
        text.push_str(&format!("Run {}, step {}, asked since {since}.", open.run, open.step));
        if let Some(deadline) = open.question.deadline {
            text.push_str(&format!(" It waits until {}.", time::format_instant(deadline)));
        }
        let link = self.question_link(open).map(|link| format!("{link}\n")).unwrap_or_default();
        text.push_str(&format!("\n{link}Answer with `relais answer {} VALUE`.", open.id()));
        let workflow = if open.workflow_id.is_empty() { open.workflow.clone() } else { open.workflow_id.clone() };
        let (id, run) = (Uuid::nil(), open.run);
        Notification { id, at: now, kind: "run.waiting".into(), title, text, run, workflow, read: false }
    }

    /// Where the question can be read and answered; nothing where nobody has said how this server is reached.
    fn question_link(&self, open: &OpenQuestion) -> Option<String> {
        let base = self.config().settings.server.public_url.as_deref()?;
        Some(format!("{}/api/v1/questions/{}", base.trim_end_matches('/'), open.id()))
    }

    fn sent_of(
        &self,
        open: &OpenQuestion,
        told: &Notification,
        recipient: Recipient,
        why: Why,
        now: Millis,
    ) -> Result<Edit, Error> {
        let id = Uuid::now_v7();
        let Notification { kind, title, text, .. } = told.clone();
        let data = self.question_facts(open, why);
        let message = Message { id: id.to_string(), kind, title, text, data, at: now };
        kept::put(&open.user, &Delivery::new(id, told.id, recipient, message, now), Expect::Absent)
    }

    /// What programs get: what is needed to answer, none of what is shown with the question.
    fn question_facts(&self, open: &OpenQuestion, why: Why) -> Value {
        json!({
            "question_id": open.id(),
            "why": why.word(),
            "run": open.run,
            "workflow": open.workflow,
            "workflow_id": open.workflow_id,
            "user": open.user,
            "step": open.step,
            "question": cut(&open.question.question, QUESTION_CHARS_MAX),
            "tool": open.question.approves.as_ref().map(|call| &call.tool),
            "asked_at": time::format_instant(open.asked_at),
            "deadline": open.question.deadline.map(time::format_instant),
            "url": self.question_link(open),
            "answer_with": format!("relais answer {} VALUE", open.id()),
        })
    }
}
