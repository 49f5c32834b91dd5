//! Messages that runs post to the list of notifications (`send_message`), each once.

use std::sync::Arc;

use relais_engine::{Millis, RunId};
use relais_runtime::clock::Clock;
use relais_runtime::model::BoxFuture;
use relais_runtime::patience::Patience;
use relais_runtime::tool::{Notice, Noticeboard};
use relais_store::{Expect, Filter, Store};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Notification;
use crate::Error;
use crate::kept::{self, Kept};

/// What a notification of this kind is called in lists and to programs.
const KIND: &str = "run.message";

/// Keeps what runs post.
pub(crate) struct Board {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// A message outlasts a database in trouble, as everything does that a run has decided.
    pub(crate) patience: Arc<Patience>,
}

/// That the message of a call was listed: the same call, made again after a crash, lists nothing more.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Posted {
    key: String,
    at: Millis,
}

impl Kept for Posted {
    const KIND: &'static str = "posted";
    const WORD: &'static str = "posted message";

    fn id(&self) -> String {
        self.key.clone()
    }
}

impl Noticeboard for Board {
    fn post<'a>(&'a self, notice: Notice<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.list(notice).await.map_err(|error| error.to_string()) })
    }
}

impl Board {
    async fn list(&self, notice: Notice<'_>) -> Result<(), Error> {
        let (user, workflow) = self.whose(notice.run).await?;
        let at = self.clock.now();
        let (title, text) = (notice.title.to_owned(), notice.text.to_owned());
        let id = Uuid::now_v7();
        let listed = Notification { id, at, kind: KIND.into(), title, text, run: notice.run, workflow, read: false };
        let posted = Posted { key: notice.key.to_owned(), at };
        let edits = vec![kept::put(&user, &posted, Expect::Absent)?, kept::put(&user, &listed, Expect::Absent)?];
        match self.patience.outlast(|| self.store.change(edits.clone(), at)).await {
            // It was listed by an earlier try of the same call.
            Ok(_) | Err(relais_store::Error::Changed(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The run's user, and its workflow's id or name.
    async fn whose(&self, run: RunId) -> Result<(String, String), Error> {
        let wanted = Filter { run: Some(run), limit: 1, ..Filter::default() };
        let found = self.patience.outlast(|| self.store.list(wanted.clone())).await?;
        let row = found.rows.into_iter().next().ok_or_else(|| Error::NotFound(format!("run {run}")))?;
        let summary = row.summary;
        let workflow = if summary.target.workflow.is_empty() { summary.workflow } else { summary.target.workflow };
        Ok((summary.user, workflow))
    }
}
