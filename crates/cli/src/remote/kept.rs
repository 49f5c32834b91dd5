//! A server asked about things that are kept besides runs: versions, packages, agents, notifications, usage, events;
//! and about the tools and models that it has.

use relais_plan::time::format_instant;
use relais_server::views::{
    BackfillView, BulkCount, BulkView, DeletionView, EventEffects, ImportedView, NotificationRow, OpenQuestionView,
    UsageReport, VersionView,
};
use relais_service::{Act, Backfill, Error, Filter, Happened, OnClash, Removal, UsageBy, UsageQuestion};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Client, wire};
use crate::library::{Agent, Employment, Shelved};
use crate::offer::{Provider, Tools};

#[derive(Deserialize)]
struct Imported {
    imported: Vec<ImportedView>,
}

#[derive(Deserialize)]
struct Marked {
    marked: usize,
}

fn removing(Removal { force, keep_runs }: Removal) -> [(&'static str, String); 2] {
    [("force", force.to_string()), ("keep_runs", keep_runs.to_string())]
}

impl Client {
    pub async fn versions(&self, workflow: &str, limit: usize) -> Result<(Vec<VersionView>, bool), Error> {
        let path = format!("/workflows/{}/versions", wire::escaped(workflow));
        let page: wire::Items<VersionView> =
            self.get(&wire::with_query(&path, &[("limit", limit.to_string())])).await?;
        Ok((page.items, page.next.is_some()))
    }

    pub async fn version(&self, workflow: &str, number: u64) -> Result<VersionView, Error> {
        self.get(&format!("/workflows/{}/versions/{number}", wire::escaped(workflow))).await
    }

    pub async fn roll_back(&self, workflow: &str, to: u64) -> Result<Shelved, Error> {
        self.post(&format!("/workflows/{}/rollback", wire::escaped(workflow)), &json!({ "version": to })).await
    }

    pub async fn accept_tools(&self, workflow: &str) -> Result<Shelved, Error> {
        self.post(&format!("/workflows/{}/accept-tools", wire::escaped(workflow)), &json!({})).await
    }

    pub async fn deletion(&self, workflow: &str, removal: Removal) -> Result<DeletionView, Error> {
        let path = format!("/workflows/{}/deletion", wire::escaped(workflow));
        self.get(&wire::with_query(&path, &removing(removal))).await
    }

    pub async fn delete_workflow(&self, workflow: &str, removal: Removal) -> Result<(), Error> {
        let path = format!("/workflows/{}", wire::escaped(workflow));
        self.delete(&wire::with_query(&path, &removing(removal))).await
    }

    pub async fn export(&self, workflows: &[String], history: bool) -> Result<Value, Error> {
        self.post("/workflows/export", &json!({ "workflows": workflows, "history": history })).await
    }

    pub async fn import(&self, package: Value, on_clash: OnClash) -> Result<Vec<ImportedView>, Error> {
        let body = json!({ "package": package, "on_clash": on_clash.word() });
        Ok(self.post::<Imported>("/workflows/import", &body).await?.imported)
    }

    pub async fn agents(&self, limit: usize) -> Result<(Vec<Agent>, bool), Error> {
        let page: wire::Items<Agent> = self.get(&wire::with_query("/agents", &[("limit", limit.to_string())])).await?;
        Ok((page.items, page.next.is_some()))
    }

    pub async fn agent(&self, name: &str) -> Result<Agent, Error> {
        self.get(&format!("/agents/{}", wire::escaped(name))).await
    }

    /// Makes an agent, or changes one.
    pub async fn employ(&self, to: Option<&str>, employment: &Employment) -> Result<Agent, Error> {
        let request = match to {
            Some(name) => self.request(Method::PATCH, &format!("/agents/{}", wire::escaped(name))),
            None => self.request(Method::POST, "/agents"),
        };
        self.read(request.json(employment)).await
    }

    pub async fn delete_agent(&self, name: &str) -> Result<(), Error> {
        self.delete(&format!("/agents/{}", wire::escaped(name))).await
    }

    pub async fn usage(&self, question: &UsageQuestion) -> Result<UsageReport, Error> {
        let UsageQuestion { from, to, by, all_users } = question;
        let by = match by {
            UsageBy::Day => "day",
            UsageBy::Workflow => "workflow",
            UsageBy::User => "user",
            UsageBy::Model => "model",
        };
        let all = all_users.to_string();
        let query = [("from", from.clone()), ("to", to.clone()), ("by", by.to_owned()), ("all", all)];
        self.get(&wire::with_query("/usage", &query)).await
    }

    pub async fn notifications(&self, unread: bool, limit: usize) -> Result<(Vec<NotificationRow>, bool), Error> {
        let query = [("unread", unread.to_string()), ("limit", limit.to_string())];
        let page: wire::Items<NotificationRow> = self.get(&wire::with_query("/notifications", &query)).await?;
        Ok((page.items, page.next.is_some()))
    }

    pub async fn all_questions(&self, limit: usize) -> Result<(Vec<OpenQuestionView>, bool), Error> {
        let query = [("limit", limit.to_string())];
        let page: wire::Items<OpenQuestionView> = self.get(&wire::with_query("/questions", &query)).await?;
        Ok((page.items, page.next.is_some()))
    }

    pub async fn question(&self, id: &str) -> Result<OpenQuestionView, Error> {
        self.get(&format!("/questions/{}", wire::escaped(id))).await
    }

    pub async fn answer_question(&self, id: &str, value: Value) -> Result<(), Error> {
        let path = format!("/questions/{}/answer", wire::escaped(id));
        self.post::<Value>(&path, &json!({ "value": value })).await.map(drop)
    }

    pub async fn backfill(&self, wanted: &Backfill, is_dry: bool) -> Result<BackfillView, Error> {
        let schedule = match wanted.schedule {
            Some(id) => id,
            None => self.only_schedule(&wanted.workflow).await?,
        };
        let (from, to) = (format_instant(wanted.from), format_instant(wanted.to));
        let range = json!({ "from": from, "to": to, "dry_run": is_dry });
        self.post(&format!("/schedules/{schedule}/backfill"), &range).await
    }

    async fn only_schedule(&self, workflow: &str) -> Result<Uuid, Error> {
        let (found, _) = self.schedules(Some(workflow), 2).await?;
        match found.as_slice() {
            [one] => Ok(one.id),
            [] => Err(Error::Invalid(format!("the workflow `{workflow}` has no schedule with times"))),
            _ => Err(Error::Invalid("the workflow has several schedules; say which with --schedule".into())),
        }
    }

    pub async fn count_bulk(&self, act: &Act, filter: &Filter) -> Result<usize, Error> {
        let mut body = wire::bulk(act, filter);
        body["dry_run"] = json!(true);
        Ok(self.post::<BulkCount>("/bulk", &body).await?.total)
    }

    pub async fn begin_bulk(&self, act: &Act, filter: &Filter) -> Result<BulkView, Error> {
        self.post("/bulk", &wire::bulk(act, filter)).await
    }

    pub async fn bulk(&self, id: Uuid) -> Result<BulkView, Error> {
        self.get(&format!("/bulk/{id}")).await
    }

    pub async fn mark_notification(&self, id: Uuid, read: bool) -> Result<(), Error> {
        let request = self.request(Method::PATCH, &format!("/notifications/{id}")).json(&json!({ "read": read }));
        self.read::<NotificationRow>(request).await.map(drop)
    }

    pub async fn mark_all_notifications(&self) -> Result<usize, Error> {
        Ok(self.post::<Marked>("/notifications/read", &json!({})).await?.marked)
    }

    pub async fn publish_event(&self, happened: &Happened) -> Result<EventEffects, Error> {
        let Happened { kind, data, id } = happened;
        self.post("/events", &json!({ "type": kind, "data": data, "id": id })).await
    }

    /// The tools of one MCP server, or all.
    pub async fn tools(&self, mcp: Option<&str>) -> Result<Tools, Error> {
        let query: Vec<_> = mcp.map(|name| ("mcp", name.to_owned())).into_iter().collect();
        self.get(&wire::with_query("/tools", &query)).await
    }

    pub async fn models(&self) -> Result<Vec<Provider>, Error> {
        self.get("/models").await
    }
}
