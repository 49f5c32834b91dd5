//! What a step does, in a sentence that a model says whenever the step's prompt or tools change.
//!
//! The wish is written together with the step, so it is not lost; a loop fulfils it by a small run of its own, whose
//! tokens are counted like those of any run. The summary is a record beside the step: writing it does not get in the way
//! of whoever edits the step.

use std::time::Duration;

use relais_engine::{Millis, RunId, RunStatus};
use relais_runtime::Rest;
use relais_store::{Edit, Expect, Find, Record};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{StepKind, StepRecord};
use crate::kept::{self, At, Kept};
use crate::runs::OWN_KEYS;
use crate::{Error, Format, Service, Start};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    step: Uuid,
    /// The latest that was said; of a former prompt while a new one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Names the prompt and tools that are to be summed up.
    of: Uuid,
    #[serde(default)]
    tries: u32,
    /// When it is to be made; none: it is made, or was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at: Option<Millis>,
}

impl Kept for Summary {
    const KIND: &'static str = "summary_job";
    const WORD: &'static str = "summary";

    fn id(&self) -> String {
        self.step.to_string()
    }

    fn due_at(&self) -> Option<Millis> {
        self.due_at
    }
}

/// Summaries made in one go, one after the other: they are in nobody's way.
const BATCH: usize = 20;
/// The longest sleep: how late a summary may begin.
const PAUSE: Duration = Duration::from_secs(2);
/// After so many failures it is given up, until the step changes again.
const MAX_TRIES: u32 = 5;
/// Doubled with each failure.
const FIRST_DELAY_MS: Millis = 60_000;
/// A sentence, with room to spare.
const MAX_CHARS: usize = 500;
const INSTRUCTIONS: &str = "You are shown the prompt of one step of a workflow, and the tools it may use. Say in one \
                            short sentence, for the people who read the workflow, what the step does. Answer with the \
                            sentence alone.";

/// What is summed up: none where there is nothing to say yet, or the type has no summary.
fn subject(step: &StepRecord) -> Option<Value> {
    let (prompt, tools) = match &step.kind {
        StepKind::CustomLlm { system_prompt, .. } => (system_prompt, Vec::new()),
        StepKind::CustomAgent { system_prompt, tools, .. } => {
            (system_prompt, tools.iter().filter(|(_, tool)| tool["enabled"] == true).map(|(name, _)| name).collect())
        }
        StepKind::StopChecker { .. } => return None,
    };
    (!prompt.trim().is_empty()).then(|| json!({ "prompt": prompt, "tools": tools }))
}

fn name_of(subject: &Value) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, subject.to_string().as_bytes())
}

impl Service {
    /// What was said of a step, if it can still be said.
    pub(super) async fn summary_of(&self, step: &StepRecord) -> Result<Option<String>, Error> {
        if subject(step).is_none() {
            return Ok(None);
        }
        let found = self.find_kept::<Summary>(&step.uuid.to_string()).await?;
        Ok(found.and_then(|found| found.it.text))
    }

    /// The wish for a new summary, where there is something new to be said and a model to say it.
    pub(super) async fn summary_edit(
        &self,
        before: Option<&StepRecord>,
        step: &StepRecord,
    ) -> Result<Option<Edit>, Error> {
        let is_wanted = self.config().settings.summary_model.is_some();
        let Some(subject) = subject(step).filter(|_| is_wanted) else { return Ok(None) };
        if before.and_then(self::subject).is_some_and(|before| before == subject) {
            return Ok(None);
        }
        let text = self.find_kept::<Summary>(&step.uuid.to_string()).await?.and_then(|found| found.it.text);
        let (of, due_at) = (name_of(&subject), Some(self.core.clock.now()));
        // Whatever is being made meanwhile is out of date, so nothing is expected of what is there.
        kept::put(self.user(), &Summary { step: step.uuid, text, of, tries: 0, due_at }, Expect::Any).map(Some)
    }

    /// Makes summaries until it is told to stop. Several servers may do it: each is paid for once.
    pub async fn run_summaries(self, mut stop: watch::Receiver<bool>) {
        let work = async {
            loop {
                // What is wrong with the database is told by everybody else who uses it; here it is tried again.
                let _ = self.make_summaries().await;
                tokio::time::sleep(PAUSE).await;
            }
        };
        // A summary that is cut off is asked for again under the same key.
        tokio::select! {
            () = work => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Makes those that are due, of all users; answers how many there were.
    pub async fn make_summaries(&self) -> Result<usize, Error> {
        let due_by = Some(self.core.clock.now());
        let find = Find { kind: Summary::KIND.to_owned(), due_by, limit: BATCH, ..Find::default() };
        let due = self.core.store.records(find).await?;
        let count = due.len();
        for record in due {
            self.make_summary(record).await?;
        }
        Ok(count)
    }

    async fn make_summary(&self, record: Record) -> Result<(), Error> {
        let service = self.as_user(&record.key.owner);
        let Some(At { it: wish, revision }) = self.read_due::<Summary>(record).await? else { return Ok(()) };
        let step = service.find_kept::<StepRecord>(&wish.step.to_string()).await?;
        let subject = step.as_ref().and_then(|step| subject(&step.it)).filter(|subject| name_of(subject) == wish.of);
        let made = match subject {
            Some(subject) => Some(service.summarize(&wish, &subject).await),
            // The step is gone or says something else, which is another wish.
            None => None,
        };
        let kept = Summary { due_at: None, ..wish.clone() };
        let kept = match made {
            Some(Ok(text)) => Summary { text: Some(text), ..kept },
            Some(Err(_)) if wish.tries + 1 < MAX_TRIES => {
                let delay = FIRST_DELAY_MS << wish.tries;
                Summary { tries: wish.tries + 1, due_at: Some(self.core.clock.now() + delay), ..wish }
            }
            Some(Err(_)) | None => kept,
        };
        service.keep_summary(kept::put(service.user(), &kept, Expect::Revision(revision))?).await
    }

    async fn keep_summary(&self, edit: Edit) -> Result<(), Error> {
        match self.change(vec![edit]).await {
            // A newer wish has taken its place.
            Ok(_) | Err(Error::Stale(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The key makes sure that the same is paid for once, whoever asks and however often.
    async fn summarize(&self, wish: &Summary, subject: &Value) -> Result<String, Error> {
        let model = self.config().settings.summary_model.clone().unwrap_or_default();
        let agent = json!({ "model": model, "instructions": INSTRUCTIONS });
        let step = json!({ "id": "summary", "agent": "summarizer", "prompt": "{{ input.step }}" });
        let text = json!({ "name": "step-summary", "agents": { "summarizer": agent }, "steps": [step] }).to_string();
        let compiled = self.compile(Uuid::nil(), None, text, Some(Format::Native)).await?;
        let Some(plan) = compiled.whole.main.plan else {
            return Err(Error::Unusable("a summary cannot be asked for: its workflow became no plan".into()));
        };
        let key = Some(format!("{OWN_KEYS}summary:{}:{}:{}:{model}", wish.step, wish.of, wish.tries));
        let start = Start { input: json!({ "step": subject }), key, ..Start::default() };
        let checked = self.ready_alone(plan, Format::Native, &start.mode).await?;
        let (run, _) = self.start_once(&checked, start).await?;
        self.said_by(run).await
    }

    async fn said_by(&self, run: RunId) -> Result<String, Error> {
        match self.settle(run).await? {
            Rest::Ended(RunStatus::Completed) => {}
            Rest::Ended(_) | Rest::Waiting(_) => return Err(Error::Conflict(format!("run {run} gave no summary"))),
        }
        let said = self.output(run).await?;
        let said: String = said.as_str().unwrap_or_default().trim().chars().take(MAX_CHARS).collect();
        if said.is_empty() { Err(Error::Conflict(format!("run {run} said nothing"))) } else { Ok(said) }
    }
}
