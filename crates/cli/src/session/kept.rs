//! What a session is asked about things that are kept besides runs: versions, packages, agents, notifications, usage,
//! events.

use relais_server::views::{
    BackfillView, BulkView, DeletionView, EventEffects, ImportedView, NotificationRow, OpenQuestionView, UsageReport,
    VersionView,
};
use relais_service::{
    Act, AgentChange, Backfill, Error, Filter, Happened, NewAgent, OnClash, Removal, Service, UsageQuestion,
    WorkflowStatus,
};
use serde_json::Value;
use uuid::Uuid;

use super::Session;
use crate::library::{Agent, Employment, Shelved, Shelving};

impl Session {
    /// The versions of a workflow, newest first, and whether there are more.
    pub async fn versions(&self, workflow: &str, limit: usize) -> Result<(Vec<VersionView>, bool), Error> {
        match self {
            Session::Local(service) => {
                let (found, next) = service.versions(workflow, None, limit).await?;
                Ok((found.into_iter().map(|one| VersionView::new(one, false)).collect(), next.is_some()))
            }
            Session::Remote(client) => client.versions(workflow, limit).await,
        }
    }

    pub async fn version(&self, workflow: &str, number: u64) -> Result<VersionView, Error> {
        match self {
            Session::Local(service) => {
                Ok(VersionView::new(service.version(workflow, &number.to_string()).await?, true))
            }
            Session::Remote(client) => client.version(workflow, number).await,
        }
    }

    pub async fn roll_back(&self, workflow: &str, to: u64) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => service.roll_back(workflow, to, None).await.map(Shelved::from),
            Session::Remote(client) => client.roll_back(workflow, to).await,
        }
    }

    pub async fn accept_tools(&self, workflow: &str) -> Result<Shelved, Error> {
        match self {
            Session::Local(service) => service.accept_tools(workflow, None).await.map(Shelved::from),
            Session::Remote(client) => client.accept_tools(workflow).await,
        }
    }

    pub async fn set_status(&self, workflow: &str, status: WorkflowStatus) -> Result<Shelved, Error> {
        self.shelve(Some(workflow), Shelving { status: Some(status), ..Shelving::default() }).await
    }

    /// What a deletion would take away, or why it would be refused.
    pub async fn deletion(&self, workflow: &str, removal: Removal) -> Result<DeletionView, Error> {
        match self {
            Session::Local(service) => service.deletion(workflow, removal).await.map(DeletionView::from),
            Session::Remote(client) => client.deletion(workflow, removal).await,
        }
    }

    pub async fn delete_workflow(&self, workflow: &str, removal: Removal) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.delete_workflow(workflow, removal, None).await,
            Session::Remote(client) => client.delete_workflow(workflow, removal).await,
        }
    }

    /// Workflows with all that they use, as one document.
    pub async fn export(&self, workflows: &[String], history: bool) -> Result<Value, Error> {
        match self {
            Session::Local(service) => {
                let package = service.export_workflows(workflows, history).await?;
                serde_json::to_value(package).map_err(|error| Error::Unusable(error.to_string()))
            }
            Session::Remote(client) => client.export(workflows, history).await,
        }
    }

    pub async fn import(&self, package: Value, on_clash: OnClash) -> Result<Vec<ImportedView>, Error> {
        match self {
            Session::Local(service) => {
                let imported = service.import_workflows(package, on_clash).await?;
                Ok(imported.all.into_iter().map(ImportedView::from).collect())
            }
            Session::Remote(client) => client.import(package, on_clash).await,
        }
    }

    /// Kept agents, newest first, and whether there are more.
    pub async fn agents(&self, limit: usize) -> Result<(Vec<Agent>, bool), Error> {
        match self {
            Session::Local(service) => {
                let (found, next) = service.agents(None, limit).await?;
                Ok((found.into_iter().map(Agent::from).collect(), next.is_some()))
            }
            Session::Remote(client) => client.agents(limit).await,
        }
    }

    pub async fn agent(&self, name: &str) -> Result<Agent, Error> {
        match self {
            Session::Local(service) => service.find_agent(name).await.map(Agent::from),
            Session::Remote(client) => client.agent(name).await,
        }
    }

    /// Makes an agent, or changes the one that is named.
    pub async fn employ(&self, to: Option<&str>, employment: Employment) -> Result<Agent, Error> {
        match self {
            Session::Local(service) => employed(service, to, employment).await,
            Session::Remote(client) => client.employ(to, &employment).await,
        }
    }

    pub async fn delete_agent(&self, name: &str) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.delete_agent(name, None).await,
            Session::Remote(client) => client.delete_agent(name).await,
        }
    }

    pub async fn usage(&self, question: &UsageQuestion) -> Result<UsageReport, Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                service.usage(question).await.map(UsageReport::from)
            }
            Session::Remote(client) => client.usage(question).await,
        }
    }

    /// Notifications, newest first, and whether there are more.
    pub async fn notifications(&self, unread: bool, limit: usize) -> Result<(Vec<NotificationRow>, bool), Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                let found = service.notifications(unread, None, limit + 1).await?;
                let more = found.len() > limit;
                Ok((found.into_iter().take(limit).map(NotificationRow::from).collect(), more))
            }
            Session::Remote(client) => client.notifications(unread, limit).await,
        }
    }

    /// What the user is asked in all runs, and whether there is more.
    pub async fn all_questions(&self, limit: usize) -> Result<(Vec<OpenQuestionView>, bool), Error> {
        match self {
            Session::Local(service) => {
                let (found, next) = service.all_questions(None, limit).await?;
                Ok((found.into_iter().map(OpenQuestionView::from).collect(), next.is_some()))
            }
            Session::Remote(client) => client.all_questions(limit).await,
        }
    }

    pub async fn question(&self, id: &str) -> Result<OpenQuestionView, Error> {
        match self {
            Session::Local(service) => Ok(service.question(id).await?.into()),
            Session::Remote(client) => client.question(id).await,
        }
    }

    pub async fn answer_question(&self, id: &str, value: Value) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.answer_question(id, value).await.map(drop),
            Session::Remote(client) => client.answer_question(id, value).await,
        }
    }

    /// Owes the runs of a past range; with `is_dry` only shows which.
    pub async fn backfill(&self, wanted: &Backfill, is_dry: bool) -> Result<BackfillView, Error> {
        match self {
            Session::Local(service) if is_dry => Ok(service.preview_backfill(wanted).await?.into()),
            Session::Local(service) => Ok(service.backfill(wanted).await?.into()),
            Session::Remote(client) => client.backfill(wanted, is_dry).await,
        }
    }

    /// How many runs something would be said to.
    pub async fn count_bulk(&self, act: &Act, filter: &Filter) -> Result<usize, Error> {
        match self {
            Session::Local(service) => service.count_bulk(act, filter.clone()).await,
            Session::Remote(client) => client.count_bulk(act, filter).await,
        }
    }

    pub async fn begin_bulk(&self, act: &Act, filter: &Filter) -> Result<BulkView, Error> {
        match self {
            Session::Local(service) => Ok(service.begin_bulk(act.clone(), filter.clone()).await?.into()),
            Session::Remote(client) => client.begin_bulk(act, filter).await,
        }
    }

    pub async fn bulk(&self, id: Uuid) -> Result<BulkView, Error> {
        match self {
            Session::Local(service) => Ok(service.bulk(id).await?.into()),
            Session::Remote(client) => client.bulk(id).await,
        }
    }

    pub async fn mark_notification(&self, id: Uuid, read: bool) -> Result<(), Error> {
        match self {
            Session::Local(service) => service.mark_notification(id, read).await.map(drop),
            Session::Remote(client) => client.mark_notification(id, read).await,
        }
    }

    /// All that were not read; how many those were.
    pub async fn mark_all_notifications(&self) -> Result<usize, Error> {
        match self {
            Session::Local(service) => {
                take_note(service).await?;
                service.mark_all_notifications().await
            }
            Session::Remote(client) => client.mark_all_notifications().await,
        }
    }

    pub async fn publish_event(&self, happened: Happened) -> Result<EventEffects, Error> {
        match self {
            Session::Local(service) => service.publish_event(happened).await.map(EventEffects::from),
            Session::Remote(client) => client.publish_event(&happened).await,
        }
    }
}

/// Where no server is running, nobody has counted and told the runs that have ended, nor told people what they are asked; it
/// happens once, whoever does it.
async fn take_note(service: &Service) -> Result<(), Error> {
    service.tell_questions_once().await?;
    service.feed_once().await.map(drop)
}

async fn employed(service: &Service, to: Option<&str>, employment: Employment) -> Result<Agent, Error> {
    let Employment { name, description, definition } = employment;
    let kept = match to {
        Some(agent) => {
            let change = AgentChange { name, description, definition: Some(definition) };
            service.update_agent(agent, change, None).await
        }
        None => {
            let (name, description) = (name.unwrap_or_default(), description.unwrap_or_default());
            service.create_agent(NewAgent { name, description, definition, once: None }).await
        }
    };
    kept.map(Agent::from)
}
