//! What was used, by day and workflow, for each user: rows that the feed adds up, and the question who used how much.
//!
//! A day is that of the end in UTC. What a run used after it was taken note of (it was resumed) counts on the day of its
//! next end. Runs under way are read from their journals when somebody asks.

use std::collections::BTreeMap;

use relais_engine::{Millis, RunId, RunStatus, Usage};
use relais_plan::time::format_instant;
use relais_store::{Filter, Find, Row};
use serde::{Deserialize, Serialize};

use crate::feed::{self, Bill, add_to};
use crate::kept::{self, Kept};
use crate::{Error, Service};

/// One answer adds up to this many rows; a longer time is asked for in parts.
const MAX_ROWS: usize = 100_000;
/// Rows read at a time.
const PAGE: usize = 1_000;
/// Runs under way whose journals one answer reads; the others are counted, and said to be left out.
const MAX_UNFINISHED: usize = 500;

/// What one user's runs of one workflow used on one day.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct UsageRow {
    /// `2026-02-28`.
    pub day: String,
    /// Its id, or its name where it is not kept.
    pub workflow: String,
    pub name: String,
    #[serde(flatten)]
    pub sum: Sum,
    pub models: BTreeMap<String, Usage>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sum {
    /// Runs that ended for the first time.
    pub runs: u64,
    /// Ends by status; a run that was resumed ends again.
    pub ends: BTreeMap<String, u64>,
    pub usage: Usage,
    pub duration_ms: u64,
}

impl Kept for UsageRow {
    const KIND: &'static str = "usage";
    const WORD: &'static str = "usage";

    fn id(&self) -> String {
        format!("{}/{}", self.day, self.workflow)
    }
}

impl UsageRow {
    /// An empty row for the run and its day.
    pub(crate) fn of(root: &Row, at: Millis) -> UsageRow {
        let summary = &root.summary;
        let id = &summary.target.workflow;
        let workflow = if id.is_empty() { summary.workflow.clone() } else { id.clone() };
        UsageRow { day: day(at), workflow, name: summary.workflow.clone(), ..UsageRow::default() }
    }

    /// `root`: it is no child. A child is part of the run that it was started for: what it used is added, it is no run
    /// of its own.
    pub(crate) fn add(&mut self, bill: &Bill, ended_at: Millis, root: bool) {
        self.sum.usage.add(&bill.usage);
        for (model, usage) in &bill.models {
            add_to(&mut self.models, model, usage);
        }
        let Some(status) = bill.closed.filter(|_| root) else { return };
        self.sum.runs += u64::from(bill.before.is_none());
        *self.sum.ends.entry(status.word().to_owned()).or_default() += 1;
        self.sum.duration_ms += ended_at.saturating_sub(bill.from).max(0).cast_unsigned();
    }
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.runs += other.runs;
        self.usage.add(&other.usage);
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
        for (status, count) in &other.ends {
            *self.ends.entry(status.clone()).or_default() += count;
        }
    }
}

pub(crate) fn day(at: Millis) -> String {
    format_instant(at).chars().take("2026-02-28".len()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    Day,
    Workflow,
    User,
    /// Runs and durations are not a model's: only what calls used is told.
    Model,
}

#[derive(Debug, Clone)]
pub struct UsageQuestion {
    /// Days, both included.
    pub from: String,
    pub to: String,
    pub by: UsageBy,
    /// Only for those who may do what concerns all users.
    pub all_users: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageAnswer {
    /// By what was asked for: a day, a workflow's id or name, a user, a model.
    pub parts: BTreeMap<String, Part>,
    pub total: Sum,
    /// Runs under way; what they have used so far is added to today.
    pub unfinished: u64,
    /// More was there than one answer adds up.
    pub incomplete: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// What people call it, where that is not its key.
    pub name: String,
    pub sum: Sum,
}

impl Service {
    pub async fn usage(&self, question: &UsageQuestion) -> Result<UsageAnswer, Error> {
        for day in [&question.from, &question.to] {
            check_day(day)?;
        }
        let mut answer = UsageAnswer::default();
        self.add_rows(question, &mut answer).await?;
        let today = day(self.core.clock.now());
        if question.from <= today && today <= question.to {
            self.add_unfinished(question, &today, &mut answer).await?;
        }
        Ok(answer)
    }

    async fn add_rows(&self, question: &UsageQuestion, answer: &mut UsageAnswer) -> Result<(), Error> {
        let mut find = Find { kind: UsageRow::KIND.to_owned(), limit: PAGE, ..Find::default() };
        find.owner = (!question.all_users).then(|| self.user().to_owned());
        find.after = Some(format!("{}/", question.from));
        for _ in 0..MAX_ROWS / PAGE {
            let mut records = self.core.store.records(find.clone()).await?;
            let more = records.len() == PAGE;
            if more && question.all_users {
                drop_cut_group(&mut records);
            }
            find.after = records.last().map(|record| record.key.id.clone());
            for record in records {
                let user = record.key.owner.clone();
                let row: UsageRow = kept::read(record)?.it;
                if row.day > question.to {
                    return Ok(());
                }
                answer.add(question.by, &row, &user);
            }
            if !more {
                return Ok(());
            }
        }
        answer.incomplete = true;
        Ok(())
    }

    async fn add_unfinished(
        &self,
        question: &UsageQuestion,
        today: &str,
        answer: &mut UsageAnswer,
    ) -> Result<(), Error> {
        let user = (!question.all_users).then(|| self.user().to_owned());
        let filter =
            Filter { user, status: RunStatus::UNFINISHED.to_vec(), limit: MAX_UNFINISHED, ..Filter::default() };
        let page = self.core.store.list(filter).await?;
        answer.incomplete |= page.cursor.is_some();
        for row in &page.rows {
            let root = self.root_row(row).await?;
            let bill = self.bill_of(row.summary.run, row.reported).await?;
            let mut used = UsageRow { day: today.to_owned(), ..UsageRow::of(&root, 0) };
            used.add(&bill, 0, false);
            answer.unfinished += u64::from(row.summary.parent.is_none());
            answer.add(question.by, &used, &row.summary.user);
        }
        Ok(())
    }

    async fn bill_of(&self, run: RunId, reported: u64) -> Result<Bill, Error> {
        let entries = self.core.store.load(run, 0).await?;
        Ok(feed::bill(&entries, reported, self.default_model()))
    }

    pub(crate) fn default_model(&self) -> &str {
        self.config().settings.default_model.as_deref().unwrap_or("default")
    }
}

/// Several users may have a row of the same id, and a page goes on after an id: the last id of a full page is read
/// again whole, unless it fills the page alone.
fn drop_cut_group(records: &mut Vec<relais_store::Record>) {
    let Some(last) = records.last().map(|record| record.key.id.clone()) else { return };
    let whole = records.iter().take_while(|record| record.key.id != last).count();
    if whole > 0 {
        records.truncate(whole);
    }
}

fn check_day(day: &str) -> Result<(), Error> {
    let known = relais_plan::time::parse_instant(&format!("{day}T00:00:00Z")).is_some();
    let told = || Error::Invalid(format!("`{day}` is no day; write it as 2026-02-28"));
    known.then_some(()).ok_or_else(told)
}

impl UsageAnswer {
    fn add(&mut self, by: UsageBy, row: &UsageRow, user: &str) {
        self.total.add(&row.sum);
        match by {
            UsageBy::Day => self.part(&row.day, "").add(&row.sum),
            UsageBy::Workflow => self.part(&row.workflow, &row.name).add(&row.sum),
            UsageBy::User => self.part(user, "").add(&row.sum),
            UsageBy::Model => {
                for (model, usage) in &row.models {
                    self.part(model, "").usage.add(usage);
                }
            }
        }
    }

    fn part(&mut self, key: &str, name: &str) -> &mut Sum {
        let part = self.parts.entry(key.to_owned()).or_default();
        if part.name.is_empty() && name != key {
            name.clone_into(&mut part.name);
        }
        &mut part.sum
    }
}
